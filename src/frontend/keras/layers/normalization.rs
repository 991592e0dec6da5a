//! Normalisations.

use super::super::builder::{Attributes, flag, int, ints};
use super::super::call::Call;
use super::super::layer::Outputs;
use super::Cx;
use crate::frontend::onnx::model::Name;
use crate::ir::element_type::ElementType;

fn none() -> Name {
    "".into()
}

fn scaled(layer: Cx<'_, '_, '_, '_, '_>, input: Name, [scale, center]: [bool; 2]) -> Vec<Name> {
    let gamma = if scale { layer.weight("gamma") } else { none() };
    let beta = if center { layer.weight("beta") } else { none() };
    vec![input, gamma, beta]
}

/// `BatchNormalization`.
pub(super) fn batch<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let axis = layer.list("axis")?.unwrap_or_else(|| vec![-1]);
    let options = [layer.flag("scale", true), layer.flag("center", true)];
    let mut inputs = scaled(layer, input, options);
    inputs.extend([layer.statistic("moving_mean"), layer.statistic("moving_variance")]);
    if layer.flag("renorm", false) {
        for part in ["renorm_mean", "renorm_stddev"] {
            inputs.push(layer.statistic(part));
        }
    }
    inputs.extend(std::mem::take(&mut layer.extra));
    Ok(vec![layer.keras("", "BatchNormalization", inputs, vec![("axis", ints(axis))])])
}

/// `LayerNormalization`.
pub(super) fn layer_norm<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let axis = layer.list("axis")?.unwrap_or_else(|| vec![-1]);
    let rms = layer.flag("rms_scaling", false);
    // Without a mean there is no shift.
    let options = [layer.flag("scale", true) || rms, layer.flag("center", true) && !rms];
    let inputs = scaled(layer, input, options);
    Ok(vec![layer.keras("", "LayerNormalization", inputs, vec![("axis", ints(axis)), ("rms", flag(rms))])])
}

/// `RMSNormalization`.
pub(super) fn root_mean_square<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let axis = layer.list("axis")?.unwrap_or_else(|| vec![-1]);
    let scale = layer.weight("scale");
    Ok(vec![layer.keras("", "LayerNormalization", vec![input, scale], vec![("axis", ints(axis)), ("rms", flag(true))])])
}

/// `GroupNormalization`.
pub(super) fn group<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let axis = layer.integer_or("axis", -1)?;
    let groups = layer.integer_or("groups", 32)?;
    let options = [layer.flag("scale", true), layer.flag("center", true)];
    let inputs = scaled(layer, input, options);
    let attributes: Attributes = vec![("axis", ints(vec![axis])), ("groups", int(groups))];
    Ok(vec![layer.keras("", "GroupNormalization", inputs, attributes)])
}

/// `UnitNormalization`.
pub(super) fn unit<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let axis = layer.list("axis")?.unwrap_or_else(|| vec![-1]);
    Ok(vec![layer.keras("", "UnitNormalization", vec![input], vec![("axis", ints(axis))])])
}

/// `Normalization`: mean and variance are in the file, or stored where the layer learned them.
pub(super) fn by_data<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let axis = match layer.config.get("axis") {
        Some(axis) if axis.is_null() => Vec::new(),
        _ => layer.list("axis")?.unwrap_or_else(|| vec![-1]),
    };
    let mut inputs = vec![input];
    if layer.value("mean").is_none() {
        inputs.extend([layer.statistic("mean"), layer.statistic("variance")]);
        inputs.push(layer.stored("count", ElementType::Int64, false, None));
    }
    Ok(vec![layer.keras("", "Scale", inputs, vec![("axis", ints(axis)), ("operations", int(2))])])
}
