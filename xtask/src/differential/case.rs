//! A small model that two programs are asked about, and its ONNX text.

use std::fmt::{self, Display, Write};

use dlcost::frontend::onnx::model::Model;
use dlcost::frontend::onnx_text::parse;
use dlcost::ir::element_type::ElementType;

/// A model: a few calls over given tensors. Every output of a call is an output of the model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) opset: i64,
    pub(super) given: Vec<Given>,
    pub(super) calls: Vec<Call>,
}

/// A tensor that no call computes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Given {
    pub(super) name: String,
    pub(super) element: ElementType,
    pub(super) dims: Vec<i64>,
    /// Elements of a stored tensor; `None` for an input of the model, whose elements do not matter.
    pub(super) values: Option<Vec<f64>>,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) op: &'static str,
    pub(super) attributes: Vec<(&'static str, Attribute)>,
    /// Names of tensors; empty where one is left out.
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Attribute {
    Int(i64),
    Text(String),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
}

impl Case {
    /// The model as ONNX text; `symbols` names dims of inputs by tensor and axis.
    pub(super) fn text_with(&self, symbols: &[(String, usize, String)]) -> String {
        let (mut inputs, mut stored) = (Vec::new(), Vec::new());
        for tensor in self.given.iter().filter(|tensor| self.reads(&tensor.name)) {
            let symbol = |axis: usize| {
                symbols.iter().find(|(name, at, _)| *name == tensor.name && *at == axis).map(|(_, _, symbol)| symbol)
            };
            let dims = tensor.dims.iter().enumerate();
            let dims = dims.map(|(axis, dim)| symbol(axis).map_or_else(|| dim.to_string(), Clone::clone));
            let dims = if tensor.dims.is_empty() { String::new() } else { format!("[{}]", list(dims)) };
            let declared = format!("{}{dims} {}", tensor.element, tensor.name);
            match &tensor.values {
                None => inputs.push(declared),
                Some(values) => stored.push(format!("{declared} = {{{}}}", list(values))),
            }
        }
        let outputs = list(self.calls.iter().flat_map(|call| &call.outputs).filter(|name| !name.is_empty()));
        let mut text = format!("<ir_version: 8, opset_import: [\"\" : {}]>\n", self.opset);
        let stored = if stored.is_empty() { String::new() } else { format!("\n<{}>", stored.join(", ")) };
        let _ = writeln!(text, "g ({}) => ({outputs}){stored}\n{{", inputs.join(", "));
        for call in &self.calls {
            let _ = writeln!(text, "  {call}");
        }
        text.push_str("}\n");
        text
    }

    /// The model as ONNX text.
    pub(super) fn text(&self) -> String {
        self.text_with(&[])
    }

    /// The model as a tree.
    pub(super) fn model(&self) -> Result<Model, String> {
        model_of(&self.text())
    }

    /// Whether a call reads a tensor.
    pub(super) fn reads(&self, name: &str) -> bool {
        self.calls.iter().any(|call| call.inputs.iter().any(|input| input == name))
    }

    /// The names of the outputs, in the order of the model.
    pub(super) fn outputs(&self) -> impl Iterator<Item = (&Call, &str)> {
        self.calls
            .iter()
            .flat_map(|call| call.outputs.iter().filter(|name| !name.is_empty()).map(move |name| (call, name.as_str())))
    }
}

/// The tree of a text.
pub(super) fn model_of(text: &str) -> Result<Model, String> {
    let (model, errors) = parse(text);
    match errors.first() {
        None => Ok(model),
        Some(error) => Err(format!("{error:?}\n{text}")),
    }
}

fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}

impl Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs = self.inputs.iter().map(|name| if name.is_empty() { "\"\"" } else { name });
        let outputs = self.outputs.iter().map(|name| if name.is_empty() { "\"\"" } else { name });
        write!(f, "{} = {} ", list(outputs), self.op)?;
        if !self.attributes.is_empty() {
            write!(f, "<{}> ", list(self.attributes.iter().map(|(name, value)| format!("{name}{value}"))))?;
        }
        write!(f, "({})", list(inputs))
    }
}

impl Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, " = {value}"),
            Self::Text(value) => write!(f, " = \"{value}\""),
            Self::Ints(values) => write!(f, ": ints = [{}]", list(values)),
            Self::Floats(values) => {
                write!(f, ": floats = [{}]", list(values.iter().map(|value| format!("{value:?}"))))
            }
        }
    }
}
