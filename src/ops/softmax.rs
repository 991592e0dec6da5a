//! `Softmax`, `LogSoftmax` and `Hardmax`.

use super::normalization::expect_axis;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Saved, Work, WorkCx, work};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, normalize_axis, product};

/// What is computed of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftmaxKind {
    /// Exponentials that sum to 1.
    Soft,
    /// Their logarithms.
    Log,
    /// 1 at the first maximum, 0 elsewhere.
    Hard,
}

/// An operator that works on rows.
#[derive(Clone, Debug)]
pub struct Softmax {
    /// What is computed.
    pub kind: SoftmaxKind,
    /// The axis of a row, or the first of those that make a row.
    pub axis: i64,
    /// Whether a row spans all dims from the axis on (before version 13) instead of the axis alone.
    pub flattened: bool,
}

/// `Softmax`, `LogSoftmax`, `Hardmax`.
pub(super) fn softmax(node: &NodeView<'_>) -> Built {
    let flattened = node.opset() < 13;
    let kind = match node.op_type() {
        "LogSoftmax" => SoftmaxKind::Log,
        "Hardmax" => SoftmaxKind::Hard,
        _ => SoftmaxKind::Soft,
    };
    Ok(Box::new(Softmax { kind, axis: node.int_or("axis", if flattened { 1 } else { -1 })?, flattened }))
}

impl Softmax {
    /// The index of the axis. Before version 13 it may be the rank: rows of one element.
    fn index(&self, shape: &Shape) -> Result<usize, Fault> {
        let rank = shape.rank();
        if self.flattened && usize::try_from(self.axis).is_ok_and(|axis| axis == rank) {
            return Ok(rank);
        }
        // A scalar is one row.
        if rank == 0 && matches!(self.axis, -1 | 0) {
            return Ok(0);
        }
        expect_axis(shape, "axis", self.axis)
    }

    /// Number of elements of a row of a tensor of this shape.
    #[must_use]
    pub fn row(&self, shape: &Shape) -> Option<Dim> {
        let axis = self.index(shape).ok()?;
        if self.flattened { shape.dims().get(axis..).map(product) } else { shape.dim(axis).cloned() }
    }
}

impl Operator for Softmax {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        if let Some(shape) = cx.shape(0) {
            self.index(shape)?;
        }
        Ok(vec![Fact::tensor(cx.element(0), cx.shape(0).cloned())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        // Maximum, difference, exponential, sum, quotient; a hard maximum compares alone and has no gradient.
        let elements = cx.elements_out(0)?;
        match self.kind {
            SoftmaxKind::Hard => Cost::computed(cx, elements, &Dim::ZERO),
            SoftmaxKind::Soft | SoftmaxKind::Log => Cost::elementwise(cx, SOFTMAX),
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let dims = cx.input(0).map_or(&[][..], |input| input.dims);
        let axis = normalize_axis(self.axis, dims.len()).unwrap_or(dims.len());
        let cols = match self.flattened {
            true => dims.get(axis..).map_or(1, work::product),
            false => dims.get(axis).copied().unwrap_or(1),
        };
        vec![cx.all(Family::Softmax { rows: work::product(dims).checked_div(cols).unwrap_or_default(), cols })]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::output(0).when(cx.has_backward() && self.kind != SoftmaxKind::Hard)
    }
}

/// Operations of a softmax for each element.
pub(super) const SOFTMAX: i128 = 5;

#[cfg(test)]
mod tests {
    use super::{Softmax, SoftmaxKind};
    use crate::ir::dim::Dim;
    use crate::ops::testing::{float, op, shape};

    #[test]
    fn rows_are_flattened_before_version_13() {
        let input = shape(&[1, 1000, 4, 5]);
        let old = Softmax { kind: SoftmaxKind::Soft, axis: 1, flattened: true };
        assert_eq!(old.row(&input), Some(Dim::constant(20_000)));
        let new = Softmax { kind: SoftmaxKind::Soft, axis: -1, flattened: false };
        assert_eq!(new.row(&input), Some(Dim::constant(5)));
    }

    #[test]
    fn the_default_axis_follows_the_version() {
        assert_eq!(op("Softmax").opset(11).dims(&[float(&[7])]), "7");
        assert_eq!(op("Softmax").opset(11).dims(&[float(&[1, 1000, 4, 5])]), "1×1000×4×5");
        assert_eq!(op("LogSoftmax").opset(13).dims(&[float(&[7])]), "7");
        assert!(op("Hardmax").opset(13).int("axis", 1).run(&[float(&[7])]).is_err());
    }

    #[test]
    fn five_operations_for_each_element() {
        let cost = op("Softmax").cost(&[float(&[2, 10])]);
        assert_eq!((cost.flops, cost.backward_flops), (Dim::constant(100), Dim::constant(100)));
        assert_eq!(op("Hardmax").cost(&[float(&[2, 10])]).backward_flops, Dim::ZERO);
    }
}
