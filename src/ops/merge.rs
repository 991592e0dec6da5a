//! What holds for a value that may be one of two: the outputs of `If`, the state of a loop, elements of a sequence.

use super::InferCx;
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, TensorFact};
use crate::ir::shape::Shape;

/// The fact without known elements.
pub(super) fn without_value(fact: &Fact) -> Fact {
    match fact {
        Fact::Tensor(tensor) => Fact::Tensor(tensor.without_value()),
        other => other.clone(),
    }
}

/// What a dim may become that differs between two facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// One of the two: never more than the larger.
    Either,
    /// Anything: the two are rounds of a loop, and more may follow.
    Open,
}

/// What holds for both. A dim that differs becomes a symbol of the given output.
pub(super) fn join_facts(cx: &mut InferCx<'_>, output: usize, spread: Spread, a: &Fact, b: &Fact) -> Fact {
    match (a, b) {
        (Fact::Tensor(a), Fact::Tensor(b)) => Fact::Tensor(join_tensors(cx, output, spread, a, b)),
        (
            Fact::Sequence { element: left, length: left_length },
            Fact::Sequence { element: right, length: right_length },
        ) => {
            // An empty sequence says nothing of its elements.
            let is_empty = |length: &Option<Dim>| length.as_ref().and_then(Dim::as_const) == Some(0);
            let element = if is_empty(left_length) {
                (**right).clone()
            } else if is_empty(right_length) {
                (**left).clone()
            } else {
                join_facts(cx, output, spread, left, right)
            };
            let length = if left_length == right_length { left_length.clone() } else { None };
            Fact::Sequence { element: Box::new(element), length }
        }
        (Fact::Optional(a), Fact::Optional(b)) => Fact::Optional(Box::new(join_facts(cx, output, spread, a, b))),
        (Fact::Optional(inner), other) | (other, Fact::Optional(inner)) => {
            Fact::Optional(Box::new(join_facts(cx, output, spread, inner, other)))
        }
        (a, b) if a == b => a.clone(),
        _ => Fact::Unknown,
    }
}

fn join_tensors(cx: &mut InferCx<'_>, output: usize, spread: Spread, a: &TensorFact, b: &TensorFact) -> TensorFact {
    let element = if a.element == b.element { a.element } else { None };
    let shape = match (&a.shape, &b.shape) {
        (Some(left), Some(right)) if left.rank() == right.rank() => {
            let dims = left.dims().iter().zip(right.dims()).enumerate();
            Some(
                dims.map(|(axis, (left, right))| join_dims(cx, [output, axis], spread, left, right)).collect::<Shape>(),
            )
        }
        _ => None,
    };
    let value = if a.value == b.value && a.shape == b.shape { a.value.clone() } else { None };
    TensorFact { element, shape, value }
}

fn join_dims(cx: &mut InferCx<'_>, [output, axis]: [usize; 2], spread: Spread, left: &Dim, right: &Dim) -> Dim {
    if left == right {
        return left.clone();
    }
    let lo = left.range().0.zip(right.range().0).map_or(0, |(left, right)| left.min(right).max(0));
    let hi = match spread {
        Spread::Either => left.upper_bound().zip(right.upper_bound()).map(|(left, right)| left.max(&right)),
        // What was widened before becomes the same symbol again, so that loops settle.
        Spread::Open => None,
    };
    cx.fresh_dim(output, axis, lo, hi)
}
