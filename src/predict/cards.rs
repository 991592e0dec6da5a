//! Unequal cards that work together: all wait for the slowest, and the card that is smallest for what it needs decides
//! what fits.

use std::sync::Arc;

use super::network::Estimate;
use crate::device::Device;
use crate::target::Target;

/// What a card takes for its part of a step.
#[derive(Clone, Debug)]
pub struct CardEstimate {
    /// The card.
    pub device: Arc<Device>,
    /// The step without exchange and without waiting for input, ms.
    pub compute_ms: f64,
    /// Kernels, ms.
    pub kernels_ms: f64,
}

/// What a step takes on all cards of a target, by what it takes on each kind of them.
pub(super) fn together(target: &Target, on: impl Fn(&Target) -> Option<Estimate>) -> Option<Estimate> {
    let each = target.each();
    let estimates: Vec<Estimate> = each.iter().map(on).collect::<Option<_>>()?;
    let kinds = || each.iter().zip(&estimates);
    let (slowest, mut estimate) = kinds()
        .max_by(|(_, left), (_, right)| compute_ms(left).total_cmp(&compute_ms(right)))
        .map(|(target, estimate)| (target, estimate.clone()))?;
    let need = |target: &Target, estimate: &Estimate| {
        estimate.memory.upper_end() as f64 / target.device.memory.visible_bytes().max(1.0)
    };
    let (tightest, memory) = kinds().max_by(|(a, left), (b, right)| need(a, left).total_cmp(&need(b, right)))?;
    // The fastest card alone does most, so it is what all together are held against.
    let alone =
        estimates.iter().map(|estimate| estimate.speedup * estimate.time.step.p50).fold(f64::INFINITY, f64::min);
    let fastest_ms = estimates.iter().map(compute_ms).fold(f64::INFINITY, f64::min);
    estimate.speedup = alone / estimate.time.step.p50;
    estimate.memory = memory.memory.clone();
    estimate.slowest = Some(Arc::clone(&slowest.device));
    estimate.tightest = Some(Arc::clone(&tightest.device));
    let card = |device: &Arc<Device>| {
        let (_, own) = kinds().find(|(target, _)| target.device.id == device.id)?;
        let time = &own.time;
        let kernels_ms = time.forward + time.backward + time.optimizer;
        Some(CardEstimate { device: Arc::clone(device), compute_ms: compute_ms(own), kernels_ms })
    };
    estimate.cards = target.cards.iter().filter_map(card).collect();
    let waits = compute_ms(&estimate) - fastest_ms;
    if waits > estimate.time.all_reduce_exposed + estimate.time.mirrored_loss && waits > 0.02 * estimate.time.step.p50 {
        estimate.exchange.bound = "slowest";
    }
    Some(estimate)
}

/// A step of a card for itself, ms.
fn compute_ms(estimate: &Estimate) -> f64 {
    let time = &estimate.time;
    time.without_wait() - time.all_reduce_exposed - time.mirrored_loss
}

/// Samples in proportion to rates, as whole numbers that sum to the total: what is left over by rounding down goes to the
/// largest remainders.
#[must_use]
pub fn shares(total: u64, rates: &[f64]) -> Vec<u64> {
    let sum: f64 = rates.iter().sum();
    if !(sum.is_finite() && sum > 0.0) {
        return vec![0; rates.len()];
    }
    let exact: Vec<f64> = rates.iter().map(|rate| total as f64 * rate / sum).collect();
    let mut shares: Vec<u64> = exact.iter().map(|share| share.floor() as u64).collect();
    let mut order: Vec<usize> = (0..rates.len()).collect();
    let rest = |index: &usize| exact.get(*index).map_or(0.0, |share| share.fract());
    order.sort_by(|left, right| rest(right).total_cmp(&rest(left)));
    let left = total.saturating_sub(shares.iter().sum());
    for index in order.into_iter().cycle().take(usize::try_from(left).unwrap_or(0)) {
        if let Some(share) = shares.get_mut(index) {
            *share += 1;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_shared_in_proportion_to_rates_and_none_is_lost() {
        assert_eq!(shares(64, &[3.0, 1.0]), [48, 16]);
        assert_eq!(shares(64, &[1.0, 1.0, 1.0]), [22, 21, 21]);
        assert_eq!(shares(1, &[0.1, 0.2]), [0, 1]);
        assert_eq!(shares(0, &[1.0, 2.0]), [0, 0]);
        assert_eq!(shares(10, &[0.0, 0.0]), [0, 0]);
        for total in [7_u64, 100, 12_345] {
            assert_eq!(shares(total, &[0.31, 0.44, 1.7, 0.02]).iter().sum::<u64>(), total);
        }
    }
}
