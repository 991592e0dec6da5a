//! Operators of `com.microsoft` that keep the shape of an input: sums with a bias and what follows them, fused
//! normalisations, checks, hashes, and quantised functions. Those of training graphs are in `microsoft_training`.

use super::alike::{Alike, Out, Runs};
use super::normalization::{MEAN_VARIANCE, ROOT_MEAN_SQUARE};
use super::operands::element_attribute;
use super::quantize::QUANTIZE;
use super::softmax::SOFTMAX;
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Saved, broadcast};
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

const FIRST: [Out; 1] = [Out::Of(0)];

/// Every operator of this file but those that broadcast.
pub(super) fn alike(node: &NodeView<'_>) -> Built {
    let mask = Out::As(0, ElementType::Bool);
    let hashed = if node.flag("positive", true)? { ElementType::Uint32 } else { ElementType::Int32 };
    let to = element_attribute("to", node.int_or("to", 1)?)?.unwrap_or(ElementType::Float);
    Ok(Box::new(match node.op_type() {
        "BiasAdd" => Alike::new(FIRST).operations(2).weights(&[1]),
        // Sums, the mask and the scale.
        "BiasDropout" => Alike::new([Out::Of(0), mask]).operations(4).weights(&[1]).settings(&[3, 4]),
        "BitmaskBiasDropout" => Alike::new([Out::Of(0), Out::Bits(0)]).operations(4).weights(&[1]).settings(&[3, 4]),
        "BitmaskDropout" => Alike::new([Out::Of(0), Out::Bits(0)]).operations(2).settings(&[1, 2]),
        "BiasSoftmax" => Alike::new(FIRST).operations(1 + SOFTMAX).runs(Runs::Softmax).saves(Saved::output(0)),
        "QLinearSoftmax" => {
            Alike::new(FIRST).operations(SOFTMAX + QUANTIZE).runs(Runs::Softmax).settings(&[1, 2, 3, 4])
        }
        "ScaledSiLU" => Alike::new(FIRST).operations(3).settings(&[1]).saves(Saved::input(0)),
        "GatedAdd" => Alike::new(FIRST).operations(2).weights(&[3]).saves(Saved::inputs(0..4)),
        "GatedRMSNorm" => {
            let operations = ROOT_MEAN_SQUARE + 2;
            Alike::new(FIRST).operations(operations).runs(Runs::Norm).weights(&[1]).saves(Saved::inputs(0..3))
        }
        "BranchwiseRMSNorm" => {
            Alike::new(FIRST).operations(ROOT_MEAN_SQUARE).runs(Runs::Norm).weights(&[1]).saves(Saved::inputs(0..2))
        }
        "QOrderedLayerNormalization" => {
            let operations = MEAN_VARIANCE + QUANTIZE;
            Alike::new(FIRST).operations(operations).runs(Runs::Norm).weights(&[2, 3]).settings(&[1, 4])
        }
        "QOrderedGelu" => Alike::new(FIRST).operations(1 + QUANTIZE).settings(&[1, 2]),
        "QuantizeWithOrder" => Alike::new([Out::As(0, ElementType::Int8)]).operations(QUANTIZE).settings(&[1]),
        "DequantizeWithOrder" => Alike::new([Out::As(0, to)]).settings(&[1]),
        "GemmaRotaryEmbedding" => Alike::new([Out::Of(1), Out::Of(3)]).operations(6).saves(Saved::input(0)),
        // The sum, its softplus and factor; the other gate is a sigmoid.
        "LinearAttentionGate" => {
            Alike::new([Out::Of(0), Out::Of(0)]).operations(4).weights(&[1, 2]).saves(Saved::input(0))
        }
        "MRotaryEmbedding" => Alike::new(FIRST).operations(3).settings(&[1]).saves(Saved::inputs(1..4)),
        // Two normalisations, their product, a gate and what it lets pass.
        "EngramGate" => Alike::new([Out::Of(0), Out::Of(0)])
            .operations(2 * ROOT_MEAN_SQUARE + 4)
            .runs(Runs::Norm)
            .weights(&[3, 4, 5])
            .saves(Saved::inputs(0..5)),
        "ConvStateReplay" | "GatedDeltaNetStateReplay" => {
            Alike::new([Out::Of(2)]).runs(Runs::Moves).settings(&[3]).without_gradient()
        }
        "NGramRepeatBlock" => Alike::new([Out::Of(1)]).without_gradient(),
        "MurmurHash3" => Alike::new([Out::As(0, hashed)]).operations(8).without_gradient(),
        "IsAllFinite" => Alike::new([Out::One(ElementType::Bool)]).runs(Runs::Reduction).without_gradient(),
        // `SampleOp` and what else only hands its input on.
        _ => Alike::new(FIRST).runs(Runs::Moves),
    }))
}

/// Operators of two or three tensors that broadcast.
#[derive(Debug)]
struct Broadcast {
    inputs: [usize; 2],
    /// A condition that broadcasts with the others.
    condition: Option<usize>,
    element: Element,
    operations: i128,
    settings: &'static [usize],
}

#[derive(Debug)]
enum Element {
    Of(usize),
    Is(ElementType),
}

/// `ComplexMul`, `ComplexMulConj`, `MulInteger`, `QLinearWhere`.
pub(super) fn broadcasting(node: &NodeView<'_>) -> Built {
    Ok(Box::new(match node.op_type() {
        "MulInteger" => Broadcast {
            inputs: [0, 2],
            condition: None,
            element: Element::Is(ElementType::Int32),
            operations: 3,
            settings: &[1, 3],
        },
        "QLinearWhere" => Broadcast {
            inputs: [1, 4],
            condition: Some(0),
            element: Element::Of(1),
            operations: 1 + QUANTIZE,
            settings: &[2, 3, 5, 6, 7, 8],
        },
        // Two numbers of the last dim are one complex number: four products and two sums for both.
        _ => Broadcast { inputs: [0, 1], condition: None, element: Element::Of(0), operations: 3, settings: &[] },
    }))
}

impl Operator for Broadcast {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = match self.element {
            Element::Of(input) => cx.element(input),
            Element::Is(element) => Some(element),
        };
        let shape: Option<Shape> = broadcast::inputs(cx, self.condition.into_iter().chain(self.inputs))?;
        Ok(vec![Fact::tensor(element, shape)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::elementwise(cx, self.operations)
    }

    fn role(&self, input: usize) -> Role {
        if self.settings.contains(&input) { Role::Setting } else { Role::Data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::dim::Dim;
    use crate::ops::testing::{dims, float, microsoft, typed};

    #[test]
    fn gates_and_rotations_of_decoders_keep_their_shape() {
        let gate = || microsoft("LinearAttentionGate").outputs(2);
        let inputs = [float(&[2, 5, 8]), float(&[8]), float(&[8]), float(&[2, 5, 8])];
        assert_eq!(gate().run(&inputs).unwrap(), [float(&[2, 5, 8]), float(&[2, 5, 8])]);
        let replay = [float(&[100]), float(&[20]), float(&[60]), typed(ElementType::Int64, &[8])];
        assert_eq!(microsoft("ConvStateReplay").dims(&replay), "60");
    }

    #[test]
    fn a_sum_with_bias_and_residual_takes_two_operations() {
        let inputs = [float(&[2, 8, 16]), float(&[16]), float(&[2, 8, 16])];
        assert_eq!(microsoft("BiasAdd").dims(&inputs), "2×8×16");
        assert_eq!(microsoft("BiasAdd").cost(&inputs).flops, Dim::constant(512));
        let facts = microsoft("BitmaskBiasDropout").outputs(2).run(&inputs).unwrap();
        assert_eq!(facts[1], typed(ElementType::Uint32, &[8]));
        let facts = microsoft("BiasDropout").outputs(2).run(&inputs).unwrap();
        assert_eq!(facts[1], typed(ElementType::Bool, &[2, 8, 16]));
    }

    #[test]
    fn types_follow_the_operator() {
        let input = [float(&[2, 3])];
        assert_eq!(microsoft("IsAllFinite").run(&input).unwrap(), [typed(ElementType::Bool, &[])]);
        assert_eq!(microsoft("MurmurHash3").run(&input).unwrap(), [typed(ElementType::Uint32, &[2, 3])]);
        let quantized = microsoft("QuantizeWithOrder").run(&[float(&[2, 3]), float(&[])]).unwrap();
        assert_eq!(quantized, [typed(ElementType::Int8, &[2, 3])]);
    }

    #[test]
    fn complex_and_quantised_operands_broadcast() {
        let facts = microsoft("ComplexMul").run(&[float(&[2, 1, 2]), float(&[3, 2])]).unwrap();
        assert_eq!(dims(&facts[0]), "2×3×2");
        let part = |dims: &[i128]| typed(ElementType::Uint8, dims);
        let mut inputs = vec![typed(ElementType::Bool, &[4, 1]), part(&[5]), float(&[]), part(&[])];
        inputs.extend([part(&[4, 5]), float(&[]), part(&[]), float(&[]), part(&[])]);
        assert_eq!(microsoft("QLinearWhere").run(&inputs).unwrap(), [part(&[4, 5])]);
    }
}
