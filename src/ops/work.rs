//! What an operator does when it runs, as work items with numbers: the families of computation that libraries have
//! kernels for. Runtimes make kernels of them (`crate::runtime`); nothing here knows a runtime or a device.

use crate::ir::element_type::ElementType;

/// A tensor whose dims have numbers.
#[derive(Clone, Copy, Debug)]
pub struct Sized<'a> {
    /// Dims, outermost first; where data decides one, its upper bound.
    pub dims: &'a [u64],
    /// Element type.
    pub element: ElementType,
}

impl Sized<'_> {
    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        product(self.dims)
    }

    /// Bytes in memory; sub-byte elements share bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(u64::from(self.element.bits())).div_ceil(8)
    }

    /// A dim by its index.
    #[must_use]
    pub fn dim(&self, index: usize) -> Option<u64> {
        self.dims.get(index).copied()
    }

    /// A dim by its index from the end; 0 is the last.
    #[must_use]
    pub fn dim_from_end(&self, index: usize) -> Option<u64> {
        self.dims.iter().rev().nth(index).copied()
    }
}

/// Extents of up to three axes, 1 for those that are not there. Further axes in front join the first of the three.
#[must_use]
pub fn three(extents: &[u64]) -> [u64; 3] {
    let mut three = [1_u64; 3];
    for (place, &extent) in extents.iter().rev().enumerate() {
        if let Some(slot) = three.get_mut(2_usize.saturating_sub(place)) {
            *slot = slot.saturating_mul(extent);
        }
    }
    three
}

/// Whether dims are stretched to others by the rules of broadcasting, or are those already.
#[must_use]
pub fn stretches_to(dims: &[u64], wanted: &[u64]) -> bool {
    dims.len() <= wanted.len()
        && dims.iter().rev().zip(wanted.iter().rev()).all(|(dim, wanted)| *dim == 1 || dim == wanted)
}

/// The product of dims, cut off at the end of the range.
#[must_use]
pub fn product(dims: &[u64]) -> u64 {
    dims.iter().fold(1, |product, &dim| product.saturating_mul(dim))
}

/// Inputs and outputs of an operator that is about to run.
#[derive(Clone, Copy, Debug)]
pub struct WorkCx<'a> {
    /// Inputs; `None` where one is left out or not known.
    pub inputs: &'a [Option<Sized<'a>>],
    /// Outputs; `None` where one is left out or not known.
    pub outputs: &'a [Option<Sized<'a>>],
    /// Whether each input needs a gradient; all `false` in inference.
    pub needs_gradient: &'a [bool],
    /// Floating-point operations forward, as counted.
    pub flops: f64,
    /// Bytes read forward, as counted.
    pub bytes_read: f64,
    /// Bytes written forward, as counted.
    pub bytes_written: f64,
    /// Floating-point operations backward, as counted.
    pub backward_flops: f64,
}

impl<'a> WorkCx<'a> {
    /// An input that is given and known.
    #[must_use]
    pub fn input(&self, index: usize) -> Option<Sized<'a>> {
        self.inputs.get(index).copied().flatten()
    }

    /// An output that is wanted and known.
    #[must_use]
    pub fn output(&self, index: usize) -> Option<Sized<'a>> {
        self.outputs.get(index).copied().flatten()
    }

    /// Whether an input needs a gradient.
    #[must_use]
    pub fn needs(&self, index: usize) -> bool {
        self.needs_gradient.get(index).copied().unwrap_or(false)
    }

    /// Whether any input needs a gradient.
    #[must_use]
    pub fn needs_any(&self) -> bool {
        self.needs_gradient.contains(&true)
    }

    /// Whether nothing was counted forward: views, and what only shapes need.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.flops <= 0.0 && self.bytes_read <= 0.0 && self.bytes_written <= 0.0
    }

    /// Whether a gradient can reach any input at all: one needs it, and an output is real.
    #[must_use]
    pub fn has_backward(&self) -> bool {
        self.needs_any() && self.outputs.iter().flatten().any(|output| output.element.is_real())
    }

    /// Bytes of an element of the first output, as intermediate results have them too.
    #[must_use]
    pub fn width(&self) -> f64 {
        self.output(0).map_or(4.0, |output| f64::from(output.element.bits()) / 8.0)
    }

    /// What the backward pass of a product of two inputs keeps: of each operand that needs a gradient, the other one.
    #[must_use]
    pub fn other_operands(&self, left: usize, right: usize) -> Saved {
        Saved::input(left).when(self.needs(right)).and(Saved::input(right).when(self.needs(left)))
    }

    /// What items leave of all that was counted, as the last item of a family.
    #[must_use]
    pub fn rest(&self, items: &[Work], family: Family) -> Work {
        let left = |all: f64, part: fn(&Work) -> f64| (all - items.iter().map(part).sum::<f64>()).max(0.0);
        Work {
            flops: left(self.flops, |item| item.flops),
            bytes_read: left(self.bytes_read, |item| item.bytes_read),
            bytes_written: left(self.bytes_written, |item| item.bytes_written),
            ..self.all(family)
        }
    }

    /// A part of what was counted, not more than all of it.
    #[must_use]
    pub fn part(&self, family: Family, flops: f64, bytes_read: f64) -> Work {
        let (flops, bytes_read) =
            (flops.clamp(0.0, self.flops.max(0.0)), bytes_read.clamp(0.0, self.bytes_read.max(0.0)));
        Work { flops, bytes_read, bytes_written: 0.0, ..self.all(family) }
    }

    /// Rows and columns of a tensor whose rows end before an axis: `(product before, product from it on)`.
    #[must_use]
    pub fn rows_before(dims: &[u64], axis: usize) -> [u64; 2] {
        let (outer, inner) = dims.split_at_checked(axis).unwrap_or((dims, &[]));
        [product(outer), product(inner)]
    }

    /// The reduction of the first input to the elements of the first output.
    #[must_use]
    pub fn reduction(&self) -> Work {
        let rows = self.output(0).map_or(0, |output| output.elements());
        let elements = self.input(0).map_or(0, |input| input.elements());
        self.all(Family::Reduce { rows, cols: elements.checked_div(rows).unwrap_or_default() })
    }

    /// All that was counted, as one work item of a family.
    #[must_use]
    pub fn all(&self, family: Family) -> Work {
        Work {
            family,
            flops: self.flops,
            bytes_read: self.bytes_read,
            bytes_written: self.bytes_written,
            operands: [None; 2],
        }
    }

    /// One work item over all elements of the outputs, without reuse of what is read: sums, products, comparisons.
    #[must_use]
    pub fn elementwise(&self) -> Work {
        self.function(Function::Arithmetic)
    }

    /// The same for another function of each element.
    #[must_use]
    pub fn function(&self, function: Function) -> Work {
        let elements = self.outputs.iter().flatten().map(Sized::elements).max().unwrap_or_default();
        self.all(Family::Elementwise { elements, function })
    }

    /// One work item of a family; a function of each element where the sizes of the family are not known.
    #[must_use]
    pub fn one(&self, family: Option<Family>) -> Vec<Work> {
        vec![family.map_or_else(|| self.elementwise(), |family| self.all(family))]
    }

    /// One work item that moves the elements of the outputs.
    #[must_use]
    pub fn moved(&self) -> Work {
        let elements = self.outputs.iter().flatten().map(Sized::elements).fold(0, u64::saturating_add);
        self.all(Family::Copy { elements })
    }
}

/// A piece of work that a library has one kernel for, forward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// What is computed, with the sizes that its time depends on.
    pub family: Family,
    /// Operations; two for each multiply-accumulate pair.
    pub flops: f64,
    /// Bytes read, each operand once.
    pub bytes_read: f64,
    /// Bytes written.
    pub bytes_written: f64,
    /// Inputs of the operator that stand left and right in a product (data and weight of a convolution), so that the
    /// backward pass has a product for each that needs a gradient. In an item beside a product: inputs that it alone
    /// reads. In a copy: on the left, the input that is repeated, whose gradient is a sum.
    pub operands: [Option<usize>; 2],
}

impl Work {
    /// The same with its two operands named.
    #[must_use]
    pub fn of_operands(mut self, left: usize, right: usize) -> Self {
        self.operands = [Some(left), Some(right)];
        self
    }
}

/// A convolution's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// Samples.
    pub batch: u64,
    /// Channels of the input.
    pub in_channels: u64,
    /// Channels of the output.
    pub out_channels: u64,
    /// Extents of the input: depth, height, width; 1 for an axis that is not there.
    pub input: [u64; 3],
    /// Extents of the output.
    pub output: [u64; 3],
    /// Extents of the kernel.
    pub kernel: [u64; 3],
    /// Strides.
    pub stride: [u64; 3],
    /// Dilations.
    pub dilation: [u64; 3],
    /// Groups of channels.
    pub groups: u64,
    /// Whether it is transposed: the gradient of a convolution run forward.
    pub transposed: bool,
    /// Axes that windows slide along: libraries have kernels of their own for three, however flat the image.
    pub axes: u8,
}

/// What devices have after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Exchange {
    /// All the sum.
    AllReduce,
    /// All what each had.
    AllGather,
    /// Each a part of the sum.
    ReduceScatter,
    /// Each a part of what each had.
    AllToAll,
    /// One what another had.
    SendReceive,
}

impl Exchange {
    /// How often the buffer passes a device's link.
    #[must_use]
    pub fn passes(self, devices: u32) -> f64 {
        let others = f64::from(devices.saturating_sub(1)) / f64::from(devices.max(1));
        match self {
            Self::AllReduce => 2.0 * others,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => others,
            Self::SendReceive => 1.0,
        }
    }
}

/// What a function of each element costs beside moving it, from cheap to dear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Function {
    /// Sums, products, comparisons.
    #[default]
    Arithmetic,
    /// Exponentials and what is made of them.
    Exponential,
    /// Error functions.
    Error,
    /// Random numbers.
    Random,
    /// Powers with any exponent.
    Power,
}

impl Convolution {
    /// Multiply-accumulate pairs.
    #[must_use]
    pub fn macs(&self) -> f64 {
        let positions = product(if self.transposed { &self.input } else { &self.output });
        let (each, all) =
            if self.transposed { (self.out_channels, self.in_channels) } else { (self.in_channels, self.out_channels) };
        let each = each as f64 / self.groups.max(1) as f64;
        self.batch as f64 * positions as f64 * all as f64 * each * product(&self.kernel) as f64
    }

    /// Whether each channel has filters of its own.
    #[must_use]
    pub fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.groups == self.in_channels
    }

    /// Whether it is a matrix product: one tap, no groups.
    #[must_use]
    pub fn is_pointwise(&self) -> bool {
        product(&self.kernel) == 1 && self.groups <= 1
    }
}

/// What a kernel computes, with the sizes that its family's time depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// A convolution of one to three axes.
    Convolution(Convolution),
    /// `batch` products of an m × k and a k × n matrix.
    Product {
        /// Products of equal size.
        batch: u64,
        /// Rows of the left matrix.
        m: u64,
        /// Columns of the right matrix.
        n: u64,
        /// Inner size.
        k: u64,
    },
    /// Scaled-dot-product attention in one kernel.
    Attention {
        /// Samples.
        batch: u64,
        /// Heads of the query.
        heads: u64,
        /// Heads of key and value.
        kv_heads: u64,
        /// Queries a sample.
        queries: u64,
        /// Keys a sample.
        keys: u64,
        /// Elements of a head.
        head_dim: u64,
        /// Whether a query sees earlier keys only.
        causal: bool,
    },
    /// A recurrent layer over all its steps.
    Recurrent {
        /// Samples.
        batch: u64,
        /// Steps.
        steps: u64,
        /// Elements of a step's input.
        inputs: u64,
        /// Elements of the state.
        hidden: u64,
        /// Gates: 1 plain, 3 GRU, 4 LSTM.
        gates: u64,
        /// 2 where it runs both ways.
        directions: u64,
    },
    /// A function of each element.
    Elementwise {
        /// Elements of the output.
        elements: u64,
        /// The dearest that is computed for each.
        function: Function,
    },
    /// Normalisation over the batch, by channel.
    BatchNorm {
        /// Elements of a channel, over all samples.
        rows: u64,
        /// Channels.
        channels: u64,
    },
    /// Normalisation of rows: layer, group, instance, root mean square.
    LayerNorm {
        /// Independent rows.
        rows: u64,
        /// Elements of a row.
        cols: u64,
    },
    /// Softmax of rows.
    Softmax {
        /// Independent rows.
        rows: u64,
        /// Elements of a row.
        cols: u64,
    },
    /// Reduction of rows to one element each.
    Reduce {
        /// Independent rows.
        rows: u64,
        /// Elements of a row.
        cols: u64,
    },
    /// Pooling.
    Pool {
        /// Elements of the output.
        elements: u64,
        /// Elements of a window.
        window: u64,
        /// Whether it averages instead of taking the maximum.
        average: bool,
    },
    /// Rows picked from a table.
    Embedding {
        /// Rows picked.
        rows: u64,
        /// Elements of a row.
        cols: u64,
        /// Rows of the table.
        table: u64,
    },
    /// Elements moved as they are: transposition, concatenation, padding, casts, layouts.
    Copy {
        /// Elements of the output.
        elements: u64,
    },
    /// Sorting and selection: `TopK`, `NonMaxSuppression`, `Unique`.
    Sort {
        /// Independent rows.
        rows: u64,
        /// Elements of a row.
        cols: u64,
    },
    /// What devices exchange.
    Collective {
        /// What each has in the end.
        exchange: Exchange,
        /// Bytes of the buffer.
        bytes: u64,
        /// Devices that take part.
        devices: u32,
        /// Hosts that they sit in.
        hosts: u32,
    },
    /// An optimizer's update of weights.
    Update {
        /// Weights.
        elements: u64,
        /// Tensors that they stand in.
        tensors: u64,
    },
}

impl Family {
    /// The family's name, as tables of measurements have it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Convolution(_) => "convolution",
            Self::Product { .. } => "product",
            Self::Attention { .. } => "attention",
            Self::Recurrent { .. } => "recurrent",
            Self::Elementwise { .. } => "elementwise",
            Self::BatchNorm { .. } => "batch-norm",
            Self::LayerNorm { .. } => "layer-norm",
            Self::Softmax { .. } => "softmax",
            Self::Reduce { .. } => "reduce",
            Self::Pool { .. } => "pool",
            Self::Embedding { .. } => "embedding",
            Self::Copy { .. } => "copy",
            Self::Sort { .. } => "sort",
            Self::Update { .. } => "update",
            Self::Collective { .. } => "collective",
        }
    }

    /// Whether it multiplies matrices: what tensor cores are for.
    #[must_use]
    pub fn is_product(&self) -> bool {
        matches!(self, Self::Convolution(_) | Self::Product { .. } | Self::Attention { .. } | Self::Recurrent { .. })
    }
}

/// What the backward pass reads of a forward run, so what must be kept until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Inputs, by bit.
    pub inputs: u64,
    /// Outputs, by bit.
    pub outputs: u64,
    /// Bytes that are neither: masks, statistics, indices.
    pub extra_bytes: u64,
}

impl Saved {
    /// Nothing.
    pub const NOTHING: Self = Self { inputs: 0, outputs: 0, extra_bytes: 0 };

    /// One input.
    #[must_use]
    pub const fn input(index: usize) -> Self {
        Self { inputs: 1 << (index & 63), ..Self::NOTHING }
    }

    /// One output.
    #[must_use]
    pub const fn output(index: usize) -> Self {
        Self { outputs: 1 << (index & 63), ..Self::NOTHING }
    }

    /// Bytes that are neither input nor output.
    #[must_use]
    pub const fn extra(bytes: u64) -> Self {
        Self { extra_bytes: bytes, ..Self::NOTHING }
    }

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            inputs: self.inputs | other.inputs,
            outputs: self.outputs | other.outputs,
            extra_bytes: self.extra_bytes.saturating_add(other.extra_bytes),
        }
    }

    /// The inputs of a range.
    #[must_use]
    pub fn inputs(range: std::ops::Range<usize>) -> Self {
        range.fold(Self::NOTHING, |saved, input| saved.and(Self::input(input)))
    }

    /// This where a condition holds, else nothing.
    #[must_use]
    pub const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NOTHING }
    }
}
