//! Pools and reductions with channels last.

use super::list;
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, normalize_axis};
use crate::ops::pool::{GlobalPool, Pool, PoolKind};
use crate::ops::reduce::reduced;
use crate::ops::table::Built;
use crate::ops::window::{Padding, Window};
use crate::ops::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};

/// A pool that names a window which does not fit as a whole.
#[derive(Debug)]
struct Checked {
    class: String,
    pool: Pool,
}

fn build(node: &NodeView<'_>, kind: PoolKind) -> Built {
    let window = Window::read(node)?;
    if window.kernel.is_none() {
        return Err(node.missing("kernel_shape"));
    }
    let channels_last = node.flag("channels_last", true)?;
    let class = node.string("class")?.unwrap_or("a pool").to_owned();
    Ok(Box::new(Checked { class, pool: Pool { kind, window, channels_last, quantized: false } }))
}

/// `MaxPooling1D`, `MaxPooling2D`, `MaxPooling3D`.
pub(super) fn max_pool(node: &NodeView<'_>) -> Built {
    build(node, PoolKind::Max)
}

/// `AveragePooling1D`, `AveragePooling2D`, `AveragePooling3D`.
pub(super) fn average_pool(node: &NodeView<'_>) -> Built {
    build(node, PoolKind::Average)
}

impl Operator for Checked {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let kernel = self.pool.window.kernel.as_deref().unwrap_or_default();
        super::expect_rank(cx, 0, &self.class, kernel.len().saturating_add(2))?;
        let valid = !matches!(self.pool.window.padding, Padding::SameUpper | Padding::SameLower);
        if let Some(shape) = cx.shape(0).filter(|_| valid) {
            let first = if self.pool.channels_last { 1 } else { 2 };
            let extents = shape.dims().get(first..first + kernel.len()).unwrap_or_default();
            let small = |(extent, kernel): (&Dim, &i64)| extent.as_const().is_some_and(|dim| dim < i128::from(*kernel));
            if extents.iter().zip(kernel).any(small) {
                let text = kernel.iter().map(i64::to_string).collect::<Vec<_>>().join("×");
                let input: Shape = extents.iter().cloned().collect();
                return Err(Fault::shape(format!(
                    "a {text} window with valid padding on a {input} input leaves no output"
                )));
            }
        }
        self.pool.infer(cx)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        self.pool.cost(cx)
    }

    fn role(&self, input: usize) -> Role {
        self.pool.role(input)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        self.pool.work(cx)
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        self.pool.saved(cx)
    }
}

fn global(node: &NodeView<'_>, kind: PoolKind) -> Built {
    let (channels_last, keeps_rank) = (node.flag("channels_last", true)?, node.flag("keepdims", false)?);
    Ok(Box::new(Ranked {
        class: node.string("class")?.unwrap_or("a pool").to_owned(),
        rank: usize::try_from(node.int_or("rank", 0)?).unwrap_or(0),
        inner: Box::new(GlobalPool { kind, channels_last, keeps_rank }),
    }))
}

/// `GlobalMaxPooling1D`, `GlobalMaxPooling2D`, `GlobalMaxPooling3D`.
pub(super) fn global_max_pool(node: &NodeView<'_>) -> Built {
    global(node, PoolKind::Max)
}

/// `GlobalAveragePooling1D`, `GlobalAveragePooling2D`, `GlobalAveragePooling3D`.
pub(super) fn global_average_pool(node: &NodeView<'_>) -> Built {
    global(node, PoolKind::Average)
}

/// An operator for inputs of one rank.
#[derive(Debug)]
struct Ranked {
    class: String,
    rank: usize,
    inner: Box<dyn Operator>,
}

impl Operator for Ranked {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        if self.rank > 0 {
            super::expect_rank(cx, 0, &self.class, self.rank)?;
        }
        self.inner.infer(cx)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        self.inner.cost(cx)
    }

    fn role(&self, input: usize) -> Role {
        self.inner.role(input)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        self.inner.work(cx)
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        self.inner.saved(cx)
    }
}

/// A sum, mean, product or extreme along axes.
#[derive(Debug)]
struct Reduce {
    /// Reduced axes; `None` for all.
    axes: Option<Vec<i64>>,
    keep: bool,
    /// Whether the backward pass reads which element made the result.
    extreme: bool,
}

/// Reductions that stand in a graph as operations.
pub(super) fn reduce(node: &NodeView<'_>) -> Built {
    let axes = if node.has("axes") { Some(list(node, "axes")?) } else { None };
    let extreme = !matches!(node.string("kind")?, Some("sum" | "mean"));
    Ok(Box::new(Reduce { axes, keep: node.flag("keepdims", false)?, extreme }))
}

impl Operator for Reduce {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(shape) = cx.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
        let axes = match &self.axes {
            None => (0..shape.rank()).collect(),
            Some(axes) => {
                let place = |&axis: &i64| {
                    normalize_axis(axis, shape.rank())
                        .ok_or_else(|| Fault::attribute(format!("axis {axis} is no axis of {shape}")))
                };
                axes.iter().map(place).collect::<Result<Vec<_>, _>>()?
            }
        };
        Ok(vec![Fact::tensor(element, reduced(shape, &axes, self.keep))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let elements = cx.elements_in(0)?;
        Cost::computed(cx, elements.clone(), &elements)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.reduction()]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::input(0).and(Saved::output(0)).when(cx.has_backward() && self.extreme)
    }
}
