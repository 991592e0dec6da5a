//! What a user said of the target.

use std::sync::Arc;

use super::{Cards, Compute, Optimizer, Recompute, Strategy, Zero};
use crate::device::{Device, Interconnect};
use crate::predict::learned::predictors::Predictors;
use crate::runtime::{Attention, Runtime, Version};

/// Options about the target, as far as a user gave them.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Devices, each of which is priced; none where the default is to be assumed.
    pub gpus: Vec<ChosenGpu>,
    /// Samples of a step over all replicas.
    pub global_batch: Option<u64>,
    /// Micro-batches of a step, of a replica.
    pub accumulate: Option<u32>,
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
    /// What of the training state is sharded over them.
    pub zero: Option<Zero>,
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
    /// Milliseconds that the input of a micro-batch takes to load.
    pub input_ms: Option<f64>,
    /// Samples a second that the input can deliver.
    pub input_samples_per_s: Option<f64>,
    /// What prices kernels, where it is not what is built in.
    pub predictors: Option<Arc<Predictors>>,
}

impl Request {
    /// This request, and where it says nothing, a wider one.
    #[must_use]
    pub fn over(self, wider: &Self) -> Self {
        Self {
            gpus: if self.gpus.is_empty() { wider.gpus.clone() } else { self.gpus },
            global_batch: self.global_batch.or(wider.global_batch),
            accumulate: self.accumulate.or(wider.accumulate),
            precision: self.precision.or(wider.precision),
            optimizer: self.optimizer.or(wider.optimizer),
            runtime: self.runtime.or(wider.runtime),
            attention: self.attention.or(wider.attention),
            replicas: self.replicas.or(wider.replicas),
            hosts: self.hosts.or(wider.hosts),
            strategy: self.strategy.or(wider.strategy),
            zero: self.zero.or(wider.zero),
            interconnect: self.interconnect.or(wider.interconnect),
            recompute: self.recompute.or(wider.recompute),
            samples: self.samples.or(wider.samples),
            epochs: self.epochs.or(wider.epochs),
            price: self.price.or(wider.price),
            input_ms: self.input_ms.or(wider.input_ms),
            input_samples_per_s: self.input_samples_per_s.or(wider.input_samples_per_s),
            predictors: self.predictors.or_else(|| wider.predictors.clone()),
        }
    }
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
    /// All cards of the run, where they were named together; `device` is the first of them.
    pub cards: Cards,
}

impl ChosenGpu {
    /// A device that is named alone and in full.
    #[must_use]
    pub fn of(device: Device) -> Self {
        Self { device: Arc::new(device), note: None, uncertain: false, cards: Cards::default() }
    }

    /// Its id, or that of all cards.
    #[must_use]
    pub fn id(&self) -> String {
        if self.cards.is_empty() { self.device.id.clone() } else { self.cards.id() }
    }
}
