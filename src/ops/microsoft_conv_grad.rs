//! `ConvGrad` of `com.microsoft`: the gradients of a convolution by its input, its weight and its bias.

use super::table::Built;
use super::window::Window;
use super::work::Convolution;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, product};

/// What flows in, the input of the convolution, its weight.
#[derive(Debug)]
struct ConvGrad {
    window: Window,
    group: i64,
}

/// `ConvGrad`.
pub(super) fn conv_grad(node: &NodeView<'_>) -> Built {
    let group = super::operands::count("group", node.int_or("group", 1)?)?;
    Ok(Box::new(ConvGrad { window: Window::read(node)?, group }))
}

impl ConvGrad {
    fn sizes(&self, cx: &WorkCx<'_>) -> Option<Convolution> {
        let (flows, input, weight) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
        let [filters, each, kernel @ ..] = weight.dims else { return None };
        let groups = u64::try_from(self.group).ok()?;
        let mut sizes = self.window.sizes(false, input.dims, flows.dims, kernel)?;
        (sizes.in_channels, sizes.out_channels, sizes.groups) = (each.saturating_mul(groups), *filters, groups);
        Some(sizes)
    }
}

impl Operator for ConvGrad {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let like = |input: usize| Fact::tensor(cx.element(input), cx.shape(input).cloned());
        let filters = cx.shape(2).and_then(|weight| weight.dim(0)).cloned();
        let bias = Fact::tensor(cx.element(2), filters.map(|filters| Shape::new(vec![filters])));
        Ok(vec![like(1), like(2), bias])
    }

    /// As many MACs as the convolution for the gradient of its input and for that of its weight, and a sum for that of
    /// its bias.
    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let flows = cx.elements_in(0)?;
        let macs = &flows * product(cx.shape_in(2)?.dims().get(1..)?);
        let wanted = [0, 1].into_iter().filter(|&output| cx.wants(output)).count();
        let sum = if cx.wants(2) { flows } else { Dim::ZERO };
        Cost::composed(cx, macs * i128::try_from(wanted).ok()?, &sum, Dim::ZERO)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let Some(sizes) = self.sizes(cx) else { return vec![cx.elementwise()] };
        let wanted = [0, 1].into_iter().filter(|&output| cx.output(output).is_some()).count();
        let family = Family::Convolution(sizes);
        if wanted < 2 {
            return vec![cx.all(family)];
        }
        let first = cx.part(family, 2.0 * sizes.macs(), cx.bytes_read / 2.0);
        vec![first, cx.rest(&[first], family)]
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ops::testing::{dims, float, microsoft};

    #[test]
    fn gradients_by_input_and_weight_are_two_convolutions() {
        let inputs = [float(&[1, 16, 6, 6]), float(&[1, 3, 8, 8]), float(&[16, 3, 3, 3])];
        let node = || microsoft("ConvGrad").ints("kernel_shape", &[3, 3]).outputs(3);
        let facts = node().run(&inputs).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["1×3×8×8", "16×3×3×3", "16"]);
        assert_eq!(node().cost(&inputs).macs, Dim::constant(2 * 16 * 36 * 27));
    }
}
