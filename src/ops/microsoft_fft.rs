//! `Rfft` and `Irfft` of `com.microsoft`: Fourier transforms of the last axes; a complex number is two numbers in a last
//! dim of its own.

use super::operands::count;
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

#[derive(Debug)]
struct Fourier {
    inverse: bool,
    /// Whether the half of the spectrum that repeats the other is left out.
    onesided: bool,
    axes: usize,
}

/// `Rfft`, `Irfft`.
pub(super) fn fourier(node: &NodeView<'_>) -> Built {
    let axes = count("signal_ndim", node.int_or("signal_ndim", 1)?)?;
    let axes = usize::try_from(axes).ok().filter(|axes| *axes <= 3);
    Ok(Box::new(Fourier {
        inverse: node.op_type() == "Irfft",
        onesided: node.flag("onesided", true)?,
        axes: axes.ok_or_else(|| Fault::attribute("attribute signal_ndim must be 1, 2 or 3"))?,
    }))
}

impl Operator for Fourier {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(shape) = cx.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
        let mut dims = shape.dims().to_vec();
        if dims.len() < self.axes + usize::from(self.inverse) {
            return Err(Fault::shape(format!("the input is {shape}; {} axes are transformed", self.axes)));
        }
        if self.inverse {
            dims.pop();
        }
        if let (Some(last), true) = (dims.last_mut(), self.onesided) {
            *last = if self.inverse {
                (&*last - &Dim::ONE).max(&Dim::ZERO) * 2
            } else {
                last.floor_div(&Dim::constant(2)) + 1
            };
        }
        if !self.inverse {
            dims.push(Dim::constant(2));
        }
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    /// 2.5 n log₂ n operations for n real numbers, as libraries of transforms count them; the logarithm is rounded up.
    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let reals = if self.inverse { cx.shape_out(0)? } else { cx.shape_in(0)? };
        let first = reals.rank().checked_sub(self.axes)?;
        let length = reals.dims().get(first..)?.iter().fold(Dim::ONE, |length, dim| length * dim);
        let rounds = length.range().1.map_or(1, |length| i128::from(length.max(2).ilog2() + 1));
        let flops = (reals.elements() * rounds.saturating_mul(5)).ceil_div(&Dim::constant(2));
        Cost::computed(cx, flops.clone(), &flops)
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{float, microsoft};

    #[test]
    fn half_a_spectrum_and_back() {
        let node = |name: &str| microsoft(name).int("signal_ndim", 2);
        assert_eq!(node("Rfft").dims(&[float(&[1, 8, 16])]), "1×8×9×2");
        assert_eq!(node("Irfft").dims(&[float(&[1, 8, 9, 2])]), "1×8×16");
        assert_eq!(node("Rfft").int("onesided", 0).dims(&[float(&[1, 8, 16])]), "1×8×16×2");
        assert!(node("Irfft").run(&[float(&[9, 2])]).is_err());
    }
}
