//! `Gather`, `GatherElements`, `GatherND`: elements picked by indices.

use std::sync::Arc;

use super::cost::tensor_bytes;
use super::table::Built;
use super::{
    Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx, axes, broadcast, values,
};
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, Scalar, TensorFact, Value};
use crate::ir::shape::{Shape, normalize_axis};

/// Whole slices along one axis.
#[derive(Debug)]
struct Gather {
    axis: i64,
}

/// `Gather`.
pub(super) fn gather(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Gather { axis: node.int_or("axis", 0)? }))
}

/// The places that constant indices name; a fault for one out of range.
fn check(indices: &TensorFact, axis: usize, dim: &Dim) -> Result<(), Fault> {
    let Some(extent) = dim.as_const() else { return Ok(()) };
    let wrong = |scalar: &Scalar| match scalar {
        Scalar::Integer(index) => index.as_const().filter(|&index| index >= extent || index < -extent),
        _ => None,
    };
    let found = match indices.value.as_deref() {
        Some(Value::Each(elements)) => elements.iter().find_map(wrong),
        Some(Value::Uniform(scalar)) => wrong(scalar),
        None => None,
    };
    match found {
        Some(index) if extent == 0 => {
            Err(Fault::shape(format!("index {index} has nothing to pick: axis {axis} has no element")))
        }
        Some(index) => Err(Fault::shape(format!(
            "index {index} is out of range, allowed is {} to {} along axis {axis}",
            -extent,
            extent - 1
        ))),
        None => Ok(()),
    }
}

/// An index element as a place along an axis of this extent.
pub(super) fn to_place(scalar: &Scalar, extent: usize) -> Option<usize> {
    let Scalar::Integer(index) = scalar else { return None };
    let index = index.as_const()?;
    let index = if index < 0 { index.checked_add(i128::try_from(extent).ok()?)? } else { index };
    usize::try_from(index).ok().filter(|&place| place < extent)
}

/// Bytes of what is picked, of the indices, and of the output.
fn picked(cx: &CostCx<'_>) -> Option<Cost> {
    let output = tensor_bytes(cx.output(0)?)?;
    let bytes_read = &output + tensor_bytes(cx.input(1)?)?;
    Some(Cost { bytes_read, bytes_written: output, ..Cost::FREE })
}

fn table_role(input: usize) -> Role {
    if input == 0 { Role::Weight } else { Role::Setting }
}

impl Operator for Gather {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let indices = cx.tensor(1).cloned().unwrap_or_default();
        let Some(input) = &data.shape else { return Ok(vec![Fact::tensor(data.element, None)]) };
        let axis = axes::index("attribute axis", self.axis, input.rank())?;
        let dim = input.dim(axis).cloned().unwrap_or(Dim::ONE);
        check(&indices, axis, &dim)?;
        let Some(places) = &indices.shape else { return Ok(vec![Fact::tensor(data.element, None)]) };
        let (before, after) = input.dims().split_at_checked(axis).unwrap_or((&[], &[]));
        let after = after.get(1..).unwrap_or_default();
        let shape: Shape = before.iter().chain(places.dims()).chain(after).cloned().collect();
        let value = gathered(&data, &indices, &shape, axis);
        Ok(vec![values::fact(data.element, Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        picked(cx)
    }

    fn role(&self, input: usize) -> Role {
        table_role(input)
    }

    /// Rows along the first axis; along another, and for one index, it is a copy.
    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let (Some(data), Some(indices)) = (cx.input(0), cx.input(1)) else { return vec![cx.moved()] };
        match (normalize_axis(self.axis, data.dims.len()), data.dims) {
            (Some(0), [table, row @ ..]) if !indices.dims.is_empty() => {
                let cols = super::work::product(row);
                vec![cx.all(Family::Embedding { rows: indices.elements(), cols, table: *table })]
            }
            _ => vec![cx.moved()],
        }
    }

    /// The indices, unless there is one, which makes a view.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::input(1).when(cx.has_backward() && !self.shares_storage(cx))
    }

    fn shares_storage(&self, cx: &WorkCx<'_>) -> bool {
        cx.input(1).is_some_and(|indices| indices.dims.is_empty())
    }
}

fn gathered(data: &TensorFact, indices: &TensorFact, shape: &Shape, axis: usize) -> Option<Arc<Value>> {
    if let Some(scalar) = values::uniform_of(data) {
        return values::spread(scalar, shape);
    }
    let (data, indices) = (values::Grid::of(data)?, values::Grid::of(indices)?);
    let rank = indices.sizes.len();
    let extent = data.sizes.get(axis).copied()?;
    values::build(shape, |index| {
        let (Some(before), Some(middle), Some(after)) =
            (index.get(..axis), index.get(axis..axis + rank), index.get(axis + rank..))
        else {
            return Scalar::Unknown;
        };
        match to_place(&indices.at(middle), extent) {
            Some(place) => {
                let source: Vec<usize> = before.iter().copied().chain([place]).chain(after.iter().copied()).collect();
                data.at(&source)
            }
            None => Scalar::Unknown,
        }
    })
}

/// One element for each index.
#[derive(Debug)]
struct GatherElements {
    axis: i64,
}

/// `GatherElements`.
pub(super) fn gather_elements(node: &NodeView<'_>) -> Built {
    Ok(Box::new(GatherElements { axis: node.int_or("axis", 0)? }))
}

impl Operator for GatherElements {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let indices = cx.tensor(1).cloned().unwrap_or_default();
        let shape = indices.shape.clone();
        let (Some(input), Some(places)) = (&data.shape, &shape) else {
            return Ok(vec![Fact::tensor(data.element, shape)]);
        };
        let axis = axes::index("attribute axis", self.axis, input.rank())?;
        same_rank(input, places)?;
        check(&indices, axis, input.dim(axis).unwrap_or(&Dim::ONE))?;
        let value = match (values::uniform_of(&data), values::Grid::of(&data), values::Grid::of(&indices)) {
            (Some(scalar), _, _) => values::spread(scalar, places),
            (None, Some(data), Some(indices)) => {
                let extent = data.sizes.get(axis).copied().unwrap_or(0);
                values::build(places, |index| {
                    let mut source = index.to_vec();
                    match (source.get_mut(axis), to_place(&indices.at(index), extent)) {
                        (Some(slot), Some(place)) => *slot = place,
                        _ => return Scalar::Unknown,
                    }
                    data.at(&source)
                })
            }
            _ => None,
        };
        Ok(vec![values::fact(data.element, shape, value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        picked(cx)
    }

    fn role(&self, input: usize) -> Role {
        table_role(input)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }

    /// The data too, for its sizes.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::inputs(0..2).when(cx.has_backward())
    }
}

/// Checks that data and indices have one rank.
pub(super) fn same_rank(data: &Shape, indices: &Shape) -> Result<(), Fault> {
    if data.rank() != indices.rank() {
        return Err(Fault::shape(format!("data {data} and indices {indices} must have one rank")));
    }
    Ok(())
}

/// Slices at tuples of indices.
#[derive(Debug)]
struct GatherNd {
    batch_dims: usize,
}

/// `GatherND`.
pub(super) fn gather_nd(node: &NodeView<'_>) -> Built {
    let batch_dims = node.int_or("batch_dims", 0)?;
    let batch_dims = usize::try_from(batch_dims)
        .map_err(|_| Fault::attribute(format!("attribute batch_dims is {batch_dims}, allowed is 0 and more")))?;
    Ok(Box::new(GatherNd { batch_dims }))
}

impl Operator for GatherNd {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let indices = cx.tensor(1).cloned().unwrap_or_default();
        let (Some(input), Some(places)) = (&data.shape, &indices.shape) else {
            return Ok(vec![Fact::tensor(data.element, None)]);
        };
        let Some((depth, outer)) = places.dims().split_last() else {
            return Err(Fault::shape("indices must have rank 1 or more, they are a scalar"));
        };
        let batch = self.batch_dims;
        if batch >= input.rank().min(places.rank()) {
            return Err(Fault::attribute(format!(
                "attribute batch_dims is {batch}, allowed is less than the ranks {} and {}",
                input.rank(),
                places.rank()
            )));
        }
        for (axis, (data, index)) in input.dims().iter().zip(outer).take(batch).enumerate() {
            if broadcast::unify(data, index).is_none() {
                return Err(Fault::shape(format!(
                    "batch axis {axis} is {data} in the data and {index} in the indices"
                )));
            }
        }
        let Some(depth) = depth.as_usize() else { return Ok(vec![Fact::tensor(data.element, None)]) };
        let Some(inner) = batch.checked_add(depth).and_then(|taken| input.dims().get(taken..)) else {
            return Err(Fault::shape(format!(
                "indices name {depth} axes after {batch} of the batch, the data has rank {}",
                input.rank()
            )));
        };
        let shape: Shape = outer.iter().chain(inner).cloned().collect();
        let outer_rank = outer.len();
        let value = match (values::uniform_of(&data), values::Grid::of(&data), values::Grid::of(&indices)) {
            (Some(scalar), _, _) => values::spread(scalar, &shape),
            (None, Some(data), Some(indices)) => values::build(&shape, |index| {
                let (tuple, inner) = index.split_at_checked(outer_rank).unwrap_or((index, &[]));
                let mut source: Vec<usize> = tuple.iter().take(batch).copied().collect();
                for part in 0..depth {
                    let at: Vec<usize> = tuple.iter().copied().chain([part]).collect();
                    let extent = data.sizes.get(batch + part).copied().unwrap_or(0);
                    match to_place(&indices.at(&at), extent) {
                        Some(place) => source.push(place),
                        None => return Scalar::Unknown,
                    }
                }
                source.extend(inner);
                data.at(&source)
            }),
            _ => None,
        };
        Ok(vec![values::fact(data.element, Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        picked(cx)
    }

    fn role(&self, input: usize) -> Role {
        table_role(input)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::input(1).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{float, free, ints, op, typed};

    fn scalar(number: i64) -> Fact {
        op("Constant").int("value_int", number).run(&[]).unwrap().remove(0)
    }

    #[test]
    fn a_scalar_index_removes_the_axis() {
        // Case 28.
        assert_eq!(op("Gather").dims(&[float(&[5, 4]), scalar(1)]), "4");
        assert_eq!(op("Gather").dims(&[float(&[5, 4]), ints(&[1])]), "1×4");
    }

    #[test]
    fn one_dim_is_taken_out_of_a_shape() {
        let shape: Fact = TensorFact::vector(vec![free("N"), Dim::constant(3)]).into();
        let facts = op("Gather").run(&[shape.clone(), scalar(0)]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().integers(), Some(vec![free("N")]));
        let facts = op("Gather").run(&[shape, ints(&[-1, 0])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().integers(), Some(vec![Dim::constant(3), free("N")]));
    }

    #[test]
    fn a_table_is_not_read_in_full() {
        // Case 57.
        let cost = op("Gather").cost(&[float(&[50_000, 384]), typed(ElementType::Int64, &[16, 256])]);
        assert_eq!((cost.macs.as_const(), cost.flops.as_const()), (Some(0), Some(0)));
        assert_eq!(cost.bytes_read.as_const(), Some(6_291_456 + 4096 * 8));
        assert_eq!(cost.bytes_written.as_const(), Some(6_291_456));
    }

    #[test]
    fn indices_out_of_range_are_named() {
        assert!(
            op("Gather").dims(&[float(&[5, 4]), ints(&[5])]).contains("index 5 is out of range, allowed is -5 to 4")
        );
        assert!(
            op("Gather").int("axis", 2).dims(&[float(&[5, 4]), ints(&[0])]).contains("axis is 2, allowed is -2 to 1")
        );
    }

    #[test]
    fn elements_take_the_shape_of_their_indices() {
        let data = op("Reshape").run(&[ints(&[1, 2, 3, 4]), ints(&[2, 2])]).unwrap().remove(0);
        let indices = op("Reshape").run(&[ints(&[0, 0, 1, 0]), ints(&[2, 2])]).unwrap().remove(0);
        let facts = op("GatherElements").int("axis", 1).run(&[data, indices]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![1, 1, 4, 3]));
        assert!(op("GatherElements").dims(&[float(&[2]), typed(ElementType::Int64, &[1, 1])]).contains("one rank"));
    }

    #[test]
    fn tuples_of_indices_pick_slices() {
        let indices = typed(ElementType::Int64, &[7, 2]);
        assert_eq!(op("GatherND").dims(&[float(&[3, 4, 5]), indices.clone()]), "7×5");
        assert_eq!(op("GatherND").int("batch_dims", 1).dims(&[float(&[7, 4, 5, 6]), indices.clone()]), "7×6");
        assert!(op("GatherND").int("batch_dims", 1).dims(&[float(&[6, 4, 5]), indices]).contains("batch axis 0"));
        assert!(op("GatherND").dims(&[float(&[3]), typed(ElementType::Int64, &[7, 2])]).contains("rank 1"));
        let data = op("Reshape").run(&[ints(&[1, 2, 3, 4]), ints(&[2, 2])]).unwrap().remove(0);
        let indices = op("Reshape").run(&[ints(&[0, 1, 1, 0]), ints(&[2, 2])]).unwrap().remove(0);
        let facts = op("GatherND").run(&[data, indices]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![2, 3]));
    }
}
