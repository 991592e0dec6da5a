//! Differences that are known, with who is right: `testdata/differential/verdicts.toml`. A test of dlcost holds the files
//! it names to its answers.

use std::error::Error;
use std::fs;

use toml::Table;

use super::case::Case;
use super::compare::Difference;
use crate::root;

/// A line of the table.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) file: String,
    /// Operators; `*` for any that comes after the cause.
    op: String,
    kind: String,
    /// Part of what the two say, where operator and kind do not decide.
    says: String,
    /// The other program; empty for any.
    opinion: String,
    pub(super) right: String,
}

/// The table.
pub(super) fn read() -> Result<Vec<Verdict>, Box<dyn Error>> {
    let path = root().join("testdata/differential/verdicts.toml");
    let table: Table = fs::read_to_string(&path)?.parse()?;
    let rows = table.get("verdict").and_then(toml::Value::as_array).ok_or("no verdicts")?;
    let row = |row: &toml::Value| {
        let text = |key: &str| row.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_owned();
        let [file, op, kind, says, opinion, right] = ["file", "op", "kind", "says", "opinion", "right"].map(text);
        Verdict { file, op, kind, says, opinion, right }
    };
    Ok(rows.iter().map(row).collect())
}

/// The verdict on a difference that was made small.
pub(super) fn find<'a>(verdicts: &'a [Verdict], opinion: &str, case: &Case, found: &Difference) -> Option<&'a Verdict> {
    let op = case.calls.get(found.call).map_or("", |call| call.op);
    let kind = found.kind.to_string();
    verdicts.iter().find(|verdict| {
        (verdict.opinion.is_empty() || verdict.opinion == opinion)
            && verdict.kind == kind
            && verdict.op.split(' ').any(|name| name == op || (name == "*" && case.calls.len() > 1))
            && (found.detail.contains(&verdict.says) || case.text().contains(&verdict.says))
    })
}

/// What differences have in common that have one cause: operator, attributes that matter, kind, and the message without
/// its numbers.
pub(super) fn signature(case: &Case, found: &Difference) -> String {
    let Some(call) = case.calls.get(found.call) else { return found.kind.to_string() };
    let mut attributes: Vec<&str> = call.attributes.iter().map(|(name, _)| *name).collect();
    attributes.sort_unstable();
    format!("{} {}({}) {}", found.kind, call.op, attributes.join(", "), found.reason())
}
