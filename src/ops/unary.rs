//! Elementwise operators of one tensor: activations, roundings, elementary functions, tests.

use super::table::Built;
use super::values;
use super::{Cost, CostCx, Fault, Function, InferCx, NodeView, Operator, Role, Saved, WorkCx, scalar};
use crate::diagnostics::Code;
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar};

/// How known elements are followed.
#[derive(Clone, Copy, Debug)]
enum Follow {
    /// Not at all.
    Nothing,
    /// A function of reals.
    Real(fn(f64) -> f64),
    /// A rule for all kinds of elements.
    Exact(fn(&Scalar) -> Scalar),
}

/// A function of one element.
#[derive(Debug)]
struct Unary {
    follow: Follow,
    /// Whether the result is `bool` whatever goes in.
    tests: bool,
    /// Element type that the input must have, where only one is allowed.
    wants: Option<ElementType>,
    /// Whether the slope or limits come in as inputs after the first.
    extra: Role,
    /// Whether the slope has one element for each channel instead of being broadcast.
    by_channel: bool,
    keeps: Keeps,
    function: Function,
}

/// What the backward pass of a function reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    /// Linear functions and steps: their slope is a constant.
    Nothing,
    /// What went in.
    Input,
    /// What came out, where the slope follows from it.
    Output,
    /// What went in, and the denominator.
    InputAndDenominator,
    /// What went in, and the second input.
    Inputs,
}

/// By the formulas of `derivatives.yaml` of `PyTorch`.
fn keeps(name: &str) -> Keeps {
    match name {
        "Neg" | "Floor" | "Ceil" | "Round" | "Sign" | "Not" | "BitwiseNot" | "IsNaN" | "IsInf" => Keeps::Nothing,
        // A leaky one keeps its result where it works in place, as networks have it nearly always.
        "Relu" | "LeakyRelu" | "Sigmoid" | "Tanh" | "Exp" | "Sqrt" | "Reciprocal" | "Tan" => Keeps::Output,
        "Softsign" => Keeps::InputAndDenominator,
        _ => Keeps::Input,
    }
}

/// What a function's kernel spends its time with.
fn function(name: &str) -> Function {
    match name {
        "Erf" | "Gelu" => Function::Error,
        "Relu" | "LeakyRelu" | "ThresholdedRelu" | "HardSigmoid" | "HardSwish" | "Neg" | "Abs" | "Floor" | "Ceil"
        | "Round" | "Sign" | "Not" | "BitwiseNot" | "IsNaN" | "IsInf" | "Clip" | "Shrink" | "Softsign"
        | "Reciprocal" | "Sqrt" => Function::Arithmetic,
        _ => Function::Exponential,
    }
}

/// `Abs`, `Relu`, `Sqrt`, ... : every elementwise operator of one tensor without further inputs.
pub(super) fn unary(node: &NodeView<'_>) -> Built {
    for name in ["alpha", "beta", "gamma", "bias", "lambd"] {
        node.float(name)?;
    }
    if node.op_type() == "Gelu"
        && let Some(mode) = node.string("approximate")?
        && !matches!(mode, "none" | "tanh")
    {
        return Err(Fault::attribute(format!(
            "attribute approximate is \"{mode}\", allowed are \"none\" and \"tanh\""
        )));
    }
    let tests = matches!(node.op_type(), "Not" | "IsNaN" | "IsInf");
    let wants = (node.op_type() == "Not").then_some(ElementType::Bool);
    Ok(Box::new(Unary {
        follow: follow(node.op_type()),
        tests,
        wants,
        extra: Role::Data,
        by_channel: false,
        keeps: keeps(node.op_type()),
        function: function(node.op_type()),
    }))
}

/// `PRelu`: the slope is trained and broadcast to the input; before opset 7 it has one element, or one for each channel.
pub(super) fn prelu(node: &NodeView<'_>) -> Built {
    let by_channel = node.opset() < 7;
    let (follow, keeps) = (Follow::Nothing, Keeps::Inputs);
    Ok(Box::new(Unary {
        follow,
        tests: false,
        wants: None,
        extra: Role::Weight,
        by_channel,
        keeps,
        function: Function::Arithmetic,
    }))
}

fn follow(name: &str) -> Follow {
    use Follow::{Exact, Nothing, Real};
    match name {
        "Abs" => Exact(|x| scalar::max(x, &scalar::neg(x))),
        "Neg" => Exact(scalar::neg),
        "Relu" => Exact(|x| match x {
            Scalar::Integer(dim) => Scalar::Integer(dim.max(&Dim::ZERO)),
            other => scalar::max(other, &Scalar::Real(0.0)),
        }),
        "Floor" => Exact(scalar::floor),
        "Ceil" => Exact(scalar::ceil),
        "Round" => Exact(scalar::round),
        "Sign" => Exact(sign),
        "Not" => Exact(|x| scalar::logical(scalar::truth(x).map(|truth| !truth))),
        "BitwiseNot" => Exact(|x| match x {
            Scalar::Integer(dim) => Scalar::Integer(-dim - 1),
            _ => Scalar::Unknown,
        }),
        "IsNaN" => Exact(|x| scalar::logical(x.as_real().map(f64::is_nan))),
        "Sqrt" => Real(libm::sqrt),
        "Exp" => Real(libm::exp),
        "Log" => Real(libm::log),
        "Reciprocal" => Exact(|x| scalar::div(&Scalar::Real(1.0), x)),
        "Erf" => Real(libm::erf),
        "Sin" => Real(libm::sin),
        "Cos" => Real(libm::cos),
        "Tan" => Real(libm::tan),
        "Asin" => Real(libm::asin),
        "Acos" => Real(libm::acos),
        "Atan" => Real(libm::atan),
        "Sinh" => Real(libm::sinh),
        "Cosh" => Real(libm::cosh),
        "Tanh" => Real(libm::tanh),
        "Asinh" => Real(libm::asinh),
        "Acosh" => Real(libm::acosh),
        "Atanh" => Real(libm::atanh),
        "Sigmoid" => Real(|x| 1.0 / (1.0 + libm::exp(-x))),
        "Softplus" => Real(|x| libm::log1p(libm::exp(x))),
        "Softsign" => Real(|x| x / (1.0 + x.abs())),
        _ => Nothing,
    }
}

fn sign(x: &Scalar) -> Scalar {
    match x {
        Scalar::Integer(dim) => match dim.compare(&Dim::ZERO) {
            Some(order) => Scalar::Integer(Dim::constant(order as i128)),
            None => Scalar::Unknown,
        },
        Scalar::Real(number) if *number == 0.0 => Scalar::Real(0.0),
        Scalar::Real(number) => Scalar::Real(1.0_f64.copysign(*number)),
        _ => Scalar::Unknown,
    }
}

impl Operator for Unary {
    fn function(&self) -> Function {
        self.function
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let Some(input) = cx.tensor(0) else {
            return Ok(vec![Fact::tensor(self.tests.then_some(ElementType::Bool), None)]);
        };
        if let (Some(wants), Some(found)) = (self.wants, input.element)
            && wants != found
        {
            return Err(Fault::new(Code::TypeMismatch, format!("the input is {found}, it must be {wants}")));
        }
        if self.extra == Role::Weight
            && let (Some(data), Some(slope)) = (cx.shape(0), cx.shape(1))
        {
            if self.by_channel { each_channel(slope, data)? } else { one_way(slope, data)? }
        }
        let element = if self.tests { Some(ElementType::Bool) } else { input.element };
        let compute = |scalars: &[Scalar]| {
            let result = match (self.follow, scalars.first()) {
                (Follow::Real(function), Some(scalar)) => {
                    scalar.as_real().map_or(Scalar::Unknown, |number| Scalar::Real(function(number)))
                }
                (Follow::Exact(rule), Some(scalar)) => rule(scalar),
                _ => Scalar::Unknown,
            };
            scalar::fit(element, result)
        };
        let value = match (&input.shape, self.follow) {
            (_, Follow::Nothing) | (None, _) => None,
            (Some(shape), _) => values::map(&[input], shape, compute),
        };
        Ok(vec![values::fact(element, input.shape.clone(), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::elementwise(cx, 1)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { self.extra }
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let saved = match self.keeps {
            Keeps::Nothing => Saved::NOTHING,
            Keeps::Input => Saved::input(0),
            Keeps::Output => Saved::output(0),
            Keeps::InputAndDenominator => {
                Saved::input(0).and(Saved::extra(cx.output(0).map_or(0, |output| output.bytes())))
            }
            Keeps::Inputs => Saved::inputs(0..2),
        };
        saved.when(cx.has_backward())
    }
}

/// Checks that a slope is broadcast to the data and not the other way round.
fn one_way(slope: &crate::ir::shape::Shape, data: &crate::ir::shape::Shape) -> Result<(), Fault> {
    let shape = super::broadcast::pair(data, slope)?;
    let grows = shape.rank() > data.rank()
        || shape.dims().iter().zip(data.dims()).any(|(after, before)| {
            matches!((after.as_const(), before.as_const()), (Some(after), Some(before)) if after != before)
        });
    if grows {
        return Err(Fault::shape(format!("slope {slope} does not broadcast to the input {data}")));
    }
    Ok(())
}

/// Checks that a slope has one element, or one for each channel of the data.
fn each_channel(slope: &crate::ir::shape::Shape, data: &crate::ir::shape::Shape) -> Result<(), Fault> {
    let count = slope.elements();
    match data.dim(1) {
        Some(channels) if count != Dim::ONE && count.is_eq(channels) == Some(false) => {
            Err(Fault::shape(format!("slope {slope} has neither 1 element nor one for each of {channels} channels")))
        }
        _ => Ok(()),
    }
}

/// Limits of an old `Clip`, which are attributes.
#[derive(Debug)]
struct Clip {
    attributes: Option<[f32; 2]>,
}

/// `Clip`.
pub(super) fn clip(node: &NodeView<'_>) -> Built {
    let limits = [node.float("min")?.unwrap_or(f32::MIN), node.float("max")?.unwrap_or(f32::MAX)];
    Ok(Box::new(Clip { attributes: (node.opset() < 11).then_some(limits) }))
}

impl Operator for Clip {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let Some(input) = cx.tensor(0) else { return Ok(vec![Fact::tensor(None, None)]) };
        let mut limits = [None, None];
        if let Some(attributes) = self.attributes {
            limits = attributes.map(|limit| Some(Scalar::Real(f64::from(limit))));
        } else {
            for (index, limit) in limits.iter_mut().enumerate() {
                let Some(tensor) = cx.tensor(index + 1) else { continue };
                if let Some(shape) = &tensor.shape
                    && shape.elements().as_const().is_some_and(|count| count != 1)
                {
                    let name = if index == 0 { "min" } else { "max" };
                    return Err(Fault::shape(format!("{name} must be a scalar, it has shape {shape}")));
                }
                *limit = Some(tensor.single().unwrap_or(Scalar::Unknown));
            }
        }
        let [low, high] = limits;
        let compute = |scalars: &[Scalar]| {
            let mut scalar = scalars.first().cloned().unwrap_or(Scalar::Unknown);
            if let Some(low) = &low {
                scalar = scalar::max(&scalar, low);
            }
            if let Some(high) = &high {
                scalar = scalar::min(&scalar, high);
            }
            scalar::fit(input.element, scalar)
        };
        let value = input.shape.as_ref().and_then(|shape| values::map(&[input], shape, compute));
        Ok(vec![values::fact(input.element, input.shape.clone(), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::elementwise(cx, 1)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::input(0).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{dims, float, ints, op, reals, typed};

    fn value(facts: &[Fact]) -> Vec<Scalar> {
        facts[0].as_tensor().unwrap().elements().unwrap()
    }

    #[test]
    fn an_activation_costs_one_operation_an_element() {
        let cost = op("Relu").cost(&[float(&[2, 8])]);
        assert_eq!((cost.macs.as_const(), cost.flops.as_const()), (Some(0), Some(16)));
        assert_eq!(cost.backward_flops.as_const(), Some(16));
        assert_eq!((cost.bytes_read.as_const(), cost.bytes_written.as_const()), (Some(64), Some(64)));
    }

    #[test]
    fn known_elements_are_computed_in_the_precision_of_the_tensor() {
        let facts = op("Sqrt").run(&[reals(&[2.0])]).unwrap();
        assert_eq!(value(&facts), [Scalar::Real(f64::from(2.0_f32.sqrt()))]);
        let facts = op("Neg").run(&[ints(&[3, -1])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![-3, 1]));
    }

    #[test]
    fn tests_give_bool() {
        let facts = op("IsNaN").run(&[float(&[3])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().element, Some(ElementType::Bool));
        assert_eq!(
            op("Not").dims(&[typed(ElementType::Float, &[3])]),
            "DL0304 type-mismatch: the input is float, it must be bool"
        );
    }

    #[test]
    fn a_limit_left_out_is_no_fault() {
        // Case 111.
        let (facts, remarks, _) =
            op("Clip").run_optional(&[Some(reals(&[-1.0, 7.0])), None, Some(reals(&[6.0]))]).unwrap();
        assert!(remarks.is_empty());
        assert_eq!(dims(&facts[0]), "2");
        assert_eq!(value(&facts), [Scalar::Real(-1.0), Scalar::Real(6.0)]);
    }

    #[test]
    fn a_slope_wider_than_the_input_is_refused() {
        assert_eq!(op("PRelu").dims(&[float(&[1, 4, 2, 2]), float(&[4, 1, 1])]), "1×4×2×2");
        assert!(op("PRelu").dims(&[float(&[4]), float(&[2, 4])]).contains("does not broadcast"));
    }

    #[test]
    fn an_old_slope_has_one_element_for_each_channel() {
        let old = |slope: &[i128]| op("PRelu").opset(6).dims(&[float(&[2, 3, 4, 5]), float(slope)]);
        assert_eq!(old(&[3]), "2×3×4×5");
        assert_eq!(old(&[1]), "2×3×4×5");
        assert!(old(&[4]).contains("neither 1 element nor one for each of 3 channels"));
    }

    #[test]
    fn limits_and_slopes_have_their_roles() {
        use crate::frontend::onnx::model::NodeDef;
        let node = NodeDef { op_type: "PRelu".into(), ..NodeDef::default() };
        assert_eq!(prelu(&NodeView::new(&node, 16)).unwrap().role(1), Role::Weight);
        assert_eq!(clip(&NodeView::new(&node, 16)).unwrap().role(1), Role::Setting);
    }
}
