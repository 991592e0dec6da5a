//! Features of matrix products.

use super::rates::Rates;
use super::row::Row;
use super::setting::{Setting, Stack};
use super::tiles::Shape;
use crate::device::Precision;
use crate::runtime::Kernel;

/// Adds the features of a product; its physical time, ms.
pub(super) fn describe(row: &mut Row, kernel: &Kernel, sizes: [u64; 4], rates: &Rates, setting: Setting) -> f64 {
    let [batch, m, n, k] = sizes.map(|size| size.max(1) as f64);
    let [_, whole_m, whole_n, whole_k] = sizes;
    let read = super::element_bytes(kernel.precision);
    let written = if kernel.precision == Precision::Fp8 { 2.0 } else { read };
    let shape = Shape { batch, m, n, k, read, written, bytes: 0.0 };
    let shape = Shape { bytes: shape.operand_bytes(), ..shape };
    let plan = shape.plan(rates);
    let floor = floor_ms(kernel.precision, setting.stack) * rates.clock;
    let base = floor + plan.total;
    let flop_time = shape.flops() / rates.product;
    let memory = shape.bytes / rates.memory;
    row.log("compute/base", plan.compute / base);
    row.log("memory/base", plan.memory / base);
    row.log("cache/base", plan.cache / base);
    row.log("split/base", plan.split_cost / base + 1e-4);
    row.log("floor/base", floor / base);
    row.log("flops/base", flop_time / base);
    row.log("intensity", flop_time / memory);
    row.log("waves", plan.waves);
    let tiles = batch * (m / plan.rows).ceil() * (n / plan.cols).ceil() * plan.splits;
    row.add("last-wave", plan.waves / (tiles / rates.sms).max(1e-9));
    let padded = (m / 128.0).ceil() * (n / 128.0).ceil() * 16_384.0;
    row.log("padding", padded / (m * n));
    row.log("tile-rows", plan.rows);
    row.log("tile-cols", plan.cols);
    row.log("splits", plan.splits);
    row.log("bytes/cache", shape.bytes / rates.cache_bytes);
    row.log("right/cache", batch * k * n * read / rates.cache_bytes);
    row.log("m", m);
    row.log("n", n);
    row.log("k", k);
    row.log("products", batch);
    row.log("left", m * k);
    row.log("right", k * n);
    row.log("result", m * n);
    row.log("operations", shape.flops());
    row.flag("left-transposed", setting.transposed[0]);
    row.flag("right-transposed", setting.transposed[1]);
    row.alignment("m-multiple", whole_m);
    row.alignment("n-multiple", whole_n);
    row.alignment("k-multiple", whole_k);
    row.add("m-over-8", (whole_m % 8) as f64);
    row.add("m-over-64", (whole_m % 64) as f64);
    row.add("m-over-128", (whole_m % 128) as f64);
    row.add("n-over-128", (whole_n % 128) as f64);
    row.flag("power-of-two-k", whole_k.is_power_of_two());
    row.flag("strides-collide", (whole_k as f64 * read) % 4096.0 < 0.5);
    // How full the device is with the two tiles that libraries like best.
    for (name, rows, cols) in
        [("fill-128x128", 128.0, 128.0), ("fill-256x128", 256.0, 128.0), ("fill-64x64", 64.0, 64.0)]
    {
        let tiles = batch * (m / rows).ceil() * (n / cols).ceil() / rates.sms;
        row.add(name, if tiles > 64.0 { 1.0 } else { tiles / tiles.ceil() });
    }
    base
}

/// The shortest product, ms at 2 GHz: 8-bit ones carry their scales along.
fn floor_ms(precision: Precision, stack: Stack) -> f64 {
    match (precision, stack) {
        (Precision::Fp8, Stack::TensorRtLlm) => 13.5e-3,
        (Precision::Fp8, _) => 7e-3,
        _ => 2.3e-3,
    }
}
