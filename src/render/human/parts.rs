//! Parts of the time and of the memory side by side, with bars.

use crate::render::text::width;
use crate::render::units::{bytes, duration_unit, number};
use crate::render::{Ink, Style};
use crate::report::{MemoryBytes, Model, TimeMs};

/// Columns of the name of a part.
const NAME: usize = 18;

/// Columns of its value.
const VALUE: usize = 9;

/// Columns of the longest bar.
const BAR: usize = 17;

/// Parts of a bar's cell that can be told apart: ▏ to █.
const EIGHTHS: [&str; 7] = ["▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A part: its name, its value as text, and as a number for the bar.
type Part = (&'static str, String, f64);

/// Both columns; nothing where nothing is known.
pub(super) fn lines(model: &Model, style: Style) -> String {
    let training = model.target.mode != "infer";
    let mut blocks = Vec::new();
    if let Some(time) = &model.time_ms {
        blocks.push(block("time", &time_parts(time, training, style), style));
    }
    if let Some(memory) = &model.memory_bytes {
        blocks.push(block("memory at the peak", &memory_parts(memory, training), style));
    }
    let rows = blocks.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = String::new();
    for index in 0..rows {
        let cells = blocks.iter().map(|block| block.get(index).map_or("", String::as_str));
        let mut line = String::new();
        for (column, cell) in cells.enumerate() {
            if column > 0 {
                line.push_str(&" ".repeat((2 + NAME + VALUE + BAR + 4).saturating_sub(width(&line))));
            } else {
                line.push_str("  ");
            }
            line.push_str(cell);
        }
        let line = line.trim_end();
        text.push_str(&if index == 0 { style.paint(Ink::Faint, line) } else { line.to_owned() });
        text.push('\n');
    }
    text
}

/// A title and a line for each part.
fn block(title: &str, parts: &[Part], style: Style) -> Vec<String> {
    let largest = parts.iter().map(|(_, _, value)| *value).fold(0.0, f64::max);
    let line = |(name, text, value): &Part| {
        let padding = " ".repeat((NAME + 1 + VALUE).saturating_sub(width(name) + width(text)).max(1));
        format!("{name}{padding}{text} {}", bar(*value, largest, style))
    };
    std::iter::once(title.to_owned()).chain(parts.iter().map(line)).collect()
}

/// A bar as long as the value's share of the largest one. Whatever is there at all is seen.
fn bar(value: f64, largest: f64, style: Style) -> String {
    if !(value > 0.0 && largest > 0.0) {
        return String::new();
    }
    let share = (value / largest).clamp(0.0, 1.0);
    if !style.unicode {
        let cells = ((share * BAR as f64).round() as usize).clamp(1, BAR);
        return "#".repeat(cells);
    }
    let eighths = ((share * 8.0 * BAR as f64).round() as usize).clamp(1, 8 * BAR);
    let rest = (eighths % 8).checked_sub(1).and_then(|rest| EIGHTHS.get(rest)).copied().unwrap_or_default();
    "█".repeat(eighths / 8) + rest
}

/// All in one unit, so that they can be compared.
fn time_parts(time: &TimeMs, training: bool, style: Style) -> Vec<Part> {
    let (factor, unit) = duration_unit(time.step.p50, style);
    let parts = [
        ("forward", time.forward, true),
        ("backward", time.backward, training),
        ("optimizer", time.optimizer, training),
        ("overhead", time.overhead, true),
        ("mirrored loss", time.mirrored_loss, false),
        ("exposed all-reduce", time.all_reduce_exposed, false),
        ("input wait", time.input_wait, false),
    ];
    let shown = parts.into_iter().filter(|(_, value, applies)| *applies || *value != 0.0);
    shown.map(|(name, value, _)| (name, format!("{} {unit}", number(value * factor)), value)).collect()
}

fn memory_parts(memory: &MemoryBytes, training: bool) -> Vec<Part> {
    let parts = [
        ("parameters", memory.parameters, true),
        ("gradients", memory.gradients, training),
        ("optimizer state", memory.optimizer, training),
        ("saved activations", memory.saved_activations, training),
        ("other activations", memory.transient, true),
        ("workspace", memory.workspace, true),
        ("collectives", memory.communication, false),
        ("KV cache", memory.kv_cache, false),
        ("framework", memory.framework, true),
    ];
    let shown = parts.into_iter().filter(|(_, value, applies)| *applies || *value != 0);
    shown.map(|(name, value, _)| (name, bytes(i128::from(value)), value as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASCII: Style = Style { color: false, unicode: false };

    #[test]
    fn bars_are_as_long_as_their_share_and_never_longer_than_their_column() {
        assert_eq!(bar(1.0, 1.0, Style::PLAIN), "█".repeat(BAR));
        assert_eq!(bar(1.0, 1.0, ASCII), "#".repeat(BAR));
        assert_eq!(bar(0.5, 1.0, Style::PLAIN), "████████▌");
        assert_eq!(bar(1e-9, 1.0, Style::PLAIN), "▏");
        assert_eq!(bar(1e-9, 1.0, ASCII), "#");
        for style in [Style::PLAIN, ASCII] {
            assert_eq!(bar(0.0, 1.0, style), "");
            for value in [-1.0, 0.0, f64::NAN, f64::NEG_INFINITY] {
                assert_eq!(bar(value, 1.0, style), "");
                assert_eq!(bar(1.0, value, style), "");
            }
            for eighths in 1..=8 * BAR {
                let bar = bar(eighths as f64, (8 * BAR) as f64, style);
                assert!((1..=BAR).contains(&width(&bar)), "{bar}");
            }
            assert!(width(&bar(f64::INFINITY, 1.0, style)) <= BAR);
            assert!(width(&bar(2.0, 1.0, style)) <= BAR);
        }
    }
}
