//! `--features`: the kernels of the layers in the table, as the predictors that price them see them.

use std::fmt::Write;

use super::layers::hottest;
use super::summary::between;
use crate::render::text::{list, printable};
use crate::render::units::{duration, number};
use crate::render::{Ink, Style};
use crate::report::{KernelFeatures, Model};

/// The block; empty where nobody asked for it.
pub(super) fn block(model: &Model, top: usize, style: Style) -> String {
    let mut text = String::new();
    for layer in hottest(model, top) {
        for kernel in layer.features.iter().flatten() {
            text.push_str(&kernel_text(&printable(&layer.key), kernel, style));
        }
    }
    if text.is_empty() { text } else { format!("{}\n{text}", style.paint(Ink::Strong, "  features of kernels")) }
}

fn kernel_text(layer: &str, kernel: &KernelFeatures, style: Style) -> String {
    let KernelFeatures { pass, family, precision, model, outside, time_ms, values, .. } = kernel;
    let mut head = format!("  {layer}: {pass} {family} {precision}, ");
    let time = duration(time_ms.p50, style);
    // Writing to a string does not fail.
    let _ = write!(head, "{time} by {model}, 80 % {}", between(*time_ms, style));
    if let Some(outside) = outside {
        let _ = write!(head, ", outside by {outside}");
    }
    let values: Vec<String> =
        values.iter().map(|(name, value)| format!("{name} {}", number(f64::from(*value)))).collect();
    let values = if values.is_empty() { String::new() } else { list("      ", &values) };
    format!("{head}\n{values}")
}
