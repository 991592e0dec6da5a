//! Which outputs are views of an input, and how what kernels write lies in memory.

use super::{Strides, channels_last, dense_like, is_channels_last, viewed};
use crate::ir::graph::TensorId;
use crate::ops::Family;
use crate::ops::work::Sized;
use crate::passes::lower::{Form, Item};

impl Strides {
    /// Finds how the outputs of an operation lie.
    pub(super) fn outputs(&mut self, item: &Item<'_>) {
        let (operation, form) = (item.operation, item.form);
        let source = operation.inputs.first().copied().flatten().zip(form.inputs.first().copied().flatten());
        for (&output, sized) in operation.outputs.iter().zip(&form.outputs) {
            let (Some(output), Some(sized)) = (output, *sized) else { continue };
            let source = source.filter(|_| form.shares_storage);
            if let Some(strides) = source.and_then(|(input, from)| self.view(form, input, from, sized)) {
                self.set(output, sized.dims, &strides);
                if let Some(view) = self.views.get_mut(output.0 as usize) {
                    *view = true;
                }
            } else if let Some(strides) = self.written(item, sized) {
                self.set(output, sized.dims, &strides);
            }
        }
    }

    /// Strides of a view; `None` where there is none, so that the elements are copied.
    fn view(&self, form: &Form<'_>, input: TensorId, from: Sized<'_>, to: Sized<'_>) -> Option<Vec<u64>> {
        let strides = self.or_in_order(input, from.dims);
        if from.dims == to.dims {
            return Some(strides);
        }
        if let Some(order) = form.operator.permutation(from.dims.len()) {
            return order.iter().map(|&axis| strides.get(axis).copied()).collect();
        }
        match form.op {
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
            _ => viewed(from.dims, &strides, to.dims),
        }
    }

    /// Strides of what a kernel writes; `None` where it lies in order. Elementwise kernels write as they read; convolutions
    /// and what stands between them keep the channels where they are; attention writes as its query lies.
    fn written(&self, item: &Item<'_>, to: Sized<'_>) -> Option<Vec<u64>> {
        let (operation, form) = (item.operation, item.form);
        let (input, from) = (operation.inputs.first().copied()??, form.inputs.first().copied()??);
        match form.forward.first()?.family {
            Family::Elementwise { .. } => {
                let alike = operation.inputs.iter().zip(&form.inputs).find_map(|(input, sized)| {
                    let (input, sized) = ((*input)?, (*sized)?);
                    (sized.dims == to.dims).then(|| self.get(input)).flatten()
                });
                alike.map(|strides| dense_like(to.dims, strides))
            }
            Family::Convolution(_) | Family::BatchNorm { .. } | Family::Pool { .. } | Family::Copy { .. } => {
                let strides = self.get(input)?;
                is_channels_last(from.dims, strides).then(|| channels_last(to.dims))
            }
            Family::Attention { .. } if from.dims.len() == to.dims.len() => {
                self.get(input).map(|strides| dense_like(to.dims, strides))
            }
            _ => None,
        }
    }
}

fn without(list: &[u64], axis: usize) -> Vec<u64> {
    list.iter().enumerate().filter(|(index, _)| *index != axis).map(|(_, &item)| item).collect()
}
