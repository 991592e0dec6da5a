//! PyTorch under `torch.compile`: elementwise chains, normalisations and reductions become generated kernels; products
//! stay with cuDNN and cuBLAS.

use super::kernel::Layout;
use super::{Allocation, Allocator, Fusion, Library, Overhead, Runtime, Update, pytorch};
use crate::device::Precision;
use crate::target::Strategy;

/// PyTorch, compiled.
pub(super) static PYTORCH_COMPILE: Runtime = Runtime {
    name: "pytorch-compile",
    title: "PyTorch compiled",
    fusion: Fusion { folds_batch_norm: false, epilogue: false, chains: true, strided_views: true },
    trains: true,
    attention: pytorch::attention,
    tf32: pytorch::tf32,
    layout: |precision| match precision {
        Precision::Fp16 | Precision::Bf16 => Layout::ChannelsLast,
        _ => Layout::ChannelsFirst,
    },
    library: Library::Vendor,
    turns_filters: false,
    update: |_| Update::Fused,
    overhead: |_| Overhead {
        launch_us: 1.5,
        host_forward_us: 8.0,
        host_backward_us: 8.0,
        host_update_us: 0.5,
        step_us: 250.0,
    },
    memory: Allocation { base_mib: 1731.0, allocator: Allocator::Caching },
    strategy: Strategy::Ddp,
    casts_by_operator: true,
    overlap: 0.5,
};
