//! Attention of `com.microsoft` with its projections, one weight for each: `DecoderAttention`, whose tokens stand before
//! the samples, and `QOrderedAttention`, in eight-bit integers.

use super::attention::{Scores, kept};
use super::broadcast::unify;
use super::microsoft_attention::{head_size_of, num_heads};
use super::operands::expect_rank;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, Scalar, TensorFact};
use crate::ir::shape::Shape;

#[derive(Debug)]
struct ProjectedAttention {
    heads: i64,
    causal: bool,
    /// Whether it is `QOrderedAttention`: input and its scale, scales of the projections, their weights, scales of those.
    quantized: bool,
}

/// `DecoderAttention`, `QOrderedAttention`.
pub(super) fn projected(node: &NodeView<'_>) -> Built {
    let quantized = node.op_type() == "QOrderedAttention";
    let causal = node.flag("unidirectional", false)? || !quantized;
    Ok(Box::new(ProjectedAttention { heads: num_heads(node)?, causal, quantized }))
}

/// Sizes of a run.
struct Sizes {
    batch: Dim,
    queries: Dim,
    /// Tokens that are projected to key and value; `None` where only a run says whether any are.
    projected: Option<Dim>,
    /// Tokens that a query sees.
    keys: Option<Dim>,
    inputs: Dim,
    hidden: Dim,
}

/// A truth value that is known.
fn truth(fact: Option<&TensorFact>) -> Option<bool> {
    fact.and_then(TensorFact::single)
        .and_then(Scalar::into_integer)
        .and_then(|flag| flag.as_const())
        .map(|flag| flag != 0)
}

/// A product with the inputs that stand left and right in it.
type Projection = (Family, usize, usize);

impl ProjectedAttention {
    fn sizes<'a>(&self, fact: impl Fn(usize) -> Option<&'a TensorFact>) -> Result<Option<Sizes>, Fault> {
        let shape = |input: usize| fact(input).and_then(|fact| fact.shape.as_ref());
        let Some(query) = shape(0) else { return Ok(None) };
        let [first, second, inputs] = query.dims() else {
            return Err(Fault::shape(format!("the input is {query}; 3 dims are allowed")));
        };
        let weight = if self.quantized { 5 } else { 2 };
        let hidden = match shape(weight).map(Shape::dims) {
            Some([rows, hidden]) if unify(rows, inputs).is_some() => hidden.clone(),
            Some([rows, _]) => {
                return Err(Fault::shape(format!("the input has {inputs} elements a token, the weight {rows} rows")));
            }
            _ => inputs.clone(),
        };
        head_size_of(&hidden, &Dim::from(self.heads))?;
        if self.quantized {
            let projected = Some(second.clone());
            return Ok(Some(Sizes {
                batch: first.clone(),
                queries: second.clone(),
                keys: projected.clone(),
                projected,
                inputs: inputs.clone(),
                hidden,
            }));
        }
        let new = shape(1).and_then(|key| key.dim(0)).cloned();
        let cached = shape(6).and_then(|cache| cache.dim(2)).cloned();
        let (crossing, past) = (truth(fact(8)), truth(fact(9)));
        let (projected, keys) = match (crossing, past) {
            (_, Some(false)) => (new.clone(), new),
            (Some(true), Some(true)) => (Some(Dim::ZERO), cached),
            (Some(false), Some(true)) => (new, cached.map(|cached| cached + first)),
            _ => (None, None),
        };
        let (batch, queries) = (second.clone(), first.clone());
        Ok(Some(Sizes { batch, queries, projected, keys, inputs: inputs.clone(), hidden }))
    }

    /// The products with numbers: of the query (and of key and value alike), and the attention.
    fn families(&self, cx: &WorkCx<'_>) -> Option<(Vec<Projection>, Family)> {
        let [first, second, k] = *cx.input(0)?.dims else { return None };
        let heads = self.heads.unsigned_abs();
        let tokens = first.saturating_mul(second);
        let product = |m: u64, n: u64| Family::Product { batch: 1, m, n, k };
        if self.quantized {
            let n = cx.output(0)?.dim_from_end(0)?;
            let head_dim = n.checked_div(heads)?;
            let (batch, queries, keys) = (first, second, second);
            let attention =
                Family::Attention { batch, heads, kv_heads: heads, queries, keys, head_dim, causal: self.causal };
            return Some(((5..8).map(|weight| (product(tokens, n), 0, weight)).collect(), attention));
        }
        let head_dim = k.checked_div(heads)?;
        let keys = cx.output(1).and_then(|cache| cache.dim(2)).or_else(|| cx.input(1)?.dim(0))?;
        let new = cx.input(1)?.elements().checked_div(k)?;
        let attention = Family::Attention {
            batch: second,
            heads,
            kv_heads: heads,
            queries: first,
            keys,
            head_dim,
            causal: self.causal,
        };
        Some((vec![(product(tokens, k), 0, 2), (product(new, k.saturating_mul(2)), 1, 3)], attention))
    }
}

impl Operator for ProjectedAttention {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        if !self.quantized {
            expect_rank(cx, 1, "key", 3)?;
        }
        let Some(sizes) = self.sizes(|input| cx.tensor(input))? else {
            return Ok(vec![Fact::tensor(element, None); cx.output_count().min(3)]);
        };
        let output = if self.quantized {
            vec![sizes.batch.clone(), sizes.queries, sizes.hidden.clone()]
        } else {
            vec![sizes.queries, sizes.batch.clone(), sizes.hidden.clone()]
        };
        let mut facts = vec![Fact::tensor(element, Shape::new(output))];
        let heads = Dim::from(self.heads);
        let head_size = head_size_of(&sizes.hidden, &heads)?;
        for output in 1..cx.output_count().min(3) {
            let keys = sizes.keys.clone().unwrap_or_else(|| cx.fresh_dim(output, 2, 0, None));
            let cache = vec![sizes.batch.clone(), heads.clone(), keys, head_size.clone()];
            facts.push(Fact::tensor(element, Shape::new(cache)));
        }
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let sizes = self.sizes(|input| cx.input(input)).ok()??;
        let keys = sizes.keys.or_else(|| cx.shape_out(1)?.dim(2).cloned())?;
        let projected = sizes.projected.or_else(|| cx.shape_in(1)?.dim(0).cloned())?;
        let head_size = head_size_of(&sizes.hidden, &Dim::from(self.heads)).ok()?;
        let tokens = &sizes.batch * (&sizes.queries + projected * 2);
        let scores = Scores {
            count: &sizes.batch * i128::from(self.heads) * &sizes.queries * keys,
            head_size: head_size.clone(),
            value_size: head_size,
            per_score: Scores::per_score(true),
        };
        let bias = &tokens * &sizes.hidden;
        let projection = tokens * sizes.inputs * sizes.hidden;
        let any = cx.gradient_count() > 0;
        let backward = scores.backward([any; 3]) + &projection * (4 * i128::from(any));
        Cost::composed(cx, projection + scores.macs(), &(bias + scores.other()), backward)
    }

    fn role(&self, input: usize) -> Role {
        match (self.quantized, input) {
            (true, 0 | 17..) | (false, 0 | 1 | 5..=7) => Role::Data,
            (true, 5..=7 | 11..=13) | (false, 2..=4) => Role::Weight,
            _ => Role::Setting,
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let Some((products, attention)) = self.families(cx) else { return vec![cx.elementwise()] };
        let mut items: Vec<Work> = Vec::new();
        for (family, rows, weight) in products {
            let Family::Product { m, n, k, .. } = family else { continue };
            let left = cx.rest(&items, family);
            let flops = 2.0 * m as f64 * n as f64 * k as f64;
            let weight_bytes = cx.input(weight).map_or(0.0, |weight| weight.bytes() as f64);
            items.push(
                cx.part(family, flops.min(left.flops), weight_bytes.min(left.bytes_read)).of_operands(rows, weight),
            );
        }
        items.push(cx.rest(&items, attention));
        items
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        kept(cx, Saved::inputs(0..4), self.families(cx).map(|(_, attention)| attention))
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::{Fact, TensorFact};
    use crate::ir::shape::Shape;
    use crate::ops::testing::{dims, float, microsoft, typed};

    fn flag(value: bool) -> Option<Fact> {
        let elements = vec![crate::ir::fact::Scalar::Integer(Dim::from(i64::from(value)))];
        Some(TensorFact::with_elements(Some(ElementType::Bool), Shape::new(vec![Dim::ONE]), elements).into())
    }

    #[test]
    fn a_decoder_projects_what_its_cache_lacks() {
        let cache = || Some(float(&[2, 4, 9, 16]));
        let inputs = |crossing: bool, past: bool| {
            let start = [Some(float(&[3, 2, 64])), Some(float(&[3, 2, 64])), Some(float(&[64, 64]))];
            let rest = [Some(float(&[64, 128])), Some(float(&[192])), None, cache(), cache()];
            let flags = [flag(crossing), flag(past), flag(false), flag(false)];
            start.into_iter().chain(rest).chain(flags).collect::<Vec<_>>()
        };
        let node = || microsoft("DecoderAttention").int("num_heads", 4).outputs(3);
        let shapes = |crossing, past| {
            let (facts, ..) = node().run_optional(&inputs(crossing, past)).unwrap();
            facts.iter().map(dims).collect::<Vec<_>>()
        };
        assert_eq!(shapes(false, true), ["3×2×64", "2×4×12×16", "2×4×12×16"]);
        assert_eq!(shapes(true, true)[1], "2×4×9×16");
        assert_eq!(shapes(true, false)[1], "2×4×3×16");
        let macs = |crossing, past| node().run_optional(&inputs(crossing, past)).unwrap().2.unwrap().macs;
        assert_eq!(macs(true, true), Dim::constant(6 * 64 * 64 + 2 * 4 * 3 * 9 * 32));
        assert_eq!(macs(false, true), Dim::constant(6 * 64 * 192 + 2 * 4 * 3 * 12 * 32));
    }

    #[test]
    fn quantised_attention_has_a_weight_for_each_projection() {
        let small = |dims: &[i128]| typed(ElementType::Int8, dims);
        let mut inputs = vec![small(&[2, 5, 48]), float(&[]), float(&[]), float(&[]), float(&[])];
        inputs.extend([small(&[48, 64]), small(&[48, 64]), small(&[48, 64])]);
        let node = || microsoft("QOrderedAttention").int("num_heads", 4);
        assert_eq!(node().run(&inputs).unwrap(), [small(&[2, 5, 64])]);
        assert_eq!(node().cost(&inputs).macs, Dim::constant(10 * 48 * 64 * 3 + 2 * 4 * 25 * 32));
        inputs[5] = small(&[40, 64]);
        let fault = node().run(&inputs).unwrap_err();
        assert_eq!(fault.message, "the input has 48 elements a token, the weight 40 rows");
    }
}
