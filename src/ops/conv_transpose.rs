//! Transposed convolutions: every input element is multiplied with the whole kernel. Counted by their input.

use super::conv::{WeightLayout, check_group, kernel_dims, rank_of};
use super::operands::{agreed, at_least, common_element, count};
use super::table::Built;
use super::window::{Padding, Window};
use super::work::Convolution;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::diagnostics::Code;
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, product};

/// `ConvTranspose`.
#[derive(Clone, Debug)]
pub struct ConvTranspose {
    /// The window; its kernel is the weight's where the attribute is left out.
    pub window: Window,
    /// Number of groups that channels are split into.
    pub group: i64,
    /// Further elements behind each spatial axis; empty for none.
    pub output_padding: Vec<i64>,
    /// Extents of the output that decide the padding; all axes or the spatial ones.
    pub output_shape: Vec<i64>,
    /// Whether the padding is an input, before the bias.
    pub padded_by_input: bool,
    /// Whether channels come last instead of second.
    pub channels_last: bool,
    /// Where the weight keeps its axes: filters are its channels and the other way round.
    pub weight: WeightLayout,
    /// How the extents of the output follow from those of the input.
    pub extents: Extents,
}

/// How a transposed convolution sizes its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extents {
    /// By the inverse of the window of a convolution.
    Inverse,
    /// As Keras does: without padding and output padding, a kernel smaller than the stride leaves gaps behind.
    Keras,
}

/// `ConvTranspose`.
pub(super) fn conv_transpose(node: &NodeView<'_>) -> Built {
    let list = |name: &str, least: i64| -> Result<Vec<i64>, Fault> {
        let values = node.ints(name)?.unwrap_or_default();
        at_least(name, &values, least)?;
        Ok(values)
    };
    Ok(Box::new(ConvTranspose {
        window: Window::read(node)?,
        group: count("group", node.int_or("group", 1)?)?,
        output_padding: list("output_padding", 0)?,
        output_shape: list("output_shape", 1)?,
        padded_by_input: node.op_type() == "ConvTransposeWithDynamicPads",
        channels_last: false,
        weight: WeightLayout::KernelLast,
        extents: Extents::Inverse,
    }))
}

impl ConvTranspose {
    /// Where the bias stands.
    fn bias(&self) -> usize {
        if self.padded_by_input { 3 } else { 2 }
    }

    /// The window with its padding; `None` where only a run says that.
    fn padded(&self, cx: &InferCx<'_>, spatial: usize) -> Result<Option<Window>, Fault> {
        let mut window = self.window.clone();
        if self.padded_by_input && cx.has(2) {
            let Some(pads) = cx.const_integers(2) else { return Ok(None) };
            at_least("Pads", &pads, 0)?;
            window.padding = Padding::Explicit(pads);
            window.expect_rank(spatial)?;
        }
        Ok(Some(window))
    }

    /// The last `spatial` numbers of `output_shape`, where it is given.
    fn stated_extents(&self, spatial: usize, cx: &mut InferCx<'_>) -> Result<Option<&[i64]>, Fault> {
        let stated = self.output_shape.as_slice();
        if stated.is_empty() {
            return Ok(None);
        }
        let surplus = stated.len().checked_sub(spatial);
        if surplus == Some(2) {
            cx.remark(
                Fault::new(
                    Code::NonstandardAttribute,
                    format!(
                        "attribute output_shape {stated:?} gives batch and channels too; only its last {spatial} \
                         numbers are used"
                    ),
                )
                .help("give the spatial extents alone: runtimes refuse this form"),
            );
        } else if surplus != Some(0) {
            return Err(Fault::attribute(format!(
                "attribute output_shape {stated:?} holds {} numbers; for {spatial} spatial axes {spatial} are allowed",
                stated.len()
            )));
        }
        Ok(surplus.and_then(|surplus| stated.get(surplus..)))
    }

    fn extent(&self, window: &Window, axis: usize, input: &Dim, kernel: &Dim, further: i64) -> Result<Dim, Fault> {
        match self.extents {
            Extents::Inverse => window.transposed_extent(axis, input, kernel, further),
            Extents::Keras => window.keras_transposed_extent(axis, input, kernel, self.output_padding.get(axis)),
        }
    }

    fn output_padding(&self, spatial: usize) -> Result<Vec<i64>, Fault> {
        for (axis, &padding) in self.output_padding.iter().enumerate() {
            let step = |steps: &[i64]| steps.get(axis).copied().unwrap_or(1);
            let most = step(&self.window.strides).max(step(&self.window.dilations));
            if padding >= most {
                return Err(Fault::attribute(format!(
                    "attribute output_padding {:?} holds {padding} for axis {axis}; it must be less than stride or \
                     dilation, {most} there",
                    self.output_padding
                )));
            }
        }
        match self.output_padding.len() {
            0 => Ok(vec![0; spatial]),
            length if length == spatial => Ok(self.output_padding.clone()),
            length => Err(Fault::attribute(format!(
                "attribute output_padding {:?} holds {length} numbers; for {spatial} spatial axes {spatial} are allowed",
                self.output_padding
            ))),
        }
    }
}

impl Operator for ConvTranspose {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = common_element(cx, &[0, 1, self.bias()])?;
        let (input, weight) = (cx.shape(0), cx.shape(1));
        let Some(rank) = rank_of(&self.window, input, weight)? else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let spatial = rank.saturating_sub(2);
        let (channels, first_spatial) = if self.channels_last { (rank.saturating_sub(1), 1) } else { (1, 2) };
        let weight = self.weight.of(weight);
        if let (Some(found), Some(wanted)) =
            (input.and_then(|input| input.dim(channels)), weight.as_ref().map(|weight| &weight.filters))
        {
            if found.is_eq(wanted) == Some(false) {
                return Err(Fault::shape(format!("input has {found} channels, weight wants {wanted}")));
            }
            check_group(self.group, "input channels", wanted)?;
        }
        let kernel = kernel_dims(&self.window, weight.as_ref().map(|weight| &*weight.kernel))?;
        let window = self.padded(cx, spatial)?;
        let bias = cx.shape(self.bias()).and_then(|bias| bias.dim(0));
        let filters = match (weight.as_ref().map(|weight| &weight.each), bias) {
            (Some(each), Some(bias)) => {
                Some(agreed("output channels of weight and bias", &(each * i128::from(self.group)), bias)?)
            }
            (Some(each), None) => Some(each * i128::from(self.group)),
            (None, bias) => bias.cloned(),
        };
        let stated = self.stated_extents(spatial, cx)?;
        let output_padding = self.output_padding(spatial)?;
        let filters = filters.unwrap_or_else(|| cx.fresh_dim(0, channels, 0, None));
        let batch = input.and_then(|input| input.dim(0)).cloned();
        let mut dims = vec![batch.unwrap_or_else(|| cx.fresh_dim(0, 0, 0, None))];
        if !self.channels_last {
            dims.push(filters.clone());
        }
        for (axis, &further) in output_padding.iter().enumerate() {
            let at = axis.saturating_add(first_spatial);
            let found = input.and_then(|input| input.dim(at));
            let extent = match (stated.and_then(|stated| stated.get(axis)), found) {
                (Some(&stated), _) => Dim::from(stated),
                (None, Some(found)) => match (kernel.as_ref().and_then(|kernel| kernel.get(axis)), &window) {
                    (Some(kernel), Some(window)) => self.extent(window, axis, found, kernel, further)?,
                    _ => cx.fresh_dim(0, at, 0, None),
                },
                (None, None) => cx.fresh_dim(0, at, 0, None),
            };
            dims.push(extent);
        }
        if self.channels_last {
            dims.push(filters);
        }
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let weight = self.weight.of(cx.shape_in(1))?;
        let macs = cx.elements_in(0)? * (weight.each * product(&weight.kernel));
        let other = if cx.has(self.bias()) { cx.elements_out(0)? } else { Dim::ZERO };
        Cost::product(cx, macs, &other, [0, 1, self.bias()])
    }

    fn role(&self, input: usize) -> Role {
        match input {
            0 => Role::Data,
            2 if self.padded_by_input => Role::Setting,
            _ => Role::Weight,
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let sizes = || {
            let (input, weight, output) = (cx.input(0)?, cx.input(1)?, cx.output(0)?);
            let weight = self.weight.of_numbers(weight.dims)?;
            let groups = u64::try_from(self.group).ok()?;
            let sizes = self.window.sizes(self.channels_last, input.dims, output.dims, &weight.kernel)?;
            let out_channels = weight.each.saturating_mul(groups);
            Some(Convolution { in_channels: weight.filters, out_channels, groups, transposed: true, ..sizes })
        };
        match sizes() {
            Some(sizes) => vec![cx.all(Family::Convolution(sizes)).of_operands(0, 1)],
            None => vec![cx.elementwise()],
        }
    }

    /// Input and weight are kept together, as for every convolution.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        Saved::inputs(0..2).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ops::testing::{dims, float, ints, microsoft, op, typed};

    #[test]
    fn output_padding_widens_the_output() {
        let node = op("ConvTranspose").ints("strides", &[2, 2]).ints("pads", &[1; 4]).ints("output_padding", &[1, 1]);
        assert_eq!(node.dims(&[float(&[1, 1, 3, 3]), float(&[1, 1, 3, 3])]), "1×1×6×6");
    }

    #[test]
    fn padding_may_be_an_input() {
        let node = || microsoft("ConvTransposeWithDynamicPads").ints("strides", &[2, 2]);
        let given = |pads| [float(&[1, 3, 3, 3]), float(&[3, 2, 3, 3]), pads, float(&[2])];
        assert_eq!(node().dims(&given(ints(&[1, 1, 1, 1]))), "1×2×5×5");
        assert_eq!(node().dims(&given(typed(ElementType::Int64, &[4]))), "1×2×y0.2×y0.3");
        assert!(node().run(&given(ints(&[1, 1]))).is_err());
        assert_eq!(node().cost(&given(ints(&[1; 4]))).macs, Dim::constant(27 * 2 * 9));
    }

    #[test]
    fn output_padding_is_less_than_stride_or_dilation() {
        let node = |name: &'static str| op("ConvTranspose").ints(name, &[2, 2]).ints("output_padding", &[1, 1]);
        let inputs = [float(&[1, 1, 3, 3]), float(&[1, 1, 3, 3])];
        assert_eq!(node("dilations").dims(&inputs), "1×1×8×8");
        let fault = node("pads_of_nothing").run(&inputs).unwrap_err();
        assert!(fault.message.ends_with("it must be less than stride or dilation, 1 there"), "{}", fault.message);
    }

    #[test]
    fn same_padding_multiplies_by_the_stride() {
        let node = op("ConvTranspose").ints("strides", &[2, 2]).string("auto_pad", "SAME_UPPER");
        assert_eq!(node.dims(&[float(&[1, 1, 5, 5]), float(&[1, 1, 3, 3])]), "1×1×10×10");
    }

    #[test]
    fn output_shape_decides_the_extents_and_not_the_macs() {
        let node = || op("ConvTranspose").ints("strides", &[2, 2]).ints("output_shape", &[32, 32]);
        let inputs = [float(&[1, 1, 16, 16]), float(&[1, 1, 3, 3])];
        assert_eq!(node().dims(&inputs), "1×1×32×32");
        assert_eq!(node().cost(&inputs).macs, Dim::constant(2_304));
    }

    #[test]
    fn output_shape_with_all_dims_is_remarked() {
        let inputs = [Some(float(&[1, 1, 16, 16])), Some(float(&[1, 1, 3, 3]))];
        let four = op("ConvTranspose").ints("strides", &[2, 2]).ints("output_shape", &[1, 1, 32, 32]);
        let (facts, remarks, _) = four.run_optional(&inputs).unwrap();
        assert_eq!(dims(&facts[0]), "1×1×32×32");
        assert_eq!(remarks[0].code.name(), "nonstandard-attribute");
        let two = op("ConvTranspose").ints("strides", &[2, 2]).ints("output_shape", &[32, 32]);
        assert!(two.run_optional(&inputs).unwrap().1.is_empty());
        let three = op("ConvTranspose").ints("strides", &[2, 2]).ints("output_shape", &[1, 32, 32]);
        assert!(three.run_optional(&inputs).is_err());
    }

    #[test]
    fn macs_are_counted_by_input_positions() {
        let node = || op("ConvTranspose").ints("strides", &[2, 2]);
        let inputs = [float(&[1, 3, 2, 2]), float(&[3, 1, 2, 2]), float(&[1])];
        assert_eq!(node().dims(&inputs), "1×1×4×4");
        let cost = node().cost(&inputs);
        assert_eq!((cost.macs, cost.flops), (Dim::constant(48), Dim::constant(2 * 48 + 16)));
        let cost = op("ConvTranspose").cost(&[float(&[1, 32, 1, 1]), float(&[32, 1, 3, 3])]);
        assert_eq!(cost.macs, Dim::constant(288));
    }

    #[test]
    fn depthwise_transposed_conv_divides_by_the_groups_once() {
        let node = op("ConvTranspose")
            .int("group", 4)
            .ints("strides", &[2, 2])
            .ints("pads", &[1; 4])
            .ints("output_padding", &[1, 1]);
        let cost = node.cost(&[float(&[2, 4, 8, 8]), float(&[4, 1, 3, 3]), float(&[4])]);
        assert_eq!((cost.macs, cost.flops), (Dim::constant(4_608), Dim::constant(11_264)));
    }
}
