//! Operators that equal nodes share: of the same name, version and attributes, with inputs and outputs at the same places.
//! A network repeats a few operators many times; what is alike can be told by the operator being one and the same.

use std::sync::Arc;

use crate::frontend::onnx::model::{AttributeValue, Name, NodeDef};
use crate::ir::hash::HashMap;
use crate::ops::Operator;

/// Operators by all that their making depends on, as bytes.
#[derive(Default)]
pub(super) struct Shared {
    known: HashMap<Box<[u8]>, Arc<dyn Operator>>,
    text: Vec<u8>,
}

impl Shared {
    /// The operator of an equal node, else one that is made.
    ///
    /// # Errors
    /// When making it fails.
    pub(super) fn operator<E>(
        &mut self,
        node: &NodeDef,
        opset: i64,
        make: impl FnOnce() -> Result<Box<dyn Operator>, E>,
    ) -> Result<Arc<dyn Operator>, E> {
        if !self.write(node, opset) {
            return make().map(Arc::from);
        }
        if let Some(known) = self.known.get(&*self.text) {
            return Ok(Arc::clone(known));
        }
        let made: Arc<dyn Operator> = Arc::from(make()?);
        self.known.insert(self.text.as_slice().into(), Arc::clone(&made));
        Ok(made)
    }

    /// Writes down all that an operator is made of; `false` where tensors, graphs or types are among it.
    fn write(&mut self, node: &NodeDef, opset: i64) -> bool {
        self.text.clear();
        self.bytes(node.domain.as_bytes());
        self.bytes(node.op_type.as_bytes());
        self.number(opset);
        for names in [&node.inputs, &node.outputs] {
            self.places(names);
        }
        node.attributes.iter().all(|attribute| {
            self.bytes(attribute.name.as_bytes());
            self.value(&attribute.value)
        })
    }

    /// Which of the names are given.
    fn places(&mut self, names: &[Name]) {
        self.number(names.len());
        self.text.extend(names.iter().map(|name| u8::from(name.is_empty())));
    }

    fn value(&mut self, value: &AttributeValue) -> bool {
        match value {
            AttributeValue::Int(int) => self.list(b'i', &[*int], i64::to_le_bytes),
            AttributeValue::Ints(ints) => self.list(b'I', ints, i64::to_le_bytes),
            AttributeValue::Float(float) => self.list(b'f', &[*float], f32::to_le_bytes),
            AttributeValue::Floats(floats) => self.list(b'F', floats, f32::to_le_bytes),
            AttributeValue::String(string) => {
                self.text.push(b's');
                self.bytes(string);
            }
            AttributeValue::Strings(strings) => {
                self.text.push(b'S');
                self.number(strings.len());
                strings.iter().for_each(|string| self.bytes(string));
            }
            _ => return false,
        }
        true
    }

    fn list<T: Copy, const N: usize>(&mut self, tag: u8, items: &[T], bytes: impl Fn(T) -> [u8; N]) {
        self.text.push(tag);
        self.number(items.len());
        self.text.extend(items.iter().flat_map(|item| bytes(*item)));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.text.extend_from_slice(bytes);
    }

    fn number(&mut self, number: impl TryInto<i64>) {
        self.text.extend(number.try_into().unwrap_or(i64::MAX).to_le_bytes());
    }
}
