//! Cost of every node as formulas, and which nodes are layers: those that do work when the model runs.

use petgraph::stable_graph::NodeIndex;

use super::infer::{Inference, Outcome, is_folded};
use super::parameters::{Kind, Usage};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::graph::{GraphId, Node, Origin, Program, TensorId};
use crate::ir::hash::HashSet;
use crate::ops::cost::fact_bytes;
use crate::ops::{Cost, CostCx, Repeats};

/// A layer: a node that does work when the model runs.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Graph of the node.
    pub graph: GraphId,
    /// The node.
    pub node: NodeIndex,
    /// Cost of one run; `None` when it is not known.
    pub cost: Option<Cost>,
    /// Bytes of the inputs and outputs whose size is known, where the cost is not.
    pub known_bytes: Dim,
    /// Subgraphs of the node and how often they run for each run of the node.
    pub children: Vec<(GraphId, Repeats)>,
}

/// What the count gives.
#[derive(Debug, Default)]
pub struct Counted {
    /// Layers in running order, subgraphs behind their node.
    pub layers: Vec<Layer>,
    /// Whether training asks for the gradient of a tensor, by [`TensorId`].
    pub needs_gradient: Vec<bool>,
}

/// Counts every layer that was reached, in running order, subgraphs behind their node.
#[must_use]
pub fn count(
    program: &Program,
    inference: &Inference,
    usages: &[Usage],
    frozen: &HashSet<(GraphId, NodeIndex)>,
) -> Counted {
    let mut counter = Counter {
        program,
        inference,
        needs_gradient: vec![false; program.tensors.len()],
        varies: vec![false; program.tensors.len()],
        layers: Vec::new(),
        alive: alive(program),
    };
    for (stored, usage) in program.stored.iter().zip(usages) {
        // A weight is frozen where every layer that reads it is.
        let trained = usage.kind == Kind::Trainable && !usage.readers.iter().all(|reader| frozen.contains(reader));
        let real = stored.element().is_some_and(crate::ir::element_type::ElementType::is_real);
        if let Some(needs) = counter.needs_gradient.get_mut(stored.tensor.0 as usize) {
            *needs = trained && real;
        }
        counter.set_varies(stored.tensor, matches!(usage.kind, Kind::Trainable | Kind::Statistic));
    }
    for &input in program.graphs.first().map_or(&[][..], |main| &main.inputs) {
        counter.set_varies(input, true);
    }
    counter.graph(GraphId(0));
    Counted { layers: counter.layers, needs_gradient: counter.needs_gradient }
}

struct Counter<'a> {
    program: &'a Program,
    inference: &'a Inference,
    needs_gradient: Vec<bool>,
    /// Tensors whose elements depend on inputs or weights, not on shapes and numbers of the file alone.
    varies: Vec<bool>,
    layers: Vec<Layer>,
    alive: HashSet<(GraphId, NodeIndex)>,
}

impl<'a> Counter<'a> {
    fn graph(&mut self, id: GraphId) {
        let Some(graph) = self.program.graph(id) else { return };
        for (index, node) in graph.nodes() {
            let Some(outcome) = self.inference.outcomes.get(&(id, index)) else { continue };
            self.node(id, index, node, *outcome);
        }
        // Nodes on a cycle and behind one stand in no order.
        if graph.order.len() < graph.net.node_count() {
            let ordered: HashSet<_> = graph.order.iter().collect();
            for node in graph.net.node_indices().filter(|node| !ordered.contains(node)) {
                if self.alive.contains(&(id, node)) {
                    self.layers.push(Layer {
                        graph: id,
                        node,
                        cost: None,
                        known_bytes: Dim::ZERO,
                        children: Vec::new(),
                    });
                }
            }
        }
    }

    fn node(&mut self, graph: GraphId, index: NodeIndex, node: &'a Node, outcome: Outcome) {
        let inference = self.inference;
        let fact = |tensor: &Option<TensorId>| tensor.map(|tensor| inference.fact(tensor));
        let inputs: Vec<Option<&Fact>> = node.inputs.iter().map(fact).collect();
        let outputs: Vec<Option<&Fact>> = node.outputs.iter().map(fact).collect();
        let gradients: Vec<bool> =
            node.inputs.iter().map(|input| input.is_some_and(|tensor| self.needs(tensor))).collect();
        self.pass_gradients(node, &outputs, gradients.contains(&true));
        let varies = self.pass_variation(node, &outputs);
        let cost = match (&node.operator, outcome) {
            (Some(operator), Outcome::Inferred) => operator.cost(&CostCx::new(&inputs, &outputs, &gradients)),
            _ => None,
        };
        // What depends on shapes and numbers of the file alone is shape arithmetic, products apart.
        let product = cost.as_ref().is_some_and(|cost| cost.macs != Dim::ZERO);
        if !(varies || product || !node.children.is_empty()) || !self.alive.contains(&(graph, index)) {
            return;
        }
        let children: Vec<_> = node
            .children
            .iter()
            .map(|&child| (child, self.inference.repeats.get(&child).cloned().unwrap_or(Repeats::Unknown)))
            .collect();
        let known_bytes = match cost {
            Some(_) => Dim::ZERO,
            None => inputs.iter().chain(&outputs).flatten().filter_map(|fact| fact_bytes(fact)).sum(),
        };
        self.layers.push(Layer { graph, node: index, cost, known_bytes, children });
        for child in &node.children {
            self.child(*child, node);
        }
    }

    /// The subgraph's inputs need gradients where the node's inputs do.
    fn child(&mut self, child: GraphId, node: &Node) {
        let Some(graph) = self.program.graph(child) else { return };
        let any = node.inputs.iter().flatten().any(|&tensor| self.needs(tensor));
        for &input in &graph.inputs {
            let real = self.is_real(input);
            if let Some(needs) = self.needs_gradient.get_mut(input.0 as usize) {
                *needs = any && real;
            }
        }
        // A state may take any input in a later round.
        let varies = node.inputs.iter().flatten().any(|&tensor| self.varies(tensor));
        for &input in &graph.inputs {
            self.set_varies(input, varies);
        }
        self.graph(child);
        let varies = varies || graph.outputs.iter().flatten().any(|&tensor| self.varies(tensor));
        for &output in node.outputs.iter().flatten() {
            let before = self.varies(output);
            self.set_varies(output, before || varies);
        }
        let inner = graph.outputs.iter().flatten().any(|&tensor| self.needs(tensor));
        if inner {
            for &output in node.outputs.iter().flatten() {
                let real = self.is_real(output);
                if let Some(needs) = self.needs_gradient.get_mut(output.0 as usize) {
                    *needs |= real;
                }
            }
        }
    }

    fn pass_gradients(&mut self, node: &Node, outputs: &[Option<&Fact>], any: bool) {
        for (output, fact) in node.outputs.iter().zip(outputs) {
            let real = fact.is_some_and(is_real_fact);
            if let Some(needs) = output.and_then(|tensor| self.needs_gradient.get_mut(tensor.0 as usize)) {
                *needs = any && real;
            }
        }
    }

    fn needs(&self, tensor: TensorId) -> bool {
        self.needs_gradient.get(tensor.0 as usize).copied().unwrap_or(false)
    }

    fn is_real(&self, tensor: TensorId) -> bool {
        is_real_fact(self.inference.fact(tensor))
    }

    /// Whether the elements of the outputs depend on inputs or weights.
    fn pass_variation(&mut self, node: &Node, outputs: &[Option<&Fact>]) -> bool {
        let reads_shape = node.operator.as_ref().is_some_and(|operator| operator.reads_only_shape());
        let mut inputs = node.inputs.iter().flatten().peekable();
        // Random numbers come from nothing that is known.
        let from_nothing = inputs.peek().is_none() && !outputs.iter().flatten().all(|fact| is_folded(fact));
        let varies = !reads_shape && (from_nothing || inputs.any(|&tensor| self.varies(tensor)));
        for &output in node.outputs.iter().flatten() {
            self.set_varies(output, varies);
        }
        varies
    }

    fn varies(&self, tensor: TensorId) -> bool {
        self.varies.get(tensor.0 as usize).copied().unwrap_or(true)
    }

    fn set_varies(&mut self, tensor: TensorId, varies: bool) {
        if let Some(slot) = self.varies.get_mut(tensor.0 as usize) {
            *slot = varies;
        }
    }
}

/// Nodes that an output depends on. The others are never run.
fn alive(program: &Program) -> HashSet<(GraphId, NodeIndex)> {
    let mut alive = HashSet::default();
    let mut waiting: Vec<TensorId> =
        program.graphs.first().map(|main| main.outputs.iter().flatten().copied().collect()).unwrap_or_default();
    // Without outputs nothing tells what is wanted.
    if waiting.is_empty() {
        return program.nodes().map(|(graph, index, _)| (graph, index)).collect();
    }
    while let Some(tensor) = waiting.pop() {
        let Some(tensor) = program.tensor(tensor) else { continue };
        let Origin::Node(index) = tensor.origin else { continue };
        if !alive.insert((tensor.graph, index)) {
            continue;
        }
        let Some(node) = program.graph(tensor.graph).and_then(|graph| graph.net.node_weight(index)) else { continue };
        waiting.extend(node.inputs.iter().flatten());
        for graph in node.children.iter().filter_map(|&child| program.graph(child)) {
            waiting.extend(graph.outputs.iter().flatten());
        }
    }
    alive
}

fn is_real_fact(fact: &Fact) -> bool {
    match fact {
        Fact::Tensor(tensor) => tensor.element.is_none_or(|element| element.is_real() || element.is_complex()),
        Fact::Sequence(sequence) => sequence.facts().iter().any(is_real_fact),
        Fact::Optional(inner) => is_real_fact(inner),
        Fact::Map | Fact::Unknown => false,
    }
}
