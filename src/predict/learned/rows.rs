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

/// The shortest kernel, ms at 2 GHz.
const SHORTEST_MS: f64 = 2.8e-3;

/// Normalisations walk over a row more than once. What the rows that are under way together need of the last-level cache,
/// and how often memory is read again where they do not stay in it.
fn again(family: &Family, width: f64, rates: &Rates) -> (f64, f64) {
    let ramp = |from: f64, length: f64, value: f64| ((value - from) / length).clamp(0.0, 1.0);
    let kept = |rows: u64, at_once: f64, cols: u64| {
        (rows as f64).min(at_once * rates.sms) * cols as f64 * width / rates.cache_bytes
    };
    match *family {
        Family::LayerNorm { rows, cols } => {
            let kept = kept(rows, 16.0, cols);
            (kept, 0.5 * ramp(0.4, 0.5, kept))
        }
        // Short rows stay in registers.
        Family::Softmax { rows, cols } if cols > 1_024 => {
            let kept = kept(rows, (8_192.0 / cols as f64).max(2.0), cols);
            (kept, ramp(0.15, 0.35, kept))
        }
        _ => (0.0, 0.0),
    }
}

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
    let missed = (bytes / rates.cache_bytes - 0.5).clamp(0.0, 1.0);
    let (kept, again) = again(&kernel.family, super::element_bytes(kernel.precision), rates);
    let stream = memory * (1.0 + again * missed) * missed + bytes / rates.cache * (1.0 - missed);
    let arithmetic = kernel.flops / rates.plain;
    // A block has a thousand threads, and a multiprocessor two blocks.
    let waves = elements / (2_048.0 * rates.sms);
    let floor = SHORTEST_MS * rates.clock;
    let base = floor + libm::sqrt(stream * stream + arithmetic * arithmetic);
    row.log("memory/base", memory / base);
    row.log("arithmetic/base", arithmetic / base);
    row.log("floor/base", floor / base);
    row.add("missed", missed);
    row.add("again", again);
    row.log("kept/cache", kept);
    row.log("bytes/cache", bytes / rates.cache_bytes);
    row.log("waves", waves);
    row.add("last-wave", if waves > 64.0 { 1.0 } else { waves.ceil() / waves.max(1e-9) });
    row.log("elements", elements);
    row.log("bytes", bytes);
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
