//! Types, declared tensors and initializers.

use super::MAX_TYPE_DEPTH;
use super::parser::{Parsed, Parser};
use crate::frontend::onnx::model::{
    AttributeDef, DimDef, Name, SparseTensorDef, TensorDef, TensorTypeDef, TypeDef, ValueInfo,
};
use crate::ir::element_type::ElementType;

/// The element type that a word most likely was meant to be.
fn nearest_element(word: &str) -> Option<&'static str> {
    let alias = match word {
        "float32" | "f32" | "single" => Some("float"),
        "float64" | "f64" => Some("double"),
        "half" | "f16" | "fp16" => Some("float16"),
        "bf16" => Some("bfloat16"),
        "int" | "long" | "i64" => Some("int64"),
        "i32" => Some("int32"),
        "boolean" => Some("bool"),
        "str" => Some("string"),
        _ => None,
    };
    alias.or_else(|| {
        let word = word.to_ascii_lowercase();
        let distance = |name: &&str| strsim::damerau_levenshtein(&word, name);
        let nearest = ElementType::ALL.iter().map(|element| element.name()).min_by_key(distance)?;
        (distance(&nearest) <= 2).then_some(nearest)
    })
}

impl Parser<'_> {
    /// A type, if one stands here. Otherwise nothing is consumed.
    pub(super) fn optional_type(&mut self, depth: usize) -> Parsed<Option<TypeDef>> {
        let start = self.start();
        let word = self.lex.identifier().unwrap_or("");
        if word == "undefined" || ElementType::from_name(word).is_some() {
            let element = ElementType::from_name(word);
            let shape = if self.lex.eat('[') { self.dims()? } else { Some(Vec::new()) };
            return Ok(Some(TypeDef::Tensor(TensorTypeDef { element, shape })));
        }
        let constructor = matches!(word, "seq" | "optional" | "map" | "sparse_tensor" | "opaque");
        if !constructor || !self.lex.eat('(') {
            self.lex.set_pos(start);
            return Ok(None);
        }
        if depth >= MAX_TYPE_DEPTH {
            let end = self.lex.pos();
            return Err(self.error(start, end, format!("types are nested deeper than {MAX_TYPE_DEPTH}"), None));
        }
        let ty = match word {
            "seq" => TypeDef::Sequence(Box::new(self.type_def(depth + 1)?)),
            "optional" => TypeDef::Optional(Box::new(self.type_def(depth + 1)?)),
            "opaque" => TypeDef::Opaque,
            "sparse_tensor" => match self.type_def(depth + 1)? {
                TypeDef::Tensor(tensor) => TypeDef::SparseTensor(tensor),
                _ => {
                    let end = self.lex.pos();
                    let message = "a sparse tensor is made of a tensor type".to_owned();
                    return Err(self.error(start, end, message, None));
                }
            },
            _ => {
                let key_start = self.start();
                let key = self.lex.identifier().unwrap_or("");
                let element = ElementType::from_name(key);
                if element.is_none() && key != "undefined" {
                    self.lex.set_pos(key_start);
                    return Err(self.expected("the element type of the keys"));
                }
                self.expect(",")?;
                TypeDef::Map(element, Box::new(self.type_def(depth + 1)?))
            }
        };
        self.expect(")")?;
        Ok(Some(ty))
    }

    /// A type.
    pub(super) fn type_def(&mut self, depth: usize) -> Parsed<TypeDef> {
        match self.optional_type(depth)? {
            Some(ty) => Ok(ty),
            None => Err(self.unknown_type("a type")),
        }
    }

    fn unknown_type(&mut self, wanted: &str) -> super::parser::Failed {
        let start = self.start();
        match self.lex.bare_name() {
            Some(word) => {
                let end = self.lex.pos();
                let help = nearest_element(word).map(|name| format!("did you mean `{name}`?"));
                self.error(start, end, format!("`{word}` is not a type"), help)
            }
            None => self.expected(wanted),
        }
    }

    /// Dims after `[`. `None` for `[]`: the rank is not known.
    fn dims(&mut self) -> Parsed<Option<Vec<DimDef>>> {
        if self.lex.eat(']') {
            return Ok(None);
        }
        let mut dims = Vec::new();
        loop {
            dims.push(self.dim()?);
            if self.lex.eat(']') {
                return Ok(Some(dims));
            }
            if !self.lex.eat(',') {
                return Err(self.expected("`,` or `]`"));
            }
        }
    }

    fn dim(&mut self) -> Parsed<DimDef> {
        if self.lex.eat('?') {
            return Ok(DimDef::Unknown);
        }
        if let Some(name) = self.quoted()? {
            return Ok(if name.is_empty() { DimDef::Unknown } else { DimDef::Param(self.intern(&name)) });
        }
        let start = self.start();
        match self.lex.bare_name() {
            None => Err(self.expected("a dim: a number, a name or `?`")),
            Some(word) => {
                let digits = word.strip_prefix('-').unwrap_or(word);
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Ok(DimDef::Param(self.intern(word)));
                }
                self.integer_of(start, word).map(DimDef::Value)
            }
        }
    }

    /// `type name`; the type may be left out.
    pub(super) fn value_info(&mut self) -> Parsed<ValueInfo> {
        let start = self.start();
        let ty = self.optional_type(0)?;
        let name = self.name(if ty.is_some() { "the name of a tensor" } else { "a type" })?;
        if ty.is_none() && self.lex.peek().is_some_and(|c| !",)>=".contains(c)) {
            // What was read as a name stands where a type should.
            self.lex.set_pos(start);
            return Err(self.unknown_type("a type"));
        }
        Ok(ValueInfo { name, ty, span: self.span_from(start) })
    }

    /// Dims of a stored tensor, which are numbers.
    pub(super) fn stored_dims(&mut self, start: usize, ty: &TensorTypeDef) -> Parsed<Vec<i64>> {
        let dims = ty.shape.as_ref().and_then(|shape| {
            let value = |dim: &DimDef| {
                if let DimDef::Value(value) = dim { Some(*value) } else { None }
            };
            shape.iter().map(value).collect::<Option<Vec<_>>>()
        });
        dims.ok_or_else(|| {
            let end = self.lex.pos();
            let help = "write every dim as a number; a scalar has no brackets".to_owned();
            self.error(start, end, "the dims of a stored tensor must be numbers".to_owned(), Some(help))
        })
    }

    /// What follows a declared tensor that is an initializer: `= {...}` or `= [external data]`.
    pub(super) fn initializer(&mut self, item: &ValueInfo) -> Parsed<Option<TensorDef>> {
        let start = usize::try_from(item.span.start).unwrap_or(usize::MAX);
        let before = self.start();
        if !self.lex.eat('=') {
            return Ok(None);
        }
        if self.lex.peek() == Some('>') && self.lex.pos() == before + 1 {
            // `=>` after an input list that was not closed.
            self.lex.set_pos(before);
            return Ok(None);
        }
        let Some(TypeDef::Tensor(ty)) = &item.ty else {
            let end = self.lex.pos();
            let message = format!("`{}` has a value, so it needs a tensor type", item.name);
            return Err(self.error(start, end, message, None));
        };
        let dims = self.stored_dims(start, ty)?;
        let data = self.payload(ty.element, &dims)?;
        let span = self.span_from(start);
        Ok(Some(TensorDef { name: item.name.clone(), element: ty.element, dims, data, span }))
    }

    /// As [`Parser::initializer`], for `sparse_tensor(float[4]) w = (values, indices)`.
    pub(super) fn sparse_initializer(&mut self, item: &ValueInfo) -> Parsed<Option<SparseTensorDef>> {
        let Some(TypeDef::SparseTensor(ty)) = &item.ty else {
            return Ok(None);
        };
        if !self.lex.eat('=') {
            return Ok(None);
        }
        let start = usize::try_from(item.span.start).unwrap_or(usize::MAX);
        self.sparse_tensor(start, ty, item.name.clone()).map(Some)
    }

    /// Inputs or outputs of a function, up to and with `)`. Types that they declare are `value_info`.
    pub(super) fn formals(&mut self, names: &mut Vec<Name>, value_info: &mut Vec<ValueInfo>) -> Parsed<()> {
        self.list(')', |parser| {
            let item = parser.value_info()?;
            names.push(item.name.clone());
            if item.ty.is_some() {
                value_info.push(item);
            }
            Ok(())
        })
    }

    /// `name`, or an attribute with a default.
    pub(super) fn formal_attribute(
        &mut self,
        attributes: &mut Vec<Name>,
        defaults: &mut Vec<AttributeDef>,
    ) -> Parsed<()> {
        let start = self.start();
        let name = self.attribute_name()?;
        if matches!(self.lex.peek(), Some(',' | '>')) {
            attributes.push(name);
        } else {
            defaults.push(self.attribute_after_name(start, name, true, 0)?);
        }
        Ok(())
    }
}
