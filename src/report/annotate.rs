//! The model as ONNX text, with what is known of each node and what was found, by line.
//!
//! Where lines are counted, those of the comments count as well: the line that a diagnostic names is the one on which
//! its node stands in the output of `annotate`. A finding takes the same number of lines everywhere, whatever its text,
//! so that [`Shifts`] can tell lines without writing anything.

use std::collections::{BTreeMap, HashMap};

use super::build::{evaluated, shape_of};
use super::{Extent, Finding, Layer, Location, Model};
use crate::analysis::{Analysis, Figures};
use crate::assume::assume;
use crate::engine::Mode;
use crate::frontend::onnx::model::Model as Definition;
use crate::frontend::onnx_text::{Layout, PrintOptions, print_model};
use crate::ir::fact::VALUE_LIMIT;
use crate::ir::graph::{Call, GraphId, Holder, TensorId};
use crate::ir::place::Place;

/// Payloads of more elements are left out.
const MAX_ELEMENTS: usize = 64;

/// How the text is printed. Weights are left out, but no integers that a shape may depend on; metadata of nodes, for
/// which the syntax has no place but comments, is left out too.
pub(crate) const PRINT: PrintOptions =
    PrintOptions { max_elements: MAX_ELEMENTS, max_integers: VALUE_LIMIT, metadata: false, break_long_nodes: true };

/// A model as text, with notes.
#[derive(Clone, Debug, Default)]
pub struct Annotated {
    /// ONNX text, without notes.
    pub text: String,
    /// Notes in the order of lines, one at most for each.
    pub lines: Vec<Line>,
}

/// What is said at a line of the text.
#[derive(Clone, Debug)]
pub struct Line {
    /// Number of the line in [`Annotated::text`], from 1.
    pub number: u32,
    /// What its node gives and costs.
    pub note: Option<Note>,
    /// What is to be said below it.
    pub mentions: Vec<Mention>,
}

/// What a node gives and costs.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// Dims of the first output; `None` where they are not known, or differ between calls.
    pub shape: Option<Vec<Extent>>,
    /// Multiply-accumulate pairs, forward, of all runs together.
    pub macs: Option<i128>,
    /// Whether sizes or rounds that depend on data enter at their upper bound.
    pub at_bound: bool,
    /// Share of the step time.
    pub share: Option<f64>,
    /// How many calls of its function share the line; 1 outside functions.
    pub calls: usize,
}

/// A finding that is mentioned at a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Index among the model's diagnostics.
    pub finding: usize,
    /// Whether notes and help are told; they are at the first place only.
    pub in_full: bool,
}

impl Mention {
    /// Lines that it takes: one for the message, and in full one for each note and for the help.
    #[must_use]
    pub fn lines(self, finding: &Finding) -> usize {
        if self.in_full { 1 + finding.notes.len() + usize::from(finding.help.is_some()) } else { 1 }
    }
}

/// Mentions of findings by the line below which they stand, once for each line.
fn mentions(findings: &[Finding], layout: &Layout) -> BTreeMap<u32, Vec<Mention>> {
    let mut by_line: BTreeMap<u32, Vec<Mention>> = BTreeMap::new();
    for (index, finding) in findings.iter().enumerate() {
        for (number, place) in finding.places.iter().enumerate() {
            let line = match place.lines {
                Some(lines) => lines.last,
                None if number == 0 => layout.header(),
                None => continue,
            };
            let mentions = by_line.entry(line).or_default();
            if mentions.last().is_none_or(|last| last.finding != index) {
                mentions.push(Mention { finding: index, in_full: number == 0 });
            }
        }
    }
    by_line
}

/// How far comments move the lines below them.
pub(super) struct Shifts {
    /// Line below which comments stand, and how many stand there and above.
    moved: Vec<(u32, u64)>,
}

impl Shifts {
    pub(super) fn of(findings: &[Finding], layout: &Layout) -> Self {
        let mut all = 0;
        let moved = mentions(findings, layout).into_iter().map(|(line, mentions)| {
            let lines = |mention: &Mention| findings.get(mention.finding).map_or(0, |finding| mention.lines(finding));
            all += mentions.iter().map(lines).sum::<usize>() as u64;
            (line, all)
        });
        Self { moved: moved.collect() }
    }

    /// Where a line of the text stands once it has comments.
    pub(super) fn line(&self, line: u64) -> u64 {
        let above = self.moved.partition_point(|(at, _)| u64::from(*at) < line);
        line + above.checked_sub(1).and_then(|last| self.moved.get(last)).map_or(0, |(_, lines)| *lines)
    }

    /// Moves the line of a place in a binary model.
    pub(super) fn apply(&self, place: &mut Location) {
        if let Some(lines) = place.lines {
            place.line = Some(self.line(u64::from(lines.first)));
        }
    }
}

/// The model as text, with notes.
pub(crate) fn annotated(
    definition: &Definition,
    analysis: Option<&Analysis>,
    layout: &Layout,
    mode: Mode,
    model: &Model,
) -> Annotated {
    let mut lines: BTreeMap<u32, Line> = BTreeMap::new();
    let line = |number: u32| Line { number, note: None, mentions: Vec::new() };
    if let Some(analysis) = analysis {
        for (number, note) in Notes::of(analysis, layout, mode, &model.layers) {
            lines.entry(number).or_insert_with(|| line(number)).note = Some(note);
        }
    }
    for (number, mentions) in mentions(&model.diagnostics, layout) {
        lines.entry(number).or_insert_with(|| line(number)).mentions = mentions;
    }
    Annotated { text: print_model(definition, &PRINT), lines: lines.into_values().collect() }
}

/// Collects notes by line.
struct Notes<'a> {
    analysis: &'a Analysis,
    layout: &'a Layout,
    values: BTreeMap<String, i128>,
    /// Layers by graph and node.
    layers: HashMap<(GraphId, usize), usize>,
    figures: Figures,
    shares: HashMap<&'a str, f64>,
    notes: BTreeMap<u32, Note>,
}

impl<'a> Notes<'a> {
    fn of(analysis: &'a Analysis, layout: &'a Layout, mode: Mode, layers: &'a [Layer]) -> BTreeMap<u32, Note> {
        let values = assume(&analysis.bound, mode).values;
        let figures = analysis.at(&values);
        let by_node =
            |(index, layer): (usize, &crate::passes::count::Layer)| ((layer.graph, layer.node.index()), index);
        let mut notes = Self {
            analysis,
            layout,
            values,
            layers: analysis.layers.iter().enumerate().map(by_node).collect(),
            figures,
            shares: layers.iter().filter_map(|layer| Some((&*layer.key, layer.share?))).collect(),
            notes: BTreeMap::new(),
        };
        let program = &analysis.program;
        // Where a function hands an input on, a node stands on the line of the call, which the call's note replaces.
        for (graph, index, node) in program.nodes() {
            let cost = notes.cost(graph, index.index());
            notes.add(node.place, node.outputs.iter().flatten().next().copied(), cost);
        }
        for stored in program.stored.iter().filter(|stored| stored.holder == Holder::Constant) {
            notes.add(stored.place, Some(stored.tensor), Note { macs: Some(0), ..Note::default() });
        }
        let mut called = std::mem::take(&mut notes.notes);
        for call in &program.calls {
            if let Some(lines) = notes.lines(call.place) {
                called.remove(&lines);
            }
        }
        for call in &program.calls {
            let cost = notes.cost_of_call(call);
            notes.add(call.place, call.output, cost);
        }
        called.append(&mut notes.notes);
        called
    }

    fn lines(&self, place: Place) -> Option<u32> {
        Some(self.layout.of(self.analysis.program.places.get(place)?.span?)?.last)
    }

    /// What a node costs; one that does no work when the model runs costs nothing.
    fn cost(&self, graph: GraphId, node: usize) -> Note {
        let Some(&index) = self.layers.get(&(graph, node)) else {
            return Note { macs: Some(0), ..Note::default() };
        };
        let figures = self.figures.layers.get(index).copied().unwrap_or_default();
        let node = self.analysis.layers.get(index).and_then(|layer| self.analysis.node(layer));
        let share = node.and_then(|node| self.shares.get(&*node.key).copied());
        Note { macs: figures.macs, at_bound: figures.at_bound, share, ..Note::default() }
    }

    fn cost_of_call(&self, call: &Call) -> Note {
        let nodes = call.nodes.clone().map(|node| self.cost_with_children(call.graph, node));
        nodes.fold(Note { macs: Some(0), ..Note::default() }, together)
    }

    /// The recursion is as deep as graphs are nested.
    fn cost_with_children(&self, graph: GraphId, node: usize) -> Note {
        let program = &self.analysis.program;
        let weight =
            program.graph(graph).and_then(|graph| graph.net.node_weight(petgraph::stable_graph::NodeIndex::new(node)));
        let children = weight.map_or(&[][..], |node| &node.children);
        children.iter().fold(self.cost(graph, node), |sum, &child| {
            let inner = program.graph(child).into_iter().flat_map(|graph| graph.nodes());
            inner.fold(sum, |sum, (index, _)| together(sum, self.cost_with_children(child, index.index())))
        })
    }

    fn add(&mut self, place: Place, output: Option<TensorId>, mut note: Note) {
        let Some(line) = self.lines(place) else { return };
        let shape = output.and_then(|output| shape_of(self.analysis, output));
        note.shape = shape.map(|shape| shape.dims().iter().map(|dim| evaluated(dim, &self.values)).collect());
        note.calls = 1;
        let sum = match self.notes.remove(&line) {
            Some(known) => Note {
                shape: if known.shape == note.shape { note.shape.clone() } else { None },
                calls: known.calls + 1,
                ..together(known, note)
            },
            None => note,
        };
        self.notes.insert(line, sum);
    }
}

/// The costs of two notes in one.
fn together(one: Note, other: Note) -> Note {
    let macs = one.macs.zip(other.macs).map(|(one, other)| one.saturating_add(other));
    let share = match (one.share, other.share) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    };
    Note { macs, at_bound: one.at_bound || other.at_bound, share, ..one }
}
