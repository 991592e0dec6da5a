//! Asks the library: the only place that knows how a model is analysed and priced.

use std::path::{Path, PathBuf};

use dlcost::diagnostics::Level;
use dlcost::engine::{CheckOptions, Input, check};
use dlcost::report::{Extent, Model};
use serde_json::Value;

use super::question::{Form, Target, Unpriced};

/// Bounds of a prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub(super) p10: f64,
    pub(super) p50: f64,
    pub(super) p90: f64,
}

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
    /// Whether the peak fits on the device.
    pub(super) fits: Option<bool>,
}

impl Price {
    fn of(report: &Model) -> Self {
        let time = serde_json::to_value(&report.time_ms).unwrap_or_default();
        let memory = serde_json::to_value(&report.memory_bytes).unwrap_or_default();
        Self {
            step: time.get("step").and_then(|step| interval(step, 1.0)),
            forward: time.get("forward").and_then(Value::as_f64),
            peak: memory.get("peak").and_then(|peak| interval(peak, MIB)),
            allocated: memory.get("peak_allocated").and_then(Value::as_f64).map(|bytes| bytes / MIB),
            fits: memory.get("fits").and_then(Value::as_bool),
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
        let path = folder.join(&form.file);
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

const MIB: f64 = 1_048_576.0;

fn report(path: &Path, options: &CheckOptions) -> Result<Model, Unpriced> {
    let shown = path.display().to_string();
    check(&Input::Path(path.to_path_buf()), &shown, options).map_err(|_| Unpriced("model file unreadable".to_owned()))
}

fn interval(value: &Value, unit: f64) -> Option<Interval> {
    let part = |name: &str| Some(value.get(name)?.as_f64()? / unit);
    Some(Interval { p10: part("p10")?, p50: part("p50")?, p90: part("p90")? })
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
