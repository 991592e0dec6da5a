//! The model as ONNX text with notes at the ends of lines and findings below them, all of them comments.

use std::io::{self, Write};

use super::concise::inside;
use super::human::layers::shape;
use super::text::{printable, width};
use super::units::of_unit;
use super::{Ink, Style};
use crate::diagnostics::Level;
use crate::report::annotate::{Annotated, Mention, Note};
use crate::report::{Finding, Location, Model};

/// Notes stand below each other behind lines of up to this width; behind a longer one the note follows it.
const ALIGNED: usize = 100;

/// Columns between a line and its note.
const GAP: usize = 2;

/// Writes the text of a model with its notes.
///
/// # Errors
/// Writing fails.
pub fn write(model: &Model, annotated: &Annotated, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let column = column(annotated);
    let mut notes = annotated.lines.iter().peekable();
    for (number, line) in (1..).zip(lines(&annotated.text)) {
        write!(out, "{line}")?;
        let Some(about) = notes.next_if(|about| about.number == number) else {
            writeln!(out)?;
            continue;
        };
        if let Some(note) = &about.note {
            let gap = column.saturating_sub(width(line)).max(GAP);
            write!(out, "{:gap$}{}", "", style.paint(Ink::Faint, &note_text(note, style)))?;
        }
        writeln!(out)?;
        let indent = line.len() - line.trim_start_matches(' ').len();
        for mention in &about.mentions {
            if let Some(finding) = model.diagnostics.get(mention.finding) {
                write_mention(finding, *mention, indent, style, out)?;
            }
        }
    }
    Ok(())
}

/// Lines of the text; a carriage return belongs to the name or string that it stands in.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').map(|line| line.strip_suffix('\n').unwrap_or(line))
}

/// The column at which notes begin.
fn column(annotated: &Annotated) -> usize {
    let mut notes = annotated.lines.iter().filter(|line| line.note.is_some()).peekable();
    let noted =
        (1..).zip(lines(&annotated.text)).filter(|(number, _)| notes.next_if(|line| line.number == *number).is_some());
    noted.map(|(_, line)| width(line)).filter(|&width| width <= ALIGNED).max().unwrap_or(0) + GAP
}

/// `# 32×64×56×56, 0.41 GMACs, 1.1 %`.
fn note_text(note: &Note, style: Style) -> String {
    let mut parts = Vec::new();
    // Calls of one function may give different shapes.
    if note.calls <= 1 || note.shape.is_some() {
        parts.push(shape(note.shape.as_deref(), style));
    }
    let macs = of_unit(note.macs, "MACs");
    let bound = note.at_bound && note.macs.is_some_and(|macs| macs > 0);
    parts.push(if bound { format!("{} {macs}", style.at_most()) } else { macs });
    if let Some(share) = note.share {
        let percent = 100.0 * share;
        parts.push(match percent {
            0.0 => "0 %".to_owned(),
            ..0.05 => "under 0.1 %".to_owned(),
            _ => format!("{percent:.1} %"),
        });
    }
    let calls = if note.calls > 1 { format!(" in {} calls", note.calls) } else { String::new() };
    format!("# {}{calls}", parts.join(", "))
}

/// The lines of a finding; [`Mention::lines`] knows how many.
fn write_mention(
    finding: &Finding,
    mention: Mention,
    indent: usize,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let ink = match finding.level {
        Level::Error => Ink::Error,
        Level::Warning => Ink::Warning,
        Level::Note => Ink::Note,
    };
    let mut line = |head: String, text: &str| {
        writeln!(out, "{:indent$}{} {}", "", style.paint(ink, &head), style.paint(Ink::Faint, &printable(text)))
    };
    let kind = format!("# {}[{} {}]:", finding.level, finding.code, finding.name);
    let place = finding.places.first().filter(|place| place.lines.is_none()).map(outside).unwrap_or_default();
    line(kind, &format!("{}{place}", finding.message))?;
    if mention.in_full {
        for note in &finding.notes {
            line("#   note:".to_owned(), note)?;
        }
        if let Some(help) = &finding.help {
            line("#   help:".to_owned(), help)?;
        }
    }
    Ok(())
}

/// Where something is that stands on no line of the text: ` (line 7, column 3)`.
fn outside(place: &Location) -> String {
    let mut parts = Vec::new();
    if let (Some(line), Some(column)) = (place.line, place.column) {
        parts.push(format!("line {line}, column {column}"));
    }
    parts.push(inside(place));
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}
