//! `Split`: a tensor cut into pieces along an axis.

use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Work, WorkCx, axes, values};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;

#[derive(Debug)]
struct Split {
    axis: i64,
    /// Lengths where they are an attribute, before opset 13.
    lengths: Option<Vec<i64>>,
    /// Number of pieces that the attribute asks for, since opset 18.
    pieces: Option<i64>,
    /// Whether the last piece may be shorter.
    uneven: bool,
}

/// `Split`.
pub(super) fn split(node: &NodeView<'_>) -> Built {
    let lengths = if node.opset() < 13 { node.ints("split")? } else { None };
    let pieces = node.int("num_outputs")?;
    if let Some(pieces) = pieces
        && pieces < 1
    {
        return Err(Fault::attribute(format!("attribute num_outputs is {pieces}, allowed is 1 and more")));
    }
    Ok(Box::new(Split { axis: node.int_or("axis", 0)?, lengths, pieces, uneven: node.opset() >= 18 }))
}

impl Operator for Split {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let outputs = cx.output_count();
        if let Some(pieces) = self.pieces
            && usize::try_from(pieces).ok() != Some(outputs)
        {
            return Err(Fault::attribute(format!("attribute num_outputs is {pieces}, the node has {outputs} outputs")));
        }
        let Some(input) = &data.shape else {
            return Ok(vec![Fact::tensor(data.element, None); outputs]);
        };
        let axis = axes::index("attribute axis", self.axis, input.rank())?;
        let whole = input.dim(axis).cloned().unwrap_or(Dim::ONE);
        let lengths = self.lengths(cx, axis, &whole)?;
        let mut start = Some(0_usize);
        let mut facts = Vec::with_capacity(outputs);
        for length in lengths {
            let mut shape = input.clone();
            if let Some(dim) = shape.dims_mut().get_mut(axis) {
                *dim = length.clone();
            }
            let value = start.and_then(|start| {
                values::moved(&data, &shape, |index| {
                    let mut index = index.to_vec();
                    if let Some(place) = index.get_mut(axis) {
                        *place = place.saturating_add(start);
                    }
                    index
                })
            });
            start = start.zip(length.as_usize()).and_then(|(start, length)| start.checked_add(length));
            facts.push(values::fact(data.element, Some(shape), value));
        }
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let bytes = cx.bytes_out()?;
        Some(Cost { bytes_read: bytes.clone(), bytes_written: bytes, ..Cost::FREE })
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }

    fn shares_storage(&self, _cx: &WorkCx<'_>) -> bool {
        true
    }
}

impl Split {
    /// The length of each piece, one for each output.
    fn lengths(&self, cx: &mut InferCx<'_>, axis: usize, whole: &Dim) -> Result<Vec<Dim>, Fault> {
        let outputs = cx.output_count();
        let given: Option<Vec<Option<Dim>>> = match &self.lengths {
            Some(lengths) => Some(lengths.iter().map(|&length| Some(Dim::from(length))).collect()),
            None if cx.has(1) => {
                let unknown = || vec![None; outputs];
                Some(cx.tensor(1).and_then(values::targets).unwrap_or_else(unknown))
            }
            None => None,
        };
        match given {
            Some(given) => listed(cx, &given, axis, whole),
            None => self.equal(outputs, axis, whole),
        }
    }

    fn equal(&self, outputs: usize, axis: usize, whole: &Dim) -> Result<Vec<Dim>, Fault> {
        let pieces = Dim::from(outputs.max(1));
        if let Some(part) = whole.exact_div(&pieces) {
            return Ok(vec![part; outputs]);
        }
        if !self.uneven {
            if whole.as_const().is_some() {
                return Err(Fault::shape(format!(
                    "axis {axis} is {whole}, which {outputs} equal pieces do not divide"
                )));
            }
            return Ok(vec![whole.floor_div(&pieces); outputs]);
        }
        let part = whole.ceil_div(&pieces);
        let last = whole - &part * (&pieces - 1);
        if last.range().1.is_some_and(|hi| hi < 0) {
            return Err(Fault::shape(format!(
                "axis {axis} is {whole}, which is too short for {outputs} pieces of {part}"
            )));
        }
        let mut lengths = vec![part; outputs];
        if let Some(place) = lengths.last_mut() {
            *place = last;
        }
        Ok(lengths)
    }
}

fn listed(cx: &mut InferCx<'_>, given: &[Option<Dim>], axis: usize, whole: &Dim) -> Result<Vec<Dim>, Fault> {
    let outputs = cx.output_count();
    if given.len() != outputs {
        return Err(Fault::shape(format!("split lists {} lengths, the node has {outputs} outputs", given.len())));
    }
    if let Some(length) = given.iter().flatten().find(|length| length.range().1.is_some_and(|hi| hi < 0)) {
        return Err(Fault::shape(format!("split lists a length of {length}, allowed is 0 and more")));
    }
    let known: Dim = given.iter().flatten().sum();
    let unknown = given.iter().filter(|length| length.is_none()).count();
    if unknown == 0 && known.is_eq(whole) == Some(false) {
        return Err(Fault::shape(format!("split lists lengths of {known} in all, axis {axis} is {whole}")));
    }
    let mut lengths = Vec::with_capacity(outputs);
    for (output, length) in given.iter().enumerate() {
        lengths.push(match length {
            Some(length) => length.clone(),
            None if unknown == 1 => whole - &known,
            None => cx.fresh_dim(output, axis, 0, Some(whole.clone())),
        });
    }
    Ok(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::element_type::ElementType;
    use crate::ir::shape::Shape;
    use crate::ops::testing::{TestNode, dims, float, free, ints, op, typed};

    fn pieces(node: TestNode, count: usize, inputs: &[Fact]) -> Vec<String> {
        node.outputs(count).run(inputs).unwrap().iter().map(dims).collect()
    }

    #[test]
    fn the_last_of_uneven_pieces_is_shorter() {
        // Case 41.
        let found = pieces(op("Split").int("num_outputs", 4), 4, &[float(&[10, 2])]);
        assert_eq!(found, ["3×2", "3×2", "3×2", "1×2"]);
    }

    #[test]
    fn lengths_are_an_attribute_or_an_input_by_version() {
        let data = float(&[2, 6]);
        assert_eq!(
            pieces(op("Split").opset(11).int("axis", 1).ints("split", &[2, 4]), 2, std::slice::from_ref(&data)),
            ["2×2", "2×4"]
        );
        assert_eq!(pieces(op("Split").opset(13).int("axis", -1), 2, &[data.clone(), ints(&[5, 1])]), ["2×5", "2×1"]);
        assert_eq!(pieces(op("Split").opset(13).int("axis", -1), 3, &[data]), ["2×2", "2×2", "2×2"]);
    }

    #[test]
    fn symbolic_halves_are_equal() {
        let data = Fact::tensor(ElementType::Float, Shape::new(vec![free("N") * 2]));
        assert_eq!(pieces(op("Split"), 2, &[data]), ["N", "N"]);
    }

    #[test]
    fn lengths_that_do_not_fit_are_named() {
        let run = |node: TestNode, lengths: &[i128]| node.outputs(2).dims(&[float(&[6]), ints(lengths)]);
        assert!(run(op("Split"), &[5, 2]).contains("lengths of 7 in all, axis 0 is 6"));
        assert!(run(op("Split"), &[6]).contains("1 lengths, the node has 2 outputs"));
        assert!(run(op("Split"), &[7, -1]).contains("a length of -1"));
        assert!(op("Split").opset(13).outputs(4).dims(&[float(&[10])]).contains("4 equal pieces do not divide"));
        assert!(op("Split").int("num_outputs", 3).outputs(2).dims(&[float(&[6])]).contains("has 2 outputs"));
    }

    #[test]
    fn one_unknown_length_is_what_is_left() {
        let mut lengths = typed(ElementType::Int64, &[2]);
        assert_eq!(pieces(op("Split"), 2, &[float(&[6]), lengths]), ["y0.0", "y1.0"]);
        lengths = op("Concat").int("axis", 0).run(&[typed(ElementType::Int64, &[1]), ints(&[4])]).unwrap().remove(0);
        assert_eq!(pieces(op("Split"), 2, &[float(&[6]), lengths]), ["2", "4"]);
    }

    #[test]
    fn pieces_of_a_known_vector_are_known() {
        let facts = op("Split").outputs(2).run(&[ints(&[1, 2, 3]), ints(&[1, 2])]).unwrap();
        assert_eq!(facts[1].as_tensor().unwrap().const_integers(), Some(vec![2, 3]));
    }
}
