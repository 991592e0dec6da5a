//! The part of the report that depends on a device: times, memory, replicas, and what is worth saying about them.

use std::collections::BTreeMap;

use super::build::{batch, evaluate};
use super::totals::totals;
use super::{
    Assumption, ByteInterval, KernelFeatures, LayerTime, MemoryBytes, Model, Replica, Replicas, Text, Throughput,
    stages,
};
use crate::analysis::Analysis;
use crate::assume::assume;
use crate::diagnostics::lints::{LintCx, lint};
use crate::diagnostics::{Diagnostic, Level};
use crate::engine::{CheckOptions, Checked, Mode};
use crate::ir::element_type::ElementType;
use crate::predict::cards::{CardEstimate, shares};
use crate::predict::largest_batch::largest_batch;
use crate::predict::network::{Estimate, estimate};
use crate::predict::plans::Plans;
use crate::predict::{Bound, PredictorId};
use crate::runtime::Kernel;
use crate::target::{ChosenGpu, Context, Target, devices};

/// What is known of a model before a device is chosen.
pub(super) struct Pricing<'a> {
    pub(super) checked: &'a Checked,
    pub(super) analysis: &'a Analysis,
    pub(super) values: &'a BTreeMap<String, i128>,
    pub(super) options: &'a CheckOptions,
    /// What a step does, with the batch as it is asked for.
    pub(super) plans: Plans<'a>,
}

impl<'a> Pricing<'a> {
    pub(super) fn new(
        checked: &'a Checked,
        analysis: &'a Analysis,
        values: &'a BTreeMap<String, i128>,
        options: &'a CheckOptions,
    ) -> Self {
        let plans = Plans::new(analysis).with_free(checked.with_free_batch(options));
        Self { checked, analysis, values, options, plans }
    }

    /// What is priced on a device, and what had to be assumed for it.
    fn target(&self, gpu: &ChosenGpu) -> Option<(Target, Vec<Assumption>)> {
        let context = Context {
            analysis: self.analysis,
            producer: self.checked.header.as_ref().map_or("", |header| &header.producer_name),
            mode: self.options.mode,
            batch: batch(self.analysis, self.values).and_then(|batch| u64::try_from(batch).ok()),
        };
        Target::resolve(&self.options.request, gpu, &context)
    }

    /// Tokens of a step of one replica: the elements of the first input of token ids, a matrix of integers with a row for
    /// each sample. Other matrices of integers (masks, positions, features) do not count.
    fn tokens(&self) -> Option<u64> {
        let is_ids = |name: &str| {
            let name = name.to_lowercase();
            ["ids", "token", "tok"].iter().any(|word| name.contains(word))
                && !["mask", "type", "position"].iter().any(|word| name.contains(word))
        };
        let (_, fact) = self.analysis.bound.inputs.iter().find(|(name, fact)| {
            let matrix = fact.as_tensor().filter(|tensor| tensor.shape.as_ref().is_some_and(|shape| shape.rank() == 2));
            is_ids(name) && matrix.is_some_and(|tensor| tensor.element.is_some_and(ElementType::is_integer))
        })?;
        let shape = fact.as_tensor()?.shape.as_ref()?;
        evaluate(&shape.elements(), self.values).and_then(|tokens| u64::try_from(tokens).ok())
    }

    /// Fills in what holds for a device, and gives what there is to say about it.
    pub(super) fn price(&self, gpu: &ChosenGpu, model: &mut Model) -> Vec<Diagnostic> {
        let Some((mut target, assumptions)) = self.target(gpu) else { return Vec::new() };
        model.assumptions.extend(assumptions);
        describe(&target, model);
        // A graph whose shapes do not fit does not run: what is left of it has no price.
        let runs = |found: &Diagnostic| found.level < Level::Error || !found.code.number().starts_with("DL03");
        if !self.checked.diagnostics.iter().all(runs) {
            return Vec::new();
        }
        let Some(estimate) = estimate(&self.plans, self.values, &target) else {
            return Vec::new();
        };
        // What there is to say of unequal cards is said of the one that all wait for.
        target.device = estimate.slowest.clone().unwrap_or(target.device);
        fill(&estimate, &target, model);
        if self.options.features {
            self.features(&target, model);
        }
        if let Some(throughput) = &mut model.throughput {
            throughput.tokens_per_s = self
                .tokens()
                .map(|tokens| 1e3 * tokens as f64 * target.micro_batches() as f64 / estimate.time.step.p50);
        }
        let free = self.plans.free();
        if let Some(memory) = &mut model.memory_bytes {
            let each = target.each();
            let largest = |free| each.iter().filter_map(|target| largest_batch(free, self.values, target)).min();
            memory.largest_batch = free.and_then(largest);
        }
        model.bounds = estimate.bounds();
        model.totals = totals(&self.options.request, &target, &estimate);
        lint(&LintCx {
            plans: &self.plans,
            free,
            analysis: self.analysis,
            options: self.options,
            values: self.values,
            target: &target,
            estimate: &estimate,
            report: model,
        })
    }
}

impl Pricing<'_> {
    /// Fills in what predictors see of the kernels of each layer.
    fn features(&self, target: &Target, model: &mut Model) {
        let Some(schedule) = self.plans.schedule(self.values, target) else { return };
        let pricer = self.plans.pricer(target);
        let of = |kernel: &Kernel| {
            let price = pricer.price(kernel);
            let values = pricer.features(kernel).map(|(_, values)| values.into_iter().collect());
            KernelFeatures {
                pass: kernel.pass.name(),
                family: kernel.family.name(),
                precision: kernel.precision.name(),
                model: Text::from(&*price.model.to_string()),
                in_domain: price.in_domain,
                outside: price.outside,
                time_ms: price.time_ms,
                values: values.unwrap_or_default(),
            }
        };
        let lists: Vec<Vec<KernelFeatures>> = schedule.lists.iter().map(|list| list.iter().map(of).collect()).collect();
        for layer in &mut model.layers {
            layer.features = Some(Vec::new());
        }
        for launch in &schedule.launches {
            let layer = model.layers.get_mut(launch.layer).and_then(|layer| layer.features.as_mut());
            if let (Some(features), Some(list)) = (layer, lists.get(launch.list)) {
                features.extend_from_slice(list);
            }
        }
    }
}

/// What the figures hold for.
fn describe(target: &Target, model: &mut Model) {
    let several = target.replicas > 1;
    let shown = &mut model.target;
    let cards = &target.cards;
    shown.gpu = Some(if cards.is_empty() { target.device.id.clone() } else { cards.id() });
    shown.gpu_name = Some(if cards.is_empty() { target.device.name.clone() } else { cards.name() });
    shown.global_batch = target.global_batch().map(i128::from);
    shown.accumulate = Some(target.accumulate);
    shown.precision = Some(target.precision.name().to_owned());
    shown.optimizer = Some(target.optimizer.name().to_owned());
    shown.runtime = Some(target.runtime.text(target.version));
    shown.replicas = Some(target.replicas);
    shown.hosts = Some(target.hosts);
    shown.strategy = several.then(|| target.strategy.name().to_owned());
    shown.zero = Some(target.zero.stage());
    shown.interconnect = several.then(|| target.network.unwrap_or(target.interconnect).id.clone());
}

fn fill(estimate: &Estimate, target: &Target, model: &mut Model) {
    let time = &estimate.time;
    model.time_ms = Some(*time);
    let samples = target.global_batch().map(|batch| 1e3 * batch as f64 / time.step.p50);
    model.throughput = Some(Throughput { samples_per_s: samples, tokens_per_s: None });
    let memory = &estimate.memory;
    let [p10, p90] = memory.ends();
    let peak = memory.peak();
    let interval = ByteInterval { p10, p50: peak, p90 };
    let capacity = estimate.memory_device(target).memory.visible_bytes() as u64;
    model.memory_bytes = Some(MemoryBytes {
        peak: interval,
        peak_allocated: memory.allocated(),
        peak_reserved: peak.saturating_sub(memory.framework),
        parameters: memory.parameters,
        gradients: memory.gradients,
        optimizer: memory.optimizer,
        saved_activations: memory.saved_activations,
        transient: memory.transient,
        workspace: memory.workspace,
        communication: memory.communication,
        kv_cache: memory.kv_cache,
        framework: memory.framework,
        capacity,
        fits: if interval.p90 <= capacity {
            Some(true)
        } else if interval.p10 > capacity {
            Some(false)
        } else {
            None
        },
        largest_batch: None,
    });
    if target.replicas > 1 {
        let exchange = &estimate.exchange;
        let speedup = estimate.speedup;
        let waits = time.input_wait > time.mirrored_loss + time.all_reduce_exposed;
        model.replicas = Some(Replicas {
            speedup,
            efficiency: speedup / f64::from(target.replicas),
            all_reduce_ms: exchange.all_reduce_ms,
            mirrored_loss_ms: exchange.mirrored_loss_ms,
            step_ms_exchanging_always: exchanging_always(estimate, target),
            bound: if waits { "input" } else { exchange.bound }.to_owned(),
            devices: unequal(estimate, target),
        });
    }
    let training = target.mode == Mode::Train;
    // A model of many layers has a few predictors.
    let mut names: Vec<(PredictorId, Text)> = Vec::new();
    let mut name = |id: PredictorId| match names.iter().find(|(known, _)| *known == id) {
        Some((_, text)) => text.clone(),
        None => {
            let text = Text::from(&*id.to_string());
            names.push((id, text.clone()));
            text
        }
    };
    for (layer, priced) in model.layers.iter_mut().zip(&estimate.layers) {
        let both = priced.both;
        layer.time_ms = Some(LayerTime {
            forward: priced.forward,
            backward: priced.backward,
            p10: both.p10,
            p50: both.p50,
            p90: both.p90,
        });
        layer.share = (time.step.p50 > 0.0).then(|| both.p50 / time.step.p50);
        layer.saved_bytes = Some(if training { i128::from(priced.saved_bytes) } else { 0 });
        layer.bound = priced.bound.map(Bound::name);
        layer.kernels = Some(priced.kernels.round() as u32);
        layer.model = Some(name(priced.model.unwrap_or(PredictorId::Roofline)));
        layer.in_domain = priced.in_domain;
    }
}

/// Unequal cards one by one, with what evens them out.
fn unequal(estimate: &Estimate, target: &Target) -> Vec<Replica> {
    let cards = &estimate.cards;
    let slowest = cards.iter().map(|card| card.compute_ms).fold(0.0, f64::max);
    let rates: Vec<f64> = cards.iter().map(|card| 1.0 / card.compute_ms).collect();
    let shares = target.global_batch().map(|batch| shares(batch, &rates));
    let of = |(index, card): (usize, &CardEstimate)| Replica {
        gpu: card.device.id.clone(),
        step_ms: card.compute_ms,
        wait_ms: slowest - card.compute_ms,
        share_of_batch: shares.as_ref().and_then(|shares| shares.get(index).copied()),
    };
    cards.iter().enumerate().map(of).collect()
}

/// The step if every micro-batch ended with an exchange of its own.
fn exchanging_always(estimate: &Estimate, target: &Target) -> Option<f64> {
    let more = f64::from(target.accumulate.saturating_sub(1)) * estimate.exchange.each_ms;
    let time = &estimate.time;
    (more > 0.0).then(|| (time.without_wait() + more).max(time.step.p50))
}

/// The kernels of a step on each device, with their prices.
pub(crate) fn kernels(analysis: &Analysis, checked: &Checked, options: &CheckOptions) -> String {
    for_each_gpu(analysis, checked, options, &|pricing, target| {
        let schedule = pricing.plans.schedule(pricing.values, target)?;
        Some(stages::kernels(analysis, &schedule, target, &pricing.plans.pricer(target)))
    })
}

/// Memory on each device, by parts and by layers.
pub(crate) fn memory(analysis: &Analysis, checked: &Checked, options: &CheckOptions) -> String {
    for_each_gpu(analysis, checked, options, &|pricing, target| {
        let estimate = estimate(&pricing.plans, pricing.values, target)?;
        Some(stages::memory(analysis, &estimate.memory, target))
    })
}

/// The texts of all devices; nothing where sizes are not known, which a diagnostic says.
fn for_each_gpu(
    analysis: &Analysis,
    checked: &Checked,
    options: &CheckOptions,
    text: &dyn Fn(&Pricing<'_>, &Target) -> Option<String>,
) -> String {
    let assumed = assume(&analysis.bound, options.mode);
    let pricing = Pricing::new(checked, analysis, &assumed.values, options);
    let targets = |gpu: &ChosenGpu| pricing.target(gpu).map_or_else(Vec::new, |(target, _)| target.each());
    let of = |target: Target| text(&pricing, &target);
    devices(&options.request).iter().flat_map(targets).filter_map(of).collect::<Vec<_>>().join("\n")
}
