//! The textual syntax of ONNX: a parser that goes on after errors, and a printer that writes what the parser reads.
//! `grammar/onnx_text.md` describes what is read.

mod elements;
mod layout;
mod lexer;
mod parser;
mod print_values;
mod printer;
mod recover;
mod types;
mod values;

pub use layout::{Layout, Lines};
pub use parser::{SyntaxError, parse};
pub use printer::{PrintOptions, layout, print_model, print_node};

/// Graphs may be nested this deep; deeper ones are refused by the parser and left out by the printer.
const MAX_GRAPH_DEPTH: usize = 32;

/// Types may be nested this deep.
const MAX_TYPE_DEPTH: usize = 64;

/// Words of `AttributeProto.AttributeType` and their numbers.
const ATTRIBUTE_KINDS: [(&str, i32); 15] = [
    ("undefined", 0),
    ("float", 1),
    ("int", 2),
    ("string", 3),
    ("tensor", 4),
    ("graph", 5),
    ("floats", 6),
    ("ints", 7),
    ("strings", 8),
    ("tensors", 9),
    ("graphs", 10),
    ("sparse_tensor", 11),
    ("sparse_tensors", 12),
    ("type_proto", 13),
    ("type_protos", 14),
];

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests;
