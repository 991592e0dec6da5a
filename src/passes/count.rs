//! Cost of every node as formulas, and which nodes are layers: those that do work when the model runs.

use std::collections::HashSet;

use petgraph::stable_graph::NodeIndex;

use super::infer::{Inference, Outcome, is_folded};
use super::parameters::{Kind, Usage};
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, VALUE_LIMIT};
use crate::ir::graph::{GraphId, Node, Origin, Program, TensorId};
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

/// Counts every layer that was reached, in running order, subgraphs behind their node.
#[must_use]
pub fn count(
    program: &Program,
    inference: &Inference,
    usages: &[Usage],
    frozen: &HashSet<(GraphId, NodeIndex)>,
) -> Vec<Layer> {
    let mut counter = Counter {
        program,
        inference,
        needs_gradient: vec![false; program.tensors.len()],
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
    }
    counter.graph(GraphId(0));
    counter.layers
}

struct Counter<'a> {
    program: &'a Program,
    inference: &'a Inference,
    needs_gradient: Vec<bool>,
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
        if self.is_shape_arithmetic(&outputs) || !self.alive.contains(&(graph, index)) {
            return;
        }
        let cost = match (&node.operator, outcome) {
            (Some(operator), Outcome::Inferred) => operator.cost(&CostCx::new(&inputs, &outputs, &gradients)),
            _ => None,
        };
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
        self.graph(child);
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

    /// Known values of few elements: computed here, not when the model runs.
    fn is_shape_arithmetic(&self, outputs: &[Option<&Fact>]) -> bool {
        let small = |fact: &Fact| {
            let elements =
                fact.as_tensor().and_then(|tensor| tensor.shape.as_ref()).and_then(|shape| shape.elements().as_usize());
            elements.is_some_and(|elements| elements <= VALUE_LIMIT)
        };
        let mut given = outputs.iter().flatten().peekable();
        given.peek().is_some() && given.all(|fact| is_folded(fact) && small(fact))
    }
}

/// Nodes that an output depends on. The others are never run.
fn alive(program: &Program) -> HashSet<(GraphId, NodeIndex)> {
    let mut alive = HashSet::new();
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
        Fact::Sequence { element, .. } => is_real_fact(element),
        Fact::Optional(inner) => is_real_fact(inner),
        Fact::Map | Fact::Unknown => false,
    }
}
