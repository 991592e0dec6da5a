//! Operators of frameworks that exporters take apart and `crate::passes::compose` puts together again, where ONNX has
//! none that fits. They are never inferred: the nodes that they stand for have been.

use super::work::{Family, Saved, Sized, Work, WorkCx, product};
use super::{Cost, CostCx, Fault, InferCx, Operator};
use crate::ir::fact::Fact;

/// A product of the last dim with a matrix, and a bias: x, weight (inputs × outputs), bias.
#[derive(Clone, Copy, Debug)]
pub struct Linear;

impl Operator for Linear {
    fn infer(&self, _cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        Ok(Vec::new())
    }

    fn cost(&self, _cx: &CostCx<'_>) -> Option<Cost> {
        None
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let family = || {
            let (x, y) = (cx.input(0)?, cx.output(0)?);
            let (k, n) = (x.dim_from_end(0)?, y.dim_from_end(0)?);
            Some(Family::Product { batch: 1, m: x.elements() / k.max(1), n, k })
        };
        family().map_or_else(|| vec![cx.elementwise()], |family| vec![cx.all(family).of_operands(0, 1)])
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::input(0).when(cx.needs(1)).and(Saved::input(1).when(cx.needs(0)))
    }
}

/// Scaled-dot-product attention: query, key (transposed: head size × keys), value, and what is added to the scores.
#[derive(Clone, Copy, Debug)]
pub struct DotProductAttention;

impl Operator for DotProductAttention {
    fn infer(&self, _cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        Ok(Vec::new())
    }

    fn cost(&self, _cx: &CostCx<'_>) -> Option<Cost> {
        None
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let family = || {
            let (query, key) = (cx.input(0)?, cx.input(1)?);
            let (queries, keys) = (query.dim_from_end(1)?, key.dim_from_end(0)?);
            let head_dim = query.dim_from_end(0)?;
            let (batch, heads) = leading(query);
            Some(Family::Attention { batch, heads, kv_heads: heads, queries, keys, head_dim, causal: false })
        };
        cx.one(family())
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        // Query, key, value, output, and one number for each row of scores.
        let rows = cx.input(0).map_or(0, |query| query.elements() / query.dim_from_end(0).unwrap_or(1).max(1));
        let operands = (0..3).fold(Saved::output(0), |saved, input| saved.and(Saved::input(input)));
        operands.and(Saved::extra(4 * rows)).when(cx.needs_any())
    }
}

/// Samples and heads of a query: batch × heads × queries × size, or both in one dim.
fn leading(query: Sized<'_>) -> (u64, u64) {
    match query.dims.get(..query.dims.len().saturating_sub(2)) {
        Some([batch, heads @ ..]) if !heads.is_empty() => (*batch, product(heads)),
        Some([both]) => (1, *both),
        _ => (1, 1),
    }
}
