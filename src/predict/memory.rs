//! Memory of one device at the moment of the peak, by parts. The formulas are `docs/memory.md`.

use crate::passes::lower::Lowering;

/// Memory of one device, bytes. The parts are those at the moment of the peak.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Weights, statistics and constant tables.
    pub parameters: u64,
    /// Gradients of the weights.
    pub gradients: u64,
    /// State of the optimizer, master copies of weights included.
    pub optimizer: u64,
    /// Tensors kept for the backward pass.
    pub saved_activations: u64,
    /// Other tensors that are alive at the peak.
    pub transient: u64,
    /// Scratch memory of libraries, and what the allocator holds beyond live tensors: the middle.
    pub workspace: u64,
    /// The same, lower and upper end.
    pub workspace_range: [u64; 2],
    /// Buffers of collectives.
    pub communication: u64,
    /// Keys and values of earlier tokens.
    pub kv_cache: u64,
    /// What the process holds before the first tensor.
    pub framework: u64,
    /// Bytes that each layer keeps for the backward pass and no earlier one does, by its index.
    pub saved_by_layer: Vec<u64>,
}

impl Memory {
    /// What `nvidia-smi` shows.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.allocated().saturating_add(self.workspace).saturating_add(self.framework)
    }

    /// Live tensors.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        [
            self.parameters,
            self.gradients,
            self.optimizer,
            self.saved_activations,
            self.transient,
            self.communication,
            self.kv_cache,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

/// Memory of a target.
#[must_use]
pub fn estimate(_lowering: &Lowering<'_>) -> Memory {
    Memory::default()
}
