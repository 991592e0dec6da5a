//! The table of operators: which names of which domain and version make which operator.

use super::{
    Fault, NodeView, Operator, attention, batch_norm, binary, cast, concat, constant, control_flow, conv,
    conv_transpose, detection, dropout, einsum, expand, flex_attention, gather, gemm, keras, layer_norm,
    linear_attention, loss, matmul, microsoft_attention, microsoft_conv_grad, microsoft_elementwise,
    microsoft_embedding, microsoft_fft, microsoft_fused, microsoft_gated, microsoft_generation, microsoft_group_norm,
    microsoft_group_query, microsoft_longformer, microsoft_matmul_nbits, microsoft_moe, microsoft_packed_attention,
    microsoft_quantized, microsoft_shapes, microsoft_training, ml, nonzero, normalization, one_hot, optimizer, pad,
    pool, quantize, random, range, recurrent, reduce, reshape, resize, rotary, sample, scatter, sequence, shape_of,
    signal, slice, softmax, split, squeeze, text, topk, transpose, unary,
};
use crate::frontend::onnx::model::KERAS;

/// What a builder gives.
pub type Built = Result<Box<dyn Operator>, Fault>;

/// A line of the table.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// Operator name.
    pub name: &'static str,
    /// Inputs in front that cannot be left out.
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

const fn onnx(name: &'static str, inputs: [usize; 2], max_outputs: usize, build: fn(&NodeView<'_>) -> Built) -> Entry {
    Entry { domain: "", name, min_inputs: inputs[0], max_inputs: inputs[1], max_outputs, withdrawn: i64::MAX, build }
}

const fn microsoft(
    name: &'static str,
    inputs: [usize; 2],
    max_outputs: usize,
    build: fn(&NodeView<'_>) -> Built,
) -> Entry {
    Entry { domain: "com.microsoft", ..onnx(name, inputs, max_outputs, build) }
}

const fn nchwc(name: &'static str, inputs: [usize; 2], max_outputs: usize, build: fn(&NodeView<'_>) -> Built) -> Entry {
    Entry { domain: "com.microsoft.nchwc", ..onnx(name, inputs, max_outputs, build) }
}

const fn ml(name: &'static str, inputs: [usize; 2], max_outputs: usize, build: fn(&NodeView<'_>) -> Built) -> Entry {
    Entry { domain: "ai.onnx.ml", ..onnx(name, inputs, max_outputs, build) }
}

const fn preview(
    name: &'static str,
    inputs: [usize; 2],
    max_outputs: usize,
    build: fn(&NodeView<'_>) -> Built,
) -> Entry {
    Entry { domain: "ai.onnx.preview", ..onnx(name, inputs, max_outputs, build) }
}

const fn training(name: &'static str, min_inputs: usize, build: fn(&NodeView<'_>) -> Built) -> Entry {
    Entry { domain: "ai.onnx.preview.training", ..onnx(name, [min_inputs, MANY], MANY, build) }
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
    onnx("AffineGrid", [2, 2], 1, sample::affine_grid),
    onnx("And", [2, 2], 1, binary::binary),
    onnx("ArgMax", [1, 1], 1, reduce::arg_extreme),
    onnx("ArgMin", [1, 1], 1, reduce::arg_extreme),
    onnx("Asin", [1, 1], 1, unary::unary),
    onnx("Asinh", [1, 1], 1, unary::unary),
    onnx("Atan", [1, 1], 1, unary::unary),
    onnx("Atanh", [1, 1], 1, unary::unary),
    onnx("Attention", [3, 7], 4, attention::attention),
    onnx("AveragePool", [1, 1], 1, pool::average_pool),
    onnx("BatchNormalization", [5, 5], 5, batch_norm::batch_norm),
    onnx("Bernoulli", [1, 1], 1, random::bernoulli),
    onnx("BitCast", [1, 1], 1, cast::bit_cast),
    onnx("BitShift", [2, 2], 1, binary::binary),
    onnx("BitwiseAnd", [2, 2], 1, binary::binary),
    onnx("BitwiseNot", [1, 1], 1, unary::unary),
    onnx("BitwiseOr", [2, 2], 1, binary::binary),
    onnx("BitwiseXor", [2, 2], 1, binary::binary),
    onnx("BlackmanWindow", [1, 1], 1, signal::window),
    onnx("Cast", [1, 1], 1, cast::cast),
    onnx("CastLike", [2, 2], 1, cast::cast_like),
    onnx("CausalConvWithState", [2, 4], 2, linear_attention::causal_conv),
    onnx("Ceil", [1, 1], 1, unary::unary),
    onnx("Celu", [1, 1], 1, unary::unary),
    onnx("CenterCropPad", [2, 2], 1, pad::center_crop_pad),
    onnx("Clip", [1, 3], 1, unary::clip),
    onnx("Col2Im", [3, 3], 1, sample::col2im),
    onnx("Compress", [2, 2], 1, nonzero::compress),
    onnx("Concat", [1, MANY], 1, concat::concat),
    onnx("ConcatFromSequence", [1, 1], 1, sequence::sequence),
    onnx("Constant", [0, 0], 1, constant::constant),
    onnx("ConstantOfShape", [1, 1], 1, constant::constant_of_shape),
    onnx("Conv", [2, 3], 1, conv::conv),
    onnx("ConvInteger", [2, 4], 1, conv::conv_integer),
    onnx("ConvTranspose", [2, 3], 1, conv_transpose::conv_transpose),
    onnx("Cos", [1, 1], 1, unary::unary),
    onnx("Cosh", [1, 1], 1, unary::unary),
    onnx("CumProd", [2, 2], 1, one_hot::cumulative),
    onnx("CumSum", [2, 2], 1, one_hot::cumulative),
    onnx("DFT", [1, 3], 1, signal::dft),
    onnx("DeformConv", [3, 5], 1, conv::deform_conv),
    onnx("DepthToSpace", [1, 1], 1, transpose::depth_to_space),
    onnx("DequantizeLinear", [2, 3], 1, quantize::dequantize),
    onnx("Det", [1, 1], 1, signal::det),
    onnx("Div", [2, 2], 1, binary::binary),
    onnx("Dropout", [1, 3], 2, dropout::dropout),
    onnx("DynamicQuantizeLinear", [1, 1], 3, quantize::dynamic_quantize),
    onnx("Einsum", [1, MANY], 1, einsum::einsum),
    onnx("Elu", [1, 1], 1, unary::unary),
    onnx("Equal", [2, 2], 1, binary::binary),
    onnx("Erf", [1, 1], 1, unary::unary),
    onnx("Exp", [1, 1], 1, unary::unary),
    onnx("Expand", [2, 2], 1, expand::expand),
    onnx("EyeLike", [1, 1], 1, constant::eye_like),
    onnx("Flatten", [1, 1], 1, reshape::flatten),
    onnx("Floor", [1, 1], 1, unary::unary),
    onnx("GRU", [3, 6], 2, recurrent::gru),
    onnx("Gather", [2, 2], 1, gather::gather),
    onnx("GatherElements", [2, 2], 1, gather::gather_elements),
    onnx("GatherND", [2, 2], 1, gather::gather_nd),
    onnx("Gelu", [1, 1], 1, unary::unary),
    onnx("Gemm", [2, 3], 1, gemm::gemm),
    onnx("GlobalAveragePool", [1, 1], 1, pool::global_average_pool),
    onnx("GlobalLpPool", [1, 1], 1, pool::global_norm_pool),
    onnx("GlobalMaxPool", [1, 1], 1, pool::global_max_pool),
    onnx("Greater", [2, 2], 1, binary::binary),
    onnx("GreaterOrEqual", [2, 2], 1, binary::binary),
    onnx("GridSample", [2, 2], 1, sample::grid_sample),
    onnx("GroupNormalization", [3, 3], 1, normalization::group_norm),
    onnx("HammingWindow", [1, 1], 1, signal::window),
    onnx("HannWindow", [1, 1], 1, signal::window),
    onnx("HardSigmoid", [1, 1], 1, unary::unary),
    onnx("HardSwish", [1, 1], 1, unary::unary),
    onnx("Hardmax", [1, 1], 1, softmax::softmax),
    onnx("Identity", [1, 1], 1, cast::identity),
    onnx("If", [1, 1], MANY, control_flow::if_then_else),
    onnx("ImageDecoder", [1, 1], 1, signal::image_decoder),
    onnx("InstanceNormalization", [3, 3], 1, normalization::instance_norm),
    onnx("IsInf", [1, 1], 1, unary::unary),
    onnx("IsNaN", [1, 1], 1, unary::unary),
    onnx("LRN", [1, 1], 1, normalization::local_response_norm),
    onnx("LSTM", [3, 8], 3, recurrent::lstm),
    onnx("LayerNormalization", [2, 3], 3, layer_norm::layer_norm),
    onnx("LeakyRelu", [1, 1], 1, unary::unary),
    onnx("Less", [2, 2], 1, binary::binary),
    onnx("LessOrEqual", [2, 2], 1, binary::binary),
    onnx("LinearAttention", [3, 6], 2, linear_attention::linear_attention),
    onnx("Log", [1, 1], 1, unary::unary),
    onnx("LogSoftmax", [1, 1], 1, softmax::softmax),
    onnx("Loop", [0, MANY], MANY, control_flow::loop_body),
    onnx("LpNormalization", [1, 1], 1, normalization::lp_norm),
    onnx("LpPool", [1, 1], 1, pool::norm_pool),
    onnx("MatMul", [2, 2], 1, matmul::matmul),
    onnx("MatMulInteger", [2, 4], 1, matmul::matmul_integer),
    onnx("Max", [1, MANY], 1, binary::variadic),
    onnx("MaxPool", [1, 1], 2, pool::max_pool),
    onnx("MaxRoiPool", [2, 2], 1, detection::max_roi_pool),
    onnx("MaxUnpool", [2, 3], 1, pool::max_unpool),
    onnx("Mean", [1, MANY], 1, binary::variadic),
    onnx("MeanVarianceNormalization", [1, 1], 1, normalization::mean_variance_norm),
    onnx("MelWeightMatrix", [5, 5], 1, signal::mel_weight_matrix),
    onnx("Min", [1, MANY], 1, binary::variadic),
    onnx("Mish", [1, 1], 1, unary::unary),
    onnx("Mod", [2, 2], 1, binary::binary),
    onnx("Mul", [2, 2], 1, binary::binary),
    onnx("Multinomial", [1, 1], 1, random::multinomial),
    onnx("Neg", [1, 1], 1, unary::unary),
    onnx("NegativeLogLikelihoodLoss", [2, 3], 1, loss::loss),
    onnx("NonMaxSuppression", [2, 5], 1, detection::non_max_suppression),
    onnx("NonZero", [1, 1], 1, nonzero::non_zero),
    onnx("Not", [1, 1], 1, unary::unary),
    onnx("OneHot", [3, 3], 1, one_hot::one_hot),
    onnx("Optional", [0, 1], 1, sequence::optional),
    onnx("OptionalGetElement", [1, 1], 1, sequence::optional),
    onnx("OptionalHasElement", [0, 1], 1, sequence::optional),
    onnx("Or", [2, 2], 1, binary::binary),
    onnx("PRelu", [2, 2], 1, unary::prelu),
    onnx("Pad", [1, 4], 1, pad::pad),
    onnx("Pow", [2, 2], 1, binary::binary),
    onnx("QLinearConv", [8, 9], 1, conv::qlinear_conv),
    onnx("QLinearMatMul", [8, 8], 1, matmul::qlinear_matmul),
    onnx("QuantizeLinear", [2, 3], 1, quantize::quantize),
    onnx("RMSNormalization", [2, 2], 1, layer_norm::rms_norm),
    onnx("RNN", [3, 6], 2, recurrent::rnn),
    onnx("RandomNormal", [0, 0], 1, random::random),
    onnx("RandomNormalLike", [1, 1], 1, random::random_like),
    onnx("RandomUniform", [0, 0], 1, random::random),
    onnx("RandomUniformLike", [1, 1], 1, random::random_like),
    onnx("Range", [3, 3], 1, range::range),
    onnx("Reciprocal", [1, 1], 1, unary::unary),
    onnx("ReduceL1", [1, 2], 1, reduce::reduce),
    onnx("ReduceL2", [1, 2], 1, reduce::reduce),
    onnx("ReduceLogSum", [1, 2], 1, reduce::reduce),
    onnx("ReduceLogSumExp", [1, 2], 1, reduce::reduce),
    onnx("ReduceMax", [1, 2], 1, reduce::reduce),
    onnx("ReduceMean", [1, 2], 1, reduce::reduce),
    onnx("ReduceMin", [1, 2], 1, reduce::reduce),
    onnx("ReduceProd", [1, 2], 1, reduce::reduce),
    onnx("ReduceSum", [1, 2], 1, reduce::reduce),
    onnx("ReduceSumSquare", [1, 2], 1, reduce::reduce),
    onnx("RegexFullMatch", [1, 1], 1, text::text),
    onnx("Relu", [1, 1], 1, unary::unary),
    onnx("Reshape", [1, 2], 1, reshape::reshape),
    onnx("Resize", [1, 4], 1, resize::resize),
    onnx("ReverseSequence", [2, 2], 1, one_hot::reverse_sequence),
    onnx("RoiAlign", [3, 3], 1, detection::roi_align),
    onnx("RotaryEmbedding", [3, 4], 1, rotary::rotary),
    onnx("Round", [1, 1], 1, unary::unary),
    onnx("STFT", [2, 4], 1, signal::stft),
    // Before opset 9 the first input may be left out; the operator counts the others itself.
    onnx("Scan", [0, MANY], MANY, control_flow::scan),
    onnx("Scatter", [3, 3], 1, scatter::scatter_elements).withdrawn(11),
    onnx("ScatterElements", [3, 3], 1, scatter::scatter_elements),
    onnx("ScatterND", [3, 3], 1, scatter::scatter_nd),
    onnx("Selu", [1, 1], 1, unary::unary),
    onnx("SequenceAt", [2, 2], 1, sequence::sequence),
    onnx("SequenceConstruct", [1, MANY], 1, sequence::sequence),
    onnx("SequenceEmpty", [0, 0], 1, sequence::sequence),
    onnx("SequenceErase", [1, 2], 1, sequence::sequence),
    onnx("SequenceInsert", [2, 3], 1, sequence::sequence),
    onnx("SequenceLength", [1, 1], 1, sequence::sequence),
    onnx("SequenceMap", [1, MANY], MANY, control_flow::sequence_map),
    onnx("Shape", [1, 1], 1, shape_of::shape),
    onnx("Shrink", [1, 1], 1, unary::unary),
    onnx("Sigmoid", [1, 1], 1, unary::unary),
    onnx("Sign", [1, 1], 1, unary::unary),
    onnx("SimplifiedLayerNormalization", [2, 2], 2, layer_norm::simplified_layer_norm),
    onnx("Sin", [1, 1], 1, unary::unary),
    onnx("Sinh", [1, 1], 1, unary::unary),
    onnx("Size", [1, 1], 1, shape_of::size),
    onnx("Slice", [1, 5], 1, slice::slice),
    onnx("Softmax", [1, 1], 1, softmax::softmax),
    onnx("SoftmaxCrossEntropyLoss", [2, 3], 2, loss::loss),
    onnx("Softplus", [1, 1], 1, unary::unary),
    onnx("Softsign", [1, 1], 1, unary::unary),
    onnx("SpaceToDepth", [1, 1], 1, transpose::space_to_depth),
    onnx("Split", [1, 2], MANY, split::split),
    onnx("SplitToSequence", [1, 2], 1, sequence::sequence),
    onnx("Sqrt", [1, 1], 1, unary::unary),
    onnx("Squeeze", [1, 2], 1, squeeze::squeeze),
    onnx("StringConcat", [2, 2], 1, text::text),
    onnx("StringNormalizer", [1, 1], 1, text::text),
    onnx("StringSplit", [1, 1], 2, text::text),
    onnx("Sub", [2, 2], 1, binary::binary),
    onnx("Sum", [1, MANY], 1, binary::variadic),
    onnx("Swish", [1, 1], 1, unary::unary),
    onnx("Tan", [1, 1], 1, unary::unary),
    onnx("Tanh", [1, 1], 1, unary::unary),
    onnx("TensorScatter", [2, 3], 1, scatter::tensor_scatter),
    onnx("TfIdfVectorizer", [1, 1], 1, text::text),
    onnx("ThresholdedRelu", [1, 1], 1, unary::unary),
    onnx("Tile", [2, 3], 1, expand::tile),
    onnx("TopK", [1, 2], 2, topk::top_k),
    onnx("Transpose", [1, 1], 1, transpose::transpose),
    onnx("Trilu", [1, 2], 1, one_hot::trilu),
    onnx("Unique", [1, 1], 4, topk::unique),
    onnx("Unsqueeze", [1, 2], 1, squeeze::unsqueeze),
    onnx("Upsample", [1, 2], 1, resize::upsample).withdrawn(10),
    onnx("Where", [3, 3], 1, binary::select),
    onnx("Xor", [2, 2], 1, binary::binary),
    ml("ArrayFeatureExtractor", [2, 2], 1, ml::columns),
    ml("Binarizer", [1, 1], 1, ml::preprocess),
    ml("CastMap", [1, 1], 1, ml::cast_map),
    ml("CategoryMapper", [1, 1], 1, ml::mapper),
    ml("DictVectorizer", [1, 1], 1, ml::columns),
    ml("FeatureVectorizer", [1, MANY], 1, ml::columns),
    ml("Imputer", [1, 1], 1, ml::preprocess),
    ml("LabelEncoder", [1, 1], 1, ml::mapper),
    ml("LinearClassifier", [1, 1], 2, ml::linear),
    ml("LinearRegressor", [1, 1], 1, ml::linear),
    ml("Normalizer", [1, 1], 1, ml::preprocess),
    ml("OneHotEncoder", [1, 1], 1, ml::columns),
    ml("SVMClassifier", [1, 1], 2, ml::support_vectors),
    ml("SVMRegressor", [1, 1], 1, ml::support_vectors),
    ml("Scaler", [1, 1], 1, ml::preprocess),
    ml("TreeEnsemble", [1, 1], 1, ml::trees),
    ml("TreeEnsembleClassifier", [1, 1], 2, ml::trees),
    ml("TreeEnsembleRegressor", [1, 1], 1, ml::trees),
    ml("ZipMap", [1, 1], 1, ml::zip_map),
    preview("FlexAttention", [3, 3], 1, flex_attention::flex_attention),
    training("Adagrad", 3, optimizer::adagrad),
    training("Adam", 3, optimizer::adam),
    training("Gradient", 1, optimizer::gradient),
    training("Momentum", 3, optimizer::momentum),
    microsoft("AdamOptimizer", [6, 10], 6, microsoft_training::step),
    microsoft("AdamWOptimizer", [6, 7], 4, microsoft_training::steps),
    microsoft("Attention", [2, 7], 2, microsoft_attention::projected_attention),
    microsoft("BatchNormInternal", [5, 5], 5, microsoft_training::batch_norm),
    microsoft("BatchNormalizationGrad", [5, 5], 3, microsoft_training::gradient),
    microsoft("BeamSearch", [5, 12], 3, microsoft_generation::generation),
    microsoft("BiasAdd", [3, 3], 1, microsoft_elementwise::alike),
    microsoft("BiasDropout", [2, 5], 2, microsoft_elementwise::alike),
    microsoft("BiasFastGeluGrad_dX", [3, 3], 1, microsoft_training::gradient),
    microsoft("BiasGelu", [2, 2], 1, microsoft_fused::bias_activation),
    microsoft("BiasGeluGrad_dX", [3, 3], 1, microsoft_training::gradient),
    microsoft("BiasSoftmax", [2, 2], 1, microsoft_elementwise::alike),
    microsoft("BiasSplitGelu", [2, 2], 1, microsoft_gated::gated),
    microsoft("BitmaskBiasDropout", [2, 5], 2, microsoft_elementwise::alike),
    microsoft("BitmaskDropout", [1, 3], 2, microsoft_elementwise::alike),
    microsoft("BitmaskDropoutGrad", [2, 4], 1, microsoft_training::gradient),
    microsoft("BranchwiseRMSNorm", [1, 2], 1, microsoft_elementwise::alike),
    microsoft("BroadcastGradientArgs", [2, 2], 2, microsoft_training::summed_axes),
    microsoft("CDist", [2, 2], 1, microsoft_shapes::shaped),
    microsoft("CausalConvWithState", [2, 4], 3, linear_attention::causal_conv),
    microsoft("ComplexMul", [2, 2], 1, microsoft_elementwise::broadcasting),
    microsoft("ComplexMulConj", [2, 2], 1, microsoft_elementwise::broadcasting),
    microsoft("ConcatTraining", [1, MANY], 2, microsoft_shapes::standard),
    microsoft("ConvGrad", [3, 3], 3, microsoft_conv_grad::conv_grad),
    microsoft("CropAndResize", [4, 4], 1, detection::crop_and_resize),
    microsoft("DecoderMaskedMultiHeadAttention", [1, 11], 4, microsoft_attention::multi_head_attention),
    microsoft("DecoderMaskedSelfAttention", [3, 9], 2, microsoft_attention::projected_attention),
    microsoft("DequantizeLinear", [2, 3], 1, quantize::dequantize),
    microsoft("DequantizeWithOrder", [2, 2], 1, microsoft_elementwise::alike),
    microsoft("DivGrad", [3, 3], 2, microsoft_training::gradient),
    microsoft("DropoutGrad", [2, 4], 1, microsoft_training::gradient),
    microsoft("DynamicQuantizeLSTM", [3, 12], 3, recurrent::lstm),
    microsoft("DynamicQuantizeMatMul", [3, 5], 1, matmul::dynamic_quantize_matmul),
    microsoft("DynamicTimeWarping", [1, 1], 1, microsoft_shapes::shaped),
    microsoft("EmbedLayerNormalization", [1, 9], 3, microsoft_fused::embed_layer_norm),
    microsoft("ExpandDims", [2, 2], 1, microsoft_shapes::shaped),
    microsoft("FakeQuant", [3, 3], 2, microsoft_training::step),
    microsoft("FakeQuantGrad", [2, 2], 1, microsoft_training::gradient),
    microsoft("FastGelu", [1, 2], 1, microsoft_fused::bias_activation),
    microsoft("FastGeluGrad", [2, 2], 1, microsoft_training::gradient),
    microsoft("FusedConv", [2, 4], 1, conv::fused_conv),
    microsoft("FusedGemm", [2, 3], 1, gemm::gemm),
    microsoft("FusedMatMul", [2, 2], 1, matmul::fused_matmul),
    microsoft("FusedMatMulActivation", [2, 2], 1, matmul::fused_matmul),
    microsoft("GatedAdd", [3, 4], 1, microsoft_elementwise::alike),
    microsoft("GatedRMSNorm", [3, 3], 1, microsoft_elementwise::alike),
    microsoft("GatedRelativePositionBias", [6, 7], 1, microsoft_shapes::shaped),
    microsoft("GatherBlockQuantized", [3, 4], 1, microsoft_embedding::quantized_table),
    microsoft("GatherElementsGrad", [3, 3], 1, microsoft_training::gradient),
    microsoft("GatherGrad", [3, 3], 1, microsoft_training::gradient),
    microsoft("GatherND", [2, 2], 1, microsoft_shapes::standard),
    microsoft("GatherNDGrad", [3, 3], 1, microsoft_training::gradient),
    microsoft("Gelu", [1, 1], 1, microsoft_fused::bias_activation),
    microsoft("GeluGrad", [2, 2], 1, microsoft_training::gradient),
    microsoft("GemmFastGelu", [2, 3], 1, matmul::gemm_fast_gelu),
    microsoft("GemmaRotaryEmbedding", [5, 5], 2, microsoft_elementwise::alike),
    microsoft("GreedySearch", [2, 7], 1, microsoft_generation::generation),
    microsoft("GridSample", [2, 2], 1, microsoft_shapes::standard),
    microsoft("Group", [1, MANY], 1, microsoft_training::step),
    microsoft("GroupNorm", [3, 3], 1, microsoft_group_norm::group_norm),
    microsoft("GroupQueryAttention", [1, 14], 4, microsoft_group_query::group_query_attention),
    microsoft("InPlaceAccumulator", [2, 3], 1, microsoft_training::step),
    microsoft("InPlaceAccumulatorV2", [2, 3], 2, microsoft_training::step),
    microsoft("Inverse", [1, 1], 1, microsoft_shapes::shaped),
    microsoft("InvertibleLayerNormalizationGrad", [5, 5], 3, microsoft_training::gradient),
    microsoft("Irfft", [1, 1], 1, microsoft_fft::fourier),
    microsoft("IsAllFinite", [1, MANY], 1, microsoft_elementwise::alike),
    microsoft("IsFinite", [1, 1], 1, microsoft_training::step),
    microsoft("LayerNormalizationGrad", [5, 5], 3, microsoft_training::gradient),
    microsoft("LeakyReluGrad", [2, 2], 1, microsoft_training::gradient),
    microsoft("LinearAttention", [3, 6], 2, linear_attention::linear_attention),
    microsoft("LogSoftmaxGrad", [2, 2], 1, microsoft_training::gradient),
    microsoft("LogSoftmaxGrad_13", [2, 2], 1, microsoft_training::gradient),
    microsoft("LongformerAttention", [7, 7], 1, microsoft_longformer::longformer),
    microsoft("MatMulBnb4", [3, 3], 1, microsoft_matmul_nbits::matmul_nbits),
    microsoft("MatMulInteger16", [2, 2], 1, matmul::matmul_integer),
    microsoft("MatMulIntegerToFloat", [4, 7], 1, matmul::matmul_integer_to_float),
    microsoft("MatMulNBits", [3, 6], 1, microsoft_matmul_nbits::matmul_nbits),
    microsoft("MaxpoolWithMask", [2, 2], 1, pool::max_pool),
    microsoft("MixedPrecisionScale", [2, MANY], MANY, microsoft_training::step),
    microsoft("MoE", [3, 8], 1, microsoft_moe::experts),
    microsoft("MulInteger", [3, 4], 1, microsoft_elementwise::broadcasting),
    microsoft("MultiHeadAttention", [1, 10], 4, microsoft_attention::multi_head_attention),
    microsoft("MurmurHash3", [1, 1], 1, microsoft_elementwise::alike),
    microsoft("NGramRepeatBlock", [2, 2], 1, microsoft_elementwise::alike),
    microsoft("NegativeLogLikelihoodLossInternal", [2, 4], 1, loss::loss),
    microsoft("NhwcConv", [2, 3], 1, conv::channels_last_conv),
    microsoft("NhwcFusedConv", [2, 4], 1, conv::channels_last_conv),
    microsoft("NhwcMaxPool", [1, 1], 1, pool::max_pool),
    microsoft("PackedAttention", [5, 6], 1, microsoft_packed_attention::packed_attention),
    microsoft("PackedMultiHeadAttention", [1, 7], 1, microsoft_packed_attention::packed_attention),
    microsoft("Pad", [2, 3], 1, microsoft_shapes::standard),
    microsoft("PassThrough", [1, MANY], MANY, microsoft_training::step),
    microsoft("QAttention", [5, 9], 2, microsoft_attention::projected_attention),
    microsoft("QEmbedLayerNormalization", [1, 18], 2, microsoft_fused::embed_layer_norm),
    microsoft("QGemm", [6, 9], 1, gemm::gemm),
    microsoft("QLinearAdd", [2, 8], 1, microsoft_quantized::binary),
    microsoft("QLinearAveragePool", [2, 5], 1, pool::average_pool),
    microsoft("QLinearConcat", [3, MANY], 1, microsoft_quantized::concat),
    microsoft("QLinearConv", [8, 9], 1, conv::qlinear_conv),
    microsoft("QLinearGlobalAveragePool", [2, 5], 1, pool::global_average_pool),
    microsoft("QLinearLeakyRelu", [2, 5], 1, microsoft_quantized::unary),
    microsoft("QLinearMul", [2, 8], 1, microsoft_quantized::binary),
    microsoft("QLinearReduceMean", [2, 5], 1, microsoft_quantized::reduce_mean),
    microsoft("QLinearSigmoid", [2, 5], 1, microsoft_quantized::unary),
    microsoft("QLinearSoftmax", [2, 5], 1, microsoft_elementwise::alike),
    microsoft("QLinearWhere", [9, 9], 1, microsoft_elementwise::broadcasting),
    microsoft("QMoE", [3, 21], 1, microsoft_moe::quantized_experts),
    microsoft("QOrderedGelu", [3, 3], 1, microsoft_elementwise::alike),
    microsoft("QOrderedLayerNormalization", [5, 5], 1, microsoft_elementwise::alike),
    microsoft("QOrderedLongformerAttention", [14, 14], 1, microsoft_longformer::longformer),
    microsoft("QOrderedMatMul", [5, 8], 1, matmul::ordered_matmul),
    microsoft("QuantizeLinear", [2, 3], 1, quantize::quantize),
    microsoft("QuantizeWithOrder", [2, 2], 1, microsoft_elementwise::alike),
    microsoft("QuickGelu", [1, 1], 1, microsoft_fused::bias_activation),
    microsoft("QuickGeluGrad", [2, 2], 1, microsoft_training::gradient),
    microsoft("Range", [2, 3], 1, microsoft_shapes::standard),
    microsoft("ReduceAllL2", [1, MANY], 1, microsoft_training::step),
    microsoft("ReduceSumInteger", [1, 1], 1, microsoft_quantized::reduce_mean),
    microsoft("ReduceSumTraining", [2, 2], 1, reduce::reduce),
    microsoft("RelativePositionBias", [3, 3], 1, microsoft_shapes::shaped),
    microsoft("ReluGrad", [2, 2], 1, microsoft_training::gradient),
    microsoft("RemovePadding", [2, 2], 4, microsoft_packed_attention::padding),
    microsoft("RestorePadding", [2, 2], 1, microsoft_packed_attention::padding),
    microsoft("Rfft", [1, 1], 1, microsoft_fft::fourier),
    microsoft("RotaryEmbedding", [4, 4], 1, rotary::microsoft_rotary),
    microsoft("SGDOptimizer", [3, 3], 2, microsoft_training::step),
    microsoft("SGDOptimizerV2", [3, 4], 2, microsoft_training::steps),
    microsoft("SampleOp", [1, 1], 1, microsoft_elementwise::alike),
    microsoft("Sampling", [2, 9], 2, microsoft_generation::generation),
    microsoft("Scale", [2, 2], 1, microsoft_training::step),
    microsoft("ScaledSiLU", [1, 2], 1, microsoft_elementwise::alike),
    microsoft("SigmoidGrad", [2, 2], 1, microsoft_training::gradient),
    microsoft("SimplifiedLayerNormalization", [2, 2], 2, layer_norm::simplified_layer_norm),
    microsoft("SimplifiedLayerNormalizationGrad", [4, 4], 2, microsoft_training::gradient),
    microsoft("SkipGroupNorm", [4, 5], 2, microsoft_group_norm::group_norm),
    microsoft("SkipLayerNormalization", [3, 5], 4, layer_norm::skip_layer_norm),
    microsoft("SkipSimplifiedLayerNormalization", [3, 4], 4, layer_norm::skip_simplified_layer_norm),
    microsoft("SliceGrad", [4, 6], 1, microsoft_training::gradient),
    microsoft("SoftmaxCrossEntropy", [2, 2], 2, microsoft_training::loss),
    microsoft("SoftmaxCrossEntropyGrad", [3, 3], 1, microsoft_training::gradient),
    microsoft("SoftmaxCrossEntropyLossGrad", [3, 5], 1, microsoft_training::gradient),
    microsoft("SoftmaxCrossEntropyLossInternal", [2, 4], 2, loss::loss),
    microsoft("SoftmaxCrossEntropyLossInternalGrad", [3, 6], 1, microsoft_training::gradient),
    microsoft("SoftmaxGrad", [2, 2], 1, microsoft_training::gradient),
    microsoft("SoftmaxGrad_13", [2, 2], 1, microsoft_training::gradient),
    microsoft("SparseSoftmaxCrossEntropy", [2, 3], 2, microsoft_training::loss),
    microsoft("SparseSoftmaxCrossEntropyGrad", [3, 4], 1, microsoft_training::gradient),
    microsoft("SparseToDenseMatMul", [2, 2], 1, matmul::fused_matmul),
    microsoft("SplitTraining", [2, 2], MANY, microsoft_shapes::standard),
    microsoft("SwiGLU", [1, 2], 1, microsoft_gated::gated),
    microsoft("TanhGrad", [2, 2], 1, microsoft_training::gradient),
    microsoft("Tokenizer", [1, 1], 1, text::text),
    microsoft("TorchEmbedding", [2, 4], 1, microsoft_embedding::table),
    microsoft("TransposeMatMul", [2, 2], 1, matmul::fused_matmul),
    microsoft("Trilu", [1, 2], 1, microsoft_shapes::standard),
    microsoft("UnfoldTensor", [1, 1], 1, microsoft_shapes::shaped),
    microsoft("Unique", [1, 1], 3, microsoft_shapes::shaped),
    microsoft("WhisperBeamSearch", [5, 15], 5, microsoft_generation::generation),
    microsoft("WordConvEmbedding", [4, 4], 1, microsoft_embedding::word_conv),
    microsoft("YieldOp", [1, MANY], MANY, microsoft_training::step),
    microsoft("ZeroGradient", [2, 2], 1, microsoft_training::step),
    nchwc("AveragePool", [1, 1], 1, pool::average_pool),
    nchwc("Conv", [2, 4], 1, conv::blocked_conv),
    nchwc("GlobalAveragePool", [1, 1], 1, pool::global_average_pool),
    nchwc("GlobalMaxPool", [1, 1], 1, pool::global_max_pool),
    nchwc("MaxPool", [1, 1], 2, pool::max_pool),
    nchwc("ReorderInput", [1, 1], 1, microsoft_fused::reorder),
    nchwc("ReorderOutput", [1, 1], 1, microsoft_fused::reorder),
    nchwc("Upsample", [1, 1], 1, resize::scaled_by_attribute),
];

/// The line for an operator. `ai.onnx` is the empty domain.
#[must_use]
pub fn find(domain: &str, name: &str) -> Option<&'static Entry> {
    let domain = if domain == "ai.onnx" { "" } else { domain };
    if domain == KERAS {
        let index = keras::ENTRIES.binary_search_by(|entry| entry.name.cmp(name)).ok()?;
        return keras::ENTRIES.get(index);
    }
    let index = ENTRIES.binary_search_by(|entry| entry.domain.cmp(domain).then_with(|| entry.name.cmp(name))).ok()?;
    ENTRIES.get(index)
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

#[cfg(test)]
mod tests {
    use super::{ENTRIES, find};

    #[test]
    fn inputs_behind_one_that_may_be_left_out_are_not_needed() {
        // Packed query, key and value; sentences without segments; operands without zero points.
        for (name, needed) in [("GroupQueryAttention", 1), ("EmbedLayerNormalization", 1), ("QLinearAdd", 2)] {
            assert_eq!(find("com.microsoft", name).map(|entry| entry.min_inputs), Some(needed), "{name}");
        }
    }

    #[test]
    fn lines_are_sorted_and_found() {
        assert!(ENTRIES.is_sorted_by(|left, right| (left.domain, left.name) < (right.domain, right.name)));
        assert_eq!(find("ai.onnx", "Conv").map(|entry| entry.domain), Some(""));
        assert!(find("", "NoSuchOperator").is_none());
    }
}
