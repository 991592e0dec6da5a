//! Pools: windows that keep a maximum, an average or a norm of what they cover, the inverse of the maximum, and the
//! global ones whose window is the whole input. The window arithmetic is in `window`.

use super::conv::rank_of;
use super::operands::common_element;
use super::table::Built;
use super::window::Window;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// What a pool keeps of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// The largest element; a second output says where it was.
    Max,
    /// The mean.
    Average,
    /// The p-norm.
    Norm,
}

/// A pool over a sliding window.
#[derive(Clone, Debug)]
pub struct Pool {
    /// What is kept.
    pub kind: PoolKind,
    /// The window.
    pub window: Window,
    /// Whether channels come last instead of second.
    pub channels_last: bool,
    /// Whether input and output are quantised: x, its scale and zero point, scale and zero point of y.
    pub quantized: bool,
}

fn build(node: &NodeView<'_>, kind: PoolKind) -> Built {
    let window = Window::read(node)?;
    if window.kernel.is_none() {
        return Err(node.missing("kernel_shape"));
    }
    let channels_last = node.flag("channels_last", false)? || node.op_type() == "NhwcMaxPool";
    let quantized = node.op_type().starts_with("QLinear");
    Ok(Box::new(Pool { kind, window, channels_last, quantized }))
}

/// `MaxPool`, `NhwcMaxPool`, `MaxpoolWithMask`.
pub(super) fn max_pool(node: &NodeView<'_>) -> Built {
    build(node, PoolKind::Max)
}

/// `AveragePool`, `QLinearAveragePool`.
pub(super) fn average_pool(node: &NodeView<'_>) -> Built {
    build(node, PoolKind::Average)
}

/// `LpPool`.
pub(super) fn norm_pool(node: &NodeView<'_>) -> Built {
    build(node, PoolKind::Norm)
}

impl Operator for Pool {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let input = cx.shape(0);
        let kernel = self.window.kernel.as_deref().unwrap_or_default();
        let rank = rank_of(&self.window, input, None)?.unwrap_or_default();
        let first_spatial = if self.channels_last { 1 } else { 2 };
        let mut dims = Vec::with_capacity(rank);
        for axis in 0..rank {
            let spatial = axis.checked_sub(first_spatial).and_then(|spatial| Some((spatial, *kernel.get(spatial)?)));
            dims.push(match (input.and_then(|input| input.dim(axis)), spatial) {
                (Some(found), Some((spatial, kernel))) => self.window.extent(spatial, found, &Dim::from(kernel))?,
                (Some(found), None) => found.clone(),
                (None, _) => cx.fresh_dim(0, axis, 0, None),
            });
        }
        let shape = Shape::new(dims);
        let mut facts = vec![Fact::tensor(element, shape.clone())];
        if self.kind == PoolKind::Max && cx.output_count() > 1 {
            facts.push(Fact::tensor(ElementType::Int64, shape));
        }
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let outputs = cx.elements_out(0)?;
        let size = self.window.size()?;
        let requantized = if self.quantized { 2 } else { 0 };
        let flops = &outputs * (size.clone() + requantized);
        // The gradient of a maximum goes to one element of the window, others to all.
        let backward = if self.kind == PoolKind::Max { outputs } else { outputs * size };
        Cost::computed(cx, flops, &backward)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let kernel = self.window.kernel.as_deref().unwrap_or_default();
        let window = kernel.iter().fold(1_u64, |window, extent| window.saturating_mul(extent.unsigned_abs()));
        let elements = cx.output(0).map_or(0, |output| output.elements());
        vec![cx.all(Family::Pool { elements, window, average: self.kind != PoolKind::Max })]
    }

    /// A maximum keeps its input too, beside the places of 8 bytes each. A norm is a power, an average and a root.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let saved = match self.kind {
            PoolKind::Max => Saved::input(0).and(places(cx)),
            PoolKind::Average => Saved::input(0),
            PoolKind::Norm => Saved::input(0).and(Saved::output(0)),
        };
        saved.when(cx.has_backward())
    }
}

/// Where maxima stood: an output where it is wanted, else a tensor of 64-bit integers beside.
fn places(cx: &WorkCx<'_>) -> Saved {
    match (cx.output(0), cx.output(1)) {
        (Some(output), None) => Saved::extra(output.elements().saturating_mul(8)),
        _ => Saved::output(1),
    }
}

/// A pool over all spatial axes.
#[derive(Clone, Debug)]
pub struct GlobalPool {
    /// What is kept.
    pub kind: PoolKind,
    /// Whether channels come last instead of second.
    pub channels_last: bool,
    /// Whether the pooled axes stay, with one element each.
    pub keeps_rank: bool,
}

/// `GlobalMaxPool`.
pub(super) fn global_max_pool(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(GlobalPool { kind: PoolKind::Max, channels_last: false, keeps_rank: true }))
}

/// `GlobalAveragePool`, `QLinearGlobalAveragePool`.
pub(super) fn global_average_pool(node: &NodeView<'_>) -> Built {
    let channels_last = node.flag("channels_last", false)?;
    Ok(Box::new(GlobalPool { kind: PoolKind::Average, channels_last, keeps_rank: true }))
}

/// `GlobalLpPool`.
pub(super) fn global_norm_pool(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(GlobalPool { kind: PoolKind::Norm, channels_last: false, keeps_rank: true }))
}

impl Operator for GlobalPool {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(input) = cx.shape(0) else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        if input.rank() < 2 {
            return Err(Fault::shape(format!(
                "batch and channels are needed, the input {input} has rank {}",
                input.rank()
            )));
        }
        let channels = if self.channels_last { input.rank() - 1 } else { 1 };
        let keep = |(axis, dim): (usize, &Dim)| {
            let stays = axis == 0 || axis == channels;
            if stays { Some(dim.clone()) } else { self.keeps_rank.then_some(Dim::ONE) }
        };
        Ok(vec![Fact::tensor(element, input.dims().iter().enumerate().filter_map(keep).collect::<Shape>())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let elements = cx.elements_in(0)?;
        Cost::computed(cx, elements.clone(), &elements)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.reduction()]
    }

    /// An average over everything is a mean, which keeps nothing.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let saved = match self.kind {
            PoolKind::Max => Saved::input(0).and(places(cx)),
            PoolKind::Average => Saved::NOTHING,
            PoolKind::Norm => Saved::input(0).and(Saved::output(0)),
        };
        saved.when(cx.has_backward())
    }
}

/// `MaxUnpool`: puts maxima back to where a `MaxPool` found them.
#[derive(Clone, Debug)]
pub struct MaxUnpool {
    /// The window of the pool that is undone.
    pub window: Window,
}

/// `MaxUnpool`.
pub(super) fn max_unpool(node: &NodeView<'_>) -> Built {
    let window = Window::read(node)?;
    if window.kernel.is_none() {
        return Err(node.missing("kernel_shape"));
    }
    Ok(Box::new(MaxUnpool { window }))
}

impl Operator for MaxUnpool {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = common_element(cx, &[0])?;
        let input = cx.shape(0).or_else(|| cx.shape(1));
        let rank = rank_of(&self.window, input, None)?.unwrap_or_default();
        if let Some(stated) = cx.integers(2) {
            if stated.len() != rank {
                return Err(Fault::shape(format!("output_shape holds {} numbers for rank {rank}", stated.len())));
            }
            return Ok(vec![Fact::tensor(element, Shape::new(stated))]);
        }
        if cx.has(2) {
            return Ok(vec![Fact::tensor(element, cx.fresh_shape(0, rank))]);
        }
        let kernel = self.window.kernel.as_deref().unwrap_or_default();
        let mut dims = Vec::with_capacity(rank);
        for axis in 0..rank {
            let spatial = axis.checked_sub(2).and_then(|spatial| Some((spatial, *kernel.get(spatial)?)));
            dims.push(match (input.and_then(|input| input.dim(axis)), spatial) {
                (Some(found), Some((spatial, kernel))) => {
                    self.window.transposed_extent(spatial, found, &Dim::from(kernel), 0)?
                }
                (Some(found), None) => found.clone(),
                (None, _) => cx.fresh_dim(0, axis, 0, None),
            });
        }
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn role(&self, input: usize) -> Role {
        if input == 2 { Role::Setting } else { Role::Data }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::inputs(0..2).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ir::shape::Shape;
    use crate::ops::testing::{dims, float, free, ints, op, typed};

    #[test]
    fn ceil_mode_pool_does_not_start_a_window_in_the_padding_behind() {
        let node = op("MaxPool").ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2]).ints("pads", &[1; 4]);
        assert_eq!(node.int("ceil_mode", 1).dims(&[float(&[1, 1, 5, 5])]), "1×1×3×3");
    }

    #[test]
    fn ceil_mode_with_kernel_1_takes_no_window_behind_the_input() {
        let node = op("MaxPool").ints("kernel_shape", &[1, 1]).ints("strides", &[2, 2]).int("ceil_mode", 1);
        assert_eq!(node.dims(&[float(&[4, 4, 12, 12])]), "4×4×6×6");
    }

    #[test]
    fn ceil_mode_is_decided_per_axis_in_old_opsets_too() {
        let node = op("MaxPool").opset(14).ints("kernel_shape", &[3; 3]).ints("strides", &[3; 3]).ints("pads", &[1; 6]);
        assert_eq!(node.int("ceil_mode", 1).dims(&[float(&[1, 2, 3, 6, 5])]), "1×2×2×3×2");
    }

    #[test]
    fn valid_padding_keeps_ceil_mode() {
        let node = op("MaxPool").ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2]).string("auto_pad", "VALID");
        assert_eq!(node.int("ceil_mode", 1).dims(&[float(&[1, 1, 5, 5])]), "1×1×3×3");
    }

    #[test]
    fn kernel_larger_than_padded_input_is_a_fault_at_any_stride() {
        for stride in [1, 3] {
            let node = op("MaxPool").ints("kernel_shape", &[3, 3]).ints("strides", &[stride, stride]);
            let fault = node.run(&[float(&[1, 1, 2, 2])]).unwrap_err();
            assert_eq!(fault.message, "kernel 3 does not fit padded input 2 (axis 2)");
        }
    }

    #[test]
    fn stride_zero_is_a_fault() {
        let node = op("MaxPool").ints("kernel_shape", &[2, 2]).ints("strides", &[0, 2]);
        let fault = node.run(&[float(&[1, 1, 4, 4])]).unwrap_err();
        assert_eq!(fault.message, "attribute strides holds 0; at least 1 is allowed");
        assert!(op("MaxPool").run(&[float(&[1, 1, 4, 4])]).is_err());
    }

    #[test]
    fn symbolic_extents_in_ceil_mode_agree_with_numbers() {
        let node = || {
            op("AveragePool")
                .ints("kernel_shape", &[3, 3])
                .ints("strides", &[2, 2])
                .ints("pads", &[1; 4])
                .int("ceil_mode", 1)
        };
        let input = Shape::new(vec![free("N"), Dim::constant(8), free("H"), Dim::constant(9)]);
        let facts = node().run(&[Fact::tensor(ElementType::Float, input)]).unwrap();
        let shape = facts[0].as_tensor().unwrap().shape.clone().unwrap();
        for height in 1..20 {
            let bound = shape.dims()[2].eval(&|_| Some(height));
            let number = node().dims(&[float(&[1, 8, height, 9])]);
            assert_eq!(number, format!("1×8×{}×5", bound.unwrap()));
        }
    }

    #[test]
    fn max_pool_gives_positions_as_int64() {
        let node = op("MaxPool").outputs(2).ints("kernel_shape", &[2, 2]);
        let facts = node.run(&[typed(ElementType::Uint8, &[1, 2, 4, 4])]).unwrap();
        assert_eq!(facts, [typed(ElementType::Uint8, &[1, 2, 3, 3]), typed(ElementType::Int64, &[1, 2, 3, 3])]);
    }

    #[test]
    fn rank_of_an_unknown_input_is_the_kernels() {
        assert_eq!(op("LpPool").ints("kernel_shape", &[2]).dims(&[Fact::Unknown]), "y0.0×y0.1×y0.2");
        assert!(op("LpPool").ints("kernel_shape", &[2]).run(&[float(&[1, 2, 4, 4])]).is_err());
    }

    #[test]
    fn costs_are_the_window_for_each_output() {
        let input = [float(&[1, 2, 4, 4])];
        let average = op("AveragePool").ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2]).cost(&input);
        assert_eq!((average.flops, average.backward_flops), (Dim::constant(32), Dim::constant(32)));
        let max = op("MaxPool").ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2]).cost(&input);
        assert_eq!((max.flops, max.backward_flops), (Dim::constant(32), Dim::constant(8)));
        assert_eq!(op("GlobalAveragePool").cost(&input).flops, Dim::constant(32));
    }

    #[test]
    fn global_pool_keeps_the_rank() {
        assert_eq!(op("GlobalAveragePool").dims(&[float(&[1, 8, 7, 7])]), "1×8×1×1");
        assert_eq!(op("GlobalMaxPool").dims(&[float(&[1, 8, 7])]), "1×8×1");
        assert_eq!(op("GlobalLpPool").dims(&[Fact::Unknown]), "?");
    }

    #[test]
    fn unpool_inverts_the_window_or_takes_the_stated_shape() {
        let node = || op("MaxUnpool").ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2]);
        let maxima = || float(&[1, 1, 2, 2]);
        let positions = || typed(ElementType::Int64, &[1, 1, 2, 2]);
        assert_eq!(node().dims(&[maxima(), positions()]), "1×1×4×4");
        assert_eq!(node().dims(&[maxima(), positions(), ints(&[1, 1, 5, 5])]), "1×1×5×5");
        let facts = node().run(&[maxima(), positions(), typed(ElementType::Int64, &[4])]).unwrap();
        assert_eq!(dims(&facts[0]), "y0.0×y0.1×y0.2×y0.3");
    }
}
