//! Which tensors are in memory when: what the backward pass keeps, and the moment at which most memory is held. Bytes of
//! tensors only; parameters, gradients of weights, state of the optimizer and scratch memory are added by
//! [`crate::predict::memory`].

mod casting;
mod segments;
mod storages;
mod timeline;

use crate::engine::Mode;
use crate::passes::lower::{Forms, Lowering};
use crate::passes::strides::Strides;
use crate::target::Recompute;
use timeline::Clock;

/// Memory of the tensors that flow through a network, bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Liveness {
    /// All that is kept for the backward pass, at its start.
    pub saved: u64,
    /// By layer: what it keeps and no earlier one does.
    pub saved_by_layer: Vec<u64>,
    /// The moment at which most is held.
    pub peak: Moment,
    /// Keys and values of earlier tokens.
    pub cache: u64,
    /// Inputs and outputs of the largest operation.
    pub largest_operation: u64,
    /// Inputs and outputs of the largest convolution of several taps.
    pub largest_convolution: u64,
    /// Tensors that the passes make, one after the other.
    pub tensors: u64,
    /// Whether anything multiplies matrices.
    pub multiplies: bool,
}

/// What is held at a moment, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Kept for the backward pass.
    pub saved: u64,
    /// Everything else: what is about to be read, gradients of activations, 16-bit copies of weights.
    pub transient: u64,
}

impl Moment {
    /// Both together.
    #[must_use]
    pub fn total(self) -> u64 {
        self.saved.saturating_add(self.transient)
    }
}

/// Follows the tensors of a step.
#[must_use]
pub fn live(lowering: &Lowering<'_>, forms: &Forms<'_>, strides: &Strides) -> Liveness {
    let walk = storages::walk(lowering, forms, strides);
    let training = lowering.target.mode == Mode::Train;
    let recompute = if training { lowering.target.recompute } else { Recompute::None };
    let segments = segments::segments(&walk, lowering.analysis, recompute);
    let clock = Clock::new(walk.steps.len(), &segments, training, recompute != Recompute::None);
    let mut liveness = timeline::follow(&walk, &clock, training);
    liveness.saved_by_layer.resize(lowering.analysis.layers.len(), 0);
    liveness
}
