//! `FlexAttention` of `ai.onnx.preview`: attention whose scores and probabilities pass through subgraphs.

use super::attention::Attention;
use super::cast;
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Repeats, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

#[derive(Debug)]
struct FlexAttention {
    inner: Attention,
    /// Element type of scores and probabilities.
    precision: Option<ElementType>,
}

/// `FlexAttention`.
pub(super) fn flex_attention(node: &NodeView<'_>) -> Built {
    let precision =
        node.int("softmax_precision")?.map(|code| cast::element_type("softmax_precision", code)).transpose()?;
    let inner = Attention { heads: None, kv_heads: None, causal: false, softcap: false };
    Ok(Box::new(FlexAttention { inner, precision }))
}

impl Operator for FlexAttention {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        for (input, name) in [(0, "Q"), (1, "K"), (2, "V")] {
            super::operands::expect_rank(cx, input, name, 4)?;
        }
        let facts = self.inner.infer(cx)?;
        let dim = |input: usize, axis| cx.shape(input).and_then(|shape| shape.dim(axis)).cloned();
        let precision = self.precision.or_else(|| match cx.element(0) {
            Some(ElementType::Double) => Some(ElementType::Double),
            Some(_) => Some(ElementType::Float),
            None => None,
        });
        let keys = dim(1, 2).or_else(|| dim(2, 2));
        let scores: Option<Shape> = [dim(0, 0), dim(0, 1), dim(0, 2), keys].into_iter().collect();
        let scores = Fact::tensor(precision, scores);
        // Both subgraphs, whichever are there, get a tensor of this shape and give one.
        for child in 0..2 {
            cx.infer_child(child, std::slice::from_ref(&scores));
            cx.set_repeats(child, Repeats::Exactly(Dim::ONE));
        }
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        self.inner.cost(cx)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        self.inner.work(cx)
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        self.inner.saved(cx)
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ops::testing::{TestNode, float, op};

    fn flex() -> TestNode {
        op("FlexAttention").domain("ai.onnx.preview").opset(1)
    }

    #[test]
    fn heads_of_the_query_and_size_of_the_value_come_out() {
        let inputs = [float(&[2, 8, 4, 16]), float(&[2, 2, 6, 16]), float(&[2, 2, 6, 32])];
        assert_eq!(flex().dims(&inputs), "2×8×4×32");
        assert_eq!(flex().cost(&inputs).macs, Dim::constant(2 * 8 * 4 * 6 * (16 + 32)));
    }

    #[test]
    fn three_dims_are_refused() {
        let fault = flex().run(&[float(&[2, 4, 16]), float(&[2, 2, 6, 16]), float(&[2, 2, 6, 32])]).unwrap_err();
        assert!(fault.message.contains("rank 4 is needed"), "{}", fault.message);
    }
}
