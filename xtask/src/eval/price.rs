//! Asks the library: the only place that knows how a model is analysed and priced. It goes past the report, which tells
//! more than is compared here; a file is read once and priced for all that is asked of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dlcost::analysis::Analysis;
use dlcost::assume::assume;
use dlcost::diagnostics::Level;
use dlcost::frontend::onnx::external::ExternalFiles;
use dlcost::frontend::onnx::model::Model;
use dlcost::frontend::source::Source;
use dlcost::ir::fact::Fact;
use dlcost::ir::place::Places;
use dlcost::ir::shape::Shape;
use dlcost::options::target::GpuName;
use dlcost::passes::bind::Bindings;
use dlcost::passes::payloads::check_payloads;
use dlcost::predict::learned::predictors::Predictors;
use dlcost::predict::network::{Estimate, estimate};
use dlcost::predict::plans::Plans;
use dlcost::report::Interval;
use dlcost::runtime::{Attention, Runtime};
use dlcost::target::{self, ChosenGpu, Compute, Context, Optimizer, Request, Strategy, choose};

use super::limit::Least;
use super::network::path_of;
use super::question::{Form, Target, Unpriced};

/// What the library says of a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Price {
    /// A step, ms.
    pub(super) step: Option<Interval>,
    /// The kernels of its forward pass, ms.
    pub(super) forward: Option<f64>,
    /// What the driver shows at the peak, MiB.
    pub(super) peak: Option<Interval>,
    /// What the allocator has handed out at the peak, MiB.
    pub(super) allocated: Option<f64>,
    /// Whether the middle of the peak fits on the device.
    pub(super) fits: Option<bool>,
    /// What no step on this board can beat.
    pub(super) least: Option<Least>,
}

impl Price {
    fn of(estimate: &Estimate, gpu: &ChosenGpu) -> Self {
        let memory = &estimate.memory;
        let [p10, p90] = memory.ends().map(mib);
        let p50 = mib(memory.peak());
        Self {
            step: Some(estimate.time.step),
            forward: Some(estimate.time.forward),
            peak: Some(Interval { p10, p50, p90 }),
            allocated: Some(mib(memory.allocated())),
            least: None,
            fits: Some(p50 <= gpu.device.memory.visible_bytes() / BYTES_PER_MIB),
        }
    }
}

const BYTES_PER_MIB: f64 = 1_048_576.0;

#[allow(clippy::cast_precision_loss)]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / BYTES_PER_MIB
}

/// A file that was read in one form.
pub(super) struct Analysed {
    model: Model,
    bindings: Bindings,
    analysis: Analysis,
}

impl Analysed {
    /// Reads the file of a form.
    pub(super) fn new(folder: &Path, form: &Form) -> Result<Self, Unpriced> {
        let unreadable = || Unpriced("model file unreadable".to_owned());
        let source = Source::open(&path_of(folder, &form.file)).map_err(|_| unreadable())?;
        let mut places = Places::default();
        let mut model = dlcost::frontend::load(&source, &mut places).model.ok_or_else(unreadable)?;
        check_payloads(&mut model, &mut ExternalFiles::new(source.folder.clone()), &mut places);
        let mut bindings = Bindings::default();
        let mut analysis = analyse(&model, &bindings);
        if let Some(resized) = form.image.map(|image| image_shape(&analysis, image)).transpose()?.flatten() {
            bindings.input_shapes.push(resized);
            analysis = analyse(&model, &bindings);
        }
        sound(&analysis)?;
        Ok(Self { model, bindings, analysis })
    }

    /// Prices the form on a target.
    pub(super) fn price(&self, target: &Target, predictors: &Arc<Predictors>) -> Result<Price, Unpriced> {
        let batch = self.analysis.bound.batch.as_deref();
        let free = batch.filter(|batch| self.analysis.bound.free.iter().any(|symbol| symbol.name() == *batch));
        let Some(batch) = free else {
            // The file fixes its batch: another one is another analysis.
            let bindings = Bindings { batch: Some(target.batch), ..self.bindings.clone() };
            let analysis = analyse(&self.model, &bindings);
            sound(&analysis)?;
            return price(&analysis, None, target, predictors);
        };
        price(&self.analysis, Some(batch), target, predictors)
    }
}

fn analyse(model: &Model, bindings: &Bindings) -> Analysis {
    Analysis::new(model, Places::default(), bindings, &|_| false)
}

/// Figures of a graph whose shapes do not fit together mean nothing.
fn sound(analysis: &Analysis) -> Result<(), Unpriced> {
    let error = analysis.diagnostics.iter().find(|diagnostic| diagnostic.code.default_level() == Level::Error);
    error.map_or(Ok(()), |error| Err(Unpriced(format!("not priced: {}", error.code.name()))))
}

fn price(
    analysis: &Analysis,
    batch: Option<&str>,
    asked: &Target,
    predictors: &Arc<Predictors>,
) -> Result<Price, Unpriced> {
    let mut values = assume(&analysis.bound, asked.mode()).values;
    let mut bind = |name: &str, value: u64| values.insert(name.to_owned(), i128::from(value));
    if let Some(batch) = batch {
        bind(batch, asked.batch);
    }
    if let Some(tokens) = asked.tokens {
        for name in token_dims(analysis) {
            bind(&name, tokens);
        }
    }
    let unknown_device = || Unpriced(format!("device not described: {}", asked.device));
    let gpu = choose(&[GpuName::Id(asked.device.clone())], &[]).ok().and_then(|gpus| gpus.into_iter().next());
    let gpu = gpu.ok_or_else(unknown_device)?;
    // The runtime is in the request, so that it does not matter who wrote the file.
    let request = Request { predictors: Some(Arc::clone(predictors)), ..request(asked) };
    let context = Context { analysis, producer: "", mode: asked.mode(), batch: Some(asked.batch) };
    let resolved = target::Target::resolve(&request, &gpu, &context);
    let (target, _) = resolved.ok_or_else(unknown_device)?;
    let unbound = || Unpriced("not priced: unbound-dim".to_owned());
    let plans = Plans::new(analysis);
    let estimate = estimate(&plans, &values, &target).ok_or_else(unbound)?;
    let schedule = plans.schedule(&values, &target).ok_or_else(unbound)?;
    Ok(Price { least: Some(Least::of(&schedule, analysis, &target)), ..Price::of(&estimate, &gpu) })
}

/// A target in the library's types, but for the device.
fn request(target: &Target) -> Request {
    Request {
        precision: named(&Compute::ALL, Some(target.precision)),
        optimizer: named(&Optimizer::ALL, target.optimizer),
        runtime: Runtime::find(target.runtime).map(|runtime| (runtime, target.version)),
        attention: named(&Attention::ALL, target.attention),
        replicas: Some(target.replicas),
        hosts: Some(target.hosts),
        strategy: named(&Strategy::ALL, target.strategy),
        ..Request::default()
    }
}

fn named<T: Copy>(all: &[(&str, T)], name: Option<&str>) -> Option<T> {
    all.iter().find(|(known, _)| Some(*known) == name).map(|(_, value)| *value)
}

/// The dims of an input of the main graph, by its name.
fn inputs(analysis: &Analysis) -> BTreeMap<&str, Vec<String>> {
    let dims = |fact: &Fact| {
        let shape = fact.as_tensor()?.shape.as_ref()?;
        Some(Shape::dims(shape).iter().map(ToString::to_string).collect())
    };
    analysis.bound.inputs.iter().filter_map(|(name, fact)| Some((&**name, dims(fact)?))).collect()
}

/// The shape of the image input at a size, where the file has another; its batch stays as it is.
fn image_shape(analysis: &Analysis, image: [u64; 3]) -> Result<Option<(String, Vec<String>)>, Unpriced> {
    let size = image.map(|extent| extent.to_string());
    let found = inputs(analysis).into_iter().find(|(_, dims)| dims.len() == 4);
    let (name, dims) = found.ok_or_else(|| Unpriced("no input of the file is an image".to_owned()))?;
    let resized = dims.iter().take(1).chain(&size).cloned();
    Ok((dims.get(1..) != Some(&size[..])).then(|| (name.to_owned(), resized.collect())))
}

/// Free dims that count tokens: `seq`, `dseq`, `slen`.
fn token_dims(analysis: &Analysis) -> Vec<String> {
    let names = analysis.bound.free.iter().map(|symbol| symbol.name().to_owned());
    names.filter(|name| name.contains("seq") || name.ends_with("len")).collect()
}
