//! Kernels of operations that run as one.

use std::collections::BTreeMap;

use super::fuse::Group;
use super::{Class, Item, Launch, Lowering, Schedule};
use crate::engine::Mode;
use crate::ir::graph::TensorId;
use crate::ir::hash::{HashMap, HashSet};
use crate::ops::work::{Family, Function, Sized, Work};
use crate::passes::sizes::Sizes;
use crate::runtime::{Kernel, Layout, Pass};

/// Makes launches of groups.
pub(super) struct Launcher<'l, 'a> {
    lowering: &'l Lowering<'a>,
    sizes: &'l Sizes<'a>,
    items: &'l [Item<'a>],
    readers: &'l [u32],
    schedule: &'l mut Schedule,
    /// Lists that are there, by what they depend on.
    known: HashMap<Alone, usize>,
}

/// What decides the kernels of an operation that runs alone: its kind, its class in this runtime, whether its first input
/// is put in order, and how many read each output that has a gradient.
type Alone = (usize, Class, bool, Vec<u32>);

impl<'l, 'a> Launcher<'l, 'a> {
    pub(super) fn new(
        lowering: &'l Lowering<'a>,
        sizes: &'l Sizes<'a>,
        items: &'l [Item<'a>],
        readers: &'l [u32],
        schedule: &'l mut Schedule,
    ) -> Self {
        // Views launch nothing.
        schedule.lists.push(Vec::new());
        Self { lowering, sizes, items, readers, schedule, known: HashMap::default() }
    }

    /// Adds the launch of a group.
    pub(super) fn launch(&mut self, group: &Group) {
        let Some(first) = self.items.get(group.first) else { return };
        let mut launch =
            Launch { layer: first.operation.layer, list: 0, host_operators: self.lowering.runs(first.form) };
        if group.class == Class::View {
            launch.host_operators *= VIEW_SHARE;
        } else if group.joined.is_empty() {
            launch.list = self.alone(first, group);
        } else {
            let mut kernels = Vec::new();
            if group.copied {
                copy(self.lowering, first, first.form.inputs.first(), &mut kernels);
            }
            let joined = group.joined.iter().filter_map(|&index| self.items.get(index));
            let members: Vec<&Item<'_>> = std::iter::once(first).chain(joined).collect();
            self.fused(&members, &mut kernels);
            launch.list = self.add(kernels);
        }
        self.schedule.launches.push(launch);
    }

    fn add(&mut self, kernels: Vec<Kernel>) -> usize {
        self.schedule.lists.push(kernels);
        self.schedule.lists.len() - 1
    }

    /// The kernels of an operation that runs alone.
    fn alone(&mut self, item: &Item<'_>, group: &Group) -> usize {
        let key = (item.kind, group.class, group.copied, self.sums(item));
        if let Some(&list) = self.known.get(&key) {
            return list;
        }
        let (lowering, form) = (self.lowering, item.form);
        let mut kernels = Vec::new();
        if group.copied {
            copy(lowering, item, form.inputs.first(), &mut kernels);
        }
        // A copy that only strides ask for moves what the view would have shown.
        let was_view = form.forward.is_empty() || form.class == Class::View;
        if was_view && group.class == Class::Move {
            copy(lowering, item, form.outputs.first(), &mut kernels);
        } else {
            turn_filter(lowering, item, &mut kernels);
            kernels.extend(form.forward.iter().map(|work| lowering.kernel(form, work, Pass::Forward)));
            kernels.extend(form.backward.iter().map(|(work, pass)| lowering.kernel(form, work, *pass)));
            sum_gradients(lowering, item, &key.3, &mut kernels);
        }
        let list = self.add(kernels);
        self.known.insert(key, list);
        list
    }

    /// For each output how many gradients are added to the first; empty where none are.
    fn sums(&self, item: &Item<'_>) -> Vec<u32> {
        if self.lowering.target.mode != Mode::Train {
            return Vec::new();
        }
        let more = |output: &Option<TensorId>| {
            let output = output.filter(|&output| self.lowering.needs_gradient(output));
            let readers = output.and_then(|output| self.readers.get(output.0 as usize).copied());
            readers.unwrap_or(0).saturating_sub(1)
        };
        let outputs = &item.operation.outputs;
        if outputs.iter().all(|output| more(output) == 0) { Vec::new() } else { outputs.iter().map(more).collect() }
    }

    /// One kernel forward and, where gradients are needed, one backward beside those of the products: tensors inside stay in
    /// registers unless the backward pass or somebody else needs them.
    fn fused(&self, members: &[&Item<'_>], kernels: &mut Vec<Kernel>) {
        let (lowering, readers) = (self.lowering, self.readers);
        let Some(first) = members.first() else { return };
        let made: HashSet<TensorId> =
            members.iter().flat_map(|member| member.operation.outputs.iter().flatten().copied()).collect();
        let mut read: Vec<TensorId> = Vec::new();
        let mut read_inside = BTreeMap::<TensorId, u32>::new();
        let mut saved: HashSet<TensorId> = HashSet::default();
        let mut extra = 0.0;
        for member in members {
            for (position, tensor) in member.operation.inputs.iter().enumerate() {
                let Some(tensor) = *tensor else { continue };
                if made.contains(&tensor) {
                    *read_inside.entry(tensor).or_default() += 1;
                } else {
                    read.push(tensor);
                }
                if position < 64 && member.form.saved.inputs >> position & 1 == 1 {
                    saved.insert(tensor);
                }
            }
            for (position, tensor) in member.operation.outputs.iter().enumerate() {
                if let Some(tensor) = *tensor
                    && position < 64
                    && member.form.saved.outputs >> position & 1 == 1
                {
                    saved.insert(tensor);
                }
            }
            extra += member.form.saved.extra_bytes as f64;
        }
        read.sort_unstable();
        read.dedup();
        let escapes = |tensor: &TensorId| {
            let all = readers.get(tensor.0 as usize).copied().unwrap_or(0);
            let here = read_inside.get(tensor).copied().unwrap_or(0);
            all > here || here == 0
        };
        let mut written: Vec<TensorId> = made.iter().copied().filter(escapes).collect();
        // Sums run in one order, whatever the hash.
        written.sort_unstable();
        let sum = |tensors: &mut dyn Iterator<Item = TensorId>| {
            tensors.filter_map(|tensor| self.sizes.get(tensor)).map(|sized| lowering.bytes(sized)).sum::<f64>()
        };
        let reads = sum(&mut read.iter().copied());
        let writes = sum(&mut written.iter().copied());

        let main = members
            .iter()
            .find(|member| matches!(member.form.class, Class::Product))
            .or_else(|| members.iter().find(|member| matches!(member.form.class, Class::Rows | Class::BatchNorm)))
            .unwrap_or(first);
        turn_filter(lowering, main, kernels);
        // Statistics over the batch need a walk of their own before the elements are used.
        let walks = if main.form.class == Class::BatchNorm && lowering.target.mode == Mode::Train { 2.0 } else { 1.0 };
        let flops = |works: &mut dyn Iterator<Item = f64>| works.sum::<f64>();
        if let Some(work) = main.form.forward.first() {
            let mut kernel = lowering.kernel(main.form, work, Pass::Forward);
            kernel.flops = flops(&mut members.iter().flat_map(|member| &member.form.forward).map(|work| work.flops));
            (kernel.bytes_read, kernel.bytes_written) = (reads * walks, writes);
            kernels.push(kernel);
        }
        let backwards = || members.iter().flat_map(|member| &member.form.backward);
        let products = || {
            members
                .iter()
                .filter(|member| member.form.class == Class::Product)
                .flat_map(|member| member.form.backward.iter().map(move |(work, pass)| (*member, work, *pass)))
        };
        kernels.extend(products().map(|(member, work, pass)| lowering.kernel(member.form, work, pass)));
        let product = products().next().is_some();
        if let (Some((work, _)), false) = (main.form.backward.first().or_else(|| backwards().next()), product) {
            let mut kernel = lowering.kernel(main.form, work, Pass::Backward);
            kernel.flops = flops(&mut backwards().map(|(work, _)| work.flops));
            // What stays inside is computed again; what was written is read, with the gradients of what was written.
            let kept = saved.iter().filter(|tensor| !made.contains(tensor) || written.contains(tensor));
            let mut kept: Vec<TensorId> = kept.copied().collect();
            kept.sort_unstable();
            let gradients = read.iter().copied().filter(|&tensor| lowering.needs_gradient(tensor));
            kernel.bytes_read = (writes + sum(&mut kept.into_iter())) * walks + extra;
            kernel.bytes_written = sum(&mut gradients.collect::<Vec<_>>().into_iter());
            kernels.push(kernel);
        }
    }
}

/// What the host spends on a view, beside an operator that launches a kernel.
const VIEW_SHARE: f64 = 0.3;

/// A copy of as much as a tensor, forward, and of its gradient, backward.
fn copy(lowering: &Lowering<'_>, item: &Item<'_>, tensor: Option<&Option<Sized<'_>>>, kernels: &mut Vec<Kernel>) {
    let Some(sized) = tensor.copied().flatten() else { return };
    let bytes = lowering.bytes(sized);
    let work = Work {
        family: Family::Copy { elements: sized.elements() },
        flops: 0.0,
        bytes_read: bytes,
        bytes_written: bytes,
        operands: [None; 2],
    };
    let mut kernel = lowering.kernel(item.form, &work, Pass::Forward);
    (kernel.bytes_read, kernel.bytes_written) = (bytes, bytes);
    kernels.push(kernel);
    let train = lowering.target.mode == Mode::Train;
    let input = item.operation.inputs.first().copied().flatten();
    if train && input.is_some_and(|input| lowering.needs_gradient(input)) {
        kernels.push(Kernel { pass: Pass::Backward, ..kernel });
    }
}

/// A tensor that several operations read has a gradient from each: they are added two by two.
fn sum_gradients(lowering: &Lowering<'_>, item: &Item<'_>, sums: &[u32], kernels: &mut Vec<Kernel>) {
    for (sized, &sums) in item.form.outputs.iter().zip(sums) {
        let Some(sized) = sized.filter(|_| sums > 0) else { continue };
        let bytes = lowering.bytes(sized);
        let work = Work {
            family: Family::Elementwise { elements: sized.elements(), function: Function::Arithmetic },
            flops: sized.elements() as f64,
            bytes_read: 2.0 * bytes,
            bytes_written: bytes,
            operands: [None; 2],
        };
        let mut kernel = lowering.kernel(item.form, &work, Pass::Backward);
        (kernel.bytes_read, kernel.bytes_written) = (work.bytes_read, work.bytes_written);
        kernel.runs *= f64::from(sums);
        kernels.push(kernel);
    }
}

/// Bytes that memory moves for an element that stands alone: a burst.
const BURST_BYTES: f64 = 64.0;

/// Where filters are stored with channels last, each convolution with channels first has its filter turned, forward and
/// for the gradient of the data, and the filter's gradient turned back. One side of the turn takes a burst of memory for
/// each element.
fn turn_filter(lowering: &Lowering<'_>, item: &Item<'_>, kernels: &mut Vec<Kernel>) {
    let form = item.form;
    let runtime = lowering.target.runtime;
    let turns = form.forward.iter().any(|work| {
        matches!(work.family, Family::Convolution(convolution) if convolution.groups <= 1 && !convolution.is_pointwise())
    });
    if !runtime.turns_filters || !turns || lowering.layout(form.precision) != Layout::ChannelsFirst {
        return;
    }
    let Some(sized) = form.inputs.get(1).copied().flatten() else { return };
    let elements = sized.elements();
    let mut passes = vec![Pass::Forward];
    passes.extend(form.backward.iter().map(|(_, pass)| *pass));
    let bytes = lowering.bytes(sized);
    for pass in passes {
        let work = Work {
            family: Family::Copy { elements },
            flops: 0.0,
            bytes_read: elements as f64 * BURST_BYTES,
            bytes_written: bytes,
            operands: [None; 2],
        };
        let mut kernel = lowering.kernel(form, &work, pass);
        (kernel.bytes_read, kernel.bytes_written) = (work.bytes_read, work.bytes_written);
        kernels.push(kernel);
    }
}
