//! What no kernel beats, whatever a predictor says: its bytes through memory where nothing of them is cached, and the work
//! of its cheapest algorithm at the peak.

use crate::device::{Device, Precision};
use crate::ops::work::{Convolution, Family};
use crate::runtime::Kernel;

/// The least time of one launch, ms.
#[must_use]
pub fn floor_ms(kernel: &Kernel, device: &Device) -> f64 {
    traffic_ms(kernel, device).max(arithmetic_ms(kernel, device))
}

/// Bytes that the last-level cache cannot hold, at the bandwidth of the data sheet, or the one that was seen.
fn traffic_ms(kernel: &Kernel, device: &Device) -> f64 {
    let cached = device.memory.l2_mib * 1_048_576.0;
    let bandwidth = device.memory.gb_s.max(device.reached.copy_gb_s.unwrap_or_default());
    if bandwidth > 0.0 { (kernel.bytes() - cached).max(0.0) / (bandwidth * 1e6) } else { 0.0 }
}

/// Products of the cheapest algorithm at the peak, or at the rate that was seen. What else is computed has no exact count.
fn arithmetic_ms(kernel: &Kernel, device: &Device) -> f64 {
    let Some(saved) = saved(&kernel.family) else { return 0.0 };
    let peak = peak_tflops(kernel.precision, device);
    if peak > 0.0 { kernel.flops / saved / (peak * 1e9) } else { 0.0 }
}

/// How many times fewer operations than counted may do; `None` where what is computed has no exact count.
#[must_use]
pub fn saved(family: &Family) -> Option<f64> {
    match family {
        Family::Convolution(convolution) => Some(saved_by_windows(convolution)),
        Family::Product { .. } | Family::Recurrent { .. } => Some(1.0),
        // Half of the pairs may be hidden by a mask that counts do not know.
        Family::Attention { .. } => Some(2.0),
        _ => None,
    }
}

/// How many times fewer products than the direct algorithm the cheapest one needs. Winograd's F(4×4, 3×3) has 4 times fewer
/// and F(2×2, 5×5) 2.8; FFT has fewer for larger windows.
fn saved_by_windows(convolution: &Convolution) -> f64 {
    if convolution.stride != [1; 3] || convolution.dilation != [1; 3] {
        return 1.0;
    }
    match convolution.kernel.into_iter().max() {
        None | Some(0..=1) => 1.0,
        Some(2..=5) => 4.0,
        Some(_) => 16.0,
    }
}

/// The highest rate that a product may be computed at, TFLOPS: libraries take fp32 for fewer bits where the device has slow
/// units for them. Boards that hold more than the boost clock of their sheet are that much faster.
fn peak_tflops(precision: Precision, device: &Device) -> f64 {
    let instead = if precision == Precision::Fp64 { precision } else { Precision::Fp32 };
    let rates = [precision, instead].map(|precision| device.matrix_tflops(precision));
    let seen = device.reached.products.of(precision).unwrap_or_default();
    let clock = device.board.sustained_share().max(1.0);
    (rates.into_iter().fold(0.0, f64::max) * clock).max(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn winograd_may_save_only_where_windows_slide_by_one() {
        let square = |extent: u64, stride: u64| Convolution {
            batch: 1,
            in_channels: 64,
            out_channels: 64,
            input: [1, 56, 56],
            output: [1, 56, 56],
            kernel: [1, extent, extent],
            stride: [1, stride, stride],
            dilation: [1; 3],
            groups: 1,
            transposed: false,
            axes: 2,
        };
        let saved = |extent, stride| saved(&Family::Convolution(square(extent, stride)));
        assert_eq!([saved(1, 1), saved(3, 1), saved(3, 2), saved(7, 1)], [1.0, 4.0, 1.0, 16.0].map(Some));
    }
}
