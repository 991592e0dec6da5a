//! Speed of the algebra of dims.

#![allow(clippy::unwrap_used, missing_docs)]

use divan::{Bencher, black_box};
use dlcost::ir::dim::{Dim, Symbol, SymbolKind, Tape};

fn main() {
    divan::main();
}

fn symbol(name: &str) -> Dim {
    Dim::from(Symbol::new(name, SymbolKind::Free, 1, None))
}

#[divan::bench]
fn multiply_constants(bencher: Bencher<'_, '_>) {
    let (left, right) = (Dim::from(3_i64), Dim::from(224_i64));
    bencher.bench(|| black_box(&left) * black_box(&right));
}

#[divan::bench]
fn elements_of_an_image_batch(bencher: Bencher<'_, '_>) {
    let batch = symbol("batch");
    bencher.bench(|| {
        [64_i64, 112, 112].iter().fold(black_box(&batch).clone(), |product, &dim| &product * &Dim::from(dim))
    });
}

#[divan::bench]
fn window_of_a_free_height(bencher: Bencher<'_, '_>) {
    let height = symbol("height");
    bencher.bench(|| (black_box(&height) + &Dim::from(4_i64)).floor_div(&Dim::from(2_i64)) + Dim::from(1_i64));
}

#[divan::bench]
fn multiply_out_two_sums(bencher: Bencher<'_, '_>) {
    let left = &symbol("batch") + &symbol("seq");
    let right = &symbol("seq") + &Dim::from(128_i64);
    bencher.bench(|| black_box(&left) * black_box(&right));
}

#[divan::bench]
fn parse(bencher: Bencher<'_, '_>) {
    bencher.bench(|| Dim::parse(black_box("2*batch*(seq + 1) - 3"), &|name| Some(symbol(name))).unwrap());
}

/// One pass over the formulas of a network of a thousand layers.
#[divan::bench]
fn evaluate_a_tape(bencher: Bencher<'_, '_>) {
    let (batch, seq) = (symbol("batch"), symbol("seq"));
    let dims: Vec<Dim> = (1..=1000_i64).map(|layer| &(&batch * &seq) * &Dim::from(layer * 64)).collect();
    let tape = Tape::compile(&dims);
    bencher.bench(|| tape.eval(&|symbol| Some(if symbol.name() == "batch" { 32 } else { 128 })));
}
