//! Layer classes: which operators each becomes. One file for each family.

mod activation;
mod attention;
mod convolution;
mod core;
mod merging;
mod normalization;
mod operations;
mod preprocessing;
mod recurrent;
mod reshaping;
mod wrappers;

use super::builder::{Unknown, dim_def};
use super::call::Call;
use super::json::Json;
use super::layer::{Layer, Outputs};
use crate::frontend::onnx::model::Name;

type Cx<'c, 'r, 'b, 'p, 'j> = &'c mut Layer<'r, 'b, 'p, 'j>;

/// Translates a call of a layer into nodes.
pub(super) fn translate<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    record_inputs(layer, call);
    if operations::is_operation(layer) {
        return operations::translate(layer, call);
    }
    if layer.custom {
        return unknown(layer, call);
    }
    match layer.class {
        "Dense" => core::dense(layer, call),
        "EinsumDense" => core::einsum_dense(layer, call),
        "Embedding" => core::embedding(layer, call),
        "ReversibleEmbedding" => core::reversible_embedding(layer, call),
        "InputLayer" | "Identity" | "ActivityRegularization" => core::unchanged(layer, call),
        "Dropout" | "AlphaDropout" => core::noise(layer, call, 1),
        "GaussianDropout" => core::noise(layer, call, 4),
        "SpatialDropout1D" | "SpatialDropout2D" | "SpatialDropout3D" | "GaussianNoise" => core::noise(layer, call, 0),
        "Masking" => core::masking(layer, call),
        "RandomFourierFeatures" => core::random_fourier(layer, call),
        "DenseFeatures" => preprocessing::dense_features(layer, call),

        "Activation" | "ReLU" | "LeakyReLU" | "ELU" | "ThresholdedReLU" | "Softmax" => activation::layer(layer, call),
        "PReLU" => activation::prelu(layer, call),

        // Layers of `keras.applications`.
        "LayerScale" => core::layer_scale(layer, call),
        "CustomScaleLayer" => merging::scaled_sum(layer, call),
        "StochasticDepth" => core::noise(layer, call, 0),

        "Conv1D" | "Conv2D" | "Conv3D" | "Convolution1D" | "Convolution2D" | "Convolution3D" => {
            convolution::conv(layer, call)
        }
        "DepthwiseConv1D" | "DepthwiseConv2D" => convolution::depthwise(layer, call),
        "SeparableConv1D" | "SeparableConv2D" | "SeparableConvolution1D" | "SeparableConvolution2D" => {
            convolution::separable(layer, call)
        }
        "Conv1DTranspose"
        | "Conv2DTranspose"
        | "Conv3DTranspose"
        | "Convolution1DTranspose"
        | "Convolution2DTranspose"
        | "Convolution3DTranspose" => convolution::transposed(layer, call),
        "LocallyConnected1D" | "LocallyConnected2D" => convolution::locally_connected(layer, call),
        "MaxPooling1D" | "MaxPooling2D" | "MaxPooling3D" | "MaxPool1D" | "MaxPool2D" | "MaxPool3D"
        | "AveragePooling1D" | "AveragePooling2D" | "AveragePooling3D" | "AvgPool1D" | "AvgPool2D" | "AvgPool3D" => {
            convolution::pool(layer, call)
        }
        "GlobalMaxPooling1D"
        | "GlobalMaxPooling2D"
        | "GlobalMaxPooling3D"
        | "GlobalMaxPool1D"
        | "GlobalMaxPool2D"
        | "GlobalMaxPool3D"
        | "GlobalAveragePooling1D"
        | "GlobalAveragePooling2D"
        | "GlobalAveragePooling3D"
        | "GlobalAvgPool1D"
        | "GlobalAvgPool2D"
        | "GlobalAvgPool3D" => convolution::global_pool(layer, call),
        "AdaptiveAveragePooling1D"
        | "AdaptiveAveragePooling2D"
        | "AdaptiveAveragePooling3D"
        | "AdaptiveMaxPooling1D"
        | "AdaptiveMaxPooling2D"
        | "AdaptiveMaxPooling3D" => convolution::adaptive_pool(layer, call),

        "LSTM" | "GRU" | "SimpleRNN" | "CuDNNLSTM" | "CuDNNGRU" => recurrent::layer(layer, call),
        "RNN" => recurrent::over_cell(layer, call),
        "LSTMCell" | "GRUCell" | "SimpleRNNCell" | "StackedRNNCells" => recurrent::lone_cell(layer, call),
        "ConvLSTM1D" | "ConvLSTM2D" | "ConvLSTM3D" => recurrent::conv_lstm(layer, call),

        "MultiHeadAttention" => attention::multi_head(layer, call),
        "GroupedQueryAttention" | "GroupQueryAttention" => attention::grouped_query(layer, call),
        "Attention" | "AdditiveAttention" => attention::dot_or_sum(layer, call),

        "BatchNormalization" | "SyncBatchNormalization" | "BatchNormalizationV1" | "BatchNormalizationV2" => {
            normalization::batch(layer, call)
        }
        "LayerNormalization" => normalization::layer_norm(layer, call),
        "RMSNormalization" => normalization::root_mean_square(layer, call),
        "GroupNormalization" => normalization::group(layer, call),
        "UnitNormalization" => normalization::unit(layer, call),
        "Normalization" => normalization::by_data(layer, call),

        "Add" | "Subtract" | "Multiply" | "Average" | "Maximum" | "Minimum" => merging::merge(layer, call),
        "Concatenate" => merging::concatenate(layer, call),
        "Dot" => merging::dot(layer, call),

        "Flatten" => reshaping::flatten(layer, call),
        "Reshape" => reshaping::reshape(layer, call),
        "Permute" => reshaping::permute(layer, call),
        "RepeatVector" => reshaping::repeat_vector(layer, call),
        "UpSampling1D" | "UpSampling2D" | "UpSampling3D" => reshaping::upsampling(layer, call),
        "ZeroPadding1D" | "ZeroPadding2D" | "ZeroPadding3D" => reshaping::zero_padding(layer, call),
        "Cropping1D" | "Cropping2D" | "Cropping3D" => reshaping::cropping(layer, call),

        "TimeDistributed" => wrappers::time_distributed(layer, call),
        "Bidirectional" => wrappers::bidirectional(layer, call),
        "SpectralNormalization" => wrappers::spectral_normalization(layer, call),

        class if preprocessing::knows(class) => preprocessing::layer(layer, call),
        _ => unknown(layer, call),
    }
}

/// What a layer was built for says the shapes of what it reads, where nothing else does.
fn record_inputs<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) {
    let Some(shape) = layer.build.and_then(|build| build.given("input_shape")).and_then(Json::list) else { return };
    let tensors = call.tensors();
    let shapes: Vec<&[Json<'j>]> = if shape.iter().all(|dim| dim.list().is_none()) {
        vec![shape]
    } else {
        shape.iter().filter_map(Json::list).collect()
    };
    if shapes.len() != tensors.len() {
        return;
    }
    for (tensor, shape) in tensors.iter().zip(shapes) {
        let dims = shape.iter().enumerate().map(|(axis, dim)| dim_def(axis, dim.integer())).collect();
        layer.reader.builder.record_built(tensor, dims);
    }
}

/// A layer without a rule: `Lambda`, a class of the user, or one of another version.
fn unknown<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let why = match layer.class {
        "Lambda" => "Python bytecode, never run",
        "TFSMLayer" => "a SavedModel beside the file",
        "JaxLayer" | "FlaxLayer" | "TorchModuleWrapper" => "code of another framework",
        "Merge" | "Highway" | "MaxoutDense" | "TimeDistributedDense" => "a layer of Keras 1",
        _ => "no built-in layer",
    };
    let path = layer.path.clone();
    if layer.reader.builder.is_news(format!("{path}: unknown")) {
        let unknown = Unknown { path, class: layer.class.to_owned(), why, span: layer.owner.span };
        layer.reader.builder.unknown.push(unknown);
    }
    // A wrapper of the user: what is in it is read all the same.
    let mut inputs = call.all();
    if layer.value("layer").is_some()
        && let Some(made) = wrappers::custom(layer, call)
    {
        inputs = made;
    }
    Ok(layer.reader.builder.opaque(&layer.owner, inputs, layer.wanted))
}
