//! `optimizer-dominates`: the update of the weights takes a large part of the step.

use super::{LintCx, joined, say, share, step_ms};
use crate::diagnostics::{Code, Diagnostic};
use crate::runtime::{RUNTIMES, Update};

/// Share of the step from which it is said.
pub(super) const SHARE: f64 = 0.25;

pub(super) fn check(cx: &LintCx<'_>) -> Option<Diagnostic> {
    let (ms, step) = (cx.estimate.time.optimizer, step_ms(cx.estimate));
    let part = share(ms, step);
    if part <= SHARE {
        return None;
    }
    let message = format!(
        "the update of the weights by {} takes {}, {} of the step",
        cx.target.optimizer.name(),
        say::ms(ms),
        say::percent(part)
    );
    let batch = cx.target.batch.and_then(|batch| {
        let larger = batch.checked_mul(4)?;
        let estimate = cx.at_batch(larger)?;
        let then = share(estimate.time.optimizer, step_ms(&estimate));
        let gain = cx.samples_per_s(&estimate, larger) / cx.samples_per_s(cx.estimate, batch);
        (cx.fits(&estimate) && gain >= 1.1).then(|| {
            let (then, gain) = (say::percent(then), say::times(gain));
            format!("at --batch {larger} it is {then}, with {gain} the samples a second")
        })
    });
    Some(Diagnostic::new(Code::OptimizerDominates, message).maybe_help(joined([batch, fused(cx, ms)])))
}

/// A runtime that updates all weights in one kernel, of the same framework where there is one.
fn fused(cx: &LintCx<'_>, now: f64) -> Option<String> {
    if (cx.target.runtime.update)(cx.target.version) == Update::Fused {
        return None;
    }
    let family = cx.target.runtime.name.split('-').next().unwrap_or_default();
    let runtime = RUNTIMES.into_iter().find(|runtime| {
        runtime.trains && (runtime.update)(None) == Update::Fused && runtime.name.starts_with(family)
    })?;
    let estimate = cx.what_if(|target| (target.runtime, target.version) = (runtime, None))?;
    let ms = estimate.time.optimizer;
    (ms < 0.9 * now)
        .then(|| format!("--runtime {}, which fuses it, is predicted to take {} for it", runtime.name, say::ms(ms)))
}
