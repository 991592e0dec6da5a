//! Every built-in layer class of both generations of Keras has a case: parameters and output shapes as Keras gives them.
//! `testdata/keras/layers.jsonl` has the cases, `testdata/keras/classes.txt` the classes (`cargo xtask keras-classes`).

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fs;

use dlcost::engine::{CheckOptions, Input, Mode, check};
use dlcost::report::{Extent, Model};
use serde_json::Value;

/// Classes that are no layers of a file, or hold code of others: bases, and wrappers of other frameworks.
const WITHOUT_CASE: &[&str] = &[
    "AbstractRNNCell",
    "FlaxLayer",
    "Input",
    "InputSpec",
    "JaxLayer",
    "Layer",
    "StackedRNNCells",
    "TorchModuleWrapper",
    "Wrapper",
];

fn cases() -> Vec<Value> {
    let text = fs::read_to_string("testdata/keras/layers.jsonl").unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn classes_of(case: &Value) -> impl Iterator<Item = String> + '_ {
    case["classes"].as_array().unwrap().iter().map(|class| class.as_str().unwrap().to_owned())
}

fn model_of(case: &Value) -> Model {
    let bytes = case["model"].to_string().into_bytes();
    let options = CheckOptions { mode: Mode::Infer, tensors: true, ..CheckOptions::default() };
    check(&Input::Stdin(bytes), "case.json", &options).unwrap().pop().unwrap()
}

#[test]
fn every_built_in_layer_class_has_a_case() {
    let tested: BTreeSet<String> = cases().iter().flat_map(classes_of).collect();
    let listed = fs::read_to_string("testdata/keras/classes.txt").unwrap();
    let names = listed.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let missing: Vec<_> = names.filter(|name| !tested.contains(*name) && !WITHOUT_CASE.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn layers_hold_and_give_what_keras_says() {
    let mut wrong = Vec::new();
    for case in &cases() {
        let model = model_of(case);
        let unknown = model.diagnostics.iter().any(|finding| finding.name == "unknown-layer");
        let parameters = model.graph.as_ref().map(|graph| (graph.parameters.total, graph.parameters.trainable));
        let expected = (case["parameters"].as_i64().unwrap().into(), case["trainable"].as_i64().unwrap().into());
        if parameters != Some(expected) && !unknown {
            wrong.push(format!("{}: {parameters:?}, Keras has {expected:?}", case["case"]));
        }
        let shapes: Vec<_> = model.outputs.iter().map(|port| port.shape.clone()).collect();
        let given = case["outputs"].as_array().unwrap();
        let same = shapes.len() == given.len()
            && shapes.iter().zip(given).all(|(ours, keras)| is_same(ours.as_deref(), keras));
        if !same && !unknown {
            wrong.push(format!("{}: {shapes:?}, Keras gives {given:?}: {:?}", case["case"], model.diagnostics.first()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A dim that Keras does not know may be known here.
fn is_same(ours: Option<&[Extent]>, keras: &Value) -> bool {
    let (Some(ours), Some(keras)) = (ours, keras.as_array()) else { return false };
    ours.len() == keras.len()
        && ours.iter().zip(keras).all(|(ours, keras)| match ours {
            Extent::Number(number) => keras.is_null() || keras.as_i64().map(i128::from) == Some(*number),
            Extent::Symbolic(_) => keras.is_null(),
        })
}

#[test]
fn layers_cost_something_and_training_more() {
    for case in &cases() {
        let bytes = case["model"].to_string().into_bytes();
        let options = CheckOptions { batch: Some(2), ..CheckOptions::default() };
        let model = check(&Input::Stdin(bytes), "case.json", &options).unwrap().pop().unwrap();
        if model.diagnostics.iter().any(|finding| finding.name == "unknown-layer" || finding.name == "unbound-dim") {
            continue;
        }
        let graph = model.graph.unwrap();
        let name = &case["case"];
        assert!(graph.flops.forward.is_some() && graph.flops.backward.is_some(), "{name}: {:?}", model.diagnostics);
        assert_eq!(graph.coverage.layers_not_counted, 0, "{name}");
    }
}
