//! Cursor over the text. What a word is depends on where it stands (names of real models hold `/` and `.`), so the
//! parser asks for the kind of token that it wants instead of reading a token stream.

use std::ops::Range;

/// Comments that start with this carry what the official syntax has no place for.
pub(super) const PRAGMA: &str = "#@";

/// A number as it is spelled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number<'a> {
    pub(super) text: &'a str,
    /// Has a point, an exponent, or is `inf` or `nan`.
    pub(super) real: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    pos: usize,
    pragmas: Vec<Range<usize>>,
    pragma_end: usize,
}

/// First character of an identifier of the official syntax.
fn starts_identifier(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn in_identifier(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Characters that end no name although the official parser wants such names quoted.
fn in_name(c: char) -> bool {
    c.is_alphanumeric() || "_./-:|~$%&;!+*'^\\".contains(c)
}

/// Whether the official syntax takes the name without quotes.
pub(super) fn is_identifier(name: &str) -> bool {
    name.chars().next().is_some_and(starts_identifier) && name.chars().all(in_identifier)
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        // A byte order mark is no part of the text.
        let pos = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { text, pos, pragmas: Vec::new(), pragma_end: 0 }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    pub(super) fn pos(&self) -> usize {
        self.pos
    }

    /// Moves to a byte offset, which must be a character boundary (offsets that [`Lexer::pos`] gave are).
    pub(super) fn set_pos(&mut self, pos: usize) {
        self.pos = pos;
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.pos..).unwrap_or("")
    }

    /// Skips whitespace and comments.
    pub(super) fn skip_trivia(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.pos += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return;
            }
            let end = self.pos + trimmed.find('\n').unwrap_or(trimmed.len());
            // A look ahead may pass the same comment twice.
            if trimmed.starts_with(PRAGMA) && self.pos >= self.pragma_end {
                self.pragmas.push(self.pos..end);
                self.pragma_end = end;
            }
            self.pos = end;
        }
    }

    /// Texts of the pragmas passed since the last call, without their mark.
    pub(super) fn take_pragmas(&mut self) -> Vec<&'a str> {
        let text = self.text;
        let pragmas = std::mem::take(&mut self.pragmas);
        pragmas.into_iter().filter_map(|range| text.get(range)?.strip_prefix(PRAGMA)).collect()
    }

    /// The next character that is not trivia.
    pub(super) fn peek(&mut self) -> Option<char> {
        self.skip_trivia();
        self.rest().chars().next()
    }

    pub(super) fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.pos += c.len_utf8();
        }
        found
    }

    pub(super) fn eat_str(&mut self, token: &str) -> bool {
        self.skip_trivia();
        let found = self.rest().starts_with(token);
        if found {
            self.pos += token.len();
        }
        found
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> Option<&'a str> {
        self.skip_trivia();
        let rest = self.rest();
        let end = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        let word = rest.get(..end).filter(|word| !word.is_empty())?;
        self.pos += end;
        Some(word)
    }

    /// An identifier of the official syntax.
    pub(super) fn identifier(&mut self) -> Option<&'a str> {
        if self.peek().is_some_and(starts_identifier) { self.take_while(in_identifier) } else { None }
    }

    /// A name without quotes; wider than the official syntax.
    pub(super) fn bare_name(&mut self) -> Option<&'a str> {
        self.take_while(in_name)
    }

    /// Part of `domain.Operator`.
    pub(super) fn operator_part(&mut self) -> Option<&'a str> {
        self.take_while(|c| c != ':' && in_name(c))
    }

    /// A string in double quotes, without unescaping. `Err` when it does not end.
    pub(super) fn quoted(&mut self) -> Option<Result<&'a str, ()>> {
        if self.peek() != Some('"') {
            return None;
        }
        let start = self.pos + 1;
        let bytes = self.text.as_bytes();
        let mut at = start;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' => {
                    self.pos = at + 1;
                    return Some(Ok(self.text.get(start..at).unwrap_or("")));
                }
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        Some(Err(()))
    }

    /// A number, `inf`, `infinity` or `nan`, with an optional sign.
    pub(super) fn number(&mut self) -> Option<Number<'a>> {
        self.skip_trivia();
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits = |from: usize| bytes.iter().skip(from).take_while(|b| b.is_ascii_digit()).count();
        let sign = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
        let word_len = bytes.iter().skip(sign).take_while(|b| in_identifier(char::from(**b))).count();
        let word = rest.get(sign..sign + word_len).unwrap_or("");
        if ["inf", "infinity", "nan"].iter().any(|known| word.eq_ignore_ascii_case(known)) {
            return self.number_of(sign + word_len, true);
        }
        let whole = digits(sign);
        let mut at = sign + whole;
        let mut real = false;
        let mut fraction = 0;
        if bytes.get(at) == Some(&b'.') {
            fraction = digits(at + 1);
            if whole + fraction == 0 {
                return None;
            }
            real = true;
            at += 1 + fraction;
        }
        if whole + fraction == 0 {
            return None;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let exponent_sign = usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
            let exponent = digits(at + 1 + exponent_sign);
            if exponent > 0 {
                real = true;
                at += 1 + exponent_sign + exponent;
            }
        }
        self.number_of(at, real)
    }

    fn number_of(&mut self, len: usize, real: bool) -> Option<Number<'a>> {
        let text = self.rest().get(..len)?;
        self.pos += len;
        Some(Number { text, real })
    }
}

/// The text that a quoted string means: a backslash stands for the character after it.
pub(super) fn unescape(quoted: &str) -> String {
    let mut text = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        text.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    text
}

/// As [`unescape`], but `\n` and `\r` are line breaks: a pragma must stay on its line.
pub(super) fn unescape_pragma(quoted: &str) -> String {
    let mut text = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        text.extend(match c {
            '\\' => chars.next().map(|c| match c {
                'n' => '\n',
                'r' => '\r',
                c => c,
            }),
            c => Some(c),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let read = |text| Lexer::new(text).number().map(|n| (n.text, n.real));
        assert_eq!(read(" -12,"), Some(("-12", false)));
        assert_eq!(read("1.5E-3 "), Some(("1.5E-3", true)));
        assert_eq!(read("1.e5"), Some(("1.e5", true)));
        assert_eq!(read("1."), Some(("1.", true)));
        assert_eq!(read(".5"), Some((".5", true)));
        assert_eq!(read("-Infinity)"), Some(("-Infinity", true)));
        assert_eq!(read("nano"), None);
        assert_eq!(read("."), None);
        assert_eq!(read("-"), None);
        assert_eq!(read("1e"), Some(("1", false)));
    }

    #[test]
    fn strings() {
        let mut lexer = Lexer::new(
            r#" # c "
            "a\"b\\" "open "#,
        );
        assert_eq!(lexer.quoted(), Some(Ok(r#"a\"b\\"#)));
        assert_eq!(lexer.quoted(), Some(Err(())));
        assert_eq!(unescape(r#"a\"b\\c\n"#), "a\"b\\cn");
        assert_eq!(Lexer::new("\"\\").quoted(), Some(Err(())));
    }

    #[test]
    fn pragmas_are_kept_once() {
        let mut lexer = Lexer::new("#@node x\n#other\n y");
        lexer.skip_trivia();
        lexer.set_pos(0);
        lexer.skip_trivia();
        assert_eq!(lexer.take_pragmas(), ["node x"]);
    }
}
