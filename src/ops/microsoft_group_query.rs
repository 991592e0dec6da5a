//! `GroupQueryAttention` of `com.microsoft`: several query heads share a key head, and the past may be a buffer of full
//! length. The other attention operators are in `microsoft_attention`.

use super::attention::{Scores, kept};
use super::microsoft_attention::{Extents, head_size_of, num_heads};
use super::operands::count;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// `GroupQueryAttention`: query (or query, key and value in one), key, value, past key and value, key lengths, total
/// length, rotary tables, positions, score bias.
#[derive(Clone, Debug)]
pub struct GroupQueryAttention {
    /// Heads of the query.
    pub heads: i64,
    /// Heads of key and value.
    pub kv_heads: i64,
    /// Whether query and key are rotated by their positions first.
    pub rotary: bool,
}

/// `GroupQueryAttention`.
pub(super) fn group_query_attention(node: &NodeView<'_>) -> Built {
    let heads = num_heads(node)?;
    let kv_heads = node.int("kv_num_heads")?.ok_or_else(|| node.missing("kv_num_heads"))?;
    let kv_heads = count("kv_num_heads", kv_heads)?;
    if heads % kv_heads != 0 {
        return Err(Fault::attribute(format!(
            "attribute num_heads is {heads}, no multiple of kv_num_heads {kv_heads}"
        )));
    }
    Ok(Box::new(GroupQueryAttention { heads, kv_heads, rotary: node.flag("do_rotary", false)? }))
}

impl GroupQueryAttention {
    /// The past may be a buffer of the longest length, in which new keys are written; `total` is the length with the
    /// new keys, where it is known.
    fn extents(
        &self,
        query: Option<&Shape>,
        packed: bool,
        past: Option<&Shape>,
        total: Option<Dim>,
    ) -> Result<Option<Extents>, Fault> {
        let Some(query) = query else { return Ok(None) };
        let [batch, queries, hidden] = query.dims() else {
            return Err(Fault::shape(format!("query is {query}; 3 dims are allowed")));
        };
        let (heads, kv_heads) = (i128::from(self.heads), i128::from(self.kv_heads));
        let all = if packed { heads.saturating_add(kv_heads.saturating_mul(2)) } else { heads };
        let head_size = head_size_of(hidden, &Dim::constant(all))?;
        let keys = match (past.and_then(|past| past.dim(2)), total) {
            (Some(past), Some(total)) => past.max(&total),
            (Some(past), None) => past + queries,
            (None, Some(total)) => total,
            (None, None) => queries.clone(),
        };
        let (batch, queries) = (batch.clone(), queries.clone());
        Ok(Some(Extents { batch, queries, keys, value_size: head_size.clone(), head_size }))
    }
}

impl GroupQueryAttention {
    fn family(&self, cx: &WorkCx<'_>) -> Option<Family> {
        let [batch, queries, hidden] = *cx.input(0)?.dims else { return None };
        let [heads, kv_heads] = [self.heads, self.kv_heads].map(i64::unsigned_abs);
        let all = if cx.input(1).is_some() { heads } else { heads.saturating_add(kv_heads.saturating_mul(2)) };
        let head_dim = hidden.checked_div(all)?;
        // Where no cache comes out, the number of keys may have been counted by the value of an input: the count says it.
        let counted = || {
            let tokens = batch as f64 * queries as f64;
            let rotated =
                if self.rotary { tokens * head_dim as f64 * heads.saturating_add(kv_heads) as f64 * 3.0 } else { 0.0 };
            let per_key = tokens * heads as f64 * (4.0 * head_dim as f64 + Scores::per_score(true) as f64);
            ((cx.flops - rotated) / per_key).round() as u64
        };
        let keys = cx.output(1).and_then(|present| present.dim(2)).unwrap_or_else(counted);
        Some(Family::Attention { batch, heads, kv_heads, queries, keys, head_dim, causal: true })
    }
}

impl Operator for GroupQueryAttention {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let total = cx.integers(6).and_then(|total| total.into_iter().next());
        let Some(extents) = self.extents(cx.shape(0), !cx.has(1), cx.shape(3), total)? else {
            return Ok(vec![Fact::tensor(element, None); cx.output_count().min(4)]);
        };
        let (heads, kv_heads) = (Dim::from(self.heads), Dim::from(self.kv_heads));
        let present = vec![extents.batch.clone(), kv_heads, extents.keys.clone(), extents.head_size.clone()];
        let shapes = [
            vec![extents.batch.clone(), extents.queries.clone(), &heads * extents.head_size],
            present.clone(),
            present,
            vec![extents.batch, heads, extents.queries, extents.keys],
        ];
        let cache = cx.element(3).or(element);
        let elements = [element, cache, cache, element];
        let facts = shapes.into_iter().zip(elements).take(cx.output_count());
        Ok(facts.map(|(dims, element)| Fact::tensor(element, Shape::new(dims))).collect())
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let total = match cx.shape_out(1).and_then(|present| present.dim(2)) {
            Some(keys) => Some(keys.clone()),
            None => cx.input(6).and_then(|total| total.integers()).and_then(|total| total.into_iter().next()),
        };
        let packed = !cx.has(1);
        let extents = self.extents(cx.shape_in(0), packed, cx.shape_in(3), total).ok()??;
        let (heads, kv_heads) = (i128::from(self.heads), i128::from(self.kv_heads));
        let tokens = &extents.batch * &extents.queries;
        let rotated = match self.rotary {
            true => tokens.clone() * &extents.head_size * heads.saturating_add(kv_heads) * 3,
            false => Dim::ZERO,
        };
        let scores = Scores {
            count: tokens * heads * extents.keys,
            head_size: extents.head_size,
            value_size: extents.value_size,
            per_score: Scores::per_score(true),
        };
        let needs = [0, 1, 2].map(|input| cx.needs_gradient(input) || packed && cx.needs_gradient(0));
        let [query, key, _] = needs;
        let mut backward = scores.backward(needs);
        if query || key {
            backward += &rotated;
        }
        Cost::composed(cx, scores.macs(), &(rotated + scores.other()), backward)
    }

    fn role(&self, input: usize) -> Role {
        if (5..=9).contains(&input) { Role::Setting } else { Role::Data }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        cx.one(self.family(cx))
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        kept(cx, Saved::inputs(0..3), self.family(cx))
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{dims, float, microsoft, typed};

    fn shapes(facts: &[crate::ir::fact::Fact]) -> Vec<String> {
        facts.iter().map(dims).collect()
    }

    #[test]
    fn group_query_attention_shares_keys() {
        let node = || microsoft("GroupQueryAttention").int("num_heads", 8).int("kv_num_heads", 2).outputs(3);
        let lengths = || typed(ElementType::Int32, &[2]);
        let total = || typed(ElementType::Int32, &[]);
        let past = || float(&[2, 2, 30, 64]);
        let inputs =
            [float(&[2, 1, 512]), float(&[2, 1, 128]), float(&[2, 1, 128]), past(), past(), lengths(), total()];
        assert_eq!(shapes(&node().run(&inputs).unwrap()), ["2×1×512", "2×2×31×64", "2×2×31×64"]);
        assert_eq!(node().cost(&inputs).macs, Dim::constant(2 * 8 * 31 * 128));
        let packed =
            [Some(float(&[2, 1, 768])), None, None, Some(past()), Some(past()), Some(lengths()), Some(total())];
        assert_eq!(shapes(&node().run_optional(&packed).unwrap().0)[0], "2×1×512");
        assert!(microsoft("GroupQueryAttention").int("num_heads", 8).int("kv_num_heads", 3).run(&inputs).is_err());
    }
}
