//! `QuantizeLinear`, `DequantizeLinear` and `DynamicQuantizeLinear`, by tensor, by axis and by block.

use super::normalization::expect_axis;
use super::operands::element_attribute;
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// Operations for each element: division and rounding, or difference and product.
pub(super) const QUANTIZE: i128 = 2;

/// `QuantizeLinear`, `DequantizeLinear`.
#[derive(Clone, Debug)]
pub struct Quantize {
    /// Whether it goes back from integers.
    pub inverse: bool,
    /// Axis of a scale that is a vector, or of the blocks.
    pub axis: i64,
    /// Elements along the axis that share a scale; 0 where scales are not by block.
    pub block_size: i64,
    /// Element type of the output, where the attribute says it.
    pub output: Option<ElementType>,
}

fn build(node: &NodeView<'_>, inverse: bool) -> Built {
    let block_size = node.int_or("block_size", 0)?;
    if block_size < 0 {
        return Err(Fault::attribute(format!("attribute block_size is {block_size}; at least 0 is allowed")));
    }
    let output = element_attribute("output_dtype", node.int_or("output_dtype", 0)?)?;
    Ok(Box::new(Quantize { inverse, axis: node.int_or("axis", 1)?, block_size, output }))
}

/// `QuantizeLinear`.
pub(super) fn quantize(node: &NodeView<'_>) -> Built {
    build(node, false)
}

/// `DequantizeLinear`.
pub(super) fn dequantize(node: &NodeView<'_>) -> Built {
    build(node, true)
}

impl Quantize {
    /// Checks the shape of the scale against the input's.
    fn check_scale(&self, shape: &Shape, scale: &Shape) -> Result<(), Fault> {
        let misfit = |wanted: &Shape| Err(Fault::shape(format!("scale has shape {scale}, {wanted} is needed")));
        if self.block_size > 0 {
            let axis = expect_axis(shape, "axis", self.axis)?;
            let mut wanted = shape.clone();
            if let Some(dim) = wanted.dims_mut().get_mut(axis) {
                *dim = dim.ceil_div(&Dim::from(self.block_size));
            }
            let differs = |(found, wanted): (&Dim, &Dim)| found.is_eq(wanted) == Some(false);
            if scale.rank() != wanted.rank() || scale.dims().iter().zip(wanted.dims()).any(differs) {
                return misfit(&wanted);
            }
            return Ok(());
        }
        // One number, however it is written, is for the whole tensor.
        if scale.rank() > 1 && scale.elements().as_const() != Some(1) {
            return Err(Fault::shape(format!("scale has shape {scale}; one number or a vector is needed")));
        }
        match scale.dim(0) {
            Some(length) if length.as_const() != Some(1) => {
                let axis = expect_axis(shape, "axis", self.axis)?;
                match shape.dim(axis) {
                    Some(wanted) if wanted.is_eq(length) == Some(false) => misfit(&Shape::new(vec![wanted.clone()])),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

impl Operator for Quantize {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        if let (Some(shape), Some(scale)) = (cx.shape(0), cx.shape(1)) {
            self.check_scale(shape, scale)?;
        }
        let element = self.output.or_else(|| match (self.inverse, cx.has(2)) {
            (true, _) => cx.element(1),
            (false, true) => cx.element(2),
            (false, false) => Some(ElementType::Uint8),
        });
        Ok(vec![Fact::tensor(element, cx.shape(0).cloned())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let flops = cx.elements_out(0)? * QUANTIZE;
        let backward = if cx.needs_gradient(0) { flops.clone() } else { Dim::ZERO };
        Cost::composed(cx, Dim::ZERO, &flops, backward)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Weight } else { Role::Setting }
    }
}

/// `DynamicQuantizeLinear`: chooses scale and zero point by the range of the input.
#[derive(Clone, Debug)]
pub struct DynamicQuantize;

/// `DynamicQuantizeLinear`.
pub(super) fn dynamic_quantize(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(DynamicQuantize))
}

impl Operator for DynamicQuantize {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        Ok(vec![
            Fact::tensor(ElementType::Uint8, cx.shape(0).cloned()),
            Fact::tensor(ElementType::Float, Shape::scalar()),
            Fact::tensor(ElementType::Uint8, Shape::scalar()),
        ])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        // Minimum and maximum, then as with a known scale.
        let flops = cx.elements_in(0)? * (QUANTIZE + 2);
        Cost::composed(cx, Dim::ZERO, &flops, Dim::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{float, op, typed};

    #[test]
    fn the_zero_point_decides_the_type_of_the_integers() {
        let int8 = typed(ElementType::Int8, &[]);
        assert_eq!(
            op("QuantizeLinear").run(&[float(&[2, 3]), float(&[])]).unwrap(),
            [typed(ElementType::Uint8, &[2, 3])]
        );
        let facts = op("QuantizeLinear").run(&[float(&[2, 3]), float(&[]), int8]).unwrap();
        assert_eq!(facts, [typed(ElementType::Int8, &[2, 3])]);
        let facts = op("QuantizeLinear").int("output_dtype", 22).run(&[float(&[2, 3]), float(&[])]).unwrap();
        assert_eq!(facts, [typed(ElementType::Int4, &[2, 3])]);
        assert!(op("QuantizeLinear").int("output_dtype", 99).run(&[float(&[2, 3]), float(&[])]).is_err());
    }

    #[test]
    fn the_scale_decides_the_type_of_the_reals() {
        let inputs = [typed(ElementType::Int8, &[2, 3]), typed(ElementType::Float16, &[])];
        assert_eq!(op("DequantizeLinear").run(&inputs).unwrap(), [typed(ElementType::Float16, &[2, 3])]);
        assert_eq!(op("DequantizeLinear").cost(&inputs).flops, Dim::constant(12));
    }

    #[test]
    fn scales_fit_the_axis_or_its_blocks() {
        let weights = || typed(ElementType::Int8, &[4, 64]);
        let node = || op("DequantizeLinear");
        assert!(node().int("axis", 0).run(&[weights(), float(&[4])]).is_ok());
        let fault = node().int("axis", 1).run(&[weights(), float(&[4])]).unwrap_err();
        assert_eq!(fault.message, "scale has shape 4, 64 is needed");
        assert!(node().int("axis", 1).int("block_size", 32).run(&[weights(), float(&[4, 2])]).is_ok());
        let fault = node().int("axis", 1).int("block_size", 16).run(&[weights(), float(&[4, 2])]).unwrap_err();
        assert_eq!(fault.message, "scale has shape 4×2, 4×4 is needed");
        assert!(node().int("axis", 2).run(&[weights(), float(&[4])]).is_err());
        assert!(node().int("axis", 7).run(&[weights(), float(&[])]).is_ok());
    }

    #[test]
    fn dynamic_quantisation_gives_its_scale() {
        let facts = op("DynamicQuantizeLinear").outputs(3).run(&[float(&[2, 3])]).unwrap();
        assert_eq!(facts, [typed(ElementType::Uint8, &[2, 3]), float(&[]), typed(ElementType::Uint8, &[])]);
    }
}
