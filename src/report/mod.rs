//! The report as data: what `--format json` writes, and all that any renderer may show. Nothing here is formatted.
//!
//! A number that is not known is `None` (`null`), never 0; what does not apply is 0.

pub mod annotate;
pub(crate) mod build;
pub mod comparison;
mod layer;
mod locate;
pub(crate) mod price;
pub mod schema;
pub mod stages;
mod text;
mod totals;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::diagnostics::Level;
use crate::frontend::onnx_text::Lines;
use crate::predict::learned::predictors::Predictors;

pub use layer::{KernelFeatures, Layer, LayerTime};
pub use text::Text;

/// Name of this form of the report.
pub const SCHEMA: &str = "dlcost-report/1";

/// The whole report of one run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Always `dlcost-report/1`.
    pub schema: String,
    /// The program that wrote it.
    pub dlcost: Program,
    /// One entry for each file and target: file by file, in input order.
    pub models: Vec<Model>,
    /// Sums over all entries.
    pub summary: Summary,
}

/// The program that wrote the report.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Program {
    /// Version of `dlcost`.
    pub version: String,
    /// What tells the predictors from others: a hash of them.
    pub predictors: Option<String>,
}

impl Program {
    /// The running one.
    #[must_use]
    pub fn this() -> Self {
        Self::with(&Predictors::built_in())
    }

    /// The running one, with other predictors.
    #[must_use]
    pub fn with(predictors: &Predictors) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), predictors: Some(predictors.version()) }
    }
}

/// Sums over all models.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Summary {
    /// Files read.
    pub files: usize,
    /// Diagnostics at level error.
    pub errors: usize,
    /// Diagnostics at level warning.
    pub warnings: usize,
    /// Diagnostics at level note.
    pub notes: usize,
}

/// One file under one target.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Model {
    /// Path as it was given, or `-`.
    pub path: String,
    /// Which target of the configuration; 0 without one.
    pub target_index: usize,
    /// `onnx`, `onnx-text`, ... ; `null` when the file was not recognised.
    pub format: Option<String>,
    /// Name of the main graph.
    pub name: String,
    /// Who wrote the file.
    pub producer: Producer,
    /// What the figures hold for.
    pub target: Target,
    /// What was assumed because nothing said it.
    pub assumptions: Vec<Assumption>,
    /// Totals of the graph; `null` when the file could not be read.
    pub graph: Option<Graph>,
    /// Inputs of the main graph that are not stored.
    pub inputs: Vec<Port>,
    /// Outputs of the main graph.
    pub outputs: Vec<Port>,
    /// Predicted time of a step in the steady state: warm-up and the search for algorithms are not in it. `null` when
    /// sizes that it depends on are not known.
    pub time_ms: Option<TimeMs>,
    /// What the time of a step goes into: arithmetic, memory traffic or launches; `null` where no layer has a time.
    pub bounds: Option<Bounds>,
    /// Predicted throughput over all replicas.
    pub throughput: Option<Throughput>,
    /// Predicted memory of one device.
    pub memory_bytes: Option<MemoryBytes>,
    /// What replicas gain and cost.
    pub replicas: Option<Replicas>,
    /// Totals over samples and epochs; `null` where `--samples` is not given.
    pub totals: Option<Totals>,
    /// Layers in the order of the graph, subgraphs behind their node.
    pub layers: Vec<Layer>,
    /// Findings, gravest first.
    pub diagnostics: Vec<Finding>,
    /// Every tensor by name, with `--tensors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensors: Option<BTreeMap<String, TensorType>>,
}

/// A prediction: one in ten is below `p10`, one in ten above `p90`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub p10: f64,
    /// Middle.
    pub p50: f64,
    /// Upper end.
    pub p90: f64,
}

/// Predicted time of a step (training) or a run (inference), in the steady state: warm-up and the search for algorithms
/// are not in it. The parts sum to `step.p50`.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct TimeMs {
    /// The whole step.
    pub step: Interval,
    /// Kernels of the forward pass.
    pub forward: f64,
    /// Kernels of the backward pass; 0 in inference.
    pub backward: f64,
    /// Update of the weights.
    pub optimizer: f64,
    /// Gaps between kernels, and waiting for the host.
    pub overhead: f64,
    /// What the last layer, its loss and the mean over replicas cost above the same layer on one device, with
    /// `--strategy mirrored`.
    pub mirrored_loss: f64,
    /// Exchange of the gradients, as far as it does not hide behind the passes.
    pub all_reduce_exposed: f64,
    /// Waiting for input (`--input-ms`, `--input-samples-per-s`).
    pub input_wait: f64,
}

/// What the time of a step on one device goes into, as shares, 0 to 1; the three sum to 1. Waiting for input and for
/// other replicas does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Bounds {
    /// Layers that arithmetic limits.
    pub compute: f64,
    /// Layers that memory traffic limits, and the update of the weights.
    pub memory: f64,
    /// Launching kernels, whatever they compute: gaps between them, the host that prepares them, and layers that are too
    /// small to be limited by anything else.
    pub launch: f64,
}

impl TimeMs {
    /// The parts, as JSON names them.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, f64); 7] {
        [
            ("forward", self.forward),
            ("backward", self.backward),
            ("optimizer", self.optimizer),
            ("overhead", self.overhead),
            ("mirrored_loss", self.mirrored_loss),
            ("all_reduce_exposed", self.all_reduce_exposed),
            ("input_wait", self.input_wait),
        ]
    }

    /// The step as if input were always there.
    #[must_use]
    pub fn without_wait(&self) -> f64 {
        self.forward + self.backward + self.optimizer + self.overhead + self.mirrored_loss + self.all_reduce_exposed
    }
}

/// Predicted throughput over all replicas.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Throughput {
    /// Samples a second; `null` when the model has no batch.
    pub samples_per_s: Option<f64>,
    /// Tokens a second, for models that take token ids: a matrix of integers by that name; `null` for others.
    pub tokens_per_s: Option<f64>,
}

/// An amount of memory with its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByteInterval {
    /// Lower end.
    pub p10: u64,
    /// Middle.
    pub p50: u64,
    /// Upper end.
    pub p90: u64,
}

/// Predicted memory of one device at the moment of the peak. The parts sum to `peak.p50`.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct MemoryBytes {
    /// What `nvidia-smi` shows for the process.
    pub peak: ByteInterval,
    /// Live tensors, as the framework counts them.
    pub peak_allocated: u64,
    /// What the framework's allocator holds for them.
    pub peak_reserved: u64,
    /// Weights, statistics and constant tables.
    pub parameters: u64,
    /// Gradients of the weights.
    pub gradients: u64,
    /// State of the optimizer, master copies of weights included.
    pub optimizer: u64,
    /// Tensors kept for the backward pass.
    pub saved_activations: u64,
    /// Other tensors that are alive at the peak.
    pub transient: u64,
    /// Scratch memory of libraries, and what the allocator holds beyond live tensors.
    pub workspace: u64,
    /// Buffers of collectives.
    pub communication: u64,
    /// Keys and values of earlier tokens that the model takes in and gives back.
    pub kv_cache: u64,
    /// What the process holds before the first tensor: context and code of libraries.
    pub framework: u64,
    /// What the device has; of unequal cards the one that is smallest for what it needs.
    pub capacity: u64,
    /// `true` where the upper end fits, `false` where the lower end does not; `null` where it depends on what the
    /// interval stands for.
    pub fits: Option<bool>,
    /// The largest batch per replica whose upper end fits; 0 where none does, `null` where the batch is not free.
    pub largest_batch: Option<u64>,
}

impl MemoryBytes {
    /// The parts, as JSON names them.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, u64); 9] {
        [
            ("parameters", self.parameters),
            ("gradients", self.gradients),
            ("optimizer", self.optimizer),
            ("saved_activations", self.saved_activations),
            ("transient", self.transient),
            ("workspace", self.workspace),
            ("communication", self.communication),
            ("kv_cache", self.kv_cache),
            ("framework", self.framework),
        ]
    }
}

/// What replicas gain and cost.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Replicas {
    /// Throughput over that of one replica with the same batch per replica; of unequal cards the fastest.
    pub speedup: f64,
    /// `speedup` by the number of replicas.
    pub efficiency: f64,
    /// All-reduce of the gradients of a step, hidden or not; with `--zero` what is scattered and gathered instead.
    pub all_reduce_ms: f64,
    /// As in `time_ms`.
    pub mirrored_loss_ms: f64,
    /// The step if every backward pass ended with an exchange, as wrappers do that are not told otherwise; `null` with one
    /// micro-batch, and where it does.
    pub step_ms_exchanging_always: Option<f64>,
    /// What bounds the speedup: `none`, `compute`, `interconnect`, `latency`, `host`, `input`, or `slowest` where unequal
    /// cards wait for the slowest of them.
    pub bound: String,
    /// Unequal cards, one by one; none where all are equal.
    pub devices: Vec<Replica>,
}

/// One of several unequal cards.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Replica {
    /// Device id.
    pub gpu: String,
    /// What the card takes for its part of a step, without exchange.
    pub step_ms: f64,
    /// What it waits for the slowest of the cards.
    pub wait_ms: f64,
    /// Samples of the global batch that it would take for all cards to end at once, by their rates; `null` when the model
    /// has no batch. Gradients must then be weighted by samples.
    pub share_of_batch: Option<u64>,
}

/// Totals over `--samples` and `--epochs`. Energy and money are estimates.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Totals {
    /// Steps in all.
    pub steps: u64,
    /// Hours in all.
    pub hours: f64,
    /// Device hours: hours by replicas.
    pub gpu_hours: f64,
    /// US dollars; `null` where no price is known.
    pub usd: Option<f64>,
    /// US dollars for an hour of one device.
    pub usd_per_gpu_hour: Option<f64>,
    /// Where the price is from.
    pub price_source: Option<String>,
    /// Kilowatt-hours of the boards, estimated from board power.
    pub energy_kwh: Option<f64>,
}

/// Who wrote the file.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Producer {
    /// `producer_name`; empty when the file does not say.
    pub name: String,
    /// `producer_version`.
    pub version: String,
    /// Format version of the file.
    pub ir_version: Option<i64>,
    /// Imported operator sets by domain (`ai.onnx` for the standard one).
    pub opsets: BTreeMap<String, i64>,
}

/// What the figures hold for.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Target {
    /// Device id; those of unequal cards are joined: `2*rtx-3090+rtx-3060`.
    pub gpu: Option<String>,
    /// Device name.
    pub gpu_name: Option<String>,
    /// `train` or `infer`.
    pub mode: String,
    /// Samples of a micro-batch of a replica; `null` when the model has no batch.
    pub batch: Option<i128>,
    /// Samples of a step over all replicas: `batch` by `replicas` by `accumulate`.
    pub global_batch: Option<i128>,
    /// Micro-batches of a step, of a replica.
    pub accumulate: Option<u32>,
    /// Compute precision.
    pub precision: Option<String>,
    /// Optimizer; `none` in inference.
    pub optimizer: Option<String>,
    /// Runtime, with its version where one was given.
    pub runtime: Option<String>,
    /// Number of replicas.
    pub replicas: Option<u32>,
    /// Number of hosts.
    pub hosts: Option<u32>,
    /// Strategy; `null` for one replica.
    pub strategy: Option<String>,
    /// Stage of ZeRO: 1 shards the state of the optimizer over the replicas, 2 gradients too, 3 parameters too.
    pub zero: Option<u32>,
    /// Id of the interconnect; `null` for one replica.
    pub interconnect: Option<String>,
    /// Values of the free dims that the figures hold for; `null` where one has none.
    pub dims: BTreeMap<String, Option<i128>>,
}

/// Something that was assumed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Assumption {
    /// The option that changes it, without dashes: `batch`, `dim seq`, `mode`.
    pub key: String,
    /// The value.
    pub value: String,
    /// Why this value.
    pub why: String,
}

/// Totals of a graph.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Graph {
    /// Nodes of the file, subgraphs included, functions inlined.
    pub nodes: usize,
    /// Layers: nodes that do work when the model runs.
    pub layers: usize,
    /// Stored tensors by kind.
    pub parameters: Parameters,
    /// Multiply-accumulate pairs, forward, at the bound dims.
    pub macs: Option<i128>,
    /// The same as a formula in the free dims.
    pub macs_formula: Option<String>,
    /// Floating-point operations.
    pub flops: Passes,
    /// Bytes read and written forward, each layer for itself.
    pub bytes: Option<i128>,
    /// Free dims of the inputs, in order of appearance.
    pub symbols: Vec<String>,
    /// What the totals leave out or only bound.
    pub coverage: Coverage,
    /// Loss that a Keras file was compiled with, by its name there; several are joined by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<String>,
}

/// Stored tensors by kind.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Parameters {
    /// `trainable` + `non_trainable`.
    pub total: i128,
    /// Weights that training changes, shared ones once.
    pub trainable: i128,
    /// Running statistics and frozen weights.
    pub non_trainable: i128,
    /// Elements of tables that are neither.
    pub constants: i128,
    /// Bytes of all that is stored.
    pub bytes: i128,
    /// Bytes of what is stored and is no parameter: constant tables, shapes, indices and other settings.
    pub constant_bytes: i128,
}

/// A figure for each pass.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Passes {
    /// Forward pass.
    pub forward: Option<i128>,
    /// Backward pass; 0 in inference.
    pub backward: Option<i128>,
}

/// How far the totals can be trusted.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Coverage {
    /// Layers without a cost; the totals are lower bounds when this is not 0.
    pub layers_not_counted: usize,
    /// Bytes that those layers at least read and write: their inputs and outputs of known size.
    pub bytes_not_counted: Option<i128>,
    /// Layers whose cost is an upper bound (sizes or rounds that depend on data).
    pub layers_at_bound: usize,
    /// MACs of those layers.
    pub macs_at_bound: Option<i128>,
    /// Bytes that those layers read and write.
    pub bytes_at_bound: Option<i128>,
}

/// An input or output of the main graph.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Port {
    /// Tensor name.
    pub name: String,
    /// Element type in ONNX's words; `null` when unknown. Sequences and maps say so.
    pub dtype: Option<String>,
    /// Dims; `null` when the rank is unknown.
    pub shape: Option<Vec<Extent>>,
}

/// A dim: a number, or the text of a symbolic one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Extent {
    /// A number.
    Number(i128),
    /// A formula in the free dims, or the name of a dim that depends on data.
    Symbolic(String),
}

/// Type and shape of a tensor.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TensorType {
    /// Element type in ONNX's words.
    pub dtype: Option<String>,
    /// Dims; `null` when the rank is unknown.
    pub shape: Option<Vec<Extent>>,
    /// For each dim that depends on data its upper bound, where one is known (same order as `shape`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_bound: Option<Vec<Option<Extent>>>,
}

/// A place in a file, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Location {
    /// Path of the file.
    pub file: Text,
    /// Graph path; `null` for the file as a whole.
    pub graph: Option<Text>,
    /// Node, by name, else `Op#k`.
    pub node: Option<Text>,
    /// Tensor.
    pub tensor: Option<Text>,
    /// First byte and one past the last, in binary files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub byte_range: Option<[u64; 2]>,
    /// Line, from 1: that of a text file, and for a binary one the line in the output of `annotate` with the same
    /// options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Column, from 1, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// First output of a node without a name, whose `node` changes with edits before it.
    #[serde(skip)]
    pub output: Option<Text>,
    /// Lines in the text of `annotate` before it has comments.
    #[serde(skip)]
    pub lines: Option<Lines>,
}

/// A diagnostic, as text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// `DL0204`.
    pub code: String,
    /// `undefined-tensor`.
    pub name: String,
    /// Level after configuration.
    pub level: Level,
    /// What was found.
    pub message: String,
    /// Where.
    pub places: Vec<Location>,
    /// What to do.
    pub help: Option<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
    /// How many more of this kind at this level were found and are not listed; 0 but for the last that is.
    #[serde(skip)]
    pub unlisted: usize,
    /// Lines of ONNX text around the first place; only for people.
    #[serde(skip)]
    pub excerpt: Option<Excerpt>,
}

/// Text to show around a place, and what to point at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// Line number of the first line.
    pub first_line: usize,
    /// The text.
    pub text: String,
    /// Byte range in `text`.
    pub range: std::ops::Range<usize>,
    /// What to write under it.
    pub label: String,
}
