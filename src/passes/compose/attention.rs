//! Attention that exporters take apart: two products with a softmax between.

use std::sync::Arc;

use super::{Composer, Found};
use crate::ir::graph::{Node, TensorId};

impl Composer<'_> {
    /// `softmax(q·kᵀ · scale + mask) · v`, with scales before the product, and dropout behind the softmax.
    pub(super) fn attention(&self, layer: usize, product: &Node) -> Option<Found> {
        let [Some(weights), Some(value)] = *product.inputs.as_slice() else { return None };
        let mut absorbed = Vec::new();
        let mut at = weights;
        // What may stand between the softmax and the second product.
        while let Some((inner, node)) = ["Dropout", "Cast", "Reshape", "Identity", "Where", "IsNaN"]
            .iter()
            .find_map(|op| self.made_by(at, op))
            .filter(|_| absorbed.len() < 8)
        {
            absorbed.push(inner);
            let data = if &*node.op == "Where" { 2 } else { 0 };
            at = (*node.inputs.get(data)?)?;
        }
        let (softmax, node) = self.made_by(at, "Softmax")?;
        absorbed.push(softmax);
        at = (*node.inputs.first()?)?;
        let mut mask = None;
        // What may stand between the first product and the softmax: scale, mask, clamps.
        let (query, key) = loop {
            if absorbed.len() > 24 {
                return None;
            }
            if let Some((inner, node)) = self.made_only_by(at, "MatMul") {
                absorbed.push(inner);
                let [Some(query), Some(key)] = *node.inputs.as_slice() else { return None };
                break (query, key);
            }
            let layer = *self.maker.get(&at)?;
            let node = self.node(layer)?;
            let first = (*node.inputs.first()?)?;
            let scores = |tensor: TensorId| self.rank(tensor) >= self.rank(value) && self.leads_to_product(tensor, 8);
            at = match &*node.op {
                "Add" | "Mul" | "Div" | "Max" | "Sub" => {
                    let (next, other) = self.either(node, scores)?;
                    if self.number(other).is_none() {
                        mask = Some(other);
                    }
                    next
                }
                "Where" => {
                    let [_, Some(a), Some(b)] = *node.inputs.as_slice() else { return None };
                    if scores(a) { a } else { b }
                }
                "Cast" | "Reshape" | "Identity" | "Clip" | "Dropout" => first,
                _ => return None,
            };
            absorbed.push(layer);
        };
        if self.rank(query)? < 3 || self.is_stored(key) || self.is_stored(value) {
            return None;
        }
        let before = (query, key);
        let query = self.without_scale(query, &mut absorbed);
        let key = self.without_scale(key, &mut absorbed);
        // Exporters scale both sides where the model calls the framework's own attention, whose fused kernels take samples
        // × heads × rows × size. A model's own arithmetic with a trained mask stays as it is.
        let called = before.0 != query && before.1 != key;
        let is_trained = |tensor: TensorId| self.analysis.needs_gradient.get(tensor.0 as usize) == Some(&true);
        let stays = if called { self.rank(query) != Some(4) } else { mask.is_some_and(is_trained) };
        if stays || self.ends_in_another_axis(query) {
            return None;
        }
        absorbed.sort_unstable();
        absorbed.dedup();
        let inputs = vec![Some(query), Some(key), Some(value), mask];
        Some(Found { layer, absorbed, operator: Arc::clone(&self.attention), inputs })
    }

    /// Whether a transposition moved the last axis: what is multiplied then are channels, not rows of a sequence.
    fn ends_in_another_axis(&self, tensor: TensorId) -> bool {
        let order = self.made_by(tensor, "Transpose").and_then(|(_, node)| {
            let operator = node.operator.as_deref()?;
            operator.permutation(self.rank((*node.inputs.first()?)?)?)
        });
        order.is_some_and(|order| order.last().is_some_and(|last| last + 1 != order.len()))
    }

    /// Whether a product of two computed tensors is a few steps behind a tensor.
    fn leads_to_product(&self, tensor: TensorId, steps: usize) -> bool {
        let Some(node) = self.maker.get(&tensor).and_then(|&layer| self.node(layer)) else { return false };
        match &*node.op {
            "MatMul" => node.inputs.iter().flatten().all(|&input| !self.is_stored(input)),
            "Add" | "Mul" | "Div" | "Max" | "Sub" | "Where" | "Cast" | "Reshape" | "Identity" | "Clip" if steps > 0 => {
                node.inputs.iter().flatten().any(|&input| self.leads_to_product(input, steps - 1))
            }
            _ => false,
        }
    }

    /// What a scale before the product is applied to.
    fn without_scale(&self, tensor: TensorId, absorbed: &mut Vec<usize>) -> TensorId {
        let scaled = self.made_only_by(tensor, "Mul").or_else(|| self.made_only_by(tensor, "Div"));
        let Some((layer, node)) = scaled else { return tensor };
        match self.either(node, |factor| self.rank(factor) == Some(0) || self.number(factor).is_some()) {
            Some((_, data)) => {
                absorbed.push(layer);
                data
            }
            None => tensor,
        }
    }
}
