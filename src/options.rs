//! Texts of options: the syntax that `dlcost check` and `dlcost.toml` share, and the names that this version refuses.

pub mod target;

use std::path::Path;

use crate::diagnostics::selector::nearest;
use crate::engine::Mode;
use crate::ir::dim::{Dim, Symbol, SymbolKind};

/// Commands that are specified and that this version does not have.
pub const COMMANDS_NOT_AVAILABLE: &[&str] = &["diff", "sweep", "calibrate", "lsp"];

const FORMATS_NOT_AVAILABLE: &[&str] = &["gitlab", "junit", "markdown", "csv", "trace", "html"];

const STAGES_NOT_AVAILABLE: &[&str] = &[];

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people at a terminal.
    #[default]
    Human,
    /// One line for each model and diagnostic.
    Concise,
    /// Everything, for programs.
    Json,
    /// Findings as SARIF 2.1.0, for code scanning.
    Sarif,
    /// The report for people, and annotations of GitHub Actions.
    Github,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorChoice {
    /// On terminals that have colour.
    #[default]
    Auto,
    /// Also in files and pipes.
    Always,
    /// Never.
    Never,
}

/// A stage that `--emit` prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emit {
    /// The resolved graph.
    Graph,
    /// The graph with a type at every tensor.
    Shapes,
    /// The kernels that the runtime launches.
    Kernels,
    /// Memory by parts.
    Memory,
    /// The whole run, in the format of `--format`.
    #[default]
    Report,
}

/// Parses the value of `--format`.
///
/// # Errors
/// The format is unknown or not available.
pub fn format(text: &str) -> Result<Format, String> {
    choice(
        text,
        &[
            ("human", Format::Human),
            ("concise", Format::Concise),
            ("json", Format::Json),
            ("sarif", Format::Sarif),
            ("github", Format::Github),
        ],
        FORMATS_NOT_AVAILABLE,
    )
}

/// Parses the value of `--color`.
///
/// # Errors
/// The choice is unknown.
pub fn color(text: &str) -> Result<ColorChoice, String> {
    let known = [("auto", ColorChoice::Auto), ("always", ColorChoice::Always), ("never", ColorChoice::Never)];
    choice(text, &known, &[])
}

/// Parses the value of `--emit`.
///
/// # Errors
/// The stage is unknown or not available.
pub fn emit(text: &str) -> Result<Emit, String> {
    let known = [
        ("graph", Emit::Graph),
        ("shapes", Emit::Shapes),
        ("kernels", Emit::Kernels),
        ("memory", Emit::Memory),
        ("report", Emit::Report),
    ];
    choice(text, &known, STAGES_NOT_AVAILABLE)
}

/// Parses the value of `--mode`.
///
/// # Errors
/// The mode is unknown.
pub fn mode(text: &str) -> Result<Mode, String> {
    choice(text, &[("train", Mode::Train), ("infer", Mode::Infer)], &[])
}

/// The value of one of the known words.
pub(crate) fn choice<T: Copy>(text: &str, known: &[(&str, T)], not_available: &[&str]) -> Result<T, String> {
    if let Some((_, value)) = known.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
    if not_available.contains(&text) {
        return Err(format!("'{text}' is not available in this version; it has {}", words.join(", ")));
    }
    let nearest = nearest(text, words.iter().copied());
    Err(match nearest.first() {
        Some(nearest) => format!("'{text}' is unknown; did you mean '{nearest}'?"),
        None => format!("'{text}' is unknown; possible are {}", words.join(", ")),
    })
}

/// A batch: a number from 1.
///
/// # Errors
/// The text is no such number.
pub fn batch(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(0) => Err("a batch has at least one sample".to_owned()),
        Ok(batch) => Ok(batch),
        Err(_) => Err(format!("'{text}' is not a number of samples")),
    }
}

/// Splits `NAME=EXPR` at the last `=` behind which an expression stands: names may hold one too.
///
/// # Errors
/// The name is missing or the expression is none.
pub fn dim(text: &str) -> Result<(String, String), String> {
    named(text, "NAME=EXPR", dim_expression)
}

/// Splits `NAME=2x3x224x224` at the last `=` behind which dims stand. See [`dims`]; none make a scalar.
///
/// # Errors
/// The name is missing or a dim is not one.
pub fn input_shape(text: &str) -> Result<(String, Vec<String>), String> {
    named(text, "NAME=2x3x224x224", dims)
}

/// Splits at the last `=` behind which `read` finds a value.
fn named<T>(text: &str, form: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<(String, T), String> {
    let mut problem = None;
    for (index, _) in text.rmatch_indices('=') {
        let (name, value) = (text.get(..index).unwrap_or_default(), text.get(index + 1..).unwrap_or_default());
        match read(value) {
            Ok(_) if name.is_empty() => return Err(format!("'{text}' has no name before '='")),
            Ok(value) => return Ok((name.to_owned(), value)),
            // What is wrong with the shortest value is what somebody wants to hear.
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    Err(problem.unwrap_or_else(|| format!("'{text}' is not of the form {form}")))
}

/// Checks a dim expression; it may name any symbol, as which ones there are depends on the model.
///
/// # Errors
/// The text does not follow the grammar, or is a negative number.
pub fn dim_expression(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("a dim is empty; give a number or an expression such as 2*seq".to_owned());
    }
    let any = |name: &str| Some(Dim::from(&Symbol::new(name, SymbolKind::Free, 0, None)));
    let dim = Dim::parse(text, &any).map_err(|error| format!("'{text}' is not a dim: {error}"))?;
    match dim.as_const() {
        Some(number) if number < 0 => Err(format!("a dim cannot be {number}")),
        _ => Ok(text.to_owned()),
    }
}

/// The dims of a shape as text.
///
/// In brackets (`[batch,max_len,8]`), or where a comma or `×` stands outside parentheses, those separate. Otherwise an
/// `x` separates where a digit, a parenthesis or a backquote touches it (`batchx3x224`, `2xseq`, `(seq+1)x8`), so that
/// names keep the `x` between their letters (`max_len`); the `x` of `max(` is part of it. Empty text is a scalar.
///
/// # Errors
/// A dim is empty or holds a character that no dim has.
pub fn dims(text: &str) -> Result<Vec<String>, String> {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let body = inner.unwrap_or(text).trim();
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let listed = split(body, |_, c, _| matches!(c, ',' | '×'));
    let parts = if inner.is_some() || listed.len() > 1 { listed } else { split(body, is_times) };
    parts.into_iter().map(dim_expression).collect()
}

/// Whether the `x` after `before` and in front of `after` stands between two dims.
fn is_times(before: &str, c: char, after: &str) -> bool {
    if !matches!(c, 'x' | 'X') {
        return false;
    }
    let (left, right) = (before.trim_end(), after.trim_start());
    if right.starts_with('(') && left.ends_with("ma") && !left.trim_end_matches("ma").ends_with(is_word) {
        return false;
    }
    left.ends_with(|c: char| c.is_ascii_digit() || matches!(c, ')' | '`'))
        || right.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '(' | '`'))
        || (before.len() != left.len() && after.len() != right.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Splits where `separates(before, character, after)` holds, outside parentheses and names in backquotes.
fn split(text: &str, separates: impl Fn(&str, char, &str) -> bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut depth = 0_i32;
    let mut quoted = false;
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        let literal = escaped;
        escaped = quoted && c == '\\' && !literal;
        match c {
            '`' if !literal => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        let end = index + c.len_utf8();
        let before = text.get(start..index).unwrap_or_default();
        let after = text.get(end..).unwrap_or_default();
        if depth == 0 && !quoted && separates(before, c, after) {
            parts.push(before);
            start = end;
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

/// Splits `NAME=[1,2]`, `NAME=3` or `NAME=@file.json` at the last `=` that leaves a value.
///
/// # Errors
/// There is no value, or its file cannot be read or holds something else than integers.
pub fn input(text: &str, folder: &Path) -> Result<(String, Vec<i64>), String> {
    let mut problem = format!("'{text}' is not of the form NAME=[1,2] or NAME=@file.json");
    for (index, _) in text.rmatch_indices('=') {
        let (name, value) = (text.get(..index).unwrap_or_default(), text.get(index + 1..).unwrap_or_default());
        match input_value(value, folder) {
            Ok(_) if name.is_empty() => return Err(format!("'{text}' has no name before '='")),
            Ok(values) => return Ok((name.to_owned(), values)),
            // A file that was named and is not there is the error to show, not what splitting elsewhere would say.
            Err(error) if value.starts_with('@') => return Err(error),
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

/// The integers of `[1,2]`, `3` or `@file.json`, which is looked up in `folder`.
///
/// # Errors
/// The file cannot be read, or there is something else than integers.
pub fn input_value(text: &str, folder: &Path) -> Result<Vec<i64>, String> {
    let text = text.trim();
    let json = match text.strip_prefix('@') {
        Some(file) => {
            let path = folder.join(file);
            std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?
        }
        None => text.to_owned(),
    };
    let value: serde_json::Value =
        serde_json::from_str(&json).map_err(|_| format!("'{text}' is not an integer or a list of integers"))?;
    let mut values = Vec::new();
    flatten(&value, &mut values).map_err(|stray| format!("'{stray}' in '{text}' is not an integer"))?;
    Ok(values)
}

/// Integers in row-major order; the JSON reader has bounded the depth.
fn flatten(value: &serde_json::Value, values: &mut Vec<i64>) -> Result<(), String> {
    match value {
        serde_json::Value::Array(items) => items.iter().try_for_each(|item| flatten(item, values)),
        serde_json::Value::Bool(truth) => {
            values.push(i64::from(*truth));
            Ok(())
        }
        other => {
            values.push(other.as_i64().ok_or_else(|| other.to_string())?);
            Ok(())
        }
    }
}

/// Checks a glob over layer keys.
///
/// # Errors
/// The glob cannot be read.
pub fn glob(text: &str) -> Result<String, String> {
    globset::Glob::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Vec<String> {
        dims(text).unwrap()
    }

    #[test]
    fn shapes_split_at_times_signs_and_names_keep_their_x() {
        assert_eq!(shape("2x3x224x224"), ["2", "3", "224", "224"]);
        assert_eq!(shape("batchx3x224x224"), ["batch", "3", "224", "224"]);
        assert_eq!(shape("2xmax_len"), ["2", "max_len"]);
        assert_eq!(shape("(seq+1)x8"), ["(seq+1)", "8"]);
        assert_eq!(shape("2x(seq+1)"), ["2", "(seq+1)"]);
        assert_eq!(shape("2xmax(a,b)x4"), ["2", "max(a,b)", "4"]);
        assert_eq!(shape("batch x seq"), ["batch", "seq"]);
        assert_eq!(shape("batch,max_len,8"), ["batch", "max_len", "8"]);
        assert_eq!(shape("[max2]"), ["max2"]);
        assert_eq!(shape("2×3"), ["2", "3"]);
        assert_eq!(shape("`a x 3`x`b(`"), ["`a x 3`", "`b(`"]);
        assert!(shape("").is_empty() && shape("[]").is_empty());
        assert!(dims("2x").is_err());
        assert!(dims("2xx3").is_err());
        assert!(dims("-1x3").unwrap_err().contains("cannot be -1"));
        assert!(dims("2x?").unwrap_err().contains("'?' is not a dim"));
    }

    #[test]
    fn names_may_hold_an_equals_sign() {
        assert_eq!(input_shape("a=b=2x3"), Ok(("a=b".to_owned(), vec!["2".to_owned(), "3".to_owned()])));
        assert_eq!(input_shape("x="), Ok(("x".to_owned(), Vec::new())));
        assert!(input_shape("=2").is_err() && input_shape("2x3").is_err());
        assert_eq!(dim("seq=2*n"), Ok(("seq".to_owned(), "2*n".to_owned())));
        assert!(dim("seq=").is_err() && dim("seq").is_err());
    }

    #[test]
    fn input_values_are_integers_in_row_major_order() {
        let here = Path::new(".");
        assert_eq!(input("n=3", here), Ok(("n".to_owned(), vec![3])));
        assert_eq!(input("a=b=[[1,2],[3,-4]]", here), Ok(("a=b".to_owned(), vec![1, 2, 3, -4])));
        assert!(input("n=1.5", here).is_err() && input("n=", here).is_err() && input("3", here).is_err());
        assert!(input("n=@nowhere.json", here).unwrap_err().contains("nowhere.json"));
    }

    #[test]
    fn input_values_come_from_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a=b.json"), "[1, 2]").unwrap();
        assert_eq!(input("n=@a=b.json", folder.path()), Ok(("n".to_owned(), vec![1, 2])));
    }

    #[test]
    fn what_is_specified_and_not_there_is_refused_by_name() {
        assert!(format("junit").unwrap_err().contains("not available in this version"));
        assert_eq!(emit("kernels"), Ok(Emit::Kernels));
        assert!(format("jsn").unwrap_err().contains("did you mean 'json'"));
        assert_eq!(format("json"), Ok(Format::Json));
    }
}
