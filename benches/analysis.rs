//! Speed of the stages, from bytes to figures. `cargo bench` prints medians; nothing here fails on a slow machine.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod synthetic;

use std::collections::BTreeMap;
use std::path::PathBuf;

use divan::Bencher;
use dlcost::analysis::Analysis;
use dlcost::engine::{CheckOptions, Input, check};
use dlcost::frontend::load;
use dlcost::frontend::onnx_text::{PrintOptions, parse, print_model};
use dlcost::frontend::source::Source;
use dlcost::ir::place::Places;
use dlcost::passes::bind::Bindings;
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

/// Figures for one more batch and length, from an analysis that is there.
#[divan::bench]
fn price_decoder_again(bencher: Bencher<'_, '_>) {
    let (model, _) = parse(&decoder(GPT2_SMALL));
    let analysis = Analysis::new(&model, Places::default(), &Bindings::default(), &|_| false);
    let values = BTreeMap::from([("batch".to_owned(), 8), ("seq".to_owned(), 512)]);
    bencher.bench(|| analysis.at(&values));
}
