//! `Shape` and `Size`: the dims of a tensor as values.

use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, values};
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, TensorFact};
use crate::ir::shape::Shape;

/// The dims from `start` to `end`.
#[derive(Debug)]
struct ShapeOf {
    start: i64,
    end: Option<i64>,
}

/// `Shape`.
pub(super) fn shape(node: &NodeView<'_>) -> Built {
    Ok(Box::new(ShapeOf { start: node.int_or("start", 0)?, end: node.int("end")? }))
}

impl Operator for ShapeOf {
    fn reads_only_shape(&self) -> bool {
        true
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let Some(shape) = cx.shape(0) else {
            let count = cx.fresh_dim(0, 0, 0, None);
            return Ok(vec![Fact::tensor(ElementType::Int64, Shape::new(vec![count]))]);
        };
        let rank = shape.rank();
        let start = clamp(self.start, rank);
        let end = self.end.map_or(rank, |end| clamp(end, rank));
        let dims = shape.dims().get(start..end.max(start)).unwrap_or_default();
        Ok(vec![TensorFact::vector(dims.to_vec()).into()])
    }

    fn cost(&self, _cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }

    fn role(&self, _input: usize) -> Role {
        Role::Data
    }
}

/// An end of a range of axes, which may count from the back and lie outside.
fn clamp(axis: i64, rank: usize) -> usize {
    let length = i64::try_from(rank).unwrap_or(i64::MAX);
    let axis = if axis < 0 { axis.saturating_add(length) } else { axis };
    usize::try_from(axis.clamp(0, length)).unwrap_or(0)
}

/// The number of elements.
#[derive(Debug)]
struct Size;

/// `Size`.
pub(super) fn size(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(Size))
}

impl Operator for Size {
    fn reads_only_shape(&self) -> bool {
        true
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        Ok(vec![match cx.shape(0) {
            Some(shape) => values::int_scalar(shape.elements()),
            None => Fact::tensor(ElementType::Int64, Shape::scalar()),
        }])
    }

    fn cost(&self, _cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::dim::Dim;
    use crate::ops::testing::{dims, float, free, op};

    fn symbolic() -> Fact {
        Fact::tensor(ElementType::Float, Shape::new(vec![free("N"), Dim::constant(3), free("H")]))
    }

    #[test]
    fn dims_become_values() {
        let facts = op("Shape").run(&[symbolic()]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().integers(), Some(vec![free("N"), Dim::constant(3), free("H")]));
        let facts = op("Size").run(&[symbolic()]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().integers(), Some(vec![free("N") * free("H") * 3]));
        assert_eq!(dims(&facts[0]), "scalar");
    }

    #[test]
    fn a_range_of_axes_counts_from_both_ends_and_saturates() {
        let part = |start, end| {
            let facts = op("Shape").int("start", start).int("end", end).run(&[float(&[2, 3, 4])]).unwrap();
            facts[0].as_tensor().unwrap().const_integers().unwrap()
        };
        assert_eq!(part(-1, i64::MAX), [4]);
        assert_eq!(part(i64::MIN, -1), [2, 3]);
        assert_eq!(part(2, 1), Vec::<i64>::new());
    }

    #[test]
    fn elements_of_huge_tensors_saturate_and_never_wrap() {
        // Case 106.
        let huge = float(&[4_294_967_296, 4_294_967_296, 4]);
        let facts = op("Size").run(&[huge]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().integers(), Some(vec![Dim::constant(1 << 66)]));
    }
}
