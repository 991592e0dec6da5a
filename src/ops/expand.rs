//! `Expand` and `Tile`: elements repeated.

use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Work, WorkCx, axes, broadcast, values};
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, Scalar};
use crate::ir::shape::Shape;

/// Broadcasts a tensor to a shape.
#[derive(Debug)]
struct Expand;

/// `Expand`.
pub(super) fn expand(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(Expand))
}

impl Operator for Expand {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let targets = cx.tensor(1).and_then(values::targets).filter(|targets| targets.len() <= axes::MANY_AXES);
        let (Some(input), Some(targets)) = (&data.shape, targets) else {
            return Ok(vec![Fact::tensor(data.element, None)]);
        };
        let rank = input.rank().max(targets.len());
        let mut wanted = Vec::with_capacity(targets.len());
        for (index, target) in targets.iter().enumerate() {
            let axis = rank - targets.len() + index;
            let own = (axis + input.rank()).checked_sub(rank).and_then(|axis| input.dim(axis));
            wanted.push(match target {
                Some(dim) if dim.range().1.is_some_and(|hi| hi < 0) => {
                    return Err(Fault::shape(format!("dim {index} of the target is {dim}, allowed is 0 and more")));
                }
                Some(dim) => dim.clone(),
                // A target can only repeat dims of 1.
                None => match own {
                    Some(dim) if dim.is_eq(&Dim::ONE) == Some(false) => Dim::ONE,
                    _ => cx.fresh_dim(0, axis, 1, None),
                },
            });
        }
        let shape = broadcast::pair(input, &Shape::new(wanted))?;
        let value = values::map(&[&data], &shape, |scalars| scalars.first().cloned().unwrap_or(Scalar::Unknown));
        Ok(vec![values::fact(data.element, Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let bytes_read = super::cost::tensor_bytes(cx.input(0)?)?;
        Some(Cost { bytes_read, bytes_written: cx.bytes_out()?, ..Cost::FREE })
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![Work { operands: [Some(0), None], ..cx.moved() }]
    }

    fn shares_storage(&self, _cx: &WorkCx<'_>) -> bool {
        true
    }
}

/// Lays copies of a tensor side by side.
#[derive(Debug)]
struct Tile {
    /// Before opset 6: one number of tiles along one axis.
    one_axis: bool,
}

/// `Tile`.
pub(super) fn tile(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Tile { one_axis: node.opset() < 6 }))
}

impl Tile {
    /// Repeats of each axis; `None` where their number is not known.
    fn repeats(&self, cx: &InferCx<'_>, rank: usize) -> Result<Option<Vec<Option<Dim>>>, Fault> {
        let Some(repeats) = cx.tensor(1).and_then(values::targets) else { return Ok(None) };
        if !self.one_axis {
            if repeats.len() != rank {
                return Err(Fault::shape(format!(
                    "repeats has {} elements, allowed is one for each of the {rank} axes of the input",
                    repeats.len()
                )));
            }
            return Ok(Some(repeats));
        }
        let Some(axis) = cx.const_integers(2).and_then(|axes| axes.first().copied()) else { return Ok(None) };
        let axis = axes::index("axis", axis, rank)?;
        let one = repeats.first().cloned().flatten();
        Ok(Some((0..rank).map(|place| if place == axis { one.clone() } else { Some(Dim::ONE) }).collect()))
    }
}

impl Operator for Tile {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let Some(input) = &data.shape else { return Ok(vec![Fact::tensor(data.element, None)]) };
        let rank = input.rank();
        let Some(repeats) = self.repeats(cx, rank)? else {
            return Ok(vec![Fact::tensor(data.element, cx.fresh_shape(0, rank))]);
        };
        let mut dims = Vec::with_capacity(rank);
        for (axis, (dim, times)) in input.dims().iter().zip(&repeats).enumerate() {
            dims.push(match times {
                Some(times) if times.range().1.is_some_and(|hi| hi < 0) => {
                    return Err(Fault::shape(format!("repeats of axis {axis} is {times}, allowed is 0 and more")));
                }
                Some(times) => dim * times,
                None => cx.fresh_dim(0, axis, 0, None),
            });
        }
        let shape = Shape::new(dims);
        let extents = values::sizes(input);
        let value = extents.and_then(|extents| {
            values::moved(&data, &shape, |index| {
                index.iter().zip(&extents).map(|(&place, &extent)| place.checked_rem(extent).unwrap_or(0)).collect()
            })
        });
        let value = value.or_else(|| values::spread(values::uniform_of(&data)?, &shape));
        Ok(vec![values::fact(data.element, Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let bytes_read = super::cost::tensor_bytes(cx.input(0)?)?;
        Some(Cost { bytes_read, bytes_written: cx.bytes_out()?, ..Cost::FREE })
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![Work { operands: [Some(0), None], ..cx.moved() }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::{TensorFact, Value};
    use crate::ops::testing::{float, free, ints, op, typed};

    #[test]
    fn expand_is_broadcasting_both_ways() {
        assert_eq!(op("Expand").dims(&[float(&[3, 1]), ints(&[2, 1, 6])]), "2×3×6");
        assert_eq!(op("Expand").dims(&[float(&[3, 4]), ints(&[1])]), "3×4");
        assert!(op("Expand").dims(&[float(&[3, 4]), ints(&[3])]).contains("do not broadcast"));
        assert!(op("Expand").dims(&[float(&[1]), ints(&[-1])]).contains("dim 0 of the target is -1"));
    }

    #[test]
    fn a_symbolic_target_is_followed() {
        let target: Fact = TensorFact::vector(vec![free("N"), Dim::constant(4)]).into();
        let facts = op("Expand").run(&[ints(&[9]), target]).unwrap();
        let tensor = facts[0].as_tensor().unwrap();
        assert_eq!(tensor.shape.as_ref().unwrap().to_string(), "N×4");
        assert_eq!(tensor.value.as_deref(), Some(&Value::Uniform(Scalar::Integer(Dim::constant(9)))));
        assert_eq!(op("Expand").dims(&[float(&[1, 4]), typed(ElementType::Int64, &[2])]), "y0.0×4");
    }

    #[test]
    fn tiles_multiply_dims() {
        assert_eq!(op("Tile").dims(&[float(&[2, 3]), ints(&[2, 1])]), "4×3");
        assert_eq!(op("Tile").opset(1).dims(&[float(&[2, 3]), ints(&[4]), ints(&[1])]), "2×12");
        let facts = op("Tile").run(&[ints(&[1, 2]), ints(&[2])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![1, 2, 1, 2]));
        assert!(op("Tile").dims(&[float(&[2, 3]), ints(&[2])]).contains("one for each of the 2 axes"));
    }

    #[test]
    fn repeats_beyond_any_size_stay_a_formula() {
        let data = op("Expand").run(&[ints(&[1]), ints(&[i128::from(i64::MAX)])]).unwrap();
        assert_eq!(op("Tile").dims(&[data[0].clone(), ints(&[4])]), (i128::from(i64::MAX) * 4).to_string());
    }
}
