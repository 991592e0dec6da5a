//! What a layer is called with, in both generations: tensors, values, and lists and dictionaries of them.

use super::builder::{dim_def, element_of};
use super::json::Json;
use crate::frontend::onnx::model::{Name, TensorTypeDef};
use crate::ir::place::Span;

/// A reference to an output of a call of a layer.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) layer: String,
    pub(super) call: i64,
    pub(super) tensor: i64,
    pub(super) span: Span,
    /// Shape and type that the file records for it.
    pub(super) recorded: Option<TensorTypeDef>,
}

/// An argument: `T` is a reference, and later a tensor.
#[derive(Clone, Debug)]
pub(super) enum Argument<'j, T> {
    Tensor(T),
    List(Vec<Argument<'j, T>>),
    Map(Vec<(String, Argument<'j, T>)>),
    Value(&'j Json<'j>),
}

/// The arguments of one call.
#[derive(Clone, Debug)]
pub(super) struct Call<'j, T> {
    pub(super) positional: Vec<Argument<'j, T>>,
    pub(super) named: Vec<(String, Argument<'j, T>)>,
}

impl<T> Default for Call<'_, T> {
    fn default() -> Self {
        Self { positional: Vec::new(), named: Vec::new() }
    }
}

impl<'j, T> Argument<'j, T> {
    /// Every tensor in it, in order.
    pub(super) fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a T)) {
        match self {
            Self::Tensor(tensor) => visit(tensor),
            Self::List(items) => items.iter().for_each(|item| item.each(visit)),
            Self::Map(items) => items.iter().for_each(|(_, item)| item.each(visit)),
            Self::Value(_) => {}
        }
    }

    fn map<U>(&self, to: &mut dyn FnMut(&T) -> U) -> Argument<'j, U> {
        match self {
            Self::Tensor(tensor) => Argument::Tensor(to(tensor)),
            Self::List(items) => Argument::List(items.iter().map(|item| item.map(to)).collect()),
            Self::Map(items) => Argument::Map(items.iter().map(|(key, item)| (key.clone(), item.map(to))).collect()),
            Self::Value(json) => Argument::Value(json),
        }
    }
}

impl<'j, T> Call<'j, T> {
    pub(super) fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a T)) {
        self.positional.iter().for_each(|argument| argument.each(visit));
        self.named.iter().for_each(|(_, argument)| argument.each(visit));
    }

    pub(super) fn map<U>(&self, to: &mut dyn FnMut(&T) -> U) -> Call<'j, U> {
        Call {
            positional: self.positional.iter().map(|argument| argument.map(to)).collect(),
            named: self.named.iter().map(|(key, argument)| (key.clone(), argument.map(to))).collect(),
        }
    }

    /// A named argument, or the positional one at an index.
    pub(super) fn argument(&self, name: &str, index: usize) -> Option<&Argument<'j, T>> {
        self.named
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, argument)| argument)
            .or_else(|| self.positional.get(index))
    }

    /// A named argument.
    pub(super) fn named(&self, name: &str) -> Option<&Argument<'j, T>> {
        self.named.iter().find(|(key, _)| key == name).map(|(_, argument)| argument)
    }
}

impl<'j> Call<'j, Name> {
    /// A call with these tensors.
    pub(super) fn of(tensors: &[Name]) -> Self {
        Self { positional: tensors.iter().cloned().map(Argument::Tensor).collect(), named: Vec::new() }
    }

    /// Every tensor among the positional arguments.
    pub(super) fn tensors(&self) -> Vec<Name> {
        let mut tensors = Vec::new();
        self.positional.iter().for_each(|argument| argument.each(&mut |tensor| tensors.push(tensor.clone())));
        tensors
    }

    /// Every tensor of a named argument.
    pub(super) fn tensors_of(&self, name: &str) -> Vec<Name> {
        let mut tensors = Vec::new();
        if let Some(argument) = self.named(name) {
            argument.each(&mut |tensor| tensors.push(tensor.clone()));
        }
        tensors
    }

    /// Every tensor, named ones behind.
    pub(super) fn all(&self) -> Vec<Name> {
        let mut tensors = Vec::new();
        self.each(&mut |tensor| tensors.push(tensor.clone()));
        tensors
    }
}

/// Reads `inbound_nodes[i]` in whichever form it has.
pub(super) fn read_call<'j>(json: &'j Json<'j>) -> Call<'j, Reference> {
    if json.is_object() && (json.get("args").is_some() || json.get("kwargs").is_some()) {
        let positional = json.get("args").and_then(Json::list).unwrap_or_default().iter().map(new_argument).collect();
        let named = json.get("kwargs").map(Json::members).unwrap_or_default();
        let named = named.iter().map(|(key, value)| (key.to_string(), new_argument(value))).collect();
        return Call { positional, named };
    }
    let mut named = Vec::new();
    let positional = match old_argument(json, &mut named) {
        // The inputs of a layer with several are one list.
        Argument::List(items) if items.len() == 1 => items,
        other => vec![other],
    };
    Call { positional, named }
}

/// An argument of Keras 3.
fn new_argument<'j>(json: &'j Json<'j>) -> Argument<'j, Reference> {
    if json.get("class_name").and_then(Json::text) == Some("__keras_tensor__") {
        let config = json.get("config");
        if let Some(reference) = config.and_then(|config| config.get("keras_history")).and_then(triple) {
            let recorded = config.and_then(recorded);
            return Argument::Tensor(Reference { recorded, span: json.span, ..reference });
        }
        return Argument::Value(json);
    }
    if let Some(items) = json.list() {
        return Argument::List(items.iter().map(new_argument).collect());
    }
    if json.is_object() && json.get("class_name").is_none() {
        return Argument::Map(json.members().iter().map(|(key, item)| (key.to_string(), new_argument(item))).collect());
    }
    Argument::Value(json)
}

/// Shape and type of a tensor as the file records them.
fn recorded(config: &Json<'_>) -> Option<TensorTypeDef> {
    let dims = config.get("shape")?.list()?;
    let dims: Option<Vec<_>> =
        dims.iter()
            .enumerate()
            .map(|(axis, dim)| {
                if dim.is_null() {
                    Some(dim_def(axis, None))
                } else {
                    dim.integer().map(|dim| dim_def(axis, Some(dim)))
                }
            })
            .collect();
    let element = config.get("dtype").and_then(Json::text).and_then(element_of);
    Some(TensorTypeDef { element, shape: Some(dims?) })
}

/// An argument of Keras 2: references are lists, keyword arguments stand behind them.
fn old_argument<'j>(json: &'j Json<'j>, named: &mut Vec<(String, Argument<'j, Reference>)>) -> Argument<'j, Reference> {
    if let Some(reference) = triple(json) {
        if let Some(keywords) = json.list().and_then(|items| items.get(3)) {
            for (key, value) in keywords.members() {
                if !named.iter().any(|(other, _)| *other == **key) {
                    named.push((key.to_string(), old_keyword(value)));
                }
            }
        }
        return Argument::Tensor(reference);
    }
    if let Some(items) = json.list() {
        // A constant: ["_CONSTANT_VALUE", -1, value, {...}].
        if items.first().and_then(Json::text) == Some("_CONSTANT_VALUE") {
            let value = items.get(2).unwrap_or(json);
            for (key, value) in items.get(3).map(Json::members).unwrap_or_default() {
                named.push((key.to_string(), old_keyword(value)));
            }
            return Argument::Value(value);
        }
        return Argument::List(items.iter().map(|item| old_argument(item, named)).collect());
    }
    if json.is_object() {
        let items = json.members().iter();
        return Argument::Map(items.map(|(key, item)| (key.to_string(), old_argument(item, named))).collect());
    }
    Argument::Value(json)
}

/// A keyword argument of Keras 2; a tensor in it is a bare triple.
fn old_keyword<'j>(json: &'j Json<'j>) -> Argument<'j, Reference> {
    if let Some(reference) = triple(json) {
        return Argument::Tensor(reference);
    }
    if let Some(items) = json.list() {
        return Argument::List(items.iter().map(old_keyword).collect());
    }
    if json.is_object() && json.get("class_name").is_none() {
        return Argument::Map(json.members().iter().map(|(key, item)| (key.to_string(), old_keyword(item))).collect());
    }
    Argument::Value(json)
}

/// `["layer", 0, 0]`, with or without something behind.
pub(super) fn triple(json: &Json<'_>) -> Option<Reference> {
    let items = json.list()?;
    if !(3..=4).contains(&items.len()) {
        return None;
    }
    let layer = items.first()?.text()?.to_owned();
    if layer == "_CONSTANT_VALUE" {
        return None;
    }
    let (call, tensor) = (items.get(1)?.integer()?, items.get(2)?.integer()?);
    Some(Reference { layer, call, tensor, span: json.span, recorded: None })
}

/// The references of `input_layers` or `output_layers`, which is one, a list, a dictionary, or a nesting of them.
pub(super) fn references(json: &Json<'_>) -> Vec<Reference> {
    let mut found = Vec::new();
    let mut waiting = vec![json];
    while let Some(json) = waiting.pop() {
        if let Some(reference) = triple(json) {
            found.push(reference);
        } else if let Some(items) = json.list() {
            waiting.extend(items.iter().rev());
        } else {
            waiting.extend(json.members().iter().rev().map(|(_, item)| item));
        }
    }
    found
}
