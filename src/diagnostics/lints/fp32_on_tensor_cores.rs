//! `fp32-on-tensor-cores`: most of the time is fp32 work that tensor cores could do in fewer bits.

use super::{LintCx, joined, kernels_ms, layer_ms, say, share, step_ms};
use crate::device::Precision;
use crate::diagnostics::{Code, Diagnostic};
use crate::ir::place::Place;
use crate::target::Compute;

/// Share of the time of kernels from which it is said.
const SHARE: f64 = 0.5;

/// What fewer bits must gain.
const GAIN: f64 = 1.15;

pub(super) fn check(cx: &LintCx<'_>) -> Option<Diagnostic> {
    let device = &cx.target.device;
    let faster = |precision| device.matrix_tflops(precision) >= 1.5 * device.plain_tflops(Precision::Fp32);
    let on_tensor = |precision| device.tensor.of(precision).is_some() && faster(precision);
    if ![Precision::Fp16, Precision::Bf16, Precision::Tf32].into_iter().any(on_tensor) {
        return None;
    }
    let in_fp32 = |&(index, _): &(usize, _)| cx.product_precision(index) == Some(Precision::Fp32);
    let mut layers: Vec<(Place, f64)> = cx
        .layers()
        .filter(in_fp32)
        .filter_map(|(index, layer)| Some((cx.node(index)?.place, layer_ms(layer))))
        .collect();
    let ms: f64 = layers.iter().map(|(_, ms)| ms).sum();
    let part = share(ms, kernels_ms(cx.estimate));
    if part <= SHARE {
        return None;
    }
    let half = if cx.trains() { Compute::Amp } else { Compute::Fp16 };
    let mut better: Vec<(f64, String)> = [half, Compute::Tf32]
        .into_iter()
        .filter(|precision| on_tensor(precision.product()))
        .filter_map(|precision| priced(cx, precision))
        .collect();
    if better.is_empty() {
        return None;
    }
    better.sort_by(|left, right| left.0.total_cmp(&right.0));
    // The dearest layer is the one to look at.
    layers.sort_by(|left, right| right.1.total_cmp(&left.1));
    let message = format!(
        "{} of the time of kernels is fp32 work that tensor cores of the {} could do",
        say::percent(part),
        cx.device()
    );
    let mut diagnostic = Diagnostic::new(Code::Fp32OnTensorCores, message)
        .maybe_help(joined(better.into_iter().map(|(_, text)| Some(text))));
    diagnostic.places = layers.into_iter().map(|(place, _)| place).collect();
    Some(diagnostic)
}

/// The step in a precision, ms, and what it changes, where it gains enough.
fn priced(cx: &LintCx<'_>, precision: Compute) -> Option<(f64, String)> {
    let estimate = cx.in_precision(precision)?;
    let (step, now) = (step_ms(&estimate), step_ms(cx.estimate));
    let gain = now / step;
    if gain < GAIN {
        return None;
    }
    let (after, before) = (estimate.memory.peak(), cx.estimate.memory.peak());
    let memory = if after == before { String::new() } else { format!(" and {}", say::bytes(after)) };
    let text = format!(
        "--precision {} is predicted to take {} a {} ({}){memory}",
        precision.name(),
        say::ms(step),
        cx.run(),
        say::times(gain)
    );
    Some((step, text))
}
