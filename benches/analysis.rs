//! Speed of the stages, from bytes to figures. `cargo bench` prints medians; nothing here fails on a slow machine.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod synthetic;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use divan::Bencher;
use dlcost::analysis::Analysis;
use dlcost::device::Precision;
use dlcost::engine::{CheckOptions, Input, Mode, check};
use dlcost::frontend::load;
use dlcost::frontend::onnx_text::{PrintOptions, parse, print_model};
use dlcost::frontend::source::Source;
use dlcost::ir::place::Places;
use dlcost::ops::work::Family;
use dlcost::options::target::GpuName;
use dlcost::passes::bind::Bindings;
use dlcost::predict::largest_batch::largest_batch;
use dlcost::predict::learned::predictors::Predictors;
use dlcost::predict::network::estimate;
use dlcost::predict::plans::Plans;
use dlcost::predict::pricer::Pricer;
use dlcost::runtime::{Kernel, Layout, Library, Pass};
use dlcost::target::{ChosenGpu, Context, Request, Target, choose};
use synthetic::{DecoderSizes, decoder, residual_chain};

fn main() {
    divan::main();
}

const FILES: [&str; 4] = ["lenet5.onnx", "llama-tiny-1l-dynamo.onnx", "resnet18.dynamo.onnx", "resnet50.onnx"];

const GPT2_SMALL: DecoderSizes =
    DecoderSizes { layers: 12, width: 768, heads: 12, vocabulary: 50_257, positions: 1024 };

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

/// File to report, as `dlcost check` does it.
#[divan::bench(args = FILES)]
fn check_file(bencher: Bencher<'_, '_>, name: &str) {
    let input = Input::Path(path(name));
    bencher.bench(|| check(&input, name, &CheckOptions::default()).unwrap());
}

/// Bytes to model tree.
#[divan::bench(args = FILES)]
fn decode_file(bencher: Bencher<'_, '_>, name: &str) {
    let source = Source::open(&path(name)).unwrap();
    bencher.bench(|| load(&source, &mut Places::default()).model.unwrap());
}

/// Text to model tree.
#[divan::bench(args = FILES)]
fn parse_text(bencher: Bencher<'_, '_>, name: &str) {
    let source = Source::open(&path(name)).unwrap();
    let model = load(&source, &mut Places::default()).model.unwrap();
    let text = print_model(&model, &PrintOptions::default());
    bencher.bench(|| parse(&text));
}

/// Model tree to formulas; the time should grow with the nodes and no faster.
#[divan::bench(args = [1_000, 10_000, 100_000], sample_count = 10)]
fn analyse_chain(bencher: Bencher<'_, '_>, nodes: usize) {
    let (model, errors) = parse(&residual_chain(nodes));
    assert!(errors.is_empty());
    bencher.bench(|| Analysis::new(&model, Places::default(), &Bindings::default(), &|_| false));
}

/// Model tree to formulas.
#[divan::bench]
fn analyse_decoder(bencher: Bencher<'_, '_>) {
    let (model, errors) = parse(&decoder(GPT2_SMALL));
    assert!(errors.is_empty());
    bencher.bench(|| Analysis::new(&model, Places::default(), &Bindings::default(), &|_| false));
}

/// Figures for one more batch, from an analysis that is there.
#[divan::bench(args = [1_000, 10_000])]
fn price_chain_again(bencher: Bencher<'_, '_>, nodes: usize) {
    let (model, _) = parse(&residual_chain(nodes));
    let analysis = Analysis::new(&model, Places::default(), &Bindings::default(), &|_| false);
    let values = BTreeMap::from([("batch".to_owned(), 64)]);
    bencher.bench(|| analysis.at(&values));
}

/// Time, memory and the largest batch on one more device, from an analysis that is there; what does not depend on the
/// device is made again.
#[divan::bench(args = [200, 10_000, 100_000], consts = [false, true], sample_count = 5)]
fn price_chain_on_a_device<const TRAINS: bool>(bencher: Bencher<'_, '_>, nodes: usize) {
    let (model, _) = parse(&residual_chain(nodes));
    let analysis = Analysis::new(&model, Places::default(), &Bindings::default(), &|_| false);
    let values = BTreeMap::from([("batch".to_owned(), 32)]);
    let mode = if TRAINS { Mode::Train } else { Mode::Infer };
    let context = Context { analysis: &analysis, producer: "pytorch", mode, batch: Some(32) };
    let (target, _) = Target::resolve(&Request::default(), &gpus(1)[0], &context).unwrap();
    bencher.bench(|| {
        let plans = Plans::new(&analysis);
        let estimate = estimate(&plans, &values, &target).unwrap();
        (estimate, largest_batch(&plans, &values, &target).unwrap())
    });
}

/// Text to reports with all advice. What a device adds is an eighth of what nine take above one.
#[divan::bench(args = [1, 9], consts = [false, true], sample_count = 3)]
fn check_chain_on_devices<const TRAINS: bool>(bencher: Bencher<'_, '_>, devices: usize) {
    let input = Input::Stdin(residual_chain(100_000).into_bytes());
    let mode = if TRAINS { Mode::Train } else { Mode::Infer };
    let request = Request { gpus: gpus(devices), ..Request::default() };
    let options = CheckOptions { mode, request, ..CheckOptions::default() };
    bencher.bench(|| check(&input, "-", &options).unwrap());
}

/// So many devices.
fn gpus(count: usize) -> Vec<ChosenGpu> {
    const IDS: [&str; 9] = ["h100", "a100", "v100", "t4", "k80", "l4", "a10", "b200", "rtx-4090"];
    let names: Vec<GpuName> = IDS.into_iter().take(count).map(|id| GpuName::Id(id.to_owned())).collect();
    choose(&names, &[]).unwrap()
}

/// Figures for one more batch and length, from an analysis that is there.
#[divan::bench]
fn price_decoder_again(bencher: Bencher<'_, '_>) {
    let (model, _) = parse(&decoder(GPT2_SMALL));
    let analysis = Analysis::new(&model, Places::default(), &Bindings::default(), &|_| false);
    let values = BTreeMap::from([("batch".to_owned(), 8), ("seq".to_owned(), 512)]);
    bencher.bench(|| analysis.at(&values));
}

/// Products of different sizes.
fn products(count: u64) -> Vec<Kernel> {
    let product = |index: u64| {
        let [m, n, k] = [64 + 8 * (index % 61), 64 + 16 * (index % 37), 128 + 8 * index];
        let bytes = |elements: u64| 4.0 * elements as f64;
        Kernel {
            family: Family::Product { batch: 1, m, n, k },
            pass: Pass::Forward,
            precision: Precision::Fp32,
            layout: Layout::ChannelsFirst,
            library: Library::Vendor,
            flops: 2.0 * (m * n * k) as f64,
            bytes_read: bytes(m * k + k * n),
            bytes_written: bytes(m * n),
            runs: 1.0,
        }
    };
    (0..count).map(product).collect()
}

/// A target on a V100, priced by predictors.
fn on_v100(analysis: &Analysis, predictors: Arc<Predictors>) -> Target {
    let gpus = choose(&[GpuName::Id("v100-pcie-32gb".to_owned())], &[]).unwrap();
    let context = Context { analysis, producer: "pytorch", mode: Mode::Train, batch: Some(32) };
    let request = Request { predictors: Some(predictors), ..Request::default() };
    Target::resolve(&request, &gpus[0], &context).unwrap().0
}

fn small() -> Analysis {
    let (model, _) = parse(&residual_chain(10));
    Analysis::new(&model, Places::default(), &Bindings::default(), &|_| false)
}

/// 100,000 kernels of which 2,000 are distinct, by the largest section of products.
#[divan::bench(sample_count = 20)]
fn price_kernels(bencher: Bencher<'_, '_>) {
    let analysis = small();
    let target = on_v100(&analysis, Predictors::built_in());
    let kernels = products(2_000);
    bencher.bench(|| {
        let pricer = Pricer::new(&target);
        (0..100_000).map(|index| pricer.price(&kernels[index % kernels.len()]).time_ms.p50).sum::<f64>()
    });
}

/// 100 distinct kernels.
#[divan::bench(sample_count = 100)]
fn price_distinct_kernels(bencher: Bencher<'_, '_>) {
    let analysis = small();
    let target = on_v100(&analysis, Predictors::built_in());
    let kernels = products(100);
    bencher.bench(|| {
        let pricer = Pricer::new(&target);
        kernels.iter().map(|kernel| pricer.price(kernel).time_ms.p50).sum::<f64>()
    });
}

/// The trees of a section alone, a row of features at a time.
#[divan::bench]
fn walk_trees(bencher: Bencher<'_, '_>) {
    let predictors = Predictors::built_in();
    let forest = &predictors.section("product", "product/pytorch").unwrap().seen.kernels;
    let row: Vec<f32> = forest.cuts.iter().map(|cuts| cuts.get(cuts.len() / 3).copied().unwrap_or_default()).collect();
    bencher.bench(|| forest.value(&row));
}

/// Reading what a model of convolutions and one of attention need.
#[divan::bench]
fn read_predictors(bencher: Bencher<'_, '_>) {
    let sections = [
        ("convolution", "convolution/tensorflow"),
        ("product", "product/pytorch"),
        ("elementwise", "elementwise/pytorch"),
        ("softmax", "softmax/pytorch"),
        ("layer-norm", "layer-norm/pytorch"),
        ("batch-norm", "batch-norm/pytorch"),
    ];
    bencher.bench(|| {
        let predictors = Predictors::unread();
        sections.map(|(family, name)| predictors.section(family, name).unwrap().seen.kernels.value(&[]))
    });
}
