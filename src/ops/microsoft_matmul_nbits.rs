//! `MatMulNBits` and `MatMulFpQ4`: matrix products whose weight is packed to a few bits an element. Other products are
//! in `matmul`.

use super::broadcast::unify;
use super::operands::count;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// `MatMulNBits`: a, packed b, scales, zero points, group indices, bias.
#[derive(Clone, Debug)]
pub struct MatMulNBits {
    /// Length of a row of a.
    pub inner: i64,
    /// Columns of the output.
    pub columns: i64,
    /// Bits of an element of b.
    pub bits: i64,
    /// Elements of b that share a scale.
    pub block_size: i64,
}

/// `MatMulNBits`.
pub(super) fn matmul_nbits(node: &NodeView<'_>) -> Built {
    let required = |name: &str| count(name, node.int(name)?.ok_or_else(|| node.missing(name))?);
    let bits = node.int_or("bits", 4)?;
    if !(2..=8).contains(&bits) {
        return Err(Fault::attribute(format!("attribute bits is {bits}; 2 to 8 are allowed")));
    }
    let (inner, columns, block_size) = (required("K")?, required("N")?, required("block_size")?);
    Ok(Box::new(MatMulNBits { inner, columns, bits, block_size }))
}

impl Operator for MatMulNBits {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(left) = cx.shape(0) else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let mut dims = left.dims().to_vec();
        let Some(last) = dims.last_mut() else {
            return Err(Fault::shape("input A is a scalar; its last dim must be K"));
        };
        if unify(last, &Dim::from(self.inner)).is_none() {
            return Err(Fault::shape(format!("input A is {left}, but the attribute K is {}", self.inner)));
        }
        *last = Dim::from(self.columns);
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let outputs = cx.elements_out(0)?;
        // Every element of b is unpacked once: difference and product.
        let unpacked = self.stored_elements(1)? * 2;
        let bias = if cx.has(5) { outputs.clone() } else { Dim::ZERO };
        Cost::product(cx, outputs * i128::from(self.inner), &(unpacked + bias), [0, 1, 5])
    }

    fn role(&self, input: usize) -> Role {
        match input {
            0 => Role::Data,
            1 | 5 => Role::Weight,
            _ => Role::Setting,
        }
    }

    fn stored_elements(&self, input: usize) -> Option<Dim> {
        (input == 1).then(|| Dim::from(self.inner) * i128::from(self.columns))
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let (k, n) = (self.inner.unsigned_abs(), self.columns.unsigned_abs());
        let m = cx.output(0).and_then(|output| output.elements().checked_div(n)).unwrap_or_default();
        vec![cx.all(Family::Product { batch: 1, m, n, k }).of_operands(0, 1)]
    }

    /// The packed weight, its scales and zero points.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let packed = Saved::inputs(1..4).when(cx.needs(0));
        packed.and(Saved::input(0).when(cx.needs(1))).when(cx.has_backward())
    }
}

/// `MatMulFpQ4`: a, a blob of b, and an input with the dims of b.
#[derive(Debug)]
struct MatMulFpQ4;

/// `MatMulFpQ4`.
pub(super) fn matmul_fp_q4(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(MatMulFpQ4))
}

impl Operator for MatMulFpQ4 {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(left) = cx.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
        let mut dims = left.dims().to_vec();
        let Some(last) = dims.last_mut() else {
            return Err(Fault::shape("input A is a scalar; its last dim must be that of the rows of B"));
        };
        *last = match cx.integers(2).as_deref() {
            Some([inner, columns]) if unify(last, inner).is_some() => columns.clone(),
            Some([inner, _]) => return Err(Fault::shape(format!("input A is {left}, but B has {inner} rows"))),
            Some(other) => return Err(Fault::shape(format!("B_shape has {} numbers, 2 are allowed", other.len()))),
            None => cx.fresh_dim(0, left.rank() - 1, 0, None),
        };
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let (inner, columns) = (cx.shape_in(0)?.dims().last()?, cx.shape_out(0)?.dims().last()?);
        Cost::product(cx, cx.elements_out(0)? * inner, &(inner * columns * 2), [0, 1, usize::MAX])
    }

    fn role(&self, input: usize) -> Role {
        match input {
            0 => Role::Data,
            1 => Role::Weight,
            _ => Role::Setting,
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let sizes = || {
            let (k, n) = (cx.input(0)?.dim_from_end(0)?, cx.output(0)?.dim_from_end(0)?);
            Some((cx.output(0)?.elements().checked_div(n)?, k, n))
        };
        match sizes() {
            Some((m, k, n)) => vec![cx.all(Family::Product { batch: 1, m, n, k }).of_operands(0, 1)],
            None => vec![cx.elementwise()],
        }
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        cx.other_operands(0, 1).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use super::MatMulNBits;
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ops::Operator;
    use crate::ops::testing::{TestNode, float, ints, microsoft, typed};

    fn node(bits: i64) -> TestNode {
        let node = microsoft("MatMulNBits").int("K", 64).int("N", 32);
        node.int("bits", bits).int("block_size", 32)
    }

    #[test]
    fn packed_weights_count_as_elements() {
        let inputs = [float(&[3, 64]), typed(ElementType::Uint8, &[32, 2, 16]), float(&[32, 2])];
        assert_eq!(node(4).dims(&inputs), "3×32");
        assert_eq!(node(4).cost(&inputs).macs, Dim::constant(6_144));
        let operator = MatMulNBits { inner: 64, columns: 32, bits: 4, block_size: 32 };
        assert_eq!(operator.stored_elements(1), Some(Dim::constant(2_048)));
        assert_eq!(operator.stored_elements(2), None);
    }

    #[test]
    fn the_dims_of_a_blob_are_an_input() {
        let node = || microsoft("MatMulFpQ4");
        let inputs = [float(&[3, 64]), typed(ElementType::Uint8, &[1280]), ints(&[64, 32])];
        assert_eq!(node().dims(&inputs), "3×32");
        let cost = node().cost(&inputs);
        assert_eq!((cost.macs, cost.flops), (Dim::constant(6_144), Dim::constant(2 * 6_144 + 2 * 2_048)));
        let fault = node().run(&[float(&[3, 60]), inputs[1].clone(), inputs[2].clone()]).unwrap_err();
        assert_eq!(fault.message, "input A is 3×60, but B has 64 rows");
        let unknown = typed(ElementType::Int64, &[2]);
        assert_eq!(node().dims(&[float(&[3, 64]), inputs[1].clone(), unknown]), "3×y0.1");
    }

    #[test]
    fn attributes_are_checked_against_the_input() {
        let fault =
            node(4).run(&[float(&[3, 60]), typed(ElementType::Uint8, &[32, 2, 16]), float(&[32, 2])]).unwrap_err();
        assert_eq!(fault.message, "input A is 3×60, but the attribute K is 64");
        assert!(node(9).run(&[float(&[3, 64])]).is_err());
        assert!(microsoft("MatMulNBits").run(&[float(&[3, 64])]).is_err());
    }
}
