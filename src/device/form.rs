//! Reading TOML tables of figures, with the place of whatever is wrong in them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostics::selector::nearest;

/// A file of devices or interconnects that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceError {
    /// The file.
    pub path: PathBuf,
    /// Line and column, from 1, in characters; none when the file cannot be read.
    pub position: Option<(usize, usize)>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for DeviceError {}

/// Something wrong and where.
#[derive(Debug)]
pub(super) struct Wrong {
    span: Range<usize>,
    message: String,
}

impl Wrong {
    pub(super) fn at(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }
}

/// Parses a document and lets `read` read it.
pub(super) fn parse<T>(
    path: &Path,
    text: &str,
    read: impl FnOnce(&Section<'_, '_>) -> Result<T, Wrong>,
) -> Result<T, DeviceError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let fail = |wrong: Wrong| DeviceError {
        path: path.to_owned(),
        position: Some(position(text, wrong.span.start)),
        message: wrong.message,
    };
    let document = DeTable::parse(text)
        .map_err(|error| fail(Wrong::at(error.span().unwrap_or_default(), error.message().to_owned())))?;
    read(&Section { table: document.get_ref(), path: String::new(), span: 0..0 }).map_err(fail)
}

/// Line and column of a byte, from 1, the column in characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |index| index + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}

/// A number that a table may hold.
pub(super) struct Figure {
    pub(super) key: &'static str,
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) unit: &'static str,
}

/// A table, with its name and place.
pub(super) struct Section<'t, 'i> {
    table: &'t DeTable<'i>,
    path: String,
    pub(super) span: Range<usize>,
}

impl<'t, 'i> Section<'t, 'i> {
    /// `board.sms` for `sms` of the table `board`.
    fn name_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn entry(&self, key: &str) -> Option<&'t Spanned<DeValue<'i>>> {
        self.table.get(key)
    }

    /// Refuses keys that are not known.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Wrong> {
        let mut keys: Vec<_> = self.table.keys().collect();
        keys.sort_by_key(|key| key.span().start);
        match keys.into_iter().find(|key| !known.contains(&key.get_ref().as_ref())) {
            Some(key) => {
                let name = self.name_of(key.get_ref());
                let near = nearest(key.get_ref(), known.iter().copied());
                let hint = near.first().map_or_else(
                    || format!("possible are {}", known.join(", ")),
                    |near| format!("did you mean '{near}'?"),
                );
                Err(Wrong::at(key.span(), format!("unknown field '{name}'; {hint}")))
            }
            None => Ok(()),
        }
    }

    /// The same table, its fields named without the name of the table.
    pub(super) fn unnamed(self) -> Self {
        Self { path: String::new(), ..self }
    }

    /// The place of a value, or of the table that lacks it.
    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        self.entry(key).map_or_else(|| self.span.clone(), Spanned::span)
    }

    /// The error of a field that is not there.
    pub(super) fn lacks(&self, key: &str) -> Wrong {
        Wrong::at(self.span.clone(), format!("the field '{}' is missing", self.name_of(key)))
    }

    /// A table within it; where it is absent, none.
    pub(super) fn section(&self, key: &str, path: &str) -> Result<Option<Section<'t, 'i>>, Wrong> {
        match self.entry(key) {
            None => Ok(None),
            Some(value) => section_of(value, path.to_owned(), value.span()).map(Some),
        }
    }

    /// The tables within it, in the order of the file, each with its key and place; `path` is their name.
    pub(super) fn sections(&self, path: &str) -> Result<Vec<(&'t str, Section<'t, 'i>)>, Wrong> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let read = |(key, value): (&'t Spanned<Cow<'i, str>>, &'t Spanned<DeValue<'i>>)| {
            Ok((key.get_ref().as_ref(), section_of(value, path.to_owned(), key.span())?))
        };
        entries.into_iter().map(read).collect()
    }

    /// A text.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'t str>, Wrong> {
        let Some(value) = self.entry(key) else { return Ok(None) };
        match value.get_ref().as_str() {
            Some(text) if !text.trim().is_empty() => Ok(Some(text)),
            _ => Err(Wrong::at(value.span(), format!("{} is a text in quotes", self.name_of(key)))),
        }
    }

    /// A truth value; false where it is absent.
    pub(super) fn truth(&self, key: &str) -> Result<bool, Wrong> {
        self.entry(key).map_or(Ok(false), |value| {
            let wrong = || Wrong::at(value.span(), format!("{} is true or false", self.name_of(key)));
            value.get_ref().as_bool().ok_or_else(wrong)
        })
    }

    /// A number within its bounds.
    pub(super) fn number(&self, figure: &Figure) -> Result<Option<f64>, Wrong> {
        let Some(value) = self.entry(figure.key) else { return Ok(None) };
        let name = self.name_of(figure.key);
        let wrong = |message| Wrong::at(value.span(), message);
        let number = number_of(value.get_ref()).ok_or_else(|| wrong(format!("{name} is a number")))?;
        if (figure.least..=figure.most).contains(&number) {
            return Ok(Some(number));
        }
        let unit = if figure.unit.is_empty() { String::new() } else { format!(" {}", figure.unit) };
        Err(wrong(format!("{name} = {number} cannot be: it lies between {} and {}{unit}", figure.least, figure.most)))
    }

    /// A whole number within its bounds.
    pub(super) fn whole(&self, figure: &Figure) -> Result<Option<u32>, Wrong> {
        let Some(number) = self.number(figure)? else { return Ok(None) };
        if number.fract() != 0.0 || number > f64::from(u32::MAX) {
            let message = format!("{} is a whole number", self.name_of(figure.key));
            return Err(Wrong::at(self.span_of(figure.key), message));
        }
        // Whole, not negative by its bounds, and no larger than what it is turned into.
        Ok(Some(number as u32))
    }
}

fn section_of<'t, 'i>(
    value: &'t Spanned<DeValue<'i>>,
    path: String,
    span: Range<usize>,
) -> Result<Section<'t, 'i>, Wrong> {
    match value.get_ref() {
        DeValue::Table(table) => Ok(Section { table, path, span }),
        _ => Err(Wrong::at(value.span(), format!("{path} is a table"))),
    }
}

fn number_of(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(float) => float.as_str().replace('_', "").parse().ok(),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|n| n as f64),
        _ => None,
    }
}
