//! Tied weights that an exporter wrote out twice: an embedding that is looked up, and the same values, transposed or not,
//! multiplied in the output layer. A sample of the values tells, so that the weights are not read.

use crate::frontend::onnx::model::Payload;
use crate::ir::element_type::ElementType;
use crate::ir::graph::{Node, Stored};

/// Elements that are compared; a page is read for each.
const SAMPLES: u64 = 16;

/// Smaller tensors are no embeddings, and could be equal by chance.
const SMALLEST: i64 = 1 << 12;

/// What a stored matrix is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Rows are picked.
    Lookup,
    /// It is a factor of a product.
    Product,
}

/// What a node does with a stored matrix that it reads.
pub(super) fn use_of(node: &Node) -> Option<Use> {
    match &*node.op {
        "Gather" => Some(Use::Lookup),
        "MatMul" | "Gemm" | "Transpose" => Some(Use::Product),
        _ => None,
    }
}

/// Which of the stored tensors repeat another one, by index. `uses` says what each is used for.
pub(super) fn repeated(stored: &[Stored], uses: &[Option<Use>]) -> Vec<usize> {
    let matrices = |wanted: Use| {
        stored.iter().enumerate().zip(uses).filter(move |(_, used)| **used == Some(wanted)).map(|(entry, _)| entry)
    };
    let tables: Vec<_> = matrices(Use::Lookup).filter_map(|(_, stored)| Matrix::of(stored)).collect();
    if tables.is_empty() {
        return Vec::new();
    }
    matrices(Use::Product)
        .filter_map(|(index, stored)| Some((index, Matrix::of(stored)?)))
        .filter(|(_, factor)| tables.iter().any(|table| table.equals(factor, false) || table.equals(factor, true)))
        .map(|(index, _)| index)
        .collect()
}

/// A stored matrix whose values are in the file.
struct Matrix<'a> {
    rows: u64,
    columns: u64,
    element: ElementType,
    bytes: &'a [u8],
}

impl<'a> Matrix<'a> {
    fn of(stored: &'a Stored) -> Option<Self> {
        let (Payload::Raw(bytes), [rows, columns]) = (&stored.def.data, stored.def.dims.as_slice()) else {
            return None;
        };
        let large = rows.checked_mul(*columns).is_some_and(|elements| elements >= SMALLEST);
        let whole = stored.def.stored_bytes() == Some(bytes.len() as u128);
        let element = stored.element().filter(|element| element.is_real() && element.bits() % 8 == 0)?;
        (large && whole).then_some(Self {
            rows: u64::try_from(*rows).ok()?,
            columns: u64::try_from(*columns).ok()?,
            element,
            bytes,
        })
    }

    fn at(&self, row: u64, column: u64) -> Option<&[u8]> {
        let size = u64::from(self.element.bits() / 8);
        let start = usize::try_from((row * self.columns + column) * size).ok()?;
        self.bytes.get(start..start + usize::try_from(size).ok()?)
    }

    fn equals(&self, other: &Self, transposed: bool) -> bool {
        let (rows, columns) = if transposed { (other.columns, other.rows) } else { (other.rows, other.columns) };
        if (self.rows, self.columns, self.element) != (rows, columns, other.element) {
            return false;
        }
        let mut values = Vec::new();
        for sample in 0..SAMPLES {
            // Spread over the matrix: rows evenly, columns in steps that share no factor with them often.
            let row = sample * self.rows / SAMPLES;
            let column = (sample * 7919 + 13) % self.columns;
            let mine = self.at(row, column);
            let theirs = if transposed { other.at(column, row) } else { other.at(row, column) };
            if mine.is_none() || mine != theirs {
                return false;
            }
            values.extend(mine);
        }
        // A constant fill is equal to any other.
        values.iter().any(|value| Some(value) != values.first())
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{CheckOptions, Input, check};

    /// An embedding of 64 rows and 64 columns, and a factor of the output layer with values from `value(row, column)`.
    fn trainable(value: &dyn Fn(usize, usize) -> usize) -> i128 {
        let numbers = |value: &dyn Fn(usize, usize) -> usize| {
            let list: Vec<_> = (0..64 * 64).map(|index| value(index / 64, index % 64).to_string()).collect();
            list.join(",")
        };
        let text = format!(
            "<ir_version: 8, opset_import: [\"\" : 17]>
             g (int64[3] ids) => (float[3,64] y) <float[64,64] table = {{{}}}, float[64,64] head = {{{}}}> {{
               x = Gather(table, ids)
               y = MatMul(x, head)
             }}",
            numbers(&|row, column| row * 64 + column),
            numbers(value),
        );
        let model = check(&Input::Stdin(text.into_bytes()), "-", &CheckOptions::default()).unwrap().remove(0);
        model.graph.unwrap().parameters.trainable
    }

    #[test]
    fn an_output_layer_that_repeats_the_embedding_counts_once() {
        assert_eq!(trainable(&|row, column| column * 64 + row), 4096);
        assert_eq!(trainable(&|row, column| row * 64 + column), 4096);
    }

    #[test]
    fn an_output_layer_of_its_own_counts() {
        assert_eq!(trainable(&|row, column| row * 64 + column + 1), 8192);
    }
}
