//! The result of an evaluation as JSON and as a table.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::observe::Observed;
use super::sets::{Figures, Set};

/// The JSON document `dlcost-eval/1`.
pub(super) fn json(rows: usize, observed: &Observed<'_>, sets: &[Set]) -> Value {
    json!({
        "schema": "dlcost-eval/1",
        "rows": rows,
        "skipped": observed.skipped_by_reason(),
        "refused": observed.refused(),
        "known_bad": observed.doubted_by_reason(),
        "sets": sets.iter().map(set_json).collect::<Vec<_>>(),
    })
}

fn set_json(set: &Set) -> Value {
    let by: Map<String, Value> = set.by.iter().map(|(by, value)| (by.name().to_owned(), json!(value))).collect();
    let mut object = Map::new();
    object.insert("kind".to_owned(), json!(set.kind.name()));
    object.insert("by".to_owned(), Value::Object(by));
    object.extend(figures_json(&set.all));
    object.insert(
        "without_known_bad".to_owned(),
        match &set.undoubted {
            Some(figures) => Value::Object(figures_json(figures)),
            None => Value::Null,
        },
    );
    Value::Object(object)
}

fn figures_json(figures: &Figures) -> Map<String, Value> {
    let errors = figures.errors;
    let pairs = [
        ("n", json!(figures.n)),
        ("mape", json!(errors.map(|errors| errors.mape))),
        ("median_ape", json!(errors.map(|errors| errors.median_ape))),
        ("p90_ape", json!(errors.map(|errors| errors.p90_ape))),
        ("bias", json!(errors.map(|errors| errors.bias))),
        ("coverage80", json!(errors.and_then(|errors| errors.coverage80))),
        ("accuracy", json!(figures.accuracy)),
        ("accuracy_not_fitting", json!(figures.found)),
        ("geometric_mean", json!(errors.map(|errors| errors.geometric_mean))),
        ("rank_correlation", json!(figures.rank_correlation)),
        ("rank_correlation_per_sample", json!(figures.rank_correlation_per_sample)),
        ("configurations", json!(figures.configurations)),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A table for people.
pub(super) fn human(rows: usize, observed: &Observed<'_>, sets: &[Set]) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{rows} rows, {} of them judged", rows.saturating_sub(observed.skipped.len()));
    for (reason, count) in observed.skipped_by_reason() {
        let _ = writeln!(text, "  {count:>6} skipped: {reason}");
    }
    for row in observed.refused() {
        let _ = writeln!(text, "         {row}");
    }
    for (reason, count) in observed.doubted_by_reason() {
        let _ = writeln!(text, "  {count:>6} known bad: {reason}");
    }
    let name = |set: &Set| set.by.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" ");
    let width = sets.iter().map(|set| name(set).chars().count()).max().unwrap_or_default().max(3);
    let mut kind = None;
    for set in sets {
        if kind != Some(set.kind) {
            kind = Some(set.kind);
            let _ = writeln!(
                text,
                "\n{:<width$} {:>6} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6} {:>8} {:>6}",
                set.kind.name(),
                "n",
                "mape %",
                "median",
                "p90",
                "bias",
                "ratio",
                "rank",
                "a sample",
                "in 80"
            );
        }
        let _ = writeln!(text, "{:<width$} {}", name(set), line(&set.all));
        if let Some(figures) = &set.undoubted {
            let _ = writeln!(text, "{:<width$} {}", "  without known bad rows", line(figures));
        }
    }
    text
}

fn line(figures: &Figures) -> String {
    if let Some(accuracy) = figures.accuracy {
        let found =
            figures.found.map_or(String::new(), |found| format!(", {:.1} % of those that did not fit", found * 100.0));
        return format!("{:>6} {:>6.1} % right{found}", figures.n, accuracy * 100.0);
    }
    let Some(errors) = figures.errors else { return format!("{:>6}", figures.n) };
    let or_dash = |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let percent = |value: f64| format!("{:.1}", value * 100.0);
    format!(
        "{:>6} {:>7} {:>7} {:>7} {:>7} {:>6.2} {:>6} {:>8} {:>6}",
        figures.n,
        percent(errors.mape),
        percent(errors.median_ape),
        percent(errors.p90_ape),
        percent(errors.bias),
        errors.geometric_mean,
        or_dash(figures.rank_correlation, 3),
        or_dash(figures.rank_correlation_per_sample, 3),
        or_dash(errors.coverage80, 2)
    )
}
