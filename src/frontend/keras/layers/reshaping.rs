//! Layers that move elements or rename dims.

use super::super::builder::{flag, int, ints};
use super::super::call::Call;
use super::super::layer::{Outputs, Refusal, items_of};
use super::Cx;
use super::convolution::{axes_of, image_dims};
use super::core::dims;
use crate::frontend::onnx::model::Name;

/// `Flatten`. With channels first, Keras turns them last before.
pub(super) fn flatten<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    Ok(vec![layer.keras("", "Flatten", vec![input], Vec::new())])
}

/// `Reshape`.
pub(super) fn reshape<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let Some(value) = layer.value("target_shape") else { return Err(Refusal::new("target_shape is missing")) };
    let target = match items_of(value).list() {
        // A dim of None is left over.
        Some(items) => items.iter().map(|item| if item.is_null() { Some(-1) } else { item.integer() }).collect(),
        None => value.integer().map(|dim| vec![dim]),
    };
    let target: Vec<i64> = target.filter(|target: &Vec<i64>| target.iter().all(|dim| *dim >= -1)).ok_or_else(|| {
        Refusal::new(format!("target_shape must hold integers, got {}", value.shown())).at(value.span)
    })?;
    Ok(vec![layer.keras("", "Reshape", vec![input], vec![("target_shape", ints(target))])])
}

/// `Permute`.
pub(super) fn permute<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let order = layer.list("dims")?.ok_or_else(|| Refusal::new("dims is missing"))?;
    Ok(vec![layer.keras("", "Permute", vec![input], vec![("dims", ints(order))])])
}

/// `RepeatVector`.
pub(super) fn repeat_vector<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let count = layer.positive("n")?;
    let formulas = ["d0".to_owned(), count.to_string(), "d1".to_owned()];
    let attributes = vec![dims(&formulas), ("rank", int(2)), layer.class_attribute()];
    Ok(vec![layer.keras("", "Shaped", vec![input], attributes)])
}

/// `UpSampling1D`, `UpSampling2D`, `UpSampling3D`.
pub(super) fn upsampling<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let axes = axes_of(layer.class);
    let sizes = layer.spatial("size", axes, 2, 1)?;
    let last = layer.channels_last();
    let first = if last { 0 } else { 1 };
    let formula = |axis: usize| format!("d{}*{}", axis + first, sizes.get(axis - 1).copied().unwrap_or(1));
    let formulas = image_dims(last, axes, formula);
    // Between pixels, four of them are weighed.
    let operations = if matches!(layer.text("interpolation"), None | Some("nearest")) { 0 } else { 7 };
    let attributes =
        vec![dims(&formulas), ("rank", int(axes as i64 + 2)), ("operations", int(operations)), layer.class_attribute()];
    Ok(vec![layer.keras("", "Shaped", vec![input], attributes)])
}

fn framed<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>, key: &str, sign: char) -> Outputs {
    let input = layer.input(call)?;
    let axes = axes_of(layer.class);
    let pairs = layer.pairs(key, axes, 1)?;
    let last = layer.channels_last();
    let first = if last { 0 } else { 1 };
    let formula = |axis: usize| {
        let [before, behind] = pairs.get(axis - 1).copied().unwrap_or([0, 0]);
        format!("d{}{sign}{}", axis + first, before.saturating_add(behind))
    };
    let formulas = image_dims(last, axes, formula);
    let attributes = vec![dims(&formulas), ("rank", int(axes as i64 + 2)), layer.class_attribute()];
    Ok(vec![layer.keras("", "Shaped", vec![input], attributes)])
}

/// `ZeroPadding1D`, `ZeroPadding2D`, `ZeroPadding3D`.
pub(super) fn zero_padding<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    framed(layer, call, "padding", '+')
}

/// `Cropping1D`, `Cropping2D`, `Cropping3D`.
pub(super) fn cropping<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    framed(layer, call, "cropping", '-')
}

/// A view that changes nothing.
#[allow(dead_code, reason = "wrappers name their outputs with it")]
pub(super) fn same(layer: Cx<'_, '_, '_, '_, '_>, part: &str, input: Name) -> Name {
    layer.keras(part, "Shaped", vec![input], vec![("free", flag(true))])
}
