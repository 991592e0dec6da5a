//! The steps of a forward pass and, in training, of the backward pass after it, with what each moment holds.

use super::storages::{Source, Step, Storage, Walk};
use super::{Liveness, Moment};

/// Bytes that come and go, by moment.
struct Ledger {
    changes: Vec<i128>,
}

impl Ledger {
    fn new(moments: usize) -> Self {
        Self { changes: vec![0; moments + 1] }
    }

    /// Bytes that are there from one moment to another, both included.
    fn add(&mut self, from: usize, to: usize, bytes: u64) {
        if from > to {
            return;
        }
        if let Some(slot) = self.changes.get_mut(from) {
            *slot += i128::from(bytes);
        }
        let last = self.changes.len() - 1;
        if let Some(slot) = self.changes.get_mut((to + 1).min(last)) {
            *slot -= i128::from(bytes);
        }
    }

    /// What is there at each moment.
    fn levels(&self) -> impl Iterator<Item = u64> + '_ {
        let moments = self.changes.len() - 1;
        self.changes.iter().take(moments).scan(0_i128, |level, change| {
            *level += change;
            Some(u64::try_from(*level).unwrap_or(0))
        })
    }
}

/// Follows a walk through time.
pub(super) fn follow(walk: &Walk, training: bool) -> Liveness {
    let steps = walk.steps.len();
    let moments = if training { 2 * steps } else { steps };
    let (mut saved, mut other) = (Ledger::new(moments), Ledger::new(moments));
    let back = |step: u32| (moments.saturating_sub(1)).saturating_sub(step as usize);
    let starts = starts(walk);
    let mut liveness = Liveness::default();
    for (storage, &start) in walk.storages.iter().zip(&starts) {
        match storage.source {
            Source::Stored | Source::Nothing => {}
            Source::Cache => liveness.cache = liveness.cache.saturating_add(storage.bytes),
            _ => {
                let bytes = bytes_of(walk, storage);
                match storage.keeper.filter(|_| training) {
                    Some(keeper) if storage.source == Source::WeightCopy => other.add(start, back(keeper), bytes),
                    Some(keeper) => {
                        let end = if storage.source == Source::Input { moments } else { back(keeper) };
                        saved.add(start, end.max(storage.last_read as usize), bytes);
                        liveness.saved = liveness.saved.saturating_add(bytes);
                        attribute(walk, keeper, bytes, &mut liveness.saved_by_layer);
                    }
                    None => other.add(start, end_unsaved(storage, training, moments), storage.bytes),
                }
            }
        }
    }
    for (index, step) in walk.steps.iter().enumerate() {
        liveness.largest_operation = liveness.largest_operation.max(step.touched);
        if step.is_convolution {
            liveness.largest_convolution = liveness.largest_convolution.max(step.touched);
        }
        liveness.multiplies |= step.is_product;
        liveness.tensors += step.makes.len() as u64;
        if training && step.extra > 0 {
            let bytes = step.extra.saturating_mul(step.runs);
            saved.add(index, moments.saturating_sub(1).saturating_sub(index), bytes);
            liveness.saved = liveness.saved.saturating_add(bytes);
            attribute(walk, u32::try_from(index).unwrap_or(u32::MAX), bytes, &mut liveness.saved_by_layer);
        }
    }
    if training {
        gradients(walk, &back, &mut other);
        loss(walk, steps, &mut other);
    }
    let levels = saved.levels().zip(other.levels()).map(|(saved, transient)| Moment { saved, transient });
    // The first of equal moments.
    liveness.peak =
        levels.fold(Moment::default(), |best, found| if found.total() > best.total() { found } else { best });
    liveness
}

/// All rounds of a loop keep theirs.
fn bytes_of(walk: &Walk, storage: &Storage) -> u64 {
    let runs = walk.steps.get(storage.made as usize).map_or(1, |step| step.runs);
    if storage.source == Source::Step && storage.keeper.is_some() {
        storage.bytes.saturating_mul(runs)
    } else {
        storage.bytes
    }
}

/// The moment from which each storage is there. What a function of each element writes takes the place of what it reads
/// for the last time, where nobody keeps that.
fn starts(walk: &Walk) -> Vec<usize> {
    let mut starts: Vec<usize> = walk
        .storages
        .iter()
        .map(|storage| if storage.source == Source::Input { 0 } else { storage.made as usize })
        .collect();
    for (index, step) in walk.steps.iter().enumerate() {
        if let Some(made) = in_place(walk, index, step)
            && let Some(start) = starts.get_mut(made as usize)
        {
            *start = index + 1;
        }
    }
    starts
}

/// The storage that a step makes where another was.
fn in_place(walk: &Walk, index: usize, step: &Step) -> Option<u32> {
    let &[made] = step.makes.as_slice() else { return None };
    let bytes = walk.storages.get(made as usize)?.bytes;
    let ends_here = |storage: &Storage| {
        storage.source == Source::Step
            && storage.keeper.is_none()
            && !storage.is_output
            && storage.last_read as usize == index
            && storage.bytes == bytes
    };
    let mut reads = step.reads.iter().filter_map(|&read| walk.storages.get(read as usize));
    (step.is_pointwise && reads.any(ends_here)).then_some(made)
}

fn end_unsaved(storage: &Storage, training: bool, moments: usize) -> usize {
    match storage.source {
        // The caller holds its batch for the whole step, and drops it when it is read for the last time in inference.
        Source::Input if training => moments,
        _ => storage.last_read as usize,
    }
}

fn attribute(walk: &Walk, step: u32, bytes: u64, by_layer: &mut Vec<u64>) {
    let Some(layer) = walk.steps.get(step as usize).map(|step| step.layer) else { return };
    if by_layer.len() <= layer {
        by_layer.resize(layer + 1, 0);
    }
    if let Some(slot) = by_layer.get_mut(layer) {
        *slot = slot.saturating_add(bytes);
    }
}

/// Gradients of activations: there from the backward pass of the last step that reads the activation to that of the step
/// that makes it. A sum hands its gradient on, so that a chain of them has one.
fn gradients(walk: &Walk, back: &dyn Fn(u32) -> usize, other: &mut Ledger) {
    let mut parents: Vec<u32> = (0..u32::try_from(walk.storages.len()).unwrap_or(u32::MAX)).collect();
    let has = |storage: u32| {
        let found = walk.storages.get(storage as usize);
        found.filter(|found| found.source == Source::Step && found.gradient_from.is_some())
    };
    for step in walk.steps.iter().filter(|step| step.hands_gradient_on) {
        let &[made] = step.makes.as_slice() else { continue };
        let Some(output) = has(made) else { continue };
        for &read in &step.reads {
            if has(read).is_some_and(|input| input.bytes == output.bytes) {
                let (a, b) = (root(&mut parents, read), root(&mut parents, made));
                if let Some(parent) = parents.get_mut(a as usize) {
                    *parent = b;
                }
            }
        }
    }
    let mut spans: Vec<Option<(usize, usize, u64)>> = vec![None; walk.storages.len()];
    for id in 0..u32::try_from(walk.storages.len()).unwrap_or(u32::MAX) {
        let Some(storage) = has(id) else { continue };
        let Some(last) = storage.gradient_from else { continue };
        let (from, to) = (back(last), back(storage.made));
        let root = root(&mut parents, id);
        if let Some(span) = spans.get_mut(root as usize) {
            *span = Some(match *span {
                Some((start, end, bytes)) => (start.min(from), end.max(to), bytes.max(storage.bytes)),
                None => (from, to, storage.bytes),
            });
        }
    }
    for (from, to, bytes) in spans.into_iter().flatten() {
        other.add(from, to, bytes);
    }
}

fn root(parents: &mut [u32], mut id: u32) -> u32 {
    while let Some(&parent) = parents.get(id as usize)
        && parent != id
    {
        let grandparent = parents.get(parent as usize).copied().unwrap_or(parent);
        if let Some(slot) = parents.get_mut(id as usize) {
            *slot = grandparent;
        }
        id = grandparent;
    }
    id
}

/// A loss keeps as much as the outputs that it is computed from: the logarithms of probabilities, or differences.
fn loss(walk: &Walk, steps: usize, other: &mut Ledger) {
    let outputs = walk.storages.iter().filter(|storage| storage.is_output && storage.gradient_from.is_some());
    let bytes: u64 = outputs.map(|storage| storage.bytes).fold(0, u64::saturating_add);
    other.add(steps.saturating_sub(1), steps, bytes);
}
