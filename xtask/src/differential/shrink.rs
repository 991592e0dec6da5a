//! Makes a case smaller while it shows the same difference.

use std::error::Error;

use dlcost::engine::Mode;

use super::case::{Attribute, Case, Given};
use super::compare::{Difference, Kind, compare, compare_symbolic};
use super::opinion::{Opinion, Said, Told};
use super::ours::{self, Ours};

/// Questions that one case is worth.
const QUESTIONS: usize = 160;

/// Asks again and again.
pub(super) struct Shrinker<'a> {
    pub(super) opinion: &'a mut Opinion,
    left: usize,
}

impl<'a> Shrinker<'a> {
    pub(super) fn new(opinion: &'a mut Opinion) -> Self {
        Self { opinion, left: QUESTIONS }
    }

    /// The smallest case found, with its difference.
    pub(super) fn shrink(mut self, case: Case, found: Difference) -> Result<(Case, Difference), Box<dyn Error>> {
        let (mut case, mut found) = self.prefix(case, found)?;
        if let Some((alone, difference)) = self.alone(&case, &found)? {
            (case, found) = (alone, difference);
        }
        let mut changed = true;
        while changed && self.left > 0 {
            changed = false;
            for smaller in smaller(&case) {
                if let Some(difference) = self.differs(&smaller, &found)? {
                    (case, found) = (smaller, difference);
                    changed = true;
                    break;
                }
            }
        }
        let read = case.clone();
        case.given.retain(|given| read.reads(&given.name));
        Ok((case, found))
    }

    /// The difference that a case shows, where it is of the kind and for the reason of another.
    fn differs(&mut self, case: &Case, like: &Difference) -> Result<Option<Difference>, Box<dyn Error>> {
        let found = self.difference(case, like.kind)?;
        Ok(found.filter(|found| found.reason() == like.reason()))
    }

    /// The difference of a kind that a case shows.
    fn difference(&mut self, case: &Case, kind: Kind) -> Result<Option<Difference>, Box<dyn Error>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let ours = ours::ask(case);
        if matches!(kind, Kind::SymbolicRefuses | Kind::SymbolicShape | Kind::BoundShape) {
            let Ours::Facts(facts) = &ours else { return Ok(None) };
            // What is wrong anyway shows nothing.
            if let Said::Refused(_) = self.ask(case)? {
                return Ok(None);
            }
            let found = [false, true].into_iter().find_map(|shared| compare_symbolic(case, facts, shared));
            return Ok(found.filter(|found| found.kind == kind));
        }
        if kind == Kind::Panics {
            let panics = |ours: &Ours| match ours {
                Ours::Panicked(message) => Some(message.clone()),
                _ => None,
            };
            let found = panics(&ours).or_else(|| match &ours {
                Ours::Facts(facts) => [false, true].into_iter().find_map(|shared| {
                    compare_symbolic(case, facts, shared).filter(|found| found.kind == kind).map(|found| found.detail)
                }),
                _ => None,
            });
            let found =
                found.or_else(|| [Mode::Train, Mode::Infer].into_iter().find_map(|mode| ours::price(case, mode)));
            let call = case.calls.len().saturating_sub(1);
            return Ok(found.map(|detail| Difference { kind, call, detail }));
        }
        let said = self.ask(case)?;
        Ok(compare(case, &ours, &said).and_then(|compared| compared.difference).filter(|found| found.kind == kind))
    }

    fn ask(&mut self, case: &Case) -> Result<Said, Box<dyn Error>> {
        self.opinion.ask(&case.model()?)
    }

    /// The shortest run of calls from the start.
    fn prefix(&mut self, case: Case, found: Difference) -> Result<(Case, Difference), Box<dyn Error>> {
        for length in 1..case.calls.len() {
            let mut shorter = case.clone();
            shorter.calls.truncate(length);
            if let Some(difference) = self.differs(&shorter, &found)? {
                return Ok((shorter, difference));
            }
        }
        Ok((case, found))
    }

    /// The differing call over given tensors instead of computed ones.
    fn alone(&mut self, case: &Case, found: &Difference) -> Result<Option<(Case, Difference)>, Box<dyn Error>> {
        let Some(call) = case.calls.get(found.call) else { return Ok(None) };
        let mut before = case.clone();
        before.calls.truncate(found.call);
        if before.calls.is_empty() {
            return Ok(None);
        }
        let Said::Outputs(outputs) = self.ask(&before)? else { return Ok(None) };
        let mut alone = Case { opset: case.opset, given: case.given.clone(), calls: vec![call.clone()] };
        for ((_, name), told) in before.outputs().zip(outputs) {
            let Some(given) = given(name, told) else { return Ok(None) };
            alone.given.push(given);
        }
        Ok(self.differs(&alone, found)?.map(|difference| (alone, difference)))
    }
}

#[allow(clippy::cast_precision_loss, reason = "elements of small tensors")]
fn given(name: &str, told: Told) -> Option<Given> {
    let values = told.values.map(|values| values.into_iter().map(|value| value as f64).collect());
    Some(Given { name: name.to_owned(), element: told.element?, dims: told.dims, values })
}

/// Cases with one thing less, in the order of what they take away.
fn smaller(case: &Case) -> Vec<Case> {
    let mut cases = Vec::new();
    for (place, call) in case.calls.iter().enumerate() {
        let mut with = |change: &dyn Fn(&mut super::case::Call)| {
            let mut smaller = case.clone();
            if let Some(call) = smaller.calls.get_mut(place) {
                change(call);
            }
            if smaller != *case {
                cases.push(smaller);
            }
        };
        for attribute in 0..call.attributes.len() {
            with(&|call| drop(call.attributes.remove(attribute)));
        }
        if call.outputs.len() > 1 {
            with(&|call| drop(call.outputs.pop()));
        }
        if !call.inputs.is_empty() {
            with(&|call| drop(call.inputs.pop()));
        }
        for (attribute, (_, value)) in call.attributes.iter().enumerate() {
            for simpler in simpler(value) {
                with(&|call| {
                    if let Some((_, value)) = call.attributes.get_mut(attribute) {
                        *value = simpler.clone();
                    }
                });
            }
        }
    }
    // Calls that nothing needs.
    for place in 0..case.calls.len().saturating_sub(1) {
        let mut shorter = case.clone();
        let removed = shorter.calls.remove(place);
        if !removed.outputs.iter().any(|output| shorter.reads(output)) {
            cases.push(shorter);
        }
    }
    // All dims of one size at once, then one by one.
    let mut sizes: Vec<i64> =
        case.given.iter().flat_map(|given| given.dims.iter().copied()).filter(|&dim| dim > 1).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes.into_iter().rev() {
        for less in [1, 2, size - 1] {
            let mut shorter = case.clone();
            let inputs = shorter.given.iter_mut().filter(|given| given.values.is_none());
            for dim in inputs.flat_map(|given| &mut given.dims).filter(|dim| **dim == size) {
                *dim = less;
            }
            if less < size && shorter != *case {
                cases.push(shorter);
            }
        }
    }
    for (tensor, given) in case.given.iter().enumerate().filter(|(_, given)| case.reads(&given.name)) {
        for (axis, &dim) in given.dims.iter().enumerate() {
            for less in [1, 2, dim - 1] {
                if less < dim
                    && less > 0
                    && let Some(shorter) = resized(case, tensor, axis, less)
                {
                    cases.push(shorter);
                }
            }
        }
        for (place, &value) in given.values.iter().flatten().enumerate() {
            for simple in [0.0, 1.0] {
                if value.abs() > 1.0 || (value != 0.0 && simple == 0.0) {
                    let mut shorter = case.clone();
                    let values = shorter.given.get_mut(tensor).and_then(|given| given.values.as_mut());
                    if let Some(slot) = values.and_then(|values| values.get_mut(place)) {
                        *slot = simple;
                    }
                    cases.push(shorter);
                }
            }
        }
    }
    cases
}

/// A tensor with a shorter dim; a stored vector loses its last elements.
fn resized(case: &Case, tensor: usize, axis: usize, less: i64) -> Option<Case> {
    let mut shorter = case.clone();
    let given = shorter.given.get_mut(tensor)?;
    *given.dims.get_mut(axis)? = less;
    if let Some(values) = &mut given.values {
        values.truncate(usize::try_from(given.dims.iter().product::<i64>()).ok()?);
    }
    Some(shorter)
}

/// Simpler values of an attribute.
fn simpler(value: &Attribute) -> Vec<Attribute> {
    match value {
        Attribute::Int(number) if number.abs() > 1 => vec![Attribute::Int(1), Attribute::Int(0)],
        Attribute::Ints(numbers) => {
            let mut simpler = Vec::new();
            for (place, &number) in numbers.iter().enumerate() {
                for less in [1, 0] {
                    if number.abs() > 1 || (number != 0 && less == 0) {
                        let mut shorter = numbers.clone();
                        shorter.splice(place..=place, [less]);
                        simpler.push(Attribute::Ints(shorter));
                    }
                }
            }
            simpler
        }
        _ => Vec::new(),
    }
}
