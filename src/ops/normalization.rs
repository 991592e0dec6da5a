//! Normalisations by the statistics of the sample itself: instance, group, Lp, mean-variance and local response. Layer
//! and root-mean-square ones are in `layer_norm`, those by the batch in `batch_norm`.

use super::operands::{common_element, count, expect_dim, expect_rank};
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, normalize_axis};

/// What a normalisation costs: a number of operations for each element of the output, forward and backward.
///
/// Backward, the input takes as many as forward, each scale 2 (its product with the normalised value, the sum), each
/// bias 1 (the sum).
pub(super) struct Normalized<'a> {
    /// Operations for each element forward.
    pub(super) forward: i128,
    /// Inputs that are normalised.
    pub(super) data: &'a [usize],
    /// Input that scales the result; `usize::MAX` for none.
    pub(super) scale: usize,
    /// Inputs that are added.
    pub(super) biases: &'a [usize],
}

impl Normalized<'_> {
    pub(super) fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let elements = cx.elements_out(0)?;
        let mut backward = if self.data.iter().any(|&input| cx.needs_gradient(input)) { self.forward } else { 0 };
        if cx.needs_gradient(self.scale) {
            backward += 2;
        }
        backward += self.biases.iter().map(|&input| i128::from(cx.needs_gradient(input))).sum::<i128>();
        Cost::composed(cx, Dim::ZERO, &(&elements * self.forward), elements * backward)
    }
}

/// Operations for each element where mean and variance are computed, applied, scaled and shifted: sum, difference,
/// square, sum, twice for the normalisation, scale, shift.
pub(super) const MEAN_VARIANCE: i128 = 8;

/// The same without mean and shift: square, sum, two for the quotient, scale.
pub(super) const ROOT_MEAN_SQUARE: i128 = 5;

/// `InstanceNormalization`, `GroupNormalization`: groups of channels of each sample.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    /// Number of groups; `None` for one for each channel.
    pub groups: Option<i64>,
    /// Whether scale and bias hold one number for each group instead of each channel (version 18).
    pub scale_per_group: bool,
}

/// `InstanceNormalization`.
pub(super) fn instance_norm(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(GroupNorm { groups: None, scale_per_group: false }))
}

/// `GroupNormalization`.
pub(super) fn group_norm(node: &NodeView<'_>) -> Built {
    let groups = node.int("num_groups")?.ok_or_else(|| node.missing("num_groups"))?;
    Ok(Box::new(GroupNorm { groups: Some(count("num_groups", groups)?), scale_per_group: node.opset() < 21 }))
}

impl GroupNorm {
    /// Groups of all samples, and the elements of one.
    fn rows(&self, cx: &WorkCx<'_>) -> [u64; 2] {
        let dims = cx.input(0).map_or(&[][..], |input| input.dims);
        let [samples, channels] = [0, 1].map(|axis| dims.get(axis).copied().unwrap_or(1));
        let groups = self.groups.map_or(channels, i64::unsigned_abs);
        let rows = samples.saturating_mul(groups);
        [rows, super::work::product(dims).checked_div(rows).unwrap_or_default()]
    }
}

impl Operator for GroupNorm {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = common_element(cx, &[0, 1, 2])?;
        let Some(input) = cx.shape(0) else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let Some(channels) = input.dim(1) else {
            return Err(Fault::shape(format!(
                "batch and channels are needed, the input {input} has rank {}",
                input.rank()
            )));
        };
        let mut wanted = channels.clone();
        if let Some(groups) = self.groups {
            let groups = Dim::from(groups);
            if channels.modulo(&groups).is_eq(&Dim::ZERO) == Some(false) {
                return Err(Fault::attribute(format!(
                    "attribute num_groups is {groups}, which does not divide the {channels} channels"
                )));
            }
            if self.scale_per_group {
                wanted = groups;
            }
        }
        for (input, name) in [(1, "scale"), (2, "bias")] {
            expect_rank(cx, input, name, 1)?;
            expect_dim(cx, input, 0, name, &wanted)?;
        }
        Ok(vec![Fact::tensor(element, input.clone())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Normalized { forward: MEAN_VARIANCE, data: &[0], scale: 1, biases: &[2] }.cost(cx)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Weight }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let [rows, cols] = self.rows(cx);
        vec![cx.all(Family::LayerNorm { rows, cols })]
    }

    /// Input, scale, and mean and inverse deviation of each group. A normalisation of instances is one by the batch over
    /// as many channels, which repeats the scale for each sample.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let [rows, _] = self.rows(cx);
        let numbers = if self.groups.is_none() && cx.needs(1) { 3 } else { 2 };
        let width = cx.input(0).map_or(0, |input| u64::from(input.element.bits() / 8));
        let statistics = rows.saturating_mul(numbers).saturating_mul(width);
        let scale = Saved::input(1).when(self.groups.is_some());
        Saved::input(0).and(scale).and(Saved::extra(statistics)).when(cx.has_backward())
    }
}

/// Normalisations without weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlainNorm {
    /// `LpNormalization`: by the norm along an axis.
    Norm {
        /// The axis.
        axis: i64,
    },
    /// `MeanVarianceNormalization`.
    MeanVariance {
        /// The axes whose elements share mean and variance.
        axes: Vec<i64>,
    },
    /// `LRN`: by the squares of neighbouring channels.
    LocalResponse {
        /// Number of channels that are summed.
        size: i64,
    },
}

/// `LpNormalization`.
pub(super) fn lp_norm(node: &NodeView<'_>) -> Built {
    match node.int_or("p", 2)? {
        1 | 2 => Ok(Box::new(PlainNorm::Norm { axis: node.int_or("axis", -1)? })),
        other => Err(Fault::attribute(format!("attribute p is {other}; 1 and 2 are allowed"))),
    }
}

/// `MeanVarianceNormalization`.
pub(super) fn mean_variance_norm(node: &NodeView<'_>) -> Built {
    Ok(Box::new(PlainNorm::MeanVariance { axes: node.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]) }))
}

/// `LRN`.
pub(super) fn local_response_norm(node: &NodeView<'_>) -> Built {
    let size = node.int("size")?.ok_or_else(|| node.missing("size"))?;
    Ok(Box::new(PlainNorm::LocalResponse { size: count("size", size)? }))
}

/// Checks an axis attribute against a shape.
pub(super) fn expect_axis(shape: &Shape, name: &str, axis: i64) -> Result<usize, Fault> {
    shape.axis(axis).ok_or_else(|| {
        let rank = shape.rank();
        let allowed =
            if rank == 0 { "a scalar has no axis".into() } else { format!("-{rank} to {} are allowed", rank - 1) };
        Fault::attribute(format!("attribute {name} is {axis} for an input of rank {rank}; {allowed}"))
    })
}

impl Operator for PlainNorm {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let Some(shape) = cx.shape(0) else {
            return Ok(vec![Fact::tensor(cx.element(0), None)]);
        };
        match self {
            Self::Norm { axis } => {
                expect_axis(shape, "axis", *axis)?;
            }
            Self::MeanVariance { axes } => {
                for &axis in axes {
                    expect_axis(shape, "axes", axis)?;
                }
            }
            Self::LocalResponse { .. } => {}
        }
        Ok(vec![Fact::tensor(cx.element(0), shape.clone())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let forward = match self {
            // Square, sum, quotient.
            Self::Norm { .. } => 3,
            // Without scale and shift.
            Self::MeanVariance { .. } => MEAN_VARIANCE - 2,
            // Square, sum of `size`, factor and bias, power, quotient.
            Self::LocalResponse { size } => i128::from(*size) + 5,
        };
        Cost::elementwise(cx, forward)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let dims = cx.input(0).map_or(&[][..], |input| input.dims);
        let extent =
            |axis: &i64| normalize_axis(*axis, dims.len()).and_then(|axis| dims.get(axis)).copied().unwrap_or(1);
        let cols = match self {
            Self::Norm { axis } => extent(axis),
            Self::MeanVariance { axes } => axes.iter().map(extent).fold(1, u64::saturating_mul),
            Self::LocalResponse { .. } => return vec![cx.elementwise()],
        };
        let rows = super::work::product(dims).checked_div(cols).unwrap_or_default();
        vec![cx.all(Family::LayerNorm { rows, cols })]
    }

    /// Written out of small operators: input and result stand for what those keep.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::input(0).and(Saved::output(0)).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ops::testing::{float, op};

    #[test]
    fn instance_norm_keeps_the_shape() {
        let inputs = [float(&[2, 6, 4, 4]), float(&[6]), float(&[6])];
        assert_eq!(op("InstanceNormalization").dims(&inputs), "2×6×4×4");
        let cost = op("InstanceNormalization").cost(&inputs);
        assert_eq!((cost.flops, cost.backward_flops), (Dim::constant(8 * 192), Dim::constant(11 * 192)));
        let fault = op("InstanceNormalization").run(&[float(&[2, 6, 4]), float(&[4]), float(&[6])]).unwrap_err();
        assert_eq!(fault.message, "scale has 4 in dim 0, 6 is needed");
    }

    #[test]
    fn group_norm_scales_groups_in_version_18_and_channels_from_21() {
        let node = |opset| op("GroupNormalization").opset(opset).int("num_groups", 3);
        let input = || float(&[2, 6, 4, 4]);
        assert_eq!(node(18).dims(&[input(), float(&[3]), float(&[3])]), "2×6×4×4");
        assert_eq!(node(21).dims(&[input(), float(&[6]), float(&[6])]), "2×6×4×4");
        assert!(node(21).run(&[input(), float(&[3]), float(&[3])]).is_err());
        let fault = node(21).run(&[float(&[2, 7, 4]), float(&[7]), float(&[7])]).unwrap_err();
        assert_eq!(fault.message, "attribute num_groups is 3, which does not divide the 7 channels");
        let fault =
            op("GroupNormalization").int("num_groups", 0).run(&[input(), float(&[6]), float(&[6])]).unwrap_err();
        assert_eq!(fault.message, "attribute num_groups is 0; at least 1 is allowed");
    }

    #[test]
    fn plain_normalisations_keep_the_shape_and_check_their_attributes() {
        let input = || [float(&[2, 6, 4, 4])];
        assert_eq!(op("LpNormalization").dims(&input()), "2×6×4×4");
        assert_eq!(op("MeanVarianceNormalization").dims(&input()), "2×6×4×4");
        assert_eq!(op("LRN").int("size", 5).cost(&input()).flops, Dim::constant(10 * 192));
        let fault = op("LpNormalization").int("axis", 4).run(&input()).unwrap_err();
        assert_eq!(fault.message, "attribute axis is 4 for an input of rank 4; -4 to 3 are allowed");
        assert!(op("LRN").int("size", 0).run(&input()).is_err());
        assert!(op("LpNormalization").int("p", 3).run(&input()).is_err());
    }
}
