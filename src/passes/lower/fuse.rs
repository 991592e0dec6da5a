//! Which operations become one kernel: by what the runtime fuses, along tensors that nothing else needs.

use super::group::launch_of;
use super::{Class, Item, Launch, Lowering};
use crate::engine::Mode;
use crate::ir::graph::{Origin, TensorId};
use crate::ir::hash::{HashMap, HashSet};

/// Operations that run as one: indices of items, in running order.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) members: Vec<usize>,
    /// What the others were joined to.
    pub(super) class: Class,
    /// An input whose elements must be put in order first.
    pub(super) copied: Option<TensorId>,
}

/// Joins what the runtime fuses and makes the launches.
pub(super) fn fuse(lowering: &Lowering<'_>, items: &[Item<'_>]) -> Vec<Launch> {
    let mut fuser = Fuser::new(lowering, items);
    for index in 0..items.len() {
        fuser.add(index);
    }
    let readers = fuser.readers;
    fuser.groups.iter().filter_map(|group| launch_of(lowering, items, group, &readers)).collect()
}

struct Fuser<'l, 'a> {
    lowering: &'l Lowering<'a>,
    items: &'l [Item<'a>],
    /// Nodes and graph outputs that read a tensor, by its id.
    readers: Vec<u32>,
    /// The group that makes a tensor.
    maker: HashMap<TensorId, usize>,
    groups: Vec<Group>,
    /// Tensors whose elements do not lie in order: transposed views.
    strided: HashSet<TensorId>,
}

impl<'l, 'a> Fuser<'l, 'a> {
    fn new(lowering: &'l Lowering<'a>, items: &'l [Item<'a>]) -> Self {
        let mut readers = vec![0_u32; lowering.analysis.program.tensors.len()];
        let inputs = items.iter().flat_map(|item| &item.operation.inputs);
        let outputs = lowering.analysis.program.graphs.iter().flat_map(|graph| &graph.outputs);
        for tensor in inputs.chain(outputs).flatten() {
            if let Some(count) = readers.get_mut(tensor.0 as usize) {
                *count = count.saturating_add(1);
            }
        }
        Self { lowering, items, readers, maker: HashMap::default(), groups: Vec::new(), strided: HashSet::default() }
    }

    fn add(&mut self, index: usize) {
        let Some(item) = self.items.get(index) else { return };
        let class = self.class(item);
        let copied = self.copied(item, class);
        let joined = match class {
            Class::View => None,
            _ => self.group_to_join(item, class),
        };
        let group = match joined {
            Some(group) => {
                if let Some(found) = self.groups.get_mut(group) {
                    found.members.push(index);
                    // A chain that takes in a reduction goes on as one.
                    if found.class == Class::Pointwise && class == Class::Rows {
                        found.class = Class::Rows;
                    }
                }
                group
            }
            None => {
                self.groups.push(Group { members: vec![index], class, copied });
                self.groups.len() - 1
            }
        };
        for &output in item.operation.outputs.iter().flatten() {
            self.maker.insert(output, group);
        }
    }

    /// The class of an item in this runtime: frameworks with strided tensors move nothing until somebody needs it.
    fn class(&mut self, item: &Item<'a>) -> Class {
        if !self.lowering.target.runtime.fusion.strided_views {
            return item.class;
        }
        let op = self.op(item);
        let strided = item.operation.inputs.first().copied().flatten().filter(|input| self.strided.contains(input));
        let output = item.operation.outputs.first().copied().flatten();
        match op {
            "Transpose" => {
                // The output of fused attention is laid out so that this transposition undoes another.
                let from_attention = self.is_made_by_attention(item);
                if let Some(output) = output.filter(|_| strided.is_none() && !from_attention) {
                    self.strided.insert(output);
                }
                Class::View
            }
            "Slice" | "Split" | "Expand" | "Squeeze" | "Unsqueeze" | "Identity" => {
                if strided.is_some() {
                    for &output in item.operation.outputs.iter().flatten() {
                        self.strided.insert(output);
                    }
                }
                Class::View
            }
            "Reshape" | "Flatten" if strided.is_some() => Class::Move,
            _ => item.class,
        }
    }

    /// The first input, where it is a strided view and the item wants its elements in order: rows, and products with a
    /// weight. Generated kernels read through strides.
    fn copied(&self, item: &Item<'a>, class: Class) -> Option<TensorId> {
        let input = item.operation.inputs.first().copied().flatten().filter(|input| self.strided.contains(input))?;
        let stored = |tensor: TensorId| {
            let origin = self.lowering.analysis.program.tensor(tensor).map(|tensor| tensor.origin);
            matches!(origin, Some(Origin::Stored(_)))
        };
        let wants = match class {
            Class::Rows => !self.lowering.target.runtime.fusion.chains,
            Class::Product => item.operation.inputs.get(1).copied().flatten().is_some_and(stored),
            _ => false,
        };
        wants.then_some(input)
    }

    fn op(&self, item: &Item<'a>) -> &'a str {
        let layer = self.lowering.analysis.layers.get(item.operation.layer);
        layer.and_then(|layer| self.lowering.analysis.node(layer)).map_or("", |node| &*node.op)
    }

    fn is_made_by_attention(&self, item: &Item<'a>) -> bool {
        let input = item.operation.inputs.first().copied().flatten();
        let group = input.and_then(|input| self.maker.get(&input)).and_then(|&group| self.groups.get(group));
        let made = group.and_then(|group| self.items.get(*group.members.last()?));
        made.is_some_and(|made| {
            made.forward.iter().any(|work| matches!(work.family, crate::ops::Family::Attention { .. }))
        })
    }

    /// The group whose kernel can take in an item.
    fn group_to_join(&self, item: &Item<'a>, class: Class) -> Option<usize> {
        let fusion = self.lowering.target.runtime.fusion;
        let infer = self.lowering.target.mode == Mode::Infer;
        // The largest input that is computed: along it, elements match.
        let computed = item.operation.inputs.iter().flatten().filter_map(|tensor| {
            let group = *self.maker.get(tensor)?;
            Some((*tensor, group, self.lowering.sizes.get(*tensor)?.elements()))
        });
        let (tensor, group, elements) = computed.max_by_key(|(_, group, elements)| (*elements, *group))?;
        let found = self.groups.get(group)?;
        let same_runs = found.members.first().and_then(|&first| self.items.get(first))?.runs == item.runs;
        let alone = self.readers.get(tensor.0 as usize) == Some(&1);
        let outputs = item.operation.outputs.iter().flatten();
        let output = outputs.filter_map(|&tensor| self.lowering.sizes.get(tensor)).map(|sized| sized.elements()).max();
        if !same_runs || found.members.len() >= MOST_MEMBERS {
            return None;
        }
        let folds = fusion.folds_batch_norm && infer && alone;
        if class == Class::BatchNorm && folds && found.class == Class::Product && found.members.len() == 1 {
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
