//! What holds for a value that may be one of two: the outputs of `If`, the state of a loop, elements of a sequence.

use super::InferCx;
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, SequenceFact, TensorFact};
use crate::ir::shape::Shape;

/// The fact without known elements.
pub(super) fn without_value(fact: &Fact) -> Fact {
    match fact {
        Fact::Tensor(tensor) => Fact::Tensor(tensor.without_value()),
        Fact::Sequence(SequenceFact::Each(elements)) => {
            Fact::Sequence(SequenceFact::Each(elements.iter().map(without_value).collect()))
        }
        Fact::Optional(inner) => Fact::Optional(Box::new(without_value(inner))),
        other => other.clone(),
    }
}

/// What holds for every element of a sequence. A dim that differs becomes a symbol of the given output.
pub(super) fn join_elements(cx: &mut InferCx<'_>, output: usize, sequence: &SequenceFact) -> Fact {
    match sequence.facts() {
        [] => Fact::Unknown,
        [first, rest @ ..] => rest.iter().fold(without_value(first), |joined, element| {
            join_facts(cx, output, Spread::Either, &joined, &without_value(element))
        }),
    }
}

/// An element of a sequence as a tensor of its own: dims in which elements may differ are symbols of the given output.
pub(super) fn any_element(cx: &mut InferCx<'_>, output: usize, sequence: &SequenceFact) -> Fact {
    let joined = join_elements(cx, output, sequence);
    let Fact::Tensor(TensorFact { element, shape: Some(shape), .. }) = joined else { return joined };
    let dims = shape.dims().iter().enumerate().map(|(axis, dim)| {
        if dim.is_free() {
            return dim.clone();
        }
        cx.fresh_dim(output, axis, dim.range().0.unwrap_or(0), dim.upper_bound())
    });
    Fact::tensor(element, dims.collect::<Shape>())
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
        (a, b) if a == b => a.clone(),
        (Fact::Sequence(a), Fact::Sequence(b)) => {
            let (left, right) = (a.length(), b.length());
            // An empty sequence says nothing of its elements.
            let is_empty = |length: &Option<Dim>| length.as_ref().and_then(Dim::as_const) == Some(0);
            let element = if is_empty(&left) {
                join_elements(cx, output, b)
            } else if is_empty(&right) {
                join_elements(cx, output, a)
            } else {
                let (a, b) = (join_elements(cx, output, a), join_elements(cx, output, b));
                join_facts(cx, output, spread, &a, &b)
            };
            Fact::sequence(element, if left == right { left } else { None })
        }
        (Fact::Optional(a), Fact::Optional(b)) => Fact::Optional(Box::new(join_facts(cx, output, spread, a, b))),
        (Fact::Optional(inner), other) | (other, Fact::Optional(inner)) => {
            Fact::Optional(Box::new(join_facts(cx, output, spread, inner, other)))
        }
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
