//! Convolutions and pools.

use super::super::builder::{Attributes, flag, int, ints, text};
use super::super::call::Call;
use super::super::layer::{Outputs, Refusal};
use super::Cx;
use super::core::{Kernel, dims};
use crate::frontend::onnx::model::{AttributeValue, Name};

/// Spatial axes, by the digit in the class.
pub(super) fn axes_of(class: &str) -> usize {
    class.chars().find_map(|letter| letter.to_digit(10)).map_or(2, |digit| digit as usize).clamp(1, 3)
}

/// `same`, `valid`, `causal` as the standard names padding.
fn padding(layer: Cx<'_, '_, '_, '_, '_>) -> Result<AttributeValue, Refusal> {
    let value = layer.value("padding");
    let name = value.and_then(|value| value.text()).unwrap_or("valid").to_lowercase();
    Ok(text(match &*name {
        "valid" => "VALID",
        "same" => "SAME_UPPER",
        // All of it stands before the first step: as many steps as `same`.
        "causal" => "SAME_LOWER",
        _ => {
            let message = format!("padding must be \"valid\", \"same\" or \"causal\", got {name:?}");
            return Err(Refusal::new(message).at(value.map(|value| value.span).unwrap_or_default()));
        }
    }))
}

fn window(layer: Cx<'_, '_, '_, '_, '_>, axes: usize) -> Result<Attributes, Refusal> {
    if layer.value("kernel_size").is_none() {
        return Err(Refusal::new("kernel_size is missing"));
    }
    let dilations = layer.spatial("dilation_rate", axes, 1, 1)?;
    Ok(vec![
        ("kernel_shape", ints(layer.spatial("kernel_size", axes, 1, 1)?)),
        ("strides", ints(layer.spatial("strides", axes, 1, 1)?)),
        ("dilations", ints(dilations)),
        ("auto_pad", padding(layer)?),
        ("channels_last", flag(layer.channels_last())),
        layer.class_attribute(),
    ])
}

/// `Conv1D`, `Conv2D`, `Conv3D`.
pub(super) fn conv<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let filters = layer.positive("filters")?;
    let mut attributes = window(layer, axes_of(layer.class))?;
    let groups = layer.integer_or("groups", 1)?;
    if groups < 1 {
        return Err(Refusal::new(format!("groups must be positive, got {groups}")));
    }
    attributes.extend([("filters", int(filters)), ("group", int(groups))]);
    let kernel = Kernel::of(layer, &[filters])?;
    let inputs = kernel.inputs(input);
    let output = layer.keras("", "Conv", inputs, attributes);
    Ok(vec![layer.activated("activation", output)?])
}

/// `DepthwiseConv1D`, `DepthwiseConv2D`.
pub(super) fn depthwise<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let mut attributes = window(layer, axes_of(layer.class))?;
    attributes.extend([("filters", int(multiplier(layer)?)), ("depthwise", flag(true))]);
    let mut inputs = vec![input, layer.weight("depthwise_kernel")];
    if layer.flag("use_bias", true) {
        inputs.push(layer.weight("bias"));
    }
    let output = layer.keras("", "Conv", inputs, attributes);
    Ok(vec![layer.activated("activation", output)?])
}

fn multiplier(layer: Cx<'_, '_, '_, '_, '_>) -> Result<i64, Refusal> {
    match layer.integer_or("depth_multiplier", 1)? {
        number if number > 0 => Ok(number),
        number => Err(Refusal::new(format!("depth_multiplier must be positive, got {number}"))),
    }
}

/// `SeparableConv1D`, `SeparableConv2D`: a depthwise convolution, then one of single pixels.
pub(super) fn separable<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let axes = axes_of(layer.class);
    let filters = layer.positive("filters")?;
    let mut attributes = window(layer, axes)?;
    attributes.extend([("filters", int(multiplier(layer)?)), ("depthwise", flag(true))]);
    let kernel = layer.weight("depthwise_kernel");
    let between = layer.keras("depthwise", "Conv", vec![input, kernel], attributes);
    let pointwise = vec![
        ("kernel_shape", ints(vec![1; axes])),
        ("auto_pad", text("VALID")),
        ("channels_last", flag(layer.channels_last())),
        ("filters", int(filters)),
        layer.class_attribute(),
    ];
    let mut inputs = vec![between, layer.weight("pointwise_kernel")];
    if layer.flag("use_bias", true) {
        inputs.push(layer.weight("bias"));
    }
    let output = layer.keras("", "Conv", inputs, pointwise);
    Ok(vec![layer.activated("activation", output)?])
}

/// `Conv1DTranspose`, `Conv2DTranspose`, `Conv3DTranspose`.
pub(super) fn transposed<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let axes = axes_of(layer.class);
    let filters = layer.positive("filters")?;
    let mut attributes = window(layer, axes)?;
    attributes.push(("filters", int(filters)));
    if layer.value("output_padding").is_some() {
        attributes.push(("output_padding", ints(layer.spatial("output_padding", axes, 0, 0)?)));
    }
    let kernel = Kernel::of(layer, &[filters])?;
    let inputs = kernel.inputs(input);
    let output = layer.keras("", "ConvTranspose", inputs, attributes);
    Ok(vec![layer.activated("activation", output)?])
}

/// `LocallyConnected1D`, `LocallyConnected2D`.
pub(super) fn locally_connected<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let filters = layer.positive("filters")?;
    let mut attributes = window(layer, axes_of(layer.class))?;
    attributes.extend([("filters", int(filters)), ("implementation", int(layer.integer_or("implementation", 1)?))]);
    let mut inputs = vec![input, layer.weight("kernel")];
    if layer.flag("use_bias", true) {
        inputs.push(layer.weight("bias"));
    }
    let output = layer.keras("", "LocallyConnected", inputs, attributes);
    Ok(vec![layer.activated("activation", output)?])
}

/// `MaxPooling1D` ... `AveragePooling3D`.
pub(super) fn pool<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let axes = axes_of(layer.class);
    let key = if layer.value("pool_size").is_some() { "pool_size" } else { "pool_length" };
    let size = layer.spatial(key, axes, 2, 1)?;
    let strides = if layer.value("strides").is_some() { layer.spatial("strides", axes, 1, 1)? } else { size.clone() };
    let attributes = vec![
        ("kernel_shape", ints(size)),
        ("strides", ints(strides)),
        ("auto_pad", padding(layer)?),
        ("channels_last", flag(layer.channels_last())),
        layer.class_attribute(),
    ];
    let op = if layer.class.starts_with("Max") { "MaxPool" } else { "AveragePool" };
    Ok(vec![layer.keras("", op, vec![input], attributes)])
}

/// `GlobalMaxPooling1D` ... `GlobalAveragePooling3D`.
pub(super) fn global_pool<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let attributes = vec![
        ("channels_last", flag(layer.channels_last())),
        ("keepdims", flag(layer.flag("keepdims", false))),
        ("rank", int(axes_of(layer.class) as i64 + 2)),
        layer.class_attribute(),
    ];
    let op = if layer.class.starts_with("GlobalMax") { "GlobalMaxPool" } else { "GlobalAveragePool" };
    Ok(vec![layer.keras("", op, vec![input], attributes)])
}

/// `AdaptiveAveragePooling1D` ... `AdaptiveMaxPooling3D`.
pub(super) fn adaptive_pool<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let axes = axes_of(layer.class);
    if layer.value("output_size").is_none() {
        return Err(Refusal::new("output_size is missing"));
    }
    let sizes = layer.spatial("output_size", axes, 1, 1)?;
    let sizes: Vec<String> = sizes.iter().map(i64::to_string).collect();
    let formulas = image_dims(layer.channels_last(), axes, |axis| sizes.get(axis - 1).cloned().unwrap_or_default());
    let attributes =
        vec![dims(&formulas), ("rank", int(axes as i64 + 2)), ("operations", int(2)), layer.class_attribute()];
    Ok(vec![layer.keras("", "Shaped", vec![input], attributes)])
}

/// Formulas for batch, spatial axes (from 1) and channels.
pub(super) fn image_dims(channels_last: bool, axes: usize, spatial: impl Fn(usize) -> String) -> Vec<String> {
    let middle: Vec<String> = (1..=axes).map(spatial).collect();
    let mut formulas = vec!["d0".to_owned()];
    if channels_last {
        formulas.extend(middle);
        formulas.push(format!("d{}", axes + 1));
    } else {
        formulas.push("d1".to_owned());
        formulas.extend(middle);
    }
    formulas
}
