//! Merging layers. Keras aligns inputs of different rank behind the batch, not at it.

use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, TensorFact};
use crate::ir::shape::{Shape, normalize_axis};
use crate::ops::broadcast::unify;
use crate::ops::table::Built;
use crate::ops::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Saved, Work, WorkCx, binary};

use super::list;

/// A function of two elements whose inputs are aligned behind the batch.
#[derive(Debug)]
struct Merge {
    inner: Box<dyn Operator>,
}

/// `Add`, `Subtract`, `Multiply`, `Maximum`, `Minimum`.
pub(super) fn merge(node: &NodeView<'_>) -> Built {
    let inner = match node.op_type() {
        "Max" | "Min" => binary::variadic(node)?,
        _ => binary::binary(node)?,
    };
    Ok(Box::new(Merge { inner }))
}

/// The fact with ones behind the batch, up to a rank.
fn aligned(fact: &Fact, rank: usize) -> Fact {
    let Some(TensorFact { element, shape: Some(shape), .. }) = fact.as_tensor() else { return fact.clone() };
    let Some((batch, rest)) = shape.dims().split_first().filter(|_| shape.rank() < rank) else { return fact.clone() };
    let ones = (shape.rank()..rank).map(|_| Dim::ONE);
    let dims = std::iter::once(batch.clone()).chain(ones).chain(rest.iter().cloned());
    Fact::tensor(*element, dims.collect::<Shape>())
}

impl Operator for Merge {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let rank = (0..cx.input_count()).filter_map(|input| cx.shape(input)).map(Shape::rank).max().unwrap_or(0);
        let real = (0..cx.input_count()).find_map(|input| cx.element(input).filter(|element| element.is_real()));
        let facts: Vec<Option<Fact>> = (0..cx.input_count())
            .map(|input| {
                let mut fact = aligned(cx.fact(input)?, rank);
                if let (Fact::Tensor(tensor), Some(real)) = (&mut fact, real) {
                    tensor.element = Some(real);
                }
                Some(fact)
            })
            .collect();
        let given: Vec<Option<&Fact>> = facts.iter().map(Option::as_ref).collect();
        self.inner.infer(&mut InferCx::new(&given, cx.outputs, cx.host)).map_err(|fault| {
            match (cx.shape(0), cx.shape(1)) {
                (Some(left), Some(right)) if fault.code == crate::diagnostics::Code::ShapeMismatch => {
                    Fault::shape(format!("shapes {left} and {right} do not broadcast"))
                }
                _ => fault,
            }
        })
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        self.inner.cost(cx)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        self.inner.work(cx)
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        self.inner.saved(cx)
    }
}

/// The product of two tensors along one axis of each, sample by sample.
#[derive(Debug)]
struct Dot {
    axes: [i64; 2],
    normalized: bool,
}

/// `Dot`.
pub(super) fn dot(node: &NodeView<'_>) -> Built {
    let axes = match list(node, "axes")?.as_slice() {
        [axis] => [*axis; 2],
        [left, right] => [*left, *right],
        other => return Err(Fault::attribute(format!("axes must be one number or two, got {other:?}"))),
    };
    Ok(Box::new(Dot { axes, normalized: node.flag("normalize", false)? }))
}

impl Dot {
    /// The dim that is summed over.
    fn inner(&self, left: &Shape, right: &Shape) -> Result<Dim, Fault> {
        let dim = |shape: &Shape, axis: i64| {
            let found = normalize_axis(axis, shape.rank()).filter(|axis| *axis > 0).and_then(|axis| shape.dim(axis));
            found
                .cloned()
                .ok_or_else(|| Fault::attribute(format!("axis {axis} is no axis of {shape} behind the batch")))
        };
        let (left_dim, right_dim) = (dim(left, self.axes[0])?, dim(right, self.axes[1])?);
        unify(&left_dim, &right_dim)
            .ok_or_else(|| Fault::shape(format!("the axes that are summed over differ: {left_dim} and {right_dim}")))
    }
}

impl Operator for Dot {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let (Some(left), Some(right)) = (cx.shape(0), cx.shape(1)) else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        self.inner(left, right)?;
        let without = |shape: &Shape, axis: i64, from: usize| -> Vec<Dim> {
            let gone = normalize_axis(axis, shape.rank());
            let dims = shape.dims().iter().enumerate().skip(from);
            dims.filter(|(axis, _)| Some(*axis) != gone).map(|(_, dim)| dim.clone()).collect()
        };
        let mut dims = without(left, self.axes[0], 0);
        dims.extend(without(right, self.axes[1], 1));
        if dims.len() == 1 {
            dims.push(Dim::ONE);
        }
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let inner = self.inner(cx.shape_in(0)?, cx.shape_in(1)?).ok()?;
        let macs = cx.elements_out(0)? * inner;
        // Square, sum, root and quotient of each input.
        let other = if self.normalized { (cx.elements_in(0)? + cx.elements_in(1)?) * 4 } else { Dim::ZERO };
        Cost::product(cx, macs, &other, [0, 1, usize::MAX])
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let (Some(left), Some(right)) = (cx.input(0), cx.input(1)) else {
            return vec![cx.elementwise()];
        };
        let axis = normalize_axis(self.axes[0], left.dims.len()).and_then(|axis| left.dim(axis));
        let (batch, k) = (left.dim(0).unwrap_or(1), axis.unwrap_or(1));
        let m = left.elements().checked_div(batch.saturating_mul(k)).unwrap_or(1);
        let n = right.elements().checked_div(batch.saturating_mul(k)).unwrap_or(1);
        vec![cx.all(Family::Product { batch, m, n, k }).of_operands(0, 1)]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        cx.other_operands(0, 1).when(cx.has_backward())
    }
}
