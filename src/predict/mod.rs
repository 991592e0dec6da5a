//! Predictions: what kernels take on a device, and what a whole network takes in time and memory. Training of
//! predictors is in `xtask`; this folder only evaluates.

pub mod cards;
pub mod floor;
pub mod largest_batch;
pub mod learned;
pub mod memory;
pub mod network;
pub mod plans;
pub mod pricer;
pub mod replicas;
pub mod roofline;

use crate::report::Interval;

pub use pricer::PredictorId;

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
    /// Who says so.
    pub model: PredictorId,
    /// Whether a predictor of the family has seen such kernels; `None` where there is none of the family.
    pub in_domain: Option<bool>,
    /// The feature that lies farthest outside of what was seen.
    pub outside: Option<&'static str>,
}
