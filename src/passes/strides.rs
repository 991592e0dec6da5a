//! How the elements of tensors lie in memory, as PyTorch keeps it: a transposition, slice or expansion only writes other
//! strides, and whether a reshape behind one is a view or a copy follows from them. Lowering asks it which copies run,
//! liveness which tensors share memory.

mod views;

use super::lower::{Forms, Lowering};
use crate::ir::graph::TensorId;
use crate::ops::work::product;

/// Which tensors are views, and the strides of tensors, in elements, in one list.
#[derive(Debug)]
pub struct Strides {
    list: Vec<u64>,
    /// Start and rank, by tensor.
    entries: Vec<Option<(u32, u32)>>,
    /// Whether a tensor is a view of the first input of the operation that makes it, by tensor.
    views: Vec<bool>,
}

impl Strides {
    /// Follows the operations of a forward pass.
    #[must_use]
    pub fn of(lowering: &Lowering<'_>, forms: &Forms<'_>) -> Self {
        let tensors = lowering.analysis.program.tensors.len();
        let mut strides = Self { list: Vec::new(), entries: vec![None; tensors], views: vec![false; tensors] };
        for item in forms.items().flatten().filter(|item| item.form.runs >= 1.0) {
            strides.outputs(&item);
        }
        strides
    }

    /// Whether a tensor is a view of the first input of the operation that makes it.
    pub(super) fn is_view(&self, tensor: TensorId) -> bool {
        self.views.get(tensor.0 as usize) == Some(&true)
    }

    /// Whether the elements of a tensor lie in the order of its dims.
    pub(super) fn is_in_order(&self, tensor: TensorId) -> bool {
        self.get(tensor).is_none()
    }

    /// Whether libraries can convolve a tensor where it lies: channels outermost or innermost of an image.
    pub(super) fn is_image(&self, tensor: TensorId, dims: &[u64]) -> bool {
        self.get(tensor).is_none_or(|strides| is_channels_last(dims, strides))
    }

    /// Whether libraries can multiply a tensor where it lies, as so many matrices one after the other: one, or one for
    /// each of its outer dims.
    pub(super) fn is_matrix(&self, tensor: TensorId, dims: &[u64], is_one: bool) -> bool {
        let (Some(strides), [.., middle, inner], 3..) = (self.get(tensor), dims, dims.len()) else { return true };
        let rows = product(dims).checked_div(*inner).unwrap_or_default();
        if is_one {
            return viewed(dims, strides, &[rows, *inner]).is_some();
        }
        let batch = rows.checked_div(*middle).unwrap_or_default();
        viewed(dims, strides, &[batch, *middle, *inner]).is_some()
    }

    /// Those of a tensor; `None` where they lie in order.
    fn get(&self, tensor: TensorId) -> Option<&[u64]> {
        let (start, rank) = self.entries.get(tensor.0 as usize).copied().flatten()?;
        self.list.get(start as usize..start as usize + rank as usize)
    }

    /// Those of a tensor with these dims.
    fn or_in_order(&self, tensor: TensorId, dims: &[u64]) -> Vec<u64> {
        match self.get(tensor) {
            Some(strides) if strides.len() == dims.len() => strides.to_vec(),
            _ => in_order(dims),
        }
    }

    /// Says how a tensor lies. What lies in order needs no entry.
    fn set(&mut self, tensor: TensorId, dims: &[u64], strides: &[u64]) {
        if is_in_order(dims, strides) {
            return;
        }
        let (Ok(start), Ok(rank)) = (u32::try_from(self.list.len()), u32::try_from(strides.len())) else { return };
        self.list.extend(strides);
        if let Some(entry) = self.entries.get_mut(tensor.0 as usize) {
            *entry = Some((start, rank));
        }
    }
}

/// Strides of elements that lie in the order of the dims.
fn in_order(dims: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; dims.len()];
    let mut stride = 1_u64;
    for (slot, dim) in strides.iter_mut().zip(dims).rev() {
        *slot = stride;
        stride = stride.saturating_mul((*dim).max(1));
    }
    strides
}

fn is_in_order(dims: &[u64], strides: &[u64]) -> bool {
    let mut stride = 1_u64;
    for (dim, found) in dims.iter().zip(strides).rev() {
        if *dim != 1 && *found != stride {
            return false;
        }
        stride = stride.saturating_mul((*dim).max(1));
    }
    true
}

/// Strides of a new tensor whose elements lie in the order of another's strides: what elementwise kernels write.
fn dense_like(dims: &[u64], strides: &[u64]) -> Vec<u64> {
    let mut axes: Vec<usize> = (0..dims.len()).collect();
    // Inner axes first; equal strides (axes of one element, or stretched ones) keep their order.
    axes.sort_by_key(|&axis| (strides.get(axis).copied(), std::cmp::Reverse(axis)));
    let mut dense = vec![1; dims.len()];
    let mut stride = 1_u64;
    for axis in axes {
        if let (Some(slot), Some(dim)) = (dense.get_mut(axis), dims.get(axis)) {
            *slot = stride;
            stride = stride.saturating_mul((*dim).max(1));
        }
    }
    dense
}

/// Strides of images whose channels lie innermost.
fn channels_last(dims: &[u64]) -> Vec<u64> {
    let Some((batch, [channels, extents @ ..])) = dims.split_first() else { return in_order(dims) };
    let mut moved = vec![*batch];
    moved.extend(extents);
    moved.push(*channels);
    let mut strides = in_order(&moved);
    if let Some(last) = strides.pop() {
        strides.insert(1.min(strides.len()), last);
    }
    strides
}

/// Whether images lie with their channels innermost.
fn is_channels_last(dims: &[u64], strides: &[u64]) -> bool {
    (4..=5).contains(&dims.len()) && !is_in_order(dims, strides) && {
        let wanted = channels_last(dims);
        dims.iter().zip(strides).zip(&wanted).all(|((dim, found), wanted)| *dim == 1 || found == wanted)
    }
}

/// Strides of the same elements under other dims; `None` where no strides show them so and they must be copied. The rule
/// is that of `torch.Tensor.view`: dims join where their elements follow each other.
fn viewed(dims: &[u64], strides: &[u64], wanted: &[u64]) -> Option<Vec<u64>> {
    if dims.contains(&0) || wanted.contains(&0) || dims.is_empty() {
        return Some(in_order(wanted));
    }
    let mut result = vec![0; wanted.len()];
    let mut open = wanted.iter().zip(result.iter_mut()).rev().peekable();
    let mut base = *strides.last()?;
    let (mut elements, mut shown) = (1_u64, 1_u64);
    let outer = dims.iter().zip(strides).rev().skip(1).map(Some).chain([None]);
    for (dim, next) in dims.iter().rev().zip(outer) {
        elements = elements.saturating_mul(*dim);
        let joins = next.is_some_and(|(dim, stride)| *dim == 1 || *stride == elements.saturating_mul(base));
        if joins {
            continue;
        }
        while let Some((wanted, slot)) = open.next_if(|(wanted, _)| shown < elements || **wanted == 1) {
            *slot = shown.saturating_mul(base);
            shown = shown.saturating_mul(*wanted);
        }
        if shown != elements {
            return None;
        }
        if let Some((_, stride)) = next {
            base = *stride;
            (elements, shown) = (1, 1);
        }
    }
    open.next().is_none().then_some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_an_attention_are_a_view_and_their_way_back_a_copy() {
        // Samples × tokens × (heads · size), cut into heads, transposed.
        let rows = viewed(&[2, 5, 12], &in_order(&[2, 5, 12]), &[2, 5, 3, 4]).unwrap();
        assert_eq!(rows, [60, 12, 4, 1]);
        let heads = [60, 4, 12, 1];
        assert_eq!(viewed(&[2, 3, 5, 4], &heads, &[6, 5, 4]), None);
        assert_eq!(viewed(&[2, 3, 5, 4], &heads, &[2, 3, 20]), None);
        // A transposition back makes them joinable again.
        assert_eq!(viewed(&[2, 5, 3, 4], &[60, 12, 4, 1], &[2, 5, 12]), Some(vec![60, 12, 1]));
    }

    #[test]
    fn dims_of_one_element_come_and_go() {
        assert_eq!(viewed(&[2, 7, 1, 1], &[7, 1, 1, 1], &[2, 7]), Some(vec![7, 1]));
        assert_eq!(viewed(&[2, 7], &[1, 2], &[2, 1, 7, 1]), Some(vec![1, 14, 2, 2]));
        assert_eq!(viewed(&[], &[], &[1, 1]), Some(vec![1, 1]));
    }

    #[test]
    fn elementwise_results_lie_as_their_input() {
        assert_eq!(dense_like(&[2, 3, 4], &[12, 1, 3]), [12, 1, 3]);
        // Half of the channels: dense again.
        assert_eq!(dense_like(&[2, 3, 4], &[24, 4, 1]), [12, 4, 1]);
        assert!(is_channels_last(&[2, 8, 3, 3], &channels_last(&[2, 8, 3, 3])));
        assert!(!is_channels_last(&[2, 8, 3, 3], &in_order(&[2, 8, 3, 3])));
    }
}
