//! `Embedding`: rows of a table, as `Gather` picks them; and features that become indices or counts.

use super::{Layer, Stores, compute, positive};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;
use crate::ops::table::Built;
use crate::ops::{Cost, CostCx, Fault, InferCx, NodeView, Operator, gather};

/// Inputs: table, indices, the two factors of a low-rank update.
#[derive(Clone, Debug)]
struct Table {
    rows: i64,
    columns: i64,
    rank: i64,
}

/// `Embedding`.
pub(super) fn embedding(node: &NodeView<'_>) -> Built {
    let stores = Table {
        rows: positive(node, "input_dim")?,
        columns: positive(node, "output_dim")?,
        rank: node.int_or("lora_rank", 0)?,
    };
    Ok(Box::new(Layer { stores: Box::new(stores), data: &[1], compute: compute(node)?, inner: gather::gather(node)? }))
}

impl Stores for Table {
    fn shapes(&self, _cx: &InferCx<'_>) -> Result<Vec<(usize, Shape)>, Fault> {
        let matrix = |rows: i64, columns: i64| Shape::new(vec![Dim::from(rows), Dim::from(columns)]);
        let mut shapes = vec![(0, matrix(self.rows, self.columns))];
        if self.rank > 0 {
            shapes.extend([(2, matrix(self.rows, self.rank)), (3, matrix(self.rank, self.columns))]);
        }
        Ok(shapes)
    }
}

/// What becomes of features.
#[derive(Clone, Debug)]
enum Encode {
    /// Indices, one for each feature.
    Index,
    /// A row of so many numbers for each feature, in the place of a last dim of 1.
    OneHot(i64),
    /// The same behind all dims.
    Append(i64),
    /// A row of so many numbers for all features of a sample.
    Count(i64),
}

/// `CategoryEncoding`, `Hashing`, `StringLookup` and others, by their output mode.
pub(super) fn encode(node: &NodeView<'_>) -> Built {
    let tokens = || positive(node, "tokens");
    Ok(Box::new(match node.string("mode")? {
        Some("int") => Encode::Index,
        Some("one_hot") => Encode::OneHot(tokens()?),
        Some("append") => Encode::Append(tokens()?),
        Some("multi_hot" | "count" | "tf_idf" | "tf-idf" | "binary") => Encode::Count(tokens()?),
        other => {
            return Err(Fault::attribute(format!(
                "output_mode must be int, one_hot, multi_hot, count or tf_idf, got {}",
                other.unwrap_or("nothing")
            )));
        }
    }))
}

impl Operator for Encode {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = if matches!(self, Self::Index) { ElementType::Int64 } else { ElementType::Float };
        let Some(shape) = cx.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
        let mut dims = shape.dims().to_vec();
        match *self {
            Self::Index => {}
            Self::OneHot(tokens) => {
                if dims.len() > 1 && dims.last() == Some(&Dim::ONE) {
                    dims.pop();
                }
                dims.push(Dim::from(tokens));
            }
            Self::Append(tokens) => dims.push(Dim::from(tokens)),
            Self::Count(tokens) => {
                if dims.len() > 1 {
                    dims.pop();
                }
                dims.push(Dim::from(tokens));
            }
        }
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        // Nothing learns through an index.
        Some(Cost { flops: cx.elements_out(0)?, ..Cost::moved(cx)? })
    }
}
