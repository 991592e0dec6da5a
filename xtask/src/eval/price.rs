//! Asks the library: the only place that knows how a model is analysed and priced.

use std::path::{Path, PathBuf};

use dlcost::diagnostics::Level;
use dlcost::engine::{CheckOptions, Input, check};
use dlcost::options::target::GpuName;
use dlcost::report::{Extent, Interval, Model};
use dlcost::runtime::{Attention, Runtime};
use dlcost::target::{Compute, Optimizer, Request, Strategy, choose};

use super::network::path_of;
use super::question::{Form, Target, Unpriced};

/// What the library says of a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Price {
    /// A step, ms.
    pub(super) step: Option<Interval>,
    /// Its forward pass, ms.
    pub(super) forward: Option<f64>,
    /// What the driver shows at the peak, MiB.
    pub(super) peak: Option<Interval>,
    /// What the allocator has handed out at the peak, MiB.
    pub(super) allocated: Option<f64>,
    /// Whether the peak fits on the device; by its middle where the ends of the interval disagree.
    pub(super) fits: Option<bool>,
}

impl Price {
    fn of(report: &Model) -> Self {
        let (time, memory) = (report.time_ms.as_ref(), report.memory_bytes.as_ref());
        Self {
            step: time.map(|time| time.step),
            forward: time.map(|time| time.forward),
            peak: memory.map(|memory| Interval {
                p10: mib(memory.peak.p10),
                p50: mib(memory.peak.p50),
                p90: mib(memory.peak.p90),
            }),
            allocated: memory.map(|memory| mib(memory.peak_allocated)),
            fits: memory.map(|memory| memory.fits.unwrap_or(memory.peak.p50 <= memory.capacity)),
        }
    }
}

/// A file that was read in one form.
#[derive(Debug)]
pub(super) struct Analysed {
    path: PathBuf,
    options: CheckOptions,
    /// Free dims of inputs that count tokens.
    token_dims: Vec<String>,
}

impl Analysed {
    /// Reads the file of a form.
    pub(super) fn new(folder: &Path, form: &Form) -> Result<Self, Unpriced> {
        let path = path_of(folder, &form.file);
        let mut options = CheckOptions { mode: form.mode(), ..CheckOptions::default() };
        let facts = report(&path, &options)?;
        if let Some(image) = form.image {
            options.input_shapes.extend(image_shape(&facts, image)?);
        }
        let token_dims = token_dims(&facts);
        Ok(Self { path, options, token_dims })
    }

    /// Prices the form on a target.
    pub(super) fn price(&self, target: &Target) -> Result<Price, Unpriced> {
        let mut options = self.options.clone();
        options.batch = Some(target.batch);
        options.request = request(target)?;
        if let Some(tokens) = target.tokens {
            options.dims.extend(self.token_dims.iter().map(|name| (name.clone(), tokens.to_string())));
        }
        let report = report(&self.path, &options)?;
        let price = Price::of(&report);
        if price == Price::default() {
            let error = report.diagnostics.iter().find(|finding| finding.level == Level::Error);
            let cause = error.map_or("no reason given", |finding| finding.name.as_str());
            return Err(Unpriced(format!("not priced: {cause}")));
        }
        Ok(price)
    }
}

#[allow(clippy::cast_precision_loss)]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

fn report(path: &Path, options: &CheckOptions) -> Result<Model, Unpriced> {
    let shown = path.display().to_string();
    let reports = check(&Input::Path(path.to_path_buf()), &shown, options);
    let report = reports.ok().and_then(|reports| reports.into_iter().next());
    report.ok_or_else(|| Unpriced("model file unreadable".to_owned()))
}

/// A target in the library's types.
fn request(target: &Target) -> Result<Request, Unpriced> {
    let gpus = choose(&[GpuName::Id(target.device.clone())], &[])
        .map_err(|_| Unpriced(format!("device not described: {}", target.device)))?;
    Ok(Request {
        gpus,
        precision: named(&Compute::ALL, Some(target.precision)),
        optimizer: named(&Optimizer::ALL, target.optimizer),
        runtime: Runtime::find(target.runtime).map(|runtime| (runtime, target.version)),
        attention: named(&Attention::ALL, target.attention),
        replicas: Some(target.replicas),
        hosts: Some(target.hosts),
        strategy: named(&Strategy::ALL, target.strategy),
        ..Request::default()
    })
}

fn named<T: Copy>(all: &[(&str, T)], name: Option<&str>) -> Option<T> {
    all.iter().find(|(known, _)| Some(*known) == name).map(|(_, value)| *value)
}

/// The shape of the image input at a size, where the file has another; its batch stays as it is.
fn image_shape(facts: &Model, image: [u64; 3]) -> Result<Option<(String, Vec<String>)>, Unpriced> {
    let size = image.map(|extent| extent.to_string());
    let port = facts.inputs.iter().find(|port| port.shape.as_ref().is_some_and(|shape| shape.len() == 4));
    let Some((port, shape)) = port.and_then(|port| Some((port, port.shape.as_ref()?))) else {
        return Err(Unpriced("no input of the file is an image".to_owned()));
    };
    let shape: Vec<String> = shape.iter().map(text).collect();
    if shape.get(1..) == Some(&size[..]) {
        return Ok(None);
    }
    Ok(Some((port.name.clone(), shape.into_iter().take(1).chain(size).collect())))
}

/// Symbols of inputs that count tokens: `seq`, `dseq`, `slen`.
fn token_dims(facts: &Model) -> Vec<String> {
    let extents = facts.inputs.iter().filter_map(|port| port.shape.as_ref()).flatten();
    let mut names: Vec<String> =
        extents.map(text).filter(|name| name.contains("seq") || name.ends_with("len")).collect();
    names.sort();
    names.dedup();
    names
}

fn text(extent: &Extent) -> String {
    match extent {
        Extent::Number(number) => number.to_string(),
        Extent::Symbolic(formula) => formula.clone(),
    }
}
