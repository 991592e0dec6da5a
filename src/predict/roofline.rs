//! The roofline: what a kernel takes by arithmetic and memory traffic alone, with what every launch costs. Its shares of
//! the peak are round numbers of a kind that holds for libraries in general, one for all cards; they were chosen by hand
//! with whole networks in view (`docs/accuracy/baseline.md`), none is fitted to a card, a network or a layer. Its interval
//! is as wide as that is rough.

use super::{Bound, PredictorId, Price};
use crate::device::{Device, Precision};
use crate::ops::work::{Convolution, Family, product};
use crate::report::Interval;
use crate::runtime::{Kernel, Pass};

/// Id of this predictor in reports.
pub const MODEL: &str = "roofline";

/// Share of the peak that large matrix products reach at the sustained clock on ordinary units.
const PLAIN_PRODUCT_PEAK: f64 = 0.95;

/// The same on tensor cores.
const TENSOR_PRODUCT_PEAK: f64 = 0.85;

/// Share of the data sheet's bandwidth that a copy of large tensors reaches.
const COPY_PEAK: f64 = 0.82;

/// How much faster the last-level cache is than memory, where all operands fit in half of it.
const CACHE_GAIN: f64 = 2.0;

/// The shortest kernel, µs: start, one trip to memory, end.
const SHORTEST_US: f64 = 2.5;

/// Ends of the interval as multiples of the middle.
pub(super) const SPREAD: [f64; 2] = [0.6, 1.7];

/// Time of one launch on a device.
#[must_use]
pub fn price(kernel: &Kernel, device: &Device) -> Price {
    let arithmetic = arithmetic_ms(kernel, device);
    let traffic = traffic_ms(kernel, device);
    let shortest = SHORTEST_US / 1e3;
    let (time, bound) = if shortest >= arithmetic.max(traffic) {
        (shortest, Bound::Launch)
    } else if arithmetic >= traffic {
        (arithmetic, Bound::Compute)
    } else {
        (traffic, Bound::Memory)
    };
    // Start and end do not overlap with the work.
    let time = time + shortest / 2.0;
    let [low, high] = SPREAD;
    let time_ms = Interval { p10: time * low, p50: time, p90: time * high };
    Price { time_ms, bound, model: PredictorId::Roofline, in_domain: None, outside: None }
}

/// The least that the memory system needs, ms.
fn traffic_ms(kernel: &Kernel, device: &Device) -> f64 {
    let bytes = kernel.bytes();
    let reached = match kernel.family {
        // Rows that are picked from anywhere.
        Family::Embedding { .. } if kernel.pass != Pass::Forward => 0.4,
        Family::Embedding { .. } => 0.7,
        // Neighbours share what they read, in a cache that is not theirs alone.
        Family::Pool { .. } => 0.6,
        // Each channel alone: windows are read again and again, and the gradient of a filter is a sum over the batch.
        Family::Convolution(convolution) if convolution.is_depthwise() => match kernel.pass {
            Pass::Forward => 0.4,
            Pass::BackwardWeight => 0.15,
            _ => 0.3,
        },
        Family::Sort { .. } => 0.1,
        _ => COPY_PEAK,
    };
    let cached = bytes < device.memory.l2_mib * 1_048_576.0 / 2.0;
    let gain = if cached { CACHE_GAIN } else { 1.0 };
    bytes / (device.memory.gb_s * 1e6 * reached * gain)
}

/// The least that arithmetic needs, ms.
fn arithmetic_ms(kernel: &Kernel, device: &Device) -> f64 {
    let clock = device.board.sustained_share();
    let plain = plain_rate(kernel.precision, device) * clock;
    let rate = match kernel.family {
        Family::Convolution(convolution) => return convolution_ms(kernel, &convolution, device),
        Family::Product { batch, m, n, k } => {
            return product_ms(kernel, kernel.flops, [batch, m, n, k], device);
        }
        Family::Attention { queries, keys, head_dim, causal, .. } => {
            // Blocks of 64 queries and keys; softmax between the products takes the other half of the time.
            let filled = |size: u64, block: u64| size as f64 / (size.div_ceil(block) * block).max(1) as f64;
            let filled = filled(queries, 64) * filled(keys, 64) * filled(head_dim, 32);
            let square = if causal { 0.55 } else { 1.0 };
            matrix_rate(kernel.precision, device) * 0.5 * filled / square
        }
        Family::Recurrent { batch, steps, hidden, gates, directions, .. } => {
            // Steps wait for each other: each is a product of its own, and at least a launch.
            let each = kernel.flops / steps.max(1) as f64;
            let one = product_ms(kernel, each, [1, batch, gates * hidden, hidden], device);
            let launch = SHORTEST_US / 1e3;
            return one.max(launch) * steps as f64 * if directions > 1 { 1.3 } else { 1.0 };
        }
        // Special functions run at a quarter of the rate; formulas count each as one operation.
        _ => plain * 0.25,
    };
    if rate > 0.0 { kernel.flops / (rate * 1e9) } else { 0.0 }
}

/// Peak of arithmetic beside products, TFLOPS: libraries compute in fp32 where 16 bits have no units of their own.
fn plain_rate(precision: Precision, device: &Device) -> f64 {
    let fp32 = device.plain_tflops(Precision::Fp32);
    match precision {
        Precision::Fp64 => device.plain_tflops(precision),
        _ => device.plain_tflops(precision).max(fp32),
    }
}

/// Peak of products, TFLOPS at the sustained clock. Where 16 bits run slower than 32, libraries convert and compute in
/// fp32, at a small loss.
fn matrix_rate(precision: Precision, device: &Device) -> f64 {
    let fp32 = if precision == Precision::Fp64 { 0.0 } else { device.plain_tflops(Precision::Fp32) };
    let own = device.matrix_tflops(precision);
    device.board.sustained_share() * if own >= fp32 { own } else { fp32 * 0.95 }
}

/// Rows or columns up to which a product is one with vectors.
const VECTOR_ROWS: u64 = 4;

/// A matrix product by tiles: the device works in waves of one tile a multiprocessor, and the last wave is not full.
fn product_ms(kernel: &Kernel, flops: f64, [batch, m, n, k]: [u64; 4], device: &Device) -> f64 {
    let precision = kernel.precision;
    if flops <= 0.0 {
        return 0.0;
    }
    let tensor = uses_tensor_cores(precision, device);
    let peak = matrix_rate(precision, device) * if tensor { TENSOR_PRODUCT_PEAK } else { PLAIN_PRODUCT_PEAK };
    // Rows that lie in memory one after the other: the samples are no such size.
    let in_memory = if kernel.pass == Pass::BackwardWeight { [m, n] } else { [n, k] };
    let peak = peak * alignment(&in_memory, precision, tensor, device);
    let tiled = flops / (peak * 1e9 * wave_use([batch, m, n, k], device)).max(f64::MIN_POSITIVE);
    if m.min(n) > VECTOR_ROWS {
        return tiled;
    }
    // A product with a vector or a few: dot products on ordinary units, no tile to fill.
    tiled.min(flops / (plain_rate(precision, device) * device.board.sustained_share() * 0.5 * 1e9))
}

/// Whether products of a precision run on tensor or matrix cores.
fn uses_tensor_cores(precision: Precision, device: &Device) -> bool {
    device.tensor.of(precision).is_some_and(|rate| rate >= device.plain_tflops(precision))
}

/// Edges of tiles with the share of the peak that a tile of this size can reach.
const TILES: [(f64, f64, f64); 5] =
    [(256.0, 128.0, 1.0), (128.0, 128.0, 0.95), (128.0, 64.0, 0.85), (64.0, 64.0, 0.7), (32.0, 32.0, 0.4)];

/// Share of the device that a product keeps busy: the best over tile sizes, inner sizes split where tiles are few.
fn wave_use([batch, m, n, k]: [u64; 4], device: &Device) -> f64 {
    let [batch, m, n, k] = [batch, m, n, k].map(|size| size.max(1) as f64);
    let sms = f64::from(device.board.sms.max(1));
    let mut best: f64 = 0.0;
    for (rows, cols, share) in TILES {
        for (rows, cols) in [(rows, cols), (cols, rows)] {
            let filled = (m / ((m / rows).ceil() * rows)) * (n / ((n / cols).ceil() * cols));
            let mut tiles = batch * (m / rows).ceil() * (n / cols).ceil();
            // Splitting the inner size costs a walk over the results.
            let splits = if tiles < sms { (sms / tiles).floor().min((k / 256.0).floor()).max(1.0) } else { 1.0 };
            tiles *= splits;
            let waves = (tiles / sms).ceil();
            let busy = tiles / (waves * sms);
            let split_cost = if splits > 1.0 { 0.8 } else { 1.0 };
            best = best.max(filled * busy * share * split_cost);
        }
    }
    // A deep pipeline fills slowly.
    (best * (k / (k + 64.0))).max(1e-4)
}

/// What sizes that are no multiple of the tensor cores' cost. Volta's fall back to ordinary units.
fn alignment(sizes: &[u64], precision: Precision, tensor: bool, device: &Device) -> f64 {
    if !tensor {
        return 1.0;
    }
    let multiple = required_multiple(precision);
    if sizes.iter().all(|size| size % multiple == 0) {
        return 1.0;
    }
    let plain = device.plain_tflops(precision) / device.matrix_tflops(precision);
    match &*device.board.architecture {
        "volta" | "turing" => plain.max(0.25),
        _ => 0.6,
    }
}

/// The multiple that dims of a product should be of for tensor cores: 16 bytes.
#[must_use]
pub fn required_multiple(precision: Precision) -> u64 {
    match precision {
        Precision::Fp64 => 2,
        Precision::Fp32 | Precision::Tf32 => 4,
        Precision::Fp16 | Precision::Bf16 => 8,
        Precision::Fp8 | Precision::Int8 => 16,
    }
}

/// A convolution by its cheapest algorithm: direct (as an implicit matrix product), Winograd for 3 × 3 with stride 1,
/// FFT for larger windows with stride 1.
fn convolution_ms(kernel: &Kernel, convolution: &Convolution, device: &Device) -> f64 {
    let flops = kernel.flops;
    if flops <= 0.0 {
        return 0.0;
    }
    let per_group_in = convolution.in_channels / convolution.groups.max(1);
    let per_group_out = convolution.out_channels / convolution.groups.max(1);
    let positions = convolution.batch.saturating_mul(product(&convolution.output));
    let taps = product(&convolution.kernel);
    if convolution.is_depthwise() || per_group_in < 4 && convolution.groups > 1 {
        // No library has a matrix product of one row for it; ordinary units, a third of them busy.
        let weight = if kernel.pass == Pass::BackwardWeight { 0.5 } else { 1.0 };
        let rate = plain_rate(kernel.precision, device) * device.board.sustained_share();
        return flops / (rate * 0.33 * weight * 1e9);
    }
    let groups = convolution.groups.max(1);
    let shape = match kernel.pass {
        Pass::BackwardWeight => [groups, per_group_out, per_group_in * taps, positions],
        Pass::BackwardData => [groups, positions, per_group_in, per_group_out * taps],
        _ => [groups, positions, per_group_out, per_group_in * taps],
    };
    // Windows are gathered on the way.
    let direct = product_ms(kernel, flops, shape, device) / 0.85;
    direct.min(cheaper_ms(kernel, convolution, device, direct))
}

/// Winograd or FFT where they apply, else the same as direct.
fn cheaper_ms(kernel: &Kernel, convolution: &Convolution, device: &Device, direct: f64) -> f64 {
    let [depth, height, width] = convolution.kernel;
    let unit = convolution.stride == [1; 3] && convolution.dilation == [1; 3];
    let planar = depth == 1 && convolution.groups <= 1 && unit && !uses_tensor_cores(kernel.precision, device);
    let channels = convolution.in_channels.min(convolution.out_channels);
    if !planar || channels < 16 {
        return direct;
    }
    let saved = match (height, width) {
        // F(4×4, 3×3) has 4 times fewer products, F(2×2, 5×5) 2.8; transforms cost the better part of what that saves.
        (3, 3) => 2.2,
        (5, 5) => 2.0,
        (7.., 7..) => 2.5,
        _ => 1.0,
    };
    direct / saved
}
