//! Signals: `DFT`, `STFT`, windows, `MelWeightMatrix`; and `Det`, `ImageDecoder`.
//!
//! A transform of n points is counted as 5·n·log2 n operations (rounded up), half of that where one side is real.

use super::cost::tensor_bytes;
use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Saved, WorkCx, axes, cast, scalar};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// Longest transform whose logarithm is followed, as a power of two.
const MAX_LOG: u32 = 32;

/// The smallest power of two that is not below a length, as an exponent. Symbolic lengths give a sum of steps.
fn log2_ceil(length: &Dim) -> Dim {
    (0..MAX_LOG).fold(Dim::ZERO, |sum, power| {
        let step = Dim::constant(1 << power);
        sum + (length - 1).max(&Dim::ZERO).floor_div(&step).min(&Dim::ONE)
    })
}

/// Operations of one transform.
fn transform(length: &Dim, one_sided: bool) -> Dim {
    let whole = length * 5 * log2_ceil(length);
    if one_sided { whole.ceil_div(&Dim::constant(2)) } else { whole }
}

/// An input of one integer.
fn single(cx: &InferCx<'_>, input: usize) -> Option<Dim> {
    scalar::truncate(&cx.tensor(input)?.single()?).into_integer()
}

#[derive(Debug)]
struct Dft {
    /// Where it is an attribute, before opset 20.
    axis: Option<i64>,
    inverse: bool,
    one_sided: bool,
}

/// `DFT`.
pub(super) fn dft(node: &NodeView<'_>) -> Built {
    let axis = if node.opset() < 20 { Some(node.int_or("axis", 1)?) } else { None };
    Ok(Box::new(Dft { axis, inverse: node.flag("inverse", false)?, one_sided: node.flag("onesided", false)? }))
}

impl Dft {
    fn axis(&self, given: Option<i64>, rank: usize) -> Result<usize, Fault> {
        let axis = self.axis.or(given).unwrap_or(-2);
        let index = axes::index("axis", axis, rank)?;
        if index + 1 == rank {
            return Err(Fault::attribute(format!("axis is {axis}, which holds the parts of complex numbers")));
        }
        Ok(index)
    }
}

impl Operator for Dft {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(input) = cx.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
        let given = cx.const_integers(2).and_then(|axes| axes.first().copied());
        if self.axis.is_none() && cx.has(2) && given.is_none() {
            return Ok(vec![Fact::tensor(element, cx.fresh_shape(0, input.rank()))]);
        }
        let axis = self.axis(given, input.rank())?;
        let parts = input.dims().last().and_then(Dim::as_const);
        if parts.is_some_and(|parts| !matches!(parts, 1 | 2)) {
            return Err(Fault::shape(format!(
                "the last dim of {input} holds 1 (real) or 2 (complex) parts of a number"
            )));
        }
        if self.one_sided && !self.inverse && parts == Some(2) {
            return Err(Fault::shape(format!("attribute onesided is for real numbers, {input} holds complex ones")));
        }
        let dim = input.dim(axis).cloned().unwrap_or(Dim::ONE);
        let back = self.one_sided && self.inverse;
        let length = match single(cx, 1) {
            Some(length) if length.range().1.is_some_and(|hi| hi < 1) => {
                return Err(Fault::shape(format!("dft_length is {length}, allowed is 1 and more")));
            }
            Some(length) => length,
            None if cx.has(1) => cx.fresh_dim(0, axis, 1, None),
            None if back => (&dim - 1) * 2,
            None => dim,
        };
        let bins = if self.one_sided && !self.inverse { length.floor_div(&Dim::constant(2)) + 1 } else { length };
        let mut shape = input.clone();
        if let Some(place) = shape.dims_mut().get_mut(axis) {
            *place = bins;
        }
        if let Some(last) = shape.dims_mut().last_mut() {
            *last = if back { Dim::ONE } else { Dim::constant(2) };
        }
        Ok(vec![Fact::tensor(element, shape)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let (input, output) = (cx.shape_in(0)?, cx.shape_out(0)?);
        let given = cx.input(2).and_then(|axis| axis.const_integers()).and_then(|axes| axes.first().copied());
        let axis = self.axis(given, input.rank()).ok()?;
        let others = output.dims().iter().enumerate().filter(|(place, _)| *place != axis && place + 1 != output.rank());
        let count: Dim = others.map(|(_, dim)| dim).product();
        let given =
            cx.input(1).and_then(|length| length.single()).and_then(|length| scalar::truncate(&length).into_integer());
        let length = given.or_else(|| {
            let longer = if self.inverse { output } else { input };
            longer.dim(axis).cloned()
        })?;
        let flops = count * transform(&length, self.one_sided);
        Cost::computed(cx, flops.clone(), &flops)
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Setting }
    }
}

/// Transforms of overlapping frames.
#[derive(Debug)]
struct Stft {
    one_sided: bool,
}

/// `STFT`.
pub(super) fn stft(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Stft { one_sided: node.flag("onesided", true)? }))
}

impl Operator for Stft {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(signal) = cx.shape(0) else {
            return Ok(vec![Fact::tensor(element, cx.fresh_shape(0, 4))]);
        };
        let (batch, samples) = match signal.dims() {
            [batch, samples] | [batch, samples, _] => (batch.clone(), samples.clone()),
            _ => return Err(Fault::shape(format!("the signal must have rank 2 or 3, it has shape {signal}"))),
        };
        let window = cx.shape(2).map(Shape::elements);
        let length = match (single(cx, 3), window) {
            (Some(length), _) => length,
            (None, Some(window)) if !cx.has(3) => window,
            _ => cx.fresh_dim(0, 2, 1, Some(samples.clone())),
        };
        let frames = match single(cx, 1) {
            Some(step) if step.range().1.is_some_and(|hi| hi < 1) => {
                return Err(Fault::shape(format!("frame_step is {step}, allowed is 1 and more")));
            }
            _ if samples.is_ge(&length) == Some(false) => {
                return Err(Fault::shape(format!("a frame of {length} does not fit a signal of {samples}")));
            }
            Some(step) => (samples - &length).floor_div(&step) + 1,
            None => cx.fresh_dim(0, 1, 0, Some(samples)),
        };
        let bins = if self.one_sided { length.floor_div(&Dim::constant(2)) + 1 } else { length };
        Ok(vec![Fact::tensor(element, Shape::new(vec![batch, frames, bins, Dim::constant(2)]))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let [batch, frames, bins, _] = cx.shape_out(0)?.dims() else { return None };
        let given =
            cx.input(3).and_then(|length| length.single()).and_then(|length| scalar::truncate(&length).into_integer());
        let window = cx.shape_in(2).map(Shape::elements);
        let length = given.or_else(|| window.clone()).or_else(|| (!self.one_sided).then(|| bins.clone()))?;
        let weighting = if window.is_some() { length.clone() } else { Dim::ZERO };
        let flops = batch * frames * (transform(&length, self.one_sided) + weighting);
        Cost::computed(cx, flops.clone(), &flops)
    }

    fn role(&self, input: usize) -> Role {
        if matches!(input, 0 | 2) { Role::Data } else { Role::Setting }
    }

    /// The window, for the gradient of the signal; the signal as frames, for that of a window.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let window = Saved::input(2).when(cx.needs(0));
        window.and(Saved::input(0).when(cx.needs(2))).when(cx.has_backward())
    }
}

/// A window or a matrix of filters, made of a few numbers.
#[derive(Debug)]
struct Made {
    element: ElementType,
    mel: bool,
}

fn output_datatype(node: &NodeView<'_>) -> Result<ElementType, Fault> {
    cast::element_type("output_datatype", node.int_or("output_datatype", 1)?)
}

/// `HannWindow`, `HammingWindow`, `BlackmanWindow`.
pub(super) fn window(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Made { element: output_datatype(node)?, mel: false }))
}

/// `MelWeightMatrix`.
pub(super) fn mel_weight_matrix(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Made { element: output_datatype(node)?, mel: true }))
}

impl Operator for Made {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let bins = single(cx, 1).map(|length| length.floor_div(&Dim::constant(2)) + 1);
        let known = if self.mel { vec![bins, single(cx, 0)] } else { vec![single(cx, 0)] };
        let mut shape = Shape::scalar();
        for (axis, dim) in known.into_iter().enumerate() {
            let dim = dim.unwrap_or_else(|| cx.fresh_dim(0, axis, 0, None));
            if dim.range().1.is_some_and(|hi| hi < 0) {
                return Err(Fault::shape(format!("a size of {dim} is given, allowed is 0 and more")));
            }
            shape.dims_mut().push(dim);
        }
        Ok(vec![Fact::tensor(self.element, shape)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost { flops: cx.elements_out(0)?, bytes_written: cx.bytes_out()?, ..Cost::FREE })
    }

    fn role(&self, _input: usize) -> Role {
        Role::Setting
    }
}

/// Determinants of square matrices.
#[derive(Debug)]
struct Det;

/// `Det`.
pub(super) fn det(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(Det))
}

impl Operator for Det {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(input) = cx.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
        let [outer @ .., rows, columns] = input.dims() else {
            return Err(Fault::shape(format!("the input must have rank 2 or more, it has shape {input}")));
        };
        if rows.is_eq(columns) == Some(false) {
            return Err(Fault::shape(format!("matrices of {rows}×{columns} are not square")));
        }
        Ok(vec![Fact::tensor(element, outer.iter().cloned().collect::<Shape>())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        // Elimination: two thirds of a cube.
        let size = cx.shape_in(0)?.dims().last()?;
        let flops = cx.elements_out(0)? * (size * size * size * 2).ceil_div(&Dim::constant(3));
        Cost::computed(cx, flops.clone(), &flops)
    }

    /// The matrices and their factors.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let factors = cx.input(0).map_or(0, |input| input.bytes());
        Saved::input(0).and(Saved::output(0)).and(Saved::extra(factors)).when(cx.has_backward())
    }
}

/// A compressed image; its size stands in the stream.
#[derive(Debug)]
struct ImageDecoder {
    channels: i128,
}

/// `ImageDecoder`.
pub(super) fn image_decoder(node: &NodeView<'_>) -> Built {
    let channels = match node.string("pixel_format")?.unwrap_or("RGB") {
        "RGB" | "BGR" => 3,
        "Grayscale" => 1,
        other => {
            return Err(Fault::attribute(format!(
                "attribute pixel_format is \"{other}\", allowed are \"RGB\", \"BGR\" and \"Grayscale\""
            )));
        }
    };
    Ok(Box::new(ImageDecoder { channels }))
}

impl Operator for ImageDecoder {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let dims = vec![cx.fresh_dim(0, 0, 0, None), cx.fresh_dim(0, 1, 0, None), Dim::constant(self.channels)];
        Ok(vec![Fact::tensor(ElementType::Uint8, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost { bytes_read: tensor_bytes(cx.input(0)?)?, bytes_written: cx.bytes_out()?, ..Cost::FREE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{float, free, ints, op, typed};

    fn int(number: i64) -> Fact {
        op("Constant").int("value_int", number).run(&[]).unwrap().remove(0)
    }

    #[test]
    fn parts_of_numbers_stand_in_the_last_dim() {
        let fault = op("DFT").run(&[float(&[1, 8, 3])]).unwrap_err();
        assert_eq!(fault.message, "the last dim of 1×8×3 holds 1 (real) or 2 (complex) parts of a number");
        assert!(op("DFT").int("onesided", 1).run(&[float(&[1, 8, 2])]).is_err());
        assert_eq!(op("DFT").int("onesided", 1).dims(&[float(&[1, 8, 1])]), "1×5×2");
    }

    #[test]
    fn the_spectrum_of_a_real_signal_has_one_side() {
        let signal = float(&[2, 100, 1]);
        assert_eq!(op("DFT").dims(std::slice::from_ref(&signal)), "2×100×2");
        assert_eq!(op("DFT").int("onesided", 1).dims(std::slice::from_ref(&signal)), "2×51×2");
        assert_eq!(op("DFT").int("onesided", 1).dims(&[signal.clone(), int(64)]), "2×33×2");
        assert_eq!(op("DFT").int("onesided", 1).int("inverse", 1).dims(&[float(&[2, 51, 2])]), "2×100×1");
        assert_eq!(op("DFT").opset(17).int("axis", 1).dims(&[float(&[2, 8, 9, 1])]), "2×8×9×2");
        assert!(op("DFT").opset(17).int("axis", -1).dims(&[signal]).contains("parts of complex numbers"));
    }

    #[test]
    fn a_transform_costs_n_log_n() {
        assert_eq!(op("DFT").cost(&[float(&[3, 64, 1])]).flops.as_const(), Some(3 * 5 * 64 * 6));
        assert_eq!(log2_ceil(&Dim::constant(65)).as_const(), Some(7));
        assert_eq!(log2_ceil(&Dim::ONE).as_const(), Some(0));
        let symbolic = log2_ceil(&free("N"));
        assert_eq!(symbolic.eval(&|_| Some(65)), Some(7));
        assert_eq!(symbolic.eval(&|_| Some(64)), Some(6));
    }

    #[test]
    fn frames_fit_into_the_signal() {
        let run = |inputs: &[Option<Fact>]| {
            let (facts, _, _) = op("STFT").run_optional(inputs).unwrap();
            crate::ops::testing::dims(&facts[0])
        };
        assert_eq!(run(&[Some(float(&[1, 128, 1])), Some(int(8)), None, Some(int(16))]), "1×15×9×2");
        assert_eq!(run(&[Some(float(&[1, 128, 1])), Some(int(8)), Some(float(&[16]))]), "1×15×9×2");
        let short = [float(&[1, 8, 1]), int(8), float(&[16])];
        assert!(op("STFT").dims(&short).contains("a frame of 16 does not fit a signal of 8"));
    }

    #[test]
    fn windows_and_filters_have_the_sizes_of_their_inputs() {
        assert_eq!(op("HannWindow").run(&[int(10)]).unwrap(), [float(&[10])]);
        let facts = op("BlackmanWindow").int("output_datatype", 11).run(&[int(3)]).unwrap();
        assert_eq!(facts, [typed(ElementType::Double, &[3])]);
        let inputs = [int(8), int(16), int(8192), float(&[]), float(&[])];
        assert_eq!(op("MelWeightMatrix").dims(&inputs), "9×8");
        assert!(op("HannWindow").dims(&[int(-1)]).contains("a size of -1"));
    }

    #[test]
    fn determinants_of_square_matrices_only() {
        assert_eq!(op("Det").dims(&[float(&[5, 3, 3])]), "5");
        assert_eq!(op("Det").cost(&[float(&[5, 3, 3])]).flops.as_const(), Some(90));
        assert!(op("Det").dims(&[float(&[5, 3, 4])]).contains("3×4 are not square"));
        assert!(op("Det").dims(&[float(&[5])]).contains("rank 2 or more"));
    }

    #[test]
    fn the_size_of_a_compressed_image_is_unknown() {
        let facts = op("ImageDecoder").string("pixel_format", "Grayscale").run(&[ints(&[1])]).unwrap();
        assert_eq!(crate::ops::testing::dims(&facts[0]), "y0.0×y0.1×1");
        assert_eq!(facts[0].as_tensor().unwrap().element, Some(ElementType::Uint8));
    }
}
