//! Attention of `com.microsoft` over tokens without padding: `RemovePadding` packs them, `PackedAttention` and
//! `PackedMultiHeadAttention` attend within each sample, `RestorePadding` spreads them again. How many tokens a batch
//! really has is known at run time; the padded lengths are counted.

use super::attention::{Scores, head_size};
use super::microsoft_attention::num_heads;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// Tokens (with a projection before) or query, key and value; then places and lengths of the samples.
#[derive(Debug)]
struct PackedAttention {
    heads: i64,
    /// Whether query, key and value are projected here.
    projects: bool,
    /// Hidden size of the value, where it is not that of the query.
    value: Option<i64>,
}

/// `PackedAttention`, `PackedMultiHeadAttention`.
pub(super) fn packed_attention(node: &NodeView<'_>) -> Built {
    let value = node.ints("qkv_hidden_sizes")?.and_then(|sizes| sizes.get(2).copied());
    Ok(Box::new(PackedAttention { heads: num_heads(node)?, projects: node.op_type() == "PackedAttention", value }))
}

/// Sizes as formulas.
struct Extents {
    tokens: Dim,
    query: Dim,
    value: Dim,
}

impl PackedAttention {
    /// Where places of tokens by sample stand.
    fn places(&self) -> usize {
        if self.projects { 3 } else { 4 }
    }

    fn extents<'a>(&self, shape: impl Fn(usize) -> Option<&'a Shape>) -> Option<Extents> {
        let tokens = shape(0)?.dim(0)?.clone();
        let third = |wide: &Dim| wide.floor_div(&Dim::constant(3));
        let (query, value) = if self.projects {
            let wide = shape(1)?.dim(1)?;
            match self.value {
                Some(value) => ((wide - &Dim::from(value)).floor_div(&Dim::constant(2)), Dim::from(value)),
                None => (third(wide), third(wide)),
            }
        } else {
            match (shape(0)?.dims(), shape(2).map(Shape::dims)) {
                ([_, heads, _, size], _) => (heads * size, heads * size),
                ([_, query], Some([_, value])) => (query.clone(), value.clone()),
                _ => return None,
            }
        };
        Some(Extents { tokens, query, value })
    }

    fn family(&self, cx: &WorkCx<'_>) -> Option<Family> {
        let (places, output) = (cx.input(self.places())?, cx.output(0)?);
        let [batch, length] = *places.dims else { return None };
        let heads = self.heads.unsigned_abs();
        let head_dim = output.dim_from_end(0)?.checked_div(heads)?;
        Some(Family::Attention {
            batch,
            heads,
            kv_heads: heads,
            queries: length,
            keys: length,
            head_dim,
            causal: false,
        })
    }
}

impl Operator for PackedAttention {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(Extents { tokens, value, .. }) = self.extents(|input| cx.shape(input)) else {
            return Ok(vec![Fact::tensor(element, cx.fresh_shape(0, 2))]);
        };
        Ok(vec![Fact::tensor(element, Shape::new(vec![tokens, value]))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let Extents { tokens, query, value } = self.extents(|input| cx.shape_in(input))?;
        let heads = Dim::from(self.heads);
        let [batch, length] = cx.shape_in(self.places())?.dims() else { return None };
        let scores = Scores {
            count: batch * &heads * length * length,
            head_size: head_size("query", &query, &heads).ok()?,
            value_size: head_size("value", &value, &heads).ok()?,
            per_score: Scores::per_score(true),
        };
        let (mut macs, mut other) = (scores.macs(), scores.other());
        if self.projects {
            let wide = tokens * (query * 2 + value);
            macs += &wide * cx.shape_in(0)?.dim(1)?;
            other += wide;
        }
        let backward = &macs * (4 * i128::from(cx.gradient_count() > 0));
        Cost::composed(cx, macs, &other, backward)
    }

    fn role(&self, input: usize) -> Role {
        match (self.projects, input) {
            (true, 1 | 2) | (false, 3) => Role::Weight,
            _ => Role::Data,
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let Some(attention) = self.family(cx) else { return vec![cx.elementwise()] };
        let (true, Some(tokens), Some(weight)) = (self.projects, cx.input(0), cx.input(1)) else {
            return vec![cx.all(attention)];
        };
        let (m, k, n) = (tokens.dim(0).unwrap_or(1), tokens.dim_from_end(0).unwrap_or(1), weight.dim_from_end(0));
        let n = n.unwrap_or(1);
        let flops = m as f64 * n as f64 * (2.0 * k as f64 + 1.0);
        let bytes: f64 = (0..3).filter_map(|input| cx.input(input)).map(|input| input.bytes() as f64).sum();
        let projection = cx.part(Family::Product { batch: 1, m, n, k }, flops, bytes).of_operands(0, 1);
        vec![projection, cx.rest(&[projection], attention)]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        super::attention::kept(cx, Saved::inputs(0..3), self.family(cx))
    }
}

/// `RemovePadding`, `RestorePadding`.
#[derive(Debug)]
struct Padding {
    removes: bool,
}

/// `RemovePadding`, `RestorePadding`.
pub(super) fn padding(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Padding { removes: node.op_type() == "RemovePadding" }))
}

impl Operator for Padding {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        if !self.removes {
            let shape = match (cx.shape(1).map(Shape::dims), cx.shape(0).map(Shape::dims)) {
                (Some([batch, length]), Some([_, hidden])) => {
                    Some(Shape::new([batch, length, hidden].map(Clone::clone).to_vec()))
                }
                _ => None,
            };
            return Ok(vec![Fact::tensor(element, shape)]);
        }
        let int = ElementType::Int32;
        let Some([batch, length, hidden]) = cx.shape(0).map(Shape::dims) else {
            return Ok(vec![Fact::tensor(element, cx.fresh_shape(0, 2)), Fact::tensor(int, cx.fresh_shape(1, 2))]);
        };
        let tokens = cx.fresh_dim(0, 0, 0, Some(batch * length));
        Ok(vec![
            Fact::tensor(element, Shape::new(vec![tokens, hidden.clone()])),
            Fact::tensor(int, Shape::new(vec![batch.clone(), length.clone()])),
            Fact::tensor(int, Shape::new(vec![batch + 1])),
            Fact::tensor(int, Shape::new(vec![Dim::ONE])),
        ])
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
    use crate::ops::Family;
    use crate::ops::testing::{dims, float, microsoft, typed};

    #[test]
    fn padding_goes_and_comes_back() {
        let facts = microsoft("RemovePadding").outputs(4).run(&[float(&[2, 16, 64]), typed(ElementType::Int32, &[2])]);
        let facts = facts.unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["y0.0×64", "2×16", "3", "1"]);
        assert_eq!(
            microsoft("RestorePadding").dims(&[float(&[20, 64]), typed(ElementType::Int32, &[2, 16])]),
            "2×16×64"
        );
    }

    #[test]
    fn packed_tokens_attend_within_their_samples() {
        let places = || [typed(ElementType::Int32, &[2, 16]), typed(ElementType::Int32, &[3])];
        let inputs = [&[float(&[20, 64]), float(&[64, 192]), float(&[192])][..], &places()].concat();
        let node = || microsoft("PackedAttention").int("num_heads", 4);
        assert_eq!(node().dims(&inputs), "20×64");
        assert_eq!(node().cost(&inputs).macs, Dim::constant(20 * 192 * 64 + 2 * 4 * 16 * 16 * 32));
        let families = node().priced(&inputs, &[]).families();
        assert_eq!(families[0], Family::Product { batch: 1, m: 20, n: 192, k: 64 });
        let packed =
            [Some(float(&[20, 4, 3, 16])), None, None, None, Some(places()[0].clone()), Some(places()[1].clone())];
        let facts = microsoft("PackedMultiHeadAttention").int("num_heads", 4).run_optional(&packed).unwrap().0;
        assert_eq!(dims(&facts[0]), "20×64");
    }
}
