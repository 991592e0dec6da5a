//! PyTorch in eager mode: a kernel for each operator, cuDNN and cuBLAS for products.

use super::kernel::Layout;
use super::{Allocation, Allocator, Attention, Fusion, Library, Overhead, Runtime, Tf32, Update, Version};
use crate::target::Strategy;

/// PyTorch, eager.
pub(super) static PYTORCH: Runtime = Runtime {
    name: "pytorch",
    title: "PyTorch",
    fusion: Fusion { folds_batch_norm: false, epilogue: false, chains: false, strided_views: true, quantised: false },
    trains: true,
    attention,
    tf32,
    layout: |_| Layout::ChannelsFirst,
    library: Library::Vendor,
    update: Update::Grouped,
    overhead: Overhead {
        launch_us: 1.5,
        host_forward_us: 9.0,
        host_backward_us: 11.0,
        host_update_us: 4.0,
        step_us: 200.0,
    },
    memory: Allocation { base_mib: 1500.0, allocator: Allocator::Caching },
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
