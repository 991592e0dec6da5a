//! Fits the three models of a section and calibrates their intervals.

use std::collections::BTreeSet;

use dlcost::predict::learned::forest::Forest;
use dlcost::predict::learned::rates::{Anchors, scaled};
use dlcost::predict::learned::section::{Domain, Interval, Knowledge, Model, Section, Tuned};

use super::anchor::FACTORS;
use super::boost::{Growth, grow};
use super::prepare::{Example, predicted, predicted_on, prepare};

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

/// How a chip that was left out was predicted.
#[derive(Clone, Debug)]
pub(crate) struct LeftOut {
    pub(crate) chip: String,
    pub(crate) rows: usize,
    /// Mean absolute error, by data sheet and by anchors.
    pub(crate) sheet: f64,
    pub(crate) anchored: f64,
    /// Logarithms of measured over predicted, by data sheet.
    errors: Vec<f64>,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { chip, rows, sheet, anchored, .. } = self;
        write!(
            f,
            "without {chip}: {:.1} % by data sheet, {:.1} % by anchors ({rows} rows)",
            100.0 * sheet,
            100.0 * anchored
        )
    }
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
        "convolution/tensorrt" => seen.trees = 600,
        // Searched kernels: a few rows are ten times what they should be.
        "convolution/miopen" | "convolution/miopen-3d" => seen.median = true,
        _ => {}
    }
    let unseen = Growth {
        trees: 250,
        leaves: 63,
        rate: 0.08,
        least: 20.0,
        pull: 10.0,
        features: 0.5,
        rows: 0.6,
        bins: 64,
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
    tell: &dyn Fn(&str),
) -> (Section, Vec<LeftOut>) {
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
    tell(&format!("{name}: unseen devices"));
    let few = thinned(&learned, plan.most);
    let unseen = model(&few, Knowledge::Sheet, &[], &plan.unseen);
    let anchored = model(&few, Knowledge::Anchored, &[], &plan.unseen);
    let wide = Interval { low: 0.5, high: 2.0 };
    let mut section = Section {
        name: name.to_owned(),
        features,
        boards,
        seen,
        unseen,
        anchored,
        domain,
        seen_interval: wide,
        unseen_interval: wide,
        by_board: Vec::new(),
        tuned: Vec::new(),
    };
    let calibration: Vec<(&str, f64)> = examples
        .iter()
        .filter(|example| example.calibrates && !example.dev)
        .filter_map(|example| {
            let error = libm::log(example.time_ms / predicted(&section, example, Anchors::Ignore)?);
            Some((&*example.device.id, error))
        })
        .collect();
    section.seen_interval = interval(calibration.iter().map(|(_, error)| *error).collect()).unwrap_or(wide);
    let of_board = |board: &String| {
        let errors: Vec<f64> = calibration.iter().filter(|(of, _)| of == board).map(|(_, error)| *error).collect();
        interval(errors.clone()).filter(|_| errors.len() >= ENOUGH).unwrap_or(section.seen_interval)
    };
    section.by_board = section.boards.iter().map(of_board).collect();
    let mut left_out = Vec::new();
    if plan.leaves_out {
        left_out = leave_out(&learned, plan, tell, name);
        let worst =
            left_out.iter().filter(|chip| chip.errors.len() >= 30).filter_map(|chip| interval(chip.errors.clone()));
        let widest = worst.max_by(|a, b| (a.high / a.low).total_cmp(&(b.high / b.low)));
        section.unseen_interval = widest.unwrap_or(wide);
    }
    (section, left_out)
}

/// Learns what a few rows of a device tell: the rates that make them come out best, and what remains.
pub(crate) fn tune(section: &mut Section, board: &str, examples: &[&Example]) {
    let Some(device) = examples.first().map(|example| example.device) else { return };
    let mut best: Option<(f64, Tuned)> = None;
    for product in FACTORS {
        for copy in FACTORS {
            let known = scaled(device, product, copy);
            let predicted = |example: &&Example| {
                Some(example.time_ms / predicted_on(section, example, &known, Knowledge::Anchored)?)
            };
            let mut errors: Vec<f64> = examples.iter().filter_map(predicted).map(libm::log).collect();
            errors.sort_unstable_by(f64::total_cmp);
            let middle = errors.get(errors.len() / 2).copied().unwrap_or_default();
            // Rates far from the data sheet need a reason.
            let strange = libm::log(product).abs() + libm::log(copy).abs() + middle.abs();
            let error = errors.iter().map(|error| (error - middle).abs()).sum::<f64>() / errors.len().max(1) as f64;
            let cost = error + 0.02 * strange;
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                let scale = libm::exp(middle) as f32;
                best =
                    Some((cost, Tuned { board: board.to_owned(), product: product as f32, copy: copy as f32, scale }));
            }
        }
    }
    section.tuned.extend(best.map(|(_, tuned)| tuned));
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
    let mut forests = grow(&prepared.data(growth.bins), growth, |_| ()).into_iter();
    let kernels: Forest = forests.next().unwrap_or_default();
    Model { kernels, protocol: if protocol { forests.next() } else { None } }
}

/// Every so manieth example.
fn thinned<'e>(examples: &[&'e Example], most: usize) -> Vec<&'e Example> {
    let step = examples.len().div_ceil(most.max(1)).max(1);
    examples.iter().step_by(step).copied().collect()
}

/// Leaves each chip out in turn.
fn leave_out(examples: &[&Example], plan: &Plan, tell: &dyn Fn(&str), name: &str) -> Vec<LeftOut> {
    let chips: BTreeSet<&str> = examples.iter().map(|example| &*example.device.board.chip).collect();
    if chips.len() < 2 {
        return Vec::new();
    }
    let mut all = Vec::new();
    for chip in chips {
        tell(&format!("{name}: without {chip}"));
        let (out, rest): (Vec<&Example>, Vec<&Example>) =
            examples.iter().partition(|example| example.device.board.chip == chip);
        let rest = thinned(&rest, plan.most);
        let out = thinned(&out, 4_000);
        let mut means = [0.0; 2];
        let mut errors = Vec::new();
        for (slot, knowledge) in means.iter_mut().zip([Knowledge::Sheet, Knowledge::Anchored]) {
            let model = model(&rest, knowledge, &[], &plan.unseen);
            let section = unseen_only(model);
            let anchors = if knowledge == Knowledge::Anchored { Anchors::Use } else { Anchors::Ignore };
            let mut sum = 0.0;
            for example in &out {
                let Some(time) = predicted(&section, example, anchors) else { continue };
                sum += (time / example.time_ms - 1.0).abs();
                if knowledge == Knowledge::Sheet {
                    errors.push(libm::log(example.time_ms / time));
                }
            }
            *slot = sum / out.len().max(1) as f64;
        }
        let [sheet, anchored] = means;
        all.push(LeftOut { chip: chip.to_owned(), rows: out.len(), sheet, anchored, errors });
    }
    all
}

/// A section that knows no device.
fn unseen_only(model: Model) -> Section {
    let wide = Interval { low: 0.5, high: 2.0 };
    Section {
        name: String::new(),
        features: Vec::new(),
        boards: Vec::new(),
        seen: Model::default(),
        unseen: model.clone(),
        anchored: model,
        domain: Vec::new(),
        seen_interval: wide,
        unseen_interval: wide,
        by_board: Vec::new(),
        tuned: Vec::new(),
    }
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
