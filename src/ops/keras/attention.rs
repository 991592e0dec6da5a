//! Attention over one axis or several, by dot products or by sums. Inputs: query, key, value, then what is stored (a
//! scale) and masks. Outputs: the result, the scores.

use super::{Layer, Stores, compute, list};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, normalize_axis, product};
use crate::ops::attention::{Scores, head_size, kept};
use crate::ops::broadcast::unify;
use crate::ops::table::Built;
use crate::ops::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};

/// Inputs that are data.
const DATA: &[usize] = &[0, 1, 2, 5, 6, 7, 8];

/// `MultiHeadAttention` and `GroupedQueryAttention` between their projections; `Attention`, `AdditiveAttention`.
#[derive(Clone, Debug)]
struct Attention {
    /// 0 where the axis of the heads is not there.
    heads: i64,
    kv_heads: i64,
    /// Axes that are attended over; none for the second but last.
    axes: Vec<i64>,
    /// Whether scores are sums of a tanh instead of products.
    additive: bool,
    causal: bool,
    masked: bool,
    /// Whether the stored scale (input 3) has an element for each feature; with a single one, and a single one in input 4
    /// for `concat`, it does not.
    wide_scale: bool,
}

/// See [`Attention`].
pub(super) fn attention(node: &NodeView<'_>) -> Built {
    let heads = node.int_or("heads", 0)?;
    let layer = Attention {
        heads,
        kv_heads: node.int_or("kv_heads", heads)?,
        axes: list(node, "attention_axes")?,
        additive: node.flag("additive", false)?,
        causal: node.flag("causal", false)?,
        masked: node.flag("masked", false)?,
        wide_scale: node.flag("wide_scale", false)?,
    };
    let stores = Box::new(layer.clone());
    Ok(Box::new(Layer { stores, data: DATA, compute: compute(node)?, inner: Box::new(layer) }))
}

/// A side taken apart: samples, positions, features.
struct Side<T> {
    samples: Vec<T>,
    positions: Vec<T>,
    features: T,
}

impl Attention {
    fn side<T: Clone>(&self, dims: &[T]) -> Option<Side<T>> {
        let (features, rest) = dims.split_last()?;
        let axes: Vec<usize> = if self.axes.is_empty() {
            vec![rest.len().checked_sub(1)?]
        } else {
            self.axes.iter().filter_map(|&axis| normalize_axis(axis, dims.len())).collect()
        };
        let (mut samples, mut positions) = (Vec::new(), Vec::new());
        for (axis, dim) in rest.iter().enumerate() {
            if axes.contains(&axis) { positions.push(dim.clone()) } else { samples.push(dim.clone()) }
        }
        Some(Side { samples, positions, features: features.clone() })
    }

    fn scores(&self, query: &Side<Dim>, key: &Side<Dim>, value: &Side<Dim>) -> Result<Scores, Fault> {
        let heads = Dim::from(self.heads.max(1));
        let kv_heads = Dim::from(self.kv_heads.max(1));
        let pairs = product(&query.positions) * product(&key.positions);
        Ok(Scores {
            count: product(&query.samples) * &heads * pairs,
            head_size: head_size("the query", &query.features, &heads)?,
            value_size: head_size("the value", &value.features, &kv_heads)?,
            // The root of the head size divides once for each score.
            per_score: Scores::per_score(self.masked || self.causal),
        })
    }

    fn sides<'a>(&self, shape: impl Fn(usize) -> Option<&'a Shape>) -> Option<[Side<Dim>; 3]> {
        let side = |input: usize| self.side(shape(input)?.dims());
        Some([side(0)?, side(1)?, side(2)?])
    }

    fn family(&self, cx: &WorkCx<'_>) -> Option<Family> {
        let side = |input: usize| self.side(cx.input(input)?.dims);
        let (query, key) = (side(0)?, side(1)?);
        let (heads, kv_heads) = (self.heads.max(1).unsigned_abs(), self.kv_heads.max(1).unsigned_abs());
        let all = |dims: &[u64]| crate::ops::work::product(dims);
        Some(Family::Attention {
            batch: all(&query.samples),
            heads,
            kv_heads,
            queries: all(&query.positions),
            keys: all(&key.positions),
            head_dim: query.features.checked_div(heads)?,
            causal: self.causal,
        })
    }
}

impl Stores for Attention {
    fn shapes(&self, cx: &InferCx<'_>) -> Result<Vec<(usize, Shape)>, Fault> {
        if !self.wide_scale {
            return Ok(vec![(3, Shape::scalar()), (4, Shape::scalar())]);
        }
        let features = cx.shape(0).and_then(|shape| shape.dims().last()).filter(|dim| dim.as_const().is_some());
        Ok(features.map(|dim| (3, Shape::new(vec![dim.clone()]))).into_iter().collect())
    }
}

impl Operator for Attention {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some([query, key, value]) = self.sides(|input| cx.shape(input)) else {
            return Ok(vec![Fact::tensor(element, None); cx.output_count()]);
        };
        for (query, key) in key.positions.iter().zip(&value.positions) {
            if unify(query, key).is_none() {
                return Err(Fault::shape(format!("lengths of key and value differ: {query} and {key}")));
            }
        }
        let scores = self.scores(&query, &key, &value)?;
        let same = key.features == query.features || self.kv_heads != self.heads;
        if !same && unify(&query.features, &key.features).is_none() {
            let (query, key) = (query.features, key.features);
            return Err(Fault::shape(format!("query and key have {query} and {key} features")));
        }
        let mut dims = cx.shape(0).map(|shape| shape.dims().to_vec()).unwrap_or_default();
        if let Some(last) = dims.last_mut() {
            *last = scores.value_size * i128::from(self.heads.max(1));
        }
        let mut facts = vec![Fact::tensor(element, Shape::new(dims))];
        if cx.output_count() > 1 {
            let heads = (self.heads > 0).then(|| Dim::from(self.heads));
            let dims = query.samples.into_iter().chain(heads).chain(query.positions).chain(key.positions);
            facts.push(Fact::tensor(element, dims.collect::<Shape>()));
        }
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let [query, key, value] = self.sides(|input| cx.shape_in(input))?;
        let scores = self.scores(&query, &key, &value).ok()?;
        let needs = [0, 1, 2].map(|input| cx.needs_gradient(input));
        if !self.additive {
            return Cost::composed(cx, scores.macs(), &scores.other(), scores.backward(needs));
        }
        // Sum, tanh, and where there is a scale its product; the sum over the features.
        let pairs = &scores.count * &scores.head_size;
        let each = 3 + i128::from(cx.has(3));
        let macs = &scores.count * &scores.value_size;
        let other = scores.other() + pairs * each;
        let backward = &macs * (2 * i128::from(needs[2]) + 2 * i128::from(needs[0] || needs[1])) + &other;
        Cost::composed(cx, macs, &other, backward)
    }

    fn role(&self, input: usize) -> Role {
        if DATA.contains(&input) { Role::Data } else { Role::Weight }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        cx.one(self.family(cx))
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        kept(cx, Saved::inputs(0..3), self.family(cx))
    }
}
