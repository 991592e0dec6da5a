//! Whole-program answers to CASES.md, group 2: shapes. Where onnx shape inference and onnxruntime differ, the case says
//! who is right.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use dlcost::engine::CheckOptions;
use support::{
    assert_clean, assert_says, assert_silent, bounds, flops, graph, inference, layer, macs, named, only_error,
    only_warning, opset, parameters, shape, tensor, text, text_at, text_with,
};

/// Shape of `y` of a one-node model; nothing may be found above a note.
#[track_caller]
fn one_node(version: u32, inputs: &str, initializers: &str, node: &str) -> String {
    let model = text(&opset(version, &format!("g ({inputs}) => (y) <{initializers}> {{ y = {node} }}")));
    assert_clean(&model);
    shape(&model, "y")
}

#[track_caller]
fn pool(version: u32, input: &str, attributes: &str) -> String {
    one_node(version, &format!("float[{input}] x"), "", &format!("MaxPool <{attributes}> (x)"))
}

/// Case 9.
#[test]
fn ceil_mode_pool_does_not_start_a_window_in_padding() {
    let attributes = "kernel_shape = [2, 2], strides = [2, 2], pads = [1, 1, 1, 1], ceil_mode = 1";
    assert_eq!(pool(22, "1, 1, 5, 5", attributes), "[1, 1, 3, 3]");
    // Another size, where the last window starts in the data.
    assert_eq!(pool(22, "1, 1, 6, 5", attributes), "[1, 1, 4, 3]");
    let average = format!("AveragePool <{attributes}> (x)");
    assert_eq!(one_node(19, "float[1, 1, 5, 5] x", "", &average), "[1, 1, 3, 3]");
    let lp = format!("LpPool <{attributes}> (x)");
    assert_eq!(one_node(18, "float[1, 1, 5, 5] x", "", &lp), "[1, 1, 3, 3]");
}

/// Case 10.
#[test]
fn ceil_mode_with_kernel_1_drops_the_window_behind_the_data() {
    let attributes = "kernel_shape = [1, 1], strides = [2, 2], ceil_mode = 1";
    assert_eq!(pool(22, "4, 4, 12, 12", attributes), "[4, 4, 6, 6]");
    assert_eq!(pool(22, "4, 4, 13, 12", attributes), "[4, 4, 7, 6]");
    assert_eq!(pool(22, "1, 1, 10", "kernel_shape = [1], strides = [3], ceil_mode = 1"), "[1, 1, 4]");
}

const THREE_AXES: &str =
    "MaxPool <kernel_shape = [3, 3, 3], strides = [3, 3, 3], pads = [1, 1, 1, 1, 1, 1], ceil_mode = 1> (x)";

/// Case 11.
#[test]
fn the_rule_of_ceil_mode_holds_per_axis_and_for_old_opsets() {
    for version in [10, 11, 12, 14, 22] {
        assert_eq!(one_node(version, "float[1, 2, 3, 6, 5] x", "", THREE_AXES), "[1, 2, 2, 3, 2]");
    }
}

/// Case 11: what the exporter declares.
#[test]
fn a_declared_extra_window_is_a_warning_and_the_computed_shape_wins() {
    let model =
        text(&opset(14, &format!("g (float[1, 2, 3, 6, 5] x) => (float[1, 2, 2, 3, 3] y) {{ y = {THREE_AXES} }}")));
    assert_says(only_warning(&model, "declared-shape-wrong"), &["\"y\"", "1×2×2×3×3", "1×2×2×3×2"]);
    assert_eq!(shape(&model, "y"), "[1, 2, 2, 3, 2]");
}

/// Case 12.
#[test]
fn valid_padding_means_zero_padding_and_then_the_rule_of_ceil_mode() {
    let attributes = "kernel_shape = [2, 2], strides = [2, 2], auto_pad = \"VALID\"";
    assert_eq!(pool(22, "1, 1, 5, 5", &format!("{attributes}, ceil_mode = 1")), "[1, 1, 3, 3]");
    assert_eq!(pool(22, "1, 1, 5, 5", attributes), "[1, 1, 2, 2]");
}

/// Case 13.
#[test]
fn same_padding_counts_the_dilated_kernel() {
    for side in ["SAME_UPPER", "SAME_LOWER"] {
        let node =
            format!("Conv <kernel_shape = [3, 3], dilations = [2, 2], strides = [3, 3], auto_pad = \"{side}\"> (x, w)");
        assert_eq!(one_node(18, "float[1, 2, 10, 10] x, float[2, 2, 3, 3] w", "", &node), "[1, 2, 4, 4]");
    }
    let attributes = "kernel_shape = [3, 3], dilations = [2, 1], strides = [3, 2], auto_pad = \"SAME_LOWER\"";
    assert_eq!(pool(18, "1, 2, 11, 9", attributes), "[1, 2, 4, 5]");
}

/// Case 14.
#[test]
fn a_kernel_larger_than_the_padded_input_is_an_error_at_every_stride() {
    for stride in [1, 2, 3, 7] {
        let model = text(&opset(
            18,
            &format!(
                "g (float[1, 1, 2, 2] x) => (y) {{
                    [pool] p = MaxPool <kernel_shape = [3, 3], strides = [{stride}, {stride}]> (x)
                    [relu] r = Relu (p)
                    y = Flatten (r)
                }}"
            ),
        ));
        let error = only_error(&model, "shape-mismatch");
        assert_says(error, &["pool", "kernel 3 does not fit padded input 2"]);
        assert_eq!(error.places[0].node.as_deref(), Some("pool"));
        for key in ["pool", "relu"] {
            assert_eq!(layer(&model, key).output_shape, None, "{key}");
            assert_eq!(layer(&model, key).flops.forward, None, "{key}");
        }
    }
    let two = text(&opset(
        18,
        "g (float[1, 1, 2, 2] x) => (y, y2) {
            y = MaxPool <kernel_shape = [3, 3]> (x)
            y2 = MaxPool <kernel_shape = [3, 3], strides = [3, 3]> (x)
        }",
    ));
    assert_eq!(named(&two, "shape-mismatch").len(), 2);
}

/// Case 14: convolutions, dilated kernels, padding that does not suffice.
#[test]
fn a_conv_whose_kernel_does_not_fit_is_an_error() {
    for (input, node, words) in [
        ("1, 1, 2, 9", "Conv (x, w)", "kernel 3 does not fit padded input 2"),
        ("1, 1, 4, 4", "Conv <dilations = [2, 2]> (x, w)", "kernel 3 (dilated to 5) does not fit padded input 4"),
        ("1, 1, 1, 1", "Conv <pads = [0, 1, 1, 1]> (x, w)", "kernel 3 does not fit padded input 2"),
    ] {
        let model = text(&opset(18, &format!("g (float[{input}] x, float[1, 1, 3, 3] w) => (y) {{ y = {node} }}")));
        assert_says(only_error(&model, "shape-mismatch"), &[words]);
    }
    let fits = "Conv <pads = [1, 1, 1, 1]> (x, w)";
    assert_eq!(one_node(18, "float[1, 1, 1, 1] x, float[1, 1, 3, 3] w", "", fits), "[1, 1, 1, 1]");
}

#[track_caller]
fn transposed(input: &str, attributes: &str) -> String {
    let inputs = format!("float[1, 1, {input}] x, float[1, 1, 3, 3] w");
    one_node(18, &inputs, "", &format!("ConvTranspose <{attributes}> (x, w)"))
}

/// Case 15.
#[test]
fn output_padding_adds_to_one_side_of_a_transposed_conv() {
    assert_eq!(transposed("3, 3", "strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]"), "[1, 1, 6, 6]");
    assert_eq!(transposed("3, 4", "strides = [2, 3], pads = [1, 0, 1, 0], output_padding = [0, 2]"), "[1, 1, 5, 14]");
}

/// Case 16.
#[test]
fn same_padding_of_a_transposed_conv_multiplies_by_the_stride() {
    for side in ["SAME_UPPER", "SAME_LOWER"] {
        assert_eq!(transposed("5, 5", &format!("strides = [2, 2], auto_pad = \"{side}\"")), "[1, 1, 10, 10]");
        assert_eq!(transposed("32, 7", &format!("strides = [1, 3], auto_pad = \"{side}\"")), "[1, 1, 32, 21]");
    }
}

/// Case 17.
#[test]
fn a_transposed_conv_takes_the_output_shape_it_is_given() {
    let model = text(&opset(
        18,
        "g (float[1, 1, 16, 16] x, float[1, 1, 3, 3] w) => (y) {
            y = ConvTranspose <kernel_shape = [3, 3], strides = [2, 2], output_shape = [32, 32]> (x, w)
        }",
    ));
    assert_silent(&model);
    assert_eq!(shape(&model, "y"), "[1, 1, 32, 32]");
    assert_eq!(macs(&model), 2_304);
}

/// Case 17: all four dims, as some models give them.
#[test]
fn an_output_shape_with_batch_and_channels_is_a_warning() {
    let model = text(&opset(
        18,
        "g (float[1, 1, 16, 16] x, float[1, 1, 3, 3] w) => (y) {
            [up] y = ConvTranspose <kernel_shape = [3, 3], strides = [2, 2], output_shape = [1, 1, 32, 32]> (x, w)
        }",
    ));
    let warning = only_warning(&model, "nonstandard-attribute");
    assert_says(warning, &["output_shape"]);
    assert_eq!(warning.places[0].node.as_deref(), Some("up"));
    assert_eq!(shape(&model, "y"), "[1, 1, 32, 32]");
    assert_eq!(macs(&model), 2_304);
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
