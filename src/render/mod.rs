//! Renderers: report data to text, one file per format. They compute nothing that the report does not say.

pub mod annotated;
pub mod concise;
pub mod devices;
pub mod github;
pub mod human;
pub mod json;
pub mod paths;
#[cfg(test)]
pub(crate) mod sample;
pub mod sarif;
mod snippet;
mod table;
mod text;
pub mod units;

/// What the output can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Colour by escape codes.
    pub color: bool,
    /// Borders and signs beyond ASCII.
    pub unicode: bool,
}

impl Style {
    /// Text for files: no colour, all signs.
    pub const PLAIN: Self = Self { color: false, unicode: true };

    fn paint(self, ink: Ink, text: &str) -> String {
        if self.color { format!("\u{1b}[{}m{text}\u{1b}[0m", ink.code()) } else { text.to_owned() }
    }

    /// `×`, or what stands for it in ASCII.
    fn times(self) -> &'static str {
        if self.unicode { "×" } else { "x" }
    }

    /// `≤`, or what stands for it in ASCII.
    fn at_most(self) -> &'static str {
        if self.unicode { "≤" } else { "<=" }
    }

    /// The sign for text that was left out.
    fn ellipsis(self) -> &'static str {
        if self.unicode { "…" } else { "..." }
    }
}

/// A text in lines that fit a terminal, with its paragraphs kept apart.
#[must_use]
pub fn wrapped(text: &str) -> String {
    text.lines().map(|line| text::paragraph("", line, usize::MAX, Style::PLAIN)).collect()
}

/// What a colour means.
#[derive(Clone, Copy, Debug)]
enum Ink {
    Strong,
    Faint,
    Error,
    Warning,
    Note,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Error => "1;31",
            Self::Warning => "1;33",
            Self::Note => "1;36",
        }
    }
}
