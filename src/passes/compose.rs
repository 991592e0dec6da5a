//! Puts together what exporters take apart: the operations that a framework runs. A file holds layer normalisation, GELU
//! or attention as a dozen nodes each; what runs is one operator, and its backward pass keeps what that one keeps.

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

struct Composer<'a> {
    analysis: &'a Analysis,
    /// The layer that makes a tensor.
    maker: HashMap<TensorId, usize>,
    /// How many nodes and graph outputs read a tensor.
    readers: Vec<u32>,
    /// By layer: the operation that took it in.
    taken: Vec<bool>,
    made: HashMap<usize, Found>,
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
        Self { analysis, maker, readers, taken: vec![false; analysis.layers.len()], made: HashMap::default() }
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
        Some(Found { layer, absorbed: vec![matmul], operator: Arc::new(Linear), inputs })
    }

    /// `(x − mean) / √(mean((x − mean)²) + ε) · scale + bias`, as exporters before opset 17 write it.
    fn layer_norm(&self, layer: usize, add: &Node) -> Option<Found> {
        let (bias, scaled) = self.either(add, |tensor| self.is_stored(tensor))?;
        let (mul, node) = self.made_only_by(scaled, "Mul")?;
        let mut found = self.scaled_norm(layer, node)?;
        found.absorbed.push(mul);
        found.inputs.push(Some(bias));
        Some(found)
    }

    /// The same without bias.
    fn scaled_norm(&self, layer: usize, mul: &Node) -> Option<Found> {
        let (scale, normal) = self.either(mul, |tensor| self.is_stored(tensor))?;
        let (div, node) = self.made_only_by(normal, "Div")?;
        let [Some(centred), Some(deviation)] = *node.inputs.as_slice() else { return None };
        let (sqrt, node) = self.made_only_by(deviation, "Sqrt")?;
        let (plus, node) = self.made_only_by((*node.inputs.first()?)?, "Add")?;
        let (_, variance) = self.either(node, |tensor| self.number(tensor).is_some())?;
        let (mean_of_squares, node) = self.made_only_by(variance, "ReduceMean")?;
        let squares = (*node.inputs.first()?)?;
        let (square, node) = self.made_only_by(squares, "Pow").or_else(|| self.made_only_by(squares, "Mul"))?;
        // Some exporters compute the difference twice.
        let squared = (*node.inputs.first()?)?;
        let (sub, node) = self.made_by(centred, "Sub")?;
        let again = (squared != centred).then(|| self.made_by(squared, "Sub")).flatten();
        if squared != centred && again.is_none() {
            return None;
        }
        let [Some(x), Some(mean)] = *node.inputs.as_slice() else { return None };
        let (mean, node) = self.made_by(mean, "ReduceMean")?;
        if (*node.inputs.first()?)? != x {
            return None;
        }
        let mut absorbed = vec![mean, sub, square, mean_of_squares, plus, sqrt, div];
        absorbed.extend(again.map(|(layer, _)| layer));
        // Rows span as many dims as the scale has.
        let axis = -i64::try_from(self.rank(scale)?.max(1)).ok()?;
        let operator = made("LayerNormalization", &[("axis", axis)])?;
        Some(Found { layer, absorbed, operator, inputs: vec![Some(x), Some(scale)] })
    }

    /// The mean of `(x − mean)²`: a variance, which frameworks compute in one operator.
    fn variance(&self, layer: usize, mean: &Node) -> Option<Found> {
        let squares = (*mean.inputs.first()?)?;
        let (square, node) = self.made_only_by(squares, "Mul").or_else(|| self.made_only_by(squares, "Pow"))?;
        let centred = (*node.inputs.first()?)?;
        let is_square = match &*node.op {
            "Mul" => node.inputs.iter().all(|input| *input == Some(centred)),
            _ => self.number((*node.inputs.get(1)?)?) == Some(2.0),
        };
        let reads = node.inputs.iter().filter(|input| **input == Some(centred)).count();
        let (sub, node) = self.made_by(centred, "Sub")?;
        let [Some(x), Some(average)] = *node.inputs.as_slice() else { return None };
        let (average, node) = self.made_only_by(average, "ReduceMean")?;
        let alone = u32::try_from(reads) == Ok(self.readers(centred)) && node.inputs.first() == Some(&Some(x));
        let operator = made("ReduceSumSquare", &[])?;
        let absorbed = vec![average, sub, square];
        (is_square && alone).then(|| Found { layer, absorbed, operator, inputs: vec![Some(x)] })
    }

    /// Groups as instances: reshape, instance normalisation without weights, reshape back, scale and bias.
    fn group_norm(&self, layer: usize, add: &Node) -> Option<Found> {
        let is_weight = |tensor| self.stored_behind(tensor).is_some();
        // Without a bias, exporters write one of zeros.
        let is_bias = |tensor| is_weight(tensor) || self.number(tensor) == Some(0.0);
        let (bias, scaled) = self.either(add, is_bias)?;
        let (mul, node) = self.made_only_by(scaled, "Mul")?;
        let (scale, normal) = self.either(node, is_weight)?;
        let (scale, bias) = (self.stored_behind(scale)?, self.stored_behind(bias).unwrap_or(bias));
        let (back, node) = self.made_only_by(normal, "Reshape")?;
        let (norm, node) = self.made_only_by((*node.inputs.first()?)?, "InstanceNormalization")?;
        let (there, node) = self.made_only_by((*node.inputs.first()?)?, "Reshape")?;
        let x = (*node.inputs.first()?)?;
        let groups = self.node(norm)?.inputs.get(1).copied().flatten()?;
        let groups = self.analysis.inference.fact(groups).as_tensor()?.shape.as_ref()?.elements().as_i64()?;
        let operator = made("GroupNormalization", &[("num_groups", groups)])?;
        let inputs = vec![Some(x), Some(scale), Some(bias)];
        Some(Found { layer, absorbed: vec![there, norm, back, mul], operator, inputs })
    }

    /// `x · (1 + erf(x / √2)) / 2`, the factors in any order.
    fn gelu(&self, layer: usize, mul: &Node) -> Option<Found> {
        let half = |tensor| self.is_number(tensor, 0.5);
        // x · (…) · ½, ½ last.
        if let Some((_, product)) = self.either(mul, half) {
            let (inner, node) = self.made_only_by(product, "Mul")?;
            let (x, mut absorbed) = self.one_plus_erf(node).or_else(|| self.one_plus_tanh(node))?;
            absorbed.push(inner);
            return self.gelu_of(layer, x, absorbed);
        }
        // (x · ½) · (…), or x · ((…) · ½).
        let [Some(a), Some(b)] = *mul.inputs.as_slice() else { return None };
        for (left, right) in [(a, b), (b, a)] {
            let Some((inner, node)) = self.made_only_by(left, "Mul") else { continue };
            let Some((_, factor)) = self.either(node, half) else { continue };
            if let Some((x, mut absorbed)) = self.erf_chain(right)
                && x == factor
            {
                absorbed.push(inner);
                return self.gelu_of(layer, x, absorbed);
            }
            if let Some((x, mut absorbed)) = self.erf_chain(factor)
                && x == right
            {
                absorbed.push(inner);
                return self.gelu_of(layer, x, absorbed);
            }
        }
        None
    }

    fn gelu_of(&self, layer: usize, x: TensorId, absorbed: Vec<usize>) -> Option<Found> {
        Some(Found { layer, absorbed, operator: made("Gelu", &[])?, inputs: vec![Some(x)] })
    }

    /// A product of `x` and `1 + erf(x / √2)`.
    fn one_plus_erf(&self, mul: &Node) -> Option<(TensorId, Vec<usize>)> {
        let [Some(a), Some(b)] = *mul.inputs.as_slice() else { return None };
        let pair = |x: TensorId, chain| self.erf_chain(chain).filter(|(inner, _)| *inner == x);
        pair(a, b).or_else(|| pair(b, a))
    }

    /// A product of `x` and `1 + tanh(√(2/π) · (x + 0.044715·x·x·x))`, as PyTorch's own operator is exported.
    fn one_plus_tanh(&self, mul: &Node) -> Option<(TensorId, Vec<usize>)> {
        let [Some(a), Some(b)] = *mul.inputs.as_slice() else { return None };
        let pair = |x: TensorId, chain| self.tanh_chain(chain, x).map(|absorbed| (x, absorbed));
        pair(a, b).or_else(|| pair(b, a))
    }

    /// The layers of `1 + tanh(√(2/π) · (x + 0.044715·x·x·x))`.
    fn tanh_chain(&self, tensor: TensorId, x: TensorId) -> Option<Vec<usize>> {
        let other = |node: &Node, number: f64| self.either(node, |tensor| self.is_number(tensor, number));
        let is_x = |node: &Node| self.either(node, |tensor| tensor == x);
        let (add, node) = self.made_only_by(tensor, "Add")?;
        let (tanh, node) = self.made_only_by(other(node, 1.0)?.1, "Tanh")?;
        let (scale, node) = self.made_only_by((*node.inputs.first()?)?, "Mul")?;
        let root = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
        let (sum, node) = self.made_only_by(other(node, root)?.1, "Add")?;
        let (term, node) = self.made_only_by(is_x(node)?.1, "Mul")?;
        let (cube, node) = self.made_only_by(other(node, 0.044_715)?.1, "Mul")?;
        let (square, node) = self.made_only_by(is_x(node)?.1, "Mul")?;
        let is_square = node.inputs.iter().all(|input| *input == Some(x));
        is_square.then(|| vec![add, tanh, scale, sum, term, cube, square])
    }

    /// `1 + erf(x / √2)`: x and the layers.
    fn erf_chain(&self, tensor: TensorId) -> Option<(TensorId, Vec<usize>)> {
        let (add, node) = self.made_only_by(tensor, "Add")?;
        let (_, erf) = self.either(node, |tensor| self.is_number(tensor, 1.0))?;
        let (erf, node) = self.made_only_by(erf, "Erf")?;
        let scaled = (*node.inputs.first()?)?;
        if let Some((div, node)) = self.made_only_by(scaled, "Div") {
            let [Some(x), Some(root)] = *node.inputs.as_slice() else { return None };
            return self.is_number(root, std::f64::consts::SQRT_2).then(|| (x, vec![add, erf, div]));
        }
        let (mul, node) = self.made_only_by(scaled, "Mul")?;
        let (_, x) = self.either(node, |tensor| self.is_number(tensor, std::f64::consts::FRAC_1_SQRT_2))?;
        Some((x, vec![add, erf, mul]))
    }

    /// A normalisation in training that keeps no statistics. Exporters write their computation out for it, which the
    /// framework does not do beside that of the normalisation.
    fn without_own_statistics(&self, layer: usize, norm: &Node) -> Option<Found> {
        if norm.outputs.len() < 3 {
            return None;
        }
        let mut absorbed: Vec<usize> = Vec::new();
        let mut waiting: Vec<TensorId> = norm.inputs.iter().skip(3).flatten().copied().collect();
        while let Some(tensor) = waiting.pop() {
            let Some(&maker) = self.maker.get(&tensor) else { continue };
            let Some(node) = self.node(maker).filter(|_| !absorbed.contains(&maker) && absorbed.len() < 16) else {
                continue;
            };
            let readers = || absorbed.iter().filter_map(|&layer| self.node(layer)).chain([norm]);
            let reads = readers().flat_map(|node| &node.inputs).filter(|input| **input == Some(tensor)).count();
            let is_statistic = matches!(&*node.op, "ReduceMean" | "Sub" | "Mul" | "Transpose" | "Squeeze" | "Reshape");
            if is_statistic && u32::try_from(reads) == Ok(self.readers(tensor)) {
                absorbed.push(maker);
                waiting.extend(node.inputs.iter().flatten());
            }
        }
        if absorbed.is_empty() {
            return None;
        }
        absorbed.sort_unstable();
        let operator = made("BatchNormalization", &[("training_mode", 1)])?;
        Some(Found { layer, absorbed, operator, inputs: norm.inputs.clone() })
    }

    /// `x · sigmoid(x)`, `x · hardsigmoid(x)`, `x · tanh(softplus(x))`.
    fn gated(&self, layer: usize, mul: &Node) -> Option<Found> {
        let [Some(a), Some(b)] = *mul.inputs.as_slice() else { return None };
        for (x, gate) in [(a, b), (b, a)] {
            for (inner, name) in [("Sigmoid", "Swish"), ("HardSigmoid", "HardSwish")] {
                if let Some((found, node)) = self.made_only_by(gate, inner)
                    && node.inputs.first() == Some(&Some(x))
                {
                    return Some(Found {
                        layer,
                        absorbed: vec![found],
                        operator: made(name, &[])?,
                        inputs: vec![Some(x)],
                    });
                }
            }
            if let Some((tanh, node)) = self.made_only_by(gate, "Tanh")
                && let Some((softplus, node)) = self.made_only_by((*node.inputs.first()?)?, "Softplus")
                && node.inputs.first() == Some(&Some(x))
            {
                let operator = made("Mish", &[])?;
                return Some(Found { layer, absorbed: vec![tanh, softplus], operator, inputs: vec![Some(x)] });
            }
        }
        None
    }

    /// `softmax(q·kᵀ · scale + mask) · v`, with scales before the product, and dropout behind the softmax.
    fn attention(&self, layer: usize, product: &Node) -> Option<Found> {
        let [Some(weights), Some(value)] = *product.inputs.as_slice() else { return None };
        let mut absorbed = Vec::new();
        let mut at = weights;
        // What may stand between the softmax and the second product.
        while let Some((inner, node)) = ["Dropout", "Cast", "Reshape", "Identity", "Where", "IsNaN"]
            .iter()
            .find_map(|op| self.made_by(at, op))
            .filter(|_| absorbed.len() < 8)
        {
            absorbed.push(inner);
            let data = if &*node.op == "Where" { 2 } else { 0 };
            at = (*node.inputs.get(data)?)?;
        }
        let (softmax, node) = self.made_by(at, "Softmax")?;
        absorbed.push(softmax);
        at = (*node.inputs.first()?)?;
        let mut mask = None;
        // What may stand between the first product and the softmax: scale, mask, clamps.
        let (query, key) = loop {
            if absorbed.len() > 24 {
                return None;
            }
            if let Some((inner, node)) = self.made_only_by(at, "MatMul") {
                absorbed.push(inner);
                let [Some(query), Some(key)] = *node.inputs.as_slice() else { return None };
                break (query, key);
            }
            let layer = *self.maker.get(&at)?;
            let node = self.node(layer)?;
            let first = (*node.inputs.first()?)?;
            let scores = |tensor: TensorId| self.rank(tensor) >= self.rank(value) && self.leads_to_product(tensor, 8);
            at = match &*node.op {
                "Add" | "Mul" | "Div" | "Max" | "Sub" => {
                    let (next, other) = self.either(node, scores)?;
                    if self.number(other).is_none() {
                        mask = Some(other);
                    }
                    next
                }
                "Where" => {
                    let [_, Some(a), Some(b)] = *node.inputs.as_slice() else { return None };
                    if scores(a) { a } else { b }
                }
                "Cast" | "Reshape" | "Identity" | "Clip" | "Dropout" => first,
                _ => return None,
            };
            absorbed.push(layer);
        };
        if self.rank(query)? < 3 || self.is_stored(key) || self.is_stored(value) {
            return None;
        }
        let before = (query, key);
        let query = self.without_scale(query, &mut absorbed);
        let key = self.without_scale(key, &mut absorbed);
        // Exporters scale both sides where the model calls the framework's own attention, whose fused kernels take samples
        // × heads × rows × size. A model's own arithmetic with a trained mask stays as it is.
        let called = before.0 != query && before.1 != key;
        let is_trained = |tensor: TensorId| self.analysis.needs_gradient.get(tensor.0 as usize) == Some(&true);
        let stays = if called { self.rank(query) != Some(4) } else { mask.is_some_and(is_trained) };
        if stays || self.ends_in_another_axis(query) {
            return None;
        }
        absorbed.sort_unstable();
        absorbed.dedup();
        let inputs = vec![Some(query), Some(key), Some(value), mask];
        Some(Found { layer, absorbed, operator: Arc::new(DotProductAttention), inputs })
    }

    /// Whether a transposition moved the last axis: what is multiplied then are channels, not rows of a sequence.
    fn ends_in_another_axis(&self, tensor: TensorId) -> bool {
        let order = self.made_by(tensor, "Transpose").and_then(|(_, node)| {
            let operator = node.operator.as_deref()?;
            operator.permutation(self.rank((*node.inputs.first()?)?)?)
        });
        order.is_some_and(|order| order.last().is_some_and(|last| last + 1 != order.len()))
    }

    /// Whether a product of two computed tensors is a few steps behind a tensor.
    fn leads_to_product(&self, tensor: TensorId, steps: usize) -> bool {
        let Some(node) = self.maker.get(&tensor).and_then(|&layer| self.node(layer)) else { return false };
        match &*node.op {
            "MatMul" => node.inputs.iter().flatten().all(|&input| !self.is_stored(input)),
            "Add" | "Mul" | "Div" | "Max" | "Sub" | "Where" | "Cast" | "Reshape" | "Identity" | "Clip" if steps > 0 => {
                node.inputs.iter().flatten().any(|&input| self.leads_to_product(input, steps - 1))
            }
            _ => false,
        }
    }

    /// What a scale before the product is applied to.
    fn without_scale(&self, tensor: TensorId, absorbed: &mut Vec<usize>) -> TensorId {
        let scaled = self.made_only_by(tensor, "Mul").or_else(|| self.made_only_by(tensor, "Div"));
        let Some((layer, node)) = scaled else { return tensor };
        match self.either(node, |factor| self.rank(factor) == Some(0) || self.number(factor).is_some()) {
            Some((_, data)) => {
                absorbed.push(layer);
                data
            }
            None => tensor,
        }
    }
}

/// An operator of the standard domain with these attributes.
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
