//! Typed access to the attributes of an ONNX node, while its operator is built.

use bytes::Bytes;

use super::Fault;
use crate::frontend::onnx::model::{AttributeValue, NodeDef, TensorDef};

/// An ONNX node with the operator set version that is in force for it.
#[derive(Clone, Copy)]
pub struct NodeView<'a> {
    node: &'a NodeDef,
    opset: i64,
}

impl<'a> NodeView<'a> {
    /// A view of a node under a version of its domain's operator set.
    #[must_use]
    pub fn new(node: &'a NodeDef, opset: i64) -> Self {
        Self { node, opset }
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> &'a NodeDef {
        self.node
    }

    /// Operator name.
    #[must_use]
    pub fn op_type(&self) -> &'a str {
        &self.node.op_type
    }

    /// Version of the operator set of the node's domain.
    #[must_use]
    pub fn opset(&self) -> i64 {
        self.opset
    }

    /// Whether an input is given.
    #[must_use]
    pub fn has_input(&self, index: usize) -> bool {
        self.node.inputs.get(index).is_some_and(|name| !name.is_empty())
    }

    /// Whether the attribute is given.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.node.attribute(name).is_some()
    }

    /// The value of an attribute.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&'a AttributeValue> {
        self.node.attribute(name).map(|attribute| &attribute.value)
    }

    /// An integer attribute.
    ///
    /// # Errors
    /// When the attribute has another type.
    pub fn int(&self, name: &str) -> Result<Option<i64>, Fault> {
        match self.value(name) {
            None => Ok(None),
            Some(AttributeValue::Int(value)) => Ok(Some(*value)),
            Some(other) => Err(wrong_type(name, "an integer", other)),
        }
    }

    /// An integer attribute with a default.
    ///
    /// # Errors
    /// When the attribute has another type.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64, Fault> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// An integer attribute that is read as yes or no.
    ///
    /// # Errors
    /// When the attribute has another type.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Fault> {
        Ok(self.int(name)?.map_or(default, |value| value != 0))
    }

    /// A list of integers; one integer counts as a list of one.
    ///
    /// # Errors
    /// When the attribute has another type.
    pub fn ints(&self, name: &str) -> Result<Option<Vec<i64>>, Fault> {
        match self.value(name) {
            None => Ok(None),
            Some(AttributeValue::Ints(values)) => Ok(Some(values.clone())),
            Some(AttributeValue::Int(value)) => Ok(Some(vec![*value])),
            Some(AttributeValue::Floats(values)) if values.is_empty() => Ok(Some(Vec::new())),
            Some(other) => Err(wrong_type(name, "a list of integers", other)),
        }
    }

    /// A float attribute.
    ///
    /// # Errors
    /// When the attribute has another type.
    pub fn float(&self, name: &str) -> Result<Option<f32>, Fault> {
        match self.value(name) {
            None => Ok(None),
            Some(AttributeValue::Float(value)) => Ok(Some(*value)),
            Some(other) => Err(wrong_type(name, "a float", other)),
        }
    }

    /// A list of floats.
    ///
    /// # Errors
    /// When the attribute has another type.
    pub fn floats(&self, name: &str) -> Result<Option<Vec<f32>>, Fault> {
        match self.value(name) {
            None => Ok(None),
            Some(AttributeValue::Floats(values)) => Ok(Some(values.clone())),
            Some(AttributeValue::Float(value)) => Ok(Some(vec![*value])),
            Some(AttributeValue::Ints(values)) if values.is_empty() => Ok(Some(Vec::new())),
            Some(other) => Err(wrong_type(name, "a list of floats", other)),
        }
    }

    /// A string attribute. Bytes that are no UTF-8 are a fault.
    ///
    /// # Errors
    /// When the attribute has another type.
    pub fn string(&self, name: &str) -> Result<Option<&'a str>, Fault> {
        match self.value(name) {
            None => Ok(None),
            Some(AttributeValue::String(value)) => match std::str::from_utf8(value) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(Fault::attribute(format!("attribute {name} is not UTF-8 text"))),
            },
            Some(other) => Err(wrong_type(name, "a string", other)),
        }
    }

    /// A list of strings.
    ///
    /// # Errors
    /// When the attribute has another type.
    pub fn strings(&self, name: &str) -> Result<Option<&'a [Bytes]>, Fault> {
        match self.value(name) {
            None => Ok(None),
            Some(AttributeValue::Strings(values)) => Ok(Some(values)),
            Some(other) => Err(wrong_type(name, "a list of strings", other)),
        }
    }

    /// A tensor attribute.
    ///
    /// # Errors
    /// When the attribute has another type.
    pub fn tensor(&self, name: &str) -> Result<Option<&'a TensorDef>, Fault> {
        match self.value(name) {
            None => Ok(None),
            Some(AttributeValue::Tensor(value)) => Ok(Some(value)),
            Some(other) => Err(wrong_type(name, "a tensor", other)),
        }
    }

    /// A fault for an attribute that must be given.
    #[must_use]
    pub fn missing(&self, name: &str) -> Fault {
        Fault::attribute(format!("{} needs the attribute {name}", self.op_type()))
    }
}

fn wrong_type(name: &str, expected: &str, found: &AttributeValue) -> Fault {
    let found = match found {
        AttributeValue::Float(_) => "a float",
        AttributeValue::Int(_) => "an integer",
        AttributeValue::String(_) => "a string",
        AttributeValue::Tensor(_) => "a tensor",
        AttributeValue::Graph(_) => "a graph",
        AttributeValue::SparseTensor(_) => "a sparse tensor",
        AttributeValue::Type(_) => "a type",
        AttributeValue::Floats(_) => "a list of floats",
        AttributeValue::Ints(_) => "a list of integers",
        AttributeValue::Strings(_) => "a list of strings",
        AttributeValue::Tensors(_) => "a list of tensors",
        AttributeValue::Graphs(_) => "a list of graphs",
        AttributeValue::SparseTensors(_) => "a list of sparse tensors",
        AttributeValue::Types(_) => "a list of types",
        AttributeValue::Reference { .. } => "a reference that nothing resolves",
    };
    Fault::attribute(format!("attribute {name} must be {expected}, it is {found}"))
}
