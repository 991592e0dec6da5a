//! Which outputs are views of an input, and how what kernels write lies in memory.

use super::storages::Walker;
use super::strides;
use crate::ir::graph::TensorId;
use crate::ops::work::Sized;
use crate::ops::{Family, Work};
use crate::passes::compose::Operation;
use crate::passes::lower::Asked;

impl Walker<'_, '_> {
    /// Strides of a view; `None` where there is none, so that the elements are copied.
    pub(super) fn view(
        &self,
        op: &str,
        asked: &Asked<'_>,
        input: TensorId,
        from: Sized<'_>,
        to: Sized<'_>,
    ) -> Option<Vec<u64>> {
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
    pub(super) fn written(
        &self,
        operation: &Operation,
        asked: &Asked<'_>,
        works: &[Work],
        to: Sized<'_>,
    ) -> Option<Vec<u64>> {
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
}

fn without(list: &[u64], axis: usize) -> Vec<u64> {
    list.iter().enumerate().filter(|(index, _)| *index != axis).map(|(_, &item)| item).collect()
}
