//! Edges between the nodes of a graph, and an order in which they can run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::Direction;
use petgraph::stable_graph::NodeIndex;
use petgraph::visit::EdgeRef;

use super::{Frame, Resolver};
use crate::diagnostics::{Code, Diagnostic};
use crate::ir::graph::{Graph, GraphId, Origin};
use crate::ir::hash::{HashMap, HashSet};

/// Nodes of a cycle that a message names.
const SHOWN: usize = 12;

impl Resolver<'_> {
    /// Joins producers and consumers of a graph and sorts its nodes.
    pub(super) fn join(&mut self, id: GraphId, frame: &Frame) {
        let Some(mut graph) = self.program.graphs.get_mut(id.0 as usize).map(std::mem::take) else { return };
        let mut edges = Vec::new();
        for (index, node) in graph.net.node_indices().zip(graph.net.node_weights()) {
            for tensor in node.inputs.iter().flatten() {
                edges.push((*tensor, index));
            }
        }
        for (node, tensors) in self.captures.remove(&id).unwrap_or_default() {
            edges.extend(tensors.into_iter().map(|tensor| (tensor, node)));
        }
        let mut unsorted = None;
        for (tensor, consumer) in edges {
            let Some(source) = self.program.tensor(tensor).filter(|source| source.graph == id) else { continue };
            if let Origin::Node(producer) = source.origin {
                graph.net.add_edge(producer, consumer, tensor);
                if producer > consumer && unsorted.is_none() {
                    unsorted = Some((producer, consumer));
                }
            }
        }
        graph.order = sort(&graph);
        let label = |index: NodeIndex| graph.net.node_weight(index).map_or("?", |node| &node.key).to_owned();
        let mut found = Vec::new();
        if graph.order.len() < graph.net.node_count() {
            let cycle = find_cycle(&graph);
            let mut names: Vec<_> = cycle.iter().take(SHOWN).map(|&index| label(index)).collect();
            if cycle.len() > SHOWN {
                names.push(format!("({} more)", cycle.len() - SHOWN));
            }
            names.extend(cycle.first().map(|&index| label(index)));
            let stuck = graph.net.node_count() - graph.order.len();
            let message = format!("these nodes wait for each other: {}", names.join(" -> "));
            let diagnostic =
                Diagnostic::new(Code::CyclicGraph, message).note(format!("{stuck} nodes cannot run because of it"));
            found.push((diagnostic, cycle.first().copied()));
        } else if let Some((producer, consumer)) = unsorted {
            let message =
                format!("node {:?} stands before {:?}, which it reads from", label(consumer), label(producer));
            let diagnostic = Diagnostic::new(Code::UnsortedNodes, message)
                .help("the nodes were sorted here; the ONNX checker will refuse the file");
            found.push((diagnostic, Some(consumer)));
        }
        for (diagnostic, node) in found {
            match node.and_then(|index| graph.net.node_weight(index)).map(|node| node.place) {
                Some(place) => self.report_at(diagnostic, place),
                None => self.report(diagnostic, frame, None, None),
            }
        }
        if let Some(slot) = self.program.graphs.get_mut(id.0 as usize) {
            *slot = graph;
        }
    }
}

/// Kahn's algorithm; among the nodes that are ready the first of the file goes first. Nodes on a cycle and behind one
/// are left out.
fn sort(graph: &Graph) -> Vec<NodeIndex> {
    let mut waiting: HashMap<NodeIndex, usize> =
        HashMap::with_capacity_and_hasher(graph.net.node_count(), Default::default());
    let mut ready = BinaryHeap::new();
    for index in graph.net.node_indices() {
        let producers = graph.net.edges_directed(index, Direction::Incoming).count();
        if producers == 0 {
            ready.push(Reverse(index));
        } else {
            waiting.insert(index, producers);
        }
    }
    let mut order = Vec::with_capacity(graph.net.node_count());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for edge in graph.net.edges_directed(index, Direction::Outgoing) {
            if let Some(count) = waiting.get_mut(&edge.target()) {
                *count -= 1;
                if *count == 0 {
                    waiting.remove(&edge.target());
                    ready.push(Reverse(edge.target()));
                }
            }
        }
    }
    order
}

/// One cycle among the nodes that could not be sorted, in the order of the edges.
fn find_cycle(graph: &Graph) -> Vec<NodeIndex> {
    let sorted: HashSet<_> = graph.order.iter().copied().collect();
    let Some(start) = graph.net.node_indices().find(|index| !sorted.contains(index)) else { return Vec::new() };
    // Every node left has a producer that is left too, so walking backwards must come around.
    let mut seen = HashMap::default();
    let mut path = vec![start];
    let mut at = start;
    loop {
        seen.insert(at, path.len() - 1);
        let producers = graph.net.neighbors_directed(at, Direction::Incoming).filter(|index| !sorted.contains(index));
        let Some(producer) = producers.min() else { return Vec::new() };
        if let Some(&first) = seen.get(&producer) {
            let mut cycle: Vec<_> = path.get(first..).unwrap_or_default().to_vec();
            cycle.reverse();
            // Begin with the first node of the file.
            let lowest = cycle.iter().enumerate().min_by_key(|(_, index)| **index).map_or(0, |(place, _)| place);
            cycle.rotate_left(lowest);
            return cycle;
        }
        path.push(producer);
        at = producer;
    }
}
