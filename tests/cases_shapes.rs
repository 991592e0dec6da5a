//! Whole-program answers to CASES.md, group 2: shapes of all other operators; those of windows are in `cases_windows`, what
//! spans a graph in `cases_symbols`. Where onnx shape inference and onnxruntime differ, the case says who is right.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use support::{
    assert_clean, assert_says, assert_silent, flops, graph, macs, named, only_error, opset, shape, tensor, text,
};

/// Shape of `y` of a one-node model; nothing may be found above a note.
#[track_caller]
fn one_node(version: u32, inputs: &str, initializers: &str, node: &str) -> String {
    let model = text(&opset(version, &format!("g ({inputs}) => (y) <{initializers}> {{ y = {node} }}")));
    assert_clean(&model);
    shape(&model, "y")
}

fn resize(version: u32, input: &str, initializers: &str, node: &str) -> String {
    opset(version, &format!("g (float[{input}] x) => (y) <{initializers}> {{ y = {node} }}"))
}

/// Case 18.
#[test]
fn scales_are_multiplied_in_single_precision_as_runtimes_do_and_it_is_said() {
    let model =
        text(&resize(18, "1, 1, 10, 10", "float[4] s = {1, 1, 0.7, 1.3}", "Resize <mode = \"nearest\"> (x, , s)"));
    assert_clean(&model);
    assert_eq!(shape(&model, "y"), "[1, 1, 7, 13]");
    let notes = named(&model, "runtimes-differ");
    let said: String = notes.iter().map(|finding| finding.message.as_str()).collect();
    for words in ["10 × 0.7", "7", "6", "10 × 1.3", "13", "12", "single precision"] {
        assert!(said.contains(words), "{said}");
    }
    // Where both give the same there is nothing to say.
    assert_silent(&text(&resize(18, "1, 1, 10, 10", "float[4] s = {1, 1, 0.5, 1.5}", "Resize (x, , s)")));
}

/// Case 19.
#[test]
fn an_aspect_ratio_that_is_kept_rounds_half_up() {
    let node = |policy: &str| format!("Resize <axes = [2, 3], keep_aspect_ratio_policy = \"{policy}\"> (x, , , sizes)");
    let sizes = "int64[2] sizes = {9, 9}";
    for (policy, expected) in
        [("not_larger", "[1, 1, 7, 9]"), ("not_smaller", "[1, 1, 9, 12]"), ("stretch", "[1, 1, 9, 9]")]
    {
        assert_eq!(one_node(18, "float[1, 1, 6, 8] x", sizes, &node(policy)), expected);
    }
    // 6 * 1.25 = 7.5 is rounded up.
    assert_eq!(one_node(18, "float[1, 1, 6, 8] x", "int64[2] sizes = {10, 10}", &node("not_larger")), "[1, 1, 8, 10]");
}

/// Case 20.
#[test]
fn an_empty_constant_counts_as_not_given() {
    let given = "float[0] roi = {}, float[0] scales = {}, int64[4] sizes = {1, 1, 8, 8}";
    let model = text(&resize(11, "1, 1, 4, 4", given, "Resize (x, roi, scales, sizes)"));
    assert_silent(&model);
    assert_eq!(shape(&model, "y"), "[1, 1, 8, 8]");
    let nodes = "roi = Constant <value = float[0] {}> () scales = Constant <value = float[0] {}> ()";
    let model = text(&opset(
        11,
        &format!(
            "g (float[1, 1, 4, 4] x) => (y) <int64[4] sizes = {{1, 1, 8, 8}}> {{ {nodes} y = Resize (x, roi, scales, sizes) }}"
        ),
    ));
    assert_silent(&model);
    assert_eq!(shape(&model, "y"), "[1, 1, 8, 8]");
}

/// Case 21.
#[test]
fn a_copied_dim_of_reshape_is_part_of_the_product() {
    let to = |input: &str, target: &str| {
        let count = target.split(',').count();
        one_node(18, &format!("float[{input}] x"), &format!("int64[{count}] s = {{{target}}}"), "Reshape (x, s)")
    };
    assert_eq!(to("2, 3, 4", "0, -1"), "[2, 12]");
    assert_eq!(to("2, 3, 4", "-1, 0"), "[8, 3]");
    assert_eq!(to("2, 3, 4", "0, 0, 2, -1"), "[2, 3, 2, 2]");
    assert_eq!(to("N, 3, 4", "0, -1"), "[N, 12]");
    assert_eq!(to("N, 3, 4", "-1, 4"), "[3*N, 4]");
}

/// Case 22.
#[test]
fn allowzero_means_a_true_zero() {
    let model = |attributes: &str| {
        text(&opset(
            18,
            &format!(
                "g (float[0, 8, 2] x) => (y) <int64[3] s = {{0, 0, 4}}> {{ r = Reshape {attributes} (x, s) y = Relu (r) }}"
            ),
        ))
    };
    let zero = model("<allowzero = 1>");
    assert_clean(&zero);
    assert_eq!(shape(&zero, "y"), "[0, 0, 4]");
    assert_eq!((macs(&zero), flops(&zero)), (0, 0));
    assert_eq!(graph(&zero).bytes, Some(0));
    assert_eq!(shape(&model(""), "y"), "[0, 8, 4]");
}

/// Case 22: zero elements through operators that divide and multiply.
#[test]
fn empty_tensors_cost_nothing_and_divide_nothing() {
    let model = text(&opset(
        18,
        "g (float[0, 4] x, float[4, 3] w) => (y, z) <int64[2] s = {-1, 3}> {
            a = MatMul (x, w)
            b = Softmax (a)
            z = ReduceMean <keepdims = 0> (b)
            y = Concat <axis = 0> (b, a)
        }",
    ));
    assert_clean(&model);
    assert_eq!(shape(&model, "y"), "[0, 3]");
    assert_eq!(macs(&model), 0);
}

#[track_caller]
fn slice(input: &str, starts: &str, ends: &str, axes: &str, steps: &str) -> String {
    let count = starts.split(',').count();
    let tensor = |name: &str, values: &str| format!("int64[{count}] {name} = {{{values}}}");
    let given =
        [tensor("starts", starts), tensor("ends", ends), tensor("axes", axes), tensor("steps", steps)].join(", ");
    one_node(18, &format!("float[{input}] x"), &given, "Slice (x, starts, ends, axes, steps)")
}

/// Case 23.
#[test]
fn slices_saturate_at_the_ends_of_int64() {
    assert_eq!(slice("5, 4", "-1", "-9223372036854775808", "0", "-1"), "[5, 4]");
    assert_eq!(slice("5, 4", "9223372036854775807", "-9223372036854775808", "0", "-2"), "[3, 4]");
    assert_eq!(slice("5, 4", "-9223372036854775808", "9223372036854775807", "0", "9223372036854775807"), "[1, 4]");
    assert_eq!(slice("5, 4", "4", "-9223372036854775807", "0", "-9223372036854775808"), "[1, 4]");
    assert_eq!(slice("N, 4", "-1", "-9223372036854775808", "0", "-1"), "[N, 4]");
}

/// Case 24.
#[test]
fn a_step_rounds_the_length_up() {
    let whole = "9223372036854775807, 9223372036854775807";
    assert_eq!(slice("1, 3, 640, 640", "0, 2", whole, "2, 3", "2, 2"), "[1, 3, 320, 319]");
    assert_eq!(slice("1, 3, 641, 640", "0, 1", whole, "2, 3", "2, 3"), "[1, 3, 321, 213]");
}

#[track_caller]
fn einsum(equation: &str, left: &str, right: &str) -> (String, i128) {
    let body =
        format!("g (float[{left}] a, float[{right}] b) => (y) {{ y = Einsum <equation = \"{equation}\"> (a, b) }}");
    let model = text(&opset(18, &body));
    assert_silent(&model);
    (shape(&model, "y"), macs(&model))
}

/// Case 25.
#[test]
fn ellipsis_dims_of_einsum_broadcast() {
    assert_eq!(einsum("...ik,...kj->...ij", "1, 2, 3", "4, 3, 5"), ("[4, 2, 5]".to_owned(), 120));
    assert_eq!(einsum("...ik, ...kj -> ...ij", "4, 2, 3", "3, 5"), ("[4, 2, 5]".to_owned(), 120));
    assert_eq!(einsum("...ik,...kj", "1, 2, 3", "4, 3, 5"), ("[4, 2, 5]".to_owned(), 120));
}

/// Case 26: without an arrow the letters that occur once stay, in alphabetical order.
#[test]
fn an_einsum_without_arrow_sums_the_letters_that_occur_twice() {
    assert_eq!(einsum("bij,bjk", "2, 3, 4", "2, 4, 5"), ("[3, 5]".to_owned(), 120));
    assert_eq!(einsum("ki,kj", "2, 3", "2, 5"), ("[3, 5]".to_owned(), 30));
    assert_eq!(einsum("zb,ba", "2, 3", "3, 5").0, "[5, 2]");
}

/// Case 27.
#[test]
fn a_vector_in_matmul_gains_and_loses_its_dim() {
    for (left, right, output, count) in [
        ("[3]", "[2, 3, 4]", "[2, 4]", 24),
        ("[2, 3]", "[3]", "[2]", 6),
        ("[3]", "[3]", "[]", 3),
        ("[5, 2, 3]", "[3]", "[5, 2]", 30),
        ("[3]", "[3, 4]", "[4]", 12),
    ] {
        let model = text(&opset(18, &format!("g (float{left} a, float{right} b) => (y) {{ y = MatMul (a, b) }}")));
        assert_silent(&model);
        assert_eq!((shape(&model, "y").as_str(), macs(&model)), (output, count), "{left} x {right}");
    }
}

/// Case 28.
#[test]
fn a_scalar_index_removes_the_axis() {
    let model = text(&opset(
        18,
        "g (float[5, 4] x) => (y, y2, y3) <int64 k = {2}> {
            i = Constant <value_int = 1> ()
            j = Constant <value_ints = [1]> ()
            y = Gather <axis = 0> (x, i)
            y2 = Gather <axis = 0> (x, j)
            y3 = Gather <axis = 1> (x, k)
        }",
    ));
    assert_silent(&model);
    assert_eq!(shape(&model, "y"), "[4]");
    assert_eq!(shape(&model, "y2"), "[1, 4]");
    assert_eq!(shape(&model, "y3"), "[5]");
    assert_eq!(tensor(&model, "k"), "[]");
}

/// Case 29.
#[test]
fn shapes_that_do_not_broadcast_are_an_error_and_the_rest_is_priced() {
    let model = text(&opset(
        18,
        "g (float[3, 4] x, float[3] z, float[5, 5] w) => (y, y2) { [add0] y = Add (x, z) [mm] y2 = MatMul (w, w) }",
    ));
    let error = only_error(&model, "shape-mismatch");
    assert_says(error, &["add0", "3×4", "last dims 4 and 3 differ"]);
    assert!(error.help.as_deref().unwrap().contains("[3, 1]"), "{error:#?}");
    assert_eq!(macs(&model), 125);
    assert_eq!(shape(&model, "y2"), "[5, 5]");
    assert_eq!(shape(&model, "y"), "?");
    assert_eq!(graph(&model).coverage.layers_not_counted, 1);
}

/// Case 29: other operators and axes.
#[test]
fn every_elementwise_operator_names_the_dims_that_differ() {
    for (op, left, right, words) in [
        ("Mul", "2, 3, 4", "2, 4", &["3", "2"][..]),
        ("Sub", "8, 16", "8", &["16", "8"]),
        ("Pow", "4, 5", "3, 5", &["4", "3"]),
        ("Div", "N, 5", "N, 6", &["5", "6"]),
    ] {
        let model =
            text(&opset(18, &format!("g (float[{left}] x, float[{right}] z) => (y) {{ [n] y = {op} (x, z) }}")));
        let error = only_error(&model, "shape-mismatch");
        assert_says(error, &["\"n\"", op]);
        assert_says(error, words);
    }
}

/// Case 30.
#[test]
fn upsample_of_old_files_still_has_its_shape() {
    let scales = "float[4] s = {1, 1, 1.5, 2}";
    assert_eq!(one_node(9, "float[1, 1, 5, 5] x", scales, "Upsample <mode = \"nearest\"> (x, s)"), "[1, 1, 7, 10]");
    let attribute = "Upsample <mode = \"nearest\", scales = [1.0, 1.0, 1.5, 2.0]> (x)";
    assert_eq!(one_node(7, "float[1, 1, 5, 5] x", "", attribute), "[1, 1, 7, 10]");
    assert_eq!(one_node(10, "float[1, 1, 5, 5] x", scales, "Upsample (x, s)"), "[1, 1, 7, 10]");
}

/// Case 31.
#[test]
fn squeeze_before_opset_13_reads_its_axes_from_the_attribute() {
    for version in [1, 11, 12] {
        let node = |axes: &str| one_node(version, "float[1, 3, 1, 5] x", "", &format!("Squeeze <axes = [{axes}]> (x)"));
        assert_eq!(node("0"), "[3, 1, 5]");
        assert_eq!(node("0, 2"), "[3, 5]");
    }
    assert_eq!(one_node(11, "float[1, 3, 1, 5] x", "", "Squeeze <axes = [-2]> (x)"), "[1, 3, 5]");
    assert_eq!(one_node(11, "float[1, 3, 1, 5] x", "", "Squeeze (x)"), "[3, 5]");
    assert_eq!(one_node(13, "float[1, 3, 1, 5] x", "int64[1] a = {0}", "Squeeze (x, a)"), "[3, 1, 5]");
    assert_eq!(one_node(11, "float[3, 5] x", "", "Unsqueeze <axes = [0, 3]> (x)"), "[1, 3, 5, 1]");
}

/// Case 32: ReduceSum changed at 13, the others at 18.
#[test]
fn axes_of_reductions_move_to_an_input_at_their_own_versions() {
    let model = text(&opset(
        13,
        "g (float[2, 3, 4] x) => (y, y2) <int64[1] a = {1}> { y = ReduceMean <axes = [1]> (x) y2 = ReduceSum (x, a) }",
    ));
    assert_silent(&model);
    assert_eq!(shape(&model, "y"), "[2, 1, 4]");
    assert_eq!(shape(&model, "y2"), "[2, 1, 4]");
    for op in ["ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"] {
        for version in [11, 13, 17] {
            let node = format!("{op} <axes = [-2], keepdims = 0> (x)");
            assert_eq!(one_node(version, "float[2, 3, 4] x", "", &node), "[2, 4]", "{op} {version}");
        }
        assert_eq!(one_node(18, "float[2, 3, 4] x", "int64[1] a = {1}", &format!("{op} (x, a)")), "[2, 1, 4]");
    }
    assert_eq!(one_node(11, "float[2, 3, 4] x", "", "ReduceSum <axes = [1]> (x)"), "[2, 1, 4]");
}

/// Case 33.
#[test]
fn softmax_keeps_its_shape_whatever_its_default_axis() {
    for version in [1, 11, 12, 13, 18] {
        assert_eq!(one_node(version, "float[1, 1000, 4, 5] x", "", "Softmax (x)"), "[1, 1000, 4, 5]");
    }
}
