//! Values: attributes, tensors and their elements.

use bytes::Bytes;

use super::printer::Printer;
use super::values::{kind_of, kind_word};
use crate::frontend::onnx::model::{AttributeValue, Payload, SparseTensorDef, TensorDef};
use crate::ir::element_type::ElementType;

/// Characters of a string that an excerpt shows.
const EXCERPT_CHARS: usize = 60;

/// A float in the fewest digits that read back to the same bits, always told from an integer.
macro_rules! real_text {
    ($value:expr) => {
        match $value {
            value if value.is_nan() => if value.is_sign_negative() { "-nan" } else { "nan" }.to_owned(),
            value if value.is_infinite() => if value < 0.0 { "-inf" } else { "inf" }.to_owned(),
            value => format!("{value:?}"),
        }
    };
}

/// The elements of a packed payload as text.
fn element_texts(element: ElementType, bytes: &[u8], count: usize) -> Box<dyn Iterator<Item = String> + '_> {
    use ElementType as E;
    fn each<'a, const N: usize>(bytes: &'a [u8], of: fn([u8; N]) -> String) -> Box<dyn Iterator<Item = String> + 'a> {
        Box::new(bytes.as_chunks::<N>().0.iter().map(move |chunk| of(*chunk)))
    }
    match element {
        E::Float | E::Complex64 => each(bytes, |b| real_text!(f32::from_le_bytes(b))),
        E::Double | E::Complex128 => each(bytes, |b| real_text!(f64::from_le_bytes(b))),
        E::Int8 => each(bytes, |b| i8::from_le_bytes(b).to_string()),
        E::Int16 => each(bytes, |b| i16::from_le_bytes(b).to_string()),
        E::Int32 => each(bytes, |b| i32::from_le_bytes(b).to_string()),
        E::Int64 => each(bytes, |b| i64::from_le_bytes(b).to_string()),
        E::Uint32 => each(bytes, |b| u32::from_le_bytes(b).to_string()),
        E::Uint64 => each(bytes, |b| u64::from_le_bytes(b).to_string()),
        E::Bool => each(bytes, |[b]| u8::from(b != 0).to_string()),
        E::String => Box::new(std::iter::empty()),
        _ if element.bits() == 16 => each(bytes, |b| u16::from_le_bytes(b).to_string()),
        _ if element.bits() == 8 => each(bytes, |[b]| b.to_string()),
        _ => {
            let bits = element.bits();
            let signed = matches!(element, E::Int4 | E::Int2);
            let texts = bytes.iter().flat_map(move |byte| {
                (0..8 / bits).map(move |place| {
                    let value = (byte >> (place * bits)) & ((1 << bits) - 1);
                    let wraps = signed && value >> (bits - 1) != 0;
                    (i32::from(value) - if wraps { 1 << bits } else { 0 }).to_string()
                })
            });
            Box::new(texts.take(count))
        }
    }
}

/// Elements that a packed payload holds, whatever its dims say.
fn elements_of(tensor: &TensorDef) -> usize {
    match (&tensor.data, tensor.element) {
        (Payload::Raw(raw), Some(element)) if element.bits() > 0 => {
            raw.len().saturating_mul(8) / element.bits() as usize
        }
        _ => 0,
    }
}

impl Printer<'_> {
    /// `: kind = value` of an attribute.
    pub(super) fn attribute_value(&mut self, value: &AttributeValue, depth: usize) {
        use AttributeValue as V;
        let kind = kind_of(value);
        if self.excerpt {
            self.put(" = ");
        } else if kind == 0 {
            // The official parser takes a reference without a kind, but not the word `undefined`.
            self.put(" = ");
        } else {
            self.put(": ");
            self.put(kind_word(kind));
            self.put(" = ");
        }
        match value {
            V::Float(value) => self.put_with(|| real_text!(*value)),
            V::Int(value) => self.show(value),
            V::String(value) => self.byte_string(value),
            V::Tensor(tensor) => self.tensor_value(tensor),
            V::Graph(graph) => self.graph(graph, depth + 1),
            V::SparseTensor(tensor) => self.sparse_tensor(tensor),
            V::Type(ty) => self.type_def(ty, 0),
            V::Floats(list) => self.value_list(list, |printer, value| printer.put_with(|| real_text!(*value))),
            V::Ints(list) => self.value_list(list, |printer, value| printer.show(value)),
            V::Strings(list) => self.value_list(list, |printer, value| printer.byte_string(value)),
            V::Tensors(list) => self.value_list(list, Self::tensor_value),
            V::Graphs(list) => self.value_list(list, |printer, graph| printer.graph(graph, depth + 1)),
            V::SparseTensors(list) => self.value_list(list, Self::sparse_tensor),
            V::Types(list) => self.value_list(list, |printer, ty| printer.type_def(ty, 0)),
            V::Reference { name, .. } => {
                self.put("@");
                self.name(name);
            }
        }
    }

    /// Writes a text without line breaks that need not be made where nothing is written.
    fn put_with(&mut self, text: impl FnOnce() -> String) {
        if self.writes() {
            self.put(&text());
        }
    }

    /// How many of `len` values are shown.
    fn shown(&self, len: usize) -> usize {
        if self.excerpt { len.min(self.options.max_elements) } else { len }
    }

    fn value_list<T>(&mut self, list: &[T], each: impl FnMut(&mut Self, &T)) {
        self.put("[");
        let shown = list.get(..self.shown(list.len())).unwrap_or(list);
        self.separated(shown, ", ", each);
        self.cut(shown.len(), list.len());
        self.put("]");
    }

    fn cut(&mut self, shown: usize, len: usize) {
        if shown < len {
            self.put(if shown == 0 { "..." } else { ", ..." });
        }
    }

    /// A string; bytes that are no text are written in hexadecimal, which only our parser reads.
    fn byte_string(&mut self, bytes: &Bytes) {
        match std::str::from_utf8(bytes) {
            Ok(text) if self.excerpt && text.chars().count() > EXCERPT_CHARS => {
                let head: String = text.chars().take(EXCERPT_CHARS).collect();
                self.quoted(&format!("{head}..."), true);
            }
            Ok(text) => self.quoted(text, self.excerpt),
            Err(_) => {
                self.put("hex\"");
                let shown = if self.excerpt { bytes.len().min(EXCERPT_CHARS / 2) } else { bytes.len() };
                for byte in bytes.iter().take(shown) {
                    self.show(format_args!("{byte:02x}"));
                }
                self.put("\"");
            }
        }
    }

    fn stored_type(&mut self, tensor: &TensorDef) {
        self.put(tensor.element.map_or("undefined", ElementType::name));
        self.dims(&tensor.dims);
    }

    fn dims(&mut self, dims: &[i64]) {
        if !dims.is_empty() {
            self.put("[");
            self.separated(dims, ", ", |printer, dim| printer.show(dim));
            self.put("]");
        }
    }

    /// `float[2] w = {1.0, 2.0}`.
    pub(super) fn stored_tensor(&mut self, tensor: &TensorDef) {
        self.begin(tensor.span);
        self.stored_type(tensor);
        self.put(" ");
        self.name(&tensor.name);
        self.put(" = ");
        self.payload(tensor);
    }

    /// `float[2] {1.0, 2.0}`, with its name if it has one.
    fn tensor_value(&mut self, tensor: &TensorDef) {
        self.begin(tensor.span);
        let external = matches!(tensor.data, Payload::External(_));
        self.stored_type(tensor);
        self.put(" ");
        if external || !tensor.name.is_empty() {
            self.name(&tensor.name);
            self.put(if external { " = " } else { " " });
        }
        self.payload(tensor);
    }

    /// `sparse_tensor(float[4]) w = (float[1] {2.5}, int64[1] {3})`.
    pub(super) fn sparse_tensor(&mut self, tensor: &SparseTensorDef) {
        self.begin(tensor.values.span);
        self.begin(tensor.indices.span);
        self.put("sparse_tensor(");
        self.put(tensor.values.element.map_or("undefined", ElementType::name));
        self.dims(&tensor.dims);
        self.put(") ");
        self.name(&tensor.values.name);
        self.put(" = (");
        self.stored_type(&tensor.values);
        self.put(" ");
        self.payload(&tensor.values);
        self.put(", ");
        self.tensor_value(&tensor.indices);
        self.put(")");
    }

    fn payload(&mut self, tensor: &TensorDef) {
        if let Payload::External(data) = &tensor.data {
            self.pairs(&data.entries, self.excerpt);
            return;
        }
        let count = tensor.element_count().and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
        if count.max(elements_of(tensor)) > self.most_elements(tensor) {
            self.put("{}");
            return;
        }
        self.put("{");
        match (&tensor.data, tensor.element) {
            (Payload::Strings(strings), _) => self.strings(strings),
            (_, Some(ElementType::String)) => self.strings(&tensor.strings(count).unwrap_or_default()),
            (_, Some(element)) if self.writes() => self.elements(tensor, element, count),
            _ => {}
        }
        self.put("}");
    }

    /// Payloads of more elements are left out.
    fn most_elements(&self, tensor: &TensorDef) -> usize {
        match tensor.element {
            // An excerpt shows the beginning of any list.
            _ if self.excerpt => usize::MAX,
            Some(element) if element.is_integer() && element.bits() >= 32 => self.options.max_integers,
            _ => self.options.max_elements,
        }
    }

    fn strings(&mut self, strings: &[Bytes]) {
        let shown = strings.get(..self.shown(strings.len())).unwrap_or(strings);
        self.separated(shown, ", ", |printer, text| printer.byte_string(text));
        self.cut(shown.len(), strings.len());
    }

    fn elements(&mut self, tensor: &TensorDef, element: ElementType, count: usize) {
        // A payload of the wrong length is written as far as it goes, so that the error survives the round trip.
        let bytes = match &tensor.data {
            Payload::Raw(raw) => raw.clone(),
            _ => tensor.packed(count).unwrap_or_default(),
        };
        let per_byte = (8 / element.bits().clamp(1, 8)) as usize;
        let fits = bytes.len() == count.div_ceil(per_byte);
        let shown = if self.excerpt { self.options.max_elements } else { usize::MAX };
        let texts = element_texts(element, &bytes, if fits { count } else { usize::MAX });
        for (index, text) in texts.enumerate() {
            if index > 0 {
                self.put(", ");
            }
            if index == shown {
                self.put("...");
                return;
            }
            self.put(&text);
        }
    }
}
