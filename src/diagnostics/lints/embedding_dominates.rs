//! `embedding-dominates`: most parameters are tables of which a step reads a few rows, and whose gradients are dense.

use super::{LintCx, say, share};
use crate::diagnostics::{Code, Diagnostic};
use crate::ir::graph::{GraphId, Node};
use crate::ir::hash::HashMap;
use crate::ir::place::Place;
use crate::passes::parameters::{Kind, Usage};
use petgraph::stable_graph::NodeIndex;

/// Share of the trained parameters from which it is said.
const SHARE: f64 = 0.5;

/// Bytes of a dense gradient below which it costs nothing that anybody sees.
const LEAST_BYTES: f64 = 16.0 * 1_048_576.0;

/// Bytes of an index in a sparse gradient.
const INDEX_BYTES: f64 = 8.0;

/// Tables together.
#[derive(Default)]
struct Tables {
    places: Vec<Place>,
    elements: f64,
    /// What a step reads of them, in rows and in elements.
    rows: f64,
    read: f64,
    /// Whether one is the output layer's as well.
    tied: bool,
}

pub(super) fn check(cx: &LintCx<'_>) -> Option<Diagnostic> {
    if !cx.trains() {
        return None;
    }
    let trained: f64 = usages(cx).map(|(_, usage)| usage.elements as f64).sum();
    let tables = tables(cx);
    let part = share(tables.elements, trained);
    let (bytes, replicas) = (4.0 * tables.elements, f64::from(cx.target.replicas));
    if part <= SHARE || bytes < LEAST_BYTES {
        return None;
    }
    let (count, dense) = (tables.places.len(), say::about_bytes(bytes));
    let (noun, gradients) = if count == 1 {
        ("an embedding table", "its gradient is")
    } else {
        ("embedding tables", "their gradients are")
    };
    let read = share(tables.read, tables.elements).min(1.0);
    let message = format!(
        "{} of the trained parameters are {noun}; a step reads {} of the rows, and {gradients} {dense} when dense",
        say::percent(part),
        say::percent(read)
    );
    // Every replica gets the rows of all others.
    let sparse = replicas * (4.0 * tables.read + INDEX_BYTES * tables.rows);
    let exchanged = if replicas > 1.0 { ", gathered from all replicas," } else { "" };
    let help = if tables.tied {
        "the output layer uses the table too, so its gradient stays dense: sparse gradients pay only where both are apart"
            .to_owned()
    } else if sparse < bytes {
        format!("sparse gradients{exchanged} hold {} a step instead of {dense}", say::about_bytes(sparse))
    } else {
        format!("sparse gradients{exchanged} would hold {}, so dense ones are right here", say::about_bytes(sparse))
    };
    let mut diagnostic = Diagnostic::new(Code::EmbeddingDominates, message).help(help);
    diagnostic.places = tables.places;
    Some(diagnostic)
}

/// Trained stored tensors, each once.
fn usages<'a>(cx: &LintCx<'a>) -> impl Iterator<Item = (usize, &'a Usage)> {
    let trained = |(_, usage): &(usize, &Usage)| usage.kind == Kind::Trainable && !usage.repeats;
    cx.analysis.usages.iter().enumerate().filter(trained)
}

fn tables(cx: &LintCx<'_>) -> Tables {
    let program = &cx.analysis.program;
    let sizes = cx.analysis.sizes(cx.values);
    let repeated: Vec<i128> =
        cx.analysis.usages.iter().filter(|usage| usage.repeats).map(|usage| usage.elements).collect();
    let nodes: HashMap<(GraphId, NodeIndex), &Node> =
        program.nodes().map(|(graph, index, node)| ((graph, index), node)).collect();
    let mut tables = Tables::default();
    for (index, usage) in usages(cx) {
        let Some(stored) = program.stored.get(index) else { continue };
        let readers: Vec<&Node> = usage.readers.iter().filter_map(|reader| nodes.get(reader).copied()).collect();
        let looked_up = |node: &&&Node| &*node.op == "Gather" && node.inputs.first() == Some(&Some(stored.tensor));
        let Some(width) = sizes.get(stored.tensor).filter(|sized| sized.dims.len() == 2).and_then(|sized| sized.dim(1))
        else {
            continue;
        };
        let lookups: Vec<&&Node> = readers.iter().filter(looked_up).collect();
        let Some(first) = lookups.first() else { continue };
        tables.places.push(first.place);
        tables.elements += usage.elements as f64;
        tables.tied |= lookups.len() < readers.len() || repeated.contains(&usage.elements);
        for node in lookups {
            let indices = node.inputs.get(1).copied().flatten().and_then(|tensor| sizes.get(tensor));
            let rows = indices.map_or(0.0, |sized| sized.elements() as f64);
            tables.rows += rows;
            tables.read += rows * width as f64;
        }
    }
    tables
}
