//! Pieces of memory behind the tensors of a forward pass: views share one, and each is made, kept and read last by some
//! step.

use super::casting::{Casting, casting};
use super::strides::Strides;
use crate::engine::Mode;
use crate::ir::graph::{GraphId, Origin, TensorId};
use crate::ir::hash::HashMap;
use crate::ops::work::product;
use crate::ops::{Family, Saved, Work};
use crate::passes::bind::is_past;
use crate::passes::compose::Operation;
use crate::passes::lower::{Asked, Lowering};
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
    /// Storages that it reads.
    pub(super) reads: Vec<u32>,
    /// Storages that it makes.
    pub(super) makes: Vec<u32>,
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
}

/// Walks through the operations of a forward pass.
pub(super) fn walk(lowering: &Lowering<'_>) -> Walk {
    let tensors = lowering.analysis.program.tensors.len();
    let mut walker = Walker {
        lowering,
        walk: Walk::default(),
        storage_of: vec![None; tensors],
        strides: Strides::with_tensors(tensors),
        weight_copies: HashMap::default(),
        training: lowering.target.mode == Mode::Train,
        casts: lowering.target.precision == Compute::Amp && lowering.target.runtime.casts_by_operator,
    };
    walker.inputs();
    for operation in lowering.operations {
        walker.operation(operation);
    }
    walker.outputs();
    walker.walk
}

pub(super) struct Walker<'l, 'a> {
    pub(super) lowering: &'l Lowering<'a>,
    pub(super) walk: Walk,
    pub(super) storage_of: Vec<Option<u32>>,
    pub(super) strides: Strides,
    pub(super) weight_copies: HashMap<TensorId, u32>,
    training: bool,
    /// Whether each operator casts its inputs for itself.
    pub(super) casts: bool,
}

impl<'a> Walker<'_, 'a> {
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

    fn operation(&mut self, operation: &'a Operation) {
        let Some(asked) = self.lowering.ask(operation) else { return };
        if asked.runs < 1.0 {
            return;
        }
        let cx = asked.cx();
        let works = asked.operator.work(&cx);
        let op = self.op(operation);
        let step = u32::try_from(self.walk.steps.len()).unwrap_or(u32::MAX);
        let mut found = Step { layer: operation.layer, runs: asked.runs as u64, ..Step::default() };
        let casting = casting(op, &works);
        for (input, &needs) in operation.inputs.iter().zip(&asked.needs_gradient) {
            let Some(tensor) = *input else { continue };
            let Some(storage) = self.storage(tensor) else { continue };
            found.reads.push(storage);
            self.cast_weight(tensor, storage, casting);
            if let Some(storage) = self.walk.storages.get_mut(storage as usize) {
                storage.last_read = step;
                if needs && cx.has_backward() {
                    storage.gradient_from = Some(step);
                }
            }
        }
        let is_view = asked.operator.shares_storage(&cx);
        self.make(operation, &asked, op, &works, is_view, &mut found);
        if self.training {
            let saved = asked.operator.saved(&cx);
            self.keep(operation, &asked, casting, saved, step, &mut found);
        }
        found.is_pointwise = matches!(works.as_slice(), [Work { family: Family::Elementwise { .. }, .. }]);
        found.hands_gradient_on = found.is_pointwise && matches!(op, "Add" | "Sum");
        found.is_product = works.iter().any(|work| work.family.is_product());
        found.is_convolution = works.iter().any(|work| match work.family {
            Family::Convolution(sizes) => product(&sizes.kernel) > 1 && !sizes.is_depthwise(),
            _ => false,
        });
        if !is_view {
            found.reads.sort_unstable();
            found.reads.dedup();
            let activations = found.reads.iter().chain(&found.makes);
            found.touched = activations.map(|&storage| self.activation_bytes(storage)).sum();
        }
        self.walk.steps.push(found);
    }

    /// Storages of the outputs: those of the first input where they are views of it.
    fn make(
        &mut self,
        operation: &Operation,
        asked: &Asked<'a>,
        op: &str,
        works: &[Work],
        is_view: bool,
        step: &mut Step,
    ) {
        let casting = casting(op, works);
        let source = operation.inputs.first().copied().flatten().zip(asked.inputs.first().copied().flatten());
        for (&output, sized) in operation.outputs.iter().zip(&asked.outputs) {
            let (Some(output), Some(sized)) = (output, *sized) else { continue };
            if is_view
                && let Some((input, from)) = source
                && let Some(strides) = self.view(op, asked, input, from, sized)
            {
                let storage = self.storage(input);
                if let Some(slot) = self.storage_of.get_mut(output.0 as usize) {
                    *slot = storage;
                }
                self.strides.set(output, sized.dims, &strides);
                continue;
            }
            let bits = self.output_bits(operation, sized.element, casting);
            let storage = self.new_storage(sized.elements(), bits, Source::Step);
            if let Some(slot) = self.storage_of.get_mut(output.0 as usize) {
                *slot = Some(storage);
            }
            if let Some(strides) = self.written(operation, asked, works, sized) {
                self.strides.set(output, sized.dims, &strides);
            }
            step.makes.push(storage);
        }
    }

    /// Notes what the backward pass of a step reads.
    fn keep(
        &mut self,
        operation: &Operation,
        asked: &Asked<'_>,
        casting: Casting,
        saved: Saved,
        step: u32,
        found: &mut Step,
    ) {
        found.extra = saved.extra_bytes;
        let is_kept = |bits: u64, index: usize| index < 64 && bits >> index & 1 == 1;
        for (index, (input, sized)) in operation.inputs.iter().zip(&asked.inputs).enumerate() {
            let (Some(input), Some(sized)) = (*input, *sized) else { continue };
            if !is_kept(saved.inputs, index) {
                continue;
            }
            let Some(storage) = self.kept_form(input, sized, asked, index, casting, found) else { continue };
            self.keep_storage(storage, step);
        }
        for (index, output) in operation.outputs.iter().enumerate() {
            if is_kept(saved.outputs, index)
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
        let sized = self.lowering.sizes.get(tensor)?;
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

    fn op(&self, operation: &Operation) -> &'a str {
        if operation.operator.is_some() {
            return "";
        }
        let analysis = self.lowering.analysis;
        analysis.layers.get(operation.layer).and_then(|layer| analysis.node(layer)).map_or("", |node| &*node.op)
    }
}

/// Names that exporters give to the keys and values that a decoder gives back.
fn is_present(name: &str) -> bool {
    name.to_lowercase().starts_with("present")
}
