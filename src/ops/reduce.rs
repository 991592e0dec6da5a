//! Reductions over axes, `ArgMax` and `ArgMin`.

use std::cmp::Ordering;
use std::sync::Arc;

use super::axes::{self, Axes, Found};
use super::table::Built;
use super::values::Grid;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx, scalar, values};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar, TensorFact, Value};
use crate::ir::shape::Shape;

type Rule = fn(&Scalar, &Scalar) -> Scalar;

/// How elements are put together; `None` for what is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sum,
    Mean,
    Prod,
    Max,
    Min,
    Other,
}

#[derive(Debug)]
struct Reduce {
    kind: Kind,
    axes: Axes,
    keep: bool,
    /// Whether nothing is reduced where no axes are given.
    noop: bool,
    keeps: Keeps,
}

/// What the backward pass of a reduction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    /// Sum and mean: the gradient is the same for each element.
    Nothing,
    /// A sum of squares: the elements.
    Input,
    /// Extremes, products, norms: which element made how much of the result.
    Both,
    /// The logarithm of a sum: the sum.
    Sum,
}

/// `ReduceSum`, `ReduceMean`, ... Axes are an attribute at first and an input since opset 13 (`ReduceSum`) or 18.
pub(super) fn reduce(node: &NodeView<'_>) -> Built {
    let kind = match node.op_type() {
        "ReduceSum" => Kind::Sum,
        "ReduceMean" => Kind::Mean,
        "ReduceProd" => Kind::Prod,
        "ReduceMax" => Kind::Max,
        "ReduceMin" => Kind::Min,
        _ => Kind::Other,
    };
    let keeps = match node.op_type() {
        "ReduceSum" | "ReduceMean" => Keeps::Nothing,
        "ReduceSumSquare" => Keeps::Input,
        "ReduceLogSum" => Keeps::Sum,
        _ => Keeps::Both,
    };
    let keep = node.flag("keepdims", true)?;
    let noop = node.flag("noop_with_empty_axes", false)?;
    Ok(Box::new(Reduce { kind, axes: Axes::of(node, 1)?, keep, noop, keeps }))
}

/// The shape without, or with 1 at, the reduced axes.
pub(super) fn reduced(shape: &Shape, axes: &[usize], keep: bool) -> Shape {
    let gone = axes::mask(axes, shape.rank());
    let dims = shape.dims().iter().zip(&gone);
    if keep {
        return dims.map(|(dim, &gone)| if gone { Dim::ONE } else { dim.clone() }).collect();
    }
    dims.filter(|(_, gone)| !**gone).map(|(dim, _)| dim.clone()).collect()
}

impl Operator for Reduce {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let Some(input) = &data.shape else { return Ok(vec![Fact::tensor(data.element, None)]) };
        let axes = match self.axes.find(cx, input.rank())? {
            Found::Known(axes) => axes,
            Found::Default if self.noop => return Ok(vec![data.into()]),
            Found::Default => (0..input.rank()).collect(),
            Found::Unknown(count) => {
                let shape = if self.keep {
                    let dims = input.dims().iter().enumerate();
                    // An axis without elements is reduced to one.
                    Some(dims.map(|(axis, dim)| cx.fresh_dim(0, axis, 0, Some(dim.max(&Dim::ONE)))).collect())
                } else {
                    let rank = count.and_then(|count| input.rank().checked_sub(count));
                    rank.map(|rank| axes::without_some(cx, input, rank))
                };
                return Ok(vec![Fact::tensor(data.element, shape)]);
            }
        };
        let shape = reduced(input, &axes, self.keep);
        let value = self.value(&data, input, &axes, &shape);
        Ok(vec![values::fact(data.element, Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let elements = cx.elements_in(0)?;
        Cost::computed(cx, elements.clone(), &elements)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.reduction()]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let saved = match self.keeps {
            Keeps::Nothing => Saved::NOTHING,
            Keeps::Input => Saved::input(0),
            Keeps::Both => Saved::input(0).and(Saved::output(0)),
            Keeps::Sum => Saved::extra(cx.output(0).map_or(0, |sum| sum.bytes())),
        };
        saved.when(cx.has_backward())
    }
}

impl Reduce {
    fn value(&self, data: &TensorFact, input: &Shape, axes: &[usize], shape: &Shape) -> Option<Arc<Value>> {
        let rule: Rule = match self.kind {
            Kind::Sum | Kind::Mean => scalar::add,
            Kind::Prod => scalar::mul,
            Kind::Max => scalar::max,
            Kind::Min => scalar::min,
            Kind::Other => return None,
        };
        let count: Dim = axes.iter().filter_map(|&axis| input.dim(axis)).product();
        if let Some(scalar) = values::uniform_of(data) {
            return values::spread(self.of_equal(&scalar, &count, data.element)?, shape);
        }
        let grid = Grid::of(data)?;
        let mut folded: Vec<Option<Scalar>> = vec![None; values::count(&values::sizes(shape)?)];
        let gone = axes::mask(axes, grid.sizes.len());
        let kept_sizes: Vec<usize> =
            grid.sizes.iter().zip(&gone).map(|(&size, &gone)| if gone { 1 } else { size }).collect();
        let strides = values::strides(&kept_sizes);
        values::for_each_index(&grid.sizes, |index| {
            let kept = index.iter().zip(&kept_sizes).map(|(&place, &size)| if size == 1 { 0 } else { place });
            let kept: Vec<usize> = kept.collect();
            if let Some(sum) = folded.get_mut(values::place(&kept, &strides)) {
                let element = grid.at(index);
                let next = sum.take().map_or_else(|| element.clone(), |sum| rule(&sum, &element));
                *sum = Some(scalar::fit(data.element, next));
            }
        });
        let divided = |scalar: Option<Scalar>| {
            let scalar = scalar.unwrap_or(Scalar::Unknown);
            if self.kind == Kind::Mean { mean(&scalar, &count, data.element) } else { scalar }
        };
        values::each(folded.into_iter().map(divided).collect())
    }

    /// The result for elements that are all equal.
    fn of_equal(&self, scalar: &Scalar, count: &Dim, element: Option<ElementType>) -> Option<Scalar> {
        let some = count.range().0.is_some_and(|lo| lo >= 1);
        match self.kind {
            Kind::Max | Kind::Min | Kind::Mean if some => Some(scalar.clone()),
            Kind::Sum => {
                let times = match scalar {
                    Scalar::Integer(_) => Scalar::Integer(count.clone()),
                    _ => scalar::quotient(count.clone(), 1),
                };
                Some(scalar::fit(element, scalar::mul(scalar, &times)))
            }
            Kind::Prod if count.as_const() == Some(1) => Some(scalar.clone()),
            Kind::Prod => {
                let power = count.as_i64()?;
                Some(scalar::fit(element, scalar::pow(scalar, &Scalar::Integer(Dim::from(power)))))
            }
            _ => None,
        }
    }
}

fn mean(sum: &Scalar, count: &Dim, element: Option<ElementType>) -> Scalar {
    let count = match sum {
        Scalar::Integer(_) => Scalar::Integer(count.clone()),
        _ => scalar::quotient(count.clone(), 1),
    };
    scalar::fit(element, scalar::div(sum, &count))
}

/// Where the largest or smallest element is.
#[derive(Debug)]
struct ArgExtreme {
    axis: i64,
    keep: bool,
    last: bool,
    largest: bool,
}

/// `ArgMax` and `ArgMin`.
pub(super) fn arg_extreme(node: &NodeView<'_>) -> Built {
    Ok(Box::new(ArgExtreme {
        axis: node.int_or("axis", 0)?,
        keep: node.flag("keepdims", true)?,
        last: node.flag("select_last_index", false)?,
        largest: node.op_type() == "ArgMax",
    }))
}

impl Operator for ArgExtreme {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let Some((data, input)) = cx.tensor(0).and_then(|data| data.shape.as_ref().map(|shape| (data, shape))) else {
            return Ok(vec![Fact::tensor(ElementType::Int64, None)]);
        };
        let axis = axes::index("attribute axis", self.axis, input.rank())?;
        if input.dim(axis).and_then(Dim::as_const) == Some(0) {
            return Err(Fault::shape(format!("axis {axis} of {input} has no element to choose from")));
        }
        let shape = reduced(input, &[axis], self.keep);
        let grid = if data.value.is_some() { Grid::of(data) } else { None };
        let value = grid.and_then(|grid| {
            let extent = grid.sizes.get(axis).copied()?;
            values::build(&shape, |index| {
                let mut at = index.to_vec();
                if !self.keep {
                    at.insert(axis.min(at.len()), 0);
                }
                let line: Vec<Scalar> = (0..extent)
                    .map(|place| {
                        if let Some(slot) = at.get_mut(axis) {
                            *slot = place;
                        }
                        grid.at(&at)
                    })
                    .collect();
                self.choose(&line).map_or(Scalar::Unknown, |place| Scalar::Integer(Dim::from(place)))
            })
        });
        Ok(vec![values::fact(Some(ElementType::Int64), Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::computed(cx, cx.elements_in(0)?, &Dim::ZERO)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.reduction()]
    }
}

impl ArgExtreme {
    fn choose(&self, line: &[Scalar]) -> Option<usize> {
        let (mut best, mut rest) = (0, line.iter().enumerate());
        let mut top = rest.next()?.1;
        for (place, element) in rest {
            let order = scalar::compare(element, top)?;
            let better = if self.largest { order == Ordering::Greater } else { order == Ordering::Less };
            if better || (self.last && order == Ordering::Equal) {
                (best, top) = (place, element);
            }
        }
        Some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{float, free, ints, op, reals, typed};

    fn integers(facts: &[Fact]) -> Vec<Dim> {
        facts[0].as_tensor().unwrap().integers().unwrap()
    }

    #[test]
    fn axes_moved_to_an_input_at_different_versions() {
        // Case 32.
        let data = float(&[2, 3, 4]);
        assert_eq!(op("ReduceMean").opset(13).ints("axes", &[1]).dims(std::slice::from_ref(&data)), "2×1×4");
        assert_eq!(op("ReduceSum").opset(13).dims(&[data.clone(), ints(&[1])]), "2×1×4");
        assert_eq!(op("ReduceMean").opset(18).int("keepdims", 0).dims(&[data, ints(&[-1, 0])]), "3");
    }

    #[test]
    fn without_axes_everything_or_nothing_is_reduced() {
        let data = float(&[2, 3]);
        assert_eq!(op("ReduceMax").dims(std::slice::from_ref(&data)), "1×1");
        assert_eq!(op("ReduceMax").int("keepdims", 0).dims(std::slice::from_ref(&data)), "scalar");
        assert_eq!(op("ReduceMax").int("noop_with_empty_axes", 1).dims(&[data.clone(), ints(&[])]), "2×3");
        assert_eq!(op("ReduceMax").dims(&[data, ints(&[])]), "1×1");
    }

    #[test]
    fn unknown_axes_may_reduce_an_empty_axis_to_one() {
        let facts = op("ReduceSum").run(&[float(&[2, 0]), typed(ElementType::Int64, &[1])]).unwrap();
        let dims = facts[0].as_tensor().unwrap().shape.as_ref().unwrap().dims();
        assert_eq!((dims[0].range().1, dims[1].range().1), (Some(2), Some(1)));
    }

    #[test]
    fn axes_are_checked() {
        assert!(op("ReduceSum").dims(&[float(&[2]), ints(&[1])]).contains("axes is 1, allowed is -1 to 0"));
        assert!(op("ReduceSum").dims(&[float(&[2, 2]), ints(&[1, -1])]).contains("axis 1 twice"));
    }

    #[test]
    fn a_product_of_a_shape_is_its_number_of_elements() {
        let shape: Fact = TensorFact::vector(vec![free("N"), Dim::constant(3)]).into();
        let facts = op("ReduceProd").int("keepdims", 0).run(std::slice::from_ref(&shape)).unwrap();
        assert_eq!(integers(&facts), [free("N") * 3]);
        assert_eq!(integers(&op("ReduceSum").run(&[shape]).unwrap()), [free("N") + 3]);
    }

    #[test]
    fn rows_of_a_known_matrix_are_reduced() {
        let matrix = op("Reshape").run(&[ints(&[1, 5, 3, 4]), ints(&[2, 2])]).unwrap().remove(0);
        let run = |name: &str, axis| {
            let facts = op(name).int("keepdims", 0).run(&[matrix.clone(), ints(&[axis])]).unwrap();
            facts[0].as_tensor().unwrap().const_integers().unwrap()
        };
        assert_eq!(run("ReduceSum", 0), [4, 9]);
        assert_eq!(run("ReduceMax", 1), [5, 4]);
        assert_eq!(run("ReduceMin", 1), [1, 3]);
        assert_eq!(run("ReduceMean", 1), [3, 3]);
        let facts = op("ReduceMean").run(&[reals(&[1.0, 2.0])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().reals(), Some(vec![1.5]));
    }

    #[test]
    fn a_sum_of_ones_counts_them() {
        let n = Shape::new(vec![free("N")]);
        let ones = values::fact(Some(ElementType::Int64), Some(n), values::uniform(Scalar::Integer(Dim::ONE)));
        assert_eq!(integers(&op("ReduceSum").run(&[ones]).unwrap()), [free("N")]);
    }

    #[test]
    fn a_reduction_costs_one_operation_an_element() {
        let cost = op("ReduceMean").cost(&[float(&[2, 8]), ints(&[1])]);
        assert_eq!(cost.flops.as_const(), Some(16));
    }

    #[test]
    fn the_place_of_the_largest_is_an_integer() {
        let facts = op("ArgMax").int("axis", -1).run(&[float(&[2, 5])]).unwrap();
        assert_eq!(facts[0], typed(ElementType::Int64, &[2, 1]));
        let place = |node: crate::ops::testing::TestNode| {
            let facts = node.int("keepdims", 0).run(&[reals(&[1.0, 7.0, 7.0])]).unwrap();
            facts[0].as_tensor().unwrap().const_integers().unwrap()
        };
        assert_eq!(place(op("ArgMax")), [1]);
        assert_eq!(place(op("ArgMax").int("select_last_index", 1)), [2]);
        assert_eq!(place(op("ArgMin")), [0]);
        assert!(op("ArgMax").dims(&[float(&[0])]).contains("no element"));
    }
}
