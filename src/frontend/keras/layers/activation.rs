//! Activations: as layers, and by name inside other layers.

use super::super::builder::{Attributes, flag, int, ints, text};
use super::super::call::Call;
use super::super::json::Json;
use super::super::layer::{Layer, Outputs, Refusal};
use super::Cx;
use crate::frontend::onnx::model::{AttributeValue, Name};

/// The operator of the standard that an activation is.
fn standard(name: &str) -> Option<&'static str> {
    Some(match name {
        "relu" | "ReLU" => "Relu",
        "sigmoid" => "Sigmoid",
        "tanh" => "Tanh",
        "softmax" | "Softmax" => "Softmax",
        "log_softmax" => "LogSoftmax",
        "elu" | "ELU" => "Elu",
        "selu" => "Selu",
        "celu" => "Celu",
        "softplus" => "Softplus",
        "softsign" => "Softsign",
        "swish" | "silu" => "Swish",
        "gelu" => "Gelu",
        "exponential" | "exp" => "Exp",
        "leaky_relu" | "LeakyReLU" => "LeakyRelu",
        "hard_sigmoid" => "HardSigmoid",
        "hard_silu" | "hard_swish" => "HardSwish",
        "mish" => "Mish",
        "ThresholdedReLU" => "ThresholdedRelu",
        _ => return None,
    })
}

/// The name of an activation, which stands as a text or as a serialised function or layer.
pub(super) fn name_of<'j>(json: &'j Json<'j>) -> Option<&'j str> {
    if let Some(name) = json.text() {
        return Some(name);
    }
    let class = json.get("class_name").and_then(Json::text);
    let config = json.get("config");
    match class {
        Some("function") | None => config.and_then(Json::text),
        Some("Activation") => config?.get("activation").and_then(name_of),
        Some(class) => Some(class),
    }
}

/// Applies an activation by name; nothing for a linear one.
pub(super) fn apply(layer: Cx<'_, '_, '_, '_, '_>, part: &str, name: &str, input: Name) -> Name {
    match (name, standard(name)) {
        ("linear", _) => input,
        ("glu", _) => layer.keras(part, "Glu", vec![input], Vec::new()),
        ("Softmax" | "softmax" | "log_softmax", Some(op)) => layer.onnx(part, op, vec![input], vec![("axis", int(-1))]),
        (_, Some(op)) => layer.onnx(part, op, vec![input], Vec::new()),
        _ => layer.keras(part, "Activation", vec![input], vec![("kind", text(name))]),
    }
}

impl<'j> Layer<'_, '_, '_, 'j> {
    /// The activation that the configuration names inline.
    pub(in super::super) fn activated(&mut self, key: &str, input: Name) -> Result<Name, Refusal> {
        let Some(activation) = self.value(key) else { return Ok(input) };
        let Some(name) = name_of(activation) else {
            let message = format!("{key} must name a function, got {}", activation.shown());
            return Err(Refusal::new(message).at(activation.span));
        };
        let part =
            if name.chars().all(|letter| letter.is_alphanumeric() || letter == '_') { name } else { "activation" };
        if part == "PReLU" {
            let alpha = self.weight("alpha");
            return Ok(self.keras("PReLU", "PRelu", vec![input, alpha], Vec::new()));
        }
        Ok(apply(self, part, name, input))
    }
}

/// `Activation` and the activations that are layers.
pub(super) fn layer<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let attributes: Attributes = match layer.class {
        "Softmax" => {
            let axes = layer.list("axis")?.unwrap_or_else(|| vec![-1]);
            let axis = axes.last().copied().unwrap_or(-1);
            return Ok(vec![layer.onnx("", "Softmax", vec![input], vec![("axis", int(axis))])]);
        }
        "Activation" => {
            let Some(activation) = layer.value("activation") else {
                return Err(Refusal::new("activation is missing"));
            };
            let name = name_of(activation).unwrap_or("unknown");
            if name == "linear" {
                return Ok(vec![layer.keras("", "Shaped", vec![input], vec![("free", flag(true))])]);
            }
            return Ok(vec![apply(layer, "", name, input)]);
        }
        "LeakyReLU" => {
            let slope = layer.real("negative_slope").or_else(|| layer.real("alpha")).unwrap_or(0.3);
            vec![("alpha", AttributeValue::Float(slope as f32))]
        }
        _ => Vec::new(),
    };
    let sloped = layer.real("negative_slope").is_some_and(|slope| slope != 0.0) || layer.real("max_value").is_some();
    if layer.class == "ReLU" && sloped {
        return Ok(vec![layer.keras("", "Activation", vec![input], vec![("kind", text("relu"))])]);
    }
    let op = standard(layer.class).unwrap_or("Relu");
    Ok(vec![layer.onnx("", op, vec![input], attributes)])
}

/// `PReLU`.
pub(super) fn prelu<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let shared = layer.list("shared_axes")?.unwrap_or_default();
    let alpha = layer.weight("alpha");
    Ok(vec![layer.keras("", "PRelu", vec![input, alpha], vec![("shared_axes", ints(shared))])])
}
