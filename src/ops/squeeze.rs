//! `Squeeze` and `Unsqueeze`: dims of 1 go or come.

use super::axes::{self, Axes, Found};
use super::reshape::viewed;
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

#[derive(Debug)]
struct Squeeze {
    axes: Axes,
}

/// `Squeeze`. Axes are an attribute before opset 13 and an input since.
pub(super) fn squeeze(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Squeeze { axes: Axes::of(node, 1)? }))
}

impl Operator for Squeeze {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let Some(shape) = &data.shape else { return Ok(vec![Fact::tensor(data.element, None)]) };
        let gone = match self.axes.find(cx, shape.rank())? {
            Found::Known(gone) => gone,
            Found::Default => (0..shape.rank()).filter(|&axis| shape.dim(axis) == Some(&Dim::ONE)).collect(),
            Found::Unknown(count) => {
                let rank = count.and_then(|count| shape.rank().checked_sub(count));
                let shape = rank.map(|rank| axes::without_some(cx, shape, rank));
                return Ok(vec![Fact::tensor(data.element, shape)]);
            }
        };
        for &axis in &gone {
            if let Some(dim) = shape.dim(axis)
                && dim.is_eq(&Dim::ONE) == Some(false)
            {
                return Err(Fault::shape(format!("axis {axis} of {shape} is {dim}, only dims of 1 can be squeezed")));
            }
        }
        let gone = axes::mask(&gone, shape.rank());
        let kept = shape.dims().iter().zip(&gone).filter(|(_, gone)| !**gone);
        Ok(vec![viewed(&data, kept.map(|(dim, _)| dim.clone()).collect())])
    }

    fn cost(&self, _cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn is_view(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Unsqueeze {
    axes: Axes,
}

/// `Unsqueeze`. Axes are an attribute before opset 13 and an input since.
pub(super) fn unsqueeze(node: &NodeView<'_>) -> Built {
    match Axes::of(node, 1)? {
        Axes::Default => Err(node.missing("axes")),
        axes => Ok(Box::new(Unsqueeze { axes })),
    }
}

impl Operator for Unsqueeze {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let (Some(shape), Some(count)) = (&data.shape, self.axes.count(cx)) else {
            return Ok(vec![Fact::tensor(data.element, None)]);
        };
        let rank = shape.rank().saturating_add(count);
        let new = match self.axes.find(cx, rank)? {
            Found::Known(new) => new,
            Found::Default => Vec::new(),
            Found::Unknown(_) => {
                let largest = shape.dims().iter().fold(Dim::ONE, |largest, dim| largest.max(dim));
                let dims = (0..rank).map(|axis| cx.fresh_dim(0, axis, 0, Some(largest.clone())));
                return Ok(vec![Fact::tensor(data.element, dims.collect::<Shape>())]);
            }
        };
        let mut old = shape.dims().iter();
        let new = axes::mask(&new, rank);
        let dims = new.iter().map(|&new| if new { Dim::ONE } else { old.next().cloned().unwrap_or(Dim::ONE) });
        let shape: Shape = dims.collect();
        Ok(vec![viewed(&data, shape)])
    }

    fn cost(&self, _cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost::FREE)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn is_view(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{float, free, ints, op, typed};

    #[test]
    fn before_opset_13_axes_are_an_attribute() {
        // Case 31.
        assert_eq!(op("Squeeze").opset(11).ints("axes", &[0]).dims(&[float(&[1, 3, 1, 5])]), "3×1×5");
        assert_eq!(op("Unsqueeze").opset(11).ints("axes", &[0, -1]).dims(&[float(&[3, 5])]), "1×3×5×1");
    }

    #[test]
    fn since_opset_13_axes_are_an_input() {
        assert_eq!(op("Squeeze").dims(&[float(&[1, 3, 1, 5]), ints(&[-2])]), "1×3×5");
        assert_eq!(op("Unsqueeze").dims(&[float(&[3, 5]), ints(&[1, 3])]), "3×1×5×1");
        let facts = op("Unsqueeze").run(&[ints(&[7]), ints(&[0])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![7]));
    }

    #[test]
    fn without_axes_all_ones_go() {
        assert_eq!(op("Squeeze").dims(&[float(&[1, 3, 1, 5])]), "3×5");
        let data = Fact::tensor(ElementType::Float, Shape::new(vec![free("N"), Dim::ONE]));
        assert_eq!(op("Squeeze").dims(&[data]), "N");
    }

    #[test]
    fn axes_are_checked() {
        assert!(op("Squeeze").dims(&[float(&[2, 3]), ints(&[0])]).contains("axis 0 of 2×3 is 2"));
        assert!(op("Squeeze").dims(&[float(&[1, 3]), ints(&[2])]).contains("axes is 2, allowed is -2 to 1"));
        assert!(op("Unsqueeze").dims(&[float(&[3]), ints(&[0, 0])]).contains("axis 0 twice"));
        assert!(op("Unsqueeze").opset(11).dims(&[float(&[3])]).contains("needs the attribute axes"));
    }

    #[test]
    fn unknown_axes_leave_the_rank() {
        assert_eq!(op("Unsqueeze").dims(&[float(&[3]), typed(ElementType::Int64, &[1])]), "y0.0×y0.1");
    }

    #[test]
    fn a_list_of_axes_without_end_is_not_made() {
        let axes = typed(ElementType::Int64, &[i128::from(i64::MAX)]);
        assert_eq!(op("Unsqueeze").dims(&[float(&[2, 3]), axes]), "?");
    }
}
