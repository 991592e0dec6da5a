//! Models on which dlcost and onnxruntime differ, frozen by `cargo xtask differential`, each with what dlcost says and
//! why. `testdata/differential/verdicts.toml` has the table.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use dlcost::diagnostics::Level;
use dlcost::report::{Extent, Model, Port};
use toml::Table;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/differential")
}

fn verdicts() -> Vec<Table> {
    let table: Table = fs::read_to_string(folder().join("verdicts.toml")).unwrap().parse().unwrap();
    table["verdict"].as_array().unwrap().iter().map(|verdict| verdict.as_table().unwrap().clone()).collect()
}

/// Types of the outputs, or the name of the first error.
fn answer(model: &Model) -> String {
    if let Some(error) = model.diagnostics.iter().find(|finding| finding.level == Level::Error) {
        return error.name.clone();
    }
    let dim = |dim: &Extent| match dim {
        Extent::Number(number) => number.to_string(),
        Extent::Symbolic(formula) => formula.clone(),
    };
    let ty = |output: &Port| {
        let dims: Vec<String> = output.shape.iter().flatten().map(dim).collect();
        format!("{}[{}]", output.dtype.as_deref().unwrap_or("?"), dims.join(", "))
    };
    let types: Vec<String> = model.outputs.iter().map(ty).collect();
    types.join("; ")
}

#[test]
fn answers_are_those_of_the_verdicts() {
    for verdict in verdicts() {
        let text = |key: &str| verdict[key].as_str().unwrap().to_owned();
        let model = support::text(&fs::read_to_string(folder().join(text("file"))).unwrap());
        assert_eq!(answer(&model), text("answer"), "{}", text("file"));
        assert!(["dlcost", "onnxruntime", "open"].contains(&text("right").as_str()), "{}", text("file"));
        assert!(!text("why").is_empty(), "{}", text("file"));
    }
}

#[test]
fn every_model_has_a_verdict() {
    let judged: BTreeSet<String> =
        verdicts().iter().map(|verdict| verdict["file"].as_str().unwrap().to_owned()).collect();
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let models: BTreeSet<String> = files.filter(|name| name.ends_with(".onnxtxt")).collect();
    assert_eq!(models, judged);
}
