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
