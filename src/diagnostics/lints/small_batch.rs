//! `small-batch`: the device is so little used that a larger batch gives far more samples a second.

use super::{LintCx, launch_bound, launch_share, optimizer_dominates, say, share, step_ms};
use crate::diagnostics::{Code, Diagnostic};
use crate::predict::network::Estimate;

/// What a larger batch must gain.
const GAIN: f64 = 1.5;

/// Share of the peak of matrix products above which no batch gains as much.
const BUSY: f64 = 0.4;

pub(super) fn check(cx: &LintCx<'_>) -> Option<Diagnostic> {
    let batch = cx.target.batch?;
    // Where launches rule, that is the cause, and it is said with the batch that ends it.
    let launches = launch_share(cx.estimate) > launch_bound::SHARE;
    // One sample at a time is how much is served; who did not name a batch did not ask for more.
    let one_by_one = !cx.trains() && cx.is_assumed("batch");
    // The same holds for the update of the weights.
    let updates = share(cx.estimate.time.optimizer, step_ms(cx.estimate)) > optimizer_dominates::SHARE;
    let busy = used(cx);
    if launches || updates || one_by_one || busy > BUSY {
        return None;
    }
    let now = cx.samples_per_s(cx.estimate, batch);
    let gain = |batch: u64, estimate: &Estimate| cx.samples_per_s(estimate, batch) / now;
    let at = |factor: u64| {
        let larger = batch.checked_mul(factor)?;
        let estimate = cx.at_batch(larger)?;
        cx.fits(&estimate).then(|| (larger, gain(larger, &estimate)))
    };
    let (mut larger, mut best) = [8, 4, 2].into_iter().find_map(at)?;
    if best < GAIN {
        return None;
    }
    // The smallest that comes near is what to try.
    while larger > 2 * batch {
        let Some((half, gain)) = at(larger / batch / 2).filter(|(_, gain)| *gain >= 0.9 * best && *gain >= GAIN) else {
            break;
        };
        (larger, best) = (half, gain);
    }
    let message = format!(
        "the {} is used to {} of its peak in products: a batch of {batch} is too small for it",
        cx.device(),
        say::percent(busy)
    );
    let help = format!(
        "--batch {larger} fits and is predicted to give {} samples a second instead of {} ({})",
        say::number(now * best),
        say::number(now),
        say::times(best)
    );
    Some(Diagnostic::new(Code::SmallBatch, message).help(help))
}

/// Share of the peak of matrix products that the step reaches.
fn used(cx: &LintCx<'_>) -> f64 {
    let products = || cx.layers().filter(|(_, layer)| layer.product_flops > 0.0);
    let Some(precision) = products().find_map(|(index, _)| cx.product_precision(index)) else { return 0.0 };
    let flops: f64 = products().map(|(_, layer)| layer.product_flops).sum();
    share(flops, step_ms(cx.estimate) * 1e9 * cx.target.device.matrix_tflops(precision))
}
