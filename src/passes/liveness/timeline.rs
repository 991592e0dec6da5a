//! The steps of a forward pass and, in training, of the backward pass after it, with what each moment holds.

use super::storages::{Source, Step, Storage, Walk};
use super::{Liveness, Moment};

/// Bytes that come and go, by moment.
pub(super) struct Ledger {
    changes: Vec<i128>,
}

impl Ledger {
    pub(super) fn new(moments: usize) -> Self {
        Self { changes: vec![0; moments + 1] }
    }

    /// Bytes that are there from one moment to another, both included.
    pub(super) fn add(&mut self, from: usize, to: usize, bytes: u64) {
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
    pub(super) fn levels(&self) -> impl Iterator<Item = u64> + '_ {
        let moments = self.changes.len() - 1;
        self.changes.iter().take(moments).scan(0_i128, |level, change| {
            *level += change;
            Some(u64::try_from(*level).unwrap_or(0))
        })
    }
}

/// When steps run: forward, once more where a segment is computed again, and backward.
pub(super) struct Clock {
    /// The segment of a step.
    segment: Vec<u32>,
    again: Vec<usize>,
    back: Vec<usize>,
    moments: usize,
    /// Whether segments are computed again.
    recomputes: bool,
}

impl Clock {
    pub(super) fn new(steps: usize, segments: &[usize], training: bool, recomputes: bool) -> Self {
        let mut clock = Self {
            segment: vec![0; steps],
            again: (0..steps).collect(),
            back: (0..steps).map(|step| (2 * steps).saturating_sub(1 + step)).collect(),
            moments: if training { 2 * steps } else { steps },
            recomputes,
        };
        if !recomputes {
            return clock;
        }
        clock.moments = 3 * steps;
        let ends = segments.iter().skip(1).copied().chain([steps]);
        for (number, (&start, end)) in segments.iter().zip(ends).enumerate() {
            let begins = steps + 2 * (steps - end.min(steps));
            let length = end.saturating_sub(start);
            for step in start..end {
                if let Some(segment) = clock.segment.get_mut(step) {
                    *segment = u32::try_from(number).unwrap_or(u32::MAX);
                }
                if let (Some(again), Some(back)) = (clock.again.get_mut(step), clock.back.get_mut(step)) {
                    *again = begins + (step - start);
                    *back = begins + length + (end - 1 - step);
                }
            }
        }
        clock
    }

    /// The moment at which a step runs for its backward pass.
    fn again(&self, step: usize) -> usize {
        self.again.get(step).copied().unwrap_or(step)
    }

    /// The moment of its backward pass.
    fn back(&self, step: usize) -> usize {
        self.back.get(step).copied().unwrap_or(self.moments)
    }

    fn segment(&self, step: usize) -> u32 {
        self.segment.get(step).copied().unwrap_or(0)
    }

    fn last(&self) -> usize {
        self.moments.saturating_sub(1)
    }
}

/// Follows a walk through time.
pub(super) fn follow(walk: &Walk, clock: &Clock, training: bool) -> Liveness {
    let (mut saved, mut other) = (Ledger::new(clock.moments), Ledger::new(clock.moments));
    let starts = starts(walk);
    let crosses = crossings(walk, clock);
    let mut liveness = Liveness::default();
    let (mut given, mut given_back) = (0_u64, 0_u64);
    let mut keep = |from: usize, to: usize, keeper: u32, bytes: u64, liveness: &mut Liveness| {
        saved.add(from, to, bytes);
        liveness.saved = liveness.saved.saturating_add(bytes);
        attribute(walk, keeper, bytes, &mut liveness.saved_by_layer);
    };
    for ((storage, &start), crosses) in walk.storages.iter().zip(&starts).zip(crosses) {
        let bytes = bytes_of(walk, storage);
        let (made, read) = (storage.made as usize, storage.last_read as usize);
        match (storage.source, storage.keeper.filter(|_| training)) {
            (Source::Stored | Source::Nothing, _) => {}
            (Source::Cache, _) => {
                let sum = if storage.is_output { &mut given_back } else { &mut given };
                *sum = sum.saturating_add(bytes);
            }
            (Source::Input, Some(keeper)) => keep(0, clock.last(), keeper, bytes, &mut liveness),
            // The caller holds its batch for the whole step in training.
            (Source::Input, None) => other.add(0, if training { clock.last() } else { read }, bytes),
            (Source::WeightCopy, keeper) => {
                let last = walk.steps.len().saturating_sub(1);
                let end = keeper.map_or(last, |keeper| clock.back(keeper as usize));
                other.add(start, end, bytes);
            }
            (_, keeper) => {
                if let Some(reader) = crosses {
                    keep(start, clock.back(reader as usize), reader, bytes, &mut liveness);
                } else if keeper.is_none() || clock.recomputes {
                    other.add(start, read, bytes);
                }
                let again = start.saturating_sub(made) + clock.again(made);
                match keeper {
                    Some(keeper) if !clock.recomputes => {
                        keep(again, clock.back(keeper as usize).max(read), keeper, bytes, &mut liveness);
                    }
                    Some(keeper) => saved_again(&mut other, again, clock.back(keeper as usize), bytes),
                    None if clock.recomputes && crosses.is_none() => {
                        saved_again(&mut other, again, clock.again(read), bytes);
                    }
                    None => {}
                }
            }
        }
    }
    // A cache grows layer by layer: the old part of a layer goes when the new one is there.
    liveness.cache = given.max(given_back);
    for (index, step) in walk.steps.iter().enumerate() {
        liveness.largest_operation = liveness.largest_operation.max(step.touched);
        if step.is_convolution {
            liveness.largest_convolution = liveness.largest_convolution.max(step.touched);
        }
        liveness.multiplies |= step.is_product;
        liveness.tensors += walk.makes(step).len() as u64;
        let bytes = step.extra.saturating_mul(step.runs);
        if training && bytes > 0 {
            let (again, back) = (clock.again(index), clock.back(index));
            let keeper = u32::try_from(index).unwrap_or(u32::MAX);
            if clock.recomputes {
                saved_again(&mut other, again, back, bytes);
            } else {
                keep(again, back, keeper, bytes, &mut liveness);
            }
        }
    }
    if training {
        gradients(walk, clock, &mut other);
        loss(walk, &mut other);
    }
    let levels = saved.levels().zip(other.levels()).map(|(saved, transient)| Moment { saved, transient });
    // The first of equal moments.
    liveness.peak =
        levels.fold(Moment::default(), |best, found| if found.total() > best.total() { found } else { best });
    liveness
}

/// What is kept of a segment only while it is in work counts beside the tensors that come and go.
fn saved_again(other: &mut Ledger, from: usize, to: usize, bytes: u64) {
    other.add(from, to, bytes);
}

/// For each storage the first step behind a cut that reads it, where one does: it must be kept for that segment.
fn crossings(walk: &Walk, clock: &Clock) -> Vec<Option<u32>> {
    let mut crossings = vec![None; walk.storages.len()];
    if !clock.recomputes {
        return crossings;
    }
    for (index, step) in walk.steps.iter().enumerate() {
        for &read in walk.reads(step) {
            let Some(storage) = walk.storages.get(read as usize) else { continue };
            if clock.segment(storage.made as usize) != clock.segment(index)
                && let Some(slot) = crossings.get_mut(read as usize)
            {
                slot.get_or_insert(u32::try_from(index).unwrap_or(u32::MAX));
            }
        }
    }
    crossings
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
    let &[made] = walk.makes(step) else { return None };
    let bytes = walk.storages.get(made as usize)?.bytes;
    let ends_here = |storage: &Storage| {
        storage.source == Source::Step
            && storage.keeper.is_none()
            && !storage.is_output
            && storage.last_read as usize == index
            && storage.bytes == bytes
    };
    let mut reads = walk.reads(step).iter().filter_map(|&read| walk.storages.get(read as usize));
    (step.is_pointwise && reads.any(ends_here)).then_some(made)
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
fn gradients(walk: &Walk, clock: &Clock, other: &mut Ledger) {
    let mut parents: Vec<u32> = (0..u32::try_from(walk.storages.len()).unwrap_or(u32::MAX)).collect();
    let has = |storage: u32| {
        let found = walk.storages.get(storage as usize);
        found.filter(|found| found.source == Source::Step && found.gradient_from.is_some())
    };
    for step in walk.steps.iter().filter(|step| step.hands_gradient_on) {
        let &[made] = walk.makes(step) else { continue };
        let Some(output) = has(made) else { continue };
        for &read in walk.reads(step) {
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
        let (from, to) = (clock.back(last as usize), clock.back(storage.made as usize));
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
fn loss(walk: &Walk, other: &mut Ledger) {
    let steps = walk.steps.len();
    let outputs = walk.storages.iter().filter(|storage| storage.is_output && storage.gradient_from.is_some());
    let bytes: u64 = outputs.map(|storage| storage.bytes).fold(0, u64::saturating_add);
    other.add(steps.saturating_sub(1), steps, bytes);
}
