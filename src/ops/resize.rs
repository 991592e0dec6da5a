//! `Resize` and `Upsample`: images at another size.

use super::axes;
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Work, WorkCx, scalar, values};
use crate::diagnostics::Code;
use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, Scalar};
use crate::ir::shape::Shape;

/// How often a fraction that stands for a scale is refined.
const MAX_CONVERGENTS: u32 = 24;
/// Largest denominator of such a fraction; a scale without one is taken as the binary fraction that it is.
const MAX_DENOMINATOR: i128 = 4096;

/// Where the scales are.
#[derive(Debug)]
enum Scales {
    Attribute(Vec<f32>),
    Input(usize),
}

/// What `sizes` mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Stretch,
    NotLarger,
    NotSmaller,
}

#[derive(Debug)]
struct Resize {
    scales: Scales,
    /// Input of the sizes, since opset 11.
    sizes: Option<usize>,
    /// Input of the region that is resized, where there is one.
    roi: Option<usize>,
    axes: Option<Vec<i64>>,
    policy: Policy,
    /// Operations for each output element.
    operations: i128,
}

/// Operations for one output element: a weighted mean of 2×2 or 4×4 neighbours.
pub(super) fn interpolation(mode: &str) -> Option<i128> {
    match mode {
        "nearest" => Some(0),
        "linear" | "bilinear" => Some(7),
        "cubic" | "bicubic" => Some(35),
        _ => None,
    }
}

fn operations(node: &NodeView<'_>) -> Result<i128, Fault> {
    let mode = node.string("mode")?.unwrap_or("nearest");
    interpolation(mode).ok_or_else(|| {
        Fault::attribute(format!("attribute mode is \"{mode}\", allowed are \"nearest\", \"linear\" and \"cubic\""))
    })
}

/// `Resize`.
pub(super) fn resize(node: &NodeView<'_>) -> Built {
    let old = node.opset() < 11;
    let crops = node.string("coordinate_transformation_mode")? == Some("tf_crop_and_resize");
    let policy = match node.string("keep_aspect_ratio_policy")?.unwrap_or("stretch") {
        "stretch" => Policy::Stretch,
        "not_larger" => Policy::NotLarger,
        "not_smaller" => Policy::NotSmaller,
        other => {
            return Err(Fault::attribute(format!(
                "attribute keep_aspect_ratio_policy is \"{other}\", allowed are \"stretch\", \"not_larger\" and \
                 \"not_smaller\""
            )));
        }
    };
    Ok(Box::new(Resize {
        scales: Scales::Input(if old { 1 } else { 2 }),
        sizes: if old { None } else { Some(3) },
        roi: (crops && !old).then_some(1),
        axes: node.ints("axes")?,
        policy,
        operations: operations(node)?,
    }))
}

/// `Upsample`, the older name.
pub(super) fn upsample(node: &NodeView<'_>) -> Built {
    let scales = match node.opset() {
        9.. => Scales::Input(1),
        7..9 => Scales::Attribute(node.floats("scales")?.ok_or_else(|| node.missing("scales"))?),
        _ => {
            let height = node.float("height_scale")?.ok_or_else(|| node.missing("height_scale"))?;
            let width = node.float("width_scale")?.ok_or_else(|| node.missing("width_scale"))?;
            Scales::Attribute(vec![1.0, 1.0, height, width])
        }
    };
    let operations = operations(node)?;
    Ok(Box::new(Resize { scales, sizes: None, roi: None, axes: None, policy: Policy::Stretch, operations }))
}

/// `Upsample` of `com.microsoft.nchwc`: whole scales in an attribute.
pub(super) fn scaled_by_attribute(node: &NodeView<'_>) -> Built {
    let scales = node.ints("scales")?.ok_or_else(|| node.missing("scales"))?;
    let scales = Scales::Attribute(scales.into_iter().map(|scale| scale as f32).collect());
    let operations = operations(node)?;
    Ok(Box::new(Resize { scales, sizes: None, roi: None, axes: None, policy: Policy::Stretch, operations }))
}

impl Operator for Resize {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(input) = cx.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
        let axes = axes::indices_or_all(self.axes.as_deref(), input.rank())?;
        let sizes = self.sizes.filter(|&sizes| cx.has(sizes) && !cx.is_empty(sizes));
        let scales = match self.scales {
            Scales::Attribute(_) => true,
            Scales::Input(scales) => cx.has(scales) && !cx.is_empty(scales),
        };
        let dims = match (sizes, scales) {
            (Some(sizes), true) if cx.shape(sizes).is_some() && self.scales_are_known(cx) => {
                return Err(Fault::shape("scales and sizes are both given, allowed is one of them"));
            }
            (Some(sizes), _) => self.by_sizes(cx, sizes, input, &axes)?,
            (None, true) => self.by_scales(cx, input, &axes)?,
            (None, false) => return Err(Fault::shape("neither scales nor sizes are given, one of them must be")),
        };
        let mut shape = input.clone();
        for (&axis, dim) in axes.iter().zip(dims) {
            let dim = dim.unwrap_or_else(|| cx.fresh_dim(0, axis, 0, None));
            if let Some(place) = shape.dims_mut().get_mut(axis) {
                *place = dim;
            }
        }
        Ok(vec![Fact::tensor(element, shape)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::elementwise(cx, self.operations)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![if self.operations == 0 { cx.moved() } else { cx.elementwise() }]
    }
}

impl Resize {
    fn scales_are_known(&self, cx: &InferCx<'_>) -> bool {
        match self.scales {
            Scales::Attribute(_) => true,
            Scales::Input(scales) => cx.shape(scales).is_some_and(|shape| shape.as_const().is_some()),
        }
    }

    /// Dims of the axes from the input `sizes`.
    fn by_sizes(
        &self,
        cx: &InferCx<'_>,
        sizes: usize,
        input: &Shape,
        axes: &[usize],
    ) -> Result<Vec<Option<Dim>>, Fault> {
        let Some(sizes) = cx.tensor(sizes).and_then(values::targets) else { return Ok(vec![None; axes.len()]) };
        if sizes.len() != axes.len() {
            return Err(Fault::shape(format!("sizes has {} elements for {} axes", sizes.len(), axes.len())));
        }
        if let Some(size) = sizes.iter().flatten().find(|size| size.range().1.is_some_and(|hi| hi < 0)) {
            return Err(Fault::shape(format!("sizes holds {size}, allowed is 0 and more")));
        }
        if self.policy == Policy::Stretch {
            return Ok(sizes);
        }
        Ok(self.keep_aspect(&sizes, input, axes).unwrap_or_else(|| vec![None; axes.len()]))
    }

    /// One scale for all axes: the smallest or largest of those that the sizes ask for; halves round up.
    fn keep_aspect(&self, sizes: &[Option<Dim>], input: &Shape, axes: &[usize]) -> Option<Vec<Option<Dim>>> {
        let mut pairs = Vec::with_capacity(axes.len());
        for (&axis, size) in axes.iter().zip(sizes) {
            pairs.push((size.as_ref()?.as_const()?, input.dim(axis)?.as_const().filter(|&dim| dim > 0)?));
        }
        let (mut size, mut dim) = *pairs.first()?;
        for &(other_size, other_dim) in &pairs {
            let (left, right) = (other_size.checked_mul(dim)?, size.checked_mul(other_dim)?);
            if if self.policy == Policy::NotLarger { left < right } else { left > right } {
                (size, dim) = (other_size, other_dim);
            }
        }
        let scaled = |&(_, extent): &(i128, i128)| {
            let twice = size.checked_mul(extent)?.checked_mul(2)?.checked_add(dim)?;
            Some(Dim::constant(twice.div_euclid(dim.checked_mul(2)?)))
        };
        Some(pairs.iter().map(scaled).collect())
    }

    /// Dims of the axes from scales, which runtimes multiply in single precision.
    fn by_scales(&self, cx: &mut InferCx<'_>, input: &Shape, axes: &[usize]) -> Result<Vec<Option<Dim>>, Fault> {
        let scales = match &self.scales {
            Scales::Attribute(scales) => {
                Some(scales.iter().map(|&scale| Scalar::Real(f64::from(scale))).collect::<Vec<_>>())
            }
            Scales::Input(input) => cx.tensor(*input).and_then(|tensor| tensor.elements()),
        };
        let Some(scales) = scales else { return Ok(vec![None; axes.len()]) };
        if scales.len() != axes.len() {
            return Err(Fault::shape(format!("scales has {} elements for {} axes", scales.len(), axes.len())));
        }
        let roi = self.roi.map(|roi| cx.tensor(roi).and_then(|roi| roi.reals()).unwrap_or_default());
        let mut dims = Vec::with_capacity(axes.len());
        for (place, (&axis, scale)) in axes.iter().zip(&scales).enumerate() {
            let dim = input.dim(axis).cloned().unwrap_or(Dim::ONE);
            let scale = &scale.as_real().map_or_else(|| scale.clone(), Scalar::Real);
            if let Scalar::Real(number) = scale
                && !(*number > 0.0 && number.is_finite())
            {
                return Err(Fault::shape(format!("scales of axis {axis} is {number}, allowed is more than 0")));
            }
            let scale = match &roi {
                None => scale.clone(),
                Some(roi) => match (roi.get(place), roi.get(place + axes.len()), scale) {
                    (Some(start), Some(end), Scalar::Real(scale)) if end > start => Scalar::Real((end - start) * scale),
                    _ => Scalar::Unknown,
                },
            };
            dims.push(match scale {
                Scalar::Real(scale) => Some(scaled(cx, axis, &dim, scale)),
                scale => {
                    let scaled = scalar::floor(&scalar::mul(&scalar::quotient(dim, 1), &scale));
                    let known = scalar::truncate(&scaled).into_integer();
                    known.filter(|dim| dim.range().0.is_some_and(|lo| lo >= 0))
                }
            });
        }
        Ok(dims)
    }
}

/// `floor(dim × scale)` as runtimes compute it; says so where double precision gives another number.
#[allow(clippy::cast_possible_truncation, reason = "single precision is what runtimes compute in")]
fn scaled(cx: &mut InferCx<'_>, axis: usize, dim: &Dim, scale: f64) -> Dim {
    let Some(number) = dim.as_const() else { return scaled_symbol(dim, scale) };
    let number = scalar::to_real(number);
    let single = scalar::to_integer(f64::from((number as f32 * scale as f32).floor()));
    let double = scalar::to_integer((number * scale).floor());
    if single != double {
        cx.remark(Fault::new(
            Code::RuntimesDiffer,
            format!(
                "axis {axis}: {number} × {} is {single} in single precision, as runtimes compute it, and {double} in \
                 double precision",
                scale as f32
            ),
        ));
    }
    Dim::constant(single.max(0))
}

/// The same for a symbol, with the shortest fraction that single precision does not tell from the scale.
#[allow(clippy::cast_possible_truncation, reason = "single precision is what runtimes compute in")]
fn scaled_symbol(dim: &Dim, scale: f64) -> Dim {
    let (mut before, mut now) = ((0_i128, 1_i128), (1_i128, 0_i128));
    let mut rest = scale;
    for _ in 0..MAX_CONVERGENTS {
        let whole = scalar::to_integer(rest.floor());
        let numerator = whole.saturating_mul(now.0).saturating_add(before.0);
        let denominator = whole.saturating_mul(now.1).saturating_add(before.1);
        if denominator > MAX_DENOMINATOR {
            break;
        }
        if (scalar::to_real(numerator) / scalar::to_real(denominator)) as f32 == scale as f32 {
            return (dim * numerator).floor_div(&Dim::constant(denominator));
        }
        (before, now) = (now, (numerator, denominator));
        let fraction = rest - rest.floor();
        if fraction <= 0.0 {
            break;
        }
        rest = 1.0 / fraction;
    }
    let denominator = 1_i128 << 40;
    (dim * scalar::to_integer((scale * scalar::to_real(denominator)).round())).floor_div(&Dim::constant(denominator))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontend::onnx::model::AttributeValue;
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{TestNode, dims, float, free, ints, op, reals, typed};

    fn by_scales(data: Fact, scales: &[f64]) -> (String, Vec<Fault>) {
        let scales: Vec<f64> = scales.iter().map(|&scale| f64::from(scale as f32)).collect();
        let inputs = [Some(data), None, Some(reals(&scales))];
        let (facts, remarks, _) = op("Resize").run_optional(&inputs).unwrap();
        (dims(&facts[0]), remarks)
    }

    fn by_sizes(node: TestNode, data: Fact, sizes: Fact) -> String {
        let (facts, _, _) = node.run_optional(&[Some(data), None, None, Some(sizes)]).unwrap();
        dims(&facts[0])
    }

    #[test]
    fn scales_are_multiplied_in_single_precision() {
        // Case 18.
        let (shape, remarks) = by_scales(float(&[1, 1, 10, 10]), &[1.0, 1.0, 0.7, 1.3]);
        assert_eq!(shape, "1×1×7×13");
        assert_eq!(remarks.len(), 2);
        assert_eq!(remarks[0].code, Code::RuntimesDiffer);
        assert!(remarks[0].message.contains("10 × 0.7 is 7 in single precision"), "{}", remarks[0].message);
        assert!(by_scales(float(&[1, 1, 10, 10]), &[1.0, 1.0, 2.0, 0.5]).1.is_empty());
    }

    #[test]
    fn a_symbolic_dim_is_scaled_by_the_shortest_fraction() {
        let n = free("H");
        let data = Fact::tensor(ElementType::Float, Shape::new(vec![n.clone(), n.clone()]));
        let inputs = [Some(data), None, Some(reals(&[2.0, f64::from(0.7_f32)]))];
        let (facts, _, _) = op("Resize").run_optional(&inputs).unwrap();
        let expected = Shape::new(vec![&n * 2, (&n * 7).floor_div(&Dim::constant(10))]);
        assert_eq!(facts[0].as_tensor().unwrap().shape, Some(expected));
    }

    #[test]
    fn the_aspect_ratio_is_kept() {
        // Case 19.
        let node = || op("Resize").ints("axes", &[2, 3]);
        let sizes = ints(&[9, 9]);
        let data = float(&[1, 1, 6, 8]);
        assert_eq!(
            by_sizes(node().string("keep_aspect_ratio_policy", "not_larger"), data.clone(), sizes.clone()),
            "1×1×7×9"
        );
        assert_eq!(
            by_sizes(node().string("keep_aspect_ratio_policy", "not_smaller"), data.clone(), sizes.clone()),
            "1×1×9×12"
        );
        assert_eq!(by_sizes(node(), data, sizes), "1×1×9×9");
    }

    #[test]
    fn an_empty_constant_counts_as_not_given() {
        // Case 20.
        let inputs = [float(&[1, 1, 4, 4]), reals(&[]), reals(&[]), ints(&[1, 1, 8, 8])].map(Some);
        let (facts, remarks, _) = op("Resize").opset(11).run_optional(&inputs).unwrap();
        assert_eq!((dims(&facts[0]).as_str(), remarks.len()), ("1×1×8×8", 0));
    }

    #[test]
    fn old_files_upsample() {
        // Case 30.
        let node = op("Upsample").opset(9);
        assert_eq!(node.dims(&[float(&[1, 1, 5, 5]), reals(&[1.0, 1.0, 1.5, 2.0])]), "1×1×7×10");
        let scales = AttributeValue::Floats(vec![1.0, 1.0, 2.0, 2.0]);
        assert_eq!(op("Upsample").opset(7).attribute("scales", scales).dims(&[float(&[1, 1, 5, 5])]), "1×1×10×10");
        assert_eq!(op("Resize").opset(10).dims(&[float(&[5]), reals(&[3.0])]), "15");
        let (height, width) = (AttributeValue::Float(2.0), AttributeValue::Float(3.0));
        let node = op("Upsample").opset(1).attribute("height_scale", height).attribute("width_scale", width);
        assert_eq!(node.dims(&[float(&[1, 1, 5, 5])]), "1×1×10×15");
    }

    #[test]
    fn a_region_is_resized() {
        let node = op("Resize").string("coordinate_transformation_mode", "tf_crop_and_resize");
        let inputs = [float(&[8]), reals(&[0.25, 0.75]), reals(&[3.0])];
        assert_eq!(node.dims(&inputs), "12");
    }

    #[test]
    fn symbolic_sizes_are_taken() {
        let sizes = crate::ir::fact::TensorFact::vector(vec![free("H"), free("W")]).into();
        assert_eq!(by_sizes(op("Resize"), float(&[4, 4]), sizes), "H×W");
        assert_eq!(by_sizes(op("Resize"), float(&[4, 4]), typed(ElementType::Int64, &[2])), "y0.0×y0.1");
    }

    #[test]
    fn inputs_that_do_not_fit_are_named() {
        let run = |inputs: [Option<Fact>; 4]| op("Resize").run_optional(&inputs).unwrap_err().message;
        let data = || Some(float(&[4]));
        assert!(run([data(), None, None, None]).contains("neither scales nor sizes"));
        assert!(run([data(), None, Some(reals(&[2.0])), Some(ints(&[8]))]).contains("both given"));
        assert!(run([data(), None, Some(reals(&[-2.0])), None]).contains("scales of axis 0 is -2"));
        assert!(run([data(), None, Some(reals(&[2.0, 2.0])), None]).contains("2 elements for 1 axes"));
        assert!(run([data(), None, None, Some(ints(&[-8]))]).contains("sizes holds -8"));
    }

    #[test]
    fn interpolation_decides_the_cost() {
        let flops = |mode: &str| {
            let node = op("Resize").opset(10).string("mode", mode);
            node.cost(&[float(&[2]), reals(&[2.0])]).flops.as_const()
        };
        assert_eq!((flops("nearest"), flops("linear"), flops("cubic")), (Some(0), Some(28), Some(140)));
    }
}
