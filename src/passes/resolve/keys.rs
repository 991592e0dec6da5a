//! Stable keys and scopes of nodes. A key survives edits elsewhere in the graph, so that reports can be compared.

use std::sync::Arc;

use crate::frontend::onnx::model::{NodeDef, SCOPE};
use crate::ir::hash::{HashMap, HashSet};

/// Hands out keys, each once.
#[derive(Default)]
pub(super) struct Keys {
    taken: HashSet<Arc<str>>,
    counters: HashMap<String, usize>,
}

impl Keys {
    /// The key of a node: its name, else `Op#k` by path and scope. `path` is empty in the main graph.
    pub(super) fn key(&mut self, node: &NodeDef, path: &str, scope: &str) -> Arc<str> {
        let wish = if node.name.is_empty() {
            let place = join(&[path, scope, &node.op_type]);
            let count = self.next(&place);
            format!("{place}#{count}")
        } else {
            join(&[path, &node.name])
        };
        self.unique(wish)
    }

    /// How many nodes asked for this before.
    pub(super) fn next(&mut self, place: &str) -> usize {
        let counter = self.counters.entry(place.to_owned()).or_insert(0);
        *counter += 1;
        *counter - 1
    }

    fn unique(&mut self, wish: String) -> Arc<str> {
        let mut key: Arc<str> = wish.as_str().into();
        while !self.taken.insert(key.clone()) {
            let repeat = self.next(&format!("{wish}~"));
            key = format!("{wish}~{}", repeat + 2).into();
        }
        key
    }
}

/// The parts that are not empty, joined by slashes.
pub(super) fn join(parts: &[&str]) -> String {
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("/")
}

/// The module path of a node: what the exporter wrote into the metadata, else the name's (or, without one, the first
/// output's) path without its last part.
pub(super) fn scope_of(node: &NodeDef) -> String {
    let metadata = |key: &str| node.metadata.iter().find(|(name, _)| &**name == key).map(|(_, value)| &**value);
    if let Some(scope) = metadata(SCOPE) {
        return scope.to_owned();
    }
    if let Some(scopes) = metadata("pkg.torch.onnx.name_scopes") {
        // A Python list of the modules around the node: ['', 'layer1', 'layer1.0', 'conv'].
        let parts: Vec<_> =
            scopes.trim_matches(['[', ']']).split(',').map(|part| part.trim().trim_matches(['\'', '"'])).collect();
        if let Some(module) = parts.iter().rev().nth(1).filter(|module| !module.is_empty()) {
            return (*module).to_owned();
        }
    }
    let name = if node.name.is_empty() { node.outputs.first().map_or("", |output| output) } else { &node.name };
    let path = name.trim_start_matches('/');
    path.rsplit_once('/').map_or("", |(scope, _)| scope).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Keys, scope_of};
    use crate::frontend::onnx::model::NodeDef;

    fn node(name: &str, op: &str, output: &str) -> NodeDef {
        NodeDef { name: name.into(), op_type: op.into(), outputs: vec![output.into()], ..NodeDef::default() }
    }

    #[test]
    fn unnamed_nodes_are_counted_by_operator_and_scope() {
        let mut keys = Keys::default();
        assert_eq!(&*keys.key(&node("", "Relu", "a"), "", ""), "Relu#0");
        assert_eq!(&*keys.key(&node("", "Conv", "b"), "", ""), "Conv#0");
        assert_eq!(&*keys.key(&node("", "Relu", "c"), "", ""), "Relu#1");
        assert_eq!(&*keys.key(&node("", "Relu", "d"), "main/if0/then", "block"), "main/if0/then/block/Relu#0");
    }

    #[test]
    fn repeated_names_stay_apart() {
        let mut keys = Keys::default();
        assert_eq!(&*keys.key(&node("fc", "Gemm", "a"), "", ""), "fc");
        assert_eq!(&*keys.key(&node("fc", "Gemm", "b"), "", ""), "fc~2");
    }

    #[test]
    fn scopes_come_from_names_and_metadata() {
        assert_eq!(scope_of(&node("/layer1/layer1.0/conv1/Conv", "Conv", "x")), "layer1/layer1.0/conv1");
        assert_eq!(scope_of(&node("", "Conv", "/stem/Conv_output_0")), "stem");
        let mut with_metadata = node("node_conv", "Conv", "x");
        with_metadata
            .metadata
            .push(("pkg.torch.onnx.name_scopes".into(), "['', 'layer1', 'layer1.0', 'conv2d']".into()));
        assert_eq!(scope_of(&with_metadata), "layer1.0");
    }
}
