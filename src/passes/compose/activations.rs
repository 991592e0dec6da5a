//! Activations that exporters take apart: GELU in both forms, and products with a gate.

use super::{Composer, Found};
use crate::ir::graph::{Node, TensorId};

impl Composer<'_> {
    /// `x · (1 + erf(x / √2)) / 2`, the factors in any order.
    pub(super) fn gelu(&self, layer: usize, mul: &Node) -> Option<Found> {
        let half = |tensor| self.is_number(tensor, 0.5);
        // x · (…) · ½, ½ last.
        if let Some((_, product)) = self.either(mul, half) {
            let (inner, node) = self.made_only_by(product, "Mul")?;
            let (x, mut absorbed) = self.one_plus_erf(node).or_else(|| self.one_plus_tanh(node))?;
            absorbed.push(inner);
            return self.gelu_of(layer, x, absorbed);
        }
        // (x · ½) · (…), or x · ((…) · ½).
        let [Some(a), Some(b)] = *mul.inputs.as_slice() else { return None };
        for (left, right) in [(a, b), (b, a)] {
            let Some((inner, node)) = self.made_only_by(left, "Mul") else { continue };
            let Some((_, factor)) = self.either(node, half) else { continue };
            if let Some((x, mut absorbed)) = self.erf_chain(right)
                && x == factor
            {
                absorbed.push(inner);
                return self.gelu_of(layer, x, absorbed);
            }
            if let Some((x, mut absorbed)) = self.erf_chain(factor)
                && x == right
            {
                absorbed.push(inner);
                return self.gelu_of(layer, x, absorbed);
            }
        }
        None
    }

    fn gelu_of(&self, layer: usize, x: TensorId, absorbed: Vec<usize>) -> Option<Found> {
        Some(Found { layer, absorbed, operator: self.operator("Gelu", &[])?, inputs: vec![Some(x)] })
    }

    /// A product of `x` and `1 + erf(x / √2)`.
    fn one_plus_erf(&self, mul: &Node) -> Option<(TensorId, Vec<usize>)> {
        let [Some(a), Some(b)] = *mul.inputs.as_slice() else { return None };
        let pair = |x: TensorId, chain| self.erf_chain(chain).filter(|(inner, _)| *inner == x);
        pair(a, b).or_else(|| pair(b, a))
    }

    /// A product of `x` and `1 + tanh(√(2/π) · (x + 0.044715·x·x·x))`, as PyTorch's own operator is exported.
    fn one_plus_tanh(&self, mul: &Node) -> Option<(TensorId, Vec<usize>)> {
        let [Some(a), Some(b)] = *mul.inputs.as_slice() else { return None };
        let pair = |x: TensorId, chain| self.tanh_chain(chain, x).map(|absorbed| (x, absorbed));
        pair(a, b).or_else(|| pair(b, a))
    }

    /// The layers of `1 + tanh(√(2/π) · (x + 0.044715·x·x·x))`.
    fn tanh_chain(&self, tensor: TensorId, x: TensorId) -> Option<Vec<usize>> {
        let other = |node: &Node, number: f64| self.either(node, |tensor| self.is_number(tensor, number));
        let is_x = |node: &Node| self.either(node, |tensor| tensor == x);
        let (add, node) = self.made_only_by(tensor, "Add")?;
        let (tanh, node) = self.made_only_by(other(node, 1.0)?.1, "Tanh")?;
        let (scale, node) = self.made_only_by((*node.inputs.first()?)?, "Mul")?;
        let root = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
        let (sum, node) = self.made_only_by(other(node, root)?.1, "Add")?;
        let (term, node) = self.made_only_by(is_x(node)?.1, "Mul")?;
        let (cube, node) = self.made_only_by(other(node, 0.044_715)?.1, "Mul")?;
        let (square, node) = self.made_only_by(is_x(node)?.1, "Mul")?;
        let is_square = node.inputs.iter().all(|input| *input == Some(x));
        is_square.then(|| vec![add, tanh, scale, sum, term, cube, square])
    }

    /// `1 + erf(x / √2)`: x and the layers.
    fn erf_chain(&self, tensor: TensorId) -> Option<(TensorId, Vec<usize>)> {
        let (add, node) = self.made_only_by(tensor, "Add")?;
        let (_, erf) = self.either(node, |tensor| self.is_number(tensor, 1.0))?;
        let (erf, node) = self.made_only_by(erf, "Erf")?;
        let scaled = (*node.inputs.first()?)?;
        if let Some((div, node)) = self.made_only_by(scaled, "Div") {
            let [Some(x), Some(root)] = *node.inputs.as_slice() else { return None };
            return self.is_number(root, std::f64::consts::SQRT_2).then(|| (x, vec![add, erf, div]));
        }
        let (mul, node) = self.made_only_by(scaled, "Mul")?;
        let (_, x) = self.either(node, |tensor| self.is_number(tensor, std::f64::consts::FRAC_1_SQRT_2))?;
        Some((x, vec![add, erf, mul]))
    }

    /// `x · sigmoid(x)`, `x · hardsigmoid(x)`, `x · tanh(softplus(x))`.
    pub(super) fn gated(&self, layer: usize, mul: &Node) -> Option<Found> {
        let [Some(a), Some(b)] = *mul.inputs.as_slice() else { return None };
        for (x, gate) in [(a, b), (b, a)] {
            for (inner, name) in [("Sigmoid", "Swish"), ("HardSigmoid", "HardSwish")] {
                if let Some((found, node)) = self.made_only_by(gate, inner)
                    && node.inputs.first() == Some(&Some(x))
                {
                    return Some(Found {
                        layer,
                        absorbed: vec![found],
                        operator: self.operator(name, &[])?,
                        inputs: vec![Some(x)],
                    });
                }
            }
            if let Some((tanh, node)) = self.made_only_by(gate, "Tanh")
                && let Some((softplus, node)) = self.made_only_by((*node.inputs.first()?)?, "Softplus")
                && node.inputs.first() == Some(&Some(x))
            {
                let operator = self.operator("Mish", &[])?;
                return Some(Found { layer, absorbed: vec![tanh, softplus], operator, inputs: vec![Some(x)] });
            }
        }
        None
    }
}
