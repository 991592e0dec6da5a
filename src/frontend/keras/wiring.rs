//! How the layers of a Functional model hang together: which call a reference means, and an order in which all calls can
//! run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::call::{Call, Reference};
use super::layer::Generation;
use super::topology::{Around, Entry, Kind, Reader, join, kind_of};
use crate::diagnostics::{Code, Diagnostic};
use crate::ir::hash::HashMap;
use crate::ir::place::Span;

/// One call of one layer.
pub(super) struct Step<'j> {
    pub(super) layer: usize,
    pub(super) call: Call<'j, Reference>,
    /// Steps that must run before.
    pub(super) waits: usize,
    pub(super) span: Span,
}

/// Layers and calls of a Functional model.
pub(super) struct Wiring<'j> {
    pub(super) entries: Vec<Entry<'j>>,
    pub(super) places: HashMap<String, usize>,
    pub(super) steps: Vec<Step<'j>>,
    pub(super) calls: Vec<Vec<usize>>,
    /// By layer: outputs that others ask for.
    pub(super) wanted: Vec<usize>,
}

impl<'j> Wiring<'j> {
    /// The step that a reference means. Calls of a model inside are counted from 1 in Keras 2, and in Keras 3 where the
    /// outputs name a Functional one: the first is the one that made it.
    pub(super) fn find(&self, reference: &Reference, is_output: bool, generation: Generation) -> Option<usize> {
        let layer = *self.places.get(&reference.layer)?;
        let entry = self.entries.get(layer)?;
        let calls = self.calls.get(layer)?;
        let shifted = match kind_of(entry.class, entry.config) {
            None => None,
            Some(Kind::Functional) => Some(generation == Generation::Two || is_output),
            Some(Kind::Sequential) => Some(generation == Generation::Two),
        };
        let at = |call: i64| usize::try_from(call).ok().and_then(|call| calls.get(call)).copied();
        match shifted {
            None => at(reference.call),
            Some(true) => at(reference.call - 1).or_else(|| at(reference.call)),
            Some(false) => at(reference.call).or_else(|| at(reference.call - 1)),
        }
    }

    pub(super) fn no_such_call(&self, who: &str, reference: &Reference, layer: usize) -> String {
        let Reference { layer: name, call, .. } = reference;
        let count = self.calls.get(layer).map_or(0, Vec::len);
        if *call < 0 {
            return format!("{who} reads call {call} of layer {name:?}: a negative index");
        }
        let times = match count {
            0 => "never".to_owned(),
            1 => "once".to_owned(),
            count => format!("{count} times"),
        };
        format!("{who} reads call {call} of layer {name:?}, which is called {times}")
    }

    /// An order in which all steps can run; what cannot is reported.
    pub(super) fn order(&mut self, reader: &mut Reader<'_, '_>, around: &Around) -> Vec<usize> {
        let mut wanted = vec![1; self.entries.len()];
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); self.steps.len()];
        let mut waits = vec![0_usize; self.steps.len()];
        let mut missing: Vec<(usize, Reference)> = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            step.call.each(&mut |reference| {
                match self.find(reference, false, reader.generation) {
                    Some(found) => {
                        if let (Some(readers), Some(waits)) = (readers.get_mut(found), waits.get_mut(index)) {
                            readers.push(index);
                            *waits += 1;
                        }
                    }
                    None => missing.push((index, reference.clone())),
                }
                if let Some(wanted) = self.places.get(&reference.layer).and_then(|&layer| wanted.get_mut(layer))
                    && let Ok(tensor) = usize::try_from(reference.tensor)
                {
                    *wanted = (*wanted).max(tensor.saturating_add(1));
                }
            });
        }
        self.wanted = wanted;
        for (step, reference) in missing {
            let Some(step) = self.steps.get(step) else { continue };
            let Some(entry) = self.entries.get(step.layer) else { continue };
            let who = format!("layer {:?}", entry.name);
            let message = match self.places.get(&reference.layer) {
                None => format!("{who} reads from {:?}, which is not in the model", reference.layer),
                Some(&layer) => self.no_such_call(&who, &reference, layer),
            };
            let path = join(&around.scope, &entry.name);
            let span = if reference.span.end > 0 { reference.span } else { step.span };
            reader.builder.report(Diagnostic::new(Code::UndefinedTensor, message), Some(&path), span);
        }
        for (step, waits) in self.steps.iter_mut().zip(&waits) {
            step.waits = *waits;
        }
        let mut ready: BinaryHeap<Reverse<usize>> =
            waits.iter().enumerate().filter(|(_, waits)| **waits == 0).map(|(step, _)| Reverse(step)).collect();
        let mut order = Vec::with_capacity(self.steps.len());
        while let Some(Reverse(step)) = ready.pop() {
            order.push(step);
            for &reader in readers.get(step).into_iter().flatten() {
                if let Some(waits) = waits.get_mut(reader) {
                    *waits = waits.saturating_sub(1);
                    if *waits == 0 {
                        ready.push(Reverse(reader));
                    }
                }
            }
        }
        if order.len() < self.steps.len() {
            self.report_cycle(reader, &waits);
        }
        order
    }

    fn report_cycle(&self, reader: &mut Reader<'_, '_>, waits: &[usize]) {
        let stuck = waits.iter().enumerate().filter(|(_, waits)| **waits > 0).map(|(step, _)| step);
        let stuck: Vec<usize> = stuck.collect();
        let Some(&first) = stuck.first() else { return };
        // Each of them reads from another one of them: walking back comes around.
        let mut path = vec![first];
        let mut at = first;
        let cycle = loop {
            let mut before = None;
            if let Some(step) = self.steps.get(at) {
                step.call.each(&mut |reference| {
                    let found = self.find(reference, false, reader.generation);
                    before = before.or(found.filter(|found| waits.get(*found).is_some_and(|waits| *waits > 0)));
                });
            }
            let Some(next) = before else { break Vec::new() };
            if let Some(start) = path.iter().position(|&step| step == next) {
                break path.get(start..).unwrap_or_default().to_vec();
            }
            path.push(next);
            at = next;
        };
        let name = |step: &usize| self.steps.get(*step).and_then(|step| self.entries.get(step.layer));
        let names: Vec<String> =
            cycle.iter().rev().filter_map(name).map(|entry| format!("{:?}", entry.name)).take(12).collect();
        let entry = cycle.first().and_then(name);
        let (place, span) = entry.map_or((None, Span::default()), |entry| (Some(&*entry.name), entry.json.span));
        let message = match names.as_slice() {
            [only] => format!("layer {only} takes its own output as input"),
            _ => format!("layers wait for each other: {}", names.join(" -> ")),
        };
        reader.builder.report(Diagnostic::new(Code::CyclicGraph, message), place, span);
    }
}
