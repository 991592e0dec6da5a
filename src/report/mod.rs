//! The report as data: what `--format json` writes, and all that any renderer may show. Nothing here is formatted.
//!
//! A number that is not known is `None` (`null`), never 0; what does not apply is 0.

pub mod annotate;
pub(crate) mod build;
mod locate;
pub mod schema;
pub mod stages;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::diagnostics::Level;
use crate::frontend::onnx_text::Lines;

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
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Program {
    /// Version of `dlcost`.
    pub version: String,
    /// Version of the predictors; `null` while there are none.
    pub predictors: Option<String>,
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
    /// Predicted times; `null` in this version.
    pub time_ms: Option<serde_json::Value>,
    /// Predicted throughput; `null` in this version.
    pub throughput: Option<serde_json::Value>,
    /// Predicted memory; `null` in this version.
    pub memory_bytes: Option<serde_json::Value>,
    /// Effect of replicas; `null` in this version.
    pub replicas: Option<serde_json::Value>,
    /// Totals over samples and epochs; `null` in this version.
    pub totals: Option<serde_json::Value>,
    /// Layers in the order of the graph, subgraphs behind their node.
    pub layers: Vec<Layer>,
    /// Findings, gravest first.
    pub diagnostics: Vec<Finding>,
    /// Every tensor by name, with `--tensors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensors: Option<BTreeMap<String, TensorType>>,
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
    /// Device id; `null` in this version.
    pub gpu: Option<String>,
    /// Device name; `null` in this version.
    pub gpu_name: Option<String>,
    /// `train` or `infer`.
    pub mode: String,
    /// Samples per replica; `null` when the model has no batch.
    pub batch: Option<i128>,
    /// Samples over all replicas.
    pub global_batch: Option<i128>,
    /// Compute precision; `null` in this version.
    pub precision: Option<String>,
    /// Optimizer; `null` in this version.
    pub optimizer: Option<String>,
    /// Runtime; `null` in this version.
    pub runtime: Option<String>,
    /// Number of replicas; `null` in this version.
    pub replicas: Option<u32>,
    /// Number of hosts; `null` in this version.
    pub hosts: Option<u32>,
    /// Strategy; `null` in this version.
    pub strategy: Option<String>,
    /// Interconnect; `null` in this version.
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

/// A layer: a node that does work when the model runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Layer {
    /// Stable name: the node's own, else `Op#k` by graph path and scope.
    pub key: String,
    /// Module path.
    pub scope: String,
    /// The node's name; empty when it has none.
    pub name: String,
    /// Operator, with its domain unless standard.
    pub op: String,
    /// Keras class; `null` for ONNX.
    pub class: Option<String>,
    /// Where it stands.
    pub place: Location,
    /// Dims of the first output.
    pub output_shape: Option<Vec<Extent>>,
    /// Trainable and non-trainable elements that this layer is the first to use.
    pub parameters: i128,
    /// Multiply-accumulate pairs, forward; `null` when not known.
    pub macs: Option<i128>,
    /// Floating-point operations.
    pub flops: Passes,
    /// Bytes read and written forward.
    pub bytes: Option<i128>,
    /// How often it runs for each run of the model (loops); the figures above include it.
    pub repeats: Option<i128>,
    /// Whether sizes or rounds that depend on data enter at their upper bound.
    pub at_bound: bool,
    /// Predicted time; `null` in this version.
    pub time_ms: Option<serde_json::Value>,
    /// Share of the step time; `null` in this version.
    pub share: Option<f64>,
    /// Bytes kept for the backward pass; `null` in this version.
    pub saved_bytes: Option<i128>,
    /// What limits it: `compute`, `memory` or `launch`; `null` in this version.
    pub bound: Option<String>,
    /// Kernels that it launches; `null` in this version.
    pub kernels: Option<u32>,
    /// Predictor; `null` in this version.
    pub model: Option<String>,
    /// Whether the predictor knows such layers; `null` in this version.
    pub in_domain: Option<bool>,
}

/// A place in a file, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Location {
    /// Path of the file.
    pub file: String,
    /// Graph path; `null` for the file as a whole.
    pub graph: Option<String>,
    /// Node, by name, else `Op#k`.
    pub node: Option<String>,
    /// Tensor.
    pub tensor: Option<String>,
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
