//! Which operations become one kernel: by what the runtime fuses, along tensors that nothing else needs.

use super::group::Launcher;
use super::{Class, Item, Lowering, Schedule};
use crate::engine::Mode;
use crate::ir::graph::{Origin, TensorId};
use crate::ops::Family;
use crate::passes::sizes::Sizes;
use crate::passes::strides::Strides;

/// Operations that run as one: indices of items, in running order.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) first: usize,
    pub(super) joined: Vec<usize>,
    /// What the others were joined to.
    pub(super) class: Class,
    /// Whether the elements of the first input must be put in order first.
    pub(super) copied: bool,
}

/// Joins what the runtime fuses and makes the launches.
pub(super) fn fuse(
    lowering: &Lowering<'_>,
    sizes: &Sizes<'_>,
    strides: &Strides,
    items: &[Item<'_>],
    schedule: &mut Schedule,
) {
    let mut fuser = Fuser::new(lowering, sizes, strides, items);
    for index in 0..items.len() {
        fuser.add(index);
    }
    let mut launcher = Launcher::new(lowering, sizes, items, &fuser.readers, schedule);
    for group in &fuser.groups {
        launcher.launch(group);
    }
}

struct Fuser<'l, 'a> {
    lowering: &'l Lowering<'a>,
    sizes: &'l Sizes<'a>,
    strides: &'l Strides,
    items: &'l [Item<'a>],
    /// Nodes and graph outputs that read a tensor, by its id.
    readers: Vec<u32>,
    /// The group that makes a tensor, by its id.
    maker: Vec<Option<u32>>,
    groups: Vec<Group>,
}

impl<'l, 'a> Fuser<'l, 'a> {
    fn new(lowering: &'l Lowering<'a>, sizes: &'l Sizes<'a>, strides: &'l Strides, items: &'l [Item<'a>]) -> Self {
        let tensors = lowering.analysis.program.tensors.len();
        let mut readers = vec![0_u32; tensors];
        let inputs = items.iter().flat_map(|item| &item.operation.inputs);
        let outputs = lowering.analysis.program.graphs.iter().flat_map(|graph| &graph.outputs);
        for tensor in inputs.chain(outputs).flatten() {
            if let Some(count) = readers.get_mut(tensor.0 as usize) {
                *count = count.saturating_add(1);
            }
        }
        let maker = vec![None; tensors];
        Self { lowering, sizes, strides, items, readers, maker, groups: Vec::new() }
    }

    fn add(&mut self, index: usize) {
        let Some(item) = self.items.get(index).copied() else { return };
        let class = self.class(&item);
        let copied = self.copied(&item, class);
        let joined = match class {
            Class::View => None,
            _ => self.group_to_join(&item, class),
        };
        let group = match joined {
            Some(group) => {
                if let Some(found) = self.groups.get_mut(group) {
                    found.joined.push(index);
                    // A chain that takes in a reduction goes on as one.
                    if found.class == Class::Pointwise && class == Class::Rows {
                        found.class = Class::Rows;
                    }
                }
                group
            }
            None => {
                self.groups.push(Group { first: index, joined: Vec::new(), class, copied });
                self.groups.len() - 1
            }
        };
        for &output in item.operation.outputs.iter().flatten() {
            if let Some(maker) = self.maker.get_mut(output.0 as usize) {
                *maker = u32::try_from(group).ok();
            }
        }
    }

    /// The class of an item in this runtime: frameworks with strided tensors move nothing until somebody needs it.
    fn class(&self, item: &Item<'a>) -> Class {
        if !self.lowering.target.runtime.fusion.strided_views {
            return item.form.class;
        }
        let output = item.operation.outputs.first().copied().flatten();
        match item.form.op {
            "Transpose" | "Slice" | "Split" | "Expand" | "Squeeze" | "Unsqueeze" | "Identity" => Class::View,
            "Reshape" | "Flatten" if !output.is_some_and(|output| self.strides.is_view(output)) => Class::Move,
            _ => item.form.class,
        }
    }

    /// Whether the elements of the first input must be put in order first: rows are walked through as they lie in memory,
    /// and libraries take images and matrices in a few orders. Generated kernels read through strides.
    fn copied(&self, item: &Item<'a>, class: Class) -> bool {
        let fusion = self.lowering.target.runtime.fusion;
        let (Some(Some(input)), Some(Some(sized))) = (item.operation.inputs.first(), item.form.inputs.first()) else {
            return false;
        };
        if !fusion.strided_views || self.strides.is_in_order(*input) {
            return false;
        }
        let stored = |tensor: TensorId| {
            let origin = self.lowering.analysis.program.tensor(tensor).map(|tensor| tensor.origin);
            matches!(origin, Some(Origin::Stored(_)))
        };
        match (class, item.form.forward.first().map(|work| work.family)) {
            (Class::Rows, Some(Family::Reduce { .. })) => false,
            (Class::Rows, _) => !fusion.chains,
            (Class::Product, Some(Family::Convolution(_))) => !self.strides.is_image(*input, sized.dims),
            (Class::Product, _) => {
                let weight = item.operation.inputs.get(1).copied().flatten();
                weight.is_some_and(stored) && !self.strides.is_matrix(*input, sized.dims, true)
            }
            _ => false,
        }
    }

    /// The group that makes a tensor.
    fn maker(&self, tensor: TensorId) -> Option<usize> {
        Some(self.maker.get(tensor.0 as usize).copied().flatten()? as usize)
    }

    /// The group whose kernel can take in an item.
    fn group_to_join(&self, item: &Item<'a>, class: Class) -> Option<usize> {
        let fusion = self.lowering.target.runtime.fusion;
        let infer = self.lowering.target.mode == Mode::Infer;
        if !(fusion.chains || infer && (fusion.epilogue || fusion.folds_batch_norm)) {
            return None;
        }
        // The largest input that is computed: along it, elements match.
        let computed = item.operation.inputs.iter().flatten().filter_map(|tensor| {
            let group = self.maker(*tensor)?;
            Some((*tensor, group, self.sizes.get(*tensor)?.elements()))
        });
        let (tensor, group, elements) = computed.max_by_key(|(_, group, elements)| (*elements, *group))?;
        let found = self.groups.get(group)?;
        let same_runs = self.items.get(found.first)?.form.runs == item.form.runs;
        let alone = self.readers.get(tensor.0 as usize) == Some(&1);
        let outputs = item.operation.outputs.iter().flatten();
        let output = outputs.filter_map(|&tensor| self.sizes.get(tensor)).map(|sized| sized.elements()).max();
        if !same_runs || found.joined.len() + 1 >= MOST_MEMBERS {
            return None;
        }
        let folds = fusion.folds_batch_norm && infer && alone;
        if class == Class::BatchNorm && folds && found.class == Class::Product && found.joined.is_empty() {
            return Some(group);
        }
        let unary_or_stored = || {
            let others = item.operation.inputs.iter().flatten().filter(|&&input| input != tensor);
            let mut others = others.filter(|&&input| {
                let origin = self.lowering.analysis.program.tensor(input).map(|tensor| tensor.origin);
                !matches!(origin, Some(Origin::Stored(_)))
            });
            others.next().is_none()
        };
        let epilogue = fusion.epilogue && infer && alone && found.class == Class::Product && output == Some(elements);
        if class == Class::Pointwise && epilogue && (fusion.folds_batch_norm || unary_or_stored()) {
            return Some(group);
        }
        if !fusion.chains {
            return None;
        }
        let generated = matches!(found.class, Class::Pointwise | Class::Rows | Class::BatchNorm | Class::Move);
        match class {
            Class::Pointwise if generated => (alone || output <= Some(elements)).then_some(group),
            Class::Rows if found.class == Class::Pointwise => Some(group),
            Class::Move if found.class == Class::Pointwise && alone => Some(group),
            Class::BatchNorm if found.class == Class::Pointwise && alone => Some(group),
            _ => None,
        }
    }
}

/// Generated kernels stop growing somewhere.
const MOST_MEMBERS: usize = 64;
