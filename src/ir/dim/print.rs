//! The textual form, which [`Dim::parse`] reads back.

use std::fmt::{self, Debug, Display, Formatter, Write};

use super::poly::{Atom, Mono, NodeKind, Term};
use super::{Dim, Symbol};

/// Names that the grammar reads as functions.
pub(super) const RESERVED: [&str; 5] = ["floor", "ceil", "min", "max", "mod"];

/// Whether the grammar reads the character inside a bare name.
pub(super) fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

/// Whether the grammar reads the character at the start of a bare name.
pub(super) fn starts_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

impl Display for Symbol {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = self.name();
        if name.starts_with(starts_name) && name.chars().all(in_name) && !RESERVED.contains(&name) {
            return f.write_str(name);
        }
        f.write_char('`')?;
        for c in name.chars() {
            if c == '`' || c == '\\' {
                f.write_char('\\')?;
            }
            f.write_char(c)?;
        }
        f.write_char('`')
    }
}

impl Debug for Symbol {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl Display for Dim {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if f.width().is_some() {
            let mut text = String::new();
            write_terms(&mut text, &self.terms())?;
            return f.pad(&text);
        }
        write_terms(f, &self.terms())
    }
}

impl Debug for Dim {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

fn write_terms(f: &mut dyn Write, terms: &[Term]) -> fmt::Result {
    if terms.is_empty() {
        return f.write_char('0');
    }
    for (i, term) in terms.iter().enumerate() {
        if i > 0 && term.coef > 0 {
            f.write_char('+')?;
        }
        match term.coef {
            coef if term.mono.is_one() => write!(f, "{coef}")?,
            1 => write_mono(f, &term.mono)?,
            -1 => {
                f.write_char('-')?;
                write_mono(f, &term.mono)?;
            }
            coef => {
                write!(f, "{coef}*")?;
                write_mono(f, &term.mono)?;
            }
        }
    }
    Ok(())
}

fn write_mono(f: &mut dyn Write, mono: &Mono) -> fmt::Result {
    for (i, (atom, power)) in mono.factors.iter().enumerate() {
        if i > 0 {
            f.write_char('*')?;
        }
        match atom {
            Atom::Sym(symbol) => write!(f, "{symbol}")?,
            Atom::Node(node) => match &node.kind {
                NodeKind::Floor(x, d) => write_floor(f, x, d)?,
                NodeKind::Min(args) => write_call(f, "min", args)?,
                NodeKind::Max(args) => write_call(f, "max", args)?,
            },
        }
        if *power > 1 {
            write!(f, "^{power}")?;
        }
    }
    Ok(())
}

fn write_call(f: &mut dyn Write, name: &str, args: &[Dim]) -> fmt::Result {
    f.write_str(name)?;
    for (i, arg) in args.iter().enumerate() {
        f.write_char(if i == 0 { '(' } else { ',' })?;
        write_terms(f, &arg.terms())?;
    }
    f.write_char(')')
}

fn write_floor(f: &mut dyn Write, x: &Dim, d: &Dim) -> fmt::Result {
    let terms = x.terms();
    let num = match (terms.split_last(), d.as_const()) {
        (Some((last, rest)), Some(d)) if last.mono.is_one() && last.coef == d - 1 && !rest.is_empty() => {
            f.write_str("ceil(")?;
            rest
        }
        _ => {
            f.write_str("floor(")?;
            &*terms
        }
    };
    write_group(f, num, num.len() == 1)?;
    f.write_char('/')?;
    let den = d.terms();
    let simple = match &*den {
        [only] if only.mono.is_one() => only.coef > 0,
        [only] => only.coef == 1 && only.mono.single().is_some(),
        _ => false,
    };
    write_group(f, &den, simple)?;
    f.write_char(')')
}

fn write_group(f: &mut dyn Write, terms: &[Term], simple: bool) -> fmt::Result {
    if simple {
        return write_terms(f, terms);
    }
    f.write_char('(')?;
    write_terms(f, terms)?;
    f.write_char(')')
}
