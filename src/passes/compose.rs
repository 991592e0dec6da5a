//! Puts together what exporters take apart: the operations that a framework runs. A file holds layer normalisation, GELU
//! or attention as a dozen nodes each; what runs is one operator, and its backward pass keeps what that one keeps.

mod activations;
mod attention;
mod norms;

use std::cell::RefCell;
use std::sync::Arc;

use crate::analysis::Analysis;
use crate::frontend::onnx::model::{AttributeDef, AttributeValue, NodeDef};
use crate::ir::graph::{Node, Origin, TensorId};
use crate::ir::hash::HashMap;
use crate::ops::composed::{DotProductAttention, Linear};
use crate::ops::{NodeView, Operator, table};
use crate::runtime::Attention;

/// An operation: a layer, or several that are one operator of the framework.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The layer that it is reported at, by its index in [`Analysis::layers`].
    pub layer: usize,
    /// Other layers that it stands for.
    pub absorbed: Vec<usize>,
    /// The operator; `None` for that of the layer's node.
    pub operator: Option<Arc<dyn Operator>>,
    /// Inputs; `None` where one is left out.
    pub inputs: Vec<Option<TensorId>>,
    /// Outputs; `None` where one is left out.
    pub outputs: Vec<Option<TensorId>>,
}

impl Operation {
    /// Its operator; `None` where the node has no rule.
    #[must_use]
    pub fn operator<'a>(&'a self, analysis: &'a Analysis) -> Option<&'a dyn Operator> {
        match &self.operator {
            Some(operator) => Some(&**operator),
            None => analysis.node(analysis.layers.get(self.layer)?)?.operator.as_deref(),
        }
    }

    /// All layers that it stands for.
    pub fn layers(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::once(self.layer).chain(self.absorbed.iter().copied())
    }
}

/// The operations of all layers, in running order.
#[must_use]
pub fn compose(analysis: &Analysis, attention: Attention) -> Vec<Operation> {
    let mut composer = Composer::new(analysis);
    for layer in 0..analysis.layers.len() {
        let found = composer.node(layer).and_then(|node| match &*node.op {
            "MatMul" if attention == Attention::Fused => composer.attention(layer, node),
            "Add" => {
                let linear = || composer.linear(layer, node);
                composer.layer_norm(layer, node).or_else(|| composer.group_norm(layer, node)).or_else(linear)
            }
            "BatchNormalization" => composer.without_own_statistics(layer, node),
            "Mul" => {
                let gated = || composer.gated(layer, node);
                composer.gelu(layer, node).or_else(gated).or_else(|| composer.scaled_norm(layer, node))
            }
            "ReduceMean" => composer.variance(layer, node),
            _ => None,
        });
        if let Some(found) = found {
            composer.take(found);
        }
    }
    composer.finish()
}

/// What a pattern found.
struct Found {
    /// The last layer of the pattern, whose outputs are the operation's.
    layer: usize,
    absorbed: Vec<usize>,
    operator: Arc<dyn Operator>,
    inputs: Vec<Option<TensorId>>,
}

/// Name of an operator, and values of its attributes.
type Named = (&'static str, Vec<i64>);

struct Composer<'a> {
    analysis: &'a Analysis,
    /// The layer that makes a tensor.
    maker: HashMap<TensorId, usize>,
    /// How many nodes and graph outputs read a tensor.
    readers: Vec<u32>,
    /// By layer: the operation that took it in.
    taken: Vec<bool>,
    made: HashMap<usize, Found>,
    /// Operators by name and values of attributes: equal operations share one, as equal nodes do.
    operators: RefCell<HashMap<Named, Arc<dyn Operator>>>,
    linear: Arc<dyn Operator>,
    attention: Arc<dyn Operator>,
}

impl<'a> Composer<'a> {
    fn new(analysis: &'a Analysis) -> Self {
        let mut maker = HashMap::default();
        let mut readers = vec![0_u32; analysis.program.tensors.len()];
        let mut read = |tensor: TensorId| {
            if let Some(count) = readers.get_mut(tensor.0 as usize) {
                *count = count.saturating_add(1);
            }
        };
        for (index, layer) in analysis.layers.iter().enumerate() {
            let Some(node) = analysis.node(layer) else { continue };
            node.inputs.iter().flatten().copied().for_each(&mut read);
            for &output in node.outputs.iter().flatten() {
                maker.insert(output, index);
            }
        }
        for graph in &analysis.program.graphs {
            graph.outputs.iter().flatten().copied().for_each(&mut read);
        }
        Self {
            analysis,
            maker,
            readers,
            taken: vec![false; analysis.layers.len()],
            made: HashMap::default(),
            operators: RefCell::default(),
            linear: Arc::new(Linear),
            attention: Arc::new(DotProductAttention),
        }
    }

    fn take(&mut self, found: Found) {
        for &layer in &found.absorbed {
            if let Some(taken) = self.taken.get_mut(layer) {
                *taken = true;
            }
        }
        self.made.insert(found.layer, found);
    }

    fn finish(mut self) -> Vec<Operation> {
        // A pattern may have taken in one that was found before it (a bias before an attention).
        let mut swallowed: HashMap<usize, Vec<usize>> = HashMap::default();
        for (layer, taken) in self.taken.iter().enumerate() {
            if *taken && let Some(inner) = self.made.remove(&layer) {
                swallowed.insert(layer, inner.absorbed);
            }
        }
        let mut operations = Vec::with_capacity(self.analysis.layers.len());
        for layer in 0..self.analysis.layers.len() {
            if self.taken.get(layer).copied().unwrap_or(false) {
                continue;
            }
            let Some(node) = self.node(layer) else { continue };
            let (absorbed, operator, inputs) = match self.made.remove(&layer) {
                Some(found) => {
                    let mut absorbed = found.absorbed;
                    let inner: Vec<_> =
                        absorbed.iter().filter_map(|layer| swallowed.get(layer)).flatten().copied().collect();
                    absorbed.extend(inner);
                    absorbed.sort_unstable();
                    absorbed.dedup();
                    (absorbed, Some(found.operator), found.inputs)
                }
                None => (Vec::new(), None, node.inputs.clone()),
            };
            operations.push(Operation { layer, absorbed, operator, inputs, outputs: node.outputs.clone() });
        }
        operations
    }

    fn node(&self, layer: usize) -> Option<&'a Node> {
        self.analysis.node(self.analysis.layers.get(layer)?)
    }

    /// The layer of this operator that makes a tensor.
    fn made_by(&self, tensor: TensorId, op: &str) -> Option<(usize, &'a Node)> {
        let layer = *self.maker.get(&tensor)?;
        let node = self.node(layer)?;
        (*node.op == *op).then_some((layer, node))
    }

    /// The same, where nothing else reads the tensor.
    fn made_only_by(&self, tensor: TensorId, op: &str) -> Option<(usize, &'a Node)> {
        (self.readers(tensor) == 1).then(|| self.made_by(tensor, op)).flatten()
    }

    fn readers(&self, tensor: TensorId) -> u32 {
        self.readers.get(tensor.0 as usize).copied().unwrap_or(0)
    }

    /// The number that every element of a tensor is.
    fn number(&self, tensor: TensorId) -> Option<f64> {
        self.analysis.inference.fact(tensor).as_tensor()?.single()?.as_real()
    }

    fn is_number(&self, tensor: TensorId, wanted: f64) -> bool {
        self.number(tensor).is_some_and(|number| (number - wanted).abs() < 1e-3 * wanted.abs().max(1e-3))
    }

    fn is_stored(&self, tensor: TensorId) -> bool {
        self.analysis.program.tensor(tensor).is_some_and(|tensor| matches!(tensor.origin, Origin::Stored(_)))
    }

    /// The stored tensor that a tensor shows under another shape, or is.
    fn stored_behind(&self, tensor: TensorId) -> Option<TensorId> {
        let mut at = tensor;
        for _ in 0..4 {
            if self.is_stored(at) {
                return Some(at);
            }
            let (_, node) = ["Unsqueeze", "Reshape", "Identity"].iter().find_map(|op| self.made_by(at, op))?;
            at = (*node.inputs.first()?)?;
        }
        None
    }

    fn rank(&self, tensor: TensorId) -> Option<usize> {
        Some(self.analysis.inference.fact(tensor).as_tensor()?.shape.as_ref()?.rank())
    }

    /// The inputs of a node of two, either way round, where one of them satisfies a condition: that one, then the other.
    fn either(&self, node: &Node, is: impl Fn(TensorId) -> bool) -> Option<(TensorId, TensorId)> {
        let [Some(a), Some(b)] = *node.inputs.as_slice() else { return None };
        if is(a) {
            Some((a, b))
        } else if is(b) {
            Some((b, a))
        } else {
            None
        }
    }

    /// `x·W + b`.
    fn linear(&self, layer: usize, add: &Node) -> Option<Found> {
        let (bias, product) = self.either(add, |tensor| self.is_stored(tensor) && self.rank(tensor) == Some(1))?;
        let (matmul, node) = self.made_only_by(product, "MatMul")?;
        let [Some(x), Some(weight)] = *node.inputs.as_slice() else { return None };
        if self.rank(weight)? != 2 || self.taken.get(matmul) == Some(&true) {
            return None;
        }
        let inputs = vec![Some(x), Some(weight), Some(bias)];
        Some(Found { layer, absorbed: vec![matmul], operator: Arc::clone(&self.linear), inputs })
    }

    /// An operator of the standard domain with these attributes.
    fn operator(&self, name: &'static str, attributes: &[(&str, i64)]) -> Option<Arc<dyn Operator>> {
        let key = (name, attributes.iter().map(|(_, value)| *value).collect());
        if let Some(known) = self.operators.borrow().get(&key) {
            return Some(Arc::clone(known));
        }
        let operator = made(name, attributes)?;
        self.operators.borrow_mut().insert(key, Arc::clone(&operator));
        Some(operator)
    }
}

fn made(name: &str, attributes: &[(&str, i64)]) -> Option<Arc<dyn Operator>> {
    /// The operator set that all of them are in.
    const OPSET: i64 = 24;
    let attributes = attributes.iter().map(|(name, value)| AttributeDef {
        name: (*name).into(),
        value: AttributeValue::Int(*value),
        span: Default::default(),
    });
    let node = NodeDef { op_type: name.into(), attributes: attributes.collect(), ..NodeDef::default() };
    let entry = table::find("", name)?;
    (entry.build)(&NodeView::new(&node, OPSET)).ok().map(Arc::from)
}
