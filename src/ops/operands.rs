//! What the operands of one node must agree on: dims, ranks, element types. It holds no rule of any operator.

use super::broadcast::unify;
use super::{Fault, InferCx};
use crate::diagnostics::Code;
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::shape::Shape;

/// [`unify`] where `what` names the dim: "the inner dim of a and b".
pub(super) fn agreed(what: &str, left: &Dim, right: &Dim) -> Result<Dim, Fault> {
    unify(left, right).ok_or_else(|| Fault::shape(format!("{what}: {left} and {right} differ")))
}

/// Checks one dim of an input, where its rank is known.
pub(super) fn expect_dim(cx: &InferCx<'_>, input: usize, axis: usize, what: &str, wanted: &Dim) -> Result<(), Fault> {
    match cx.shape(input).and_then(|shape| shape.dim(axis)) {
        Some(found) if found.is_eq(wanted) == Some(false) => {
            Err(Fault::shape(format!("{what} has {found} in dim {axis}, {wanted} is needed")))
        }
        _ => Ok(()),
    }
}

/// Checks the rank of an input, where it is known.
pub(super) fn expect_rank(cx: &InferCx<'_>, input: usize, what: &str, rank: usize) -> Result<(), Fault> {
    match cx.shape(input) {
        Some(shape) if shape.rank() != rank => {
            Err(Fault::shape(format!("{what} has rank {} ({shape}), rank {rank} is needed", shape.rank())))
        }
        _ => Ok(()),
    }
}

/// The element type that these inputs share, as far as it is known.
pub(super) fn common_element(cx: &InferCx<'_>, inputs: &[usize]) -> Result<Option<ElementType>, Fault> {
    let mut common: Option<(usize, ElementType)> = None;
    for &input in inputs {
        let Some(element) = cx.element(input) else { continue };
        match common {
            Some((first, other)) if other != element => {
                return Err(Fault::new(
                    Code::TypeMismatch,
                    format!("inputs {first} and {input} must have one element type, they are {other} and {element}"),
                ));
            }
            Some(_) => {}
            None => common = Some((input, element)),
        }
    }
    Ok(common.map(|(_, element)| element))
}

/// Whether `from` can be stretched to `to` without changing `to`; `false` only when it is proven that it cannot.
pub(super) fn may_stretch_to(from: &Shape, to: &[Dim]) -> bool {
    from.rank() <= to.len()
        && from
            .dims()
            .iter()
            .rev()
            .zip(to.iter().rev())
            .all(|(from, to)| from.as_const() == Some(1) || from.as_const().is_none() || from.is_eq(to) != Some(false))
}

/// Checks that every number of a list attribute is at least `least`.
pub(super) fn at_least(name: &str, values: &[i64], least: i64) -> Result<(), Fault> {
    match values.iter().find(|&&value| value < least) {
        Some(value) => Err(Fault::attribute(format!("attribute {name} holds {value}; at least {least} is allowed"))),
        None => Ok(()),
    }
}

/// Checks an attribute that is a count: 1 or more.
pub(super) fn count(name: &str, value: i64) -> Result<i64, Fault> {
    if value < 1 {
        return Err(Fault::attribute(format!("attribute {name} is {value}; at least 1 is allowed")));
    }
    Ok(value)
}

/// The element type of a `TensorProto.DataType` number in an attribute; 0 stands for "not given".
pub(super) fn element_attribute(name: &str, code: i64) -> Result<Option<ElementType>, Fault> {
    if code == 0 {
        return Ok(None);
    }
    match i32::try_from(code).ok().and_then(ElementType::from_code) {
        Some(element) => Ok(Some(element)),
        None => Err(Fault::attribute(format!("attribute {name} is {code}, which is no element type"))),
    }
}
