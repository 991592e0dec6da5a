//! The header of a model: format version and operator sets.

use crate::diagnostics::{Code, Diagnostic};
use crate::frontend::onnx::model::{Model, OpsetImport};
use crate::ir::hash::HashMap;

/// Versions of the operator sets in force, by domain; the standard domain is the empty one.
pub(super) type Opsets = HashMap<String, i64>;

/// Newest format version that is known.
pub(super) const NEWEST_IR: i64 = 14;

/// Newest version of the standard operator set that is known.
pub(super) const NEWEST_OPSET: i64 = 28;

/// `ai.onnx` is another word for the standard domain.
pub(super) fn standard(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Reads and checks what a model imports.
pub(super) fn read_imports(model: &Model, diagnostics: &mut Vec<Diagnostic>) -> Opsets {
    let version = model.ir_version.unwrap_or(0);
    if version > NEWEST_IR {
        let message = format!(
            "the file has format version (ir_version) {version}, the newest known is {NEWEST_IR}; what is known is read"
        );
        diagnostics.push(Diagnostic::new(Code::NewerIrVersion, message));
    }
    let mut opsets = collect(&model.opset_imports, diagnostics);
    if opsets.get("").is_some_and(|&opset| opset > NEWEST_OPSET) {
        let opset = opsets.get("").copied().unwrap_or_default();
        let message =
            format!("the model imports operator set {opset}, the newest known is {NEWEST_OPSET}; its rules are used");
        diagnostics.push(Diagnostic::new(Code::NewerOpset, message));
        opsets.insert(String::new(), NEWEST_OPSET);
    }
    let uses_standard = model.graph.nodes.iter().any(|node| standard(&node.domain).is_empty());
    if !opsets.contains_key("") {
        if version >= 3 && uses_standard {
            let message = format!(
                "the model has format version {version} and uses standard operators, but imports no operator set for them"
            );
            let help = format!("add an opset_import of the domain \"\"; operator set {NEWEST_OPSET} is used here");
            diagnostics.push(Diagnostic::new(Code::MissingOpsetImport, message).help(help));
        }
        // Before IR version 3 there was one operator set.
        opsets.insert(String::new(), if version >= 3 { NEWEST_OPSET } else { 1 });
    }
    opsets
}

/// The operator sets of a list of imports.
pub(super) fn collect(imports: &[OpsetImport], diagnostics: &mut Vec<Diagnostic>) -> Opsets {
    let mut opsets = Opsets::default();
    for import in imports {
        let domain = standard(&import.domain);
        match opsets.get(domain) {
            Some(&first) if first != import.version => {
                let shown = if domain.is_empty() { "ai.onnx" } else { domain };
                let message =
                    format!("domain {shown} is imported in version {first} and in version {}", import.version);
                diagnostics.push(Diagnostic::new(Code::ConflictingOpsetImports, message));
            }
            Some(_) => {}
            None => {
                opsets.insert(domain.to_owned(), import.version);
            }
        }
    }
    opsets
}
