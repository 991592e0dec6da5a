//! Normalisation of the last dims: layer and root-mean-square normalisation, with the fused forms of `com.microsoft` that
//! add a residual before.

use super::normalization::{MEAN_VARIANCE, Normalized, ROOT_MEAN_SQUARE, expect_axis};
use super::operands::{element_attribute, may_stretch_to};
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, normalize_axis};

/// Normalisation of the dims from an axis on.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// First normalised axis.
    pub axis: i64,
    /// Whether only the root mean square is divided by, without subtracting the mean.
    pub root_mean_square: bool,
    /// Which operator it is, so which inputs and outputs it has.
    pub form: LayerNormForm,
    /// Element type in which the statistics are kept.
    pub stash: ElementType,
}

/// The operators that normalise the last dims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerNormForm {
    /// `LayerNormalization`: x, scale, bias; y, mean, inverse deviation.
    Layer,
    /// `RMSNormalization`: x, scale; y in the type of the scale.
    RootMeanSquare,
    /// `SimplifiedLayerNormalization`: x, scale; y, inverse deviation.
    Simplified,
    /// `SkipLayerNormalization`: x, residual, scale, shift, bias; y, mean, inverse deviation, sum before.
    Skip,
    /// `SkipSimplifiedLayerNormalization`: x, residual, scale, bias; y, mean, inverse deviation, sum before.
    SkipSimplified,
}

fn build(node: &NodeView<'_>, form: LayerNormForm) -> Built {
    let stash = node.int_or("stash_type", 1)?;
    Ok(Box::new(LayerNorm {
        axis: node.int_or("axis", -1)?,
        root_mean_square: !matches!(form, LayerNormForm::Layer | LayerNormForm::Skip),
        form,
        stash: element_attribute("stash_type", stash)?.unwrap_or(ElementType::Float),
    }))
}

/// `LayerNormalization`.
pub(super) fn layer_norm(node: &NodeView<'_>) -> Built {
    build(node, LayerNormForm::Layer)
}

/// `RMSNormalization`.
pub(super) fn rms_norm(node: &NodeView<'_>) -> Built {
    build(node, LayerNormForm::RootMeanSquare)
}

/// `SimplifiedLayerNormalization`.
pub(super) fn simplified_layer_norm(node: &NodeView<'_>) -> Built {
    build(node, LayerNormForm::Simplified)
}

/// `SkipLayerNormalization`.
pub(super) fn skip_layer_norm(node: &NodeView<'_>) -> Built {
    build(node, LayerNormForm::Skip)
}

/// `SkipSimplifiedLayerNormalization`.
pub(super) fn skip_simplified_layer_norm(node: &NodeView<'_>) -> Built {
    build(node, LayerNormForm::SkipSimplified)
}

impl LayerNormForm {
    fn skips(self) -> bool {
        matches!(self, Self::Skip | Self::SkipSimplified)
    }

    fn data(self) -> &'static [usize] {
        if self.skips() { &[0, 1] } else { &[0] }
    }

    fn scale(self) -> usize {
        if self.skips() { 2 } else { 1 }
    }

    /// Inputs that are added to every row.
    fn biases(self) -> &'static [usize] {
        match self {
            Self::Layer => &[2],
            Self::RootMeanSquare | Self::Simplified => &[],
            Self::Skip => &[3, 4],
            Self::SkipSimplified => &[3],
        }
    }
}

impl LayerNorm {
    /// Independent rows, and the elements of one.
    fn rows(&self, cx: &WorkCx<'_>) -> [u64; 2] {
        let dims = cx.input(0).map_or(&[][..], |input| input.dims);
        WorkCx::rows_before(dims, normalize_axis(self.axis, dims.len()).unwrap_or_default())
    }
}

impl Operator for LayerNorm {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let scale = self.form.scale();
        let element = match self.form {
            LayerNormForm::RootMeanSquare => cx.element(scale).or_else(|| cx.element(0)),
            _ => cx.element(0),
        };
        let shape = cx.shape(0);
        let statistics = match shape {
            None => None,
            Some(shape) => {
                let axis = expect_axis(shape, "axis", self.axis)?;
                let (kept, normalized) = shape.dims().split_at_checked(axis).unwrap_or_default();
                for (&input, name) in [scale].iter().chain(self.form.biases()).zip(["scale", "bias", "bias"]) {
                    if let Some(found) = cx.shape(input).filter(|found| !may_stretch_to(found, shape.dims())) {
                        let wanted: Shape = normalized.iter().cloned().collect();
                        return Err(Fault::shape(format!("{name} {found} does not fit the normalised dims {wanted}")));
                    }
                }
                Some(kept.iter().cloned().chain(normalized.iter().map(|_| Dim::ONE)).collect::<Shape>())
            }
        };
        if self.form.skips()
            && let (Some(shape), Some(skip)) = (shape, cx.shape(1))
            && !may_stretch_to(skip, shape.dims())
        {
            return Err(Fault::shape(format!("residual {skip} does not fit input {shape}")));
        }
        let statistic = Fact::tensor(self.stash, statistics);
        let mut facts = vec![Fact::tensor(element, shape.cloned()), statistic.clone(), statistic];
        match self.form {
            LayerNormForm::Skip | LayerNormForm::SkipSimplified => facts.push(Fact::tensor(element, shape.cloned())),
            LayerNormForm::RootMeanSquare | LayerNormForm::Simplified | LayerNormForm::Layer => {}
        }
        facts.truncate(cx.output_count());
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let mut forward = if self.root_mean_square { ROOT_MEAN_SQUARE } else { MEAN_VARIANCE };
        if self.form.skips() {
            let bias = self.form.biases().last().is_some_and(|&bias| cx.has(bias));
            forward += 1 + i128::from(bias);
        }
        Normalized { forward, data: self.form.data(), scale: self.form.scale(), biases: self.form.biases() }.cost(cx)
    }

    fn role(&self, input: usize) -> Role {
        if self.form.data().contains(&input) { Role::Data } else { Role::Weight }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let [rows, cols] = self.rows(cx);
        vec![cx.all(Family::LayerNorm { rows, cols })]
    }

    /// What is normalised (the sum with a residual), scale and bias, and of each row mean and inverse deviation; without a
    /// mean the latter alone.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let [rows, _] = self.rows(cx);
        let statistics = rows.saturating_mul(u64::from(self.stash.bits() / 8));
        let statistics = if self.root_mean_square { statistics } else { statistics.saturating_mul(2) };
        let normalized = match (self.form.skips(), cx.output(3)) {
            (false, _) => Saved::input(0),
            (true, Some(_)) => Saved::output(3),
            (true, None) => Saved::extra(cx.output(0).map_or(0, |output| output.bytes())),
        };
        let bias = match self.form {
            LayerNormForm::Layer => Saved::input(2),
            LayerNormForm::Skip => Saved::input(3),
            _ => Saved::NOTHING,
        };
        let weights = Saved::input(self.form.scale()).and(bias);
        normalized.and(weights).and(Saved::extra(statistics)).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{dims, float, microsoft, op, typed};

    #[test]
    fn statistics_are_float_with_ones_for_the_normalised_dims() {
        let half = |dims: &[i128]| typed(ElementType::Float16, dims);
        let node = op("LayerNormalization").outputs(3).int("axis", 1);
        let facts = node.run(&[half(&[2, 16, 64]), half(&[16, 64]), half(&[16, 64])]).unwrap();
        assert_eq!(facts, [half(&[2, 16, 64]), float(&[2, 1, 1]), float(&[2, 1, 1])]);
    }

    #[test]
    fn scale_must_fit_the_normalised_dims() {
        let fault = op("LayerNormalization").run(&[float(&[2, 16, 64]), float(&[32])]).unwrap_err();
        assert_eq!(fault.message, "scale 32 does not fit the normalised dims 64");
        assert!(op("LayerNormalization").int("axis", 3).run(&[float(&[2, 16, 64]), float(&[64])]).is_err());
    }

    #[test]
    fn layer_norm_takes_8_operations_and_rms_norm_5() {
        let input = || float(&[2, 16, 64]);
        let layer = op("LayerNormalization").cost(&[input(), float(&[64]), float(&[64])]);
        assert_eq!((layer.flops, layer.backward_flops), (Dim::constant(8 * 2_048), Dim::constant(11 * 2_048)));
        let rms = op("RMSNormalization").cost(&[input(), float(&[64])]);
        assert_eq!((rms.flops, rms.backward_flops), (Dim::constant(5 * 2_048), Dim::constant(7 * 2_048)));
    }

    #[test]
    fn rms_norm_has_the_type_of_its_scale() {
        let facts = op("RMSNormalization").run(&[typed(ElementType::Float16, &[2, 64]), float(&[64])]).unwrap();
        assert_eq!(facts, [float(&[2, 64])]);
    }

    #[test]
    fn skip_forms_give_the_sum_as_fourth_output() {
        let input = || float(&[2, 16, 64]);
        let row = || float(&[64]);
        let node = || microsoft("SkipLayerNormalization").outputs(4);
        let facts = node().run(&[input(), input(), row(), row(), row()]).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["2×16×64", "2×16×1", "2×16×1", "2×16×64"]);
        let cost = microsoft("SkipLayerNormalization").cost(&[input(), input(), row(), row(), row()]);
        assert_eq!(cost.flops, Dim::constant(10 * 2_048));
        let simplified = microsoft("SkipSimplifiedLayerNormalization");
        assert_eq!(simplified.dims(&[input(), input(), row()]), "2×16×64");
        assert_eq!(op("SimplifiedLayerNormalization").dims(&[input(), row()]), "2×16×64");
    }
}
