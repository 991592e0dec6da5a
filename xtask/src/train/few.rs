//! What a few rows tell of a device that was left out: which devices it is like, and how far it is from them.

use dlcost::predict::learned::offset::{Offset, TIMES};
use dlcost::predict::learned::rates::Anchors;
use dlcost::predict::learned::section::{Knowledge, Section, Tuned};

use super::prepare::{Example, Part, parts};

/// Before rows are seen, how far from 0 numbers are thought to be: likeness to a device; what all times, one length of times,
/// and what measuring adds are off, as logarithms. And how far rows scatter.
const LIKENESS: f64 = 0.3;
const ALL_TIMES: f64 = 0.3;
const ONE_TIME: f64 = 0.1;
const PROTOCOL: f64 = 0.3;
const SCATTER: f64 = 0.09;

/// The most that a row is taken to be off.
const MOST: f64 = 0.5;

/// Rounds of linearisation, and of relaxation in each.
const ROUNDS: usize = 5;
const RELAXATIONS: usize = 200;

/// An example on the device, with the logarithm of its time.
struct Seen {
    parts: Vec<Part>,
    time: f64,
}

impl Seen {
    /// The logarithm of the time by the numbers that are sought, and its derivatives: devices, times and all of them, protocol.
    fn linear(&self, boards: usize, numbers: &[f64], offset: &Offset) -> (f64, Vec<f64>) {
        let number = |at: usize| numbers.get(at).copied().unwrap_or_default();
        let protocol = boards + TIMES + 1;
        let slope = |part: &Part, board: usize| part.as_boards.get(board).copied().unwrap_or(part.value) - part.value;
        let time = |part: &Part| {
            let like: f64 = (0..boards).map(|board| number(board) * slope(part, board)).sum();
            let own = if part.is_protocol { number(protocol) } else { 0.0 };
            part.base_ms * libm::exp(part.value + like + own)
        };
        let times: Vec<f64> = self.parts.iter().map(time).collect();
        let sum: f64 = times.iter().sum();
        let shares = || self.parts.iter().zip(times.iter().map(|time| time / sum));
        let mut slopes: Vec<f64> =
            (0..boards).map(|board| shares().map(|(part, share)| share * slope(part, board)).sum()).collect();
        let base: f64 = self.parts.iter().map(|part| part.base_ms).sum();
        let (low, near) = Offset::place(base);
        slopes.extend((0..TIMES).map(|at| match at.checked_sub(low) {
            Some(0) => 1.0 - near,
            Some(1) => near,
            _ => 0.0,
        }));
        slopes.push(1.0);
        slopes.push(shares().filter(|(part, _)| part.is_protocol).map(|(_, share)| share).sum());
        let times = slopes.get(boards..protocol).unwrap_or_default().iter().enumerate();
        let off: f64 = times.map(|(at, slope)| slope * number(boards + at)).sum();
        (libm::log(sum * offset.factor(base)) + off, slopes)
    }
}

/// Learns what a few rows of a device tell.
pub(crate) fn tune(section: &mut Section, examples: &[&Example]) {
    let Some(device) = examples.first().map(|example| example.device) else { return };
    if section.knowledge(device, Anchors::Ignore) != Knowledge::Sheet {
        return;
    }
    let seen = |example: &&Example| {
        Some(Seen { parts: parts(section, example, Knowledge::Sheet, true)?, time: libm::log(example.time_ms) })
    };
    let seen: Vec<Seen> = examples.iter().filter_map(seen).collect();
    let boards = section.boards.len();
    let offset = section.offset(device, Knowledge::Sheet);
    let spread = |at: usize| match at.checked_sub(boards) {
        None => LIKENESS,
        Some(time) if time < TIMES => ONE_TIME,
        Some(TIMES) => ALL_TIMES,
        Some(_) => PROTOCOL,
    };
    let mut numbers = vec![0.0; boards + TIMES + 2];
    for _ in 0..ROUNDS {
        let rows: Vec<(f64, Vec<f64>)> = seen
            .iter()
            .map(|seen| {
                let (value, slopes) = seen.linear(boards, &numbers, &offset);
                ((seen.time - value).clamp(-MOST, MOST), slopes)
            })
            .collect();
        relax(&mut numbers, rows, spread);
    }
    let number = |at: usize| numbers.get(at).copied().unwrap_or_default();
    let all = number(boards + TIMES);
    let offset = Offset(std::array::from_fn(|at| {
        offset.0.get(at).copied().unwrap_or_default() + (number(boards + at) + all) as f32
    }));
    section.tuned.push(Tuned {
        board: device.id.clone(),
        like: (0..boards).map(|board| number(board) as f32).collect(),
        offset,
        protocol: number(boards + TIMES + 1) as f32,
    });
}

/// Moves numbers to where what rows are still off, and how far numbers are from 0, are together the least likely to be chance.
fn relax(numbers: &mut [f64], mut rows: Vec<(f64, Vec<f64>)>, spread: impl Fn(usize) -> f64) {
    for _ in 0..RELAXATIONS {
        for (at, number) in numbers.iter_mut().enumerate() {
            let slope = |slopes: &[f64]| slopes.get(at).copied().unwrap_or_default();
            let precision = 1.0 / (SCATTER * SCATTER);
            let prior = 1.0 / (spread(at) * spread(at));
            let pull: f64 =
                rows.iter().map(|(off, slopes)| off * slope(slopes)).sum::<f64>() * precision - *number * prior;
            let squares: f64 =
                rows.iter().map(|(_, slopes)| slope(slopes) * slope(slopes)).sum::<f64>() * precision + prior;
            let step = pull / squares;
            *number += step;
            rows.iter_mut().for_each(|(off, slopes)| *off -= step * slope(slopes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relaxed(rows: Vec<(f64, Vec<f64>)>) -> Vec<f64> {
        let mut numbers = vec![0.0; 2];
        relax(&mut numbers, rows, |_| 0.3);
        numbers
    }

    #[test]
    fn no_rows_say_nothing() {
        assert_eq!(relaxed(Vec::new()), [0.0, 0.0]);
    }

    #[test]
    fn few_rows_are_believed_less_than_many() {
        let off = |count: usize| relaxed(vec![(0.2, vec![1.0, 0.0]); count])[0];
        // A row scatters by 0.09, and 0.3 is what is thought before: 0.09² / 0.3² of a row says 0.
        assert!((off(1) - 0.2 / 1.09).abs() < 1e-6);
        assert!((off(100) - 0.2).abs() < 1e-3);
    }

    #[test]
    fn what_one_number_explains_is_not_given_to_another() {
        let rows = (0..40).map(|at| {
            let likeness = f64::from(at) / 40.0 - 0.5;
            (0.4 * likeness, vec![likeness, 1.0])
        });
        let [like, all] = relaxed(rows.collect())[..] else { unreachable!() };
        assert!((0.36..0.4).contains(&like) && all.abs() < 0.01, "{like} {all}");
    }
}
