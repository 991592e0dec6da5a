//! Writes models in the textual syntax. What is written is read back to the same tree, and the official parser reads
//! it wherever its syntax can say it; `grammar/onnx_text.md` lists what it cannot.

use std::fmt::Write;

use super::lexer::{PRAGMA, is_identifier};
use super::{MAX_GRAPH_DEPTH, MAX_TYPE_DEPTH};
use crate::frontend::onnx::model::{
    AttributeDef, DimDef, FunctionDef, GraphDef, Model, Name, NodeDef, OpsetImport, TensorTypeDef, TypeDef, ValueInfo,
};
use crate::ir::element_type::ElementType;

/// How much is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintOptions {
    /// Payloads of more elements are left out, as in a file that was stripped of its weights; in an excerpt, lists of
    /// more values are cut short.
    pub max_elements: usize,
    /// Writes metadata of graphs and nodes, as comments that only our parser reads.
    pub metadata: bool,
}

impl Default for PrintOptions {
    /// Everything.
    fn default() -> Self {
        Self { max_elements: usize::MAX, metadata: true }
    }
}

/// The model as text that can be read back.
#[must_use]
pub fn print_model(model: &Model, options: &PrintOptions) -> String {
    let mut printer = Printer { out: String::new(), options, excerpt: false, indent: 0 };
    printer.model(model);
    printer.out
}

/// The node on one line, to be looked at: long lists are cut with `...` and subgraphs are left out.
#[must_use]
pub fn print_node(node: &NodeDef, options: &PrintOptions) -> String {
    let mut printer = Printer { out: String::new(), options, excerpt: true, indent: 0 };
    printer.node(node, 0);
    printer.out
}

pub(super) struct Printer<'a> {
    pub(super) out: String,
    pub(super) options: &'a PrintOptions,
    /// One line for the eye.
    pub(super) excerpt: bool,
    indent: usize,
}

/// Words that begin a type and so are no name where a type may stand, and words that are numbers.
fn is_reserved(name: &str) -> bool {
    ElementType::from_name(name).is_some()
        || matches!(name, "undefined" | "seq" | "optional" | "map" | "sparse_tensor" | "opaque")
        || ["inf", "infinity", "nan"].iter().any(|word| name.eq_ignore_ascii_case(word))
}

impl Printer<'_> {
    pub(super) fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Writes anything that displays; writing to a string does not fail.
    pub(super) fn show(&mut self, value: impl std::fmt::Display) {
        let _ = write!(self.out, "{value}");
    }

    pub(super) fn separated<T>(&mut self, items: &[T], separator: &str, mut each: impl FnMut(&mut Self, &T)) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.put(separator);
            }
            each(self, item);
        }
    }

    fn line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.indent {
            self.out.push_str("   ");
        }
    }

    /// A string in quotes. The syntax has no escape for a line break, so one is written as it is; where the text must
    /// stay on one line it becomes `\n`.
    pub(super) fn quoted(&mut self, text: &str, one_line: bool) {
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
        if is_identifier(name) && !is_reserved(name) {
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
            self.put("\n>\n");
        }
        self.graph(&model.graph, 0);
        self.put("\n");
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
        if self.options.metadata && !metadata.is_empty() {
            self.line();
            self.put(PRAGMA);
            self.put(word);
            self.put(" ");
            self.pairs(metadata, true);
        }
    }

    fn function(&mut self, function: &FunctionDef) {
        self.put("<\n   domain: ");
        self.quoted(&function.domain, false);
        if !function.overload.is_empty() {
            self.put(",\n   overload: ");
            self.quoted(&function.overload, false);
        }
        self.put(",\n   opset_import: ");
        self.opset_imports(&function.opset_imports);
        self.put("\n>\n");
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
        if !function.value_info.is_empty() {
            self.put("\n   <");
            self.separated(&function.value_info, ",\n    ", Self::value_info);
            self.put(">");
        }
        self.put("\n{");
        self.nodes(&function.nodes, 0);
        self.put("\n}\n");
    }

    /// A graph; `depth` counts the graphs around it.
    pub(super) fn graph(&mut self, graph: &GraphDef, depth: usize) {
        self.name(&graph.name);
        self.put(" (");
        self.separated(&graph.inputs, ", ", Self::value_info);
        self.put(") => (");
        self.separated(&graph.outputs, ", ", Self::value_info);
        self.put(")");
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
        if !node.attributes.is_empty() {
            self.put(" <");
            self.separated(&node.attributes, ", ", |printer, attribute| printer.attribute(attribute, depth));
            self.put(">");
        }
        self.put(" (");
        self.names(&node.inputs);
        // A comma at the end is passed over, an empty string is not.
        self.put(")");
    }

    /// A word where no type may stand: only what is no identifier is quoted.
    fn identifier(&mut self, word: &str) {
        if is_identifier(word) {
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
