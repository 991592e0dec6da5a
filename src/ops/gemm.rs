//! `Gemm`, the product of two matrices plus a bias, and its fused and quantised forms. Products of tensors of any rank
//! are in `matmul`.

use super::broadcast::unify;
use super::operands::{common_element, element_attribute, may_stretch_to};
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// `alpha * a * b + beta * c`, each of a and b transposed or not.
#[derive(Clone, Debug)]
pub struct Gemm {
    /// Whether a is stored as columns × rows.
    pub transpose_left: bool,
    /// Whether b is stored as columns × rows.
    pub transpose_right: bool,
    /// Whether an activation is applied to the output.
    pub activation: bool,
    /// `QGemm`: a and b with scale and zero point each, c, scale and zero point of y.
    pub quantized: bool,
    /// `GemmFloat8`: the element type of y; scales of a, b and y follow c.
    pub float8: Option<ElementType>,
}

/// `Gemm`, `FusedGemm`, `QGemm`.
pub(super) fn gemm(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Gemm {
        transpose_left: node.flag("transA", false)?,
        transpose_right: node.flag("transB", false)?,
        activation: node.string("activation")?.is_some_and(|name| !name.is_empty()),
        quantized: node.op_type() == "QGemm",
        float8: None,
    }))
}

/// `GemmFloat8`: a and b may have different types, y has that of an attribute.
pub(super) fn gemm_float8(node: &NodeView<'_>) -> Built {
    let float8 = element_attribute("dtype", node.int_or("dtype", 1)?)?;
    Ok(Box::new(Gemm {
        transpose_left: node.flag("transA", false)?,
        transpose_right: node.flag("transB", false)?,
        activation: node.string("activation")?.is_some_and(|name| !name.is_empty() && name != "NONE"),
        quantized: false,
        float8,
    }))
}

/// Rows and columns of a matrix input, as it is used.
fn matrix<'a>(shape: Option<&'a Shape>, name: &str, transposed: bool) -> Result<Option<[&'a Dim; 2]>, Fault> {
    let Some(shape) = shape else { return Ok(None) };
    match shape.dims() {
        [first, second] => Ok(Some(if transposed { [second, first] } else { [first, second] })),
        _ => Err(Fault::shape(format!("input {name} must be a matrix, {shape} has rank {}", shape.rank()))),
    }
}

impl Gemm {
    fn right(&self) -> usize {
        if self.quantized { 3 } else { 1 }
    }

    fn bias(&self) -> usize {
        if self.quantized { 6 } else { 2 }
    }
}

impl Operator for Gemm {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = match (self.float8, self.quantized) {
            (Some(element), _) => Some(element),
            (None, true) => cx.element(8).or(Some(ElementType::Float)),
            (None, false) => common_element(cx, &[0, 1, 2])?,
        };
        let left = matrix(cx.shape(0), "A", self.transpose_left)?;
        let right = matrix(cx.shape(self.right()), "B", self.transpose_right)?;
        if let (Some([_, inner_left]), Some([inner_right, columns])) = (left, right)
            && unify(inner_left, inner_right).is_none()
        {
            let fault = Fault::shape(format!(
                "inner dims differ: A gives {inner_left}, B takes {inner_right} (transA {}, transB {})",
                u8::from(self.transpose_left),
                u8::from(self.transpose_right)
            ));
            return Err(if columns == inner_left {
                fault.help(format!("transB = {} would fit", u8::from(!self.transpose_right)))
            } else {
                fault
            });
        }
        let bias = cx.shape(self.bias());
        let rows = left.map_or_else(|| cx.fresh_dim(0, 0, 0, None), |[rows, _]| rows.clone());
        let columns = match right {
            Some([_, columns]) => columns.clone(),
            None => match bias.and_then(|bias| bias.dims().last()).filter(|dim| dim.as_const() != Some(1)) {
                Some(columns) => columns.clone(),
                None => cx.fresh_dim(0, 1, 0, None),
            },
        };
        let dims = vec![rows, columns];
        if let Some(bias) = bias.filter(|bias| !may_stretch_to(bias, &dims)) {
            return Err(Fault::shape(format!("bias {bias} does not stretch to {}", Shape::new(dims))));
        }
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let outputs = cx.elements_out(0)?;
        let [_, inner] = matrix(cx.shape_in(0), "A", self.transpose_left).ok()??;
        let requantized = if self.quantized || self.float8.is_some() { 2 } else { 0 };
        let other = &outputs * (i128::from(cx.has(self.bias())) + i128::from(self.activation) + requantized);
        Cost::product(cx, outputs * inner, &other, [0, self.right(), self.bias()])
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 || input == self.right() || input == self.bias() { Role::Weight } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let (Some([first, second]), Some(output)) = (cx.input(0).map(|a| a.dims), cx.output(0)) else {
            return vec![cx.elementwise()];
        };
        let k = if self.transpose_left { *first } else { *second };
        let (m, n) = (output.dim(0).unwrap_or(1), output.dim_from_end(0).unwrap_or(1));
        vec![cx.all(Family::Product { batch: 1, m, n, k }).of_operands(0, self.right())]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        cx.other_operands(0, self.right()).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ops::testing::{float, microsoft, op, typed};

    #[test]
    fn transposed_weights_are_counted_the_same() {
        let inputs = [float(&[2, 8]), float(&[16, 8]), float(&[16])];
        assert_eq!(op("Gemm").int("transB", 1).dims(&inputs), "2×16");
        let cost = op("Gemm").int("transB", 1).cost(&inputs);
        assert_eq!((cost.macs, cost.flops), (Dim::constant(256), Dim::constant(512 + 32)));
        assert_eq!(op("Gemm").int("transA", 1).dims(&[float(&[8, 2]), float(&[8, 3])]), "2×3");
    }

    #[test]
    fn products_of_small_floats_have_the_type_of_an_attribute() {
        let small = |dims: &[i128]| typed(ElementType::Float8e4m3fn, dims);
        let node = || microsoft("GemmFloat8").int("transB", 1).int("dtype", 10);
        let inputs = [small(&[2, 8]), typed(ElementType::Float8e5m2, &[4, 8])];
        assert_eq!(node().run(&inputs).unwrap(), [typed(ElementType::Float16, &[2, 4])]);
        assert_eq!(node().cost(&inputs).macs, Dim::constant(64));
    }

    #[test]
    fn misfits_are_named() {
        let fault = op("Gemm").run(&[float(&[2, 8]), float(&[16, 8])]).unwrap_err();
        assert_eq!(fault.message, "inner dims differ: A gives 8, B takes 16 (transA 0, transB 0)");
        assert_eq!(fault.help.as_deref(), Some("transB = 1 would fit"));
        let fault = op("Gemm").run(&[float(&[2, 8, 1]), float(&[8, 4])]).unwrap_err();
        assert_eq!(fault.message, "input A must be a matrix, 2×8×1 has rank 3");
        let fault = op("Gemm").run(&[float(&[2, 8]), float(&[8, 4]), float(&[2])]).unwrap_err();
        assert_eq!(fault.message, "bias 2 does not stretch to 2×4");
        assert!(op("Gemm").run(&[float(&[2, 8]), float(&[8, 4]), float(&[2, 1])]).is_ok());
    }

    #[test]
    fn the_weight_alone_gives_the_columns() {
        assert_eq!(op("Gemm").dims(&[Fact::Unknown, float(&[8, 4])]), "y0.0×4");
    }

    #[test]
    fn quantised_gemm_without_output_zero_point_gives_float() {
        let quantized = |dims: &[i128]| typed(ElementType::Int8, dims);
        let mut inputs: Vec<_> = [quantized(&[2, 8]), float(&[]), quantized(&[]), quantized(&[8, 4]), float(&[4])]
            .into_iter()
            .chain([quantized(&[4]), typed(ElementType::Int32, &[4])])
            .collect();
        let node = || microsoft("QGemm");
        assert_eq!(node().run(&inputs).unwrap(), [float(&[2, 4])]);
        inputs.extend([float(&[]), quantized(&[])]);
        assert_eq!(node().run(&inputs).unwrap(), [quantized(&[2, 4])]);
        assert_eq!(node().cost(&inputs).macs, Dim::constant(64));
    }
}
