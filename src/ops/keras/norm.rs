//! Normalisations along axes as Keras names them, and layers with one slope or scale for each channel.

use super::{Layer, Stores, compute, list, wanted};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, normalize_axis};
use crate::ops::batch_norm::BatchNorm;
use crate::ops::normalization::{MEAN_VARIANCE, Normalized, ROOT_MEAN_SQUARE};
use crate::ops::table::Built;
use crate::ops::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx, unary, work};

/// Weights of the extents of some axes.
#[derive(Clone, Debug)]
struct ByAxes {
    axes: Vec<i64>,
    /// Whether other axes stay in the weight, with one element each.
    spread: bool,
    /// Stored inputs of this shape.
    inputs: Vec<usize>,
    /// Stored inputs of one number.
    scalars: Vec<usize>,
}

impl Stores for ByAxes {
    fn shapes(&self, cx: &InferCx<'_>) -> Result<Vec<(usize, Shape)>, Fault> {
        let mut shapes: Vec<_> = self.scalars.iter().map(|&input| (input, Shape::scalar())).collect();
        if self.axes.is_empty() {
            shapes.extend(self.inputs.iter().map(|&input| (input, Shape::scalar())));
            return Ok(shapes);
        }
        let Some(shape) = cx.shape(0) else { return Ok(shapes) };
        let mut places = Vec::new();
        for &axis in &self.axes {
            let Some(place) = normalize_axis(axis, shape.rank()) else {
                let rank = shape.rank();
                return Err(Fault::attribute(format!("axis {axis} is out of range for an input of rank {rank}")));
            };
            places.push(place);
        }
        let mut dims = Vec::new();
        for place in if self.spread { (0..shape.rank()).collect() } else { places.clone() } {
            if !places.contains(&place) {
                dims.push(Dim::ONE);
                continue;
            }
            match wanted(shape.dim(place), || format!("dimension {place} of the input {shape}"))? {
                Some(dim) => dims.push(dim),
                None => return Ok(shapes),
            }
        }
        let weight = Shape::new(dims);
        shapes.extend(self.inputs.iter().map(|&input| (input, weight.clone())));
        Ok(shapes)
    }
}

/// `BatchNormalization`. Inputs: x, gamma, beta, moving mean, moving variance.
pub(super) fn batch_norm(node: &NodeView<'_>) -> Built {
    let axes = list(node, "axis")?;
    let axis = axes.first().copied().unwrap_or(-1);
    let stores = ByAxes { spread: axes.len() > 1, axes, inputs: vec![1, 2, 3, 4], scalars: Vec::new() };
    if stores.spread {
        return Layer::of(node, stores, Norm { kind: Kind::Batch, axes: Vec::new(), groups: 1 });
    }
    Layer::of(node, stores, BatchNorm { training: false, per_position: false, axis })
}

/// What is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Deviation of rows, mean subtracted.
    Deviation,
    /// Root mean square of rows.
    Root,
    /// Deviation of groups of channels.
    Groups,
    /// Length of rows.
    Length,
    /// Statistics of the batch for several axes together.
    Batch,
}

/// A normalisation of rows. Inputs: x, gamma, beta.
#[derive(Clone, Debug)]
struct Norm {
    kind: Kind,
    /// Axes of a row; for groups the axis of the channels.
    axes: Vec<i64>,
    groups: i64,
}

/// `LayerNormalization`, `RMSNormalization`, `GroupNormalization`, `UnitNormalization`.
pub(super) fn norm(node: &NodeView<'_>) -> Built {
    let kind = match node.op_type() {
        "GroupNormalization" => Kind::Groups,
        "UnitNormalization" => Kind::Length,
        _ if node.flag("rms", false)? => Kind::Root,
        _ => Kind::Deviation,
    };
    let axes = node.ints("axis")?.unwrap_or_else(|| vec![-1]);
    let norm = Norm { kind, axes: axes.clone(), groups: node.int_or("groups", 32)? };
    Layer::of(node, ByAxes { axes, spread: false, inputs: vec![1, 2], scalars: Vec::new() }, norm)
}

impl Norm {
    fn rows(&self, dims: &[u64]) -> [u64; 2] {
        let all = work::product(dims);
        let extent = |axis: &i64| normalize_axis(*axis, dims.len()).and_then(|axis| dims.get(axis)).copied();
        let cols = match self.kind {
            Kind::Groups => {
                let groups = match (self.groups, self.axes.first().and_then(extent)) {
                    (-1, Some(channels)) => channels,
                    (groups, _) => groups.unsigned_abs(),
                };
                let samples = dims.first().copied().unwrap_or(1);
                all.checked_div(samples.saturating_mul(groups)).unwrap_or(1)
            }
            _ => self.axes.iter().filter_map(extent).fold(1_u64, u64::saturating_mul),
        };
        [all.checked_div(cols).unwrap_or(0), cols]
    }
}

impl Operator for Norm {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(shape) = cx.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
        for &axis in &self.axes {
            if shape.axis(axis).is_none() {
                let rank = shape.rank();
                return Err(Fault::attribute(format!("axis {axis} is out of range for an input of rank {rank}")));
            }
        }
        if self.kind == Kind::Groups
            && let Some(channels) =
                self.axes.first().and_then(|&axis| shape.axis(axis)).and_then(|axis| shape.dim(axis))
            && self.groups > 0
            && channels.modulo(&Dim::from(self.groups)).is_eq(&Dim::ZERO) == Some(false)
        {
            let groups = self.groups;
            return Err(Fault::attribute(format!("{channels} channels do not divide into {groups} groups")));
        }
        Ok(vec![Fact::tensor(element, shape.clone())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let forward = match self.kind {
            Kind::Root | Kind::Length => ROOT_MEAN_SQUARE,
            _ => MEAN_VARIANCE,
        };
        Normalized { forward, data: &[0], scale: 1, biases: &[2] }.cost(cx)
    }

    fn role(&self, input: usize) -> Role {
        match (self.kind, input) {
            (_, 0) => Role::Data,
            (Kind::Batch, 3 | 4) => Role::Statistic,
            _ => Role::Weight,
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let [rows, cols] = self.rows(cx.input(0).map_or(&[][..], |input| input.dims));
        vec![cx.all(Family::LayerNorm { rows, cols })]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let [rows, _] = self.rows(cx.input(0).map_or(&[][..], |input| input.dims));
        let numbers = if self.kind == Kind::Root || self.kind == Kind::Length { 1 } else { 2 };
        Saved::inputs(0..3).and(Saved::extra(rows.saturating_mul(4 * numbers))).when(cx.has_backward())
    }
}

/// A slope for each position of a sample, shared along some axes. Inputs: x, alpha.
#[derive(Clone, Debug)]
struct Slopes {
    shared: Vec<i64>,
}

/// `PReLU`.
pub(super) fn prelu(node: &NodeView<'_>) -> Built {
    let stores = Slopes { shared: list(node, "shared_axes")? };
    Ok(Box::new(Layer { stores: Box::new(stores), data: &[0], compute: compute(node)?, inner: unary::prelu(node)? }))
}

impl Stores for Slopes {
    fn shapes(&self, cx: &InferCx<'_>) -> Result<Vec<(usize, Shape)>, Fault> {
        let Some(shape) = cx.shape(0) else { return Ok(Vec::new()) };
        let mut dims = Vec::new();
        for (axis, dim) in shape.dims().iter().enumerate().skip(1) {
            let shared = self.shared.iter().any(|&shared| normalize_axis(shared, shape.rank()) == Some(axis));
            if shared {
                dims.push(Dim::ONE);
                continue;
            }
            match wanted(Some(dim), || format!("dimension {axis} of the input {shape}"))? {
                Some(dim) => dims.push(dim),
                None => return Ok(Vec::new()),
            }
        }
        Ok(vec![(1, Shape::new(dims))])
    }
}

/// A function of each element that stored numbers go into. Inputs: x, numbers by axes, single numbers.
#[derive(Clone, Debug)]
struct Scale {
    operations: i64,
}

/// `Normalization`: (x - mean) / deviation. Inputs: x, mean, variance, count.
pub(super) fn scale(node: &NodeView<'_>) -> Built {
    let stores = ByAxes { axes: list(node, "axis")?, spread: false, inputs: vec![1, 2], scalars: vec![3] };
    Layer::of(node, stores, Scale { operations: node.int_or("operations", 2)? })
}

impl Operator for Scale {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        Ok(vec![Fact::tensor(cx.element(0), cx.shape(0).cloned())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let flops = cx.elements_out(0)? * i128::from(self.operations);
        let backward = if cx.needs_gradient(0) { flops.clone() } else { Dim::ZERO };
        Cost::composed(cx, Dim::ZERO, &flops, backward)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Statistic }
    }
}
