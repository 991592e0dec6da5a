//! Sliding windows: kernel, strides, dilations and padding of convolutions and pools, and the extents that follow.
//! It knows nothing of channels, element types or costs.

use super::operands::at_least;
use super::work::{Convolution, three};
use super::{Fault, NodeView};
use crate::ir::dim::Dim;

/// A window that slides over the spatial axes of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Extent of the window along each spatial axis; `None` where a weight says it.
    pub kernel: Option<Vec<i64>>,
    /// Steps along each spatial axis; empty for 1 everywhere.
    pub strides: Vec<i64>,
    /// Distance of neighbouring window elements; empty for 1 everywhere.
    pub dilations: Vec<i64>,
    /// Padding.
    pub padding: Padding,
    /// Whether a last window may reach beyond the padded input.
    pub ceil: bool,
}

/// How the input is padded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Elements before each spatial axis, then elements behind each; empty for none.
    Explicit(Vec<i64>),
    /// None at all (`VALID`).
    Valid,
    /// As much as gives `ceil(input / stride)` windows; an odd one goes behind.
    SameUpper,
    /// The same with the odd one before.
    SameLower,
}

impl Window {
    /// Reads `kernel_shape`, `strides`, `dilations`, `pads`, `auto_pad` and `ceil_mode`. An empty list counts as not
    /// given, as runtimes have it.
    pub(super) fn read(node: &NodeView<'_>) -> Result<Self, Fault> {
        let list = |name: &str, least: i64| -> Result<Vec<i64>, Fault> {
            let values = node.ints(name)?.unwrap_or_default();
            at_least(name, &values, least)?;
            Ok(values)
        };
        let kernel = Some(list("kernel_shape", 1)?).filter(|kernel| !kernel.is_empty());
        let padding = match node.string("auto_pad")?.unwrap_or("NOTSET") {
            "NOTSET" | "" => Padding::Explicit(list("pads", 0)?),
            "VALID" => Padding::Valid,
            "SAME_UPPER" => Padding::SameUpper,
            "SAME_LOWER" => Padding::SameLower,
            other => {
                return Err(Fault::attribute(format!(
                    "attribute auto_pad is {other:?}; NOTSET, VALID, SAME_UPPER and SAME_LOWER are allowed"
                )));
            }
        };
        let ceil = node.flag("ceil_mode", false)?;
        let window = Self { kernel, strides: list("strides", 1)?, dilations: list("dilations", 1)?, padding, ceil };
        if let Some(rank) = window.rank() {
            window.expect_rank(rank)?;
        }
        Ok(window)
    }

    /// The number of spatial axes, where an attribute says it.
    pub(super) fn rank(&self) -> Option<usize> {
        let pads = match &self.padding {
            Padding::Explicit(pads) if pads.len() % 2 == 0 => pads.len() / 2,
            _ => 0,
        };
        let lengths = [self.kernel.as_ref().map_or(0, Vec::len), self.strides.len(), self.dilations.len(), pads];
        lengths.into_iter().find(|&length| length > 0)
    }

    /// Checks that every list has the length that so many spatial axes want.
    pub(super) fn expect_rank(&self, rank: usize) -> Result<(), Fault> {
        let check = |name: &str, values: &[i64], wanted: usize| {
            if values.is_empty() || values.len() == wanted {
                return Ok(());
            }
            let found = values.len();
            Err(Fault::attribute(format!(
                "attribute {name} {values:?} holds {found} numbers; for {rank} spatial axes {wanted} are allowed"
            )))
        };
        check("kernel_shape", self.kernel.as_deref().unwrap_or_default(), rank)?;
        check("strides", &self.strides, rank)?;
        check("dilations", &self.dilations, rank)?;
        match &self.padding {
            Padding::Explicit(pads) => check("pads", pads, rank.saturating_mul(2)),
            _ => Ok(()),
        }
    }

    /// Number of elements of the window, where the attributes say it.
    pub(super) fn size(&self) -> Option<Dim> {
        Some(self.kernel.as_ref()?.iter().fold(Dim::ONE, |size, &extent| size * i128::from(extent)))
    }

    /// The step along a spatial axis.
    pub(super) fn stride(&self, axis: usize) -> i128 {
        self.strides.get(axis).map_or(1, |&stride| i128::from(stride))
    }

    /// The distance between the first and the last element of the window, plus one.
    fn reach(&self, axis: usize, kernel: &Dim) -> Dim {
        let dilation = self.dilations.get(axis).map_or(1, |&dilation| i128::from(dilation));
        (kernel.clone() - 1) * dilation + 1
    }

    /// Explicit padding before and behind a spatial axis.
    fn pads(&self, axis: usize) -> (i128, i128) {
        let Padding::Explicit(pads) = &self.padding else {
            return (0, 0);
        };
        let at = |index: usize| pads.get(index).map_or(0, |&pad| i128::from(pad));
        (at(axis), at(axis.saturating_add(pads.len() / 2)))
    }

    fn is_same(&self) -> bool {
        matches!(self.padding, Padding::SameUpper | Padding::SameLower)
    }

    /// The sizes of a convolution with this window, but for channels and groups: for dims of input and output, and the
    /// extents of the kernel.
    pub(super) fn sizes(
        &self,
        channels_last: bool,
        input: &[u64],
        output: &[u64],
        kernel: &[u64],
    ) -> Option<Convolution> {
        let steps = |steps: &[i64]| -> Vec<u64> {
            (0..kernel.len()).map(|axis| steps.get(axis).map_or(1, |&step| step.unsigned_abs())).collect()
        };
        let spatial = |dims: &[u64]| {
            let dims = if channels_last { dims.get(1..dims.len().checked_sub(1)?) } else { dims.get(2..) };
            dims.map(three)
        };
        Some(Convolution {
            batch: *input.first()?,
            in_channels: 1,
            out_channels: 1,
            input: spatial(input)?,
            output: spatial(output)?,
            kernel: three(kernel),
            stride: three(&steps(&self.strides)),
            dilation: three(&steps(&self.dilations)),
            groups: 1,
            transposed: false,
            axes: u8::try_from(kernel.len()).unwrap_or(u8::MAX),
        })
    }

    /// How many windows fit along a spatial axis of this extent.
    ///
    /// In ceil mode a window counts when it starts inside the input or in the padding before it, however far it
    /// reaches: with `x = behind - reach + stride`, both bounds together are `ceil((input + before + min(x, 0)) /
    /// stride)`.
    pub(super) fn extent(&self, axis: usize, input: &Dim, kernel: &Dim) -> Result<Dim, Fault> {
        let stride = self.stride(axis);
        let step = Dim::constant(stride);
        if self.is_same() {
            return Ok(input.ceil_div(&step));
        }
        let (before, behind) = self.pads(axis);
        let reach = self.reach(axis, kernel);
        let extent = if self.ceil {
            let beyond = (Dim::constant(behind) - &reach + stride).min(&Dim::ZERO);
            (input.clone() + before + beyond).ceil_div(&step)
        } else {
            (input.clone() + before + behind - &reach).floor_div(&step) + 1
        };
        if extent.is_ge(&Dim::ONE) == Some(false) {
            let padded = input.clone() + before + behind;
            let dilated = if reach == *kernel { String::new() } else { format!(" (dilated to {reach})") };
            let at = axis.saturating_add(2);
            return Err(Fault::shape(format!(
                "kernel {kernel}{dilated} does not fit padded input {padded} (axis {at})"
            )));
        }
        Ok(extent)
    }

    /// The extent that a transposed window of Keras makes of this extent. Without output padding, `SAME` is `input *
    /// stride` and `VALID` adds what the kernel reaches beyond the stride; with it, `SAME` pads half the kernel on both
    /// sides first.
    pub(super) fn keras_transposed_extent(
        &self,
        axis: usize,
        input: &Dim,
        kernel: &Dim,
        output_padding: Option<&i64>,
    ) -> Result<Dim, Fault> {
        let stride = self.stride(axis);
        let reach = self.reach(axis, kernel);
        let extent = match (output_padding, self.is_same()) {
            (None, true) => input.clone() * stride,
            (None, false) => input.clone() * stride + (reach - stride).max(&Dim::ZERO),
            (Some(&further), same) => {
                let pads = if same { reach.floor_div(&Dim::constant(2)) * 2 } else { Dim::ZERO };
                (input.clone() - 1) * stride + reach - pads + i128::from(further)
            }
        };
        if extent.is_ge(&Dim::ONE) == Some(false) {
            return Err(Fault::shape(format!("the kernel {kernel} leaves nothing of an input of {input}")));
        }
        Ok(extent)
    }

    /// The extent that a transposed window makes of this extent: the inverse of [`Window::extent`], with
    /// `output_padding` further elements. For `SAME` it is `input * stride`.
    pub(super) fn transposed_extent(
        &self,
        axis: usize,
        input: &Dim,
        kernel: &Dim,
        output_padding: i64,
    ) -> Result<Dim, Fault> {
        let stride = self.stride(axis);
        if self.is_same() {
            return Ok(input.clone() * stride);
        }
        let (before, behind) = self.pads(axis);
        let full = (input.clone() - 1) * stride + self.reach(axis, kernel) + i128::from(output_padding);
        let extent = full.clone() - before - behind;
        if extent.is_ge(&Dim::ONE) == Some(false) {
            let (pads, at) = (before + behind, axis.saturating_add(2));
            return Err(Fault::shape(format!("padding {pads} leaves nothing of the output {full} (axis {at})")));
        }
        Ok(extent)
    }
}
