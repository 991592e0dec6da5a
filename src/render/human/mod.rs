//! The report for people: what was assumed, the numbers people decide by, the parts, the layers, then what is wrong.

mod compared;
mod comparison;
pub(super) mod counted;
mod features;
pub(super) mod findings;
pub(super) mod head;
pub(super) mod layers;
mod parts;
pub(super) mod summary;

use std::collections::HashSet;
use std::io::{self, Write};

use super::text::printable;
use super::units::plural;
use super::{Ink, Style};
use crate::report::comparison::Comparison;
use crate::report::{Model, Report, Summary};
use counted::Counted;

/// Entries of one file that have reports of their own; more are compared in a table.
const FULL_REPORTS: usize = 3;

/// Writes the report with at most `top` rows in each table of layers.
///
/// # Errors
/// Writing fails.
pub fn write(report: &Report, top: usize, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut explained = HashSet::new();
    for models in files(report) {
        for text in models_texts(models, top, style) {
            writeln!(out, "{text}")?;
        }
        findings::write(models, &mut explained, style, out)?;
    }
    writeln!(out, "{}", summary_line(report, style))
}

/// Writes the diagnostics alone, as they stand beside the output of `--emit`.
///
/// # Errors
/// Writing fails.
pub fn write_diagnostics(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut explained = HashSet::new();
    files(report).try_for_each(|models| findings::write(models, &mut explained, style, out))
}

/// Writes the diagnostics of one model.
///
/// # Errors
/// Writing fails.
pub fn write_findings_of(model: &Model, style: Style, out: &mut dyn Write) -> io::Result<()> {
    findings::write(std::slice::from_ref(model), &mut HashSet::new(), style, out)
}

/// Writes a profile beside the prediction of a model, with at most `top` rows in each table, and what hinders it.
///
/// # Errors
/// Writing fails.
pub fn write_comparison(
    comparison: &Comparison,
    model: &Model,
    top: usize,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let text = compared::text(comparison, model, top, style);
    if !text.is_empty() {
        writeln!(out, "{text}")?;
    }
    let found = Model { diagnostics: comparison.diagnostics.clone(), ..Model::default() };
    write_findings_of(&found, style, out)
}

/// The entries of each file.
pub(super) fn files(report: &Report) -> impl Iterator<Item = &[Model]> {
    report.models.chunk_by(|a, b| a.path == b.path)
}

/// Everything about the entries of a file but their diagnostics.
fn models_texts(models: &[Model], top: usize, style: Style) -> Vec<String> {
    match models {
        [] => Vec::new(),
        [first, ..] if first.graph.is_none() => {
            vec![format!("{}  no model that can be read\n", style.paint(Ink::Strong, &printable(&first.path)))]
        }
        [first, ..] if models.len() > FULL_REPORTS => {
            first.graph.iter().map(|graph| comparison::text(models, first, graph, style)).collect()
        }
        _ => models.iter().map(|model| model_text(model, top, style)).collect(),
    }
}

/// Everything about a model but its diagnostics, in blocks.
fn model_text(model: &Model, top: usize, style: Style) -> String {
    let Some(graph) = &model.graph else { return String::new() };
    let head = head::model_line(model, graph, style) + &head::target_lines(model, style);
    let blocks = [
        head,
        summary::lines(model, style),
        parts::lines(model, style),
        Counted::of(model, graph, style).lines(model, style),
        layers::block(model, top, style),
        features::block(model, top, style),
    ];
    blocks.iter().filter(|block| !block.is_empty()).map(String::as_str).collect::<Vec<_>>().join("\n")
}

/// The name of a row, as wide as all others.
fn label(name: &str) -> String {
    format!("  {name:<12}")
}

/// `2 files, 1 error, 3 warnings`.
fn summary_line(report: &Report, style: Style) -> String {
    let summary: &Summary = &report.summary;
    let mut parts = vec![plural(summary.files, "file")];
    if report.models.len() > summary.files {
        parts.push(format!("{} entries", report.models.len()));
    }
    let before = parts.len();
    for (number, noun, ink) in [
        (summary.errors, "error", Ink::Error),
        (summary.warnings, "warning", Ink::Warning),
        (summary.notes, "note", Ink::Note),
    ] {
        if number > 0 {
            parts.push(style.paint(ink, &plural(number, noun)));
        }
    }
    if parts.len() == before {
        parts.push("nothing found".to_owned());
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;
    use crate::render::text::{COLUMNS, width};
    use crate::report::Assumption;

    fn rendered(report: &Report, style: Style) -> String {
        let mut out = Vec::new();
        write(report, 2, style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_report_reads_from_assumptions_to_diagnostics() {
        insta::assert_snapshot!(rendered(&sample::report(), Style::PLAIN));
    }

    #[test]
    fn lines_fit_and_names_cannot_steer_the_terminal() {
        for unicode in [true, false] {
            let text = rendered(&sample::report(), Style { color: false, unicode });
            assert!(!text.contains('\u{1b}'));
            assert!(text.lines().all(|line| width(line) <= COLUMNS), "{text}");
            assert_eq!(text.contains('╭'), unicode);
        }
        assert!(rendered(&sample::report(), Style { color: true, unicode: true }).contains("\u{1b}[1;33mwarning["));
    }

    #[test]
    fn long_lists_of_assumptions_end() {
        let mut report = sample::report();
        let model = &mut report.models[0];
        let assumption = |index| Assumption { key: format!("dim d{index}"), ..model.assumptions[0].clone() };
        model.assumptions = (0..30).map(assumption).collect();
        let text = rendered(&report, Style::PLAIN);
        assert!(text.contains("18 more (--format json)"), "{text}");
    }

    #[test]
    fn many_entries_of_a_file_are_compared_in_a_table() {
        let mut report = sample::report();
        let model = report.models.remove(0);
        let entry = |gpu: &str| {
            let mut model = model.clone();
            model.target.gpu = Some(gpu.to_owned());
            model
        };
        report.models = ["t4", "v100", "a100", "t4"].map(entry).to_vec();
        report.models[3].target.batch = Some(64);
        report.models[1].time_ms = None;
        insta::assert_snapshot!(rendered(&report, Style::PLAIN));
        report.models.truncate(FULL_REPORTS);
        assert_eq!(rendered(&report, Style::PLAIN).matches("memory at the peak").count(), FULL_REPORTS);
    }
}
