//! What replicas add to a step: the exchange of gradients, and what a strategy adds to the last layer and its loss. The
//! formulas are `docs/replicas.md`.

use crate::device::{Device, Interconnect, Kind};
use crate::engine::Mode;
use crate::passes::lower::Lowering;
use crate::report::TimeMs;
use crate::target::{Strategy, Target, Zero};

/// What replicas add to a step, ms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exchange {
    /// Exchange of the gradients, hidden or not.
    pub all_reduce_ms: f64,
    /// What of it does not hide behind the passes.
    pub exposed_ms: f64,
    /// What every micro-batch but the last would add if it ended in an exchange of its own; 0 where it does.
    pub each_ms: f64,
    /// What the last layer, its loss and the mean over replicas cost above one device.
    pub mirrored_loss_ms: f64,
    /// What most of the exchange goes to.
    pub bound: &'static str,
}

/// Bytes of gradients that PyTorch puts into one all-reduce.
const BUCKET_BYTES: f64 = 25.0 * 1_048_576.0;

/// What distributed data parallel adds to a step for each doubling, ms: hooks, and waiting for the slowest.
const DDP_SYNC_MS: f64 = 0.35;

/// What a step under TensorFlow's mirrored strategy adds for each doubling, ms: networks of a few hundred kilobytes take
/// 1.6 to 1.75 ms longer on two replicas, whatever their batch.
const MIRRORED_SYNC_MS: f64 = 1.6;

/// What copying one weight tensor to all replicas costs on the host for each doubling, ms (`nn.DataParallel` takes 9 to
/// 15 ms for a hundred).
const COPY_TENSOR_MS: f64 = 0.12;

/// Share of the nominal rate that collectives reach where nobody has measured the link.
const REACHED: f64 = 0.75;

/// What passes during a pass of one micro-batch, ms: behind it an exchange can hide.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Windows {
    /// Forward.
    pub forward: f64,
    /// Backward.
    pub backward: f64,
}

/// Prices the exchange between replicas, some of which hides in the windows; all zero for one, and in inference, where
/// replicas share nothing.
#[must_use]
pub fn exchange(lowering: &Lowering<'_>, time: &TimeMs, windows: Windows) -> Exchange {
    let target = lowering.target;
    if target.replicas < 2 || target.mode == Mode::Infer {
        return Exchange { bound: "none", ..Exchange::default() };
    }
    let (elements, tensors) = lowering.trained_weights();
    let bytes = elements * target.precision.gradient_bytes() as f64;
    let link = Link::of(target);
    let doublings = f64::from(target.replicas).log2();
    let mut exchange = Exchange::default();
    // As many bytes of an all-reduce as go over the links.
    let mut sent = bytes;
    let hidden_at_most = target.runtime.overlap * windows.backward;
    match target.strategy {
        Strategy::Ddp if target.zero != Zero::None => {
            // Frozen weights are sharded like any others, and never updated.
            let gathered = if target.zero == Zero::Parameters { lowering.weights() } else { elements };
            let weights = gathered * (target.precision.weight_bits() as f64 / 8.0);
            (exchange, sent) = sharded(target, &link, [bytes, weights], windows);
        }
        Strategy::Ddp => {
            let buckets = (bytes / BUCKET_BYTES).ceil().max(1.0);
            exchange.all_reduce_ms = link.all_reduce_ms(bytes, buckets);
            // The last bucket is only full when the backward pass is over.
            let hidden = hidden_at_most.min(exchange.all_reduce_ms * (1.0 - 1.0 / buckets));
            exchange.exposed_ms = exchange.all_reduce_ms - hidden + DDP_SYNC_MS * doublings;
            exchange.all_reduce_ms += DDP_SYNC_MS * doublings;
        }
        Strategy::Mirrored => {
            // One packed all-reduce behind the backward pass.
            exchange.all_reduce_ms = link.all_reduce_ms(bytes, 1.0);
            let hidden = hidden_at_most.min(exchange.all_reduce_ms);
            exchange.exposed_ms = exchange.all_reduce_ms - hidden;
            // The loss of each replica is scaled by the replicas and summed over them: a number each.
            exchange.mirrored_loss_ms = MIRRORED_SYNC_MS * doublings + link.all_reduce_ms(4.0, 1.0);
        }
        Strategy::CentralStorage => {
            // Weights out to every replica, gradients back to the one that holds them.
            exchange.all_reduce_ms =
                2.0 * link.copy_ms(bytes) * doublings + COPY_TENSOR_MS * tensors as f64 * doublings;
            exchange.exposed_ms = exchange.all_reduce_ms;
        }
        Strategy::ParameterServer => {
            // As many servers as hosts: every replica of a host sends and fetches through its link.
            let each = f64::from(target.replicas) / f64::from(target.hosts);
            exchange.all_reduce_ms = 2.0 * link.copy_ms(bytes) * each;
            exchange.exposed_ms = exchange.all_reduce_ms;
        }
    }
    if target.zero == Zero::None {
        exchange.each_ms = exchange.exposed_ms + exchange.mirrored_loss_ms;
    }
    let moved = link.all_reduce_ms(sent, 1.0) - link.all_reduce_ms(0.0, 1.0);
    exchange.bound = if exchange.exposed_ms + exchange.mirrored_loss_ms < 0.02 * time.without_wait() {
        "compute"
    } else if moved >= 0.5 * (exchange.all_reduce_ms + exchange.mirrored_loss_ms) {
        "interconnect"
    } else {
        "latency"
    };
    exchange
}

/// What stages of ZeRO exchange in place of an all-reduce, of these bytes of gradients and weights; and the bytes of an
/// all-reduce that is as much. Gradients are scattered to their owners, in stage 2 and 3, where nobody has room for all of
/// them, after each backward pass; weights are gathered from theirs, behind the update, or in stage 3 before each pass.
fn sharded(target: &Target, link: &Link, [gradients, weights]: [f64; 2], windows: Windows) -> (Exchange, f64) {
    let buckets = |bytes: f64| (bytes / BUCKET_BYTES).ceil().max(1.0);
    let (scattered, gathered) = (buckets(gradients), buckets(weights));
    let scatter = link.half_ring_ms(gradients, scattered);
    let gather = link.half_ring_ms(weights, gathered);
    // The last bucket of a backward pass and the first of a forward pass have nothing to hide behind.
    let exposed =
        |ms: f64, buckets: f64, window: f64| ms - (target.runtime.overlap * window).min(ms * (1.0 - 1.0 / buckets));
    let sync = DDP_SYNC_MS * f64::from(target.replicas).log2();
    let times = f64::from(target.accumulate);
    let each = exposed(scatter, scattered, windows.backward) + sync;
    let (all_reduce_ms, exposed_ms, each_ms, sent) = match target.zero {
        Zero::None | Zero::Optimizer => (scatter + sync + gather, each + gather, each, gradients + weights),
        Zero::Gradients => (times * (scatter + sync) + gather, times * each + gather, 0.0, times * gradients + weights),
        Zero::Parameters => {
            let forward = exposed(gather, gathered, windows.forward);
            let backward = exposed(scatter + gather, scattered.max(gathered), windows.backward) + sync;
            let all = scatter + sync + 2.0 * gather;
            (times * all, times * (forward + backward), 0.0, times * (gradients + 2.0 * weights))
        }
    };
    (Exchange { all_reduce_ms, exposed_ms, each_ms, ..Exchange::default() }, sent / 2.0)
}

/// What a collective goes over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    replicas: f64,
    /// Bytes a second that leave and reach a device at once, in 10⁹.
    gb_s: f64,
    /// What a step of the ring adds, µs.
    latency_us: f64,
}

impl Link {
    /// The slowest link that a ring over all replicas of a target passes.
    #[must_use]
    pub fn of(target: &Target) -> Self {
        let per_host = target.replicas / target.hosts.max(1);
        let inside = target
            .kinds()
            .into_iter()
            .map(|(_, device)| Self::inside(device, target.interconnect, per_host, target.replicas))
            .reduce(|slowest, link| if link.gb_s < slowest.gb_s { link } else { slowest })
            .unwrap_or_else(|| Self::inside(&target.device, target.interconnect, per_host, target.replicas));
        match target.network.filter(|_| target.hosts > 1) {
            None => inside,
            Some(network) => {
                let gb_s = network.all_reduce_gb_s.unwrap_or(network.gb_s * REACHED).min(inside.gb_s);
                Self { gb_s, latency_us: network.latency_us.max(inside.latency_us), ..inside }
            }
        }
    }

    /// The link between the devices of a host.
    fn inside(device: &Device, interconnect: &Interconnect, per_host: u32, replicas: u32) -> Self {
        let links = match interconnect.kind {
            Kind::Bridge => device.links.bridge_count.max(1),
            // A board has as many links of a later kind as it has of its own.
            Kind::Mesh | Kind::Switch => device.links.count.max(device.links.bridge_count).max(1),
            Kind::Bus | Kind::Network | Kind::Memory => 1,
        };
        let nominal = interconnect.gb_s * f64::from(links);
        let gb_s = match interconnect.kind {
            // Direct traffic from card to card is for pairs of data center boards; the rest goes through the host.
            Kind::Bus if per_host > 2 || !has_direct_access(device) => {
                interconnect.through_host_gb_s.unwrap_or(nominal * 0.4)
            }
            // A server of eight is not a full mesh, and a link of few lanes is what a share of them is.
            Kind::Mesh | Kind::Switch => {
                let reached = interconnect.all_reduce_gb_s.unwrap_or(nominal * REACHED);
                reached.min(nominal * 0.85).max(nominal * 0.3)
            }
            _ => interconnect.all_reduce_gb_s.unwrap_or(nominal * REACHED),
        };
        Self { replicas: f64::from(replicas), gb_s, latency_us: interconnect.latency_us }
    }

    /// An all-reduce of `bytes` in `parts`, ms: each device sends 2 (n − 1) / n of them, in 2 (n − 1) steps.
    #[must_use]
    pub fn all_reduce_ms(&self, bytes: f64, parts: f64) -> f64 {
        let steps = 2.0 * (self.replicas - 1.0);
        let sent = steps / self.replicas * bytes;
        sent / (self.gb_s * 1e6) + parts * steps * self.latency_us / 1e3
    }

    /// A reduce-scatter or all-gather, of which an all-reduce is one of each.
    fn half_ring_ms(&self, bytes: f64, parts: f64) -> f64 {
        self.all_reduce_ms(bytes, parts) / 2.0
    }

    /// A copy of `bytes` from one device to another, ms.
    fn copy_ms(&self, bytes: f64) -> f64 {
        bytes / (self.gb_s * 1e6) + self.latency_us / 1e3
    }
}

/// Whether devices on a bus reach each other's memory without the host: data center boards since Volta.
fn has_direct_access(device: &Device) -> bool {
    let consumer = ["GeForce", "TITAN", "Titan"].iter().any(|word| device.name.contains(word));
    device.has_tensor_cores() && !consumer
}
