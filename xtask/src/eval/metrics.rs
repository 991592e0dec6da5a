//! How far predictions are from what was measured.

/// A prediction and what was measured, both above 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) predicted: f64,
    pub(crate) measured: f64,
    /// Whether the measured value lies within what the prediction gives 80 %; `None` where it gives no such bounds.
    pub(crate) inside: Option<bool>,
}

/// Errors over a set of pairs, as fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Errors {
    pub(crate) n: usize,
    /// Mean of |predicted / measured - 1|.
    pub(crate) mape: f64,
    pub(crate) median_ape: f64,
    pub(crate) p90_ape: f64,
    /// Mean of predicted / measured - 1.
    pub(crate) bias: f64,
    /// Share of the measured values that the bounds hold.
    pub(crate) coverage80: Option<f64>,
    /// Geometric mean of predicted / measured.
    pub(crate) geometric_mean: f64,
    /// Root of the mean square of predicted - measured, in the unit of both.
    pub(crate) rmse: f64,
}

impl Errors {
    /// Errors of some pairs; `None` of none.
    pub(crate) fn of(pairs: &[Pair]) -> Option<Self> {
        let ratios: Vec<f64> = pairs.iter().map(|pair| pair.predicted / pair.measured).collect();
        let errors: Vec<f64> = ratios.iter().map(|ratio| (ratio - 1.0).abs()).collect();
        let squares: Vec<f64> = pairs.iter().map(|pair| (pair.predicted - pair.measured).powi(2)).collect();
        let inside: Vec<f64> =
            pairs.iter().filter_map(|pair| pair.inside.map(|inside| f64::from(u8::from(inside)))).collect();
        Some(Self {
            n: pairs.len(),
            mape: mean(&errors)?,
            median_ape: quantile(&errors, 0.5)?,
            p90_ape: quantile(&errors, 0.9)?,
            bias: mean(&ratios)? - 1.0,
            coverage80: mean(&inside),
            geometric_mean: geometric_mean(&ratios)?,
            rmse: mean(&squares)?.sqrt(),
        })
    }
}

/// Arithmetic mean.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count(values.len()))
}

/// Geometric mean of values above 0.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    mean(&logarithms).map(f64::exp)
}

/// The value below which a share of all values lies; between two values on the straight line that joins them.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = share.clamp(0.0, 1.0) * count(sorted.len().checked_sub(1)?);
    let (low, high) = (sorted.get(at.floor() as usize)?, sorted.get(at.ceil() as usize)?);
    Some(low + (high - low) * at.fract())
}

/// Spearman's rank correlation. `None` where fewer than three pairs or one value everywhere leave no order to compare.
pub(crate) fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let (left, right): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (left, right) = (ranks(&left), ranks(&right));
    let (left_mean, right_mean) = (mean(&left)?, mean(&right)?);
    let (mut both, mut lefts, mut rights) = (0.0, 0.0, 0.0);
    for (a, b) in left.iter().zip(&right) {
        let (a, b) = (a - left_mean, b - right_mean);
        both += a * b;
        lefts += a * a;
        rights += b * b;
    }
    let scale = (lefts * rights).sqrt();
    (scale > 0.0).then(|| both / scale)
}

/// The place of each value in the order of all, from 1; equal values share the mean of their places.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = values.iter().copied().enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut ranks = vec![(0, 0.0); 0];
    let mut done = 0;
    for group in order.chunk_by(|a, b| a.1.total_cmp(&b.1).is_eq()) {
        let shared = count(done) + (count(group.len()) + 1.0) / 2.0;
        ranks.extend(group.iter().map(|(index, _)| (*index, shared)));
        done += group.len();
    }
    ranks.sort_by_key(|(index, _)| *index);
    ranks.into_iter().map(|(_, rank)| rank).collect()
}

#[allow(clippy::cast_precision_loss)]
fn count(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use super::*;

    fn pair(predicted: f64, measured: f64, inside: Option<bool>) -> Pair {
        Pair { predicted, measured, inside }
    }

    #[test]
    fn errors_are_fractions_of_what_was_measured() {
        let pairs = [pair(2.0, 1.0, Some(true)), pair(1.0, 2.0, Some(false)), pair(3.0, 3.0, None)];
        let errors = Errors::of(&pairs).unwrap();
        assert_eq!((errors.n, errors.mape, errors.median_ape), (3, 0.5, 0.5));
        assert!((errors.bias - 0.5 / 3.0).abs() < 1e-12);
        assert!((errors.geometric_mean - 1.0).abs() < 1e-12);
        assert_eq!(errors.coverage80, Some(0.5));
        assert_eq!(Errors::of(&[]), None);
    }

    #[test]
    fn quantiles_lie_on_the_line_between_two_values() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&values, 0.5), Some(2.5));
        assert_eq!(quantile(&values, 0.9), Some(3.7));
        assert_eq!((quantile(&values, 0.0), quantile(&values, 1.0)), (Some(1.0), Some(4.0)));
        assert_eq!((quantile(&[7.0], 0.9), quantile(&[], 0.5)), (Some(7.0), None));
    }

    #[test]
    fn equal_values_share_the_mean_of_their_ranks() {
        assert_eq!(ranks(&[10.0, 20.0, 20.0, 5.0]), [2.0, 3.5, 3.5, 1.0]);
    }

    #[test]
    fn rank_correlation_sees_the_order_only() {
        let rising = [(1.0, 10.0), (2.0, 11.0), (3.0, 1000.0)];
        assert_eq!(rank_correlation(&rising), Some(1.0));
        assert_eq!(rank_correlation(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), Some(-1.0));
        // Four pairs, a tie on the right: scipy.stats.spearmanr gives 0.9486832980505138.
        let tied = [(1.0, 1.0), (2.0, 2.0), (3.0, 2.0), (4.0, 3.0)];
        assert!((rank_correlation(&tied).unwrap() - 0.948_683_298_050_513_8).abs() < 1e-12);
    }

    #[test]
    fn there_is_no_rank_correlation_without_an_order() {
        assert_eq!(rank_correlation(&[(1.0, 2.0), (2.0, 3.0)]), None);
        assert_eq!(rank_correlation(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]), None);
    }
}
