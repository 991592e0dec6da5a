//! Models for devices that nobody measured: grown without numbers of boards, and judged on each chip as if it were one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use dlcost::device::Device;
use dlcost::predict::learned::offset::{Offset, TIMES};
use dlcost::predict::learned::rates::Anchors;
use dlcost::predict::learned::section::{Interval, Knowledge, Model, Offsets, Section};

use super::boost::Growth;
use super::fit::{Plan, model, thinned};
use super::prepare::{Example, base_ms, predicted};

/// Models for devices that were not measured, and how far those that were are from them.
#[derive(Debug, Default)]
pub(crate) struct Unseen {
    pub(crate) sheet: Model,
    pub(crate) anchored: Model,
    /// By device; none where the models stand alone.
    pub(crate) offsets: BTreeMap<String, Offsets>,
}

/// How a chip that was left out was predicted.
#[derive(Clone, Debug)]
pub(crate) struct LeftOut {
    pub(crate) chip: String,
    pub(crate) rows: usize,
    /// Mean absolute error, by data sheet and by anchors.
    pub(crate) sheet: f64,
    pub(crate) anchored: f64,
    /// Logarithms of measured over predicted, by data sheet.
    pub(crate) errors: Vec<f64>,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chip, rows, sheet, anchored, .. } = self;
        write!(
            f,
            "without {chip}: {:.1} % by data sheet, {:.1} % by anchors ({rows} rows)",
            100.0 * sheet,
            100.0 * anchored
        )
    }
}

/// Grows the models for devices that were not measured.
pub(crate) fn grow(examples: &[&Example], growth: &Growth, with_offsets: bool) -> Unseen {
    let mut unseen = Unseen::default();
    let mut offsets: BTreeMap<String, Offsets> = BTreeMap::new();
    for knowledge in [Knowledge::Sheet, Knowledge::Anchored] {
        let (grown, of_boards) = one(examples, growth, knowledge, with_offsets);
        let anchored = knowledge == Knowledge::Anchored;
        *(if anchored { &mut unseen.anchored } else { &mut unseen.sheet }) = grown;
        for (board, offset) in of_boards {
            let known = offsets.entry(board).or_default();
            *(if anchored { &mut known.anchored } else { &mut known.sheet }) = offset;
        }
    }
    unseen.offsets = offsets;
    unseen
}

/// A model, and how far each board is from it. A small model says first what shapes take, so that boards which were measured
/// on other shapes are not taken for others.
fn one(
    examples: &[&Example],
    growth: &Growth,
    knowledge: Knowledge,
    with_offsets: bool,
) -> (Model, BTreeMap<String, Offset>) {
    if !with_offsets {
        return (model(examples, knowledge, &[], growth), BTreeMap::new());
    }
    let bases: Vec<f64> = examples.iter().map(|example| base_ms(example, example.device, knowledge)).collect();
    let mut offsets = BTreeMap::new();
    add(&mut offsets, examples.iter().zip(&bases).map(|(example, base)| (*example, *base, example.time_ms / base)));
    let first = Growth { trees: growth.trees / 3, rate: growth.rate * 2.0, ..*growth };
    let adjusted = without(examples, &bases, &offsets);
    let section = alone(model(&borrow(&adjusted), knowledge, &[], &first));
    let anchors = if knowledge == Knowledge::Anchored { Anchors::Use } else { Anchors::Ignore };
    let rest = adjusted
        .iter()
        .zip(&bases)
        .filter_map(|(example, base)| Some((example, *base, example.time_ms / predicted(&section, example, anchors)?)));
    add(&mut offsets, rest);
    (model(&borrow(&without(examples, &bases, &offsets)), knowledge, &[], growth), offsets)
}

fn borrow(examples: &[Example]) -> Vec<&Example> {
    examples.iter().collect()
}

/// Examples as they would be on a board without an offset.
fn without(examples: &[&Example], bases: &[f64], offsets: &BTreeMap<String, Offset>) -> Vec<Example> {
    let adjusted = examples.iter().zip(bases).map(|(example, base)| {
        let offset = offsets.get(&example.device.id).copied().unwrap_or_default();
        Example { time_ms: example.time_ms / offset.factor(*base), ..(*example).clone() }
    });
    adjusted.collect()
}

/// What a board's rows have in common counts as if it were seen in so many more rows at each time.
const PULL: f64 = 20.0;

/// Adds to offsets how far boards are from the mean of all, of rows with their physical and their relative times.
#[allow(clippy::indexing_slicing, reason = "places are below their number")]
fn add<'e>(offsets: &mut BTreeMap<String, Offset>, rows: impl Iterator<Item = (&'e Example, f64, f64)>) {
    #[derive(Default)]
    struct Sums {
        weights: [f64; TIMES],
        sums: [f64; TIMES],
        rows: f64,
        sum: f64,
    }
    let mut boards: BTreeMap<&str, Sums> = BTreeMap::new();
    for (example, base, relative) in rows {
        let (value, (low, near)) = (libm::log(relative), Offset::place(base));
        let of = boards.entry(&example.device.id).or_default();
        for (at, weight) in [(low, 1.0 - near), (low + 1, near)] {
            of.weights[at] += weight;
            of.sums[at] += weight * value;
        }
        of.rows += 1.0;
        of.sum += value;
    }
    let means: Vec<(&str, [f64; TIMES])> = boards
        .iter()
        .map(|(board, of)| {
            let mean = of.sum / of.rows;
            (*board, std::array::from_fn(|at| (of.sums[at] + PULL * mean) / (of.weights[at] + PULL)))
        })
        .collect();
    for (board, of) in &means {
        let known = offsets.entry((*board).to_owned()).or_default();
        for at in 0..TIMES {
            let common = means.iter().map(|(_, mean)| mean[at]).sum::<f64>() / means.len() as f64;
            known.0[at] += (of[at] - common) as f32;
        }
    }
}

/// A section of one model, however devices are known.
fn alone(unseen: Model) -> Section {
    of(Unseen { sheet: unseen.clone(), anchored: unseen, offsets: BTreeMap::new() })
}

/// A section that has seen no device but knows offsets of some.
fn of(unseen: Unseen) -> Section {
    let wide = Interval { low: 0.5, high: 2.0 };
    let (boards, offsets) = unseen.offsets.into_iter().unzip();
    Section {
        name: String::new(),
        features: Vec::new(),
        boards,
        stacks: Vec::new(),
        seen: Model::default(),
        unseen: unseen.sheet,
        anchored: unseen.anchored,
        domain: Vec::new(),
        seen_interval: wide,
        unseen_interval: wide,
        by_board: Vec::new(),
        offsets,
        tuned: Vec::new(),
    }
}

/// The most rows of a chip that is left out, and of the others then.
const MOST_LEFT_OUT: usize = 4_000;
const MOST_LEFT: usize = 20_000;

/// Leaves each chip out in turn.
pub(crate) fn leave_out(
    examples: &[&Example],
    plan: &Plan,
    with_offsets: bool,
    tell: &(dyn Fn(&str) + Sync),
    name: &str,
) -> Vec<LeftOut> {
    let chips: BTreeSet<&str> = examples.iter().map(|example| chip(example.device)).collect();
    if chips.len() < 2 {
        return Vec::new();
    }
    let score = |chip_out: &str| {
        tell(&format!("{name}: without {chip_out}"));
        let (out, rest): (Vec<&Example>, Vec<&Example>) =
            examples.iter().partition(|example| chip(example.device) == chip_out);
        let section = of(grow(&thinned(&rest, plan.most.min(MOST_LEFT)), &plan.unseen, with_offsets));
        let out = thinned(&out, MOST_LEFT_OUT);
        let errors = |anchors: Anchors| -> Vec<f64> {
            out.iter().filter_map(|example| Some(example.time_ms / predicted(&section, example, anchors)?)).collect()
        };
        let mean = |ratios: &[f64]| {
            ratios.iter().map(|ratio| (1.0 / ratio - 1.0).abs()).sum::<f64>() / ratios.len().max(1) as f64
        };
        let (sheet, anchored) = (errors(Anchors::Ignore), errors(Anchors::Use));
        LeftOut {
            chip: chip_out.to_owned(),
            rows: out.len(),
            sheet: mean(&sheet),
            anchored: mean(&anchored),
            errors: sheet.into_iter().map(libm::log).collect(),
        }
    };
    let chips: Vec<&str> = chips.into_iter().collect();
    let (next, scored) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some(&chip) = chips.get(next.fetch_add(1, Ordering::Relaxed)) {
            let left_out = score(chip);
            scored.lock().unwrap_or_else(PoisonError::into_inner).insert(chip, left_out);
        }
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, NonZero::get);
        (0..workers).for_each(|_| drop(scope.spawn(work)));
    });
    scored.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

fn chip(device: &Device) -> &str {
    &device.board.chip
}
