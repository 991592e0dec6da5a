//! Assembles the report of one model from what the passes found.

use std::collections::{BTreeMap, HashMap};

use super::annotate::Shifts;
use super::locate::Locator;
use super::price::Pricing;
use super::stages::fact_text;
use super::{
    Assumption, Coverage, Excerpt, Extent, Finding, Graph, Layer, Model, Parameters, Passes, Port, Producer, Target,
    TensorType, Text,
};
use crate::analysis::{Analysis, Figures, LayerFigures};
use crate::assume::{Assumed, assume};
use crate::diagnostics::{Code, Diagnostic, Level, selector};
use crate::engine::{CheckOptions, Checked, Mode};
use crate::frontend::sniff::Format;
use crate::frontend::source::Source;
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::graph::{GraphId, Origin, TensorId};
use crate::ir::shape::Shape;
use crate::passes::count as counted;
use crate::passes::parameters::Kind;
use crate::passes::review::{impossible_dims, review};
use crate::target::devices;

/// Findings of one code that are listed; more are counted.
const LISTED: usize = 100;

/// Findings of one file that get an excerpt.
const EXCERPTS: usize = 50;

/// The reports of one model: one for each device that was asked for.
pub(crate) fn models(checked: &Checked, source: &Source, path: &str, options: &CheckOptions) -> Vec<Model> {
    let mut base = Model {
        path: path.to_owned(),
        format: checked.format.map(|format| format.name().to_owned()),
        target: Target { mode: mode_name(options.mode).to_owned(), ..Target::default() },
        ..Model::default()
    };
    if let Some(header) = &checked.header {
        base.name.clone_from(&header.name);
        base.producer = Producer {
            name: header.producer_name.clone(),
            version: header.producer_version.clone(),
            ir_version: header.ir_version,
            opsets: header.opsets.iter().cloned().collect(),
        };
    }
    let mut locator = Locator::new(path, source, checked);
    let mut diagnostics = checked.diagnostics.clone();
    let gpus = devices(&options.request);
    let Some(analysis) = &checked.analysis else {
        base.diagnostics = findings(diagnostics, options, &mut locator);
        settle_lines(&mut base, checked);
        return vec![base; gpus.len().max(1)];
    };
    let assumed = assume(&analysis.bound, options.mode);
    let pricing = Pricing::new(checked, analysis, &assumed.values, options);
    let figures = pricing.plans.figures(&assumed.values);
    diagnostics.extend(review(analysis, &figures));
    diagnostics.extend(impossible_dims(&analysis.bound, &assumed.values));
    fill(&mut base, analysis, &figures, &assumed, options, &locator);
    let mut models = Vec::with_capacity(gpus.len());
    for gpu in &gpus {
        let mut model = base.clone();
        let found = pricing.price(gpu, &mut model);
        let all = diagnostics.iter().cloned().chain(found).collect();
        model.diagnostics = findings(all, options, &mut locator);
        settle_lines(&mut model, checked);
        models.push(model);
    }
    models
}

/// Gives places of a binary model their lines in the text of `annotate`.
fn settle_lines(model: &mut Model, checked: &Checked) {
    if checked.format != Some(Format::Onnx) {
        return;
    }
    let shifts = &Shifts::of(&model.diagnostics, &checked.layout);
    for layer in &mut model.layers {
        shifts.apply(&mut layer.place);
    }
    for finding in &mut model.diagnostics {
        for place in &mut finding.places {
            shifts.apply(place);
        }
        if let Some(excerpt) = &mut finding.excerpt {
            settle_excerpt(excerpt, shifts);
        }
    }
}

/// An excerpt begins with the line in front of the marked one, unless comments stand between them.
fn settle_excerpt(excerpt: &mut Excerpt, shifts: &Shifts) {
    let line = |line: usize| usize::try_from(shifts.line(line as u64)).unwrap_or(usize::MAX);
    let context = excerpt.text.find('\n').map(|end| end + 1).filter(|&end| end <= excerpt.range.start);
    let first = line(excerpt.first_line);
    match context {
        Some(start) if line(excerpt.first_line + 1) != first + 1 => {
            excerpt.first_line = line(excerpt.first_line + 1);
            excerpt.text.drain(..start);
            excerpt.range = excerpt.range.start - start..excerpt.range.end.saturating_sub(start);
        }
        _ => excerpt.first_line = first,
    }
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Train => "train",
        Mode::Infer => "infer",
    }
}

fn fill(
    model: &mut Model,
    analysis: &Analysis,
    figures: &Figures,
    assumed: &Assumed,
    options: &CheckOptions,
    locator: &Locator<'_>,
) {
    let bound = &analysis.bound;
    let batch = batch(analysis, &assumed.values);
    model.target.batch = batch;
    model.target.global_batch = batch;
    for (name, value) in &bound.values {
        model.target.dims.insert(name.clone(), evaluate(value, &assumed.values));
    }
    for symbol in &bound.free {
        model.target.dims.insert(symbol.name().to_owned(), assumed.values.get(symbol.name()).copied());
    }
    model.inputs = analysis
        .program
        .graph(GraphId(0))
        .map(|main| main.inputs.iter().map(|&input| port(analysis, input)).collect())
        .unwrap_or_default();
    let outputs = analysis.program.graph(GraphId(0)).map_or(&[][..], |main| &main.outputs);
    model.outputs = outputs.iter().flatten().map(|&output| port(analysis, output)).collect();
    model.graph = Some(graph(analysis, figures, &assumed.values, options));
    model.layers = layers(analysis, figures, &assumed.values, options, locator);
    if options.tensors {
        model.tensors = Some(tensors(analysis));
    }
    model.assumptions.clone_from(&assumed.assumptions);
    if options.mode_is_assumed {
        let serves = options.request.runtime.is_some_and(|(runtime, _)| !runtime.trains);
        let why = if serves { "the runtime does not train" } else { "not given" }.to_owned();
        model.assumptions.push(Assumption { key: "mode".to_owned(), value: mode_name(options.mode).to_owned(), why });
    }
}

/// Samples per replica.
pub(super) fn batch(analysis: &Analysis, values: &BTreeMap<String, i128>) -> Option<i128> {
    let bound = &analysis.bound;
    let of = |name: &String| match bound.values.get(name) {
        Some(value) => evaluate(value, values),
        None => values.get(name).copied(),
    };
    bound.batch.as_ref().and_then(of).or(bound.batch_value)
}

fn graph(analysis: &Analysis, figures: &Figures, values: &BTreeMap<String, i128>, options: &CheckOptions) -> Graph {
    let at_bound = figures.layers.iter().filter(|figures| figures.at_bound && figures.repeats != Some(0));
    let macs_at_bound = at_bound.clone().filter_map(|figures| figures.macs).fold(0, i128::saturating_add);
    let bytes_at_bound = at_bound.clone().filter_map(|figures| figures.bytes).fold(0, i128::saturating_add);
    let bytes_not_counted = analysis
        .layers
        .iter()
        .filter(|layer| layer.cost.is_none())
        .filter_map(|layer| evaluate(&layer.known_bytes, values))
        .fold(0, i128::saturating_add);
    Graph {
        nodes: analysis.program.node_count,
        layers: analysis.layers.len(),
        parameters: parameters(analysis),
        macs: figures.total.macs,
        macs_formula: analysis.macs_formula(figures).map(|formula| formula.to_string()),
        flops: passes(&figures.total, options.mode),
        bytes: figures.total.bytes,
        symbols: analysis.bound.free.iter().map(|symbol| symbol.name().to_owned()).collect(),
        coverage: Coverage {
            layers_not_counted: figures.not_counted,
            bytes_not_counted: Some(bytes_not_counted),
            layers_at_bound: at_bound.count(),
            macs_at_bound: Some(macs_at_bound),
            bytes_at_bound: Some(bytes_at_bound),
        },
        loss: analysis.training.loss.clone(),
    }
}

fn passes(figures: &LayerFigures, mode: Mode) -> Passes {
    let backward = if mode == Mode::Infer { Some(0) } else { figures.backward_flops };
    Passes { forward: figures.flops, backward }
}

fn parameters(analysis: &Analysis) -> Parameters {
    let mut sums = Parameters::default();
    for usage in &analysis.usages {
        sums.bytes = sums.bytes.saturating_add(usage.bytes);
        if matches!(usage.kind, Kind::Constant | Kind::Other) {
            sums.constant_bytes = sums.constant_bytes.saturating_add(usage.bytes);
        }
        if usage.repeats {
            continue;
        }
        let slot = match usage.kind {
            Kind::Trainable if usage.readers.iter().all(|reader| analysis.frozen.contains(reader)) => {
                &mut sums.non_trainable
            }
            Kind::Trainable => &mut sums.trainable,
            Kind::Statistic => &mut sums.non_trainable,
            Kind::Constant => &mut sums.constants,
            Kind::Other => continue,
        };
        *slot = slot.saturating_add(usage.elements);
    }
    sums.total = sums.trainable.saturating_add(sums.non_trainable);
    sums
}

fn layers(
    analysis: &Analysis,
    figures: &Figures,
    values: &BTreeMap<String, i128>,
    options: &CheckOptions,
    locator: &Locator<'_>,
) -> Vec<Layer> {
    let first = analysis.first_parameters();
    let row = |(layer, figures): (&counted::Layer, &LayerFigures)| {
        let node = analysis.node(layer)?;
        let shape = node.outputs.iter().flatten().next().and_then(|&output| shape_of(analysis, output));
        Some(Layer {
            key: Text::from(&node.key),
            scope: Text::from(&node.scope),
            name: Text::from(&node.name),
            op: Text::from(&node.op),
            class: node.class.as_ref().map(|class| class.to_string()),
            place: locator.location(node.place),
            output_shape: shape.map(|shape| shape.dims().iter().map(|dim| evaluated(dim, values)).collect()),
            parameters: first.get(&(layer.graph, layer.node)).copied().unwrap_or(0),
            macs: figures.macs,
            flops: passes(figures, options.mode),
            bytes: figures.bytes,
            repeats: figures.repeats,
            at_bound: figures.at_bound,
            time_ms: None,
            share: None,
            saved_bytes: None,
            bound: None,
            kernels: None,
            model: None,
            in_domain: None,
            features: None,
        })
    };
    let mut layers = Vec::with_capacity(analysis.layers.len());
    layers.extend(analysis.layers.iter().zip(&figures.layers).filter_map(row));
    layers
}

pub(super) fn shape_of(analysis: &Analysis, tensor: TensorId) -> Option<&Shape> {
    analysis.inference.fact(tensor).as_tensor()?.shape.as_ref()
}

pub(super) fn evaluate(dim: &Dim, values: &BTreeMap<String, i128>) -> Option<i128> {
    dim.eval(&|symbol| values.get(symbol.name()).copied())
}

/// The dim as a number where the target decides it, else as text.
pub(super) fn evaluated(dim: &Dim, values: &BTreeMap<String, i128>) -> Extent {
    match evaluate(dim, values) {
        Some(number) => Extent::Number(number),
        None => extent(dim),
    }
}

fn extent(dim: &Dim) -> Extent {
    dim.as_const().map_or_else(|| Extent::Symbolic(dim.to_string()), Extent::Number)
}

fn port(analysis: &Analysis, tensor: TensorId) -> Port {
    let TensorType { dtype, shape, .. } = tensor_type(analysis.inference.fact(tensor));
    Port {
        name: analysis.program.tensor(tensor).map(|tensor| tensor.name.to_string()).unwrap_or_default(),
        dtype,
        shape,
    }
}

fn tensor_type(fact: &Fact) -> TensorType {
    match fact {
        Fact::Tensor(tensor) => {
            let dims = tensor.shape.as_ref().map(Shape::dims);
            let bounds = dims.filter(|dims| dims.iter().any(|dim| !dim.is_free())).map(|dims| {
                dims.iter()
                    .map(|dim| if dim.is_free() { None } else { dim.upper_bound().map(|bound| extent(&bound)) })
                    .collect()
            });
            TensorType {
                dtype: tensor.element.map(|element| element.name().to_owned()),
                shape: dims.map(|dims| dims.iter().map(extent).collect()),
                upper_bound: bounds,
            }
        }
        Fact::Unknown => TensorType { dtype: None, shape: None, upper_bound: None },
        other => TensorType { dtype: Some(fact_text(other)), shape: None, upper_bound: None },
    }
}

/// Every tensor that something produces, by path.
fn tensors(analysis: &Analysis) -> BTreeMap<String, TensorType> {
    let facts = analysis.program.tensors.iter().zip(&analysis.inference.facts);
    facts
        .filter(|(tensor, _)| tensor.origin != Origin::Undefined)
        .map(|(tensor, fact)| (tensor.path(), tensor_type(fact)))
        .collect()
}

fn findings(diagnostics: Vec<Diagnostic>, options: &CheckOptions, locator: &mut Locator<'_>) -> Vec<Finding> {
    let mut kept: Vec<Diagnostic> = diagnostics
        .into_iter()
        .filter_map(|mut diagnostic| {
            diagnostic.level = selector::level(&options.levels, diagnostic.code, diagnostic.level)?;
            Some(diagnostic)
        })
        .collect();
    // Gravest first; within a level as they were found, which is the order of passes and of the graph.
    kept.sort_by_key(|diagnostic| std::cmp::Reverse(diagnostic.level));
    let mut counts: HashMap<(Code, Level), usize> = HashMap::new();
    for diagnostic in &kept {
        *counts.entry((diagnostic.code, diagnostic.level)).or_insert(0) += 1;
    }
    let mut listed: HashMap<(Code, Level), usize> = HashMap::new();
    let mut findings = Vec::new();
    for diagnostic in kept {
        let key = (diagnostic.code, diagnostic.level);
        let count = listed.entry(key).or_insert(0);
        *count += 1;
        if *count > LISTED {
            continue;
        }
        let more = counts.get(&key).copied().unwrap_or(0).saturating_sub(LISTED);
        let mut finding = finding(&diagnostic, locator, findings.len() < EXCERPTS);
        if *count == LISTED && more > 0 {
            finding.notes.push(format!("{more} more of this kind are not listed"));
            finding.unlisted = more;
        }
        findings.push(finding);
    }
    findings
}

fn finding(diagnostic: &Diagnostic, locator: &mut Locator<'_>, with_excerpt: bool) -> Finding {
    let excerpt = if with_excerpt { diagnostic.places.first().and_then(|&place| locator.excerpt(place)) } else { None };
    let mut places: Vec<_> = diagnostic.places.iter().take(LISTED).map(|&place| locator.location(place)).collect();
    if places.is_empty() {
        places.push(locator.file());
    }
    let mut notes = diagnostic.notes.clone();
    if diagnostic.places.len() > 1 {
        let more = diagnostic.places.len() - 1;
        notes.push(format!("the same holds for {more} more {}", if more == 1 { "node" } else { "nodes" }));
    }
    Finding {
        code: diagnostic.code.number().to_owned(),
        name: diagnostic.code.name().to_owned(),
        level: diagnostic.level,
        message: diagnostic.message.clone(),
        places,
        help: diagnostic.help.clone(),
        notes,
        unlisted: 0,
        excerpt,
    }
}
