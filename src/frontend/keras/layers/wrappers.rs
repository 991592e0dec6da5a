//! Layers around layers.

use super::super::builder::{flag, int};
use super::super::call::{Argument, Call};
use super::super::layer::{Generation, Layer, Outputs, Refusal};
use super::super::topology::{Around, Entry, read_entry};
use super::Cx;
use crate::frontend::onnx::model::Name;

impl<'j> Layer<'_, '_, '_, 'j> {
    /// The layer that the configuration holds under a key.
    fn inner_entry(&self, key: &str) -> Result<Entry<'j>, Refusal> {
        let Some(json) = self.value(key) else { return Err(Refusal::new(format!("{key} is missing"))) };
        read_entry(json, 0).ok_or_else(|| Refusal::new(format!("{key} is no layer")).at(json.span))
    }

    /// Calls a layer inside this one. In Keras 2 a frozen wrapper freezes what is in it, in Keras 3 it does not.
    fn call_inner(&mut self, entry: &Entry<'j>, call: &Call<'j, Name>, wanted: usize, extra: Vec<Name>) -> Vec<Name> {
        let frozen = self.frozen || (self.generation() == Generation::Two && !self.flag("trainable", true));
        let around = Around { scope: self.path.clone(), frozen, depth: self.depth + 1, extra };
        self.reader.call(entry, &around, call, wanted)
    }

    /// Gives a tensor the name of this layer.
    pub(super) fn named(&mut self, part: &str, tensor: Name) -> Name {
        self.keras(part, "Shaped", vec![tensor], vec![("free", flag(true))])
    }
}

/// `TimeDistributed`: steps are samples to the layer in it.
pub(super) fn time_distributed<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let entry = layer.inner_entry("layer")?;
    let tensors = call.tensors();
    let Some(first) = tensors.first().cloned() else {
        return Err(Refusal::new("the layer is called without a tensor"));
    };
    let mut folded = Vec::new();
    for (index, tensor) in tensors.iter().enumerate() {
        let part = if index == 0 { "steps".to_owned() } else { format!("steps_{index}") };
        folded.push(layer.keras(&part, "FoldTime", vec![tensor.clone()], Vec::new()));
    }
    let made = layer.call_inner(&entry, &Call::of(&folded), layer.wanted, Vec::new());
    let mut outputs = Vec::new();
    for (index, tensor) in made.into_iter().enumerate() {
        let part = if index == 0 { String::new() } else { index.to_string() };
        outputs.push(layer.keras(&part, "UnfoldTime", vec![tensor, first.clone()], Vec::new()));
    }
    Ok(outputs)
}

/// `Bidirectional`: the layer in it and its mirror, each with weights of its own.
pub(super) fn bidirectional<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let forward = layer.inner_entry("layer")?;
    let backward = match layer.value("backward_layer") {
        Some(_) => layer.inner_entry("backward_layer")?,
        None => Entry { name: mirrored(&forward.name), ..layer.inner_entry("layer")? },
    };
    let mut tensors = call.tensors().into_iter();
    let Some(input) = tensors.next() else { return Err(Refusal::new("the layer is called without a tensor")) };
    let mut states: Vec<Name> = tensors.collect();
    states.extend(call.tensors_of("initial_state"));
    let (ahead, behind) = states.split_at_checked(states.len() / 2).unwrap_or_default();
    let one = |states: &[Name]| {
        let mut inner = Call::of(std::slice::from_ref(&input));
        if !states.is_empty() {
            let states = states.iter().cloned().map(Argument::Tensor).collect();
            inner.named.push(("initial_state".to_owned(), Argument::List(states)));
        }
        inner
    };
    let first = layer.call_inner(&forward, &one(ahead), 1, Vec::new());
    let second = layer.call_inner(&backward, &one(behind), 1, Vec::new());
    let (Some((left, further)), Some((right, more))) = (first.split_first(), second.split_first()) else {
        return Err(Refusal::new("the layer in it gives nothing"));
    };
    let pair = vec![left.clone(), right.clone()];
    let mode = match layer.config.get("merge_mode") {
        Some(mode) if mode.is_null() => None,
        Some(mode) => Some(mode.text().unwrap_or("concat")),
        None => Some("concat"),
    };
    let mut outputs = match mode {
        None => vec![layer.named("", left.clone()), layer.named("1", right.clone())],
        Some("sum") => vec![layer.keras("", "Add", pair, Vec::new())],
        Some("mul") => vec![layer.keras("", "Mul", pair, Vec::new())],
        Some("ave") => {
            let sum = layer.keras("sum", "Add", pair, Vec::new());
            vec![layer.keras("", "Shaped", vec![sum], vec![("operations", int(1))])]
        }
        Some(_) => vec![layer.onnx("", "Concat", pair, vec![("axis", int(-1))])],
    };
    for state in further.iter().chain(more) {
        let part = outputs.len().to_string();
        outputs.push(layer.named(&part, state.clone()));
    }
    Ok(outputs)
}

/// The name of the mirror: `forward_lstm` has `backward_lstm`.
fn mirrored(name: &str) -> String {
    format!("backward_{}", name.strip_prefix("forward_").unwrap_or(name))
}

/// `SpectralNormalization`: a vector is stored beside the weights of the layer in it.
pub(super) fn spectral_normalization<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let entry = layer.inner_entry("layer")?;
    let units = ["units", "filters", "output_dim"].iter().find_map(|key| entry.config.given(key)?.integer());
    let extra = match units {
        Some(units) => vec![layer.weight_of("vector_u", false, Some(vec![1, units]))],
        None => Vec::new(),
    };
    let made = layer.call_inner(&entry, call, 1, extra);
    let mut outputs = Vec::new();
    for (index, tensor) in made.into_iter().enumerate() {
        let part = if index == 0 { String::new() } else { index.to_string() };
        outputs.push(layer.named(&part, tensor));
    }
    Ok(outputs)
}

/// A wrapper that is no built-in layer: what is in it is read, what it adds is not known.
pub(super) fn custom<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Option<Vec<Name>> {
    let entry = layer.inner_entry("layer").ok()?;
    Some(layer.call_inner(&entry, call, 1, Vec::new()))
}
