//! The table of operators: which names of which domain and version make which operator.

use super::{Fault, NodeView, Operator, control_flow, sequence};

/// What a builder gives.
pub type Built = Result<Box<dyn Operator>, Fault>;

/// A line of the table.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// Operator name.
    pub name: &'static str,
    /// Fewest inputs.
    pub min_inputs: usize,
    /// Most inputs.
    pub max_inputs: usize,
    /// Most outputs.
    pub max_outputs: usize,
    /// Version of the operator set that withdrew the operator; `i64::MAX` for those in force.
    pub withdrawn: i64,
    /// Makes the operator from a node.
    pub build: fn(&NodeView<'_>) -> Built,
}

/// Any number.
const MANY: usize = usize::MAX;

const fn onnx(
    name: &'static str,
    inputs: [usize; 2],
    max_outputs: usize,
    build: fn(&NodeView<'_>) -> Built,
) -> Entry {
    Entry { domain: "", name, min_inputs: inputs[0], max_inputs: inputs[1], max_outputs, withdrawn: i64::MAX, build }
}

/// Every operator with a rule, sorted by domain and name.
pub const ENTRIES: &[Entry] = &[
    onnx("ConcatFromSequence", [1, 1], 1, sequence::sequence),
    onnx("If", [1, 1], MANY, control_flow::if_then_else),
    onnx("Loop", [0, MANY], MANY, control_flow::loop_body),
    onnx("Optional", [0, 1], 1, sequence::optional),
    onnx("OptionalGetElement", [1, 1], 1, sequence::optional),
    onnx("OptionalHasElement", [0, 1], 1, sequence::optional),
    onnx("Scan", [1, MANY], MANY, control_flow::scan),
    onnx("SequenceAt", [2, 2], 1, sequence::sequence),
    onnx("SequenceConstruct", [1, MANY], 1, sequence::sequence),
    onnx("SequenceEmpty", [0, 0], 1, sequence::sequence),
    onnx("SequenceErase", [1, 2], 1, sequence::sequence),
    onnx("SequenceInsert", [2, 3], 1, sequence::sequence),
    onnx("SequenceLength", [1, 1], 1, sequence::sequence),
    onnx("SequenceMap", [1, MANY], MANY, control_flow::sequence_map),
    onnx("SplitToSequence", [1, 2], 1, sequence::sequence),
];

/// The line for an operator. `ai.onnx` is the empty domain.
#[must_use]
pub fn find(domain: &str, name: &str) -> Option<&'static Entry> {
    let domain = if domain == "ai.onnx" { "" } else { domain };
    ENTRIES.iter().find(|entry| entry.domain == domain && entry.name == name)
}

/// Whether any operator of the domain has a rule.
#[must_use]
pub fn knows_domain(domain: &str) -> bool {
    ENTRIES.iter().any(|entry| entry.domain == domain)
}

/// Names of the operators of a domain that have a rule.
pub fn names_of(domain: &str) -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().filter(move |entry| entry.domain == domain).map(|entry| entry.name)
}

/// Domains in which an operator of this name has a rule.
#[must_use]
pub fn domains_of(name: &str) -> Vec<&'static str> {
    ENTRIES.iter().filter(|entry| entry.name == name).map(|entry| entry.domain).collect()
}

/// Every operator name of the standard domain, with or without a rule here.
pub const STANDARD_NAMES: &[&str] = &[
    "Abs", "Acos", "Acosh", "Add", "AffineGrid", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh",
    "Attention", "AveragePool", "BatchNormalization", "Bernoulli", "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot",
    "BitwiseOr", "BitwiseXor", "BlackmanWindow", "Cast", "CastLike", "CausalConvWithState", "Ceil", "Celu",
    "CenterCropPad", "Clip", "Col2Im", "Compress", "Concat", "ConcatFromSequence", "Constant", "ConstantOfShape",
    "Conv", "ConvInteger", "ConvTranspose", "Cos", "Cosh", "CumProd", "CumSum", "DFT", "DeformConv", "DepthToSpace",
    "DequantizeLinear", "Det", "Div", "Dropout", "DynamicQuantizeLinear", "Einsum", "Elu", "Equal", "Erf", "Exp",
    "Expand", "EyeLike", "Flatten", "Floor", "GRU", "Gather", "GatherElements", "GatherND", "Gelu", "Gemm",
    "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "Greater", "GreaterOrEqual", "GridSample",
    "GroupNormalization", "HammingWindow", "HannWindow", "HardSigmoid", "HardSwish", "Hardmax", "Identity", "If",
    "ImageDecoder", "InstanceNormalization", "IsInf", "IsNaN", "LRN", "LSTM", "LayerNormalization", "LeakyRelu",
    "Less", "LessOrEqual", "LinearAttention", "Log", "LogSoftmax", "Loop", "LpNormalization", "LpPool", "MatMul",
    "MatMulInteger", "Max", "MaxPool", "MaxRoiPool", "MaxUnpool", "Mean", "MeanVarianceNormalization",
    "MelWeightMatrix", "Min", "Mish", "Mod", "Mul", "Multinomial", "Neg", "NegativeLogLikelihoodLoss",
    "NonMaxSuppression", "NonZero", "Not", "OneHot", "Optional", "OptionalGetElement", "OptionalHasElement", "Or",
    "PRelu", "Pad", "Pow", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "RMSNormalization", "RNN",
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Range", "Reciprocal", "ReduceL1",
    "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
    "ReduceSumSquare", "RegexFullMatch", "Relu", "Reshape", "Resize", "ReverseSequence", "RoiAlign",
    "RotaryEmbedding", "Round", "STFT", "Scan", "Scatter", "ScatterElements", "ScatterND", "Selu", "SequenceAt",
    "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "Shape",
    "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Size", "Slice", "Softmax", "SoftmaxCrossEntropyLoss", "Softplus",
    "Softsign", "SpaceToDepth", "Split", "SplitToSequence", "Sqrt", "Squeeze", "StringConcat", "StringNormalizer",
    "StringSplit", "Sub", "Sum", "Swish", "Tan", "Tanh", "TensorScatter", "TfIdfVectorizer", "ThresholdedRelu",
    "Tile", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze", "Upsample", "Where", "Xor",
];
