//! Lists of axes that a node gives as an attribute or, in later versions, as an input.

use super::{Fault, InferCx, NodeView};
use crate::ir::dim::Dim;
use crate::ir::shape::{Shape, normalize_axis};

/// Axes while the operator is built.
#[derive(Clone, Debug)]
pub(super) enum Axes {
    /// Not given at all.
    Default,
    /// An attribute.
    Attribute(Vec<i64>),
    /// The input of this index.
    Input(usize),
}

/// Axes when the node is inferred.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// Not given, or given and empty.
    Default,
    /// These indices, each once, in the order given.
    Known(Vec<usize>),
    /// An input whose elements are not known; the number of axes where that is.
    Unknown(Option<usize>),
}

impl Axes {
    /// Axes of a node: the input of this index, else the attribute `axes`.
    pub(super) fn of(node: &NodeView<'_>, input: usize) -> Result<Self, Fault> {
        if node.has_input(input) {
            return Ok(Self::Input(input));
        }
        Ok(node.ints("axes")?.map_or(Self::Default, Self::Attribute))
    }

    /// The axes for a tensor of this rank.
    pub(super) fn find(&self, cx: &InferCx<'_>, rank: usize) -> Result<Found, Fault> {
        match self {
            Self::Default => Ok(Found::Default),
            Self::Attribute(axes) => known(axes, rank),
            Self::Input(input) => match cx.const_integers(*input) {
                Some(axes) => known(&axes, rank),
                None if cx.is_empty(*input) => Ok(Found::Default),
                None => Ok(Found::Unknown(length(cx, *input))),
            },
        }
    }

    /// How many axes are named, where that is known without a rank.
    pub(super) fn count(&self, cx: &InferCx<'_>) -> Option<usize> {
        match self {
            Self::Default => Some(0),
            Self::Attribute(axes) => Some(axes.len()),
            Self::Input(input) => length(cx, *input),
        }
    }
}

/// The shape of this rank that is left of another without some of its axes, not known which.
pub(super) fn without_some(cx: &mut InferCx<'_>, shape: &Shape, rank: usize) -> Shape {
    let gone = shape.rank().saturating_sub(rank);
    let largest = |axis| {
        let candidates = shape.dims().iter().skip(axis).take(gone + 1);
        candidates.fold(Dim::ONE, |largest, dim| largest.max(dim))
    };
    (0..rank).map(|axis| cx.fresh_dim(0, axis, 0, Some(largest(axis)))).collect()
}

/// More axes than any tensor has; a longer list is taken as one of unknown length.
pub(super) const MANY_AXES: usize = 64;

/// Number of elements of an input that holds axes.
fn length(cx: &InferCx<'_>, input: usize) -> Option<usize> {
    cx.shape(input)?.elements().as_usize().filter(|&count| count <= MANY_AXES)
}

fn known(axes: &[i64], rank: usize) -> Result<Found, Fault> {
    if axes.is_empty() {
        return Ok(Found::Default);
    }
    indices(axes, rank).map(Found::Known)
}

/// Indices of axes that may count from the end; each may be named once.
pub(super) fn indices(axes: &[i64], rank: usize) -> Result<Vec<usize>, Fault> {
    let mut seen = vec![false; rank];
    axes.iter()
        .map(|&axis| {
            let index = index("axes", axis, rank)?;
            match seen.get_mut(index) {
                Some(true) => Err(Fault::attribute(format!("axes name axis {index} twice"))),
                Some(place) => {
                    *place = true;
                    Ok(index)
                }
                None => Err(out_of_range("axes", axis, rank)),
            }
        })
        .collect()
}

/// The indices of an optional attribute `axes`; all axes where it is left out.
pub(super) fn indices_or_all(axes: Option<&[i64]>, rank: usize) -> Result<Vec<usize>, Fault> {
    match axes {
        Some(axes) => indices(axes, rank),
        None => Ok((0..rank).collect()),
    }
}

/// Which axes of a rank are among these.
pub(super) fn mask(axes: &[usize], rank: usize) -> Vec<bool> {
    let mut mask = vec![false; rank];
    for &axis in axes {
        if let Some(place) = mask.get_mut(axis) {
            *place = true;
        }
    }
    mask
}

/// The index of one axis that may count from the end.
pub(super) fn index(name: &str, axis: i64, rank: usize) -> Result<usize, Fault> {
    normalize_axis(axis, rank).ok_or_else(|| out_of_range(name, axis, rank))
}

fn out_of_range(name: &str, axis: i64, rank: usize) -> Fault {
    if rank == 0 {
        return Fault::attribute(format!("{name} is {axis}, but the tensor is a scalar and has no axis"));
    }
    Fault::attribute(format!("{name} is {axis}, allowed is -{rank} to {} for rank {rank}", rank - 1))
}
