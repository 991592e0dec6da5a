//! `Slice`: every so many elements between two bounds.

use std::sync::Arc;

use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Work, WorkCx, axes, values};
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, TensorFact, Value};
use crate::ir::shape::Shape;

/// Bounds from here on mean "to the end", whatever the dim is: exporters write the largest number of their integer type.
const TO_THE_END: i128 = i32::MAX as i128;

#[derive(Debug)]
struct Slice {
    /// Starts, ends and axes where they are attributes, before opset 10.
    attributes: Option<[Option<Vec<i64>>; 3]>,
}

/// `Slice`.
pub(super) fn slice(node: &NodeView<'_>) -> Built {
    if node.opset() >= 10 {
        return Ok(Box::new(Slice { attributes: None }));
    }
    let starts = node.ints("starts")?.ok_or_else(|| node.missing("starts"))?;
    let ends = node.ints("ends")?.ok_or_else(|| node.missing("ends"))?;
    Ok(Box::new(Slice { attributes: Some([Some(starts), Some(ends), node.ints("axes")?]) }))
}

/// The bounds along one axis; `None` where a run decides.
#[derive(Clone, Debug)]
struct Bounds {
    start: Option<Dim>,
    end: Option<Dim>,
    step: Option<i128>,
}

/// What is left of an axis.
struct Cut {
    /// First element, where it is a number.
    start: Option<i128>,
    length: Option<Dim>,
    step: i128,
}

impl Operator for Slice {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let Some(input) = &data.shape else { return Ok(vec![Fact::tensor(data.element, None)]) };
        let Some(bounds) = self.bounds(cx, input.rank())? else {
            let dims = input.dims().iter().enumerate();
            let shape: Shape = dims.map(|(axis, dim)| cx.fresh_dim(0, axis, 0, Some(dim.clone()))).collect();
            return Ok(vec![Fact::tensor(data.element, shape)]);
        };
        let mut shape = Shape::scalar();
        let mut cuts = Vec::with_capacity(input.rank());
        for (axis, (dim, bounds)) in input.dims().iter().zip(&bounds).enumerate() {
            let cut = match bounds {
                Some(bounds) => bounds.cut(dim),
                None => Cut { start: Some(0), length: Some(dim.clone()), step: 1 },
            };
            let length = match &cut.length {
                Some(length) => length.clone(),
                None => cx.fresh_dim(0, axis, 0, Some(dim.clone())),
            };
            shape.dims_mut().push(length);
            cuts.push(cut);
        }
        let value = value(&data, &shape, &cuts);
        Ok(vec![values::fact(data.element, Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let bytes = cx.bytes_out()?;
        Some(Cost { bytes_read: bytes.clone(), bytes_written: bytes, ..Cost::FREE })
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }

    fn shares_storage(&self, _cx: &WorkCx<'_>) -> bool {
        true
    }
}

impl Slice {
    /// The bounds of each axis, `None` for axes that stay whole; `None` when not even the axes are known.
    fn bounds(&self, cx: &InferCx<'_>, rank: usize) -> Result<Option<Vec<Option<Bounds>>>, Fault> {
        let list = |place: usize| match &self.attributes {
            Some(lists) => {
                let list = lists.get(place).cloned().flatten();
                list.map(|list| list.into_iter().map(|number| Some(Dim::from(number))).collect())
            }
            None => cx.tensor(place + 1).and_then(values::targets),
        };
        let given = |place: usize| self.attributes.is_none() && cx.has(place + 1);
        let (starts, ends, axes, steps) = (list(0), list(1), list(2), list(3));
        let lists: [Option<&Vec<Option<Dim>>>; 4] = [starts.as_ref(), ends.as_ref(), axes.as_ref(), steps.as_ref()];
        let Some(count) = lists.iter().flatten().map(|list| list.len()).max() else { return Ok(None) };
        for (list, name) in lists.iter().zip(["starts", "ends", "axes", "steps"]) {
            if let Some(list) = list
                && list.len() != count
            {
                return Err(Fault::shape(format!(
                    "{name} has {} elements, but another of starts, ends, axes and steps has {count}",
                    list.len()
                )));
            }
        }
        let places = match &axes {
            Some(axes) => {
                let numbers: Option<Vec<i64>> = axes.iter().map(|axis| axis.as_ref()?.as_i64()).collect();
                let Some(numbers) = numbers else { return Ok(None) };
                axes::indices(&numbers, rank)?
            }
            None if given(2) => return Ok(None),
            None if count > rank => {
                return Err(Fault::shape(format!("starts has {count} elements, but the input has rank {rank}")));
            }
            None => (0..count).collect(),
        };
        let mut bounds = vec![None; rank];
        for (index, &axis) in places.iter().enumerate() {
            let at =
                |list: &Option<Vec<Option<Dim>>>| list.as_ref().and_then(|list| list.get(index).cloned().flatten());
            let step = match &steps {
                Some(_) => at(&steps).and_then(|step| step.as_const()),
                None if given(3) => None,
                None => Some(1),
            };
            if step == Some(0) {
                return Err(Fault::attribute(format!("steps of axis {axis} is 0, allowed is any other number")));
            }
            if let Some(place) = bounds.get_mut(axis) {
                *place = Some(Bounds { start: at(&starts), end: at(&ends), step });
            }
        }
        Ok(Some(bounds))
    }
}

impl Bounds {
    fn cut(&self, dim: &Dim) -> Cut {
        let Some(step) = self.step else { return Cut { start: None, length: None, step: 1 } };
        let length = |start: &Dim, end: &Dim| {
            let span = if step > 0 { end - start } else { start - end };
            let count = span.ceil_div(&Dim::constant(step.checked_abs().unwrap_or(i128::MAX)));
            if count.is_ge(&Dim::ZERO) == Some(true) { count } else { count.max(&Dim::ZERO) }
        };
        if dim.as_const() == Some(0) {
            return Cut { start: Some(0), length: Some(Dim::ZERO), step };
        }
        let last = dim - 1;
        let (start, end) = if step > 0 {
            (resolve(self.start.as_ref(), dim, &Dim::ZERO, dim), resolve(self.end.as_ref(), dim, &Dim::ZERO, dim))
        } else {
            let before = Dim::constant(-1);
            (resolve(self.start.as_ref(), dim, &Dim::ZERO, &last), resolve(self.end.as_ref(), dim, &before, &last))
        };
        Cut {
            start: start.as_ref().and_then(Dim::as_const),
            length: start.zip(end).map(|(start, end)| length(&start, &end)),
            step,
        }
    }
}

/// A bound that may count from the end, kept between two limits. `None` where its sign is not known.
fn resolve(bound: Option<&Dim>, dim: &Dim, low: &Dim, high: &Dim) -> Option<Dim> {
    let bound = bound?;
    let beyond =
        bound.as_const().filter(|number| !(1 - TO_THE_END..TO_THE_END).contains(number) && dim.as_const().is_none());
    let (least, most) = bound.range();
    let place = if let Some(number) = beyond {
        if number > 0 { high.clone() } else { low.clone() }
    } else if least.is_some_and(|least| least >= 0) || bound.is_ge(&Dim::ZERO) == Some(true) {
        bound.clone()
    } else if most.is_some_and(|most| most < 0) || bound.is_ge(&Dim::ZERO) == Some(false) {
        dim + bound
    } else {
        return None;
    };
    let place = if place.is_ge(low) == Some(true) { place } else { place.max(low) };
    Some(if high.is_ge(&place) == Some(true) { place } else { place.min(high) })
}

fn value(data: &TensorFact, shape: &Shape, cuts: &[Cut]) -> Option<Arc<Value>> {
    if let Some(scalar) = values::uniform_of(data) {
        return values::spread(scalar, shape);
    }
    let starts: Vec<(i128, i128)> = cuts.iter().map(|cut| Some((cut.start?, cut.step))).collect::<Option<_>>()?;
    values::moved(data, shape, |index| {
        let places = index.iter().zip(&starts).map(|(&place, &(start, step))| {
            let offset = i128::try_from(place).unwrap_or(i128::MAX).saturating_mul(step);
            usize::try_from(start.saturating_add(offset)).unwrap_or(usize::MAX)
        });
        places.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{float, free, ints, op, typed};

    const MIN: i128 = i64::MIN as i128;
    const MAX: i128 = i64::MAX as i128;

    fn symbolic(dims: &[Dim]) -> Fact {
        Fact::tensor(ElementType::Float, Shape::new(dims.to_vec()))
    }

    #[test]
    fn reversing_saturates() {
        // Case 23.
        let inputs = [float(&[5, 4]), ints(&[-1]), ints(&[MIN]), ints(&[0]), ints(&[-1])];
        assert_eq!(op("Slice").dims(&inputs), "5×4");
        let inputs = [ints(&[1, 2, 3]), ints(&[MAX]), ints(&[MIN]), ints(&[0]), ints(&[-2])];
        let facts = op("Slice").run(&inputs).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![3, 1]));
    }

    #[test]
    fn every_second_row_rounds_up() {
        // Case 24.
        let inputs = [float(&[1, 3, 640, 640]), ints(&[0, 2]), ints(&[MAX, MAX]), ints(&[2, 3]), ints(&[2, 2])];
        assert_eq!(op("Slice").dims(&inputs), "1×3×320×319");
    }

    #[test]
    fn bounds_are_attributes_before_opset_10() {
        let node = op("Slice").opset(9).ints("starts", &[1, -3]).ints("ends", &[1000, -1]).ints("axes", &[0, 1]);
        assert_eq!(node.dims(&[float(&[4, 5])]), "3×2");
        assert!(op("Slice").opset(9).ints("starts", &[1]).dims(&[float(&[4])]).contains("needs the attribute ends"));
    }

    #[test]
    fn symbolic_dims_are_cut_symbolically() {
        let n = free("N");
        let cut = |start, end| {
            op("Slice").dims(&[symbolic(std::slice::from_ref(&n)), ints(&[start]), ints(&[end]), ints(&[0])])
        };
        assert_eq!(cut(0, MAX), "N");
        assert_eq!(cut(0, -1), "N-1");
        assert_eq!(cut(1, MAX), "N-1");
        assert_eq!(cut(0, 1), "1");
        let data = float(&[1, 512]);
        let end: Fact = TensorFact::vector(vec![n.clone()]).into();
        let facts = op("Slice").run(&[data, ints(&[0]), end, ints(&[1])]).unwrap();
        let found = facts[0].as_tensor().unwrap().shape.as_ref().unwrap().dims()[1].clone();
        assert_eq!(found, n.min(&Dim::constant(512)));
    }

    #[test]
    fn what_may_be_empty_gives_nothing_backwards() {
        let rest = &free("N") - 4;
        let rest = symbolic(&[rest.max(&Dim::ZERO)]);
        let inputs = [rest, ints(&[i32::MIN.into()]), ints(&[0]), ints(&[0]), ints(&[-1])];
        let facts = op("Slice").run(&inputs).unwrap();
        let found = facts[0].as_tensor().unwrap().shape.as_ref().unwrap().dims()[0].clone();
        for extent in [2, 4, 5, 9] {
            assert_eq!(found.eval(&|_| Some(extent)), Some(0), "{found} at {extent}");
        }
    }

    #[test]
    fn pieces_of_a_shape_are_followed() {
        let shape: Fact = TensorFact::vector(vec![free("N"), Dim::constant(3), free("H"), free("W")]).into();
        let facts = op("Slice").run(&[shape, ints(&[-2]), ints(&[MAX]), ints(&[0])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().integers(), Some(vec![free("H"), free("W")]));
    }

    #[test]
    fn unknown_bounds_leave_a_dim_within_the_old_one() {
        let end = typed(ElementType::Int64, &[1]);
        assert_eq!(op("Slice").dims(&[float(&[4, 5]), ints(&[0]), end, ints(&[1])]), "4×y0.1");
    }

    #[test]
    fn lists_are_checked() {
        let inputs = [float(&[4, 5]), ints(&[0]), ints(&[1]), ints(&[0]), ints(&[0])];
        assert!(op("Slice").dims(&inputs).contains("steps of axis 0 is 0"));
        assert!(op("Slice").dims(&[float(&[4]), ints(&[0, 0]), ints(&[1, 1])]).contains("rank 1"));
        assert!(op("Slice").dims(&[float(&[4]), ints(&[0]), ints(&[1, 1])]).contains("starts has 1"));
        assert!(op("Slice").dims(&[float(&[4]), ints(&[0]), ints(&[1]), ints(&[3])]).contains("axes is 3"));
    }

    #[test]
    fn a_slice_reads_what_it_writes() {
        let cost = op("Slice").cost(&[float(&[10, 4]), ints(&[0]), ints(&[2])]);
        assert_eq!((cost.bytes_read.as_const(), cost.bytes_written.as_const()), (Some(32), Some(32)));
    }
}
