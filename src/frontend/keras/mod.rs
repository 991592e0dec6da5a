//! Keras models of both generations: what stands in a configuration becomes nodes of the model tree. A file is JSON (plain
//! or compressed), an archive, or HDF5; in each of them a text of JSON is what is read. Nothing is executed and no weight
//! is unpacked.

mod builder;
mod call;
pub mod container;
mod json;
mod layer;
mod layers;
mod topology;
mod training;
mod wiring;

use std::sync::Arc;

use self::builder::{Builder, Owner, Unknown};
use self::container::{Contents, Failure};
use self::json::{ErrorKind, Json, Value};
use self::layer::Generation;
use self::topology::{Reader, kind_of, read_entry};
use super::source::Source;
use crate::diagnostics::{Code, Diagnostic, Level};
use crate::frontend::onnx::model::{
    DimDef, KERAS, LAYER_CLASS, Model, OPAQUE, OpsetImport, TensorTypeDef, TypeDef, ValueInfo,
};
use crate::ir::place::{PlaceData, Places, Span};

/// Version of the standard operator set that nodes are written in.
const OPSET: i64 = 22;

/// Places of unknown layers that one finding lists.
const LISTED: usize = 200;

/// What a Keras file gives.
#[derive(Debug, Default)]
pub struct Read {
    /// The model; `None` when nothing could be read.
    pub model: Option<Model>,
    /// Findings.
    pub diagnostics: Vec<Diagnostic>,
    /// The text that places point into.
    pub text: Option<Arc<str>>,
    /// How the model was compiled.
    pub training: Training,
}

pub use self::training::Training;

/// Reads a Keras file.
#[must_use]
pub fn load(source: &Source, places: &mut Places) -> Read {
    let contents = match container::open(source) {
        Ok(contents) => contents,
        Err(Failure { code, message, help }) => {
            let mut diagnostic = Diagnostic::new(code, message);
            diagnostic.help = help;
            return Read { diagnostics: vec![diagnostic], ..Read::default() };
        }
    };
    let text = contents.text.clone();
    let mut read = read_text(&contents, places);
    read.text = Some(text);
    read
}

fn at(places: &mut Places, span: Span, diagnostic: Diagnostic) -> Diagnostic {
    let place = places.add(PlaceData { span: Some(span), ..PlaceData::default() });
    diagnostic.at(place)
}

fn read_text(contents: &Contents, places: &mut Places) -> Read {
    let (json, repeated) = match json::parse(&contents.text) {
        Ok(parsed) => parsed,
        Err(error) => {
            let code = match error.kind {
                ErrorKind::Syntax => Code::SyntaxError,
                ErrorKind::Truncated => Code::TruncatedFile,
                ErrorKind::TooDeep => Code::NestedTooDeep,
            };
            let mut diagnostic = Diagnostic::new(code, format!("{}{}", contents.origin, error.message));
            diagnostic.help = error.help;
            return Read { diagnostics: vec![at(places, error.span, diagnostic)], ..Read::default() };
        }
    };
    if let Value::Text(inner) = &json.value {
        return read_again(inner, json.span, contents, places);
    }
    let mut read = read_model(&json, contents, places);
    for (key, span) in repeated.into_iter().take(20) {
        let message = format!("the key {key:?} stands twice in one object; the last one counts");
        let diagnostic = Diagnostic::new(Code::DuplicateName, message).level(Level::Warning);
        read.diagnostics.push(at(places, span, diagnostic));
    }
    read
}

/// A text of JSON that holds JSON: `json.dump(model.to_json())`. Places in it point at the whole.
fn read_again(inner: &str, span: Span, contents: &Contents, places: &mut Places) -> Read {
    let failed = |places: &mut Places, message: String| Read {
        diagnostics: vec![at(places, span, Diagnostic::new(Code::NotAModel, message))],
        ..Read::default()
    };
    let Ok((json, _)) = json::parse(inner) else {
        let message = "the JSON is one text that holds no JSON: a Keras model is an object with class_name and config";
        return failed(places, message.to_owned());
    };
    if !json.is_object() {
        let message = "the JSON is one text that holds no Keras model: an object with class_name and config is needed";
        return failed(places, message.to_owned());
    }
    let mut own = Places::default();
    let mut read = read_model(&json, contents, &mut own);
    for diagnostic in &mut read.diagnostics {
        let data = diagnostic.places.first().and_then(|place| own.get(*place)).cloned().unwrap_or_default();
        let place = places.add(PlaceData { span: Some(span), ..data });
        diagnostic.places = vec![place];
    }
    if let Some(model) = &mut read.model {
        model.graph.nodes.iter_mut().for_each(|node| node.span = span);
        model.graph.inputs.iter_mut().for_each(|input| input.span = span);
        model.graph.initializers.iter_mut().for_each(|tensor| tensor.span = span);
    }
    let message = "the JSON was written as a text inside JSON: json.dump(model.to_json()) encodes it twice";
    let diagnostic = Diagnostic::new(Code::OtherEncoding, message)
        .level(Level::Warning)
        .help("write the text of model.to_json() as it is");
    read.diagnostics.push(at(places, span, diagnostic));
    read
}

fn read_model(json: &Json<'_>, contents: &Contents, places: &mut Places) -> Read {
    let refuse = |places: &mut Places, code: Code, message: &str, span: Span| Read {
        diagnostics: vec![at(places, span, Diagnostic::new(code, message.to_owned()))],
        ..Read::default()
    };
    if let Some(topology) = json.get("modelTopology") {
        let inner = topology.get("model_config").unwrap_or(topology);
        let message = "this is a TensorFlow.js file: the Keras model lies under modelTopology.model_config";
        let diagnostic = Diagnostic::new(Code::NotAModel, message).help("check that part of it as a file of its own");
        return Read { diagnostics: vec![at(places, inner.span, diagnostic)], ..Read::default() };
    }
    let Some(class) = json.get("class_name").and_then(Json::text) else {
        let message = "no Keras model: it is a JSON object with class_name and config, and class_name is missing";
        return refuse(places, Code::NotAModel, message, json.span);
    };
    let Some(config) = json.get("config") else {
        return refuse(places, Code::MalformedFile, "the model has no config", json.span);
    };
    if config.is_null() {
        return refuse(places, Code::MalformedFile, "the model's config is null", config.span);
    }
    if is_first_generation(config) {
        let message = "this is a Keras 1 file (nb_filter, border_mode, output_dim), which is not read";
        let help = "load it in Keras 2 (up to 2.3) and save it again";
        let diagnostic = Diagnostic::new(Code::OtherEncoding, message).help(help);
        return Read { diagnostics: vec![at(places, config.span, diagnostic)], ..Read::default() };
    }
    let generation = generation_of(json, config, contents);
    let mut builder = Builder::new(places);
    match kind_of(class, config) {
        Some(kind) => Reader::new(&mut builder, generation).main(kind, json, config),
        None => without_layers(&mut builder, class, json, config),
    }
    finish(builder, json, config, contents, generation)
}

/// A model of a class of the user that says no more than what it was made with.
fn without_layers<'j>(builder: &mut Builder<'_>, class: &str, json: &'j Json<'j>, config: &Json<'_>) {
    if matches!(class, "Functional" | "Model") {
        let message = "the model's config has no layers";
        builder.report(Diagnostic::new(Code::MalformedFile, message), None, config.span);
        return;
    }
    let name = config.get("name").and_then(Json::text).unwrap_or("model").to_owned();
    let owner =
        Owner { key: name.clone(), scope: String::new(), name: name.clone(), class: class.to_owned(), span: json.span };
    let input = builder.input("input", None, json.span);
    let outputs = builder.opaque(&owner, vec![input], 1);
    for output in outputs {
        builder.output(output, json.span);
    }
    let why = "a model of a class of its own, of which the file holds the arguments alone";
    builder.unknown.push(Unknown { path: name, class: class.to_owned(), why, span: json.span });
}

fn finish(
    mut builder: Builder<'_>,
    json: &Json<'_>,
    config: &Json<'_>,
    contents: &Contents,
    generation: Generation,
) -> Read {
    report_unknown(&mut builder);
    let mut graph = builder.finish();
    graph.name = config.get("name").and_then(Json::text).unwrap_or("model").into();
    graph.span = json.span;
    let mut diagnostics = std::mem::take(&mut builder.diagnostics);
    let training = Training::of(json, contents, &builder.policies);
    let import = |domain: &str| OpsetImport { domain: domain.into(), version: OPSET };
    let mut imports = vec![import(""), import(KERAS)];
    if graph.nodes.iter().any(|node| &*node.domain == "com.microsoft") {
        imports.push(OpsetImport { domain: "com.microsoft".into(), version: 1 });
    }
    let version =
        contents.version.clone().or_else(|| json.get("keras_version").and_then(Json::text).map(str::to_owned));
    let default = if generation == Generation::Two { "2" } else { "3" };
    let over_budget = builder.over_budget;
    let model = Model {
        ir_version: Some(10),
        opset_imports: imports,
        producer_name: "keras".to_owned(),
        producer_version: version.unwrap_or_else(|| default.to_owned()),
        graph,
        ..Model::default()
    };
    diagnostics.sort_by_key(|diagnostic| std::cmp::Reverse(diagnostic.level));
    Read { model: (!over_budget).then_some(model), diagnostics, text: None, training }
}

/// Names all layers without a rule in one finding.
fn report_unknown(builder: &mut Builder<'_>) {
    let unknown = std::mem::take(&mut builder.unknown);
    let Some(first) = unknown.first() else { return };
    let shown: Vec<String> =
        unknown.iter().take(LISTED).map(|layer| format!("{:?} ({}: {})", layer.path, layer.class, layer.why)).collect();
    let more = if unknown.len() > LISTED { format!(" and {} more", unknown.len() - LISTED) } else { String::new() };
    let count = match unknown.len() {
        1 => "1 layer has".to_owned(),
        count => format!("{count} layers have"),
    };
    let message = format!(
        "{count} no rule here, so cost and weights are unknown and totals are lower bounds: {}{more}",
        shown.join(", ")
    );
    let mut diagnostic = Diagnostic::new(Code::UnknownLayer, message)
        .help(format!("--layer-shape {}=2x3x4 says the shape of its output, with None for the batch", first.path));
    let places: Vec<_> = unknown.iter().take(LISTED).map(|layer| (layer.path.clone(), layer.span)).collect();
    for (path, span) in places {
        let place = builder.place(Some(&path), span);
        diagnostic = diagnostic.at(place);
    }
    builder.diagnostics.push(diagnostic);
}

/// Which generation wrote the file: by its version, else by what only one of them writes.
fn generation_of(json: &Json<'_>, config: &Json<'_>, contents: &Contents) -> Generation {
    let version = contents.version.as_deref().or_else(|| json.get("keras_version").and_then(Json::text));
    if let Some(version) = version {
        return if version.starts_with('3') { Generation::Three } else { Generation::Two };
    }
    let layers = topology::layers_of(config).unwrap_or_default();
    let new = layers.iter().take(50).any(|layer| {
        let config = layer.get("config");
        config.is_some_and(|config| {
            config.get("batch_shape").is_some() || config.get("dtype").is_some_and(Json::is_object)
        })
    });
    let old = layers
        .iter()
        .take(50)
        .any(|layer| layer.get("config").is_some_and(|config| config.get("batch_input_shape").is_some()));
    if old || (!new && json.get("module").is_none()) { Generation::Two } else { Generation::Three }
}

/// Whether the layers have names of arguments that Keras 2 renamed.
fn is_first_generation(config: &Json<'_>) -> bool {
    let layers = topology::layers_of(config).unwrap_or_default();
    let entries = layers.iter().enumerate().filter_map(|(index, json)| read_entry(json, index));
    entries.take(50).any(|entry| {
        let old = ["nb_filter", "border_mode", "nb_row", "subsample"];
        let renamed = |key: &&str| entry.config.get(key).is_some();
        old.iter().any(renamed) || (entry.class == "Dense" && renamed(&"output_dim") && !renamed(&"units"))
    })
}

/// Declares the shapes that the user gives for layers without a rule; gives the names that no such layer has.
pub fn declare_shapes(model: &mut Model, shapes: &[(String, Vec<String>)]) -> Vec<String> {
    let mut unused = Vec::new();
    for (name, dims) in shapes {
        let is_meant =
            |key: &str| key == name || key.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('~'));
        let outputs: Vec<_> = model
            .graph
            .nodes
            .iter()
            .filter(|node| &*node.domain == KERAS && &*node.op_type == OPAQUE && is_meant(&node.name))
            .filter_map(|node| node.outputs.first().cloned())
            .collect();
        if outputs.is_empty() {
            unused.push(name.clone());
        }
        let dim = |(axis, text): (usize, &String)| match text.parse() {
            Ok(number) => DimDef::Value(number),
            Err(_) if axis == 0 && matches!(&**text, "None" | "?" | "batch" | "N") => {
                DimDef::Param(builder::BATCH.into())
            }
            Err(_) if matches!(&**text, "None" | "?") => DimDef::Unknown,
            Err(_) => DimDef::Param(text.as_str().into()),
        };
        let dims: Vec<DimDef> = dims.iter().enumerate().map(dim).collect();
        for output in outputs {
            let known = model.graph.value_info.iter().find(|info| info.name == output).and_then(|info| info.ty.clone());
            let element = match known {
                Some(TypeDef::Tensor(TensorTypeDef { element, .. })) => element,
                _ => None,
            };
            let element = element.or(Some(crate::ir::element_type::ElementType::Float));
            let ty = Some(TypeDef::Tensor(TensorTypeDef { element, shape: Some(dims.clone()) }));
            model.graph.value_info.retain(|info| info.name != output);
            model.graph.value_info.push(ValueInfo { name: output, ty, span: Span::default() });
        }
    }
    unused
}

/// The Keras class of a node of a model tree.
#[must_use]
pub fn class_of(node: &crate::frontend::onnx::model::NodeDef) -> Option<&str> {
    node.metadata.iter().find(|(key, _)| &**key == LAYER_CLASS).map(|(_, class)| &**class)
}
