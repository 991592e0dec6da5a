//! What the `onnx` package says of its operators: the list in `xtask/standard_operators.csv`, and the bodies of those
//! that are defined by other operators and have no rule of their own, in `src/passes/resolve/bodies.onnxtxt`.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use dlcost::ops::table;

use crate::{Outcome, python, root};

/// Prints a line for each operator: domain, name, versions, and those versions that are defined by other operators.
const LIST: &str = r#"
import onnx.defs
operators = {}
for schema in onnx.defs.get_all_schemas_with_history():
    operators.setdefault((schema.domain or "ai.onnx", schema.name), []).append(schema)
print("domain,operator,versions,defined")
for (domain, name), schemas in sorted(operators.items()):
    schemas.sort(key=lambda schema: schema.since_version)
    defined = [s for s in schemas if s.has_function or s.has_context_dependent_function]
    versions = lambda schemas: " ".join(str(schema.since_version) for schema in schemas)
    print(f"{domain},{name},{versions(schemas)},{versions(defined)}")
"#;

/// Prints the bodies of the operators that WANTED names, one for each version. Attributes keep their defaults.
const BODIES: &str = r#"
import onnx, onnx.defs, onnx.printer
for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda s: (s.domain, s.name, s.since_version)):
    if (schema.domain or "ai.onnx", schema.name) not in WANTED or not schema.has_function:
        continue
    body = onnx.FunctionProto()
    body.CopyFrom(schema.function_body)
    body.domain, body.name = schema.domain or "ai.onnx", schema.name
    for imported in body.opset_import:
        if (imported.domain or "ai.onnx") == body.domain:
            imported.version = schema.since_version
    formals = []
    for name in body.attribute:
        default = schema.attributes[name].default_value
        if default.type:
            kind = onnx.AttributeProto.AttributeType.Name(default.type).lower()
            value = onnx.helper.get_attribute_value(default)
            value = f'"{value.decode()}"' if isinstance(value, bytes) else str(value)
            name = f"{name}: {kind} = {value}"
        formals.append(name)
    del body.attribute[:]
    body.doc_string = ""
    for node in body.node:
        node.doc_string = ""
    text = onnx.printer.to_text(body)
    # The printer leaves defaults out.
    if formals:
        text = text.replace(f"\n{body.name} (", f"\n{body.name} <{', '.join(formals)}> (", 1)
    print(text)
"#;

/// The list as it is committed.
const COMMITTED: &str = include_str!("../standard_operators.csv");

/// An operator of the package.
pub(crate) struct Standard {
    /// Domain; empty for `ai.onnx`.
    pub(crate) domain: &'static str,
    pub(crate) name: &'static str,
    /// Versions of the domain's operator set in which it came or changed.
    pub(crate) versions: &'static str,
    /// Those of them in which it is defined by other operators.
    pub(crate) defined: &'static str,
}

/// Every operator of the package.
pub(crate) fn standard() -> impl Iterator<Item = Standard> {
    COMMITTED.lines().skip(1).filter_map(|line| {
        let mut cells = line.split(',');
        let domain = cells.next().map(|domain| if domain == "ai.onnx" { "" } else { domain })?;
        Some(Standard { domain, name: cells.next()?, versions: cells.next()?, defined: cells.next()? })
    })
}

/// Brings list and bodies up to the package's; whether they were (or are, where they may be written).
pub(crate) fn keep_current(check: bool) -> Outcome {
    let list = python::output_of(LIST, python::OPERATORS_VERSION)?;
    let mut current = keep(root().join("xtask/standard_operators.csv"), &list, check)?;
    current &= keep(root().join("src/passes/resolve/bodies.onnxtxt"), &bodies()?, check)?;
    Ok(current)
}

fn bodies() -> Result<String, Box<dyn Error>> {
    let without_rule: Vec<String> = standard()
        .filter(|operator| !operator.defined.is_empty() && table::find(operator.domain, operator.name).is_none())
        .map(|operator| {
            let domain = if operator.domain.is_empty() { "ai.onnx" } else { operator.domain };
            format!("({domain:?}, {:?})", operator.name)
        })
        .collect();
    let program = format!("WANTED = {{{}}}\n{BODIES}", without_rule.join(", "));
    let printed = python::output_of(&program, python::OPERATORS_VERSION)?;
    Ok(format!(
        "# Operators that are defined by others and have no rule of their own. Made by `cargo xtask conformance` from the\n# \
         onnx package {}; do not edit.\n<ir_version: 10>\nbodies () => () {{}}\n{printed}",
        python::OPERATORS_VERSION
    ))
}

fn keep(path: PathBuf, content: &str, check: bool) -> Outcome {
    if fs::read_to_string(&path).is_ok_and(|text| text == content) {
        return Ok(true);
    }
    if check {
        println!("{}: not current; run cargo xtask conformance", path.display());
        return Ok(false);
    }
    fs::write(&path, content)?;
    println!("{}: written", path.display());
    Ok(true)
}

#[cfg(test)]
mod tests {
    use dlcost::passes::resolve::has_body;

    use super::*;

    #[test]
    fn every_operator_of_the_package_has_a_rule_or_a_body() {
        let without: Vec<_> = standard()
            .filter(|operator| table::find(operator.domain, operator.name).is_none())
            .filter(|operator| !has_body(operator.domain, operator.name))
            .map(|operator| operator.name)
            .collect();
        assert!(standard().count() > 200);
        assert_eq!(without, [""; 0]);
    }
}
