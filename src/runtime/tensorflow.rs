//! TensorFlow in graph mode without XLA: a kernel for each operator, bias and activation behind a convolution fused in
//! inference, gradients reduced after the backward pass.

use super::kernel::Layout;
use super::{Allocation, Allocator, Attention, Fusion, Library, Overhead, Runtime, Tf32, Update};
use crate::device::Precision;
use crate::target::Strategy;

/// TensorFlow.
pub(super) static TENSORFLOW: Runtime = Runtime {
    name: "tensorflow",
    title: "TensorFlow",
    fusion: Fusion { folds_batch_norm: false, epilogue: true, chains: false, strided_views: false },
    trains: true,
    attention: |_| Attention::Eager,
    // On since 2.4 for all products; there was no Ampere before it.
    tf32: |version| {
        let on = version.is_none_or(|version| version >= (2, 4));
        Tf32 { convolutions: on, products: on }
    },
    layout: |precision| match precision {
        Precision::Fp16 | Precision::Bf16 => Layout::ChannelsLast,
        _ => Layout::ChannelsFirst,
    },
    library: Library::Vendor,
    turns_filters: true,
    update: |_| Update::PerTensor,
    overhead: |_| Overhead {
        launch_us: 2.0,
        host_forward_us: 10.0,
        host_backward_us: 10.0,
        host_update_us: 8.0,
        step_us: 600.0,
    },
    memory: Allocation { base_mib: 900.0, allocator: Allocator::BestFit },
    strategy: Strategy::Mirrored,
    // One all-reduce after the backward pass.
    casts_by_operator: false,
    overlap: 0.0,
};
