//! Operators of `com.microsoft` that stand in training graphs: gradients of other operators, losses that keep their
//! logarithms, optimizers and what accumulates gradients. Convolutions' gradients are in `microsoft_conv_grad`.

use super::alike::{Alike, Out, Runs};
use super::normalization::MEAN_VARIANCE;
use super::softmax::SOFTMAX;
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// As many outputs as the node names, each like the input of its place behind the first `skipped`.
fn each(node: &NodeView<'_>, skipped: usize) -> Vec<Out> {
    (0..node.node().outputs.len()).map(|output| Out::Of(output.saturating_add(skipped))).collect()
}

/// Gradients of operators: of each input what the backward pass gives back. What flows in comes first, where not said
/// otherwise.
pub(super) fn gradient(node: &NodeView<'_>) -> Built {
    let inner = |outputs: &[Out]| Alike::new(outputs.to_vec());
    let built = match node.op_type() {
        // Two products for the slope and one with what flows in.
        "GeluGrad" | "FastGeluGrad" | "QuickGeluGrad" => inner(&[Out::Of(1)]).operations(3),
        "BiasGeluGrad_dX" | "BiasFastGeluGrad_dX" => inner(&[Out::Of(1)]).operations(4),
        "SigmoidGrad" | "TanhGrad" => inner(&[Out::Of(1)]).operations(3),
        "SoftmaxGrad" | "SoftmaxGrad_13" | "LogSoftmaxGrad" | "LogSoftmaxGrad_13" => {
            inner(&[Out::Of(1)]).operations(4).runs(Runs::Softmax)
        }
        "SoftmaxCrossEntropyGrad"
        | "SoftmaxCrossEntropyLossGrad"
        | "SoftmaxCrossEntropyLossInternalGrad"
        | "SparseSoftmaxCrossEntropyGrad" => inner(&[Out::Of(1)]).operations(2).settings(&[3, 4]),
        "DropoutGrad" | "BitmaskDropoutGrad" => inner(&[Out::Of(0)]).operations(2).settings(&[2, 3]),
        "LayerNormalizationGrad" => {
            inner(&[Out::Of(1), Out::Of(2), Out::Of(2)]).operations(MEAN_VARIANCE + 3).runs(Runs::Norm)
        }
        "InvertibleLayerNormalizationGrad" => {
            inner(&[Out::Of(1), Out::Of(2), Out::Of(3)]).operations(MEAN_VARIANCE + 3).runs(Runs::Norm)
        }
        "SimplifiedLayerNormalizationGrad" => {
            inner(&[Out::Of(1), Out::Of(2)]).operations(MEAN_VARIANCE).runs(Runs::Norm)
        }
        "BatchNormalizationGrad" => {
            inner(&[Out::Of(1), Out::Of(2), Out::Of(2)]).operations(MEAN_VARIANCE + 3).runs(Runs::Norm)
        }
        "DivGrad" => inner(&[Out::Of(1), Out::Of(2)]).operations(4).counting(0),
        "FakeQuantGrad" => inner(&[Out::Of(0)]),
        // Rows are added where they were picked: the shape comes first.
        "GatherGrad" | "GatherNDGrad" => inner(&[Out::ShapedBy { shape: 0, element: 2 }]).counting(2).settings(&[0]),
        "GatherElementsGrad" => inner(&[Out::ShapedBy { shape: 1, element: 0 }]).settings(&[1]),
        "SliceGrad" => inner(&[Out::ShapedBy { shape: 1, element: 0 }]).runs(Runs::Moves).settings(&[1, 2, 3, 4, 5]),
        // `ReluGrad`, `LeakyReluGrad`: one choice for each element.
        _ => inner(&[Out::Of(1)]),
    };
    Ok(Box::new(built.without_gradient()))
}

/// Optimizers of one tensor, and what accumulates, scales or checks gradients.
pub(super) fn step(node: &NodeView<'_>) -> Built {
    let done = Out::One(ElementType::Bool);
    let float = ElementType::Float;
    let built = match node.op_type() {
        // Rate, count, weights, gradients, two moments; what comes out: count, moments, weights, gradients.
        "AdamOptimizer" => Alike::new([Out::Of(1), Out::Of(4), Out::Of(5), Out::Of(2), Out::Of(3), Out::Of(6)])
            .counting(2)
            .operations(15)
            .runs(Runs::Update)
            .settings(&[0, 1, 7, 8, 9]),
        // Rate, weights, gradients; what comes out: weights, gradients.
        "SGDOptimizer" => Alike::new([Out::Of(1), Out::Of(2)]).operations(2).runs(Runs::Update).settings(&[0]),
        "InPlaceAccumulator" => Alike::new([Out::Of(0)]).settings(&[2]),
        "InPlaceAccumulatorV2" => Alike::new([done, Out::Of(0)]).settings(&[2]),
        "ZeroGradient" => Alike::new([Out::Of(0)]).runs(Runs::Moves),
        "ReduceAllL2" => Alike::new([Out::One(float)]).operations(2).runs(Runs::Reduction),
        "MixedPrecisionScale" => Alike::new(each(node, 1)).settings(&[0]).counting(1),
        "Scale" => Alike::new([Out::Of(0)]).settings(&[1]),
        "IsFinite" => Alike::new([Out::As(0, ElementType::Bool)]),
        "FakeQuant" => Alike::new([Out::Of(0), Out::As(0, ElementType::Bool)]).operations(4).settings(&[1, 2]),
        "Group" => Alike::new([done]).runs(Runs::Moves),
        // `PassThrough`, `YieldOp`, reductions over replicas.
        _ => Alike::new(each(node, 0)).runs(Runs::Moves),
    };
    Ok(Box::new(built.without_gradient()))
}

/// Optimizers of sequences of tensors: rate, count where there is one, then the sequences.
#[derive(Debug)]
struct Steps {
    /// Where the weights are.
    weights: usize,
    /// Inputs that come out anew, in order, behind a flag.
    anew: &'static [usize],
    operations: i128,
}

/// `AdamWOptimizer`, `SGDOptimizerV2`.
pub(super) fn steps(node: &NodeView<'_>) -> Built {
    Ok(Box::new(match node.op_type() {
        "AdamWOptimizer" => Steps { weights: 2, anew: &[2, 4, 5], operations: 15 },
        _ => Steps { weights: 1, anew: &[1], operations: 2 },
    }))
}

impl Operator for Steps {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let done = Fact::tensor(ElementType::Bool, Shape::new(vec![Dim::ONE]));
        let anew = self.anew.iter().map(|&input| cx.fact(input).map_or(Fact::Unknown, super::merge::without_value));
        Ok(std::iter::once(done).chain(anew).collect())
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let elements = cx.sequence_elements(self.weights)?;
        Cost::composed(cx, Dim::ZERO, &(elements * self.operations), Dim::ZERO)
    }

    fn role(&self, input: usize) -> Role {
        if input < self.weights { Role::Setting } else { Role::Data }
    }
}

/// Losses that keep the logarithms of the softmax for their gradient.
#[derive(Debug)]
struct LossWithLogarithms {
    /// Whether the losses of the samples stay apart.
    each: bool,
}

/// `SoftmaxCrossEntropy`, `SparseSoftmaxCrossEntropy`.
pub(super) fn loss(node: &NodeView<'_>) -> Built {
    Ok(Box::new(LossWithLogarithms { each: node.string("reduction")? == Some("none") }))
}

impl Operator for LossWithLogarithms {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let loss = if self.each { cx.shape(1).cloned() } else { Some(Shape::scalar()) };
        Ok(vec![Fact::tensor(element, loss), Fact::tensor(element, cx.shape(0).cloned())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let flops = cx.elements_in(0)? * SOFTMAX + cx.elements_in(1)? * 2;
        Cost::composed(cx, Dim::ZERO, &flops, Dim::ZERO)
    }

    fn role(&self, input: usize) -> Role {
        if input > 1 { Role::Setting } else { Role::Data }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let scores = cx.input(0);
        let cols = scores.and_then(|scores| scores.dim_from_end(0)).unwrap_or(1);
        let rows = scores.and_then(|scores| scores.elements().checked_div(cols)).unwrap_or_default();
        vec![cx.all(super::Family::Softmax { rows, cols })]
    }
}

/// `BatchNormInternal`: a normalisation over the batch that hands its statistics to the gradient.
pub(super) fn batch_norm(_node: &NodeView<'_>) -> Built {
    let outputs = [Out::Of(0), Out::Of(3), Out::Of(4), Out::Of(3), Out::Of(4)];
    Ok(Box::new(Alike::new(outputs).operations(MEAN_VARIANCE).runs(Runs::Norm).weights(&[1, 2])))
}

/// `BroadcastGradientArgs`: the axes along which the gradients of two broadcast operands are summed.
#[derive(Debug)]
struct SummedAxes;

/// `BroadcastGradientArgs`.
pub(super) fn summed_axes(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(SummedAxes))
}

impl Operator for SummedAxes {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let shapes = [0, 1].map(|input| cx.integers(input));
        let rank = shapes.iter().flatten().map(Vec::len).max().unwrap_or_default();
        let mut facts = Vec::new();
        for (output, own) in shapes.iter().enumerate() {
            let other = shapes.iter().rev().nth(output).and_then(Option::as_ref);
            let axes = own.as_ref().zip(other).and_then(|(own, other)| summed(own, other));
            facts.push(match axes {
                Some(axes) => crate::ir::fact::TensorFact::vector(axes.into_iter().map(Dim::from).collect()).into(),
                None => {
                    let most = Dim::from(rank.max(1));
                    let count = cx.fresh_dim(output, 0, 0, (rank > 0).then_some(most));
                    Fact::tensor(ElementType::Int64, Shape::new(vec![count]))
                }
            });
        }
        Ok(facts)
    }

    fn cost(&self, _: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }
}

/// Axes of the common shape along which `own` is repeated; `None` where that is not decided.
fn summed(own: &[Dim], other: &[Dim]) -> Option<Vec<i64>> {
    let rank = own.len().max(other.len());
    let mut axes = Vec::new();
    for axis in (0..rank).rev() {
        let dim = |dims: &[Dim]| dims.len().checked_sub(rank - axis).and_then(|place| dims.get(place)).cloned();
        let repeated = match (dim(own), dim(other)) {
            (None, _) => true,
            (Some(own), other) => {
                let is_one = own.is_eq(&Dim::ONE)?;
                is_one && !other.unwrap_or(Dim::ONE).is_eq(&Dim::ONE)?
            }
        };
        if repeated {
            axes.push(i64::try_from(axis).ok()?);
        }
    }
    Some(axes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{dims, float, ints, microsoft, typed};

    #[test]
    fn a_gradient_has_the_shape_of_what_it_is_by() {
        let facts = microsoft("LayerNormalizationGrad").outputs(3).run(&[
            float(&[2, 5, 8]),
            float(&[2, 5, 8]),
            float(&[8]),
            float(&[2, 5, 1]),
            float(&[2, 5, 1]),
        ]);
        assert_eq!(facts.unwrap().iter().map(dims).collect::<Vec<_>>(), ["2×5×8", "8", "8"]);
        let inputs = [ints(&[100, 16]), typed(ElementType::Int64, &[4]), float(&[4, 16])];
        assert_eq!(microsoft("GatherGrad").dims(&inputs), "100×16");
        assert_eq!(microsoft("GatherGrad").cost(&inputs).flops, Dim::constant(64));
        assert_eq!(microsoft("ReluGrad").dims(&[float(&[3, 4]), float(&[3, 4])]), "3×4");
    }

    #[test]
    fn an_optimizer_gives_back_what_it_keeps() {
        let vector = || float(&[10]);
        let inputs = [float(&[]), ints(&[0]), vector(), vector(), vector(), vector()];
        let facts = microsoft("AdamOptimizer").outputs(4).run(&inputs).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["1", "10", "10", "10"]);
        assert_eq!(microsoft("AdamOptimizer").outputs(4).cost(&inputs).flops, Dim::constant(150));
        let list = Fact::sequence(float(&[10]), Some(Dim::constant(3)));
        let facts = microsoft("SGDOptimizerV2").outputs(2).run(&[float(&[]), list.clone(), list.clone()]).unwrap();
        assert_eq!(facts, [typed(ElementType::Bool, &[1]), list.clone()]);
        let cost = microsoft("SGDOptimizerV2").outputs(2).cost(&[float(&[]), list.clone(), list]);
        assert_eq!(cost.flops, Dim::constant(60));
    }

    #[test]
    fn axes_that_were_repeated_are_summed() {
        let facts = microsoft("BroadcastGradientArgs").outputs(2).run(&[ints(&[2, 1, 4]), ints(&[3, 1])]).unwrap();
        let axes = |fact: &Fact| fact.as_tensor().unwrap().const_integers().unwrap();
        assert_eq!((axes(&facts[0]), axes(&facts[1])), (vec![1], vec![2, 0]));
    }

    #[test]
    fn a_loss_hands_its_logarithms_on() {
        let facts = microsoft("SparseSoftmaxCrossEntropy").outputs(2).run(&[float(&[4, 10]), ints(&[1, 2, 3, 4])]);
        assert_eq!(facts.unwrap().iter().map(dims).collect::<Vec<_>>(), ["scalar", "4×10"]);
    }
}
