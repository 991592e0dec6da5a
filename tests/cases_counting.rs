//! Whole-program answers to CASES.md, group 3: counting operations and parameters. 1 MAC = 2 FLOPs; bias adds and
//! activations are FLOPs only.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use dlcost::engine::{CheckOptions, Mode};
use dlcost::report::Model;
use support::{
    Folder, assert_clean, assert_silent, flops, graph, inference, layer, macs, named, only_warning, opset, parameters,
    shape, text, text_at, text_with, zeros,
};

fn training() -> CheckOptions {
    CheckOptions { mode: Mode::Train, ..inference() }
}

/// MACs, FLOPs and parameters of a silent model.
#[track_caller]
fn counts(model: &Model) -> (i128, i128, i128) {
    assert_silent(model);
    (macs(model), flops(model), parameters(model))
}

/// A stored tensor whose payload is left out.
fn weight(name: &str, dims: &[u64]) -> String {
    let list: Vec<_> = dims.iter().map(u64::to_string).collect();
    let bytes = dims.iter().product::<u64>() * 4;
    format!("float[{}] {name} = [\"location\": \"w.bin\", \"offset\": \"0\", \"length\": \"{bytes}\"]", list.join(", "))
}

const STEM: &str = "Conv <kernel_shape = [7, 7], strides = [2, 2], pads = [3, 3, 3, 3]> (x, W, b)";

/// Case 44: the weight comes from a ConstantOfShape node.
#[test]
fn the_bias_of_a_conv_counts_as_flops_only() {
    let model = text(&opset(
        18,
        &format!(
            "g (float[1, 3, 224, 224] x) => (y) <int64[4] ws = {{64, 3, 7, 7}}, float[64] b = {}> {{
                W = ConstantOfShape (ws)
                [conv] y = {STEM}
            }}",
            zeros(64)
        ),
    ));
    assert_silent(&model);
    assert_eq!(macs(&model), 118_013_952);
    assert_eq!(layer(&model, "conv").flops.forward, Some(236_027_904 + 802_816));
    assert_eq!(shape(&model, "y"), "[1, 64, 112, 112]");
}

/// Case 44: with a stored weight, and the words of the units.
#[test]
fn units_are_written_in_full_words() {
    let body = format!(
        "g (float[1, 3, 224, 224] x) => (y) <{}, float[64] b = {}> {{ y = {STEM} }}",
        weight("W", &[64, 3, 7, 7]),
        zeros(64)
    );
    let folder = Folder::with(&[("w.bin", &[0; 9_408 * 4])]);
    let model = folder.check(&opset(18, &body));
    assert_eq!(counts(&model), (118_013_952, 236_830_720, 9_408 + 64));
    let (status, printed) = folder.status("m.onnxtxt", opset(18, &body).as_bytes());
    assert_eq!(status, 0);
    for words in ["118 MMACs", "237 MFLOPs", "9.47 K parameters"] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
}

/// Case 45.
#[test]
fn a_depthwise_conv_counts_one_channel_per_filter() {
    let conv = |group: u32, weight: &str, values: usize| {
        text(&opset(
            18,
            &format!(
                "g (float[1, 32, 112, 112] x) => (y) <float[{weight}] W = {}> {{
                    y = Conv <group = {group}, pads = [1, 1, 1, 1]> (x, W)
                }}",
                zeros(values)
            ),
        ))
    };
    assert_eq!(counts(&conv(32, "32, 1, 3, 3", 288)), (3_612_672, 2 * 3_612_672, 288));
    assert_eq!(counts(&conv(1, "32, 32, 3, 3", 9_216)), (115_605_504, 2 * 115_605_504, 9_216));
    assert_eq!(counts(&conv(4, "32, 8, 3, 3", 2_304)).0, 115_605_504 / 4);
}

/// Case 46.
#[test]
fn a_transposed_conv_is_counted_by_its_input() {
    let model = text(&opset(
        18,
        &format!(
            "g (float[1, 3, 2, 2] x) => (y) <float[3, 1, 2, 2] W = {}, float[1] b = {{0}}> {{
                y = ConvTranspose <strides = [2, 2]> (x, W, b)
            }}",
            zeros(12)
        ),
    ));
    assert_eq!(counts(&model), (48, 2 * 48 + 16, 13));
    assert_eq!(shape(&model, "y"), "[1, 1, 4, 4]");
    let model = text(&opset(18, "g (float[1, 32, 1, 1] x, float[32, 1, 3, 3] w) => (y) { y = ConvTranspose (x, w) }"));
    assert_eq!(counts(&model), (288, 576, 0));
}

/// Case 47.
#[test]
fn groups_of_a_transposed_conv_divide_once() {
    let model = text(&opset(
        18,
        &format!(
            "g (float[2, 4, 8, 8] x) => (y) <float[4, 1, 3, 3] W = {}, float[4] b = {}> {{
                y = ConvTranspose <group = 4, strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]> (x, W, b)
            }}",
            zeros(36),
            zeros(4)
        ),
    ));
    assert_eq!(counts(&model), (4_608, 11_264, 40));
    assert_eq!(shape(&model, "y"), "[2, 4, 16, 16]");
}

/// Case 48.
#[test]
fn a_batched_matrix_product_counts_every_batch_at_2k() {
    for (left, right, output, expected) in [
        ("2, 25, 16", "2, 16, 9", "[2, 25, 9]", 7_200),
        ("25, 16", "16, 9", "[25, 9]", 3_600),
        ("2, 25, 16", "16, 9", "[2, 25, 9]", 7_200),
        ("3, 1, 25, 16", "2, 16, 9", "[3, 2, 25, 9]", 21_600),
    ] {
        let model = text(&opset(18, &format!("g (float[{left}] a, float[{right}] b) => (y) {{ y = MatMul (a, b) }}")));
        assert_eq!(counts(&model), (expected, 2 * expected, 0));
        assert_eq!(shape(&model, "y"), output);
    }
}

fn attention(query: &str, key: &str, attributes: &str) -> Model {
    text(&opset(
        23,
        &format!(
            "g (float[{query}] q, float[{key}] k, float[{key}] v) => (y) {{ y = Attention {attributes} (q, k, v) }}"
        ),
    ))
}

/// Case 49.
#[test]
fn all_query_heads_of_an_attention_count() {
    let grouped = attention("1, 8, 16, 64", "1, 2, 16, 64", "");
    assert_silent(&grouped);
    assert_eq!(macs(&grouped), 262_144);
    // Five operations for each of the 2,048 scores of the softmax.
    assert!(flops(&grouped) >= 2 * 262_144 + 2_048, "{}", flops(&grouped));
    assert_eq!(shape(&grouped, "y"), "[1, 8, 16, 64]");
    let plain = attention("1, 12, 64, 64", "1, 12, 64, 64", "");
    assert_eq!(macs(&plain), 6_291_456);
    // The same with heads folded into the last dim.
    let folded = attention("1, 16, 512", "1, 16, 128", "<q_num_heads = 8, kv_num_heads = 2>");
    assert_silent(&folded);
    assert_eq!(macs(&folded), 262_144);
    assert_eq!(shape(&folded, "y"), "[1, 16, 512]");
}

/// Case 50.
#[test]
fn causal_attention_counts_the_whole_square() {
    let causal = attention("1, 4, 16, 32", "1, 4, 16, 32", "<is_causal = 1>");
    assert_silent(&causal);
    assert_eq!(macs(&causal), 65_536);
    assert_eq!(macs(&attention("1, 4, 16, 32", "1, 4, 16, 32", "")), 65_536);
    assert_eq!(shape(&causal, "y"), "[1, 4, 16, 32]");
}

/// Case 51.
#[test]
fn a_tied_table_is_one_table() {
    let body = format!(
        "g (int64[1, 5] ids) => (y) <{}> {{
            [embed] e = Gather (E, ids)
            t = Transpose <perm = [1, 0]> (E)
            [logits] y = MatMul (e, t)
        }}",
        weight("E", &[1000, 64])
    );
    let model = Folder::with(&[("w.bin", &[0; 256_000])]).check(&opset(18, &body));
    assert_silent(&model);
    assert_eq!(parameters(&model), 64_000);
    assert_eq!(graph(&model).parameters.bytes, 256_000);
    assert_eq!(layer(&model, "embed").macs, Some(0));
    assert_eq!(layer(&model, "logits").macs, Some(320_000));
    assert_eq!(macs(&model), 320_000);
    assert_eq!(shape(&model, "y"), "[1, 5, 1000]");
}

/// Case 51: stored once, named twice.
#[test]
fn one_range_of_a_side_file_under_two_names_is_one_weight() {
    let body = format!(
        "g (int64[1, 5] ids, float[1, 5, 64] h) => (e, y) <{}, {}> {{ e = Gather (E, ids) t = Transpose (F) y = MatMul (h, t) }}",
        weight("E", &[1000, 64]),
        weight("F", &[1000, 64])
    );
    let model = Folder::with(&[("w.bin", &[0; 256_000])]).check(&opset(18, &body));
    assert_eq!(counts(&model).2, 64_000);
    assert_eq!(graph(&model).parameters.bytes, 256_000);
}

/// Case 52.
#[test]
fn weights_in_constant_nodes_are_weights() {
    let model = text(&opset(
        18,
        &format!(
            "g (float[1, 4] x) => (y) {{
                W = Constant <value = float[4, 3] {}> ()
                b = Constant <value_floats = [0.0, 0.0, 0.0]> ()
                y = Gemm (x, W, b)
            }}",
            zeros(12)
        ),
    ));
    assert_eq!(counts(&model), (12, 27, 15));
    assert_eq!(graph(&model).parameters.bytes, 60);
    let stored = text(&opset(
        18,
        &format!(
            "g (float[1, 4] x) => (y) <float[4, 3] W = {}, float[3] b = {{0, 0, 0}}> {{ y = Gemm (x, W, b) }}",
            zeros(12)
        ),
    ));
    assert_eq!(counts(&stored), counts(&model));
    assert_eq!(graph(&stored).parameters.bytes, 60);
}

/// Case 53.
#[test]
fn settings_are_no_parameters() {
    let body = format!(
        "g (float[2, 64] x) => (y) <
            {}, int64[2] target = {{8, 16}}, float limit = {{6}}, int64 at = {{1}},
            int64[1] s = {{0}}, int64[1] e = {{2}}, int64[1] axes = {{0}}
        > {{
            m = MatMul (x, W)
            c = Clip (m, , limit)
            r = Reshape (c, target)
            g = Gather (r, at)
            y = Slice (g, s, e, axes)
        }}",
        weight("W", &[64, 64])
    );
    let model = Folder::with(&[("w.bin", &[0; 16_384])]).check(&opset(18, &body));
    assert_eq!(counts(&model).2, 4_096);
    let all = &graph(&model).parameters;
    assert_eq!((all.trainable, all.non_trainable), (4_096, 0));
    assert_eq!(all.bytes, 16_384 + 16 + 4 + 8 + 3 * 8);
    assert_eq!(all.constant_bytes, 16 + 4 + 8 + 3 * 8);
}

/// Case 54.
#[test]
fn one_layer_applied_twice_has_its_parameters_once_and_its_macs_twice() {
    let model = text(&opset(
        18,
        &format!(
            "g (float[1, 10] x) => (y) <float[10, 10] W = {}, float[10] b = {}> {{ a = Gemm (x, W, b) y = Gemm (a, W, b) }}",
            zeros(100),
            zeros(10)
        ),
    ));
    assert_eq!(counts(&model), (200, 2 * 200 + 20, 110));
    assert_eq!(model.layers.iter().map(|layer| layer.parameters).collect::<Vec<_>>(), [110, 0]);
}

fn packed(rows: u32, k: usize, n: usize, block: usize) -> String {
    let blocks = k / block;
    format!(
        "<ir_version: 10, opset_import: [\"\" : 18, \"com.microsoft\" : 1]>
        g (float[{rows}, {k}] x) => (y) <
            uint8[{n}, {blocks}, {}] W = {}, float[{n}, {blocks}] scales = {}
        > {{ y = com.microsoft.MatMulNBits <K = {k}, N = {n}, bits = 4, block_size = {block}> (x, W, scales) }}",
        block / 2,
        zeros(n * blocks * block / 2),
        zeros(n * blocks)
    )
}

/// Case 55: 64 scales are constants beside 2,048 parameters.
#[test]
fn packed_weights_are_counted_unpacked() {
    let model = text(&packed(3, 64, 32, 32));
    assert_silent(&model);
    assert_eq!(parameters(&model), 2_048);
    assert_eq!(graph(&model).parameters.constants, 64);
    assert_eq!(graph(&model).parameters.bytes, 1_024 + 256);
    assert_eq!(macs(&model), 6_144);
    assert_eq!(shape(&model, "y"), "[3, 32]");
    let model = text(&packed(1, 256, 8, 128));
    assert_eq!((parameters(&model), macs(&model)), (2_048, 2_048));
}

/// Case 56.
#[test]
fn quantised_operators_of_both_domains_have_shapes_and_costs() {
    let model = text(&format!(
        "<ir_version: 10, opset_import: [\"\" : 18, \"com.microsoft\" : 1]>
        g (uint8[1, 3, 8, 8] x) => (y) <
            uint8[4, 3, 3, 3] W = {}, float sx = {{1}}, uint8 zx = {{0}}, float sw = {{1}}, uint8 zw = {{0}},
            float sc = {{1}}, uint8 zc = {{0}}, float sy = {{1}}, uint8 zy = {{0}}
        > {{
            [conv] c = QLinearConv (x, sx, zx, W, sw, zw, sc, zc)
            [add] y = com.microsoft.QLinearAdd (c, sc, zc, c, sc, zc, sy, zy)
        }}",
        zeros(108)
    ));
    assert_silent(&model);
    for key in ["conv", "add"] {
        assert_eq!(support::dims(layer(&model, key).output_shape.as_deref()), "[1, 4, 6, 6]");
    }
    assert_eq!(model.outputs[0].dtype.as_deref(), Some("uint8"));
    assert_eq!(macs(&model), 3_888);
    assert_eq!(parameters(&model), 108);
    // 108 bytes of weight; scales and zero points lie apart.
    assert_eq!(graph(&model).parameters.bytes - graph(&model).parameters.constant_bytes, 108);
}

/// Case 57.
#[test]
fn an_embedding_reads_the_rows_it_looks_up() {
    let body =
        format!("g (int64[16, 256] ids) => (y) <{}> {{ [embed] y = Gather (E, ids) }}", weight("E", &[50_000, 384]));
    let model = text(&opset(18, &body));
    only_warning(&model, "missing-external-data");
    assert_eq!(macs(&model), 0);
    assert_eq!(parameters(&model), 19_200_000);
    assert_eq!(graph(&model).parameters.bytes, 76_800_000);
    // Rows read, rows written, indices read.
    assert_eq!(layer(&model, "embed").bytes, Some(2 * 6_291_456 + 4_096 * 8));
}

const LORA: &str = "g (float[T, 4096] x) => (y) {
        [base] h = MatMul (x, W)
        [down] d = MatMul (x, A)
        [up] u = MatMul (d, B)
        [add] y = Add (h, u)
    }";

/// Case 58: the layer stands behind a trained one, so that the gradient goes on to its input.
#[test]
fn frozen_weights_have_no_gradient_but_pass_it_on() {
    let weights = format!(
        "<{}, {}, {}, float[4096] g = {}>",
        weight("W", &[4096, 4096]),
        weight("A", &[4096, 8]),
        weight("B", &[8, 4096]).replace("\"0\"", "\"131072\""),
        zeros(4096)
    );
    let body = LORA
        .replace("(y) {", &format!("(y) {weights} {{ [before] z = Mul (x, g)"))
        .replace("(x, W)", "(z, W)")
        .replace("(x, A)", "(z, A)");
    let options =
        CheckOptions { frozen: vec!["base".to_owned()], dims: vec![("T".to_owned(), "1".to_owned())], ..training() };
    let model = text_with(&opset(18, &body), &options);
    only_warning(&model, "missing-external-data");
    assert_eq!(macs(&model), 16_777_216 + 65_536);
    let backward: i128 = ["base", "down", "up"].iter().map(|key| layer(&model, key).flops.backward.unwrap()).sum();
    assert_eq!(backward, 2 * (16_842_752 + 65_536));
    let all = &graph(&model).parameters;
    assert_eq!((all.trainable, all.non_trainable), (65_536 + 4_096, 16_777_216));
    let training = 2 * macs(&model) + backward;
    assert_eq!(training, 2 * 33_751_040);
}

/// Case 58: at the start of the model nobody needs the gradient of the input.
#[test]
fn nothing_goes_back_where_nothing_is_trained() {
    let body = LORA.replace(
        "(y) {",
        &format!("(y) <{}, {}, {}> {{", weight("W", &[4096, 4096]), weight("A", &[4096, 8]), weight("B", &[8, 4096])),
    );
    let options =
        CheckOptions { frozen: vec!["*".to_owned()], dims: vec![("T".to_owned(), "1".to_owned())], ..training() };
    let model = text_with(&opset(18, &body), &options);
    assert_eq!(graph(&model).flops.backward, Some(0));
    assert_eq!(graph(&model).parameters.trainable, 0);
    let base = CheckOptions { frozen: vec!["base".to_owned()], ..options };
    let model = text_with(&opset(18, &body), &base);
    assert_eq!(layer(&model, "base").flops.backward, Some(0));
    assert_eq!(layer(&model, "down").flops.backward, Some(2 * 32_768));
    assert_eq!(layer(&model, "up").flops.backward, Some(4 * 32_768));
}

/// Case 59.
#[test]
fn recurrent_layers_run_once_per_step() {
    for (op, gates, expected, weights) in [("LSTM", 4, 3_276_800, 33_280), ("GRU", 3, 2_457_600, 24_960)] {
        let rows = gates * 64;
        let body = format!(
            "g (float[100, 1, 64] x) => (Y) <
                float[1, {rows}, 64] W = {}, float[1, {rows}, 64] R = {}, float[1, {}] B = {}
            > {{ Y = {op} <hidden_size = 64> (x, W, R, B) }}",
            zeros(rows * 64),
            zeros(rows * 64),
            2 * rows,
            zeros(2 * rows)
        );
        let model = text(&opset(18, &body));
        assert_silent(&model);
        assert_eq!(macs(&model), expected, "{op}");
        assert_eq!(parameters(&model), weights, "{op}");
        assert_eq!(shape(&model, "Y"), "[100, 1, 1, 64]");
        let steps = text(&opset(18, &body.replace("float[100, 1, 64] x", "float[7, 2, 64] x")));
        assert_eq!(macs(&steps), expected * 14 / 100);
    }
}

/// Case 60.
#[test]
fn the_body_of_a_loop_counts_once_per_round() {
    let body = |rounds: u32| {
        opset(
            18,
            &format!(
                "g (float[1, 8] x) => (y) <int64 M = {{{rounds}}}, bool c = {{1}}, float[8, 8] W = {}> {{
                    y = Loop <body = body (int64 i, bool c_in, float[1, 8] s) => (bool c_out, float[1, 8] t) {{
                        c_out = Identity (c_in)
                        [product] t = MatMul (s, W)
                    }}> (M, c, x)
                }}",
                zeros(64)
            ),
        )
    };
    let model = text(&body(10));
    assert_silent(&model);
    assert_eq!((macs(&model), parameters(&model)), (640, 64));
    assert_eq!(layer(&model, "main/loop0/body/product").repeats, Some(10));
    assert_eq!(shape(&model, "y"), "[1, 8]");
    assert_eq!(macs(&text(&body(3))), 192);
}

fn two_layers(batch: &str, activation: &str) -> String {
    opset(
        18,
        &format!(
            "g (float[{batch}, 784] x) => (y) <{}, {}, {}, {}> {{
                [one] a = Gemm (x, W1, b1)
                {activation}
                [two] y = Gemm (r, W2, b2)
            }}",
            weight("W1", &[784, 512]),
            weight("b1", &[512]).replace("\"0\"", "\"1605632\""),
            weight("W2", &[512, 10]).replace("\"0\"", "\"1607680\""),
            weight("b2", &[10]).replace("\"0\"", "\"1628160\"")
        ),
    )
}

/// Case 61: the gradient of the bias adds up the output's gradient, one operation per element.
#[test]
fn the_first_layer_needs_no_gradient_of_its_input() {
    let model = text_with(&two_layers("64", "[act] r = Relu (a)"), &training());
    only_warning(&model, "missing-external-data");
    assert_eq!(macs(&model), 26_017_792);
    assert_eq!(parameters(&model), 407_050);
    let backward = |key: &str| layer(&model, key).flops.backward.unwrap();
    let biases = 64 * 512 + 64 * 10;
    assert_eq!(backward("one") + backward("two"), 52_690_944 + biases);
    assert_eq!(backward("one"), 2 * 25_690_112 + 64 * 512);
    assert_eq!(backward("two"), 4 * 327_680 + 64 * 10);
    assert_eq!(graph(&model).flops.backward, Some(52_690_944 + biases + backward("act")));
}

/// Case 61: the same for a free batch, and nothing backward in inference.
#[test]
fn backward_follows_the_batch_and_is_zero_in_inference() {
    let body = two_layers("batch", "[act] r = Relu (a)");
    let model = text_with(&body, &CheckOptions { batch: Some(64), ..training() });
    assert_eq!(layer(&model, "one").flops.backward, Some(2 * 25_690_112 + 64 * 512));
    let model = text_at(&body, &[("batch", "64")]);
    assert_eq!(graph(&model).flops.backward, Some(0));
    assert_eq!(macs(&model), 26_017_792);
}

fn bert_like(length: &str) -> String {
    opset(
        18,
        &format!(
            "g (float[batch, {length}, 64] x) => (y) <{}> {{
                q = MatMul (x, W)
                t = Transpose <perm = [0, 2, 1]> (x)
                s = MatMul (q, t)
                p = Softmax (s)
                y = MatMul (p, x)
            }}",
            weight("W", &[64, 64])
        ),
    )
}

/// Case 62: lengths of sequences are assumed to be 128, and that is said beside the totals.
#[test]
fn an_unknown_length_is_assumed_openly_and_stays_in_the_formula() {
    let options = CheckOptions { batch: Some(2), ..inference() };
    for name in ["seq", "seq_len", "sequence_length"] {
        let model = text_with(&bert_like(name), &options);
        let assumed = model.assumptions.iter().find(|assumed| assumed.key == format!("dim {name}"));
        assert_eq!(assumed.map(|assumed| assumed.value.as_str()), Some("128"), "{:?}", model.assumptions);
        assert_eq!(macs(&model), 2 * (128 * 64 * 64 + 2 * 128 * 128 * 64));
        let formula = graph(&model).macs_formula.clone().unwrap();
        assert!(formula.contains(name), "{formula}");
        let given = CheckOptions { dims: vec![(name.to_owned(), "5".to_owned())], ..options.clone() };
        let model = text_with(&bert_like(name), &given);
        assert_eq!(macs(&model), 2 * (5 * 64 * 64 + 2 * 25 * 64));
        assert!(model.assumptions.iter().all(|assumed| !assumed.key.starts_with("dim")), "{:?}", model.assumptions);
    }
}

/// Case 62: a name that says nothing.
#[test]
fn a_length_that_nobody_knows_makes_numbers_unknown_and_names_the_option() {
    let model = text_with(&bert_like("L_enc"), &CheckOptions { batch: Some(2), ..inference() });
    let unbound = named(&model, "unbound-dim");
    assert_eq!(unbound.len(), 1, "{:#?}", model.diagnostics);
    support::assert_says(unbound[0], &["L_enc"]);
    assert!(unbound[0].help.as_deref().unwrap().contains("--dim L_enc="));
    assert_eq!(graph(&model).macs, None);
    assert_eq!(graph(&model).bytes, None);
    assert!(graph(&model).macs_formula.as_deref().unwrap().contains("L_enc"));
    assert!(shape(&model, "y").contains("L_enc"));
}

/// Case 63: one unknown operator in the middle.
#[test]
fn the_share_without_a_rule_is_told_and_the_total_is_a_lower_bound() {
    let body = "<ir_version: 10, opset_import: [\"\" : 18, \"org.example\" : 1]>
        g (float[4, 8] x, float[8, 8] w) => (float[4, 8] y) <float[4, 8] u> {
            [one] a = MatMul (x, w)
            [odd] u = org.example.Odd (a)
            [two] b = MatMul (u, w)
            y = Relu (b)
        }";
    let model = text(body);
    only_warning(&model, "unknown-domain");
    assert_eq!(macs(&model), 512);
    assert_eq!(layer(&model, "odd").macs, None);
    let coverage = &graph(&model).coverage;
    assert_eq!(coverage.layers_not_counted, 1);
    // It reads 128 bytes and writes 128.
    assert_eq!(coverage.bytes_not_counted, Some(256));
    let (_, printed) = Folder::new().status("m.onnxtxt", body.as_bytes());
    for words in ["at least 512 MACs", "1 of 4 layers", "25.0 %"] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
}

/// Case 63: elementwise operators of a recurrent cell written out.
#[test]
fn elementwise_operators_have_flops_and_bytes() {
    let mut nodes = String::new();
    for step in 0..200 {
        nodes += &format!("m{step} = Mul (h{step}, g) h{} = Add (m{step}, x)\n", step + 1);
    }
    let model =
        text(&opset(18, &format!("g (float[2, 16] x, float[2, 16] h0, float[2, 16] g) => (h200) {{ {nodes} }}")));
    assert_silent(&model);
    assert_eq!(counts(&model), (0, 400 * 32, 0));
    assert_eq!(graph(&model).bytes, Some(400 * 3 * 32 * 4));
    assert_eq!(graph(&model).coverage.layers_not_counted, 0);
    assert_clean(&model);
}
