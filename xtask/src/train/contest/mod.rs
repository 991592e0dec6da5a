//! The contest of methods (`train --compare`): other ways to learn than boosting over sums, on the same rows. Only
//! measurements of one kernel take part, because the others predict one number a row.

mod crates;
mod mlp;
mod page;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use dlcost::predict::learned::section::{Knowledge, Model};

use super::boost::Growth;
use super::fit::{model, order, plan};
use super::prepare::{Example, Sections};
use crate::Outcome;
use mlp::Mlp;
use page::Line;
use rows::{Encoder, Rows, sample, single};

/// The most rows that are learned from, and that are predicted.
const MOST_LEARNED: usize = 8_000;
const MOST_PREDICTED: usize = 3_000;
/// The fewest, for a section to take part.
const FEWEST: [usize; 2] = [200, 30];

/// Ways to learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Physics,
    Linear,
    Forest,
    Boosting,
    Perpetual,
    Net,
    Sums,
}

impl Method {
    const ALL: [Self; 7] =
        [Self::Physics, Self::Linear, Self::Forest, Self::Boosting, Self::Perpetual, Self::Net, Self::Sums];
}

/// Gives logarithms of measured over physical time.
type Predict = Box<dyn Fn(&Rows) -> Vec<f64>>;

/// What a method learned.
struct Fitted {
    predict: Predict,
    /// As it would be stored, where it can be told.
    bytes: Option<usize>,
}

/// How a method did.
#[derive(Clone, Debug, Default)]
struct Score {
    /// |predicted / measured - 1|, row by row; their mean and median.
    errors: Vec<f64>,
    mean: f64,
    median: f64,
    /// Seconds to fit.
    seconds: f64,
    /// Microseconds a row to predict.
    micros: f64,
    bytes: Option<usize>,
}

/// Rows that are learned from and rows that are predicted.
struct Round<'e> {
    learned: Vec<&'e Example>,
    predicted: Vec<&'e Example>,
    knowledge: Knowledge,
    growth: Growth,
}

/// Holds the contest and writes its tables into a page.
pub(crate) fn compare(sections: &Sections, only: &[String], seed: u64, page: &Path) -> Outcome {
    let begun = Instant::now();
    let mut lines = Vec::new();
    let mut apart = Vec::new();
    for (name, examples) in sections.iter().filter(|(name, _)| only.is_empty() || only.contains(name)) {
        let singles = single(examples);
        let seen = seen(name, &singles, seed);
        if seen.learned.len() < FEWEST[0] || seen.predicted.len() < FEWEST[1] {
            apart.push(name.clone());
            continue;
        }
        eprintln!("{name}: {} rows of one kernel, {:.0} s", singles.len(), begun.elapsed().as_secs_f64());
        let unseen = unseen(name, &singles, seed);
        lines.push(Line {
            section: name.clone(),
            rows: [seen.learned.len(), seen.predicted.len()],
            seen: scores(&seen, seed)?,
            unseen: unseen.map(|(chip, round)| Ok::<_, String>((chip, scores(&round, seed)?))).transpose()?,
        });
    }
    page::write(page, &lines, &apart)?;
    eprintln!("contest: {:.0} s in all", begun.elapsed().as_secs_f64());
    Ok(true)
}

fn learns(example: &Example) -> bool {
    !example.dev && !example.calibrates
}

/// Other shapes on the same boards.
fn seen<'e>(name: &str, examples: &[&'e Example], seed: u64) -> Round<'e> {
    let learned: Vec<&Example> = examples.iter().copied().filter(|example| learns(example)).collect();
    let learned = sample(learned, MOST_LEARNED, seed);
    let boards: BTreeSet<&str> = learned.iter().map(|example| &*example.device.id).collect();
    let known = |example: &&Example| example.dev && boards.contains(&*example.device.id);
    let predicted = sample(examples.iter().copied().filter(known).collect(), MOST_PREDICTED, seed);
    let growth = plan(name, learned.len(), seed).seen;
    Round { learned, predicted, knowledge: Knowledge::Seen, growth }
}

/// All but the chip that has the most rows, and that chip.
fn unseen<'e>(name: &str, examples: &[&'e Example], seed: u64) -> Option<(String, Round<'e>)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for example in examples {
        *counts.entry(&example.device.board.chip).or_default() += 1;
    }
    let (chip, _) = counts.into_iter().rev().max_by_key(|(_, count)| *count)?;
    let learning = examples.iter().copied().filter(|example| learns(example));
    let (out, rest): (Vec<&Example>, Vec<&Example>) = learning.partition(|example| example.device.board.chip == chip);
    if rest.len() < FEWEST[0] {
        return None;
    }
    let learned = sample(rest, MOST_LEARNED, seed);
    let growth = plan(name, learned.len(), seed).unseen;
    let predicted = sample(out, MOST_PREDICTED, seed);
    Some((chip.to_owned(), Round { learned, predicted, knowledge: Knowledge::Sheet, growth }))
}

/// How every method does on a round, in their order.
fn scores(round: &Round, seed: u64) -> Result<Vec<Score>, String> {
    let mut boards = Vec::new();
    if round.knowledge == Knowledge::Seen {
        let ids: BTreeSet<&str> = round.learned.iter().map(|example| &*example.device.id).collect();
        boards = ids.into_iter().map(str::to_owned).collect();
        order(&mut boards, &round.learned);
    }
    let learned = Rows::of(&round.learned, round.knowledge, &boards);
    let predicted = Rows::of(&round.predicted, round.knowledge, &boards);
    let mut all = Vec::new();
    for method in Method::ALL {
        let begun = Instant::now();
        let fitted = match method {
            Method::Physics => Ok(physics(&learned)),
            Method::Linear => crates::linear(&learned),
            Method::Forest => crates::forest(&learned, seed),
            Method::Boosting => crates::boosting(&learned, seed),
            Method::Perpetual => crates::perpetual(&learned, seed),
            Method::Net => Ok(net(&learned, seed)),
            Method::Sums => Ok(sums(round, &boards, learned.kernel_width)),
        };
        let fitted = fitted.map_err(|error| format!("{method:?}: {error}"))?;
        let seconds = begun.elapsed().as_secs_f64();
        let score = Score { seconds, bytes: fitted.bytes, ..score(&fitted, &predicted) };
        eprintln!("  {method:?}: {:.2} % / {:.2} % in {seconds:.1} s", 100.0 * score.mean, 100.0 * score.median);
        all.push(score);
    }
    Ok(all)
}

fn score(fitted: &Fitted, rows: &Rows) -> Score {
    let begun = Instant::now();
    let factors = (fitted.predict)(rows);
    let micros = 1e6 * begun.elapsed().as_secs_f64() / rows.len().max(1) as f64;
    let pairs = factors.iter().zip(&rows.bases).zip(&rows.times);
    let error = |((factor, base), time): ((&f64, &[f64; 2]), &f64)| {
        ((base[0] + base[1]) * libm::exp(*factor) / time - 1.0).abs()
    };
    let errors: Vec<f64> = pairs.map(error).collect();
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let mut sorted = errors.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    Score { errors, mean, median, micros, ..Score::default() }
}

/// The physical time alone, times one factor.
fn physics(rows: &Rows) -> Fitted {
    let mean = rows.targets().iter().sum::<f64>() / rows.len().max(1) as f64;
    Fitted { predict: Box::new(move |rows| vec![mean; rows.len()]), bytes: Some(4) }
}

fn net(rows: &Rows, seed: u64) -> Fitted {
    let encoder = Encoder::of(rows);
    let width = encoder.width();
    let net = Mlp::fit(&encoder.values(rows), width, &rows.targets(), seed);
    let bytes = Some(4 * net.weights());
    let predict =
        move |rows: &Rows| encoder.values(rows).chunks_exact(width.max(1)).map(|row| net.value(row)).collect();
    Fitted { predict: Box::new(predict), bytes }
}

/// Boosting over sums as it ships: a forest for kernels and one for protocols.
fn sums(round: &Round, boards: &[String], kernel_width: usize) -> Fitted {
    let model = model(&round.learned, round.knowledge, boards, &round.growth);
    let bytes = [Some(&model.kernels), model.protocol.as_ref()].into_iter().flatten();
    let bytes = bytes
        .map(|forest| 6 * forest.trees.splits.len() + 2 * (forest.trees.leaves.len() + forest.trees.sizes.len()))
        .sum();
    let predict = move |rows: &Rows| {
        rows.iter().zip(&rows.bases).map(|(row, base)| factor(&model, row.split_at(kernel_width), *base)).collect()
    };
    Fitted { predict: Box::new(predict), bytes: Some(bytes) }
}

fn factor(model: &Model, (kernel, protocol): (&[f32], &[f32]), base: [f64; 2]) -> f64 {
    let mut time = base[0] * libm::exp(model.kernels.value(kernel));
    if let Some(forest) = &model.protocol {
        time += base[1] * libm::exp(forest.value(protocol));
    }
    libm::log(time / (base[0] + base[1]))
}
