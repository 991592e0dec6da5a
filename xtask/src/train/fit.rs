//! Fits the three models of a section and calibrates their intervals.

use std::collections::{BTreeMap, BTreeSet};

use dlcost::predict::learned::forest::Forest;
use dlcost::predict::learned::rates::Anchors;
use dlcost::predict::learned::section::{Domain, Interval, Knowledge, Model, Section, Spread};

use super::boost::Growth;
use super::prepare::{Example, predicted, prepare};
use super::unseen::{LeftOut, MANY, Way, leave_out, make};
use crate::eval::metrics::quantile;

/// How the models of a section are grown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seen: Growth,
    pub(crate) unseen: Growth,
    /// The most examples of the models for unseen devices.
    pub(crate) most: usize,
    /// Whether chips are left out in turn to learn how wrong the model is on others.
    pub(crate) leaves_out: bool,
}

/// The plan of a section with so many examples: many large trees where there are many, and few small ones where there are
/// few.
pub(crate) fn plan(section: &str, count: usize, seed: u64) -> Plan {
    let (trees, leaves, rate, least) = match count {
        0..3_000 => (300, 31, 0.05, 3.0),
        3_000..40_000 => (700, 63, 0.08, 5.0),
        _ => (500, 255, 0.1, 10.0),
    };
    let mut seen = Growth { trees, leaves, rate, least, features: 0.8, rows: 0.8, seed, ..Growth::default() };
    match section {
        "convolution/tensorflow" | "product/serving" | "attention/serving" => (seen.trees, seen.rate) = (900, 0.07),
        "product/pytorch" | "elementwise/pytorch" => (seen.trees, seen.rate) = (700, 0.08),
        "convolution/tensorrt" => seen.trees = 600,
        // Searched kernels: a few rows are ten times what they should be.
        "convolution/miopen" | "convolution/miopen-3d" => seen.median = true,
        _ => {}
    }
    let unseen = Growth {
        trees: if section == "convolution/tensorflow" { 500 } else { 200 },
        leaves: 63,
        rate: 0.08,
        least: 20.0,
        pull: 10.0,
        features: 0.5,
        rows: 0.6,
        bins: 64,
        // Attention that another library wrote is times off.
        median: seen.median || section == "attention/serving",
        ..seen
    };
    Plan { seen, unseen, most: 40_000, leaves_out: true }
}

/// Fits a section on examples; what is told of progress goes to `tell`.
pub(crate) fn fit(
    name: &str,
    examples: &[Example],
    borrowed: &[Example],
    plan: &Plan,
    tell: &(dyn Fn(&str) + Sync),
) -> (Section, Way, Vec<LeftOut>) {
    let learns = |example: &&Example| !example.dev && !example.calibrates;
    let mut learned: Vec<&Example> = examples.iter().filter(learns).collect();
    learned.extend(borrowed.iter().filter(learns));
    let boards: BTreeSet<&str> = learned.iter().map(|example| &*example.device.id).collect();
    let mut boards: Vec<String> = boards.into_iter().map(str::to_owned).collect();
    order(&mut boards, &learned);
    let prepared = prepare(&learned, Knowledge::Seen, &boards);
    let features: Vec<String> =
        prepared.names.iter().filter(|name| **name != "board").map(|name| (*name).to_owned()).collect();
    let domain = prepared.domain(features.len()).into_iter().map(|(low, high)| Domain { low, high }).collect();
    tell(&format!("{name}: {} rows, {} devices", learned.len(), boards.len()));
    let seen = model(&learned, Knowledge::Seen, &boards, &plan.seen);
    let telling: Vec<&Example> = learned.iter().copied().filter(|example| !example.cramped).collect();
    let (way, left_out) = choose(name, &telling, plan, tell);
    tell(&format!("{name}: unseen devices"));
    let unseen = make(&thinned(&telling, plan.most), &plan.unseen, way);
    let offset = |board: &String| unseen.offsets.get(board).copied().unwrap_or_default();
    let offsets = if way.offsets { boards.iter().map(offset).collect() } else { Vec::new() };
    let mut section = Section {
        name: name.to_owned(),
        features,
        stacks: boards.iter().map(|board| stacks(board, &learned)).collect(),
        boards,
        seen,
        unseen: unseen.sheet,
        anchored: unseen.anchored,
        domain,
        unseen_interval: super::unseen::interval(left_out.iter()).unwrap_or_default(),
        offsets,
        ..Section::default()
    };
    calibrate(&mut section, examples);
    (section, way, left_out)
}

/// Finds the intervals of devices that were seen, on examples that no tree saw: for each device, and then how much wider or
/// narrower for each kind of kernel.
fn calibrate(section: &mut Section, examples: &[Example]) {
    let calibration: Vec<(&Example, f64)> = examples
        .iter()
        .filter(|example| example.calibrates && !example.dev)
        .filter_map(|example| {
            Some((example, libm::log(example.time_ms / predicted(section, example, Anchors::Ignore)?)))
        })
        .collect();
    section.seen_interval =
        interval(calibration.iter().map(|(_, error)| *error).collect()).unwrap_or(section.seen_interval);
    let of_board = |board: &String| {
        let of = calibration.iter().filter(|(example, _)| example.device.id == *board);
        let errors: Vec<f64> = of.map(|(_, error)| *error).collect();
        interval(errors.clone()).filter(|_| errors.len() >= ENOUGH).unwrap_or(section.seen_interval)
    };
    section.by_board = section.boards.iter().map(of_board).collect();
    let mut kinds: BTreeMap<u16, Vec<f64>> = BTreeMap::new();
    for (example, error) in &calibration {
        let Some(kernel) = example.measurement.kernels.first() else { continue };
        let ends = section.interval_on(example.device, Knowledge::Seen, kernel);
        let end = libm::log(f64::from(if *error < 0.0 { ends.low } else { ends.high }));
        kinds.entry(Spread::kind(kernel)).or_default().push(error / end);
    }
    let enough = kinds.into_iter().filter(|(_, shares)| shares.len() >= ENOUGH);
    section.spreads = enough
        .filter_map(|(kind, shares)| Some(Spread { kind, times: quantile(&shares, 0.8)? as f32 }))
        .filter(|spread| spread.times.is_finite())
        .collect();
}

/// The way that is best on chips that were left out, and how these came out then.
fn choose(name: &str, learned: &[&Example], plan: &Plan, tell: &(dyn Fn(&str) + Sync)) -> (Way, Vec<LeftOut>) {
    if !plan.leaves_out {
        return (Way::default(), Vec::new());
    }
    let error = |chips: &[LeftOut]| -> f64 {
        let many = chips.iter().filter(|chip| chip.sheet.n >= MANY);
        many.map(|chip| (chip.sheet.mape + chip.anchored.mape) * (chip.sheet.n as f64).sqrt()).sum()
    };
    let ways = leave_out(learned, plan, tell, name).into_iter();
    ways.min_by(|(_, a), (_, b)| error(a).total_cmp(&error(b))).unwrap_or_default()
}

/// The stacks that were measured on a device.
fn stacks(board: &str, examples: &[&Example]) -> u16 {
    let of = examples.iter().filter(|example| example.device.id == board);
    of.fold(0, |stacks, example| stacks | example.measurement.setting.stack.bit())
}

/// Devices in the order of how far they are from physics, so that one cut of their numbers parts what is alike.
pub(crate) fn order(boards: &mut [String], examples: &[&Example]) {
    let mut sums: std::collections::HashMap<&str, (f64, f64)> = std::collections::HashMap::new();
    for example in examples {
        let base: f64 = (0..example.measurement.kernels.len())
            .filter_map(|kernel| {
                let row = dlcost::predict::learned::row::Row::new();
                super::prepare::described(example, example.device, kernel, Knowledge::Sheet, &[], row)
                    .map(|described| described.base_ms)
            })
            .sum();
        let sum = sums.entry(&example.device.id).or_default();
        sum.0 += libm::log(example.time_ms / base.max(1e-9));
        sum.1 += 1.0;
    }
    let mean = |board: &str| sums.get(board).map_or(0.0, |(sum, count)| sum / count.max(1.0));
    boards.sort_by(|a, b| mean(a).total_cmp(&mean(b)).then_with(|| a.cmp(b)));
}

/// Grows the forests of a model.
pub(crate) fn model(examples: &[&Example], knowledge: Knowledge, boards: &[String], growth: &Growth) -> Model {
    let prepared = prepare(examples, knowledge, boards);
    let protocol = prepared.has_protocol();
    let mut forests = super::boost::grow(&prepared.data(growth.bins), growth, |_| ()).into_iter();
    let kernels: Forest = forests.next().unwrap_or_default();
    Model { kernels, protocol: if protocol { forests.next() } else { None } }
}

/// Every so manieth example.
pub(crate) fn thinned<'e>(examples: &[&'e Example], most: usize) -> Vec<&'e Example> {
    let step = examples.len().div_ceil(most.max(1)).max(1);
    examples.iter().step_by(step).copied().collect()
}

/// Rows from which on a board has an interval of its own.
const ENOUGH: usize = 100;

/// The interval that holds 80 % of errors (logarithms of measured over predicted), symmetric in the tails.
fn interval(mut errors: Vec<f64>) -> Option<Interval> {
    errors.retain(|error| error.is_finite());
    errors.sort_unstable_by(f64::total_cmp);
    let count = errors.len();
    if count < 20 {
        return None;
    }
    // Split conformal: one more than the rank, for the row that is still to come.
    let rank = |share: f64| ((count as f64 + 1.0) * share).clamp(1.0, count as f64) as usize - 1;
    let at = |share: f64| errors.get(rank(share)).copied().unwrap_or_default();
    Some(Interval { low: libm::exp(at(0.1)).min(1.0) as f32, high: libm::exp(at(0.9)).max(1.0) as f32 })
}
