//! Writes models in the textual syntax. What is written is read back to the same tree, and the official parser reads
//! it wherever its syntax can say it; `grammar/onnx_text.md` lists what it cannot.

use std::fmt::Write;

use super::layout::{Layout, Lines};
use super::lexer::{PRAGMA, is_identifier};
use super::{MAX_GRAPH_DEPTH, MAX_TYPE_DEPTH};
use crate::frontend::onnx::model::{
    AttributeDef, AttributeValue, DimDef, FunctionDef, GraphDef, Model, Name, NodeDef, OpsetImport, TIED,
    TensorTypeDef, TypeDef, ValueInfo,
};
use crate::ir::element_type::ElementType;
use crate::ir::place::Span;

/// How much is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintOptions {
    /// Payloads of more elements are left out, as in a file that was stripped of its weights; in an excerpt, lists of
    /// more values are cut short.
    pub max_elements: usize,
    /// The same for integers of 32 and 64 bits, which may decide a shape.
    pub max_integers: usize,
    /// Writes metadata of graphs and nodes, as comments that only our parser reads; [`TIED`] is always written.
    pub metadata: bool,
    /// Breaks lines inside of long nodes: behind what they are, and between attributes and inputs.
    pub break_long_nodes: bool,
}

/// Nodes of more characters are long.
const LONG: usize = 100;

impl Default for PrintOptions {
    /// Everything.
    fn default() -> Self {
        Self { max_elements: usize::MAX, max_integers: usize::MAX, metadata: true, break_long_nodes: false }
    }
}

/// The model as text that can be read back.
#[must_use]
pub fn print_model(model: &Model, options: &PrintOptions) -> String {
    let mut printer = Printer::new(Purpose::Text, options);
    printer.model(model);
    printer.out
}

/// The lines on which [`print_model`] puts what stands in the model; no text is made for it.
#[must_use]
pub fn layout(model: &Model, options: &PrintOptions) -> Layout {
    let mut printer = Printer::new(Purpose::Lines, options);
    printer.model(model);
    Layout::new(printer.items, printer.header)
}

/// The node on one line, to be looked at: long lists are cut with `...` and subgraphs are left out.
#[must_use]
pub fn print_node(node: &NodeDef, options: &PrintOptions) -> String {
    let mut printer = Printer::new(Purpose::Excerpt, options);
    printer.node(node, 0);
    printer.out
}

/// What is printed for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The whole text.
    Text,
    /// One line for the eye.
    Excerpt,
    /// Line numbers of the whole text. The same code counts and writes, so that the two cannot differ.
    Lines,
}

pub(super) struct Printer<'a> {
    pub(super) out: String,
    pub(super) options: &'a PrintOptions,
    pub(super) excerpt: bool,
    purpose: Purpose,
    indent: usize,
    /// Number of the line that is written, from 1.
    line: u32,
    /// What was put on which lines; what stands on the line that is written ends it, wherever that will be.
    items: Vec<(Span, Lines)>,
    /// How many items stand on lines that are finished.
    finished: usize,
    /// The last line of the header, else of the signature of the main graph; 0 before it is known.
    header: u32,
}

/// Whether a node takes more than a line of [`LONG`] characters, by a rough count that costs nothing.
fn is_long(node: &NodeDef) -> bool {
    let names = |names: &[Name]| names.iter().map(|name| name.len() + 4).sum::<usize>();
    let attribute = |attribute: &AttributeDef| {
        let value = match &attribute.value {
            AttributeValue::String(text) => text.len(),
            AttributeValue::Ints(list) => 3 * list.len(),
            AttributeValue::Floats(list) => 6 * list.len(),
            AttributeValue::Tensor(tensor) => tensor.name.len() + 12,
            _ => 4,
        };
        attribute.name.len() + value + 9
    };
    let attributes: usize = node.attributes.iter().map(attribute).sum();
    let head = node.name.len() + node.domain.len() + node.op_type.len() + 12;
    head + names(&node.outputs) + attributes + names(&node.inputs) > LONG
}

/// Words that begin a type and so are no name where a type may stand, and words that are numbers.
fn is_reserved(name: &str) -> bool {
    ElementType::from_name(name).is_some()
        || matches!(name, "undefined" | "seq" | "optional" | "map" | "sparse_tensor" | "opaque")
        || ["inf", "infinity", "nan"].iter().any(|word| name.eq_ignore_ascii_case(word))
}

impl<'a> Printer<'a> {
    fn new(purpose: Purpose, options: &'a PrintOptions) -> Self {
        Self {
            out: String::new(),
            options,
            excerpt: purpose == Purpose::Excerpt,
            purpose,
            indent: 0,
            line: 1,
            items: Vec::new(),
            finished: 0,
            header: 0,
        }
    }
}

impl Printer<'_> {
    /// Whether there is a text to write and not only lines to count.
    pub(super) fn writes(&self) -> bool {
        self.purpose != Purpose::Lines
    }

    pub(super) fn put(&mut self, text: &str) {
        if self.writes() {
            self.out.push_str(text);
        } else {
            let breaks = text.bytes().filter(|&byte| byte == b'\n').count();
            self.line = self.line.saturating_add(u32::try_from(breaks).unwrap_or(u32::MAX));
        }
    }

    /// Writes anything that displays without a line break; writing to a string does not fail.
    pub(super) fn show(&mut self, value: impl std::fmt::Display) {
        if self.writes() {
            let _ = write!(self.out, "{value}");
        }
    }

    /// Says that something begins here.
    pub(super) fn begin(&mut self, span: Span) {
        if !self.writes() && span.end > 0 {
            self.items.push((span, Lines { first: self.line, last: self.line }));
        }
    }

    pub(super) fn separated<T>(&mut self, items: &[T], separator: &str, mut each: impl FnMut(&mut Self, &T)) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.put(separator);
            }
            each(self, item);
        }
    }

    /// Ends a line where a comment may stand.
    fn line(&mut self) {
        for (_, lines) in self.items.iter_mut().skip(self.finished) {
            lines.last = self.line;
        }
        self.finished = self.items.len();
        self.put("\n");
        for _ in 0..self.indent {
            self.put("   ");
        }
    }

    /// A string in quotes. The syntax has no escape for a line break, so one is written as it is; where the text must
    /// stay on one line it becomes `\n`.
    pub(super) fn quoted(&mut self, text: &str, one_line: bool) {
        if !self.writes() {
            if !one_line {
                self.put(text);
            }
            return;
        }
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => self.out.extend(['\\', c]),
                '\n' if one_line => self.out.push_str("\\n"),
                '\r' if one_line => self.out.push_str("\\r"),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    pub(super) fn name(&mut self, name: &str) {
        if self.writes() && is_identifier(name) && !is_reserved(name) {
            self.put(name);
        } else {
            self.quoted(name, self.excerpt);
        }
    }

    fn names(&mut self, names: &[Name]) {
        self.separated(names, ", ", |printer, name| printer.name(name));
    }

    fn model(&mut self, model: &Model) {
        let mut first = true;
        let mut key = |printer: &mut Self, key: &str| {
            printer.put(if first { "<\n   " } else { ",\n   " });
            printer.put(key);
            printer.put(": ");
            first = false;
        };
        if let Some(version) = model.ir_version {
            key(self, "ir_version");
            self.show(version);
        }
        if !model.opset_imports.is_empty() {
            key(self, "opset_import");
            self.opset_imports(&model.opset_imports);
        }
        for (word, text) in [
            ("producer_name", &model.producer_name),
            ("producer_version", &model.producer_version),
            ("domain", &model.domain),
        ] {
            if !text.is_empty() {
                key(self, word);
                self.quoted(text, false);
            }
        }
        if let Some(version) = model.model_version {
            key(self, "model_version");
            self.show(version);
        }
        if !model.doc_string.is_empty() {
            key(self, "doc_string");
            self.quoted(&model.doc_string, false);
        }
        if !model.metadata.is_empty() {
            key(self, "metadata_props");
            self.pairs(&model.metadata, false);
        }
        if !first {
            self.put("\n>");
            self.header = self.line;
            self.line();
        }
        self.graph(&model.graph, 0);
        self.line();
        for function in &model.functions {
            self.function(function);
        }
    }

    fn opset_imports(&mut self, imports: &[OpsetImport]) {
        self.put("[");
        self.separated(imports, ", ", |printer, import| {
            printer.quoted(&import.domain, false);
            printer.show(format_args!(" : {}", import.version));
        });
        self.put("]");
    }

    pub(super) fn pairs(&mut self, pairs: &[(Name, Name)], one_line: bool) {
        self.put("[");
        self.separated(pairs, ", ", |printer, (key, value)| {
            printer.quoted(key, one_line);
            printer.put(": ");
            printer.quoted(value, one_line);
        });
        self.put("]");
    }

    fn pragma(&mut self, word: &str, metadata: &[(Name, Name)]) {
        let mut kept = metadata.iter().filter(|(key, _)| self.options.metadata || &**key == TIED).peekable();
        if kept.peek().is_some() {
            let kept: Vec<_> = kept.cloned().collect();
            self.line();
            self.put(PRAGMA);
            self.put(word);
            self.put(" ");
            self.pairs(&kept, true);
        }
    }

    fn function(&mut self, function: &FunctionDef) {
        self.begin(function.span);
        self.put("<\n   domain: ");
        self.quoted(&function.domain, false);
        if !function.overload.is_empty() {
            self.put(",\n   overload: ");
            self.quoted(&function.overload, false);
        }
        self.put(",\n   opset_import: ");
        self.opset_imports(&function.opset_imports);
        self.put("\n>");
        self.line();
        self.name(&function.name);
        if !function.attributes.is_empty() || !function.attribute_defaults.is_empty() {
            self.put(" <");
            self.names(&function.attributes);
            if !function.attributes.is_empty() && !function.attribute_defaults.is_empty() {
                self.put(", ");
            }
            self.separated(&function.attribute_defaults, ", ", |printer, attribute| printer.attribute(attribute, 0));
            self.put(">");
        }
        self.put(" (");
        self.names(&function.inputs);
        self.put(") => (");
        self.names(&function.outputs);
        self.put(")");
        self.indent += 1;
        for (index, item) in function.value_info.iter().enumerate() {
            self.put(if index > 0 { "," } else { "" });
            self.line();
            self.put(if index > 0 { " " } else { "<" });
            self.value_info(item);
        }
        self.put(if function.value_info.is_empty() { "" } else { ">" });
        self.indent -= 1;
        self.line();
        self.put("{");
        self.nodes(&function.nodes, 0);
        self.line();
        self.put("}");
        self.line();
    }

    /// A graph; `depth` counts the graphs around it.
    pub(super) fn graph(&mut self, graph: &GraphDef, depth: usize) {
        self.name(&graph.name);
        self.put(" (");
        self.separated(&graph.inputs, ", ", Self::value_info);
        self.put(") => (");
        self.separated(&graph.outputs, ", ", Self::value_info);
        self.put(")");
        if self.header == 0 {
            self.header = self.line;
        }
        if self.excerpt {
            self.put(" {...}");
            return;
        }
        self.indent += 1;
        let mut first = true;
        let mut next = |printer: &mut Self| {
            if first {
                printer.line();
                printer.put("<");
            } else {
                printer.put(",");
                printer.line();
                printer.put(" ");
            }
            first = false;
        };
        for item in &graph.value_info {
            next(self);
            self.value_info(item);
        }
        for tensor in &graph.initializers {
            next(self);
            self.stored_tensor(tensor);
        }
        for tensor in &graph.sparse_initializers {
            next(self);
            self.sparse_tensor(tensor);
        }
        if !first {
            self.put(">");
        }
        self.indent -= 1;
        if depth == 0 {
            self.line();
        } else {
            self.put(" ");
        }
        self.put("{");
        self.indent += 1;
        self.pragma("graph", &graph.metadata);
        self.indent -= 1;
        if depth <= MAX_GRAPH_DEPTH {
            self.nodes(&graph.nodes, depth);
        }
        self.line();
        self.put("}");
    }

    fn nodes(&mut self, nodes: &[NodeDef], depth: usize) {
        self.indent += 1;
        for node in nodes {
            self.pragma("node", &node.metadata);
            self.line();
            self.node(node, depth);
        }
        self.indent -= 1;
    }

    fn node(&mut self, node: &NodeDef, depth: usize) {
        self.begin(node.span);
        if !node.name.is_empty() {
            self.put("[");
            self.name(&node.name);
            self.put("] ");
        }
        self.names(&node.outputs);
        self.put(" = ");
        if !node.domain.is_empty() {
            if node.domain.split('.').all(is_identifier) {
                self.put(&node.domain);
            } else {
                self.quoted(&node.domain, self.excerpt);
            }
            self.put(".");
        }
        self.identifier(&node.op_type);
        if !node.overload.is_empty() {
            self.put(":");
            self.identifier(&node.overload);
        }
        let break_lines = self.options.break_long_nodes && !self.excerpt && is_long(node);
        if break_lines {
            self.indent += 1;
        }
        self.put(if node.attributes.is_empty() { " (" } else { " <" });
        if break_lines {
            self.line();
        }
        if !node.attributes.is_empty() {
            self.separated(&node.attributes, ", ", |printer, attribute| printer.attribute(attribute, depth));
            self.put(">");
            if break_lines {
                self.line();
                self.put("(");
            } else {
                self.put(" (");
            }
        }
        self.names(&node.inputs);
        // A comma at the end is passed over, an empty string is not.
        self.put(")");
        if break_lines {
            self.indent -= 1;
        }
    }

    /// A word where no type may stand: only what is no identifier is quoted.
    fn identifier(&mut self, word: &str) {
        if self.writes() && is_identifier(word) {
            self.put(word);
        } else {
            self.quoted(word, self.excerpt);
        }
    }

    fn attribute(&mut self, attribute: &AttributeDef, depth: usize) {
        self.identifier(&attribute.name);
        self.attribute_value(&attribute.value, depth);
    }

    fn value_info(&mut self, item: &ValueInfo) {
        self.begin(item.span);
        if let Some(ty) = &item.ty {
            self.type_def(ty, 0);
            self.put(" ");
        }
        self.name(&item.name);
    }

    pub(super) fn type_def(&mut self, ty: &TypeDef, depth: usize) {
        if depth >= MAX_TYPE_DEPTH {
            self.put("undefined");
            return;
        }
        match ty {
            TypeDef::Tensor(tensor) => self.tensor_type(tensor),
            TypeDef::SparseTensor(tensor) => {
                self.put("sparse_tensor(");
                self.tensor_type(tensor);
                self.put(")");
            }
            TypeDef::Sequence(inner) => self.constructed("seq(", inner, depth),
            TypeDef::Optional(inner) => self.constructed("optional(", inner, depth),
            TypeDef::Map(key, value) => {
                let key = key.map_or("undefined", ElementType::name);
                self.constructed(&format!("map({key}, "), value, depth);
            }
            TypeDef::Opaque => self.put("opaque()"),
        }
    }

    fn constructed(&mut self, head: &str, inner: &TypeDef, depth: usize) {
        self.put(head);
        self.type_def(inner, depth + 1);
        self.put(")");
    }

    fn tensor_type(&mut self, tensor: &TensorTypeDef) {
        self.put(tensor.element.map_or("undefined", ElementType::name));
        match tensor.shape.as_deref() {
            None => self.put("[]"),
            Some([]) => {}
            Some(dims) => {
                self.put("[");
                self.separated(dims, ", ", |printer, dim| match dim {
                    DimDef::Value(value) => printer.show(value),
                    DimDef::Param(name) => printer.identifier(name),
                    DimDef::Unknown => printer.put("?"),
                });
                self.put("]");
            }
        }
    }
}
