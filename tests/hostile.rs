//! Models and options that mean no good: they end soon, with the root cause named once and no number made up.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use dlcost::diagnostics::Level;
use dlcost::engine::CheckOptions;
use dlcost::report::{Finding, Model};
use support::{opset, text, text_with};

fn errors(model: &Model) -> Vec<&Finding> {
    model.diagnostics.iter().filter(|finding| finding.level == Level::Error).collect()
}

fn codes(model: &Model) -> Vec<&str> {
    model.diagnostics.iter().map(|finding| &*finding.name).collect()
}

fn with_dims(body: &str, dims: &[(&str, &str)]) -> Model {
    let dims = dims.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    text_with(&opset(18, body), &CheckOptions { dims, ..CheckOptions::default() })
}

const TWO_SYMBOLS: &str = "g (float[a, b] x) => (float[a, b] y) { y = Relu (x) }";

#[test]
fn a_chain_of_else_branches_takes_linear_time() {
    let mut inner = "n () => (float[2] e0) { e0 = Relu (x) }".to_owned();
    for level in 1..30 {
        let last = level - 1;
        inner = format!(
            "n () => (float[2] e{level}) {{ e{level} = If <then_branch = t () => (float[2] t{level}) {{ t{level} = Exp (x) }}, \
             else_branch = {inner}> (c) r{last} = Identity (e{level}) }}"
        );
    }
    let body = format!(
        "g (float[2] x, bool c) => (float[2] y) {{ y = If <then_branch = t () => (float[2] t) {{ t = Exp (x) }}, else_branch = {inner}> (c) }}"
    );
    let model = text(&opset(18, &body));
    assert_eq!(errors(&model).len(), 0, "{:?}", codes(&model));
    assert_eq!(model.graph.unwrap().flops.forward, Some(2));
}

#[test]
fn values_that_depend_on_themselves_are_refused() {
    for dims in [&[("a", "a+1")][..], &[("a", "b+1"), ("b", "a+1")], &[("a", "b"), ("b", "a")]] {
        let model = with_dims(TWO_SYMBOLS, dims);
        let [error] = errors(&model)[..] else { panic!("{dims:?}: {:?}", codes(&model)) };
        assert_eq!(error.name, "conflicting-binding");
        assert!(error.message.contains("depends on itself: a -> "), "{}", error.message);
    }
    assert!(errors(&with_dims(TWO_SYMBOLS, &[("a", "a"), ("b", "3")])).is_empty());
}

#[test]
fn values_in_other_symbols_are_followed_to_numbers() {
    let model = with_dims(TWO_SYMBOLS, &[("a", "2*b"), ("b", "4")]);
    assert_eq!((model.target.batch, model.target.dims["a"]), (Some(8), Some(8)));
    assert_eq!(model.graph.unwrap().flops.forward, Some(32));
}

#[test]
fn a_dim_below_zero_has_no_cost() {
    let model = with_dims("g (float[\"n-5\", 3] x, float[n] z) => (y) { y = Relu (x) }", &[("n", "2")]);
    let [error] = errors(&model)[..] else { panic!("{:?}", codes(&model)) };
    assert_eq!(error.name, "negative-dim");
    assert!(error.message.contains("-3"), "{}", error.message);
    assert!(model.layers[0].flops.forward.is_none());
}

#[test]
fn numbers_past_the_range_are_missing() {
    let body = "g (float[\"n*9223372036854775807*9223372036854775807*9223372036854775807\", 4] x, float[n] z, float[4, 5] w) \
                => (y) { y = MatMul (x, w) }";
    let model = with_dims(body, &[]);
    assert!(codes(&model).contains(&"tensor-too-large"), "{:?}", codes(&model));
    assert_eq!((model.layers[0].macs, model.graph.unwrap().macs_formula), (None, None));
}

#[test]
fn a_missing_name_is_told_once() {
    let model = text(&opset(18, "g (float[2] x) => (y) { a = Add (x, w) b = Mul (a, w) y = Sub (w, b) }"));
    let [error] = errors(&model)[..] else { panic!("{:?}", codes(&model)) };
    assert_eq!(error.name, "undefined-tensor");
    assert_eq!(error.places.len(), 3);
    assert_eq!(error.notes, ["the same holds for 2 more nodes"]);
}

fn functions(bodies: &[&str]) -> String {
    let head =
        "<ir_version: 10, opset_import: [\"\" : 18, \"f\" : 1]>\ng (float[2] x) => (float[2] y) { y = f.F0 (x) }\n";
    let one = |body: &&str| format!("<domain: \"f\", opset_import: [\"\" : 18, \"f\" : 1]>\n{body}\n");
    head.to_owned() + &bodies.iter().map(one).collect::<String>()
}

#[test]
fn a_function_that_calls_itself_leaves_its_cost_open() {
    let model = text(&functions(&["F0 (a) => (b) { c = Relu (a) b = f.F0 (c) }"]));
    assert_eq!(errors(&model)[0].name, "recursive-function");
    assert!(errors(&model)[0].places[0].node.is_some());
    assert_eq!(model.graph.unwrap().coverage.layers_not_counted, 1);
}

#[test]
fn functions_that_double_the_graph_end_it() {
    let bodies: Vec<_> =
        (0..30).map(|level| format!("F{level} (a) => (b) {{ c = f.F{0} (a) b = f.F{0} (c) }}", level + 1)).collect();
    let mut bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
    bodies.push("F30 (a) => (b) { b = Relu (a) }");
    let model = text(&functions(&bodies));
    let [error] = errors(&model)[..] else { panic!("{:?}", codes(&model)) };
    assert_eq!(error.name, "too-many-nodes");
    assert!(model.graph.is_none());
}

#[test]
fn only_what_the_batch_breaks_is_baked_in() {
    let body =
        "g (float[4, 6] x, float[3, 5] w) => (y, z) <int64[2] s = {4, 6}> { y = MatMul (x, w) z = Reshape (x, s) }";
    let model = text_with(&opset(18, body), &CheckOptions { batch: Some(8), ..CheckOptions::default() });
    let names: Vec<_> = errors(&model).iter().map(|error| &*error.name).collect();
    assert_eq!(names, ["shape-mismatch", "batch-baked-in"]);
}

#[test]
fn names_behind_a_syntax_error_are_not_told() {
    let model = text(&opset(18, "g (float[2] x) => (float[2] y) { a = Relu x) y = Exp (a) }"));
    let names: Vec<_> = errors(&model).iter().map(|error| &*error.name).collect();
    assert_eq!(names, ["syntax-error"]);
}

#[test]
fn a_byte_order_mark_is_neither_error_nor_column() {
    let good = opset(18, "g (float[2] x) => (float[2] y) { y = Relu (x) }");
    assert_eq!(errors(&text(&format!("\u{feff}{good}"))).len(), 0);
    let bad = text("\u{feff}g float[2] x) => (y) { y = Relu (x) }");
    assert_eq!((errors(&bad)[0].places[0].line, errors(&bad)[0].places[0].column), (Some(1), Some(3)));
}

#[test]
fn a_glob_that_freezes_nothing_is_told() {
    let body = "g (float[2] x) => (float[2] y) { y = Relu (x) }";
    let frozen = |glob: &str| {
        let options = CheckOptions { frozen: vec![glob.to_owned()], ..CheckOptions::default() };
        codes(&text_with(&opset(18, body), &options)).contains(&"unused-binding")
    };
    assert!(frozen("encoder/*"));
    assert!(!frozen("Relu*"));
}
