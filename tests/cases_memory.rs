//! Answers to CASES.md, group 4: memory. Models in ONNX text; weights lie in side files that are not there, since only
//! their sizes count.

#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::fmt::Write as _;

use dlcost::device::{Device, find};
use dlcost::engine::{CheckOptions, Mode};
use dlcost::report::{MemoryBytes, Model};
use dlcost::runtime::{Attention, Runtime};
use dlcost::target::{ChosenGpu, Compute, Optimizer, Recompute, Request, Strategy, Zero};
use support::{gpu, graph, opset, priced, text_with};

/// What a model is asked for here: PyTorch, a device with its name, a precision, an optimizer.
fn options(mode: Mode, precision: Compute, optimizer: Optimizer) -> CheckOptions {
    let request = Request {
        gpus: vec![chosen(device("h100"))],
        precision: Some(precision),
        optimizer: Some(optimizer),
        runtime: Runtime::find("pytorch").map(|runtime| (runtime, None)),
        ..Request::default()
    };
    CheckOptions { mode, request, ..CheckOptions::default() }
}

fn inference() -> CheckOptions {
    options(Mode::Infer, Compute::Fp32, Optimizer::None)
}

fn device(name: &str) -> Device {
    find(name).unwrap().device.clone()
}

fn chosen(device: Device) -> ChosenGpu {
    ChosenGpu::of(device)
}

fn memory(text: &str, options: &CheckOptions) -> MemoryBytes {
    text_with(text, options).memory_bytes.unwrap()
}

/// What all layers keep for the backward pass.
fn saved(model: &Model) -> i128 {
    model.layers.iter().map(|layer| layer.saved_bytes.unwrap()).sum()
}

/// A stored tensor whose payload lies elsewhere.
fn weight(element: &str, name: &str, dims: &[u64]) -> String {
    let list: Vec<_> = dims.iter().map(u64::to_string).collect();
    let width = if element == "float16" { 2 } else { 4 };
    let bytes = dims.iter().product::<u64>() * width;
    format!(
        "{element}[{}] {name} = [\"location\": \"{name}.bin\", \"offset\": \"0\", \"length\": \"{bytes}\"]",
        list.join(", ")
    )
}

/// Two linear layers without biases.
fn two_layers(inputs: u64, hidden: u64) -> String {
    opset(
        18,
        &format!(
            "g (float[1, {inputs}] x) => (float[1, {inputs}] y) <{}, {}> {{ h = MatMul (x, V)  y = MatMul (h, W) }}",
            weight("float", "V", &[inputs, hidden]),
            weight("float", "W", &[hidden, inputs])
        ),
    )
}

/// Case 64.
#[test]
fn adam_in_fp32_takes_sixteen_bytes_a_weight() {
    let model = two_layers(5_500, 10_000);
    let parts = |optimizer| {
        let memory = memory(&model, &options(Mode::Train, Compute::Fp32, optimizer));
        (memory.parameters, memory.gradients, memory.optimizer)
    };
    assert_eq!(parts(Optimizer::Adam), (440_000_000, 440_000_000, 880_000_000));
    assert_eq!(parts(Optimizer::Sgd), (440_000_000, 440_000_000, 0));
    assert_eq!(parts(Optimizer::Momentum), (440_000_000, 440_000_000, 440_000_000));
}

/// Case 65: automatic casting keeps fp32 weights and copies of them; 16-bit weights have a master copy.
#[test]
fn mixed_precision_names_each_part() {
    let model = two_layers(25_000, 20_000);
    let of = |precision| memory(&model, &options(Mode::Train, precision, Optimizer::Adam));
    let amp = of(Compute::Amp);
    assert_eq!((amp.parameters, amp.gradients, amp.optimizer), (4_000_000_000, 4_000_000_000, 8_000_000_000));
    // The update's list is larger than the copies of 2 GB, which are gone by then.
    assert!((2_000_000_000..=4_000_000_000).contains(&amp.transient), "{}", amp.transient);
    let half = of(Compute::Fp16);
    assert_eq!((half.parameters, half.gradients, half.optimizer), (2_000_000_000, 2_000_000_000, 12_000_000_000));
    let sgd = memory(&model, &options(Mode::Train, Compute::Amp, Optimizer::Sgd));
    assert!((2_000_000_000..2_001_000_000).contains(&sgd.transient), "{}", sgd.transient);
}

/// Case 72: 10⁹ weights in 16 bits with Adam on 8 devices, and what a stage shards.
#[test]
fn stages_of_zero_divide_what_they_shard() {
    let model = two_layers(25_000, 20_000);
    let of = |model: &str, zero, replicas| {
        let mut options = options(Mode::Train, Compute::Fp16, Optimizer::Adam);
        options.request.replicas = Some(replicas);
        options.request.strategy = Some(Strategy::Ddp);
        options.request.zero = Some(zero);
        memory(model, &options)
    };
    let state = |memory: MemoryBytes| (memory.parameters, memory.gradients, memory.optimizer);
    let on_eight = Zero::ALL.map(|(_, zero)| state(of(&model, zero, 8)));
    assert_eq!(
        on_eight.map(|(parameters, gradients, optimizer)| parameters + gradients + optimizer),
        [16_000_000_000, 5_500_000_000, 3_750_000_000, 2_000_000_000,]
    );
    assert_eq!(on_eight[3], (250_000_000, 250_000_000, 1_500_000_000));
    // The larger of the two layers, 10⁹ bytes, is gathered.
    let buffers = |zero| of(&model, zero, 8).communication;
    assert_eq!(buffers(Zero::Parameters) - buffers(Zero::Gradients), 1_000_000_000);
    // What does not divide is rounded up.
    let odd = two_layers(3, 5);
    assert_eq!(state(of(&odd, Zero::Parameters, 8)), (8, 8, 48));
    // One device shards with nobody.
    assert_eq!(state(of(&odd, Zero::Parameters, 1)), (60, 60, 360));
}

/// Case 66.
#[test]
fn state_of_the_optimizer_is_no_parameter() {
    let model = text_with(&two_layers(100, 50), &options(Mode::Train, Compute::Fp32, Optimizer::Adam));
    assert_eq!(graph(&model).parameters.total, 10_000);
    assert_eq!(model.memory_bytes.unwrap().optimizer, 2 * 4 * 10_000);
}

fn convolutions() -> String {
    opset(
        18,
        &format!(
            "g (float[N, 16, 64, 64] x) => (float[N, 16, 64, 64] y) <{}, {}> {{
                h = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, V)
                r = Relu (h)
                y = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (r, W) }}",
            weight("float", "V", &[64, 16, 3, 3]),
            weight("float", "W", &[16, 64, 3, 3])
        ),
    )
}

/// Case 67.
#[test]
fn memory_is_affine_in_the_batch() {
    let at = |batch| {
        let options = CheckOptions { batch: Some(batch), ..options(Mode::Train, Compute::Fp32, Optimizer::Sgd) };
        memory(&convolutions(), &options)
    };
    let [one, two, eight] = [1, 2, 8].map(at);
    assert_eq!(eight.peak_allocated - two.peak_allocated, 6 * (two.peak_allocated - one.peak_allocated));
    assert!(two.peak.p50 < 2 * one.peak.p50);
    let largest = eight.largest_batch.unwrap();
    assert_eq!(one.largest_batch, Some(largest));
    assert!(at(largest).peak.p90 <= at(largest).capacity);
    assert!(at(largest + 1).peak.p90 > at(largest).capacity);
}

/// Case 68: with the activation in place; the input stays until the addition.
#[test]
fn the_peak_is_that_of_live_tensors() {
    let model = opset(
        18,
        &format!(
            "g (float[1, 16, 32, 32] x) => (float[1, 16, 32, 32] y) <{}, {}> {{
                a = Conv <kernel_shape = [1, 1]> (x, V)
                b = Relu (a)
                c = Conv <kernel_shape = [1, 1]> (b, W)
                y = Add (c, x) }}",
            weight("float", "V", &[64, 16, 1, 1]),
            weight("float", "W", &[16, 64, 1, 1])
        ),
    );
    let memory = memory(&model, &inference());
    assert_eq!(memory.transient, 393_216);
    assert_eq!(memory.parameters, 2 * 4_096);
}

/// Case 69: blocks of 512 bytes, segments of 2 MiB, and the workspace of matrix products once.
#[test]
fn allocators_round_and_products_take_a_workspace_once() {
    let layers = |count: usize| {
        let mut nodes = String::new();
        for layer in 0..count {
            let output = if layer + 1 == count { "y".to_owned() } else { format!("x{}", layer + 1) };
            let _ = writeln!(nodes, "{output} = Gemm (x{layer}, W, b)");
        }
        let weights = format!("{}, {}", weight("float", "W", &[1, 1]), weight("float", "b", &[1]));
        opset(18, &format!("g (float[1, 1] x0) => (float[1, 1] y) <{weights}> {{ {nodes} }}"))
    };
    let one = memory(&layers(1), &inference());
    let held = one.peak.p10 - one.framework;
    assert!(held.abs_diff(8_519_680 + 2_097_152) < 1_024, "{held}");
    assert!(one.peak_allocated <= one.peak_reserved && one.peak_reserved < one.peak.p50);
    let many = memory(&layers(20), &inference());
    assert!(many.workspace.abs_diff(one.workspace) < 1_024);
}

/// Case 70: what other programs hold is taken off the card by its file.
#[test]
fn usable_memory_is_less_than_the_card() {
    let gib = 1_073_741_824_u64;
    let mut card = device("rtx-2060");
    card.memory.visible_gib = 4.62;
    let mut options = inference();
    options.request.gpus = vec![chosen(card)];
    let weights = 5 * gib / 4 / 10_000;
    let model = opset(
        18,
        &format!(
            "g (float[1, 10000] x) => (float[1, {weights}] y) <{}> {{ y = MatMul (x, W) }}",
            weight("float", "W", &[10_000, weights])
        ),
    );
    let memory = memory(&model, &options);
    assert_eq!(memory.capacity, (4.62 * gib as f64) as u64);
    assert_eq!(memory.fits, Some(false));
    assert!(memory.peak_allocated > memory.capacity, "no setting of an allocator helps");
}

/// Case 71: grouped heads, by the shapes of the inputs and outputs themselves.
#[test]
fn caches_follow_the_heads_of_keys() {
    let cache = |heads: u64| {
        let (mut inputs, mut outputs, mut nodes) = (String::new(), String::new(), String::new());
        for layer in 0..32 {
            for part in ["key", "value"] {
                let _ = write!(inputs, ", float16[1, {heads}, 8191, 128] past_key_values_{layer}_{part}");
                let comma = if outputs.is_empty() { "" } else { ", " };
                let _ = write!(outputs, "{comma}float16[1, {heads}, 8192, 128] present_{layer}_{part}");
                let _ =
                    writeln!(nodes, "present_{layer}_{part} = Concat <axis = 2> (past_key_values_{layer}_{part}, new)");
            }
        }
        let text = format!("g (float16[1, {heads}, 1, 128] new{inputs}) => ({outputs}) {{ {nodes} }}");
        memory(&opset(18, &text), &options(Mode::Infer, Compute::Fp16, Optimizer::None)).kv_cache
    };
    assert_eq!(cache(8), 1_073_741_824);
    assert_eq!(cache(32), 4 * 1_073_741_824);
}

/// Case 72, stage 0; docs/memory.md has the others.
#[test]
fn replicas_hold_everything_each() {
    let mut options = options(Mode::Train, Compute::Fp16, Optimizer::Adam);
    options.request.replicas = Some(8);
    let memory = memory(&two_layers(25_000, 20_000), &options);
    assert_eq!(memory.parameters + memory.gradients + memory.optimizer, 16_000_000_000);
    assert!(memory.communication >= memory.gradients, "buckets hold the gradients once more");
}

/// Case 73.
#[test]
fn a_verdict_may_depend_on_the_workspace() {
    let at = |gib: Option<f64>| {
        let mut card = device("p100");
        card.memory.visible_gib = gib.unwrap_or(card.memory.visible_gib);
        let mut options = CheckOptions { batch: Some(256), ..options(Mode::Train, Compute::Fp32, Optimizer::Sgd) };
        options.request.gpus = vec![chosen(card)];
        memory(&convolutions(), &options)
    };
    let peak = at(None).peak;
    assert!(peak.p10 < peak.p50 && peak.p50 < peak.p90);
    let gib = |bytes: u64| Some(bytes as f64 / 1_073_741_824.0);
    assert_eq!(at(gib(peak.p90 + 1_000)).fits, Some(true));
    assert_eq!(at(gib(peak.p50)).fits, None);
    assert_eq!(at(gib(peak.p10 - 1_000)).fits, Some(false));
}

/// A decoder layer of length 2,048, micro batch 4, width 1,024 and 16 heads, in half precision, with dropout.
fn transformer(layers: u64) -> String {
    let (length, batch, width, heads) = (2_048, 4, 1_024, 16);
    let size = width / heads;
    let mut nodes = String::new();
    let mut stored = vec![
        "float ratio = {0.1}".to_owned(),
        "bool training = {1}".to_owned(),
        // An eighth, as its bits.
        "float16 scalar_root = {12288}".to_owned(),
        format!("int64[4] cut = {{{batch}, {length}, {heads}, {size}}}"),
        format!("int64[3] join = {{{batch}, {length}, {width}}}"),
    ];
    for layer in 0..layers {
        let from = if layer == 0 { "x".to_owned() } else { format!("y{}", layer - 1) };
        for (name, dims) in [
            ("g1", vec![width]),
            ("b1", vec![width]),
            ("g2", vec![width]),
            ("b2", vec![width]),
            ("wq", vec![width, width]),
            ("wk", vec![width, width]),
            ("wv", vec![width, width]),
            ("wo", vec![width, width]),
            ("wu", vec![width, 4 * width]),
            ("wd", vec![4 * width, width]),
        ] {
            stored.push(weight("float16", &format!("{name}_{layer}"), &dims));
        }
        let mut count = 0;
        let mut add = |line: String| {
            count += 1;
            let _ = writeln!(nodes, "[/layers.{layer}/n{count}] {}", line.replace('@', &layer.to_string()));
        };
        add(format!("n@ = LayerNormalization <axis = -1> ({from}, g1_@, b1_@)"));
        for part in ["q", "k", "v"] {
            add(format!("{part}l@ = MatMul (n@, w{part}_@)"));
            add(format!("{part}r@ = Reshape ({part}l@, cut)"));
            let order = if part == "k" { "0, 2, 3, 1" } else { "0, 2, 1, 3" };
            add(format!("{part}@ = Transpose <perm = [{order}]> ({part}r@)"));
        }
        add("p@ = MatMul (q@, k@)".to_owned());
        add("s@ = Mul (p@, scalar_root)".to_owned());
        add("a@ = Softmax <axis = -1> (s@)".to_owned());
        add("d@ = Dropout (a@, ratio, training)".to_owned());
        add("c@ = MatMul (d@, v@)".to_owned());
        add("t@ = Transpose <perm = [0, 2, 1, 3]> (c@)".to_owned());
        add("j@ = Reshape (t@, join)".to_owned());
        add("o@ = MatMul (j@, wo_@)".to_owned());
        add("e@ = Dropout (o@, ratio, training)".to_owned());
        add(format!("m@ = Add ({from}, e@)"));
        add("h@ = LayerNormalization <axis = -1> (m@, g2_@, b2_@)".to_owned());
        add("u@ = MatMul (h@, wu_@)".to_owned());
        add("f@ = Gelu (u@)".to_owned());
        add("w@ = MatMul (f@, wd_@)".to_owned());
        add("z@ = Dropout (w@, ratio, training)".to_owned());
        add("y@ = Add (m@, z@)".to_owned());
    }
    let shape = format!("float16[{batch}, {length}, {width}]");
    let text = format!("g ({shape} x) => ({shape} y{}) <{}> {{ {nodes} }}", layers - 1, stored.join(", "));
    opset(20, &text)
}

/// Case 74: 194, 34 and 2 times length × batch × width, with the statistics of two normalisations on top.
#[test]
fn checkpointing_keeps_the_input_of_each_layer() {
    let unit = 8_388_608_i128;
    let close = |found: i128, wanted: i128| (found - wanted).abs() * 200 < wanted;
    let kept = |attention: Attention, recompute: Recompute| {
        let mut options = options(Mode::Train, Compute::Fp16, Optimizer::Adam);
        options.request.attention = Some(attention);
        options.request.recompute = Some(recompute);
        let [one, four] = [1, 4].map(|layers| text_with(&transformer(layers), &options));
        ((saved(&four) - saved(&one)) / 3, four)
    };
    let (whole, model) = kept(Attention::Eager, Recompute::None);
    assert!(close(whole, 194 * unit), "{whole}");
    let (fused, _) = kept(Attention::Fused, Recompute::None);
    assert!(close(fused, 34 * unit), "{fused}");
    let (_, cut) = kept(Attention::Eager, Recompute::All);
    assert_eq!(saved(&cut), 4 * 2 * unit);
    // One layer in work, and what is kept of all.
    let (before, after) = (model.memory_bytes.unwrap(), cut.memory_bytes.unwrap());
    let held = i128::from(after.saved_activations + after.transient);
    assert!(held > 196 * unit && held < (194 + 70) * unit, "{held}");
    assert!(after.peak.p50 < before.peak.p50);
    let [plain, again] = [&model, &cut].map(|model| model.time_ms.unwrap());
    assert!((again.backward - plain.backward - plain.forward).abs() < 1e-6 * plain.forward);
}

/// Case 75: copies of weights by optimizer, and activations once.
#[test]
fn the_rule_of_three_is_one_of_copies() {
    let model = opset(
        18,
        &format!(
            "g (float[1, 8] x) => (float[1, 2384123] y) <{}> {{ y = MatMul (x, W) }}",
            weight("float", "W", &[8, 19_072_984 / 8])
        ),
    );
    let copies = |optimizer| {
        let memory = memory(&model, &options(Mode::Train, Compute::Fp32, optimizer));
        memory.parameters + memory.gradients + memory.optimizer
    };
    assert_eq!(copies(Optimizer::Momentum), 228_875_808);
    assert_eq!(copies(Optimizer::Adam), 305_167_744);
    let options = CheckOptions { batch: Some(128), ..options(Mode::Train, Compute::Fp32, Optimizer::Sgd) };
    let model = text_with(&convolutions(), &options);
    let kept = i128::from(model.memory_bytes.unwrap().saved_activations);
    // The input and the activation, once each; the convolution's own result is written over.
    assert_eq!(saved(&model), 4 * 128 * (16 + 64) * 64 * 64);
    assert_eq!(kept, saved(&model));
}

/// Automatic casting leaves a normalisation of batches in the type of its input, though its weights are in fp32.
#[test]
fn mixed_precision_halves_what_a_convolutional_network_keeps() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/resnet50.onnx");
    let kept = |precision| {
        let options = options(Mode::Train, precision, Optimizer::Sgd);
        let input = dlcost::engine::Input::Path(path.into());
        let model = dlcost::engine::check(&input, "resnet50", &options).unwrap().remove(0);
        saved(&model) as f64
    };
    let share = kept(Compute::Amp) / kept(Compute::Fp32);
    assert!((0.49..0.56).contains(&share), "{share}");
}

/// √n segments are a compromise: none and all of them bound it.
#[test]
fn checkpoints_of_sqrt_never_need_more_than_those_of_all_or_none() {
    for depth in [1, 2, 5, 16] {
        let nodes: String = (0..depth).map(|i| format!("[b{i}] x{} = Sigmoid (x{i})\n", i + 1)).collect();
        let text = opset(18, &format!("g (float[64, 4096] x0) => (x{depth}) {{ {nodes} }}"));
        let peak = |recompute| {
            let model = priced(&text, Mode::Train, Request { recompute: Some(recompute), ..gpu("a100") });
            model.memory_bytes.unwrap().peak.p50
        };
        let [none, sqrt, all] = [Recompute::None, Recompute::Sqrt, Recompute::All].map(peak);
        assert!(sqrt <= none && sqrt <= all, "{depth}: {none} {sqrt} {all}");
    }
}
