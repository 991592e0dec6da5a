//! Nodes of a graph or a function body: their tensors, operators, subgraphs and places.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::bodies;
use super::header::{NEWEST_OPSET, standard};
use super::inline::refusal;
use super::keys::{join, scope_of};
use super::{Frame, Names, Resolver, suggest};
use crate::diagnostics::{Code, Diagnostic};
use crate::frontend::onnx::model::{
    AttributeDef, AttributeValue, FunctionDef, GraphDef, KERAS, LAYER_CLASS, LAYER_NAME, Name, NodeDef, OPAQUE,
    Payload, SHAPED, TensorDef,
};
use crate::ir::element_type::ElementType;
use crate::ir::graph::{Call, GraphId, Holder, Node, Origin, Program, Stored, StoredId, TensorId};
use crate::ir::hash::{HashMap, HashSet};
use crate::ir::place::{Place, PlaceData};
use crate::ops::{NodeView, Operator, table};

impl<'m> Resolver<'m> {
    /// Resolves the nodes of a body. `bound` gives tensors that outputs of these names already have (the outputs of a
    /// function's call); `reads` collects what is read from outer graphs.
    pub(super) fn body(
        &mut self,
        nodes: &[NodeDef],
        names: &mut Names<'_>,
        frame: &Frame,
        bound: &HashMap<Name, TensorId>,
        reads: &mut HashSet<TensorId>,
    ) {
        for node in nodes {
            self.define_outputs(node, names, frame, bound);
        }
        for (index, node) in nodes.iter().enumerate() {
            if self.over_budget {
                return;
            }
            if self.program.node_count >= self.budget {
                self.over_budget = true;
                let message = format!("the graph has more than {} nodes once functions are inlined", self.budget);
                self.report(Diagnostic::new(Code::TooManyNodes, message), frame, None, Some(node.span));
                return;
            }
            let node = substitute(node, frame);
            self.program.node_count += 1;
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            if is_constant(&node) {
                self.constant(&node, index, names, frame);
            } else {
                self.node(&node, index, names, frame, reads);
            }
        }
    }

    fn define_outputs(
        &mut self,
        node: &NodeDef,
        names: &mut Names<'_>,
        frame: &Frame,
        bound: &HashMap<Name, TensorId>,
    ) {
        for output in node.outputs.iter().filter(|output| !output.is_empty()) {
            let tensor = match bound.get(output) {
                Some(&tensor) => tensor,
                None => self.tensor(output, names.graph, frame, Origin::Undefined),
            };
            if let Some(&first) = names.here.get(output)
                && !bound.contains_key(output)
            {
                let message = format!("tensor {:?} has two producers; the first one counts", &**output);
                let diagnostic = Diagnostic::new(Code::DuplicateName, message);
                self.report(diagnostic, frame, Some(output.clone()), Some(node.span));
                names.here.insert(output.clone(), first);
            } else {
                names.here.insert(output.clone(), tensor);
            }
        }
    }

    fn node(
        &mut self,
        node: &NodeDef,
        index: u32,
        names: &mut Names<'_>,
        frame: &Frame,
        reads: &mut HashSet<TensorId>,
    ) {
        let key = self.keys.key(node, &frame.prefix, &scope_of(node));
        let place = self.place(node, index, &key, frame);
        let inputs = self.inputs(node, &key, names, frame, place);
        for &input in inputs.iter().flatten() {
            if self.graph_of(input) != Some(names.graph) {
                reads.insert(input);
            }
        }
        let outputs: Vec<_> = node
            .outputs
            .iter()
            .map(|output| names.here.get(output).copied().filter(|_| !output.is_empty()))
            .map(|output| output.filter(|&tensor| self.is_free(tensor)))
            .collect();
        let function = self.function(node, frame);
        let operator = match function.map(|function| (function, refusal(function, node, frame))) {
            Some((function, None)) => {
                let nodes = |program: &Program| program.graph(names.graph).map_or(0, |graph| graph.net.node_count());
                let first = nodes(&self.program);
                let output = outputs.first().copied().flatten();
                self.inline(function, node, &key, inputs, outputs, names, frame, reads);
                let nodes = first..nodes(&self.program);
                self.program.calls.push(Call { place, output, graph: names.graph, nodes });
                return;
            }
            Some((_, Some(refusal))) => {
                self.report_at(refusal, place);
                None
            }
            None => self.operator(node, &key, frame, place),
        };
        let (children, captured) = self.children(node, names, frame);
        let scope = join(&[&frame.scope, &scope_of(node)]);
        // An operator of Keras has the name of the standard one where they mean the same.
        let op = if standard(&node.domain).is_empty() || &*node.domain == KERAS {
            node.op_type.clone()
        } else {
            format!("{}.{}", node.domain, node.op_type).into()
        };
        let built = Node {
            key,
            name: metadata(node, LAYER_NAME).unwrap_or(&node.name).clone(),
            op: metadata(node, LAYER_CLASS)
                .filter(|_| matches!(&*node.op_type, OPAQUE | SHAPED))
                .cloned()
                .unwrap_or(op),
            scope: scope.into(),
            class: metadata(node, LAYER_CLASS).cloned(),
            operator,
            inputs,
            outputs: outputs.clone(),
            children,
            place,
        };
        let Some(graph) = self.program.graphs.get_mut(names.graph.0 as usize) else { return };
        let id = graph.net.add_node(built);
        for &output in outputs.iter().flatten() {
            self.set_origin(output, id);
        }
        reads.extend(captured.iter().copied().filter(|&tensor| self.graph_of(tensor) != Some(names.graph)));
        if !captured.is_empty() {
            self.captures.entry(names.graph).or_default().push((id, captured));
        }
    }

    /// The body that a node stands for: that of a function of the model, or of an operator that has no rule.
    fn function(&self, node: &NodeDef, frame: &Frame) -> Option<&'m FunctionDef> {
        let domain = standard(&node.domain);
        if let Some(function) = self.functions.get(&(domain, &*node.op_type, &*node.overload)) {
            return Some(function);
        }
        if table::find(domain, &node.op_type).is_some() {
            return None;
        }
        bodies::find(domain, &node.op_type, frame.opsets.get(domain).copied().unwrap_or(NEWEST_OPSET))
    }

    /// Whether nothing produces the tensor yet.
    fn is_free(&self, tensor: TensorId) -> bool {
        self.program.tensor(tensor).is_some_and(|tensor| tensor.origin == Origin::Undefined)
    }

    fn inputs(
        &mut self,
        node: &NodeDef,
        key: &str,
        names: &Names<'_>,
        frame: &Frame,
        place: Place,
    ) -> Vec<Option<TensorId>> {
        let mut list = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            if input.is_empty() {
                list.push(None);
                continue;
            }
            let found = names.find(input);
            if found.is_none() {
                self.undefined(input, key, names, frame, place);
            }
            // An input that nothing produces is a tensor of which nothing is known.
            list.push(Some(found.unwrap_or_else(|| self.tensor(input, names.graph, frame, Origin::Undefined))));
        }
        while matches!(list.last(), Some(None)) {
            list.pop();
        }
        list
    }

    /// Says once for each name that nothing produces it; further nodes that read it are places of the same finding.
    fn undefined(&mut self, input: &Name, key: &str, names: &Names<'_>, frame: &Frame, place: Place) {
        // Bodies of functions have names of their own.
        let world = if frame.calls.is_empty() { "".into() } else { frame.path.clone() };
        let name = (world, input.clone());
        let known = self.undefined.get(&name).copied();
        if let Some(diagnostic) = known.and_then(|index| self.diagnostics.get_mut(index)) {
            if diagnostic.places.last() != Some(&place) {
                diagnostic.places.push(place);
            }
            return;
        }
        self.undefined.insert(name, self.diagnostics.len());
        let message = format!("node {key:?}: input {:?} has no producer", &**input);
        let mut diagnostic = Diagnostic::new(Code::UndefinedTensor, message);
        diagnostic.help = self.did_you_mean(input, names);
        self.report_at(diagnostic, place);
    }

    fn children(&mut self, node: &NodeDef, names: &Names<'_>, frame: &Frame) -> (Vec<GraphId>, Vec<TensorId>) {
        let mut children = Vec::new();
        let mut captured = Vec::new();
        let graphs: Vec<(&Name, &GraphDef)> = node
            .attributes
            .iter()
            .flat_map(|attribute| match &attribute.value {
                AttributeValue::Graph(graph) => vec![(&attribute.name, &**graph)],
                AttributeValue::Graphs(graphs) => graphs.iter().map(|graph| (&attribute.name, graph)).collect(),
                _ => Vec::new(),
            })
            .collect();
        if graphs.is_empty() {
            return (children, captured);
        }
        let op = node.op_type.to_lowercase();
        let count = self.keys.next(&format!("{}:{op}", frame.path));
        for (attribute, graph) in ordered(graphs) {
            let role = attribute.strip_suffix("_branch").unwrap_or(attribute);
            let part = format!("{op}{count}/{role}");
            let path: Arc<str> = format!("{}/{part}", frame.path).into();
            let inner = Frame {
                prefix: path.clone(),
                path,
                scope: join(&[&frame.scope, &scope_of(node)]).into(),
                depth: frame.depth + 1,
                ..frame.clone()
            };
            let (id, reads) = self.graph(graph, Some(names), &inner);
            children.push(id);
            captured.extend(reads);
        }
        captured.sort_unstable();
        captured.dedup();
        (children, captured)
    }

    fn operator(&mut self, node: &NodeDef, key: &str, frame: &Frame, place: Place) -> Option<Arc<dyn Operator>> {
        let domain = standard(&node.domain);
        let Some(entry) = table::find(domain, &node.op_type) else {
            if domain == KERAS && &*node.op_type == OPAQUE {
                return None;
            }
            self.unknown_operator(domain, &node.op_type, place);
            return None;
        };
        let opset = frame.opsets.get(domain).copied().unwrap_or(NEWEST_OPSET);
        let given = node.inputs.iter().rposition(|input| !input.is_empty()).map_or(0, |last| last + 1);
        let needed = node.inputs.iter().take(entry.min_inputs).filter(|input| !input.is_empty()).count();
        let outputs = node.outputs.iter().rposition(|output| !output.is_empty()).map_or(0, |last| last + 1);
        let arity = if needed < entry.min_inputs {
            Some(format!(
                "{} needs {} inputs, {needed} given",
                node.op_type,
                at_least(entry.min_inputs, entry.max_inputs)
            ))
        } else if given > entry.max_inputs {
            Some(format!("{} takes at most {} inputs, {given} given", node.op_type, entry.max_inputs))
        } else if outputs > entry.max_outputs {
            Some(format!("{} gives at most {} outputs, {outputs} named", node.op_type, entry.max_outputs))
        } else {
            None
        };
        if let Some(message) = arity {
            self.report_at(Diagnostic::new(Code::WrongArity, format!("node {key:?}: {message}")), place);
            return None;
        }
        if opset >= entry.withdrawn {
            let message = format!(
                "{} was withdrawn in operator set {}; the model imports {opset}",
                node.op_type, entry.withdrawn
            );
            self.report_at(Diagnostic::new(Code::DeprecatedOperator, message), place);
        }
        match self.shared.operator(node, opset, || (entry.build)(&NodeView::new(node, opset))) {
            Ok(operator) => Some(operator),
            Err(fault) => {
                let message = format!("node {key:?} ({}): {}", node.op_type, fault.message);
                let mut diagnostic = Diagnostic::new(fault.code, message);
                diagnostic.help = fault.help;
                self.report_at(diagnostic, place);
                None
            }
        }
    }

    /// Says once for each operator that it is unknown; further nodes of it are places of the same finding.
    fn unknown_operator(&mut self, domain: &str, op_type: &str, place: Place) {
        let key = (domain.to_owned(), op_type.to_owned());
        let known = self.unknown.get(&key).copied();
        if let Some(diagnostic) = known.and_then(|index| self.diagnostics.get_mut(index)) {
            diagnostic.places.push(place);
            return;
        }
        self.unknown.insert(key, self.diagnostics.len());
        self.report_at(unknown(domain, op_type), place);
    }

    fn constant(&mut self, node: &NodeDef, index: u32, names: &Names<'_>, frame: &Frame) {
        let Some(name) = node.outputs.first().filter(|name| !name.is_empty()) else { return };
        let Some(&tensor) = names.here.get(name) else { return };
        if !self.is_free(tensor) {
            return;
        }
        let place = self.place(node, index, name, frame);
        let Some(def) = constant_tensor(node) else {
            let message = format!("Constant {:?} holds no value that is known", &**name);
            self.report_at(Diagnostic::new(Code::InvalidAttribute, message), place);
            return;
        };
        let stored = StoredId(u32::try_from(self.program.stored.len()).unwrap_or(u32::MAX));
        self.program.stored.push(Stored { def, tensor, holder: Holder::Constant, place });
        if let Some(tensor) = self.program.tensors.get_mut(tensor.0 as usize) {
            tensor.origin = Origin::Stored(stored);
        }
    }

    fn place(&mut self, node: &NodeDef, index: u32, label: &str, frame: &Frame) -> Place {
        self.program.places.add(PlaceData {
            graph: frame.path.clone(),
            node_index: Some(index),
            node: Some(if node.name.is_empty() { label.into() } else { node.name.clone() }),
            output: node.outputs.iter().find(|output| node.name.is_empty() && !output.is_empty()).cloned(),
            tensor: None,
            span: Some(node.span),
        })
    }
}

/// What a frontend says of a node beside ONNX.
fn metadata<'n>(node: &'n NodeDef, key: &str) -> Option<&'n Name> {
    node.metadata.iter().find(|(name, _)| &**name == key).map(|(_, value)| value)
}

/// `then_branch` before `else_branch`, as operators expect their subgraphs.
fn ordered<'a>(mut graphs: Vec<(&'a Name, &'a GraphDef)>) -> Vec<(&'a Name, &'a GraphDef)> {
    graphs.sort_by_key(|(name, _)| &***name == "else_branch");
    graphs
}

fn at_least(min: usize, max: usize) -> String {
    if min == max { min.to_string() } else { format!("at least {min}") }
}

fn is_constant(node: &NodeDef) -> bool {
    &*node.op_type == "Constant" && standard(&node.domain).is_empty()
}

fn unknown(domain: &str, op_type: &str) -> Diagnostic {
    if op_type.is_empty() {
        return Diagnostic::new(Code::UnknownOperator, "a node names no operator: its op_type is empty");
    }
    let elsewhere = table::domains_of(op_type);
    let moved = |domain: &str| {
        let domain = if domain.is_empty() { "ai.onnx" } else { domain };
        format!("{op_type} exists in domain {domain}: set the node's domain")
    };
    if domain.is_empty() {
        if bodies::has_body("", op_type) {
            let message = format!("{op_type} is not in the operator set that the model imports");
            return Diagnostic::new(Code::UnknownOperator, message).help("import a newer operator set");
        }
        let mut diagnostic = Diagnostic::new(Code::UnknownOperator, format!("unknown operator {op_type}"));
        diagnostic.help = match elsewhere.first() {
            Some(other) => Some(moved(other)),
            None => {
                let names = table::names_of("").chain(bodies::names_of(""));
                suggest::nearest(op_type, names).map(|name| format!("did you mean {name}?"))
            }
        };
        return diagnostic;
    }
    if table::knows_domain(domain) {
        let message =
            format!("{domain}.{op_type} has no rule; its outputs are known only where the file declares them");
        let mut diagnostic = Diagnostic::new(Code::OperatorWithoutRule, message);
        diagnostic.help = match elsewhere.first() {
            Some(other) => Some(moved(other)),
            None => suggest::nearest(op_type, table::names_of(domain)).map(|name| format!("did you mean {name}?")),
        };
        return diagnostic;
    }
    let message = format!(
        "{domain}.{op_type}: nothing is known of domain {domain}; its cost is unknown, and so are its outputs where the file \
         does not declare them"
    );
    Diagnostic::new(Code::UnknownDomain, message)
        .help("declare the outputs' shapes in the file (value_info), or define the operator as a model-local function")
}

/// Replaces references to a function's attributes by the caller's values; what the caller leaves out is left out.
fn substitute<'n>(node: &'n NodeDef, frame: &Frame) -> Cow<'n, NodeDef> {
    let is_reference = |attribute: &AttributeDef| matches!(attribute.value, AttributeValue::Reference { .. });
    if !node.attributes.iter().any(is_reference) {
        return Cow::Borrowed(node);
    }
    let mut node = node.clone();
    node.attributes = node
        .attributes
        .into_iter()
        .filter_map(|attribute| match &attribute.value {
            AttributeValue::Reference { name, .. } => {
                let value = frame.attributes.get(name)?.as_ref()?.value.clone();
                Some(AttributeDef { value, ..attribute })
            }
            _ => Some(attribute),
        })
        .collect();
    Cow::Owned(node)
}

/// The tensor that a `Constant` node holds, from whichever attribute holds it.
fn constant_tensor(node: &NodeDef) -> Option<TensorDef> {
    let number = |element: ElementType, dims: Vec<i64>, bytes: Vec<u8>| {
        Some(TensorDef {
            element: Some(element),
            dims,
            data: if bytes.is_empty() { Payload::Missing } else { Payload::Raw(bytes.into()) },
            ..TensorDef::default()
        })
    };
    let text = |dims: Vec<i64>, strings: Vec<Bytes>| {
        Some(TensorDef {
            element: Some(ElementType::String),
            dims,
            data: Payload::Strings(strings),
            ..TensorDef::default()
        })
    };
    let length = |count: usize| vec![i64::try_from(count).unwrap_or(i64::MAX)];
    let mut tensor = node.attributes.iter().find_map(|attribute| match (&*attribute.name, &attribute.value) {
        ("value", AttributeValue::Tensor(tensor)) => Some(tensor.clone()),
        ("sparse_value", AttributeValue::SparseTensor(sparse)) => {
            let data = if sparse.dims.contains(&0) { Payload::Missing } else { sparse.values.data.clone() };
            Some(TensorDef { dims: sparse.dims.clone(), data, ..sparse.values.clone() })
        }
        ("value_int", AttributeValue::Int(value)) => {
            number(ElementType::Int64, Vec::new(), value.to_le_bytes().to_vec())
        }
        ("value_ints", AttributeValue::Ints(values)) => number(
            ElementType::Int64,
            length(values.len()),
            values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        ),
        ("value_float", AttributeValue::Float(value)) => {
            number(ElementType::Float, Vec::new(), value.to_le_bytes().to_vec())
        }
        ("value_floats", AttributeValue::Floats(values)) => number(
            ElementType::Float,
            length(values.len()),
            values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        ),
        ("value_string", AttributeValue::String(value)) => text(Vec::new(), vec![value.clone()]),
        ("value_strings", AttributeValue::Strings(values)) => text(length(values.len()), values.clone()),
        _ => None,
    })?;
    tensor.name = node.outputs.first().cloned().unwrap_or_default();
    tensor.span = node.span;
    Some(tensor)
}
