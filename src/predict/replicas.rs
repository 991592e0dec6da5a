//! What replicas add to a step: the all-reduce of the gradients, and what a strategy adds to the last layer and its loss.

use super::network::StepTime;
use crate::passes::lower::{Lowering, Schedule};

/// What replicas add to a step, ms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exchange {
    /// All-reduce of the gradients, hidden or not.
    pub all_reduce_ms: f64,
    /// What of it does not hide behind the backward pass.
    pub exposed_ms: f64,
    /// What the last layer, its loss and the mean over replicas cost above one device.
    pub mirrored_loss_ms: f64,
    /// What bounds the speedup.
    pub bound: &'static str,
}

/// Prices the exchange between replicas; all zero for one.
#[must_use]
pub fn exchange(_lowering: &Lowering<'_>, _schedule: &Schedule, _time: &StepTime) -> Exchange {
    Exchange { bound: "none", ..Exchange::default() }
}
