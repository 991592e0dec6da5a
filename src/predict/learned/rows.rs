//! Features of work that memory bounds: elementwise chains, rows that are normalised or reduced, pooling, look-ups.

use super::rates::Rates;
use super::row::Row;
use crate::ops::work::Family;
use crate::runtime::Kernel;

/// The function of an elementwise kernel as a number, from cheap to dear; 0 for others.
fn function_code(family: &Family) -> f64 {
    match family {
        Family::Elementwise { function, .. } => f64::from(*function as u8),
        _ => 0.0,
    }
}

/// The shortest kernel, ms.
const SHORTEST_MS: f64 = 2e-3;

/// Adds the features of such a kernel; its physical time, ms.
pub(super) fn describe(row: &mut Row, kernel: &Kernel, rates: &Rates) -> f64 {
    let (rows, cols, window) = match kernel.family {
        Family::Softmax { rows, cols }
        | Family::LayerNorm { rows, cols }
        | Family::Reduce { rows, cols }
        | Family::Embedding { rows, cols, .. } => (rows, cols, 1),
        Family::BatchNorm { rows, channels } => (channels, rows, 1),
        Family::Pool { elements, window, .. } => (elements, 1, window),
        Family::Elementwise { elements, .. } | Family::Copy { elements } => (elements, 1, 1),
        _ => (1, 1, 1),
    };
    let elements = rows as f64 * cols as f64;
    let bytes = kernel.bytes();
    let memory = bytes / rates.memory;
    let missed = (1.0 - 0.5 * rates.cache_bytes / bytes.max(1.0)).clamp(0.0, 1.0);
    let stream = (memory * missed).max(bytes / rates.cache);
    let arithmetic = kernel.flops / rates.plain;
    // A block has a thousand threads, and a multiprocessor two blocks.
    let waves = elements / (2_048.0 * rates.sms);
    let base = SHORTEST_MS + libm::sqrt(stream * stream + arithmetic * arithmetic) / waves.clamp(0.25, 1.0);
    row.log("memory/base", memory / base);
    row.log("arithmetic/base", arithmetic / base);
    row.log("floor/base", SHORTEST_MS / base);
    row.log("bytes/cache", bytes / rates.cache_bytes);
    row.log("waves", waves);
    row.add("last-wave", if waves > 64.0 { 1.0 } else { waves.ceil() / waves.max(1e-9) });
    row.log("elements", elements);
    row.log("rows", rows as f64);
    row.log("cols", cols as f64);
    row.log("rows/sms", rows as f64 / rates.sms);
    row.add("cols-over-4", (cols % 4) as f64);
    row.alignment("cols-multiple", cols);
    row.alignment("rows-multiple", rows);
    let padded = (cols.max(1)).next_power_of_two() as f64 / cols.max(1) as f64;
    row.add("cols-padding", padded);
    row.log("read-each", kernel.bytes_read / elements.max(1.0));
    row.log("written-each", kernel.bytes_written / elements.max(1.0));
    row.add("function", function_code(&kernel.family));
    row.log("window", window as f64);
    base
}
