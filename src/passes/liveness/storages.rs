//! Pieces of memory behind the tensors of a forward pass: views share one, and each is made, kept and read last by some
//! step.

use super::strides::{self, Strides};
use crate::engine::Mode;
use crate::ir::element_type::ElementType;
use crate::ir::graph::{GraphId, Origin, TensorId};
use crate::ir::hash::HashMap;
use crate::ops::work::{Sized, product};
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
    bits: u64,
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

/// How automatic casting treats an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Casting {
    /// Computes in 16 bits.
    Half,
    /// Computes in fp32.
    Full,
    /// Computes in the widest type of its inputs.
    Widest,
}

struct Walker<'l, 'a> {
    lowering: &'l Lowering<'a>,
    walk: Walk,
    storage_of: Vec<Option<u32>>,
    strides: Strides,
    weight_copies: HashMap<TensorId, u32>,
    training: bool,
    /// Whether each operator casts its inputs for itself.
    casts: bool,
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

    /// Strides of a view; `None` where there is none, so that the elements are copied.
    fn view(&self, op: &str, asked: &Asked<'_>, input: TensorId, from: Sized<'_>, to: Sized<'_>) -> Option<Vec<u64>> {
        let strides = self.strides.of(input, from.dims);
        if from.dims == to.dims {
            return Some(strides);
        }
        if let Some(order) = asked.operator.permutation(from.dims.len()) {
            return order.iter().map(|&axis| strides.get(axis).copied()).collect();
        }
        match op {
            "Slice" | "Split" if from.dims.len() == to.dims.len() => Some(strides),
            "Expand" => {
                let missing = to.dims.len().checked_sub(from.dims.len())?;
                let stretched = from.dims.iter().zip(to.dims.iter().skip(missing)).zip(&strides);
                let kept = stretched.map(|((from, to), stride)| if from == to { *stride } else { 0 });
                Some(std::iter::repeat_n(0, missing).chain(kept).collect())
            }
            // One index: its axis is gone.
            "Gather" | "Split" => {
                let axis = (0..from.dims.len()).find(|&axis| without(from.dims, axis) == to.dims)?;
                Some(without(&strides, axis))
            }
            _ => strides::viewed(from.dims, &strides, to.dims),
        }
    }

    /// Strides of what a kernel writes; `None` where it lies in order. Elementwise kernels write as they read; convolutions
    /// and what stands between them keep the channels where they are; attention writes as its query lies.
    fn written(&self, operation: &Operation, asked: &Asked<'_>, works: &[Work], to: Sized<'_>) -> Option<Vec<u64>> {
        let (input, from) = (operation.inputs.first().copied()??, asked.inputs.first().copied()??);
        match works.first()?.family {
            Family::Elementwise { .. } => {
                let alike = operation.inputs.iter().zip(&asked.inputs).find_map(|(input, sized)| {
                    let (input, sized) = ((*input)?, (*sized)?);
                    (sized.dims == to.dims).then(|| self.strides.get(input)).flatten()
                });
                alike.map(|strides| strides::dense_like(to.dims, strides))
            }
            Family::Convolution(_) | Family::BatchNorm { .. } | Family::Pool { .. } | Family::Copy { .. } => {
                let strides = self.strides.get(input)?;
                strides::is_channels_last(from.dims, strides).then(|| strides::channels_last(to.dims))
            }
            Family::Attention { .. } if from.dims.len() == to.dims.len() => {
                self.strides.get(input).map(|strides| strides::dense_like(to.dims, strides))
            }
            _ => None,
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

    /// The storage that is kept of an input: its own, or that of the copy which the operator works on.
    fn kept_form(
        &mut self,
        input: TensorId,
        sized: Sized<'_>,
        asked: &Asked<'_>,
        index: usize,
        casting: Casting,
        step: &mut Step,
    ) -> Option<u32> {
        let own = self.storage(input)?;
        let (bits, source) = self.walk.storages.get(own as usize).map(|own| (own.bits, own.source))?;
        if self.casts && sized.element.is_real() {
            let wanted = match casting {
                Casting::Half => 16,
                Casting::Full => 32,
                Casting::Widest => bits,
            };
            if wanted < bits && source == Source::Stored {
                return Some(self.weight_copy(input, sized));
            }
            if wanted != bits && source != Source::Stored {
                return Some(self.copy(sized.elements(), wanted, step));
            }
        }
        let is_matrices = casting == Casting::Half && self.multiplies_rows(asked, index);
        if is_matrices && source != Source::Stored && !self.is_matrix(input, sized, asked, index) {
            return Some(self.copy(sized.elements(), bits, step));
        }
        Some(own)
    }

    fn multiplies_rows(&self, asked: &Asked<'_>, index: usize) -> bool {
        index < 2
            && asked.inputs.len() <= 3
            && asked.inputs.iter().take(2).all(|input| input.is_some())
            && matches!(asked.operator.work(&asked.cx()).as_slice(), [Work { family: Family::Product { .. }, .. }])
    }

    /// Whether libraries can multiply a tensor where it lies: as one matrix with a matrix on the other side, else as a
    /// batch of them.
    fn is_matrix(&self, input: TensorId, sized: Sized<'_>, asked: &Asked<'_>, index: usize) -> bool {
        let Some(strides) = self.strides.get(input) else { return true };
        let other = asked.inputs.get(1 - index.min(1)).copied().flatten().map_or(0, |other| other.dims.len());
        let (rank, inner) = (sized.dims.len(), sized.dims.last().copied().unwrap_or(1));
        if rank <= 2 {
            return true;
        }
        let rows = product(sized.dims).checked_div(inner).unwrap_or_default();
        if other <= 2 {
            return strides::viewed(sized.dims, strides, &[rows, inner]).is_some();
        }
        let middle = sized.dim_from_end(1).unwrap_or(1);
        let batch = rows.checked_div(middle).unwrap_or_default();
        strides::viewed(sized.dims, strides, &[batch, middle, inner]).is_some()
    }

    /// A copy that an operator makes of an input.
    fn copy(&mut self, elements: u64, bits: u64, step: &mut Step) -> u32 {
        let storage = self.new_storage(elements, bits, Source::Step);
        step.makes.push(storage);
        storage
    }

    /// Casts a weight for a product; the copy stays until the forward pass ends, for whoever reads the weight again.
    fn cast_weight(&mut self, weight: TensorId, storage: u32, casting: Casting) {
        let stored = self.walk.storages.get(storage as usize).filter(|found| found.source == Source::Stored);
        let sized = self.lowering.sizes.get(weight).filter(|sized| sized.element.is_real());
        if let (true, Casting::Half, Some(stored), Some(sized)) = (self.casts, casting, stored, sized)
            && stored.bits > 16
        {
            self.weight_copy(weight, sized);
        }
    }

    fn weight_copy(&mut self, weight: TensorId, sized: Sized<'_>) -> u32 {
        if let Some(&copy) = self.weight_copies.get(&weight) {
            return copy;
        }
        let copy = self.new_storage(sized.elements(), 16, Source::WeightCopy);
        self.weight_copies.insert(weight, copy);
        copy
    }

    fn new_storage(&mut self, elements: u64, bits: u64, source: Source) -> u32 {
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
    fn storage(&mut self, tensor: TensorId) -> Option<u32> {
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

    /// Bits of an element where one precision holds for all operators.
    fn element_bits(&self, element: ElementType) -> u64 {
        let own = u64::from(element.bits());
        if element.is_real() && own >= 16 { own.min(self.lowering.target.precision.activation_bits()) } else { own }
    }

    fn output_bits(&self, operation: &Operation, element: ElementType, casting: Casting) -> u64 {
        let own = u64::from(element.bits());
        if !self.casts || !element.is_real() || own < 16 {
            return self.element_bits(element);
        }
        match casting {
            Casting::Half => 16,
            Casting::Full => own,
            Casting::Widest => {
                let inputs = operation.inputs.iter().flatten().filter_map(|&input| {
                    // Numbers of the code take the type of the tensor beside them.
                    let sized = self.lowering.sizes.get(input).filter(|sized| sized.element.is_real())?;
                    let storage = self.storage_of.get(input.0 as usize).copied().flatten()?;
                    let bits = self.walk.storages.get(storage as usize)?.bits;
                    (sized.elements() > 1).then_some(bits)
                });
                inputs.max().unwrap_or(own).min(own)
            }
        }
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

fn without(list: &[u64], axis: usize) -> Vec<u64> {
    list.iter().enumerate().filter(|(index, _)| *index != axis).map(|(_, &item)| item).collect()
}

/// What automatic casting does with an operator: products in 16 bits; normalisations but that of batches, softmax, sums,
/// powers and exponentials in fp32; the rest as its inputs are (lists of `torch.amp`, "CUDA Op-Specific Behavior").
fn casting(op: &str, works: &[Work]) -> Casting {
    if works.iter().any(|work| work.family.is_product()) {
        return Casting::Half;
    }
    let full = works.iter().any(|work| matches!(work.family, Family::LayerNorm { .. } | Family::Softmax { .. }));
    let named = matches!(
        op,
        "Exp"
            | "Log"
            | "Pow"
            | "Reciprocal"
            | "Softplus"
            | "Sinh"
            | "Cosh"
            | "Tan"
            | "Acos"
            | "Asin"
            | "ReduceSum"
            | "ReduceProd"
            | "ReduceL1"
            | "ReduceL2"
            | "CumSum"
    );
    if full || named { Casting::Full } else { Casting::Widest }
}
