//! Whole-program answers to CASES.md, group 2: shapes through branches, loops and functions, symbols, declared shapes, and
//! shapes that depend on data.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use dlcost::diagnostics::Level;
use dlcost::engine::CheckOptions;
use support::{
    assert_clean, assert_says, assert_silent, at_level, bounds, flops, graph, inference, layer, macs, named,
    only_error, only_warning, opset, parameters, shape, tensor, text, text_at, text_with,
};

fn branches(then: &str, other: &str) -> String {
    opset(
        18,
        &format!(
            "g (bool c, float[2, 3] a, float[2, 5] b) => (y) {{
                [if] y = If <
                    then_branch = t () => (p) {{ {then} }},
                    else_branch = e () => (q) {{ {other} }}
                > (c)
                }}"
        ),
    )
}

/// Case 34.
#[test]
fn branches_with_different_shapes_leave_the_dim_open() {
    let model = text(&branches("p = Relu (a)", "q = Relu (b)"));
    assert_clean(&model);
    let output = shape(&model, "y");
    assert!(output.starts_with("[2, ") && !output.contains('3') && !output.contains('5'), "{output}");
    assert_eq!(bounds(&model, "y"), "_, 5");
    assert_eq!(named(&model, "data-dependent-shape").len(), 1);
    // The dearer branch counts.
    assert_eq!(flops(&model), 10);
    assert_eq!(named(&model, "cost-at-bound").len(), 1, "{:#?}", model.diagnostics);
}

/// Case 34: what the branches agree in is certain.
#[test]
fn branches_of_equal_shape_keep_it() {
    let model = text(&branches("p = Relu (a)", "q = Neg (a)"));
    assert_clean(&model);
    assert_eq!(shape(&model, "y"), "[2, 3]");
    let ranks = text(&branches("p = Relu (a)", "q = Flatten <axis = 0> (b) "));
    assert_clean(&ranks);
    let ranks = text(&branches("p = Relu (a)", "q = ReduceSum <keepdims = 0> (b) "));
    assert_eq!(shape(&ranks, "y"), "?");
}

fn early_exit(limit: u32) -> String {
    opset(
        18,
        &format!(
            "g (float[2] row) => (scan) <int64 M = {{{limit}}}, bool cond = {{1}}, int64 three = {{3}}> {{
                [loop] scan = Loop <body = body (int64 i, bool cond_in) => (bool cond_out, float[2] r) {{
                    cond_out = Less (i, three)
                    [work] r = Relu (row)
                }}> (M, cond)
            }}"
        ),
    )
}

/// Case 35.
#[test]
fn a_trip_count_is_an_upper_limit_where_the_condition_depends_on_the_run() {
    for (limit, rounds) in [(10, 10), (1000, 1000)] {
        let model = text(&early_exit(limit));
        assert_clean(&model);
        let output = shape(&model, "scan");
        assert!(output.ends_with(", 2]") && !output.contains(&limit.to_string()), "{output}");
        assert_eq!(bounds(&model, "scan"), format!("{limit}, _"));
        let key = "main/loop0/body/work";
        assert_eq!(layer(&model, key).repeats, Some(rounds));
        assert!(layer(&model, key).at_bound);
        assert_eq!(layer(&model, key).flops.forward, Some(2 * rounds));
        assert_eq!(named(&model, "cost-at-bound").len(), 1);
    }
}

fn growing(limit: &str) -> String {
    opset(
        18,
        &format!(
            "g (float[1, 2] start, float[1, 2] row{limit}) => (y) <bool cond = {{1}}> {{
                y = Loop <body = body (int64 i, bool cond_in, float[rows, 2] s) => (bool cond_out, float[more, 2] t) {{
                    cond_out = Identity (cond_in)
                    t = Concat <axis = 0> (s, row)
                }}> (M, cond, start)
            }}"
        ),
    )
}

/// Case 36: with 5 rounds the program follows the loop and gives what the run gives; else the dim stays open.
#[test]
fn a_state_that_grows_in_a_loop_does_not_keep_its_first_shape() {
    let model = text(&growing(", int64 M"));
    only_warning(&model, "not-counted");
    let output = shape(&model, "y");
    assert!(output.ends_with(", 2]") && output != "[1, 2]" && output != "[0, 2]", "{output}");
    let five = growing("").replace("<bool", "<int64 M = {5}, bool");
    let model = text(&five);
    assert_clean(&model);
    assert_eq!(shape(&model, "y"), "[6, 2]");
}

/// Case 36: right for Scan, whose state keeps its shape.
#[test]
fn the_state_of_a_scan_keeps_its_shape() {
    let model = text(&opset(
        18,
        "g (float[1, 2] start, float[7, 1, 2] xs) => (y, all) {
            y, all = Scan <num_scan_inputs = 1, body = body (float[1, 2] s, float[1, 2] x) => (float[1, 2] t, float[1, 2] o) {
                t = Add (s, x)
                o = Identity (t)
            }> (start, xs)
        }",
    ));
    assert_clean(&model);
    assert_eq!(shape(&model, "y"), "[1, 2]");
    assert_eq!(shape(&model, "all"), "[7, 1, 2]");
    assert_eq!(flops(&model), 14);
}

const HALVINGS: &str = "g (float[1, 8, H, W] x, float[8, 8, 3, 3] k) => (y) {
    a = Conv <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x, k)
    b = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x)
    y = Concat <axis = 1> (a, b)
}";

/// Case 37.
#[test]
fn two_ways_to_halve_an_extent_are_known_to_be_equal() {
    let model = text(&opset(22, HALVINGS));
    assert_clean(&model);
    assert_eq!(named(&model, "shape-mismatch").len() + named(&model, "declared-symbol-differs").len(), 0);
    let output = shape(&model, "y");
    assert!(output.starts_with("[1, 16, ") && output.contains('H') && output.contains('W'), "{output}");
    for (height, width, expected) in
        [("33", "33", "[1, 16, 17, 17]"), ("32", "1", "[1, 16, 16, 1]"), ("2", "7", "[1, 16, 1, 4]")]
    {
        let model = text_at(&opset(22, HALVINGS), &[("H", height), ("W", width)]);
        assert_silent(&model);
        assert_eq!(shape(&model, "y"), expected);
    }
}

/// Case 37: ways that are not equal.
#[test]
fn two_ways_to_halve_that_differ_for_odd_extents_are_told_where_they_differ() {
    let floor = HALVINGS.replace(", ceil_mode = 1", "");
    let model = text_at(&opset(22, &floor), &[("H", "33"), ("W", "33")]);
    assert_says(only_error(&model, "shape-mismatch"), &["17", "16"]);
    let model = text_at(&opset(22, &floor), &[("H", "32"), ("W", "32")]);
    assert_silent(&model);
    assert_eq!(shape(&model, "y"), "[1, 16, 16, 16]");
}

/// Case 38.
#[test]
fn a_symbol_and_a_number_add_up() {
    let body = opset(18, "g (float[N, 2] a, float[5, 2] b) => (y) { y = Concat <axis = 0> (a, b) }");
    let model = text(&body);
    assert_clean(&model);
    assert_eq!(shape(&model, "y"), "[N+5, 2]");
    let model = text_at(&body, &[("N", "3")]);
    assert_silent(&model);
    assert_eq!(shape(&model, "y"), "[8, 2]");
    let twice = opset(18, "g (float[N, 2] a, float[M, 2] b) => (y) { y = Concat <axis = 0> (a, b, a) }");
    let output = shape(&text(&twice), "y");
    assert!(output == "[2*N+M, 2]" || output == "[M+2*N, 2]", "{output}");
}

fn with_shapes(body: &str, shapes: &[(&str, &[&str])]) -> dlcost::report::Model {
    let input_shapes = shapes
        .iter()
        .map(|(name, dims)| ((*name).to_owned(), dims.iter().map(|dim| (*dim).to_owned()).collect()))
        .collect();
    text_with(&opset(18, body), &CheckOptions { input_shapes, ..inference() })
}

/// Case 39: two values.
#[test]
fn one_symbol_with_two_values_is_an_error_that_names_both() {
    let body = "g (float[batch, 8] a, float[batch, 8] b) => (y) { y = Add (a, b) }";
    let model = with_shapes(body, &[("a", &["4", "8"]), ("b", &["2", "8"])]);
    let error = only_error(&model, "conflicting-binding");
    assert_says(error, &["batch", "4", "2"]);
    assert_eq!(model.diagnostics.len(), 1, "what follows from it is not told: {:#?}", model.diagnostics);
    assert_silent(&with_shapes(body, &[("a", &["4", "8"]), ("b", &["4", "8"])]));
    let expression = "g (float[n, 8] a, float[\"2*n\", 8] b) => (y) { y = Concat <axis = 0> (a, b) }";
    let model = with_shapes(expression, &[("a", &["4", "8"]), ("b", &["7", "8"])]);
    assert_says(only_error(&model, "conflicting-binding"), &["2*n", "8", "7"]);
    assert_eq!(shape(&model, "y"), "[12, 8]");
    assert_eq!(shape(&with_shapes(body, &[("a", &["4", "8"])]), "y"), "[4, 8]");
}

/// Case 39: names of dims.
#[test]
fn a_dim_name_is_an_expression_only_of_symbols_of_the_inputs() {
    let body = "g (float[\"DynamicDimension.0\", n] a, float[\"DynamicDimension.0\", \"2*n\"] b) => (y) {
        y = Concat <axis = 1> (a, b)
    }";
    let model = text(&opset(18, body));
    assert_says(only_warning(&model, "unbound-dim"), &["dim n "]);
    assert_eq!(shape(&model, "y"), "[DynamicDimension.0, 3*n]");
    let model = text_at(&opset(18, body), &[("n", "4"), ("DynamicDimension.0", "5")]);
    assert_silent(&model);
    assert_eq!(shape(&model, "y"), "[5, 12]");
}

/// Case 39: an opaque name and an empty one.
#[test]
fn other_dim_names_are_opaque_and_an_empty_one_is_bound_by_input_and_axis() {
    let body = "g (float[\"2*m\", 3] a, float[\"\", 3] b) => (y, z) { y = Relu (a) z = Relu (b) }";
    let model = text(&opset(18, body));
    assert_clean(&model);
    assert_eq!(shape(&model, "y"), "[`2*m`, 3]");
    assert_eq!(shape(&model, "z"), "[b.0, 3]");
    let model = text_at(&opset(18, body), &[("2*m", "6"), ("b.0", "7")]);
    assert_silent(&model);
    assert_eq!((shape(&model, "y"), shape(&model, "z")), ("[6, 3]".to_owned(), "[7, 3]".to_owned()));
}

/// Case 39: names that a shape inference invented.
#[test]
fn an_output_symbol_with_another_name_is_a_note() {
    let model = text(&opset(18, "g (float[N, 2] x) => (float[unk__6, 2] y) { y = Relu (x) }"));
    assert_clean(&model);
    let notes = named(&model, "declared-symbol-differs");
    assert_eq!(notes.len(), 1);
    assert_says(notes[0], &["N", "unk__6", "\"y\""]);
    assert_eq!(shape(&model, "y"), "[N, 2]");
}

/// Case 40.
#[test]
fn a_stored_shape_that_contradicts_the_computed_one_is_a_warning_with_both() {
    let model = text(&opset(
        18,
        "g (float[1, 3, 10, 10] x, float[8, 3, 3, 3] W) => (float[1, 8, 8, 8] y) <float[1, 8, 10, 10] c> {
            [conv] c = Conv (x, W)
            y = Relu (c)
        }",
    ));
    let warning = only_warning(&model, "declared-shape-wrong");
    assert_says(warning, &["\"c\"", "\"conv\"", "1×8×10×10", "1×8×8×8"]);
    assert_eq!(tensor(&model, "c"), "[1, 8, 8, 8]");
    assert_eq!(macs(&model), 8 * 64 * 27);
    assert_eq!(flops(&model), 2 * 8 * 64 * 27 + 512);
}

/// Case 41.
#[test]
fn an_uneven_split_gives_the_last_piece_what_is_left() {
    let model =
        text(&opset(18, "g (float[10, 2] x) => (a, b, c, e) { a, b, c, e = Split <axis = 0, num_outputs = 4> (x) }"));
    assert_silent(&model);
    let shapes = ["a", "b", "c", "e"].map(|name| shape(&model, name));
    assert_eq!(shapes, ["[3, 2]", "[3, 2]", "[3, 2]", "[1, 2]"]);
    let model = text(&opset(18, "g (float[2, 7] x) => (a, b) { a, b = Split <axis = -1, num_outputs = 2> (x) }"));
    assert_eq!(["a", "b"].map(|name| shape(&model, name)), ["[2, 4]", "[2, 3]"]);
}

const FUNCTION: &str = "<ir_version: 10, opset_import: [\"\" : 18, \"local\" : 1]>
g (float[2, 3] x) => (float[2, 5] y) <float[3, 4] W1 = {0,0,0,0,0,0,0,0,0,0,0,0},
    float[4, 5] W2 = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}> {
    [one] t = local.Block (x, W1)
    [two] y = local.Block (t, W2)
}
<domain: \"local\", opset_import: [\"\" : 18]>
Block (a, W) => (r) { m = MatMul (a, W) r = Relu (m) }";

/// Case 42.
#[test]
fn each_call_of_a_function_has_its_own_lines_and_shapes() {
    let model = text(FUNCTION);
    assert_silent(&model);
    assert_eq!(shape(&model, "y"), "[2, 5]");
    assert_eq!(macs(&model), 64);
    assert_eq!(parameters(&model), 32);
    let products: Vec<_> = model.layers.iter().filter(|layer| layer.op == "MatMul").collect();
    assert_eq!(products.iter().map(|layer| layer.macs.unwrap()).collect::<Vec<_>>(), [24, 40]);
    assert_eq!(products.iter().map(|layer| layer.parameters).collect::<Vec<_>>(), [12, 20]);
    assert_eq!(
        products.iter().map(|layer| support::dims(layer.output_shape.as_deref())).collect::<Vec<_>>(),
        ["[2, 4]", "[2, 5]"]
    );
    let keys: std::collections::HashSet<_> = model.layers.iter().map(|layer| &layer.key).collect();
    assert_eq!(keys.len(), model.layers.len());
    let sum: i128 = model.layers.iter().map(|layer| layer.macs.unwrap()).sum();
    assert_eq!(sum, 64, "a call is no addend beside its body");
}

/// Case 42: a function that calls a function.
#[test]
fn nested_functions_are_followed() {
    let nested = FUNCTION
        .replace(
            "Block (a, W) => (r) { m = MatMul (a, W) r = Relu (m) }",
            "Block (a, W) => (r) { m = local.Inner (a, W) r = Relu (m) }
        <domain: \"local\", opset_import: [\"\" : 18]>
        Inner (a, W) => (r) { r = MatMul (a, W) }",
        )
        .replace("opset_import: [\"\" : 18]>\nBlock", "opset_import: [\"\" : 18, \"local\" : 1]>\nBlock");
    let model = text(&nested);
    assert_silent(&model);
    assert_eq!((shape(&model, "y"), macs(&model), parameters(&model)), ("[2, 5]".to_owned(), 64, 32));
}

/// Case 43.
#[test]
fn shapes_that_depend_on_data_have_an_upper_bound() {
    let model = text(&opset(18, "g (float[2, 3] x) => (y) { [nz] y = NonZero (x) }"));
    assert_clean(&model);
    let output = shape(&model, "y");
    assert!(output.starts_with("[2, ") && output != "[2, 6]", "{output}");
    assert_eq!(bounds(&model, "y"), "_, 6");
    assert_eq!(named(&model, "data-dependent-shape").len(), 1);
    assert_eq!(graph(&model).coverage.layers_at_bound, 1);
}

/// Case 43: what follows is priced at the bound.
#[test]
fn what_follows_a_size_that_depends_on_data_is_priced_at_its_bound() {
    let model = text(&opset(
        18,
        "g (float[2, 3] x, float[2, 8] w, float[4, 4] q) => (y, z) {
            n = NonZero (x)
            t = Transpose <perm = [1, 0]> (n)
            f = Cast <to = 1> (t)
            [behind] y = MatMul (f, w)
            [certain] z = MatMul (q, q)
        }",
    ));
    assert_clean(&model);
    assert_eq!(layer(&model, "behind").macs, Some(6 * 2 * 8));
    assert!(layer(&model, "behind").at_bound);
    assert!(!layer(&model, "certain").at_bound);
    assert_eq!(macs(&model), 96 + 64);
    assert_eq!(graph(&model).coverage.macs_at_bound, Some(96));
    assert_says(named(&model, "cost-at-bound")[0], &["60.0 %"]);
}

/// A graph is one sample, whatever it consists of.
#[test]
fn nodes_and_edges_of_a_graph_are_no_batch() {
    let model = text(&opset(18, "g (float[nodes, 16] x, int64[2, edges] edge_index) => (y) { y = Relu (x) }"));
    assert_eq!(model.target.batch, None);
    assert!(model.assumptions.iter().all(|assumption| assumption.key != "batch"), "{:?}", model.assumptions);
    assert_eq!(named(&model, "unbound-dim").len(), 1, "{:#?}", model.diagnostics);
    let bound = text_at(&opset(18, "g (float[nodes, 16] x) => (y) { y = Relu (x) }"), &[("nodes", "2708")]);
    assert_silent(&bound);
    // A batch of graphs is one all the same.
    let batched = text(&opset(18, "g (float[batch, nodes, 16] x) => (y) { y = Relu (x) }"));
    assert_eq!(batched.target.batch, Some(1));
}

#[test]
fn a_batch_of_none_is_refused_however_it_is_given() {
    let model = opset(18, "g (float[batch, 16] x) => (y) { y = Relu (x) }");
    let shaped =
        CheckOptions { input_shapes: vec![("x".to_owned(), vec!["0".to_owned(), "16".to_owned()])], ..inference() };
    for (model, option) in
        [(text_at(&model, &[("batch", "0")]), "--dim batch"), (text_with(&model, &shaped), "--input-shape x")]
    {
        assert_says(only_error(&model, "zero-dim"), &[option, "a batch has at least one sample"]);
        assert!(model.time_ms.is_none());
    }
    // Another dim may be none: a cache that is empty.
    assert!(
        at_level(&text_at(&opset(18, "g (float[2, past] x) => (y) { y = Relu (x) }"), &[("past", "0")]), Level::Error)
            .is_empty()
    );
}
