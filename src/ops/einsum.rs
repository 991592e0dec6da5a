//! `Einsum`: sums of products over named indices. Counted as pairwise products from left to right.

use std::collections::{BTreeMap, BTreeSet};

use super::broadcast::merge;
use super::operands::common_element;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// `Einsum` with its equation taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Einsum {
    /// Indices of each operand.
    pub operands: Vec<Vec<Index>>,
    /// Indices of the output.
    pub output: Vec<Index>,
}

/// An index of an operand or the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Index {
    /// `...`: the dims that no letter names.
    Rest,
    /// A letter.
    Letter(char),
}

/// An index that stands for one dim: a letter, or a dim of the rest counted from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Rest(usize),
    Letter(char),
}

/// `Einsum`.
pub(super) fn einsum(node: &NodeView<'_>) -> Built {
    let equation = node.string("equation")?.ok_or_else(|| node.missing("equation"))?;
    Ok(Box::new(Einsum::parse(equation)?))
}

impl Einsum {
    fn parse(equation: &str) -> Result<Self, Fault> {
        let fault = |what: &str| Fault::attribute(format!("attribute equation {equation:?}: {what}"));
        let text: String = equation.chars().filter(|letter| !letter.is_whitespace()).collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text.as_str(), None),
        };
        let term = |text: &str| indices(text).map_err(|what| fault(&what));
        let operands = left.split(',').map(term).collect::<Result<Vec<_>, _>>()?;
        let output = match right {
            Some(right) => term(right)?,
            None => implicit_output(&operands),
        };
        let mut seen = BTreeSet::new();
        for index in &output {
            if !seen.insert(index) {
                return Err(fault("an index stands twice in the output"));
            }
            // A rest that no operand has is empty.
            if *index != Index::Rest && !operands.iter().any(|operand| operand.contains(index)) {
                return Err(fault("the output has an index that no operand has"));
            }
        }
        Ok(Self { operands, output })
    }

    /// Labels of every operand (`None` while its rank decides them and is unknown), and the extent of each label.
    fn resolve(&self, shapes: &[Option<&Shape>]) -> Result<Resolved<Dim>, Fault> {
        let mut resolved = Resolved { operands: Vec::new(), sizes: BTreeMap::new(), rest: Some(0) };
        for (number, (operand, shape)) in self.operands.iter().zip(shapes).enumerate() {
            let letters = operand.iter().filter(|&&index| index != Index::Rest).count();
            let has_rest = letters < operand.len();
            let rest = match shape {
                None if has_rest => {
                    resolved.rest = None;
                    resolved.operands.push(None);
                    continue;
                }
                None => 0,
                Some(shape) => match shape.rank().checked_sub(letters) {
                    Some(rest) if has_rest || rest == 0 => rest,
                    _ => {
                        return Err(Fault::shape(format!(
                            "operand {number} has rank {} ({shape}), the equation gives it {letters} indices",
                            shape.rank()
                        )));
                    }
                },
            };
            resolved.rest = resolved.rest.map(|longest: usize| longest.max(rest));
            let labels = expand(operand, rest);
            if let Some(shape) = shape {
                diagonals(&labels, shape, number)?;
            }
            for (&label, dim) in labels.iter().zip(shape.iter().flat_map(|shape| shape.dims())) {
                let size = match resolved.sizes.get(&label) {
                    None => dim.clone(),
                    Some(other) => merge(other, dim).ok_or_else(|| {
                        let name = match label {
                            Label::Letter(letter) => format!("index {letter}"),
                            Label::Rest(_) => "a dim of ...".into(),
                        };
                        Fault::shape(format!("{name} is {other} and, in operand {number}, {dim}"))
                    })?,
                };
                resolved.sizes.insert(label, size);
            }
            resolved.operands.push(Some(labels));
        }
        Ok(resolved)
    }

    /// Labels of each pairwise product from left to right, an intermediate result keeping the indices that are still
    /// needed.
    fn steps<S>(&self, resolved: &Resolved<S>) -> Option<Vec<Step>> {
        let output = expand(&self.output, resolved.rest?);
        let mut operands = Vec::with_capacity(resolved.operands.len());
        for operand in &resolved.operands {
            operands.push(operand.as_ref()?.iter().copied().collect::<BTreeSet<_>>());
        }
        // How many of the operands not yet taken, and the output, have a label.
        let mut needed: BTreeMap<Label, usize> = BTreeMap::new();
        for &label in operands.iter().flatten().chain(&output) {
            *needed.entry(label).or_default() += 1;
        }
        let mut kept: BTreeSet<Label> = BTreeSet::new();
        let mut steps = Vec::new();
        for (number, operand) in operands.iter().enumerate() {
            for label in operand {
                if let Some(count) = needed.get_mut(label) {
                    *count = count.saturating_sub(1);
                }
            }
            if number > 0 {
                let left = kept.clone();
                kept.extend(operand);
                kept.retain(|label| needed.get(label).is_some_and(|&count| count > 0));
                steps.push(Step { left, right: operand.clone(), result: kept.clone() });
            } else {
                kept.extend(operand);
            }
        }
        Some(steps)
    }
}

/// The indices of a pairwise product.
struct Step {
    left: BTreeSet<Label>,
    right: BTreeSet<Label>,
    result: BTreeSet<Label>,
}

impl Step {
    /// All indices: what is multiplied once for each of their values.
    fn labels(&self) -> impl Iterator<Item = &Label> {
        self.left.union(&self.right)
    }

    /// The product with its sizes: indices of both sides that stay make the batch, those that go are summed.
    fn family(&self, sizes: &BTreeMap<Label, u64>) -> Family {
        let [mut batch, mut m, mut n, mut k] = [1_u64; 4];
        for label in self.labels() {
            let size = match (self.left.contains(label), self.right.contains(label), self.result.contains(label)) {
                (true, true, true) => &mut batch,
                (true, false, true) => &mut m,
                (false, true, true) => &mut n,
                (_, _, false) | (false, false, _) => &mut k,
            };
            *size = size.saturating_mul(sizes.get(label).copied().unwrap_or(1));
        }
        Family::Product { batch, m, n, k }
    }

    /// Elements of the result.
    fn elements(&self, sizes: &BTreeMap<Label, u64>) -> u64 {
        self.result.iter().filter_map(|label| sizes.get(label)).fold(1, |product, &size| product.saturating_mul(size))
    }
}

struct Resolved<S> {
    operands: Vec<Option<Vec<Label>>>,
    sizes: BTreeMap<Label, S>,
    /// Number of dims that `...` stands for in the output.
    rest: Option<usize>,
}

/// The indices of one term.
fn indices(text: &str) -> Result<Vec<Index>, String> {
    let mut indices = Vec::new();
    let mut left = text;
    while let Some(letter) = left.chars().next() {
        if let Some(behind) = left.strip_prefix("...") {
            if indices.contains(&Index::Rest) {
                return Err("... stands twice in one term".into());
            }
            indices.push(Index::Rest);
            left = behind;
        } else if letter.is_ascii_alphabetic() {
            indices.push(Index::Letter(letter));
            left = left.strip_prefix(letter).unwrap_or_default();
        } else {
            return Err(format!("{letter:?} is no index; letters and ... are allowed"));
        }
    }
    Ok(indices)
}

/// Checks that axes which one letter names in one operand have one extent: nothing is broadcast along a diagonal.
fn diagonals(labels: &[Label], shape: &Shape, number: usize) -> Result<(), Fault> {
    let named: Vec<_> = labels.iter().zip(shape.dims()).collect();
    for (place, (label, dim)) in named.iter().enumerate() {
        let first = named.iter().take(place).find(|(other, _)| other == label);
        if let (Some((_, other)), Label::Letter(letter)) = (first, label)
            && other.is_eq(dim) == Some(false)
        {
            return Err(Fault::shape(format!("index {letter} is {other} and {dim} in operand {number}")));
        }
    }
    Ok(())
}

/// The output of an equation without arrow: the rest, then the letters that occur once, in alphabetical order.
fn implicit_output(operands: &[Vec<Index>]) -> Vec<Index> {
    let mut counts: BTreeMap<Index, usize> = BTreeMap::new();
    for &index in operands.iter().flatten() {
        *counts.entry(index).or_default() += 1;
    }
    counts.into_iter().filter(|&(index, count)| index == Index::Rest || count == 1).map(|(index, _)| index).collect()
}

fn expand(indices: &[Index], rest: usize) -> Vec<Label> {
    let mut labels = Vec::with_capacity(indices.len().saturating_add(rest));
    for &index in indices {
        match index {
            Index::Rest => labels.extend((0..rest).rev().map(Label::Rest)),
            Index::Letter(letter) => labels.push(Label::Letter(letter)),
        }
    }
    labels
}

impl Einsum {
    /// Pairwise products and extents, as numbers.
    fn numbers(&self, cx: &WorkCx<'_>) -> Option<(Vec<Step>, BTreeMap<Label, u64>)> {
        let shape = |input: usize| -> Option<Shape> {
            Some(cx.input(input)?.dims.iter().map(|&dim| Dim::constant(i128::from(dim))).collect())
        };
        let shapes: Vec<_> = (0..self.operands.len()).map(shape).collect::<Option<_>>()?;
        let resolved = self.resolve(&shapes.iter().map(Some).collect::<Vec<_>>()).ok()?;
        let number = |size: &Dim| size.as_usize().map(|size| size as u64);
        let sizes = resolved.sizes.iter().map(|(label, size)| Some((*label, number(size)?)));
        Some((self.steps(&resolved)?, sizes.collect::<Option<_>>()?))
    }
}

impl Operator for Einsum {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let count = cx.input_count();
        if count != self.operands.len() {
            return Err(Fault::attribute(format!(
                "attribute equation has {} operands, the node {count}",
                self.operands.len()
            )));
        }
        let inputs: Vec<_> = (0..count).collect();
        let element = common_element(cx, &inputs)?;
        let shapes: Vec<_> = inputs.iter().map(|&input| cx.shape(input)).collect();
        let resolved = self.resolve(&shapes)?;
        let rest = if self.output.contains(&Index::Rest) { resolved.rest } else { Some(0) };
        let Some(rest) = rest else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let mut dims = Vec::new();
        for (axis, label) in expand(&self.output, rest).into_iter().enumerate() {
            dims.push(resolved.sizes.get(&label).cloned().unwrap_or_else(|| cx.fresh_dim(0, axis, 0, None)));
        }
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let shapes: Vec<_> = (0..self.operands.len()).map(|input| cx.shape_in(input)).collect();
        if let [shape] = shapes.as_slice() {
            // One operand is transposed, or summed with one addition for each element.
            let elements = shape.as_ref()?.elements();
            let summed = elements != cx.elements_out(0)?;
            let flops = if summed { elements } else { Dim::ZERO };
            return Cost::computed(cx, flops.clone(), &flops);
        }
        let resolved = self.resolve(&shapes).ok()?;
        let macs = |step: Step| {
            step.labels()
                .map(|label| resolved.sizes.get(label))
                .try_fold(Dim::ONE, |product, size| Some(product * size?))
        };
        let steps = self.steps(&resolved)?.into_iter().map(macs).collect::<Option<Vec<_>>>()?;
        let mut left_needs_gradient = cx.needs_gradient(0);
        let (mut macs, mut backward) = (Dim::ZERO, Dim::ZERO);
        for (step, right) in steps.iter().zip(1..) {
            let gradients = i128::from(left_needs_gradient) + i128::from(cx.needs_gradient(right));
            macs += step;
            backward += step * (2 * gradients);
            left_needs_gradient |= cx.needs_gradient(right);
        }
        Cost::composed(cx, macs, &Dim::ZERO, backward)
    }

    fn role(&self, _input: usize) -> Role {
        Role::Weight
    }

    /// One operand is moved or summed; a product for each further one, whose left side is the result so far.
    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        if self.operands.len() < 2 {
            return vec![if cx.flops > 0.0 { cx.reduction() } else { cx.moved() }];
        }
        let Some((steps, sizes)) = self.numbers(cx) else { return vec![cx.elementwise()] };
        let mut items: Vec<Work> = Vec::new();
        for (step, right) in steps.iter().zip(1..) {
            let family = step.family(&sizes);
            let left = if right == 1 { Some(0) } else { None };
            let macs: f64 = step.labels().filter_map(|label| sizes.get(label)).map(|&size| size as f64).product();
            let read = [left, Some(right)].into_iter().flatten().filter_map(|input| cx.input(input));
            let read: f64 = read.map(|input| input.bytes() as f64).sum();
            let item = if right == steps.len() { cx.rest(&items, family) } else { cx.part(family, 2.0 * macs, read) };
            items.push(Work { operands: [left, Some(right)], ..item });
        }
        items
    }

    /// As a matrix product; of more than two operands also the intermediate results.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let Some((steps, sizes)) = self.numbers(cx) else { return Saved::NOTHING };
        let last = steps.len().saturating_sub(1);
        let between = steps.iter().take(last).map(|step| step.elements(&sizes)).fold(0, u64::saturating_add);
        let between = Saved::extra((between as f64 * cx.width()) as u64);
        let others = |input: usize| (0..self.operands.len()).any(|other| other != input && cx.needs(other));
        let operands = (0..self.operands.len()).map(|input| Saved::input(input).when(others(input)));
        let operands = operands.fold(Saved::NOTHING, Saved::and);
        operands.and(between).when(cx.has_backward() && self.operands.len() > 1)
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ir::shape::Shape;
    use crate::ops::testing::{TestNode, float, free, op};

    fn einsum(equation: &str) -> TestNode {
        op("Einsum").string("equation", equation)
    }

    #[test]
    fn a_diagonal_has_one_extent() {
        let fault = einsum("bb->b").run(&[float(&[2, 1])]).unwrap_err();
        assert_eq!(fault.message, "index b is 2 and 1 in operand 0");
        assert_eq!(einsum("bb->b").dims(&[float(&[2, 2])]), "2");
    }

    #[test]
    fn dims_of_the_ellipsis_broadcast() {
        let inputs = [float(&[1, 2, 3]), float(&[4, 3, 5])];
        assert_eq!(einsum("...ik,...kj->...ij").dims(&inputs), "4×2×5");
        assert_eq!(einsum("...ik,...kj->...ij").cost(&inputs).macs, Dim::constant(120));
        assert_eq!(einsum("...ik,...kj->...ij").dims(&[float(&[2, 3]), float(&[4, 3, 5])]), "4×2×5");
    }

    #[test]
    fn without_arrow_letters_that_occur_once_are_kept() {
        let inputs = [float(&[2, 3, 4]), float(&[2, 4, 5])];
        assert_eq!(einsum("bij,bjk").dims(&inputs), "3×5");
        assert_eq!(einsum("bij,bjk").cost(&inputs).macs, Dim::constant(120));
        assert_eq!(einsum("ba").dims(&[float(&[2, 3])]), "3×2");
    }

    #[test]
    fn one_operand_has_no_macs() {
        assert_eq!(einsum("ij->ji").dims(&[float(&[2, 3])]), "3×2");
        assert_eq!(einsum("ij->ji").cost(&[float(&[2, 3])]).flops, Dim::ZERO);
        let sum = einsum("ij->").cost(&[float(&[2, 3])]);
        assert_eq!((sum.macs, sum.flops), (Dim::ZERO, Dim::constant(6)));
        assert_eq!(einsum("ii->i").dims(&[float(&[3, 3])]), "3");
    }

    #[test]
    fn three_operands_are_multiplied_pairwise_from_the_left() {
        // (ij, jk) -> ik costs 2*3*4, (ik, kl) -> il costs 2*4*5; each has two gradients.
        let cost = einsum("ij,jk,kl->il").cost(&[float(&[2, 3]), float(&[3, 4]), float(&[4, 5])]);
        assert_eq!(cost.macs, Dim::constant(24 + 40));
        assert_eq!(cost.backward_flops, Dim::constant(4 * 64));
    }

    #[test]
    fn broken_equations_are_named() {
        let two = [float(&[2, 3]), float(&[4, 5])];
        let message = |equation: &str| einsum(equation).run(&two).unwrap_err().message;
        assert_eq!(message("ij,jk->ik"), "index j is 3 and, in operand 1, 4");
        assert_eq!(message("ij->i"), "attribute equation has 1 operands, the node 2");
        assert_eq!(
            message("ij,kl->im"),
            "attribute equation \"ij,kl->im\": the output has an index that no operand has"
        );
        assert_eq!(message("ij,kl->ii"), "attribute equation \"ij,kl->ii\": an index stands twice in the output");
        assert_eq!(message("i1,kl"), "attribute equation \"i1,kl\": '1' is no index; letters and ... are allowed");
        assert_eq!(message("ijk,kl"), "operand 0 has rank 2 (2×3), the equation gives it 3 indices");
        assert!(message("......,kl").contains("twice"));
    }

    #[test]
    fn unknown_operands_leave_what_the_others_say() {
        assert_eq!(einsum("ij,jk->ik").dims(&[Fact::Unknown, float(&[3, 4])]), "y0.0×4");
        assert_eq!(einsum("...j,jk->...k").dims(&[Fact::Unknown, float(&[3, 4])]), "?");
        let left = Fact::tensor(ElementType::Float, Shape::new(vec![free("B"), free("S"), Dim::constant(3)]));
        assert_eq!(einsum("bsj, jk -> bsk").dims(&[left, float(&[3, 4])]), "B×S×4");
    }
}
