//! Frontends: the bytes of a file to the model that stands in it, and a list of what is wrong with it. One never comes
//! without the other being looked at.

pub mod keras;
pub mod onnx;
pub mod onnx_text;
pub mod sniff;
pub mod source;

use std::sync::Arc;

use self::keras::Training;
use self::onnx::decode::{DecodeError, MAX_GRAPHS, decode};
use self::onnx::model::Model;
use self::sniff::{Format, sniff};
use self::source::Source;
use crate::diagnostics::{Code, Diagnostic};
use crate::ir::place::{PlaceData, Places, Span};

/// What a frontend gives.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The format; `None` when the file is not recognised.
    pub format: Option<Format>,
    /// The model; `None` when nothing could be read.
    pub model: Option<Model>,
    /// Findings.
    pub diagnostics: Vec<Diagnostic>,
    /// The text that places point into, where that is not the file itself.
    pub text: Option<Arc<str>>,
    /// How a Keras model was compiled.
    pub training: Training,
}

/// Reads a file with the frontend that its bytes ask for.
#[must_use]
pub fn load(source: &Source, places: &mut Places) -> Loaded {
    let format = match sniff(source) {
        Ok(format) => format,
        Err(diagnostic) => return Loaded { diagnostics: vec![*diagnostic], ..Loaded::default() },
    };
    let (model, diagnostics) = match format {
        Format::Onnx => load_binary(source, places),
        Format::OnnxText => load_text(source, places),
        Format::KerasJson | Format::KerasArchive | Format::KerasHdf5 => {
            let keras::Read { model, diagnostics, text, training } = keras::load(source, places);
            return Loaded { format: Some(format), model, diagnostics, text, training };
        }
    };
    Loaded { format: Some(format), model, diagnostics, ..Loaded::default() }
}

fn at(places: &mut Places, span: Span, diagnostic: Diagnostic) -> Diagnostic {
    let place = places.add(PlaceData { span: Some(span), ..PlaceData::default() });
    diagnostic.at(place)
}

fn load_binary(source: &Source, places: &mut Places) -> (Option<Model>, Vec<Diagnostic>) {
    match decode(&source.bytes) {
        Ok(model) => (Some(model), Vec::new()),
        Err(error) => {
            let (code, message, span) = match error {
                DecodeError::Truncated { message, span } => (Code::TruncatedFile, message, span),
                DecodeError::Malformed { message, span } => (Code::MalformedFile, message, span),
                DecodeError::TooDeep { span } => {
                    (Code::NestedTooDeep, format!("subgraphs are nested deeper than {MAX_GRAPHS} graphs"), span)
                }
            };
            let mut diagnostic = Diagnostic::new(code, message);
            if code == Code::TruncatedFile {
                diagnostic =
                    diagnostic.help("the download or copy stopped early: compare the file's size with the original");
            }
            (None, vec![at(places, span, diagnostic)])
        }
    }
}

fn load_text(source: &Source, places: &mut Places) -> (Option<Model>, Vec<Diagnostic>) {
    let text = match std::str::from_utf8(&source.bytes) {
        Ok(text) => text,
        Err(error) => {
            let start = error.valid_up_to() as u64;
            let diagnostic = Diagnostic::new(Code::SyntaxError, format!("byte {start} is not UTF-8 text"));
            return (None, vec![at(places, Span::new(start, start + 1), diagnostic)]);
        }
    };
    let (model, errors) = onnx_text::parse(text);
    let diagnostics = errors
        .into_iter()
        .map(|error| {
            let mut diagnostic = Diagnostic::new(Code::SyntaxError, error.message);
            diagnostic.help = error.help;
            at(places, error.span, diagnostic)
        })
        .collect();
    (Some(model), diagnostics)
}
