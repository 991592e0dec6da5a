//! Reads the textual form, see `grammar/dim.md`.

use std::fmt::{self, Display, Formatter};

use super::Dim;
use super::print::{RESERVED, in_name, starts_name};

/// Longest text, in bytes.
const MAX_TEXT: usize = 4096;
/// Deepest nesting of parentheses, calls and signs.
const MAX_NESTING: u32 = 64;
/// Greatest exponent; larger powers are past the size bound in any case.
const MAX_POWER: i128 = 2000;

/// Why a text is no dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimError {
    /// Where, in bytes from the start of the text.
    pub offset: usize,
    /// What is wrong.
    pub message: String,
}

impl Display for DimError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.message, self.offset)
    }
}

impl std::error::Error for DimError {}

type Parsed<T> = Result<T, DimError>;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    nesting: u32,
    resolve: &'a dyn Fn(&str) -> Option<Dim>,
}

/// A product; `quotient` has the operands of the division that was its last operation.
struct Product {
    value: Dim,
    quotient: Option<(Dim, Dim)>,
}

impl Dim {
    /// Reads the textual form. `resolve` gives the dimension of a name.
    ///
    /// # Errors
    ///
    /// When the text does not follow the grammar, names something unknown, or is too long or nested too deep.
    pub fn parse(text: &str, resolve: &dyn Fn(&str) -> Option<Dim>) -> Result<Dim, DimError> {
        if text.len() > MAX_TEXT {
            let message = format!("expression is longer than {MAX_TEXT} bytes");
            return Err(DimError { offset: MAX_TEXT, message });
        }
        let mut parser = Parser { text, at: 0, nesting: 0, resolve };
        let value = parser.sum()?;
        match parser.peek() {
            None => Ok(value),
            Some(c) => parser.fail(format!("unexpected {c:?}")),
        }
    }
}

impl<'a> Parser<'a> {
    fn fail<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(DimError { offset: self.at, message: message.into() })
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.rest().chars().next()
    }

    fn accept(&mut self, token: &str) -> bool {
        self.peek();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn require(&mut self, token: &str) -> Parsed<()> {
        if self.accept(token) {
            return Ok(());
        }
        match self.peek() {
            Some(c) => self.fail(format!("expected {token:?}, found {c:?}")),
            None => self.fail(format!("expected {token:?}, found the end")),
        }
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.nesting >= MAX_NESTING {
            return self.fail(format!("expression is nested deeper than {MAX_NESTING} levels"));
        }
        self.nesting += 1;
        let parsed = parse(self)?;
        self.nesting -= 1;
        Ok(parsed)
    }

    fn sum(&mut self) -> Parsed<Dim> {
        let first = self.product()?.value;
        self.sum_from(first)
    }

    fn sum_from(&mut self, first: Dim) -> Parsed<Dim> {
        let mut terms = first.terms().into_owned();
        loop {
            let term = match self.peek() {
                Some('+') => {
                    self.accept("+");
                    self.product()?.value
                }
                Some('-') => {
                    self.accept("-");
                    -self.product()?.value
                }
                _ => return Ok(Dim::from_terms(terms)),
            };
            terms.extend(term.terms().iter().cloned());
        }
    }

    fn product(&mut self) -> Parsed<Product> {
        let mut product = Product { value: self.signed()?, quotient: None };
        loop {
            let operator = self.peek();
            let offset = self.at;
            match operator {
                Some('*') => {
                    self.accept("*");
                    let factor = self.signed()?;
                    product = Product { value: product.value * factor, quotient: None };
                }
                Some('/') => {
                    self.accept("/");
                    self.accept("/");
                    let divisor = self.divisor(offset)?;
                    product =
                        Product { value: product.value.floor_div(&divisor), quotient: Some((product.value, divisor)) };
                }
                Some('%') => {
                    self.accept("%");
                    let divisor = self.divisor(offset)?;
                    product = Product { value: product.value.modulo(&divisor), quotient: None };
                }
                _ => return Ok(product),
            }
        }
    }

    fn divisor(&mut self, offset: usize) -> Parsed<Dim> {
        let divisor = self.signed()?;
        nonzero(divisor, offset)
    }

    fn signed(&mut self) -> Parsed<Dim> {
        let mut negative = false;
        while let Some(sign @ ('-' | '+')) = self.peek() {
            negative ^= sign == '-';
            self.at += 1;
        }
        let value = self.power()?;
        Ok(if negative { -value } else { value })
    }

    fn power(&mut self) -> Parsed<Dim> {
        let base = self.primary()?;
        if !self.accept("^") {
            return Ok(base);
        }
        self.peek();
        let offset = self.at;
        let exponent = self.integer()?;
        match u32::try_from(exponent) {
            Ok(power) if exponent <= MAX_POWER => Ok(base.pow(power)),
            _ => Err(DimError { offset, message: format!("exponent is greater than {MAX_POWER}") }),
        }
    }

    fn primary(&mut self) -> Parsed<Dim> {
        match self.peek() {
            Some('(') => {
                self.accept("(");
                let value = self.nested(Self::sum)?;
                self.require(")")?;
                Ok(value)
            }
            Some('`') => {
                let offset = self.at;
                let name = self.quoted()?;
                self.named(&name, offset)
            }
            Some(c) if c.is_ascii_digit() => Ok(Dim::constant(self.integer()?)),
            Some(c) if starts_name(c) => {
                let offset = self.at;
                let rest = self.rest();
                let name = rest.get(..rest.find(|c| !in_name(c)).unwrap_or(rest.len())).unwrap_or_default();
                self.at += name.len();
                if RESERVED.contains(&name) {
                    self.require("(")?;
                    let value = self.nested(|p| p.call(name))?;
                    self.require(")")?;
                    return Ok(value);
                }
                self.named(name, offset)
            }
            Some(c) => self.fail(format!("expected a value, found {c:?}")),
            None => self.fail("expected a value, found the end"),
        }
    }

    fn named(&self, name: &str, offset: usize) -> Parsed<Dim> {
        (self.resolve)(name).ok_or_else(|| DimError { offset, message: format!("unknown name {name:?}") })
    }

    fn integer(&mut self) -> Parsed<i128> {
        let rest = self.rest();
        let digits = rest.get(..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())).unwrap_or_default();
        if digits.is_empty() {
            return self.fail("expected an integer");
        }
        match digits.parse() {
            Ok(value) => {
                self.at += digits.len();
                Ok(value)
            }
            Err(_) => self.fail("integer is too large"),
        }
    }

    fn quoted(&mut self) -> Parsed<String> {
        let mut name = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                '`' => {
                    self.at += i + 1;
                    return Ok(name);
                }
                '\\' => match chars.next() {
                    Some((_, escaped)) => name.push(escaped),
                    None => break,
                },
                _ => name.push(c),
            }
        }
        self.fail("name has no closing backquote")
    }

    /// The operands of a function, after its opening parenthesis.
    fn call(&mut self, name: &str) -> Parsed<Dim> {
        self.peek();
        let offset = self.at;
        match name {
            "floor" => self.sum(),
            "ceil" => {
                let product = self.product()?;
                match (product.quotient, self.peek()) {
                    (Some((num, den)), Some(')')) => Ok(num.ceil_div(&den)),
                    (Some(_), _) => self.fail("ceil takes a single quotient"),
                    (None, _) => self.sum_from(product.value),
                }
            }
            "mod" => {
                let value = self.sum()?;
                self.require(",")?;
                self.peek();
                let offset = self.at;
                let divisor = self.sum()?;
                Ok(value.modulo(&nonzero(divisor, offset)?))
            }
            "min" | "max" => {
                let mut value = self.sum()?;
                while self.accept(",") {
                    let other = self.sum()?;
                    value = if name == "min" { value.min(&other) } else { value.max(&other) };
                }
                Ok(value)
            }
            _ => Err(DimError { offset, message: format!("unknown function {name:?}") }),
        }
    }
}

fn nonzero(divisor: Dim, offset: usize) -> Parsed<Dim> {
    if divisor.as_const() == Some(0) {
        return Err(DimError { offset, message: "division by zero".to_owned() });
    }
    Ok(divisor)
}
