//! Quantised elementwise operators of `com.microsoft`: `QLinearAdd` and `QLinearMul`, `QLinearSigmoid` and
//! `QLinearLeakyRelu`, `QLinearConcat`. Each dequantises, computes and quantises in one kernel; only the operation
//! and the quantisation of its output are counted. Convolutions, products and pools are with their float forms.

use super::broadcast::{pair, unify};
use super::normalization::expect_axis;
use super::quantize::QUANTIZE;
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Work, WorkCx, axes, reduce};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// `QLinearAdd`, `QLinearMul`: a and b with scale and zero point each, scale and zero point of the output.
#[derive(Clone, Debug)]
pub struct QuantizedBinary;

/// `QLinearAdd`, `QLinearMul`.
pub(super) fn binary(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(QuantizedBinary))
}

impl Operator for QuantizedBinary {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(7).or_else(|| cx.element(0)).or_else(|| cx.element(3));
        let (Some(left), Some(right)) = (cx.shape(0), cx.shape(3)) else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        Ok(vec![Fact::tensor(element, pair(left, right)?)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::elementwise(cx, 1 + QUANTIZE)
    }

    fn role(&self, input: usize) -> Role {
        if matches!(input, 0 | 3) { Role::Data } else { Role::Setting }
    }
}

/// `QLinearSigmoid`, `QLinearLeakyRelu`: x, its scale and zero point, scale and zero point of the output.
#[derive(Clone, Debug)]
pub struct QuantizedUnary;

/// `QLinearSigmoid`, `QLinearLeakyRelu`.
pub(super) fn unary(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(QuantizedUnary))
}

impl Operator for QuantizedUnary {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        Ok(vec![Fact::tensor(cx.element(0), cx.shape(0).cloned())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::elementwise(cx, 1 + QUANTIZE)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }
}

/// `QLinearConcat`: scale and zero point of the output, then tensor, scale and zero point of each part.
#[derive(Clone, Debug)]
pub struct QuantizedConcat {
    /// The axis along which the parts are joined.
    pub axis: i64,
}

/// `QLinearConcat`.
pub(super) fn concat(node: &NodeView<'_>) -> Built {
    Ok(Box::new(QuantizedConcat { axis: node.int("axis")?.ok_or_else(|| node.missing("axis"))? }))
}

impl Operator for QuantizedConcat {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(1).or_else(|| cx.element(2));
        let parts: Vec<_> = (2..cx.input_count()).step_by(3).map(|input| cx.shape(input)).collect();
        let Some(first) = parts.iter().copied().flatten().next() else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let axis = expect_axis(first, "axis", self.axis)?;
        let mut dims = first.dims().to_vec();
        let mut joined = Some(Dim::ZERO);
        for part in &parts {
            let Some(part) = part else {
                joined = None;
                continue;
            };
            if part.rank() != first.rank() {
                return Err(Fault::shape(format!("parts {first} and {part} differ in rank")));
            }
            for (index, (dim, found)) in dims.iter_mut().zip(part.dims()).enumerate() {
                if index == axis {
                    joined = joined.map(|joined| joined + found);
                } else {
                    *dim = unify(dim, found).ok_or_else(|| {
                        Fault::shape(format!("parts {first} and {part} differ in dim {index}, which is not joined"))
                    })?;
                }
            }
        }
        let joined = joined.unwrap_or_else(|| cx.fresh_dim(0, axis, 0, None));
        if let Some(dim) = dims.get_mut(axis) {
            *dim = joined;
        }
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::elementwise(cx, QUANTIZE)
    }

    fn role(&self, input: usize) -> Role {
        if input >= 2 && input % 3 == 2 { Role::Data } else { Role::Setting }
    }
}

/// `QLinearReduceMean`, `ReduceSumInteger`: x, and where it is quantised its scale and zero point and those of the output.
#[derive(Clone, Debug)]
pub struct QuantizedReduce {
    /// Axes that are reduced.
    pub axes: Vec<i64>,
    /// Whether they stay with one element.
    pub keep: bool,
    /// Whether the sum has a type of its own.
    pub sum: bool,
}

/// `QLinearReduceMean`, `ReduceSumInteger`.
pub(super) fn reduce_mean(node: &NodeView<'_>) -> Built {
    let axes = node.ints("axes")?.ok_or_else(|| node.missing("axes"))?;
    let sum = node.op_type() == "ReduceSumInteger";
    Ok(Box::new(QuantizedReduce { axes, keep: node.flag("keepdims", true)?, sum }))
}

impl Operator for QuantizedReduce {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = match (self.sum, cx.element(0)) {
            (true, Some(ElementType::Uint8)) => Some(ElementType::Uint32),
            (true, Some(_)) => Some(ElementType::Int32),
            (_, element) => element,
        };
        let Some(shape) = cx.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
        let axes = axes::indices(&self.axes, shape.rank())?;
        Ok(vec![Fact::tensor(element, reduce::reduced(shape, &axes, self.keep))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let quantized = if self.sum { Dim::ZERO } else { cx.elements_out(0)? * QUANTIZE };
        Cost::computed(cx, cx.elements_in(0)? + quantized, &Dim::ZERO)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.reduction()]
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ops::testing::{float, microsoft, typed};

    fn part(dims: &[i128]) -> [Fact; 3] {
        [typed(ElementType::Uint8, dims), float(&[]), typed(ElementType::Uint8, &[])]
    }

    #[test]
    fn quantised_sum_broadcasts() {
        let inputs = [&part(&[1, 4, 6, 6])[..], &part(&[4, 1, 1]), &part(&[])[1..]].concat();
        assert_eq!(microsoft("QLinearAdd").run(&inputs).unwrap(), [typed(ElementType::Uint8, &[1, 4, 6, 6])]);
        assert_eq!(microsoft("QLinearMul").cost(&inputs).flops, Dim::constant(3 * 144));
        let inputs = [&part(&[4])[..], &part(&[3]), &part(&[])[1..]].concat();
        assert_eq!(microsoft("QLinearAdd").run(&inputs).unwrap_err().code.name(), "shape-mismatch");
    }

    #[test]
    fn quantised_activations_keep_the_shape() {
        let inputs = [&part(&[2, 3])[..], &part(&[])[1..]].concat();
        assert_eq!(microsoft("QLinearSigmoid").run(&inputs).unwrap(), [typed(ElementType::Uint8, &[2, 3])]);
        assert_eq!(microsoft("QLinearLeakyRelu").dims(&inputs), "2×3");
    }

    #[test]
    fn quantised_parts_are_joined_along_the_axis() {
        let inputs = [&part(&[])[1..], &part(&[1, 4, 6]), &part(&[1, 5, 6])].concat();
        assert_eq!(microsoft("QLinearConcat").int("axis", 1).dims(&inputs), "1×9×6");
        assert!(microsoft("QLinearConcat").int("axis", 2).run(&inputs).is_err());
        assert!(microsoft("QLinearConcat").int("axis", 3).run(&inputs).is_err());
    }

    #[test]
    fn quantised_means_lose_axes() {
        let inputs = [&part(&[2, 3, 4])[..], &part(&[])[1..]].concat();
        let node = microsoft("QLinearReduceMean").ints("axes", &[-1]).int("keepdims", 0);
        assert_eq!(node.run(&inputs).unwrap(), [typed(ElementType::Uint8, &[2, 3])]);
        let sum = microsoft("ReduceSumInteger").ints("axes", &[0]).int("keepdims", 1);
        assert_eq!(sum.run(&inputs[..1]).unwrap(), [typed(ElementType::Uint32, &[1, 3, 4])]);
    }

    #[test]
    fn quantised_pools_read_settings_beside_their_data() {
        let inputs = [&part(&[1, 4, 6, 6])[..], &part(&[])[1..]].concat();
        let pool = microsoft("QLinearAveragePool").ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2]);
        assert_eq!(pool.run(&inputs).unwrap(), [typed(ElementType::Uint8, &[1, 4, 3, 3])]);
        let last = microsoft("QLinearGlobalAveragePool").int("channels_last", 1);
        assert_eq!(last.dims(&inputs), "1×1×1×6");
    }
}
