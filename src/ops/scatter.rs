//! `Scatter`, `ScatterElements`, `ScatterND`, `TensorScatter`: elements put at indices of a tensor.
//!
//! Only what is put is counted as moved: runtimes write into the first input where nothing else reads it.

use super::cost::tensor_bytes;
use super::gather::{same_rank, to_place};
use super::table::Built;
use super::values::Grid;
use super::{
    Cost, CostCx, Family, Fault, Function, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx, axes, broadcast,
    scalar, values,
};
use crate::diagnostics::Code;
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, Scalar, TensorFact};
use crate::ir::shape::Shape;

type Rule = fn(&Scalar, &Scalar) -> Scalar;

/// How an element that is put meets the one that is there; `None` replaces it.
#[derive(Clone, Copy, Debug)]
struct Reduction {
    rule: Option<Rule>,
    /// Whether it is a sum, whose gradient goes on as it is.
    adds: bool,
}

/// What is put takes the place of what is there.
const REPLACE: Reduction = Reduction { rule: None, adds: false };

impl Reduction {
    fn of(node: &NodeView<'_>) -> Result<Self, Fault> {
        let name = node.string("reduction")?.unwrap_or("none");
        let rule: Option<Rule> = match name {
            "none" => None,
            "add" => Some(scalar::add),
            "mul" => Some(scalar::mul),
            "min" => Some(scalar::min),
            "max" => Some(scalar::max),
            other => {
                return Err(Fault::attribute(format!(
                    "attribute reduction is \"{other}\", allowed are \"none\", \"add\", \"mul\", \"min\" and \"max\""
                )));
            }
        };
        Ok(Self { rule, adds: name == "add" })
    }

    fn put(self, target: &mut Scalar, update: &Scalar) {
        *target = self.rule.map_or_else(|| update.clone(), |rule| rule(target, update));
    }

    fn cost(self, cx: &CostCx<'_>, updates: usize) -> Option<Cost> {
        let put = tensor_bytes(cx.input(updates)?)?;
        let indices = match cx.input(if updates == 2 { 1 } else { 2 }) {
            Some(indices) => tensor_bytes(indices)?,
            None => Dim::ZERO,
        };
        let (flops, there) = match self.rule {
            Some(_) => (cx.elements_in(updates)?, put.clone()),
            None => (Dim::ZERO, Dim::ZERO),
        };
        let backward_flops = &flops * i128::try_from(cx.gradient_count()).unwrap_or(i128::MAX);
        Some(Cost { flops, backward_flops, bytes_read: &put + indices + there, bytes_written: put, ..Cost::FREE })
    }
}

impl Reduction {
    /// As many elements are moved as updates are put.
    fn work(self, cx: &WorkCx<'_>, updates: usize) -> Vec<Work> {
        let elements = cx.input(updates).map_or(0, |updates| updates.elements());
        vec![cx.all(if self.rule.is_some() {
            Family::Elementwise { elements, function: Function::Arithmetic }
        } else {
            Family::Copy { elements }
        })]
    }

    /// The indices. A product, minimum or maximum compares or divides again.
    fn saved(self, cx: &WorkCx<'_>) -> Saved {
        let all = Saved::inputs(0..3).and(Saved::output(0));
        let saved = if self.rule.is_some() && !self.adds { all } else { Saved::input(1) };
        saved.when(cx.has_backward())
    }
}

fn same_type(cx: &InferCx<'_>, updates: usize) -> Result<(), Fault> {
    match (cx.element(0), cx.element(updates)) {
        (Some(data), Some(update)) if data != update => {
            Err(Fault::new(Code::TypeMismatch, format!("data is {data} and updates are {update}, they must be equal")))
        }
        _ => Ok(()),
    }
}

/// One element for each index along one axis.
#[derive(Debug)]
struct ScatterElements {
    axis: i64,
    reduction: Reduction,
}

/// `ScatterElements` and the older `Scatter`.
pub(super) fn scatter_elements(node: &NodeView<'_>) -> Built {
    Ok(Box::new(ScatterElements { axis: node.int_or("axis", 0)?, reduction: Reduction::of(node)? }))
}

impl Operator for ScatterElements {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        same_type(cx, 2)?;
        let Some(input) = &data.shape else { return Ok(vec![data.without_value().into()]) };
        let axis = axes::index("attribute axis", self.axis, input.rank())?;
        if let Some(indices) = cx.shape(1) {
            same_rank(input, indices)?;
            if let Some(updates) = cx.shape(2) {
                let fits = updates.rank() == indices.rank()
                    && updates.dims().iter().zip(indices.dims()).all(|(a, b)| broadcast::unify(a, b).is_some());
                if !fits {
                    return Err(Fault::shape(format!("updates {updates} and indices {indices} must have one shape")));
                }
            }
        }
        let value = self.scattered(&data, cx.tensor(1), cx.tensor(2), axis).and_then(Grid::into_value);
        Ok(vec![values::fact(data.element, data.shape.clone(), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        self.reduction.cost(cx, 2)
    }

    fn role(&self, input: usize) -> Role {
        if input == 1 { Role::Setting } else { Role::Data }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        self.reduction.work(cx, 2)
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        self.reduction.saved(cx)
    }
}

impl ScatterElements {
    fn scattered(
        &self,
        data: &TensorFact,
        indices: Option<&TensorFact>,
        updates: Option<&TensorFact>,
        axis: usize,
    ) -> Option<Grid> {
        let (mut grid, indices, updates) = (Grid::of_any(data)?, Grid::of(indices?)?, Grid::of_any(updates?)?);
        let extent = grid.sizes.get(axis).copied()?;
        let mut complete = true;
        values::for_each_index(&indices.sizes, |index| {
            let mut target = index.to_vec();
            let place = to_place(&indices.at(index), extent);
            match (target.get_mut(axis), place) {
                (Some(slot), Some(place)) => *slot = place,
                _ => complete = false,
            }
            match grid.at_mut(&target) {
                Some(slot) => self.reduction.put(slot, &updates.at(index)),
                None => complete = false,
            }
        });
        complete.then_some(grid)
    }
}

/// Slices at tuples of indices.
#[derive(Debug)]
struct ScatterNd {
    reduction: Reduction,
}

/// `ScatterND`.
pub(super) fn scatter_nd(node: &NodeView<'_>) -> Built {
    Ok(Box::new(ScatterNd { reduction: Reduction::of(node)? }))
}

impl Operator for ScatterNd {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        same_type(cx, 2)?;
        if let (Some(input), Some(indices)) = (&data.shape, cx.shape(1)) {
            let Some((depth, outer)) = indices.dims().split_last() else {
                return Err(Fault::shape("indices must have rank 1 or more, they are a scalar"));
            };
            if let Some(depth) = depth.as_const() {
                let inner = usize::try_from(depth).ok().and_then(|depth| input.dims().get(depth..));
                let Some(inner) = inner else {
                    return Err(Fault::shape(format!("indices name {depth} axes, the data has rank {}", input.rank())));
                };
                if let Some(updates) = cx.shape(2) {
                    let wanted: Shape = outer.iter().chain(inner).cloned().collect();
                    let fits = updates.rank() == wanted.rank()
                        && updates.dims().iter().zip(wanted.dims()).all(|(a, b)| broadcast::unify(a, b).is_some());
                    if !fits {
                        return Err(Fault::shape(format!(
                            "updates have shape {updates}, data and indices ask for {wanted}"
                        )));
                    }
                }
            }
        }
        let value = self.scattered(&data, cx.tensor(1), cx.tensor(2)).and_then(Grid::into_value);
        Ok(vec![values::fact(data.element, data.shape.clone(), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        self.reduction.cost(cx, 2)
    }

    fn role(&self, input: usize) -> Role {
        if input == 1 { Role::Setting } else { Role::Data }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        self.reduction.work(cx, 2)
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        self.reduction.saved(cx)
    }
}

impl ScatterNd {
    fn scattered(&self, data: &TensorFact, indices: Option<&TensorFact>, updates: Option<&TensorFact>) -> Option<Grid> {
        let (mut grid, indices, updates) = (Grid::of_any(data)?, Grid::of(indices?)?, Grid::of_any(updates?)?);
        let depth = *indices.sizes.last()?;
        let outer = indices.sizes.len() - 1;
        let mut complete = true;
        values::for_each_index(&updates.sizes, |index| {
            let (tuple, inner) = index.split_at_checked(outer).unwrap_or((index, &[]));
            let mut target = Vec::with_capacity(depth + inner.len());
            for part in 0..depth {
                let at: Vec<usize> = tuple.iter().copied().chain([part]).collect();
                let extent = grid.sizes.get(part).copied().unwrap_or(0);
                match to_place(&indices.at(&at), extent) {
                    Some(place) => target.push(place),
                    None => complete = false,
                }
            }
            target.extend(inner);
            match grid.at_mut(&target) {
                Some(slot) if complete => self.reduction.put(slot, &updates.at(index)),
                _ => complete = false,
            }
        });
        complete.then_some(grid)
    }
}

/// A cache that new rows are written into.
#[derive(Debug)]
struct TensorScatter {
    axis: i64,
}

/// `TensorScatter`.
pub(super) fn tensor_scatter(node: &NodeView<'_>) -> Built {
    if let Some(mode) = node.string("mode")?
        && !matches!(mode, "linear" | "circular")
    {
        return Err(Fault::attribute(format!("attribute mode is \"{mode}\", allowed are \"linear\" and \"circular\"")));
    }
    Ok(Box::new(TensorScatter { axis: node.int_or("axis", -2)? }))
}

impl Operator for TensorScatter {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let cache = cx.tensor(0).cloned().unwrap_or_default();
        same_type(cx, 1)?;
        if let Some(shape) = &cache.shape {
            let axis = axes::index("attribute axis", self.axis, shape.rank())?;
            if axis == 0 {
                return Err(Fault::attribute("attribute axis is that of the batch, allowed is any other"));
            }
            if let Some(update) = cx.shape(1) {
                let fits = update.rank() == shape.rank()
                    && update.dims().iter().zip(shape.dims()).enumerate().all(|(place, (new, old))| {
                        if place == axis { old.is_ge(new) != Some(false) } else { broadcast::unify(new, old).is_some() }
                    });
                if !fits {
                    return Err(Fault::shape(format!(
                        "update {update} does not fit the cache {shape} along axis {axis}"
                    )));
                }
            }
        }
        Ok(vec![cache.without_value().into()])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        REPLACE.cost(cx, 1)
    }

    fn role(&self, input: usize) -> Role {
        if input == 2 { Role::Setting } else { Role::Data }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        REPLACE.work(cx, 1)
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::input(2).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{float, free, ints, op, typed};

    fn matrix(elements: &[i128], rows: i128) -> Fact {
        op("Reshape").run(&[ints(elements), ints(&[rows, -1])]).unwrap().remove(0)
    }

    #[test]
    fn a_dim_is_put_into_a_shape() {
        let n: Fact = TensorFact::vector(vec![free("N")]).into();
        let facts = op("ScatterND").run(&[ints(&[1, 2, 3]), matrix(&[1], 1), n]).unwrap();
        let expected = vec![Dim::ONE, free("N"), Dim::constant(3)];
        assert_eq!(facts[0].as_tensor().unwrap().integers(), Some(expected));
    }

    #[test]
    fn an_unknown_update_leaves_the_rest_known() {
        let unknown = typed(ElementType::Int64, &[1]);
        let facts = op("ScatterElements").run(&[ints(&[1, 2]), ints(&[-1]), unknown]).unwrap();
        let elements = facts[0].as_tensor().unwrap().elements().unwrap();
        assert_eq!(elements, [Scalar::Integer(Dim::ONE), Scalar::Unknown]);
    }

    #[test]
    fn updates_add_up_where_asked() {
        let node = op("ScatterElements").string("reduction", "add");
        let facts = node.run(&[ints(&[1, 2]), ints(&[0, 0]), ints(&[5, 6])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![12, 2]));
        assert!(
            op("ScatterND").string("reduction", "sub").dims(&[float(&[1]), ints(&[0]), float(&[])]).contains("\"sub\"")
        );
    }

    #[test]
    fn shapes_of_updates_are_checked() {
        let indices = typed(ElementType::Int64, &[7, 1]);
        assert_eq!(op("ScatterND").dims(&[float(&[4, 5]), indices.clone(), float(&[7, 5])]), "4×5");
        let message = op("ScatterND").dims(&[float(&[4, 5]), indices, float(&[7, 4])]);
        assert!(message.contains("updates have shape 7×4, data and indices ask for 7×5"), "{message}");
        let message = op("ScatterElements").dims(&[float(&[4]), ints(&[0]), float(&[2])]);
        assert!(message.contains("must have one shape"), "{message}");
        let indices = typed(ElementType::Int64, &[7, 3]);
        assert!(op("ScatterND").dims(&[float(&[4, 5]), indices, float(&[7])]).contains("name 3 axes"));
    }

    #[test]
    fn only_what_is_put_is_moved() {
        let cost = op("ScatterND").cost(&[float(&[1000, 8]), typed(ElementType::Int64, &[2, 1]), float(&[2, 8])]);
        assert_eq!((cost.bytes_read.as_const(), cost.bytes_written.as_const()), (Some(64 + 16), Some(64)));
        let cost = op("TensorScatter").opset(24).cost(&[float(&[1, 2, 128, 64]), float(&[1, 2, 1, 64])]);
        assert_eq!((cost.bytes_read.as_const(), cost.bytes_written.as_const()), (Some(512), Some(512)));
    }
}
