//! A whole network on a target: kernels priced one by one, the host beside them, memory and replicas, summed to the
//! numbers that people decide by.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cards::{CardEstimate, together};
use super::memory::{self, Memory};
use super::plans::Plans;
use super::pricer::Pricer;
use super::replicas::{self, Exchange, Windows};
use super::{Bound, PredictorId, Price, roofline};
use crate::device::Device;
use crate::engine::Mode;
use crate::passes::lower::Schedule;
use crate::report::{Bounds, Interval, TimeMs};
use crate::runtime::{Kernel, Pass};
use crate::target::{Recompute, Target};

/// What a network takes.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// Time of a step and its parts.
    pub time: TimeMs,
    /// All kernels of a step together, ms.
    pub kernels: Interval,
    /// By layer, in the order of [`crate::analysis::Analysis::layers`].
    pub layers: Vec<LayerEstimate>,
    /// Memory of one device.
    pub memory: Memory,
    /// What replicas cost.
    pub exchange: Exchange,
    /// Throughput over that of one replica with the same batch per replica; of unequal cards the fastest.
    pub speedup: f64,
    /// What each of several unequal cards takes; none where all are equal.
    pub cards: Vec<CardEstimate>,
    /// The one among them that all wait for: times are its own.
    pub slowest: Option<Arc<Device>>,
    /// The one that is smallest for what it needs: memory is its own.
    pub tightest: Option<Arc<Device>>,
    /// Layers whose kernels are not known: the time is a lower bound where there are any.
    pub unknown: usize,
}

/// What a layer takes in a step, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerEstimate {
    /// Forward.
    pub forward: f64,
    /// Backward.
    pub backward: f64,
    /// Both together, with the gaps after its kernels.
    pub both: Interval,
    /// Launches in a step.
    pub kernels: f64,
    /// What limits most of its time; `None` where it launches nothing.
    pub bound: Option<Bound>,
    /// Who priced most of its time; `None` where it launches nothing.
    pub model: Option<PredictorId>,
    /// Whether predictors have seen such kernels, those that matter; `None` where none learns their families.
    pub in_domain: Option<bool>,
    /// The feature of the longest kernel that is outside of what was seen.
    pub outside: Option<&'static str>,
    /// Bytes that it keeps for the backward pass and no earlier layer does.
    pub saved_bytes: u64,
    /// Operations of its products.
    pub product_flops: f64,
}

impl Estimate {
    /// What the time of a step on one device goes into; `None` where it takes none.
    #[must_use]
    pub fn bounds(&self) -> Option<Bounds> {
        // A sum of nothing would be -0.
        let layers = |bound: Bound| {
            let bound_so = self.layers.iter().filter(|layer| layer.bound == Some(bound));
            bound_so.fold(0.0, |sum, layer| sum + layer.forward + layer.backward)
        };
        let compute = layers(Bound::Compute);
        let memory = layers(Bound::Memory) + self.time.optimizer;
        let launch = layers(Bound::Launch) + self.time.overhead;
        let all = compute + memory + launch;
        (all > 0.0).then(|| Bounds { compute: compute / all, memory: memory / all, launch: launch / all })
    }

    /// The device whose memory it is.
    #[must_use]
    pub fn memory_device<'e>(&'e self, target: &'e Target) -> &'e Device {
        self.tightest.as_ref().unwrap_or(&target.device)
    }
}

/// Ends of the interval as multiples of the middle where the name of the device leaves open which board is meant.
const UNCERTAIN_SPREAD: [f64; 2] = [0.45, 2.2];

/// Predicts time and memory; `None` where a size that they depend on is not known.
#[must_use]
pub fn estimate(plans: &Plans<'_>, values: &BTreeMap<String, i128>, target: &Target) -> Option<Estimate> {
    let on = |target: &Target| estimate_one(plans, values, target);
    if target.cards.is_empty() { on(target) } else { together(target, on) }
}

/// The same on the target's one device.
fn estimate_one(plans: &Plans<'_>, values: &BTreeMap<String, i128>, target: &Target) -> Option<Estimate> {
    let memory = memory::estimate(plans, values, target)?;
    let mut estimate = step(plans, values, target)?;
    estimate.time.overhead += excess_of_smaller(plans, values, target, &estimate);
    estimate.memory = memory;
    for (layer, saved) in estimate.layers.iter_mut().zip(&estimate.memory.saved_by_layer) {
        layer.saved_bytes = *saved;
    }
    estimate.time.input_wait = input_wait(&estimate.time, target);
    estimate.time.step = interval(&estimate, target);
    estimate.speedup = speedup(&estimate.time, target);
    Some(estimate)
}

/// The times of a step.
fn step(plans: &Plans<'_>, values: &BTreeMap<String, i128>, target: &Target) -> Option<Estimate> {
    let schedule = plans.schedule(values, target)?;
    let layers = vec![LayerEstimate::default(); plans.analysis().layers.len()];
    let mut estimate = Estimate { unknown: schedule.unknown, layers, ..Estimate::default() };
    let windows = time(&schedule, target, &plans.pricer(target), &mut estimate);
    estimate.exchange = replicas::exchange(&plans.lowering(target), &estimate.time, windows);
    estimate.time.mirrored_loss = estimate.exchange.mirrored_loss_ms;
    estimate.time.all_reduce_exposed = estimate.exchange.exposed_ms;
    Some(estimate)
}

/// A smaller batch whose step takes less than this share of the one that is asked for ends the search for one that takes
/// longer: halves of it come no nearer.
const FAR_BELOW: f64 = 0.75;

/// How much longer the longest step of a smaller batch is: a larger batch is never faster, and learned times know nothing
/// of that. Batches are powers of two; physics alone needs none of it.
fn excess_of_smaller(plans: &Plans<'_>, values: &BTreeMap<String, i128>, target: &Target, estimate: &Estimate) -> f64 {
    let learned = |layer: &LayerEstimate| matches!(layer.model, Some(PredictorId::Learned { .. }));
    if !estimate.layers.iter().any(learned) {
        return 0.0;
    }
    let Some(free) = plans.free() else { return 0.0 };
    let (Some(symbol), Some(batch)) = (free.analysis().bound.batch.as_deref(), target.batch) else { return 0.0 };
    let own = estimate.time.without_wait();
    let mut longest = own;
    for smaller in (0..u64::BITS).rev().map(|power| 1_u64 << power).filter(|smaller| *smaller < batch) {
        let mut values = values.clone();
        values.insert(symbol.to_owned(), i128::from(smaller));
        let target = Target { batch: Some(smaller), ..target.clone() };
        let Some(estimate) = step(free, &values, &target) else { break };
        let ms = estimate.time.without_wait();
        longest = longest.max(ms);
        if ms < FAR_BELOW * own {
            break;
        }
    }
    longest - own
}

/// Throughput of all replicas over that of one with the same batch per replica, which waits for its own input only.
fn speedup(time: &TimeMs, target: &Target) -> f64 {
    let exchange = time.mirrored_loss + time.all_reduce_exposed;
    let alone = (time.without_wait() - exchange).max(input_load_ms(target, 1));
    f64::from(target.replicas) * alone / time.step.p50
}

/// What a step is off by beside its kernels, as a factor: kernels in a network do not run as those that are measured alone,
/// and runtimes launch others than were thought. Whole networks whose kernels were all measured on the very card are
/// within it in four of five cases (`docs/accuracy/baseline.md`).
const NETWORK_SPREAD: f64 = 1.25;

/// The interval around the middle. Errors of layers do not cancel, so that it is as wide as those of kernels together;
/// what is not of kernels is as rough as physics. What a whole network is off by is independent of both.
fn interval(estimate: &Estimate, target: &Target) -> Interval {
    let p50 = estimate.time.without_wait() + estimate.time.input_wait;
    let kernels = estimate.kernels;
    let rest = (p50 - kernels.p50).max(0.0);
    let [low, high] = roofline::SPREAD;
    let [least, most] = if target.uncertain { UNCERTAIN_SPREAD } else { [1.0; 2] };
    // Factors of independent errors: the squares of their logarithms add up, up to what physics alone would say.
    let wider = |end: f64, physics: f64| {
        let (own, network) = (libm::log(end / p50), libm::log(NETWORK_SPREAD));
        libm::exp(libm::sqrt(own * own + network * network).min(libm::log(physics).abs().max(own.abs())))
    };
    if p50 <= 0.0 {
        return Interval { p10: p50, p50, p90: p50 };
    }
    let [below, above] = [wider(kernels.p10 + rest * low, low), wider(kernels.p90 + rest * high, high)];
    Interval { p10: (p50 / below).min(p50 * least), p50, p90: (p50 * above).max(p50 * most) }
}

/// What the step waits for input that loads while the device works.
fn input_wait(time: &TimeMs, target: &Target) -> f64 {
    (input_load_ms(target, target.replicas) - time.without_wait()).max(0.0)
}

/// What the input of a step of so many replicas takes to load, ms; 0 where nothing was said of it.
fn input_load_ms(target: &Target, replicas: u32) -> f64 {
    let samples = target.batch.unwrap_or(1) as f64 * f64::from(replicas);
    let by_rate = target.input_samples_per_s.map_or(0.0, |rate| 1e3 * samples / rate);
    f64::from(target.accumulate) * target.input_ms.unwrap_or(0.0).max(by_rate)
}

/// Times of all kernels of one device, by part and by layer; and what passes from the start of a pass of a micro-batch to
/// its end, be it the device or the host that sets the pace.
fn time(schedule: &Schedule, target: &Target, pricer: &Pricer, estimate: &mut Estimate) -> Windows {
    let Estimate { time, layers, kernels: together, .. } = estimate;
    let overhead = (target.runtime.overhead)(target.version);
    let gap = overhead.launch_us / 1e3;
    let (mut launches, mut operators, mut backward_launches) = (0.0, 0.0, 0.0);
    let recomputes = target.mode == Mode::Train && target.recompute != Recompute::None;
    let again = f64::from(u8::from(recomputes));
    let price = |kernel: &Kernel| pricer.price(kernel);
    let prices: Vec<Vec<Price>> = schedule.lists.iter().map(|list| list.iter().map(price).collect()).collect();
    for launch in &schedule.launches {
        operators += launch.host_operators;
        let Some(layer) = layers.get_mut(launch.layer) else { continue };
        let mut by_bound = [0.0; 3];
        let mut models = Models::default();
        for (kernel, price) in schedule.kernels(launch).iter().zip(prices.get(launch.list).into_iter().flatten()) {
            let one = price.time_ms;
            let all = one.p50 * kernel.runs;
            launches += kernel.runs;
            if kernel.pass == Pass::Forward {
                layer.forward += all;
                time.forward += all;
                // What is computed again runs in front of the backward pass of its segment.
                layer.backward += all * again;
                time.backward += all * again;
                layer.both.p50 += all * again;
                layer.both.p10 += one.p10 * kernel.runs * again;
                layer.both.p90 += one.p90 * kernel.runs * again;
                layer.kernels += kernel.runs * again;
                launches += kernel.runs * again;
                backward_launches += kernel.runs * again;
            } else {
                layer.backward += all;
                time.backward += all;
                backward_launches += kernel.runs;
            }
            layer.both.p10 += one.p10 * kernel.runs;
            layer.both.p50 += all;
            layer.both.p90 += one.p90 * kernel.runs;
            layer.kernels += kernel.runs;
            if kernel.family.is_product() {
                layer.product_flops += kernel.flops * kernel.runs;
            }
            if let Some(slot) = by_bound.get_mut(price.bound as usize) {
                *slot += all;
            }
            models.add(price, all);
        }
        layer.bound = dominant(by_bound);
        models.tell(layer);
        together.p10 += layer.both.p10;
        together.p50 += layer.both.p50;
        together.p90 += layer.both.p90;
    }
    for kernel in &schedule.updates {
        let one = price(kernel).time_ms;
        time.optimizer += one.p50 * kernel.runs;
        together.p10 += one.p10 * kernel.runs;
        together.p50 += one.p50 * kernel.runs;
        together.p90 += one.p90 * kernel.runs;
        launches += kernel.runs;
    }
    let device = time.forward + time.backward + time.optimizer + launches * gap;
    let host = host_ms(schedule, target, operators);
    let backward = match target.mode {
        Mode::Train => (time.backward + backward_launches * gap).max(operators * overhead.host_backward_us / 1e3),
        Mode::Infer => 0.0,
    };
    let steps = f64::from(target.accumulate);
    let windows = Windows { forward: time.forward / steps, backward: backward / steps };
    // The host runs ahead of the device or the other way round; the slower one sets the pace.
    time.overhead = device.max(host) - (time.forward + time.backward + time.optimizer) + steps * overhead.step_us / 1e3;
    windows
}

/// Who priced the kernels of a layer, and what they had seen.
#[derive(Debug, Default)]
struct Models {
    /// Milliseconds by predictor; a layer has a few.
    by_model: Vec<(PredictorId, f64)>,
    /// Milliseconds inside and outside of what predictors have seen.
    seen: [f64; 2],
    /// The longest kernel outside.
    outside: Option<(f64, &'static str)>,
}

/// The share of a layer's time from which kernels outside of what was seen count.
const MATTERS: f64 = 0.1;

impl Models {
    fn add(&mut self, price: &Price, ms: f64) {
        match self.by_model.iter_mut().find(|(model, _)| *model == price.model) {
            Some((_, sum)) => *sum += ms,
            None => self.by_model.push((price.model, ms)),
        }
        match price.in_domain {
            Some(true) => self.seen[0] += ms,
            Some(false) => self.seen[1] += ms,
            None => {}
        }
        if let Some(name) = price.outside.filter(|_| self.outside.is_none_or(|(longest, _)| ms > longest)) {
            self.outside = Some((ms, name));
        }
    }

    fn tell(&self, layer: &mut LayerEstimate) {
        let Some(&(model, _)) = self.by_model.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else { return };
        layer.model = Some(model);
        let all: f64 = self.by_model.iter().map(|(_, ms)| ms).sum();
        let [inside, outside] = self.seen;
        let matters = outside > MATTERS * all;
        layer.in_domain = (matters || inside > 0.0).then_some(!matters);
        layer.outside = self.outside.filter(|_| matters).map(|(_, name)| name);
    }
}

/// What the host needs to walk through a step, ms.
fn host_ms(schedule: &Schedule, target: &Target, operators: f64) -> f64 {
    let overhead = (target.runtime.overhead)(target.version);
    let training = target.mode == Mode::Train;
    let backward = if training { overhead.host_backward_us } else { 0.0 };
    let updates = if training { schedule.updated_tensors as f64 * overhead.host_update_us } else { 0.0 };
    (operators * (overhead.host_forward_us + backward) + updates) / 1e3
}

fn dominant(by_bound: [f64; 3]) -> Option<Bound> {
    let bounds = [Bound::Compute, Bound::Memory, Bound::Launch];
    let (bound, ms) = bounds.into_iter().zip(by_bound).max_by(|a, b| a.1.total_cmp(&b.1))?;
    (ms > 0.0).then_some(bound)
}
