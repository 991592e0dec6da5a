//! `LongformerAttention` of `com.microsoft`: each token sees a window of tokens around it, and a few see all.

use super::attention::Scores;
use super::microsoft_attention::num_heads;
use super::operands::{count, expect_rank};
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::fact::Fact;

/// Tokens, weight and bias of the projection, mask, weight and bias of the projection of global tokens, which are global.
/// The quantised form has a scale behind each tensor.
#[derive(Debug)]
struct Longformer {
    heads: i64,
    window: i64,
    quantized: bool,
}

/// `LongformerAttention`, `QOrderedLongformerAttention`.
pub(super) fn longformer(node: &NodeView<'_>) -> Built {
    let window = count("window", node.int("window")?.ok_or_else(|| node.missing("window"))?)?;
    let quantized = node.op_type() == "QOrderedLongformerAttention";
    Ok(Box::new(Longformer { heads: num_heads(node)?, window, quantized }))
}

impl Longformer {
    fn weight(&self) -> usize {
        if self.quantized { 2 } else { 1 }
    }
}

impl Operator for Longformer {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        expect_rank(cx, 0, "input", 3)?;
        Ok(vec![Fact::tensor(cx.element(0), cx.shape(0).cloned())])
    }

    /// The two projections, and for each token the scores of its window. How many tokens are global is known at run time;
    /// their scores are not counted.
    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let [batch, length, hidden] = cx.shape_in(0)?.dims() else { return None };
        let tokens = batch * length;
        let projections = &tokens * hidden * hidden * 6;
        let keys = i128::from(self.window).saturating_mul(2).saturating_add(1);
        let count = &tokens * i128::from(self.heads) * keys;
        let macs = projections + tokens.clone() * hidden * keys.saturating_mul(2);
        let other = count * Scores::per_score(true) + tokens * hidden * 6;
        let backward = &macs * (4 * i128::from(cx.gradient_count() > 0));
        Cost::composed(cx, macs, &other, backward)
    }

    fn role(&self, input: usize) -> Role {
        match (self.quantized, input) {
            (false, 1 | 2 | 4 | 5) | (true, 2 | 4 | 8 | 10) => Role::Weight,
            (true, 1 | 3 | 5 | 6 | 9 | 11 | 13) => Role::Setting,
            _ => Role::Data,
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let Some(&[batch, queries, hidden]) = cx.input(0).map(|input| input.dims) else {
            return vec![cx.elementwise()];
        };
        let (heads, m) = (self.heads.unsigned_abs(), batch.saturating_mul(queries));
        let n = hidden.saturating_mul(6);
        let flops = m as f64 * n as f64 * (2.0 * hidden as f64 + 1.0);
        let bytes =
            [self.weight(), 0].into_iter().filter_map(|input| cx.input(input)).map(|input| input.bytes() as f64);
        let projection = cx.part(Family::Product { batch: 1, m, n, k: hidden }, flops, bytes.sum());
        let attention = Family::Attention {
            batch,
            heads,
            kv_heads: heads,
            queries,
            keys: self.window.unsigned_abs().saturating_mul(2).saturating_add(1).min(queries),
            head_dim: hidden.checked_div(heads).unwrap_or_default(),
            causal: false,
        };
        vec![projection, cx.rest(&[projection], attention)]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::input(0).and(Saved::input(self.weight())).and(Saved::output(0)).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ops::testing::{float, microsoft};

    #[test]
    fn a_token_sees_its_window() {
        let inputs = [float(&[1, 128, 64]), float(&[64, 192]), float(&[192]), float(&[1, 128])];
        let node = || microsoft("LongformerAttention").int("num_heads", 4).int("window", 16);
        let inputs = [&inputs[..], &[float(&[64, 192]), float(&[192]), float(&[1, 128])]].concat();
        assert_eq!(node().dims(&inputs), "1×128×64");
        assert_eq!(node().cost(&inputs).macs, Dim::constant(128 * 64 * 64 * 6 + 128 * 64 * 33 * 2));
    }
}
