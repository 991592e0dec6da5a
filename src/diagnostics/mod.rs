//! Diagnostics: what is found on the way, with codes, levels and places. Raised anywhere, sorted and printed once.

pub mod code;
pub(crate) mod lints;
pub mod selector;

pub use code::{Code, Level};

use crate::ir::place::Place;

/// One finding.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// What kind of finding it is.
    pub code: Code,
    /// How grave it is here.
    pub level: Level,
    /// One sentence with node, tensor and both values.
    pub message: String,
    /// Where; the first place is the one that an excerpt shows.
    pub places: Vec<Place>,
    /// The next thing to do.
    pub help: Option<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// A finding at the code's default level, about the file as a whole.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            level: code.default_level(),
            message: message.into(),
            places: Vec::new(),
            help: None,
            notes: Vec::new(),
        }
    }

    /// Adds a place.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.places.push(place);
        self
    }

    /// Sets the help text.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Sets another level than the code's default.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }
}
