//! Tables of `com.microsoft`: rows of quantised blocks (`GatherBlockQuantized`), rows by number (`TorchEmbedding`), and
//! words made of characters (`WordConvEmbedding`).

use super::cost::tensor_bytes;
use super::operands::expect_rank;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx, axes};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// Slices of a table.
#[derive(Debug)]
struct Table {
    /// Where the table and the numbers of its rows stand.
    table: usize,
    indices: usize,
    axis: i64,
    /// The axis along which elements share bytes, and how many do.
    packed: Option<(i64, i64)>,
}

/// `GatherBlockQuantized`: packed table, numbers, scales, zero points.
pub(super) fn quantized_table(node: &NodeView<'_>) -> Built {
    let bits = node.int_or("bits", 4)?;
    if !matches!(bits, 2 | 4 | 8) {
        return Err(Fault::attribute(format!("attribute bits is {bits}, allowed are 2, 4 and 8")));
    }
    let (axis, packed) = (node.int_or("gather_axis", 0)?, Some((node.int_or("quantize_axis", 1)?, 8 / bits)));
    Ok(Box::new(Table { table: 0, indices: 1, axis, packed }))
}

/// `TorchEmbedding`: table, numbers.
pub(super) fn table(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(Table { table: 0, indices: 1, axis: 0, packed: None }))
}

impl Operator for Table {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = if self.packed.is_some() { cx.element(2) } else { cx.element(self.table) };
        let (Some(table), Some(indices)) = (cx.shape(self.table), cx.shape(self.indices)) else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let axis = axes::index("gather_axis", self.axis, table.rank())?;
        let mut dims = table.dims().to_vec();
        // Only in bytes do elements share; the small types are elements already.
        if let (Some((packed, each)), Some(ElementType::Uint8)) = (self.packed, cx.element(self.table)) {
            let packed = axes::index("quantize_axis", packed, table.rank())?;
            if let Some(dim) = dims.get_mut(packed) {
                *dim = &*dim * i128::from(each);
            }
        }
        dims.splice(axis..=axis, indices.dims().iter().cloned());
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let written = tensor_bytes(cx.output(0)?)?;
        let numbers = tensor_bytes(cx.input(self.indices)?)?;
        let elements = cx.elements_out(0)?;
        let flops = if self.packed.is_some() { &elements * 2 } else { Dim::ZERO };
        // Of the table only what is picked is read.
        let bits = cx.input(self.table)?.element?.bits();
        let each = self.packed.map_or(1, |(_, each)| i128::from(each).max(1));
        let read = (elements * i128::from(bits)).ceil_div(&Dim::constant(each.saturating_mul(8)));
        Some(Cost { flops, bytes_read: read + numbers, bytes_written: written, ..Cost::FREE })
    }

    fn role(&self, input: usize) -> Role {
        match input {
            _ if input == self.table => Role::Weight,
            _ if input == self.indices => Role::Data,
            _ => Role::Setting,
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let rows = cx.input(self.indices).map_or(0, |indices| indices.elements());
        let cols = cx.output(0).and_then(|output| output.elements().checked_div(rows)).unwrap_or_default();
        let table = cx.input(self.table).and_then(|table| table.dim(0)).unwrap_or_default();
        vec![cx.all(Family::Embedding { rows, cols, table })]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::input(self.indices).when(cx.has_backward())
    }
}

/// `WordConvEmbedding`: characters of words, filters, bias, table of characters; the maximum over a word is left.
#[derive(Debug)]
struct WordConv;

/// `WordConvEmbedding`.
pub(super) fn word_conv(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(WordConv))
}

impl Operator for WordConv {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        expect_rank(cx, 1, "W", 4)?;
        let words = cx.shape(0).and_then(|shape| shape.dims().split_last());
        let filters = cx.shape(1).and_then(|shape| shape.dim(0));
        let shape = words.zip(filters).map(|((_, words), filters)| words.iter().chain([filters]).cloned().collect());
        Ok(vec![Fact::tensor(cx.element(1), shape.map(|dims: Vec<Dim>| Shape::new(dims)))])
    }

    /// A window stands at as many places as the word has characters, less its size.
    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let [_, _, window, _] = cx.shape_in(1)?.dims() else { return None };
        let length = cx.shape_in(0)?.dims().last()?;
        let places = (length - window + 1).max(&Dim::ONE);
        let taps = crate::ir::shape::product(cx.shape_in(1)?.dims().get(1..)?);
        let outputs = cx.elements_out(0)? * &places;
        Cost::product(cx, &outputs * taps, &(outputs * 2), [3, 1, 2])
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Weight }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let Some(weight) = cx.input(1) else { return vec![cx.elementwise()] };
        let n = weight.dim(0).unwrap_or(1);
        let k = weight.elements().checked_div(n).unwrap_or_default();
        let places = cx.input(0).map_or(0, |characters| characters.elements());
        vec![cx.all(Family::Product { batch: 1, m: places, n, k }).of_operands(3, 1)]
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{float, ints, microsoft, typed};

    #[test]
    fn packed_rows_are_as_long_as_their_elements() {
        let inputs = [typed(ElementType::Uint8, &[1000, 32]), ints(&[1, 2, 3]), float(&[1000, 2])];
        assert_eq!(microsoft("GatherBlockQuantized").run(&inputs).unwrap(), [float(&[3, 64])]);
        assert_eq!(microsoft("GatherBlockQuantized").cost(&inputs).bytes_read, Dim::constant(3 * 32 + 24));
        let small = [typed(ElementType::Uint4, &[1000, 64]), ints(&[1, 2, 3]), float(&[1000, 2])];
        assert_eq!(microsoft("GatherBlockQuantized").dims(&small), "3×64");
        assert_eq!(microsoft("TorchEmbedding").dims(&[float(&[10, 4]), typed(ElementType::Int64, &[2, 3])]), "2×3×4");
    }

    #[test]
    fn a_word_becomes_its_filters() {
        let inputs = [typed(ElementType::Int32, &[7, 20]), float(&[16, 1, 3, 8]), float(&[16]), float(&[100, 8])];
        assert_eq!(microsoft("WordConvEmbedding").dims(&inputs), "7×16");
        assert_eq!(microsoft("WordConvEmbedding").cost(&inputs).macs, Dim::constant(7 * 16 * 18 * 24));
    }
}
