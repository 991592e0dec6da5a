//! Which operations are alike: the same operator on tensors of the same shapes, at the same cost. A network has many
//! operations of few kinds, and what an operation does is worked out once for each kind.

use std::sync::Arc;

use super::compose::Operation;
use crate::analysis::Analysis;
use crate::ir::graph::TensorId;
use crate::ir::hash::HashMap;

/// Operations in running order, each with its kind.
#[derive(Debug)]
pub struct Operations {
    list: Vec<Operation>,
    kinds: Vec<usize>,
    /// The first operation of each kind.
    firsts: Vec<usize>,
}

impl Operations {
    /// Finds the kinds of these operations.
    #[must_use]
    pub fn new(analysis: &Analysis, list: Vec<Operation>) -> Self {
        let mut known: HashMap<Box<[u64]>, usize> = HashMap::default();
        let mut operations = Self { list, kinds: Vec::new(), firsts: Vec::new() };
        let mut key = Vec::new();
        for (index, operation) in operations.list.iter().enumerate() {
            key.clear();
            write(analysis, operation, &mut key);
            let kind = match known.get(&*key) {
                Some(&kind) => kind,
                None => {
                    let kind = operations.firsts.len();
                    operations.firsts.push(index);
                    known.insert(key.as_slice().into(), kind);
                    kind
                }
            };
            operations.kinds.push(kind);
        }
        operations
    }

    /// Operations in running order, with the number of their kind.
    pub fn with_kinds(&self) -> impl Iterator<Item = (&Operation, usize)> {
        self.list.iter().zip(self.kinds.iter().copied())
    }

    /// An operation of each kind, in the order of their numbers.
    pub fn firsts(&self) -> impl Iterator<Item = &Operation> {
        self.firsts.iter().filter_map(|&index| self.list.get(index))
    }

    /// Operations in running order.
    #[must_use]
    pub fn list(&self) -> &[Operation] {
        &self.list
    }
}

/// All that what an operation does depends on.
fn write(analysis: &Analysis, operation: &Operation, key: &mut Vec<u64>) {
    let layer = analysis.layers.get(operation.layer);
    let own = || layer.and_then(|layer| analysis.node(layer)).and_then(|node| node.operator.as_ref());
    let operator = operation.operator.as_ref().or_else(own);
    key.push(operator.map_or(0, |operator| Arc::as_ptr(operator).cast::<()>() as usize as u64));
    // How often it runs is decided by the graph that it stands in.
    key.push(layer.map_or(0, |layer| u64::from(layer.graph.0)));
    for tensors in [&operation.inputs, &operation.outputs] {
        key.push(tensors.len() as u64);
        key.extend(tensors.iter().map(|tensor| tensor.map_or(0, |tensor| of_tensor(analysis, tensor))));
    }
    for layer in operation.layers() {
        key.push(u64::from(analysis.layers.get(layer).is_some_and(|layer| layer.cost.is_some())));
        key.extend(analysis.cost_slots(layer).iter().map(|slot| *slot as u64));
    }
}

/// Shape, element type, and whether training asks for the gradient.
fn of_tensor(analysis: &Analysis, tensor: TensorId) -> u64 {
    let needs_gradient = analysis.needs_gradient.get(tensor.0 as usize) == Some(&true);
    1 + 2 * u64::from(analysis.shapes().get(tensor).0) + u64::from(needs_gradient)
}
