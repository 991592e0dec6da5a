//! What a report holds for: device, runtime, precision, optimizer, replicas. A [`Request`] is what a user said; a
//! [`Target`] is what is priced, with a value for everything.

mod cards;
mod choose;
mod compute;
mod optimizer;
mod request;
mod strategy;

use std::sync::Arc;

use crate::analysis::Analysis;
use crate::device::{self, Device, Interconnect, Precision};
use crate::engine::Mode;
use crate::ir::element_type::ElementType;
use crate::passes::parameters::Kind;
use crate::predict::learned::predictors::Predictors;
use crate::report::Assumption;
use crate::runtime::{Attention, Runtime, Version};

pub use cards::Cards;
pub use choose::choose;
pub use compute::Compute;
pub use optimizer::{Optimizer, UpdateTraffic};
pub use request::{ChosenGpu, Request};
pub use strategy::{Recompute, Strategy, Zero};

/// What is priced.
#[derive(Clone, Debug)]
pub struct Target {
    /// The device; of unequal cards the one that is looked at.
    pub device: Arc<Device>,
    /// All cards of the run, where they are not equal.
    pub cards: Cards,
    /// Whether the device's name left open which board is meant.
    pub uncertain: bool,
    /// Training or inference.
    pub mode: Mode,
    /// Samples of a micro-batch of a replica; `None` when the model has no batch.
    pub batch: Option<u64>,
    /// Micro-batches of a step, at least 1; 1 in inference.
    pub accumulate: u32,
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
    /// What of the training state is sharded over the replicas; nothing where there is one, and in inference.
    pub zero: Zero,
    /// What joins the devices of a host.
    pub interconnect: &'static Interconnect,
    /// What joins the hosts, where there are several.
    pub network: Option<&'static Interconnect>,
    /// Which activations are computed again.
    pub recompute: Recompute,
    /// Milliseconds that the input of a micro-batch takes to load.
    pub input_ms: Option<f64>,
    /// Samples a second that the input can deliver.
    pub input_samples_per_s: Option<f64>,
    /// What prices kernels.
    pub predictors: Arc<Predictors>,
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
    let chosen =
        |found: device::Found<'static>| ChosenGpu { uncertain: found.uncertain, ..ChosenGpu::of(found.device.clone()) };
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
            assume("gpu", &gpu.id(), note);
        }
        let (runtime, version) = request.runtime.unwrap_or_else(|| {
            let runtime = Runtime::of_producer(context.producer);
            assume("runtime", runtime.name, "by who wrote the file");
            (runtime, None)
        });
        let training = context.mode == Mode::Train;
        let precision = request.precision.unwrap_or_else(|| {
            let with_tf32 = gpu.cards.iter().find(|card| card.tensor.tf32.is_some()).unwrap_or(&device);
            let policy = context.analysis.training.policy.as_deref().and_then(precision_of_policy);
            let (precision, why) =
                policy.unwrap_or_else(|| default_precision(context.analysis, runtime, version, with_tf32));
            assume("precision", precision.name(), why);
            precision
        });
        let optimizer = match request.optimizer {
            _ if !training => Optimizer::None,
            Some(optimizer) => optimizer,
            None => {
                let compiled = context.analysis.training.optimizer.as_deref();
                let known = compiled.and_then(|name| Optimizer::ALL.iter().find(|(known, _)| *known == name));
                let (optimizer, why) = match (known, &context.analysis.training.optimizer_class) {
                    (Some((_, optimizer)), _) => (*optimizer, "what the model was compiled with".to_owned()),
                    (None, Some(class)) => {
                        (Optimizer::Sgd, format!("{class}, which the file names, is not known here"))
                    }
                    (None, None) => (Optimizer::Sgd, "not given".to_owned()),
                };
                assume("optimizer", optimizer.name(), &why);
                optimizer
            }
        };
        let replicas = if gpu.cards.is_empty() { request.replicas.unwrap_or(1).max(1) } else { gpu.cards.count() };
        let unequal = gpu.cards.kinds().len() > 1;
        let cards = if unequal { gpu.cards.clone() } else { Cards::default() };
        let zero = request.zero.filter(|_| training && replicas > 1).unwrap_or_default();
        let sharded = zero != Zero::None;
        let strategy = request.strategy.unwrap_or(if sharded { Strategy::Ddp } else { runtime.strategy });
        let hosts = request.hosts.unwrap_or(1).max(1);
        let (between, inside) = match request.interconnect {
            Some(given) if given.kind == device::Kind::Network => (Some(given), None),
            given => (None, given),
        };
        let interconnect = match inside {
            Some(interconnect) => interconnect,
            None => {
                let (interconnect, why) = if unequal {
                    let slower = cards.iter().filter_map(|card| own_interconnect(card));
                    (slower.min_by(|left, right| left.0.total_cmp(&right.0))?.1, "the slowest of the boards' own")
                } else {
                    (own_interconnect(&device)?.1, "the board's own")
                };
                if replicas > hosts {
                    assume("interconnect", &interconnect.id, why);
                }
                interconnect
            }
        };
        let network = match between {
            _ if hosts < 2 => None,
            Some(network) => Some(network),
            None => {
                let oldest = cards.iter().min_by_key(|card| card.board.year).unwrap_or(&device);
                let network = device::find_interconnect(usual_network(oldest)).ok()?;
                assume("interconnect", &network.id, "usual between hosts with this board");
                Some(network)
            }
        };
        if replicas > 1 && request.strategy.is_none() {
            assume("strategy", strategy.name(), if sharded { "the one that shards" } else { "the runtime's own" });
        }
        let target = Self {
            device,
            cards,
            uncertain: gpu.uncertain,
            mode: context.mode,
            batch: context.batch,
            accumulate: request.accumulate.filter(|_| training).unwrap_or(1).max(1),
            precision,
            precision_is_given: request.precision.is_some(),
            optimizer,
            runtime,
            version,
            attention: request.attention.unwrap_or_else(|| (runtime.attention)(version)),
            replicas,
            hosts,
            strategy,
            zero,
            interconnect,
            network,
            recompute: request.recompute.unwrap_or_default(),
            input_ms: request.input_ms,
            input_samples_per_s: request.input_samples_per_s,
            predictors: request.predictors.clone().unwrap_or_else(Predictors::built_in),
        };
        Some((target, assumptions))
    }

    /// What convolutions (`true`) or other products are computed in. TF32 that nobody asked for is left to the runtime,
    /// which decides for the two apart.
    #[must_use]
    pub fn product_precision(&self, convolution: bool) -> Precision {
        match self.precision {
            Compute::Tf32 if !self.precision_is_given => {
                self.runtime.fp32_becomes(self.version, &self.device, convolution)
            }
            given => given.product(),
        }
    }

    /// Whether a model runs the same kernels and holds the same tensors on this target and on another.
    #[must_use]
    pub fn runs_like(&self, other: &Self) -> bool {
        // What stands here with `_` decides times and what is held beside tensors.
        let Self {
            device: _,
            cards: _,
            uncertain: _,
            mode,
            batch: _,
            accumulate,
            precision,
            precision_is_given: _,
            optimizer,
            runtime,
            version,
            attention,
            replicas: _,
            hosts: _,
            strategy: _,
            zero: _,
            interconnect: _,
            network: _,
            recompute,
            input_ms: _,
            input_samples_per_s: _,
            predictors: _,
        } = self;
        let products = |target: &Self| [true, false].map(|convolution| target.product_precision(convolution));
        (mode, accumulate, precision, optimizer, version, attention, recompute)
            == (
                &other.mode,
                &other.accumulate,
                &other.precision,
                &other.optimizer,
                &other.version,
                &other.attention,
                &other.recompute,
            )
            && runtime.name == other.runtime.name
            && products(self) == products(other)
            && self.shards(Zero::Optimizer) == other.shards(Zero::Optimizer)
    }

    /// Each kind of card, with how many there are of it.
    #[must_use]
    pub fn kinds(&self) -> Vec<(u32, &Arc<Device>)> {
        if self.cards.is_empty() { vec![(self.replicas, &self.device)] } else { self.cards.kinds() }
    }

    /// This target as each kind of card sees it.
    #[must_use]
    pub fn each(&self) -> Vec<Self> {
        let on = |(_, device): (u32, &Arc<Device>)| Self { device: Arc::clone(device), ..self.clone() };
        self.kinds().into_iter().map(on).collect()
    }

    /// Batches of a step over all replicas.
    #[must_use]
    pub fn micro_batches(&self) -> u64 {
        u64::from(self.replicas).saturating_mul(u64::from(self.accumulate))
    }

    /// Samples of a step over all replicas.
    #[must_use]
    pub fn global_batch(&self) -> Option<u64> {
        self.batch.map(|batch| batch.saturating_mul(self.micro_batches()))
    }

    /// Devices that share what a stage of ZeRO shards; 1 where each holds all of it.
    #[must_use]
    pub fn shards(&self, what: Zero) -> u64 {
        if what != Zero::None && self.zero >= what { u64::from(self.replicas.max(1)) } else { 1 }
    }
}

/// What joins boards of a kind where nothing was said, with the rate of all its links.
fn own_interconnect(device: &Device) -> Option<(f64, &'static Interconnect)> {
    let own = device::find_interconnect(&device.links.interconnect);
    let interconnect = own.or_else(|_| device::find_interconnect("pcie3")).ok()?;
    Some((interconnect.gb_s * f64::from(device.links.count.max(1)), interconnect))
}

/// What joins hosts of a board's time in clouds.
fn usual_network(device: &Device) -> &'static str {
    match device.board.year {
        ..2020 => "ethernet-25",
        2020..2022 => "infiniband-hdr",
        _ => "infiniband-ndr",
    }
}

/// What a dtype policy of Keras computes in.
fn precision_of_policy(policy: &str) -> Option<(Compute, &'static str)> {
    match policy {
        "mixed_float16" => Some((Compute::Amp, "the dtype policy of the file, mixed_float16")),
        "mixed_bfloat16" => Some((Compute::Bf16, "the nearest to the dtype policy of the file, mixed_bfloat16")),
        _ => None,
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
