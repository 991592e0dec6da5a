//! Dense layers, embeddings, and layers that leave their input as it is.

use super::super::builder::{Attributes, flag, int, ints, text, texts};
use super::super::call::{Argument, Call};
use super::super::layer::{Outputs, Refusal};
use super::Cx;
use crate::frontend::onnx::model::Name;
use crate::ir::element_type::ElementType;

/// No input.
fn none() -> Name {
    "".into()
}

/// Kernel and bias of a layer, and what quantisation and low-rank updates add. `scales` are the dims of the scale of an
/// int8 kernel.
pub(super) struct Kernel {
    pub(super) kernel: Name,
    pub(super) bias: Name,
    /// Low-rank factors, then what else is stored.
    pub(super) further: Vec<Name>,
    pub(super) rank: i64,
}

impl Kernel {
    pub(super) fn of(layer: Cx<'_, '_, '_, '_, '_>, scales: &[i64]) -> Result<Self, Refusal> {
        let quantized = layer.quantized().map(str::to_owned);
        let low_rank = layer.integer("lora_rank")?.filter(|rank| *rank > 0);
        let narrow = matches!(quantized.as_deref(), Some("int8" | "int4" | "gptq" | "awq"));
        let kernel = match (narrow, low_rank) {
            (true, _) => layer.stored("kernel", ElementType::Int8, false, None),
            (false, Some(_)) => layer.weight_of("kernel", false, None),
            (false, None) => layer.weight("kernel"),
        };
        let bias = if layer.flag("use_bias", true) { layer.weight("bias") } else { none() };
        let mut further = match low_rank {
            Some(_) => vec![layer.weight("lora_kernel_a"), layer.weight("lora_kernel_b")],
            None => vec![none(), none()],
        };
        further.push(none());
        if narrow {
            further.push(layer.stored("kernel_scale", ElementType::Float, false, Some(scales.to_vec())));
        }
        if quantized.as_deref() == Some("float8") {
            for part in ["inputs", "kernel", "outputs_grad"] {
                let scale = layer.stored(&format!("{part}_scale"), ElementType::Float, true, Some(Vec::new()));
                let history = format!("{part}_amax_history");
                let length = layer.integer_or("amax_history_length", 1024)?.max(1);
                let history = layer.stored(&history, ElementType::Float, true, Some(vec![length]));
                further.extend([scale, history]);
            }
        }
        further.extend(std::mem::take(&mut layer.extra));
        Ok(Self { kernel, bias, further, rank: low_rank.unwrap_or(0) })
    }

    pub(super) fn inputs(&self, input: Name) -> Vec<Name> {
        [input, self.kernel.clone(), self.bias.clone()].into_iter().chain(self.further.iter().cloned()).collect()
    }
}

/// `Dense`.
pub(super) fn dense<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let units = layer.positive("units")?;
    let kernel = Kernel::of(layer, &[units])?;
    let attributes = vec![("units", int(units)), ("lora_rank", int(kernel.rank))];
    let inputs = kernel.inputs(input);
    let output = layer.keras("", "Dense", inputs, attributes);
    Ok(vec![layer.activated("activation", output)?])
}

/// `EinsumDense`.
pub(super) fn einsum_dense<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let Some(equation) = layer.text("equation") else { return Err(Refusal::new("equation is missing")) };
    let mut output_shape = Vec::new();
    if let Some(shape) = layer.value("output_shape") {
        let shape = super::super::layer::items_of(shape);
        match shape.list() {
            Some(dims) => output_shape.extend(dims.iter().map(|dim| dim.integer().unwrap_or(0))),
            None => output_shape.push(shape.integer().unwrap_or(0)),
        }
    }
    let bias_axes = layer.text("bias_axes").unwrap_or_default();
    let kernel = layer.weight("kernel");
    let bias = if bias_axes.is_empty() { none() } else { layer.weight("bias") };
    let attributes = vec![
        ("equation", text(&equation.replace(' ', ""))),
        ("output_shape", ints(output_shape)),
        ("bias_axes", text(bias_axes)),
    ];
    let mut inputs = vec![input, kernel, bias];
    inputs.extend(std::mem::take(&mut layer.extra));
    let output = layer.keras("", "EinsumDense", inputs, attributes);
    Ok(vec![layer.activated("activation", output)?])
}

/// `Embedding`.
pub(super) fn embedding<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    Ok(vec![rows(layer, input)?])
}

fn rows(layer: Cx<'_, '_, '_, '_, '_>, input: Name) -> Result<Name, Refusal> {
    let (rows, columns) = (layer.positive("input_dim")?, layer.positive("output_dim")?);
    let low_rank = layer.integer("lora_rank")?.filter(|rank| *rank > 0);
    let narrow = matches!(layer.quantized(), Some("int8" | "int4"));
    let table = match (narrow, low_rank) {
        (true, _) => layer.stored("embeddings", ElementType::Int8, false, None),
        (false, Some(_)) => layer.weight_of("embeddings", false, None),
        (false, None) => layer.weight("embeddings"),
    };
    let mut inputs = vec![table, input];
    match low_rank {
        Some(_) => inputs.extend([layer.weight("lora_embeddings_a"), layer.weight("lora_embeddings_b")]),
        None => inputs.extend([none(), none()]),
    }
    if narrow {
        inputs.push(layer.stored("embeddings_scale", ElementType::Float, false, Some(vec![rows])));
    }
    let attributes =
        vec![("input_dim", int(rows)), ("output_dim", int(columns)), ("lora_rank", int(low_rank.unwrap_or(0)))];
    Ok(layer.keras("", "Gather", inputs, attributes))
}

/// `ReversibleEmbedding`: a table that is looked up, or, with `reverse`, the matrix of an output layer.
pub(super) fn reversible_embedding<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let reversed = match call.argument("reverse", 1) {
        Some(Argument::Value(json)) => json.truth().unwrap_or(false),
        _ => false,
    };
    if !reversed {
        return Ok(vec![rows(layer, input)?]);
    }
    let (rows, columns) = (layer.positive("input_dim")?, layer.positive("output_dim")?);
    let tied = layer.flag("tie_weights", true);
    let mut attributes: Attributes = vec![("units", int(rows))];
    let kernel = if tied {
        attributes.push(("transposed", flag(true)));
        layer.weight("embeddings")
    } else {
        layer.weight_of("reverse_embeddings", true, Some(vec![columns, rows]))
    };
    Ok(vec![layer.keras("", "Dense", vec![input, kernel], attributes)])
}

/// Layers that do nothing in inference.
pub(super) fn unchanged<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let attributes = vec![("free", flag(true)), layer.class_attribute()];
    let mut inputs = vec![input];
    inputs.extend(std::mem::take(&mut layer.extra));
    Ok(vec![layer.keras("", "Shaped", inputs, attributes)])
}

/// Layers that draw noise in training, and do nothing in inference. `kept` is what the gradient needs of the noise again,
/// bytes for each element: a mask, its values, or nothing to speak of where it is the same along axes or only added.
pub(super) fn noise<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>, kept: i64) -> Outputs {
    let strength = ["rate", "stddev"].into_iter().find_map(|key| layer.real(key));
    if strength == Some(0.0) {
        return unchanged(layer, call);
    }
    let input = layer.input(call)?;
    let attributes = vec![("noise", int(kept)), layer.class_attribute()];
    let mut inputs = vec![input];
    inputs.extend(std::mem::take(&mut layer.extra));
    Ok(vec![layer.keras("", "Shaped", inputs, attributes)])
}

/// `LayerScale`: one trained factor for each channel.
pub(super) fn layer_scale<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let channels = layer.positive("projection_dim")?;
    let gamma = layer.weight_of("gamma", true, Some(vec![channels]));
    let attributes =
        vec![("operations", int(1)), ("stored", texts([channels.to_string()])), ("keeps_input", flag(true))];
    Ok(vec![layer.keras("", "Shaped", vec![input, gamma], attributes)])
}

/// `Masking`: a comparison and a product.
pub(super) fn masking<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    Ok(vec![layer.keras("", "Shaped", vec![input], vec![("operations", int(3))])])
}

/// `RandomFourierFeatures`: a product with random numbers, a sum and a cosine.
pub(super) fn random_fourier<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let units = layer.positive("output_dim")?;
    let kernel = layer.weight_of("unscaled_kernel", layer.flag("trainable", false), None);
    let bias = layer.weight_of("bias", false, None);
    let scale = layer.weight_of("kernel_scale", layer.flag("trainable", false), Some(Vec::new()));
    let inputs = vec![input, kernel, bias, none(), none(), none(), scale];
    let output = layer.keras("", "Dense", inputs, vec![("units", int(units))]);
    Ok(vec![layer.onnx("cos", "Cos", vec![output], Vec::new())])
}

/// Formulas of the dims of an output.
pub(super) fn dims(formulas: &[String]) -> (&'static str, crate::frontend::onnx::model::AttributeValue) {
    ("dims", texts(formulas))
}
