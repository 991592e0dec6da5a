//! Measurements of one kernel as tables with one prediction a row, which is what the methods of the contest take.

use std::collections::BTreeMap;

use dlcost::predict::learned::row::Row;
use dlcost::predict::learned::section::Knowledge;

use super::super::boost::Random;
use super::super::prepare::{Example, PROTOCOL_WIDTH, described, protocol_row};

/// Rows: the features of a kernel and of its protocol side by side, its physical time and the measured one.
#[derive(Debug, Default)]
pub(super) struct Rows {
    names: Vec<&'static str>,
    /// How many of the features are the kernel's.
    pub(super) kernel_width: usize,
    features: Vec<f32>,
    /// Physical times of kernel and protocol, ms; the protocol's is 0 where there is none.
    pub(super) bases: Vec<[f64; 2]>,
    /// Measured, ms.
    pub(super) times: Vec<f64>,
}

/// Names of the features of a protocol.
const PROTOCOL: [&str; PROTOCOL_WIDTH] = [
    "board",
    "step",
    "run",
    "optimizer",
    "activation",
    "bias",
    "moved",
    "inputs",
    "outputs",
    "update",
    "kernels",
    "stack",
    "pass",
    "bytes/cache",
];

/// Features that are numbers of things and no amounts.
const KINDS: [&str; 9] =
    ["board", "stack", "precision", "pass", "function", "written-by", "run", "optimizer", "activation"];

/// Examples of one kernel.
pub(super) fn single(examples: &[Example]) -> Vec<&Example> {
    examples.iter().filter(|example| example.measurement.kernels.len() == 1).collect()
}

/// At most so many examples, drawn, in their order.
pub(super) fn sample(mut examples: Vec<&Example>, most: usize, seed: u64) -> Vec<&Example> {
    let mut random = Random::new(seed);
    let count = examples.len();
    for at in 0..most.min(count) {
        let other = at + (random.unit() * (count - at) as f64) as usize;
        examples.swap(at, other.min(count - 1));
    }
    examples.truncate(most);
    examples.sort_by_key(|example| example.row);
    examples
}

impl Rows {
    /// Describes examples as a model with this knowledge sees them.
    pub(super) fn of(examples: &[&Example], knowledge: Knowledge, boards: &[String]) -> Self {
        let mut rows = Self::default();
        let has_protocol = examples.iter().any(|example| example.measurement.protocol.is_some());
        for example in examples {
            let row = if rows.names.is_empty() { Row::with_names() } else { Row::new() };
            let Some(described) = described(example, example.device, 0, knowledge, boards, row) else { continue };
            if rows.names.is_empty() {
                rows.names = described.row.names().to_vec();
                rows.kernel_width = rows.names.len();
                if has_protocol {
                    rows.names.extend(PROTOCOL);
                }
            }
            let protocol = example.measurement.protocol.as_ref();
            let protocol =
                protocol.map(|of| protocol_row(example, example.device, of, knowledge, boards, described.base_ms));
            let (base, of_protocol) = protocol.unwrap_or((0.0, [0.0; PROTOCOL_WIDTH]));
            rows.features.extend(&described.row.values);
            if has_protocol {
                rows.features.extend(of_protocol);
            }
            rows.bases.push([described.base_ms, base]);
            rows.times.push(example.time_ms);
        }
        for value in rows.features.iter_mut().filter(|value| !value.is_finite()) {
            *value = 0.0;
        }
        rows
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// The features of each row.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[f32]> {
        self.features.chunks_exact(self.names.len().max(1))
    }

    /// Logarithms of measured over physical time.
    pub(super) fn targets(&self) -> Vec<f64> {
        let pairs = self.times.iter().zip(&self.bases);
        pairs.map(|(time, base)| libm::log(time / (base[0] + base[1]))).collect()
    }

    fn column(&self, feature: usize) -> impl Iterator<Item = f32> + '_ {
        self.iter().filter_map(move |row| row.get(feature).copied())
    }
}

/// Which columns a method sees: those that differ among the rows it learns from, the board's once.
#[derive(Debug)]
pub(super) struct Columns(Vec<usize>);

impl Columns {
    pub(super) fn of(rows: &Rows) -> Self {
        let differs = |feature: &usize| {
            let mut values = rows.column(*feature);
            let first = values.next();
            *feature != rows.kernel_width && values.any(|value| Some(value) != first)
        };
        Self((0..rows.names.len()).filter(differs).collect())
    }

    pub(super) fn width(&self) -> usize {
        self.0.len()
    }

    /// Values column by column.
    pub(super) fn values<T: From<f32>>(&self, rows: &Rows) -> Vec<T> {
        self.0.iter().flat_map(|feature| rows.column(*feature)).map(T::from).collect()
    }
}

/// For methods that weigh and add: amounts in standard deviations from their mean, clipped, and a column for each kind.
#[derive(Debug)]
pub(super) struct Encoder(Vec<Encoded>);

#[derive(Debug)]
enum Encoded {
    Amount { feature: usize, mean: f32, scale: f32 },
    Kind { feature: usize, value: f32 },
}

/// Standard deviations at which amounts are clipped, so that a row far away does not ask for the impossible.
const CLIP: f32 = 4.0;

impl Encoder {
    pub(super) fn of(rows: &Rows) -> Self {
        let mut all = Vec::new();
        for feature in Columns::of(rows).0 {
            if rows.names.get(feature).is_some_and(|name| KINDS.contains(name)) {
                let kinds: BTreeMap<u32, f32> = rows.column(feature).map(|value| (value.to_bits(), value)).collect();
                all.extend(kinds.into_values().map(|value| Encoded::Kind { feature, value }));
                continue;
            }
            let count = rows.len() as f64;
            let mean = rows.column(feature).map(f64::from).sum::<f64>() / count;
            let variance = rows.column(feature).map(|value| (f64::from(value) - mean).powi(2)).sum::<f64>() / count;
            all.push(Encoded::Amount { feature, mean: mean as f32, scale: variance.sqrt().max(1e-6) as f32 });
        }
        Self(all)
    }

    pub(super) fn width(&self) -> usize {
        self.0.len()
    }

    /// Values row by row.
    pub(super) fn values(&self, rows: &Rows) -> Vec<f32> {
        let value = |row: &[f32], encoded: &Encoded| match *encoded {
            Encoded::Amount { feature, mean, scale } => {
                row.get(feature).map_or(0.0, |value| ((value - mean) / scale).clamp(-CLIP, CLIP))
            }
            Encoded::Kind { feature, value } => f32::from(u8::from(row.get(feature) == Some(&value))),
        };
        rows.iter().flat_map(|row| self.0.iter().map(move |encoded| value(row, encoded))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        Rows {
            names: vec!["m", "n", "board"],
            kernel_width: 3,
            features: vec![1.0, 5.0, 0.0, 2.0, 5.0, 1.0, 3.0, 5.0, 7.0],
            bases: vec![[1.0, 1.0]; 3],
            times: vec![2.0; 3],
        }
    }

    #[test]
    fn columns_that_never_differ_are_left_out() {
        let columns = Columns::of(&rows());
        assert_eq!((columns.width(), columns.values::<f32>(&rows())), (2, vec![1.0, 2.0, 3.0, 0.0, 1.0, 7.0]));
    }

    #[test]
    fn amounts_are_standardised_and_kinds_have_a_column_each() {
        let encoder = Encoder::of(&rows());
        let values = encoder.values(&rows());
        assert_eq!(encoder.width(), 4);
        assert!((values[0] + 1.224_745).abs() < 1e-5 && values[4].abs() < 1e-6);
        assert_eq!([&values[1..4], &values[5..8], &values[9..12]].concat(), [1., 0., 0., 0., 1., 0., 0., 0., 1.]);
    }

    #[test]
    fn what_took_its_physical_time_has_target_zero() {
        assert_eq!(rows().targets(), [0.0; 3]);
    }
}
