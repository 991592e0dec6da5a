//! Small fused operators of `com.microsoft`: Gelu with a bias, the embedding of BERT, and the layout changes of the
//! blocked (NCHWc) convolutions.

use super::normalization::{MEAN_VARIANCE, Normalized};
use super::operands::{expect_rank, may_stretch_to};
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// `BiasGelu`, `FastGelu`, `Gelu`: x and, where given, a bias along its last axis.
#[derive(Clone, Debug)]
pub struct BiasActivation;

/// `BiasGelu`, `FastGelu`, `Gelu`, `QuickGelu`.
pub(super) fn bias_activation(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(BiasActivation))
}

impl Operator for BiasActivation {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        if let (Some(shape), Some(bias)) = (cx.shape(0), cx.shape(1))
            && !may_stretch_to(bias, shape.dims())
        {
            return Err(Fault::shape(format!("bias {bias} does not fit input {shape}")));
        }
        Ok(vec![Fact::tensor(cx.element(0), cx.shape(0).cloned())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Normalized { forward: 1 + i128::from(cx.has(1)), data: &[0], scale: usize::MAX, biases: &[1] }.cost(cx)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Weight }
    }

    /// What the function is applied to: the input, or the sum with a bias, which is no tensor of the graph.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let sum = Saved::extra(cx.output(0).map_or(0, |output| output.bytes()));
        let applied = if cx.input(1).is_some() { sum } else { Saved::input(0) };
        applied.when(cx.has_backward())
    }
}

/// `EmbedLayerNormalization`: words, segments and positions are looked up, added and normalised. Inputs: word and segment
/// numbers; tables of words, positions and segments; scale, shift; mask; position numbers.
/// Quantised tables and scales are followed by their scales and zero points.
#[derive(Clone, Debug)]
pub struct EmbedLayerNorm {
    /// Whether tables and scales are quantised.
    pub quantized: bool,
}

/// `EmbedLayerNormalization`, `QEmbedLayerNormalization`.
pub(super) fn embed_layer_norm(node: &NodeView<'_>) -> Built {
    Ok(Box::new(EmbedLayerNorm { quantized: node.op_type() == "QEmbedLayerNormalization" }))
}

impl Operator for EmbedLayerNorm {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        for (input, name) in [(0, "input_ids"), (2, "word_embedding"), (3, "position_embedding")] {
            expect_rank(cx, input, name, 2)?;
        }
        let element = cx.element(if self.quantized { 8 } else { 2 });
        let of = |input: usize, axis: usize| cx.shape(input).and_then(|shape| shape.dim(axis)).cloned();
        let (batch, length, hidden) = (of(0, 0), of(0, 1), of(2, 1).or_else(|| of(3, 1)));
        let batch = batch.unwrap_or_else(|| cx.fresh_dim(0, 0, 0, None));
        let length = length.unwrap_or_else(|| cx.fresh_dim(0, 1, 0, None));
        let hidden = hidden.unwrap_or_else(|| cx.fresh_dim(0, 2, 0, None));
        let sum = Fact::tensor(element, Shape::new(vec![batch.clone(), length, hidden]));
        let mut facts = vec![sum.clone(), Fact::tensor(ElementType::Int32, Shape::new(vec![batch])), sum];
        facts.truncate(cx.output_count());
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        // Two or three rows are added for each token, then normalised. Of a table only these rows are read.
        let tables: i128 = if cx.has(4) { 3 } else { 2 };
        let mut cost =
            Normalized { forward: tables - 1 + MEAN_VARIANCE, data: &[2, 3, 4], scale: 5, biases: &[6] }.cost(cx)?;
        let rows = super::cost::tensor_bytes(cx.output(0)?)?;
        let mut read = rows * tables;
        for input in [0, 1, 5, 6, 7, 8] {
            if let Some(tensor) = cx.input(input) {
                read += super::cost::tensor_bytes(tensor)?;
            }
        }
        cost.bytes_read = read;
        Some(cost)
    }

    fn role(&self, input: usize) -> Role {
        match input {
            2..=6 => Role::Weight,
            8.. if self.quantized => Role::Setting,
            _ => Role::Data,
        }
    }

    /// Rows are picked and added, then normalised.
    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let (Some(output), Some(words)) = (cx.output(0), cx.input(2)) else { return vec![cx.elementwise()] };
        let cols = output.dim_from_end(0).unwrap_or(1);
        let rows = output.elements().checked_div(cols).unwrap_or_default();
        let added = if cx.input(4).is_some() { 2.0 } else { 1.0 };
        let picked = output.bytes() as f64 * (added + 1.0) + cx.input(0).map_or(0.0, |tokens| tokens.bytes() as f64);
        let family = Family::Embedding { rows, cols, table: words.dim(0).unwrap_or_default() };
        let picked = cx.part(family, output.elements() as f64 * added, picked);
        vec![picked, cx.rest(&[picked], Family::LayerNorm { rows, cols })]
    }

    /// Numbers of words and segments, the sum before the normalisation, scale and shift, mean and inverse deviation.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let (sum, rows) = match (cx.output(0), cx.output(2)) {
            (_, Some(sum)) => (Saved::output(2), sum),
            (Some(output), None) => (Saved::extra(output.bytes()), output),
            (None, None) => return Saved::NOTHING,
        };
        let rows = rows.elements().checked_div(rows.dim_from_end(0).unwrap_or(1)).unwrap_or_default();
        let numbers = Saved::inputs(0..2).and(Saved::inputs(5..7));
        sum.and(numbers).and(Saved::extra(rows.saturating_mul(8))).when(cx.has_backward())
    }
}

/// `ReorderInput`, `ReorderOutput`: between channels second and channels in blocks.
#[derive(Clone, Debug)]
pub struct Reorder {
    /// Number of channels of the output, where blocks had padded it.
    pub channels: Option<i64>,
    /// Whether the tensor that is not blocked has its channels last.
    pub channels_last: bool,
    /// Whether blocks are left instead of entered.
    pub leaves: bool,
}

/// `ReorderInput`, `ReorderOutput`.
pub(super) fn reorder(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Reorder {
        channels: node.int("channels")?.filter(|&channels| channels > 0),
        channels_last: node.flag("channels_last", false)?,
        leaves: node.op_type() == "ReorderOutput",
    }))
}

impl Operator for Reorder {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(shape) = cx.shape(0) else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let mut dims = shape.dims().to_vec();
        if dims.len() < 3 {
            return Err(Fault::shape(format!("the input is {shape}; at least 3 dims are needed")));
        }
        // The blocked tensor is written with its channels second.
        if self.channels_last && !self.leaves {
            let channels = dims.pop();
            dims.splice(1..1, channels);
        }
        if let (Some(channels), Some(dim)) = (self.channels, dims.get_mut(1)) {
            *dim = Dim::from(channels);
        }
        if self.channels_last && self.leaves {
            let channels = dims.remove(1);
            dims.push(channels);
        }
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{dims, float, microsoft, op, typed};

    #[test]
    fn gelu_with_bias_takes_two_operations() {
        let cost = microsoft("BiasGelu").cost(&[float(&[2, 8]), float(&[8])]);
        assert_eq!((cost.flops, cost.backward_flops), (Dim::constant(32), Dim::constant(48)));
        assert_eq!(microsoft("FastGelu").cost(&[float(&[2, 8])]).flops, Dim::constant(16));
        assert_eq!(microsoft("Gelu").dims(&[float(&[2, 8])]), "2×8");
        assert!(microsoft("BiasGelu").run(&[float(&[2, 8]), float(&[4])]).is_err());
    }

    #[test]
    fn embedding_reads_rows_and_not_tables() {
        let ids = || typed(ElementType::Int32, &[2, 16]);
        let row = || float(&[64]);
        let inputs = [ids(), ids(), float(&[30_000, 64]), float(&[512, 64]), float(&[2, 64]), row(), row()];
        let node = || microsoft("EmbedLayerNormalization").outputs(2);
        let facts = node().run(&inputs).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["2×16×64", "2"]);
        let cost = node().cost(&inputs);
        assert_eq!(cost.flops, Dim::constant(10 * 2_048));
        assert_eq!(cost.bytes_read, Dim::constant(3 * 4 * 2_048 + 2 * 4 * 32 + 2 * 4 * 64));
    }

    #[test]
    fn quantised_embeddings_give_the_type_of_their_scales() {
        let ids = || typed(ElementType::Int32, &[2, 16]);
        let table = |rows: i128| typed(ElementType::Uint8, &[rows, 64]);
        let row = || typed(ElementType::Uint8, &[64]);
        let mut inputs = vec![ids(), ids(), table(100), table(16), table(2), row(), row(), ids()];
        inputs.extend((0..5).map(|_| float(&[])));
        inputs.extend((0..5).map(|_| typed(ElementType::Uint8, &[])));
        let facts = microsoft("QEmbedLayerNormalization").outputs(2).run(&inputs).unwrap();
        assert_eq!(facts, [float(&[2, 16, 64]), typed(ElementType::Int32, &[2])]);
    }

    #[test]
    fn blocked_layouts_keep_the_logical_shape() {
        let nchwc = |name: &str| op(name).domain("com.microsoft.nchwc");
        assert_eq!(nchwc("ReorderInput").dims(&[float(&[1, 16, 8, 8])]), "1×16×8×8");
        assert_eq!(nchwc("ReorderInput").int("channels_last", 1).dims(&[float(&[1, 8, 9, 16])]), "1×16×8×9");
        assert_eq!(nchwc("ReorderOutput").int("channels", 12).dims(&[float(&[1, 16, 8, 8])]), "1×12×8×8");
        let last = nchwc("ReorderOutput").int("channels", 12).int("channels_last", 1);
        assert_eq!(last.dims(&[float(&[1, 16, 8, 9])]), "1×8×9×12");
        let inputs = [float(&[1, 3, 8, 8]), float(&[16, 3, 3, 3]), float(&[16])];
        assert_eq!(nchwc("Conv").string("activation", "Relu").dims(&inputs), "1×16×6×6");
        assert_eq!(
            nchwc("Conv").string("activation", "Relu").cost(&inputs).flops,
            Dim::constant(16 * 36 * (2 * 27 + 2))
        );
    }
}
