//! `Reshape` and `Flatten`: the same elements under other dims.

use std::sync::Arc;

use super::axes::MANY_AXES;
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, values};
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, TensorFact, Value};
use crate::ir::shape::{Shape, normalize_axis, product};

#[derive(Debug)]
struct Reshape {
    /// The target where it is an attribute, before opset 5.
    shape: Option<Vec<i64>>,
    /// Whether a 0 in the target means 0 and not "as in the input".
    allow_zero: bool,
}

/// `Reshape`.
pub(super) fn reshape(node: &NodeView<'_>) -> Built {
    let shape = if node.opset() < 5 { node.ints("shape")? } else { None };
    Ok(Box::new(Reshape { shape, allow_zero: node.flag("allowzero", false)? }))
}

/// One dim of the target.
enum Target {
    Known(Dim),
    /// Copied from the input.
    Copied(Dim),
    /// -1: what is left.
    Rest,
    Unknown,
}

impl Operator for Reshape {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let wanted = match (&self.shape, cx.tensor(1)) {
            (Some(shape), _) => Some(shape.iter().map(|&dim| Some(Dim::from(dim))).collect()),
            (None, Some(shape)) => values::targets(shape),
            (None, None) => None,
        };
        let Some(wanted) = wanted.filter(|wanted: &Vec<_>| wanted.len() <= MANY_AXES) else {
            return Ok(vec![Fact::tensor(data.element, None)]);
        };
        let targets = self.targets(&wanted, data.shape.as_ref())?;
        let shape = match &data.shape {
            Some(input) => solve(cx, &targets, input)?,
            None => targets
                .iter()
                .enumerate()
                .map(|(axis, target)| match target {
                    Target::Known(dim) | Target::Copied(dim) => dim.clone(),
                    Target::Rest | Target::Unknown => cx.fresh_dim(0, axis, 0, None),
                })
                .collect(),
        };
        Ok(vec![viewed(&data, shape)])
    }

    fn cost(&self, _cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn is_view(&self) -> bool {
        true
    }
}

impl Reshape {
    fn targets(&self, wanted: &[Option<Dim>], input: Option<&Shape>) -> Result<Vec<Target>, Fault> {
        let mut targets = Vec::with_capacity(wanted.len());
        let mut rest = None;
        for (axis, dim) in wanted.iter().enumerate() {
            let Some(dim) = dim else {
                targets.push(Target::Unknown);
                continue;
            };
            targets.push(match dim.as_const() {
                Some(0) if !self.allow_zero => match input.map(|shape| shape.dim(axis)) {
                    Some(Some(dim)) => Target::Copied(dim.clone()),
                    Some(None) => {
                        let rank = input.map_or(0, Shape::rank);
                        return Err(Fault::shape(format!(
                            "dim {axis} of the target is 0, which copies a dim of the input, but that has rank {rank}"
                        )));
                    }
                    None => Target::Unknown,
                },
                Some(-1) => {
                    if let Some(first) = rest.replace(axis) {
                        return Err(Fault::shape(format!(
                            "dims {first} and {axis} of the target are both -1, allowed is one"
                        )));
                    }
                    Target::Rest
                }
                Some(number) if number < -1 => {
                    return Err(Fault::shape(format!("dim {axis} of the target is {number}, allowed is -1 and more")));
                }
                _ if dim.range().1.is_some_and(|hi| hi < 0) => Target::Unknown,
                _ => Target::Known(dim.clone()),
            });
        }
        Ok(targets)
    }
}

/// The output shape for an input of known rank.
fn solve(cx: &mut InferCx<'_>, targets: &[Target], input: &Shape) -> Result<Shape, Fault> {
    let unknown = targets.iter().filter(|target| matches!(target, Target::Unknown)).count();
    let rest = targets.iter().filter(|target| matches!(target, Target::Rest)).count();
    // Copied dims stand on both sides: without them a copied 0 needs no division by 0.
    let copied = |axis: usize| matches!(targets.get(axis), Some(Target::Copied(_)));
    let left: Vec<Dim> =
        input.dims().iter().enumerate().filter(|(axis, _)| !copied(*axis)).map(|(_, dim)| dim.clone()).collect();
    let left = product(&left);
    let known = targets.iter().fold(Dim::ONE, |known, target| match target {
        Target::Known(dim) => known * dim,
        _ => known,
    });
    if unknown + rest == 0 {
        if left.is_eq(&known) == Some(false) && !targets_empty(targets, input) {
            return Err(mismatch(targets, input));
        }
    } else if rest == 1 && known.as_const() == Some(0) {
        return Err(Fault::shape("the target holds -1 beside a dim of 0, so that -1 stands for no certain number"));
    }
    let solved = if unknown + rest == 1 { divide(&left, &known, targets, input)? } else { None };
    // Beside a dim of 0 another may have any size.
    let bound = Some(input.elements()).filter(|elements| elements.range().0.is_some_and(|lo| lo >= 1));
    let mut dims = Vec::with_capacity(targets.len());
    for (axis, target) in targets.iter().enumerate() {
        dims.push(match target {
            Target::Known(dim) | Target::Copied(dim) => dim.clone(),
            Target::Rest | Target::Unknown => match &solved {
                Some(dim) => dim.clone(),
                None => cx.fresh_dim(0, axis, 0, bound.clone()),
            },
        });
    }
    Ok(Shape::new(dims))
}

/// Whether both sides hold no element whatever the other dims are.
fn targets_empty(targets: &[Target], input: &Shape) -> bool {
    let zero = |dim: &Dim| dim.as_const() == Some(0);
    // A copied dim that may be 0 empties both sides.
    let may_be_zero = |dim: &Dim| dim.range().0.is_none_or(|lo| lo <= 0);
    input.dims().iter().any(zero)
        && targets.iter().any(|target| match target {
            Target::Known(dim) => zero(dim),
            Target::Copied(dim) => may_be_zero(dim),
            Target::Rest | Target::Unknown => false,
        })
}

fn divide(left: &Dim, known: &Dim, targets: &[Target], input: &Shape) -> Result<Option<Dim>, Fault> {
    if known.as_const() == Some(0) {
        return Ok(None);
    }
    if let Some(dim) = left.exact_div(known) {
        return Ok(Some(dim));
    }
    if left.as_const().is_some() && known.as_const().is_some() {
        return Err(mismatch(targets, input));
    }
    Ok(Some(left.floor_div(known)))
}

fn mismatch(targets: &[Target], input: &Shape) -> Fault {
    let text = |target: &Target| match target {
        Target::Known(dim) | Target::Copied(dim) => dim.to_string(),
        Target::Rest => "-1".into(),
        Target::Unknown => "?".into(),
    };
    let target: Vec<String> = targets.iter().map(text).collect();
    let fault = Fault::shape(format!(
        "{input} holds {} elements, which do not fit the target [{}]",
        input.elements(),
        target.join(", ")
    ));
    let fixed = matches!(targets.first(), Some(Target::Known(dim)) if dim.as_const().is_some())
        && targets.len() > 1
        && !targets.iter().any(|target| matches!(target, Target::Rest));
    if fixed { fault.help("a target that begins with -1 or 0 would follow the batch") } else { fault }
}

/// A tensor with another shape of as many elements.
pub(super) fn viewed(data: &TensorFact, shape: Shape) -> Fact {
    let count = shape.elements().as_usize();
    let fits = |value: &Arc<Value>| match &**value {
        Value::Each(elements) => count == Some(elements.len()),
        Value::Uniform(_) => true,
    };
    let value = data.value.clone().filter(fits);
    values::fact(data.element, Some(shape), value)
}

/// Two dims: the product of those before an axis and of those from it on.
#[derive(Debug)]
struct Flatten {
    axis: i64,
}

/// `Flatten`.
pub(super) fn flatten(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Flatten { axis: node.int_or("axis", 1)? }))
}

impl Operator for Flatten {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let Some(data) = cx.tensor(0) else {
            return Ok(vec![Fact::tensor(None, cx.fresh_shape(0, 2))]);
        };
        let Some(shape) = &data.shape else {
            return Ok(vec![Fact::tensor(data.element, cx.fresh_shape(0, 2))]);
        };
        let rank = shape.rank();
        let end = i64::try_from(rank).is_ok_and(|rank| rank == self.axis);
        let axis = if end { Some(rank) } else { normalize_axis(self.axis, rank) };
        let Some((outer, inner)) = axis.and_then(|axis| shape.dims().split_at_checked(axis)) else {
            return Err(Fault::attribute(format!(
                "attribute axis is {}, allowed is -{rank} to {rank} for the input {shape}",
                self.axis
            )));
        };
        Ok(vec![viewed(data, Shape::new(vec![product(outer), product(inner)]))])
    }

    fn cost(&self, _cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }

    fn is_view(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::dim::{Symbol, SymbolKind};
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Scalar;
    use crate::ops::testing::{float, free, ints, op, typed};

    fn symbolic(dims: &[Dim]) -> Fact {
        Fact::tensor(ElementType::Float, Shape::new(dims.to_vec()))
    }

    #[test]
    fn a_copied_dim_that_may_be_zero_fits_an_empty_input() {
        let past = Dim::from(&Symbol::new("past", SymbolKind::Free, 0, None));
        let input = symbolic(&[past, Dim::ZERO]);
        assert_eq!(op("Reshape").dims(&[input, ints(&[0])]), "past");
        assert!(op("Reshape").run(&[float(&[2, 0]), ints(&[0])]).is_err());
    }

    #[test]
    fn a_zero_copies_and_is_left_out_of_the_division() {
        // Case 21.
        assert_eq!(op("Reshape").dims(&[float(&[2, 3, 4]), ints(&[0, -1])]), "2×12");
    }

    #[test]
    fn allowzero_means_a_true_zero() {
        // Case 22.
        let data = float(&[0, 8, 2]);
        assert_eq!(op("Reshape").int("allowzero", 1).dims(&[data.clone(), ints(&[0, 0, 4])]), "0×0×4");
        assert_eq!(op("Reshape").dims(&[data, ints(&[0, 0, 4])]), "0×8×4");
        assert_eq!(op("Reshape").dims(&[float(&[0, 3, 2]), ints(&[0, -1])]), "0×6");
    }

    #[test]
    fn the_rest_is_divided_symbolically() {
        let n = free("N");
        let data = symbolic(&[n.clone(), Dim::constant(64), Dim::constant(7)]);
        assert_eq!(op("Reshape").dims(&[data.clone(), ints(&[-1, 448])]), "N×448");
        assert_eq!(op("Reshape").dims(&[data.clone(), ints(&[0, 8, -1])]), "N×8×56");
        let target: Fact = TensorFact::vector(vec![n.clone(), Dim::constant(-1)]).into();
        assert_eq!(op("Reshape").dims(&[data, target]), "N×448");
    }

    #[test]
    fn an_unknown_dim_follows_from_the_others() {
        let elements = vec![Scalar::Unknown, Scalar::Integer(Dim::constant(4))];
        let target = TensorFact::with_elements(Some(ElementType::Int64), crate::ops::testing::shape(&[2]), elements);
        assert_eq!(op("Reshape").dims(&[float(&[2, 3, 4]), target.into()]), "6×4");
        let blind = typed(ElementType::Int64, &[3]);
        assert_eq!(op("Reshape").dims(&[float(&[2, 3, 4]), blind]), "y0.0×y0.1×y0.2");
    }

    #[test]
    fn unknown_dims_of_an_empty_tensor_are_not_bounded() {
        let facts = op("Reshape").int("allowzero", 1).run(&[float(&[0, 3]), typed(ElementType::Int64, &[2])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().shape.as_ref().unwrap().dims()[0].range().1, None);
    }

    #[test]
    fn the_target_of_old_files_is_an_attribute() {
        assert_eq!(op("Reshape").opset(1).ints("shape", &[3, -1]).dims(&[float(&[2, 6])]), "3×4");
    }

    #[test]
    fn counts_that_differ_are_named() {
        let message = op("Reshape").dims(&[float(&[2, 3]), ints(&[4, 2])]);
        assert!(message.contains("2×3 holds 6 elements, which do not fit the target [4, 2]"), "{message}");
        assert!(op("Reshape").dims(&[float(&[7]), ints(&[2, -1])]).contains("do not fit"));
        assert!(op("Reshape").dims(&[float(&[4]), ints(&[-1, -1])]).contains("both -1"));
        assert!(op("Reshape").dims(&[float(&[4]), ints(&[-2])]).contains("is -2"));
        assert!(op("Reshape").dims(&[float(&[4]), ints(&[2, 0])]).contains("rank 1"));
        assert!(
            op("Reshape").int("allowzero", 1).dims(&[float(&[4]), ints(&[0, -1])]).contains("-1 beside a dim of 0")
        );
    }

    #[test]
    fn values_go_through() {
        let facts = op("Reshape").run(&[ints(&[5]), ints(&[])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![5]));
    }

    #[test]
    fn flatten_multiplies_on_both_sides_of_the_axis() {
        assert_eq!(op("Flatten").dims(&[float(&[2, 3, 4])]), "2×12");
        assert_eq!(op("Flatten").int("axis", 0).dims(&[float(&[2, 3, 4])]), "1×24");
        assert_eq!(op("Flatten").int("axis", 3).dims(&[float(&[2, 3, 4])]), "24×1");
        assert_eq!(op("Flatten").int("axis", -1).dims(&[float(&[2, 3, 4])]), "6×4");
        assert!(op("Flatten").int("axis", 4).dims(&[float(&[2, 3, 4])]).contains("axis is 4, allowed is -3 to 3"));
    }

    #[test]
    fn views_are_free() {
        assert_eq!(op("Reshape").cost(&[float(&[2, 3]), ints(&[6])]), Cost::FREE);
    }
}
