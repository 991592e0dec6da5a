//! Whole-program answers to CASES.md, group 5: time. Case 81 (rows of benchmarks that beat the peak) has its test in
//! `xtask`, case 83 (profiles of TensorRT) in `cases_compare`, case 85 in `target_options`; case 86 (probing for a GPU)
//! belongs to a command that this version does not have.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use dlcost::engine::Mode;
use dlcost::report::Model;
use dlcost::runtime::Runtime;
use dlcost::target::{Compute, Request};
use support::{far_weight, gpu, layer, layer_ms, macs, opset, priced, step_ms};

fn with(request: Request, precision: Compute) -> Request {
    Request { precision: Some(precision), ..request }
}

fn pytorch(id: &str) -> Request {
    Request { runtime: Some((Runtime::find("pytorch").unwrap(), None)), ..gpu(id) }
}

/// `x[m, k] · W[k, n]` with a weight that is not there.
fn product(element: &str, bytes_each: u64, [m, k, n]: [u64; 3]) -> String {
    opset(
        18,
        &format!(
            "g ({element}[{m}, {k}] x) => (y) <{}> {{ [product] y = MatMul (x, W) }}",
            far_weight(element, bytes_each, "W", &[k, n])
        ),
    )
}

fn conv(group: u64) -> String {
    opset(
        18,
        &format!(
            "g (float[2, 32, 512, 512] x) => (y) <{}> {{ [conv] y = Conv <group = {group}, pads = [1, 1, 1, 1]> (x, W) }}",
            far_weight("float", 4, "W", &[32, 32 / group, 3, 3])
        ),
    )
}

/// Case 76: fewer MACs may take longer, and each layer says what bounds it.
#[test]
fn fewer_macs_are_not_less_time_and_the_bound_says_why() {
    let wide = opset(
        18,
        &format!(
            "g (float[8, 256, 56, 56] x) => (y) <{}> {{ [dense] y = Conv <pads = [1, 1, 1, 1]> (x, W) }}",
            far_weight("float", 4, "W", &[64, 256, 3, 3])
        ),
    );
    let chain: String = (0..40).map(|i| format!("[r{i}] x{} = Sigmoid (x{i})\n", i + 1)).collect();
    let thin = opset(18, &format!("g (float[8, 256, 56, 56] x0) => (x40) {{ {chain} }}"));
    let [wide, thin] = [wide, thin].map(|text| priced(&text, Mode::Infer, gpu("v100")));
    assert!(macs(&thin) < macs(&wide) && step_ms(&thin) > step_ms(&wide));
    assert_eq!(layer(&wide, "dense").bound, Some("compute"));
    assert_eq!(layer(&thin, "r7").bound, Some("memory"));
}

/// Case 77: 32 times fewer MACs, about 1.4 times faster (1.41 and 1.02 ms measured on a Titan Xp).
#[test]
fn a_depthwise_convolution_is_bound_by_memory() {
    let [dense, depthwise] =
        [conv(1), conv(32)].map(|text| layer_ms(&priced(&text, Mode::Infer, pytorch("titan-xp")), "conv"));
    for time in [dense, depthwise] {
        assert!((0.245..3.0).contains(&time), "{time} ms");
    }
    let ratio = dense / depthwise;
    assert!((1.0..2.75).contains(&ratio), "{ratio}");
}

/// Case 78: times do not fall below what launches cost.
#[test]
fn a_chain_of_small_kernels_takes_at_least_its_launches() {
    let chain = |channels: u64| {
        let body: String = (0..100).map(|i| format!("x{} = Conv (x{i}, W)\n", i + 1)).collect();
        let text = opset(
            18,
            &format!(
                "g (float[1, {channels}, 8, 8] x0) => (x100) <{}> {{ {body} }}",
                far_weight("float", 4, "W", &[channels, channels, 1, 1])
            ),
        );
        priced(&text, Mode::Infer, pytorch("v100"))
    };
    let [small, large] = [chain(8), chain(64)].map(|model| (step_ms(&model), model));
    // A launch is 2 µs at the least, whatever is computed.
    assert!(small.0 > 0.2, "{}", small.0);
    // 64 times the FLOPs take nearly the same.
    assert!(large.0 < 1.5 * small.0, "{} {}", small.0, large.0);
    assert!(small.1.layers.iter().all(|layer| layer.bound == Some("launch")));
}

#[test]
fn a_part_of_a_tensor_is_copied_where_no_library_takes_it_as_it_lies() {
    let text = opset(
        18,
        "g (float[8, 64, 32, 32] x, float[8, 197, 512] t) => (a1, b1, c1, d1)
         <float[32, 32, 3, 3] W = {}, float[256, 256] M = {}, float[256] s = {}>
         { a, b = Split <axis = 1, num_outputs = 2> (x)
           [image] a1 = Conv <pads = [1, 1, 1, 1]> (a, W)
           [added] b0 = Add (b, b)
           [dense] b1 = Conv <pads = [1, 1, 1, 1]> (b0, W)
           c, d = Split <axis = 2, num_outputs = 2> (t)
           [matrix] c1 = MatMul (c, M)
           [rows] d1 = LayerNormalization (d, s) }",
    );
    let model = priced(&text, Mode::Infer, pytorch("v100"));
    let kernels = ["image", "dense", "matrix", "rows"].map(|key| layer(&model, key).kernels.unwrap());
    // Rows of a matrix may lie apart; what an elementwise kernel writes is dense.
    assert_eq!(kernels, [2, 1, 1, 2]);
}

/// Case 79: half precision by what the device has.
#[test]
fn half_precision_is_no_gain_without_units_for_it() {
    let time = |id: &str, precision| {
        let model = priced(&product("float", 4, [4096, 4096, 4096]), Mode::Infer, with(pytorch(id), precision));
        layer_ms(&model, "product")
    };
    let gain = |id: &str| time(id, Compute::Fp32) / time(id, Compute::Fp16);
    assert!(gain("gtx-1080-ti") <= 1.0, "{}", gain("gtx-1080-ti"));
    assert!((1.5..2.5).contains(&gain("p100")), "{}", gain("p100"));
    assert!(gain("v100") > 3.0, "{}", gain("v100"));
}

/// Case 80: 33,708 words are 4 above a multiple of 8.
#[test]
fn a_vocabulary_that_is_no_multiple_of_eight_costs_time_on_volta() {
    let model = |words| {
        let text = product("float", 4, [8192, 512, words]);
        priced(&text, Mode::Infer, with(pytorch("v100"), Compute::Fp16))
    };
    let [odd, even] = [model(33_708), model(33_712)];
    assert!(layer_ms(&odd, "product") > 1.2 * layer_ms(&even, "product"));
    let hint = |model: &Model| model.diagnostics.iter().find(|found| found.name == "misaligned-channels").cloned();
    let said = hint(&odd).unwrap();
    let text = format!("{} {:?} {:?}", said.message, said.help, said.notes);
    assert!(text.contains("33708") || text.contains("33,708"), "{text}");
    assert!(text.contains("33712") || text.contains("33,712"), "{text}");
    assert!(hint(&even).is_none());
}

/// Case 82: the page of the key says that warm-up is not in it.
#[test]
fn predictions_are_for_the_steady_state_and_say_so() {
    let folder = support::Folder::new();
    let output = folder.run(&["explain", "time_ms"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("steady state") && text.contains("arm-up"), "{text}");
}

/// Case 84: reading one token is reading all weights.
#[test]
fn one_token_takes_at_least_the_time_to_read_the_weights() {
    let side = 83_666;
    let half = priced(&product("float16", 2, [1, side, side]), Mode::Infer, pytorch("a100-sxm4-80gb"));
    let time = step_ms(&half);
    assert!((6.87..12.0).contains(&time), "{time}");
    assert_eq!(layer(&half, "product").bound, Some("memory"));
    let (k, n) = (83_664_u64, 83_664_u64);
    let blocks = k / 32;
    let text = format!(
        "<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]>
         g (float16[1, {k}] x) => (y) <{}, {}> {{
            [product] y = com.microsoft.MatMulNBits <K = {k}, N = {n}, bits = 4, block_size = 32> (x, W, s)
         }}",
        far_weight("uint8", 1, "W", &[n, blocks, 16]),
        far_weight("float16", 2, "s", &[n, blocks])
    );
    let quarter = step_ms(&priced(&text, Mode::Infer, pytorch("a100-sxm4-80gb")));
    assert!(quarter < 0.4 * time && quarter > 1.72, "{quarter} of {time}");
}

/// Case 87: what a conversion between layouts moves.
#[test]
fn a_change_of_layout_reads_and_writes_every_element() {
    let text = opset(18, "g (float16[64, 64, 56, 56] x) => (y) { [turn] y = Transpose <perm = [0, 2, 3, 1]> (x) }");
    let model = priced(&text, Mode::Infer, gpu("v100"));
    assert_eq!(layer(&model, "turn").bytes, Some(2 * 25_690_112));
}

/// Language models have a throughput of tokens, others none.
#[test]
fn models_of_token_ids_have_a_throughput_of_tokens() {
    let text = |input: &str| {
        opset(
            18,
            &format!(
                "g (int64[batch, seq] {input}) => (y) <{}> {{ y = Gather (E, {input}) }}",
                far_weight("float", 4, "E", &[1000, 64])
            ),
        )
    };
    let rates = |input: &str| {
        let throughput = priced(&text(input), Mode::Infer, gpu("v100")).throughput.unwrap();
        (throughput.samples_per_s.unwrap(), throughput.tokens_per_s)
    };
    let (samples, tokens) = rates("input_ids");
    // A sample is 128 tokens where nothing else is said.
    assert!((tokens.unwrap() / samples - 128.0).abs() < 1e-6, "{samples} {tokens:?}");
    assert_eq!(rates("attention_mask").1, None);
}
