//! Plots of a family's predictions: predicted against measured, error by time, error by device. Plain SVG, the same bytes
//! for the same numbers.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::metrics::{Errors, Pair};

/// Edge of a panel and the room for its texts, in pixels.
const EDGE: f64 = 260.0;
const ROOM: f64 = 56.0;

/// Cells of the density along an edge.
const CELLS: usize = 52;

/// Draws a family: pairs by device.
pub(super) fn family(name: &str, by_device: &BTreeMap<String, Vec<Pair>>) -> String {
    let mut svg = String::new();
    // Writing to a text does not fail.
    let _ = draw(&mut svg, name, by_device);
    svg
}

fn draw(svg: &mut String, name: &str, by_device: &BTreeMap<String, Vec<Pair>>) -> fmt::Result {
    let pairs: Vec<&Pair> = by_device.values().flatten().collect();
    let rows = by_device.len() as f64;
    let width = 3.0 * (EDGE + ROOM) + 120.0;
    let height = (EDGE + ROOM).max(rows * 13.0 + ROOM) + 20.0;
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"10\">"
    )?;
    writeln!(svg, "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>")?;
    writeln!(svg, "<text x=\"{ROOM}\" y=\"14\" font-size=\"12\">{name}: {} rows</text>", pairs.len())?;
    let times = pairs.iter().map(|pair| pair.measured);
    let low = times.clone().fold(f64::INFINITY, f64::min).max(1e-6).log10().floor();
    let high = times.fold(0.0, f64::max).max(1e-5).log10().ceil().max(low + 1.0);
    density(svg, &pairs, [low, high])?;
    by_time(svg, &pairs, [low, high])?;
    devices(svg, by_device)?;
    writeln!(svg, "</svg>")
}

/// Predicted against measured times, both in ms on logarithmic axes; darker where there are more rows.
fn density(svg: &mut String, pairs: &[&Pair], [low, high]: [f64; 2]) -> fmt::Result {
    let cell = |ms: f64| {
        let at = (ms.max(1e-9).log10() - low) / (high - low) * CELLS as f64;
        at.clamp(0.0, CELLS as f64 - 1.0) as usize
    };
    let mut counts: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for pair in pairs {
        *counts.entry((cell(pair.measured), cell(pair.predicted))).or_default() += 1;
    }
    let most = counts.values().copied().max().unwrap_or(1) as f64;
    let step = EDGE / CELLS as f64;
    frame(svg, 0.0, "measured, ms", "predicted, ms", [low, high])?;
    for ((x, y), count) in counts {
        let shade = 0.15 + 0.85 * (count as f64).ln_1p() / most.ln_1p();
        let (x, y) = (ROOM + x as f64 * step, 24.0 + EDGE - (y + 1) as f64 * step);
        writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{step:.1}\" height=\"{step:.1}\" fill=\"#1f5fa8\" \
             fill-opacity=\"{shade:.2}\"/>"
        )?;
    }
    let (right, bottom) = (ROOM + EDGE, 24.0 + EDGE);
    writeln!(
        svg,
        "<line x1=\"{ROOM}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"24\" stroke=\"#888\" stroke-dasharray=\"3\"/>"
    )
}

/// Median and 90th percentile of the absolute error by measured time.
fn by_time(svg: &mut String, pairs: &[&Pair], [low, high]: [f64; 2]) -> fmt::Result {
    let left = EDGE + ROOM;
    frame(svg, left, "measured, ms", "error, % (median, p90)", [low, high])?;
    const BINS: usize = 12;
    let mut bins: Vec<Vec<f64>> = vec![Vec::new(); BINS];
    for pair in pairs {
        let at = (pair.measured.max(1e-9).log10() - low) / (high - low) * BINS as f64;
        if let Some(bin) = bins.get_mut(at.clamp(0.0, BINS as f64 - 1.0) as usize) {
            bin.push((pair.predicted / pair.measured - 1.0).abs());
        }
    }
    for (share, color) in [(0.5, "#1f5fa8"), (0.9, "#c0392b")] {
        let mut points = String::new();
        for (at, bin) in bins.iter_mut().enumerate().filter(|(_, bin)| bin.len() >= 5) {
            bin.sort_unstable_by(f64::total_cmp);
            let error = bin.get((bin.len() as f64 * share) as usize).copied().unwrap_or_default();
            let x = left + ROOM + (at as f64 + 0.5) * EDGE / BINS as f64;
            let y = 24.0 + EDGE - error.min(1.0) * EDGE;
            write!(points, "{x:.1},{y:.1} ")?;
        }
        writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\"/>",
            points.trim_end()
        )?;
    }
    for percent in [0, 25, 50, 75, 100] {
        let y = 24.0 + EDGE - f64::from(percent) / 100.0 * EDGE + 3.0;
        writeln!(svg, "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{percent}</text>", left + ROOM - 4.0)?;
    }
    Ok(())
}

/// The mean absolute error of each device as a bar.
fn devices(svg: &mut String, by_device: &BTreeMap<String, Vec<Pair>>) -> fmt::Result {
    let left = 2.0 * (EDGE + ROOM) + 130.0;
    writeln!(svg, "<text x=\"{left:.1}\" y=\"20\">mean error by device, %</text>")?;
    for (at, (device, pairs)) in by_device.iter().enumerate() {
        let Some(errors) = Errors::of(pairs) else { continue };
        let y = 36.0 + at as f64 * 13.0;
        let percent = errors.mape * 100.0;
        let length = errors.mape.min(1.0) * (EDGE - 40.0);
        writeln!(svg, "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{device}</text>", left - 4.0)?;
        writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"9\" fill=\"#1f5fa8\"/>",
            y - 8.0
        )?;
        writeln!(svg, "<text x=\"{:.1}\" y=\"{y:.1}\">{percent:.1} ({})</text>", left + length + 3.0, errors.n)?;
    }
    Ok(())
}

/// A panel's frame, its titles and the powers of ten along it.
fn frame(svg: &mut String, left: f64, across: &str, up: &str, [low, high]: [f64; 2]) -> fmt::Result {
    let x = left + ROOM;
    let bottom = 24.0 + EDGE;
    writeln!(svg, "<rect x=\"{x}\" y=\"24\" width=\"{EDGE}\" height=\"{EDGE}\" fill=\"none\" stroke=\"#444\"/>")?;
    writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{across}</text>",
        x + EDGE / 2.0,
        bottom + 30.0
    )?;
    let middle = 24.0 + EDGE / 2.0;
    writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 {:.1} {middle:.1})\">{up}</text>",
        x - 34.0,
        x - 34.0
    )?;
    let mut power = low;
    while power <= high {
        let at = (power - low) / (high - low) * EDGE;
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">1e{power:.0}</text>",
            x + at,
            bottom + 14.0
        )?;
        if up.starts_with("predicted") {
            writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">1e{power:.0}</text>",
                x - 4.0,
                bottom - at + 3.0
            )?;
        }
        power += 1.0;
    }
    Ok(())
}
