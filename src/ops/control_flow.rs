//! `If`, `Loop`, `Scan` and `SequenceMap`: operators that run subgraphs. Their own cost is nothing; what the subgraphs
//! cost is counted at the subgraphs' nodes, as often as [`Repeats`] says.

use super::merge::{Spread, join_elements, join_facts, without_value};
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Repeats, Role};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar, SequenceFact, TensorFact};
use crate::ir::shape::{Shape, normalize_axis};

/// Limits on rounds from which on a loop counts as unlimited: exporters write the largest integer for "while".
const UNLIMITED: i128 = 1 << 31;

/// Walks of a loop body until the facts of its state stand still; each walk can only give up more.
const WALKS: usize = 8;

#[derive(Debug)]
struct If;

pub(super) fn if_then_else(_: &NodeView<'_>) -> Built {
    Ok(Box::new(If))
}

impl Operator for If {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        if let Some(value) = cx.integer(0).and_then(|condition| condition.as_const()) {
            let (taken, other) = if value != 0 { (0, 1) } else { (1, 0) };
            cx.set_repeats(taken, Repeats::Exactly(Dim::ONE));
            cx.set_repeats(other, Repeats::Exactly(Dim::ZERO));
            return Ok(cx.infer_child(taken, &[]));
        }
        let then = cx.infer_child(0, &[]);
        let otherwise = cx.infer_child(1, &[]);
        cx.set_repeats(0, Repeats::Branch);
        cx.set_repeats(1, Repeats::Branch);
        let joined = then.iter().zip(&otherwise).enumerate();
        Ok(joined
            .map(|(output, (then, otherwise))| {
                join_facts(cx, output, Spread::Either, &without_value(then), &without_value(otherwise))
            })
            .collect())
    }

    fn cost(&self, _: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }

    fn role(&self, _: usize) -> Role {
        Role::Setting
    }
}

#[derive(Debug)]
struct Loop;

pub(super) fn loop_body(_: &NodeView<'_>) -> Built {
    Ok(Box::new(Loop))
}

impl Loop {
    /// How often the body runs, given whether its condition stays true.
    fn repeats(cx: &InferCx<'_>, always: bool) -> Repeats {
        if cx.integer(1).and_then(|condition| condition.as_const()) == Some(0) {
            return Repeats::Exactly(Dim::ZERO);
        }
        let limit = cx
            .integer(0)
            .map(|limit| limit.max(&Dim::ZERO))
            .filter(|limit| limit.as_const().is_none_or(|limit| limit < UNLIMITED));
        match limit {
            Some(limit) if always => Repeats::Exactly(limit),
            Some(limit) => Repeats::AtMost(limit),
            None => Repeats::Unknown,
        }
    }
}

impl Operator for Loop {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let states = cx.input_count().saturating_sub(2);
        let truth = |known: bool| {
            let value = if known { Scalar::Integer(Dim::ONE) } else { Scalar::Unknown };
            Fact::from(TensorFact::with_elements(Some(ElementType::Bool), Shape::scalar(), vec![value]))
        };
        let is_true = |fact: &Fact| {
            fact.as_tensor()
                .and_then(TensorFact::single)
                .and_then(Scalar::into_integer)
                .and_then(|value| value.as_const())
                == Some(1)
        };
        let starts_true = !cx.has(1) || cx.fact(1).is_some_and(is_true);
        let initial: Vec<Fact> = (0..states).map(|state| cx.fact(state + 2).cloned().unwrap_or_default()).collect();
        let mut state = initial.clone();
        let mut condition = starts_true;
        let mut outputs = Vec::new();
        for walk in 0..WALKS {
            let mut inputs = vec![Fact::tensor(ElementType::Int64, Shape::scalar()), truth(condition)];
            inputs.extend(state.iter().cloned());
            outputs = cx.infer_child(0, &inputs);
            let stays = outputs.first().is_some_and(is_true);
            let next: Vec<Fact> = outputs.iter().skip(1).take(states).cloned().collect();
            let mut settled = condition == (condition && stays);
            condition &= stays;
            for (index, (held, new)) in state.iter_mut().zip(next).enumerate() {
                if *held == new {
                    continue;
                }
                let joined = if walk + 2 >= WALKS {
                    Fact::Unknown
                } else {
                    join_facts(cx, index, Spread::Open, &without_value(held), &without_value(&new))
                };
                settled &= joined == *held;
                *held = joined;
            }
            if settled {
                break;
            }
        }
        let mut repeats = Self::repeats(cx, condition && starts_true);
        let changes = state.iter().zip(&initial).any(|(state, initial)| without_value(initial) != *state);
        if changes && let Some(rounds) = few_rounds(&repeats) {
            // A state that grows has an exact shape after a few rounds that are all known to run.
            state.clone_from(&initial);
            for round in 0..rounds {
                let counter = TensorFact::with_elements(
                    Some(ElementType::Int64),
                    Shape::scalar(),
                    vec![Scalar::Integer(Dim::constant(round))],
                );
                let mut inputs = vec![counter.into(), truth(true)];
                inputs.extend(state);
                outputs = cx.infer_child(0, &inputs);
                state = outputs.iter().skip(1).take(states).cloned().collect();
            }
            // The body stays as the last, largest round left it.
            repeats = Repeats::AtMost(Dim::constant(rounds));
        }
        cx.set_repeats(0, repeats.clone());
        // A state that may start as nothing ends as what the body makes of it.
        let given = |state: Fact, output: Option<&Fact>| match (state, output) {
            (Fact::Optional(inner), Some(Fact::Tensor(_) | Fact::Sequence(_))) => *inner,
            (state, _) => state,
        };
        let mut facts: Vec<Fact> = if repeats == Repeats::Exactly(Dim::ZERO) {
            initial
        } else {
            state.into_iter().enumerate().map(|(index, state)| given(state, outputs.get(index + 1))).collect()
        };
        for (index, scan) in outputs.iter().enumerate().skip(1 + states) {
            let output = index - 1;
            let rounds = match &repeats {
                Repeats::Exactly(rounds) => rounds.clone(),
                // Followed round by round: the limit is what runs.
                Repeats::AtMost(limit) if condition && starts_true => limit.clone(),
                Repeats::AtMost(limit) => cx.fresh_dim(output, 0, 0, Some(limit.clone())),
                Repeats::Branch | Repeats::Unknown => cx.fresh_dim(output, 0, 0, None),
            };
            facts.push(stack(scan, rounds, 0));
        }
        Ok(facts)
    }

    fn cost(&self, _: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }

    fn role(&self, input: usize) -> Role {
        if input < 2 { Role::Setting } else { Role::Data }
    }
}

/// The number of rounds, where it is known and small enough to follow each.
fn few_rounds(repeats: &Repeats) -> Option<i128> {
    const FEW: i128 = 16;
    match repeats {
        Repeats::Exactly(rounds) => rounds.as_const().filter(|rounds| (1..=FEW).contains(rounds)),
        _ => None,
    }
}

/// A tensor for each round, stacked along an axis.
fn stack(scan: &Fact, rounds: Dim, axis: i64) -> Fact {
    let Some(tensor) = scan.as_tensor() else { return Fact::Unknown };
    let shape = tensor.shape.as_ref().map(|shape| {
        let mut dims = shape.dims().to_vec();
        let at = normalize_axis(axis, dims.len() + 1).unwrap_or(0);
        dims.insert(at, rounds);
        Shape::new(dims)
    });
    Fact::tensor(tensor.element, shape)
}

#[derive(Debug)]
struct Scan {
    scanned: usize,
    input_axes: Vec<i64>,
    output_axes: Vec<i64>,
    /// Before operator set 9 every tensor has a batch in front, and the first input gives lengths.
    batched: bool,
}

pub(super) fn scan(node: &NodeView<'_>) -> Built {
    let count = node.int("num_scan_inputs")?.ok_or_else(|| node.missing("num_scan_inputs"))?;
    let scanned = usize::try_from(count)
        .ok()
        .filter(|&count| count > 0)
        .ok_or_else(|| Fault::attribute(format!("num_scan_inputs is {count}; it must be at least 1")))?;
    Ok(Box::new(Scan {
        scanned,
        input_axes: node.ints("scan_input_axes")?.unwrap_or_default(),
        output_axes: node.ints("scan_output_axes")?.unwrap_or_default(),
        batched: node.opset() < 9,
    }))
}

impl Operator for Scan {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let first = usize::from(self.batched);
        let given = cx.input_count().saturating_sub(first);
        let Some(states) = given.checked_sub(self.scanned) else {
            return Err(Fault::new(
                crate::diagnostics::Code::WrongArity,
                format!("Scan has {given} inputs, num_scan_inputs says {}", self.scanned),
            ));
        };
        let batch = if self.batched { cx.shape(first).and_then(|shape| shape.dim(0)).cloned() } else { None };
        let strip = |fact: &Fact| match (self.batched, fact.as_tensor()) {
            (true, Some(tensor)) => remove_axis(tensor, 0).map_or(Fact::Unknown, |(fact, _)| fact),
            _ => fact.clone(),
        };
        let mut state: Vec<Fact> =
            (0..states).map(|index| without_value(&strip(cx.fact(first + index).unwrap_or(&Fact::Unknown)))).collect();
        let mut length = None;
        let mut slices = Vec::new();
        for index in 0..self.scanned {
            let fact = strip(cx.fact(first + states + index).unwrap_or(&Fact::Unknown));
            let axis = self.input_axes.get(index).copied().unwrap_or(0);
            let Some(tensor) = fact.as_tensor() else {
                slices.push(Fact::Unknown);
                continue;
            };
            let Some((slice, dim)) = remove_axis(tensor, axis) else {
                if let Some(shape) = &tensor.shape {
                    return Err(Fault::shape(format!("scan axis {axis} is out of range for {shape}")));
                }
                slices.push(Fact::tensor(tensor.element, None));
                continue;
            };
            if let Some(first) = &length
                && dim.is_eq(first) == Some(false)
            {
                return Err(Fault::shape(format!("scanned inputs have different lengths {first} and {dim}")));
            }
            length.get_or_insert(dim);
            slices.push(slice);
        }
        let mut outputs = Vec::new();
        for _ in 0..WALKS {
            let inputs: Vec<Fact> = state.iter().chain(&slices).cloned().collect();
            outputs = cx.infer_child(0, &inputs);
            let mut settled = true;
            for (index, (held, new)) in state.iter_mut().zip(&outputs).enumerate() {
                let joined = join_facts(cx, index, Spread::Open, held, &without_value(new));
                settled &= joined == *held;
                *held = joined;
            }
            if settled {
                break;
            }
        }
        let rounds = length
            .clone()
            .map_or(Repeats::Unknown, |length| Repeats::Exactly(length * batch.clone().unwrap_or(Dim::ONE)));
        cx.set_repeats(0, rounds);
        let wrap = |fact: Fact| match &batch {
            Some(batch) => stack(&fact, batch.clone(), 0),
            None => fact,
        };
        let mut facts: Vec<Fact> = state.into_iter().map(&wrap).collect();
        for (index, output) in outputs.iter().enumerate().skip(states) {
            let axis = self.output_axes.get(index - states).copied().unwrap_or(0);
            let length = length.clone().unwrap_or_else(|| cx.fresh_dim(index, 0, 0, None));
            facts.push(wrap(stack(output, length, axis)));
        }
        Ok(facts)
    }

    fn cost(&self, _: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }
}

/// A tensor without one axis, and the dim that is gone.
fn remove_axis(tensor: &TensorFact, axis: i64) -> Option<(Fact, Dim)> {
    let shape = tensor.shape.as_ref()?;
    let mut dims = shape.dims().to_vec();
    let dim = dims.remove(shape.axis(axis)?);
    Some((Fact::tensor(tensor.element, Shape::new(dims)), dim))
}

/// Sequences of at most this many elements are mapped element by element.
const FEW_ELEMENTS: usize = 16;

#[derive(Debug)]
struct SequenceMap;

pub(super) fn sequence_map(_: &NodeView<'_>) -> Built {
    Ok(Box::new(SequenceMap))
}

impl SequenceMap {
    /// The outputs element by element, where the inputs are known so and few.
    fn each(&self, cx: &mut InferCx<'_>, rounds: Option<&Dim>) -> Option<Vec<Fact>> {
        let rounds = rounds?.as_usize().filter(|rounds| (1..=FEW_ELEMENTS).contains(rounds))?;
        let first = cx.fact(0);
        let Some(Fact::Sequence(SequenceFact::Each(_))) = first else { return None };
        let mut outputs: Vec<Vec<Fact>> = vec![Vec::new(); cx.output_count()];
        for round in 0..rounds {
            let inputs = (0..cx.input_count()).map(|index| match cx.fact(index) {
                Some(Fact::Sequence(SequenceFact::Each(elements))) => elements.get(round).cloned().unwrap_or_default(),
                Some(Fact::Sequence(SequenceFact::Alike { element, .. })) => (**element).clone(),
                other => other.cloned().unwrap_or_default(),
            });
            let inputs: Vec<Fact> = inputs.collect();
            for (list, output) in outputs.iter_mut().zip(cx.infer_child(0, &inputs)) {
                list.push(without_value(&output));
            }
        }
        Some(outputs.into_iter().map(|elements| Fact::Sequence(SequenceFact::Each(elements))).collect())
    }
}

impl Operator for SequenceMap {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let sequence = |cx: &InferCx<'_>, index| match cx.fact(index) {
            Some(Fact::Sequence(sequence)) => Some(sequence.clone()),
            _ => None,
        };
        let rounds = (0..cx.input_count()).find_map(|index| sequence(cx, index)?.length());
        let each = self.each(cx, rounds.as_ref());
        let mut inputs = Vec::new();
        for index in 0..cx.input_count() {
            inputs.push(match sequence(cx, index) {
                Some(sequence) => join_elements(cx, index, &sequence),
                None => cx.fact(index).cloned().unwrap_or_default(),
            });
        }
        // The body stays as what holds for every element left it.
        let outputs = cx.infer_child(0, &inputs);
        cx.set_repeats(0, rounds.clone().map_or(Repeats::Unknown, Repeats::Exactly));
        let alike = outputs.iter().map(|fact| Fact::sequence(without_value(fact), rounds.clone()));
        Ok(each.unwrap_or_else(|| alike.collect()))
    }

    fn cost(&self, _: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::table;
    use crate::ops::testing::{float, op};

    #[test]
    fn an_old_scan_may_leave_its_lengths_out() {
        let inputs = [None, Some(float(&[1, 2])), Some(float(&[1, 3, 2]))];
        assert!(op("Scan").opset(8).int("num_scan_inputs", 1).run_optional(&inputs).is_ok());
        assert_eq!(table::find("", "Scan").unwrap().min_inputs, 0);
        let fault = op("Scan").int("num_scan_inputs", 1).run(&[]).unwrap_err();
        assert_eq!(fault.message, "Scan has 0 inputs, num_scan_inputs says 1");
    }
}
