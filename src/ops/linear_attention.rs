//! `LinearAttention` and `CausalConvWithState`: the recurrent parts of models without a growing cache.

use super::attention::head_size;
use super::broadcast::unify;
use super::operands::{agreed, common_element, count, expect_rank};
use super::table::Built;
use super::work::{Convolution, three};
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// `LinearAttention`: a state of key size × value size for each head takes in one token after the other.
#[derive(Debug)]
struct LinearAttention {
    heads: Dim,
    kv_heads: Dim,
    /// Whether the state fades before each token.
    gated: bool,
    /// Whether a token changes the state by what the state does not say yet.
    delta: bool,
}

/// `LinearAttention`.
pub(super) fn linear_attention(node: &NodeView<'_>) -> Built {
    let heads = |name: &str| count(name, node.int(name)?.ok_or_else(|| node.missing(name))?);
    let (heads, kv_heads) = (heads("q_num_heads")?, heads("kv_num_heads")?);
    if heads % kv_heads != 0 {
        return Err(Fault::attribute(format!("{heads} query heads are no multiple of {kv_heads} key heads")));
    }
    let (gated, delta) = match node.string("update_rule")?.unwrap_or("gated_delta") {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => {
            return Err(Fault::attribute(format!(
                "attribute update_rule is \"{other}\", allowed are \"linear\", \"gated\", \"delta\" and \"gated_delta\""
            )));
        }
    };
    Ok(Box::new(LinearAttention { heads: Dim::from(heads), kv_heads: Dim::from(kv_heads), gated, delta }))
}

struct Sizes {
    batch: Option<Dim>,
    tokens: Option<Dim>,
    key: Option<Dim>,
    value: Option<Dim>,
}

impl LinearAttention {
    fn sizes<'a>(&self, shape: impl Fn(usize) -> Option<&'a Shape>) -> Result<Sizes, Fault> {
        let dim = |input: usize, axis| shape(input).and_then(|shape| shape.dim(axis));
        let same = |what: &str, axis: usize| {
            (0..3).filter_map(|input| dim(input, axis)).try_fold(None, |known: Option<Dim>, found| match known {
                Some(known) => agreed(what, &known, found).map(Some),
                None => Ok(Some(found.clone())),
            })
        };
        let size = |name, hidden: Option<&Dim>, heads| hidden.map(|hidden| head_size(name, hidden, heads)).transpose();
        let of_query = size("query", dim(0, 2), &self.heads)?;
        let of_key = size("key", dim(1, 2), &self.kv_heads)?;
        let key = match (of_query, of_key) {
            (Some(query), Some(key)) => Some(agreed("head sizes of query and key", &query, &key)?),
            (query, key) => query.or(key).or_else(|| dim(3, 2).cloned()),
        };
        Ok(Sizes {
            batch: same("batches of query, key and value", 0)?.or_else(|| dim(3, 0).cloned()),
            tokens: same("lengths of query, key and value", 1)?,
            key,
            value: size("value", dim(2, 2), &self.kv_heads)?.or_else(|| dim(3, 3).cloned()),
        })
    }
}

impl Operator for LinearAttention {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = common_element(cx, &[0, 1, 2, 4, 5])?;
        for (input, name, rank) in [(0, "query", 3), (1, "key", 3), (2, "value", 3), (3, "past_state", 4)] {
            expect_rank(cx, input, name, rank)?;
        }
        let sizes = self.sizes(|input| cx.shape(input))?;
        // Without a past only a file says in which precision the state is; it is that of the query as a rule.
        let state_element = if cx.has(3) { cx.element(3) } else { element };
        let batch = sizes.batch.unwrap_or_else(|| cx.fresh_dim(0, 0, 0, None));
        let tokens = sizes.tokens.unwrap_or_else(|| cx.fresh_dim(0, 1, 0, None));
        let key = sizes.key.unwrap_or_else(|| cx.fresh_dim(1, 2, 0, None));
        let value = sizes.value.unwrap_or_else(|| cx.fresh_dim(1, 3, 0, None));
        let state = Shape::new(vec![batch.clone(), self.kv_heads.clone(), key, value.clone()]);
        let output = Shape::new(vec![batch, tokens, value * &self.heads]);
        let mut facts = vec![Fact::tensor(element, output), Fact::tensor(state_element, state)];
        facts.truncate(cx.output_count());
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let sizes = self.sizes(|input| cx.shape_in(input)).ok()?;
        let value = sizes.value?;
        let tokens = sizes.batch? * sizes.tokens?;
        let state = sizes.key? * &value;
        // Each token reads the state once per query head and is added to it once; a delta rule reads it once more.
        let updates = &self.kv_heads * (1 + i128::from(self.delta));
        let macs = &tokens * &state * (&self.heads + updates);
        // The scale of the output; the fading of the state; what the state does not say yet, times its rate.
        let other = &tokens
            * (&value * &self.heads
                + state * &self.kv_heads * i128::from(self.gated)
                + value * &self.kv_heads * (2 * i128::from(self.delta)));
        // The gradient runs back through every token as soon as anything needs one.
        let any = i128::from(cx.gradient_count() > 0);
        let backward = (&macs * 4 + &other) * any;
        Cost::composed(cx, macs, &other, backward)
    }

    /// The products of a chunked scan: each query head reads the state, each key head changes it.
    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let family = || {
            let (query, value) = (cx.input(0)?, cx.input(2)?);
            let [batch, m, hidden] = *query.dims else { return None };
            let [heads, kv_heads] =
                [&self.heads, &self.kv_heads].map(|heads| heads.as_usize().map(|heads| heads as u64));
            let (heads, kv_heads) = (heads?, kv_heads?);
            let (k, n) = (hidden.checked_div(heads)?, value.dim(2)?.checked_div(kv_heads)?);
            let each = heads.saturating_add(kv_heads.saturating_mul(if self.delta { 2 } else { 1 }));
            Some(Family::Product { batch: batch.saturating_mul(each), m, n, k })
        };
        cx.one(family())
    }

    /// Operands and result; the states between are computed again.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::inputs(0..6).and(Saved::output(0)).when(cx.has_backward())
    }
}

/// `CausalConvWithState`: a depthwise convolution over the positions so far, and the last of them for the next run.
#[derive(Debug)]
struct CausalConv {
    activated: bool,
}

/// `CausalConvWithState`.
pub(super) fn causal_conv(node: &NodeView<'_>) -> Built {
    match node.string("activation")?.unwrap_or("none") {
        "none" => Ok(Box::new(CausalConv { activated: false })),
        "silu" | "swish" => Ok(Box::new(CausalConv { activated: true })),
        other => Err(Fault::attribute(format!(
            "attribute activation is \"{other}\", allowed are \"silu\", \"swish\" and \"none\""
        ))),
    }
}

impl Operator for CausalConv {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = common_element(cx, &[0, 1, 2, 3])?;
        for (input, name) in [(0, "input"), (1, "weight"), (3, "past_state")] {
            expect_rank(cx, input, name, 3)?;
        }
        let dim = |input: usize, axis| cx.shape(input).and_then(|shape| shape.dim(axis)).cloned();
        if let (Some(channels), Some(kernels)) = (dim(0, 1), dim(1, 0))
            && unify(&channels, &kernels).is_none()
        {
            return Err(Fault::shape(format!("input has {channels} channels, weight is for {kernels}")));
        }
        let kept = dim(1, 2).map(|kernel| kernel - 1).or_else(|| dim(3, 2));
        let state = [dim(0, 0).or_else(|| dim(3, 0)), dim(0, 1).or_else(|| dim(1, 0)), kept];
        let state =
            state.into_iter().enumerate().map(|(axis, dim)| dim.unwrap_or_else(|| cx.fresh_dim(1, axis, 0, None)));
        let state = Shape::new(state.collect());
        let mut facts = vec![Fact::tensor(element, cx.shape(0).cloned()), Fact::tensor(element, state)];
        facts.truncate(cx.output_count());
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let elements = cx.elements_out(0)?;
        let macs = &elements * cx.shape_in(1)?.dim(2)?;
        let other = elements * (i128::from(cx.has(2)) + i128::from(self.activated));
        Cost::product(cx, macs, &other, [0, 1, 2])
    }

    fn role(&self, input: usize) -> Role {
        if matches!(input, 1 | 2) { Role::Weight } else { Role::Data }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let family = || {
            let [batch, channels, length] = *cx.output(0)?.dims else { return None };
            let kernel = cx.input(1)?.dim(2)?;
            let padded = length.saturating_add(kernel.saturating_sub(1));
            Some(Family::Convolution(Convolution {
                batch,
                in_channels: channels,
                out_channels: channels,
                input: three(&[padded]),
                output: three(&[length]),
                kernel: three(&[kernel]),
                stride: [1; 3],
                dilation: [1; 3],
                groups: channels,
                transposed: false,
                axes: 1,
            }))
        };
        family().map_or_else(|| vec![cx.elementwise()], |family| vec![cx.all(family).of_operands(0, 1)])
    }

    /// As every convolution; an activation in it computes its input again.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::inputs(0..4).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ops::testing::{TestNode, dims, float, op};

    fn linear(rule: &str, heads: i64, kv_heads: i64) -> TestNode {
        op("LinearAttention")
            .opset(27)
            .outputs(2)
            .string("update_rule", rule)
            .int("q_num_heads", heads)
            .int("kv_num_heads", kv_heads)
    }

    #[test]
    fn the_state_has_key_by_value_for_each_key_head() {
        let inputs = [float(&[2, 5, 8 * 16]), float(&[2, 5, 2 * 16]), float(&[2, 5, 2 * 32])];
        let facts = linear("linear", 8, 2).run(&inputs).unwrap();
        assert_eq!(dims(&facts[0]), "2×5×256");
        assert_eq!(dims(&facts[1]), "2×2×16×32");
        let cost = linear("linear", 8, 2).cost(&inputs);
        assert_eq!(cost.macs, Dim::constant(2 * 5 * 16 * 32 * (8 + 2)));
        assert_eq!(linear("delta", 8, 2).cost(&inputs).macs, Dim::constant(2 * 5 * 16 * 32 * (8 + 4)));
    }

    #[test]
    fn misfits_of_linear_attention_are_named() {
        let inputs = [float(&[2, 5, 128]), float(&[2, 5, 32]), float(&[2, 6, 64])];
        let fault = linear("gated", 8, 2).run(&inputs).unwrap_err();
        assert_eq!(fault.message, "lengths of query, key and value: 5 and 6 differ");
        let fault = linear("gated", 8, 3).run(&inputs).unwrap_err();
        assert_eq!(fault.message, "8 query heads are no multiple of 3 key heads");
        assert!(linear("cubic", 8, 2).run(&inputs).is_err());
    }

    #[test]
    fn a_causal_convolution_keeps_one_position_less_than_its_kernel() {
        let inputs = [float(&[2, 4, 8]), float(&[4, 1, 3]), float(&[4])];
        let node = || op("CausalConvWithState").opset(27).outputs(2);
        let facts = node().run(&inputs).unwrap();
        assert_eq!(dims(&facts[0]), "2×4×8");
        assert_eq!(dims(&facts[1]), "2×4×2");
        let cost = node().string("activation", "silu").cost(&inputs);
        assert_eq!(cost.macs, Dim::constant(2 * 4 * 8 * 3));
        assert_eq!(cost.flops, Dim::constant(2 * 192 + 2 * 64));
        let fault = node().run(&[float(&[2, 4, 8]), float(&[5, 1, 3])]).unwrap_err();
        assert_eq!(fault.message, "input has 4 channels, weight is for 5");
    }
}
