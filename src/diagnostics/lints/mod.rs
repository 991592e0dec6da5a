//! Lints: what is worth saying of a model on a target once its time and memory are known. One file each; the page of a
//! lint lies with those of all other codes.
//!
//! A lint says what it costs and what the next command would change, with numbers: it prices the target again with one
//! thing changed ([`LintCx::what_if`], [`LintCx::at_batch`]). That is done where the lint has something to say, never on
//! the way there.

mod batch_norm_folded;
mod embedding_dominates;
mod fp32_on_tensor_cores;
mod launch_bound;
mod mirrored_loss_dominates;
mod misaligned_channels;
mod optimizer_dominates;
mod out_of_memory;
mod outside_training_domain;
mod precision_not_supported;
mod quadratic_attention;
mod replicas_do_not_pay;
mod say;
mod slow_half_precision;
mod small_batch;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Diagnostic, Level};
use crate::analysis::Analysis;
use crate::device::Precision;
use crate::engine::{CheckOptions, Mode};
use crate::ir::graph::Node;
use crate::predict::network::{Estimate, LayerEstimate, estimate};
use crate::predict::plans::Plans;
use crate::report::Model;
use crate::target::{Cards, Compute, Target};

/// What lints look at.
#[derive(Clone, Copy)]
pub(crate) struct LintCx<'a> {
    /// What a step does, whatever the device.
    pub(crate) plans: &'a Plans<'a>,
    /// The same for any batch; `None` where the file or the shape of an input fixes it.
    pub(crate) free: Option<&'a Plans<'a>>,
    /// What was asked for.
    pub(crate) options: &'a CheckOptions,
    /// The model.
    pub(crate) analysis: &'a Analysis,
    /// Values of the free dims.
    pub(crate) values: &'a BTreeMap<String, i128>,
    /// What it was priced for.
    pub(crate) target: &'a Target,
    /// What it takes.
    pub(crate) estimate: &'a Estimate,
    /// The entry of the report that this is said of, with all numbers of the target filled in.
    pub(crate) report: &'a Model,
}

/// A lint: `None` where there is nothing to say.
type Lint = fn(&LintCx<'_>) -> Option<Diagnostic>;

/// Lints that hold whatever the device.
const ABOUT_THE_MODEL: &[Lint] = &[batch_norm_folded::check, embedding_dominates::check];

/// Lints that say something even of a device that was assumed: whether the model fits one at all, and what replicas do,
/// for whoever asked for them.
const ABOUT_ANY_DEVICE: &[Lint] =
    &[out_of_memory::check, replicas_do_not_pay::check, mirrored_loss_dominates::check, precision_not_supported::check];

/// Lints about a device that somebody chose.
const ABOUT_THE_DEVICE: &[Lint] = &[
    quadratic_attention::check,
    launch_bound::check,
    small_batch::check,
    fp32_on_tensor_cores::check,
    misaligned_channels::check,
    slow_half_precision::check,
    optimizer_dominates::check,
    outside_training_domain::check,
];

/// All that there is to say.
#[must_use]
pub(crate) fn lint(cx: &LintCx<'_>) -> Vec<Diagnostic> {
    let run = |lints: &[Lint]| -> Vec<Diagnostic> { lints.iter().filter_map(|lint| lint(cx)).collect() };
    let mut found = run(ABOUT_THE_MODEL);
    // Nobody cares how fast something is that does not run at all.
    if cx.report.memory_bytes.is_some_and(|memory| memory.fits == Some(false)) {
        found.extend(out_of_memory::check(cx));
    } else {
        found.extend(run(ABOUT_ANY_DEVICE));
        if !cx.device_is_assumed() {
            found.extend(run(ABOUT_THE_DEVICE));
        }
    }
    if cx.device_is_assumed() {
        // What is said of a card that nobody asked for must not break a build.
        for diagnostic in found.iter_mut().filter(|diagnostic| diagnostic.level == Level::Error) {
            diagnostic.level = Level::Warning;
        }
    }
    found
}

impl<'a> LintCx<'a> {
    /// The estimate with the target changed.
    fn what_if(&self, change: impl FnOnce(&mut Target)) -> Option<Estimate> {
        let mut target = self.target.clone();
        change(&mut target);
        estimate(self.plans, self.values, &target)
    }

    /// The estimate in another precision.
    fn in_precision(&self, precision: Compute) -> Option<Estimate> {
        self.what_if(|target| {
            target.precision = precision;
            target.precision_is_given = true;
        })
    }

    /// The estimate for another batch per replica; `None` where the file or the shape of an input fixes it.
    fn at_batch(&self, batch: u64) -> Option<Estimate> {
        let free = self.free?;
        let symbol = free.analysis().bound.batch.as_deref()?;
        let mut values = self.values.clone();
        values.insert(symbol.to_owned(), i128::from(batch));
        let mut target = self.target.clone();
        target.batch = Some(batch);
        estimate(free, &values, &target)
    }

    /// The estimate for another value of a free dim that is not the batch.
    fn at_dim(&self, symbol: &str, value: i128) -> Option<Estimate> {
        let mut values = self.values.clone();
        *values.get_mut(symbol)? = value;
        estimate(self.plans, &values, self.target)
    }

    /// Whether something was assumed for an option.
    fn is_assumed(&self, option: &str) -> bool {
        self.report.assumptions.iter().any(|assumption| assumption.key == option)
    }

    fn device_is_assumed(&self) -> bool {
        self.options.request.gpus.is_empty()
    }

    fn trains(&self) -> bool {
        self.target.mode == Mode::Train
    }

    /// What a run of the model is called.
    fn run(&self) -> &'static str {
        if self.trains() { "step" } else { "run" }
    }

    fn device(&self) -> &'a str {
        &self.target.device.name
    }

    /// The node of a layer, by the layer's index.
    fn node(&self, layer: usize) -> Option<&'a Node> {
        self.analysis.node(self.analysis.layers.get(layer)?)
    }

    /// Layers with what they take.
    fn layers(&self) -> impl Iterator<Item = (usize, &'a LayerEstimate)> {
        self.estimate.layers.iter().enumerate()
    }

    /// Whether a memory's upper end fits the target's device.
    fn fits(&self, estimate: &Estimate) -> bool {
        upper_end(estimate) as f64 <= estimate.memory_device(self.target).memory.visible_bytes()
    }

    /// Samples that all replicas of the target do in a second at a batch per replica.
    fn samples_per_s(&self, estimate: &Estimate, batch: u64) -> f64 {
        1e3 * batch as f64 * self.target.micro_batches() as f64 / step_ms(estimate)
    }

    /// What the products of a layer are computed in; `None` where it has none, or quantised ones.
    fn product_precision(&self, layer: usize) -> Option<Precision> {
        let node = self.node(layer)?;
        let has_products = self.estimate.layers.get(layer)?.product_flops > 0.0;
        let quantised = node.op.contains("QLinear") || node.op.contains("Integer");
        if !has_products || quantised {
            return None;
        }
        Some(self.target.product_precision(node.op.starts_with("Conv")))
    }
}

/// Kernels of both passes of a layer, ms.
fn layer_ms(layer: &LayerEstimate) -> f64 {
    layer.forward + layer.backward
}

/// Kernels of both passes, ms.
fn kernels_ms(estimate: &Estimate) -> f64 {
    estimate.time.forward + estimate.time.backward
}

/// The step as if input were always there, ms: no lint blames the device for slow input.
fn step_ms(estimate: &Estimate) -> f64 {
    estimate.time.without_wait()
}

/// The upper end of the memory that is needed, bytes.
fn upper_end(estimate: &Estimate) -> u64 {
    estimate.memory.upper_end()
}

/// Share of a step on one device that goes into launching kernels, whatever they compute.
fn launch_share(estimate: &Estimate) -> f64 {
    estimate.bounds().map_or(0.0, |bounds| bounds.launch)
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The same target on another device.
fn on_device(target: &mut Target, device: &crate::device::Device) {
    target.device = Arc::new(device.clone());
    target.cards = Cards::default();
}

/// Texts that are there, as a list with `;` between them.
fn joined(parts: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

impl Diagnostic {
    /// Sets the help text where there is one.
    fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }
}
