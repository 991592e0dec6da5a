//! The table of operators: which names of which domain and version make which operator.

use super::{Fault, NodeView, Operator};

/// What a builder gives.
pub type Built = Result<Box<dyn Operator>, Fault>;

/// A line of the table.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// Operator name.
    pub name: &'static str,
    /// Fewest inputs.
    pub min_inputs: usize,
    /// Most inputs.
    pub max_inputs: usize,
    /// Most outputs.
    pub max_outputs: usize,
    /// Version of the operator set that withdrew the operator; `i64::MAX` for those in force.
    pub withdrawn: i64,
    /// Makes the operator from a node.
    pub build: fn(&NodeView<'_>) -> Built,
}

/// Any number.
const MANY: usize = usize::MAX;

const fn onnx(
    name: &'static str,
    inputs: [usize; 2],
    max_outputs: usize,
    build: fn(&NodeView<'_>) -> Built,
) -> Entry {
    Entry { domain: "", name, min_inputs: inputs[0], max_inputs: inputs[1], max_outputs, withdrawn: i64::MAX, build }
}

/// Every operator with a rule, sorted by domain and name.
pub const ENTRIES: &[Entry] = &[];

/// The line for an operator. `ai.onnx` is the empty domain.
#[must_use]
pub fn find(domain: &str, name: &str) -> Option<&'static Entry> {
    let domain = if domain == "ai.onnx" { "" } else { domain };
    ENTRIES.iter().find(|entry| entry.domain == domain && entry.name == name)
}
