//! Names to edges: a model tree becomes a [`Program`]. Functions are inlined, subgraphs become graphs of their own,
//! every node gets its operator, its stable key, its scope and its place. Nothing is inferred here.

mod bodies;
mod header;
mod inline;
mod keys;
mod nodes;
mod order;
mod shared;
mod suggest;

use std::rc::Rc;
use std::sync::Arc;

use petgraph::stable_graph::NodeIndex;

pub use self::bodies::has_body;
use self::header::Opsets;
use self::keys::Keys;
use self::shared::Shared;
use crate::diagnostics::{Code, Diagnostic};
use crate::frontend::onnx::decode::MAX_GRAPHS;
use crate::frontend::onnx::model::{
    AttributeDef, AttributeValue, FunctionDef, GraphDef, Model, NOT_TRAINED, Name, NodeDef, SparseTensorDef, TIED,
    TensorDef,
};
use crate::ir::graph::{Graph, GraphId, Holder, Origin, Program, Stored, StoredId, Tensor, TensorId};
use crate::ir::hash::{HashMap, HashSet};
use crate::ir::place::{Place, PlaceData, Places};

/// Nodes that a program may have.
const NODE_BUDGET: usize = 1_000_000;

/// Nodes that inlined functions may add to those that stand in the file: a function can double the graph at every level.
const INLINE_BUDGET: usize = 100_000;

/// Names without producer for which a nearest one is looked for.
const SUGGESTIONS: usize = 20;

/// Resolves a model; its places are added to those that are given. The program of a model that passes the budget of
/// nodes is empty.
#[must_use]
pub fn resolve(model: &Model, places: Places) -> (Program, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    let opsets = Rc::new(header::read_imports(model, &mut diagnostics));
    let mut functions = HashMap::default();
    for function in &model.functions {
        let key = (header::standard(&function.domain), &*function.name, &*function.overload);
        functions.entry(key).or_insert(function);
    }
    let own =
        nodes_in(&model.graph.nodes) + model.functions.iter().map(|function| nodes_in(&function.nodes)).sum::<usize>();
    let mut resolver = Resolver {
        functions,
        program: Program {
            places,
            tied: named(model, TIED),
            not_trained: named(model, NOT_TRAINED),
            ..Program::default()
        },
        diagnostics,
        keys: Keys::default(),
        shared: Shared::default(),
        captures: HashMap::default(),
        unknown: HashMap::default(),
        suggestions: SUGGESTIONS,
        undefined: HashMap::default(),
        budget: (own + INLINE_BUDGET).min(NODE_BUDGET),
        over_budget: own > NODE_BUDGET,
    };
    let frame = Frame {
        path: "main".into(),
        prefix: "".into(),
        scope: "".into(),
        opsets,
        attributes: Rc::default(),
        calls: Vec::new(),
        depth: 0,
    };
    if resolver.over_budget {
        let message = format!("the file has {own} nodes, allowed are {NODE_BUDGET}");
        resolver.report(Diagnostic::new(Code::TooManyNodes, message), &frame, None, None);
    } else {
        resolver.graph(&model.graph, None, &frame);
    }
    if resolver.over_budget {
        let Program { places, .. } = resolver.program;
        return (Program { places, ..Program::default() }, resolver.diagnostics);
    }
    (resolver.program, resolver.diagnostics)
}

/// What the file says of stored tensors beside their values.
fn named(model: &Model, what: &str) -> HashSet<Name> {
    model.graph.metadata.iter().filter(|(key, _)| &**key == what).map(|(_, tensor)| tensor.clone()).collect()
}

/// Nodes of a body and of the graphs in its attributes.
fn nodes_in(nodes: &[NodeDef]) -> usize {
    let inside = |attribute: &AttributeDef| match &attribute.value {
        AttributeValue::Graph(graph) => nodes_in(&graph.nodes),
        AttributeValue::Graphs(graphs) => graphs.iter().map(|graph| nodes_in(&graph.nodes)).sum(),
        _ => 0,
    };
    nodes.len() + nodes.iter().flat_map(|node| &node.attributes).map(inside).sum::<usize>()
}

struct Resolver<'m> {
    functions: HashMap<(&'m str, &'m str, &'m str), &'m FunctionDef>,
    program: Program,
    diagnostics: Vec<Diagnostic>,
    keys: Keys,
    shared: Shared,
    /// For each graph the nodes whose subgraphs read tensors from around them.
    captures: HashMap<GraphId, Vec<(NodeIndex, Vec<TensorId>)>>,
    /// Diagnostics of unknown operators, by domain and name.
    unknown: HashMap<(String, String), usize>,
    /// Suggestions that may still be looked for: each compares a name with all others.
    suggestions: usize,
    /// Diagnostics of names without producer, by the function call around them and name.
    undefined: HashMap<(Arc<str>, Name), usize>,
    /// Nodes that the program may have.
    budget: usize,
    over_budget: bool,
}

/// What holds for the nodes of one graph or function body.
#[derive(Clone)]
struct Frame {
    /// Graph path that places show.
    path: Arc<str>,
    /// Path in front of tensor names; empty in the main graph.
    prefix: Arc<str>,
    /// Module path of the call that the body stands for.
    scope: Arc<str>,
    opsets: Rc<Opsets>,
    /// Values of the attributes that a function body may refer to.
    attributes: Rc<HashMap<Name, Option<AttributeDef>>>,
    /// Functions that are being inlined, outermost first.
    calls: Vec<(Name, Name)>,
    /// Graphs and functions around the nodes.
    depth: usize,
}

/// Names that nodes can read, innermost graph first.
struct Names<'p> {
    here: HashMap<Name, TensorId>,
    outer: Option<&'p Names<'p>>,
    graph: GraphId,
}

impl Names<'_> {
    fn find(&self, name: &str) -> Option<TensorId> {
        let mut names = Some(self);
        while let Some(scope) = names {
            if let Some(&tensor) = scope.here.get(name) {
                return Some(tensor);
            }
            names = scope.outer;
        }
        None
    }

    fn candidates(&self) -> Vec<&str> {
        let mut list = Vec::new();
        let mut names = Some(self);
        while let Some(scope) = names {
            list.extend(scope.here.keys().map(|name| &**name));
            names = scope.outer;
        }
        list.sort_unstable();
        list
    }
}

impl<'m> Resolver<'m> {
    /// Resolves a graph; gives its id and the tensors of outer graphs that it reads.
    fn graph(&mut self, def: &GraphDef, outer: Option<&Names<'_>>, frame: &Frame) -> (GraphId, Vec<TensorId>) {
        let id = GraphId(u32::try_from(self.program.graphs.len()).unwrap_or(u32::MAX));
        self.program.graphs.push(Graph { path: frame.path.clone(), ..Graph::default() });
        if frame.depth > MAX_GRAPHS {
            let message = format!("graphs and functions are nested deeper than {MAX_GRAPHS} graphs");
            self.report(Diagnostic::new(Code::NestedTooDeep, message), frame, None, None);
            return (id, Vec::new());
        }
        let mut names = Names { here: HashMap::default(), outer, graph: id };
        self.inputs_and_stored(def, &mut names, frame);
        let mut reads = HashSet::default();
        self.body(&def.nodes, &mut names, frame, &HashMap::default(), &mut reads);
        self.declare(def, &names);
        let outputs = self.outputs(def, &names, frame);
        reads.extend(outputs.iter().flatten().copied().filter(|&tensor| self.graph_of(tensor) != Some(id)));
        if let Some(graph) = self.program.graphs.get_mut(id.0 as usize) {
            graph.outputs = outputs;
        }
        self.join(id, frame);
        let mut reads: Vec<_> = reads.into_iter().filter(|&tensor| self.graph_of(tensor) != Some(id)).collect();
        reads.sort_unstable();
        (id, reads)
    }

    fn inputs_and_stored(&mut self, def: &GraphDef, names: &mut Names<'_>, frame: &Frame) {
        let sparse_name = |sparse: &SparseTensorDef| sparse.values.name.clone();
        let stored: HashSet<Name> = def
            .initializers
            .iter()
            .map(|tensor| tensor.name.clone())
            .chain(def.sparse_initializers.iter().map(sparse_name))
            .collect();
        for input in &def.inputs {
            // Before IR version 4 every initializer is listed as an input too; since then it is a default.
            if stored.contains(&input.name) {
                continue;
            }
            let tensor = self.tensor(&input.name, names.graph, frame, Origin::Input);
            if let Some(tensor) = self.program.tensors.get_mut(tensor.0 as usize) {
                tensor.declared.clone_from(&input.ty);
            }
            if names.here.insert(input.name.clone(), tensor).is_some() {
                self.duplicate(&input.name, "two inputs", frame, input.span);
            }
            if let Some(graph) = self.program.graphs.get_mut(names.graph.0 as usize) {
                graph.inputs.push(tensor);
            }
        }
        self.program.stored.reserve(def.initializers.len());
        self.program.tensors.reserve(def.initializers.len() + def.nodes.len());
        for tensor in &def.initializers {
            self.store(tensor.clone(), &tensor.name, Holder::Initializer, names, frame);
        }
        for sparse in &def.sparse_initializers {
            let dense = TensorDef { dims: sparse.dims.clone(), ..sparse.values.clone() };
            self.store(dense, &sparse.values.name, Holder::Sparse, names, frame);
        }
    }

    fn store(&mut self, def: TensorDef, name: &Name, holder: Holder, names: &mut Names<'_>, frame: &Frame) {
        let span = def.span;
        let stored = StoredId(u32::try_from(self.program.stored.len()).unwrap_or(u32::MAX));
        let tensor = self.tensor(name, names.graph, frame, Origin::Stored(stored));
        if names.here.insert(name.clone(), tensor).is_some() {
            self.duplicate(name, "two stored tensors or a stored tensor and something else", frame, span);
        }
        let place = self.program.places.add(PlaceData {
            graph: frame.path.clone(),
            tensor: Some(name.clone()),
            span: Some(span),
            ..PlaceData::default()
        });
        self.program.stored.push(Stored { def, tensor, holder, place });
    }

    fn tensor(&mut self, name: &Name, graph: GraphId, frame: &Frame, origin: Origin) -> TensorId {
        let id = TensorId(u32::try_from(self.program.tensors.len()).unwrap_or(u32::MAX));
        self.program.tensors.push(Tensor {
            name: name.clone(),
            graph,
            prefix: frame.prefix.clone(),
            origin,
            declared: None,
        });
        id
    }

    fn declare(&mut self, def: &GraphDef, names: &Names<'_>) {
        for info in def.value_info.iter().chain(&def.outputs) {
            let Some(&tensor) = names.here.get(&info.name) else { continue };
            if let Some(tensor) = self.program.tensors.get_mut(tensor.0 as usize)
                && tensor.declared.is_none()
            {
                tensor.declared.clone_from(&info.ty);
            }
        }
    }

    fn outputs(&mut self, def: &GraphDef, names: &Names<'_>, frame: &Frame) -> Vec<Option<TensorId>> {
        def.outputs
            .iter()
            .map(|output| {
                let found = names.find(&output.name);
                if found.is_none() {
                    let message = format!("graph output {:?} has no producer", &*output.name);
                    let mut diagnostic = Diagnostic::new(Code::UndefinedTensor, message);
                    diagnostic.help = self.did_you_mean(&output.name, names);
                    self.report(diagnostic, frame, Some(output.name.clone()), Some(output.span));
                }
                found
            })
            .collect()
    }

    /// A help text with the nearest name, for the first few names only.
    fn did_you_mean(&mut self, name: &str, names: &Names<'_>) -> Option<String> {
        self.suggestions = self.suggestions.checked_sub(1)?;
        suggest::did_you_mean(name, names.candidates())
    }

    fn graph_of(&self, tensor: TensorId) -> Option<GraphId> {
        self.program.tensor(tensor).map(|tensor| tensor.graph)
    }

    fn duplicate(&mut self, name: &Name, what: &str, frame: &Frame, span: crate::ir::place::Span) {
        let message = format!("the name {:?} is given to {what} of one graph", &**name);
        self.report(Diagnostic::new(Code::DuplicateName, message), frame, Some(name.clone()), Some(span));
    }

    fn report(
        &mut self,
        diagnostic: Diagnostic,
        frame: &Frame,
        tensor: Option<Name>,
        span: Option<crate::ir::place::Span>,
    ) {
        let place =
            self.program.places.add(PlaceData { graph: frame.path.clone(), tensor, span, ..PlaceData::default() });
        self.diagnostics.push(diagnostic.at(place));
    }

    fn report_at(&mut self, diagnostic: Diagnostic, place: Place) {
        self.diagnostics.push(diagnostic.at(place));
    }

    fn set_origin(&mut self, tensor: TensorId, node: NodeIndex) {
        if let Some(tensor) = self.program.tensors.get_mut(tensor.0 as usize) {
            tensor.origin = Origin::Node(node);
        }
    }
}
