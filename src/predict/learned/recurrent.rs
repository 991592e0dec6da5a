//! Features of recurrent layers.

use super::rates::Rates;
use super::row::Row;
use super::tiles::Shape;
use crate::ops::work::Family;
use crate::runtime::Kernel;

/// The shortest step, ms at 2 GHz.
const SHORTEST_MS: f64 = 5e-3;

/// Adds the features of a recurrent layer; its physical time, ms.
pub(super) fn describe(row: &mut Row, kernel: &Kernel, rates: &Rates) -> Option<f64> {
    let Family::Recurrent { batch, steps, inputs, hidden, gates, directions } = kernel.family else { return None };
    let [batch, steps, inputs, hidden, gates, directions] =
        [batch, steps, inputs, hidden, gates, directions].map(|size| size.max(1) as f64);
    let width = super::element_bytes(kernel.precision);
    let shape = |m: f64, k: f64| {
        let shape = Shape { batch: 1.0, m, n: gates * hidden, k, read: width, written: width, bytes: 0.0 };
        Shape { bytes: shape.operand_bytes(), ..shape }
    };
    let step = shape(batch, hidden).plan(rates);
    let all = shape(batch * steps, hidden);
    let weights = gates * hidden * hidden * width;
    // A kernel that stays on the device keeps the weights in registers, where they fit.
    let kept = weights / (rates.sms * 256.0 * 1024.0);
    let base = (steps * directions) * (SHORTEST_MS * rates.clock + step.total);
    row.log("step/base", steps * step.total / base);
    row.log("flops/base", kernel.flops / rates.product / base);
    row.log("memory/base", kernel.bytes() / rates.memory / base);
    row.log("together/base", all.plan(rates).total / base);
    row.log("weights/registers", kept);
    row.log("weights/cache", weights / rates.cache_bytes);
    row.log("waves", step.waves);
    row.log("splits", step.splits);
    row.log("samples", batch);
    row.log("steps", steps);
    row.log("inputs", inputs);
    row.log("hidden", hidden);
    row.add("gates", gates);
    row.add("directions", directions);
    row.alignment("hidden-multiple", hidden as u64);
    row.alignment("samples-multiple", batch as u64);
    Some(base)
}
