//! Sequences and optionals. A sequence is known by what holds for all its elements, and its length.

use super::merge::{Spread, join_facts, without_value};
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar, TensorFact};
use crate::ir::shape::{Shape, normalize_axis};

#[derive(Debug)]
enum Sequence {
    Empty(ElementType),
    Construct,
    Insert,
    Erase,
    At,
    Length,
    Concat { axis: i64, stack: bool },
    Split { axis: i64, keep: bool },
}

#[derive(Debug)]
enum Optional {
    Make,
    Get,
    Has,
}

pub(super) fn sequence(node: &NodeView<'_>) -> Built {
    Ok(Box::new(match node.op_type() {
        "SequenceEmpty" => {
            let code = node.int_or("dtype", 1)?;
            let element = i32::try_from(code).ok().and_then(ElementType::from_code);
            Sequence::Empty(element.ok_or_else(|| Fault::attribute(format!("dtype {code} is no element type")))?)
        }
        "SequenceInsert" => Sequence::Insert,
        "SequenceErase" => Sequence::Erase,
        "SequenceAt" => Sequence::At,
        "SequenceLength" => Sequence::Length,
        "ConcatFromSequence" => {
            let axis = node.int("axis")?.ok_or_else(|| node.missing("axis"))?;
            Sequence::Concat { axis, stack: node.flag("new_axis", false)? }
        }
        "SplitToSequence" => Sequence::Split { axis: node.int_or("axis", 0)?, keep: node.flag("keepdims", true)? },
        _ => Sequence::Construct,
    }))
}

pub(super) fn optional(node: &NodeView<'_>) -> Built {
    Ok(Box::new(match node.op_type() {
        "OptionalGetElement" => Optional::Get,
        "OptionalHasElement" => Optional::Has,
        _ => Optional::Make,
    }))
}

fn elements(cx: &InferCx<'_>) -> (Fact, Option<Dim>) {
    match cx.fact(0) {
        Some(Fact::Sequence { element, length }) => ((**element).clone(), length.clone()),
        _ => (Fact::Unknown, None),
    }
}

impl Operator for Sequence {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let (element, length) = elements(cx);
        let fact = match self {
            Self::Empty(element) => {
                Fact::Sequence { element: Box::new(Fact::tensor(*element, None)), length: Some(Dim::ZERO) }
            }
            Self::Construct => {
                let mut element = without_value(cx.fact(0).unwrap_or(&Fact::Unknown));
                for input in 1..cx.input_count() {
                    let other = without_value(cx.fact(input).unwrap_or(&Fact::Unknown));
                    element = join_facts(cx, 0, Spread::Either, &element, &other);
                }
                Fact::Sequence { element: Box::new(element), length: Some(Dim::from(cx.input_count())) }
            }
            Self::Insert => {
                let new = without_value(cx.fact(1).unwrap_or(&Fact::Unknown));
                let empty = length.as_ref().and_then(Dim::as_const) == Some(0);
                let element = if empty { new } else { join_facts(cx, 0, Spread::Open, &element, &new) };
                Fact::Sequence { element: Box::new(element), length: length.map(|length| length + 1) }
            }
            Self::Erase => Fact::Sequence { element: Box::new(element), length: length.map(|length| length - 1) },
            Self::At => element,
            Self::Length => {
                let value = length.map_or(Scalar::Unknown, Scalar::Integer);
                TensorFact::with_elements(Some(ElementType::Int64), Shape::scalar(), vec![value]).into()
            }
            Self::Concat { axis, stack } => concat(cx, &element, length, *axis, *stack)?,
            Self::Split { axis, keep } => split(cx, *axis, *keep)?,
        };
        Ok(vec![fact])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        match self {
            Self::Concat { .. } | Self::Split { .. } => Cost::moved(cx),
            _ => Some(Cost::FREE),
        }
    }

    fn role(&self, input: usize) -> Role {
        let setting = match self {
            Self::Insert => input == 2,
            Self::Erase | Self::At | Self::Split { .. } => input == 1,
            _ => false,
        };
        if setting { Role::Setting } else { Role::Data }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        if cx.is_free() { Vec::new() } else { vec![cx.moved()] }
    }
}

fn concat(cx: &mut InferCx<'_>, element: &Fact, length: Option<Dim>, axis: i64, stack: bool) -> Result<Fact, Fault> {
    let Some(tensor) = element.as_tensor() else { return Ok(Fact::Unknown) };
    let Some(shape) = &tensor.shape else { return Ok(Fact::tensor(tensor.element, None)) };
    let mut dims = shape.dims().to_vec();
    let rank = dims.len() + usize::from(stack);
    let at = normalize_axis(axis, rank)
        .ok_or_else(|| Fault::attribute(format!("axis {axis} is out of range for rank {rank}")))?;
    if stack {
        let length = length.unwrap_or_else(|| cx.fresh_dim(0, at, 0, None));
        dims.insert(at, length);
    } else if let Some(dim) = dims.get_mut(at) {
        // Elements whose sizes differ along the axis were joined to a symbol, which must not be multiplied.
        let uniform = dim.is_free();
        *dim = match length {
            Some(length) if uniform => &*dim * &length,
            _ => cx.fresh_dim(0, at, 0, None),
        };
    }
    Ok(Fact::tensor(tensor.element, Shape::new(dims)))
}

fn split(cx: &mut InferCx<'_>, axis: i64, keep: bool) -> Result<Fact, Fault> {
    let element_type = cx.element(0);
    let Some(shape) = cx.shape(0) else {
        return Ok(Fact::Sequence { element: Box::new(Fact::tensor(element_type, None)), length: None });
    };
    let at = shape.axis(axis).ok_or_else(|| Fault::attribute(format!("axis {axis} is out of range for {shape}")))?;
    let mut dims = shape.dims().to_vec();
    let whole = dims.get(at).cloned().unwrap_or(Dim::ONE);
    let length = if cx.has(1) {
        let sizes = cx.integers(1);
        let scalar = cx.shape(1).is_some_and(|shape| shape.rank() == 0);
        let (piece, length) = match sizes.as_deref() {
            Some([size]) if scalar && size.as_const().is_some_and(|size| size > 0) => {
                let even = whole.modulo(size).as_const() == Some(0);
                let piece = if even { size.clone() } else { cx.fresh_dim(0, at, 1, Some(size.clone())) };
                (piece, Some(whole.ceil_div(size)))
            }
            Some(sizes @ [first, rest @ ..]) if !scalar => {
                let largest = rest.iter().fold(first.clone(), |largest, size| largest.max(size));
                let even = rest.iter().all(|size| size == first);
                (if even { first.clone() } else { cx.fresh_dim(0, at, 0, Some(largest)) }, Some(Dim::from(sizes.len())))
            }
            _ => {
                let count = cx.shape(1).filter(|shape| shape.rank() == 1).and_then(|shape| shape.dim(0)).cloned();
                (cx.fresh_dim(0, at, 0, Some(whole)), count)
            }
        };
        if let Some(dim) = dims.get_mut(at) {
            *dim = piece;
        }
        length
    } else {
        if keep {
            if let Some(dim) = dims.get_mut(at) {
                *dim = Dim::ONE;
            }
        } else {
            dims.remove(at);
        }
        Some(whole)
    };
    Ok(Fact::Sequence { element: Box::new(Fact::tensor(element_type, Shape::new(dims))), length })
}

impl Operator for Optional {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        Ok(vec![match self {
            Self::Make => Fact::Optional(Box::new(cx.fact(0).map_or(Fact::Unknown, without_value))),
            Self::Get => match cx.fact(0) {
                Some(Fact::Optional(inner)) => (**inner).clone(),
                other => other.cloned().unwrap_or_default(),
            },
            Self::Has => {
                let known = match cx.fact(0) {
                    None => Scalar::Integer(Dim::ZERO),
                    Some(Fact::Tensor(_) | Fact::Sequence { .. }) => Scalar::Integer(Dim::ONE),
                    _ => Scalar::Unknown,
                };
                TensorFact::with_elements(Some(ElementType::Bool), Shape::scalar(), vec![known]).into()
            }
        }])
    }

    fn cost(&self, _: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }

    fn is_view(&self) -> bool {
        !matches!(self, Self::Has)
    }
}
