//! Optimizers: what they keep for each weight, and what an update moves and computes.

use super::Compute;

/// An optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Optimizer {
    None,
    Sgd,
    Momentum,
    Adam,
    AdamW,
    RmsProp,
    Adagrad,
    Adadelta,
    Lamb,
    Lion,
}

impl Optimizer {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 10] = [
        ("none", Self::None),
        ("sgd", Self::Sgd),
        ("momentum", Self::Momentum),
        ("adam", Self::Adam),
        ("adamw", Self::AdamW),
        ("rmsprop", Self::RmsProp),
        ("adagrad", Self::Adagrad),
        ("adadelta", Self::Adadelta),
        ("lamb", Self::Lamb),
        ("lion", Self::Lion),
    ];

    /// `adamw`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, optimizer)| *optimizer == self).map_or("none", |(name, _)| name)
    }

    /// fp32 numbers that it keeps for each trained weight.
    #[must_use]
    pub fn slots(self) -> u64 {
        match self {
            Self::None | Self::Sgd => 0,
            Self::Momentum | Self::RmsProp | Self::Adagrad | Self::Lion => 1,
            Self::Adam | Self::AdamW | Self::Adadelta | Self::Lamb => 2,
        }
    }
}

/// Bytes that the update of one weight moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateTraffic {
    /// Read: weight, gradient, state.
    pub read: f64,
    /// Written: weight, state.
    pub written: f64,
}

impl Optimizer {
    /// Bytes that the update of one weight moves in one kernel; `None` without an optimizer.
    #[must_use]
    pub fn bytes_per_weight(self, precision: Compute) -> Option<UpdateTraffic> {
        if self == Self::None {
            return None;
        }
        let state = 4.0 * self.slots() as f64;
        // Where weights are in 16 bits, a master copy in fp32 is updated and cut.
        let (weight_read, weight_written, gradient) = match precision {
            Compute::Fp32 | Compute::Tf32 | Compute::Amp => (4.0, 4.0, 4.0),
            Compute::Fp16 | Compute::Bf16 | Compute::Fp8 | Compute::Int8 => (4.0, 6.0, 2.0),
        };
        Some(UpdateTraffic { read: weight_read + gradient + state, written: weight_written + state })
    }

    /// Operations for one weight.
    #[must_use]
    pub fn operations(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Sgd => 2.0,
            Self::Momentum | Self::Lion => 5.0,
            Self::RmsProp | Self::Adagrad => 9.0,
            Self::Adam | Self::AdamW | Self::Adadelta => 14.0,
            Self::Lamb => 20.0,
        }
    }

    /// Walks over all weights where each step of the formula is a kernel of its own over lists of tensors.
    #[must_use]
    pub fn steps(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Sgd => 1.0,
            Self::Momentum => 2.0,
            Self::RmsProp | Self::Adagrad | Self::Lion => 5.0,
            Self::Adam | Self::AdamW | Self::Adadelta => 7.0,
            Self::Lamb => 10.0,
        }
    }

    /// Traffic of those walks together, as a multiple of that of one fused kernel: intermediate lists go through memory.
    #[must_use]
    pub fn grouped_traffic(self) -> f64 {
        match self {
            Self::None | Self::Sgd => 1.0,
            Self::Momentum => 1.2,
            Self::RmsProp | Self::Adagrad | Self::Lion => 2.5,
            Self::Adam | Self::AdamW | Self::Adadelta | Self::Lamb => 2.6,
        }
    }
}
