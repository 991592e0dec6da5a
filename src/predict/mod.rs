//! Predictions: what kernels take on a device, and what a whole network takes in time and memory. Training of
//! predictors is in `xtask`; this folder only evaluates.

pub mod cards;
pub mod largest_batch;
pub mod learned;
pub mod memory;
pub mod network;
pub mod plans;
pub mod replicas;
pub mod roofline;

use crate::report::Interval;

/// What limits a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// Memory traffic.
    Memory,
    /// What every launch costs, however small.
    Launch,
}

impl Bound {
    /// `memory`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Launch => "launch",
        }
    }
}

/// Predicted time of one launch of a kernel, without the gap before the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Milliseconds.
    pub time_ms: Interval,
    /// What limits it.
    pub bound: Bound,
    /// Id of the predictor.
    pub model: &'static str,
    /// Whether the predictor has seen such kernels; `None` where it has seen none at all.
    pub in_domain: Option<bool>,
}
