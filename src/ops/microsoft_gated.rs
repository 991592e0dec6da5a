//! Gated activations of `com.microsoft`: one half of the last dim passes through a function and is multiplied with the
//! other half (`BiasSplitGelu`, `SwiGLU` of one input), or two tensors are (`SwiGLU` of two).

use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Saved, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;

#[derive(Debug)]
struct Gated {
    /// Whether the second input is a bias instead of the other half.
    biased: bool,
}

/// `BiasSplitGelu`, `SwiGLU`.
pub(super) fn gated(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Gated { biased: node.op_type() == "BiasSplitGelu" }))
}

impl Operator for Gated {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let mut shape = cx.shape(0).cloned();
        let halves = self.biased || !cx.has(1);
        if let Some(last) = shape.as_mut().and_then(|shape| shape.dims_mut().last_mut()).filter(|_| halves) {
            let two = Dim::constant(2);
            if last.modulo(&two).is_eq(&Dim::ZERO) == Some(false) {
                return Err(Fault::shape(format!("the last dim is {last}; it must have two halves")));
            }
            *last = last.floor_div(&two);
        }
        Ok(vec![Fact::tensor(cx.element(0), shape)])
    }

    /// The function, the product, and a sum for both halves where there is a bias.
    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::elementwise(cx, if self.biased { 4 } else { 2 })
    }

    fn role(&self, input: usize) -> Role {
        if self.biased && input == 1 { Role::Weight } else { Role::Data }
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::inputs(0..2).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ops::testing::{float, microsoft};

    #[test]
    fn one_half_gates_the_other() {
        let node = |name: &str| microsoft(name);
        let inputs = [float(&[2, 5, 8]), float(&[8])];
        assert_eq!(node("BiasSplitGelu").dims(&inputs), "2×5×4");
        assert_eq!(node("BiasSplitGelu").cost(&inputs).flops, Dim::constant(160));
        assert_eq!(node("SwiGLU").dims(&inputs[..1]), "2×5×4");
        assert_eq!(node("SwiGLU").dims(&[float(&[2, 5, 8]), float(&[2, 5, 8])]), "2×5×8");
        assert!(node("SwiGLU").run(&[float(&[2, 7])]).is_err());
    }
}
