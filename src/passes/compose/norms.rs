//! Normalisations and statistics that exporters take apart.

use super::{Composer, Found};
use crate::ir::graph::{Node, TensorId};

impl Composer<'_> {
    /// `(x − mean) / √(mean((x − mean)²) + ε) · scale + bias`, as exporters before opset 17 write it.
    pub(super) fn layer_norm(&self, layer: usize, add: &Node) -> Option<Found> {
        let (bias, scaled) = self.either(add, |tensor| self.is_stored(tensor))?;
        let (mul, node) = self.made_only_by(scaled, "Mul")?;
        let mut found = self.scaled_norm(layer, node)?;
        found.absorbed.push(mul);
        found.inputs.push(Some(bias));
        Some(found)
    }

    /// The same without bias.
    pub(super) fn scaled_norm(&self, layer: usize, mul: &Node) -> Option<Found> {
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
        let operator = self.operator("LayerNormalization", &[("axis", axis)])?;
        Some(Found { layer, absorbed, operator, inputs: vec![Some(x), Some(scale)] })
    }

    /// The mean of `(x − mean)²`: a variance, which frameworks compute in one operator.
    pub(super) fn variance(&self, layer: usize, mean: &Node) -> Option<Found> {
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
        let operator = self.operator("ReduceSumSquare", &[])?;
        let absorbed = vec![average, sub, square];
        (is_square && alone).then(|| Found { layer, absorbed, operator, inputs: vec![Some(x)] })
    }

    /// Groups as instances: reshape, instance normalisation without weights, reshape back, scale and bias.
    pub(super) fn group_norm(&self, layer: usize, add: &Node) -> Option<Found> {
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
        let operator = self.operator("GroupNormalization", &[("num_groups", groups)])?;
        let inputs = vec![Some(x), Some(scale), Some(bias)];
        Some(Found { layer, absorbed: vec![there, norm, back, mul], operator, inputs })
    }

    /// A normalisation in training that keeps no statistics. Exporters write their computation out for it, which the
    /// framework does not do beside that of the normalisation.
    pub(super) fn without_own_statistics(&self, layer: usize, norm: &Node) -> Option<Found> {
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
        let operator = self.operator("BatchNormalization", &[("training_mode", 1)])?;
        Some(Found { layer, absorbed, operator, inputs: norm.inputs.clone() })
    }
}
