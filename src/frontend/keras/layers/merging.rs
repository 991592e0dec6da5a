//! Layers that merge several tensors.

use super::super::builder::{flag, int, ints};
use super::super::call::Call;
use super::super::layer::{Outputs, Refusal};
use super::Cx;
use crate::frontend::onnx::model::Name;

/// `Add`, `Subtract`, `Multiply`, `Average`, `Maximum`, `Minimum`: one pair after the other.
pub(super) fn merge<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let op = match layer.class {
        "Subtract" => "Sub",
        "Multiply" => "Mul",
        "Maximum" => "Max",
        "Minimum" => "Min",
        _ => "Add",
    };
    let tensors = call.tensors();
    if layer.class == "Subtract" && tensors.len() != 2 {
        return Err(Refusal::new(format!("two tensors are needed, {} given", tensors.len())));
    }
    let Some((first, rest)) = tensors.split_first() else {
        return Err(Refusal::new("the layer is called without tensors"));
    };
    let mean = layer.class == "Average";
    let mut merged = first.clone();
    for (index, next) in rest.iter().enumerate() {
        let last = index + 1 == rest.len() && !mean;
        let part = if last { String::new() } else { index.to_string() };
        merged = layer.keras(&part, op, vec![merged, next.clone()], Vec::new());
    }
    if mean || rest.is_empty() {
        let attributes = if mean { vec![("operations", int(1))] } else { vec![("free", flag(true))] };
        merged = layer.keras("", "Shaped", vec![merged], attributes);
    }
    Ok(vec![merged])
}

/// `CustomScaleLayer`: the second tensor is scaled and added to the first.
pub(super) fn scaled_sum<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let [left, right] = <[Name; 2]>::try_from(call.tensors())
        .map_err(|given| Refusal::new(format!("two tensors are needed, {} given", given.len())))?;
    let scaled = layer.keras("scale", "Shaped", vec![right], vec![("operations", int(1))]);
    Ok(vec![layer.keras("", "Add", vec![left, scaled], Vec::new())])
}

/// `Concatenate`.
pub(super) fn concatenate<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let axis = layer.integer_or("axis", -1)?;
    Ok(vec![layer.onnx("", "Concat", call.tensors(), vec![("axis", int(axis))])])
}

/// `Dot`.
pub(super) fn dot<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let axes = layer.list("axes")?.ok_or_else(|| Refusal::new("axes is missing"))?;
    let attributes = vec![("axes", ints(axes)), ("normalize", flag(layer.flag("normalize", false)))];
    Ok(vec![layer.keras("", "Dot", call.tensors(), attributes)])
}
