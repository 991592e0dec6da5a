//! `MoE` and `QMoE` of `com.microsoft`: each token goes through the few experts that its router chose. Only those are
//! counted.

use super::operands::count;
use super::softmax::SOFTMAX;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, product};

/// Tokens, scores of the router, and for each of up to three products weights and biases (and scales, where they are
/// quantised).
#[derive(Debug)]
struct Experts {
    /// Experts that a token goes through.
    chosen: i64,
    /// Where the weights of the products stand.
    weights: [usize; 3],
    /// Elements of a weight in one that is stored.
    packed: i64,
}

/// `MoE`.
pub(super) fn experts(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Experts { chosen: count("k", node.int_or("k", 1)?)?, weights: [2, 4, 6], packed: 1 }))
}

/// `QMoE`.
pub(super) fn quantized_experts(node: &NodeView<'_>) -> Built {
    let bits = node.int_or("expert_weight_bits", 4)?;
    if !matches!(bits, 2..=4 | 8) {
        return Err(Fault::attribute(format!("attribute expert_weight_bits is {bits}, allowed are 2, 3, 4 and 8")));
    }
    Ok(Box::new(Experts { chosen: count("k", node.int_or("k", 1)?)?, weights: [2, 5, 8], packed: 8 / bits }))
}

impl Experts {
    /// Elements of one expert's weight.
    fn of_one(&self, weight: &Shape) -> Option<Dim> {
        Some(product(weight.dims().get(1..)?) * i128::from(self.packed))
    }
}

impl Operator for Experts {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        Ok(vec![Fact::tensor(cx.element(0), cx.shape(0).cloned())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let scores = cx.shape_in(1)?;
        let tokens = product(scores.dims().split_last()?.1);
        let routed = &tokens * i128::from(self.chosen);
        let mut weights = Dim::ZERO;
        for input in self.weights.into_iter().filter(|&input| cx.has(input)) {
            weights += self.of_one(cx.shape_in(input)?)?;
        }
        // The scores become probabilities, and the results of the chosen are weighed and added.
        let other = scores.elements() * SOFTMAX + cx.elements_out(0)? * (2 * i128::from(self.chosen));
        let macs = routed * weights;
        let gradients = self.weights.iter().any(|&input| cx.needs_gradient(input));
        let backward = &macs * (2 * (i128::from(cx.needs_gradient(0)) + i128::from(gradients)));
        Cost::composed(cx, macs, &other, backward)
    }

    fn role(&self, input: usize) -> Role {
        match input {
            0 | 1 => Role::Data,
            _ if self.packed == 1 => Role::Weight,
            2 | 4 | 5 | 7 | 8 | 10 => Role::Weight,
            _ => Role::Setting,
        }
    }

    fn stored_elements(&self, _input: usize) -> Option<Dim> {
        None
    }

    /// A product for each expert that is chosen at all, with its share of the tokens.
    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let (Some(tokens), Some(scores)) = (cx.input(0), cx.input(1)) else { return vec![cx.elementwise()] };
        let (Some(hidden), Some(experts)) = (tokens.dim_from_end(0), scores.dim_from_end(0)) else {
            return vec![cx.elementwise()];
        };
        let routed = tokens.elements().checked_div(hidden).unwrap_or(1).saturating_mul(self.chosen.unsigned_abs());
        let batch = experts.min(routed).max(1);
        let m = routed.div_ceil(batch);
        let mut items = Vec::new();
        for input in self.weights {
            let Some(weight) = cx.input(input) else { continue };
            let each = weight.elements().checked_div(weight.dim(0).unwrap_or(1)).unwrap_or_default();
            let each = each.saturating_mul(self.packed.unsigned_abs());
            // Down from the inner size to that of a token, or up to it.
            let inner = each.checked_div(hidden).unwrap_or_default();
            let (n, k) = if input == self.weights[1] { (hidden, inner) } else { (inner, hidden) };
            let flops = 2.0 * routed as f64 * each as f64;
            let family = Family::Product { batch, m, n, k };
            let (item, left) = (cx.part(family, flops, weight.bytes() as f64), cx.rest(&items, family));
            let (flops, bytes_read) = (item.flops.min(left.flops), item.bytes_read.min(left.bytes_read));
            items.push(Work { flops, bytes_read, ..item });
        }
        let rest = cx.rest(&items, Family::Softmax { rows: routed, cols: experts });
        items.push(rest);
        items
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let weights = self.weights.iter().fold(Saved::NOTHING, |saved, &input| saved.and(Saved::input(input)));
        Saved::inputs(0..2).and(weights).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ops::Family;
    use crate::ops::testing::{float, microsoft, typed};

    #[test]
    fn only_the_chosen_experts_are_counted() {
        let inputs =
            [float(&[3, 10, 64]), float(&[30, 8]), float(&[8, 64, 256]), float(&[8, 256]), float(&[8, 256, 64])];
        let node = || microsoft("MoE").int("k", 2);
        assert_eq!(node().dims(&inputs), "3×10×64");
        assert_eq!(node().cost(&inputs).macs, Dim::constant(60 * 2 * 64 * 256));
        let families = node().priced(&inputs, &[]).families();
        assert_eq!(families[0], Family::Product { batch: 8, m: 8, n: 256, k: 64 });
        assert_eq!(families[1], Family::Product { batch: 8, m: 8, n: 64, k: 256 });
    }

    #[test]
    fn packed_experts_count_as_elements() {
        let packed = |dims: &[i128]| typed(ElementType::Uint8, dims);
        let inputs = [
            float(&[5, 64]),
            float(&[5, 8]),
            packed(&[8, 256, 32]),
            float(&[8, 256]),
            float(&[8, 256]),
            packed(&[8, 64, 128]),
            float(&[8, 64]),
        ];
        let node = microsoft("QMoE").int("k", 1);
        assert_eq!(node.cost(&inputs).macs, Dim::constant(5 * 2 * 64 * 256));
    }
}
