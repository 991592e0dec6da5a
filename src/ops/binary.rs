//! Elementwise operators of two or more tensors, under broadcasting: arithmetic, logic, comparisons, and `Where`.

use super::table::Built;
use super::{
    Cost, CostCx, Fault, Function, InferCx, NodeView, Operator, Role, Saved, WorkCx, broadcast, scalar, values,
};
use crate::diagnostics::Code;
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar, TensorFact};
use crate::ir::shape::Shape;

type Rule = fn(&Scalar, &Scalar) -> Scalar;

/// A function of two elements.
#[derive(Debug)]
struct Binary {
    rule: Rule,
    /// Whether the result is `bool` whatever goes in.
    compares: bool,
    /// Whether the inputs may have different element types.
    mixed: bool,
    /// Axis of the first input at which the second stands, before opset 7.
    axis: Option<i64>,
    keeps: Keeps,
}

/// What the backward pass of a function of two elements reads, by the formulas of `derivatives.yaml` of `PyTorch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    /// Sums, comparisons, logic.
    Nothing,
    /// A product: for each input that needs a gradient, the other.
    Other,
    /// A quotient: the denominator for both gradients, the numerator for that of the denominator.
    Quotient,
    /// A remainder: both for the gradient of the second.
    Remainder,
    /// A power: for the gradient of the exponent its base, itself and the result.
    Power,
}

/// `Add`, `Equal`, `And`, ... : every elementwise operator of exactly two tensors.
pub(super) fn binary(node: &NodeView<'_>) -> Built {
    let compares = matches!(
        node.op_type(),
        "Equal" | "Less" | "Greater" | "LessOrEqual" | "GreaterOrEqual" | "And" | "Or" | "Xor"
    );
    let axis = if node.opset() < 7 && node.flag("broadcast", false)? { node.int("axis")? } else { None };
    let rule: Rule = match node.op_type() {
        "Add" => scalar::add,
        "Sub" => scalar::sub,
        "Mul" => scalar::mul,
        "Div" => scalar::div,
        "Pow" => scalar::pow,
        "Mod" if node.flag("fmod", false)? => |a, b| scalar::modulo(a, b, true),
        "Mod" => |a, b| scalar::modulo(a, b, false),
        "Equal" => |a, b| scalar::logical(scalar::equal(a, b)),
        "Less" => |a, b| scalar::logical(scalar::less(a, b, false)),
        "Greater" => |a, b| scalar::logical(scalar::less(b, a, false)),
        "LessOrEqual" => |a, b| scalar::logical(scalar::less(a, b, true)),
        "GreaterOrEqual" => |a, b| scalar::logical(scalar::less(b, a, true)),
        "And" => |a, b| scalar::logical(and(scalar::truth(a), scalar::truth(b))),
        "Or" => |a, b| scalar::logical(or(scalar::truth(a), scalar::truth(b))),
        "Xor" => |a, b| scalar::logical(scalar::truth(a).zip(scalar::truth(b)).map(|(a, b)| a != b)),
        "BitwiseAnd" => |a, b| bits(a, b, |a, b| a & b),
        "BitwiseOr" => |a, b| bits(a, b, |a, b| a | b),
        "BitwiseXor" => |a, b| bits(a, b, |a, b| a ^ b),
        "BitShift" => match node.string("direction")? {
            Some("LEFT") => |a, b| bits(a, b, |a, b| shift(a, b, true)),
            Some("RIGHT") => |a, b| bits(a, b, |a, b| shift(a, b, false)),
            Some(other) => {
                return Err(Fault::attribute(format!(
                    "attribute direction is \"{other}\", allowed are \"LEFT\" and \"RIGHT\""
                )));
            }
            None => return Err(node.missing("direction")),
        },
        _ => |_, _| Scalar::Unknown,
    };
    let keeps = match node.op_type() {
        "Mul" => Keeps::Other,
        "Div" => Keeps::Quotient,
        "Mod" => Keeps::Remainder,
        "Pow" => Keeps::Power,
        _ => Keeps::Nothing,
    };
    Ok(Box::new(Binary { rule, compares, mixed: node.op_type() == "Pow", axis, keeps }))
}

fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    if a == Some(false) || b == Some(false) { Some(false) } else { a.and(b) }
}

fn or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    if a == Some(true) || b == Some(true) { Some(true) } else { a.and(b) }
}

fn bits(a: &Scalar, b: &Scalar, rule: fn(i128, i128) -> i128) -> Scalar {
    match (a, b) {
        (Scalar::Integer(a), Scalar::Integer(b)) => match (a.as_const(), b.as_const()) {
            (Some(a), Some(b)) => Scalar::Integer(Dim::constant(rule(a, b))),
            _ => Scalar::Unknown,
        },
        _ => Scalar::Unknown,
    }
}

/// A shift of at most 64 places; elements are unsigned and have at most 64 bits.
fn shift(number: i128, places: i128, left: bool) -> i128 {
    let Ok(places) = u32::try_from(places.clamp(0, 64)) else { return 0 };
    if left { (number & i128::from(u64::MAX >> places.min(63))) << places } else { number >> places }
}

/// Element type of inputs that must agree.
fn common_type(cx: &InferCx<'_>, inputs: impl IntoIterator<Item = usize>) -> Result<Option<ElementType>, Fault> {
    let mut common = None;
    for input in inputs {
        match (common, cx.element(input)) {
            (Some(first), Some(other)) if first != other => {
                let message = format!("inputs have the element types {first} and {other}, they must be equal");
                return Err(Fault::new(Code::TypeMismatch, message).help("a Cast makes them equal"));
            }
            (None, found) => common = found,
            _ => {}
        }
    }
    Ok(common)
}

impl Binary {
    /// The second shape with the ones that an old `axis` attribute asks for.
    fn second(&self, a: &Shape, b: &Shape) -> Result<Shape, Fault> {
        let Some(axis) = self.axis else { return Ok(b.clone()) };
        let start = a.axis(axis).filter(|start| start + b.rank() <= a.rank()).ok_or_else(|| {
            let most = a.rank().saturating_sub(b.rank());
            Fault::attribute(format!("attribute axis is {axis}, allowed is 0 to {most} for shapes {a} and {b}"))
        })?;
        let ones = a.rank() - b.rank() - start;
        Ok(b.dims().iter().cloned().chain(std::iter::repeat_n(Dim::ONE, ones)).collect())
    }
}

impl Operator for Binary {
    fn function(&self) -> Function {
        if self.mixed { Function::Power } else { Function::Arithmetic }
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let operands = if self.mixed { 0..1 } else { 0..2 };
        let found = common_type(cx, operands)?;
        let element = if self.compares { Some(ElementType::Bool) } else { found };
        let (Some(a), Some(b)) = (cx.tensor(0), cx.tensor(1)) else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let (Some(a_shape), Some(b_shape)) = (&a.shape, &b.shape) else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let second = self.second(a_shape, b_shape)?;
        let shape = broadcast::pair(a_shape, &second)?;
        let b = TensorFact { shape: Some(second), ..b.clone() };
        let value = values::map(&[a, &b], &shape, |scalars| match scalars {
            [a, b] => scalar::fit(element, (self.rule)(a, b)),
            _ => Scalar::Unknown,
        });
        Ok(vec![values::fact(element, Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        if self.compares {
            let flops = cx.elements_out(0)?;
            return Cost::computed(cx, flops, &Dim::ZERO);
        }
        Cost::elementwise(cx, 1)
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let saved = match self.keeps {
            Keeps::Nothing => Saved::NOTHING,
            Keeps::Other => cx.other_operands(0, 1),
            Keeps::Quotient => Saved::input(1).and(Saved::input(0).when(cx.needs(1))),
            Keeps::Remainder => Saved::inputs(0..2).when(cx.needs(1)),
            // An exponent of one number is a number of the code.
            Keeps::Power if !cx.needs(1) && cx.input(1).is_some_and(|exponent| exponent.elements() == 1) => {
                Saved::input(0)
            }
            Keeps::Power => Saved::inputs(0..2).and(Saved::output(0).when(cx.needs(1))),
        };
        saved.when(cx.has_backward())
    }
}

/// A function of any number of elements: `Min`, `Max`, `Sum`, `Mean`.
#[derive(Debug)]
struct Variadic {
    rule: Rule,
    mean: bool,
    /// Whether one of the elements is chosen, so that the backward pass compares them again.
    chooses: bool,
    /// Whether shapes may differ, since version 8.
    broadcasts: bool,
}

/// `Min`, `Max`, `Sum`, `Mean`.
pub(super) fn variadic(node: &NodeView<'_>) -> Built {
    let rule = match node.op_type() {
        "Min" => scalar::min,
        "Max" => scalar::max,
        _ => scalar::add,
    };
    let chooses = matches!(node.op_type(), "Min" | "Max");
    Ok(Box::new(Variadic { rule, mean: node.op_type() == "Mean", chooses, broadcasts: node.opset() >= 8 }))
}

impl Operator for Variadic {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let count = cx.input_count();
        let element = common_type(cx, 0..count)?;
        if !self.broadcasts {
            expect_alike(cx, count)?;
        }
        let Some(shape) = broadcast::inputs(cx, 0..count)? else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let tensors: Vec<_> = (0..count).filter_map(|input| cx.tensor(input)).collect();
        let value = values::map(&tensors, &shape, |scalars| {
            let Some((first, rest)) = scalars.split_first() else { return Scalar::Unknown };
            let folded = rest.iter().fold(first.clone(), |folded, next| (self.rule)(&folded, next));
            let result = if self.mean { scalar::div(&folded, &real_count(count)) } else { folded };
            scalar::fit(element, result)
        });
        Ok(vec![values::fact(element, Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let elements = cx.elements_out(0)?;
        let inputs = (0..).take_while(|&input| cx.has(input)).count();
        let operations = inputs.saturating_sub(usize::from(!self.mean));
        Cost::computed(cx, &elements * Dim::from(operations), &elements)
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::inputs(0..cx.inputs.len()).when(self.chooses && cx.inputs.len() > 1 && cx.has_backward())
    }
}

/// Checks that all inputs have one shape.
fn expect_alike(cx: &InferCx<'_>, count: usize) -> Result<(), Fault> {
    let Some(first) = cx.shape(0) else { return Ok(()) };
    for (input, shape) in (1..count).filter_map(|input| Some((input, cx.shape(input)?))) {
        let differ = |(left, right): (&Dim, &Dim)| left.is_eq(right) == Some(false);
        if shape.rank() != first.rank() || first.dims().iter().zip(shape.dims()).any(differ) {
            return Err(Fault::shape(format!(
                "inputs 0 and {input} are {first} and {shape}; before operator set 8 all must have one shape"
            )));
        }
    }
    Ok(())
}

fn real_count(count: usize) -> Scalar {
    Scalar::Real(scalar::to_real(i128::try_from(count).unwrap_or(i128::MAX)))
}

/// Takes each element from one of two tensors.
#[derive(Debug)]
struct Where;

/// `Where`.
pub(super) fn select(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(Where))
}

impl Operator for Where {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        if let Some(found) = cx.element(0)
            && found != ElementType::Bool
        {
            return Err(Fault::new(Code::TypeMismatch, format!("the condition is {found}, it must be bool")));
        }
        let element = common_type(cx, 1..3)?;
        let Some(shape) = broadcast::inputs(cx, 0..3)? else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let value = match (cx.tensor(0), cx.tensor(1), cx.tensor(2)) {
            (Some(condition), Some(x), Some(y)) if x.value.is_some() || y.value.is_some() => {
                values::map(&[condition, x, y], &shape, |scalars| match scalars {
                    [condition, x, y] => match scalar::truth(condition) {
                        Some(true) => x.clone(),
                        Some(false) => y.clone(),
                        None if x == y => x.clone(),
                        None => Scalar::Unknown,
                    },
                    _ => Scalar::Unknown,
                })
            }
            _ => None,
        };
        Ok(vec![values::fact(element, Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::elementwise(cx, 1)
    }

    fn role(&self, _input: usize) -> Role {
        Role::Data
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::input(0).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::fact::Value;
    use crate::ops::testing::{dims, float, free, ints, op, reals, typed};

    #[test]
    fn variadic_operators_broadcast_since_version_8() {
        let inputs = [float(&[2, 2]), float(&[2])];
        assert_eq!(op("Sum").dims(&inputs), "2×2");
        let fault = op("Sum").opset(7).run(&inputs).unwrap_err();
        assert_eq!(fault.message, "inputs 0 and 1 are 2×2 and 2; before operator set 8 all must have one shape");
        assert_eq!(op("Max").opset(7).dims(&[float(&[2]), float(&[2])]), "2");
    }

    fn vector(elements: &[Dim]) -> Fact {
        TensorFact::vector(elements.to_vec()).into()
    }

    fn integers(facts: &[Fact]) -> Vec<Dim> {
        facts[0].as_tensor().unwrap().integers().unwrap()
    }

    #[test]
    fn sum_with_a_bias_has_one_operation_an_element() {
        let cost = op("Add").cost(&[float(&[2, 3]), float(&[3])]);
        assert_eq!(cost.flops.as_const(), Some(6));
        assert_eq!(cost.backward_flops.as_const(), Some(12));
        assert_eq!(cost.bytes_read.as_const(), Some(36));
        assert_eq!(op("Equal").cost(&[float(&[6]), float(&[1])]).backward_flops.as_const(), Some(0));
    }

    #[test]
    fn shapes_that_do_not_broadcast_are_named() {
        // Case 29.
        let fault = op("Add").run(&[float(&[3, 4]), float(&[3])]).unwrap_err();
        assert!(fault.message.contains("last dims 4 and 3 differ (axis 1)"));
        assert!(fault.help.unwrap().contains("[3, 1]"));
    }

    #[test]
    fn integer_arithmetic_follows_symbols() {
        let n = free("N");
        let half = op("Div").run(&[vector(std::slice::from_ref(&n)), ints(&[2])]).unwrap();
        assert_eq!(integers(&half), [n.floor_div(&Dim::constant(2))]);
        let sum = op("Sub").run(&[vector(&[n.clone(), &n + 3]), ints(&[1])]).unwrap();
        assert_eq!(integers(&sum), [&n - 1, &n + 2]);
    }

    #[test]
    fn comparisons_with_a_symbol_are_decided_where_proven() {
        let facts = op("Equal").run(&[vector(&[free("N"), Dim::constant(-1)]), ints(&[-1])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().element, Some(ElementType::Bool));
        assert_eq!(integers(&facts), [Dim::ZERO, Dim::ONE]);
        let facts = op("Equal").run(&[vector(&[free("N"), Dim::ONE]), ints(&[1])]).unwrap();
        let elements = facts[0].as_tensor().unwrap().elements().unwrap();
        assert_eq!(elements, [Scalar::Unknown, Scalar::Integer(Dim::ONE)]);
    }

    #[test]
    fn false_and_anything_is_false() {
        let unknown = typed(ElementType::Bool, &[1]);
        let facts = op("And").run(&[unknown.clone(), vector_bool(0)]).unwrap();
        assert_eq!(integers(&facts), [Dim::ZERO]);
        let facts = op("Or").run(&[unknown, vector_bool(0)]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().value, None);
    }

    fn vector_bool(number: i128) -> Fact {
        let elements = vec![Scalar::Integer(Dim::constant(number))];
        TensorFact::with_elements(Some(ElementType::Bool), crate::ops::testing::shape(&[1]), elements).into()
    }

    #[test]
    fn where_chooses_element_by_element() {
        let condition = op("Equal").run(&[vector(&[Dim::constant(-1), Dim::ONE]), ints(&[-1])]).unwrap().remove(0);
        let n = free("N");
        let facts = op("Where").run(&[condition, vector(&[n.clone(), Dim::ZERO]), ints(&[7, 8])]).unwrap();
        assert_eq!(integers(&facts), [n, Dim::constant(8)]);
    }

    #[test]
    fn equal_elements_of_a_symbolic_tensor_are_followed() {
        let shape = Shape::new(vec![free("N"), Dim::constant(4)]);
        let ones = values::fact(Some(ElementType::Int64), Some(shape), values::uniform(Scalar::Integer(Dim::ONE)));
        let facts = op("Mul").run(&[ones, ints(&[-1])]).unwrap();
        assert_eq!(dims(&facts[0]), "N×4");
        let value = facts[0].as_tensor().unwrap().value.clone().unwrap();
        assert_eq!(*value, Value::Uniform(Scalar::Integer(Dim::constant(-1))));
    }

    #[test]
    fn element_types_must_agree_except_for_powers() {
        let message = op("Add").dims(&[float(&[2]), typed(ElementType::Double, &[2])]);
        assert!(message.contains("float and double"), "{message}");
        assert_eq!(op("Pow").dims(&[float(&[2]), ints(&[2])]), "2");
    }

    #[test]
    fn before_opset_7_an_axis_places_the_second_input() {
        let node = op("Add").opset(6).int("broadcast", 1).int("axis", 1);
        assert_eq!(node.dims(&[float(&[2, 3, 4]), float(&[3])]), "2×3×4");
        let node = op("Add").opset(6).int("broadcast", 1).int("axis", 2);
        assert!(node.dims(&[float(&[2, 3, 4]), float(&[4, 5])]).contains("axis is 2, allowed is 0 to 1"));
    }

    #[test]
    fn a_sum_of_three_has_two_operations_an_element() {
        let inputs = [float(&[4, 1]), float(&[5]), float(&[1])];
        assert_eq!(op("Sum").cost(&inputs).flops.as_const(), Some(40));
        assert_eq!(op("Mean").dims(&inputs), "4×5");
        let facts = op("Max").run(&[reals(&[1.0, 5.0]), reals(&[2.0])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().reals(), Some(vec![2.0, 5.0]));
    }

    #[test]
    fn shifts_and_masks_of_numbers() {
        let shifted = op("BitShift").string("direction", "LEFT").run(&[ints(&[1, 3]), ints(&[4])]).unwrap();
        assert_eq!(integers(&shifted), [Dim::constant(16), Dim::constant(48)]);
        let masked = op("BitwiseAnd").run(&[ints(&[13]), ints(&[6])]).unwrap();
        assert_eq!(integers(&masked), [Dim::constant(4)]);
        assert!(op("BitShift").string("direction", "UP").dims(&[ints(&[1]), ints(&[1])]).contains("direction"));
    }
}
