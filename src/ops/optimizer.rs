//! Operators of `ai.onnx.preview.training`: one step of an optimizer over any number of tensors (`Adagrad`, `Adam`,
//! `Momentum`), and `Gradient`.

use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Work, WorkCx};
use crate::diagnostics::Code;
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, TensorFact};

/// Inputs in front of the groups: learning rate and number of the step.
const SETTINGS: usize = 2;

/// One step of an optimizer. After the settings come groups of as many tensors each: the values, their gradients, and
/// what the optimizer keeps. Values and what is kept come out anew.
#[derive(Debug)]
struct Step {
    name: &'static str,
    /// Groups of inputs.
    groups: usize,
    /// Operations for each optimized element.
    per_element: i128,
}

/// `Adagrad`: keeps squared gradients.
pub(super) fn adagrad(_: &NodeView<'_>) -> Built {
    // Regularised gradient 2, its square added 2, root and epsilon 2, step 3.
    Ok(Box::new(Step { name: "Adagrad", groups: 3, per_element: 9 }))
}

/// `Adam`: keeps gradients and squared gradients.
pub(super) fn adam(_: &NodeView<'_>) -> Built {
    // Regularised gradient 2, first moment 3, second 4, root and epsilon 2, step 3, regularisation after it 1.
    Ok(Box::new(Step { name: "Adam", groups: 4, per_element: 15 }))
}

/// `Momentum`: keeps a running gradient.
pub(super) fn momentum(node: &NodeView<'_>) -> Built {
    let ahead = match node.string("mode")? {
        Some("nesterov") => 2,
        Some("standard") | None => 0,
        Some(other) => {
            return Err(Fault::attribute(format!(
                "attribute mode is \"{other}\", allowed are \"nesterov\" and \"standard\""
            )));
        }
    };
    // Regularised gradient 2, running gradient 3, step 2.
    Ok(Box::new(Step { name: "Momentum", groups: 3, per_element: 7 + ahead }))
}

impl Operator for Step {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let given = cx.input_count().saturating_sub(SETTINGS);
        let tensors = given / self.groups;
        if tensors * self.groups != given {
            return Err(Fault::new(
                Code::WrongArity,
                format!(
                    "{} needs {} tensors for each that it optimizes, after rate and count; {given} are given",
                    self.name, self.groups
                ),
            ));
        }
        let kept = |group: usize| (0..tensors).map(move |tensor| SETTINGS + group * tensors + tensor);
        let fact = |input: usize| match cx.tensor(input) {
            Some(TensorFact { element, shape, .. }) => Fact::tensor(*element, shape.clone()),
            None => Fact::Unknown,
        };
        Ok((0..self.groups).filter(|&group| group != 1).flat_map(kept).map(fact).collect())
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let mut elements = Dim::ZERO;
        let tensors = (0..).take_while(|&input| cx.has(SETTINGS + input)).count() / self.groups;
        for tensor in 0..tensors {
            elements += cx.elements_in(SETTINGS + tensor)?;
        }
        // Nothing is trained through the step of an optimizer.
        Cost::composed(cx, Dim::ZERO, &(elements * self.per_element), Dim::ZERO)
    }

    fn role(&self, input: usize) -> Role {
        if input < SETTINGS { Role::Setting } else { Role::Data }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let tensors = cx.inputs.len().saturating_sub(SETTINGS).checked_div(self.groups).unwrap_or_default();
        let optimized = (0..tensors).filter_map(|tensor| cx.input(SETTINGS.saturating_add(tensor)));
        let elements = optimized.map(|tensor| tensor.elements()).fold(0, u64::saturating_add);
        vec![cx.all(Family::Update { elements, tensors: tensors as u64 })]
    }
}

/// `Gradient`: the derivatives of a tensor of the graph by others.
#[derive(Debug)]
struct Gradient {
    /// Tensors by which is derived; the first inputs are their values.
    by: usize,
}

/// `Gradient`.
pub(super) fn gradient(node: &NodeView<'_>) -> Built {
    let by = node.strings("xs")?.ok_or_else(|| node.missing("xs"))?.len();
    Ok(Box::new(Gradient { by }))
}

impl Operator for Gradient {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let fact = |input| match cx.tensor(input) {
            Some(TensorFact { element, shape, .. }) => Fact::tensor(*element, shape.clone()),
            None => Fact::Unknown,
        };
        Ok((0..self.by.min(cx.input_count())).map(fact).collect())
    }

    /// It runs a part of the graph backwards, which the node does not show.
    fn cost(&self, _: &CostCx<'_>) -> Option<Cost> {
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::frontend::onnx::model::AttributeValue;
    use crate::ir::dim::Dim;
    use crate::ops::testing::{TestNode, dims, float, ints, op};

    fn step(name: &str) -> TestNode {
        op(name).domain("ai.onnx.preview.training").opset(1)
    }

    #[test]
    fn values_and_what_is_kept_come_out_in_groups() {
        let two = || [float(&[1]), float(&[2, 3])];
        let inputs: Vec<_> = [float(&[]), ints(&[0])].into_iter().chain((0..4).flat_map(|_| two())).collect();
        let shapes = |facts: Vec<_>| facts.iter().map(dims).collect::<Vec<_>>();
        let facts = step("Adam").outputs(6).run(&inputs).unwrap();
        assert_eq!(shapes(facts), ["1", "2×3", "1", "2×3", "1", "2×3"]);
        let facts = step("Adagrad").outputs(4).run(&inputs[..8]).unwrap();
        assert_eq!(shapes(facts), ["1", "2×3", "1", "2×3"]);
        let fault = step("Momentum").run(&inputs[..7]).unwrap_err();
        assert!(fault.message.contains("Momentum needs 3 tensors for each"), "{}", fault.message);
    }

    #[test]
    fn a_gradient_has_the_shape_of_what_it_is_by() {
        let names = AttributeValue::Strings(vec![b"a".to_vec().into(), b"b".to_vec().into()]);
        let inputs = [float(&[2, 3]), float(&[3]), float(&[7])];
        let facts = step("Gradient").attribute("xs", names).outputs(2).run(&inputs).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["2×3", "3"]);
    }

    #[test]
    fn a_step_counts_for_each_optimized_element() {
        let inputs = [float(&[]), ints(&[0]), float(&[10]), float(&[10]), float(&[10])];
        let cost = step("Momentum").string("mode", "standard").outputs(2).cost(&inputs);
        assert_eq!(cost.flops, Dim::constant(70));
        assert_eq!(cost.backward_flops, Dim::ZERO);
        assert!(step("Momentum").string("mode", "heavy").run(&inputs).is_err());
    }
}
