//! `GridSample`, `AffineGrid` and `Col2Im`: images sampled at, or summed into, given places.

use super::axes::MANY_AXES;
use super::operands::expect_dim;
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx, broadcast, resize, values};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, product};

#[derive(Debug)]
struct GridSample {
    operations: i128,
}

/// `GridSample`.
pub(super) fn grid_sample(node: &NodeView<'_>) -> Built {
    let mode = node.string("mode")?.unwrap_or("linear");
    let operations = resize::interpolation(mode).ok_or_else(|| {
        Fault::attribute(format!("attribute mode is \"{mode}\", allowed are \"linear\", \"nearest\" and \"cubic\""))
    })?;
    let padding = node.string("padding_mode")?.unwrap_or("zeros");
    if !matches!(padding, "zeros" | "border" | "reflection") {
        return Err(Fault::attribute(format!(
            "attribute padding_mode is \"{padding}\", allowed are \"zeros\", \"border\" and \"reflection\""
        )));
    }
    Ok(Box::new(GridSample { operations }))
}

impl Operator for GridSample {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let (Some(input), Some(grid)) = (cx.shape(0), cx.shape(1)) else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let wrong = || Fault::shape(format!("grid {grid} does not fit the input {input}"));
        let ([batch, channels, spatial @ ..], [grid_batch, places @ .., depth]) = (input.dims(), grid.dims()) else {
            return Err(wrong());
        };
        if spatial.len() != places.len() || depth.is_eq(&Dim::from(spatial.len())) == Some(false) {
            return Err(wrong().help("a grid has the shape N, spatial dims of the output, number of spatial dims"));
        }
        let batch = broadcast::unify(batch, grid_batch).ok_or_else(wrong)?;
        let shape: Shape = [batch, channels.clone()].into_iter().chain(places.iter().cloned()).collect();
        Ok(vec![Fact::tensor(element, shape)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::elementwise(cx, self.operations)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![if self.operations == 0 { cx.moved() } else { cx.elementwise() }]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::inputs(0..2).when(cx.has_backward())
    }
}

/// Checks that no size of a list is negative.
fn not_negative(name: &str, sizes: &[Option<Dim>]) -> Result<(), Fault> {
    match sizes.iter().flatten().find(|size| size.range().1.is_some_and(|hi| hi < 0)) {
        Some(size) => Err(Fault::shape(format!("{name} holds {size}, allowed is 0 and more"))),
        None => Ok(()),
    }
}

/// Places of a grid under affine matrices.
#[derive(Debug)]
struct AffineGrid;

/// `AffineGrid`.
pub(super) fn affine_grid(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(AffineGrid))
}

impl Operator for AffineGrid {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(sizes) = cx.tensor(1).and_then(values::targets) else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        not_negative("size", &sizes)?;
        let spatial = sizes.len().saturating_sub(2);
        if !matches!(spatial, 2 | 3) {
            return Err(Fault::shape(format!("size has {} elements, allowed are 4 and 5", sizes.len())));
        }
        if let Some(theta) = cx.shape(0)
            && (theta.rank() != 3
                || theta.dim(1).is_some_and(|rows| rows.is_eq(&Dim::from(spatial)) == Some(false))
                || theta.dim(2).is_some_and(|columns| columns.is_eq(&Dim::from(spatial + 1)) == Some(false)))
        {
            return Err(Fault::shape(format!(
                "theta {theta} must be N×{spatial}×{} for {spatial} spatial dims",
                spatial + 1
            )));
        }
        let batch = cx.shape(0).and_then(|theta| theta.dim(0).cloned());
        let mut dims = Vec::with_capacity(spatial + 2);
        for (axis, size) in sizes.into_iter().enumerate().filter(|(axis, _)| *axis != 1) {
            let place = axis.saturating_sub(1);
            let known = if axis == 0 { batch.clone().or(size) } else { size };
            dims.push(known.unwrap_or_else(|| cx.fresh_dim(0, place, 0, None)));
        }
        dims.push(Dim::from(spatial));
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        // One product and one sum for each spatial dim.
        let per_element = cx.shape_out(0)?.dims().last()? * 2;
        let flops = cx.elements_out(0)? * per_element;
        Cost::computed(cx, flops.clone(), &flops)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }
}

/// Columns of blocks summed into an image.
#[derive(Debug)]
struct Col2Im {
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// Before each axis, then behind each.
    pads: Vec<i64>,
}

/// `Col2Im`.
pub(super) fn col2im(node: &NodeView<'_>) -> Built {
    for (name, least) in [("strides", 1), ("dilations", 1), ("pads", 0)] {
        if let Some(wrong) = node.ints(name)?.unwrap_or_default().iter().find(|&&number| number < least) {
            return Err(Fault::attribute(format!("attribute {name} holds {wrong}, allowed is {least} and more")));
        }
    }
    let list = |name: &str| Ok::<_, Fault>(node.ints(name)?.unwrap_or_default());
    Ok(Box::new(Col2Im { strides: list("strides")?, dilations: list("dilations")?, pads: list("pads")? }))
}

impl Col2Im {
    /// The number of blocks that fit the image.
    fn blocks(&self, image: &[Option<Dim>], block: &[Dim]) -> Option<Dim> {
        let at = |list: &[i64], index: usize, default: i64| i128::from(list.get(index).copied().unwrap_or(default));
        let mut count = Dim::ONE;
        for (axis, (image, block)) in image.iter().zip(block).enumerate() {
            let padding = at(&self.pads, axis, 0) + at(&self.pads, axis + image_axes(&self.pads), 0);
            let reach = (block - 1) * at(&self.dilations, axis, 1) + 1;
            let steps = image.clone()? + padding - reach;
            count *= steps.floor_div(&Dim::constant(at(&self.strides, axis, 1))) + 1;
        }
        Some(count)
    }
}

/// Number of axes that a list of pads is for.
fn image_axes(pads: &[i64]) -> usize {
    pads.len() / 2
}

impl Operator for Col2Im {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let image = cx.tensor(1).and_then(values::targets).filter(|image| image.len() <= MANY_AXES);
        let Some(image) = image else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        not_negative("image_shape", &image)?;
        expect_dim(cx, 2, 0, "block_shape", &Dim::from(image.len()))?;
        let batch = cx.shape(0).and_then(|shape| shape.dim(0).cloned());
        let columns = cx.shape(0).and_then(|shape| shape.dim(1).cloned());
        if let Some(shape) = cx.shape(0)
            && shape.rank() != 3
        {
            return Err(Fault::shape(format!("the input must have rank 3, it has shape {shape}")));
        }
        let blocks = cx.integers(2).and_then(|block| self.blocks(&image, &block));
        if let Some(blocks) = blocks {
            expect_dim(cx, 0, 2, "input", &blocks)?;
        }
        let area = cx.integers(2).map(|block| product(&block));
        let channels = match (columns, area) {
            (Some(columns), Some(area)) => match (columns.exact_div(&area), columns.as_const()) {
                (Some(channels), _) => Some(channels),
                (None, Some(_)) if area.as_const().is_some() => {
                    return Err(Fault::shape(format!("axis 1 is {columns}, which blocks of {area} do not divide")));
                }
                (None, _) => Some(columns.floor_div(&area)),
            },
            _ => None,
        };
        let mut shape = Shape::scalar();
        for (axis, dim) in [batch, channels].into_iter().chain(image).enumerate() {
            let dim = dim.unwrap_or_else(|| cx.fresh_dim(0, axis, 0, None));
            shape.dims_mut().push(dim);
        }
        Ok(vec![Fact::tensor(element, shape)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::computed(cx, cx.elements_in(0)?, &Dim::ZERO)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{float, ints, op};

    #[test]
    fn blocks_have_the_axes_of_the_image() {
        let fault = op("Col2Im").run(&[float(&[1, 4, 4]), ints(&[3]), ints(&[2, 2])]).unwrap_err();
        assert_eq!(fault.message, "block_shape has 2 in dim 0, 1 is needed");
        let fault = op("Col2Im").run(&[float(&[1, 4, 5]), ints(&[4, 4]), ints(&[2, 2])]).unwrap_err();
        assert_eq!(fault.message, "input has 5 in dim 2, 9 is needed");
        let strided = op("Col2Im").ints("strides", &[2, 2]).ints("pads", &[1, 0, 1, 0]);
        assert_eq!(strided.dims(&[float(&[1, 4, 6]), ints(&[4, 4]), ints(&[2, 2])]), "1×1×4×4");
    }

    #[test]
    fn samples_take_the_places_of_the_grid() {
        assert_eq!(op("GridSample").dims(&[float(&[2, 3, 8, 8]), float(&[2, 5, 6, 2])]), "2×3×5×6");
        assert_eq!(op("GridSample").dims(&[float(&[2, 3, 8, 8, 8]), float(&[2, 4, 5, 6, 3])]), "2×3×4×5×6");
        assert!(op("GridSample").dims(&[float(&[2, 3, 8, 8]), float(&[2, 5, 6, 3])]).contains("does not fit"));
        let cost = op("GridSample").cost(&[float(&[1, 1, 8, 8]), float(&[1, 2, 2, 2])]);
        assert_eq!(cost.flops.as_const(), Some(28));
        assert!(op("GridSample").string("mode", "x").dims(&[float(&[1]), float(&[1])]).contains("mode is \"x\""));
    }

    #[test]
    fn a_grid_has_a_place_for_each_pixel() {
        assert_eq!(op("AffineGrid").dims(&[float(&[2, 2, 3]), ints(&[2, 3, 5, 6])]), "2×5×6×2");
        assert_eq!(op("AffineGrid").dims(&[float(&[2, 3, 4]), ints(&[2, 3, 4, 5, 6])]), "2×4×5×6×3");
        assert!(op("AffineGrid").dims(&[float(&[2, 3, 3]), ints(&[2, 3, 5, 6])]).contains("must be N×2×3"));
        assert_eq!(op("AffineGrid").cost(&[float(&[1, 2, 3]), ints(&[1, 1, 5, 5])]).flops.as_const(), Some(200));
    }

    #[test]
    fn blocks_return_to_an_image() {
        assert_eq!(op("Col2Im").dims(&[float(&[1, 15, 5]), ints(&[5, 5]), ints(&[1, 5])]), "1×3×5×5");
        assert!(op("Col2Im").dims(&[float(&[1, 14, 5]), ints(&[5, 5]), ints(&[1, 5])]).contains("blocks of 5"));
        assert!(
            op("Col2Im").dims(&[float(&[1, 15, 5]), ints(&[5, -5]), ints(&[1, 5])]).contains("image_shape holds -5")
        );
        assert!(op("Col2Im").ints("strides", &[0, 1]).dims(&[float(&[1])]).contains("strides holds 0"));
    }
}
