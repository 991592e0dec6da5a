//! `TopK` and `Unique`: elements in another order, or fewer of them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::table::Built;
use super::values::Grid;
use super::{
    Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx, axes, scalar, values,
};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar, TensorFact};
use crate::ir::shape::{Shape, normalize_axis};

#[derive(Debug)]
struct TopK {
    axis: i64,
    /// Where it is an attribute, before opset 10.
    k: Option<i64>,
    largest: bool,
    sorted: bool,
}

/// `TopK`.
pub(super) fn top_k(node: &NodeView<'_>) -> Built {
    let k = if node.opset() < 10 { Some(node.int("k")?.ok_or_else(|| node.missing("k"))?) } else { None };
    Ok(Box::new(TopK {
        axis: node.int_or("axis", -1)?,
        k,
        largest: node.flag("largest", true)?,
        sorted: node.flag("sorted", true)?,
    }))
}

impl Operator for TopK {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let Some(input) = &data.shape else {
            return Ok(vec![Fact::tensor(data.element, None), Fact::tensor(ElementType::Int64, None)]);
        };
        let axis = axes::index("attribute axis", self.axis, input.rank())?;
        let whole = input.dim(axis).cloned().unwrap_or(Dim::ONE);
        let k = match self.k {
            Some(k) => Some(Dim::from(k)),
            None => {
                if let Some(found) = cx.shape(1)
                    && found.elements().is_eq(&Dim::ONE) == Some(false)
                {
                    return Err(Fault::shape(format!("k must be one number, it has shape {found}")));
                }
                cx.integer(1)
            }
        };
        let k = match k {
            Some(k) if k.range().1.is_some_and(|hi| hi < 0) || whole.is_ge(&k) == Some(false) => {
                return Err(Fault::shape(format!("k is {k}, allowed is 0 to {whole} along axis {axis}")));
            }
            Some(k) => k,
            None => cx.fresh_dim(0, axis, 0, Some(whole)),
        };
        let mut shape = input.clone();
        if let Some(dim) = shape.dims_mut().get_mut(axis) {
            *dim = k.clone();
        }
        let order = if input.rank() == 1 && self.sorted { self.order(&data, &k) } else { None };
        let chosen = |of: fn(&(usize, Scalar)) -> Scalar| {
            order.as_ref().and_then(|order| values::each(order.iter().map(of).collect()))
        };
        Ok(vec![
            values::fact(data.element, Some(shape.clone()), chosen(|(_, element)| element.clone())),
            values::fact(
                Some(ElementType::Int64),
                Some(shape),
                chosen(|(place, _)| Scalar::Integer(Dim::from(*place))),
            ),
        ])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let dims = cx.input(0).map_or(&[][..], |input| input.dims);
        let cols = normalize_axis(self.axis, dims.len()).and_then(|axis| dims.get(axis)).copied().unwrap_or(1);
        vec![cx.all(Family::Sort { rows: super::work::product(dims).checked_div(cols).unwrap_or_default(), cols })]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::output(1).when(cx.has_backward())
    }
}

impl TopK {
    /// The chosen elements of a vector with their places.
    fn order(&self, data: &TensorFact, k: &Dim) -> Option<Vec<(usize, Scalar)>> {
        data.value.as_ref()?;
        let mut certain = true;
        let mut elements: Vec<(usize, Scalar)> = Grid::of(data)?.elements.into_iter().enumerate().collect();
        elements.iter().all(|(_, element)| element.as_real().is_some_and(|number| !number.is_nan())).then_some(())?;
        elements.sort_by(|(_, a), (_, b)| {
            let order = scalar::compare(a, b).unwrap_or_else(|| {
                certain = false;
                Ordering::Equal
            });
            if self.largest { order.reverse() } else { order }
        });
        elements.truncate(k.as_usize()?);
        certain.then_some(elements)
    }
}

/// Each element, or each slice along an axis, once.
#[derive(Debug)]
struct Unique {
    axis: Option<i64>,
}

/// `Unique`.
pub(super) fn unique(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Unique { axis: node.int("axis")? }))
}

impl Operator for Unique {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let input = cx.shape(0);
        let axis = match (self.axis, input) {
            (Some(axis), Some(shape)) => Some(axes::index("attribute axis", axis, shape.rank())?),
            _ => None,
        };
        let whole = match (axis, input) {
            (Some(axis), Some(shape)) => shape.dim(axis).cloned(),
            (None, Some(shape)) if self.axis.is_none() => Some(shape.elements()),
            _ => None,
        };
        let least = i128::from(whole.as_ref().is_some_and(|whole| whole.range().0.is_some_and(|lo| lo >= 1)));
        let count = match &whole {
            Some(whole) if whole.range().1.is_some_and(|hi| hi <= 1) => whole.clone(),
            Some(_) if let Some(count) = cx.tensor(0).and_then(|tensor| distinct(tensor, axis)) => Dim::from(count),
            _ => cx.fresh_dim(0, axis.unwrap_or(0), least, whole.clone()),
        };
        let vector = Shape::new(vec![count.clone()]);
        let values = match (axis, input) {
            (Some(axis), Some(shape)) => {
                let dims = shape.dims().iter().enumerate();
                Some(dims.map(|(place, dim)| if place == axis { count.clone() } else { dim.clone() }).collect())
            }
            _ if self.axis.is_none() => Some(vector.clone()),
            _ => None,
        };
        let inverse = whole.unwrap_or_else(|| cx.fresh_dim(2, 0, 0, None));
        Ok(vec![
            Fact::tensor(element, values),
            Fact::tensor(ElementType::Int64, vector.clone()),
            Fact::tensor(ElementType::Int64, Shape::new(vec![inverse])),
            Fact::tensor(ElementType::Int64, vector),
        ])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let elements = cx.input(0).map_or(0, |input| input.elements());
        vec![cx.all(Family::Sort { rows: 1, cols: elements })]
    }
}

/// How many slices along an axis, or elements, differ, where all are known.
fn distinct(tensor: &TensorFact, axis: Option<usize>) -> Option<usize> {
    let grid = Grid::of(tensor)?;
    let mut slices: BTreeMap<Vec<usize>, Vec<(bool, i128)>> = BTreeMap::new();
    let mut known = true;
    values::for_each_index(&grid.sizes, |index| {
        let element = match grid.at(index) {
            Scalar::Integer(dim) => dim.as_const().map(|number| (false, number)),
            // Zero has two signs and one value.
            Scalar::Real(number) if !number.is_nan() => Some((true, i128::from((number + 0.0).to_bits()))),
            _ => None,
        };
        let slice = axis.map_or_else(|| index.to_vec(), |axis| index.get(axis).copied().into_iter().collect());
        known &= element.is_some();
        slices.entry(slice).or_default().extend(element);
    });
    let different: BTreeSet<_> = slices.into_values().collect();
    (known && !different.is_empty()).then_some(different.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{dims, float, ints, op, reals, typed};

    #[test]
    fn k_is_an_attribute_or_an_input_by_version() {
        assert_eq!(op("TopK").opset(9).int("k", 3).outputs(2).dims(&[float(&[2, 10])]), "2×3");
        let facts = op("TopK").int("axis", 0).outputs(2).run(&[float(&[9, 4]), ints(&[5])]).unwrap();
        assert_eq!((dims(&facts[0]), &facts[1]), ("5×4".into(), &typed(ElementType::Int64, &[5, 4])));
    }

    #[test]
    fn k_is_one_number() {
        let fault = op("TopK").outputs(2).run(&[float(&[4]), ints(&[1, 1])]).unwrap_err();
        assert_eq!(fault.message, "k must be one number, it has shape 2");
    }

    #[test]
    fn k_is_checked_and_may_be_unknown() {
        assert!(op("TopK").outputs(2).dims(&[float(&[2, 4]), ints(&[5])]).contains("k is 5, allowed is 0 to 4"));
        assert!(op("TopK").outputs(2).dims(&[float(&[2, 4]), ints(&[-1])]).contains("k is -1"));
        assert_eq!(op("TopK").outputs(2).dims(&[float(&[2, 4]), typed(ElementType::Int64, &[1])]), "2×y0.1");
    }

    #[test]
    fn a_known_vector_is_sorted_and_keeps_the_first_of_equals() {
        let facts = op("TopK").outputs(2).run(&[reals(&[1.0, 5.0, 5.0, 2.0]), ints(&[3])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().reals(), Some(vec![5.0, 5.0, 2.0]));
        assert_eq!(facts[1].as_tensor().unwrap().const_integers(), Some(vec![1, 2, 3]));
        let facts = op("TopK").int("largest", 0).outputs(2).run(&[ints(&[3, 1, 2]), ints(&[1])]).unwrap();
        assert_eq!(facts[1].as_tensor().unwrap().const_integers(), Some(vec![1]));
    }

    #[test]
    fn all_outputs_of_unique_share_one_count() {
        let facts = op("Unique").outputs(4).run(&[float(&[2, 3])]).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["y0.0", "y0.0", "6", "y0.0"]);
        let facts = op("Unique").int("axis", 1).outputs(4).run(&[float(&[2, 3])]).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["2×y0.1", "y0.1", "3", "y0.1"]);
        assert_eq!(op("Unique").outputs(4).dims(&[reals(&[0.0, 2.0, -0.0, 2.0])]), "2");
        assert!(op("Unique").int("axis", 2).dims(&[float(&[2, 3])]).contains("allowed is -2 to 1"));
    }
}
