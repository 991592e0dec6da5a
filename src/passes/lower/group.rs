//! Kernels of operations that run as one.

use std::collections::BTreeMap;

use super::fuse::Group;
use super::{Class, Item, Launch, Lowering};
use crate::engine::Mode;
use crate::ir::graph::TensorId;
use crate::ir::hash::HashSet;
use crate::ops::work::{Family, Work};
use crate::runtime::{Kernel, Layout, Pass};

/// What a group launches; `None` for a group without members.
pub(super) fn launch_of(lowering: &Lowering<'_>, items: &[Item<'_>], group: &Group, readers: &[u32]) -> Option<Launch> {
    let members: Vec<&Item<'_>> = group.members.iter().filter_map(|&index| items.get(index)).collect();
    let (first, rest) = members.split_first()?;
    let mut launch = Launch { layer: first.operation.layer, host_operators: first.runs, ..Launch::default() };
    if group.class == Class::View {
        launch.host_operators *= VIEW_SHARE;
        return Some(launch);
    }
    if let Some(input) = group.copied {
        copy(lowering, first, input, &mut launch);
    }
    if rest.is_empty() {
        // A copy that only strides ask for moves what the view would have shown.
        let was_view = first.forward.is_empty() || first.class == Class::View;
        if was_view && group.class == Class::Move {
            if let Some(output) = first.operation.outputs.first().copied().flatten() {
                copy(lowering, first, output, &mut launch);
            }
            return Some(launch);
        }
        turn_filter(lowering, first, &mut launch);
        launch.kernels.extend(first.forward.iter().map(|work| lowering.kernel(first, work, Pass::Forward)));
        launch.kernels.extend(first.backward.iter().map(|(work, pass)| lowering.kernel(first, work, *pass)));
        sum_gradients(lowering, first, readers, &mut launch);
        return Some(launch);
    }
    fused(lowering, &members, readers, &mut launch);
    Some(launch)
}

/// What the host spends on a view, beside an operator that launches a kernel.
const VIEW_SHARE: f64 = 0.3;

/// A copy of as much as a tensor, forward, and of its gradient, backward.
fn copy(lowering: &Lowering<'_>, item: &Item<'_>, output: TensorId, launch: &mut Launch) {
    let Some(sized) = lowering.sizes.get(output) else { return };
    let bytes = lowering.bytes(output);
    let work = Work {
        family: Family::Copy { elements: sized.elements() },
        flops: 0.0,
        bytes_read: bytes,
        bytes_written: bytes,
        operands: [None; 2],
    };
    let mut kernel = lowering.kernel(item, &work, Pass::Forward);
    (kernel.bytes_read, kernel.bytes_written) = (bytes, bytes);
    launch.kernels.push(kernel);
    let train = lowering.target.mode == Mode::Train;
    let input = item.operation.inputs.first().copied().flatten();
    if train && input.is_some_and(|input| lowering.needs_gradient(input)) {
        launch.kernels.push(Kernel { pass: Pass::Backward, ..kernel });
    }
}

/// A tensor that several operations read has a gradient from each: they are added two by two.
fn sum_gradients(lowering: &Lowering<'_>, item: &Item<'_>, readers: &[u32], launch: &mut Launch) {
    if lowering.target.mode != Mode::Train {
        return;
    }
    for &output in item.operation.outputs.iter().flatten().filter(|&&output| lowering.needs_gradient(output)) {
        let sums = readers.get(output.0 as usize).copied().unwrap_or(0).saturating_sub(1);
        let Some(sized) = lowering.sizes.get(output).filter(|_| sums > 0) else { continue };
        let bytes = lowering.bytes(output);
        let work = Work {
            family: Family::Elementwise { elements: sized.elements() },
            flops: sized.elements() as f64,
            bytes_read: 2.0 * bytes,
            bytes_written: bytes,
            operands: [None; 2],
        };
        let mut kernel = lowering.kernel(item, &work, Pass::Backward);
        (kernel.bytes_read, kernel.bytes_written) = (work.bytes_read, work.bytes_written);
        kernel.runs *= f64::from(sums);
        launch.kernels.push(kernel);
    }
}

/// Bytes that memory moves for an element that stands alone: a burst.
const BURST_BYTES: f64 = 64.0;

/// Where filters are stored with channels last, each convolution with channels first has its filter turned, forward and
/// for the gradient of the data, and the filter's gradient turned back. One side of the turn takes a burst of memory for
/// each element.
fn turn_filter(lowering: &Lowering<'_>, item: &Item<'_>, launch: &mut Launch) {
    let runtime = lowering.target.runtime;
    let turns = item.forward.iter().any(|work| {
        matches!(work.family, Family::Convolution(convolution) if convolution.groups <= 1 && !convolution.is_pointwise())
    });
    if !runtime.turns_filters || !turns || lowering.layout(item.precision) != Layout::ChannelsFirst {
        return;
    }
    let Some(weight) = item.operation.inputs.get(1).copied().flatten() else { return };
    let Some(sized) = lowering.sizes.get(weight) else { return };
    let elements = sized.elements();
    let mut passes = vec![Pass::Forward];
    passes.extend(item.backward.iter().map(|(_, pass)| *pass));
    let bytes = lowering.bytes(weight);
    for pass in passes {
        let work = Work {
            family: Family::Copy { elements },
            flops: 0.0,
            bytes_read: elements as f64 * BURST_BYTES,
            bytes_written: bytes,
            operands: [None; 2],
        };
        let mut kernel = lowering.kernel(item, &work, pass);
        (kernel.bytes_read, kernel.bytes_written) = (work.bytes_read, work.bytes_written);
        launch.kernels.push(kernel);
    }
}

/// One kernel forward and, where gradients are needed, one backward beside those of the products: tensors inside stay in
/// registers unless the backward pass or somebody else needs them.
fn fused(lowering: &Lowering<'_>, members: &[&Item<'_>], readers: &[u32], launch: &mut Launch) {
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
            if position < 64 && member.saved.inputs >> position & 1 == 1 {
                saved.insert(tensor);
            }
        }
        for (position, tensor) in member.operation.outputs.iter().enumerate() {
            if let Some(tensor) = *tensor
                && position < 64
                && member.saved.outputs >> position & 1 == 1
            {
                saved.insert(tensor);
            }
        }
        extra += member.saved.extra_bytes as f64;
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
    let sum = |tensors: &mut dyn Iterator<Item = TensorId>| tensors.map(|tensor| lowering.bytes(tensor)).sum::<f64>();
    let reads = sum(&mut read.iter().copied());
    let writes = sum(&mut written.iter().copied());

    let main = members
        .iter()
        .find(|member| matches!(member.class, Class::Product))
        .or_else(|| members.iter().find(|member| matches!(member.class, Class::Rows | Class::BatchNorm)))
        .unwrap_or(first);
    turn_filter(lowering, main, launch);
    // Statistics over the batch need a walk of their own before the elements are used.
    let walks = if main.class == Class::BatchNorm && lowering.target.mode == Mode::Train { 2.0 } else { 1.0 };
    let flops = |works: &mut dyn Iterator<Item = f64>| works.sum::<f64>();
    if let Some(work) = main.forward.first() {
        let mut kernel = lowering.kernel(main, work, Pass::Forward);
        kernel.flops = flops(&mut members.iter().flat_map(|member| &member.forward).map(|work| work.flops));
        (kernel.bytes_read, kernel.bytes_written) = (reads * walks, writes);
        launch.kernels.push(kernel);
    }
    let backwards = || members.iter().flat_map(|member| &member.backward);
    let products = || {
        members
            .iter()
            .filter(|member| member.class == Class::Product)
            .flat_map(|member| member.backward.iter().map(move |(work, pass)| (*member, work, *pass)))
    };
    launch.kernels.extend(products().map(|(member, work, pass)| lowering.kernel(member, work, pass)));
    let product = products().next().is_some();
    if let (Some((work, _)), false) = (main.backward.first().or_else(|| backwards().next()), product) {
        let mut kernel = lowering.kernel(main, work, Pass::Backward);
        kernel.flops = flops(&mut backwards().map(|(work, _)| work.flops));
        // What stays inside is computed again; what was written is read, with the gradients of what was written.
        let kept = saved.iter().filter(|tensor| !made.contains(tensor) || written.contains(tensor));
        let mut kept: Vec<TensorId> = kept.copied().collect();
        kept.sort_unstable();
        let gradients = read.iter().copied().filter(|&tensor| lowering.needs_gradient(tensor));
        kernel.bytes_read = (writes + sum(&mut kept.into_iter())) * walks + extra;
        kernel.bytes_written = sum(&mut gradients.collect::<Vec<_>>().into_iter());
        launch.kernels.push(kernel);
    }
}
