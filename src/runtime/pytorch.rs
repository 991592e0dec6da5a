//! PyTorch in eager mode: a kernel for each operator, cuDNN and cuBLAS for products.

use super::kernel::Layout;
use super::{Allocation, Allocator, Attention, Fusion, Library, Overhead, Runtime, Tf32, Update, Version};
use crate::target::Strategy;

/// PyTorch, eager.
pub(super) static PYTORCH: Runtime = Runtime {
    name: "pytorch",
    title: "PyTorch",
    fusion: Fusion { folds_batch_norm: false, epilogue: false, chains: false, strided_views: true },
    trains: true,
    attention,
    tf32,
    layout: |_| Layout::ChannelsFirst,
    library: Library::Vendor,
    turns_filters: false,
    update: |version| if is_first_generation(version) { Update::PerTensor } else { Update::Grouped },
    overhead: |version| Overhead {
        launch_us: 1.5,
        // Convolutional networks of few samples take 28 to 40 µs an operator on a 3 GHz host, whatever the card; a
        // training step of version 1.7 took 125 more. Later versions are taken as somewhat quicker, gradients of theirs
        // being set to nothing instead of zero.
        host_forward_us: if is_first_generation(version) { 35.0 } else { 25.0 },
        host_backward_us: if is_first_generation(version) { 90.0 } else { 35.0 },
        host_update_us: if is_first_generation(version) { 25.0 } else { 4.0 },
        step_us: 300.0,
    },
    memory: Allocation { base_mib: 1731.0, allocator: Allocator::Caching },
    strategy: Strategy::Ddp,
    casts_by_operator: true,
    overlap: 0.5,
};

/// `scaled_dot_product_attention` came with 2.0.
pub(super) fn attention(version: Option<Version>) -> Attention {
    if version.is_some_and(|version| version < (2, 0)) { Attention::Eager } else { Attention::Fused }
}

/// Convolutions take TF32 since 1.7; matrix products took it until 1.11 only.
pub(super) fn tf32(version: Option<Version>) -> Tf32 {
    let since = version.is_none_or(|version| version >= (1, 7));
    Tf32 { convolutions: since, products: since && version.is_some_and(|version| version < (1, 12)) }
}

/// Before 2.0 gradients were zeroed and weights updated one tensor at a time.
fn is_first_generation(version: Option<Version>) -> bool {
    version.is_some_and(|version| version < (2, 0))
}
