//! Speed of the stages, from bytes to figures. `cargo bench` prints medians; nothing here fails on a slow machine.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod synthetic;

use std::collections::BTreeMap;
use std::path::PathBuf;

use divan::Bencher;
use dlcost::analysis::Analysis;
use dlcost::engine::{CheckOptions, Input, Mode, check};
use dlcost::frontend::load;
use dlcost::frontend::onnx_text::{PrintOptions, parse, print_model};
use dlcost::frontend::source::Source;
use dlcost::ir::place::Places;
use dlcost::options::target::GpuName;
use dlcost::passes::bind::Bindings;
use dlcost::predict::largest_batch::largest_batch;
use dlcost::predict::network::estimate;
use dlcost::predict::plans::Plans;
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
