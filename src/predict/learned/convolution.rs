//! Features of convolutions: what each algorithm that libraries have would take.

use super::rates::Rates;
use super::row::Row;
use super::tiles::{Plan, Shape};
use crate::ops::work::{Convolution, product};
use crate::runtime::{Kernel, Pass};

/// Times of the algorithms, ms; infinite where one does not apply.
#[derive(Clone, Copy, Debug)]
struct Algorithms {
    direct: Plan,
    /// Winograd with tiles of 2 × 2.
    small_tiles: f64,
    /// Winograd with tiles of 4 × 4.
    large_tiles: f64,
    /// FFT of the whole image.
    fft: f64,
    /// FFT of tiles of 32 × 32.
    tiled_fft: f64,
}

/// What every kernel needs from its start to its end, ms at 2 GHz.
const SHORTEST_MS: f64 = 2.5e-3;

/// Adds the features of a convolution; its physical time, ms.
pub(super) fn describe(row: &mut Row, kernel: &Kernel, convolution: &Convolution, rates: &Rates) -> f64 {
    let c = convolution;
    let rates = &rates.of_convolutions();
    let width = bytes_of(kernel);
    let bytes = kernel.bytes();
    let memory = bytes / rates.memory;
    let algorithms = algorithms(kernel, c, rates, width);
    let plan = algorithms.direct;
    let cheapest = [algorithms.small_tiles, algorithms.large_tiles, algorithms.fft, algorithms.tiled_fft]
        .into_iter()
        .fold(plan.total, f64::min);
    let flop_time = kernel.flops / rates.product;
    let depthwise = c.is_depthwise();
    let ordinary = kernel.flops / rates.plain * 3.0 + memory * 2.0;
    let base = SHORTEST_MS * rates.clock + if depthwise { ordinary } else { cheapest.max(memory) };
    let ratio = |time: f64| if time.is_finite() { time / base } else { 64.0 };
    row.log("direct/base", ratio(plan.total));
    row.log("winograd2/base", ratio(algorithms.small_tiles));
    row.log("winograd4/base", ratio(algorithms.large_tiles));
    row.log("fft/base", ratio(algorithms.fft));
    row.log("tiled-fft/base", ratio(algorithms.tiled_fft));
    let plain = plan.total.min(algorithms.small_tiles).min(algorithms.large_tiles);
    let fourier = algorithms.fft.min(algorithms.tiled_fft);
    row.log("plain/fft", if fourier.is_finite() { plain / fourier } else { 2e-9 });
    row.log("flops/base", flop_time / base);
    row.log("memory/base", memory / base);
    row.log("intensity", flop_time / memory.max(1e-9));
    row.log("cache/base", plan.cache / base);
    row.log("waves", plan.waves);
    row.add("last-wave", plan.waves.ceil() / plan.waves.max(1e-9));
    row.log("tile-rows", plan.rows);
    row.log("tile-cols", plan.cols);
    row.log("splits", plan.splits);
    row.log("bytes/cache", bytes / rates.cache_bytes);
    let inputs = c.in_channels as f64 * product(&c.input) as f64 * c.batch as f64;
    let outputs = c.out_channels as f64 * product(&c.output) as f64 * c.batch as f64;
    let taps = product(&c.kernel);
    let each = c.in_channels / c.groups.max(1);
    let weights = taps as f64 * c.out_channels as f64 * each as f64;
    row.log("input/cache", inputs * width / rates.cache_bytes);
    row.log("weights/cache", weights * width / rates.cache_bytes);
    row.log("inputs", inputs);
    row.log("outputs", outputs);
    row.log("weights", weights);
    row.log("positions", c.batch as f64 * product(&c.output) as f64);
    row.log("samples", c.batch as f64);
    row.log("channels", c.in_channels as f64);
    row.log("filters", c.out_channels as f64);
    row.log("depth", taps as f64 * each as f64);
    let [_, height, width_of_image] = c.input;
    row.log("height", height as f64);
    row.log("width", width_of_image as f64);
    row.log("output-size", product(&c.output) as f64);
    row.add("kernel-height", c.kernel.get(1).copied().unwrap_or(1) as f64);
    row.add("kernel-width", c.kernel.get(2).copied().unwrap_or(1) as f64);
    row.log("kernel-depth", c.kernel.first().copied().unwrap_or(1) as f64);
    row.add("stride", c.stride.get(2).copied().unwrap_or(1) as f64);
    row.add("stride-height", c.stride.get(1).copied().unwrap_or(1) as f64);
    row.add("dilation", c.dilation.get(2).copied().unwrap_or(1) as f64);
    row.log("groups", c.groups as f64);
    row.add("padding", padding(c, 2));
    row.flag("uneven-padding", padding(c, 1).rem_euclid(2.0) > 0.5 || padding(c, 2).rem_euclid(2.0) > 0.5);
    row.alignment("channels-multiple", each);
    row.alignment("filters-multiple", c.out_channels / c.groups.max(1));
    row.alignment("positions-multiple", product(&c.output).saturating_mul(c.batch));
    let own = match kernel.pass {
        Pass::BackwardData => outputs + weights,
        Pass::BackwardWeight => inputs + outputs,
        _ => inputs + weights,
    };
    // What is added to the result on the way is read beside the operands.
    row.log("read/operands", kernel.bytes_read / (own * width).max(1.0));
    row.flag("depthwise", depthwise);
    row.flag("transposed", c.transposed);
    base
}

/// Pixels that are added along an axis, both ends together.
fn padding(c: &Convolution, axis: usize) -> f64 {
    let at = |sizes: &[u64; 3]| sizes.get(axis).copied().unwrap_or(1) as f64;
    let covered = (at(&c.output) - 1.0) * at(&c.stride) + (at(&c.kernel) - 1.0) * at(&c.dilation) + 1.0;
    (covered - at(&c.input)).max(0.0)
}

fn bytes_of(kernel: &Kernel) -> f64 {
    super::element_bytes(kernel.precision)
}

fn algorithms(kernel: &Kernel, c: &Convolution, rates: &Rates, width: f64) -> Algorithms {
    let groups = c.groups.max(1);
    let taps = product(&c.kernel) as f64;
    let [each_in, each_out] = [c.in_channels / groups, c.out_channels / groups].map(|channels| channels as f64);
    let positions = c.batch as f64 * product(if c.transposed { &c.input } else { &c.output }) as f64;
    let [m, n, k] = match kernel.pass {
        Pass::BackwardWeight => [each_out, each_in * taps, positions],
        Pass::BackwardData => [positions, each_in, each_out * taps],
        _ => [positions, each_out, each_in * taps],
    };
    let shape = Shape { batch: groups as f64, m, n, k, read: width, written: width, bytes: kernel.bytes() };
    let direct = shape.plan(rates);
    let unit = c.stride == [1; 3] && c.dilation == [1; 3] && groups == 1;
    let [depth, height, width_of_window] = c.kernel;
    let planar = unit && depth == 1;
    let none = f64::INFINITY;
    let mut found = Algorithms { direct, small_tiles: none, large_tiles: none, fft: none, tiled_fft: none };
    if planar && height == 3 && width_of_window == 3 {
        found.small_tiles = winograd(kernel, c, rates, 2.0);
        found.large_tiles = winograd(kernel, c, rates, 4.0);
    }
    if planar && taps > 1.0 {
        found.fft = fft(kernel, c, rates, None);
        found.tiled_fft = fft(kernel, c, rates, Some(32.0));
    }
    found
}

/// Winograd with square tiles of an edge: one product for each element of a transformed tile.
fn winograd(kernel: &Kernel, c: &Convolution, rates: &Rates, edge: f64) -> f64 {
    let [_, height, width] = c.output.map(|size| (size as f64 / edge).ceil());
    let tiles = c.batch as f64 * height * width;
    let points = (edge + 2.0) * (edge + 2.0);
    transformed(kernel, c, rates, points, tiles, 1.0)
}

/// FFT of images, or of tiles of an edge: one complex product for each frequency.
fn fft(kernel: &Kernel, c: &Convolution, rates: &Rates, tile: Option<f64>) -> f64 {
    let [_, out_height, out_width] = c.output.map(|size| size as f64);
    let [_, height, width] = c.kernel.map(|size| size as f64);
    let (edges, tiles) = match tile {
        Some(edge) => {
            let inner = |kernel: f64| (edge - kernel + 1.0).max(1.0);
            ([edge, edge], (out_height / inner(height)).ceil() * (out_width / inner(width)).ceil())
        }
        None => {
            let edge = |output: f64, kernel: f64| libm::exp2(libm::log2((output + kernel - 1.0).max(1.0)).ceil());
            ([edge(out_height, height), edge(out_width, width)], 1.0)
        }
    };
    let frequencies = edges[0] * (edges[1] / 2.0 + 1.0);
    transformed(kernel, c, rates, frequencies, c.batch as f64 * tiles, 2.0)
}

/// Products over transformed tiles, with the transformations as memory traffic. Complex numbers have two parts each.
fn transformed(kernel: &Kernel, c: &Convolution, rates: &Rates, points: f64, tiles: f64, parts: f64) -> f64 {
    let [inputs, outputs] = [c.in_channels as f64, c.out_channels as f64];
    let width = bytes_of(kernel);
    let [m, n, k] = match kernel.pass {
        Pass::BackwardWeight => [outputs, inputs, tiles],
        Pass::BackwardData => [tiles, inputs, outputs],
        _ => [tiles, outputs, inputs],
    };
    let shape = Shape { batch: points, m: m * parts, n, k: k * parts, read: width, written: width, bytes: 0.0 };
    let plan = Shape { bytes: shape.operand_bytes(), ..shape }.plan(rates);
    let moved = points * parts * (tiles * inputs + tiles * outputs + inputs * outputs) * width + kernel.bytes();
    plan.total + moved / rates.memory + 3.0 * SHORTEST_MS * rates.clock
}
