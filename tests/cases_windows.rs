//! Whole-program answers to CASES.md, group 2: shapes of pools and convolutions. Where onnx shape inference and
//! onnxruntime differ, the case says who is right.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use support::{
    assert_clean, assert_says, assert_silent, layer, macs, named, only_error, only_warning, opset, shape, text,
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
