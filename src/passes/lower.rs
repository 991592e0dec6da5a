//! Lowers operations to the kernels that a runtime launches: work items, fused where the runtime fuses, in its layout
//! and precision, forward and backward, and the update of the weights.

mod form;
mod fuse;
mod group;

pub(super) use form::{Class, Item};
pub use form::{Form, Forms};

use crate::analysis::Analysis;
use crate::device::Precision;
use crate::engine::Mode;
use crate::ir::graph::TensorId;
use crate::ops::work::Sized;
use crate::ops::{Family, Function, Work};
use crate::passes::kinds::Operations;
use crate::passes::parameters::Kind;
use crate::passes::strides::Strides;
use crate::runtime::{Kernel, Layout, Library, Pass, Update};
use crate::target::{Compute, Target, Zero};

/// Kernels of a step.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// Launches in running order of the forward pass; the backward pass runs them from the end.
    pub launches: Vec<Launch>,
    /// What is launched: forward, then backward. Operations that are alike launch the same.
    pub lists: Vec<Vec<Kernel>>,
    /// Update of the weights.
    pub updates: Vec<Kernel>,
    /// Weights that are updated.
    pub updated_tensors: u64,
    /// Layers whose work is not known.
    pub unknown: usize,
}

impl Schedule {
    /// The kernels of a launch.
    #[must_use]
    pub fn kernels(&self, launch: &Launch) -> &[Kernel] {
        self.lists.get(launch.list).map_or(&[], Vec::as_slice)
    }
}

/// What an operation, or several that are fused, launches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Launch {
    /// The layer that it is reported at, by its index in [`Analysis::layers`].
    pub layer: usize,
    /// Its kernels, by their place in [`Schedule::lists`].
    pub list: usize,
    /// How many operators the host walks through for it.
    pub host_operators: f64,
}

/// All that lowering asks for.
#[derive(Clone, Copy)]
pub struct Lowering<'a> {
    /// The model.
    pub analysis: &'a Analysis,
    /// Its operations.
    pub operations: &'a Operations,
    /// What they run on.
    pub target: &'a Target,
}

/// Makes the kernels of a step.
#[must_use]
pub fn lower(lowering: &Lowering<'_>, forms: &Forms<'_>, strides: &Strides) -> Schedule {
    let mut schedule = Schedule::default();
    let mut items = Vec::with_capacity(lowering.operations.list().len());
    for item in forms.items() {
        match item {
            Some(item) => items.push(item),
            None => schedule.unknown += 1,
        }
    }
    fuse::fuse(lowering, forms.sizes, strides, &items, &mut schedule);
    if lowering.target.mode == Mode::Train {
        lowering.casts(&mut schedule);
        lowering.sums(&mut schedule);
        lowering.updates(&mut schedule);
    }
    schedule
}

impl Lowering<'_> {
    pub(super) fn needs_gradient(&self, tensor: TensorId) -> bool {
        self.analysis.needs_gradient.get(tensor.0 as usize).copied().unwrap_or(false)
    }

    /// Bytes of a tensor under the target's precision.
    pub(super) fn bytes(&self, sized: Sized<'_>) -> f64 {
        sized.elements() as f64 * self.target.precision.bits_of(sized.element) as f64 / 8.0
    }

    pub(super) fn layout(&self, precision: Precision) -> Layout {
        (self.target.runtime.layout)(precision)
    }

    /// How often an operation runs in a step: in each of its micro-batches.
    pub(super) fn runs(&self, form: &Form<'_>) -> f64 {
        form.runs * f64::from(self.target.accumulate)
    }

    pub(super) fn kernel(&self, form: &Form<'_>, work: &Work, pass: Pass) -> Kernel {
        let product = work.family.is_product();
        let precision = if product { form.precision } else { self.target.precision.other() };
        let runtime = self.target.runtime;
        let library = if product {
            runtime.library
        } else if runtime.fusion.chains {
            Library::Generated
        } else {
            Library::Framework
        };
        let mut kernel = Kernel::of(work, pass, precision, self.layout(form.precision), library);
        kernel.bytes_read *= form.scale;
        kernel.bytes_written *= form.scale;
        kernel.runs = self.runs(form);
        // Statistics over the batch need a walk of their own before the elements are used.
        if matches!(work.family, Family::BatchNorm { .. }) && self.target.mode == Mode::Train {
            kernel.bytes_read *= 2.0;
        }
        kernel
    }

    /// The gradients of every micro-batch but the first are added to those before.
    fn sums(&self, schedule: &mut Schedule) {
        let (weights, _) = self.trained_weights();
        let again = self.target.accumulate.saturating_sub(1);
        if again == 0 || weights == 0.0 {
            return;
        }
        let bytes = weights * self.target.precision.gradient_bytes() as f64;
        let work = Work {
            family: Family::Elementwise { elements: weights as u64, function: Function::Arithmetic },
            flops: weights,
            bytes_read: 2.0 * bytes,
            bytes_written: bytes,
            operands: [None; 2],
        };
        schedule.updates.push(Kernel { runs: f64::from(again), ..update_kernel(&work) });
    }

    /// Under mixed precision every fp32 weight of a product is cast once a micro-batch, and its gradient back.
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
            schedule.updates.push(Kernel { runs: f64::from(self.target.accumulate), ..update_kernel(&work) });
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

    /// Elements of all weights, frozen ones too.
    #[must_use]
    pub fn weights(&self) -> f64 {
        let weights = self.analysis.usages.iter().filter(|usage| usage.kind == Kind::Trainable && !usage.repeats);
        weights.map(|usage| usage.elements as f64).sum()
    }

    /// The optimizer's kernels.
    fn updates(&self, schedule: &mut Schedule) {
        let target = self.target;
        let Some(passes) = target.optimizer.bytes_per_weight(target.precision) else { return };
        let (elements, tensors) = self.trained_weights();
        // Each replica updates its slice of all weights where state is sharded.
        let shards = target.shards(Zero::Optimizer) as f64;
        let elements = (elements / shards).ceil();
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
                schedule.updates.extend(self.trained().map(|(size, _)| update((size / shards).ceil(), 1, 1.0)));
            }
        }
    }
}

/// Weights and their gradients are in fp32, whatever is computed in.
fn update_kernel(work: &Work) -> Kernel {
    Kernel::of(work, Pass::Update, Precision::Fp32, Layout::ChannelsFirst, Library::Framework)
}
