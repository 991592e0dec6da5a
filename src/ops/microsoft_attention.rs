//! Attention operators of `com.microsoft`: `Attention` and `QAttention` (with the projection to query, key and value),
//! `MultiHeadAttention` (without). `GroupQueryAttention` is in `microsoft_group_query`; what scores cost is in
//! `attention`.

use super::attention::{Scores, head_size, kept};
use super::broadcast::unify;
use super::operands::{count, expect_rank};
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// `num_heads`, which every attention of `com.microsoft` needs.
pub(super) fn num_heads(node: &NodeView<'_>) -> Result<i64, Fault> {
    count("num_heads", node.int("num_heads")?.ok_or_else(|| node.missing("num_heads"))?)
}

/// `Attention`, `QAttention`: projects its input to query, key and value first.
#[derive(Clone, Debug)]
pub struct ProjectedAttention {
    /// Number of heads.
    pub heads: i64,
    /// Hidden sizes of query, key and value; a third of the weight each where left out.
    pub hidden: Option<[i64; 3]>,
    /// Whether a query sees earlier keys only.
    pub causal: bool,
    /// Whether input and weight are quantised (`QAttention`).
    pub quantized: bool,
    /// Whether the past is a buffer of full length, into which new keys are written.
    pub shares_buffer: bool,
}

/// `Attention`, `QAttention`, `DecoderMaskedSelfAttention`.
pub(super) fn projected_attention(node: &NodeView<'_>) -> Built {
    let hidden = match node.ints("qkv_hidden_sizes")?.unwrap_or_default().as_slice() {
        [] => None,
        &[query, key, value] => {
            for size in [query, key, value] {
                count("qkv_hidden_sizes", size)?;
            }
            Some([query, key, value])
        }
        other => {
            return Err(Fault::attribute(format!("attribute qkv_hidden_sizes {other:?} must hold 3 numbers")));
        }
    };
    Ok(Box::new(ProjectedAttention {
        heads: num_heads(node)?,
        hidden,
        causal: node.flag("unidirectional", false)?,
        quantized: node.op_type() == "QAttention",
        shares_buffer: node.flag("past_present_share_buffer", false)?,
    }))
}

impl ProjectedAttention {
    fn past(&self) -> usize {
        if self.quantized { 8 } else { 4 }
    }

    fn mask(&self) -> usize {
        if self.quantized { 5 } else { 3 }
    }

    /// Hidden sizes of query, key and value.
    fn hidden(&self, weight: Option<&Shape>) -> Result<Option<[Dim; 3]>, Fault> {
        if let Some(hidden) = self.hidden {
            return Ok(Some(hidden.map(Dim::from)));
        }
        let Some(wide) = weight.and_then(|weight| weight.dim(1)) else {
            return Ok(None);
        };
        let third = head_size("a row of the weight", wide, &Dim::constant(3))?;
        Ok(Some([third.clone(), third.clone(), third]))
    }
}

/// Sizes of a projected attention.
struct Projected {
    projection: Family,
    attention: Family,
    /// Elements of query, key and value.
    wide: u64,
    /// MACs of the projection.
    macs: f64,
}

impl ProjectedAttention {
    fn projected(&self, cx: &WorkCx<'_>) -> Option<Projected> {
        let [batch, queries, k] = *cx.input(0)?.dims else { return None };
        let weight = cx.input(1)?;
        let (tokens, heads) = (batch.saturating_mul(queries), u64::try_from(self.heads).ok()?);
        let third = weight.dim(1)? / 3;
        let hidden = self.hidden.map_or([third; 3], |hidden| hidden.map(i64::unsigned_abs));
        let [query, ..] = hidden;
        let n = hidden.into_iter().fold(0, u64::saturating_add);
        let new = if self.shares_buffer { 0 } else { queries };
        let keys = cx.input(self.past()).and_then(|past| past.dim(3)).map_or(queries, |past| past.saturating_add(new));
        let head_dim = query.checked_div(heads)?;
        Some(Projected {
            projection: Family::Product { batch: 1, m: tokens, n, k },
            attention: Family::Attention {
                batch,
                heads,
                kv_heads: heads,
                queries,
                keys,
                head_dim,
                causal: self.causal,
            },
            wide: tokens.saturating_mul(n),
            macs: tokens as f64 * n as f64 * k as f64,
        })
    }
}

impl Operator for ProjectedAttention {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(if self.quantized { 3 } else { 0 });
        expect_rank(cx, 0, "input", 3)?;
        expect_rank(cx, 1, "weights", 2)?;
        let of = |input: usize, axis: usize| cx.shape(input).and_then(|shape| shape.dim(axis)).cloned();
        if let (Some(found), Some(wanted)) = (of(0, 2), of(1, 0))
            && unify(&found, &wanted).is_none()
        {
            return Err(Fault::shape(format!("input has {found} elements for each token, weights take {wanted}")));
        }
        let hidden = self.hidden(cx.shape(1))?;
        let heads = Dim::from(self.heads);
        let size = match &hidden {
            Some([query, _, value]) => {
                head_size("value", value, &heads)?;
                Some(head_size("query", query, &heads)?)
            }
            None => None,
        };
        let (batch, length) = (of(0, 0), of(0, 1));
        let keys = match (length.clone(), cx.has(self.past())) {
            (Some(length), false) => Some(length),
            (Some(_), true) if self.shares_buffer => of(self.past(), 3),
            (Some(length), true) => of(self.past(), 3).map(|past| past + length),
            (None, _) => None,
        };
        let batch = batch.unwrap_or_else(|| cx.fresh_dim(0, 0, 0, None));
        let length = length.unwrap_or_else(|| cx.fresh_dim(0, 1, 0, None));
        let value = hidden.map_or_else(|| cx.fresh_dim(0, 2, 0, None), |[_, _, value]| value);
        let mut facts = vec![Fact::tensor(element, Shape::new(vec![batch.clone(), length, value]))];
        if cx.output_count() > 1 {
            let keys = keys.unwrap_or_else(|| cx.fresh_dim(1, 3, 0, None));
            let size = size.unwrap_or_else(|| cx.fresh_dim(1, 4, 0, None));
            facts.push(Fact::tensor(element, Shape::new(vec![Dim::constant(2), batch, heads, keys, size])));
        }
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let [query, key, value] = self.hidden(cx.shape_in(1)).ok()??;
        let [batch, length, inputs] = cx.shape_in(0)?.dims() else {
            return None;
        };
        let tokens = batch * length;
        let wide = &tokens * (&query + &key + &value);
        let projection = &wide * inputs;
        let keys = match cx.has(self.past()) {
            true if self.shares_buffer => cx.shape_in(self.past())?.dim(3)?.clone(),
            true => cx.shape_in(self.past())?.dim(3)? + length,
            false => length.clone(),
        };
        let heads = Dim::from(self.heads);
        let scores = Scores {
            count: tokens * &heads * keys,
            head_size: head_size("query", &query, &heads).ok()?,
            value_size: head_size("value", &value, &heads).ok()?,
            per_score: Scores::per_score(cx.has(self.mask()) || cx.has(5) || self.causal),
        };
        let bias = if cx.has(2) { wide } else { Dim::ZERO };
        let any = cx.gradient_count() > 0;
        let products = i128::from(cx.needs_gradient(0)) + i128::from(cx.needs_gradient(1));
        let mut backward = &projection * (2 * products) + scores.backward([any; 3]);
        if cx.needs_gradient(2) {
            backward += &bias;
        }
        Cost::composed(cx, projection + scores.macs(), &(bias + scores.other()), backward)
    }

    fn role(&self, input: usize) -> Role {
        match input {
            1 | 2 => Role::Weight,
            3 | 4 | 6 | 7 if self.quantized => Role::Setting,
            _ => Role::Data,
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let Some(sizes) = self.projected(cx) else { return vec![cx.elementwise()] };
        let bias = if cx.input(2).is_some() { sizes.wide as f64 } else { 0.0 };
        let operands: f64 = (0..3).filter_map(|input| cx.input(input)).map(|input| input.bytes() as f64).sum();
        let projection = cx.part(sizes.projection, 2.0 * sizes.macs + bias, operands).of_operands(0, 1);
        vec![projection, cx.rest(&[projection], sizes.attention)]
    }

    /// The operands of the projection, and query, key and value, which are no tensors of the graph.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let sizes = self.projected(cx);
        let width = cx.output(0).map_or(0, |output| u64::from(output.element.bits() / 8));
        let projected = sizes.as_ref().map_or(0, |sizes| sizes.wide.saturating_mul(width));
        let operands = cx.other_operands(0, 1).and(Saved::extra(projected));
        kept(cx, operands, sizes.map(|sizes| sizes.attention))
    }
}

/// `MultiHeadAttention`: query, key, value, bias, padding mask, score bias, past key and value, length of the past.
/// Key and value may be packed into one tensor, or all three.
#[derive(Clone, Debug)]
pub struct MultiHeadAttention {
    /// Number of heads.
    pub heads: i64,
    /// Whether a query sees earlier keys only.
    pub causal: bool,
    /// Where the inputs behind query, key and value stand.
    places: Places,
}

/// Inputs of an attention behind query, key and value.
#[derive(Clone, Copy, Debug)]
struct Places {
    bias: usize,
    /// Padding mask and score bias.
    masks: [usize; 2],
    past: usize,
    past_length: usize,
}

/// `MultiHeadAttention`, `DecoderMaskedMultiHeadAttention`.
pub(super) fn multi_head_attention(node: &NodeView<'_>) -> Built {
    let places = match node.op_type() {
        "DecoderMaskedMultiHeadAttention" => Places { bias: 10, masks: [3, 4], past: 5, past_length: 7 },
        _ => Places { bias: 3, masks: [4, 5], past: 6, past_length: 8 },
    };
    Ok(Box::new(MultiHeadAttention { heads: num_heads(node)?, causal: node.flag("unidirectional", false)?, places }))
}

/// The extents of an attention over separate or packed operands.
pub(super) struct Extents {
    pub(super) batch: Dim,
    pub(super) queries: Dim,
    /// Keys, those of the past included.
    pub(super) keys: Dim,
    pub(super) head_size: Dim,
    pub(super) value_size: Dim,
}

impl MultiHeadAttention {
    fn extents<'a>(
        &self,
        shape: impl Fn(usize) -> Option<&'a Shape>,
        has_past_length: bool,
    ) -> Result<Option<Extents>, Fault> {
        let heads = Dim::from(self.heads);
        let Some(query) = shape(0) else { return Ok(None) };
        let past = shape(self.places.past).and_then(|past| past.dim(2));
        let keys = |new: &Dim| match past {
            Some(past) if has_past_length => past.clone(),
            Some(past) => past + new,
            None => new.clone(),
        };
        let (batch, queries, hidden) = match query.dims() {
            [batch, length, _, _, size] => {
                let [batch, queries, head_size] = [batch, length, size].map(Clone::clone);
                let keys = keys(length);
                return Ok(Some(Extents { batch, queries, keys, value_size: head_size.clone(), head_size }));
            }
            [batch, length, hidden] => (batch.clone(), length.clone(), hidden),
            _ => return Err(Fault::shape(format!("query is {query}; 3 or 5 dims are allowed"))),
        };
        let head_size = head_size_of(hidden, &heads)?;
        let Some(key) = shape(1) else { return Ok(None) };
        let (keys, value_size) = match (key.dims(), shape(2).map(Shape::dims)) {
            ([_, length, _, _, size], _) => (keys(length), size.clone()),
            // Keys of an encoder, computed once: they have no past.
            ([_, _, length, _], Some([_, _, _, size])) => (length.clone(), size.clone()),
            ([_, length, found], Some([_, _, value])) => {
                if unify(found, hidden).is_none() {
                    return Err(Fault::shape(format!("query has {hidden} elements for each token, key {found}")));
                }
                (keys(length), head_size_of(value, &heads)?)
            }
            ([_, _, _] | [_, _, _, _], _) => return Ok(None),
            _ => return Err(Fault::shape(format!("key is {key}; 3, 4 or 5 dims are allowed"))),
        };
        Ok(Some(Extents { batch, queries, keys, head_size, value_size }))
    }
}

impl MultiHeadAttention {
    fn family(&self, cx: &WorkCx<'_>) -> Option<Family> {
        let heads = u64::try_from(self.heads).ok()?;
        let query = cx.input(0)?;
        let past = cx.input(self.places.past).and_then(|past| past.dim(2));
        let keys = |new: u64| match past {
            Some(past) if cx.input(self.places.past_length).is_some() => past,
            Some(past) => past.saturating_add(new),
            None => new,
        };
        let (batch, queries, head_dim, keys) = match (query.dims, cx.input(1).map(|key| key.dims)) {
            (&[batch, length, _, _, size], _) => (batch, length, size, keys(length)),
            (&[batch, length, hidden], Some(&[_, new, _] | &[_, new, _, _, _])) => {
                (batch, length, hidden.checked_div(heads)?, keys(new))
            }
            (&[batch, length, hidden], Some(&[_, _, keys, _])) => (batch, length, hidden.checked_div(heads)?, keys),
            _ => return None,
        };
        Some(Family::Attention { batch, heads, kv_heads: heads, queries, keys, head_dim, causal: self.causal })
    }
}

/// Number of elements of one head of a token.
pub(super) fn head_size_of(hidden: &Dim, heads: &Dim) -> Result<Dim, Fault> {
    head_size("a token", hidden, heads)
}

impl Operator for MultiHeadAttention {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(extents) = self.extents(|input| cx.shape(input), cx.has(self.places.past_length))? else {
            return Ok(vec![Fact::tensor(element, None); cx.output_count().min(4)]);
        };
        let Extents { batch, queries, keys, head_size, value_size } = extents;
        let heads = Dim::from(self.heads);
        let shapes = [
            vec![batch.clone(), queries.clone(), &heads * &value_size],
            vec![batch.clone(), heads.clone(), keys.clone(), head_size],
            vec![batch.clone(), heads.clone(), keys.clone(), value_size],
            vec![batch, heads, queries, keys],
        ];
        Ok(shapes.into_iter().take(cx.output_count()).map(|dims| Fact::tensor(element, Shape::new(dims))).collect())
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let extents = self.extents(|input| cx.shape_in(input), cx.has(self.places.past_length)).ok()??;
        let scores = Scores {
            count: extents.batch * i128::from(self.heads) * extents.queries * extents.keys,
            head_size: extents.head_size,
            value_size: extents.value_size,
            per_score: Scores::per_score(self.places.masks.iter().any(|&mask| cx.has(mask)) || self.causal),
        };
        // A bias is added to query, key and value.
        let mut bias = Dim::ZERO;
        if cx.has(self.places.bias) {
            for input in 0..3 {
                bias += cx.elements_in(input).unwrap_or(Dim::ZERO);
            }
        }
        let packed = !cx.has(1);
        let needs = [0, 1, 2].map(|input| cx.needs_gradient(input) || packed && cx.needs_gradient(0));
        let mut backward = scores.backward(needs);
        if cx.needs_gradient(self.places.bias) {
            backward += &bias;
        }
        Cost::composed(cx, scores.macs(), &(bias + scores.other()), backward)
    }

    fn role(&self, input: usize) -> Role {
        match input {
            _ if input == self.places.bias => Role::Weight,
            _ if input == self.places.past_length => Role::Setting,
            _ => Role::Data,
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        cx.one(self.family(cx))
    }

    /// A bias makes query, key and value anew.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let bytes = |input: usize| cx.input(input).map_or(0, |input| input.bytes());
        let operands = match cx.input(self.places.bias) {
            Some(_) => Saved::extra((0..3).map(bytes).fold(0, u64::saturating_add)),
            None => Saved::inputs(0..3),
        };
        kept(cx, operands.and(Saved::input(self.places.masks[1])), self.family(cx))
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ir::shape::Shape;
    use crate::ops::testing::{dims, float, free, microsoft, typed};

    fn shapes(facts: &[Fact]) -> Vec<String> {
        facts.iter().map(dims).collect()
    }

    #[test]
    fn attention_counts_projection_and_scores() {
        let node = || microsoft("Attention").int("num_heads", 12);
        let inputs = [float(&[2, 16, 768]), float(&[768, 2304]), float(&[2304])];
        assert_eq!(shapes(&node().outputs(2).run(&inputs).unwrap()), ["2×16×768", "2×2×12×16×64"]);
        let cost = node().cost(&inputs);
        let scores: i128 = 2 * 12 * 16 * 16;
        assert_eq!(cost.macs, Dim::constant(2 * 16 * 768 * 2304 + scores * 128));
        assert_eq!(cost.flops, cost.macs * 2 + scores * 5 + 2 * 16 * 2304);
        let fault = microsoft("Attention").int("num_heads", 7).run(&inputs).unwrap_err();
        assert_eq!(fault.message, "value has 768 elements, which 7 heads do not divide");
        let wide = microsoft("Attention").int("num_heads", 2).ints("qkv_hidden_sizes", &[64, 64, 32]);
        assert_eq!(wide.dims(&[float(&[2, 16, 8]), float(&[8, 160]), float(&[160])]), "2×16×32");
    }

    #[test]
    fn attention_appends_to_its_past() {
        let past = Fact::tensor(
            ElementType::Float,
            Shape::new(vec![Dim::constant(2), Dim::ONE, Dim::constant(12), free("P"), Dim::constant(64)]),
        );
        let inputs = [Some(float(&[1, 1, 768])), Some(float(&[768, 2304])), Some(float(&[2304])), None, Some(past)];
        let (facts, _, _) = microsoft("Attention").int("num_heads", 12).outputs(2).run_optional(&inputs).unwrap();
        assert_eq!(facts[1].as_tensor().unwrap().shape.as_ref().unwrap().dims()[3], free("P") + 1);
    }

    #[test]
    fn quantised_attention_gives_floats() {
        let quantized = |dims: &[i128]| typed(ElementType::Int8, dims);
        let inputs = [quantized(&[2, 16, 768]), quantized(&[768, 2304]), float(&[2304]), float(&[]), float(&[])];
        assert_eq!(microsoft("QAttention").int("num_heads", 12).run(&inputs).unwrap(), [float(&[2, 16, 768])]);
    }

    #[test]
    fn multi_head_attention_takes_separate_and_packed_operands() {
        let node = || microsoft("MultiHeadAttention").int("num_heads", 8).outputs(3);
        let separate = [float(&[2, 10, 512]), float(&[2, 20, 512]), float(&[2, 20, 256])];
        assert_eq!(shapes(&node().run(&separate).unwrap()), ["2×10×256", "2×8×20×64", "2×8×20×32"]);
        assert_eq!(node().cost(&separate).macs, Dim::constant(2 * 8 * 10 * 20 * 96));
        assert_eq!(node().dims(&[float(&[2, 10, 8, 3, 64])]), "2×10×512");
        assert_eq!(node().dims(&[float(&[2, 10, 512]), float(&[2, 20, 8, 2, 64])]), "2×10×512");
        let encoder = [float(&[2, 10, 512]), float(&[2, 8, 20, 64]), float(&[2, 8, 20, 64])];
        assert_eq!(shapes(&node().run(&encoder).unwrap())[1], "2×8×20×64");
        let fault = node().run(&[float(&[2, 10, 512]), float(&[2, 20, 256]), float(&[2, 20, 256])]).unwrap_err();
        assert_eq!(fault.message, "query has 512 elements for each token, key 256");
    }
}
