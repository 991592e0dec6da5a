//! `slow-half-precision`: 16 bits were chosen on a card that has no faster units for them.

use super::{LintCx, say, step_ms, upper_end};
use crate::device::Precision;
use crate::diagnostics::{Code, Diagnostic, Level};
use crate::target::Compute;

/// A step that gains more than this from 16 bits pays in spite of slow products, and fp16 instead of bf16 must gain it.
const GAIN: f64 = 1.1;

pub(super) fn check(cx: &LintCx<'_>) -> Option<Diagnostic> {
    let (target, device) = (cx.target, &cx.target.device);
    let halved = matches!(target.precision, Compute::Fp16 | Compute::Bf16 | Compute::Amp);
    let product = target.precision.product();
    let (rate, fp32) = (device.matrix_tflops(product), device.matrix_tflops(Precision::Fp32));
    let has_products = cx.layers().any(|(_, layer)| layer.product_flops > 0.0);
    if !halved || rate > fp32 || !has_products {
        return None;
    }
    // bf16 has no units before Ampere, where fp16 has.
    let fp16_is_faster = product == Precision::Bf16 && device.matrix_tflops(Precision::Fp16) > 1.5 * fp32;
    let instead = match (fp16_is_faster, cx.trains()) {
        (true, true) => Compute::Amp,
        (true, false) => Compute::Fp16,
        (false, _) => Compute::Fp32,
    };
    let estimate = cx.in_precision(instead)?;
    let (step, now) = (step_ms(&estimate), step_ms(cx.estimate));
    let most = if fp16_is_faster { now / GAIN } else { now * GAIN };
    if step > most {
        return None;
    }
    let name = product.name();
    let rates = if rate < fp32 {
        format!("has {} TFLOPS for {name} and {} for fp32", say::number(rate), say::number(fp32))
    } else {
        format!("has no units for {name} beside those for fp32, {} TFLOPS", say::number(fp32))
    };
    let message = format!("the {} {rates}: --precision {} does not pay", cx.device(), target.precision.name());
    let memory = match (upper_end(&estimate), upper_end(cx.estimate)) {
        (after, before) if after == before => String::new(),
        _ => {
            let (after, before) = (estimate.memory.peak(), cx.estimate.memory.peak());
            format!(", {} instead of {}", say::bytes(after), say::bytes(before))
        }
    };
    let help = format!(
        "--precision {} is predicted to take {} a {} instead of {}{memory}",
        instead.name(),
        say::ms(step),
        cx.run(),
        say::ms(now)
    );
    // Where the host sets the pace, nothing is lost either.
    let level = if step < 0.95 * now { Level::Warning } else { Level::Note };
    Some(Diagnostic::new(Code::SlowHalfPrecision, message).level(level).help(help))
}
