//! Convolutions: plain and grouped, in float, integer and quantised form, fused with an activation, and deformable.
//! Transposed ones are in `conv_transpose`.

use super::operands::{agreed, common_element, count, expect_dim};
use super::table::Built;
use super::window::Window;
use super::work::{self, Convolution};
use super::{Cost, CostCx, Family, Fault, Function, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, product};

/// A convolution over any number of spatial axes.
#[derive(Clone, Debug)]
pub struct Conv {
    /// The window; its kernel is the weight's where the attribute is left out.
    pub window: Window,
    /// Number of groups that channels are split into.
    pub group: i64,
    /// Which operator it is, so which inputs it has.
    pub form: ConvForm,
    /// Whether an activation is applied to the output.
    pub activation: bool,
    /// Whether channels come last instead of second.
    pub channels_last: bool,
    /// Where the weight keeps its axes.
    pub weight: WeightLayout,
}

/// Where the weight of a convolution keeps its axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightLayout {
    /// Filters, channels of a group, kernel. Transposed: channels, filters of a group, kernel.
    #[default]
    KernelLast,
    /// Kernel, channels of a group, filters. Transposed: kernel, filters, channels.
    KernelFirst,
    /// Kernel, channels, filters of each channel, which is a group of its own.
    Depthwise,
}

/// The axes of a weight: filters, channels of a group, groups where the weight decides them, kernel.
pub(super) struct WeightAxes<T> {
    pub(super) filters: T,
    pub(super) each: T,
    pub(super) groups: Option<T>,
    pub(super) kernel: Vec<T>,
}

impl WeightLayout {
    /// Takes the dims of a weight apart.
    pub(super) fn axes<T: Clone>(self, dims: &[T], one: T, times: impl Fn(&T, &T) -> T) -> Option<WeightAxes<T>> {
        let (filters, each, groups, kernel) = match (self, dims) {
            (Self::KernelLast, [filters, each, kernel @ ..]) => (filters.clone(), each.clone(), None, kernel),
            (Self::KernelFirst, [kernel @ .., each, filters]) => (filters.clone(), each.clone(), None, kernel),
            (Self::Depthwise, [kernel @ .., channels, each]) => {
                (times(channels, each), one, Some(channels.clone()), kernel)
            }
            _ => return None,
        };
        Some(WeightAxes { filters, each, groups, kernel: kernel.to_vec() })
    }

    /// The same of a shape.
    pub(super) fn of(self, shape: Option<&Shape>) -> Option<WeightAxes<Dim>> {
        self.axes(shape?.dims(), Dim::ONE, |left, right| left * right)
    }

    /// The same of numbers.
    pub(super) fn of_numbers(self, dims: &[u64]) -> Option<WeightAxes<u64>> {
        self.axes(dims, 1, |left, right| left.saturating_mul(*right))
    }
}

/// The operators that compute a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvForm {
    /// `Conv`: x, w, bias.
    Float,
    /// `FusedConv`, `NhwcConv`, `NhwcFusedConv`: x, w, bias and a tensor that is added to the output.
    Fused,
    /// Convolution of `com.microsoft.nchwc`, whose channels may be padded to whole blocks: x, w, bias, addend.
    Blocked,
    /// `ConvInteger`: x, w, zero points; 32-bit output.
    Integer,
    /// `QLinearConv`: x, w and y with scale and zero point each, bias.
    Quantized,
    /// `DeformConv`: x, w, offsets, bias, mask.
    Deformable {
        /// Groups of channels that share their offsets.
        offset_group: i64,
    },
}

/// No input.
const NONE: usize = usize::MAX;

impl ConvForm {
    fn weight(self) -> usize {
        if self == Self::Quantized { 3 } else { 1 }
    }

    fn bias(self) -> usize {
        match self {
            Self::Float | Self::Fused | Self::Blocked => 2,
            Self::Integer => NONE,
            Self::Quantized => 8,
            Self::Deformable { .. } => 3,
        }
    }

    fn addend(self) -> usize {
        if matches!(self, Self::Fused | Self::Blocked) { 3 } else { NONE }
    }
}

fn build(node: &NodeView<'_>, form: ConvForm) -> Built {
    Ok(Box::new(Conv {
        window: Window::read(node)?,
        group: count("group", node.int_or("group", 1)?)?,
        form,
        activation: node.string("activation")?.is_some_and(|name| !name.is_empty()),
        channels_last: node.flag("channels_last", false)?,
        weight: WeightLayout::KernelLast,
    }))
}

/// `Conv`.
pub(super) fn conv(node: &NodeView<'_>) -> Built {
    build(node, ConvForm::Float)
}

/// `ConvInteger`.
pub(super) fn conv_integer(node: &NodeView<'_>) -> Built {
    build(node, ConvForm::Integer)
}

/// `QLinearConv`.
pub(super) fn qlinear_conv(node: &NodeView<'_>) -> Built {
    build(node, ConvForm::Quantized)
}

/// `FusedConv`.
pub(super) fn fused_conv(node: &NodeView<'_>) -> Built {
    build(node, ConvForm::Fused)
}

/// `NhwcConv`, `NhwcFusedConv`.
pub(super) fn channels_last_conv(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Conv {
        window: Window::read(node)?,
        group: count("group", node.int_or("group", 1)?)?,
        form: ConvForm::Fused,
        activation: node.string("activation")?.is_some_and(|name| !name.is_empty()),
        channels_last: true,
        weight: WeightLayout::KernelLast,
    }))
}

/// `Conv` of `com.microsoft.nchwc`.
pub(super) fn blocked_conv(node: &NodeView<'_>) -> Built {
    build(node, ConvForm::Blocked)
}

/// `DeformConv`.
pub(super) fn deform_conv(node: &NodeView<'_>) -> Built {
    let offset_group = count("offset_group", node.int_or("offset_group", 1)?)?;
    build(node, ConvForm::Deformable { offset_group })
}

impl Conv {
    fn element(&self, cx: &InferCx<'_>) -> Result<Option<ElementType>, Fault> {
        match self.form {
            ConvForm::Integer => Ok(Some(ElementType::Int32)),
            ConvForm::Quantized => Ok(cx.element(7).or_else(|| cx.element(0))),
            ConvForm::Deformable { .. } => common_element(cx, &[0, 1, 2, 3, 4]),
            ConvForm::Float | ConvForm::Fused | ConvForm::Blocked => common_element(cx, &[0, 1, 2]),
        }
    }

    /// Checks the input's channels against the weight's.
    fn check_channels(&self, input: &Shape, channels: usize, weight: &WeightAxes<Dim>) -> Result<(), Fault> {
        let Some(found) = input.dim(channels) else {
            return Ok(());
        };
        if self.form == ConvForm::Blocked {
            return Ok(());
        }
        let each = &weight.each;
        let wanted = match &weight.groups {
            Some(groups) => each * groups,
            None => each * i128::from(self.group),
        };
        if found.is_eq(&wanted) != Some(false) {
            return Ok(());
        }
        let grouped =
            if self.group > 1 { format!(" ({each} in each of {} groups)", self.group) } else { String::new() };
        let mut message = format!("input has {found} channels, weight wants {wanted}{grouped}");
        if channels == 1 && input.dims().last().is_some_and(|last| last.is_eq(&wanted) == Some(true)) {
            message += &format!("; the last dim is {wanted}: channels-last data?");
            return Err(Fault::shape(message).help("ONNX convolutions take channels second: transpose the input first"));
        }
        Err(Fault::shape(message))
    }

    /// Checks the offsets of a deformable convolution: one for each spatial axis, kernel element and offset group.
    fn check_offsets(&self, cx: &InferCx<'_>, channels: Option<&Dim>, kernel: Option<&[Dim]>) -> Result<(), Fault> {
        let ConvForm::Deformable { offset_group } = self.form else {
            return Ok(());
        };
        let groups = Dim::from(offset_group);
        if let Some(channels) = channels.filter(|dim| dim.modulo(&groups).is_eq(&Dim::ZERO) == Some(false)) {
            return Err(Fault::attribute(format!(
                "attribute offset_group is {groups}, which does not divide the {channels} input channels"
            )));
        }
        match kernel {
            Some(kernel) => expect_dim(cx, 2, 1, "offset", &(product(kernel) * groups * Dim::from(kernel.len()))),
            None => Ok(()),
        }
    }
}

/// Kernel extents: the weight's where it is known (checked against the attribute), else the attribute's.
pub(super) fn kernel_dims(window: &Window, weight: Option<&[Dim]>) -> Result<Option<Vec<Dim>>, Fault> {
    let stated = window.kernel.as_ref().map(|kernel| kernel.iter().copied().map(Dim::from).collect::<Vec<_>>());
    let Some(found) = weight else {
        return Ok(stated);
    };
    if found.iter().any(|extent| extent.as_const() == Some(0)) {
        let found: Shape = found.iter().cloned().collect();
        return Err(Fault::shape(format!("the weight's kernel is {found}, extents of at least 1 are allowed")));
    }
    let Some(stated) = stated else {
        return Ok(Some(found.to_vec()));
    };
    if stated.len() == found.len() && stated.iter().zip(found).any(|(stated, found)| stated.is_eq(found) == Some(false))
    {
        let kernel = window.kernel.as_deref().unwrap_or_default();
        let found: Shape = found.iter().cloned().collect();
        return Err(Fault::attribute(format!(
            "attribute kernel_shape {kernel:?} contradicts the weight, whose kernel is {found}"
        )));
    }
    Ok(Some(stated))
}

/// Checks that the groups divide a number of channels.
pub(super) fn check_group(group: i64, what: &str, channels: &Dim) -> Result<(), Fault> {
    if channels.modulo(&Dim::from(group)).is_eq(&Dim::ZERO) == Some(false) {
        return Err(Fault::attribute(format!(
            "attribute group is {group}, which does not divide the {channels} {what}"
        )));
    }
    Ok(())
}

/// The rank of input and output, checked against the attributes; `None` when nothing says it.
pub(super) fn rank_of(window: &Window, input: Option<&Shape>, weight: Option<&Shape>) -> Result<Option<usize>, Fault> {
    if let (Some(input), Some(weight)) = (input, weight)
        && input.rank() != weight.rank()
    {
        return Err(Fault::shape(format!(
            "input {input} has rank {}, weight {weight} has rank {}; they must be equal",
            input.rank(),
            weight.rank()
        )));
    }
    let known = input.or(weight);
    let Some(rank) = known.map(Shape::rank).or_else(|| Some(window.rank()?.saturating_add(2))) else {
        return Ok(None);
    };
    match rank.checked_sub(2) {
        Some(spatial) if spatial > 0 => window.expect_rank(spatial)?,
        _ => {
            let found = known.map_or_else(String::new, |shape| format!(", {shape} has rank {rank}"));
            return Err(Fault::shape(format!("batch, channels and at least one spatial axis are needed{found}")));
        }
    }
    Ok(Some(rank))
}

impl Conv {
    /// The sizes of the convolution, by its weight: blocks may have padded the channels of the input.
    fn sizes(&self, cx: &WorkCx<'_>) -> Option<Convolution> {
        let (input, weight, output) = (cx.input(0)?, cx.input(self.form.weight())?, cx.output(0)?);
        let weight = self.weight.of_numbers(weight.dims)?;
        let groups = weight.groups.map_or_else(|| u64::try_from(self.group).ok(), Some)?;
        let mut sizes = self.window.sizes(self.channels_last, input.dims, output.dims, &weight.kernel)?;
        sizes.in_channels = weight.each.saturating_mul(groups);
        (sizes.out_channels, sizes.groups) = (weight.filters, groups);
        Some(sizes)
    }
}

impl Operator for Conv {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = self.element(cx)?;
        let (input, weight) = (cx.shape(0), cx.shape(self.form.weight()));
        let Some(rank) = rank_of(&self.window, input, weight)? else {
            return Ok(vec![Fact::tensor(element, None)]);
        };
        let (channels, first_spatial) = if self.channels_last { (rank - 1, 1) } else { (1, 2) };
        let weight = self.weight.of(weight);
        if let (Some(input), Some(weight)) = (input, &weight) {
            self.check_channels(input, channels, weight)?;
        }
        let kernel = kernel_dims(&self.window, weight.as_ref().map(|weight| &*weight.kernel))?;
        self.check_offsets(cx, input.and_then(|input| input.dim(1)), kernel.as_deref())?;
        let bias = cx.shape(self.form.bias()).and_then(|bias| bias.dim(0));
        let filters = match (weight.as_ref().map(|weight| &weight.filters), bias) {
            (Some(filters), Some(bias)) => Some(agreed("output channels of weight and bias", filters, bias)?),
            (filters, bias) => filters.or(bias).cloned(),
        };
        if let Some(filters) = &filters {
            check_group(self.group, "output channels", filters)?;
        }
        let mut dims = Vec::with_capacity(rank);
        for axis in 0..rank {
            let found = input.and_then(|input| input.dim(axis));
            let known = if axis == 0 {
                found.cloned()
            } else if axis == channels {
                filters.clone()
            } else {
                let spatial = axis - first_spatial;
                match (found, kernel.as_ref().and_then(|kernel| kernel.get(spatial))) {
                    (Some(input), Some(kernel)) => Some(self.window.extent(spatial, input, kernel)?),
                    _ => None,
                }
            };
            dims.push(known.unwrap_or_else(|| cx.fresh_dim(0, axis, 0, None)));
        }
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let weight = self.weight.of(cx.shape_in(self.form.weight()))?;
        let outputs = cx.elements_out(0)?;
        let taps = &weight.each * &product(&weight.kernel);
        let macs = &outputs * &taps;
        let bias = self.form.bias();
        let mut per_output =
            i128::from(cx.has(bias)) + i128::from(cx.has(self.form.addend())) + i128::from(self.activation);
        if self.form == ConvForm::Quantized {
            per_output += 2;
        }
        let mut other = &outputs * per_output;
        if let ConvForm::Deformable { .. } = self.form {
            // Every group of filters reads the same samples: channels x kernel for each output position, by
            // four corners of which three are interpolated (7 operations), and one for the mask.
            let filters = &weight.filters;
            let per_sample = if cx.has(4) { 8 } else { 7 };
            let samples = outputs.exact_div(filters)? * taps * i128::from(self.group);
            other += samples * per_sample;
        }
        Cost::product(cx, macs, &other, [0, self.form.weight(), bias])
    }

    fn role(&self, input: usize) -> Role {
        match (self.form, input) {
            (ConvForm::Integer, 2 | 3) | (ConvForm::Quantized, 1 | 2 | 4..=7) => Role::Setting,
            _ if input == self.form.weight() || input == self.form.bias() => Role::Weight,
            _ => Role::Data,
        }
    }

    /// A deformable convolution samples its input before it multiplies.
    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let Some(sizes) = self.sizes(cx) else { return vec![cx.elementwise()] };
        let family = Family::Convolution(sizes);
        let ConvForm::Deformable { .. } = self.form else {
            return vec![cx.all(family).of_operands(0, self.form.weight())];
        };
        let positions = work::product(&[sizes.batch, sizes.in_channels]).saturating_mul(work::product(&sizes.output));
        let elements = positions.saturating_mul(work::product(&sizes.kernel));
        let bias = if cx.input(3).is_some() { work::product(&[sizes.batch, sizes.out_channels]) } else { 0 };
        let bias = bias.saturating_mul(work::product(&sizes.output));
        let places: f64 =
            [0, 2, 4].into_iter().filter_map(|input| cx.input(input)).map(|input| input.bytes() as f64).sum();
        let flops = cx.flops - 2.0 * sizes.macs() - bias as f64;
        let sampled =
            cx.part(Family::Elementwise { elements, function: Function::Arithmetic }, flops, places).of_operands(2, 4);
        vec![sampled, cx.rest(&[sampled], family).of_operands(0, 1)]
    }

    /// Input and weight are kept together, also where only one of them needs a gradient.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let given = match self.form {
            ConvForm::Deformable { .. } => Saved::inputs(0..cx.inputs.len()),
            _ => Saved::input(0).and(Saved::input(self.form.weight())),
        };
        given.when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ir::shape::Shape;
    use crate::ops::testing::{dims, float, free, op, typed};

    fn image(batch: Dim, height: Dim) -> Fact {
        Fact::tensor(ElementType::Float, Shape::new(vec![batch, Dim::constant(3), height, Dim::constant(224)]))
    }

    #[test]
    fn stem_of_resnet_has_its_shape_and_cost() {
        let node = || op("Conv").ints("strides", &[2, 2]).ints("pads", &[3, 3, 3, 3]).ints("kernel_shape", &[7, 7]);
        let inputs = [float(&[1, 3, 224, 224]), float(&[64, 3, 7, 7]), float(&[64])];
        assert_eq!(node().dims(&inputs), "1×64×112×112");
        let cost = node().cost(&inputs);
        assert_eq!(cost.macs, Dim::constant(118_013_952));
        assert_eq!(cost.flops, Dim::constant(236_027_904 + 802_816));
        assert_eq!(cost.backward_flops, Dim::constant(2 * 236_027_904 + 802_816));
        assert_eq!(cost.bytes_written, Dim::constant(4 * 802_816));
    }

    #[test]
    fn symbolic_extents_become_formulas() {
        let node = op("Conv").ints("strides", &[2, 2]).ints("pads", &[3, 3, 3, 3]);
        let shape = node.dims(&[image(free("N"), free("H")), float(&[64, 3, 7, 7])]);
        assert!(shape.starts_with("N×64×") && shape.ends_with("×112") && shape.contains('H'), "{shape}");
    }

    #[test]
    fn depthwise_conv_counts_one_input_channel_per_filter() {
        let inputs = [float(&[1, 32, 112, 112]), float(&[32, 1, 3, 3])];
        let cost = op("Conv").int("group", 32).ints("pads", &[1, 1, 1, 1]).cost(&inputs);
        assert_eq!(cost.macs, Dim::constant(3_612_672));
    }

    #[test]
    fn same_padding_counts_the_dilated_kernel() {
        let node = op("Conv").ints("strides", &[3, 3]).ints("dilations", &[2, 2]).string("auto_pad", "SAME_UPPER");
        assert_eq!(node.dims(&[float(&[1, 1, 10, 10]), float(&[2, 1, 3, 3])]), "1×2×4×4");
    }

    #[test]
    fn channels_last_data_is_named() {
        let fault = op("Conv").run(&[float(&[1, 32, 32, 3]), float(&[8, 3, 3, 3])]).unwrap_err();
        assert_eq!(fault.message, "input has 32 channels, weight wants 3; the last dim is 3: channels-last data?");
    }

    #[test]
    fn a_kernel_without_elements_is_refused() {
        let fault = op("Conv").run(&[float(&[1, 1, 4]), float(&[1, 1, 0])]).unwrap_err();
        assert_eq!(fault.message, "the weight's kernel is 0, extents of at least 1 are allowed");
        let fault = op("ConvTranspose").run(&[float(&[1, 1, 4, 4]), float(&[1, 1, 2, 0])]).unwrap_err();
        assert_eq!(fault.message, "the weight's kernel is 2×0, extents of at least 1 are allowed");
    }

    #[test]
    fn kernel_must_fit_the_padded_input() {
        let fault = op("Conv").run(&[float(&[1, 1, 2, 9]), float(&[1, 1, 3, 3])]).unwrap_err();
        assert_eq!(fault.message, "kernel 3 does not fit padded input 2 (axis 2)");
    }

    #[test]
    fn absurd_attributes_are_named_with_what_is_allowed() {
        let inputs = [float(&[1, 4, 8, 8]), float(&[6, 4, 3, 3])];
        let message = |node: crate::ops::testing::TestNode| node.run(&inputs).unwrap_err().message;
        assert_eq!(message(op("Conv").ints("strides", &[0, 1])), "attribute strides holds 0; at least 1 is allowed");
        assert_eq!(
            message(op("Conv").ints("dilations", &[1, 0])),
            "attribute dilations holds 0; at least 1 is allowed"
        );
        assert_eq!(
            message(op("Conv").ints("kernel_shape", &[-3, 3])),
            "attribute kernel_shape holds -3; at least 1 is allowed"
        );
        assert_eq!(message(op("Conv").int("group", 0)), "attribute group is 0; at least 1 is allowed");
        assert_eq!(
            message(op("Conv").ints("pads", &[1, 1, 1])),
            "attribute pads [1, 1, 1] holds 3 numbers; for 2 spatial axes 4 are allowed"
        );
        assert_eq!(
            message(op("Conv").ints("kernel_shape", &[5, 5])),
            "attribute kernel_shape [5, 5] contradicts the weight, whose kernel is 3×3"
        );
        assert!(message(op("Conv").string("auto_pad", "FULL")).contains("SAME_UPPER"));
        assert!(op("Conv").int("group", i64::MAX).run(&inputs).is_err());
        assert!(op("Conv").ints("pads", &[i64::MAX; 4]).run(&inputs).is_ok());
    }

    #[test]
    fn groups_divide_the_filters() {
        let fault = op("Conv").int("group", 4).run(&[float(&[1, 4, 8, 8]), float(&[6, 1, 3, 3])]).unwrap_err();
        assert_eq!(fault.message, "attribute group is 4, which does not divide the 6 output channels");
    }

    #[test]
    fn unknown_input_leaves_what_the_weight_says() {
        let facts = op("Conv").run(&[Fact::Unknown, float(&[8, 3, 3, 3])]).unwrap();
        assert_eq!(dims(&facts[0]), "y0.0×8×y0.2×y0.3");
        assert_eq!(op("Conv").dims(&[Fact::Unknown, Fact::Unknown]), "?");
    }

    #[test]
    fn quantised_conv_takes_its_type_from_the_output_zero_point() {
        let scale = || float(&[]);
        let u8s = |dims: &[i128]| typed(ElementType::Uint8, dims);
        let inputs = [
            u8s(&[1, 3, 8, 8]),
            scale(),
            u8s(&[]),
            typed(ElementType::Int8, &[4, 3, 3, 3]),
            scale(),
            typed(ElementType::Int8, &[]),
            scale(),
            u8s(&[]),
        ];
        let facts = op("QLinearConv").run(&inputs).unwrap();
        assert_eq!(facts, [u8s(&[1, 4, 6, 6])]);
        assert_eq!(op("QLinearConv").cost(&inputs).macs, Dim::constant(3_888));
        let integer = op("ConvInteger").run(&[u8s(&[1, 3, 8, 8]), u8s(&[4, 3, 3, 3])]).unwrap();
        assert_eq!(integer, [typed(ElementType::Int32, &[1, 4, 6, 6])]);
    }

    #[test]
    fn deformable_conv_adds_interpolation_to_the_products() {
        let inputs = [float(&[1, 2, 5, 5]), float(&[3, 2, 3, 3]), float(&[1, 18, 3, 3])];
        assert_eq!(op("DeformConv").dims(&inputs), "1×3×3×3");
        let cost = op("DeformConv").cost(&inputs);
        assert_eq!(cost.macs, Dim::constant(27 * 18));
        assert_eq!(cost.flops, Dim::constant(2 * 27 * 18 + 7 * 9 * 18));
        let fault = op("DeformConv").int("offset_group", 2).run(&inputs).unwrap_err();
        assert_eq!(fault.message, "offset has 18 in dim 1, 36 is needed");
    }

    #[test]
    fn element_types_of_input_and_weight_must_be_equal() {
        let weight = typed(ElementType::Float16, &[4, 3, 3, 3]);
        let fault = op("Conv").run(&[float(&[1, 3, 8, 8]), weight]).unwrap_err();
        assert_eq!(fault.code.name(), "type-mismatch");
    }
}
