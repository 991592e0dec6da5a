//! Diagnostics: each with its excerpt, its notes and what to do.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use crate::diagnostics::Level;
use crate::render::concise::inside;
use crate::render::text::{COLUMNS, fill, printable, shorten, spelled, width};
use crate::render::{Ink, Style, snippet};
use crate::report::{Finding, Location, Model};

use super::comparison;

/// Places of a finding that are listed behind the first.
const MORE_PLACES: usize = 3;

/// Findings of one code that are shown for one model; the others are counted.
const MOST_OF_A_CODE: usize = 5;

/// Writes the diagnostics of all entries of one file. One that several of them have is written once.
pub(super) fn write<'r>(
    models: &'r [Model],
    explained: &mut HashSet<&'r str>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let found = merged(models);
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for found in &found {
        *numbers.entry(&found.finding.code).or_default() += 1;
    }
    let mut shown: HashMap<&str, usize> = HashMap::new();
    for Found { finding, holds, .. } in &found {
        let shown = shown.entry(&finding.code).or_default();
        *shown += 1;
        let number = numbers.get(finding.code.as_str()).copied().unwrap_or_default();
        // One finding more takes less room than the line that counts it.
        if *shown <= MOST_OF_A_CODE || number == MOST_OF_A_CODE + 1 {
            let first = explained.insert(finding.code.as_str());
            out.write_all(text(finding, holds.as_deref(), first, style).as_bytes())?;
            writeln!(out)?;
        } else if *shown == MOST_OF_A_CODE + 1 {
            let more = number - MOST_OF_A_CODE;
            writeln!(out, "{more} more of {} {}; --format concise lists them\n", finding.code, finding.name)?;
        }
    }
    Ok(())
}

/// A finding, and which entries of its file have it.
pub(in crate::render) struct Found<'r> {
    pub(in crate::render) finding: &'r Finding,
    /// The first entry that has it.
    pub(in crate::render) model: &'r Model,
    /// Which entries it holds for, where others do not have it.
    pub(in crate::render) holds: Option<String>,
    entries: Vec<usize>,
}

impl Found<'_> {
    /// Whether the file has no lines: those of its places are lines of what `annotate` prints.
    pub(in crate::render) fn is_binary(&self) -> bool {
        self.model.format.as_deref() == Some("onnx")
    }
}

/// The findings of all entries of one file, each once, gravest first.
pub(in crate::render) fn merged(models: &[Model]) -> Vec<Found<'_>> {
    let mut found: Vec<Found<'_>> = Vec::new();
    let mut known = HashMap::new();
    for (entry, model) in models.iter().enumerate() {
        for finding in &model.diagnostics {
            let place = finding.places.first();
            let at = place.map(|place| (&place.graph, &place.node, &place.tensor, place.byte_range, place.line));
            let key = (finding.level, &finding.code, &finding.message, at);
            let index = *known.entry(key).or_insert(found.len());
            match found.get_mut(index) {
                // Two of one entry that say the same are two.
                Some(earlier) if !earlier.entries.contains(&entry) => earlier.entries.push(entry),
                _ => found.push(Found { finding, model, holds: None, entries: vec![entry] }),
            }
        }
    }
    if models.len() > 1 {
        found.sort_by_key(|found| Reverse(found.finding.level));
    }
    let names = comparison::names(models);
    for found in found.iter_mut().filter(|found| found.entries.len() < models.len()) {
        let of: Vec<&str> = found.entries.iter().filter_map(|&entry| names.get(entry)).map(String::as_str).collect();
        found.holds = Some(format!("holds for {}", of.join(", and ")));
    }
    found
}

/// A diagnostic with its excerpt, help and notes.
fn text(finding: &Finding, holds: Option<&str>, explain: bool, style: Style) -> String {
    let ink = match finding.level {
        Level::Error => Ink::Error,
        Level::Warning => Ink::Warning,
        Level::Note => Ink::Note,
    };
    let kind = format!("{}[{} {}]:", finding.level, finding.code, finding.name);
    let message = fill(&spelled(&finding.message, style), width(&kind) + 1, 2);
    let message: Vec<String> = message.iter().map(|line| style.paint(Ink::Strong, line)).collect();
    let mut text = format!("{} {}\n", style.paint(ink, &kind), message.join("\n  "));
    let title = finding.places.first().map(place_text).unwrap_or_default();
    let drawing = finding.excerpt.as_ref().map_or_else(String::new, |excerpt| {
        // The path stands whole above, so the border may shorten it.
        snippet::draw(excerpt, &shorten(&title, COLUMNS - 12, style), style)
    });
    if !drawing.is_empty() {
        text.push_str(&drawing);
    } else if !title.is_empty() {
        text.push_str(&format!("  --> {title}\n"));
    }
    // A note counts them all.
    for place in finding.places.iter().skip(1).take(MORE_PLACES) {
        // Its path is that of the first place, or one like it.
        let place = shorten(&place_text(place), COLUMNS - width("  also: "), style);
        text.push_str(&format!("  also: {place}\n"));
    }
    let mut line = |name: &str, content: &str| {
        let lines = fill(content, name.len() + 4, name.len() + 4);
        let lines = lines.join(&format!("\n{}", " ".repeat(name.len() + 4)));
        text.push_str(&format!("  {} {lines}\n", style.paint(Ink::Note, &format!("{name}:"))));
    };
    for note in finding.notes.iter().map(String::as_str).chain(holds) {
        line("note", &spelled(note, style));
    }
    if let Some(help) = &finding.help {
        line("help", &spelled(help, style));
    }
    if explain {
        line("explain", &format!("dlcost explain {}", finding.code));
    }
    text
}

/// `model.onnx:7:3: graph main, node fc`.
fn place_text(place: &Location) -> String {
    let mut text = printable(&place.file).into_owned();
    for number in [place.line, place.line.and(place.column)].into_iter().flatten() {
        text.push_str(&format!(":{number}"));
    }
    let inside = inside(place);
    if !inside.is_empty() {
        text.push_str(": ");
        text.push_str(&inside);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    fn written(models: &[Model]) -> String {
        let mut out = Vec::new();
        write(models, &mut HashSet::new(), Style::PLAIN, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn findings(number: usize) -> Vec<Finding> {
        let model = sample::report().models.remove(1);
        vec![model.diagnostics[0].clone(); number]
    }

    #[test]
    fn many_findings_of_one_code_are_counted() {
        for (number, shown, counted) in [(6, 6, None), (9, 5, Some("4 more of DL0110 syntax-error"))] {
            let model = Model { diagnostics: findings(number), ..Model::default() };
            let text = written(&[model]);
            assert_eq!(text.matches("error[DL0110").count(), shown);
            assert!(counted.is_none_or(|line| text.contains(line)));
        }
    }

    #[test]
    fn long_lists_of_places_end() {
        let mut model = Model { diagnostics: findings(1), ..Model::default() };
        let finding = &mut model.diagnostics[0];
        finding.places = vec![finding.places[0].clone(); 9];
        assert_eq!(written(&[model]).matches("  also: ").count(), MORE_PLACES);
    }

    #[test]
    fn places_of_deep_folders_fit() {
        let mut model = Model { diagnostics: findings(1), ..Model::default() };
        let finding = &mut model.diagnostics[0];
        finding.places = vec![finding.places[0].clone(); 2];
        finding.places[1].file = crate::report::Text::from("a folder/".repeat(40).as_str());
        let text = written(&[model]);
        assert!(text.lines().filter(|line| line.contains("also: ")).all(|line| width(line) <= COLUMNS), "{text}");
    }

    #[test]
    fn what_several_entries_of_a_file_have_is_said_once() {
        let entry = |gpu: &str| {
            let mut model = Model { diagnostics: findings(1), ..Model::default() };
            model.target.gpu = Some(gpu.to_owned());
            model
        };
        let mut models = vec![entry("t4"), entry("v100")];
        let text = written(&models);
        assert_eq!(text.matches("error[").count(), 1);
        assert!(!text.contains("holds for"), "{text}");
        models[0].diagnostics.clear();
        assert!(written(&models).contains("note: holds for v100\n"));
    }
}
