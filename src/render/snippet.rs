//! An excerpt with a mark under what is meant, drawn by miette. The excerpt is prepared so that the drawing cannot go
//! wrong: tabs become spaces, the range is clamped to characters of one line, long lines are cut around it.

use std::fmt;
use std::ops::Range;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents, SourceCode,
    SourceSpan, SpanContents,
};

use super::Style;
use super::text::{COLUMNS, spelled, steers, width};
use crate::report::Excerpt;

/// Lines of context before and behind.
const CONTEXT: usize = 2;
const TAB: usize = 4;

/// The drawing, with `title` in its upper border; empty when there is no text to show.
pub(super) fn draw(excerpt: &Excerpt, title: &str, style: Style) -> String {
    let Some(prepared) = Prepared::of(excerpt, title, style) else {
        return String::new();
    };
    let theme = match (style.unicode, style.color) {
        (true, true) => GraphicalTheme::unicode(),
        (true, false) => GraphicalTheme::unicode_nocolor(),
        (false, true) => GraphicalTheme::ascii(),
        (false, false) => GraphicalTheme::none(),
    };
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_links(false)
        .with_wrap_lines(false)
        .without_syntax_highlighting()
        .without_primary_span_start()
        .with_context_lines(CONTEXT);
    let mut drawing = String::new();
    if handler.render_report(&mut drawing, &prepared).is_err() {
        return String::new();
    }
    // The first line is for miette's own title; the diagnostic's stands above already.
    drawing.split_once('\n').map_or_else(String::new, |(_, rest)| rest.trim_start_matches('\n').to_owned())
}

/// An excerpt that is safe to draw.
#[derive(Debug)]
struct Prepared {
    source: Source,
    range: Range<usize>,
    label: Option<String>,
}

#[derive(Debug)]
struct Source {
    name: String,
    text: String,
    /// Number of the first line of `text`, from 0.
    first_line: usize,
}

impl Prepared {
    fn of(excerpt: &Excerpt, title: &str, style: Style) -> Option<Self> {
        if excerpt.text.is_empty() {
            return None;
        }
        let start = floor(&excerpt.text, excerpt.range.start);
        let end = floor(&excerpt.text, excerpt.range.end).max(start);
        let lines: Vec<Line<'_>> = Line::all(&excerpt.text);
        let marked = lines.iter().position(|line| start <= line.end()).unwrap_or(lines.len().saturating_sub(1));
        let first = marked.saturating_sub(CONTEXT);
        let mut text = String::new();
        let mut range = 0..0;
        for (index, line) in lines.iter().enumerate().skip(first).take(2 * CONTEXT + 1) {
            let wanted = (index == marked).then(|| {
                let clamp = |offset: usize| offset.saturating_sub(line.start).min(line.text.len());
                clamp(start)..clamp(end)
            });
            let shown = clean(line.text, wanted.unwrap_or(0..0));
            if index == marked {
                range = text.len() + shown.1.start..text.len() + shown.1.end;
            }
            text.push_str(shown.0.trim_end_matches(|c| index != marked && c == ' '));
            text.push('\n');
        }
        let source =
            Source { name: title.to_owned(), text, first_line: (excerpt.first_line + first).saturating_sub(1) };
        let label = (!excerpt.label.is_empty()).then(|| spelled(&excerpt.label, style).into_owned());
        Some(Self { source, range, label })
    }
}

/// A line and where it starts.
struct Line<'t> {
    start: usize,
    text: &'t str,
}

impl<'t> Line<'t> {
    fn all(text: &'t str) -> Vec<Self> {
        let mut start = 0;
        let mut lines = Vec::new();
        for whole in text.split_inclusive('\n') {
            lines.push(Self { start, text: whole.trim_end_matches(['\n', '\r']) });
            start += whole.len();
        }
        lines
    }

    /// The last offset that belongs to this line: that of its line end.
    fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The last character border at or before an offset.
fn floor(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// A line with tabs expanded and steering characters replaced, cut to the width around the range, with the range moved
/// along. The range is never empty: behind the end of the line it covers a space.
fn clean(line: &str, range: Range<usize>) -> (String, Range<usize>) {
    const BEFORE: usize = 40;
    // Room for a line number of six digits, the border, and the sign for what is cut.
    const MOST: usize = COLUMNS - 16;
    let from = if width(line) > MOST { skip(line, range.start, BEFORE) } else { 0 };
    let mut text = if from > 0 { String::from("... ") } else { String::new() };
    let mut moved: (Option<usize>, Option<usize>) = (None, None);
    let mut column = text.len();
    for (index, c) in line.char_indices().skip_while(|(index, _)| *index < from) {
        if column > MOST {
            text.push_str(" ...");
            break;
        }
        if moved.0.is_none() && index >= range.start {
            moved.0 = Some(text.len());
        }
        if moved.1.is_none() && moved.0.is_some() && index >= range.end && index > range.start {
            moved.1 = Some(text.len());
        }
        match c {
            '\t' => {
                let spaces = TAB - column % TAB;
                text.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            c if steers(c) => {
                text.push('\u{fffd}');
                column += 1;
            }
            c => {
                text.push(c);
                column += unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
            }
        }
    }
    let start = moved.0.unwrap_or(text.len());
    if start == text.len() {
        text.push(' ');
    }
    let end = moved.1.unwrap_or(text.len());
    (text, start..end)
}

/// The offset so many characters before another one.
fn skip(line: &str, offset: usize, characters: usize) -> usize {
    let before = line.get(..offset).unwrap_or(line);
    before.char_indices().rev().nth(characters).map_or(0, |(index, _)| index)
}

impl SourceCode for Source {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let inner = self.text.read_span(span, before, after)?;
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            inner.data(),
            *inner.span(),
            inner.line() + self.first_line,
            inner.column(),
            inner.line_count(),
        )))
    }
}

impl fmt::Display for Prepared {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl std::error::Error for Prepared {}

impl Diagnostic for Prepared {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = (self.range.start, self.range.len());
        Some(Box::new(std::iter::once(LabeledSpan::new_primary_with_span(self.label.clone(), span))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str, range: Range<usize>) -> String {
        let excerpt = Excerpt { first_line: 7, text: text.to_owned(), range, label: "here".to_owned() };
        draw(&excerpt, "m.onnxtxt:7:1", Style::PLAIN)
    }

    /// The column of the first mark below the line that contains `needle`, and the column of `needle`.
    fn columns(drawing: &str, needle: &str) -> (usize, usize) {
        let mut lines = drawing.lines();
        let line = lines.find(|line| line.contains(needle)).unwrap();
        let mark = lines.next().unwrap();
        let before = |line: &str, at: usize| width(&line[..at]);
        (before(mark, mark.find(['─', '┬', '▲']).unwrap()), before(line, line.find(needle).unwrap()))
    }

    #[test]
    fn the_drawing_has_title_line_and_label() {
        let drawing = drawn("y = Foo(x)\n", 4..7);
        assert_eq!(drawing, "   ╭─[m.onnxtxt:7:1]\n 7 │ y = Foo(x)\n   ·     ─┬─\n   ·      ╰── here\n   ╰────\n");
    }

    #[test]
    fn marks_stand_under_the_character_behind_tabs_and_wide_characters() {
        for text in ["\t\ty = Foo(x)", "a\tFoo", "層層 Foo", "abc\t\t層Foo"] {
            let start = text.find("Foo").unwrap();
            let (mark, word) = columns(&drawn(text, start..start + 3), "Foo");
            assert_eq!(mark, word, "{text:?}");
        }
    }

    #[test]
    fn ranges_are_clamped() {
        for (text, range) in [
            ("abc", 3..3),
            ("abc", 3..9),
            ("abc\n", 4..4),
            ("abc", 900..901),
            ("äöü", 1..2),
            ("a\n\nb", 2..2),
            ("abc\ndef\n", 1..6),
            ("\n", 0..0),
            ("\u{1b}[31m", 0..1),
        ] {
            let drawing = drawn(text, range.clone());
            assert!(drawing.contains("here"), "{text:?} {range:?}\n{drawing}");
            assert!(!drawing.contains('\u{1b}'));
        }
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = 2..1;
        assert!(drawn("abc", reversed).contains("here"));
        assert_eq!(drawn("", 0..0), "");
    }

    #[test]
    fn long_lines_are_cut_around_the_mark() {
        let text = format!("{}Foo{}", "x".repeat(2_000), "y".repeat(2_000));
        let drawing = drawn(&text, 2_000..2_003);
        assert!(drawing.lines().all(|line| width(line) <= COLUMNS), "{drawing}");
        let (mark, word) = columns(&drawing, "Foo");
        assert_eq!(mark, word);
    }

    #[test]
    fn ascii_has_no_other_signs() {
        let excerpt = Excerpt { first_line: 1, text: "y = Foo(x)".to_owned(), range: 4..7, label: "here".to_owned() };
        let drawing = draw(&excerpt, "m", Style { color: false, unicode: false });
        assert!(drawing.is_ascii(), "{drawing}");
    }
}
