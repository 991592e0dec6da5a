//! `--emit memory`: memory of one device by parts, and the layers that keep most for the backward pass.

use std::fmt::Write;

use super::heading;
use super::listing::{columns, word};
use crate::analysis::Analysis;
use crate::predict::memory::Memory;
use crate::target::Target;

/// Layers that are listed.
const LISTED: usize = 50;

/// The parts sum to the peak; the layers, listed or not, to what is saved.
pub(crate) fn memory(analysis: &Analysis, memory: &Memory, target: &Target) -> String {
    let parts = [
        ("parameters", memory.parameters),
        ("gradients", memory.gradients),
        ("optimizer", memory.optimizer),
        ("saved_activations", memory.saved_activations),
        ("transient", memory.transient),
        ("workspace", memory.workspace),
        ("communication", memory.communication),
        ("kv_cache", memory.kv_cache),
        ("framework", memory.framework),
        ("peak", memory.peak()),
        ("capacity", target.device.memory.visible_bytes() as u64),
    ];
    let rows: Vec<Vec<String>> = parts.iter().map(|(name, bytes)| row(name, *bytes)).collect();
    let mut text = heading(target);
    text.push_str(&columns(&["part", "bytes"], &[false, true], &rows));

    let key = |index: usize| {
        let node = analysis.layers.get(index).and_then(|layer| analysis.node(layer));
        node.map_or_else(|| "?".to_owned(), |node| word(&node.key))
    };
    let mut saved: Vec<(usize, u64)> = memory.saved_by_layer.iter().copied().enumerate().collect();
    saved.retain(|(_, bytes)| *bytes > 0);
    if saved.is_empty() {
        return text;
    }
    saved.sort_by_key(|&(index, bytes)| (std::cmp::Reverse(bytes), index));
    let rows: Vec<Vec<String>> = saved.iter().take(LISTED).map(|&(index, bytes)| row(&key(index), bytes)).collect();
    text.push('\n');
    text.push_str(&columns(&["saved by layer", "bytes"], &[false, true], &rows));
    let rest = saved.iter().skip(LISTED);
    let (count, bytes) =
        rest.fold((0_usize, 0_u64), |(count, sum), (_, bytes)| (count + 1, sum.saturating_add(*bytes)));
    if count > 0 {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# {count} more layers keep {bytes} bytes");
    }
    text
}

fn row(name: &str, bytes: u64) -> Vec<String> {
    vec![name.to_owned(), bytes.to_string()]
}
