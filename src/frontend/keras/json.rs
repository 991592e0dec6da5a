//! Strict JSON with the place of every value: RFC 8259 over UTF-8, with a limit on depth. It knows nothing of Keras.

use std::borrow::Cow;

use crate::ir::hash::HashSet;
use crate::ir::place::Span;

/// Arrays and objects inside each other. A model inside a model takes five of them.
pub(super) const MAX_DEPTH: usize = 400;

/// Longest whole number that keeps its digits.
const MOST_DIGITS: usize = 39;

/// Keys of an object that are compared one by one.
const FEW: usize = 64;

/// A value with its place.
#[derive(Clone, Debug)]
pub(super) struct Json<'a> {
    /// Where it stands.
    pub(super) span: Span,
    /// What it is.
    pub(super) value: Value<'a>,
}

/// A JSON value.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    /// A number without fraction and exponent.
    Integer(i64),
    /// Digits of one past 64 bits.
    Whole(&'a str),
    /// Any other number.
    Real(f64),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// Why a text is no JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonError {
    pub(super) span: Span,
    pub(super) message: String,
    pub(super) help: Option<String>,
    pub(super) kind: ErrorKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorKind {
    /// Not JSON.
    Syntax,
    /// The text ends in the middle.
    Truncated,
    /// The limit on depth is passed.
    TooDeep,
}

/// A key that stands twice in one object.
pub(super) type Repeated = (String, Span);

/// What a text holds, and the keys that stand twice in an object; the last one counts.
///
/// # Errors
/// When the text is no JSON.
pub(super) fn parse(text: &str) -> Result<(Json<'_>, Vec<Repeated>), JsonError> {
    let mut parser = Parser { text, at: 0, repeated: Vec::new() };
    if text.starts_with('\u{feff}') {
        parser.at = '\u{feff}'.len_utf8();
    }
    parser.space();
    let value = parser.value(0)?;
    parser.space();
    match parser.peek() {
        None => Ok((value, parser.repeated)),
        Some(_) => Err(parser.syntax("something follows the end of the JSON value")),
    }
}

impl<'a> Json<'a> {
    /// The member of an object.
    pub(super) fn get(&self, key: &str) -> Option<&Json<'a>> {
        let Value::Object(members) = &self.value else { return None };
        members.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The member of an object, unless it is null.
    pub(super) fn given(&self, key: &str) -> Option<&Json<'a>> {
        self.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn list(&self) -> Option<&[Json<'a>]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn members(&self) -> &[(Cow<'a, str>, Json<'a>)] {
        match &self.value {
            Value::Object(members) => members,
            _ => &[],
        }
    }

    pub(super) fn is_object(&self) -> bool {
        matches!(self.value, Value::Object(_))
    }

    pub(super) fn integer(&self) -> Option<i64> {
        match self.value {
            Value::Integer(number) => Some(number),
            // What NumPy made of an integer.
            #[allow(clippy::cast_possible_truncation, reason = "the range is checked")]
            Value::Real(number) if number.fract() == 0.0 && number.abs() < 1e15 => Some(number as i64),
            _ => None,
        }
    }

    pub(super) fn real(&self) -> Option<f64> {
        match self.value {
            #[allow(clippy::cast_precision_loss, reason = "rates and factors are rounded anyway")]
            Value::Integer(number) => Some(number as f64),
            Value::Whole(digits) => digits.parse().ok(),
            Value::Real(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn truth(&self) -> Option<bool> {
        match self.value {
            Value::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// The value as a message shows it.
    pub(super) fn shown(&self) -> String {
        const LONGEST: usize = 60;
        match &self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(truth) => truth.to_string(),
            Value::Integer(number) => number.to_string(),
            Value::Whole(digits) => (*digits).to_owned(),
            Value::Real(number) if number.abs() >= 1e15 => format!("{number:e}"),
            Value::Real(number) => number.to_string(),
            Value::Text(text) => {
                let short: String = text.chars().take(LONGEST).collect();
                format!("the text {short:?}")
            }
            Value::List(items) => {
                let shown: Vec<_> = items.iter().take(8).map(Json::shown).collect();
                let more = if items.len() > 8 { ", ..." } else { "" };
                format!("[{}{more}]", shown.join(", "))
            }
            Value::Object(_) => "an object".to_owned(),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    repeated: Vec<Repeated>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn span(&self, start: usize) -> Span {
        Span::new(start as u64, self.at as u64)
    }

    fn here(&self) -> Span {
        let width = self.rest().chars().next().map_or(0, char::len_utf8);
        Span::new(self.at as u64, (self.at + width) as u64)
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> JsonError {
        JsonError { span: self.here(), message: message.into(), help: None, kind }
    }

    fn syntax(&self, message: &str) -> JsonError {
        match self.peek() {
            None => self.error(ErrorKind::Truncated, "the JSON ends before it is complete"),
            Some(_) => self.error(ErrorKind::Syntax, message),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        if depth > MAX_DEPTH {
            let message = format!("JSON is nested deeper than {MAX_DEPTH} levels");
            return Err(self.error(ErrorKind::TooDeep, message));
        }
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        Ok(Json { span: self.span(start), value })
    }

    fn word(&mut self) -> Result<Value<'a>, JsonError> {
        let words = [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))];
        for (word, value) in words {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        let rest = self.rest();
        let python = ["NaN", "Infinity", "None", "True", "False"].into_iter().find(|word| rest.starts_with(word));
        Err(match python {
            Some(word) => JsonError {
                help: Some("Python's json writes what JSON does not have; write null or a number instead".to_owned()),
                ..self.syntax(&format!("{word} is not JSON"))
            },
            None if rest.starts_with('\'') => self.single_quotes(),
            None => self.syntax("a JSON value is expected"),
        })
    }

    fn single_quotes(&self) -> JsonError {
        JsonError {
            help: Some("this looks like a printed Python dictionary: write the text of model.to_json()".to_owned()),
            ..self.syntax("single quotes are not JSON")
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        self.at += 1;
        let mut members: Vec<(Cow<'a, str>, Json<'a>)> = Vec::new();
        let mut many: Option<HashSet<String>> = None;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            self.space();
            match self.peek() {
                Some(b'"') => {}
                Some(b'\'') => return Err(self.single_quotes()),
                Some(b'}') => return Err(self.syntax("a trailing comma is not JSON")),
                _ => return Err(self.syntax("a key in double quotes is expected")),
            }
            let start = self.at;
            let key = self.string()?;
            let known = match &mut many {
                Some(keys) => !keys.insert(key.to_string()),
                None => members.iter().any(|(name, _)| *name == key),
            };
            if known {
                self.repeated.push((key.to_string(), self.span(start)));
            }
            if many.is_none() && members.len() >= FEW {
                many = Some(members.iter().map(|(name, _)| name.to_string()).chain([key.to_string()]).collect());
            }
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.syntax("a colon is expected behind the key"));
            }
            self.at += 1;
            self.space();
            let value = self.value(depth + 1)?;
            members.push((key, value));
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(members));
                }
                _ => return Err(self.syntax("a comma or the end of the object is expected")),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(items));
        }
        loop {
            self.space();
            if self.peek() == Some(b']') {
                return Err(self.syntax("a trailing comma is not JSON"));
            }
            items.push(self.value(depth + 1)?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::List(items));
                }
                _ => return Err(self.syntax("a comma or the end of the list is expected")),
            }
        }
    }

    fn number(&mut self) -> Result<Value<'a>, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
            if self.rest().starts_with("Infinity") {
                return self.word();
            }
        }
        let leading_zero = self.peek() == Some(b'0');
        let digits = self.digits();
        if digits == 0 || (leading_zero && digits > 1) {
            return Err(self.syntax("this is no number of JSON"));
        }
        let mut whole = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            whole = false;
            if self.digits() == 0 {
                return Err(self.syntax("a digit is expected behind the point"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            whole = false;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.syntax("a digit is expected in the exponent"));
            }
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        if whole && let Ok(number) = text.parse() {
            return Ok(Value::Integer(number));
        }
        if whole && text.len() <= MOST_DIGITS {
            return Ok(Value::Whole(text));
        }
        Ok(Value::Real(text.parse().unwrap_or(f64::INFINITY)))
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let opening = self.at;
        self.at += 1;
        let mut built: Option<String> = None;
        let mut start = self.at;
        loop {
            match self.peek() {
                None => {
                    self.at = opening;
                    let message = "the JSON ends inside a text that begins here";
                    return Err(self.error(ErrorKind::Truncated, message));
                }
                Some(b'"') => {
                    let piece = self.text.get(start..self.at).unwrap_or_default();
                    self.at += 1;
                    return Ok(match built {
                        Some(text) => Cow::Owned(text + piece),
                        None => Cow::Borrowed(piece),
                    });
                }
                Some(b'\\') => {
                    let piece = self.text.get(start..self.at).unwrap_or_default();
                    let text = built.get_or_insert_default();
                    text.push_str(piece);
                    self.at += 1;
                    let character = self.escape()?;
                    built.get_or_insert_default().push(character);
                    start = self.at;
                }
                Some(0..=0x1f) => return Err(self.syntax("a control character must be escaped")),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let simple = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.syntax("no such escape in JSON")),
        };
        self.at += 1;
        Ok(simple)
    }

    fn unicode(&mut self) -> Result<char, JsonError> {
        let high = self.hex()?;
        if !(0xd800..0xe000).contains(&high) {
            return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        // A lone half of a pair stands for nothing.
        if high >= 0xdc00 || !self.rest().starts_with("\\u") {
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        let before = self.at;
        self.at += 2;
        let low = self.hex()?;
        if !(0xdc00..0xe000).contains(&low) {
            self.at = before;
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&mut self) -> Result<u32, JsonError> {
        let digits = self.text.get(self.at..self.at + 4);
        let number = digits
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match number {
            Some(number) => {
                self.at += 4;
                Ok(number)
            }
            None => Err(self.syntax("four hexadecimal digits are expected behind \\u")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ErrorKind, MAX_DEPTH, Value, parse};

    fn error(text: &str) -> (String, u64, ErrorKind) {
        let error = parse(text).unwrap_err();
        (error.message, error.span.start, error.kind)
    }

    #[test]
    fn values_know_where_they_stand() {
        let text = "\u{feff}{\"a\": [1, -2.5e3, \"\\u00e9\\ud83d\\ude00\\n\"], \"b\": null}\r\n";
        let (json, repeated) = parse(text).unwrap();
        assert!(repeated.is_empty());
        let list = json.get("a").unwrap().list().unwrap();
        assert_eq!((list[0].integer(), list[1].real()), (Some(1), Some(-2500.0)));
        assert_eq!(list[2].text(), Some("\u{e9}\u{1f600}\n"));
        let span = list[1].span;
        assert_eq!(&text[span.start as usize..span.end as usize], "-2.5e3");
        assert!(json.given("b").is_none() && json.get("b").unwrap().is_null());
    }

    #[test]
    fn what_is_no_json_is_named_where_it_stands() {
        assert_eq!(error("[1, 2,]"), ("a trailing comma is not JSON".to_owned(), 6, ErrorKind::Syntax));
        assert_eq!(error("{'a': 1}").0, "single quotes are not JSON");
        assert_eq!(error("[NaN]").0, "NaN is not JSON");
        assert_eq!(error("[-Infinity]").0, "Infinity is not JSON");
        assert_eq!(error("[1, 2").2, ErrorKind::Truncated);
        assert_eq!(error("[\"abc").2, ErrorKind::Truncated);
        for text in
            ["", "[01]", "[1.]", "[1e]", "{\"a\" 1}", "\"\\x\"", "\"\u{1}\"", "{} {}", "nul", "\"\\u12g4\"", "[\u{e9}]"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let (json, repeated) = parse("{\"a\": 1, \"a\": 2}").unwrap();
        assert_eq!((json.get("a").unwrap().integer(), repeated.len()), (Some(2), 1));
    }

    #[test]
    fn depth_has_a_limit() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(error(&nested(100_000)).2, ErrorKind::TooDeep);
    }

    #[test]
    fn numbers_past_all_ranges_are_reals() {
        let (json, _) = parse("1000000000000000000000000000000000000000000").unwrap();
        assert!(matches!(json.value, Value::Real(_)));
        assert_eq!(json.integer(), None);
    }
}
