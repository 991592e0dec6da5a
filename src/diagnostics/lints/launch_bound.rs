//! `launch-bound`: more than half of the step goes into launching kernels.

use super::{LintCx, joined, launch_share, say, step_ms};
use crate::diagnostics::{Code, Diagnostic, Level};
use crate::predict::network::Estimate;
use crate::runtime::{RUNTIMES, Runtime};

/// Share of a step from which it is said.
pub(super) const SHARE: f64 = 0.5;

/// Largest power of two that the batch is multiplied with in search of its end.
const DOUBLINGS: u32 = 10;

/// A runtime that gains less than this is no advice.
const GAIN: f64 = 1.2;

pub(super) fn check(cx: &LintCx<'_>) -> Option<Diagnostic> {
    let share = launch_share(cx.estimate);
    let kernels: f64 = cx.estimate.layers.iter().map(|layer| layer.kernels).sum();
    if share <= SHARE || kernels < 1.0 {
        return None;
    }
    let (run, runtime) = (cx.run(), cx.target.runtime.title);
    let message = format!(
        "{} of the {run} goes into launching {} with {runtime}, not into what they compute",
        say::percent(share),
        say::counted(kernels, "kernel")
    );
    // A single sample at a time is often what somebody wants; that it is slow is no fault of theirs.
    let level = if cx.trains() && !cx.is_assumed("batch") { Level::Warning } else { Level::Note };
    let help = joined([larger_batch(cx), other_runtime(cx)]);
    Some(Diagnostic::new(Code::LaunchBound, message).level(level).maybe_help(help))
}

/// The first power of two from which the work of the kernels rules.
fn larger_batch(cx: &LintCx<'_>) -> Option<String> {
    let batch = cx.target.batch?;
    let first = (batch + 1).checked_next_power_of_two()?;
    let at = |doublings: u32| {
        let batch = first.checked_shl(doublings)?;
        Some((batch, cx.at_batch(batch)?))
    };
    let ends = |estimate: &Estimate| launch_share(estimate) <= SHARE;
    let mut last = at(DOUBLINGS)?;
    if !ends(&last.1) {
        return Some(format!("no batch up to {} ends this", last.0));
    }
    // The share falls with the batch, so a search by halves finds where.
    let (mut low, mut high) = (0, DOUBLINGS);
    while low < high {
        let middle = u32::midpoint(low, high);
        let tried = at(middle)?;
        if ends(&tried.1) {
            (high, last) = (middle, tried);
        } else {
            low = middle + 1;
        }
    }
    let (found, estimate) = last;
    let before = cx.samples_per_s(cx.estimate, batch);
    let gain = cx.samples_per_s(&estimate, found) / before;
    let memory = if cx.fits(&estimate) { "" } else { ", which does not fit into memory" };
    Some(format!(
        "from --batch {found} on the work rules{memory}: {} samples a second there instead of {} ({})",
        say::number(before * gain),
        say::number(before),
        say::times(gain)
    ))
}

/// The runtime that launches less and is fastest.
fn other_runtime(cx: &LintCx<'_>) -> Option<String> {
    let now = step_ms(cx.estimate);
    let fitting = |runtime: &&'static Runtime| match runtime.name {
        "pytorch-compile" => cx.target.runtime.name == "pytorch",
        "tensorrt" => cx.target.runtime.name != "tensorrt" && !cx.trains(),
        _ => false,
    };
    let priced = RUNTIMES.into_iter().filter(fitting).filter_map(|runtime| {
        let estimate = cx.what_if(|target| {
            (target.runtime, target.version) = (runtime, None);
            target.attention = (runtime.attention)(None);
        })?;
        Some((runtime, step_ms(&estimate)))
    });
    let (runtime, step) = priced.min_by(|left, right| left.1.total_cmp(&right.1))?;
    let gain = now / step;
    (gain >= GAIN).then(|| {
        format!(
            "--runtime {} is predicted to take {} a {} ({})",
            runtime.name,
            say::ms(step),
            cx.run(),
            say::times(gain)
        )
    })
}
