//! `Range`: numbers from a start to a limit.

use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, scalar, values};
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, Scalar};
use crate::ir::shape::Shape;

#[derive(Debug)]
struct Range;

/// `Range`.
pub(super) fn range(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(Range))
}

impl Operator for Range {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = (0..3).find_map(|input| cx.element(input));
        for (input, name) in ["start", "limit", "delta"].into_iter().enumerate() {
            if let Some(shape) = cx.shape(input)
                && shape.elements().as_const().is_some_and(|count| count != 1)
            {
                return Err(Fault::shape(format!("{name} must be a scalar, it has shape {shape}")));
            }
        }
        let scalar = |input| cx.tensor(input).and_then(|tensor| tensor.single()).unwrap_or(Scalar::Unknown);
        let (start, limit, delta) = (scalar(0), scalar(1), scalar(2));
        if scalar::truth(&delta) == Some(false) {
            return Err(Fault::shape("delta is 0, allowed is any other number"));
        }
        let count = count(&start, &limit, &delta);
        let count = count.unwrap_or_else(|| cx.fresh_dim(0, 0, 0, None));
        let shape = Shape::new(vec![count]);
        let value = match (&start, &delta) {
            (Scalar::Unknown, _) | (_, Scalar::Unknown) => None,
            _ => values::build(&shape, |index| {
                let place = index.first().map_or(Dim::ZERO, |&place| Dim::from(place));
                let place = match &start {
                    Scalar::Integer(_) => Scalar::Integer(place),
                    _ => scalar::quotient(place, 1),
                };
                scalar::fit(element, scalar::add(&start, &scalar::mul(&place, &delta)))
            }),
        };
        Ok(vec![values::fact(element, Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost { bytes_written: cx.bytes_out()?, ..Cost::FREE })
    }

    fn role(&self, _input: usize) -> Role {
        Role::Setting
    }
}

/// `max(ceil((limit - start) / delta), 0)`, where it is certain.
fn count(start: &Scalar, limit: &Scalar, delta: &Scalar) -> Option<Dim> {
    let span = scalar::sub(limit, start);
    let count = match (&span, delta) {
        (Scalar::Integer(span), Scalar::Integer(delta)) => {
            let (lo, hi) = delta.range();
            if lo.is_some_and(|lo| lo >= 0) {
                span.ceil_div(delta)
            } else if hi.is_some_and(|hi| hi <= 0) {
                (-span).ceil_div(&-delta)
            } else {
                return None;
            }
        }
        _ => match scalar::truncate(&scalar::ceil(&scalar::div(&span, delta))) {
            Scalar::Integer(count) => count,
            _ => return None,
        },
    };
    Some(if count.is_ge(&Dim::ZERO) == Some(true) { count } else { count.max(&Dim::ZERO) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontend::onnx::model::AttributeValue;
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{dims, free, op, typed};

    fn int(number: i64) -> Fact {
        op("Constant").int("value_int", number).run(&[]).unwrap().remove(0)
    }

    fn real(number: f32) -> Fact {
        op("Constant").attribute("value_float", AttributeValue::Float(number)).run(&[]).unwrap().remove(0)
    }

    #[test]
    fn the_count_rounds_up_and_is_never_negative() {
        assert_eq!(op("Range").dims(&[int(0), int(10), int(3)]), "4");
        assert_eq!(op("Range").dims(&[int(10), int(0), int(-4)]), "3");
        assert_eq!(op("Range").dims(&[int(5), int(0), int(1)]), "0");
        assert_eq!(op("Range").dims(&[real(0.0), real(1.0), real(0.3)]), "4");
        assert!(op("Range").dims(&[int(0), int(1), int(0)]).contains("delta is 0"));
    }

    #[test]
    fn a_symbolic_limit_gives_a_symbolic_count() {
        let n = values::int_scalar(free("N"));
        assert_eq!(op("Range").dims(&[int(0), n.clone(), int(1)]), "N");
        let facts = op("Range").run(&[n, values::int_scalar(free("N") + 3), int(1)]).unwrap();
        assert_eq!(dims(&facts[0]), "3");
        let expected = vec![free("N"), free("N") + 1, free("N") + 2];
        assert_eq!(facts[0].as_tensor().unwrap().integers(), Some(expected));
        let real = op("Cast").int("to", 1).run(&[values::int_scalar(free("N"))]).unwrap().remove(0);
        assert_eq!(op("Range").dims(&[super::tests::real(0.0), real, super::tests::real(1.0)]), "N");
    }

    #[test]
    fn unknown_bounds_leave_a_fresh_dim() {
        let unknown = typed(ElementType::Int64, &[]);
        assert_eq!(op("Range").dims(&[int(0), unknown, int(1)]), "y0.0");
    }
}
