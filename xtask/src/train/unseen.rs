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
use crate::eval::metrics::{Errors, Pair, mean, quantile};

/// How models for devices that were not measured are made, as it came out best on chips that were left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Way {
    /// Whether boards have offsets.
    pub(crate) offsets: bool,
    /// How much of what trees say is believed: of the rest, physics knows better.
    pub(crate) belief: f32,
}

impl Default for Way {
    fn default() -> Self {
        Self { offsets: false, belief: 1.0 }
    }
}

/// Beliefs that are tried.
const BELIEFS: [f32; 3] = [1.0, 0.7, 0.4];

/// Models for devices that were not measured, and how far those that were are from them.
#[derive(Clone, Debug, Default)]
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
    /// By data sheet; inside the interval that the other chips give.
    pub(crate) sheet: Errors,
    /// By two rates.
    pub(crate) anchored: Errors,
    /// Measured over predicted times, by data sheet.
    pub(crate) ratios: Vec<f64>,
}

impl LeftOut {
    /// How a section predicts the rows of a chip that it has not seen.
    fn of(chip: &str, section: &Section, rows: &[&Example]) -> Option<Self> {
        let pairs = |anchors: Anchors| -> Vec<Pair> {
            let pair = |example: &&Example| {
                let predicted = predicted(section, example, anchors)?;
                Some(Pair { predicted, measured: example.time_ms, inside: None })
            };
            rows.iter().filter_map(pair).collect()
        };
        let (sheet, anchored) = (pairs(Anchors::Ignore), pairs(Anchors::Use));
        Some(Self {
            chip: chip.to_owned(),
            sheet: Errors::of(&sheet)?,
            anchored: Errors::of(&anchored)?,
            ratios: sheet.iter().map(|pair| pair.measured / pair.predicted).collect(),
        })
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chip, sheet, anchored, .. } = self;
        write!(
            f,
            "without {chip}: {:.1} % by data sheet, {:.1} % by anchors ({} rows)",
            100.0 * sheet.mape,
            100.0 * anchored.mape,
            sheet.n
        )
    }
}

impl Unseen {
    /// The same, of which trees are believed a part.
    fn believed(mut self, belief: f32) -> Self {
        for model in [&mut self.sheet, &mut self.anchored] {
            for forest in std::iter::once(&mut model.kernels).chain(&mut model.protocol) {
                forest.start *= belief;
                forest.unit *= belief;
            }
        }
        self
    }
}

/// Makes the models for devices that were not measured.
pub(crate) fn make(examples: &[&Example], growth: &Growth, way: Way) -> Unseen {
    grow(examples, growth, way.offsets).believed(way.belief)
}

fn grow(examples: &[&Example], growth: &Growth, with_offsets: bool) -> Unseen {
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

/// And a board itself as if so many more rows said that it is like the mean of all.
const FEW: f64 = 200.0;

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
            let mean = of.sum / (of.rows + FEW);
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
    let (boards, offsets) = unseen.offsets.into_iter().unzip();
    Section { boards, unseen: unseen.sheet, anchored: unseen.anchored, offsets, ..Section::default() }
}

/// The most rows of a chip that is left out, and of the others then.
const MOST_LEFT_OUT: usize = 4_000;
const MOST_LEFT: usize = 30_000;

/// Leaves each chip out in turn: how they came out in every way.
pub(crate) fn leave_out(
    examples: &[&Example],
    plan: &Plan,
    tell: &(dyn Fn(&str) + Sync),
    name: &str,
) -> Vec<(Way, Vec<LeftOut>)> {
    let ways = [false, true].map(|offsets| with_offsets(examples, plan, offsets, tell, name));
    ways.into_iter().flatten().collect()
}

fn with_offsets(
    examples: &[&Example],
    plan: &Plan,
    offsets: bool,
    tell: &(dyn Fn(&str) + Sync),
    name: &str,
) -> Vec<(Way, Vec<LeftOut>)> {
    let chips: BTreeSet<&str> = examples.iter().map(|example| chip(example.device)).collect();
    if chips.len() < 2 {
        return Vec::new();
    }
    let score = |chip_out: &str| {
        tell(&format!("{name}: without {chip_out}"));
        let (out, rest): (Vec<&Example>, Vec<&Example>) =
            examples.iter().partition(|example| chip(example.device) == chip_out);
        let unseen = grow(&thinned(&rest, plan.most.min(MOST_LEFT)), &plan.unseen, offsets);
        let out = thinned(&out, MOST_LEFT_OUT);
        BELIEFS.map(|belief| LeftOut::of(chip_out, &of(unseen.clone().believed(belief)), &out))
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
    let mut scored = scored.into_inner().unwrap_or_else(PoisonError::into_inner);
    let way = |(at, belief): (usize, &f32)| {
        let chips = scored.values_mut().filter_map(|ways| ways.get_mut(at)?.take()).collect();
        (Way { offsets, belief: *belief }, judged(chips))
    };
    BELIEFS.iter().enumerate().map(way).collect()
}

/// Says of each chip how much of it the others' interval holds.
fn judged(mut chips: Vec<LeftOut>) -> Vec<LeftOut> {
    for at in 0..chips.len() {
        let others = chips.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, chip)| chip);
        let inside = interval(others);
        if let Some(chip) = chips.get_mut(at) {
            let ends = inside.map(|ends| f64::from(ends.low)..=f64::from(ends.high));
            let holds: Option<Vec<f64>> =
                ends.map(|ends| chip.ratios.iter().map(|ratio| f64::from(u8::from(ends.contains(ratio)))).collect());
            chip.sheet.coverage80 = holds.and_then(|holds| mean(&holds));
        }
    }
    chips
}

/// Rows from which on a chip that is left out has a say.
pub(crate) const MANY: usize = 30;

/// The interval that held 80 % of the times of each chip when it was left out; `None` where none has many rows.
pub(crate) fn interval<'l>(chips: impl Iterator<Item = &'l LeftOut>) -> Option<Interval> {
    let errors = |chip: &LeftOut| -> Vec<f64> { chip.ratios.iter().map(|ratio| libm::log(*ratio).abs()).collect() };
    let many = chips.filter(|chip| chip.ratios.len() >= MANY).filter_map(|chip| quantile(&errors(chip), 0.8));
    let widest = many.max_by(f64::total_cmp)?;
    Some(Interval { low: libm::exp(-widest) as f32, high: libm::exp(widest) as f32 })
}

fn chip(device: &Device) -> &str {
    &device.board.chip
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chip(name: &str, ratios: &[f64]) -> LeftOut {
        let pairs: Vec<Pair> =
            ratios.iter().map(|ratio| Pair { predicted: 1.0, measured: *ratio, inside: None }).collect();
        let errors = Errors::of(&pairs).unwrap();
        LeftOut { chip: name.to_owned(), sheet: errors, anchored: errors, ratios: ratios.to_vec() }
    }

    #[test]
    fn the_interval_is_as_wide_as_the_worst_chip_needs() {
        let chips = [chip("even", &[1.1; 40]), chip("slow", &[2.0; 40]), chip("rare", &[9.0; 3])];
        let ends = interval(chips.iter()).unwrap();
        assert!((ends.high - 2.0).abs() < 1e-6 && (ends.low - 0.5).abs() < 1e-6);
        assert!(interval(chips[2..].iter()).is_none());
    }

    #[test]
    fn a_chip_is_judged_by_what_the_others_say() {
        let chips = judged(vec![chip("even", &[1.1; 40]), chip("slow", &[2.0; 40])]);
        let inside: Vec<Option<f64>> = chips.iter().map(|chip| chip.sheet.coverage80).collect();
        assert_eq!(inside, [Some(1.0), Some(0.0)]);
    }
}
