//! `mirrored-loss-dominates`: the loss over mirrored replicas takes a large part of the step.

use super::{LintCx, joined, say, share, step_ms};
use crate::diagnostics::{Code, Diagnostic};
use crate::target::Strategy;

/// Share of the step from which it is said.
const SHARE: f64 = 0.2;

pub(super) fn check(cx: &LintCx<'_>) -> Option<Diagnostic> {
    let (ms, step) = (cx.estimate.time.mirrored_loss, step_ms(cx.estimate));
    let part = share(ms, step);
    if cx.target.replicas < 2 || part <= SHARE {
        return None;
    }
    let message = format!(
        "the last layer and its loss over {} mirrored replicas cost {} more than on one device, {} of the step",
        cx.target.replicas,
        say::ms(ms),
        say::percent(part)
    );
    let ddp = cx.what_if(|target| target.strategy = Strategy::Ddp).map(|estimate| step_ms(&estimate));
    let ddp = ddp
        .filter(|ddp| *ddp < 0.95 * step)
        .map(|ddp| format!("--strategy ddp is predicted to take {} a step instead of {}", say::ms(ddp), say::ms(step)));
    let batch = cx.target.batch.and_then(|batch| {
        let larger = batch.checked_mul(4)?;
        let estimate = cx.at_batch(larger)?;
        let part = share(estimate.time.mirrored_loss, step_ms(&estimate));
        cx.fits(&estimate).then(|| format!("at --batch {larger} it is {} of the step", say::percent(part)))
    });
    Some(Diagnostic::new(Code::MirroredLossDominates, message).maybe_help(joined([ddp, batch])))
}
