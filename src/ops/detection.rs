//! Operators of object detectors: pooling of regions and suppression of overlapping boxes.

use super::broadcast::unify;
use super::operands::{count, expect_dim, expect_rank};
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// `RoiAlign`: samples every region of interest on a grid of bins.
#[derive(Clone, Debug)]
pub struct RoiAlign {
    /// Bins along the height.
    pub height: i64,
    /// Bins along the width.
    pub width: i64,
    /// Samples along each side of a bin; 0 where the size of the region decides.
    pub sampling_ratio: i64,
}

/// `RoiAlign`.
pub(super) fn roi_align(node: &NodeView<'_>) -> Built {
    let sampling_ratio = node.int_or("sampling_ratio", 0)?;
    if sampling_ratio < 0 {
        return Err(Fault::attribute(format!("attribute sampling_ratio is {sampling_ratio}; at least 0 is allowed")));
    }
    Ok(Box::new(RoiAlign {
        height: count("output_height", node.int_or("output_height", 1)?)?,
        width: count("output_width", node.int_or("output_width", 1)?)?,
        sampling_ratio,
    }))
}

impl Operator for RoiAlign {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        expect_rank(cx, 0, "X", 4)?;
        expect_rank(cx, 1, "rois", 2)?;
        expect_dim(cx, 1, 1, "rois", &Dim::from(4))?;
        expect_rank(cx, 2, "batch_indices", 1)?;
        let of = |input: usize, axis: usize| cx.shape(input).and_then(|shape| shape.dim(axis)).cloned();
        let (rois, indices, channels) = (of(1, 0), of(2, 0), of(0, 1));
        let regions = match (rois, indices) {
            (Some(rois), Some(indices)) => Some(
                unify(&rois, &indices)
                    .ok_or_else(|| Fault::shape(format!("rois holds {rois} regions, batch_indices {indices}")))?,
            ),
            (rois, indices) => rois.or(indices),
        };
        let regions = regions.unwrap_or_else(|| cx.fresh_dim(0, 0, 0, None));
        let channels = channels.unwrap_or_else(|| cx.fresh_dim(0, 1, 0, None));
        let dims = vec![regions, channels, Dim::from(self.height), Dim::from(self.width)];
        Ok(vec![Fact::tensor(cx.element(0), Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        // A sample interpolates four elements (7 operations) and joins the others of its bin (1). Where the region
        // decides on their number, two along each side are taken.
        let side = if self.sampling_ratio == 0 { 2 } else { i128::from(self.sampling_ratio) };
        let flops = cx.elements_out(0)? * side.saturating_mul(side) * 8;
        let backward = if cx.needs_gradient(0) { flops.clone() } else { Dim::ZERO };
        Cost::composed(cx, Dim::ZERO, &flops, backward)
    }

    /// The regions alone: the gradient of the feature map depends on its sizes.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::inputs(1..3).when(cx.has_backward())
    }
}

/// `MaxRoiPool`: the maximum of each bin of each region; `CropAndResize`: samples of each region.
#[derive(Clone, Copy, Debug)]
enum Regions {
    /// Bins along height and width; each region has five numbers, its sample first.
    Pool([i64; 2]),
    /// Height and width are an input; so many operations for each element of the output.
    Crop { per_element: i128 },
}

/// `MaxRoiPool`.
pub(super) fn max_roi_pool(node: &NodeView<'_>) -> Built {
    let shape = node.ints("pooled_shape")?.ok_or_else(|| node.missing("pooled_shape"))?;
    let &[height, width] = shape.as_slice() else {
        return Err(Fault::attribute(format!("attribute pooled_shape {shape:?} must hold 2 numbers")));
    };
    Ok(Box::new(Regions::Pool([count("pooled_shape", height)?, count("pooled_shape", width)?])))
}

/// `CropAndResize`.
pub(super) fn crop_and_resize(node: &NodeView<'_>) -> Built {
    // Of four corners three are interpolated.
    let per_element = if node.string("mode")? == Some("nearest") { 0 } else { 7 };
    Ok(Box::new(Regions::Crop { per_element }))
}

impl Operator for Regions {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        expect_rank(cx, 0, "X", 4)?;
        expect_rank(cx, 1, "rois", 2)?;
        expect_dim(cx, 1, 1, "rois", &Dim::from(if matches!(self, Self::Pool(_)) { 5 } else { 4 }))?;
        let of = |input: usize, axis: usize| cx.shape(input).and_then(|shape| shape.dim(axis)).cloned();
        let (regions, channels) = (of(1, 0), of(0, 1));
        let [height, width] = match self {
            Self::Pool(bins) => bins.map(|bins| Some(Dim::from(bins))),
            Self::Crop { .. } => match cx.integers(3).as_deref() {
                Some([height, width]) => [Some(height.clone()), Some(width.clone())],
                _ => [None, None],
            },
        };
        let dims = [regions, channels, height, width].into_iter().enumerate();
        let dims = dims.map(|(axis, dim)| dim.unwrap_or_else(|| cx.fresh_dim(0, axis, 0, None)));
        let shape: Shape = dims.collect();
        Ok(vec![Fact::tensor(cx.element(0), shape)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let outputs = cx.elements_out(0)?;
        let gradient = i128::from(cx.needs_gradient(0));
        match self {
            // A region covers the whole map at most; each of its elements is compared once. The gradient goes to one.
            Self::Pool(_) => {
                let [_, channels, height, width] = cx.shape_in(0)?.dims() else { return None };
                let compared = cx.shape_in(1)?.dim(0)? * channels * height * width;
                Cost::composed(cx, Dim::ZERO, &compared, outputs * gradient)
            }
            Self::Crop { per_element } => {
                let flops = outputs * *per_element;
                Cost::composed(cx, Dim::ZERO, &flops, &flops * gradient)
            }
        }
    }

    fn role(&self, input: usize) -> Role {
        if input == 3 { Role::Setting } else { Role::Data }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let Self::Pool(_) = self else { return vec![cx.elementwise()] };
        let elements = cx.output(0).map_or(0, |output| output.elements());
        let window = (cx.flops as u64).checked_div(elements).unwrap_or_default();
        vec![cx.all(Family::Pool { elements, window, average: false })]
    }

    /// The places of maxima, or the regions.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let saved = match self {
            Self::Pool(_) => Saved::extra(cx.output(0).map_or(0, |output| output.elements().saturating_mul(8))),
            Self::Crop { .. } => Saved::input(2),
        };
        saved.and(Saved::input(1)).when(cx.has_backward())
    }
}

/// `NonMaxSuppression`: chooses boxes that do not overlap better ones.
#[derive(Clone, Debug)]
pub struct NonMaxSuppression;

/// `NonMaxSuppression`.
pub(super) fn non_max_suppression(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(NonMaxSuppression))
}

impl Operator for NonMaxSuppression {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        expect_rank(cx, 0, "boxes", 3)?;
        expect_rank(cx, 1, "scores", 3)?;
        let of = |input: usize, axis: usize| cx.shape(input).and_then(|shape| shape.dim(axis)).cloned();
        if let (Some(boxes), Some(scores)) = (of(0, 1), of(1, 2))
            && unify(&boxes, &scores).is_none()
        {
            return Err(Fault::shape(format!("there are {boxes} boxes and scores for {scores}")));
        }
        let boxes = of(0, 1).or_else(|| of(1, 2));
        // Left out, the limit is 0: nothing is chosen.
        let limit = match cx.has(2) {
            true => cx.integers(2).and_then(|limit| limit.into_iter().next()).map(|limit| limit.max(&Dim::ZERO)),
            false => Some(Dim::ZERO),
        };
        let per_class = match (boxes, limit) {
            (Some(boxes), Some(limit)) => Some(boxes.min(&limit)),
            (boxes, limit) => boxes.or(limit),
        };
        let batch = of(0, 0).or_else(|| of(1, 0));
        let hi = match (batch, of(1, 1), per_class) {
            (Some(batch), Some(classes), Some(per_class)) => Some(batch * classes * per_class),
            (_, _, Some(per_class)) if per_class == Dim::ZERO => Some(Dim::ZERO),
            _ => None,
        };
        let chosen = match hi {
            Some(hi) if hi == Dim::ZERO => Dim::ZERO,
            hi => cx.fresh_dim(0, 0, 0, hi),
        };
        Ok(vec![Fact::tensor(ElementType::Int64, Shape::new(vec![chosen, Dim::constant(3)]))])
    }

    /// One comparison for each score; how many overlaps are computed depends on the values. No gradient.
    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::composed(cx, Dim::ZERO, &cx.elements_in(1)?, Dim::ZERO)
    }

    fn role(&self, input: usize) -> Role {
        if input < 2 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let scores = cx.input(1).map_or(&[][..], |scores| scores.dims);
        let [rows, cols] = WorkCx::rows_before(scores, scores.len().saturating_sub(1));
        vec![cx.all(Family::Sort { rows, cols })]
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ops::testing::{dims, float, ints, microsoft, op, typed};

    fn upper_bound(fact: &Fact) -> Option<i128> {
        fact.as_tensor().unwrap().shape.as_ref().unwrap().dims()[0].range().1
    }

    #[test]
    fn roi_align_gives_a_grid_for_each_region() {
        let inputs = [float(&[1, 256, 50, 50]), float(&[7, 4]), typed(ElementType::Int64, &[7])];
        let node = || op("RoiAlign").int("output_height", 7).int("output_width", 7).int("sampling_ratio", 2);
        assert_eq!(node().dims(&inputs), "7×256×7×7");
        assert_eq!(node().cost(&inputs).flops, Dim::constant(7 * 256 * 49 * 4 * 8));
        assert!(op("RoiAlign").int("output_height", 0).run(&inputs).is_err());
        let fault = node().run(&[inputs[0].clone(), float(&[6, 4]), inputs[2].clone()]).unwrap_err();
        assert_eq!(fault.message, "rois holds 6 regions, batch_indices 7");
    }

    #[test]
    fn regions_become_maps_of_one_size() {
        let inputs = [float(&[1, 256, 50, 50]), float(&[7, 5])];
        let node = || op("MaxRoiPool").ints("pooled_shape", &[6, 5]);
        assert_eq!(node().dims(&inputs), "7×256×6×5");
        assert_eq!(node().cost(&inputs).flops, Dim::constant(7 * 256 * 2500));
        assert!(op("MaxRoiPool").run(&inputs).is_err());
        let fault = node().run(&[inputs[0].clone(), float(&[7, 4])]).unwrap_err();
        assert_eq!(fault.message, "rois has 4 in dim 1, 5 is needed");
        let crop = || microsoft("CropAndResize");
        let inputs = [inputs[0].clone(), float(&[7, 4]), typed(ElementType::Int32, &[7]), ints(&[14, 12])];
        assert_eq!(crop().dims(&inputs), "7×256×14×12");
        assert_eq!(crop().string("mode", "nearest").cost(&inputs).flops, Dim::ZERO);
    }

    #[test]
    fn suppression_is_bounded_by_boxes_classes_and_limit() {
        let inputs = [float(&[2, 100, 4]), float(&[2, 3, 100])];
        let node = || op("NonMaxSuppression");
        let facts = node().run(&[inputs[0].clone(), inputs[1].clone(), ints(&[20])]).unwrap();
        assert_eq!((dims(&facts[0]).as_str(), upper_bound(&facts[0])), ("y0.0×3", Some(120)));
        let facts = node().run(&[inputs[0].clone(), inputs[1].clone(), ints(&[1 << 40])]).unwrap();
        assert_eq!(upper_bound(&facts[0]), Some(600));
        let facts = node().run(&[inputs[0].clone(), inputs[1].clone(), typed(ElementType::Int64, &[1])]).unwrap();
        assert_eq!(upper_bound(&facts[0]), Some(600));
        assert_eq!(node().dims(&inputs), "0×3");
        assert_eq!(node().cost(&inputs).flops, Dim::constant(600));
    }

    #[test]
    fn scores_must_be_for_the_boxes() {
        let fault = op("NonMaxSuppression").run(&[float(&[1, 100, 4]), float(&[1, 3, 90])]).unwrap_err();
        assert_eq!(fault.message, "there are 100 boxes and scores for 90");
    }
}
