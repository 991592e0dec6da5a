//! The report for people, then its gravest findings as commands that GitHub Actions turns into annotations.

use std::cmp::Reverse;
use std::io::{self, Write};

use super::Style;
use super::concise::inside;
use super::human::{self, findings, findings::Found};
use super::paths::Root;
use super::text::printable;
use crate::diagnostics::Level;
use crate::ir::stable_hash::Fnv;
use crate::report::Report;

/// Annotations of one level that GitHub shows for a step; it drops the rest without a word.
const SHOWN: usize = 10;

/// Writes the report, with at most `top` rows in each table of layers, and the commands.
///
/// # Errors
/// Writing fails.
pub fn write(report: &Report, top: usize, style: Style, root: &Root, out: &mut dyn Write) -> io::Result<()> {
    let mut text = Vec::new();
    human::write(report, top, style, &mut text)?;
    write_inert(&text, out)?;

    let mut found: Vec<Found<'_>> = human::files(report).flat_map(findings::merged).collect();
    found.sort_by_key(|found| Reverse(found.finding.level));
    let unlisted: usize = found.iter().map(|found| found.finding.unlisted).sum();
    let level = |level| found.iter().filter(move |found| found.finding.level == level);
    let [errors, warnings, notes] = [Level::Error, Level::Warning, Level::Note].map(|of| level(of).count());
    let fits = unlisted == 0 && [errors, warnings, notes].iter().all(|&number| number <= SHOWN);
    // The line that counts the rest is a note as well.
    let rooms = [(Level::Error, SHOWN), (Level::Warning, SHOWN), (Level::Note, if fits { SHOWN } else { SHOWN - 1 })];
    let mut written = 0;
    for (of, room) in rooms {
        for found in level(of).take(room) {
            writeln!(out, "{}", command(found, root))?;
            written += 1;
        }
    }
    let more = found.len() + unlisted - written;
    if more > 0 {
        writeln!(out, "::notice title=dlcost::{more} more, see log")?;
    }
    Ok(())
}

/// Writes a text of which no line is taken for a command: names of a model could look like one.
fn write_inert(text: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let shown = String::from_utf8_lossy(text);
    // The runner reads `::` at the start of a line and the older `##[` anywhere.
    if !shown.lines().any(|line| line.trim_start().starts_with("::") || line.contains("##[")) {
        return out.write_all(text);
    }
    // A word that depends on the whole text cannot be written into it.
    let word = format!("dlcost-{:016x}", Fnv::new("report").bytes(text).0);
    writeln!(out, "::stop-commands::{word}")?;
    out.write_all(text)?;
    writeln!(out, "::{word}::")
}

/// `::error file=m.onnxtxt,line=7,col=3,title=DL0204 undefined-tensor::message`.
fn command(found: &Found<'_>, root: &Root) -> String {
    let finding = found.finding;
    let command = match finding.level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "notice",
    };
    let mut properties = Vec::new();
    let place = finding.places.first();
    if let Some(place) = place {
        if place.file != "-" {
            properties.push(format!("file={}", property(&root.path(&place.file))));
        }
        // The line of a binary model is one of another text.
        if !found.is_binary() {
            properties.extend(place.line.map(|line| format!("line={line}")));
            properties.extend(place.line.and(place.column).map(|column| format!("col={column}")));
        }
    }
    properties.push(format!("title={}", property(&format!("{} {}", finding.code, finding.name))));
    let inside =
        place.map(inside).filter(|text| !text.is_empty()).map_or_else(String::new, |text| format!(" ({text})"));
    let mut message = format!("{}{inside}", printable(&finding.message));
    for note in finding.notes.iter().chain(&found.holds) {
        message.push_str(&format!("\nnote: {}", printable(note)));
    }
    if let Some(help) = &finding.help {
        message.push_str(&format!("\nhelp: {}", printable(help)));
    }
    format!("::{command} {}::{}", properties.join(","), data(&message))
}

/// A message as commands take it.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property as commands take it.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::render::sample;

    fn written(report: &Report) -> String {
        let mut out = Vec::new();
        write(report, 2, Style::PLAIN, &Root::new(Path::new("/work")), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn commands_stand_behind_the_report_gravest_first() {
        let text = written(&sample::report());
        let commands: Vec<_> = text.lines().filter(|line| line.starts_with("::")).collect();
        assert_eq!(
            commands,
            [
                "::error file=bad.onnxtxt,line=7,col=3,title=DL0110 syntax-error::expected a name, found \\u{1b}[31m",
                "::warning file=m.onnx,title=DL0302 declared-shape-wrong::y is declared 2×3 and computed 2×4 \
                 (graph main, node relu, tensor y)%0Anote: the computed shape is used%0Ahelp: remove the declaration",
            ]
        );
    }

    #[test]
    fn signs_of_commands_are_escaped() {
        assert_eq!(data("50 %: a,\r\nb"), "50 %25: a,%0D%0Ab");
        assert_eq!(property("C:/a,b%.onnx"), "C%3A/a%2Cb%25.onnx");
    }

    #[test]
    fn names_cannot_give_commands() {
        let mut report = sample::report();
        report.models[0].path = "::add-mask::x".to_owned();
        report.models[1].path = "##[group]x".to_owned();
        let text = written(&report);
        let lines: Vec<_> = text.lines().collect();
        let word = lines[0].strip_prefix("::stop-commands::").unwrap();
        let end = lines.iter().position(|line| *line == format!("::{word}::")).unwrap();
        let dangerous = |line: &&str| line.trim_start().starts_with("::add-mask") || line.contains("##[group]");
        assert!(lines[1..end].iter().any(dangerous) && !lines[end..].iter().any(dangerous), "{text}");
    }
}
