//! Convolutions with the weights of Keras: plain, depthwise, transposed, and locally connected.

use super::{Layer, Stores, list, positive, wanted};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, product};
use crate::ops::conv::{Conv, ConvForm, WeightLayout};
use crate::ops::conv_transpose::{ConvTranspose, Extents};
use crate::ops::table::Built;
use crate::ops::window::{Padding, Window};
use crate::ops::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};

/// What all convolutions say. Inputs: x, kernel, bias.
#[derive(Clone, Debug)]
struct Kernel {
    class: String,
    window: Window,
    /// Filters; of each channel where it is depthwise.
    filters: i64,
    group: i64,
    channels_last: bool,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Depthwise,
    Transposed,
}

fn read(node: &NodeView<'_>, kind: Kind) -> Result<Kernel, Fault> {
    let window = Window::read(node)?;
    if window.kernel.is_none() {
        return Err(node.missing("kernel_shape"));
    }
    Ok(Kernel {
        class: node.string("class")?.unwrap_or("Conv").to_owned(),
        window,
        filters: positive(node, "filters")?,
        group: node.int_or("group", 1)?.max(1),
        channels_last: node.flag("channels_last", true)?,
        kind,
    })
}

/// `Conv1D`, `Conv2D`, `Conv3D`, `DepthwiseConv1D`, `DepthwiseConv2D`.
pub(super) fn conv(node: &NodeView<'_>) -> Built {
    let depthwise = node.flag("depthwise", false)?;
    let kernel = read(node, if depthwise { Kind::Depthwise } else { Kind::Plain })?;
    let inner = Conv {
        window: kernel.window.clone(),
        group: kernel.group,
        form: ConvForm::Float,
        activation: false,
        channels_last: kernel.channels_last,
        weight: if depthwise { WeightLayout::Depthwise } else { WeightLayout::KernelFirst },
    };
    let spatial = kernel.spatial();
    Layer::of(node, kernel, Folded { spatial, inner: Box::new(inner) })
}

/// `Conv1DTranspose`, `Conv2DTranspose`, `Conv3DTranspose`.
pub(super) fn conv_transpose(node: &NodeView<'_>) -> Built {
    let kernel = read(node, Kind::Transposed)?;
    let inner = ConvTranspose {
        window: kernel.window.clone(),
        group: 1,
        output_padding: list(node, "output_padding")?,
        output_shape: Vec::new(),
        padded_by_input: false,
        channels_last: kernel.channels_last,
        weight: WeightLayout::KernelFirst,
        extents: Extents::Keras,
    };
    let spatial = kernel.spatial();
    Layer::of(node, kernel, Folded { spatial, inner: Box::new(inner) })
}

impl Kernel {
    fn spatial(&self) -> usize {
        self.window.kernel.as_ref().map_or(0, Vec::len)
    }

    fn rank(&self, shape: &Shape) -> Result<(), Fault> {
        let least = self.spatial().saturating_add(2);
        if shape.rank() < least || (self.kind != Kind::Plain && shape.rank() > least) {
            let (class, rank) = (&self.class, shape.rank());
            return Err(Fault::shape(format!("{class} needs a rank-{least} input, got rank {rank} ({shape})")));
        }
        Ok(())
    }

    fn first_spatial(&self, shape: &Shape) -> usize {
        let last = usize::from(self.channels_last);
        shape.rank().saturating_sub(self.spatial()).saturating_sub(last)
    }

    /// A kernel that does not fit is named as a whole.
    fn fits(&self, shape: &Shape) -> Result<(), Fault> {
        if self.kind == Kind::Transposed || matches!(self.window.padding, Padding::SameUpper | Padding::SameLower) {
            return Ok(());
        }
        let kernel = self.window.kernel.as_deref().unwrap_or_default();
        let first = self.first_spatial(shape);
        let extents = shape.dims().get(first..first.saturating_add(kernel.len())).unwrap_or_default();
        let reach = |axis: usize, kernel: i64| {
            let dilation = self.window.dilations.get(axis).copied().unwrap_or(1);
            i128::from(kernel - 1) * i128::from(dilation) + 1
        };
        let too_large = extents
            .iter()
            .zip(kernel)
            .enumerate()
            .any(|(axis, (extent, &kernel))| extent.as_const().is_some_and(|extent| extent < reach(axis, kernel)));
        if !too_large {
            return Ok(());
        }
        let text = kernel.iter().map(i64::to_string).collect::<Vec<_>>().join("×");
        let input: Shape = extents.iter().cloned().collect();
        Err(Fault::shape(format!("a {text} kernel with valid padding on a {input} input leaves no output")))
    }
}

impl Stores for Kernel {
    fn shapes(&self, cx: &InferCx<'_>) -> Result<Vec<(usize, Shape)>, Fault> {
        let bias = |filters: Dim| (2, Shape::new(vec![filters]));
        let Some(shape) = cx.shape(0) else {
            let known = self.kind != Kind::Depthwise;
            return Ok(if known { vec![bias(Dim::from(self.filters))] } else { Vec::new() });
        };
        self.rank(shape)?;
        self.fits(shape)?;
        let axis = if self.channels_last { shape.rank() - 1 } else { self.first_spatial(shape).saturating_sub(1) };
        let channels = wanted(shape.dim(axis), || format!("the number of channels of the input {shape}"))?;
        let Some(channels) = channels else { return Ok(Vec::new()) };
        let group = Dim::from(self.group);
        if channels.modulo(&group) != Dim::ZERO {
            return Err(Fault::shape(format!("{channels} input channels do not divide into {group} groups")));
        }
        if self.filters % self.group != 0 {
            return Err(Fault::attribute(format!("{} filters do not divide into {group} groups", self.filters)));
        }
        let filters = Dim::from(self.filters);
        let mut dims: Vec<Dim> = self.window.kernel.iter().flatten().map(|&extent| Dim::from(extent)).collect();
        let outputs = match self.kind {
            Kind::Plain => {
                dims.extend([channels.floor_div(&group), filters.clone()]);
                filters
            }
            Kind::Depthwise => {
                dims.extend([channels.clone(), filters.clone()]);
                channels * filters
            }
            Kind::Transposed => {
                dims.extend([filters.clone(), channels]);
                filters
            }
        };
        Ok(vec![(1, Shape::new(dims)), bias(outputs)])
    }
}

/// A convolution over the last axes: those between the batch and them are samples too.
#[derive(Debug)]
struct Folded {
    spatial: usize,
    inner: Box<dyn Operator>,
}

impl Operator for Folded {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let wanted = self.spatial.saturating_add(2);
        let further = cx.shape(0).and_then(|shape| shape.rank().checked_sub(wanted)).unwrap_or(0);
        if further == 0 {
            return self.inner.infer(cx);
        }
        let Some(shape) = cx.shape(0) else { return Ok(vec![Fact::Unknown]) };
        let (samples, rest) = shape.dims().split_at_checked(further + 1).unwrap_or_default();
        let folded = std::iter::once(product(samples)).chain(rest.iter().cloned()).collect::<Shape>();
        let folded = Fact::tensor(cx.element(0), folded);
        let given: Vec<Option<&Fact>> =
            cx.inputs.iter().enumerate().map(|(input, fact)| if input == 0 { Some(&folded) } else { *fact }).collect();
        let facts = self.inner.infer(&mut InferCx::new(&given, cx.outputs, cx.host))?;
        let unfold = |fact: Fact| match fact {
            Fact::Tensor(mut tensor) => {
                if let Some(shape) = &mut tensor.shape {
                    shape.dims_mut().splice(0..1, samples.iter().cloned());
                }
                Fact::Tensor(tensor)
            }
            other => other,
        };
        Ok(facts.into_iter().map(unfold).collect())
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        self.inner.cost(cx)
    }

    fn role(&self, input: usize) -> Role {
        self.inner.role(input)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        self.inner.work(cx)
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        self.inner.saved(cx)
    }
}

/// A convolution with a kernel of its own at every position. Inputs: x, kernel, bias.
#[derive(Clone, Debug)]
struct LocallyConnected {
    kernel: Kernel,
    /// 1 stores one kernel for each position, 2 a dense matrix, 3 the elements of it that are used.
    implementation: i64,
}

/// `LocallyConnected1D`, `LocallyConnected2D`.
pub(super) fn locally_connected(node: &NodeView<'_>) -> Built {
    let kernel = read(node, Kind::Plain)?;
    let layer = LocallyConnected { kernel, implementation: node.int_or("implementation", 1)? };
    Layer::of(node, layer.clone(), layer)
}

/// Extents of input and output, channels.
type Sizes = (Vec<Dim>, Vec<Dim>, Option<Dim>);

impl LocallyConnected {
    /// Extents of input and output, channels.
    fn sizes(&self, shape: &Shape) -> Result<Sizes, Fault> {
        let kernel = self.kernel.window.kernel.as_deref().unwrap_or_default();
        let first = self.kernel.first_spatial(shape);
        let input = shape.dims().get(first..first.saturating_add(kernel.len())).unwrap_or_default().to_vec();
        let extent = |(axis, (input, kernel)): (usize, (&Dim, &i64))| {
            self.kernel.window.extent(axis, input, &Dim::from(*kernel))
        };
        let output = input.iter().zip(kernel).enumerate().map(extent).collect::<Result<Vec<_>, _>>()?;
        let axis = if self.kernel.channels_last { shape.rank().saturating_sub(1) } else { 1 };
        Ok((input, output, shape.dim(axis).cloned()))
    }

    /// What the kernel at one position multiplies.
    fn taps(&self, channels: &Dim) -> Dim {
        let kernel = self.kernel.window.kernel.as_deref().unwrap_or_default();
        channels * product(&kernel.iter().map(|&extent| Dim::from(extent)).collect::<Vec<_>>())
    }
}

impl Stores for LocallyConnected {
    fn shapes(&self, cx: &InferCx<'_>) -> Result<Vec<(usize, Shape)>, Fault> {
        let Some(shape) = cx.shape(0) else { return Ok(Vec::new()) };
        self.kernel.rank(shape)?;
        self.kernel.fits(shape)?;
        let (input, output, channels) = self.sizes(shape)?;
        for dim in input.iter().chain(&channels) {
            if wanted(Some(dim), || format!("every extent of the input {shape}"))?.is_none() {
                return Ok(Vec::new());
            }
        }
        let (Some(channels), filters) = (channels, Dim::from(self.kernel.filters)) else { return Ok(Vec::new()) };
        let positions = product(&output);
        let kernel = match self.implementation {
            2 => {
                let mut dims = Vec::new();
                dims.extend(input.iter().cloned().chain([channels]));
                dims.extend(output.iter().cloned().chain([filters.clone()]));
                Shape::new(dims)
            }
            3 => Shape::new(vec![positions * self.taps(&channels) * &filters]),
            _ => Shape::new(vec![positions, self.taps(&channels), filters.clone()]),
        };
        let bias: Shape = output.into_iter().chain([filters]).collect();
        Ok(vec![(1, kernel), (2, bias)])
    }
}

impl Operator for LocallyConnected {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(shape) = cx.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
        let (_, output, _) = self.sizes(shape)?;
        let batch = shape.dim(0).cloned().unwrap_or(Dim::ONE);
        let filters = Dim::from(self.kernel.filters);
        let dims: Vec<Dim> = if self.kernel.channels_last {
            std::iter::once(batch).chain(output).chain([filters]).collect()
        } else {
            [batch, filters].into_iter().chain(output).collect()
        };
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let outputs = cx.elements_out(0)?;
        let (_, _, channels) = self.sizes(cx.shape_in(0)?).ok()?;
        let bias = if cx.has(2) { outputs.clone() } else { Dim::ZERO };
        Cost::product(cx, outputs * self.taps(&channels?), &bias, [0, 1, 2])
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Weight }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let (Some(input), Some(output)) = (cx.input(0), cx.output(0)) else { return vec![cx.elementwise()] };
        let (m, n) = (input.dim(0).unwrap_or(1), self.kernel.filters.unsigned_abs());
        let batch = output.elements().checked_div(m.saturating_mul(n)).unwrap_or(0);
        let products = output.elements() as f64;
        let k = if products > 0.0 { (cx.flops / (2.0 * products)) as u64 } else { 0 };
        vec![cx.all(Family::Product { batch, m, n, k }).of_operands(0, 1)]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        cx.other_operands(0, 1).when(cx.has_backward())
    }
}
