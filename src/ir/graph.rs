//! The graph: operators joined by the tensors that flow between them. Subgraphs are graphs of their own, functions are
//! inlined. A graph holds no shapes; what is known of tensors lies beside it, by [`TensorId`].

use std::ops::Range;
use std::sync::Arc;

use petgraph::stable_graph::{NodeIndex, StableDiGraph};

use super::element_type::ElementType;
use super::hash::HashSet;
use super::place::{Place, Places};
use crate::frontend::onnx::model::{Name, TensorDef, TypeDef};
use crate::ops::Operator;

/// A call of a function that its body has replaced.
#[derive(Clone, Debug)]
pub struct Call {
    /// Where the call stands.
    pub place: Place,
    /// First output, if it is used.
    pub output: Option<TensorId>,
    /// The graph that the body's nodes have joined.
    pub graph: GraphId,
    /// Their indices there, those of inner calls among them.
    pub nodes: Range<usize>,
}

/// A tensor of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);

/// A graph of a program; 0 is the main graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphId(pub u32);

/// A stored tensor of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoredId(pub u32);

/// All graphs of a file, ready to be analysed.
#[derive(Debug, Default)]
pub struct Program {
    /// The main graph, then subgraphs as they were met.
    pub graphs: Vec<Graph>,
    /// Every tensor.
    pub tensors: Vec<Tensor>,
    /// Stored tensors: initializers and `Constant` nodes.
    pub stored: Vec<Stored>,
    /// Tensors without values that are said to repeat another one.
    pub tied: HashSet<Name>,
    /// Stored tensors that training leaves alone by the word of the file.
    pub not_trained: HashSet<Name>,
    /// Calls of functions, whose nodes stand in the graphs of the callers.
    pub calls: Vec<Call>,
    /// Places of nodes and tensors.
    pub places: Places,
    /// Nodes of the file, functions inlined, `Constant` nodes included.
    pub node_count: usize,
}

/// A graph.
#[derive(Debug, Default)]
pub struct Graph {
    /// `main`, `main/if0/then`, ...
    pub path: Arc<str>,
    /// Nodes, joined by the tensors that flow from one to the other.
    pub net: StableDiGraph<Node, TensorId>,
    /// Nodes in an order in which each stands behind those it reads from, close to the file's.
    pub order: Vec<NodeIndex>,
    /// Inputs that are not stored.
    pub inputs: Vec<TensorId>,
    /// Outputs; `None` where the name has no producer.
    pub outputs: Vec<Option<TensorId>>,
}

/// A node: an operator with its inputs and outputs.
#[derive(Debug)]
pub struct Node {
    /// Stable key: the node's name, else `Op#k` by graph path and scope.
    pub key: Arc<str>,
    /// The node's name; empty when it has none.
    pub name: Name,
    /// Operator with its domain unless standard: `Conv`, `com.microsoft.FastGelu`.
    pub op: Arc<str>,
    /// Module path.
    pub scope: Arc<str>,
    /// Class of the Keras layer that the node belongs to.
    pub class: Option<Name>,
    /// The operator, which equal nodes share; `None` when it has no rule or could not be built.
    pub operator: Option<Arc<dyn Operator>>,
    /// Inputs; `None` where one is left out.
    pub inputs: Vec<Option<TensorId>>,
    /// Outputs; `None` where one is left out.
    pub outputs: Vec<Option<TensorId>>,
    /// Subgraphs, in the order of the node's graph attributes.
    pub children: Vec<GraphId>,
    /// Where it stands.
    pub place: Place,
}

/// A tensor.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Name in its graph.
    pub name: Name,
    /// The graph that it belongs to.
    pub graph: GraphId,
    /// Path of functions and graphs in front of the name; empty in the main graph.
    pub prefix: Arc<str>,
    /// Where its value comes from.
    pub origin: Origin,
    /// Type that the file declares.
    pub declared: Option<TypeDef>,
}

impl Tensor {
    /// The name, with the path in front where it is not of the main graph.
    #[must_use]
    pub fn path(&self) -> String {
        if self.prefix.is_empty() { self.name.to_string() } else { format!("{}/{}", self.prefix, self.name) }
    }
}

/// Where the value of a tensor comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An input of its graph.
    Input,
    /// Stored in the file.
    Stored(StoredId),
    /// Output of a node.
    Node(NodeIndex),
    /// Nothing: the file is broken there.
    Undefined,
}

/// A stored tensor.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Dims, type and payload.
    pub def: TensorDef,
    /// The tensor that holds it.
    pub tensor: TensorId,
    /// What it stands in.
    pub holder: Holder,
    /// Where.
    pub place: Place,
}

/// What a stored tensor stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// An initializer of a graph.
    Initializer,
    /// An initializer that is stored sparsely; dims are those of the dense tensor.
    Sparse,
    /// A `Constant` node.
    Constant,
}

impl Stored {
    /// Element type.
    #[must_use]
    pub fn element(&self) -> Option<ElementType> {
        self.def.element
    }
}

impl Program {
    /// A tensor by its id.
    #[must_use]
    pub fn tensor(&self, id: TensorId) -> Option<&Tensor> {
        self.tensors.get(id.0 as usize)
    }

    /// A graph by its id.
    #[must_use]
    pub fn graph(&self, id: GraphId) -> Option<&Graph> {
        self.graphs.get(id.0 as usize)
    }

    /// A stored tensor by its id.
    #[must_use]
    pub fn stored(&self, id: StoredId) -> Option<&Stored> {
        self.stored.get(id.0 as usize)
    }

    /// Every graph with its id.
    pub fn graphs_with_ids(&self) -> impl Iterator<Item = (GraphId, &Graph)> {
        (0u32..).map(GraphId).zip(&self.graphs)
    }

    /// Every node, graph by graph in running order.
    pub fn nodes(&self) -> impl Iterator<Item = (GraphId, NodeIndex, &Node)> {
        self.graphs_with_ids().flat_map(|(id, graph)| graph.nodes().map(move |(index, node)| (id, index, node)))
    }
}

impl Graph {
    /// Nodes in running order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIndex, &Node)> {
        self.order.iter().filter_map(|&index| self.net.node_weight(index).map(|node| (index, node)))
    }
}
