//! What a report holds for: device, runtime, precision, optimizer, replicas. A [`Request`] is what a user said; a
//! [`Target`] is what is priced, with a value for everything.

mod choose;

use std::sync::Arc;

use crate::analysis::Analysis;
use crate::device::{self, Device, Interconnect, Precision};
use crate::engine::Mode;
use crate::ir::element_type::ElementType;
use crate::passes::parameters::Kind;
use crate::report::Assumption;
use crate::runtime::{Attention, Runtime, Version};

pub use choose::choose;

/// Options about the target, as far as a user gave them.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Devices, each of which is priced; none where the default is to be assumed.
    pub gpus: Vec<ChosenGpu>,
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

impl Request {
    /// This request, and where it says nothing, a wider one.
    #[must_use]
    pub fn over(self, wider: &Self) -> Self {
        Self {
            gpus: if self.gpus.is_empty() { wider.gpus.clone() } else { self.gpus },
            global_batch: self.global_batch.or(wider.global_batch),
            precision: self.precision.or(wider.precision),
            optimizer: self.optimizer.or(wider.optimizer),
            runtime: self.runtime.or(wider.runtime),
            attention: self.attention.or(wider.attention),
            replicas: self.replicas.or(wider.replicas),
            hosts: self.hosts.or(wider.hosts),
            strategy: self.strategy.or(wider.strategy),
            interconnect: self.interconnect.or(wider.interconnect),
            recompute: self.recompute.or(wider.recompute),
            samples: self.samples.or(wider.samples),
            epochs: self.epochs.or(wider.epochs),
            price: self.price.or(wider.price),
            input_ms: self.input_ms.or(wider.input_ms),
            input_samples_per_s: self.input_samples_per_s.or(wider.input_samples_per_s),
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
    /// Whether somebody asked for it; else a runtime may take TF32 for some products only.
    pub precision_is_given: bool,
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
    /// What joins the hosts, where there are several.
    pub network: Option<&'static Interconnect>,
    /// Which activations are computed again.
    pub recompute: Recompute,
    /// Milliseconds that the input of a step takes to load.
    pub input_ms: Option<f64>,
    /// Samples a second that the input can deliver.
    pub input_samples_per_s: Option<f64>,
}

/// The device where nobody chose one.
pub const DEFAULT_GPU: &str = "a100-sxm4-40gb";

/// What a model says about its target.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The model.
    pub analysis: &'a Analysis,
    /// Who wrote the file.
    pub producer: &'a str,
    /// Training or inference.
    pub mode: Mode,
    /// Samples per replica.
    pub batch: Option<u64>,
}

/// The devices of a request; the default one where it names none.
#[must_use]
pub fn devices(request: &Request) -> Vec<ChosenGpu> {
    if !request.gpus.is_empty() {
        return request.gpus.clone();
    }
    let found = device::find(DEFAULT_GPU).ok();
    let chosen = |found: device::Found<'static>| ChosenGpu {
        device: Arc::new(found.device.clone()),
        note: None,
        uncertain: found.uncertain,
    };
    found.map(chosen).into_iter().collect()
}

impl Target {
    /// The target of a request on one of its devices, and what had to be assumed for it.
    #[must_use]
    pub fn resolve(request: &Request, gpu: &ChosenGpu, context: &Context<'_>) -> Option<(Self, Vec<Assumption>)> {
        let mut assumptions = Vec::new();
        let mut assume = |key: &str, value: &str, why: &str| {
            assumptions.push(Assumption { key: key.to_owned(), value: value.to_owned(), why: why.to_owned() });
        };
        let device = Arc::clone(&gpu.device);
        if request.gpus.is_empty() {
            assume("gpu", &device.id, "not given");
        } else if let Some(note) = &gpu.note {
            assume("gpu", &device.id, note);
        }
        let (runtime, version) = request.runtime.unwrap_or_else(|| {
            let runtime = Runtime::of_producer(context.producer);
            assume("runtime", runtime.name, "by who wrote the file");
            (runtime, None)
        });
        let training = context.mode == Mode::Train;
        let precision = request.precision.unwrap_or_else(|| {
            let (precision, why) = default_precision(context.analysis, runtime, version, &device);
            assume("precision", precision.name(), why);
            precision
        });
        let optimizer = match request.optimizer {
            _ if !training => Optimizer::None,
            Some(optimizer) => optimizer,
            None => {
                assume("optimizer", Optimizer::Sgd.name(), "not given");
                Optimizer::Sgd
            }
        };
        let replicas = request.replicas.unwrap_or(1).max(1);
        let strategy = request.strategy.unwrap_or(runtime.strategy);
        let hosts = request.hosts.unwrap_or(1).max(1);
        let (between, inside) = match request.interconnect {
            Some(given) if given.kind == device::Kind::Network => (Some(given), None),
            given => (None, given),
        };
        let interconnect = match inside {
            Some(interconnect) => interconnect,
            None => {
                let interconnect = device::find_interconnect(&device.links.interconnect)
                    .or_else(|_| device::find_interconnect("pcie3"))
                    .ok()?;
                if replicas > hosts {
                    assume("interconnect", &interconnect.id, "the board's own");
                }
                interconnect
            }
        };
        let network = match between {
            _ if hosts < 2 => None,
            Some(network) => Some(network),
            None => {
                let network = device::find_interconnect(usual_network(&device)).ok()?;
                assume("interconnect", &network.id, "usual between hosts with this board");
                Some(network)
            }
        };
        if replicas > 1 && request.strategy.is_none() {
            assume("strategy", strategy.name(), "the runtime's own");
        }
        let target = Self {
            device,
            uncertain: gpu.uncertain,
            mode: context.mode,
            batch: context.batch,
            precision,
            precision_is_given: request.precision.is_some(),
            optimizer,
            runtime,
            version,
            attention: request.attention.unwrap_or_else(|| (runtime.attention)(version)),
            replicas,
            hosts,
            strategy,
            interconnect,
            network,
            recompute: request.recompute.unwrap_or_default(),
            input_ms: request.input_ms,
            input_samples_per_s: request.input_samples_per_s,
        };
        Some((target, assumptions))
    }

    /// Samples over all replicas.
    #[must_use]
    pub fn global_batch(&self) -> Option<u64> {
        self.batch.map(|batch| batch.saturating_mul(u64::from(self.replicas)))
    }
}

/// What joins hosts of a board's time in clouds.
fn usual_network(device: &Device) -> &'static str {
    match device.board.year {
        ..2020 => "ethernet-25",
        2020..2022 => "infiniband-hdr",
        _ => "infiniband-ndr",
    }
}

/// What the file holds most of, by bytes of trained weights; TF32 where the runtime takes it for fp32.
fn default_precision(
    analysis: &Analysis,
    runtime: &Runtime,
    version: Option<Version>,
    device: &Device,
) -> (Compute, &'static str) {
    let mut elements = [0_i128; 4];
    for (stored, usage) in analysis.program.stored.iter().zip(&analysis.usages) {
        if usage.kind != Kind::Trainable {
            continue;
        }
        let slot = match stored.element() {
            Some(ElementType::Float16) => 1,
            Some(ElementType::Bfloat16) => 2,
            Some(element) if element.is_integer() && element.bits() == 8 => 3,
            _ => 0,
        };
        if let Some(sum) = elements.get_mut(slot) {
            *sum = sum.saturating_add(usage.elements);
        }
    }
    let most = (1..4).max_by_key(|&slot| elements.get(slot)).filter(|slot| elements.get(*slot) > elements.first());
    match most {
        Some(1) => return (Compute::Fp16, "what the file holds"),
        Some(2) => return (Compute::Bf16, "what the file holds"),
        Some(3) => return (Compute::Int8, "what the file holds"),
        _ => {}
    }
    let tf32 = (runtime.tf32)(version);
    let convolves = || {
        analysis
            .layers
            .iter()
            .filter_map(|layer| analysis.node(layer))
            .any(|node| node.op.starts_with("Conv") && &*node.op != "ConvInteger")
    };
    if device.tensor.tf32.is_none() || !tf32.convolutions {
        (Compute::Fp32, "what the file holds")
    } else if tf32.products {
        (Compute::Tf32, "the runtime's own for fp32 on this card")
    } else if convolves() {
        (Compute::Tf32, "the runtime's own for fp32 convolutions on this card")
    } else {
        (Compute::Fp32, "what the file holds; the runtime takes TF32 for convolutions only")
    }
}
