//! One line for each model and one for each diagnostic, for `grep` and for editors.

use std::io::{self, Write};

use super::Style;
use super::human::counted::Counted;
use super::human::{head, summary};
use super::text::printable;
use super::units::{bytes, count, duration, plural};
use crate::report::{Finding, Location, Model, Report};

/// Writes the report.
///
/// # Errors
/// Writing fails.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for model in &report.models {
        writeln!(out, "{}: {}", printable(&model.path), model_line(model))?;
        for finding in &model.diagnostics {
            writeln!(out, "{}", line(finding, &model.path))?;
        }
    }
    Ok(())
}

/// What one line says about a model.
fn model_line(model: &Model) -> String {
    let Some(graph) = &model.graph else {
        return "no model that can be read".to_owned();
    };
    let counted = Counted::of(model, graph, Style::PLAIN);
    let mut parts = vec![
        counted.format.clone(),
        plural(graph.nodes, "node"),
        format!("{} parameters", count(graph.parameters.total)),
        counted.macs_a_sample(),
    ];
    parts.extend(head::device(&model.target, Style::PLAIN).map(|device| format!("on {device}")));
    parts.extend(head::setting(&model.target));
    parts.extend(time(model));
    parts.extend(memory(model));
    let assumed: Vec<String> = model
        .assumptions
        .iter()
        .map(|assumption| format!("{} {}", printable(&assumption.key), printable(&assumption.value)))
        .collect();
    if !assumed.is_empty() {
        parts.push(format!("assumed {}", assumed.join(" and ")));
    }
    parts.join(", ")
}

/// The step with its interval and what it makes a second.
fn time(model: &Model) -> Vec<String> {
    let name = summary::run_word(model);
    let Some(time) = &model.time_ms else {
        return vec![format!("{name} {}", summary::unknown_because(model))];
    };
    let step = duration(time.step.p50, Style::PLAIN);
    let mut parts = vec![format!("{name} {step} (80 % {})", summary::between(time.step, Style::PLAIN))];
    parts.extend(summary::rates(model));
    parts
}

/// The peak and whether it fits.
fn memory(model: &Model) -> Option<String> {
    let memory = model.memory_bytes.as_ref()?;
    let [peak, capacity] = [memory.peak.p50, memory.capacity].map(|amount| bytes(i128::from(amount)));
    Some(format!("memory {peak} of {capacity}, {}", summary::verdict(memory)))
}

/// One diagnostic: `model.onnxtxt:7: error DL0204 undefined-tensor: message (graph main, node fc)`.
fn line(finding: &Finding, path: &str) -> String {
    let place = finding.places.first();
    let file = place.map_or(path, |place| place.file.as_str());
    let at = place.and_then(|place| place.line).map_or_else(String::new, |line| format!("{line}:"));
    let inside =
        place.map(inside).filter(|text| !text.is_empty()).map_or_else(String::new, |text| format!(" ({text})"));
    format!(
        "{}:{at} {} {} {}: {}{inside}",
        printable(file),
        finding.level,
        finding.code,
        finding.name,
        printable(&finding.message),
    )
}

/// Graph, node and tensor of a place.
pub(super) fn inside(place: &Location) -> String {
    let parts = [("graph", &place.graph), ("node", &place.node), ("tensor", &place.tensor)];
    let named = parts.iter().filter_map(|(kind, name)| {
        let name = name.as_deref().filter(|name| !name.is_empty())?;
        Some(format!("{kind} {}", printable(name)))
    });
    named.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn models_and_diagnostics_take_a_line_each() {
        let mut out = Vec::new();
        write(&sample::report(), &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
