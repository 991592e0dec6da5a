//! TensorRT: inference only; the whole network is planned, pointwise chains are generated, layouts chosen by layer.

use super::kernel::Layout;
use super::{Allocation, Allocator, Attention, Fusion, Library, Overhead, Runtime, Tf32, Update};
use crate::device::Precision;
use crate::target::Strategy;

/// TensorRT.
pub(super) static TENSORRT: Runtime = Runtime {
    name: "tensorrt",
    title: "TensorRT",
    fusion: Fusion { folds_batch_norm: true, epilogue: true, chains: true, strided_views: false },
    trains: false,
    attention: |_| Attention::Fused,
    tf32: |_| Tf32 { convolutions: true, products: true },
    layout: |precision| match precision {
        Precision::Fp32 | Precision::Tf32 => Layout::ChannelsFirst,
        _ => Layout::ChannelsLast,
    },
    library: Library::TensorRt,
    turns_filters: false,
    update: |_| Update::Fused,
    overhead: |_| Overhead {
        launch_us: 1.0,
        host_forward_us: 3.0,
        host_backward_us: 3.0,
        host_update_us: 1.0,
        step_us: 30.0,
    },
    memory: Allocation { base_mib: 600.0, allocator: Allocator::Planned },
    strategy: Strategy::Ddp,
    casts_by_operator: false,
    overlap: 0.0,
};
