//! Operators of `com.microsoft` with shapes of their own: new axes, windows, distances, inverses, positions; and those
//! that are standard operators under a second name.

use super::table::Built;
use super::{
    Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Work, WorkCx, axes, concat, gather, one_hot, pad,
    range, sample, split,
};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, product};

/// The version of the standard operators that the second names stand for.
const VERSION: i64 = 13;

/// `GatherND`, `Trilu`, `Pad`, `Range`, `GridSample`, `SplitTraining`, `ConcatTraining`: the standard operator of that name.
pub(super) fn standard(node: &NodeView<'_>) -> Built {
    let view = NodeView::new(node.node(), VERSION);
    match node.op_type() {
        "GatherND" => gather::gather_nd(&view),
        "Trilu" => one_hot::trilu(&view),
        "Pad" => pad::pad(&view),
        "SplitTraining" => split::split(&view),
        "ConcatTraining" => concat::concat(&view),
        "GridSample" => sample::grid_sample(&NodeView::new(node.node(), 16)),
        _ => range::range(&view),
    }
}

#[derive(Debug)]
enum Shaped {
    /// `ExpandDims`: a new axis at a place that is an input.
    ExpandDims,
    /// `Inverse`: of the last two dims.
    Inverse,
    /// `CDist`: of each pair of rows.
    Distance,
    /// `UnfoldTensor`: windows along an axis, in a last dim of their own.
    Unfold { axis: i64, size: i64, step: i64 },
    /// `Unique`: of a vector.
    Unique,
    /// `RelativePositionBias`: a number for each head and pair of positions.
    PositionBias,
    /// `GatedRelativePositionBias`: the same for each sample.
    GatedPositionBias { heads: i64 },
    /// `DynamicTimeWarping`: a path through a matrix.
    Path,
}

/// Every operator of this file that has no standard form.
pub(super) fn shaped(node: &NodeView<'_>) -> Built {
    Ok(Box::new(match node.op_type() {
        "ExpandDims" => Shaped::ExpandDims,
        "Inverse" => Shaped::Inverse,
        "CDist" => Shaped::Distance,
        "UnfoldTensor" => {
            let size = node.int("size")?.ok_or_else(|| node.missing("size"))?;
            let (size, step) = (super::operands::count("size", size)?, node.int_or("step", 1)?);
            Shaped::Unfold { axis: node.int_or("dim", -1)?, size, step: super::operands::count("step", step)? }
        }
        "Unique" => Shaped::Unique,
        "RelativePositionBias" => Shaped::PositionBias,
        "GatedRelativePositionBias" => {
            Shaped::GatedPositionBias { heads: super::microsoft_attention::num_heads(node)? }
        }
        _ => Shaped::Path,
    }))
}

impl Operator for Shaped {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(shape) = cx.shape(0).cloned() else { return Ok(vec![Fact::tensor(element, None)]) };
        let mut dims = shape.dims().to_vec();
        let rank = dims.len();
        match self {
            Self::ExpandDims => match cx.integer(1).and_then(|axis| axis.as_i64()) {
                Some(axis) => dims.insert(axes::index("axis", axis, rank + 1)?, Dim::ONE),
                None => return Ok(vec![Fact::tensor(element, cx.fresh_shape(0, rank + 1))]),
            },
            Self::Inverse => {
                if let [.., rows, columns] = dims.as_slice()
                    && rows.is_eq(columns) == Some(false)
                {
                    return Err(Fault::shape(format!("{shape} holds no square matrices")));
                }
            }
            Self::Distance => {
                let (Some(rows), Some(others)) = (shape.dim(0), cx.shape(1).and_then(|other| other.dim(0))) else {
                    return Ok(vec![Fact::tensor(element, cx.fresh_shape(0, 2))]);
                };
                dims = vec![rows.clone(), others.clone()];
            }
            Self::Unfold { axis, size, step } => {
                let axis = axes::index("attribute dim", *axis, rank)?;
                if let Some(dim) = dims.get_mut(axis) {
                    let steps = (&*dim - &Dim::from(*size)).floor_div(&Dim::from(*step)) + 1;
                    *dim = steps.max(&Dim::ZERO);
                }
                dims.push(Dim::from(*size));
            }
            Self::Unique => {
                let all = shape.elements();
                let found = Shape::new(vec![cx.fresh_dim(0, 0, 0, Some(all.clone()))]);
                let places = Fact::tensor(ElementType::Int64, Shape::new(vec![all]));
                return Ok(vec![Fact::tensor(element, found.clone()), places, Fact::tensor(ElementType::Int64, found)]);
            }
            Self::PositionBias => {
                let heads = shape.dim(1).cloned().unwrap_or(Dim::ONE);
                let queries = cx.integer(1).unwrap_or_else(|| cx.fresh_dim(0, 2, 0, None));
                let keys = cx.integer(2).unwrap_or_else(|| cx.fresh_dim(0, 3, 0, None));
                dims = vec![Dim::ONE, heads, queries, keys];
            }
            Self::GatedPositionBias { heads } => {
                let padded = cx.shape(6).or(Some(&shape)).map(Shape::dims);
                let (Some([batch, length]) | Some([batch, length, _])) = padded else {
                    return Ok(vec![Fact::tensor(element, cx.fresh_shape(0, 4))]);
                };
                dims = vec![batch.clone(), Dim::from(*heads), length.clone(), length.clone()];
            }
            Self::Path => {
                let most = dims.iter().rev().take(2).cloned().sum::<Dim>();
                return Ok(vec![Fact::tensor(
                    ElementType::Int32,
                    Shape::new(vec![Dim::constant(2), cx.fresh_dim(0, 1, 1, Some(most))]),
                )]);
            }
        }
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let flops = match self {
            Self::ExpandDims => return Some(Cost::FREE),
            Self::Unfold { .. } | Self::Unique => return Cost::moved(cx),
            // Elimination takes 2 n³ operations.
            Self::Inverse => cx.elements_in(0)? * cx.shape_in(0)?.dims().last()? * 2,
            Self::Distance => cx.elements_out(0)? * cx.shape_in(0)?.dims().last()? * 3,
            Self::PositionBias | Self::GatedPositionBias { .. } => cx.elements_out(0)? * 4,
            Self::Path => product(cx.shape_in(0)?.dims()) * 3,
        };
        Cost::computed(cx, flops.clone(), &flops)
    }

    fn role(&self, input: usize) -> Role {
        match (self, input) {
            (Self::ExpandDims, 1) | (Self::PositionBias, 1 | 2) => Role::Setting,
            (Self::PositionBias, 0) | (Self::GatedPositionBias { .. }, 1 | 3..=5) => Role::Weight,
            _ => Role::Data,
        }
    }

    fn is_view(&self) -> bool {
        matches!(self, Self::ExpandDims)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let elements = cx.input(0).map_or(0, |input| input.elements());
        match self {
            Self::ExpandDims => Vec::new(),
            Self::Unfold { .. } => vec![cx.moved()],
            Self::Unique => vec![cx.all(Family::Sort { rows: 1, cols: elements })],
            _ => vec![cx.elementwise()],
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{dims, float, ints, microsoft, typed};

    #[test]
    fn second_names_are_the_standard_operators() {
        assert_eq!(microsoft("Trilu").dims(&[float(&[3, 4])]), "3×4");
        assert_eq!(microsoft("Pad").dims(&[float(&[3]), ints(&[1, 2])]), "6");
        assert_eq!(microsoft("GatherND").dims(&[float(&[3, 4]), typed(ElementType::Int64, &[5, 1])]), "5×4");
        assert_eq!(microsoft("Range").dims(&[ints(&[0]), ints(&[7]), ints(&[2])]), "4");
    }

    #[test]
    fn own_shapes() {
        assert_eq!(microsoft("ExpandDims").dims(&[float(&[3, 4]), ints(&[-1])]), "3×4×1");
        assert_eq!(microsoft("CDist").dims(&[float(&[3, 8]), float(&[5, 8])]), "3×5");
        assert_eq!(microsoft("UnfoldTensor").int("size", 4).int("step", 2).dims(&[float(&[2, 10])]), "2×4×4");
        assert!(microsoft("Inverse").run(&[float(&[2, 3, 4])]).is_err());
        let bias = microsoft("RelativePositionBias").int("max_distance", 8);
        assert_eq!(bias.dims(&[float(&[32, 12]), ints(&[7]), ints(&[7])]), "1×12×7×7");
        let facts = microsoft("Unique").outputs(3).run(&[float(&[9])]).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["y0.0", "9", "y0.0"]);
    }
}
