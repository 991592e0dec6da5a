//! Attributes and their values.

use super::ATTRIBUTE_KINDS;
use super::parser::{Failed, Parsed, Parser};
use crate::frontend::onnx::model::{AttributeDef, AttributeValue, Name, TensorDef, TypeDef};

/// `AttributeProto.AttributeType` numbers that the parser asks about.
const FLOAT: i32 = 1;
const INT: i32 = 2;
const TENSOR: i32 = 4;
const FLOATS: i32 = 6;

/// The `AttributeProto.AttributeType` number of a value.
pub(super) fn kind_of(value: &AttributeValue) -> i32 {
    match value {
        AttributeValue::Float(_) => FLOAT,
        AttributeValue::Int(_) => INT,
        AttributeValue::String(_) => 3,
        AttributeValue::Tensor(_) => TENSOR,
        AttributeValue::Graph(_) => 5,
        AttributeValue::Floats(_) => FLOATS,
        AttributeValue::Ints(_) => 7,
        AttributeValue::Strings(_) => 8,
        AttributeValue::Tensors(_) => 9,
        AttributeValue::Graphs(_) => 10,
        AttributeValue::SparseTensor(_) => 11,
        AttributeValue::SparseTensors(_) => 12,
        AttributeValue::Type(_) => 13,
        AttributeValue::Types(_) => 14,
        AttributeValue::Reference { kind, .. } => *kind,
    }
}

/// The word of an `AttributeProto.AttributeType` number.
pub(super) fn kind_word(kind: i32) -> &'static str {
    ATTRIBUTE_KINDS.iter().find(|(_, code)| *code == kind).map_or("undefined", |(word, _)| word)
}

/// Kind of the elements of a list kind.
fn element_kind(kind: i32) -> Option<i32> {
    match kind {
        6..=10 => Some(kind - 5),
        12 | 14 => Some(kind - 1),
        _ => None,
    }
}

/// What a kind holds when nothing is said: protobuf's defaults.
fn empty_value(kind: i32) -> Option<AttributeValue> {
    Some(match kind {
        FLOAT => AttributeValue::Float(0.0),
        INT => AttributeValue::Int(0),
        3 => AttributeValue::String(bytes::Bytes::new()),
        TENSOR => AttributeValue::Tensor(TensorDef::default()),
        5 => AttributeValue::Graph(Box::default()),
        FLOATS => AttributeValue::Floats(Vec::new()),
        7 => AttributeValue::Ints(Vec::new()),
        8 => AttributeValue::Strings(Vec::new()),
        9 => AttributeValue::Tensors(Vec::new()),
        10 => AttributeValue::Graphs(Vec::new()),
        11 => AttributeValue::SparseTensor(crate::frontend::onnx::model::SparseTensorDef::default()),
        12 => AttributeValue::SparseTensors(Vec::new()),
        13 => AttributeValue::Type(TypeDef::Opaque),
        14 => AttributeValue::Types(Vec::new()),
        _ => return None,
    })
}

/// Adds an element to a list of its kind; `false` when it is of another kind.
fn push(list: &mut AttributeValue, element: AttributeValue) -> bool {
    use AttributeValue as V;
    match (list, element) {
        (V::Floats(list), V::Float(value)) => list.push(value),
        (V::Ints(list), V::Int(value)) => list.push(value),
        (V::Strings(list), V::String(value)) => list.push(value),
        (V::Tensors(list), V::Tensor(value)) => list.push(value),
        (V::Graphs(list), V::Graph(value)) => list.push(*value),
        (V::SparseTensors(list), V::SparseTensor(value)) => list.push(value),
        (V::Types(list), V::Type(value)) => list.push(value),
        _ => return false,
    }
    true
}

/// The list kind of an element kind.
fn list_kind(kind: i32) -> i32 {
    match kind {
        1..=5 => kind + 5,
        _ => kind + 1,
    }
}

impl Parser<'_> {
    /// Attributes after `<`, up to and with `>`.
    pub(super) fn attributes(&mut self, depth: usize) -> Parsed<Vec<AttributeDef>> {
        let mut attributes = Vec::new();
        self.list('>', |parser| {
            let start = parser.start();
            let name = parser.attribute_name()?;
            attributes.push(parser.attribute_after_name(start, name, false, depth)?);
            Ok(())
        })?;
        Ok(attributes)
    }

    pub(super) fn attribute_name(&mut self) -> Parsed<Name> {
        if let Some(name) = self.quoted()? {
            return Ok(self.intern(&name));
        }
        match self.lex.identifier() {
            Some(name) => Ok(self.intern(name)),
            None => Err(self.expected("the name of an attribute")),
        }
    }

    /// `: kind = value`. A function may declare the kind alone.
    pub(super) fn attribute_after_name(
        &mut self,
        start: usize,
        name: Name,
        formal: bool,
        depth: usize,
    ) -> Parsed<AttributeDef> {
        let mut kind = None;
        if self.lex.eat(':') {
            let word_start = self.start();
            let word = self.lex.identifier().unwrap_or("");
            kind = ATTRIBUTE_KINDS.iter().find(|(known, _)| *known == word).map(|(_, code)| *code);
            if kind.is_none() {
                self.lex.set_pos(word_start);
                return Err(self.expected("the kind of an attribute, such as `int` or `floats`"));
            }
            if formal
                && self.lex.peek() != Some('=')
                && let Some(value) = kind.and_then(empty_value)
            {
                return Ok(AttributeDef { name, value, span: self.span_from(start) });
            }
        }
        self.expect("=")?;
        let value_start = self.start();
        let value = if self.lex.eat('[') {
            self.list_value(&name, kind, depth)?
        } else {
            let value = self.value(kind, depth)?;
            self.check_kind(&name, kind, &value, value_start)?;
            value
        };
        Ok(AttributeDef { name, value, span: self.span_from(start) })
    }

    fn check_kind(&mut self, name: &str, kind: Option<i32>, value: &AttributeValue, start: usize) -> Parsed<()> {
        let (Some(kind), found) = (kind.filter(|kind| *kind != 0), kind_of(value)) else {
            return Ok(());
        };
        if kind == found {
            return Ok(());
        }
        let end = self.lex.pos();
        let (declared, found_word) = (kind_word(kind), kind_word(found));
        let help = match (declared, value) {
            ("tensor", AttributeValue::Type(_)) => {
                Some("a tensor needs its elements: `float[2] {1.0, 2.0}`".to_owned())
            }
            _ if element_kind(kind) == Some(found) => Some("write a list in brackets: `[...]`".to_owned()),
            _ => None,
        };
        let message = format!("attribute `{name}` is declared `{declared}` but its value is `{found_word}`");
        Err(self.error(start, end, message, help))
    }

    fn list_value(&mut self, name: &str, kind: Option<i32>, depth: usize) -> Parsed<AttributeValue> {
        // The official parser takes `a: int = [1]` as a list of what the kind says.
        let declared = kind.filter(|kind| *kind != 0).map(|kind| element_kind(kind).unwrap_or(kind));
        let open = self.lex.pos().saturating_sub(1);
        if self.lex.eat(']') {
            if let Some(list) = declared.and_then(|kind| empty_value(list_kind(kind))) {
                return Ok(list);
            }
            let end = self.lex.pos();
            let help = format!("write `{name}: ints = []`, or another list kind");
            return Err(self.error(open, end, "an empty list needs its kind".to_owned(), Some(help)));
        }
        let mut wanted = declared;
        let mut list = None;
        loop {
            let start = self.start();
            let value = self.value(wanted, depth)?;
            self.check_kind(name, declared, &value, start)?;
            wanted = Some(kind_of(&value));
            if list.is_none() {
                list = empty_value(list_kind(kind_of(&value)));
            }
            let Some(known) = &mut list else {
                return Err(self.no_list(start));
            };
            let found = kind_of(&value);
            if !push(known, value) {
                let end = self.lex.pos();
                let help = (matches!(known, AttributeValue::Ints(_)) && found == FLOAT)
                    .then(|| format!("write `{name}: floats = [...]`"));
                return Err(self.error(start, end, "the values of a list must be of one kind".to_owned(), help));
            }
            if self.lex.eat(']') {
                return list.ok_or(Failed);
            }
            if !self.lex.eat(',') {
                return Err(self.expected("`,` or `]`"));
            }
        }
    }

    fn no_list(&mut self, start: usize) -> Failed {
        let end = self.lex.pos();
        self.error(start, end, "a reference cannot stand in a list".to_owned(), None)
    }

    /// One value. `kind` is what is declared; it makes `1` a float where a float is wanted.
    fn value(&mut self, kind: Option<i32>, depth: usize) -> Parsed<AttributeValue> {
        let start = self.start();
        if self.lex.eat('@') {
            let name = self.name("the name of an attribute of the function")?;
            return Ok(AttributeValue::Reference { name, kind: kind.unwrap_or(0) });
        }
        if let Some(text) = self.optional_byte_string()? {
            if self.lex.peek() == Some('(') {
                self.lex.set_pos(start);
                return Ok(AttributeValue::Graph(Box::new(self.graph(depth + 1)?)));
            }
            return Ok(AttributeValue::String(text));
        }
        if let Some(number) = self.lex.number() {
            let word = number.text.starts_with(|c: char| c.is_ascii_alphabetic());
            if !word || self.lex.peek() != Some('(') {
                return if number.real || kind == Some(FLOAT) {
                    self.float(start, number).map(AttributeValue::Float)
                } else {
                    self.integer_of(start, number.text).map(AttributeValue::Int)
                };
            }
            self.lex.set_pos(start);
        }
        match self.optional_type(0)? {
            Some(TypeDef::Tensor(ty)) => Ok(match self.attribute_tensor(start, &ty)? {
                Some(tensor) => AttributeValue::Tensor(tensor),
                None => AttributeValue::Type(TypeDef::Tensor(ty)),
            }),
            Some(TypeDef::SparseTensor(ty)) => {
                let name = self.optional_name()?;
                if !self.lex.eat('=') && name.is_none() {
                    return Ok(AttributeValue::Type(TypeDef::SparseTensor(ty)));
                }
                let tensor = self.sparse_tensor(start, &ty, name.unwrap_or_default())?;
                Ok(AttributeValue::SparseTensor(tensor))
            }
            Some(ty) => Ok(AttributeValue::Type(ty)),
            None => {
                let mut ahead = self.lex.clone();
                if ahead.bare_name().is_some() && ahead.peek() == Some('(') {
                    return Ok(AttributeValue::Graph(Box::new(self.graph(depth + 1)?)));
                }
                Err(self.expected("a value: a number, a string, a list, a tensor, a type or a graph"))
            }
        }
    }
}
