//! `BatchNormalization` in all versions. Normalisations by the statistics of the sample itself are in `normalization`.

use super::broadcast::unify;
use super::normalization::Normalized;
use super::operands::common_element;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx, work};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, normalize_axis};

/// Normalisation of each channel by running statistics, or by those of the batch.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// Whether the node computes and gives the statistics of the batch, as it does in a model saved for training.
    pub training: bool,
    /// Whether every position has its own statistics instead of every channel (`spatial` = 0, before version 9).
    pub per_position: bool,
    /// Axis of the channels.
    pub axis: i64,
}

/// `BatchNormalization`.
pub(super) fn batch_norm(node: &NodeView<'_>) -> Built {
    let training = if node.opset() >= 14 {
        node.flag("training_mode", false)?
    } else {
        node.node().outputs.iter().skip(1).any(|name| !name.is_empty())
    };
    let per_position = node.opset() < 9 && !node.flag("spatial", true)?;
    Ok(Box::new(BatchNorm { training, per_position, axis: 1 }))
}

impl BatchNorm {
    /// The shape that scale, bias and statistics have; checks each that is known against the input.
    fn parameters(&self, cx: &InferCx<'_>) -> Result<Option<Shape>, Fault> {
        let mut known = match cx.shape(0).map(Shape::dims) {
            Some([_, positions @ ..]) if self.per_position => Some(positions.iter().cloned().collect::<Shape>()),
            Some(dims @ [_, _, ..]) => match normalize_axis(self.axis, dims.len()).and_then(|axis| dims.get(axis)) {
                Some(channels) => Some(Shape::new(vec![channels.clone()])),
                None => {
                    let (axis, rank) = (self.axis, dims.len());
                    return Err(Fault::attribute(format!("axis {axis} is out of range for an input of rank {rank}")));
                }
            },
            // One dim is the batch alone, of one channel.
            Some([_]) => Some(Shape::new(vec![Dim::ONE])),
            Some([]) => return Err(Fault::shape("the input is a scalar; a batch dim is needed")),
            None => None,
        };
        for (input, name) in [(1, "scale"), (2, "B"), (3, "mean"), (4, "var")] {
            let Some(found) = cx.shape(input) else { continue };
            let Some(wanted) = known else {
                known = Some(found.clone());
                continue;
            };
            let misfit = || Fault::shape(format!("input {name} has shape {found}, {wanted} is needed"));
            if found.rank() != wanted.rank() {
                return Err(misfit());
            }
            let dims = wanted.dims().iter().zip(found.dims()).map(|(wanted, found)| unify(wanted, found));
            known = Some(dims.collect::<Option<_>>().ok_or_else(misfit)?);
        }
        Ok(known)
    }
}

impl Operator for BatchNorm {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let statistic = common_element(cx, &[3, 4])?;
        let parameters = self.parameters(cx)?;
        let mut output = cx.shape(0).cloned();
        if let (Some(output), Some([channels]), false) =
            (&mut output, parameters.as_ref().map(Shape::dims), self.per_position)
            && let Some(axis) = output.axis(self.axis)
            && let Some(found) = output.dims_mut().get_mut(axis)
        {
            *found = channels.clone();
        }
        let mut facts = vec![Fact::tensor(element, output)];
        for _ in 1..cx.output_count() {
            facts.push(Fact::tensor(statistic, parameters.clone()));
        }
        Ok(facts)
    }

    /// With running statistics every channel is one multiplication and one addition; with those of the batch (also when
    /// a model saved for inference is trained) it is what other normalisations take.
    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let trained = self.training || cx.gradient_count() > 0;
        Normalized { forward: if trained { 8 } else { 2 }, data: &[0], scale: 1, biases: &[2] }.cost(cx)
    }

    fn role(&self, input: usize) -> Role {
        match input {
            1 | 2 => Role::Weight,
            3 | 4 => Role::Statistic,
            _ => Role::Data,
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let dims = cx.output(0).map_or(&[][..], |output| output.dims);
        let channels = match dims {
            [_, positions @ ..] if self.per_position => work::product(positions),
            [_, _, ..] => normalize_axis(self.axis, dims.len()).and_then(|axis| dims.get(axis)).copied().unwrap_or(1),
            _ => 1,
        };
        let rows = work::product(dims).checked_div(channels).unwrap_or_default();
        vec![cx.all(Family::BatchNorm { rows, channels })]
    }

    /// Input, scale, and mean and inverse deviation of the batch for each channel.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let statistics = cx.input(3).map_or(0, |mean| mean.bytes()).saturating_mul(2);
        Saved::inputs(0..2).and(Saved::extra(statistics)).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ops::testing::{dims, float, op, typed};

    fn inputs() -> Vec<Fact> {
        let channel = || float(&[8]);
        vec![float(&[2, 8, 4, 4]), channel(), channel(), channel(), channel()]
    }

    #[test]
    fn inference_gives_one_output() {
        assert_eq!(op("BatchNormalization").run(&inputs()).unwrap(), [float(&[2, 8, 4, 4])]);
        assert_eq!(op("BatchNormalization").dims(&[vec![float(&[2, 8])], inputs()[1..].to_vec()].concat()), "2×8");
    }

    #[test]
    fn training_mode_gives_running_statistics_in_their_own_type() {
        let mut inputs = inputs();
        inputs[3] = typed(ElementType::Double, &[8]);
        inputs[4] = inputs[3].clone();
        let facts = op("BatchNormalization").opset(15).outputs(3).int("training_mode", 1).run(&inputs).unwrap();
        assert_eq!(facts, [float(&[2, 8, 4, 4]), typed(ElementType::Double, &[8]), typed(ElementType::Double, &[8])]);
    }

    #[test]
    fn old_versions_give_saved_statistics_too() {
        let facts = op("BatchNormalization").opset(9).outputs(5).run(&inputs()).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["2×8×4×4", "8", "8", "8", "8"]);
    }

    #[test]
    fn version_7_may_normalise_every_position() {
        let positions = || float(&[8, 4, 4]);
        let inputs = [float(&[2, 8, 4, 4]), positions(), positions(), positions(), positions()];
        assert_eq!(op("BatchNormalization").opset(7).int("spatial", 0).dims(&inputs), "2×8×4×4");
        assert!(op("BatchNormalization").opset(9).run(&inputs).is_err());
    }

    #[test]
    fn a_statistic_of_another_length_is_named() {
        let mut inputs = inputs();
        inputs[4] = float(&[4]);
        let fault = op("BatchNormalization").run(&inputs).unwrap_err();
        assert_eq!(fault.message, "input var has shape 4, 8 is needed");
    }

    #[test]
    fn gradients_cost_by_what_needs_them() {
        let cost = op("BatchNormalization").cost(&inputs());
        assert_eq!(cost.flops, Dim::constant(8 * 256));
        assert_eq!(cost.backward_flops, Dim::constant((8 + 2 + 1) * 256));
    }
}
