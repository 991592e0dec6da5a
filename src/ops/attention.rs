//! `Attention` of the standard domain, and what every attention operator costs. Rotary embeddings are in `rotary`, the
//! operators of `com.microsoft` in `microsoft_attention`.

use super::broadcast::unify;
use super::operands::{common_element, count};
use super::softmax::SOFTMAX;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Saved, Work, WorkCx};
use crate::diagnostics::Code;
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// The score matrices of an attention: one number for each head, query and key. A causal mask does not make them
/// smaller: the whole square is counted.
pub(super) struct Scores {
    /// batch × query heads × queries × keys.
    pub(super) count: Dim,
    /// Elements of a query and a key.
    pub(super) head_size: Dim,
    /// Elements of a value.
    pub(super) value_size: Dim,
    /// Operations for each score beside the products.
    pub(super) per_score: i128,
}

impl Scores {
    /// Softmax, and one addition for a mask or bias.
    pub(super) fn per_score(masked: bool) -> i128 {
        SOFTMAX + i128::from(masked)
    }

    /// `q · kᵀ` and `p · v`.
    pub(super) fn macs(&self) -> Dim {
        &self.count * (&self.head_size + &self.value_size)
    }

    /// Operations forward beside the products.
    pub(super) fn other(&self) -> Dim {
        &self.count * self.per_score
    }

    /// Operations backward, where query, key and value need gradients: one product for each of them, and one for the
    /// scores where query or key need one.
    pub(super) fn backward(&self, [query, key, value]: [bool; 3]) -> Dim {
        let scores = query || key;
        let by_head = i128::from(query) + i128::from(key);
        let by_value = i128::from(value) + i128::from(scores);
        &self.count * (&self.head_size * (2 * by_head) + &self.value_size * (2 * by_value))
            + &self.count * (self.per_score * i128::from(scores))
    }
}

/// `Attention`.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Heads of the query; needed where inputs have three dims.
    pub heads: Option<i64>,
    /// Heads of key and value; fewer than those of the query are shared by groups of them.
    pub kv_heads: Option<i64>,
    /// Whether a query sees earlier keys only.
    pub causal: bool,
    /// Whether scores are squeezed by a tanh.
    pub softcap: bool,
}

/// `Attention`.
pub(super) fn attention(node: &NodeView<'_>) -> Built {
    let heads = |name: &str| node.int(name)?.map(|heads| count(name, heads)).transpose();
    Ok(Box::new(Attention {
        heads: heads("q_num_heads")?,
        kv_heads: heads("kv_num_heads")?,
        causal: node.flag("is_causal", false)?,
        softcap: node.float("softcap")?.is_some_and(|cap| cap != 0.0),
    }))
}

/// A query, key or value, taken apart into heads.
struct Heads {
    batch: Dim,
    heads: Dim,
    length: Dim,
    size: Dim,
}

/// Number of elements of one head: `hidden / heads`, checked.
pub(super) fn head_size(name: &str, hidden: &Dim, heads: &Dim) -> Result<Dim, Fault> {
    if hidden.modulo(heads).is_eq(&Dim::ZERO) == Some(false) {
        return Err(Fault::shape(format!("{name} has {hidden} elements, which {heads} heads do not divide")));
    }
    Ok(hidden.exact_div(heads).unwrap_or_else(|| hidden.floor_div(heads)))
}

impl Heads {
    fn of(shape: Option<&Shape>, name: &str, attribute: &str, heads: Option<i64>) -> Result<Option<Self>, Fault> {
        let Some(shape) = shape else { return Ok(None) };
        match shape.dims() {
            [batch, heads, length, size] => {
                let [batch, heads, length, size] = [batch, heads, length, size].map(Clone::clone);
                Ok(Some(Self { batch, heads, length, size }))
            }
            [batch, length, hidden] => {
                let Some(heads) = heads.map(Dim::from) else {
                    return Err(Fault::attribute(format!(
                        "{name} has three dims, so the attribute {attribute} is needed"
                    )));
                };
                let size = head_size(name, hidden, &heads)?;
                Ok(Some(Self { batch: batch.clone(), heads, length: length.clone(), size }))
            }
            _ => Err(Fault::shape(format!("{name} is {shape}; 3 or 4 dims are allowed"))),
        }
    }
}

/// Query, key and value, and the number of keys with those of the past.
struct Operands {
    query: Option<Heads>,
    key: Option<Heads>,
    value: Option<Heads>,
    keys: Option<Dim>,
}

impl Attention {
    fn operands<'a>(&self, shape: impl Fn(usize) -> Option<&'a Shape>, has_past: bool) -> Result<Operands, Fault> {
        let query = Heads::of(shape(0), "Q", "q_num_heads", self.heads)?;
        let key = Heads::of(shape(1), "K", "kv_num_heads", self.kv_heads)?;
        let value = Heads::of(shape(2), "V", "kv_num_heads", self.kv_heads)?;
        let same = |what: &str, left: &Dim, right: &Dim| match unify(left, right) {
            Some(_) => Ok(()),
            None => Err(Fault::shape(format!("{what} differ: {left} and {right}"))),
        };
        if let (Some(query), Some(key)) = (&query, &key) {
            same("head sizes of Q and K", &query.size, &key.size)?;
            same("batches of Q and K", &query.batch, &key.batch)?;
            if query.heads.modulo(&key.heads).is_eq(&Dim::ZERO) == Some(false) {
                return Err(Fault::shape(format!(
                    "{} query heads are no multiple of {} key heads",
                    query.heads, key.heads
                )));
            }
        }
        if let (Some(key), Some(value)) = (&key, &value) {
            same("lengths of K and V", &key.length, &value.length)?;
            same("heads of K and V", &key.heads, &value.heads)?;
        }
        for (input, side, name) in [(4, &key, "past_key"), (5, &value, "past_value")] {
            if let (Some(side), Some([batch, heads, _, size])) = (side, shape(input).map(Shape::dims)) {
                same(&format!("batches of {name} and what comes"), batch, &side.batch)?;
                same(&format!("heads of {name} and what comes"), heads, &side.heads)?;
                same(&format!("head sizes of {name} and what comes"), size, &side.size)?;
            }
        }
        let new = key.as_ref().or(value.as_ref()).map(|side| side.length.clone());
        let past = shape(4).or_else(|| shape(5)).and_then(|past| past.dim(2));
        let keys = match (new, past) {
            (Some(new), Some(past)) => Some(new + past),
            (Some(new), None) if !has_past => Some(new),
            _ => None,
        };
        Ok(Operands { query, key, value, keys })
    }
}

impl Attention {
    /// The attention that one kernel runs.
    fn family(&self, cx: &WorkCx<'_>) -> Option<Family> {
        let (query, key) = (cx.input(0)?, cx.input(1)?);
        let count = |heads: Option<i64>| heads.and_then(|heads| u64::try_from(heads).ok());
        let [batch, heads, queries, head_dim] = match *query.dims {
            [batch, heads, length, size] => [batch, heads, length, size],
            [batch, length, hidden] => {
                let heads = count(self.heads)?;
                [batch, heads, length, hidden.checked_div(heads)?]
            }
            _ => return None,
        };
        let (kv_heads, new) = match *key.dims {
            [_, heads, length, _] => (heads, length),
            [_, length, _] => (count(self.kv_heads)?, length),
            _ => return None,
        };
        let past = cx.input(4).and_then(|past| past.dim(2)).unwrap_or(0);
        let keys = new.saturating_add(past);
        Some(Family::Attention { batch, heads, kv_heads, queries, keys, head_dim, causal: self.causal })
    }
}

/// What a fused attention keeps: query, key and value (these inputs), what is added to the scores, the output, and the
/// logarithm of the sum of each row of scores, in single precision.
pub(super) fn kept(cx: &WorkCx<'_>, operands: Saved, family: Option<Family>) -> Saved {
    let rows = match family {
        Some(Family::Attention { batch, heads, queries, .. }) => super::work::product(&[batch, heads, queries]),
        _ => 0,
    };
    operands.and(Saved::output(0)).and(Saved::extra(rows.saturating_mul(4))).when(cx.has_backward())
}

impl Operator for Attention {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let query_element = common_element(cx, &[0, 1, 4])?;
        let value_element = common_element(cx, &[2, 5])?;
        if cx.has(4) != cx.has(5) {
            return Err(Fault::new(Code::WrongArity, "past_key and past_value are given together or not at all"));
        }
        let Operands { query, key, value, keys } = self.operands(|input| cx.shape(input), cx.has(4))?;
        let flat = cx.shape(0).is_some_and(|shape| shape.rank() == 3);
        let mut facts = match &query {
            None => vec![Fact::tensor(query_element, None)],
            Some(query) => {
                let axis = if flat { 2 } else { 3 };
                let size = value.as_ref().map(|value| value.size.clone());
                let mut dims = vec![query.batch.clone()];
                if flat {
                    let hidden = size.map(|size| size * &query.heads);
                    dims.extend([query.length.clone(), hidden.unwrap_or_else(|| cx.fresh_dim(0, axis, 0, None))]);
                } else {
                    let size = size.unwrap_or_else(|| cx.fresh_dim(0, axis, 0, None));
                    dims.extend([query.heads.clone(), query.length.clone(), size]);
                }
                vec![Fact::tensor(query_element, Shape::new(dims))]
            }
        };
        for (output, side, element) in [(1, &key, query_element), (2, &value, value_element)] {
            let shape = side.as_ref().map(|side| {
                let keys = keys.clone().unwrap_or_else(|| cx.fresh_dim(output, 2, 0, None));
                Shape::new(vec![side.batch.clone(), side.heads.clone(), keys, side.size.clone()])
            });
            facts.push(Fact::tensor(element, shape));
        }
        let scores = query.map(|query| {
            let keys = keys.unwrap_or_else(|| cx.fresh_dim(3, 3, 0, None));
            Shape::new(vec![query.batch, query.heads, query.length, keys])
        });
        facts.push(Fact::tensor(query_element, scores));
        facts.truncate(cx.output_count());
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let operands = self.operands(|input| cx.shape_in(input), cx.has(4)).ok()?;
        let query = operands.query?;
        // Divide, tanh, multiply.
        let capped = if self.softcap { 3 } else { 0 };
        let scores = Scores {
            count: query.batch * query.heads * query.length * operands.keys?,
            head_size: query.size,
            value_size: operands.value?.size,
            per_score: Scores::per_score(cx.has(3) || self.causal) + capped,
        };
        let needs = [
            cx.needs_gradient(0),
            cx.needs_gradient(1) || cx.needs_gradient(4),
            cx.needs_gradient(2) || cx.needs_gradient(5),
        ];
        Cost::composed(cx, scores.macs(), &scores.other(), scores.backward(needs))
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        cx.one(self.family(cx))
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        kept(cx, Saved::inputs(0..4), self.family(cx))
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ir::shape::Shape;
    use crate::ops::testing::{TestNode, dims, float, free, op};

    fn attention() -> TestNode {
        op("Attention").opset(23)
    }

    #[test]
    fn every_query_head_counts_when_keys_are_shared() {
        let inputs = [float(&[1, 8, 16, 64]), float(&[1, 2, 16, 64]), float(&[1, 2, 16, 64])];
        assert_eq!(attention().dims(&inputs), "1×8×16×64");
        let cost = attention().cost(&inputs);
        assert_eq!(cost.macs, Dim::constant(262_144));
        assert_eq!(cost.flops, Dim::constant(2 * 262_144 + 5 * 2_048));
        // dQ, dK, dV and the gradient of the scores: twice the products.
        assert_eq!(cost.backward_flops, Dim::constant(4 * 262_144 + 5 * 2_048));
        let all = || float(&[1, 12, 64, 64]);
        assert_eq!(attention().cost(&[all(), all(), all()]).macs, Dim::constant(6_291_456));
    }

    #[test]
    fn causal_attention_counts_the_whole_square() {
        let all = || float(&[1, 4, 16, 32]);
        assert_eq!(attention().int("is_causal", 1).cost(&[all(), all(), all()]).macs, Dim::constant(65_536));
    }

    #[test]
    fn three_dims_are_split_by_the_heads() {
        let inputs = [float(&[2, 10, 512]), float(&[2, 20, 128]), float(&[2, 20, 256])];
        let node = || attention().int("q_num_heads", 8).int("kv_num_heads", 2);
        assert_eq!(node().dims(&inputs), "2×10×1024");
        assert_eq!(node().cost(&inputs).macs, Dim::constant(2 * 8 * 10 * 20 * (64 + 128)));
        assert!(attention().run(&inputs).unwrap_err().message.contains("q_num_heads is needed"));
        let fault = attention().int("q_num_heads", 7).int("kv_num_heads", 2).run(&inputs).unwrap_err();
        assert_eq!(fault.message, "Q has 512 elements, which 7 heads do not divide");
        assert!(attention().int("q_num_heads", 0).run(&inputs).is_err());
    }

    #[test]
    fn past_keys_belong_to_the_same_samples() {
        let of = |batch: i128, length: i128| Some(float(&[batch, 2, length, 8]));
        let inputs = [of(2, 1), of(2, 1), of(2, 1), None, of(2, 4), of(1, 4)];
        let fault = op("Attention").run_optional(&inputs).unwrap_err();
        assert_eq!(fault.message, "batches of past_value and what comes differ: 1 and 2");
    }

    #[test]
    fn past_keys_lengthen_the_present() {
        let symbolic = Fact::tensor(
            ElementType::Float,
            Shape::new(vec![Dim::ONE, Dim::constant(2), free("P"), Dim::constant(64)]),
        );
        let new = || float(&[1, 2, 1, 64]);
        let inputs =
            [Some(float(&[1, 8, 1, 64])), Some(new()), Some(new()), None, Some(symbolic.clone()), Some(symbolic)];
        let (facts, _, cost) = attention().outputs(4).run_optional(&inputs).unwrap();
        let shapes: Vec<_> = facts.iter().map(dims).collect();
        assert_eq!(shapes[0], "1×8×1×64");
        assert_eq!(shapes[1], shapes[2]);
        let length = |fact: &Fact, axis: usize| fact.as_tensor().unwrap().shape.clone().unwrap().dims()[axis].clone();
        assert_eq!(length(&facts[1], 2), free("P") + 1);
        assert_eq!(length(&facts[3], 3), free("P") + 1);
        assert_eq!(cost.unwrap().macs, (free("P") + 1) * (8 * 128));
    }

    #[test]
    fn misfits_between_query_key_and_value_are_named() {
        let message = |inputs: [Fact; 3]| attention().run(&inputs).unwrap_err().message;
        let all = |heads, length, size| float(&[1, heads, length, size]);
        assert_eq!(message([all(8, 4, 64), all(8, 4, 32), all(8, 4, 32)]), "head sizes of Q and K differ: 64 and 32");
        assert_eq!(
            message([all(8, 4, 64), all(3, 4, 64), all(3, 4, 64)]),
            "8 query heads are no multiple of 3 key heads"
        );
        assert_eq!(message([all(8, 4, 64), all(8, 4, 64), all(8, 5, 64)]), "lengths of K and V differ: 4 and 5");
        assert_eq!(message([float(&[4, 64]), all(8, 4, 64), all(8, 5, 64)]), "Q is 4×64; 3 or 4 dims are allowed");
    }
}
