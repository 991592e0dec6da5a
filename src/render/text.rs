//! Text for terminals: names from files made harmless, widths, wrapping.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::Style;

/// Width of a line.
pub(super) const COLUMNS: usize = 100;

/// A text from a file without what could steer a terminal: control characters and marks that turn the writing
/// direction appear as escapes.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => clean.push(' '),
            '\r' => {}
            c if steers(c) => {
                // Writing into a string does not fail.
                let _ = write!(clean, "\\u{{{:x}}}", u32::from(c));
            }
            c => clean.push(c),
        }
    }
    Cow::Owned(clean)
}

/// Our own words with signs that the output can show.
pub(super) fn spelled(text: &str, style: Style) -> Cow<'_, str> {
    const SIGNS: [(char, &str); 7] =
        [('×', "x"), ('≤', "<="), ('≥', ">="), ('µ', "u"), ('–', "-"), ('…', "..."), ('→', "->")];
    let text = printable(text);
    if style.unicode || text.is_ascii() {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match SIGNS.iter().find(|(sign, _)| *sign == c) {
            Some((_, words)) => plain.push_str(words),
            None => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

/// Whether a character steers a terminal.
pub(super) fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// The text, shortened in the middle to at most `most` columns: both ends of a layer's name tell most.
pub(super) fn shorten(text: &str, most: usize, style: Style) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let ellipsis = style.ellipsis();
    let room = most.saturating_sub(width(ellipsis));
    let front = take(text.chars(), room / 2);
    let back: String = take(text.chars().rev(), room - room / 2).chars().rev().collect();
    format!("{front}{ellipsis}{back}")
}

/// Characters as long as they fit into so many columns.
fn take(characters: impl Iterator<Item = char>, most: usize) -> String {
    let mut used = 0;
    characters
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= most
        })
        .collect()
}

/// Joins pieces with `, ` into lines that fit; the first line starts with `head`, the others are indented as far.
pub(super) fn list(head: &str, pieces: &[String]) -> String {
    hanging(head, width(head), pieces)
}

/// As [`list`], with another indent for all lines but the first.
pub(super) fn hanging(head: &str, indent: usize, pieces: &[String]) -> String {
    let mut text = String::new();
    let mut line = head.to_owned();
    let mut filled = false;
    for (index, piece) in pieces.iter().enumerate() {
        let piece = if index + 1 < pieces.len() { format!("{piece},") } else { piece.clone() };
        // A piece that is longer than a line is as good as its words.
        let words: Vec<&str> = if indent + width(&piece) > COLUMNS { piece.split(' ').collect() } else { vec![&piece] };
        for word in words {
            if filled && width(&line) + 1 + width(word) > COLUMNS {
                text.push_str(&line);
                text.push('\n');
                line = " ".repeat(indent);
                filled = false;
            }
            if filled {
                line.push(' ');
            }
            line.push_str(word);
            filled = true;
        }
    }
    text.push_str(&line);
    text.push('\n');
    text
}

/// Words of a text as lines that fit, as [`list`] does; a text that needs more than `most` lines is cut.
pub(super) fn paragraph(head: &str, text: &str, most: usize, style: Style) -> String {
    let indent = width(head);
    let mut lines = fill(text, indent, indent);
    let cut = lines.len() > most;
    lines.truncate(most);
    let mut text = String::new();
    let count = lines.len();
    for (index, line) in lines.iter().enumerate() {
        text.push_str(&if index == 0 { head.to_owned() } else { " ".repeat(indent) });
        text.push_str(&shorten(line, COLUMNS.saturating_sub(indent), style));
        if cut && index + 1 == count {
            text.push(' ');
            text.push_str(style.ellipsis());
        }
        text.push('\n');
    }
    text
}

/// Words of a text as lines that fit behind what stands before the first line and before the others. A word that fits
/// nowhere has a line of its own.
pub(super) fn fill(text: &str, first: usize, others: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut before = first;
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && before + width(line) + 1 + width(word) > COLUMNS {
            lines.push(word.to_owned());
            before = others;
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_steer_a_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\nc\u{202e}d"), "a\\u{1b}[31mb c\\u{202e}d");
        assert_eq!(printable("größe 1"), "größe 1");
    }

    #[test]
    fn our_own_signs_have_words_where_they_cannot_be_shown() {
        let ascii = Style { color: false, unicode: false };
        assert_eq!(spelled("2×3 ≤ 9 µs in größe", ascii), "2x3 <= 9 us in größe");
        assert_eq!(spelled("2×3", Style::PLAIN), "2×3");
    }

    #[test]
    fn names_are_shortened_in_the_middle_by_columns() {
        assert_eq!(shorten("abcdefghij", 7, Style::PLAIN), "abc…hij");
        assert_eq!(shorten("abcdefghij", 7, Style { color: false, unicode: false }), "ab...ij");
        assert_eq!(width(&shorten("層層層層層層層層", 8, Style::PLAIN)), 7);
        assert_eq!(shorten("abc", 7, Style::PLAIN), "abc");
    }

    #[test]
    fn lists_and_paragraphs_fit() {
        let pieces: Vec<String> = (0..40).map(|index| format!("piece {index}")).collect();
        let text = list("  assumed: ", &pieces);
        assert!(text.lines().count() > 1 && text.lines().all(|line| width(line) <= COLUMNS));
        let text = list("  head  ", &["short".to_owned(), "a long piece ".repeat(20).trim().to_owned()]);
        assert!(text.lines().count() > 2 && text.lines().all(|line| width(line) <= COLUMNS), "{text}");
        let text = paragraph("  formula  ", &"123*batch + ".repeat(100), 3, Style::PLAIN);
        assert_eq!(text.lines().count(), 3);
        assert!(text.ends_with("…\n"));
    }
}
