//! Memory of one device at the moment of the peak, by parts. The formulas are `docs/memory.md`.

use std::collections::BTreeMap;

use petgraph::stable_graph::NodeIndex;

use super::plans::Plans;
use crate::device::Device;
use crate::engine::Mode;
use crate::ir::graph::{GraphId, Stored};
use crate::ir::hash::HashMap;
use crate::passes::liveness::Liveness;
use crate::passes::lower::Lowering;
use crate::passes::parameters::{Kind, Usage};
use crate::runtime::{Allocator, Update};
use crate::target::{Compute, Optimizer, Recompute, Strategy, Target, Zero};

/// Memory of one device, bytes. The parts are those at the moment of the peak.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Weights, statistics and constant tables.
    pub parameters: u64,
    /// Gradients of the weights.
    pub gradients: u64,
    /// State of the optimizer, master copies of weights included.
    pub optimizer: u64,
    /// Tensors kept for the backward pass.
    pub saved_activations: u64,
    /// Other tensors that are alive at the peak.
    pub transient: u64,
    /// Scratch memory of libraries, and what the allocator holds beyond live tensors: the middle.
    pub workspace: u64,
    /// The same, lower and upper end.
    pub workspace_range: [u64; 2],
    /// Buffers of collectives.
    pub communication: u64,
    /// Keys and values of earlier tokens.
    pub kv_cache: u64,
    /// What the process holds before the first tensor.
    pub framework: u64,
    /// All that is kept for the backward pass, which is more than `saved_activations` where the peak is elsewhere.
    pub saved_in_all: u64,
    /// Bytes that each layer keeps for the backward pass and no earlier one does, by its index.
    pub saved_by_layer: Vec<u64>,
}

impl Memory {
    /// What `nvidia-smi` shows.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.allocated().saturating_add(self.workspace).saturating_add(self.framework)
    }

    /// Live tensors.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        [
            self.parameters,
            self.gradients,
            self.optimizer,
            self.saved_activations,
            self.transient,
            self.communication,
            self.kv_cache,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// The peak with the scratch memory at the lower and the upper end of its range.
    #[must_use]
    pub fn ends(&self) -> [u64; 2] {
        let others = self.peak().saturating_sub(self.workspace);
        let [low, high] = self.workspace_range;
        [low.min(self.workspace), high.max(self.workspace)].map(|workspace| others.saturating_add(workspace))
    }

    /// What a device must have for the step to fit whatever the libraries take.
    #[must_use]
    pub fn upper_end(&self) -> u64 {
        let [_, high] = self.ends();
        high
    }
}

/// Memory of a target; `None` where a size is not known. Checkpoints of about √n segments are a compromise that need not
/// pay for small networks: where those of every block, or none, need less, they are taken.
#[must_use]
pub fn estimate(plans: &Plans<'_>, values: &BTreeMap<String, i128>, target: &Target) -> Option<Memory> {
    let with = |recompute| {
        let target = Target { recompute, ..target.clone() };
        Some(of_plan(&plans.lowering(&target), &*plans.live(values, &target)?))
    };
    let mut least = with(target.recompute)?;
    if target.mode == Mode::Train && target.recompute == Recompute::Sqrt {
        for other in [Recompute::All, Recompute::None].into_iter().filter_map(with) {
            if other.peak() < least.peak() {
                least = other;
            }
        }
    }
    Some(least)
}

/// Memory by the tensors of a step in time, with the checkpoints that the target names.
fn of_plan(lowering: &Lowering<'_>, live: &Liveness) -> Memory {
    let target = lowering.target;
    let weights = Weights::of(lowering);
    let mut memory = Memory {
        parameters: weights.parameters(target),
        gradients: weights.gradients(target).div_ceil(target.shards(Zero::Gradients)),
        optimizer: weights.optimizer(target),
        saved_activations: live.peak.saved,
        transient: live.peak.transient,
        communication: communication(&weights, target),
        kv_cache: live.cache,
        framework: framework(target),
        saved_in_all: live.saved,
        ..Memory::default()
    };
    // The update comes when activations are gone; only where they are small does it hold more.
    let update = weights.update(target);
    if update > live.peak.total() {
        (memory.saved_activations, memory.transient) = (0, update);
    }
    let scratch = scratch(live, memory.allocated(), target);
    (memory.workspace, memory.workspace_range) = (scratch.middle, [scratch.low, scratch.high]);
    memory.saved_by_layer.clone_from(&live.saved_by_layer);
    memory
}

/// Weights of a model.
#[derive(Clone, Copy, Debug, Default)]
struct Weights {
    /// Bytes of all that is stored, in the target's precision.
    stored: u64,
    /// Those of weights among them, frozen ones too.
    weights: u64,
    /// Bytes of the weights of the layer that has most, where layers are gathered.
    largest_layer: u64,
    /// Elements of weights that are trained.
    trained: u64,
}

impl Weights {
    fn of(lowering: &Lowering<'_>) -> Self {
        let precision = lowering.target.precision;
        let stored = lowering.analysis.program.stored.iter().zip(&lowering.analysis.usages);
        let once = stored.filter(|(_, usage)| !usage.repeats);
        let (mut all, mut weights) = (0_u64, 0_u64);
        let mut layers: HashMap<(GraphId, NodeIndex), u64> = HashMap::default();
        let gathers = lowering.target.shards(Zero::Parameters) > 1;
        for (stored, usage) in once {
            let bytes = stored_bytes(stored, usage, precision);
            all = all.saturating_add(bytes);
            if usage.kind != Kind::Trainable {
                continue;
            }
            weights = weights.saturating_add(bytes);
            for reader in usage.readers.iter().filter(|_| gathers) {
                let layer = layers.entry(*reader).or_default();
                *layer = layer.saturating_add(bytes);
            }
        }
        Self {
            stored: all,
            weights,
            largest_layer: layers.into_values().max().unwrap_or(0),
            trained: lowering.trained().map(|(elements, _)| elements as u64).fold(0, u64::saturating_add),
        }
    }

    /// All that is stored, weights as far as they are not sharded away.
    fn parameters(self, target: &Target) -> u64 {
        let own = self.weights.div_ceil(target.shards(Zero::Parameters));
        self.stored - self.weights + own
    }

    /// The layer that is gathered where parameters are sharded: never more than the whole model together with the shard.
    fn gathered(self, target: &Target) -> u64 {
        let own = self.weights.div_ceil(target.shards(Zero::Parameters));
        self.largest_layer.min(self.weights - own)
    }

    /// One for each trained weight, in the type of the weight.
    fn gradients(self, target: &Target) -> u64 {
        if target.mode == Mode::Infer { 0 } else { self.trained.saturating_mul(target.precision.gradient_bytes()) }
    }

    /// Elements whose state, and update, are this replica's.
    fn updated(self, target: &Target) -> u64 {
        self.trained.div_ceil(target.shards(Zero::Optimizer))
    }

    /// State in fp32, and a master copy in fp32 where weights have 16 bits or fewer.
    fn optimizer(self, target: &Target) -> u64 {
        if target.mode == Mode::Infer || target.optimizer == Optimizer::None {
            return 0;
        }
        let master = u64::from(target.precision.weight_bits() < 32);
        self.updated(target).saturating_mul(4 * (target.optimizer.slots() + master))
    }

    /// Lists of intermediate results where the update is a few kernels over all weights: the denominator of the adaptive
    /// optimizers.
    fn update(self, target: &Target) -> u64 {
        let adaptive = match target.optimizer {
            Optimizer::None | Optimizer::Sgd | Optimizer::Momentum => 0,
            _ => u64::from((target.runtime.update)(target.version) == Update::Grouped),
        };
        if target.mode == Mode::Infer { 0 } else { self.updated(target).saturating_mul(4 * adaptive) }
    }
}

/// Bytes of a stored tensor in a precision.
fn stored_bytes(stored: &Stored, usage: &Usage, precision: Compute) -> u64 {
    match stored.element().filter(|element| element.is_real() && element.bits() >= 16) {
        Some(element) => {
            let bits = u64::from(element.bits()).min(stored_bits(usage, precision));
            unsigned(usage.elements).saturating_mul(bits).div_ceil(8)
        }
        None => unsigned(usage.bytes),
    }
}

fn unsigned(number: i128) -> u64 {
    u64::try_from(number.max(0)).unwrap_or(u64::MAX)
}

/// Bits of a stored floating-point tensor: only weights take the target's precision, statistics and tables stay.
fn stored_bits(usage: &Usage, precision: Compute) -> u64 {
    match usage.kind {
        Kind::Trainable => precision.weight_bits(),
        Kind::Statistic | Kind::Constant | Kind::Other => 32,
    }
}

/// Buffers of the collectives of several replicas.
fn communication(weights: &Weights, target: &Target) -> u64 {
    if target.replicas < 2 || target.mode == Mode::Infer {
        return 0;
    }
    let gradients = weights.gradients(target);
    let buckets = match target.strategy {
        Strategy::Ddp if target.zero != Zero::None => {
            let bucket = SHARDED_BUCKETS.saturating_mul(target.precision.gradient_bytes());
            gradients.min(bucket).saturating_add(weights.gathered(target))
        }
        // Buckets of 25 MiB hold all gradients once more, unless gradients are views of them, which is not the default.
        Strategy::Ddp => gradients,
        // Small gradients are packed, large ones are reduced where they lie; one pack is alive at a time.
        Strategy::Mirrored => gradients.min(PACK),
        // Copies on their way.
        Strategy::CentralStorage | Strategy::ParameterServer => gradients,
    };
    buckets.saturating_add(RING_BUFFERS)
}

/// Elements of the two buckets that sharded gradients go through: 5 × 10⁸ each (`reduce_bucket_size` of DeepSpeed).
const SHARDED_BUCKETS: u64 = 1_000_000_000;

/// A pack of `MirroredStrategy`: 32 MiB (`bytes_per_pack` of its collectives is set so for NCCL).
const PACK: u64 = 32 << 20;

/// Buffers of NCCL: 4 MiB for each of up to 16 channels and each direction.
const RING_BUFFERS: u64 = 2 * 16 * (4 << 20);

/// What the process holds before the first tensor: context and code of libraries.
fn framework(target: &Target) -> u64 {
    let share = code_share(&target.device);
    (target.runtime.memory.base_mib * share * 1_048_576.0) as u64
}

/// Context and code on a board, as a share of those on an A100. A context holds local memory for every multiprocessor and
/// the kernels of its architecture, of which libraries have most for data-centre boards. Seen: 1.69 GiB on an A100
/// (GPUMemNet's runs), about 0.35 GiB beside the tensors on an RTX 3060 (xMem's), 0.45 to 0.7 GiB on boards before them.
fn code_share(device: &Device) -> f64 {
    match device.board.architecture.as_str() {
        "kepler" | "maxwell" | "pascal" => 0.27,
        "volta" | "turing" => 0.4,
        _ if device.board.chip.ends_with("00") => 1.0,
        _ => 0.3,
    }
}

/// Scratch memory, and what the allocator holds beyond live tensors.
struct Scratch {
    low: u64,
    middle: u64,
    high: u64,
}

/// What cuBLAS takes once for a process and device, as PyTorch sets it: 8,519,680 bytes
/// (pytorch/pytorch, `CUDABlas.cpp`, `:4096:2:16:8`).
const PRODUCTS: u64 = 8_519_680;

/// Scratch memory of the convolution that takes most, as a multiple of its input and output; what the allocator holds in
/// gaps, as shares of what is kept and of the largest operation. Fitted on 842 training runs of 212 networks on an A100
/// (GPUMemNet), where they leave a median error of 2.2 %.
const CONVOLUTION: f64 = 3.15;
const GAPS_OF_KEPT: f64 = 0.02;
const GAPS_OF_OPERATION: f64 = 0.6;

/// The same of inference, where nobody measured: a library that searches for speed takes about the input and output once
/// more.
const CONVOLUTION_FORWARD: f64 = 1.0;

/// Ends of the range as multiples of the middle: four in five of those runs lie between.
const RANGE: [f64; 2] = [0.4, 1.7];

fn scratch(live: &Liveness, allocated: u64, target: &Target) -> Scratch {
    let products = if live.multiplies { PRODUCTS } else { 0 };
    let training = target.mode == Mode::Train;
    let rounding = match target.runtime.memory.allocator {
        Allocator::Caching | Allocator::BestFit => rounding(live, allocated),
        Allocator::Planned => 0,
    };
    let least = products.saturating_add(rounding);
    let convolution = live.largest_convolution as f64 * if training { CONVOLUTION } else { CONVOLUTION_FORWARD };
    let gaps = GAPS_OF_KEPT * live.peak.saved as f64 + GAPS_OF_OPERATION * live.largest_operation as f64;
    let gaps = if target.runtime.memory.allocator == Allocator::Planned { 0.0 } else { gaps };
    let [least_share, most_share] = RANGE;
    let [low, middle, high] = [least_share, 1.0, most_share].map(|factor| {
        let bytes = factor * (convolution + gaps);
        least.saturating_add(bytes as u64)
    });
    Scratch { low, middle, high }
}

/// Blocks are cut to 512 bytes, half of one a tensor; what is held in all comes in segments of 2 MiB.
fn rounding(live: &Liveness, allocated: u64) -> u64 {
    let cut = live.tensors.saturating_mul(256);
    let held = allocated.saturating_add(cut);
    held.checked_next_multiple_of(2 << 20).unwrap_or(held).saturating_sub(allocated)
}
