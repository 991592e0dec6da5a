//! The first lines: which model, what its figures hold for, what was assumed.

use crate::device::find_interconnect;
use crate::render::text::{hanging, list, printable};
use crate::render::units::{UNKNOWN, count, plural};
use crate::render::{Ink, Style};
use crate::report::{Graph, Model, Target};
use crate::runtime::Runtime;

use super::counted::Counted;

/// Dims and assumptions that are listed; more are counted.
const LISTED: usize = 12;

/// The line on the model itself.
pub(super) fn model_line(model: &Model, graph: &Graph, style: Style) -> String {
    let path = printable(&model.path);
    let counted = Counted::of(model, graph, style);
    let pieces = [
        counted.format.clone(),
        plural(graph.nodes, "node"),
        format!("{} parameters", count(graph.parameters.total)),
        counted.macs_a_sample(),
    ];
    // Lines are filled without colour, which takes no columns.
    let line = hanging(&format!("{path}  "), 2, &pieces);
    line.strip_prefix(&*path).map_or_else(|| line.clone(), |rest| style.paint(Ink::Strong, &path) + rest)
}

/// The lines on what the figures hold for, and on what was assumed.
pub(super) fn target_lines(model: &Model, style: Style) -> String {
    let mut pieces: Vec<String> = device(&model.target, style).into_iter().collect();
    let head = if pieces.is_empty() { "  for " } else { "  on " };
    pieces.extend(setting(&model.target));
    list(head, &pieces) + &assumed_lines([model])
}

/// `8 × Tesla V100-SXM2-16GB (v100-sxm2-16gb)`.
pub(in crate::render) fn device(target: &Target, style: Style) -> Option<String> {
    let id = target.gpu.as_deref()?;
    let name = target.gpu_name.as_deref().filter(|name| !name.eq_ignore_ascii_case(id));
    let one = match name {
        Some(name) => format!("{} ({})", printable(name), printable(id)),
        None => printable(id).into_owned(),
    };
    Some(match target.replicas {
        // Unequal cards are counted by kind.
        Some(replicas) if replicas > 1 && !id.contains('+') => format!("{replicas} {} {one}", style.times()),
        _ => one,
    })
}

/// A piece of what the figures hold for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: String,
    /// Whether it belongs to the piece before it, as the interconnect does to the strategy.
    pub(super) belongs: bool,
}

/// Everything but the device that the figures hold for, in pieces for a list.
pub(in crate::render) fn setting(target: &Target) -> Vec<String> {
    joined(&pieces(target))
}

/// Pieces with those that belong together as one.
pub(super) fn joined(pieces: &[Piece]) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for piece in pieces {
        match joined.last_mut().filter(|_| piece.belongs) {
            Some(last) => {
                last.push(' ');
                last.push_str(&piece.text);
            }
            None => joined.push(piece.text.clone()),
        }
    }
    joined
}

/// Everything but the device that the figures hold for.
pub(super) fn pieces(target: &Target) -> Vec<Piece> {
    let alone = |text: &str| Piece { text: printable(text).into_owned(), belongs: false };
    let behind = |text: &str| Piece { belongs: true, ..alone(text) };
    let mut pieces: Vec<Piece> = target.strategy.as_deref().map(alone).into_iter().collect();
    if let Some(stage) = target.zero.filter(|stage| *stage > 0) {
        pieces.push(behind(&format!("with ZeRO {stage}")));
    }
    if let Some(id) = target.interconnect.as_deref() {
        let name = find_interconnect(id).map_or(id, |interconnect| &interconnect.name);
        pieces.push(behind(&format!("over {name}")));
    }
    if let Some(hosts) = target.hosts.filter(|hosts| *hosts > 1) {
        pieces.push(alone(&format!("on {hosts} hosts")));
    }
    pieces.extend(target.runtime.as_deref().map(|word| alone(&runtime(word))));
    pieces.push(alone(mode_word(&target.mode)));
    pieces.extend(target.precision.as_deref().map(behind));
    pieces.extend(target.optimizer.as_deref().filter(|name| *name != "none").map(alone));
    if let Some(batch) = target.batch {
        let several = target.replicas.is_some_and(|replicas| replicas > 1);
        let of = match target.accumulate.filter(|count| *count > 1) {
            Some(count) if several => format!("{count} micro-batches of {batch} a replica"),
            Some(count) => format!("{count} micro-batches of {batch}"),
            None => format!("{batch} a replica"),
        };
        pieces.push(alone(&match target.global_batch {
            Some(global) if global != batch => format!("batch {global} ({of})"),
            _ => format!("batch {batch}"),
        }));
    }
    pieces.extend(dims(target).iter().map(|dim| alone(dim)));
    pieces
}

/// Values of the dims beside the batch.
fn dims(target: &Target) -> Vec<String> {
    // A dim that is called batch has been said.
    let dims: Vec<_> = target.dims.iter().filter(|(name, value)| *name != "batch" || **value != target.batch).collect();
    let value = |value: &Option<i128>| value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string());
    let listed = dims.iter().take(LISTED);
    let mut pieces: Vec<String> = listed.map(|(name, of)| format!("{name} = {}", value(of))).collect();
    if let more @ 1.. = dims.len().saturating_sub(LISTED) {
        pieces.push(format!("{more} more dims"));
    }
    pieces
}

/// `PyTorch 2.9` of `pytorch@2.9`.
fn runtime(word: &str) -> String {
    let (name, version) = word.split_once('@').map_or((word, None), |(name, version)| (name, Some(version)));
    let title = Runtime::find(name).map_or(name, |runtime| runtime.title);
    version.map_or_else(|| title.to_owned(), |version| format!("{title} {version}"))
}

/// The text of `train` and `infer`.
fn mode_word(mode: &str) -> &str {
    match mode {
        "train" => "training",
        "infer" => "inference",
        other => other,
    }
}

/// What was assumed, each with the option that changes it.
pub(super) fn assumed_lines<'m>(models: impl IntoIterator<Item = &'m Model>) -> String {
    // By option; several models may have several values.
    let mut assumed: Vec<(&str, Vec<String>)> = Vec::new();
    for model in models {
        let several = model.target.replicas.is_some_and(|replicas| replicas > 1);
        for assumption in &model.assumptions {
            let each = if several && assumption.key == "batch" { " a replica" } else { "" };
            let value = format!("{}{each}", printable(&assumption.value));
            match assumed.iter_mut().find(|(key, _)| *key == assumption.key) {
                Some((_, values)) if values.contains(&value) => {}
                Some((_, values)) => values.push(value),
                None => assumed.push((&assumption.key, vec![value])),
            }
        }
    }
    let piece = |(key, values): &(&str, Vec<String>)| {
        let key = printable(key);
        format!("{} {} (--{key})", key.strip_prefix("dim ").unwrap_or(&key), values.join(" or "))
    };
    let mut pieces: Vec<String> = assumed.iter().take(LISTED).map(piece).collect();
    if let more @ 1.. = assumed.len().saturating_sub(LISTED) {
        pieces.push(format!("{more} more (--format json)"));
    }
    if pieces.is_empty() { String::new() } else { list("  assumed: ", &pieces) }
}
