//! What a row of a table measured: kernels, and what the way of measuring adds. The protocol is priced where a row is
//! fitted or scored, never where a model is.

use dlcost::device::Precision;
use dlcost::ops::work::{Convolution, Exchange, Family, Function};
use dlcost::predict::learned::setting::{AttentionKernel, Link, Setting, Stack};
use dlcost::runtime::{Kernel, Layout, Library, Pass};

use super::row::LayerRow;

/// A row, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// The kernels that ran.
    pub(crate) kernels: Vec<Kernel>,
    /// Whose they are.
    pub(crate) setting: Setting,
    /// What was timed beside them; none where it is the kernels' own time.
    pub(crate) protocol: Option<Protocol>,
}

/// What a way of measuring adds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Protocol {
    /// Milliseconds of the host for each measurement, a first guess.
    pub(crate) floor_ms: f64,
    /// Milliseconds of the host that pass while the kernels run.
    pub(crate) hidden_ms: f64,
    /// Bytes that are moved beside the kernels: activations, bias, the loss, updates of inputs.
    pub(crate) bytes: f64,
    /// Of these, bytes of the optimizer's update.
    pub(crate) update_bytes: f64,
    /// Whether a whole training step was timed.
    pub(crate) step: bool,
    /// Number of the optimizer.
    pub(crate) optimizer: u8,
    /// Number of the activation.
    pub(crate) activation: u8,
    /// Whether there was a bias.
    pub(crate) bias: bool,
    /// Number of the run on its host: hosts differ more than cards.
    pub(crate) run: u8,
    /// Elements that go in.
    pub(crate) inputs: f64,
    /// Elements that come out.
    pub(crate) outputs: f64,
}

/// The texts of `framework`, by how they begin, and the runtime at a version that each stands for.
pub(crate) const FRAMEWORKS: &[(&str, Stack, &str)] = &[
    ("tensorflow 1", Stack::Tensorflow1, "tensorflow@1"),
    ("tensorflow 2", Stack::Tensorflow2, "tensorflow@2"),
    ("pytorch 1", Stack::Pytorch1, "pytorch@1"),
    ("pytorch 2 (sarathi", Stack::Sarathi, "pytorch@2"),
    ("pytorch, megatron", Stack::Megatron, "pytorch@2"),
    ("pytorch 2", Stack::Pytorch2, "pytorch@2"),
    ("vllm", Stack::Vllm, "pytorch@2"),
    ("sglang", Stack::Sglang, "pytorch@2"),
    ("trtllm", Stack::TensorRtLlm, "tensorrt"),
    ("tensorrt", Stack::TensorRt, "tensorrt"),
    ("cuda", Stack::Cudnn, "pytorch@1"),
    ("superbench", Stack::Cudnn, "pytorch@1"),
    ("rocm", Stack::Miopen, "pytorch@1"),
    ("miopen", Stack::Miopen, "pytorch@2"),
    ("nccl", Stack::Nccl, "pytorch@2"),
    ("pytorch nccl", Stack::Nccl, "pytorch@1"),
];

/// Names in the order of their numbers.
const OPTIMIZERS: [&str; 7] = ["", "sgd", "momentum", "adagrad", "rmsprop", "adam", "adadelta"];
/// Bytes that an update moves for each element in fp32: weight and gradient read, weight written, states read and written.
const UPDATE_BYTES: [f64; 7] = [0.0, 12.0, 20.0, 20.0, 28.0, 28.0, 28.0];
const ACTIVATIONS: [&str; 5] = ["", "relu", "tanh", "sigmoid", "softmax"];

/// Takes a row apart; the error says why it cannot be.
pub(crate) fn measure(row: &LayerRow) -> Result<Measurement, String> {
    let stack = FRAMEWORKS.iter().find(|(start, ..)| row.framework.starts_with(start)).map(|(_, stack, _)| *stack);
    let stack = stack.ok_or_else(|| format!("framework not described: {}", row.framework))?;
    let precision = Precision::ALL.into_iter().find(|precision| precision.name() == &*row.precision);
    let precision = precision.ok_or_else(|| format!("precision not described: {}", row.precision))?;
    let mut setting = Setting::of(stack);
    let passes = passes(row)?;
    let family = family(row)?;
    // An exchange through any framework is one of the library under it.
    let stack = if matches!(family, Family::Collective { .. }) { Stack::Nccl } else { stack };
    setting.stack = stack;
    setting.link = link(&row.interconnect);
    if matches!(family, Family::Attention { .. }) {
        setting.attention = attention_kernel(&row.kernel, &row.framework);
        setting.small_cache = row.notes.contains("kv_cache=fp8");
    }
    setting.transposed = [row.trans_a, row.trans_b];
    let kernels: Vec<Kernel> = passes.iter().map(|pass| kernel(row, family, *pass, precision, setting)).collect();
    Ok(Measurement { protocol: protocol(row, stack, &family), kernels, setting })
}

fn passes(row: &LayerRow) -> Result<&'static [Pass], String> {
    let splits = matches!(&*row.family, "conv1d" | "conv2d" | "conv3d" | "conv2d_transpose" | "linear" | "bmm");
    Ok(match &*row.pass {
        "forward" => &[Pass::Forward],
        "backward" if splits => &[Pass::BackwardData, Pass::BackwardWeight],
        "backward" => &[Pass::Backward],
        "backward_data" => &[Pass::BackwardData],
        "backward_weight" => &[Pass::BackwardWeight],
        "train_step" if splits => &[Pass::Forward, Pass::BackwardData, Pass::BackwardWeight],
        other => return Err(format!("pass not described: {other}")),
    })
}

fn family(row: &LayerRow) -> Result<Family, String> {
    let s = &row.sizes;
    let one = |size: u64| size.max(1);
    Ok(match &*row.family {
        "conv2d" | "conv3d" => Family::Convolution(convolution(row)),
        "linear" => Family::Product { batch: 1, m: s.batch, n: s.out_features, k: s.in_features },
        "bmm" => Family::Product { batch: one(s.bmm_batch), m: s.m, n: s.n, k: s.k },
        "elementwise" => Family::Elementwise { elements: s.numel, function: function(&row.op) },
        "softmax" => Family::Softmax { rows: s.rows, cols: s.cols },
        "layer_norm" => Family::LayerNorm { rows: s.rows, cols: s.cols },
        "batch_norm" => {
            let channels = one(s.in_channels);
            Family::BatchNorm { rows: s.numel / channels, channels }
        }
        "pool" => Family::Pool {
            elements: s.numel,
            window: one(s.kernel_h) * one(s.kernel_w),
            average: row.op.starts_with("avg"),
        },
        "all_reduce" | "all_gather" | "reduce_scatter" | "alltoall" => collective(row, &row.family)?,
        "copy" if matches!(&*row.op, "send_recv" | "sendrecv") => collective(row, "send_recv")?,
        "embedding" => Family::Embedding { rows: s.rows, cols: s.cols, table: 32_000 },
        "attention" => Family::Attention {
            batch: s.batch,
            heads: s.heads,
            kv_heads: s.kv_heads,
            queries: s.rows,
            keys: s.cols,
            head_dim: s.head_dim,
            causal: &*row.op == "causal_prefill",
        },
        "rnn" | "gru" | "lstm" => Family::Recurrent {
            batch: s.batch,
            steps: s.timesteps,
            inputs: s.in_features,
            hidden: s.hidden,
            gates: match &*row.family {
                "rnn" => 1,
                "gru" => 3,
                _ => 4,
            },
            directions: 1 + u64::from(row.bidirectional),
        },
        other => return Err(format!("family not described: {other}")),
    })
}

/// An exchange; hosts stand in the text of the interconnect: `2 node(s) x 4`.
fn collective(row: &LayerRow, name: &str) -> Result<Family, String> {
    let exchange = match name {
        "all_reduce" => Exchange::AllReduce,
        "all_gather" => Exchange::AllGather,
        "reduce_scatter" => Exchange::ReduceScatter,
        "alltoall" => Exchange::AllToAll,
        _ => Exchange::SendReceive,
    };
    let hosts = row.interconnect.split([';', ',']).find_map(|part| {
        let (count, rest) = part.trim().split_once(' ')?;
        rest.starts_with("node").then(|| count.parse::<u32>().ok()).flatten()
    });
    let devices = u32::try_from(row.sizes.replicas.max(2)).map_err(|_| "replicas are too many".to_owned())?;
    Ok(Family::Collective { exchange, bytes: row.sizes.bytes.max(1), devices, hosts: hosts.unwrap_or(1) })
}

/// What joins the devices of a host, by the text of the interconnect.
fn link(text: &str) -> Link {
    if text.contains("in pairs") {
        Link::Pairs
    } else if text.contains("nvlink") || text.contains("nvswitch") || text.contains("infinity") {
        Link::All
    } else if text.contains("pcie") {
        Link::Pcie
    } else {
        Link::Board
    }
}

/// Sizes of a convolution; outputs follow from padding and stride.
fn convolution(row: &LayerRow) -> Convolution {
    let s = &row.sizes;
    let one = |size: u64| size.max(1);
    let input = [one(s.in_d), one(s.in_h), one(s.in_w)];
    let kernel = [one(s.kernel_d), one(s.kernel_h), one(s.kernel_w)];
    // The depth's stride and padding stand in the notes: `depth stride 1 pad 0`.
    let words: Vec<&str> = row.notes.split_whitespace().collect();
    let number = |after: &str| {
        let at = words.iter().position(|word| *word == after)?;
        words.get(at + 1)?.parse::<u64>().ok()
    };
    let deep = s.in_d > 0;
    let depth = |after: &str, otherwise: u64| if deep { number(after).unwrap_or(otherwise) } else { otherwise };
    let stride = [one(depth("stride", 1)), one(s.stride_h), one(s.stride_w)];
    let pads = [depth("pad", 0), s.pad_h, s.pad_w];
    let dilation = [1, one(s.dilation), one(s.dilation)];
    let mut output = [1; 3];
    for (axis, slot) in output.iter_mut().enumerate() {
        let at = |sizes: &[u64; 3]| sizes.get(axis).copied().unwrap_or(1);
        let window = (at(&kernel) - 1) * at(&dilation) + 1;
        *slot = match &*row.padding {
            "same" => at(&input).div_ceil(at(&stride)),
            "valid" => one((at(&input) + 1).saturating_sub(window).div_ceil(at(&stride))),
            _ => (at(&input) + 2 * at(&pads)).saturating_sub(window) / at(&stride) + 1,
        };
    }
    Convolution {
        batch: s.batch,
        in_channels: s.in_channels,
        out_channels: s.out_channels,
        input,
        output,
        kernel,
        stride,
        dilation,
        groups: one(s.groups),
        transposed: false,
        axes: if deep { 3 } else { 2 },
    }
}

#[allow(clippy::cast_precision_loss, reason = "sizes of tensors")]
fn kernel(row: &LayerRow, family: Family, pass: Pass, precision: Precision, setting: Setting) -> Kernel {
    let width = dlcost::predict::learned::element_bytes(precision);
    let s = &row.sizes;
    let elements = |sizes: &[u64]| sizes.iter().map(|size| *size as f64).product::<f64>();
    let (flops, read, written) = match family {
        Family::Convolution(c) => {
            let inputs = elements(&[c.batch, c.in_channels]) * elements(&c.input);
            let outputs = elements(&[c.batch, c.out_channels]) * elements(&c.output);
            let weights = elements(&[c.in_channels / c.groups.max(1), c.out_channels]) * elements(&c.kernel);
            let (read, written) = match pass {
                Pass::BackwardData => (outputs + weights, inputs),
                Pass::BackwardWeight => (inputs + outputs, weights),
                _ => (inputs + weights, outputs),
            };
            // A sum that is fused reads another image.
            let added = if row.op.ends_with("_add") { outputs } else { 0.0 };
            (2.0 * c.macs(), (read + added) * width, written * width)
        }
        Family::Product { batch, m, n, k } => {
            let [left, right, result] = [[batch, m, k], [batch, k, n], [batch, m, n]].map(|sizes| elements(&sizes));
            (2.0 * elements(&[batch, m, n, k]), (left + right) * width, result * width)
        }
        Family::Attention { batch, heads, kv_heads, queries, keys, head_dim, causal } => {
            let window = if s.window == 0 { keys } else { keys.min(s.window) };
            let seen = if causal {
                // Queries see what lies before them, and no more than the window.
                let (all, first) = (queries as f64, keys.min(window) as f64);
                all * first - first * first / 2.0
            } else {
                elements(&[queries, window])
            };
            let cache = if setting.small_cache { 1.0 } else { 2.0 };
            let kept = if causal { keys } else { window };
            let values = elements(&[2, batch, kv_heads, kept, head_dim]) * cache;
            let queries = elements(&[batch, heads, queries, head_dim]) * 2.0;
            (4.0 * elements(&[batch, heads, head_dim]) * seen, values + queries, queries)
        }
        Family::Recurrent { batch, steps, inputs, hidden, gates, directions } => {
            let skip = if row.notes.contains("skip-input") { 0 } else { inputs };
            let weights = elements(&[directions, gates, hidden]) * (hidden + skip) as f64;
            let flops = 2.0 * elements(&[batch, steps]) * weights;
            let states = elements(&[batch, steps, hidden, directions]);
            (flops, (weights + 2.0 * states) * width, states * width)
        }
        Family::Collective { bytes, .. } => (0.0, bytes as f64, bytes as f64),
        _ => {
            let elements = if s.numel > 0 { s.numel as f64 } else { elements(&[s.rows.max(1), s.cols.max(1)]) };
            let tensor = elements * width;
            let bytes = if s.bytes > 0 { s.bytes as f64 } else { 2.0 * tensor };
            let written = if matches!(family, Family::Elementwise { .. }) { tensor } else { bytes / 2.0 };
            // Tables give bytes of input and output. Statistics are another walk over the input, and gradients of
            // normalisations read what was kept beside the gradient.
            let again = match (family, pass) {
                (Family::BatchNorm { .. }, Pass::Forward) => tensor,
                (Family::BatchNorm { .. }, _) => 3.0 * tensor,
                (Family::Softmax { .. } | Family::LayerNorm { .. }, pass) if pass != Pass::Forward => tensor,
                _ => 0.0,
            };
            (elements * flops_each(row, pass), (bytes - written).max(0.0) + again, written)
        }
    };
    let library = match setting.stack {
        Stack::TensorRt => Library::TensorRt,
        _ if family.is_product() => Library::Vendor,
        _ => Library::Framework,
    };
    let layout = Layout::ChannelsFirst;
    Kernel { family, pass, precision, layout, library, flops, bytes_read: read, bytes_written: written, runs: 1.0 }
}

fn function(op: &str) -> Function {
    match op {
        "tanh" | "silu_mul" => Function::Exponential,
        "gelu" | "bias_gelu" => Function::Error,
        "dropout" | "bias_dropout_add" => Function::Random,
        "pow" | "pow_scalar" => Function::Power,
        _ => Function::Arithmetic,
    }
}

/// Operations for each element, as docs/counting.md has them for layers of a model; those of functions, which count once
/// there, by what they are computed with.
fn flops_each(row: &LayerRow, pass: Pass) -> f64 {
    match (&*row.family, &*row.op) {
        ("batch_norm", _) if pass == Pass::Forward => 8.0,
        ("batch_norm", _) => 11.0,
        ("embedding", _) => 0.0,
        (_, "layer_norm") => 8.0,
        (_, "pow") => 10.0,
        (_, "gelu" | "bias_gelu" | "silu_mul") => 8.0,
        (_, "softmax" | "scale_mask_softmax" | "rms_norm") => 5.0,
        (_, "tanh" | "div" | "pow_scalar") => 4.0,
        (_, "rope" | "dropout" | "bias_dropout_add") => 3.0,
        (_, "div_scalar" | "add3") => 2.0,
        _ => 1.0,
    }
}

/// Who timed an exchange, by how the text of the framework begins: on the device, from the host, or both ends of many.
fn prober(framework: &str) -> u8 {
    let names = [
        "pytorch 2 nccl (kineto",
        "pytorch nccl (Aceso",
        "nccl ",
        "trtllm",
        "nccl-tests",
        "pytorch 2.9",
        "superbench",
        "cuda",
    ];
    let at = names.iter().position(|name| framework.starts_with(name));
    at.and_then(|at| u8::try_from(at + 1).ok()).unwrap_or_default()
}

/// The number of the run that notes name: `run=K40/3`, or a sheet of its own.
fn run(notes: &str) -> u8 {
    let named = notes.split_whitespace().find_map(|word| word.strip_prefix("run="));
    let number = named.and_then(|name| name.rsplit('/').next()?.parse().ok());
    number.unwrap_or_else(|| u8::from(notes.contains("inference sheet") || notes.contains("in-graph")))
}

fn attention_kernel(kernel: &str, framework: &str) -> AttentionKernel {
    let named = |part: &str| kernel.contains(part);
    if named("fa4") {
        AttentionKernel::Flash4
    } else if named("fa3") {
        AttentionKernel::Flash3
    } else if named("trtllm") {
        AttentionKernel::TensorRtLlm
    } else if named("flashinfer") && !framework.starts_with("trtllm") {
        AttentionKernel::FlashInfer
    } else if named("triton") {
        AttentionKernel::Triton
    } else if named("torch_flow") {
        AttentionKernel::TorchFlow
    } else if named("fa2") || named("flash_att") {
        AttentionKernel::Flash2
    } else {
        AttentionKernel::Unknown
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn protocol(row: &LayerRow, stack: Stack, family: &Family) -> Option<Protocol> {
    let [floor_ms, hidden_ms] = match (stack, &*row.source) {
        (Stack::Tensorflow1 | Stack::Tensorflow2, _) => [0.15, 0.0],
        // In a network, timed by hooks: the host's way through a module, forward only.
        (Stack::Pytorch1, _) if &*row.pass == "forward" => [0.25, 0.0],
        // A call takes longer than most kernels that it launches.
        (Stack::Pytorch2, "neusight") => match family {
            Family::Product { batch, .. } if *batch > 1 => [0.031, 0.0],
            Family::Product { .. } => [0.045, 0.0],
            Family::Softmax { .. } => [0.015, 0.018],
            Family::LayerNorm { .. } => [0.02, 0.025],
            Family::Elementwise { .. } => [0.015, 0.013],
            _ => [0.015, 0.0],
        },
        (Stack::Cudnn, _) => [0.004, 0.0],
        // Who measured, and how: some from the host, some on the device.
        (Stack::Nccl, _) => [0.004, 0.0],
        _ => return None,
    };
    let position = |names: &[&str], name: &str| names.iter().position(|known| *known == name).unwrap_or_default();
    let optimizer = position(&OPTIMIZERS, &row.optimizer);
    let activation = position(&ACTIVATIONS, &row.activation);
    let step = &*row.pass == "train_step";
    let (inputs, outputs, weights) = match family {
        Family::Convolution(c) => {
            let all = |sizes: &[u64; 3]| sizes.iter().map(|size| *size as f64).product::<f64>();
            let samples = c.batch as f64;
            let weights = all(&c.kernel) * (c.in_channels / c.groups.max(1)) as f64 * c.out_channels as f64;
            (samples * c.in_channels as f64 * all(&c.input), samples * c.out_channels as f64 * all(&c.output), weights)
        }
        Family::Product { batch, m, n, k } => {
            let [batch, m, n, k] = [*batch, *m, *n, *k].map(|size| size as f64);
            (batch * m * k, batch * m * n, batch * k * n)
        }
        _ => (row.sizes.numel as f64, row.sizes.numel as f64, 0.0),
    };
    let mut protocol = Protocol {
        floor_ms,
        hidden_ms,
        step,
        optimizer: optimizer as u8,
        activation: activation as u8,
        bias: row.use_bias,
        run: if stack == Stack::Nccl { prober(&row.framework) } else { run(&row.notes) },
        inputs,
        outputs,
        ..Protocol::default()
    };
    if matches!(stack, Stack::Tensorflow1 | Stack::Tensorflow2) {
        let passes = f64::from(u8::from(row.use_bias)) + f64::from(u8::from(activation > 0));
        protocol.bytes = 8.0 * outputs * passes;
        if step {
            // The loss reads result and target and writes gradients; activation and bias go back.
            protocol.bytes += (20.0 + 8.0 * passes) * outputs;
            let each = UPDATE_BYTES.get(optimizer).copied().unwrap_or(28.0);
            protocol.update_bytes = each * (inputs + outputs + weights);
            protocol.bytes += protocol.update_bytes;
        }
    }
    Some(protocol)
}
