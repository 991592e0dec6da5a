//! Observations put into sets by what they have in common, with the figures of each set.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::metrics::{Errors, Pair, geometric_mean, mean, rank_correlation};
use super::observe::{Kind, Observation};
use super::row::Row;

/// A column that sets are made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Table,
    Source,
    Device,
    Family,
    Pass,
    Precision,
    Model,
    Framework,
    Layout,
}

impl By {
    const ALL: [(&'static str, Self); 9] = [
        ("table", Self::Table),
        ("source", Self::Source),
        ("device", Self::Device),
        ("family", Self::Family),
        ("pass", Self::Pass),
        ("precision", Self::Precision),
        ("model", Self::Model),
        ("framework", Self::Framework),
        ("layout", Self::Layout),
    ];

    /// `device`.
    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, by)| *by == self).map_or("table", |(name, _)| name)
    }

    fn value(self, row: &Row) -> String {
        match self {
            Self::Table => row.table.clone(),
            Self::Source => row.source.clone(),
            Self::Device => row.device.clone(),
            Self::Family => row.family.clone(),
            Self::Pass => row.pass().to_owned(),
            Self::Precision => row.precision.clone(),
            Self::Model => row.model.clone(),
            Self::Framework => row.framework.clone(),
            Self::Layout => row.layout.clone().unwrap_or_default(),
        }
    }
}

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        let names = || Self::ALL.map(|(name, _)| name).join(", ");
        found.map(|(_, by)| *by).ok_or_else(|| format!("'{text}' is unknown; possible are {}", names()))
    }
}

/// Observations of one kind that share the values of some columns.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) kind: Kind,
    /// Columns and their values.
    pub(super) by: Vec<(By, String)>,
    /// Figures of all rows.
    pub(super) all: Figures,
    /// Figures without the rows that are doubted, where there are such rows.
    pub(super) undoubted: Option<Figures>,
}

/// Figures of observations of one kind.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) n: usize,
    /// `None` for verdicts.
    pub(super) errors: Option<Errors>,
    /// Spearman's correlation over the distinct configurations.
    pub(super) rank_correlation: Option<f64>,
    /// The same of values for one sample. Where a table took for each network the largest batch that ran, steps of all
    /// networks are about as long, and this is the order of the networks.
    pub(super) rank_correlation_per_sample: Option<f64>,
    /// How many configurations those are.
    pub(super) configurations: usize,
    /// Share of right verdicts.
    pub(super) accuracy: Option<f64>,
    /// Share of the networks that did not fit of which that was said.
    pub(super) found: Option<f64>,
}

/// All sets by some columns, in the order of kinds and values.
pub(super) fn sets(observations: &[Observation<'_>], by: &[By]) -> Vec<Set> {
    let mut groups: BTreeMap<(Kind, Vec<String>), Vec<&Observation<'_>>> = BTreeMap::new();
    for observation in observations {
        let values = by.iter().map(|by| by.value(observation.row)).collect();
        groups.entry((observation.kind, values)).or_default().push(observation);
    }
    let set = |((kind, values), all): ((Kind, Vec<String>), Vec<&Observation<'_>>)| {
        let undoubted: Vec<_> = all.iter().copied().filter(|observation| observation.doubt.is_none()).collect();
        Set {
            kind,
            by: by.iter().copied().zip(values).collect(),
            undoubted: (undoubted.len() < all.len()).then(|| Figures::of(kind, &undoubted)),
            all: Figures::of(kind, &all),
        }
    };
    groups.into_iter().map(set).collect()
}

impl Figures {
    fn of(kind: Kind, observations: &[&Observation<'_>]) -> Self {
        let pairs: Vec<Pair> = observations.iter().map(|observation| observation.pair).collect();
        let n = pairs.len();
        if kind == Kind::Fits {
            let right = |pair: &Pair| f64::from(u8::from(pair.predicted.total_cmp(&pair.measured).is_eq()));
            let rights: Vec<f64> = pairs.iter().map(right).collect();
            let missing: Vec<f64> = pairs.iter().filter(|pair| pair.measured < 0.5).map(right).collect();
            return Self { n, accuracy: mean(&rights), found: mean(&missing), ..Self::default() };
        }
        let configurations = configurations(observations);
        let per_sample: Vec<_> = configurations.iter().map(|(batch, a, b)| (a / batch, b / batch)).collect();
        let whole: Vec<_> = configurations.iter().map(|(_, a, b)| (*a, *b)).collect();
        Self {
            n,
            errors: Errors::of(&pairs),
            rank_correlation: rank_correlation(&whole),
            rank_correlation_per_sample: rank_correlation(&per_sample),
            configurations: configurations.len(),
            ..Self::default()
        }
    }
}

/// Batch, predicted and measured value of each network in one size, batch and optimizer. Repeats, versions and layouts of
/// one configuration are one point, their geometric mean: what they differ in is not an order of networks.
#[allow(clippy::cast_precision_loss)]
fn configurations(observations: &[&Observation<'_>]) -> Vec<(f64, f64, f64)> {
    let key = |observation: &Observation<'_>| {
        let row = observation.row;
        let texts = [Some(&row.table), Some(&row.model), row.input.as_ref(), row.optimizer.as_ref()];
        (row.batch, texts.map(|text| text.cloned().unwrap_or_default()), row.tokens, row.replicas)
    };
    let mut points: BTreeMap<_, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for observation in observations {
        let (predicted, measured) = points.entry(key(observation)).or_default();
        predicted.push(observation.pair.predicted);
        measured.push(observation.pair.measured);
    }
    let point = |((batch, ..), (predicted, measured)): (&(u64, _, _, _), &(Vec<f64>, Vec<f64>))| {
        Some((*batch as f64, geometric_mean(predicted)?, geometric_mean(measured)?))
    };
    points.iter().filter_map(point).collect()
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    fn observed<'r>(
        row: &'r Row,
        kind: Kind,
        predicted: f64,
        measured: f64,
        doubt: Option<&'static str>,
    ) -> Observation<'r> {
        Observation { row, kind, pair: Pair { predicted, measured, inside: None }, doubt }
    }

    #[test]
    fn doubted_rows_count_in_the_figures_and_others_stand_beside() {
        let row = row(&[]);
        let good = observed(&row, Kind::ModelTime, 2.0, 2.0, None);
        let bad = observed(&row, Kind::ModelTime, 4.0, 2.0, Some("broken"));
        let sets = sets(&[good, bad], &[By::Device]);
        assert_eq!(sets.len(), 1);
        assert_eq!(sets[0].by, [(By::Device, "rtx-3090".to_owned())]);
        assert_eq!((sets[0].all.n, sets[0].all.errors.unwrap().mape), (2, 0.5));
        let undoubted = sets[0].undoubted.as_ref().unwrap();
        assert_eq!((undoubted.n, undoubted.errors.unwrap().mape), (1, 0.0));
    }

    #[test]
    fn repeats_of_a_configuration_are_one_point_of_the_order() {
        let rows = ["1", "2", "3"].map(|batch| row(&[("batch", batch)]));
        let mut observations: Vec<_> = rows
            .iter()
            .zip(1..)
            .map(|(row, n)| observed(row, Kind::ModelTime, f64::from(n), f64::from(n), None))
            .collect();
        // One repeat would turn the order round, its mean with the other does not.
        observations.push(observed(&rows[0], Kind::ModelTime, 3.5, 1.0, None));
        let set = &sets(&observations, &[By::Table])[0];
        assert_eq!((set.all.n, set.all.configurations, set.all.rank_correlation), (4, 3, Some(1.0)));
    }

    #[test]
    fn verdicts_have_shares_of_right_ones_and_no_errors() {
        let row = row(&[]);
        let verdict = |predicted, measured| observed(&row, Kind::Fits, predicted, measured, None);
        let set = &sets(&[verdict(1.0, 1.0), verdict(1.0, 0.0), verdict(0.0, 0.0), verdict(1.0, 1.0)], &[])[0];
        assert_eq!((set.all.accuracy, set.all.found), (Some(0.75), Some(0.5)));
        assert!(set.all.errors.is_none());
    }
}
