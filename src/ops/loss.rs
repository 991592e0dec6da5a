//! `NegativeLogLikelihoodLoss` and `SoftmaxCrossEntropyLoss`.

use super::softmax::SOFTMAX;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx, broadcast};
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

#[derive(Debug)]
struct Loss {
    softmax: bool,
    /// Whether the losses of the samples stay apart.
    each: bool,
}

/// `NegativeLogLikelihoodLoss` and `SoftmaxCrossEntropyLoss`, and their internal forms in `com.microsoft`.
pub(super) fn loss(node: &NodeView<'_>) -> Built {
    let reduction = node.string("reduction")?.unwrap_or("mean");
    if !matches!(reduction, "none" | "sum" | "mean") {
        return Err(Fault::attribute(format!(
            "attribute reduction is \"{reduction}\", allowed are \"none\", \"sum\" and \"mean\""
        )));
    }
    Ok(Box::new(Loss { softmax: node.op_type().starts_with("Softmax"), each: reduction == "none" }))
}

impl Operator for Loss {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let scores = cx.shape(0);
        let expected = match scores.map(Shape::dims) {
            Some([batch, _, rest @ ..]) => Some([batch].into_iter().chain(rest).cloned().collect::<Shape>()),
            Some(_) => {
                return Err(Fault::shape("scores must have rank 2 or more: samples, classes, and further dims"));
            }
            None => None,
        };
        if let (Some(expected), Some(labels)) = (&expected, cx.shape(1)) {
            let fits = expected.rank() == labels.rank()
                && expected.dims().iter().zip(labels.dims()).all(|(a, b)| broadcast::unify(a, b).is_some());
            if !fits {
                return Err(Fault::shape(format!("labels have shape {labels}, the scores ask for {expected}")));
            }
        }
        if let (Some(classes), Some([weights])) =
            (scores.and_then(|scores| scores.dim(1)), cx.shape(2).map(Shape::dims))
            && broadcast::unify(classes, weights).is_none()
        {
            return Err(Fault::shape(format!("{weights} weights are given for {classes} classes")));
        }
        let shape = if self.each { expected.or_else(|| cx.shape(1).cloned()) } else { Some(Shape::scalar()) };
        Ok(vec![Fact::tensor(element, shape), Fact::tensor(element, scores.cloned())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let samples = cx.elements_in(1)?;
        // The choice of a score and its sign, the weight, the sum.
        let mut flops = &samples * (1 + i128::from(cx.has(2)) + i128::from(!self.each));
        let mut backward = samples;
        if self.softmax {
            let scores = cx.elements_in(0)?;
            flops += &scores * SOFTMAX;
            backward = scores * 2;
        }
        let gradients = i128::from(cx.needs_gradient(0));
        Some(Cost { flops, backward_flops: backward * gradients, ..Cost::moved(cx)? })
    }

    fn role(&self, input: usize) -> Role {
        if input >= 2 { Role::Setting } else { Role::Data }
    }

    /// A softmax of the scores of each sample, where it is part of the loss, and a sum over the samples.
    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let (Some(scores), Some(labels)) = (cx.input(0), cx.input(1)) else { return vec![cx.elementwise()] };
        let samples = labels.elements();
        let sum = match self.each {
            true => Family::Reduce { rows: samples, cols: 1 },
            false => Family::Reduce { rows: 1, cols: samples },
        };
        if !self.softmax {
            return vec![cx.all(sum)];
        }
        let cols = scores.dim(1).unwrap_or(1);
        let family = Family::Softmax { rows: scores.elements().checked_div(cols).unwrap_or_default(), cols };
        let softmax = cx.part(family, scores.elements() as f64 * SOFTMAX as f64, scores.bytes() as f64);
        vec![softmax, cx.rest(&[softmax], sum)]
    }

    /// The logarithms of the softmax, labels, weights, and the sum of the weights that were used.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let logarithms = match (self.softmax, cx.output(1), cx.input(0)) {
            (false, ..) => Saved::input(0),
            (true, Some(_), _) => Saved::output(1),
            (true, None, Some(scores)) => Saved::extra(scores.bytes()),
            (true, None, None) => Saved::NOTHING,
        };
        let weight = Saved::extra(cx.input(0).map_or(0, |scores| u64::from(scores.element.bits() / 8)));
        logarithms.and(Saved::inputs(1..3)).and(weight).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{dims, float, op, typed};

    #[test]
    fn a_loss_is_a_scalar_unless_it_is_not_reduced() {
        let labels = || typed(ElementType::Int64, &[3, 8]);
        let scores = || float(&[3, 5, 8]);
        assert_eq!(op("NegativeLogLikelihoodLoss").dims(&[scores(), labels()]), "scalar");
        let facts =
            op("SoftmaxCrossEntropyLoss").string("reduction", "none").outputs(2).run(&[scores(), labels()]).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["3×8", "3×5×8"]);
    }

    #[test]
    fn labels_and_weights_must_fit_the_scores() {
        let labels = typed(ElementType::Int64, &[4]);
        let message = op("NegativeLogLikelihoodLoss").dims(&[float(&[3, 5]), labels]);
        assert!(message.contains("labels have shape 4, the scores ask for 3"), "{message}");
        let inputs = [float(&[3, 5]), typed(ElementType::Int64, &[3]), float(&[4])];
        assert!(op("SoftmaxCrossEntropyLoss").dims(&inputs).contains("4 weights are given for 5 classes"));
        assert!(op("SoftmaxCrossEntropyLoss").string("reduction", "all").dims(&inputs).contains("\"all\""));
    }

    #[test]
    fn the_softmax_is_the_larger_part() {
        let inputs = [float(&[3, 5]), typed(ElementType::Int64, &[3])];
        assert_eq!(op("SoftmaxCrossEntropyLoss").cost(&inputs).flops.as_const(), Some(75 + 6));
        assert_eq!(op("NegativeLogLikelihoodLoss").cost(&inputs).flops.as_const(), Some(6));
    }
}
