//! `Pad` and `CenterCropPad`: elements added or taken at the borders.

use std::sync::Arc;

use super::axes::{self, Axes, Found};
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx, constant, values};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar, TensorFact, Value};
use crate::ir::shape::Shape;

#[derive(Debug)]
struct Pad {
    /// Where they are an attribute, before opset 11.
    pads: Option<Vec<i64>>,
    /// The fill of those versions.
    fill: f32,
    axes: Axes,
    constant: bool,
    /// Whether margins repeat elements next to them; the kernels of these modes keep their input.
    repeats: bool,
}

/// `Pad`.
pub(super) fn pad(node: &NodeView<'_>) -> Built {
    let mode = node.string("mode")?.unwrap_or("constant");
    let known = matches!(mode, "constant" | "reflect" | "edge") || (mode == "wrap" && node.opset() >= 19);
    if !known {
        return Err(Fault::attribute(format!(
            "attribute mode is \"{mode}\", allowed are \"constant\", \"reflect\", \"edge\" and, since operator set 19, \
             \"wrap\""
        )));
    }
    let pads = match node.opset() {
        ..2 => Some(node.ints("paddings")?.ok_or_else(|| node.missing("paddings"))?),
        2..11 => Some(node.ints("pads")?.ok_or_else(|| node.missing("pads"))?),
        _ => None,
    };
    let axes = if node.opset() < 11 { Axes::Default } else { Axes::of(node, 3)? };
    let (constant, repeats) = (mode == "constant", matches!(mode, "reflect" | "edge"));
    Ok(Box::new(Pad { pads, fill: node.float("value")?.unwrap_or(0.0), axes, constant, repeats }))
}

/// Elements added before and after one axis.
type Margin = (Option<Dim>, Option<Dim>);

impl Pad {
    /// The margins of each axis; `None` where not even their number is known.
    fn margins(&self, cx: &InferCx<'_>, rank: usize) -> Result<Option<Vec<Margin>>, Fault> {
        let pads: Option<Vec<Option<Dim>>> = match &self.pads {
            Some(pads) => Some(pads.iter().map(|&pad| Some(Dim::from(pad))).collect()),
            None => cx.tensor(1).and_then(values::targets),
        };
        let Some(pads) = pads else { return Ok(None) };
        let axes = match self.axes.find(cx, rank)? {
            Found::Default => (0..rank).collect(),
            Found::Known(axes) => axes,
            Found::Unknown(_) => return Ok(None),
        };
        if pads.len() != axes.len().saturating_mul(2) {
            return Err(Fault::attribute(format!(
                "pads has {} numbers, allowed is {} for {} axes",
                pads.len(),
                axes.len().saturating_mul(2),
                axes.len()
            )));
        }
        let mut margins = vec![(Some(Dim::ZERO), Some(Dim::ZERO)); rank];
        let (before, after) = pads.split_at_checked(axes.len()).unwrap_or((&[], &[]));
        for ((&axis, before), after) in axes.iter().zip(before).zip(after) {
            if let Some(margin) = margins.get_mut(axis) {
                *margin = (before.clone(), after.clone());
            }
        }
        Ok(Some(margins))
    }

    /// The element that fills margins of mode `constant`.
    fn fill(&self, cx: &InferCx<'_>, element: Option<ElementType>) -> Scalar {
        if self.pads.is_some() {
            return Scalar::Real(f64::from(self.fill));
        }
        match cx.tensor(2) {
            Some(fill) => fill.single().unwrap_or(Scalar::Unknown),
            None if cx.has(2) => Scalar::Unknown,
            None => constant::number(element, 0),
        }
    }
}

impl Operator for Pad {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let Some(input) = &data.shape else { return Ok(vec![Fact::tensor(data.element, None)]) };
        let Some(margins) = self.margins(cx, input.rank())? else {
            return Ok(vec![Fact::tensor(data.element, cx.fresh_shape(0, input.rank()))]);
        };
        let mut shape = Shape::scalar();
        for (axis, (dim, margin)) in input.dims().iter().zip(&margins).enumerate() {
            let padded = match margin {
                (Some(before), Some(after)) => dim + before + after,
                _ => cx.fresh_dim(0, axis, 0, None),
            };
            let grows =
                |margin: &Option<Dim>| margin.as_ref().and_then(|margin| margin.range().0).is_some_and(|lo| lo > 0);
            if !self.constant && dim.as_const() == Some(0) && (grows(&margin.0) || grows(&margin.1)) {
                return Err(Fault::shape(format!("axis {axis} has no element that a margin could repeat")));
            }
            if padded.range().1.is_some_and(|hi| hi < 0) {
                return Err(Fault::shape(format!("pads take more from axis {axis} than its {dim} elements")));
            }
            shape.dims_mut().push(padded);
        }
        let value = if self.constant { value(&data, &shape, &margins, &self.fill(cx, data.element)) } else { None };
        Ok(vec![values::fact(data.element, Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let bytes_read = super::cost::tensor_bytes(cx.input(0)?)?;
        Some(Cost { bytes_read, bytes_written: cx.bytes_out()?, ..Cost::FREE })
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::input(0).when(self.repeats && cx.has_backward())
    }

    /// Exporters write margins of nothing in front of pools.
    fn shares_storage(&self, cx: &WorkCx<'_>) -> bool {
        matches!((cx.input(0), cx.output(0)), (Some(input), Some(output)) if input.dims == output.dims)
    }
}

fn value(data: &TensorFact, shape: &Shape, margins: &[Margin], fill: &Scalar) -> Option<Arc<Value>> {
    if data.value.is_some() && values::uniform_of(data).as_ref() == Some(fill) {
        return values::spread(fill.clone(), shape);
    }
    let starts: Vec<i128> = margins.iter().map(|(before, _)| before.as_ref()?.as_const()).collect::<Option<_>>()?;
    let grid = values::Grid::of(data)?;
    values::build(shape, |index| {
        let mut source = Vec::with_capacity(index.len());
        for ((&place, &start), &extent) in index.iter().zip(&starts).zip(&grid.sizes) {
            let inner = i128::try_from(place).ok().and_then(|place| place.checked_sub(start));
            match inner.and_then(|inner| usize::try_from(inner).ok()).filter(|&inner| inner < extent) {
                Some(inner) => source.push(inner),
                None => return fill.clone(),
            }
        }
        grid.at(&source)
    })
}

/// Crops or pads around the centre.
#[derive(Debug)]
struct CenterCropPad {
    axes: Option<Vec<i64>>,
}

/// `CenterCropPad`.
pub(super) fn center_crop_pad(node: &NodeView<'_>) -> Built {
    Ok(Box::new(CenterCropPad { axes: node.ints("axes")? }))
}

impl Operator for CenterCropPad {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(input) = cx.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
        let axes = axes::indices_or_all(self.axes.as_deref(), input.rank())?;
        let targets = cx.tensor(1).and_then(values::targets).unwrap_or_else(|| vec![None; axes.len()]);
        if targets.len() != axes.len() {
            return Err(Fault::shape(format!("shape has {} elements for {} axes", targets.len(), axes.len())));
        }
        let mut shape = input.clone();
        for (&axis, target) in axes.iter().zip(targets) {
            let dim = target.unwrap_or_else(|| cx.fresh_dim(0, axis, 0, None));
            if dim.range().1.is_some_and(|hi| hi < 0) {
                return Err(Fault::shape(format!("shape of axis {axis} is {dim}, allowed is 0 and more")));
            }
            if let Some(place) = shape.dims_mut().get_mut(axis) {
                *place = dim;
            }
        }
        Ok(vec![Fact::tensor(element, shape)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let bytes_read = super::cost::tensor_bytes(cx.input(0)?)?;
        Some(Cost { bytes_read, bytes_written: cx.bytes_out()?, ..Cost::FREE })
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{float, free, ints, op, typed};

    #[test]
    fn pads_are_an_attribute_or_an_input_by_version() {
        assert_eq!(op("Pad").opset(1).ints("paddings", &[0, 1, 0, 2]).dims(&[float(&[2, 3])]), "2×6");
        assert_eq!(op("Pad").opset(9).ints("pads", &[0, 1, 0, 2]).dims(&[float(&[2, 3])]), "2×6");
        assert_eq!(op("Pad").dims(&[float(&[2, 3]), ints(&[1, 0, 0, -1])]), "3×2");
    }

    #[test]
    fn pads_of_some_axes_leave_the_others() {
        let inputs = [Some(float(&[2, 3])), Some(ints(&[1, 1])), None, Some(ints(&[-1]))];
        let (facts, _, _) = op("Pad").run_optional(&inputs).unwrap();
        assert_eq!(crate::ops::testing::dims(&facts[0]), "2×5");
    }

    #[test]
    fn an_empty_axis_has_nothing_to_repeat() {
        let fault = op("Pad").string("mode", "edge").run(&[float(&[2, 0]), ints(&[0, 1, 0, 0])]).unwrap_err();
        assert_eq!(fault.message, "axis 1 has no element that a margin could repeat");
        assert_eq!(op("Pad").string("mode", "edge").dims(&[float(&[2, 0]), ints(&[0, 0, 1, 0])]), "3×0");
        assert_eq!(op("Pad").dims(&[float(&[2, 0]), ints(&[0, 1, 0, 0])]), "2×1");
    }

    #[test]
    fn symbolic_pads_are_added() {
        let pads = TensorFact::vector(vec![Dim::ZERO, free("N")]).into();
        assert_eq!(op("Pad").dims(&[float(&[3]), pads]), "N+3");
        assert_eq!(op("Pad").dims(&[float(&[3]), typed(ElementType::Int64, &[2])]), "y0.0");
    }

    #[test]
    fn known_vectors_are_padded() {
        let facts = op("Pad").run(&[ints(&[5, 6]), ints(&[1, 1])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![0, 5, 6, 0]));
        let facts = op("Pad").run(&[ints(&[5, 6]), ints(&[2, -1]), ints(&[1])]).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![1, 1, 5]));
    }

    #[test]
    fn pads_that_do_not_fit_are_named() {
        assert!(
            op("Pad").dims(&[float(&[2, 3]), ints(&[1, 1, 1])]).contains("pads has 3 numbers, allowed is 4 for 2 axes")
        );
        assert!(op("Pad").dims(&[float(&[2]), ints(&[-2, -1])]).contains("more from axis 0 than its 2"));
        assert!(op("Pad").string("mode", "mirror").dims(&[float(&[2]), ints(&[0, 0])]).contains("mode is \"mirror\""));
    }

    #[test]
    fn a_centre_takes_the_target_dims() {
        let node = op("CenterCropPad").ints("axes", &[2, 3]);
        assert_eq!(node.dims(&[float(&[1, 3, 5, 9]), ints(&[7, 7])]), "1×3×7×7");
        assert!(op("CenterCropPad").dims(&[float(&[5, 9]), ints(&[7])]).contains("1 elements for 2 axes"));
    }
}
