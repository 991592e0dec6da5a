//! Batched matrix products: `MatMul` and its fused, integer and quantised forms. `Gemm` is in `gemm`, products by
//! weights packed to a few bits are in `microsoft_matmul_nbits`.

use super::broadcast::{pair, unify};
use super::operands::common_element;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx, work};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// A matrix product over the last two dims; the dims before them broadcast.
#[derive(Clone, Debug)]
pub struct MatMul {
    /// Which operator it is, so which inputs it has.
    pub form: MatMulForm,
    /// How the left operand is turned before.
    pub left: Turn,
    /// How the right operand is turned before.
    pub right: Turn,
}

/// The operators that compute a batched matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatMulForm {
    /// `MatMul`, `FusedMatMul`: a, b.
    Float,
    /// `MatMulInteger`: a, b, zero points; 32-bit output.
    Integer,
    /// `QLinearMatMul`: a, b and y with scale and zero point each.
    Quantized,
    /// `MatMulIntegerToFloat`: a, b, scales, zero points, bias.
    IntegerToFloat,
    /// `DynamicQuantizeMatMul`: a (float), b, its scale and zero point, bias.
    Dynamic,
    /// `FusedMatMulActivation`, `GemmFastGelu`: a, b, bias, and a function of the result.
    Activated,
    /// `QOrderedMatMul`: a, b with a scale each, scale of y, bias, addend with its scale.
    Ordered,
}

/// Transpositions of an operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The last two dims change places.
    pub matrix: bool,
    /// The first dim moves in front of the last, before that.
    pub batch: bool,
}

/// No input.
const NONE: usize = usize::MAX;

fn build(form: MatMulForm) -> Built {
    Ok(Box::new(MatMul { form, left: Turn::default(), right: Turn::default() }))
}

/// `MatMul`.
pub(super) fn matmul(_node: &NodeView<'_>) -> Built {
    build(MatMulForm::Float)
}

/// `MatMulInteger`.
pub(super) fn matmul_integer(_node: &NodeView<'_>) -> Built {
    build(MatMulForm::Integer)
}

/// `QLinearMatMul`.
pub(super) fn qlinear_matmul(_node: &NodeView<'_>) -> Built {
    build(MatMulForm::Quantized)
}

/// `MatMulIntegerToFloat`.
pub(super) fn matmul_integer_to_float(_node: &NodeView<'_>) -> Built {
    build(MatMulForm::IntegerToFloat)
}

/// `DynamicQuantizeMatMul`.
pub(super) fn dynamic_quantize_matmul(_node: &NodeView<'_>) -> Built {
    build(MatMulForm::Dynamic)
}

/// `GemmFastGelu`.
pub(super) fn gemm_fast_gelu(_node: &NodeView<'_>) -> Built {
    build(MatMulForm::Activated)
}

/// `QOrderedMatMul`.
pub(super) fn ordered_matmul(_node: &NodeView<'_>) -> Built {
    build(MatMulForm::Ordered)
}

/// `FusedMatMul`, `FusedMatMulActivation`.
pub(super) fn fused_matmul(node: &NodeView<'_>) -> Built {
    let form = if node.has("activation") { MatMulForm::Activated } else { MatMulForm::Float };
    let turn = |matrix: &str, batch: &str| -> Result<Turn, Fault> {
        Ok(Turn { matrix: node.flag(matrix, false)?, batch: node.flag(batch, false)? })
    };
    let (left, right) = (turn("transA", "transBatchA")?, turn("transB", "transBatchB")?);
    Ok(Box::new(MatMul { form, left, right }))
}

impl MatMulForm {
    fn right(self) -> usize {
        match self {
            Self::Quantized => 3,
            Self::Ordered => 2,
            _ => 1,
        }
    }

    fn bias(self) -> usize {
        match self {
            Self::IntegerToFloat => 6,
            Self::Dynamic => 4,
            Self::Activated => 2,
            Self::Ordered => 5,
            _ => NONE,
        }
    }
}

impl Turn {
    /// The dims after the transpositions; those of a vector stay.
    fn apply<T: Clone>(self, dims: &[T]) -> Vec<T> {
        let mut dims = dims.to_vec();
        if dims.len() < 2 {
            return dims;
        }
        if self.batch {
            let moved = dims.remove(0);
            dims.insert(dims.len() - 1, moved);
        }
        if self.matrix {
            let last = dims.len() - 1;
            dims.swap(last - 1, last);
        }
        dims
    }
}

/// The shape of the product of two tensors, by the rules of numpy's `matmul`: a vector is a row on the left, a column on
/// the right, and the dim of 1 that this adds is left out of the product.
fn product_shape(left: &[Dim], right: &[Dim]) -> Result<Shape, Fault> {
    let fault = |what: String| {
        let text = |dims: &[Dim]| dims.iter().cloned().collect::<Shape>().to_string();
        Fault::shape(format!("{what}: {} times {}", text(left), text(right)))
    };
    let (batch_left, rows, inner_left) = match left {
        [] => return Err(fault("a scalar has no matrix product".into())),
        [inner] => (&[][..], None, inner),
        [batch @ .., rows, inner] => (batch, Some(rows), inner),
    };
    let (batch_right, inner_right, columns) = match right {
        [] => return Err(fault("a scalar has no matrix product".into())),
        [inner] => (&[][..], inner, None),
        [batch @ .., inner, columns] => (batch, inner, Some(columns)),
    };
    if unify(inner_left, inner_right).is_none() {
        let fault = fault(format!("inner dims {inner_left} and {inner_right} differ"));
        return Err(if columns == Some(inner_left) {
            fault.help("the right matrix would fit transposed")
        } else {
            fault
        });
    }
    let batch = |dims: &[Dim]| Shape::new(dims.to_vec());
    let mut dims = match pair(&batch(batch_left), &batch(batch_right)) {
        Ok(shape) => shape.dims().to_vec(),
        Err(_) => return Err(fault("batch dims do not broadcast".into())),
    };
    dims.extend(rows.cloned());
    dims.extend(columns.cloned());
    Ok(Shape::new(dims))
}

/// The product of two tensors as a work item. By one matrix on the right, all rows on the left are rows of one product, as
/// libraries run linear layers; a matrix for each of a batch makes as many products.
pub(super) fn product_family(left: &[u64], right: &[u64], outputs: u64) -> Family {
    let (m, k) = match left {
        [.., rows, inner] => (*rows, *inner),
        [inner] => (1, *inner),
        [] => (1, 1),
    };
    let (n, matrices) = match right {
        [batch @ .., _, columns] => (*columns, work::product(batch)),
        _ => (1, 1),
    };
    let rows = outputs.checked_div(n).unwrap_or_default();
    match matrices {
        0 | 1 => Family::Product { batch: 1, m: rows, n, k },
        _ => Family::Product { batch: rows.checked_div(m).unwrap_or_default(), m, n, k },
    }
}

impl Operator for MatMul {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = match self.form {
            MatMulForm::Float | MatMulForm::Activated => common_element(cx, &[0, 1])?,
            MatMulForm::Integer => Some(ElementType::Int32),
            MatMulForm::Quantized => cx.element(7).or_else(|| cx.element(0)),
            MatMulForm::IntegerToFloat => cx.element(2),
            MatMulForm::Dynamic | MatMulForm::Ordered => cx.element(0),
        };
        let (Some(left), Some(right)) = (cx.shape(0), cx.shape(self.form.right())) else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let shape = product_shape(&self.left.apply(left.dims()), &self.right.apply(right.dims()))?;
        Ok(vec![Fact::tensor(element, shape)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let left = self.left.apply(cx.shape_in(0)?.dims());
        let outputs = cx.elements_out(0)?;
        let macs = &outputs * left.last()?;
        let bias = self.form.bias();
        let per_output = match self.form {
            MatMulForm::Float | MatMulForm::Integer => 0,
            MatMulForm::Activated => 1,
            // Back from the integer scale.
            _ => 2,
        };
        let mut other = outputs * (per_output + i128::from(cx.has(bias)));
        if self.form == MatMulForm::Dynamic {
            other += cx.elements_in(0)? * 2;
        }
        Cost::product(cx, macs, &other, [0, self.form.right(), bias])
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 || input == self.form.right() || input == self.form.bias() { Role::Weight } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let right = self.form.right();
        let (Some(a), Some(b), Some(output)) = (cx.input(0), cx.input(right), cx.output(0)) else {
            return vec![cx.elementwise()];
        };
        let family = product_family(&self.left.apply(a.dims), &self.right.apply(b.dims), output.elements());
        vec![cx.all(family).of_operands(0, right)]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        cx.other_operands(0, self.form.right()).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ir::shape::Shape;
    use crate::ops::testing::{TestNode, float, free, microsoft, op, typed};
    use crate::ops::{CostCx, Operator};

    fn fused() -> TestNode {
        microsoft("FusedMatMul")
    }

    #[test]
    fn vectors_lose_the_dim_that_they_borrow() {
        let inputs = [float(&[3]), float(&[2, 3, 4])];
        assert_eq!(op("MatMul").dims(&inputs), "2×4");
        assert_eq!(op("MatMul").cost(&inputs).macs, Dim::constant(24));
        assert_eq!(op("MatMul").dims(&[float(&[2, 3]), float(&[3])]), "2");
        assert_eq!(op("MatMul").dims(&[float(&[3]), float(&[3])]), "scalar");
        assert_eq!(op("MatMul").cost(&[float(&[3]), float(&[3])]).macs, Dim::constant(3));
        assert!(op("MatMul").run(&[float(&[]), float(&[3])]).is_err());
    }

    #[test]
    fn forms_of_products_have_their_own_places() {
        let node = |name: &str| microsoft(name);
        let inputs = [float(&[2, 3]), float(&[3, 4]), float(&[4])];
        assert_eq!(node("GemmFastGelu").cost(&inputs).flops, Dim::constant(2 * 24 + 2 * 8));
        let quantized = |dims: &[i128]| typed(ElementType::Int8, dims);
        let inputs = [quantized(&[2, 3]), float(&[]), quantized(&[3, 4]), float(&[]), float(&[])];
        assert_eq!(node("QOrderedMatMul").run(&inputs).unwrap(), [quantized(&[2, 4])]);
        let inputs = [typed(ElementType::Int16, &[2, 3]), typed(ElementType::Int16, &[3, 4])];
        assert_eq!(node("MatMulInteger16").run(&inputs).unwrap(), [typed(ElementType::Int32, &[2, 4])]);
    }

    #[test]
    fn batched_product_counts_every_matrix() {
        let cost = op("MatMul").cost(&[float(&[2, 25, 16]), float(&[2, 16, 9])]);
        assert_eq!((cost.macs, cost.flops), (Dim::constant(7_200), Dim::constant(14_400)));
        assert_eq!(cost.backward_flops, Dim::constant(28_800));
        let cost = op("MatMul").cost(&[float(&[25, 16]), float(&[16, 9])]);
        assert_eq!((cost.macs, cost.flops), (Dim::constant(3_600), Dim::constant(7_200)));
    }

    #[test]
    fn a_frozen_weight_leaves_one_backward_product() {
        // A frozen 4096 x 4096 layer beside an adapter of rank 8, for one token.
        let backward = |left: &[i128], right: &[i128], needs: [bool; 2]| {
            let (left, right) = (float(left), float(right));
            let output = op("MatMul").run(&[left.clone(), right.clone()]).unwrap();
            let (inputs, outputs) = ([Some(&left), Some(&right)], [output.first()]);
            super::MatMul { form: super::MatMulForm::Float, left: Default::default(), right: Default::default() }
                .cost(&CostCx::new(&inputs, &outputs, &needs))
                .unwrap()
                .backward_flops
        };
        let frozen = backward(&[1, 4096], &[4096, 4096], [true, false]);
        assert_eq!(frozen, Dim::constant(2 * 16_777_216));
        let adapter = backward(&[1, 4096], &[4096, 8], [true; 2]) + backward(&[1, 8], &[8, 4096], [true; 2]);
        assert_eq!(frozen + adapter, Dim::constant(2 * (16_842_752 + 65_536)));
    }

    #[test]
    fn batch_dims_broadcast() {
        assert_eq!(op("MatMul").dims(&[float(&[7, 1, 2, 3]), float(&[4, 3, 5])]), "7×4×2×5");
        let fault = op("MatMul").run(&[float(&[2, 2, 3]), float(&[4, 3, 5])]).unwrap_err();
        assert_eq!(fault.message, "batch dims do not broadcast: 2×2×3 times 4×3×5");
    }

    #[test]
    fn inner_dims_must_agree_as_far_as_they_are_known() {
        let fault = op("MatMul").run(&[float(&[2, 3]), float(&[5, 3])]).unwrap_err();
        assert_eq!(fault.message, "inner dims 3 and 5 differ: 2×3 times 5×3");
        assert_eq!(fault.help.as_deref(), Some("the right matrix would fit transposed"));
        let left = Fact::tensor(ElementType::Float, Shape::new(vec![free("N"), free("K")]));
        assert_eq!(op("MatMul").dims(&[left.clone(), float(&[5, 3])]), "N×3");
        assert_eq!(op("MatMul").dims(&[left, Fact::Unknown]), "?");
    }

    #[test]
    fn fused_product_turns_its_operands_first() {
        assert_eq!(fused().int("transB", 1).dims(&[float(&[2, 8, 16, 64]), float(&[2, 8, 20, 64])]), "2×8×16×20");
        assert_eq!(fused().int("transA", 1).cost(&[float(&[64, 2]), float(&[64, 3])]).macs, Dim::constant(384));
        assert_eq!(fused().int("transBatchA", 1).dims(&[float(&[5, 2, 3]), float(&[2, 3, 4])]), "2×5×4");
    }

    #[test]
    fn quantised_products_have_their_own_output_types() {
        let u8s = |dims: &[i128]| typed(ElementType::Uint8, dims);
        let i8s = |dims: &[i128]| typed(ElementType::Int8, dims);
        let integer = op("MatMulInteger").run(&[u8s(&[4, 3]), i8s(&[3, 2])]).unwrap();
        assert_eq!(integer, [typed(ElementType::Int32, &[4, 2])]);
        let scale = || float(&[]);
        let inputs = [u8s(&[4, 3]), scale(), u8s(&[]), i8s(&[3, 2]), scale(), i8s(&[]), scale(), i8s(&[])];
        assert_eq!(op("QLinearMatMul").run(&inputs).unwrap(), [i8s(&[4, 2])]);
        let inputs = [u8s(&[4, 3]), i8s(&[3, 2]), scale(), scale()];
        let facts = microsoft("MatMulIntegerToFloat").run(&inputs).unwrap();
        assert_eq!(facts, [float(&[4, 2])]);
        let inputs = [float(&[4, 3]), i8s(&[3, 2]), scale()];
        assert_eq!(microsoft("DynamicQuantizeMatMul").run(&inputs).unwrap(), [float(&[4, 2])]);
    }
}
