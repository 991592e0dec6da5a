//! `precision-not-supported`: a precision was chosen that the device has no arithmetic for, or that nobody trains in.

use super::{LintCx, joined, say, step_ms};
use crate::device::Precision;
use crate::diagnostics::{Code, Diagnostic};
use crate::target::Compute;

pub(super) fn check(cx: &LintCx<'_>) -> Option<Diagnostic> {
    let precision = cx.target.precision;
    let trains_in_int8 = cx.trains() && precision == Compute::Int8;
    let message = if trains_in_int8 {
        let held = if cx.is_assumed("precision") { "the file holds int8, and " } else { "" };
        format!("{held}no framework trains in int8: gradients need more than 8 bits")
    } else {
        without_units(cx)?
    };
    let mut found = Diagnostic::new(Code::PrecisionNotSupported, message);
    if trains_in_int8 {
        found = found.note("priced as if the products of both passes ran in int8, with weights of 8 bits");
    }
    let instead = if cx.trains() { Compute::Amp } else { Compute::Fp16 };
    let other = cx.in_precision(instead).map(|estimate| {
        let (after, before) = (say::ms(step_ms(&estimate)), say::ms(step_ms(cx.estimate)));
        format!("--precision {} is predicted to take {after} a {} instead of {before}", instead.name(), cx.run())
    });
    let serve = trains_in_int8.then(|| "--mode infer prices what int8 is for".to_owned());
    found.help = joined([serve, other]);
    Some(found)
}

/// What a device does that has no arithmetic of the precision. Of 16 bits `slow-half-precision` speaks.
fn without_units(cx: &LintCx<'_>) -> Option<String> {
    let (device, precision) = (&cx.target.device, cx.target.precision);
    let product = precision.product();
    let spoken_of_here = matches!(precision, Compute::Tf32 | Compute::Fp8 | Compute::Int8);
    let has_units = device.tensor.of(product).is_some() || device.plain.of(product).is_some();
    if !spoken_of_here || has_units || cx.device_is_assumed() {
        return None;
    }
    let rate = say::number(device.plain_tflops(Precision::Fp32));
    Some(format!(
        "the {} has no arithmetic in {}: its products are priced in fp32 at {rate} TFLOPS, with tensors of the size of {}",
        cx.device(),
        product.name(),
        precision.name()
    ))
}
