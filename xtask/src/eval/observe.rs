//! Predictions beside what was measured, one for each thing that a row measured.

use std::collections::{BTreeMap, HashMap};

use super::judge::{Answer, Answers};
use super::metrics::{Pair, quantile};
use super::price::Price;
use super::question::{Question, Unpriced};
use super::row::{MemoryKind, Part, Row};
use super::setup;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Time of a step on one device, ms.
    ModelTime,
    /// Peak memory, MiB.
    ModelMemory,
    /// Whether the network fits; 1 where it does, 0 where it does not.
    Fits,
    /// How many times the samples of one device go through all replicas in the same time.
    Replicas,
}

impl Kind {
    /// `model_time`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ModelTime => "model_time",
            Self::ModelMemory => "model_memory",
            Self::Fits => "fits",
            Self::Replicas => "replicas",
        }
    }
}

/// A prediction beside what a row measured.
#[derive(Clone, Debug)]
pub(super) struct Observation<'r> {
    pub(super) row: &'r Row,
    pub(super) kind: Kind,
    pub(super) pair: Pair,
    /// Why the row is doubted.
    pub(super) doubt: Option<&'static str>,
}

/// A row that gave no observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Skipped {
    pub(super) table: String,
    pub(super) reason: String,
    /// The row, where the reason is in what was measured.
    pub(super) row: Option<String>,
}

/// All observations, and the rows that gave none.
#[derive(Debug, Default)]
pub(super) struct Observed<'r> {
    pub(super) observations: Vec<Observation<'r>>,
    pub(super) skipped: Vec<Skipped>,
}

impl Observed<'_> {
    /// The rows that gave nothing, counted by the reason.
    pub(super) fn skipped_by_reason(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for skipped in &self.skipped {
            *counts.entry(skipped.reason.as_str()).or_default() += 1;
        }
        counts
    }

    /// The rows that were refused, each by its name.
    pub(super) fn refused(&self) -> Vec<&str> {
        self.skipped.iter().filter_map(|skipped| skipped.row.as_deref()).collect()
    }

    /// Rows that are doubted and were judged all the same, counted by the reason.
    pub(super) fn doubted_by_reason(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        // The observations of a row follow each other.
        for of_row in self.observations.chunk_by(|a, b| std::ptr::eq(a.row, b.row)) {
            if let Some(reason) = of_row.first().and_then(|observation| observation.doubt) {
                *counts.entry(reason).or_default() += 1;
            }
        }
        counts
    }
}

/// A row with its question.
pub(super) struct Asked<'r> {
    pub(super) row: &'r Row,
    pub(super) question: Result<Question, Unpriced>,
    pub(super) doubt: Option<&'static str>,
}

/// Puts answers beside rows.
pub(super) fn observe<'r>(asked: &[Asked<'r>], answers: &Answers, min_ms: f64) -> Observed<'r> {
    let single = SingleDevice::of(asked, answers);
    let mut observed = Observed::default();
    for asked in asked {
        match of_row(asked, answers, &single, min_ms) {
            Ok(pairs) => observed.observations.extend(pairs.into_iter().map(|(kind, pair)| Observation {
                row: asked.row,
                kind,
                pair,
                doubt: asked.doubt,
            })),
            Err(Unpriced(reason)) => {
                let row = (reason == BEATS_PEAK).then(|| asked.row.title());
                observed.skipped.push(Skipped { table: asked.row.table.clone(), reason, row });
            }
        }
    }
    observed
}

/// Why a row is refused that no board can have measured so.
const BEATS_PEAK: &str = "faster than the peak of its board";

/// Whether the time of a row is less than its step takes at the peaks of all its boards.
fn beats_peak(row: &Row, price: &Price) -> bool {
    let least = price.least.map(|least| if row.part == Part::Forward { least.forward } else { least.step });
    row.time_ms.zip(least).is_some_and(|(measured, least)| measured < least)
}

/// What a row gives, at least one thing.
fn of_row(
    asked: &Asked<'_>,
    answers: &Answers,
    single: &SingleDevice<'_>,
    min_ms: f64,
) -> Result<Vec<(Kind, Pair)>, Unpriced> {
    let row = asked.row;
    if row.time_ms.is_none() && row.memory_mib.is_none() && row.fits.is_none() {
        return Err(Unpriced("nothing measured".to_owned()));
    }
    let price = answer(asked, answers)?;
    if beats_peak(row, &price) {
        return Err(Unpriced(BEATS_PEAK.to_owned()));
    }
    let mut pairs = Vec::new();
    if let Some(measured) = row.time_ms.filter(|measured| *measured >= min_ms) {
        match (row.replicas, step(row, &price)) {
            (1, Some(pair)) => pairs.push((Kind::ModelTime, pair)),
            (_, Some(pair)) => pairs.extend(single.speedup(row, measured, pair.predicted).map(|p| (Kind::Replicas, p))),
            (_, None) => {}
        }
    }
    pairs.extend(memory(row, &price).map(|pair| (Kind::ModelMemory, pair)));
    if let (Some(measured), Some(predicted)) = (row.fits, price.fits) {
        let number = |truth: bool| f64::from(u8::from(truth));
        pairs.push((Kind::Fits, Pair { predicted: number(predicted), measured: number(measured), inside: None }));
    }
    if pairs.is_empty() {
        let reason = match (row.time_ms, row.replicas) {
            (Some(measured), _) if measured < min_ms => "faster than --min-ms",
            (Some(_), 2..) => "no row on one device to compare with",
            _ => "no figure of the kind that was measured",
        };
        return Err(Unpriced(reason.to_owned()));
    }
    Ok(pairs)
}

fn answer(asked: &Asked<'_>, answers: &Answers) -> Answer {
    answers.get(asked.question.as_ref().map_err(Clone::clone)?).cloned().unwrap_or_else(|| {
        // Only a panic of the thread that had the question leaves it without an answer.
        Err(Unpriced("the analysis ended early".to_owned()))
    })
}

/// The timed part of a step.
fn step(row: &Row, price: &Price) -> Option<Pair> {
    let measured = row.time_ms?;
    let added = setup::added_ms(row);
    if row.part == Part::Forward {
        return Some(Pair { predicted: price.forward? + added, measured, inside: None });
    }
    let step = price.step?;
    let inside = (step.p10 + added..=step.p90 + added).contains(&measured);
    Some(Pair { predicted: step.p50 + added, measured, inside: Some(inside) })
}

fn memory(row: &Row, price: &Price) -> Option<Pair> {
    let measured = row.memory_mib?;
    match row.memory_kind {
        MemoryKind::Allocated => Some(Pair { predicted: price.allocated?, measured, inside: None }),
        MemoryKind::Process => {
            let peak = price.peak?;
            Some(Pair { predicted: peak.p50, measured, inside: Some((peak.p10..=peak.p90).contains(&measured)) })
        }
    }
}

/// Steps of one device, by all that a step of several shares with them.
struct SingleDevice<'r>(HashMap<Key<'r>, Vec<(f64, f64)>>);

type Key<'r> = ([&'r str; 8], u64, Option<u64>);

impl<'r> SingleDevice<'r> {
    fn of(asked: &[Asked<'r>], answers: &Answers) -> Self {
        let mut steps: HashMap<Key<'r>, Vec<(f64, f64)>> = HashMap::new();
        for asked in asked.iter().filter(|asked| asked.row.replicas == 1) {
            let Ok(price) = answer(asked, answers) else { continue };
            let pair = step(asked.row, &price);
            steps.entry(Self::key(asked.row)).or_default().extend(pair.map(|pair| (pair.predicted, pair.measured)));
        }
        Self(steps)
    }

    fn key(row: &'r Row) -> Key<'r> {
        let text = |text: &'r Option<String>| text.as_deref().unwrap_or_default();
        let words = [
            &row.source,
            &row.model,
            &row.device,
            &row.framework,
            row.pass(),
            &row.precision,
            text(&row.input),
            text(&row.optimizer),
        ];
        (words, row.batch, row.tokens)
    }

    /// Predicted and measured speed-up of a row of several devices; the median where one device was measured often.
    fn speedup(&self, row: &'r Row, measured_ms: f64, predicted_ms: f64) -> Option<Pair> {
        let (predicted, measured): (Vec<f64>, Vec<f64>) = self.0.get(&Self::key(row))?.iter().copied().unzip();
        let replicas = f64::from(row.replicas);
        Some(Pair {
            predicted: replicas * quantile(&predicted, 0.5)? / predicted_ms,
            measured: replicas * quantile(&measured, 0.5)? / measured_ms,
            inside: None,
        })
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use dlcost::report::Interval;

    use super::super::network::ModelFiles;
    use super::super::row::tests::row;
    use super::*;

    /// Rows with a price each for the steps given, ms.
    fn observe_priced(rows: &[Row], step_ms: &[f64]) -> (Vec<(Kind, f64, f64)>, Vec<Skipped>) {
        let files = ModelFiles::default();
        let mut answers = Answers::new();
        let asked: Vec<Asked<'_>> = rows
            .iter()
            .zip(step_ms)
            .map(|(row, step)| {
                let mut question = Question::of(row, &files);
                if *step > 0.0 {
                    let known = Question::stand_in(row);
                    let step = Some(Interval { p10: step * 0.9, p50: *step, p90: step * 1.1 });
                    answers.insert(known.clone(), Ok(Price { step, ..Price::default() }));
                    question = Ok(known);
                }
                Asked { row, question, doubt: None }
            })
            .collect();
        let observed = observe(&asked, &answers, 1.0);
        let values = observed.observations.iter().map(|o| (o.kind, o.pair.predicted, o.pair.measured)).collect();
        (values, observed.skipped)
    }

    #[test]
    fn a_row_of_several_devices_is_a_speed_up_over_the_same_row_of_one() {
        let one = row(&[("time_ms", "10")]);
        let two = row(&[("time_ms", "12.5"), ("replicas", "2"), ("strategy", "ddp")]);
        let (values, skipped) = observe_priced(&[one, two], &[8.0, 8.0]);
        assert_eq!(values, [(Kind::ModelTime, 8.0, 10.0), (Kind::Replicas, 2.0, 1.6)]);
        assert!(skipped.is_empty());
    }

    /// Case 81: a time of 10 ms where the GPU needs 29 was taken without waiting for it.
    #[test]
    fn a_row_that_beats_the_peak_of_its_board_is_refused_by_name() {
        let rows = [row(&[("time_ms", "10")]), row(&[("time_ms", "29.2")])];
        let mut answers = Answers::new();
        let least = Some(super::super::limit::Least { step: 12.0, forward: 12.0 });
        let step = Some(Interval { p10: 20.0, p50: 30.0, p90: 40.0 });
        answers.insert(Question::stand_in(&rows[0]), Ok(Price { step, least, ..Price::default() }));
        let asked: Vec<Asked<'_>> =
            rows.iter().map(|row| Asked { row, question: Ok(Question::stand_in(row)), doubt: None }).collect();
        let observed = observe(&asked, &answers, 0.0);
        assert_eq!(observed.observations.len(), 1);
        assert_eq!(observed.skipped_by_reason(), BTreeMap::from([(BEATS_PEAK, 1)]));
        assert_eq!(observed.refused(), ["row 1 of timm: resnet50 on rtx-3090, batch 256"]);
    }

    #[test]
    fn rows_that_give_nothing_are_counted_by_the_reason() {
        let rows = [
            row(&[]),
            row(&[("time_ms", "10")]),
            row(&[("time_ms", "0.5")]),
            row(&[("time_ms", "10"), ("replicas", "2"), ("strategy", "ddp"), ("batch", "7")]),
            row(&[("memory_mib", "2000")]),
        ];
        let (values, skipped) = observe_priced(&rows, &[1.0, 0.0, 1.0, 5.0, 1.0]);
        assert_eq!(values, []);
        let expected = [
            "faster than --min-ms",
            "no figure of the kind that was measured",
            "no model file",
            "no row on one device to compare with",
            "nothing measured",
        ];
        let observed = Observed { observations: Vec::new(), skipped };
        assert_eq!(observed.skipped_by_reason(), BTreeMap::from(expected.map(|reason| (reason, 1))));
    }
}
