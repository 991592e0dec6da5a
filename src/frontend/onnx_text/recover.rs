//! Where to go on after an error. Nothing here reports anything.

use super::lexer::Lexer;
use super::parser::{Failed, Parsed, Parser};

/// Walks over text by brackets, strings and comments, without a grammar.
struct Scan<'a> {
    text: &'a str,
    pos: usize,
    /// A string that runs to the end of the file was met: from then on strings end with their line, and the end of the
    /// file is not looked for again.
    open_string: bool,
}

impl Scan<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn line_end(&self) -> usize {
        let rest = self.text.get(self.pos..).unwrap_or("");
        self.pos + rest.find('\n').unwrap_or(rest.len())
    }

    fn skip_string(&mut self) {
        if !self.open_string {
            let mut lex = Lexer::new(self.text);
            lex.set_pos(self.pos);
            if let Some(Ok(_)) = lex.quoted() {
                self.pos = lex.pos();
                return;
            }
            self.open_string = true;
        }
        self.pos = self.line_end();
    }

    /// After a `{`: whether elements of a tensor follow, which are then passed with their `}` if they have one.
    fn skip_elements(&mut self) -> bool {
        let body = self.text.get(self.pos..).unwrap_or("").trim_start();
        if !body.starts_with(|c: char| c.is_ascii_digit() || "-+.\"}".contains(c)) {
            return false;
        }
        while let Some(byte) = self.byte(self.pos) {
            match byte {
                b'"' => self.skip_string(),
                b'}' => {
                    self.pos += 1;
                    return true;
                }
                b'0'..=b'9' | b'-' | b'+' | b'.' | b',' | b'e' | b'E' | b' ' | b'\t' | b'\n' | b'\r' => self.pos += 1,
                _ => return true,
            }
        }
        true
    }
}

/// Whether the line is the beginning of a node: `[name] y, z = Op (` or `= Op <`.
fn starts_node(line: &str) -> bool {
    let mut lex = Lexer::new(line);
    let name = |lex: &mut Lexer<'_>| lex.bare_name().is_some() || matches!(lex.quoted(), Some(Ok(_)));
    if lex.eat('[') {
        name(&mut lex);
        if !lex.eat(']') {
            return false;
        }
    }
    while name(&mut lex) || lex.eat(',') {}
    if lex.eat_str("=>") || !lex.eat('=') || !name(&mut lex) {
        return false;
    }
    while lex.eat('.') {
        name(&mut lex);
    }
    match lex.peek() {
        Some('<') => true,
        // `attribute = graph (...) => (...)` is no node.
        Some('(') => lex.rest().split_once(')').is_none_or(|(_, after)| !after.trim_start().starts_with("=>")),
        _ => false,
    }
}

fn closer(open: u8) -> u8 {
    match open {
        b'(' => b')',
        b'[' => b']',
        b'{' => b'}',
        _ => b'>',
    }
}

impl Parser<'_> {
    fn scan(&self, pos: usize) -> Scan<'_> {
        Scan { text: self.lex.text(), pos, open_string: false }
    }

    /// Items between commas up to and with `close`. An item that fails is left out.
    pub(super) fn list(&mut self, close: char, mut item: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        if self.lex.eat(close) {
            return Ok(());
        }
        loop {
            let start = self.start();
            if item(self).is_err() {
                self.skip_in_list(start, close)?;
            }
            if self.lex.eat(',') {
                continue;
            }
            if self.lex.eat(close) {
                return Ok(());
            }
            self.expected(&format!("`,` or `{close}`"));
            self.skip_in_list(start, close)?;
            if !self.lex.eat(',') {
                return if self.lex.eat(close) { Ok(()) } else { Err(Failed) };
            }
        }
    }

    /// Goes to the `,` or `close` that ends the item that began at `start`. Fails where the list seems to have ended
    /// without its bracket.
    fn skip_in_list(&mut self, start: usize, close: char) -> Parsed<()> {
        if self.gave_up() {
            return Err(Failed);
        }
        let error = self.last_error;
        let mut scan = self.scan(start);
        let mut open: Vec<u8> = Vec::new();
        let mut previous = 0;
        while let Some(byte) = scan.byte(scan.pos) {
            let at = scan.pos;
            scan.pos += 1;
            match byte {
                b'"' => {
                    scan.pos = at;
                    scan.skip_string();
                }
                b'#' => scan.pos = scan.line_end(),
                b'\n' => {
                    let end = scan.line_end();
                    let line = scan.text.get(scan.pos..end).unwrap_or("");
                    if end >= error && (starts_node(line) || line.trim_start().starts_with('}')) {
                        break;
                    }
                }
                b'{' if scan.skip_elements() => {}
                b'(' | b'[' | b'<' | b'{' => open.push(byte),
                b'>' if previous == b'=' => {}
                b')' | b']' | b'}' | b'>' => {
                    let matches = open.last().is_some_and(|&opened| closer(opened) == byte);
                    if matches {
                        open.pop();
                    } else if char::from(byte) == close {
                        self.lex.set_pos(at);
                        return Ok(());
                    } else if byte == b'}' {
                        break;
                    }
                }
                b',' if open.is_empty() && at >= error => {
                    self.lex.set_pos(at);
                    return Ok(());
                }
                _ => {}
            }
            previous = byte;
        }
        Err(Failed)
    }

    /// Goes from a node that began at `start` and failed to the next line that begins a node, or to the `}` of the
    /// graph.
    pub(super) fn skip_to_node(&mut self, start: usize) {
        if self.gave_up() {
            self.lex.set_pos(self.lex.text().len());
            return;
        }
        let error = self.last_error;
        let mut scan = self.scan(start);
        let mut depth = 0_usize;
        while let Some(byte) = scan.byte(scan.pos) {
            let at = scan.pos;
            scan.pos += 1;
            match byte {
                b'"' => {
                    scan.pos = at;
                    scan.skip_string();
                }
                b'#' => scan.pos = scan.line_end(),
                b'{' => depth += usize::from(!scan.skip_elements()),
                b'}' if depth == 0 => {
                    self.lex.set_pos(at);
                    return;
                }
                b'}' => depth -= 1,
                b'\n' if depth == 0 => {
                    let end = scan.line_end();
                    if end >= error && starts_node(scan.text.get(scan.pos..end).unwrap_or("")) {
                        self.lex.set_pos(scan.pos);
                        return;
                    }
                }
                _ => {}
            }
        }
        self.lex.set_pos(scan.text.len());
    }

    /// Goes to the `{` of a graph whose signature failed; `false` when there is none.
    pub(super) fn skip_to_body(&mut self) -> bool {
        let mut scan = self.scan(self.lex.pos());
        while let Some(byte) = scan.byte(scan.pos) {
            let at = scan.pos;
            scan.pos += 1;
            match byte {
                b'"' => {
                    scan.pos = at;
                    scan.skip_string();
                }
                b'#' => scan.pos = scan.line_end(),
                b'{' if !scan.skip_elements() => {
                    self.lex.set_pos(at);
                    return true;
                }
                _ => {}
            }
        }
        self.lex.set_pos(scan.text.len());
        false
    }

    /// Goes from a function that began at `start` and failed to the next line that begins with `<`.
    pub(super) fn skip_to_function(&mut self, start: usize) {
        let text = self.lex.text();
        if self.gave_up() {
            self.lex.set_pos(text.len());
            return;
        }
        let mut pos = start.max(self.last_error);
        loop {
            let rest = text.get(pos..).unwrap_or("");
            let Some(newline) = rest.find('\n') else {
                self.lex.set_pos(text.len());
                return;
            };
            pos += newline + 1;
            if rest.get(newline + 1..).is_some_and(|line| line.starts_with('<')) && pos > start {
                self.lex.set_pos(pos);
                return;
            }
        }
    }
}
