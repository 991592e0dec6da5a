//! Layers and operations that give the same elements other dims.

use super::list;
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, normalize_axis, product};
use crate::ops::table::Built;
use crate::ops::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Work, WorkCx};

/// Views that only rename the dims.
#[derive(Clone, Debug)]
enum View {
    /// Everything behind the batch becomes one dim.
    Flatten,
    /// The batch and the steps become one dim.
    FoldTime,
    /// The first dim is taken apart as the second input has it.
    UnfoldTime,
    /// The target behind the batch, where one dim may be -1; or, with the batch, all of it.
    Reshape { target: Vec<i64>, with_batch: bool },
}

/// `Flatten`.
pub(super) fn flatten(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(View::Flatten))
}

/// What `TimeDistributed` does before the layer in it.
pub(super) fn fold_time(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(View::FoldTime))
}

/// What `TimeDistributed` does behind the layer in it.
pub(super) fn unfold_time(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(View::UnfoldTime))
}

/// `Reshape`.
pub(super) fn reshape(node: &NodeView<'_>) -> Built {
    Ok(Box::new(View::Reshape { target: list(node, "target_shape")?, with_batch: node.flag("with_batch", false)? }))
}

impl Operator for View {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(shape) = cx.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
        let dims = match self {
            Self::Flatten => match shape.dims() {
                [] => vec![Dim::ONE],
                // A batch of numbers gets an axis of its own.
                [batch] => vec![batch.clone(), Dim::ONE],
                [batch, rest @ ..] => vec![batch.clone(), product(rest)],
            },
            Self::FoldTime => match shape.dims() {
                [batch, steps, rest @ ..] => std::iter::once(batch * steps).chain(rest.iter().cloned()).collect(),
                _ => return Err(Fault::shape(format!("an input with steps is needed, got {shape}"))),
            },
            Self::UnfoldTime => match (shape.dims(), cx.shape(1).map(Shape::dims)) {
                ([_, rest @ ..], Some([batch, steps, ..])) => [batch, steps].into_iter().chain(rest).cloned().collect(),
                _ => return Ok(vec![Fact::tensor(element, None)]),
            },
            Self::Reshape { target, with_batch } => reshaped(shape, target, *with_batch)?,
        };
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, _cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }

    fn is_view(&self) -> bool {
        true
    }
}

fn reshaped(shape: &Shape, target: &[i64], with_batch: bool) -> Result<Vec<Dim>, Fault> {
    let (kept, rest) =
        if with_batch { (&[][..], shape.dims()) } else { shape.dims().split_at_checked(1).unwrap_or_default() };
    let misfit = || {
        let text: Vec<_> = target.iter().map(i64::to_string).collect();
        Fault::shape(format!("{} elements do not reshape to ({})", product(rest), text.join(", ")))
    };
    // With the batch, 0 stands for a number that only a run knows: the dim of the input.
    let copied = |axis: usize, dim: i64| match shape.dim(axis) {
        Some(found) if with_batch && dim == 0 => found.clone(),
        _ => Dim::from(dim),
    };
    let given: Vec<Dim> =
        target.iter().enumerate().filter(|(_, dim)| **dim != -1).map(|(axis, &dim)| copied(axis, dim)).collect();
    let (all, known) = (product(rest), product(&given));
    let free = match target.iter().filter(|&&dim| dim == -1).count() {
        0 if all.is_eq(&known) == Some(false) => return Err(misfit()),
        0 => Dim::ONE,
        1 if known == Dim::ZERO || all.modulo(&known).is_eq(&Dim::ZERO) == Some(false) => return Err(misfit()),
        1 => all.exact_div(&known).unwrap_or_else(|| all.floor_div(&known)),
        _ => return Err(Fault::attribute("only one dimension of a target may be -1")),
    };
    let dims = target.iter().enumerate().map(|(axis, &dim)| if dim == -1 { free.clone() } else { copied(axis, dim) });
    Ok(kept.iter().cloned().chain(dims).collect())
}

/// Movement of elements.
#[derive(Clone, Debug)]
enum Moved {
    /// Axes behind the batch in another order, counted from 1; with the batch, all axes from 0.
    Permute { order: Vec<i64>, with_batch: bool },
    /// Indices and slices, one number or a triple for each axis; see [`Pick`].
    Item { picks: Vec<Pick>, view: bool },
}

/// What is taken along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pick {
    /// One element.
    Index(i64),
    /// From, to, step.
    Slice(Option<i64>, Option<i64>, i64),
    /// A part that only a run knows.
    Unknown,
    /// A new axis.
    New,
    /// All axes that nothing else names.
    Rest,
}

/// `Permute`, `transpose`.
pub(super) fn permute(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Moved::Permute { order: list(node, "dims")?, with_batch: node.flag("with_batch", false)? }))
}

/// Indexing: `x[:, -1]`. Each attribute in `picks` is four numbers: kind, and what the kind needs.
pub(super) fn item(node: &NodeView<'_>) -> Built {
    let numbers = list(node, "picks")?;
    let bound = |number: i64| (number != i64::MIN).then_some(number);
    let mut picks = Vec::new();
    for pick in numbers.chunks(4) {
        picks.push(match *pick {
            [0, index, ..] => Pick::Index(index),
            [1, start, stop, step] if step != 0 => Pick::Slice(bound(start), bound(stop), step),
            [2, ..] => Pick::New,
            [3, ..] => Pick::Rest,
            _ => Pick::Unknown,
        });
    }
    Ok(Box::new(Moved::Item { picks, view: node.flag("view", false)? }))
}

impl Operator for Moved {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(shape) = cx.shape(0).cloned() else { return Ok(vec![Fact::tensor(element, None)]) };
        let dims = match self {
            Self::Permute { order, with_batch } => permuted(&shape, order, *with_batch)?,
            Self::Item { picks, .. } => picked(cx, &shape, picks)?,
        };
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        match self {
            Self::Permute { .. } => Cost::moved(cx),
            Self::Item { view: true, .. } => Some(Cost::FREE),
            Self::Item { .. } => {
                let output = crate::ops::cost::tensor_bytes(cx.output(0)?)?;
                Some(Cost { bytes_read: output.clone(), bytes_written: output, ..Cost::FREE })
            }
        }
    }

    fn is_view(&self) -> bool {
        matches!(self, Self::Item { view: true, .. })
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        if self.is_view() { Vec::new() } else { vec![cx.moved()] }
    }
}

fn permuted(shape: &Shape, order: &[i64], with_batch: bool) -> Result<Vec<Dim>, Fault> {
    let order: Vec<i64> = if order.is_empty() {
        (0..i64::try_from(shape.rank()).unwrap_or(0)).rev().collect()
    } else if with_batch {
        order.to_vec()
    } else {
        std::iter::once(0).chain(order.iter().copied()).collect()
    };
    let places: Option<Vec<usize>> = order.iter().map(|&axis| normalize_axis(axis, shape.rank())).collect();
    let places = places.filter(|places| {
        let mut sorted = places.clone();
        sorted.sort_unstable();
        sorted.into_iter().eq(0..shape.rank())
    });
    let Some(places) = places else {
        let rank = shape.rank();
        return Err(Fault::attribute(format!("{order:?} is no order of the axes of an input of rank {rank}")));
    };
    Ok(places.into_iter().filter_map(|place| shape.dim(place).cloned()).collect())
}

fn picked(cx: &mut InferCx<'_>, shape: &Shape, picks: &[Pick]) -> Result<Vec<Dim>, Fault> {
    let named = picks.iter().filter(|pick| !matches!(pick, Pick::New | Pick::Rest)).count();
    let Some(rest) = shape.rank().checked_sub(named) else {
        return Err(Fault::shape(format!("{named} indices for an input of rank {}", shape.rank())));
    };
    let mut dims = Vec::new();
    let mut axis = 0;
    for pick in picks {
        let dim = shape.dim(axis).cloned().unwrap_or(Dim::ONE);
        match *pick {
            Pick::New => dims.push(Dim::ONE),
            Pick::Rest => {
                dims.extend(shape.dims().iter().skip(axis).take(rest).cloned());
                axis += rest;
                continue;
            }
            Pick::Index(index) => {
                let extent = dim.as_i64();
                if extent.is_some_and(|extent| index >= extent || index < -extent) {
                    return Err(Fault::shape(format!("index {index} is out of range for dimension {axis} of {shape}")));
                }
            }
            Pick::Unknown => dims.push(cx.fresh_dim(0, dims.len(), 0, Some(dim))),
            Pick::Slice(start, stop, step) => dims.push(sliced(&dim, start, stop, step)),
        }
        if !matches!(pick, Pick::New) {
            axis += 1;
        }
    }
    dims.extend(shape.dims().iter().skip(axis).cloned());
    Ok(dims)
}

fn sliced(dim: &Dim, start: Option<i64>, stop: Option<i64>, step: i64) -> Dim {
    let clamp = |bound: i64| {
        let bound = if bound < 0 { dim.clone() + i128::from(bound) } else { Dim::from(bound) };
        bound.max(&Dim::ZERO).min(dim)
    };
    let length = if step > 0 {
        stop.map_or_else(|| dim.clone(), clamp) - start.map_or(Dim::ZERO, clamp)
    } else {
        let last = dim.clone() - 1;
        let from = start.map_or_else(|| last.clone(), |start| clamp(start).min(&last));
        from - stop.map_or(Dim::constant(-1), clamp)
    };
    length.max(&Dim::ZERO).ceil_div(&Dim::from(step.saturating_abs().max(1)))
}

/// The first half of an axis times the sigmoid of the second.
#[derive(Clone, Debug)]
struct Glu {
    axis: i64,
}

/// The activation `glu`.
pub(super) fn glu(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Glu { axis: node.int_or("axis", -1)? }))
}

impl Operator for Glu {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(mut shape) = cx.shape(0).cloned() else { return Ok(vec![Fact::tensor(element, None)]) };
        let axis = shape.axis(self.axis);
        if let Some(dim) = axis.and_then(|axis| shape.dims_mut().get_mut(axis)) {
            let half = dim.exact_div(&Dim::constant(2));
            *dim = half.ok_or_else(|| Fault::shape(format!("glu halves an axis of even length, got {dim}")))?;
        }
        Ok(vec![Fact::tensor(element, shape)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::elementwise(cx, 2)
    }

    fn saved(&self, cx: &WorkCx<'_>) -> crate::ops::Saved {
        crate::ops::Saved::input(0).when(cx.has_backward())
    }
}
