//! Pieces of memory behind the tensors of a forward pass: views share one, and each is made, kept and read last by some
//! step.

use std::ops::Range;

use super::casting::{Casting, casting};
use crate::engine::Mode;
use crate::ir::graph::{GraphId, Origin, TensorId};
use crate::ir::hash::HashMap;
use crate::ops::work::product;
use crate::ops::{Family, Work};
use crate::passes::bind::is_past;
use crate::passes::lower::{Forms, Item, Lowering};
use crate::passes::sizes::Sizes;
use crate::passes::strides::Strides;
use crate::target::Compute;

/// Where a piece of memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Stored in the file: a parameter or a table.
    Stored,
    /// Given from outside: a batch of input.
    Input,
    /// Keys and values of earlier tokens, given or given back.
    Cache,
    /// Made by a step.
    Step,
    /// A 16-bit copy of a stored weight, which automatic casting makes once a step.
    WeightCopy,
    /// Nothing that takes memory: shape arithmetic, states of subgraphs that stand for tensors outside.
    Nothing,
}

/// A piece of memory.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    pub(super) bytes: u64,
    pub(super) source: Source,
    /// Bits of an element.
    pub(super) bits: u64,
    /// The step that makes it.
    pub(super) made: u32,
    /// The last step that reads it.
    pub(super) last_read: u32,
    /// The first step that keeps it for its backward pass: the last that lets it go.
    pub(super) keeper: Option<u32>,
    /// The last step through which it gets a gradient: the first of the backward pass.
    pub(super) gradient_from: Option<u32>,
    /// Whether the caller gets it.
    pub(super) is_output: bool,
}

/// A step of the forward pass: an operation that runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    /// The layer that it is reported at.
    pub(super) layer: usize,
    /// How often it runs.
    pub(super) runs: u64,
    /// Storages that it reads, by their places in a list of the walk.
    reads: Range<usize>,
    /// The same of those that it makes.
    makes: Range<usize>,
    /// Bytes that it keeps beside storages: masks, statistics, indices.
    pub(super) extra: u64,
    /// Whether it is a function of each element, which may write where it read.
    pub(super) is_pointwise: bool,
    /// Whether the gradient of its output is that of its inputs as it is.
    pub(super) hands_gradient_on: bool,
    /// Bytes of activations read and written.
    pub(super) touched: u64,
    /// Whether it multiplies matrices.
    pub(super) is_product: bool,
    /// Whether it is a convolution of several taps that a library computes with scratch memory.
    pub(super) is_convolution: bool,
}

/// What the forward pass makes, keeps and reads.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) storages: Vec<Storage>,
    pub(super) steps: Vec<Step>,
    /// What steps read and make, one after the other.
    touched: Vec<u32>,
}

impl Walk {
    /// Storages that a step reads.
    pub(super) fn reads(&self, step: &Step) -> &[u32] {
        self.touched.get(step.reads.clone()).unwrap_or_default()
    }

    /// Storages that a step makes.
    pub(super) fn makes(&self, step: &Step) -> &[u32] {
        self.touched.get(step.makes.clone()).unwrap_or_default()
    }
}

/// Walks through the operations of a forward pass.
pub(super) fn walk(lowering: &Lowering<'_>, forms: &Forms<'_>, strides: &Strides) -> Walk {
    let tensors = lowering.analysis.program.tensors.len();
    let mut walker = Walker {
        lowering,
        sizes: forms.sizes,
        walk: Walk::default(),
        storage_of: vec![None; tensors],
        strides,
        makes: Vec::new(),
        weight_copies: HashMap::default(),
        training: lowering.target.mode == Mode::Train,
        casts: lowering.target.precision == Compute::Amp && lowering.target.runtime.casts_by_operator,
    };
    walker.inputs();
    for item in forms.items().flatten() {
        walker.item(&item);
    }
    walker.outputs();
    walker.walk
}

pub(super) struct Walker<'l> {
    pub(super) lowering: &'l Lowering<'l>,
    pub(super) sizes: &'l Sizes<'l>,
    pub(super) walk: Walk,
    pub(super) storage_of: Vec<Option<u32>>,
    pub(super) strides: &'l Strides,
    /// What the step that is at work makes.
    pub(super) makes: Vec<u32>,
    pub(super) weight_copies: HashMap<TensorId, u32>,
    training: bool,
    /// Whether each operator casts its inputs for itself.
    pub(super) casts: bool,
}

impl Walker<'_> {
    /// Inputs are there before the first step.
    fn inputs(&mut self) {
        let main = self.lowering.analysis.program.graphs.first();
        for &input in main.map_or(&[][..], |main| &main.inputs) {
            let name = self.lowering.analysis.program.tensor(input).map_or("", |tensor| &tensor.name);
            let source = if is_past(name) { Source::Cache } else { Source::Input };
            self.given(input, source);
        }
    }

    /// Outputs stay until the end.
    fn outputs(&mut self) {
        let program = &self.lowering.analysis.program;
        let last = u32::try_from(self.walk.steps.len()).unwrap_or(u32::MAX).saturating_sub(1);
        for &output in program.graphs.first().into_iter().flat_map(|main| main.outputs.iter().flatten()) {
            let Some(storage) = self.storage(output) else { continue };
            let is_cache = program.tensor(output).is_some_and(|tensor| is_present(&tensor.name));
            let gradient = self.training && self.lowering.needs_gradient(output);
            if let Some(storage) = self.walk.storages.get_mut(storage as usize) {
                storage.last_read = last;
                storage.is_output = true;
                if is_cache && storage.source == Source::Step {
                    storage.source = Source::Cache;
                }
                if gradient {
                    storage.gradient_from = Some(last);
                }
            }
        }
    }

    fn item(&mut self, item: &Item<'_>) {
        let (operation, form) = (item.operation, item.form);
        if form.runs < 1.0 {
            return;
        }
        let step = u32::try_from(self.walk.steps.len()).unwrap_or(u32::MAX);
        let casting = casting(form.op, &form.forward);
        let start = self.walk.touched.len();
        self.makes.clear();
        for (input, &needs) in operation.inputs.iter().zip(&form.needs_gradient) {
            let Some(tensor) = *input else { continue };
            let Some(storage) = self.storage(tensor) else { continue };
            self.walk.touched.push(storage);
            self.cast_weight(tensor, storage, casting);
            if let Some(storage) = self.walk.storages.get_mut(storage as usize) {
                storage.last_read = step;
                if needs && form.has_backward {
                    storage.gradient_from = Some(step);
                }
            }
        }
        self.make(item, casting);
        if self.training {
            self.keep(item, casting, step);
        }
        if !form.shares_storage {
            sort_tail(&mut self.walk.touched, start);
        }
        let end = self.walk.touched.len();
        self.walk.touched.append(&mut self.makes);
        let is_pointwise = matches!(form.forward.as_slice(), [Work { family: Family::Elementwise { .. }, .. }]);
        let touched = self.walk.touched.get(start..).unwrap_or_default();
        self.walk.steps.push(Step {
            layer: operation.layer,
            runs: form.runs as u64,
            reads: start..end,
            makes: end..self.walk.touched.len(),
            extra: if self.training { form.saved.extra_bytes } else { 0 },
            is_pointwise,
            hands_gradient_on: is_pointwise && matches!(form.op, "Add" | "Sum"),
            touched: match form.shares_storage {
                true => 0,
                false => touched.iter().map(|&storage| self.activation_bytes(storage)).sum(),
            },
            is_product: form.forward.iter().any(|work| work.family.is_product()),
            is_convolution: form.forward.iter().any(|work| match work.family {
                Family::Convolution(sizes) => product(&sizes.kernel) > 1 && !sizes.is_depthwise(),
                _ => false,
            }),
        });
    }

    /// Storages of the outputs: those of the first input where they are views of it.
    fn make(&mut self, item: &Item<'_>, casting: Casting) {
        let operation = item.operation;
        let input = operation.inputs.first().copied().flatten();
        for (&output, sized) in operation.outputs.iter().zip(&item.form.outputs) {
            let (Some(output), Some(sized)) = (output, *sized) else { continue };
            let storage = match input.filter(|_| self.strides.is_view(output)) {
                Some(input) => self.storage(input),
                None => {
                    let bits = self.output_bits(operation, sized.element, casting);
                    let storage = self.new_storage(sized.elements(), bits, Source::Step);
                    self.makes.push(storage);
                    Some(storage)
                }
            };
            if let Some(slot) = self.storage_of.get_mut(output.0 as usize) {
                *slot = storage;
            }
        }
    }

    /// Notes what the backward pass of a step reads.
    fn keep(&mut self, item: &Item<'_>, casting: Casting, step: u32) {
        let (operation, form) = (item.operation, item.form);
        let is_kept = |bits: u64, index: usize| index < 64 && bits >> index & 1 == 1;
        for (index, (input, sized)) in operation.inputs.iter().zip(&form.inputs).enumerate() {
            let (Some(input), Some(sized)) = (*input, *sized) else { continue };
            if !is_kept(form.saved.inputs, index) {
                continue;
            }
            let Some(storage) = self.kept_form(input, sized, form, index, casting) else { continue };
            self.keep_storage(storage, step);
        }
        for (index, output) in operation.outputs.iter().enumerate() {
            if is_kept(form.saved.outputs, index)
                && let Some(storage) = output.and_then(|output| self.storage(output))
            {
                self.keep_storage(storage, step);
            }
        }
    }

    fn keep_storage(&mut self, storage: u32, step: u32) {
        if let Some(storage) = self.walk.storages.get_mut(storage as usize)
            && storage.source != Source::Stored
        {
            storage.keeper.get_or_insert(step);
        }
    }

    pub(super) fn new_storage(&mut self, elements: u64, bits: u64, source: Source) -> u32 {
        let id = u32::try_from(self.walk.storages.len()).unwrap_or(u32::MAX);
        let step = u32::try_from(self.walk.steps.len()).unwrap_or(u32::MAX);
        self.walk.storages.push(Storage {
            bytes: elements.saturating_mul(bits).div_ceil(8),
            source,
            bits,
            made: step,
            last_read: step,
            keeper: None,
            gradient_from: None,
            is_output: false,
        });
        id
    }

    /// The storage of a tensor; that of one which no step makes is made here.
    pub(super) fn storage(&mut self, tensor: TensorId) -> Option<u32> {
        if let Some(storage) = self.storage_of.get(tensor.0 as usize).copied().flatten() {
            return Some(storage);
        }
        let found = self.lowering.analysis.program.tensor(tensor)?;
        let source = match found.origin {
            Origin::Stored(_) => Source::Stored,
            Origin::Input if found.graph == GraphId(0) => Source::Input,
            Origin::Input | Origin::Node(_) | Origin::Undefined => Source::Nothing,
        };
        self.given(tensor, source)
    }

    fn given(&mut self, tensor: TensorId, source: Source) -> Option<u32> {
        let sized = self.sizes.get(tensor)?;
        let bits = match source {
            // Parameters stay as they are until an operator casts them.
            Source::Stored | Source::Input if self.casts => u64::from(sized.element.bits()),
            _ => self.element_bits(sized.element),
        };
        let storage = self.new_storage(sized.elements(), bits, source);
        if let Some(slot) = self.storage_of.get_mut(tensor.0 as usize) {
            *slot = Some(storage);
        }
        Some(storage)
    }

    fn activation_bytes(&self, storage: u32) -> u64 {
        let storage = self.walk.storages.get(storage as usize);
        storage.filter(|storage| matches!(storage.source, Source::Step | Source::Input)).map_or(0, |found| found.bytes)
    }
}

/// Sorts the end of a list, each item once.
fn sort_tail(list: &mut Vec<u32>, start: usize) {
    let tail = list.get_mut(start..).unwrap_or_default();
    tail.sort_unstable();
    let mut kept = start;
    for place in start..list.len() {
        if kept == start || list.get(place) != list.get(kept - 1) {
            list.swap(place, kept);
            kept += 1;
        }
    }
    list.truncate(kept);
}

/// Names that exporters give to the keys and values that a decoder gives back.
fn is_present(name: &str) -> bool {
    name.to_lowercase().starts_with("present")
}
