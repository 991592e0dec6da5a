//! What a report holds for: device, runtime, precision, optimizer, replicas. A [`Request`] is what a user said; a
//! [`Target`] is what is priced, with a value for everything.

use std::sync::Arc;

use crate::device::{Device, Interconnect, Precision};
use crate::engine::Mode;
use crate::runtime::{Attention, Runtime, Version};

/// Options about the target, as far as a user gave them.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The device.
    pub gpu: Option<ChosenGpu>,
    /// Samples over all replicas.
    pub global_batch: Option<u64>,
    /// Compute precision.
    pub precision: Option<Compute>,
    /// Optimizer.
    pub optimizer: Option<Optimizer>,
    /// Runtime and version.
    pub runtime: Option<(&'static Runtime, Option<Version>)>,
    /// How attention is computed.
    pub attention: Option<Attention>,
    /// Devices that train together.
    pub replicas: Option<u32>,
    /// Hosts that they stand in.
    pub hosts: Option<u32>,
    /// How they work together.
    pub strategy: Option<Strategy>,
    /// What joins them.
    pub interconnect: Option<&'static Interconnect>,
    /// Which activations are computed again in the backward pass.
    pub recompute: Option<Recompute>,
    /// Samples of an epoch.
    pub samples: Option<u64>,
    /// Epochs.
    pub epochs: Option<u64>,
    /// US dollars for an hour of one device.
    pub price: Option<f64>,
    /// Milliseconds that the input of a step takes to load.
    pub input_ms: Option<f64>,
    /// Samples a second that the input can deliver.
    pub input_samples_per_s: Option<f64>,
}

/// A device that was chosen, and how sure the choice is.
#[derive(Clone, Debug)]
pub struct ChosenGpu {
    /// The device.
    pub device: Arc<Device>,
    /// What to say about how the name was understood.
    pub note: Option<String>,
    /// Whether the name leaves open which board is meant: intervals are wider then.
    pub uncertain: bool,
}

/// What numbers are computed in, as an option says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute {
    /// fp32 everywhere, TF32 off.
    Fp32,
    /// fp32 in memory, products on tensor cores with TF32.
    Tf32,
    /// fp16 everywhere.
    Fp16,
    /// bf16 everywhere.
    Bf16,
    /// Automatic mixed precision: products in 16 bits, weights in fp32.
    Amp,
    /// Products in fp8, the rest in bf16.
    Fp8,
    /// Products in int8.
    Int8,
}

impl Compute {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 7] = [
        ("fp32", Self::Fp32),
        ("tf32", Self::Tf32),
        ("fp16", Self::Fp16),
        ("bf16", Self::Bf16),
        ("amp", Self::Amp),
        ("fp8", Self::Fp8),
        ("int8", Self::Int8),
    ];

    /// `amp`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, compute)| *compute == self).map_or("fp32", |(name, _)| name)
    }

    /// Bits of a floating-point activation in memory.
    #[must_use]
    pub fn activation_bits(self) -> u64 {
        match self {
            Self::Fp32 | Self::Tf32 => 32,
            Self::Fp16 | Self::Bf16 | Self::Amp | Self::Fp8 | Self::Int8 => 16,
        }
    }

    /// Bits of a floating-point weight in memory.
    #[must_use]
    pub fn weight_bits(self) -> u64 {
        match self {
            Self::Fp32 | Self::Tf32 | Self::Amp => 32,
            Self::Fp16 | Self::Bf16 => 16,
            Self::Fp8 | Self::Int8 => 8,
        }
    }

    /// What products are computed in on a device: 16 bits are fp16 before Ampere and bf16 is asked for by name.
    #[must_use]
    pub fn product(self) -> Precision {
        match self {
            Self::Fp32 => Precision::Fp32,
            Self::Tf32 => Precision::Tf32,
            Self::Fp16 | Self::Amp => Precision::Fp16,
            Self::Bf16 => Precision::Bf16,
            Self::Fp8 => Precision::Fp8,
            Self::Int8 => Precision::Int8,
        }
    }

    /// What all other kernels compute in.
    #[must_use]
    pub fn other(self) -> Precision {
        match self {
            Self::Fp32 | Self::Tf32 => Precision::Fp32,
            Self::Fp16 | Self::Amp | Self::Int8 => Precision::Fp16,
            Self::Bf16 | Self::Fp8 => Precision::Bf16,
        }
    }
}

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
    /// Kept at the borders of about √n segments.
    Sqrt,
    /// Only the inputs of the network are kept.
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

/// What is priced.
#[derive(Clone, Debug)]
pub struct Target {
    /// The device.
    pub device: Arc<Device>,
    /// Whether the device's name left open which board is meant.
    pub uncertain: bool,
    /// Training or inference.
    pub mode: Mode,
    /// Samples per replica; `None` when the model has no batch.
    pub batch: Option<u64>,
    /// Compute precision.
    pub precision: Compute,
    /// Optimizer; `none` in inference.
    pub optimizer: Optimizer,
    /// Runtime.
    pub runtime: &'static Runtime,
    /// Its version; the newest that is described when not given.
    pub version: Option<Version>,
    /// How attention is computed.
    pub attention: Attention,
    /// Devices that work together, at least 1.
    pub replicas: u32,
    /// Hosts that they stand in, at least 1.
    pub hosts: u32,
    /// How they work together.
    pub strategy: Strategy,
    /// What joins the devices of a host.
    pub interconnect: &'static Interconnect,
    /// Which activations are computed again.
    pub recompute: Recompute,
}
