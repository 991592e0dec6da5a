//! The table of operators: which names of which domain and version make which operator.

use super::{Fault, NodeView, Operator, binary, cast, concat, constant, expand, gather, reshape, shape_of, slice, split, squeeze, transpose, unary};

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

impl Entry {
    /// The same line for an operator that a version withdrew.
    const fn withdrawn(mut self, version: i64) -> Self {
        self.withdrawn = version;
        self
    }
}

/// Every operator with a rule, sorted by domain and name.
pub const ENTRIES: &[Entry] = &[
    onnx("Abs", [1, 1], 1, unary::unary),
    onnx("Acos", [1, 1], 1, unary::unary),
    onnx("Acosh", [1, 1], 1, unary::unary),
    onnx("Add", [2, 2], 1, binary::binary),
    onnx("And", [2, 2], 1, binary::binary),
    onnx("Asin", [1, 1], 1, unary::unary),
    onnx("Asinh", [1, 1], 1, unary::unary),
    onnx("Atan", [1, 1], 1, unary::unary),
    onnx("Atanh", [1, 1], 1, unary::unary),
    onnx("BitCast", [1, 1], 1, cast::bit_cast),
    onnx("BitShift", [2, 2], 1, binary::binary),
    onnx("BitwiseAnd", [2, 2], 1, binary::binary),
    onnx("BitwiseNot", [1, 1], 1, unary::unary),
    onnx("BitwiseOr", [2, 2], 1, binary::binary),
    onnx("BitwiseXor", [2, 2], 1, binary::binary),
    onnx("Cast", [1, 1], 1, cast::cast),
    onnx("CastLike", [2, 2], 1, cast::cast_like),
    onnx("Ceil", [1, 1], 1, unary::unary),
    onnx("Celu", [1, 1], 1, unary::unary),
    onnx("Clip", [1, 3], 1, unary::clip),
    onnx("Concat", [1, MANY], 1, concat::concat),
    onnx("Constant", [0, 0], 1, constant::constant),
    onnx("ConstantOfShape", [1, 1], 1, constant::constant_of_shape),
    onnx("Cos", [1, 1], 1, unary::unary),
    onnx("Cosh", [1, 1], 1, unary::unary),
    onnx("DepthToSpace", [1, 1], 1, transpose::depth_to_space),
    onnx("Div", [2, 2], 1, binary::binary),
    onnx("Elu", [1, 1], 1, unary::unary),
    onnx("Equal", [2, 2], 1, binary::binary),
    onnx("Erf", [1, 1], 1, unary::unary),
    onnx("Exp", [1, 1], 1, unary::unary),
    onnx("Expand", [2, 2], 1, expand::expand),
    onnx("EyeLike", [1, 1], 1, constant::eye_like),
    onnx("Flatten", [1, 1], 1, reshape::flatten),
    onnx("Floor", [1, 1], 1, unary::unary),
    onnx("Gather", [2, 2], 1, gather::gather),
    onnx("GatherElements", [2, 2], 1, gather::gather_elements),
    onnx("GatherND", [2, 2], 1, gather::gather_nd),
    onnx("Gelu", [1, 1], 1, unary::unary),
    onnx("Greater", [2, 2], 1, binary::binary),
    onnx("GreaterOrEqual", [2, 2], 1, binary::binary),
    onnx("HardSigmoid", [1, 1], 1, unary::unary),
    onnx("HardSwish", [1, 1], 1, unary::unary),
    onnx("Identity", [1, 1], 1, cast::identity),
    onnx("IsInf", [1, 1], 1, unary::unary),
    onnx("IsNaN", [1, 1], 1, unary::unary),
    onnx("LeakyRelu", [1, 1], 1, unary::unary),
    onnx("Less", [2, 2], 1, binary::binary),
    onnx("LessOrEqual", [2, 2], 1, binary::binary),
    onnx("Log", [1, 1], 1, unary::unary),
    onnx("Max", [1, MANY], 1, binary::variadic),
    onnx("Mean", [1, MANY], 1, binary::variadic),
    onnx("Min", [1, MANY], 1, binary::variadic),
    onnx("Mish", [1, 1], 1, unary::unary),
    onnx("Mod", [2, 2], 1, binary::binary),
    onnx("Mul", [2, 2], 1, binary::binary),
    onnx("Neg", [1, 1], 1, unary::unary),
    onnx("Not", [1, 1], 1, unary::unary),
    onnx("Or", [2, 2], 1, binary::binary),
    onnx("PRelu", [2, 2], 1, unary::prelu),
    onnx("Pow", [2, 2], 1, binary::binary),
    onnx("Reciprocal", [1, 1], 1, unary::unary),
    onnx("Relu", [1, 1], 1, unary::unary),
    onnx("Reshape", [1, 2], 1, reshape::reshape),
    onnx("Round", [1, 1], 1, unary::unary),
    onnx("Selu", [1, 1], 1, unary::unary),
    onnx("Shape", [1, 1], 1, shape_of::shape),
    onnx("Shrink", [1, 1], 1, unary::unary),
    onnx("Sigmoid", [1, 1], 1, unary::unary),
    onnx("Sign", [1, 1], 1, unary::unary),
    onnx("Sin", [1, 1], 1, unary::unary),
    onnx("Sinh", [1, 1], 1, unary::unary),
    onnx("Size", [1, 1], 1, shape_of::size),
    onnx("Slice", [1, 5], 1, slice::slice),
    onnx("Softplus", [1, 1], 1, unary::unary),
    onnx("Softsign", [1, 1], 1, unary::unary),
    onnx("SpaceToDepth", [1, 1], 1, transpose::space_to_depth),
    onnx("Split", [1, 2], MANY, split::split),
    onnx("Sqrt", [1, 1], 1, unary::unary),
    onnx("Squeeze", [1, 2], 1, squeeze::squeeze),
    onnx("Sub", [2, 2], 1, binary::binary),
    onnx("Sum", [1, MANY], 1, binary::variadic),
    onnx("Swish", [1, 1], 1, unary::unary),
    onnx("Tan", [1, 1], 1, unary::unary),
    onnx("Tanh", [1, 1], 1, unary::unary),
    onnx("ThresholdedRelu", [1, 1], 1, unary::unary),
    onnx("Tile", [2, 3], 1, expand::tile),
    onnx("Transpose", [1, 1], 1, transpose::transpose),
    onnx("Unsqueeze", [1, 2], 1, squeeze::unsqueeze),
    onnx("Where", [3, 3], 1, binary::select),
    onnx("Xor", [2, 2], 1, binary::binary),
];

/// The line for an operator. `ai.onnx` is the empty domain.
#[must_use]
pub fn find(domain: &str, name: &str) -> Option<&'static Entry> {
    let domain = if domain == "ai.onnx" { "" } else { domain };
    let found = ENTRIES.binary_search_by(|entry| (entry.domain, entry.name).cmp(&(domain, name)));
    found.ok().and_then(|index| ENTRIES.get(index))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_so_that_names_are_found() {
        for pair in ENTRIES.windows(2) {
            let [a, b] = [(pair[0].domain, pair[0].name), (pair[1].domain, pair[1].name)];
            assert!(a < b, "{a:?} stands before {b:?}");
        }
        assert!(find("ai.onnx", "Add").is_some_and(|entry| entry.domain.is_empty()));
        assert!(find("", "Nothing").is_none());
    }
}
