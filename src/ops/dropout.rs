//! `Dropout`: the identity in inference.

use super::table::Built;
use super::{Cost, CostCx, Fault, Function, InferCx, NodeView, Operator, Role, Saved, WorkCx, values};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar};

#[derive(Debug)]
struct Dropout {
    /// Before opset 10 the mask has the type of the data.
    mask_is_bool: bool,
    /// Whether an input may ask for training.
    switch: bool,
}

/// `Dropout`. Old files carry the mode as `is_test`; a model is priced as it is run, so that they count as inference.
pub(super) fn dropout(node: &NodeView<'_>) -> Built {
    if let Some(ratio) = node.float("ratio")?
        && !(0.0..=1.0).contains(&ratio)
    {
        return Err(Fault::attribute(format!("attribute ratio is {ratio}, allowed is 0 to 1")));
    }
    Ok(Box::new(Dropout { mask_is_bool: node.opset() >= 10, switch: node.opset() >= 12 && node.has_input(2) }))
}

impl Operator for Dropout {
    fn function(&self) -> Function {
        Function::Random
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let training = self.switch && cx.tensor(2).and_then(|mode| mode.single()) != Some(Scalar::Integer(Dim::ZERO));
        let element = if self.mask_is_bool { Some(ElementType::Bool) } else { data.element };
        let keeps_all = if training || !self.mask_is_bool { Scalar::Unknown } else { Scalar::Integer(Dim::ONE) };
        let mask = values::fact(element, data.shape.clone(), values::uniform(keeps_all));
        let output = if training { data.without_value() } else { data };
        Ok(vec![output.into(), mask])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        // Frameworks give the input itself where nothing is dropped.
        let drops =
            || !matches!(cx.input(1).and_then(|ratio| ratio.single()), Some(Scalar::Real(ratio)) if ratio == 0.0);
        if !self.switch || cx.input(2)?.single() == Some(Scalar::Integer(Dim::ZERO)) || !drops() {
            return Some(Cost::FREE);
        }
        Cost::elementwise(cx, 1)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn is_view(&self) -> bool {
        !self.switch
    }

    /// A mask of one byte for each element, as the kernels of GPUs draw it.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let elements = cx.output(0).map_or(0, |output| output.elements());
        Saved::extra(elements).when(cx.has_backward() && !cx.is_free())
    }

    fn shares_storage(&self, cx: &WorkCx<'_>) -> bool {
        cx.is_free()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::fact::TensorFact;
    use crate::ops::testing::{float, op, reals, shape};

    fn mode(on: i128) -> Fact {
        let elements = vec![Scalar::Integer(Dim::constant(on))];
        TensorFact::with_elements(Some(ElementType::Bool), shape(&[]), elements).into()
    }

    #[test]
    fn inference_passes_through_for_nothing() {
        let facts = op("Dropout").opset(7).outputs(2).run(&[reals(&[1.0])]).unwrap();
        assert_eq!(facts[0], reals(&[1.0]));
        assert_eq!(op("Dropout").cost(&[float(&[8])]), Cost::FREE);
        assert_eq!(op("Dropout").cost(&[float(&[8]), float(&[]), mode(0)]), Cost::FREE);
    }

    #[test]
    fn training_costs_one_operation_an_element() {
        assert_eq!(op("Dropout").cost(&[float(&[8]), float(&[]), mode(1)]).flops.as_const(), Some(8));
    }

    #[test]
    fn the_mask_is_bool_from_opset_10_on() {
        let mask = |opset| {
            let facts = op("Dropout").opset(opset).outputs(2).run(&[float(&[8])]).unwrap();
            facts[1].as_tensor().unwrap().element.unwrap()
        };
        assert_eq!((mask(7), mask(10), mask(13)), (ElementType::Float, ElementType::Bool, ElementType::Bool));
        let ratio = crate::frontend::onnx::model::AttributeValue::Float(2.0);
        assert!(op("Dropout").opset(7).attribute("ratio", ratio).dims(&[float(&[8])]).contains("ratio is 2"));
    }
}
