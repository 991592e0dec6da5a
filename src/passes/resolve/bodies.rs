//! Standard operators that have no rule: they are defined by others, and their definition takes the place of a call as
//! the body of a function would.

use std::sync::OnceLock;

use super::header::standard;
use crate::frontend::onnx::model::FunctionDef;
use crate::frontend::onnx_text::parse;

/// Bodies as ONNX text, made from the package that defines the operators.
const TEXT: &str = include_str!("bodies.onnxtxt");

fn bodies() -> &'static [FunctionDef] {
    static BODIES: OnceLock<Vec<FunctionDef>> = OnceLock::new();
    BODIES.get_or_init(|| parse(TEXT).0.functions)
}

/// Bodies of an operator, one for each version that changed it.
fn of<'a>(domain: &'a str, name: &'a str) -> impl Iterator<Item = &'static FunctionDef> + 'a {
    bodies().iter().filter(move |body| standard(&body.domain) == domain && *body.name == *name)
}

/// The version of its domain's operator set for which a body was written.
fn version(body: &FunctionDef) -> i64 {
    let own = body.opset_imports.iter().find(|import| standard(&import.domain) == standard(&body.domain));
    own.map_or(1, |import| import.version)
}

/// The body of an operator that is in force in a version of its domain's operator set.
pub(super) fn find(domain: &str, name: &str, opset: i64) -> Option<&'static FunctionDef> {
    of(domain, name).filter(|body| version(body) <= opset).max_by_key(|body| version(body))
}

/// Names of the operators of a domain that have a body.
pub(super) fn names_of(domain: &str) -> impl Iterator<Item = &'static str> {
    bodies().iter().filter(move |body| standard(&body.domain) == domain).map(|body| &*body.name)
}

/// Whether an operator has a body that stands in for a rule. `ai.onnx` is the empty domain.
#[must_use]
pub fn has_body(domain: &str, name: &str) -> bool {
    of(standard(domain), name).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::resolve::resolve;

    #[test]
    fn the_bodies_can_be_read() {
        let (_, errors) = parse(TEXT);
        assert!(errors.is_empty(), "{errors:?}");
        assert!(bodies().iter().all(|body| !body.nodes.is_empty() && !body.opset_imports.is_empty()));
    }

    #[test]
    fn a_body_is_in_force_from_its_version_on() {
        assert!(find("", "SwiGLU", 27).is_none());
        assert!(find("", "SwiGLU", 28).is_some());
    }

    #[test]
    fn a_call_becomes_the_nodes_of_the_body() {
        let text = r#"<ir_version: 13, opset_import: ["" : 28]>
g (float[2, 8] a, float[2, 8] b) => (float[2, 8] y) { y = SwiGLU <alpha = 1.5> (a, b) }"#;
        let (model, errors) = parse(text);
        assert!(errors.is_empty(), "{errors:?}");
        let (program, diagnostics) = resolve(&model, Default::default());
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        let ops: Vec<_> = program.nodes().map(|(_, _, node)| &*node.op).collect();
        assert_eq!(ops, ["Swish", "Mul"]);
    }
}
