//! Model-local functions: a call is replaced by the function's body, with the call chain kept in the places.

use std::rc::Rc;
use std::sync::Arc;

use super::header::collect;
use super::keys::join;
use super::{Frame, Names, Resolver};
use crate::diagnostics::{Code, Diagnostic};
use crate::frontend::onnx::model::{FunctionDef, Name, NodeDef};
use crate::ir::graph::{Node, TensorId};
use crate::ir::hash::{HashMap, HashSet};
use crate::ir::place::PlaceData;
use crate::ops::{NodeView, Operator, table};

/// Functions may call each other this deep.
const MAX_CALLS: usize = 64;

impl<'m> Resolver<'m> {
    /// Puts the body of a function in the place of its call.
    #[allow(clippy::too_many_arguments, reason = "a call joins the caller's world and the function's")]
    pub(super) fn inline(
        &mut self,
        function: &'m FunctionDef,
        call: &NodeDef,
        key: &Arc<str>,
        inputs: Vec<Option<TensorId>>,
        outputs: Vec<Option<TensorId>>,
        names: &Names<'_>,
        frame: &Frame,
        reads: &mut HashSet<TensorId>,
    ) {
        let id = (function.domain.clone(), function.name.clone());
        let inner = self.inner_frame(function, call, key, frame, id);
        let mut body = Names { here: HashMap::default(), outer: None, graph: names.graph };
        for (formal, actual) in function.inputs.iter().zip(&inputs) {
            if let Some(actual) = actual {
                body.here.insert(formal.clone(), *actual);
            }
        }
        let produced: HashSet<&Name> = function.nodes.iter().flat_map(|node| &node.outputs).collect();
        let mut bound = HashMap::default();
        let mut passed = Vec::new();
        for (formal, actual) in function.outputs.iter().zip(&outputs) {
            let Some(actual) = actual else { continue };
            if produced.contains(formal) && !bound.contains_key(formal) {
                bound.insert(formal.clone(), *actual);
            } else {
                // The output is an input of the function, or given twice: it takes a node of its own.
                passed.push((formal, *actual));
            }
        }
        // Inputs that the caller leaves out are left out of the body's nodes as well.
        let missing: HashSet<&Name> =
            function.inputs.iter().filter(|formal| !body.here.contains_key(*formal)).collect();
        if missing.is_empty() {
            self.body(&function.nodes, &mut body, &inner, &bound, reads);
        } else {
            let nodes: Vec<_> = function.nodes.iter().map(|node| without_inputs(node, &missing)).collect();
            self.body(&nodes, &mut body, &inner, &bound, reads);
        }
        self.program.node_count = self.program.node_count.saturating_sub(1);
        self.declare_inner(function, &body);
        for (formal, actual) in passed {
            self.pass_through(formal, actual, &body, &inner, call);
        }
    }

    fn inner_frame(
        &mut self,
        function: &FunctionDef,
        call: &NodeDef,
        key: &Arc<str>,
        frame: &Frame,
        id: (Name, Name),
    ) -> Frame {
        let mut attributes: HashMap<_, _> = function.attributes.iter().map(|name| (name.clone(), None)).collect();
        for default in &function.attribute_defaults {
            attributes.insert(default.name.clone(), Some(default.clone()));
        }
        for attribute in &call.attributes {
            attributes.insert(attribute.name.clone(), Some(attribute.clone()));
        }
        let opsets = if function.opset_imports.is_empty() {
            frame.opsets.clone()
        } else {
            let mut opsets = collect(&function.opset_imports, &mut self.diagnostics);
            for (domain, version) in &*frame.opsets {
                opsets.entry(domain.clone()).or_insert(*version);
            }
            Rc::new(opsets)
        };
        let mut calls = frame.calls.clone();
        calls.push(id);
        Frame {
            path: format!("fn:{}@{key}", function.name).into(),
            prefix: key.clone(),
            scope: join(&[&frame.scope, &call.name]).into(),
            opsets,
            attributes: Rc::new(attributes),
            calls,
            depth: frame.depth,
        }
    }

    fn declare_inner(&mut self, function: &FunctionDef, body: &Names<'_>) {
        for info in &function.value_info {
            let Some(&tensor) = body.here.get(&info.name) else { continue };
            if let Some(tensor) = self.program.tensors.get_mut(tensor.0 as usize)
                && tensor.declared.is_none()
            {
                tensor.declared.clone_from(&info.ty);
            }
        }
    }

    fn pass_through(&mut self, formal: &Name, actual: TensorId, body: &Names<'_>, frame: &Frame, call: &NodeDef) {
        let Some(source) = body.find(formal) else {
            let message = format!("function output {:?} has no producer", &**formal);
            self.report(Diagnostic::new(Code::UndefinedTensor, message), frame, Some(formal.clone()), Some(call.span));
            return;
        };
        let key: Arc<str> = format!("{}/{formal}", frame.prefix).into();
        let place = self.program.places.add(PlaceData {
            graph: frame.path.clone(),
            node: Some(key.clone()),
            span: Some(call.span),
            ..PlaceData::default()
        });
        let node = Node {
            key,
            name: "".into(),
            op: "Identity".into(),
            scope: frame.scope.clone(),
            class: None,
            operator: identity(),
            inputs: vec![Some(source)],
            outputs: vec![Some(actual)],
            children: Vec::new(),
            place,
        };
        if let Some(graph) = self.program.graphs.get_mut(body.graph.0 as usize) {
            let index = graph.net.add_node(node);
            self.set_origin(actual, index);
        }
    }
}

/// Why a call cannot be replaced by the function's body.
pub(super) fn refusal(function: &FunctionDef, call: &NodeDef, frame: &Frame) -> Option<Diagnostic> {
    let name = &*function.name;
    let recursive = frame.calls.contains(&(function.domain.clone(), function.name.clone()));
    if recursive {
        let chain: Vec<_> = frame.calls.iter().map(|(_, name)| &**name).chain([name]).collect();
        let message = format!("function {name:?} calls itself: {}", chain.join(" -> "));
        return Some(Diagnostic::new(Code::RecursiveFunction, message));
    }
    if frame.calls.len() >= MAX_CALLS {
        let message = format!("function {name:?} is called through more than {MAX_CALLS} other functions");
        return Some(Diagnostic::new(Code::NestedTooDeep, message));
    }
    (call.inputs.len() > function.inputs.len() || call.outputs.len() > function.outputs.len()).then(|| {
        let message = format!(
            "function {name:?} has {} inputs and {} outputs; the call gives {} and {}",
            function.inputs.len(),
            function.outputs.len(),
            call.inputs.len(),
            call.outputs.len(),
        );
        Diagnostic::new(Code::WrongArity, message)
    })
}

fn without_inputs(node: &NodeDef, missing: &HashSet<&Name>) -> NodeDef {
    let mut node = node.clone();
    for input in &mut node.inputs {
        if missing.contains(&*input) {
            *input = "".into();
        }
    }
    node
}

fn identity() -> Option<Arc<dyn Operator>> {
    let node = NodeDef { op_type: "Identity".into(), ..NodeDef::default() };
    let entry = table::find("", "Identity")?;
    (entry.build)(&NodeView::new(&node, super::header::NEWEST_OPSET)).ok().map(Arc::from)
}
