//! Lowers operations to the kernels that a runtime launches: work items, fused where the runtime fuses, in its layout
//! and precision, forward and backward, and the update of the weights.

mod fuse;
mod group;

use crate::analysis::{Analysis, Figures};
use crate::device::Precision;
use crate::engine::Mode;
use crate::ir::graph::TensorId;
use crate::ops::work::Sized;
use crate::ops::{Family, Gradient, Operator, Saved, Work, WorkCx, backward};
use crate::passes::compose::Operation;
use crate::passes::parameters::Kind;
use crate::passes::sizes::Sizes;
use crate::runtime::{Kernel, Layout, Library, Pass, Update};
use crate::target::{Compute, Target};

/// Kernels of a step.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// Launches in running order of the forward pass; the backward pass runs them from the end.
    pub launches: Vec<Launch>,
    /// Update of the weights.
    pub updates: Vec<Kernel>,
    /// Weights that are updated.
    pub updated_tensors: u64,
    /// Layers whose work is not known.
    pub unknown: usize,
}

/// What an operation, or several that are fused, launches.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The layer that it is reported at, by its index in [`Analysis::layers`].
    pub layer: usize,
    /// Kernels, forward, then backward.
    pub kernels: Vec<Kernel>,
    /// How many operators the host walks through for it.
    pub host_operators: f64,
}

/// All that lowering asks for.
#[derive(Clone, Copy)]
pub struct Lowering<'a> {
    /// The model.
    pub analysis: &'a Analysis,
    /// Its operations.
    pub operations: &'a [Operation],
    /// Sizes of tensors.
    pub sizes: &'a Sizes,
    /// Figures of layers.
    pub figures: &'a Figures,
    /// What they run on.
    pub target: &'a Target,
}

/// What an operation is to fusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Launches nothing: views.
    View,
    /// A function of each element.
    Pointwise,
    /// Normalisation, softmax or reduction.
    Rows,
    /// Batch normalisation.
    BatchNorm,
    /// A convolution or product.
    Product,
    /// Moves elements.
    Move,
    /// Anything else.
    Other,
}

/// An operation with its work.
#[derive(Debug)]
pub(super) struct Item<'a> {
    pub(super) operation: &'a Operation,
    pub(super) class: Class,
    pub(super) forward: Vec<Work>,
    pub(super) backward: Vec<(Work, Pass)>,
    pub(super) saved: Saved,
    /// How often it runs in a step.
    pub(super) runs: f64,
    /// Bytes that the target's precision makes of one byte of the file's.
    pub(super) scale: f64,
    /// What products are computed in.
    pub(super) precision: Precision,
}

/// An operation's operator with its inputs and outputs.
pub(super) struct Asked<'a> {
    pub(super) operator: &'a dyn Operator,
    pub(super) inputs: Vec<Option<Sized<'a>>>,
    pub(super) outputs: Vec<Option<Sized<'a>>>,
    pub(super) needs_gradient: Vec<bool>,
    /// Operations, bytes read and written, and operations backward, of one run.
    counted: [f64; 4],
    /// How often it runs in a step.
    pub(super) runs: f64,
}

impl Asked<'_> {
    pub(super) fn cx(&self) -> WorkCx<'_> {
        let [flops, bytes_read, bytes_written, backward_flops] = self.counted;
        WorkCx {
            inputs: &self.inputs,
            outputs: &self.outputs,
            needs_gradient: &self.needs_gradient,
            flops,
            bytes_read,
            bytes_written,
            backward_flops,
        }
    }
}

/// Makes the kernels of a step.
#[must_use]
pub fn lower(lowering: &Lowering<'_>) -> Schedule {
    let mut schedule = Schedule::default();
    let mut items = Vec::with_capacity(lowering.operations.len());
    for operation in lowering.operations {
        match lowering.item(operation) {
            Some(item) => items.push(item),
            None => schedule.unknown += 1,
        }
    }
    schedule.launches = fuse::fuse(lowering, &items);
    if lowering.target.mode == Mode::Train {
        lowering.casts(&mut schedule);
        lowering.updates(&mut schedule);
    }
    schedule
}

impl<'a> Lowering<'a> {
    fn item(&self, operation: &'a Operation) -> Option<Item<'a>> {
        let asked = self.ask(operation)?;
        let (operator, runs) = (asked.operator, asked.runs);
        let (inputs, outputs) = (&asked.inputs, &asked.outputs);
        let train = self.target.mode == Mode::Train;
        let cx = asked.cx();
        let forward = if runs == 0.0 { Vec::new() } else { operator.work(&cx) };
        let saved = if train { operator.saved(&cx) } else { Saved::NOTHING };
        let gradients = if train && runs > 0.0 { backward(&forward, &cx, &saved) } else { Vec::new() };
        let backward = gradients.into_iter().map(|(work, gradient)| (work, pass_of(gradient))).collect();
        let quantised = inputs.first().copied().flatten().is_some_and(|input| {
            input.element.is_integer()
                && input.element.bits() <= 8
                && forward.iter().any(|work| work.family.is_product())
        });
        Some(Item {
            operation,
            class: class_of(&forward, operator.is_view()),
            scale: self.scale(inputs, outputs),
            precision: if quantised { Precision::Int8 } else { self.precision(&forward) },
            forward,
            backward,
            saved,
            runs,
        })
    }

    /// An operation with all that its operator is asked with; `None` where its figures are not known.
    pub(super) fn ask(&self, operation: &'a Operation) -> Option<Asked<'a>> {
        let layer = self.figures.layers.get(operation.layer)?;
        let runs = layer.repeats? as f64;
        let operator = operation.operator(self.analysis)?;
        let sized = |tensors: &[Option<TensorId>]| -> Vec<_> {
            tensors.iter().map(|tensor| tensor.and_then(|tensor| self.sizes.get(tensor))).collect()
        };
        let (inputs, outputs) = (sized(&operation.inputs), sized(&operation.outputs));
        let train = self.target.mode == Mode::Train;
        let needs_gradient: Vec<bool> = operation
            .inputs
            .iter()
            .map(|input| train && input.is_some_and(|tensor| self.needs_gradient(tensor)))
            .collect();
        // Of one run, as counted; an operation of several layers does the arithmetic of all and touches memory once.
        let one = |total: Option<i128>| total.map_or(0.0, |total| total as f64) / runs.max(1.0);
        let (mut flops, mut backward_flops) = (0.0, 0.0);
        for figures in operation.layers().filter_map(|layer| self.figures.layers.get(layer)) {
            flops += one(figures.flops);
            backward_flops += one(figures.backward_flops);
        }
        let composed = operation.operator.is_some();
        let total =
            |sizes: &[Option<Sized<'_>>]| -> f64 { sizes.iter().flatten().map(|sized| sized.bytes() as f64).sum() };
        let (bytes_read, bytes_written) = match (layer.bytes, layer.bytes_written) {
            (Some(bytes), Some(written)) if !composed => (one(Some(bytes - written)), one(Some(written))),
            (None, _) if !composed => return None,
            _ => (total(&inputs), total(&outputs)),
        };
        let backward_flops = if train { backward_flops } else { 0.0 };
        let counted = [flops, bytes_read, bytes_written, backward_flops];
        Some(Asked { operator, inputs, outputs, needs_gradient, counted, runs })
    }

    pub(super) fn needs_gradient(&self, tensor: TensorId) -> bool {
        self.analysis.needs_gradient.get(tensor.0 as usize).copied().unwrap_or(false)
    }

    /// Bytes of a tensor under the target's precision.
    pub(super) fn bytes(&self, tensor: TensorId) -> f64 {
        self.sizes.get(tensor).map_or(0.0, |sized| self.bytes_of(sized))
    }

    fn bytes_of(&self, sized: Sized<'_>) -> f64 {
        sized.elements() as f64 * self.target.precision.bits_of(sized.element) as f64 / 8.0
    }

    /// What a byte of the tensors of an operation becomes.
    fn scale(&self, inputs: &[Option<Sized<'_>>], outputs: &[Option<Sized<'_>>]) -> f64 {
        let sizes = || inputs.iter().chain(outputs).flatten();
        let before: f64 = sizes().map(|sized| sized.bytes() as f64).sum();
        let after: f64 = sizes().map(|sized| self.bytes_of(*sized)).sum();
        if before > 0.0 { after / before } else { 1.0 }
    }

    /// What the products among these are computed in.
    fn precision(&self, works: &[Work]) -> Precision {
        match works.iter().find(|work| work.family.is_product()) {
            Some(product) => self.target.product_precision(matches!(product.family, Family::Convolution(_))),
            None => self.target.precision.other(),
        }
    }

    pub(super) fn layout(&self, precision: Precision) -> Layout {
        (self.target.runtime.layout)(precision)
    }

    pub(super) fn kernel(&self, item: &Item<'_>, work: &Work, pass: Pass) -> Kernel {
        let product = work.family.is_product();
        let precision = if product { item.precision } else { self.target.precision.other() };
        let runtime = self.target.runtime;
        let library = if product {
            runtime.library
        } else if runtime.fusion.chains {
            Library::Generated
        } else {
            Library::Framework
        };
        let mut kernel = Kernel::of(work, pass, precision, self.layout(item.precision), library);
        kernel.bytes_read *= item.scale;
        kernel.bytes_written *= item.scale;
        kernel.runs = item.runs;
        // Statistics over the batch need a walk of their own before the elements are used.
        if matches!(work.family, Family::BatchNorm { .. }) && self.target.mode == Mode::Train {
            kernel.bytes_read *= 2.0;
        }
        kernel
    }

    /// Under mixed precision every fp32 weight of a product is cast once a step, and its gradient back.
    fn casts(&self, schedule: &mut Schedule) {
        if self.target.precision != Compute::Amp {
            return;
        }
        let (weights, _) = self.trained_weights();
        let elements = weights as u64;
        if elements == 0 {
            return;
        }
        let mut cast = |read: f64, written: f64| {
            let work = Work {
                family: Family::Copy { elements },
                flops: 0.0,
                bytes_read: read * weights,
                bytes_written: written * weights,
                operands: [None; 2],
            };
            schedule.updates.push(update_kernel(&work));
        };
        cast(4.0, 2.0);
        cast(2.0, 4.0);
    }

    /// Trained weights: elements, and the tensors that they stand in.
    pub(crate) fn trained(&self) -> impl Iterator<Item = (f64, TensorId)> + '_ {
        self.analysis.program.stored.iter().zip(&self.analysis.usages).filter_map(|(stored, usage)| {
            let trained = usage.kind == Kind::Trainable && !usage.repeats && self.needs_gradient(stored.tensor);
            trained.then_some((usage.elements as f64, stored.tensor))
        })
    }

    /// Elements of all trained weights, and the tensors that they stand in.
    #[must_use]
    pub fn trained_weights(&self) -> (f64, u64) {
        self.trained().fold((0.0, 0), |(elements, tensors), (more, _)| (elements + more, tensors + 1))
    }

    /// The optimizer's kernels.
    fn updates(&self, schedule: &mut Schedule) {
        let target = self.target;
        let Some(passes) = target.optimizer.bytes_per_weight(target.precision) else { return };
        let (elements, tensors) = self.trained_weights();
        schedule.updated_tensors = tensors;
        if tensors == 0 {
            return;
        }
        let update = |elements: f64, tensors: u64, factor: f64| {
            let work = Work {
                family: Family::Update { elements: elements as u64, tensors },
                flops: elements * target.optimizer.operations(),
                bytes_read: elements * passes.read * factor,
                bytes_written: elements * passes.written * factor,
                operands: [None; 2],
            };
            update_kernel(&work)
        };
        match (target.runtime.update)(target.version) {
            Update::Fused => schedule.updates.push(update(elements, tensors, 1.0)),
            // Lists of tensors are walked once for each step of the formula.
            Update::Grouped => {
                let steps = target.optimizer.steps();
                let factor = target.optimizer.grouped_traffic() / steps;
                schedule.updates.extend((0..steps as usize).map(|_| update(elements, tensors, factor)));
            }
            Update::PerTensor => {
                schedule.updates.extend(self.trained().map(|(size, _)| update(size, 1, 1.0)));
            }
        }
    }
}

/// Weights and their gradients are in fp32, whatever is computed in.
fn update_kernel(work: &Work) -> Kernel {
    Kernel::of(work, Pass::Update, Precision::Fp32, Layout::ChannelsFirst, Library::Framework)
}

fn pass_of(gradient: Gradient) -> Pass {
    match gradient {
        Gradient::Data => Pass::BackwardData,
        Gradient::Weight => Pass::BackwardWeight,
        Gradient::All => Pass::Backward,
    }
}

fn class_of(works: &[Work], is_view: bool) -> Class {
    let Some(first) = works.first() else { return Class::View };
    if is_view {
        return Class::View;
    }
    match first.family {
        _ if works.len() > 1 => Class::Other,
        Family::Elementwise { .. } => Class::Pointwise,
        Family::LayerNorm { .. } | Family::Softmax { .. } | Family::Reduce { .. } => Class::Rows,
        Family::BatchNorm { .. } => Class::BatchNorm,
        Family::Convolution(_) | Family::Product { .. } => Class::Product,
        Family::Copy { .. } => Class::Move,
        _ => Class::Other,
    }
}
