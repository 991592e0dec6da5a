//! `NonZero` and `Compress`: as many elements as the values decide.

use super::table::Built;
use super::values::Grid;
use super::{
    Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx, axes, scalar, values,
};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar, TensorFact};
use crate::ir::shape::Shape;

/// Indices of the elements that are not zero.
#[derive(Debug)]
struct NonZero;

/// `NonZero`.
pub(super) fn non_zero(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(NonZero))
}

/// Places, in row-major order, of the elements that are certainly not zero; `None` where one is uncertain.
fn places(tensor: &TensorFact) -> Option<Vec<Vec<usize>>> {
    tensor.value.as_ref()?;
    let grid = Grid::of(tensor)?;
    let mut found = Vec::new();
    let mut certain = true;
    values::for_each_index(&grid.sizes, |index| match scalar::truth(&grid.at(index)) {
        Some(true) => found.push(index.to_vec()),
        Some(false) => {}
        None => certain = false,
    });
    certain.then_some(found)
}

impl Operator for NonZero {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let Some((data, shape)) = cx.tensor(0).and_then(|data| data.shape.as_ref().map(|shape| (data, shape))) else {
            return Ok(vec![Fact::tensor(ElementType::Int64, cx.fresh_shape(0, 2))]);
        };
        // A scalar counts as a vector of one element.
        let rank = shape.rank().max(1);
        let all = match values::uniform_of(data).and_then(|scalar| scalar::truth(&scalar)) {
            Some(true) => Some(shape.elements()),
            Some(false) => Some(Dim::ZERO),
            None => None,
        };
        let found = places(data);
        let count = match (&found, all) {
            (Some(found), _) => Dim::from(found.len()),
            (None, Some(all)) => all,
            (None, None) => cx.fresh_dim(0, 1, 0, Some(shape.elements())),
        };
        let shape = Shape::new(vec![Dim::from(rank), count]);
        let value = found.and_then(|found| {
            values::build(&shape, |index| {
                let [axis, place] = index else { return Scalar::Unknown };
                let at = found.get(*place).map(|at| at.get(*axis).copied().unwrap_or(0));
                at.map_or(Scalar::Unknown, |at| Scalar::Integer(Dim::from(at)))
            })
        });
        Ok(vec![values::fact(Some(ElementType::Int64), Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let elements = cx.input(0).map_or(0, |input| input.elements());
        vec![cx.all(Family::Sort { rows: 1, cols: elements })]
    }
}

/// The slices that a condition selects.
#[derive(Debug)]
struct Compress {
    axis: Option<i64>,
}

/// `Compress`.
pub(super) fn compress(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Compress { axis: node.int("axis")? }))
}

impl Operator for Compress {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let input = cx.shape(0);
        let axis = match (self.axis, input) {
            (Some(axis), Some(shape)) => Some(axes::index("attribute axis", axis, shape.rank())?),
            _ => None,
        };
        let whole = match (axis, input) {
            (Some(axis), Some(shape)) => shape.dim(axis).cloned(),
            (_, shape) => shape.map(Shape::elements),
        };
        if input.is_some_and(|shape| shape.rank() == 0) {
            return Err(Fault::shape("the input is a scalar, at least one axis is needed"));
        }
        let condition = cx.tensor(1);
        if let Some(shape) = cx.shape(1)
            && shape.rank() != 1
        {
            return Err(Fault::shape(format!("the condition must be a vector, it has shape {shape}")));
        }
        let known = condition.and_then(places).map(|found| Dim::from(found.len()));
        let count = match known {
            Some(count) => {
                if let Some(whole) = &whole
                    && whole.is_ge(&count) == Some(false)
                {
                    return Err(Fault::shape(format!("the condition selects {count} of {whole} elements")));
                }
                count
            }
            None => {
                let longest = cx.shape(1).map(Shape::elements);
                let bound = match (whole, longest) {
                    (Some(a), Some(b)) => Some(a.min(&b)),
                    (a, b) => a.or(b),
                };
                cx.fresh_dim(0, axis.unwrap_or(0), 0, bound)
            }
        };
        let shape = match (axis, input) {
            (Some(axis), Some(shape)) => {
                let dims = shape.dims().iter().enumerate();
                Some(dims.map(|(place, dim)| if place == axis { count.clone() } else { dim.clone() }).collect())
            }
            _ if self.axis.is_none() => Some(Shape::new(vec![count])),
            _ => None,
        };
        Ok(vec![Fact::tensor(element, shape)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let output = cx.bytes_out()?;
        let condition = super::cost::tensor_bytes(cx.input(1)?)?;
        Some(Cost { bytes_read: &output + condition, bytes_written: output, ..Cost::FREE })
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }

    /// The data too, for its sizes.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::inputs(0..2).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::dim::SymbolKind;
    use crate::ops::testing::{float, free, ints, op, typed};

    #[test]
    fn a_scalar_is_not_compressed() {
        let fault = op("Compress").run(&[float(&[]), typed(ElementType::Bool, &[1])]).unwrap_err();
        assert_eq!(fault.message, "the input is a scalar, at least one axis is needed");
    }

    #[test]
    fn the_count_of_unknown_elements_is_bounded() {
        // Case 43.
        let facts = op("NonZero").run(&[float(&[2, 3])]).unwrap();
        let dims = facts[0].as_tensor().unwrap().shape.as_ref().unwrap().dims();
        assert_eq!(dims[0], Dim::constant(2));
        assert_eq!(dims[1].range(), (Some(0), Some(6)));
        assert_eq!(dims[1].as_symbol().unwrap().kind(), SymbolKind::Data);
    }

    #[test]
    fn known_elements_are_found() {
        let matrix = op("Reshape").run(&[ints(&[0, 7, 8, 0]), ints(&[2, 2])]).unwrap();
        let facts = op("NonZero").run(&matrix).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![0, 1, 1, 0]));
    }

    #[test]
    fn ones_of_a_symbolic_shape_count_exactly() {
        let n = Shape::new(vec![free("N")]);
        let ones = values::fact(Some(ElementType::Int64), Some(n), values::uniform(Scalar::Integer(Dim::ONE)));
        assert_eq!(op("NonZero").dims(&[ones]), "1×N");
    }

    #[test]
    fn a_condition_selects_slices() {
        let condition = op("Cast").int("to", 9).run(&[ints(&[1, 0, 1])]).unwrap().remove(0);
        assert_eq!(op("Compress").int("axis", 1).dims(&[float(&[2, 3]), condition.clone()]), "2×2");
        assert_eq!(op("Compress").dims(&[float(&[2, 3]), condition]), "2");
        let unknown = typed(ElementType::Bool, &[3]);
        assert_eq!(op("Compress").int("axis", 1).dims(&[float(&[2, 3]), unknown]), "2×y0.1");
    }
}
