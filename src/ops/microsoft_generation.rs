//! Generation of text in one node of `com.microsoft`: `GreedySearch`, `Sampling`, `BeamSearch` and `WhisperBeamSearch`
//! run the decoder in their attributes once for each new token. How many come is known at run time.

use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Repeats, Role};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

#[derive(Debug)]
struct Generation {
    /// Whether several beams are followed and the best of them given.
    beams: bool,
    vocabulary: Option<i64>,
    subgraphs: usize,
}

/// `GreedySearch`, `Sampling`, `BeamSearch`, `WhisperBeamSearch`.
pub(super) fn generation(node: &NodeView<'_>) -> Built {
    let subgraphs = ["decoder", "encoder", "init_decoder"].into_iter().filter(|name| node.has(name)).count();
    Ok(Box::new(Generation {
        beams: node.op_type().ends_with("BeamSearch"),
        vocabulary: node.int("vocab_size")?.filter(|&words| words > 0),
        subgraphs,
    }))
}

impl Operator for Generation {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        for child in 0..self.subgraphs {
            cx.infer_child(child, &[]);
            cx.set_repeats(child, Repeats::Unknown);
        }
        let (longest, beams, returned) = (cx.integer(1), cx.integer(3), cx.integer(4));
        let batch = cx.shape(0).and_then(|shape| shape.dim(0)).cloned();
        let batch = batch.unwrap_or_else(|| cx.fresh_dim(0, 0, 0, None));
        let vocabulary = self.vocabulary.map(Dim::from);
        if !self.beams {
            let words = longest.unwrap_or_else(|| cx.fresh_dim(0, 1, 1, None));
            let vocabulary = vocabulary.unwrap_or_else(|| cx.fresh_dim(1, 1, 1, None));
            return Ok(vec![
                Fact::tensor(cx.element(0), Shape::new(vec![batch.clone(), words])),
                Fact::tensor(ElementType::Float, Shape::new(vec![batch, vocabulary])),
            ]);
        }
        let words = longest.unwrap_or_else(|| cx.fresh_dim(0, 2, 1, None));
        let returned = returned.unwrap_or_else(|| cx.fresh_dim(0, 1, 1, beams.clone()));
        let vocabulary = vocabulary.unwrap_or_else(|| cx.fresh_dim(2, 3, 1, None));
        let beams = beams.unwrap_or_else(|| cx.fresh_dim(2, 2, 1, None));
        let steps = cx.fresh_dim(2, 0, 0, Some(words.clone()));
        Ok(vec![
            Fact::tensor(ElementType::Int32, Shape::new(vec![batch.clone(), returned.clone(), words])),
            Fact::tensor(ElementType::Float, Shape::new(vec![batch.clone(), returned])),
            Fact::tensor(ElementType::Float, Shape::new(vec![steps, batch, beams, vocabulary])),
        ])
    }

    /// What the subgraphs cost is counted at their nodes.
    fn cost(&self, _: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{dims, float, ints, microsoft, typed};

    #[test]
    fn sequences_are_as_long_as_the_limit() {
        let ids = typed(ElementType::Int32, &[2, 7]);
        let node = |name: &str| microsoft(name);
        assert_eq!(node("GreedySearch").dims(&[ids.clone(), ints(&[50])]), "2×50");
        let inputs = [ids, ints(&[50]), ints(&[1]), ints(&[4]), ints(&[3]), float(&[1])];
        let facts = node("BeamSearch").int("vocab_size", 100).outputs(3).run(&inputs).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["2×3×50", "2×3", "y2.0×2×4×100"]);
    }
}
