//! `RotaryEmbedding`: turns pairs of elements by angles that depend on the position.

use super::cost::tensor_bytes;
use super::operands::count;
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Saved, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, TensorFact};

/// `RotaryEmbedding`.
#[derive(Clone, Debug)]
pub struct Rotary {
    /// Number of heads; needed where the input has three dims.
    pub heads: Option<i64>,
    /// Places of cosines, sines and positions among the inputs.
    pub inputs: [usize; 3],
}

/// `RotaryEmbedding`.
pub(super) fn rotary(node: &NodeView<'_>) -> Built {
    let heads = node.int("num_heads")?.filter(|&heads| heads != 0);
    Ok(Box::new(Rotary { heads: heads.map(|heads| count("num_heads", heads)).transpose()?, inputs: [1, 2, 3] }))
}

/// `RotaryEmbedding` of `com.microsoft`, which takes positions first.
pub(super) fn microsoft_rotary(node: &NodeView<'_>) -> Built {
    let heads = node.int("num_heads")?.filter(|&heads| heads != 0);
    Ok(Box::new(Rotary { heads: heads.map(|heads| count("num_heads", heads)).transpose()?, inputs: [2, 3, 1] }))
}

impl Operator for Rotary {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(shape) = cx.shape(0) else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        match (shape.dims(), self.heads.map(Dim::from)) {
            ([_, _, _, _], _) => {}
            ([_, _, hidden], Some(heads)) if hidden.modulo(&heads).is_eq(&Dim::ZERO) == Some(false) => {
                return Err(Fault::attribute(format!(
                    "attribute num_heads is {heads}, which does not divide the {hidden} elements of a position"
                )));
            }
            ([_, _, _], _) => {}
            _ => return Err(Fault::shape(format!("the input is {shape}; 3 or 4 dims are allowed"))),
        }
        Ok(vec![Fact::tensor(element, shape.clone())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let [cosines, _, positions] = self.inputs;
        let flops = cx.elements_out(0)? * 3;
        let backward = if cx.needs_gradient(0) { flops.clone() } else { Dim::ZERO };
        let mut cost = Cost::composed(cx, Dim::ZERO, &flops, backward)?;
        let table = cx.input(cosines)?;
        let rows = table.shape.as_ref()?;
        if let (Some(positions), [_, width]) = (cx.input(positions), rows.dims()) {
            // Of the tables only the rows of these positions are read.
            let taken = cx.shape_out(0)?.elements().min(&(positions.shape.as_ref()?.elements() * width));
            let taken = TensorFact { shape: Some([taken].into_iter().collect()), ..table.without_value() };
            cost.bytes_read = tensor_bytes(cx.input(0)?)? + tensor_bytes(positions)? + tensor_bytes(&taken)? * 2;
        }
        Some(cost)
    }

    fn role(&self, input: usize) -> Role {
        if self.inputs.contains(&input) { Role::Setting } else { Role::Data }
    }

    /// The tables, as the products with their rows keep them, and the positions.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let [cosines, sines, positions] = self.inputs;
        let tables = Saved::input(cosines).and(Saved::input(sines)).and(Saved::input(positions));
        tables.when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{float, microsoft, op, typed};

    #[test]
    fn the_shape_stays_and_only_rows_of_the_positions_are_read() {
        let positions = typed(ElementType::Int64, &[2, 16]);
        let inputs = [float(&[2, 8, 16, 64]), float(&[4096, 32]), float(&[4096, 32]), positions];
        let node = || op("RotaryEmbedding").opset(23);
        assert_eq!(node().dims(&inputs), "2×8×16×64");
        let cost = node().cost(&inputs);
        assert_eq!(cost.flops, Dim::constant(3 * 16_384));
        assert_eq!(cost.bytes_read, Dim::constant(4 * 16_384 + 8 * 32 + 2 * 4 * 32 * 32));
    }

    #[test]
    fn the_microsoft_form_takes_positions_second() {
        let positions = typed(ElementType::Int64, &[1]);
        let inputs = [float(&[2, 16, 512]), positions, float(&[4096, 32]), float(&[4096, 32])];
        let node = || microsoft("RotaryEmbedding");
        assert_eq!(node().dims(&inputs), "2×16×512");
        assert!(node().int("num_heads", 7).run(&inputs).is_err());
    }
}
