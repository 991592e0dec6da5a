//! `Cast`, `CastLike`, `BitCast` and `Identity`.

use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Work, WorkCx, scalar, values};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar};

/// Where the target type comes from.
#[derive(Debug)]
enum Target {
    Given(ElementType),
    /// The type of the second input.
    Like,
}

#[derive(Debug)]
struct Cast {
    target: Target,
}

/// `Cast`.
pub(super) fn cast(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Cast { target: Target::Given(target(node)?) }))
}

/// `CastLike`.
pub(super) fn cast_like(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(Cast { target: Target::Like }))
}

/// The attribute `to`: a number, before opset 6 a word.
fn target(node: &NodeView<'_>) -> Result<ElementType, Fault> {
    if node.opset() < 6 && !matches!(node.int("to"), Ok(Some(_))) {
        let word = node.string("to")?.ok_or_else(|| node.missing("to"))?;
        return ElementType::from_name(&word.to_ascii_lowercase())
            .ok_or_else(|| Fault::attribute(format!("attribute to is \"{word}\", which is no element type")));
    }
    let code = node.int("to")?.ok_or_else(|| node.missing("to"))?;
    element_type("to", code)
}

/// The element type of an attribute that holds a `TensorProto.DataType`.
pub(super) fn element_type(attribute: &str, code: i64) -> Result<ElementType, Fault> {
    i32::try_from(code).ok().and_then(ElementType::from_code).ok_or_else(|| {
        let last = ElementType::ALL.iter().map(|element| element.code()).max().unwrap_or(0);
        Fault::attribute(format!("attribute {attribute} is {code}, element types are 1 to {last}"))
    })
}

impl Operator for Cast {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let target = match self.target {
            Target::Given(element) => Some(element),
            Target::Like => cx.element(1),
        };
        let Some(input) = cx.tensor(0) else { return Ok(vec![Fact::tensor(target, None)]) };
        let value = match (target, &input.shape) {
            (Some(target), Some(shape)) => values::map(&[input], shape, |scalars| {
                scalars.first().map_or(Scalar::Unknown, |scalar| convert(scalar, target))
            }),
            _ => None,
        };
        Ok(vec![values::fact(target, input.shape.clone(), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        if matches!(self.target, Target::Like) {
            let target_bytes = super::cost::tensor_bytes(cx.input(0)?)?;
            return Some(Cost { bytes_read: target_bytes, bytes_written: cx.bytes_out()?, ..Cost::FREE });
        }
        Cost::moved(cx)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }

    /// A cast to the type that is there already gives the tensor itself.
    fn shares_storage(&self, cx: &WorkCx<'_>) -> bool {
        matches!((cx.input(0), cx.output(0)), (Some(input), Some(output)) if input.element == output.element)
    }
}

/// One element under another type.
fn convert(scalar: &Scalar, target: ElementType) -> Scalar {
    if target == ElementType::Bool {
        return scalar::logical(scalar::truth(scalar));
    }
    if target.is_integer() {
        return scalar::fit(Some(target), saturate(scalar, target));
    }
    if target.is_real() {
        let real = match scalar {
            Scalar::Integer(dim) => scalar::quotient(dim.clone(), 1),
            other => other.clone(),
        };
        return scalar::fit(Some(target), real);
    }
    Scalar::Unknown
}

/// The integer part; reals beyond the type end at its limits.
fn saturate(scalar: &Scalar, target: ElementType) -> Scalar {
    let whole = scalar::truncate(scalar);
    let (Scalar::Real(_), Scalar::Integer(dim)) = (scalar, &whole) else { return whole };
    let Some(number) = dim.as_const() else { return whole };
    let bits = target.bits().clamp(1, 64);
    let (low, high) = if target.name().starts_with("int") {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    } else {
        (0, (1_i128 << bits) - 1)
    };
    Scalar::Integer(Dim::constant(number.clamp(low, high)))
}

/// `BitCast`: the same bits under a type of the same width.
#[derive(Debug)]
struct BitCast {
    to: ElementType,
}

/// `BitCast`.
pub(super) fn bit_cast(node: &NodeView<'_>) -> Built {
    Ok(Box::new(BitCast { to: target(node)? }))
}

impl Operator for BitCast {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        if let Some(from) = cx.element(0)
            && from.bits() != self.to.bits()
        {
            return Err(Fault::attribute(format!(
                "attribute to is {} with {} bits, the input is {from} with {} bits",
                self.to,
                self.to.bits(),
                from.bits()
            )));
        }
        Ok(vec![Fact::tensor(self.to, cx.shape(0).cloned())])
    }

    fn cost(&self, _cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }

    fn is_view(&self) -> bool {
        true
    }
}

/// The input under another name.
#[derive(Debug)]
struct Identity;

/// `Identity`.
pub(super) fn identity(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(Identity))
}

impl Operator for Identity {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        Ok(vec![cx.fact(0).cloned().unwrap_or_default()])
    }

    fn cost(&self, _cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }

    fn is_view(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::fact::TensorFact;
    use crate::ops::testing::{float, free, ints, op, reals, typed};

    #[test]
    fn a_symbol_comes_back_from_reals() {
        let n = free("N");
        let shape: Fact = TensorFact::vector(vec![n.clone(), Dim::constant(3)]).into();
        let real = op("Cast").int("to", 1).run(&[shape]).unwrap();
        assert_eq!(
            real[0].as_tensor().unwrap().elements().unwrap(),
            [Scalar::Quotient(n.clone(), 1), Scalar::Real(3.0)]
        );
        let back = op("Cast").int("to", 7).run(&real).unwrap();
        assert_eq!(back[0].as_tensor().unwrap().integers(), Some(vec![n, Dim::constant(3)]));
    }

    #[test]
    fn reals_lose_their_fraction_and_saturate() {
        let facts = op("Cast").int("to", 3).run(&[reals(&[-2.7, 2.7, 1e9])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![-2, 2, 127]));
        let facts = op("Cast").int("to", 9).run(&[reals(&[0.0, 0.5])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![0, 1]));
        let facts = op("Cast").int("to", 3).run(&[ints(&[300])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![44]));
    }

    #[test]
    fn old_files_name_the_type_with_a_word() {
        let facts = op("Cast").opset(5).string("to", "INT64").run(&[float(&[2])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().element, Some(ElementType::Int64));
    }

    #[test]
    fn a_type_that_does_not_exist_is_named() {
        assert!(op("Cast").int("to", 99).dims(&[float(&[1])]).contains("attribute to is 99, element types are 1 to"));
        assert!(op("Cast").dims(&[float(&[1])]).contains("needs the attribute to"));
    }

    #[test]
    fn cast_like_takes_the_type_of_its_second_input() {
        let facts = op("CastLike").run(&[float(&[2, 2]), typed(ElementType::Float16, &[1])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().element, Some(ElementType::Float16));
    }

    #[test]
    fn bits_are_kept_only_between_types_of_one_width() {
        let facts = op("BitCast").int("to", 6).run(&[float(&[2])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().element, Some(ElementType::Int32));
        assert!(op("BitCast").int("to", 7).dims(&[float(&[2])]).contains("64 bits"));
    }

    #[test]
    fn a_conversion_moves_bytes_and_computes_nothing() {
        let cost = op("Cast").int("to", 10).cost(&[float(&[8])]);
        assert_eq!(
            (cost.flops.as_const(), cost.bytes_read.as_const(), cost.bytes_written.as_const()),
            (Some(0), Some(32), Some(16))
        );
        assert_eq!(op("Identity").cost(&[float(&[8])]), Cost::FREE);
    }
}
