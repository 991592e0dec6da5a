//! `OneHot`, `Trilu`, `CumSum`, `CumProd` and `ReverseSequence`: operators along one or two axes of a tensor.

use super::table::Built;
use super::values::Grid;
use super::{
    Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx, axes, broadcast, constant, scalar,
    values,
};
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, Scalar};
use crate::ir::shape::Shape;

/// A new axis that marks an index.
#[derive(Debug)]
struct OneHot {
    axis: i64,
}

/// `OneHot`.
pub(super) fn one_hot(node: &NodeView<'_>) -> Built {
    Ok(Box::new(OneHot { axis: node.int_or("axis", -1)? }))
}

impl Operator for OneHot {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(2);
        if let Some(shape) = cx.shape(2)
            && shape.elements().as_const().is_some_and(|count| count != 2)
        {
            return Err(Fault::shape(format!("values must hold the off and the on value, they have shape {shape}")));
        }
        let Some(indices) = cx.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
        let axis = axes::index("attribute axis", self.axis, indices.rank() + 1)?;
        let depth = cx.tensor(1).and_then(|depth| depth.single()).map(|depth| scalar::truncate(&depth));
        let depth = match depth.and_then(Scalar::into_integer) {
            Some(depth) if depth.range().1.is_some_and(|hi| hi < 0) => {
                return Err(Fault::shape(format!("depth is {depth}, allowed is 0 and more")));
            }
            Some(depth) => depth,
            None => cx.fresh_dim(0, axis, 0, None),
        };
        let mut shape = indices.clone();
        shape.dims_mut().insert(axis, depth.clone());
        let grid = cx.tensor(0).filter(|indices| indices.value.is_some()).and_then(Grid::of);
        let choices = cx.tensor(2).and_then(|values| values.elements());
        let value = match (grid, choices, depth.as_usize()) {
            (Some(grid), Some(choices), Some(depth)) => values::build(&shape, |index| {
                let mut at = index.to_vec();
                let place = at.remove(axis.min(at.len().saturating_sub(1)));
                let scalar = scalar::truncate(&grid.at(&at));
                if scalar == Scalar::Unknown || matches!(&scalar, Scalar::Integer(dim) if dim.as_const().is_none()) {
                    return Scalar::Unknown;
                }
                let on = super::gather::to_place(&scalar, depth) == Some(place);
                choices.get(usize::from(on)).cloned().unwrap_or(Scalar::Unknown)
            }),
            _ => None,
        };
        Ok(vec![values::fact(element, Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }
}

/// One triangle of matrices; the rest is zero.
#[derive(Debug)]
struct Trilu {
    upper: bool,
}

/// `Trilu`.
pub(super) fn trilu(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Trilu { upper: node.flag("upper", true)? }))
}

impl Operator for Trilu {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let Some(shape) = &data.shape else { return Ok(vec![Fact::tensor(data.element, None)]) };
        if shape.rank() < 2 {
            return Err(Fault::shape(format!("the input must have rank 2 or more, it has shape {shape}")));
        }
        let offset = match cx.tensor(1) {
            Some(k) => k.single().and_then(Scalar::into_integer).and_then(|k| k.as_const()),
            None if cx.has(1) => None,
            None => Some(0),
        };
        let grid = if data.value.is_some() { Grid::of(&data) } else { None };
        let zero = constant::number(data.element, 0);
        let value = match (grid, offset) {
            _ if values::uniform_of(&data).is_some_and(|scalar| scalar == zero) => data.value.clone(),
            (Some(grid), Some(offset)) => values::build(shape, |index| {
                let [.., row, column] = index else { return Scalar::Unknown };
                let distance = Dim::from(*column) - Dim::from(*row) - offset;
                let kept = distance.as_const().is_some_and(|far| if self.upper { far >= 0 } else { far <= 0 });
                if kept { grid.at(index) } else { zero.clone() }
            }),
            _ => None,
        };
        Ok(vec![values::fact(data.element, data.shape.clone(), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }
}

/// Running sums or products along an axis.
#[derive(Debug)]
struct Cumulative {
    exclusive: bool,
    reverse: bool,
    product: bool,
}

/// `CumSum` and `CumProd`.
pub(super) fn cumulative(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Cumulative {
        exclusive: node.flag("exclusive", false)?,
        reverse: node.flag("reverse", false)?,
        product: node.op_type() == "CumProd",
    }))
}

impl Operator for Cumulative {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let axis = match (cx.const_integers(1).and_then(|axes| axes.first().copied()), &data.shape) {
            (Some(axis), Some(shape)) => Some(axes::index("axis", axis, shape.rank())?),
            _ => None,
        };
        let grid = if data.value.is_some() { Grid::of(&data) } else { None };
        let value = match (axis, grid) {
            (Some(axis), Some(grid)) => self.run(grid, axis, data.element).and_then(Grid::into_value),
            _ => None,
        };
        Ok(vec![values::fact(data.element, data.shape.clone(), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::elementwise(cx, 1)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::input(0).and(Saved::output(0)).when(self.product && cx.has_backward())
    }
}

impl Cumulative {
    fn run(&self, grid: Grid, axis: usize, element: Option<crate::ir::element_type::ElementType>) -> Option<Grid> {
        if grid.elements.is_empty() {
            return Some(grid);
        }
        let extent = grid.sizes.get(axis).copied()?;
        let mut lines = grid.sizes.clone();
        *lines.get_mut(axis)? = 1;
        let mut result = grid.clone();
        let start = constant::number(element, i128::from(self.product));
        values::for_each_index(&lines, |line| {
            let mut at = line.to_vec();
            let mut sum = start.clone();
            for step in 0..extent {
                if let Some(slot) = at.get_mut(axis) {
                    *slot = if self.reverse { extent - 1 - step } else { step };
                }
                let item = grid.at(&at);
                let next = if self.product { scalar::mul(&sum, &item) } else { scalar::add(&sum, &item) };
                let next = scalar::fit(element, next);
                if let Some(slot) = result.at_mut(&at) {
                    *slot = if self.exclusive { sum } else { next.clone() };
                }
                sum = next;
            }
        });
        Some(result)
    }
}

/// The beginnings of sequences, reversed.
#[derive(Debug)]
struct ReverseSequence {
    batch_axis: i64,
    time_axis: i64,
}

/// `ReverseSequence`.
pub(super) fn reverse_sequence(node: &NodeView<'_>) -> Built {
    let (batch_axis, time_axis) = (node.int_or("batch_axis", 1)?, node.int_or("time_axis", 0)?);
    if !matches!((batch_axis, time_axis), (0, 1) | (1, 0)) {
        return Err(Fault::attribute(format!(
            "attributes batch_axis and time_axis are {batch_axis} and {time_axis}, allowed are 0 and 1 or 1 and 0"
        )));
    }
    Ok(Box::new(ReverseSequence { batch_axis, time_axis }))
}

impl Operator for ReverseSequence {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        if let Some(shape) = &data.shape {
            axes::index("attribute time_axis", self.time_axis, shape.rank())?;
            let batch = axes::index("attribute batch_axis", self.batch_axis, shape.rank())?;
            if let (Some(dim), Some([count])) = (shape.dim(batch), cx.shape(1).map(Shape::dims))
                && broadcast::unify(dim, count).is_none()
            {
                return Err(Fault::shape(format!("sequence_lens has {count} elements for a batch of {dim}")));
            }
        }
        Ok(vec![data.without_value().into()])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::TensorFact;
    use crate::ops::testing::{float, ints, op, shape, typed};

    fn numbers(facts: &[Fact]) -> Vec<i64> {
        facts[0].as_tensor().unwrap().const_integers().unwrap()
    }

    #[test]
    fn one_hot_inserts_its_axis_and_takes_the_type_of_the_values() {
        let facts = op("OneHot").run(&[typed(ElementType::Int64, &[2, 3]), ints(&[10]), float(&[2])]).unwrap();
        assert_eq!(facts[0], float(&[2, 3, 10]));
        let node = op("OneHot").int("axis", 1);
        assert_eq!(node.dims(&[typed(ElementType::Int64, &[2, 3]), ints(&[10]), float(&[2])]), "2×10×3");
        let facts = op("OneHot").run(&[ints(&[1, -1, 7]), ints(&[2]), ints(&[0, 5])]).unwrap();
        assert_eq!(numbers(&facts), [0, 5, 0, 5, 0, 0]);
        assert!(op("OneHot").int("axis", 3).dims(&[ints(&[1]), ints(&[2]), ints(&[0, 5])]).contains("-2 to 1"));
        assert!(op("OneHot").dims(&[ints(&[1]), ints(&[-2]), ints(&[0, 5])]).contains("depth is -2"));
    }

    #[test]
    fn a_triangle_is_kept() {
        let matrix = op("Reshape").run(&[ints(&[1, 2, 3, 4]), ints(&[2, 2])]).unwrap().remove(0);
        assert_eq!(numbers(&op("Trilu").run(std::slice::from_ref(&matrix)).unwrap()), [1, 2, 0, 4]);
        assert_eq!(numbers(&op("Trilu").run(&[matrix.clone(), ints(&[1])]).unwrap()), [0, 2, 0, 0]);
        assert_eq!(numbers(&op("Trilu").int("upper", 0).run(&[matrix]).unwrap()), [1, 0, 3, 4]);
        assert!(op("Trilu").dims(&[float(&[3])]).contains("rank 2 or more"));
    }

    #[test]
    fn running_sums_follow_their_flags() {
        let run = |node: crate::ops::testing::TestNode| numbers(&node.run(&[ints(&[1, 2, 3]), ints(&[0])]).unwrap());
        assert_eq!(run(op("CumSum")), [1, 3, 6]);
        assert_eq!(run(op("CumSum").int("exclusive", 1)), [0, 1, 3]);
        assert_eq!(run(op("CumSum").int("reverse", 1)), [6, 5, 3]);
        assert_eq!(run(op("CumProd").int("reverse", 1).int("exclusive", 1)), [6, 3, 1]);
        let empty = TensorFact::with_elements(None, shape(&[0, i128::from(i64::MAX)]), Vec::new()).into();
        assert_eq!(op("CumSum").dims(&[empty, ints(&[0])]), format!("0×{}", i64::MAX));
        assert!(op("CumSum").dims(&[float(&[3]), ints(&[1])]).contains("axis is 1, allowed is -1 to 0"));
        assert_eq!(op("CumSum").cost(&[float(&[2, 5]), ints(&[1])]).flops.as_const(), Some(10));
    }

    #[test]
    fn sequences_keep_their_shape() {
        let lengths = typed(ElementType::Int64, &[3]);
        assert_eq!(op("ReverseSequence").dims(&[float(&[5, 3, 2]), lengths.clone()]), "5×3×2");
        assert!(op("ReverseSequence").dims(&[float(&[5, 4]), lengths]).contains("3 elements for a batch of 4"));
        let node = op("ReverseSequence").int("batch_axis", 0).int("time_axis", 0);
        assert!(node.dims(&[float(&[5, 4]), ints(&[1])]).contains("are 0 and 0"));
    }
}
