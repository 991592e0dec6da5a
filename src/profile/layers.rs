//! Lays the lines of a profile on the nodes of a program. A node belongs to one row at most; lines that share a node share
//! a row.

use std::collections::BTreeSet;

pub(crate) use super::names::Kind;
use super::names::{Part, Subject, nodes, subject};
use super::{Line, Profile};
use crate::ir::graph::{GraphId, Node, Origin, Program};
use crate::ir::hash::HashMap;

/// A profile laid on a program. Lines are indices into the profile, nodes positions in [`Program::nodes`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Laid {
    /// Lines with their nodes, in the order of the lines.
    pub(crate) rows: Vec<Row>,
    /// Lines without nodes, and why.
    pub(crate) apart: Vec<(usize, Kind)>,
}

/// Lines, several where they share nodes, and their nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) lines: Vec<usize>,
    pub(crate) nodes: BTreeSet<usize>,
}

/// Finds the nodes of each line.
pub(crate) fn lay(profile: &Profile, program: &Program) -> Laid {
    let index = Index::of(program);
    let mut laying =
        Laying { owner: vec![None; index.nodes.len()], row_of: vec![None; profile.lines.len()], rows: Vec::new() };
    let mut laid = Laid::default();
    let mut open: Vec<(usize, Vec<Part<'_>>)> = Vec::new();
    for (number, Line { name, op, .. }) in profile.lines.iter().enumerate() {
        match subject(name, op.as_deref(), &|name| index.is_node(name)) {
            Subject::Added(kind) => laid.apart.push((number, kind)),
            Subject::Nodes(parts) => open.push((number, parts)),
        }
    }
    // Names first: a range holds what no line names.
    for (number, parts) in &open {
        let named = parts.iter().filter_map(|part| if let Part::Node(name) = part { Some(*name) } else { None });
        let nodes: Vec<usize> = named.flat_map(|name| index.named(name)).copied().collect();
        laying.claim(*number, &nodes);
    }
    let mut free: BTreeSet<usize> = (0..index.in_main).filter(|&node| laying.owner_of(node).is_none()).collect();
    for (number, parts) in &open {
        for part in parts {
            let Part::Range(from, to) = part else { continue };
            let Some((first, last)) = index.range(from, to) else { continue };
            let mut inside: Vec<usize> = free.range(first..=last).copied().collect();
            for node in &inside {
                free.remove(node);
            }
            if inside.is_empty() {
                inside.push(first);
            }
            laying.claim(*number, &inside);
        }
    }
    let holding = laying.take_bodies(&index);
    for (number, _) in open {
        if holding.contains(&number) {
            laid.apart.push((number, Kind::ControlFlow));
        } else if laying.row_of.get(number).is_none_or(Option::is_none) {
            laid.apart.push((number, Kind::Unmatched));
        }
    }
    laid.apart.sort_unstable();
    laid.rows = laying.rows;
    laid.rows.retain(|row| !row.lines.is_empty());
    laid
}

struct Laying {
    /// The row of each node.
    owner: Vec<Option<usize>>,
    /// The row of each line.
    row_of: Vec<Option<usize>>,
    rows: Vec<Row>,
}

impl Laying {
    fn owner_of(&self, node: usize) -> Option<usize> {
        self.owner.get(node).copied().flatten()
    }

    /// Gives a line those of the nodes that are free. A line without a row joins that of one of its nodes.
    fn claim(&mut self, line: usize, nodes: &[usize]) {
        if nodes.is_empty() {
            return;
        }
        let own = self.row_of.get(line).copied().flatten();
        let shared = || nodes.iter().find_map(|&node| self.owner_of(node));
        let number = own.or_else(shared).unwrap_or(self.rows.len());
        if number == self.rows.len() {
            self.rows.push(Row::default());
        }
        let Some(row) = self.rows.get_mut(number) else { return };
        if own.is_none() {
            row.lines.push(line);
            if let Some(slot) = self.row_of.get_mut(line) {
                *slot = Some(number);
            }
        }
        for &node in nodes {
            if let Some(owner) = self.owner.get_mut(node).filter(|owner| owner.is_none()) {
                *owner = Some(number);
                row.nodes.insert(node);
            }
        }
    }

    /// Gives rows of loops and branches the nodes of their bodies. A line of a loop whose body has lines of its own holds
    /// those again: it has no row, and is handed back.
    fn take_bodies(&mut self, index: &Index<'_>) -> BTreeSet<usize> {
        let mut holding = BTreeSet::new();
        for number in 0..self.rows.len() {
            let Some(row) = self.rows.get_mut(number) else { continue };
            let body: Vec<usize> = row.nodes.iter().flat_map(|&node| index.body(node)).collect();
            if body.iter().any(|&node| self.owner.get(node).copied().flatten().is_some_and(|owner| owner != number)) {
                holding.extend(std::mem::take(row).lines);
            } else if let Some(&line) = row.lines.first() {
                self.claim(line, &body);
            }
        }
        holding
    }
}

/// Nodes by name.
struct Index<'p> {
    nodes: Vec<(GraphId, &'p Node)>,
    /// Nodes of the main graph, which come first, in running order.
    in_main: usize,
    by_name: HashMap<&'p str, Vec<usize>>,
    /// What a runtime calls a node that has no name, by its first output.
    by_output: HashMap<&'p str, usize>,
    /// The first node that reads a stored tensor.
    by_stored: HashMap<&'p str, usize>,
    by_graph: HashMap<GraphId, Vec<usize>>,
}

/// What TensorRT puts before an output to name a node that has no name.
const NAMED_BY_OUTPUT: &str = "node_of_";

impl<'p> Index<'p> {
    fn of(program: &'p Program) -> Self {
        let mut index = Self {
            nodes: Vec::new(),
            in_main: 0,
            by_name: HashMap::default(),
            by_output: HashMap::default(),
            by_stored: HashMap::default(),
            by_graph: HashMap::default(),
        };
        for (position, (graph, _, node)) in program.nodes().enumerate() {
            index.nodes.push((graph, node));
            index.in_main += usize::from(graph == GraphId(0));
            index.by_graph.entry(graph).or_default().push(position);
            if !node.name.is_empty() {
                index.by_name.entry(&node.name).or_default().push(position);
            }
            if *node.key != *node.name {
                index.by_name.entry(&node.key).or_default().push(position);
            }
            if let Some(output) = node.outputs.iter().flatten().next().and_then(|&id| program.tensor(id)) {
                index.by_output.entry(&output.name).or_insert(position);
            }
            for input in node.inputs.iter().flatten().filter_map(|&id| program.tensor(id)) {
                if matches!(input.origin, Origin::Stored(_)) {
                    index.by_stored.entry(&input.name).or_insert(position);
                }
            }
        }
        index
    }

    fn is_node(&self, name: &str) -> bool {
        !self.named(name).is_empty()
    }

    fn named(&self, name: &str) -> &[usize] {
        let by_output = || {
            let node = self.by_output.get(name.strip_prefix(NAMED_BY_OUTPUT)?)?;
            Some(std::slice::from_ref(node))
        };
        self.by_name.get(name).map(Vec::as_slice).or_else(by_output).unwrap_or_default()
    }

    /// Positions of the ends of a range in the main graph; where one end is not known the other is all of it.
    fn range(&self, from: &str, to: &str) -> Option<(usize, usize)> {
        let positions = |text: &str| -> Vec<usize> {
            let is_node = |name: &str| self.is_node(name);
            let of = |name: &str| {
                let stored = self.by_stored.get(name).into_iter().chain(self.by_output.get(name));
                self.named(name).iter().chain(stored).copied().filter(|&node| node < self.in_main).collect::<Vec<_>>()
            };
            nodes(text, &is_node).flat_map(of).collect()
        };
        let (from, to) = (positions(from), positions(to));
        let first = from.iter().min().or(to.iter().min())?;
        let last = to.iter().max().or(from.iter().max())?;
        (first <= last).then_some((*first, *last))
    }

    /// Nodes of the subgraphs of a node, those of inner subgraphs included.
    fn body(&self, node: usize) -> Vec<usize> {
        let mut body = Vec::new();
        let children = |node: usize| self.nodes.get(node).map_or(&[][..], |(_, node)| &node.children);
        let mut graphs: Vec<GraphId> = children(node).to_vec();
        while let Some(graph) = graphs.pop() {
            for &inner in self.by_graph.get(&graph).map_or(&[][..], Vec::as_slice) {
                graphs.extend(children(inner));
                body.push(inner);
            }
        }
        body
    }
}
