//! `Concat`: tensors one after the other along an axis.

use std::sync::Arc;

use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Work, WorkCx, axes, broadcast, values};
use crate::diagnostics::Code;
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, Scalar, TensorFact, VALUE_LIMIT, Value};
use crate::ir::shape::Shape;

#[derive(Debug)]
struct Concat {
    axis: i64,
}

/// `Concat`. Before opset 4 the axis is 1 where it is left out.
pub(super) fn concat(node: &NodeView<'_>) -> Built {
    let axis = match node.int("axis")? {
        Some(axis) => axis,
        None if node.opset() < 4 => 1,
        None => return Err(node.missing("axis")),
    };
    Ok(Box::new(Concat { axis }))
}

impl Operator for Concat {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let tensors: Vec<Option<&TensorFact>> = (0..cx.input_count()).map(|input| cx.tensor(input)).collect();
        let mut element = None;
        for found in tensors.iter().flatten().filter_map(|tensor| tensor.element) {
            match element {
                Some(first) if first != found => {
                    let message = format!("inputs have the element types {first} and {found}, they must be equal");
                    return Err(Fault::new(Code::TypeMismatch, message).help("a Cast makes them equal"));
                }
                _ => element = Some(found),
            }
        }
        let shapes: Vec<Option<&Shape>> =
            tensors.iter().map(|tensor| tensor.and_then(|tensor| tensor.shape.as_ref())).collect();
        let Some(rank) = shapes.iter().flatten().map(|shape| shape.rank()).next() else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let axis = axes::index("attribute axis", self.axis, rank)?;
        let mut dims: Vec<Option<Dim>> = vec![None; rank];
        let mut sum = Some(Dim::ZERO);
        for (input, shape) in shapes.iter().enumerate() {
            let Some(shape) = shape else {
                sum = None;
                continue;
            };
            if shape.rank() != rank {
                return Err(Fault::shape(format!(
                    "inputs have the ranks {rank} and {}, they must be equal",
                    shape.rank()
                )));
            }
            for (place, (dim, whole)) in shape.dims().iter().zip(&mut dims).enumerate() {
                if place == axis {
                    sum = sum.map(|sum| sum + dim);
                    continue;
                }
                *whole = Some(match whole.take() {
                    None => dim.clone(),
                    Some(first) => broadcast::unify(&first, dim).ok_or_else(|| {
                        Fault::shape(format!(
                            "inputs differ along axis {place}: {first} and, in input {input}, {dim}; \
                             only axis {axis} may differ"
                        ))
                    })?,
                });
            }
        }
        let mut shape = Shape::scalar();
        for (place, dim) in dims.into_iter().enumerate() {
            let known = if place == axis { sum.clone() } else { dim };
            let dim = known.unwrap_or_else(|| cx.fresh_dim(0, place, 0, None));
            shape.dims_mut().push(dim);
        }
        let value = value(&tensors, &shape, axis);
        Ok(vec![values::fact(element, Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }
}

/// The elements of all inputs; those of inputs without a value are unknown ones beside known ones.
fn value(tensors: &[Option<&TensorFact>], shape: &Shape, axis: usize) -> Option<Arc<Value>> {
    let tensors: Vec<&TensorFact> = tensors.iter().copied().collect::<Option<_>>()?;
    if tensors.iter().all(|tensor| tensor.value.is_none()) {
        return None;
    }
    let full = |tensor: &&TensorFact| tensor.shape.as_ref().is_none_or(|shape| shape.elements().as_const() != Some(0));
    let parts: Vec<_> = tensors.iter().copied().filter(|tensor| full(tensor)).collect();
    let mut same = parts.iter().map(|tensor| values::uniform_of(tensor));
    if let Some(Some(first)) = same.next()
        && same.all(|other| other.as_ref() == Some(&first))
    {
        return values::spread(first, shape);
    }
    values::sizes(shape)?;
    let mut grids = Vec::new();
    let mut total = 0_usize;
    for tensor in parts {
        let grid = values::Grid::of_any(tensor)?;
        total = total.saturating_add(grid.elements.len());
        if total > VALUE_LIMIT {
            return None;
        }
        grids.push(grid);
    }
    values::build(shape, |index| {
        let mut index = index.to_vec();
        for grid in &grids {
            let (Some(place), Some(&extent)) = (index.get_mut(axis), grid.sizes.get(axis)) else {
                return Scalar::Unknown;
            };
            match place.checked_sub(extent) {
                Some(rest) => *place = rest,
                None => return grid.at(&index),
            }
        }
        Scalar::Unknown
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{float, free, ints, op, typed};

    fn symbolic(dims: &[Dim]) -> Fact {
        Fact::tensor(ElementType::Float, Shape::new(dims.to_vec()))
    }

    #[test]
    fn a_symbol_and_a_number_add_up() {
        // Case 38.
        let data = symbolic(&[free("N"), Dim::constant(2)]);
        assert_eq!(op("Concat").int("axis", 0).dims(&[data, float(&[5, 2])]), "N+5×2");
    }

    #[test]
    fn two_ways_to_halve_are_one_dim() {
        // Case 37.
        let h = free("H");
        let conv = (&h - 1).floor_div(&Dim::constant(2)) + 1;
        let pool = h.ceil_div(&Dim::constant(2));
        let (a, b) = (symbolic(&[Dim::constant(8), conv]), symbolic(&[Dim::constant(8), pool.clone()]));
        let facts = op("Concat").int("axis", 0).run(&[a, b]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().shape, Some(Shape::new(vec![Dim::constant(16), pool])));
    }

    #[test]
    fn pieces_of_a_shape_join() {
        let n: Fact = TensorFact::vector(vec![free("N")]).into();
        let facts = op("Concat").int("axis", 0).run(&[n.clone(), ints(&[3, -1])]).unwrap();
        let expected = vec![free("N"), Dim::constant(3), Dim::constant(-1)];
        assert_eq!(facts[0].as_tensor().unwrap().integers(), Some(expected));
        let facts = op("Concat").int("axis", -1).run(&[typed(ElementType::Int64, &[1]), n]).unwrap();
        let elements = facts[0].as_tensor().unwrap().elements().unwrap();
        assert_eq!(elements, [Scalar::Unknown, Scalar::Integer(free("N"))]);
    }

    #[test]
    fn matrices_join_along_the_inner_axis() {
        let matrix = |elements| op("Reshape").run(&[ints(elements), ints(&[2, -1])]).unwrap().remove(0);
        let facts = op("Concat").int("axis", 1).run(&[matrix(&[1, 2, 3, 4]), matrix(&[5, 6])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![1, 2, 5, 3, 4, 6]));
    }

    #[test]
    fn inputs_that_do_not_fit_are_named() {
        // Case 108.
        let pair = [float(&[2, 3]), float(&[2, 4])];
        assert!(op("Concat").int("axis", 7).dims(&pair).contains("axis is 7, allowed is -2 to 1"));
        let message = op("Concat").int("axis", 0).dims(&pair);
        assert!(message.contains("axis 1: 3 and, in input 1, 4"), "{message}");
        assert!(op("Concat").int("axis", 0).dims(&[float(&[2]), float(&[2, 4])]).contains("ranks 1 and 2"));
        assert_eq!(op("Concat").opset(1).dims(&pair), "2×7");
        assert!(op("Concat").dims(&pair).contains("needs the attribute axis"));
    }
}
