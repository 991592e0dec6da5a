//! Elements of tensors: spelled-out numbers become little-endian bytes.

use bytes::Bytes;

use super::lexer::Number;
use super::parser::{Parsed, Parser};
use crate::frontend::onnx::model::{ExternalData, Payload, SparseTensorDef, TensorDef, TensorTypeDef, TypeDef};
use crate::ir::element_type::ElementType;

/// Collects elements; those that are narrower than a byte share bytes, the first in the lowest bits.
#[derive(Default)]
struct Packer {
    bytes: Vec<u8>,
    partial: u8,
    filled: u32,
}

impl Packer {
    /// The lowest bits of an integer.
    fn push_bits(&mut self, value: i128, bits: u32) {
        let bytes = value.to_le_bytes();
        if bits >= 8 {
            self.bytes.extend(bytes.iter().take(bits as usize / 8));
            return;
        }
        let low = bytes.first().copied().unwrap_or(0) & ((1 << bits) - 1);
        self.partial |= low << self.filled;
        self.filled += bits;
        if self.filled >= 8 {
            self.bytes.push(self.partial);
            self.partial = 0;
            self.filled = 0;
        }
    }

    fn finish(mut self) -> Bytes {
        if self.filled > 0 {
            self.bytes.push(self.partial);
        }
        self.bytes.into()
    }
}

/// Least and greatest integer that stands for an element. Floats other than `float` and `double` are written as the
/// integer of their bits, as the official syntax does.
fn integer_range(element: ElementType) -> (i128, i128) {
    let bits = element.bits();
    let signed = matches!(
        element,
        ElementType::Int2
            | ElementType::Int4
            | ElementType::Int8
            | ElementType::Int16
            | ElementType::Int32
            | ElementType::Int64
    );
    match element {
        ElementType::Bool => (0, 1),
        _ if signed => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
        _ => (0, (1_i128 << bits) - 1),
    }
}

impl Parser<'_> {
    /// What stands after `=` of an initializer. Nothing, `...` and `{}` leave the payload out: the first two are what
    /// the official printer writes for payloads that it does not print.
    pub(super) fn payload(&mut self, element: Option<ElementType>, dims: &[i64]) -> Parsed<Payload> {
        match self.lex.peek() {
            Some('{') => self.elements(element, dims),
            Some('[') => {
                let entries = self.pairs()?;
                Ok(Payload::External(ExternalData { entries }))
            }
            Some('.') => {
                self.expect("...")?;
                Ok(Payload::Missing)
            }
            Some(',' | '>' | ')') => Ok(Payload::Missing),
            _ => Err(self.expected("`{` and the elements, or `[` and the place of external data")),
        }
    }

    /// `{1, 2, 3}`.
    pub(super) fn elements(&mut self, element: Option<ElementType>, dims: &[i64]) -> Parsed<Payload> {
        self.expect("{")?;
        if self.lex.eat('}') {
            return Ok(Payload::Missing);
        }
        if self.lex.eat_str("...") {
            self.expect("}")?;
            return Ok(Payload::Missing);
        }
        let Some(element) = element else {
            return Err(self.expected("`}`: elements need an element type"));
        };
        if element == ElementType::String {
            return self.string_elements();
        }
        let count = dims.iter().try_fold(1_usize, |count, &dim| count.checked_mul(usize::try_from(dim).ok()?));
        let mut packer = Packer::default();
        // A declared size must not make us reserve more than the text can fill.
        let room = count.unwrap_or(0).saturating_mul(element.bits() as usize / 8);
        packer.bytes.reserve(room.min(self.lex.rest().len().saturating_mul(8)).min(1 << 20));
        loop {
            self.push_element(element, &mut packer)?;
            if self.lex.eat('}') {
                return Ok(Payload::Raw(packer.finish()));
            }
            if !self.lex.eat(',') {
                return Err(self.expected("`,` or `}`"));
            }
        }
    }

    fn string_elements(&mut self) -> Parsed<Payload> {
        let mut strings = Vec::new();
        loop {
            strings.push(self.byte_string()?);
            if self.lex.eat('}') {
                return Ok(Payload::Strings(strings));
            }
            if !self.lex.eat(',') {
                return Err(self.expected("`,` or `}`"));
            }
        }
    }

    /// A string, or bytes that are no text as `hex"00ff"`.
    pub(super) fn byte_string(&mut self) -> Parsed<Bytes> {
        match self.optional_byte_string()? {
            Some(bytes) => Ok(bytes),
            None => Err(self.expected("a string in double quotes")),
        }
    }

    pub(super) fn optional_byte_string(&mut self) -> Parsed<Option<Bytes>> {
        let start = self.start();
        if !self.lex.rest().starts_with("hex\"") {
            return Ok(self.quoted()?.map(Bytes::from));
        }
        self.lex.set_pos(start + 3);
        let digits = self.quoted()?.unwrap_or_default();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes = digits.as_bytes().chunks(2).map(pair).collect::<Option<Vec<u8>>>();
        match bytes.filter(|_| digits.len().is_multiple_of(2)) {
            Some(bytes) => Ok(Some(bytes.into())),
            None => {
                let end = self.lex.pos();
                Err(self.error(start, end, "`hex` needs an even number of hexadecimal digits".to_owned(), None))
            }
        }
    }

    fn push_element(&mut self, element: ElementType, packer: &mut Packer) -> Parsed<()> {
        use ElementType as E;
        let start = self.start();
        let Some(number) = self.lex.number() else {
            return Err(self.not_a_number(element));
        };
        match element {
            E::Float | E::Complex64 => packer.bytes.extend(self.float(start, number)?.to_le_bytes()),
            E::Double | E::Complex128 => packer.bytes.extend(self.double(start, number)?.to_le_bytes()),
            _ => {
                let (least, greatest) = integer_range(element);
                let end = self.lex.pos();
                if number.real {
                    let help = element
                        .is_real()
                        .then(|| format!("ONNX text writes an element of `{element}` as the integer of its bits"));
                    return Err(self.error(start, end, format!("`{element}` wants integers here"), help));
                }
                match number.text.parse::<i128>() {
                    Ok(value) if (least..=greatest).contains(&value) => packer.push_bits(value, element.bits()),
                    _ => {
                        let message = format!("`{}` does not fit `{element}`", number.text);
                        return Err(self.error(start, end, message, None));
                    }
                }
            }
        }
        Ok(())
    }

    fn not_a_number(&mut self, element: ElementType) -> super::parser::Failed {
        let start = self.start();
        let word = self.lex.clone().identifier();
        match word {
            Some(word @ ("true" | "false" | "True" | "False")) => {
                let help = format!("write {}", u8::from(word.eq_ignore_ascii_case("true")));
                self.error(start, start + word.len(), format!("`{word}` is not an element of `{element}`"), Some(help))
            }
            _ => self.expected(&format!("an element of `{element}`")),
        }
    }

    pub(super) fn float(&mut self, start: usize, number: Number<'_>) -> Parsed<f32> {
        match number.text.parse::<f32>() {
            Ok(value) if value.is_finite() || is_word(number.text) => Ok(value),
            _ => Err(self.out_of_range(start, number, "float")),
        }
    }

    fn double(&mut self, start: usize, number: Number<'_>) -> Parsed<f64> {
        match number.text.parse::<f64>() {
            Ok(value) if value.is_finite() || is_word(number.text) => Ok(value),
            _ => Err(self.out_of_range(start, number, "double")),
        }
    }

    fn out_of_range(&mut self, start: usize, number: Number<'_>, what: &str) -> super::parser::Failed {
        let end = self.lex.pos();
        self.error(start, end, format!("`{}` is out of the range of `{what}`", number.text), None)
    }

    /// `float[2] name {1, 2}` after its type: a tensor that is the value of an attribute. `None` when no tensor
    /// follows, so that what was read is a type.
    pub(super) fn attribute_tensor(&mut self, start: usize, ty: &TensorTypeDef) -> Parsed<Option<TensorDef>> {
        let name = if matches!(self.lex.peek(), Some('.')) { None } else { self.optional_name()? };
        let assigned = self.lex.eat('=');
        let next = self.lex.peek();
        if name.is_none() && !assigned && !matches!(next, Some('{' | '.')) {
            return Ok(None);
        }
        let dims = self.stored_dims(start, ty)?;
        let data = match next {
            Some('{') => self.elements(ty.element, &dims)?,
            Some('.') => self.payload(ty.element, &dims)?,
            _ if assigned => self.payload(ty.element, &dims)?,
            _ => Payload::Missing,
        };
        let span = self.span_from(start);
        Ok(Some(TensorDef { name: name.unwrap_or_default(), element: ty.element, dims, data, span }))
    }

    /// `(float[1] {2.5}, int64[1] {3})` after the type and name of a sparse tensor.
    pub(super) fn sparse_tensor(
        &mut self,
        start: usize,
        ty: &TensorTypeDef,
        name: crate::frontend::onnx::model::Name,
    ) -> Parsed<SparseTensorDef> {
        let dims = self.stored_dims(start, ty)?;
        self.expect("(")?;
        let mut values = self.part_of_sparse()?;
        values.name = name;
        self.expect(",")?;
        let indices = self.part_of_sparse()?;
        self.expect(")")?;
        Ok(SparseTensorDef { values, indices, dims })
    }

    fn part_of_sparse(&mut self) -> Parsed<TensorDef> {
        let start = self.start();
        if let Some(TypeDef::Tensor(ty)) = self.optional_type(0)?
            && let Some(tensor) = self.attribute_tensor(start, &ty)?
        {
            return Ok(tensor);
        }
        Err(self.expected("a tensor such as `float[1] {2.5}`"))
    }
}

/// Whether the number is spelled as a word: `inf` or `nan`.
fn is_word(text: &str) -> bool {
    let body = text.trim_start_matches(['-', '+']);
    body.starts_with(|c: char| c.is_ascii_alphabetic())
}
