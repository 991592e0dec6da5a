//! Random tensors: `RandomNormal`, `RandomUniform`, their `Like` forms, `Bernoulli`, `Multinomial`.

use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, cast};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// Where the shape comes from.
#[derive(Debug)]
enum Form {
    Given(Shape),
    /// That of the input, which is not read.
    Like,
    /// That of the input, whose elements are probabilities.
    Chances,
    /// So many draws for each row of the input.
    Draws(i64),
}

#[derive(Debug)]
struct Random {
    form: Form,
    element: Option<ElementType>,
}

fn dtype(node: &NodeView<'_>) -> Result<Option<ElementType>, Fault> {
    node.int("dtype")?.map(|code| cast::element_type("dtype", code)).transpose()
}

/// `RandomNormal` and `RandomUniform`.
pub(super) fn random(node: &NodeView<'_>) -> Built {
    let dims = node.ints("shape")?.ok_or_else(|| node.missing("shape"))?;
    if let Some(dim) = dims.iter().find(|&&dim| dim < 0) {
        return Err(Fault::attribute(format!("attribute shape holds {dim}, allowed is 0 and more")));
    }
    let shape = dims.into_iter().map(Dim::from).collect();
    let element = dtype(node)?.or(Some(ElementType::Float));
    Ok(Box::new(Random { form: Form::Given(shape), element }))
}

/// `RandomNormalLike` and `RandomUniformLike`.
pub(super) fn random_like(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Random { form: Form::Like, element: dtype(node)? }))
}

/// `Bernoulli`.
pub(super) fn bernoulli(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Random { form: Form::Chances, element: dtype(node)? }))
}

/// `Multinomial`.
pub(super) fn multinomial(node: &NodeView<'_>) -> Built {
    let draws = node.int_or("sample_size", 1)?;
    if draws < 0 {
        return Err(Fault::attribute(format!("attribute sample_size is {draws}, allowed is 0 and more")));
    }
    let element = dtype(node)?.or(Some(ElementType::Int32));
    Ok(Box::new(Random { form: Form::Draws(draws), element }))
}

impl Operator for Random {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let input = cx.shape(0);
        let shape = match (&self.form, input) {
            (Form::Given(shape), _) => Some(shape.clone()),
            (Form::Draws(draws), Some(input)) => {
                let [batch, _] = input.dims() else {
                    return Err(Fault::shape(format!("the input must have rank 2, it has shape {input}")));
                };
                Some(Shape::new(vec![batch.clone(), Dim::from(*draws)]))
            }
            (_, input) => input.cloned(),
        };
        Ok(vec![Fact::tensor(self.element.or_else(|| cx.element(0)), shape)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let flops = cx.elements_out(0)?;
        let reads = matches!(self.form, Form::Chances | Form::Draws(_));
        let bytes_read = if reads { cx.bytes_in()? } else { Dim::ZERO };
        Some(Cost { flops, bytes_read, bytes_written: cx.bytes_out()?, ..Cost::FREE })
    }

    fn role(&self, _input: usize) -> Role {
        Role::Data
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{float, op, typed};

    #[test]
    fn shape_and_type_come_from_attributes_or_the_input() {
        assert_eq!(op("RandomNormal").ints("shape", &[2, 3]).run(&[]).unwrap(), [float(&[2, 3])]);
        let facts = op("RandomUniformLike").int("dtype", 10).run(&[float(&[4])]).unwrap();
        assert_eq!(facts, [typed(ElementType::Float16, &[4])]);
        assert_eq!(op("Bernoulli").run(&[float(&[4])]).unwrap(), [float(&[4])]);
        let facts = op("Multinomial").int("sample_size", 5).run(&[float(&[2, 9])]).unwrap();
        assert_eq!(facts, [typed(ElementType::Int32, &[2, 5])]);
    }

    #[test]
    fn attributes_are_checked() {
        assert!(op("RandomNormal").ints("shape", &[-1]).dims(&[]).contains("shape holds -1"));
        assert!(op("RandomNormal").dims(&[]).contains("needs the attribute shape"));
        assert!(op("Multinomial").int("sample_size", -1).dims(&[float(&[2, 9])]).contains("sample_size is -1"));
    }

    #[test]
    fn the_input_of_a_like_form_is_not_read() {
        let cost = op("RandomNormalLike").cost(&[float(&[4])]);
        assert_eq!(
            (cost.flops.as_const(), cost.bytes_read.as_const(), cost.bytes_written.as_const()),
            (Some(4), Some(0), Some(16))
        );
    }
}
