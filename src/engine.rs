//! The engine: a file and options in, the report of one model out.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::analysis::Analysis;
use crate::diagnostics::{Code, Diagnostic, Level};
use crate::frontend;
use crate::frontend::keras::declare_shapes;
use crate::frontend::onnx::external::ExternalFiles;
use crate::frontend::onnx::model::{Model, TIED};
use crate::frontend::onnx_text::{Layout, layout};
use crate::frontend::sniff::Format;
use crate::frontend::source::Source;
use crate::ir::hash::HashSet;
use crate::ir::place::Places;
use crate::passes::bind::Bindings;
use crate::passes::parameters::repeated_values;
use crate::passes::payloads::check_payloads;
use crate::profile::{Broken, Profile};
use crate::report;
use crate::report::annotate::Annotated;
use crate::report::comparison::Comparison;
use crate::target::Request;

/// What a check is asked for.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// Training or inference.
    pub mode: Mode,
    /// Whether nobody asked for the mode.
    pub mode_is_assumed: bool,
    /// Samples per replica.
    pub batch: Option<u64>,
    /// Values of free dims: name and expression.
    pub dims: Vec<(String, String)>,
    /// Shapes of inputs: name and dims, each a number or a dim expression.
    pub input_shapes: Vec<(String, Vec<String>)>,
    /// Values of integer inputs, flattened.
    pub inputs: Vec<(String, Vec<i64>)>,
    /// Shapes of outputs of Keras layers without a rule: path of the layer, dims.
    pub layer_shapes: Vec<(String, Vec<String>)>,
    /// Globs over the keys of layers that are not trained.
    pub frozen: Vec<String>,
    /// What the model runs on.
    pub request: Request,
    /// Whether the report lists every tensor.
    pub tensors: bool,
    /// Whether the report lists the features of every kernel.
    pub features: bool,
    /// Levels of diagnostics; a later rule beats an earlier one.
    pub levels: Vec<LevelRule>,
}

impl CheckOptions {
    /// Whether the analysis of a file under these options is that under the others.
    fn says_the_same_of_the_model(&self, other: &Self) -> bool {
        self.batch == other.batch
            && self.dims == other.dims
            && self.input_shapes == other.input_shapes
            && self.inputs == other.inputs
            && self.frozen == other.frozen
            && self.layer_shapes == other.layer_shapes
    }
}

/// Training or inference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Forward and backward pass.
    #[default]
    Train,
    /// Forward pass only.
    Infer,
}

/// Sets the level of the diagnostics that a selector names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelRule {
    /// A selector as [`crate::diagnostics::selector`] defines it.
    pub selector: String,
    /// The level; `None` leaves the diagnostics out.
    pub level: Option<Level>,
}

/// Where a model comes from.
#[derive(Clone, Debug)]
pub enum Input {
    /// A file.
    Path(PathBuf),
    /// The bytes of standard input.
    Stdin(Vec<u8>),
}

/// Where `--emit` stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The resolved graph.
    Graph,
    /// The graph with a type at every tensor.
    Shapes,
    /// The kernels that the runtime launches, with their prices.
    Kernels,
    /// Memory by parts, and the tensors that make most of it.
    Memory,
    /// The report.
    Report,
}

/// A path that cannot be read at all.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct Unreadable {
    /// The path as it was given.
    pub path: String,
    /// What the system says.
    pub reason: String,
}

/// Checks one model: an entry of the report for each device that was asked for. The file is parsed once.
///
/// # Errors
/// When the file cannot be read. Bad content is a diagnostic of the report instead.
pub fn check(input: &Input, shown_path: &str, options: &CheckOptions) -> Result<Vec<report::Model>, Unreadable> {
    check_targets(input, shown_path, std::slice::from_ref(options))
}

/// Checks one model for several targets, target by target, as [`check`] does for one. The file is read once, and parsed
/// again only for targets that say something else of the model itself.
///
/// # Errors
/// When the file cannot be read.
pub fn check_targets(
    input: &Input,
    shown_path: &str,
    targets: &[CheckOptions],
) -> Result<Vec<report::Model>, Unreadable> {
    let source = open(input, shown_path)?;
    let mut models: Vec<report::Model> = Vec::new();
    let mut last: Option<(&CheckOptions, Checked)> = None;
    for options in targets {
        let checked = match last.take() {
            Some((before, checked)) if before.says_the_same_of_the_model(options) => checked,
            _ => Checked::new(&source, options),
        };
        models.extend(report::build::models(&checked, &source, shown_path, options));
        last = Some((options, checked));
    }
    for (index, model) in models.iter_mut().enumerate() {
        model.target_index = index;
    }
    Ok(models)
}

/// The text of a stage, with the report that its diagnostics stand in.
///
/// # Errors
/// When the file cannot be read.
pub fn emit(
    input: &Input,
    shown_path: &str,
    options: &CheckOptions,
    stage: Stage,
) -> Result<(String, Vec<report::Model>), Unreadable> {
    let source = open(input, shown_path)?;
    let checked = Checked::new(&source, options);
    let text = match (&checked.analysis, stage) {
        (Some(analysis), Stage::Graph) => report::stages::graph(analysis),
        (Some(analysis), Stage::Shapes) => report::stages::shapes(analysis),
        (Some(analysis), Stage::Kernels) => report::price::kernels(analysis, &checked, options),
        (Some(analysis), Stage::Memory) => report::price::memory(analysis, &checked, options),
        (None, _) | (_, Stage::Report) => String::new(),
    };
    Ok((text, report::build::models(&checked, &source, shown_path, options)))
}

/// The model as ONNX text with notes, and the report that they come from. There is no text where nothing could be read.
///
/// # Errors
/// When the file cannot be read.
pub fn annotate(
    input: &Input,
    shown_path: &str,
    options: &CheckOptions,
) -> Result<(Option<Annotated>, report::Model), Unreadable> {
    let source = open(input, shown_path)?;
    let checked = Checked::new(&source, options);
    // The text is one; it shows the first device.
    let model = report::build::models(&checked, &source, shown_path, options).into_iter().next().unwrap_or_default();
    let annotated = checked.definition.as_ref().map(|definition| {
        let analysis = checked.analysis.as_ref();
        report::annotate::annotated(definition, analysis, &checked.layout, options.mode, &model)
    });
    Ok((annotated, model))
}

/// A model beside the profile that a runtime measured, and the report of it.
///
/// # Errors
/// When the file of the model cannot be read. A profile that cannot be used is a diagnostic.
pub fn compare(
    input: &Input,
    shown_path: &str,
    options: &CheckOptions,
    profile: Result<&Profile, &Broken>,
    profile_path: &str,
) -> Result<(Comparison, report::Model), Unreadable> {
    let source = open(input, shown_path)?;
    let checked = Checked::new(&source, options);
    let model = report::build::models(&checked, &source, shown_path, options).into_iter().next().unwrap_or_default();
    Ok((report::comparison::compare(checked.analysis.as_ref(), &model, profile, profile_path), model))
}

fn open(input: &Input, shown_path: &str) -> Result<Source, Unreadable> {
    match input {
        Input::Stdin(bytes) => Ok(Source::from_stdin(bytes.clone())),
        Input::Path(path) => {
            Source::open(path).map_err(|error| Unreadable { path: shown_path.to_owned(), reason: error.to_string() })
        }
    }
}

/// A file after all passes.
pub(crate) struct Checked {
    pub(crate) format: Option<Format>,
    /// Names and versions of the file; `None` when nothing could be read.
    pub(crate) header: Option<Header>,
    pub(crate) analysis: Option<Analysis>,
    /// Places, where there is no analysis to hold them.
    pub(crate) places: Places,
    /// Lines of the text of `annotate`.
    pub(crate) layout: Layout,
    /// The text that places point into, where that is not the file itself.
    pub(crate) text: Option<Arc<str>>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The model as it stands in the file.
    definition: Option<Model>,
    /// The analysis with a free batch, where the user bound it and something asks what other batches take.
    free: OnceLock<Option<Analysis>>,
}

/// What the head of a file says.
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) producer_name: String,
    pub(crate) producer_version: String,
    pub(crate) ir_version: Option<i64>,
    pub(crate) opsets: Vec<(String, i64)>,
}

impl Checked {
    fn new(source: &Source, options: &CheckOptions) -> Self {
        let mut places = Places::default();
        let loaded = frontend::load(source, &mut places);
        let mut diagnostics = loaded.diagnostics;
        let Some(mut model) = loaded.model else {
            return Self {
                format: loaded.format,
                header: None,
                analysis: None,
                places,
                layout: Layout::default(),
                text: loaded.text,
                diagnostics,
                definition: None,
                free: OnceLock::new(),
            };
        };
        // A Keras file holds no weights here, and no side files.
        if loaded.format.is_none_or(|format| !format.is_keras()) {
            let mut files = ExternalFiles::new(source.folder.clone());
            diagnostics.extend(check_payloads(&mut model, &mut files, &mut places));
        }
        for name in declare_shapes(&mut model, &options.layer_shapes) {
            let message = format!("--layer-shape {name}: no layer without a rule has this name");
            diagnostics.push(Diagnostic::new(Code::UnusedBinding, message));
        }
        let mut header = Header::of(&model);
        if loaded.format.is_some_and(Format::is_keras) {
            // Versions of the operators that layers become say nothing of the file.
            (header.ir_version, header.opsets) = (None, Vec::new());
        }
        let bindings = bindings(options);
        let frozen = globs(&options.frozen);
        let mut analysis = Analysis::new(&model, places, &bindings, &|key| frozen.is_match(key));
        analysis.training = loaded.training;
        if analysis.bound.rebound.is_some() {
            name_baked_in_batch(&mut analysis, &model, bindings);
        }
        for path in repeated_values(&analysis.program, &analysis.usages) {
            let pair = (TIED.into(), path.into());
            if !model.graph.metadata.contains(&pair) {
                model.graph.metadata.push(pair);
            }
        }
        // What was found out of stored tensors stands in the text of `annotate`.
        if loaded.format.is_some_and(Format::is_keras) {
            let dims = analysis.program.stored.iter().map(|stored| stored.def.dims.clone());
            model.graph.initializers.iter_mut().zip(dims).for_each(|(tensor, dims)| tensor.dims = dims);
        }
        let layout = layout(&model, &report::annotate::PRINT);
        // A name whose node or input could not be parsed is no finding of its own.
        let broken = diagnostics.iter().any(|diagnostic| diagnostic.code == Code::SyntaxError);
        let told = analysis.diagnostics.drain(..);
        diagnostics.extend(told.filter(|diagnostic| !broken || diagnostic.code != Code::UndefinedTensor));
        diagnostics.extend(unmatched(&options.frozen, &analysis));
        let too_many = diagnostics.iter().any(|diagnostic| diagnostic.code == Code::TooManyNodes);
        let (analysis, places) =
            if too_many { (None, analysis.program.places) } else { (Some(analysis), Places::default()) };
        Self {
            format: loaded.format,
            header: Some(header),
            analysis,
            places,
            layout,
            text: loaded.text,
            diagnostics,
            definition: Some(model),
            free: OnceLock::new(),
        }
    }

    /// The analysis with the batch free, made again where the user bound it; `None` where the file or the shape of an
    /// input fixes it. Its places say nothing.
    pub(crate) fn with_free_batch(&self, options: &CheckOptions) -> Option<&Analysis> {
        let given = self.analysis.as_ref()?;
        let batch = given.bound.batch.as_deref()?;
        let is_free = |analysis: &Analysis| analysis.bound.free.iter().any(|symbol| symbol.name() == batch);
        if is_free(given) {
            return Some(given);
        }
        let again = || {
            let mut bindings = Bindings { batch: None, ..bindings(options) };
            bindings.dims.retain(|(name, _)| name != batch);
            let frozen = globs(&options.frozen);
            let definition = self.definition.as_ref()?;
            let analysis = Analysis::new(definition, Places::default(), &bindings, &|key| frozen.is_match(key));
            is_free(&analysis).then_some(analysis)
        };
        self.free.get_or_init(again).as_ref()
    }

    pub(crate) fn places(&self) -> &Places {
        self.analysis.as_ref().map_or(&self.places, |analysis| &analysis.program.places)
    }
}

/// What the user says of free dims.
fn bindings(options: &CheckOptions) -> Bindings {
    Bindings {
        batch: options.batch,
        dims: options.dims.clone(),
        input_shapes: options.input_shapes.clone(),
        inputs: options.inputs.clone(),
    }
}

/// Where the user replaced the batch, shapes that fit no more mean that the graph holds the old one.
fn name_baked_in_batch(analysis: &mut Analysis, model: &Model, bindings: Bindings) {
    let mismatched = |diagnostic: &Diagnostic| diagnostic.code == Code::ShapeMismatch;
    if !analysis.diagnostics.iter().any(mismatched) {
        return;
    }
    let as_in_file = Bindings { batch: None, input_shapes: Vec::new(), ..bindings };
    let original = Analysis::new(model, Places::default(), &as_in_file, &|_| false);
    let node = |diagnostic: &Diagnostic, places: &Places| {
        let place = places.get(*diagnostic.places.first()?)?;
        Some((place.graph.clone(), place.node_index))
    };
    let at = |diagnostic: &Diagnostic| node(diagnostic, &original.program.places);
    let anyway: HashSet<_> = original.diagnostics.iter().filter(|found| mismatched(found)).map(at).collect();
    let places = &analysis.program.places;
    for diagnostic in analysis.diagnostics.iter_mut().filter(|diagnostic| mismatched(diagnostic)) {
        if anyway.contains(&node(diagnostic, places)) {
            continue;
        }
        diagnostic.code = Code::BatchBakedIn;
        diagnostic.level = Code::BatchBakedIn.default_level();
        diagnostic.notes.push("it fits with the batch of the file: the graph holds that batch as a number".to_owned());
        diagnostic.help = Some("export the model again with a dynamic batch".to_owned());
    }
}

/// Globs of layers that are not trained and that no layer bears.
fn unmatched(frozen: &[String], analysis: &Analysis) -> Vec<Diagnostic> {
    let unused = frozen.iter().filter(|pattern| {
        let one = globs(std::slice::from_ref(pattern));
        !analysis.program.nodes().any(|(_, _, node)| one.is_match(&*node.key))
    });
    let say = |pattern: &String| {
        Diagnostic::new(Code::UnusedBinding, format!("--frozen {pattern}: no layer has a key like this"))
            .help("--format json lists the keys, under layers")
    };
    unused.map(say).collect()
}

impl Header {
    fn of(model: &Model) -> Self {
        let domain = |domain: &str| if domain.is_empty() { "ai.onnx".to_owned() } else { domain.to_owned() };
        Self {
            name: model.graph.name.to_string(),
            producer_name: model.producer_name.clone(),
            producer_version: model.producer_version.clone(),
            ir_version: model.ir_version,
            opsets: model.opset_imports.iter().map(|import| (domain(&import.domain), import.version)).collect(),
        }
    }
}

/// One matcher for all globs; the command line has checked each of them.
fn globs(patterns: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for glob in patterns.iter().filter_map(|pattern| Glob::new(pattern).ok()) {
        set.add(glob);
    }
    set.build().unwrap_or_else(|_| GlobSet::empty())
}
