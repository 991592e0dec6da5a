//! ONNX Runtime with its CUDA provider: graph optimisations fold batch normalisation, fuse normalisations, GELU,
//! attention and what follows a convolution; nothing is generated.

use super::kernel::Layout;
use super::{Allocation, Allocator, Attention, Fusion, Library, Overhead, Runtime, Tf32, Update};
use crate::target::Strategy;

/// ONNX Runtime.
pub(super) static ONNXRUNTIME: Runtime = Runtime {
    name: "onnxruntime",
    title: "ONNX Runtime",
    fusion: Fusion { folds_batch_norm: true, epilogue: true, chains: false, strided_views: false },
    // Its training packages ended with 1.19; they are priced as they were.
    trains: true,
    attention: |_| Attention::Fused,
    tf32: |_| Tf32 { convolutions: true, products: true },
    layout: |_| Layout::ChannelsFirst,
    library: Library::Vendor,
    turns_filters: false,
    update: |_| Update::Fused,
    overhead: |_| Overhead {
        launch_us: 1.5,
        host_forward_us: 7.0,
        host_backward_us: 7.0,
        host_update_us: 1.0,
        step_us: 100.0,
    },
    memory: Allocation { base_mib: 700.0, allocator: Allocator::BestFit },
    strategy: Strategy::Ddp,
    casts_by_operator: false,
    overlap: 0.5,
};
