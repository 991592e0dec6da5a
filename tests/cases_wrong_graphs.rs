//! Whole-program answers to CASES.md, group 7: wrong input, graphs that cannot be. The process always survives and says
//! what is wrong.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::fmt::Write as _;

use dlcost::diagnostics::Level;
use dlcost::report::{Finding, Model};
use support::{
    Folder, Proto, assert_clean, assert_says, assert_silent, at_level, bytes, float_value, graph, layer, macs, model,
    named, node, only_error, only_warning, opset, parameters, shape, text,
};

/// The one error about a file of which nothing can be read.
#[track_caller]
fn unreadable<'m>(model: &'m Model, name: &str) -> &'m Finding {
    assert!(model.graph.is_none(), "no figures: {model:#?}");
    assert!(model.layers.is_empty() && model.outputs.is_empty());
    assert_eq!(model.diagnostics.len(), 1, "{:#?}", model.diagnostics);
    only_error(model, name)
}

fn fancy(declared: &str) -> Model {
    text(&format!(
        "<ir_version: 10, opset_import: [\"\" : 18, \"org.example\" : 1]>
        g (float[1, 3, 8, 8] x, float[4, 3, 3, 3] W, float[4, 4, 3, 3] W2) => (y) {declared} {{
            [conv0] c = Conv (x, W)
            [fancy] n = org.example.FancyNorm (c)
            [conv1] y = Conv (n, W2)
        }}"
    ))
}

/// Case 101.
#[test]
fn the_declared_result_of_an_unknown_operator_is_trusted() {
    let model = fancy("<float[1, 4, 6, 6] n>");
    let warning = only_warning(&model, "unknown-domain");
    assert_says(warning, &["FancyNorm", "org.example", "cost is unknown"]);
    assert_eq!(warning.places[0].node.as_deref(), Some("fancy"));
    assert_eq!(macs(&model), 3_888 + 2_304);
    assert_eq!(shape(&model, "y"), "[1, 4, 4, 4]");
    assert_eq!(layer(&model, "fancy").macs, None);
    let coverage = &graph(&model).coverage;
    assert_eq!(coverage.layers_not_counted, 1);
    // It reads and writes 144 floats.
    assert_eq!(coverage.bytes_not_counted, Some(2 * 576));
}

/// Case 101: without the declaration.
#[test]
fn behind_an_unknown_operator_shapes_are_unknown_not_zero() {
    let model = fancy("");
    assert!(at_level(&model, Level::Error).is_empty());
    let warning = named(&model, "unknown-domain");
    assert_eq!(warning.len(), 1);
    assert!(warning[0].help.as_deref().unwrap().contains("declare"), "{warning:#?}");
    assert_eq!(layer(&model, "conv0").macs, Some(3_888));
    assert_eq!(layer(&model, "conv1").macs, None);
    assert_eq!(layer(&model, "conv1").bytes, None);
    assert!(!shape(&model, "y").contains(", 0"), "{}", shape(&model, "y"));
    assert_eq!(graph(&model).coverage.layers_not_counted, 2);
}

/// Case 102.
#[test]
fn a_misspelt_operator_is_an_error_with_the_nearest_name() {
    for (wrong, right) in
        [("Covn", "Conv"), ("MatMull", "MatMul"), ("relu", "Relu"), ("BatchNormalisation", "BatchNormalization")]
    {
        let model = text(&opset(
            18,
            &format!("g (float[1, 3, 8, 8] x, float[4, 3, 3, 3] w) => (y) {{ [n] y = {wrong} (x, w) }}"),
        ));
        let error = only_error(&model, "unknown-operator");
        assert_says(error, &["unknown operator", wrong]);
        assert!(error.help.as_deref().unwrap().contains(&format!("did you mean {right}?")), "{error:#?}");
        assert_eq!(error.places[0].node.as_deref(), Some("n"));
    }
    let model = text(&opset(18, "g (float[2] x) => (y) { y = Xyzzyplugh (x) }"));
    assert_eq!(only_error(&model, "unknown-operator").help, None);
}

/// Case 102: the right name in the wrong domain.
#[test]
fn an_operator_of_another_domain_is_named_with_it() {
    for op in ["FusedMatMul", "QLinearAdd", "BiasGelu", "SkipLayerNormalization"] {
        let model = text(&opset(18, &format!("g (float[2, 3] x, float[3, 2] w) => (y) {{ y = {op} (x, w) }}")));
        let error = only_error(&model, "unknown-operator");
        assert_says(error, &[op]);
        let help = error.help.as_deref().unwrap();
        assert!(help.contains("exists in domain com.microsoft") && !help.contains("did you mean"), "{help}");
    }
}

/// Case 102: many nodes of one wrong name are one error.
#[test]
fn a_misspelt_operator_is_told_once() {
    let model = text(&opset(18, "g (float[2] x) => (y) { a = Rleu (x) b = Rleu (a) y = Rleu (b) }"));
    assert_eq!(only_error(&model, "unknown-operator").places.len(), 3);
}

/// Case 103.
#[test]
fn a_cycle_is_listed_in_order() {
    let model = text(&opset(
        18,
        "g (float[2] x) => (float[2] y) { [n_a] a = Add (x, b) [n_b] b = Relu (a) [n_y] y = Relu (b) }",
    ));
    assert_says(only_error(&model, "cyclic-graph"), &["n_a -> n_b -> n_a"]);
    assert_eq!(graph(&model).coverage.layers_not_counted, 3);
}

/// Case 103: longer cycles, a node that reads itself, a cycle beside what can run.
#[test]
fn cycles_of_every_length_end() {
    let model = text(&opset(18, "g (float[2] x) => (y) { [self] y = Add (x, y) }"));
    assert_says(only_error(&model, "cyclic-graph"), &["self -> self"]);
    let mut nodes = String::new();
    for index in 0..1000 {
        let _ = writeln!(nodes, "[n{index}] t{} = Relu (t{index})", (index + 1) % 1000);
    }
    let model = text(&opset(18, &format!("g (float[2, 2] x) => (t0, y) {{ {nodes} [fine] y = MatMul (x, x) }}")));
    assert_says(only_error(&model, "cyclic-graph"), &["n0 -> n1 -> n2"]);
    assert_eq!(macs(&model), 8);
    assert_eq!(shape(&model, "y"), "[2, 2]");
}

/// Case 103: inside a branch.
#[test]
fn a_cycle_in_a_subgraph_is_found() {
    let model = text(&opset(
        18,
        "g (bool c, float[2] x) => (y) {
            y = If <then_branch = t () => (p) { [a] p = Add (x, q) [b] q = Relu (p) },
                    else_branch = e () => (r) { r = Relu (x) }> (c)
        }",
    ));
    assert_says(only_error(&model, "cyclic-graph"), &["a -> ", "b -> "]);
}

/// Case 104.
#[test]
fn unsorted_nodes_are_sorted_with_a_warning() {
    let model = text(&opset(18, "g (float[2] x) => (y) { [second] y = Relu (a) [first] a = Neg (x) }"));
    assert_says(only_warning(&model, "unsorted-nodes"), &["\"second\"", "\"first\""]);
    assert_eq!(shape(&model, "y"), "[2]");
    assert_eq!(model.layers.iter().map(|layer| layer.key.as_str()).collect::<Vec<_>>(), ["first", "second"]);
    let reversed: String = (0..50).rev().map(|index| format!("t{} = Relu (t{index}) ", index + 1)).collect();
    let model = text(&opset(18, &format!("g (float[2] t0) => (t50) {{ {reversed} }}")));
    only_warning(&model, "unsorted-nodes");
    assert_eq!(shape(&model, "t50"), "[2]");
}

/// Case 104: what a subgraph reads orders its node too.
#[test]
fn a_node_is_sorted_behind_what_its_subgraph_reads() {
    let model = text(&opset(
        18,
        "g (bool c, float[2, 3] x) => (y) {
            y = If <then_branch = t () => (p) { p = Relu (a) }, else_branch = e () => (q) { q = Neg (a) }> (c)
            a = Abs (x)
        }",
    ));
    only_warning(&model, "unsorted-nodes");
    assert_eq!(shape(&model, "y"), "[2, 3]");
}

/// Case 105.
#[test]
fn a_name_without_producer_is_an_error_with_the_nearest_name() {
    let model = text(&opset(
        18,
        "g (float[1, 2] x) => (float[1, 2] y) <float[2, 2] weight = {0, 0, 0, 0}> { [fc] y = MatMul (x, wieght) }",
    ));
    let error = only_error(&model, "undefined-tensor");
    assert_says(error, &["\"fc\"", "input \"wieght\" has no producer"]);
    assert!(error.help.as_deref().unwrap().contains("did you mean \"weight\""), "{error:#?}");
    assert_eq!(error.places[0].node.as_deref(), Some("fc"));
}

/// Case 105: outputs of graphs and of subgraphs.
#[test]
fn an_output_without_producer_is_the_same_kind_of_error() {
    let model = text(&opset(18, "g (float[2] x) => (result) { [n] reslut = Relu (x) }"));
    let error = only_error(&model, "undefined-tensor");
    assert_says(error, &["\"result\""]);
    assert!(error.help.as_deref().unwrap().contains("\"reslut\""), "{error:#?}");
    let model = text(&opset(
        18,
        "g (bool c, float[2] x) => (y) {
            y = If <then_branch = t () => (gone) { p = Relu (x) }, else_branch = e () => (q) { q = Neg (x) }> (c)
        }",
    ));
    assert_says(only_error(&model, "undefined-tensor"), &["\"gone\""]);
}

/// Case 106.
#[test]
fn dims_whose_product_overflows_are_an_error_not_zero() {
    let model = text(&opset(18, "g (float[4294967296, 4294967296, 4] x) => (y) { y = Relu (x) }"));
    assert_says(only_error(&model, "tensor-too-large"), &["\"x\"", "2^66", "4294967296×4294967296×4"]);
    assert_ne!(graph(&model).bytes, Some(0));
    let most = i64::MAX;
    let model =
        text(&opset(18, &format!("g (float[{most}, {most}, {most}, {most}] x) => (y) {{ y = MatMul (x, x) }}")));
    assert_says(only_error(&model, "tensor-too-large"), &["\"x\"", "2^"]);
    assert!(graph(&model).macs.is_none_or(|macs| macs > 0));
}

/// Case 106: a stored tensor, and one that only operators make large.
#[test]
fn overflow_is_found_in_stored_and_in_computed_tensors() {
    let model = text(&opset(
        18,
        "g (float[1, 4294967296] x) => (y) <float[4294967296, 4294967296] W = [\"location\": \"w.bin\"]> { y = MatMul (x, W) }",
    ));
    assert!(!named(&model, "tensor-too-large").is_empty(), "{:#?}", model.diagnostics);
    assert!(parameters(&model) > 0);
    let model = text(&opset(
        18,
        "g (float[1] x) => (y) <int64[3] s = {4294967296, 4294967296, 4}> { [grow] y = Expand (x, s) }",
    ));
    let error = only_error(&model, "tensor-too-large");
    assert_says(error, &["\"y\"", "2^66"]);
    assert_eq!(error.places[0].node.as_deref(), Some("grow"));
    // 2^62 elements are within the limit, though no card holds them.
    only_warning(&text(&opset(18, "g (float[2147483648, 2147483648] x) => (y) { y = Relu (x) }")), "out-of-memory");
}

fn image(first: &str) -> Model {
    text(&opset(18, &format!("g (float[{first}, 3, 8, 8] x, float[4, 3, 3, 3] w) => (y) {{ y = Conv (x, w) }}")))
}

/// Case 107.
#[test]
fn minus_one_as_a_dim_is_unknown_with_one_warning() {
    let model = image("-1");
    assert_says(only_warning(&model, "negative-dim"), &["\"x\"", "-1", "dim 0"]);
    let output = shape(&model, "y");
    assert!(output.ends_with(", 4, 6, 6]") && !output.starts_with("[-"), "{output}");
    assert_eq!(model.diagnostics.len(), 1);
}

/// Case 107: below -1, and zero.
#[test]
fn dims_below_minus_one_are_errors_and_zero_is_a_true_zero() {
    let model = image("-7");
    assert_says(only_error(&model, "negative-dim"), &["\"x\"", "-7"]);
    let model = image("0");
    assert_clean(&model);
    assert_eq!(shape(&model, "y"), "[0, 4, 6, 6]");
    assert_eq!(macs(&model), 0);
    let hint = named(&model, "zero-dim");
    assert_eq!(hint.len(), 1);
    assert!(hint[0].help.as_deref().unwrap().contains("batch"), "{hint:#?}");
}

/// Case 107: a negative dim of a weight.
#[test]
fn a_negative_dim_of_a_stored_tensor_is_an_error() {
    for dim in ["-1", "-5"] {
        let model = text(&opset(
            18,
            &format!("g (float[1, 2] x) => (y) <float[2, {dim}] W = {{0, 0}}> {{ y = MatMul (x, W) }}"),
        ));
        assert_says(only_error(&model, "negative-dim"), &["\"W\"", dim]);
    }
}

/// Case 108.
#[test]
fn absurd_attributes_are_one_error_each_at_the_node() {
    let image = "float[1, 4, 8, 8] x, float[6, 4, 3, 3] w";
    let pool = "MaxPool <kernel_shape = [2, 2], ";
    for (inputs, node, words) in [
        (image, format!("{pool} strides = [0, 2]> (x)"), &["strides", "0", "at least 1"][..]),
        (image, format!("{pool} strides = [2, -1]> (x)"), &["strides", "-1", "at least 1"]),
        (image, format!("{pool} dilations = [0, 1]> (x)"), &["dilations", "0", "at least 1"]),
        (image, "MaxPool <kernel_shape = [-3, 3]> (x)".to_owned(), &["kernel_shape", "-3", "at least 1"]),
        (image, format!("{pool} pads = [1, 1, 1]> (x)"), &["pads", "[1, 1, 1]", "3", "4"]),
        (image, "Conv <strides = [0, 0]> (x, w)".to_owned(), &["strides", "0", "at least 1"]),
        (image, "Conv <dilations = [1, 0]> (x, w)".to_owned(), &["dilations", "0", "at least 1"]),
        (image, "Conv <group = 0> (x, w)".to_owned(), &["group", "0", "at least 1"]),
        (image, "Conv <group = -2> (x, w)".to_owned(), &["group", "-2", "at least 1"]),
        (image, "Conv <pads = [1, 1, 1]> (x, w)".to_owned(), &["pads", "[1, 1, 1]", "3", "4"]),
        (image, "Conv <kernel_shape = [5, 5]> (x, w)".to_owned(), &["kernel_shape", "[5, 5]", "3×3"]),
        (image, "Conv <kernel_shape = [3]> (x, w)".to_owned(), &["kernel_shape", "[3]", "2"]),
        (image, "Conv <auto_pad = \"FULL\"> (x, w)".to_owned(), &["auto_pad", "FULL", "SAME_UPPER"]),
        ("float[2, 3] x", "Transpose <perm = [0, 0]> (x)".to_owned(), &["perm", "[0, 0]"]),
        ("float[2, 3] x", "Transpose <perm = [0, 2]> (x)".to_owned(), &["perm", "[0, 2]"]),
        ("float[2, 3] x", "Transpose <perm = [0, 1, 2]> (x)".to_owned(), &["perm", "[0, 1, 2]", "2"]),
        ("float[2, 3] x", "Concat <axis = 7> (x, x)".to_owned(), &["axis", "7", "-2", "1"]),
        ("float[2, 3] x", "Concat <axis = -3> (x, x)".to_owned(), &["axis", "-3", "-2", "1"]),
        ("float[2, 3] x", "Softmax <axis = 2> (x)".to_owned(), &["axis", "2", "-2", "1"]),
        ("float[2, 3] x", "Flatten <axis = 3> (x)".to_owned(), &["axis", "3", "-2", "2"]),
        ("float[2, 3] x, int64[1] i", "Gather <axis = 2> (x, i)".to_owned(), &["axis", "2", "-2", "1"]),
        ("float[2, 3] x", "LpPool <kernel_shape = [0]> (x)".to_owned(), &["kernel_shape", "0", "at least 1"]),
        ("float[2, 3] x", "Split <num_outputs = 0> (x)".to_owned(), &["num_outputs", "0"]),
        ("float[1, 4, 4, 4] x", "DepthToSpace <blocksize = 0> (x)".to_owned(), &["blocksize", "0", "1"]),
        ("float[1, 4, 4, 4] x", "SpaceToDepth <blocksize = -2> (x)".to_owned(), &["blocksize", "-2", "1"]),
    ] {
        let model = text(&opset(18, &format!("g ({inputs}) => (y) {{ [odd] y = {node} }}")));
        let errors = at_level(&model, Level::Error);
        assert_eq!(errors.len(), 1, "{node}: {:#?}", model.diagnostics);
        assert!(at_level(&model, Level::Warning).is_empty(), "{node}: {:#?}", model.diagnostics);
        assert_says(errors[0], &["\"odd\""]);
        assert_says(errors[0], words);
        assert_eq!(errors[0].places[0].node.as_deref(), Some("odd"));
        assert_eq!(layer(&model, "odd").flops.forward, None);
        assert_eq!(layer(&model, "odd").macs, None);
        assert!(named(&model, "data-dependent-shape").is_empty(), "{node}");
    }
}

/// Case 109.
#[test]
fn channels_last_data_in_a_channels_first_conv_is_named() {
    let conv = |input: &str, weight: &str| {
        text(&opset(18, &format!("g (float[{input}] x, float[{weight}] w) => (y) {{ [conv] y = Conv (x, w) }}")))
    };
    let model = conv("1, 32, 32, 3", "8, 3, 3, 3");
    let error = only_error(&model, "shape-mismatch");
    assert_says(error, &["\"conv\"", "input has 32 channels, weight wants 3; the last dim is 3: channels-last data?"]);
    assert_eq!(shape(&model, "y"), "?");
    let model = conv("1, 32, 32, 5", "8, 3, 3, 3");
    let error = only_error(&model, "shape-mismatch");
    assert_says(error, &["input has 32 channels, weight wants 3"]);
    assert!(!error.message.contains("channels-last"), "{error:#?}");
}

/// Levels of `If` inside `If`, as text.
fn nested_text(levels: usize) -> String {
    let mut inner = "q0 = Relu (x)".to_owned();
    for level in 1..=levels {
        let last = level - 1;
        inner = format!(
            "q{level} = If <then_branch = t{level} () => (q{last}) {{ {inner} }}, \
             else_branch = e{level} () => (r{level}) {{ r{level} = Neg (x) }}> (c)"
        );
    }
    opset(18, &format!("g (bool c, float[2] x) => (q{levels}) {{ {inner} }}"))
}

/// The same as bytes.
fn nested_bytes(levels: usize) -> Vec<u8> {
    let mut inner = node("Relu", &["x"], &["q0"]);
    for level in 1..=levels {
        let body = |node: &Proto, name: &str, output: &str| {
            let output = Proto::new().bytes(1, output);
            Proto::new().message(1, node).bytes(2, name).message(12, &output)
        };
        let branch = |name: &str, graph: &Proto| Proto::new().bytes(1, name).message(6, graph).int(20, 5);
        let last = format!("q{}", level - 1);
        let other = format!("r{level}");
        let then = body(&inner, "t", &last);
        let otherwise = body(&node("Neg", &["x"], &[&other]), "e", &other);
        inner = node("If", &["c"], &[&format!("q{level}")])
            .message(5, &branch("then_branch", &then))
            .message(5, &branch("else_branch", &otherwise));
    }
    let graph = Proto::new()
        .message(1, &inner)
        .bytes(2, "g")
        .message(11, &support::value("c", 9, &[]))
        .message(11, &float_value("x", &[2]))
        .message(12, &float_value(&format!("q{levels}"), &[2]));
    model(18, &graph).0
}

fn assert_nesting(check: fn(usize) -> Model) {
    for levels in [1, 31, 32] {
        let model = check(levels);
        assert_clean(&model);
        assert_eq!(shape(&model, &format!("q{levels}")), "[2]", "{levels} levels");
    }
    for levels in [33, 60, 200, 2000] {
        let model = check(levels);
        let errors = at_level(&model, Level::Error);
        assert!(
            errors.iter().any(|error| error.message.contains("nested deeper than 32 graphs")),
            "{levels}: {errors:#?}"
        );
    }
}

/// Case 110.
#[test]
fn thirty_two_nested_graphs_work_and_more_are_an_error() {
    assert_nesting(|levels| bytes(&nested_bytes(levels)));
    assert_nesting(|levels| text(&nested_text(levels)));
    unreadable(&bytes(&nested_bytes(60)), "nested-too-deep");
    let (status, printed) = Folder::new().status("model.onnx", &nested_bytes(60));
    assert_eq!(status, 1);
    assert!(printed.contains("nested deeper than 32 graphs"), "{printed}");
}

/// Case 110: with the stack that a thread has.
#[test]
fn nesting_fits_the_stack_of_a_thread() {
    for check in [|levels| bytes(&nested_bytes(levels)), |levels| text(&nested_text(levels))] as [fn(usize) -> Model; 2]
    {
        std::thread::Builder::new().stack_size(2 << 20).spawn(move || assert_nesting(check)).unwrap().join().unwrap();
    }
}

/// Case 111.
#[test]
fn inputs_that_are_left_out_are_not_dangling() {
    let model = text(&opset(18, "g (float[2] x, float hi) => (y) { y = Clip (x, , hi) }"));
    assert_silent(&model);
    assert_eq!(shape(&model, "y"), "[2]");
    let file = Proto::new()
        .message(1, &node("Clip", &["x", "", "hi"], &["y"]))
        .bytes(2, "g")
        .message(11, &float_value("x", &[2]))
        .message(11, &float_value("hi", &[]))
        .message(12, &float_value("y", &[2]));
    assert_silent(&bytes(&support::model(18, &file).0));
    let trailing = text(&opset(18, "g (float[2] x) => (y) { y = Clip (x, \"\", \"\") }"));
    assert_silent(&trailing);
    let outputs = text(&opset(18, "g (float[2, 4] x, int64[1] k) => (i) { , i = TopK (x, k) }"));
    assert_clean(&outputs);
}

/// Case 111: too few and too many.
#[test]
fn the_number_of_inputs_is_checked() {
    for (node, words) in [
        ("Conv (x)", &["Conv", "2", "1 given"][..]),
        ("Conv (x, )", &["Conv", "2", "1 given"]),
        ("Conv (, x)", &["Conv", "2", "1 given"]),
        ("Conv (x, x, b, x)", &["Conv", "at most 3", "4 given"]),
        ("Relu ()", &["Relu", "1", "0 given"]),
        ("Relu (x, x)", &["Relu", "at most 1", "2 given"]),
        ("Add (x)", &["Add", "2", "1 given"]),
        ("MatMul (x, x, x)", &["MatMul", "at most 2", "3 given"]),
        ("Where (b, x)", &["Where", "3", "2 given"]),
    ] {
        let model = text(&opset(18, &format!("g (float[1, 1, 3, 3] x, float[1] b) => (y) {{ [n] y = {node} }}")));
        let error = only_error(&model, "wrong-arity");
        assert_says(error, &["\"n\""]);
        assert_says(error, words);
        assert_eq!(error.places[0].node.as_deref(), Some("n"));
    }
}
