//! How replicas work together, and what is computed again instead of being kept.

/// How replicas work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// TensorFlow's mirrored strategy: gradients are reduced after the backward pass, the loss over replicas.
    Mirrored,
    /// PyTorch's distributed data parallel: buckets are reduced during the backward pass.
    Ddp,
    /// Variables on one device, or the host, that all replicas read and write.
    CentralStorage,
    /// Variables on servers of their own.
    ParameterServer,
}

impl Strategy {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("mirrored", Self::Mirrored),
        ("ddp", Self::Ddp),
        ("central-storage", Self::CentralStorage),
        ("parameter-server", Self::ParameterServer),
    ];

    /// `mirrored`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, strategy)| *strategy == self).map_or("ddp", |(name, _)| name)
    }
}

/// What of a replica's training state is sharded over all of them: stages of ZeRO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Zero {
    /// Nothing: every replica holds all.
    #[default]
    None,
    /// State of the optimizer.
    Optimizer,
    /// And gradients.
    Gradients,
    /// And parameters.
    Parameters,
}

impl Zero {
    /// All of them by their numbers.
    pub const ALL: [(&'static str, Self); 4] =
        [("0", Self::None), ("1", Self::Optimizer), ("2", Self::Gradients), ("3", Self::Parameters)];

    /// 0 to 3.
    #[must_use]
    pub fn stage(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Optimizer => 1,
            Self::Gradients => 2,
            Self::Parameters => 3,
        }
    }
}

/// Which activations are computed again in the backward pass instead of being kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recompute {
    /// None: all are kept.
    #[default]
    None,
    /// Kept at the borders of about √n segments of n blocks.
    Sqrt,
    /// Kept at the borders of all blocks.
    All,
}

impl Recompute {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 3] = [("none", Self::None), ("sqrt", Self::Sqrt), ("all", Self::All)];

    /// `sqrt`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, recompute)| *recompute == self).map_or("none", |(name, _)| name)
    }
}
