//! Layers of the report.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Extent, Interval, Location, Passes, Text};

/// A layer: a node that does work when the model runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Layer {
    /// Stable name: the node's own, else `Op#k` by graph path and scope.
    pub key: Text,
    /// Module path.
    pub scope: Text,
    /// The node's name; empty when it has none.
    pub name: Text,
    /// Operator, with its domain unless standard.
    pub op: Text,
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
    /// Predicted time; `null` when its sizes are not known.
    pub time_ms: Option<LayerTime>,
    /// Share of the step time, 0 to 1.
    pub share: Option<f64>,
    /// Bytes kept for the backward pass, storages that an earlier layer keeps not counted again; 0 in inference.
    pub saved_bytes: Option<i128>,
    /// What limits it: `compute`, `memory` or `launch`; `null` where it launches nothing.
    pub bound: Option<&'static str>,
    /// Kernels that it launches in a step; 0 where it is a view or part of another layer's kernel.
    pub kernels: Option<u32>,
    /// Id of the predictor that most of its time is from, or `roofline`.
    pub model: Option<Text>,
    /// Whether predictors have seen such kernels, those that make most of its time; `null` where none learns such work.
    pub in_domain: Option<bool>,
    /// What it launches, with `--features`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<KernelFeatures>>,
}

/// A kernel as the predictor that prices it sees it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KernelFeatures {
    /// `forward`, `backward`, `backward_data`, `backward_weight` or `update`.
    pub pass: &'static str,
    /// `convolution`, `product`, ...
    pub family: &'static str,
    /// `fp32`, ...
    pub precision: &'static str,
    /// Id of the predictor, or `roofline`.
    pub model: Text,
    /// Whether the predictor has seen such kernels; `null` where none learns such work.
    pub in_domain: Option<bool>,
    /// The feature that lies farthest outside of what was seen.
    pub outside: Option<&'static str>,
    /// Predicted time of one launch, ms.
    pub time_ms: Interval,
    /// Features by name; none where physics alone prices it.
    pub values: BTreeMap<&'static str, f32>,
}

/// Predicted time of a layer. The times are p50 but for the interval of both passes together.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct LayerTime {
    /// Forward pass.
    pub forward: f64,
    /// Backward pass; 0 in inference.
    pub backward: f64,
    /// Lower end of both together.
    pub p10: f64,
    /// Both together.
    pub p50: f64,
    /// Upper end of both together.
    pub p90: f64,
}
