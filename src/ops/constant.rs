//! `Constant`, `ConstantOfShape` and `EyeLike`: tensors that attributes describe.

use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, axes, cast, scalar, values};
use crate::frontend::onnx::model::{AttributeValue, TensorDef};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar, TensorFact, VALUE_LIMIT};
use crate::ir::shape::Shape;

/// A tensor that is known while the operator is built.
#[derive(Debug)]
struct Constant {
    fact: TensorFact,
}

/// `Constant`, in each of its forms.
pub(super) fn constant(node: &NodeView<'_>) -> Built {
    const FORMS: [&str; 8] = [
        "value",
        "sparse_value",
        "value_float",
        "value_floats",
        "value_int",
        "value_ints",
        "value_string",
        "value_strings",
    ];
    let mut given = FORMS.into_iter().filter_map(|name| node.value(name).map(|value| (name, value)));
    let (name, value) = given.next().ok_or_else(|| node.missing("value"))?;
    if let Some((other, _)) = given.next() {
        return Err(Fault::attribute(format!("attributes {name} and {other} are both given, allowed is one of them")));
    }
    let list = |count: usize| Shape::new(vec![Dim::from(count)]);
    let fact = match (name, value) {
        ("value", AttributeValue::Tensor(tensor)) => tensor_fact(tensor)?,
        ("sparse_value", AttributeValue::SparseTensor(sparse)) => {
            TensorFact { element: sparse.values.element, shape: Some(stored_shape(&sparse.dims)?), value: None }
        }
        ("value_float" | "value_floats", _) => {
            let numbers = node.floats(name)?.unwrap_or_default();
            let shape = if name == "value_float" { Shape::scalar() } else { list(numbers.len()) };
            let elements = numbers.into_iter().map(|number| Scalar::Real(f64::from(number))).collect();
            TensorFact::with_elements(Some(ElementType::Float), shape, elements)
        }
        ("value_int" | "value_ints", _) => {
            let numbers = node.ints(name)?.unwrap_or_default();
            let shape = if name == "value_int" { Shape::scalar() } else { list(numbers.len()) };
            let elements = numbers.into_iter().map(|number| Scalar::Integer(Dim::from(number))).collect();
            TensorFact::with_elements(Some(ElementType::Int64), shape, elements)
        }
        ("value_string", AttributeValue::String(_)) => {
            TensorFact { element: Some(ElementType::String), shape: Some(Shape::scalar()), value: None }
        }
        ("value_strings", _) => {
            let count = node.strings(name)?.map_or(0, <[_]>::len);
            TensorFact { element: Some(ElementType::String), shape: Some(list(count)), value: None }
        }
        _ => return Err(Fault::attribute(format!("attribute {name} has a type that does not fit its name"))),
    };
    Ok(Box::new(Constant { fact }))
}

/// Type, shape and, where it is small, value of a stored tensor.
fn tensor_fact(tensor: &TensorDef) -> Result<TensorFact, Fault> {
    let shape = stored_shape(&tensor.dims)?;
    let integers = tensor.integers(VALUE_LIMIT);
    let elements = match integers {
        Some(integers) => Some(integers.into_iter().map(|number| Scalar::Integer(Dim::from(number))).collect()),
        None => tensor.reals(VALUE_LIMIT).map(|reals| reals.into_iter().map(Scalar::Real).collect()),
    };
    Ok(match elements {
        Some(elements) => TensorFact::with_elements(tensor.element, shape, elements),
        None => TensorFact { element: tensor.element, shape: Some(shape), value: None },
    })
}

fn stored_shape(dims: &[i64]) -> Result<Shape, Fault> {
    if let Some(dim) = dims.iter().find(|&&dim| dim < 0) {
        return Err(Fault::attribute(format!("the stored tensor has a dim of {dim}, allowed is 0 and more")));
    }
    Ok(dims.iter().map(|&dim| Dim::from(dim)).collect())
}

impl Operator for Constant {
    fn infer(&self, _cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        Ok(vec![self.fact.clone().into()])
    }

    fn cost(&self, _cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }
}

/// A tensor of equal elements.
#[derive(Debug)]
struct ConstantOfShape {
    element: Option<ElementType>,
    scalar: Scalar,
}

/// `ConstantOfShape`.
pub(super) fn constant_of_shape(node: &NodeView<'_>) -> Built {
    let Some(tensor) = node.tensor("value")? else {
        return Ok(Box::new(ConstantOfShape { element: Some(ElementType::Float), scalar: Scalar::Real(0.0) }));
    };
    if let Some(count) = tensor.element_count()
        && count != 1
    {
        return Err(Fault::attribute(format!("attribute value has {count} elements, allowed is 1")));
    }
    let scalar = tensor_fact(tensor)?.single().unwrap_or(Scalar::Unknown);
    Ok(Box::new(ConstantOfShape { element: tensor.element, scalar }))
}

impl Operator for ConstantOfShape {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let shape = shape_from_input(cx, 0)?;
        let value = match &shape {
            Some(shape) => values::spread(self.scalar.clone(), shape).filter(|_| self.scalar != Scalar::Unknown),
            None => values::uniform(self.scalar.clone()),
        };
        Ok(vec![values::fact(self.element, shape, value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost { bytes_written: cx.bytes_out()?, ..Cost::FREE })
    }

    fn role(&self, _input: usize) -> Role {
        Role::Setting
    }
}

/// The shape that the elements of an input spell; fresh dims for unknown ones. `None` when not even the rank is known.
pub(super) fn shape_from_input(cx: &mut InferCx<'_>, input: usize) -> Result<Option<Shape>, Fault> {
    let Some(tensor) = cx.tensor(input) else { return Ok(None) };
    if let Some(shape) = &tensor.shape
        && shape.rank() > 1
    {
        return Err(Fault::shape(format!("a shape must be a vector, the input has shape {shape}")));
    }
    let targets = values::targets(tensor).filter(|targets| targets.len() <= axes::MANY_AXES);
    let Some(targets) = targets else { return Ok(None) };
    let mut dims = Vec::with_capacity(targets.len());
    for (axis, target) in targets.into_iter().enumerate() {
        dims.push(match target {
            Some(dim) if dim.range().1.is_some_and(|hi| hi < 0) => {
                return Err(Fault::shape(format!("dim {axis} of the shape is {dim}, allowed is 0 and more")));
            }
            Some(dim) => dim,
            None => cx.fresh_dim(0, axis, 0, None),
        });
    }
    Ok(Some(Shape::new(dims)))
}

/// Ones on a diagonal, of the shape of the input.
#[derive(Debug)]
struct EyeLike {
    element: Option<ElementType>,
    offset: i64,
}

/// `EyeLike`.
pub(super) fn eye_like(node: &NodeView<'_>) -> Built {
    let element = node.int("dtype")?.map(|code| cast::element_type("dtype", code)).transpose()?;
    Ok(Box::new(EyeLike { element, offset: node.int_or("k", 0)? }))
}

impl Operator for EyeLike {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = self.element.or_else(|| cx.element(0));
        let shape = cx.shape(0).cloned();
        if let Some(shape) = &shape
            && shape.rank() != 2
        {
            return Err(Fault::shape(format!("the input must have rank 2, it has shape {shape}")));
        }
        let value = shape.as_ref().and_then(|shape| {
            values::build(shape, |index| {
                let [row, column] = index else { return Scalar::Unknown };
                let on = Dim::from(*column) - Dim::from(*row) == Dim::from(self.offset);
                number(element, i128::from(on))
            })
        });
        Ok(vec![values::fact(element, shape, value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost { bytes_written: cx.bytes_out()?, ..Cost::FREE })
    }

    fn role(&self, _input: usize) -> Role {
        Role::Setting
    }
}

/// A number as an element of this type.
pub(super) fn number(element: Option<ElementType>, number: i128) -> Scalar {
    match element {
        Some(element) if element.is_real() => Scalar::Real(scalar::to_real(number)),
        Some(element) if element.is_integer() || element == ElementType::Bool => Scalar::Integer(Dim::constant(number)),
        _ => Scalar::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontend::onnx::model::{Payload, SparseTensorDef};
    use crate::ir::fact::Value;
    use crate::ops::testing::{dims, float, free, ints, op};

    fn stored(element: ElementType, dims: &[i64], bytes: &[u8]) -> TensorDef {
        let data = Payload::Raw(bytes.to_vec().into());
        TensorDef { element: Some(element), dims: dims.to_vec(), data, ..TensorDef::default() }
    }

    #[test]
    fn every_form_of_a_constant_has_its_type_and_rank() {
        let run = |node: crate::ops::testing::TestNode| {
            let fact = node.run(&[]).unwrap().remove(0);
            (dims(&fact), fact.as_tensor().unwrap().element.unwrap())
        };
        assert_eq!(run(op("Constant").int("value_int", 3)), ("scalar".into(), ElementType::Int64));
        assert_eq!(run(op("Constant").ints("value_ints", &[3])), ("1".into(), ElementType::Int64));
        let float = AttributeValue::Float(1.5);
        assert_eq!(run(op("Constant").attribute("value_float", float)), ("scalar".into(), ElementType::Float));
        assert_eq!(run(op("Constant").string("value_string", "a")), ("scalar".into(), ElementType::String));
        let sparse = SparseTensorDef {
            values: stored(ElementType::Double, &[1], &[0; 8]),
            dims: vec![4, 5],
            ..SparseTensorDef::default()
        };
        let sparse = op("Constant").attribute("sparse_value", AttributeValue::SparseTensor(sparse));
        assert_eq!(run(sparse), ("4×5".into(), ElementType::Double));
    }

    #[test]
    fn stored_integers_are_followed() {
        let bytes: Vec<u8> = [2_i64, -1].iter().flat_map(|number| number.to_le_bytes()).collect();
        let tensor = stored(ElementType::Int64, &[2], &bytes);
        let facts = op("Constant").attribute("value", AttributeValue::Tensor(tensor)).run(&[]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![2, -1]));
    }

    #[test]
    fn a_constant_needs_exactly_one_form() {
        assert!(op("Constant").dims(&[]).contains("needs the attribute value"));
        assert!(op("Constant").int("value_int", 1).ints("value_ints", &[1]).dims(&[]).contains("both given"));
    }

    #[test]
    fn a_tensor_of_equal_elements_keeps_symbolic_dims() {
        let shape = TensorFact::vector(vec![free("N"), Dim::constant(4)]).into();
        let tensor = stored(ElementType::Int64, &[1], &1_i64.to_le_bytes());
        let node = op("ConstantOfShape").attribute("value", AttributeValue::Tensor(tensor));
        let facts = node.run(&[shape]).unwrap();
        assert_eq!(dims(&facts[0]), "N×4");
        let value = facts[0].as_tensor().unwrap().value.clone().unwrap();
        assert_eq!(*value, Value::Uniform(Scalar::Integer(Dim::ONE)));
    }

    #[test]
    fn an_empty_shape_is_a_scalar_of_zero() {
        let facts = op("ConstantOfShape").run(&[ints(&[])]).unwrap();
        assert_eq!(dims(&facts[0]), "scalar");
        assert_eq!(facts[0].as_tensor().unwrap().single(), Some(Scalar::Real(0.0)));
        assert!(op("ConstantOfShape").dims(&[ints(&[2, -3])]).contains("dim 1 of the shape is -3"));
    }

    #[test]
    fn a_diagonal_of_ones_is_known() {
        let facts = op("EyeLike").int("k", 1).int("dtype", 7).run(&[float(&[2, 3])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![0, 1, 0, 0, 0, 1]));
    }
}
