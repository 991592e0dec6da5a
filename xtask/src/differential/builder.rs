//! Makes cases: node by node, each over tensors that are there or new inputs. What dlcost infers for a node gives the
//! next one tensors to read.

use std::cell::Cell;

use dlcost::ir::element_type::ElementType;

use super::case::{Attribute, Call, Case, Given};
use super::families;
use super::ours::{self, Ours};
use crate::mutate::Random;

/// Operator sets that cases import.
const OPSETS: std::ops::RangeInclusive<i64> = 7..=25;

/// Elements that a computed tensor has at most.
const ELEMENTS: i128 = 50_000;

/// A tensor that a node may read.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) name: String,
    pub(super) element: ElementType,
    pub(super) dims: Vec<i64>,
}

impl Known {
    pub(super) fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The dim of an axis; 1 where there is none.
    pub(super) fn dim(&self, axis: usize) -> i64 {
        self.dims.get(axis).copied().unwrap_or(1)
    }
}

/// A case in the making.
#[derive(Debug)]
pub(super) struct Builder {
    random: Random,
    case: Case,
    known: Vec<Known>,
    next: usize,
}

thread_local! {
    /// How often something is made wrong on purpose, per 1,000 choices.
    static WRONG: Cell<usize> = const { Cell::new(12) };
}

/// The case of a number under a seed.
pub(super) fn case(seed: u64, number: u64) -> Case {
    let mut random = Random::new(seed.wrapping_mul(0x0100_0000_01b3) ^ number.wrapping_mul(0x9e37_79b9));
    let span = usize::try_from(OPSETS.end() - OPSETS.start() + 1).unwrap_or(1);
    let opset = OPSETS.start() + i64::try_from(random.below(span)).unwrap_or(0);
    let calls = 1 + random.below(5);
    WRONG.set(if random.below(3) == 0 { 60 } else { 4 });
    let case = Case { opset, given: Vec::new(), calls: Vec::new() };
    let mut builder = Builder { random, case, known: Vec::new(), next: 0 };
    let mut tries = 0;
    while builder.case.calls.len() < calls && tries < 4 * calls {
        tries += 1;
        if !builder.step() {
            break;
        }
    }
    builder.case
}

impl Builder {
    /// Adds nodes of one family; `false` where the case ends with them.
    fn step(&mut self) -> bool {
        let before = (self.case.clone(), self.known.clone());
        let Some(call) = families::call(self) else {
            (self.case, self.known) = before;
            return true;
        };
        let last = call.outputs.clone();
        self.case.calls.push(call);
        match ours::ask(&self.case) {
            Ours::Facts(facts) => {
                let names: Vec<String> = self.case.outputs().map(|(_, name)| name.to_owned()).collect();
                for (name, fact) in names.into_iter().zip(facts) {
                    let tensor = fact.as_tensor();
                    let shape = tensor.and_then(|tensor| tensor.shape.as_ref()?.as_const());
                    let (Some(dims), Some(element)) = (shape, tensor.and_then(|tensor| tensor.element)) else {
                        continue;
                    };
                    if dims.iter().product::<i128>() > ELEMENTS && last.contains(&name) {
                        (self.case, self.known) = before;
                        return true;
                    }
                    let dims = dims.into_iter().filter_map(|dim| dim.try_into().ok()).collect();
                    if self.known.iter().all(|known| known.name != name) {
                        self.known.push(Known { name, element, dims });
                    }
                }
                true
            }
            Ours::Panicked(_) => false,
            // Half of what is refused is held against the other opinion.
            Ours::Refused { .. } if self.chance(50) => false,
            Ours::Refused { .. } => {
                (self.case, self.known) = before;
                true
            }
        }
    }

    pub(super) fn opset(&self) -> i64 {
        self.case.opset
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.random.below(end)
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.random.below(100) < percent
    }

    /// A number from `lo` to `hi`.
    pub(super) fn between(&mut self, lo: i64, hi: i64) -> i64 {
        lo + i64::try_from(self.random.below(usize::try_from(hi - lo + 1).unwrap_or(1))).unwrap_or(0)
    }

    pub(super) fn many(&mut self, count: usize, lo: i64, hi: i64) -> Vec<i64> {
        (0..count).map(|_| self.between(lo, hi)).collect()
    }

    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        items.get(self.random.below(items.len())).copied()
    }

    /// Whether to do something wrong on purpose.
    pub(super) fn wrong(&mut self) -> bool {
        self.random.below(1000) < WRONG.get()
    }

    /// One of `rank` axes, from either end.
    pub(super) fn axis(&mut self, rank: usize) -> i64 {
        let rank = i64::try_from(rank).unwrap_or(0);
        if self.wrong() { self.between(-rank - 2, rank + 1) } else { self.between(-rank, (rank - 1).max(-rank)) }
    }

    /// Several different axes, in some order.
    pub(super) fn axes(&mut self, rank: usize, most: usize) -> Vec<i64> {
        let mut left: Vec<i64> = (0..i64::try_from(rank).unwrap_or(0)).collect();
        let count = 1 + self.below(most.clamp(1, rank.max(1)));
        let mut axes = Vec::new();
        while axes.len() < count && !left.is_empty() {
            let axis = left.remove(self.random.below(left.len()));
            let from_end = self.opset() >= 11 && self.chance(30);
            axes.push(if from_end { axis - i64::try_from(rank).unwrap_or(0) } else { axis });
        }
        if self.chance(60) {
            axes.sort_unstable();
        }
        axes
    }

    /// A dim of a new input.
    fn dim(&mut self) -> i64 {
        match self.below(100) {
            0 => 0,
            1..=15 => 1,
            _ => self.between(2, 6),
        }
    }

    pub(super) fn dims(&mut self, rank: usize) -> Vec<i64> {
        (0..rank).map(|_| self.dim()).collect()
    }

    /// A tensor of one of these types whose rank is in a range.
    pub(super) fn tensor(&mut self, elements: &[ElementType], lo: usize, hi: usize) -> Known {
        let element = self.pick(elements).unwrap_or(ElementType::Float);
        let (lo, hi) = if self.wrong() { (lo.saturating_sub(1), hi + 1) } else { (lo, hi) };
        if self.chance(65) {
            let fits = |known: &&Known| elements.contains(&known.element) && (lo..=hi).contains(&known.rank());
            let fitting: Vec<&Known> = self.known.iter().filter(fits).collect();
            // Late ones make chains.
            let late = fitting.len().saturating_sub(1 + self.random.below(fitting.len().clamp(1, 3)));
            if let Some(known) = fitting.get(late) {
                return (*known).clone();
            }
        }
        let rank = lo + self.below(hi - lo + 1);
        let dims = self.dims(rank);
        self.input(element, dims)
    }

    /// A new input of the model.
    pub(super) fn input(&mut self, element: ElementType, dims: Vec<i64>) -> Known {
        let mut dims = dims;
        if self.wrong() && !dims.is_empty() {
            let axis = self.below(dims.len());
            if let Some(dim) = dims.get_mut(axis) {
                *dim = (*dim + self.random.below(3) as i64 - 1).max(0);
            }
        }
        let name = self.name("x");
        self.case.given.push(Given { name: name.clone(), element, dims: dims.clone(), values: None });
        let known = Known { name, element, dims };
        self.known.push(known.clone());
        known
    }

    fn name(&mut self, prefix: &str) -> String {
        self.next += 1;
        format!("{prefix}{}", self.next)
    }

    /// A stored tensor.
    pub(super) fn stored(&mut self, element: ElementType, dims: Vec<i64>, values: Vec<f64>) -> String {
        let name = self.name("s");
        self.case.given.push(Given { name: name.clone(), element, dims, values: Some(values) });
        name
    }

    /// A stored vector of `int64`, or one that an `Identity` gives.
    #[allow(clippy::cast_precision_loss, reason = "settings are small, or at the edge of their type")]
    pub(super) fn integers(&mut self, values: &[i64]) -> String {
        let values = self.bent(values);
        let dims = vec![i64::try_from(values.len()).unwrap_or(0)];
        let name = self.stored(ElementType::Int64, dims, values.iter().map(|&value| value as f64).collect());
        if self.chance(88) {
            return name;
        }
        let output = self.name("i");
        self.case.calls.push(Call::new("Identity").input(&name).output(&output));
        output
    }

    /// A stored scalar, or a vector of one.
    #[allow(clippy::cast_precision_loss, reason = "settings are small, or at the edge of their type")]
    pub(super) fn integer(&mut self, value: i64, vector: bool) -> String {
        self.stored(ElementType::Int64, if vector { vec![1] } else { Vec::new() }, vec![value as f64])
    }

    /// A stored vector of floats.
    pub(super) fn floats(&mut self, values: &[f64]) -> String {
        let dims = vec![i64::try_from(values.len()).unwrap_or(0)];
        self.stored(ElementType::Float, dims, values.to_vec())
    }

    /// A list of integers as an attribute.
    pub(super) fn ints(&mut self, values: &[i64]) -> Attribute {
        Attribute::Ints(self.bent(values))
    }

    /// The same list, or once in a while one with something wrong.
    fn bent(&mut self, values: &[i64]) -> Vec<i64> {
        let mut values = values.to_vec();
        if self.wrong() {
            let place = self.below(values.len());
            match (self.below(5), values.get_mut(place)) {
                (0, _) => values.push(1),
                (1, Some(_)) => drop(values.remove(place)),
                (2, Some(value)) => *value = -*value,
                (3, Some(value)) => *value = 0,
                (_, Some(value)) => *value += self.random.below(7) as i64 - 3,
                (_, None) => {}
            }
        }
        values
    }

    /// A name for an output.
    pub(super) fn output(&mut self) -> String {
        self.name("t")
    }

    /// Adds a node whose outputs have names.
    pub(super) fn put(&mut self, call: Call) {
        self.case.calls.push(call);
    }

    /// Adds a node in front of the one that is made; gives its output.
    pub(super) fn before(&mut self, call: Call) -> String {
        let output = self.output();
        self.case.calls.push(call.output(&output));
        output
    }
}

impl Call {
    pub(super) fn new(op: &'static str) -> Self {
        Self { op, attributes: Vec::new(), inputs: Vec::new(), outputs: Vec::new() }
    }

    pub(super) fn input(mut self, name: &str) -> Self {
        self.inputs.push(name.to_owned());
        self
    }

    pub(super) fn output(mut self, name: &str) -> Self {
        self.outputs.push(name.to_owned());
        self
    }

    pub(super) fn set(mut self, name: &'static str, value: Attribute) -> Self {
        self.attributes.push((name, value));
        self
    }

    pub(super) fn int(self, name: &'static str, value: i64) -> Self {
        self.set(name, Attribute::Int(value))
    }

    pub(super) fn word(self, name: &'static str, value: &str) -> Self {
        self.set(name, Attribute::Text(value.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_seed_make_one_model_that_reads_back() {
        for number in 0..60 {
            let made = case(7, number);
            assert_eq!(case(7, number), made);
            assert!(made.model().is_ok(), "{}", made.text());
        }
        assert_ne!(case(7, 0), case(8, 0));
    }

    #[test]
    fn models_go_through_all_families() {
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..600 {
            seen.extend(case(1, number).calls.iter().map(|call| call.op));
        }
        assert!(seen.len() > 90, "{seen:?}");
    }
}
