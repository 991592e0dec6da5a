//! Sequences and optionals. A sequence is known by its elements, or by what holds for all of them and its length.

use super::merge::{Spread, any_element, join_elements, join_facts, without_value};
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, SEQUENCE_LIMIT, Scalar, SequenceFact, TensorFact};
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

fn given(cx: &InferCx<'_>) -> SequenceFact {
    match cx.fact(0) {
        Some(Fact::Sequence(sequence)) => sequence.clone(),
        _ => SequenceFact::Alike { element: Box::default(), length: None },
    }
}

/// The place that an input gives, counted from the front; `None` where it or the number of elements is not known.
///
/// # Errors
/// When no element is there.
fn position(cx: &InferCx<'_>, input: usize, count: usize, last: usize) -> Result<Option<usize>, Fault> {
    let Some([at]) = cx.const_integers(input).as_deref().and_then(<[i64]>::first_chunk).copied() else {
        return Ok(None);
    };
    let from_front = if at < 0 { i64::try_from(count).ok().and_then(|count| count.checked_add(at)) } else { Some(at) };
    let found = from_front.and_then(|at| usize::try_from(at).ok()).filter(|&at| at <= last);
    found.map(Some).ok_or_else(|| Fault::shape(format!("position {at} is out of range for a sequence of {count}")))
}

fn inserted(cx: &mut InferCx<'_>) -> Result<SequenceFact, Fault> {
    let new = cx.fact(1).cloned().unwrap_or_default();
    let sequence = given(cx);
    let length = sequence.length();
    let known = match &sequence {
        SequenceFact::Each(elements) => Some(elements.clone()),
        SequenceFact::Alike { .. } if length == Some(Dim::ZERO) => Some(Vec::new()),
        SequenceFact::Alike { .. } => None,
    };
    if let Some(mut elements) = known.filter(|elements| elements.len() < SEQUENCE_LIMIT) {
        let count = elements.len();
        let at = if cx.has(2) { position(cx, 2, count, count)? } else { Some(count) };
        if let Some(at) = at {
            elements.insert(at, new);
            return Ok(SequenceFact::Each(elements));
        }
    }
    let joined = if length == Some(Dim::ZERO) { without_value(&new) } else { join_elements(cx, 0, &sequence) };
    let element = join_facts(cx, 0, Spread::Open, &joined, &without_value(&new));
    Ok(SequenceFact::Alike { element: Box::new(element), length: length.map(|length| length + 1) })
}

fn erased(cx: &mut InferCx<'_>) -> Result<SequenceFact, Fault> {
    let sequence = given(cx);
    if let SequenceFact::Each(elements) = &sequence {
        let last = elements.len().checked_sub(1).ok_or_else(|| Fault::shape("the sequence is empty"))?;
        let at = if cx.has(1) { position(cx, 1, elements.len(), last)? } else { Some(last) };
        if let Some(at) = at {
            let mut elements = elements.clone();
            elements.remove(at);
            return Ok(SequenceFact::Each(elements));
        }
    }
    let element = Box::new(join_elements(cx, 0, &sequence));
    Ok(SequenceFact::Alike { element, length: sequence.length().map(|length| length - 1) })
}

fn picked(cx: &mut InferCx<'_>) -> Result<Fact, Fault> {
    let sequence = given(cx);
    if let SequenceFact::Each(elements) = &sequence {
        let last = elements.len().checked_sub(1).ok_or_else(|| Fault::shape("the sequence is empty"))?;
        if let Some(at) = position(cx, 1, elements.len(), last)? {
            return Ok(elements.get(at).cloned().unwrap_or_default());
        }
    }
    Ok(any_element(cx, 0, &sequence))
}

impl Operator for Sequence {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let fact = match self {
            Self::Empty(element) => Fact::sequence(Fact::tensor(*element, None), Some(Dim::ZERO)),
            Self::Construct => {
                let count = cx.input_count();
                let elements = (0..count).map(|input| cx.fact(input).cloned().unwrap_or_default()).collect();
                let each = SequenceFact::Each(elements);
                if count <= SEQUENCE_LIMIT {
                    Fact::Sequence(each)
                } else {
                    Fact::sequence(join_elements(cx, 0, &each), Some(Dim::from(count)))
                }
            }
            Self::Insert => Fact::Sequence(inserted(cx)?),
            Self::Erase => Fact::Sequence(erased(cx)?),
            Self::At => picked(cx)?,
            Self::Length => {
                let value = given(cx).length().map_or(Scalar::Unknown, Scalar::Integer);
                TensorFact::with_elements(Some(ElementType::Int64), Shape::scalar(), vec![value]).into()
            }
            Self::Concat { axis, stack } => concat(cx, *axis, *stack)?,
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

fn concat(cx: &mut InferCx<'_>, axis: i64, stack: bool) -> Result<Fact, Fault> {
    let sequence = given(cx);
    let element = join_elements(cx, 0, &sequence);
    let Some(tensor) = element.as_tensor() else { return Ok(Fact::Unknown) };
    let Some(shape) = &tensor.shape else { return Ok(Fact::tensor(tensor.element, None)) };
    let mut dims = shape.dims().to_vec();
    let rank = dims.len() + usize::from(stack);
    let at = normalize_axis(axis, rank)
        .ok_or_else(|| Fault::attribute(format!("axis {axis} is out of range for rank {rank}")))?;
    let length = sequence.length();
    if stack {
        let length = length.unwrap_or_else(|| cx.fresh_dim(0, at, 0, None));
        dims.insert(at, length);
    } else if let Some(dim) = dims.get_mut(at) {
        let along = |fact: &Fact| fact.as_tensor()?.shape.as_ref()?.dim(at).cloned();
        let sum = match &sequence {
            SequenceFact::Each(elements) => elements.iter().map(along).sum::<Option<Dim>>(),
            // Elements whose sizes differ along the axis were joined to a symbol, which must not be multiplied.
            SequenceFact::Alike { .. } => length.filter(|_| dim.is_free()).map(|length| &*dim * &length),
        };
        *dim = sum.unwrap_or_else(|| cx.fresh_dim(0, at, 0, None));
    }
    Ok(Fact::tensor(tensor.element, Shape::new(dims)))
}

fn split(cx: &mut InferCx<'_>, axis: i64, keep: bool) -> Result<Fact, Fault> {
    let element_type = cx.element(0);
    let Some(shape) = cx.shape(0) else { return Ok(Fact::sequence(Fact::tensor(element_type, None), None)) };
    let at = shape.axis(axis).ok_or_else(|| Fault::attribute(format!("axis {axis} is out of range for {shape}")))?;
    let mut dims = shape.dims().to_vec();
    let whole = dims.get(at).cloned().unwrap_or(Dim::ONE);
    if !cx.has(1) {
        if keep {
            if let Some(dim) = dims.get_mut(at) {
                *dim = Dim::ONE;
            }
        } else {
            dims.remove(at);
        }
        return Ok(Fact::sequence(Fact::tensor(element_type, Shape::new(dims)), Some(whole)));
    }
    let (pieces, piece, length) = pieces(cx, at, &whole);
    let mut of = |piece: Dim| {
        if let Some(dim) = dims.get_mut(at) {
            *dim = piece;
        }
        Fact::tensor(element_type, Shape::new(dims.clone()))
    };
    Ok(match pieces {
        Some(pieces) => Fact::Sequence(SequenceFact::Each(pieces.into_iter().map(of).collect())),
        None => Fact::sequence(of(piece), length),
    })
}

/// Sizes of the pieces that a split of `whole` gives where each is known; else what holds for all, and their number.
fn pieces(cx: &mut InferCx<'_>, at: usize, whole: &Dim) -> (Option<Vec<Dim>>, Dim, Option<Dim>) {
    let sizes = cx.integers(1);
    let scalar = cx.shape(1).is_some_and(|shape| shape.rank() == 0);
    match sizes.as_deref() {
        Some([size]) if scalar && size.as_const().is_some_and(|size| size > 0) => {
            let count = whole.ceil_div(size);
            if whole.modulo(size) == Dim::ZERO {
                return (None, size.clone(), Some(count));
            }
            let known = count.as_usize().filter(|count| (1..=SEQUENCE_LIMIT).contains(count)).map(|count| {
                let mut sizes = vec![size.clone(); count];
                if let Some(last) = sizes.last_mut() {
                    *last = whole - size * &Dim::from(count - 1);
                }
                sizes
            });
            (known, cx.fresh_dim(0, at, 1, Some(size.clone())), Some(count))
        }
        Some(sizes @ [first, rest @ ..]) if !scalar => {
            let known = (sizes.len() <= SEQUENCE_LIMIT).then(|| sizes.to_vec());
            let largest = rest.iter().fold(first.clone(), |largest, size| largest.max(size));
            (known, cx.fresh_dim(0, at, 0, Some(largest)), Some(Dim::from(sizes.len())))
        }
        _ => {
            let count = cx.shape(1).filter(|shape| shape.rank() == 1).and_then(|shape| shape.dim(0)).cloned();
            (None, cx.fresh_dim(0, at, 0, Some(whole.clone())), count)
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{dims, float, free, ints, op, typed};

    fn list(elements: &[Fact]) -> Fact {
        op("SequenceConstruct").run(elements).unwrap().remove(0)
    }

    fn number(value: i128) -> Fact {
        let scalar = Scalar::Integer(Dim::constant(value));
        TensorFact::with_elements(Some(ElementType::Int64), Shape::scalar(), vec![scalar]).into()
    }

    #[test]
    fn elements_keep_their_own_shapes() {
        let sequence = list(&[float(&[2]), float(&[3])]);
        assert_eq!(op("SequenceAt").run(&[sequence.clone(), number(-1)]).unwrap(), [float(&[3])]);
        let longer = op("SequenceInsert").run(&[sequence, float(&[4]), number(0)]).unwrap();
        assert_eq!(longer, [list(&[float(&[4]), float(&[2]), float(&[3])])]);
        assert_eq!(op("ConcatFromSequence").int("axis", 0).dims(&longer), "9");
        let shorter = op("SequenceErase").run(&[longer[0].clone(), number(1)]).unwrap();
        assert_eq!(shorter, [list(&[float(&[4]), float(&[3])])]);
    }

    #[test]
    fn an_element_that_is_not_there_is_a_fault() {
        let sequence = || list(&[float(&[2]), float(&[3])]);
        assert!(op("SequenceAt").dims(&[sequence(), number(2)]).contains("position 2 is out of range"));
        assert!(op("SequenceErase").run(&[sequence(), number(-3)]).is_err());
        assert!(op("SequenceInsert").run(&[sequence(), float(&[2]), number(2)]).is_ok());
    }

    #[test]
    fn an_element_at_an_unknown_place_lies_between_all() {
        let sequence = list(&[float(&[2, 5]), float(&[3, 5])]);
        let facts = op("SequenceAt").run(&[sequence, typed(ElementType::Int64, &[])]).unwrap();
        assert_eq!(dims(&facts[0]), "y0.0×5");
        let dim = facts[0].as_tensor().unwrap().shape.as_ref().unwrap().dim(0).unwrap().clone();
        assert_eq!(dim.range(), (Some(2), Some(3)));
    }

    #[test]
    fn the_last_piece_of_a_split_is_what_is_left() {
        let pieces = op("SplitToSequence").run(&[float(&[7, 2]), number(3)]).unwrap();
        assert_eq!(pieces, [list(&[float(&[3, 2]), float(&[3, 2]), float(&[1, 2])])]);
        let pieces = op("SplitToSequence").run(&[float(&[7, 2]), ints(&[2, 5])]).unwrap();
        assert_eq!(pieces, [list(&[float(&[2, 2]), float(&[5, 2])])]);
        let even = op("SplitToSequence")
            .int("keepdims", 0)
            .run(&[Fact::tensor(ElementType::Float, Shape::new(vec![free("N"), Dim::constant(2)]))]);
        assert_eq!(even.unwrap(), [Fact::sequence(float(&[2]), Some(free("N")))]);
    }
}
