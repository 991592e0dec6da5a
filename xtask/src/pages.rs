//! Pages under `docs/` that are made from tables of the program.

use std::fmt::Write;

use dlcost::diagnostics::Code;
use dlcost::ops::table::{ENTRIES, Entry};

const NOTE: &str = "<!-- Made by `cargo xtask tidy`; do not edit. -->";

/// Groups of codes: prefix of the number and what they are about.
const GROUPS: [(&str, &str); 10] = [
    ("DL00", "The program itself"),
    ("DL01", "Reading files"),
    ("DL02", "Graph and resolution"),
    ("DL03", "Shapes and types"),
    ("DL04", "Cost"),
    ("DL05", "Memory"),
    ("DL06", "Replicas"),
    ("DL07", "Device and precision"),
    ("DL08", "Budgets"),
    ("DL09", "Configuration"),
];

/// `docs/diagnostics.md`: every code with its level and what it says.
pub(crate) fn diagnostics() -> String {
    let mut page = format!(
        "{NOTE}\n\n# Diagnostics\n\nEach code keeps its meaning for good. `dlcost explain CODE` (or the name) says more: what it \
         means, why it matters, an\nexample and the fix. Levels can be changed with `--allow`, `--warn` and `--deny`, and under \
         `[levels]` in `dlcost.toml`;\n`DL03xx` names a whole group.\n"
    );
    for (prefix, about) in GROUPS {
        let codes: Vec<&Code> = Code::ALL.iter().filter(|code| code.number().starts_with(prefix)).collect();
        if codes.is_empty() {
            continue;
        }
        let _ = write!(page, "\n## {prefix}xx: {about}\n\n| code | name | level | says |\n|---|---|---|---|\n");
        for code in codes {
            let (number, name, level) = (code.number(), code.name(), code.default_level());
            let _ = writeln!(page, "| {number} | `{name}` | {level} | {} |", code.summary());
        }
    }
    page
}

/// `docs/operators.md`: every operator that has a rule.
pub(crate) fn operators() -> String {
    let mut page = format!(
        "{NOTE}\n\n# Operators\n\n{} operators have a rule for shapes and costs. Others are named by DL0214 where the standard knows \
         them, and their\noutputs are known only where the file declares them. Model-local functions need no rule: they are \
         inlined.\n",
        ENTRIES.len()
    );
    let mut domains: Vec<&str> = ENTRIES.iter().map(|entry| entry.domain).collect();
    domains.dedup();
    for domain in domains {
        let title = if domain.is_empty() { "ai.onnx" } else { domain };
        let _ = write!(page, "\n## {title}\n\n| operator | inputs | outputs | |\n|---|---|---|---|\n");
        for entry in ENTRIES.iter().filter(|entry| entry.domain == domain) {
            let outputs = range(usize::from(entry.max_outputs > 0), entry.max_outputs);
            let inputs = range(entry.min_inputs, entry.max_inputs);
            let _ = writeln!(page, "| {} | {inputs} | {outputs} | {} |", entry.name, withdrawn(entry));
        }
    }
    page
}

fn range(least: usize, most: usize) -> String {
    match most {
        usize::MAX => format!("{least} or more"),
        _ if least == most => least.to_string(),
        _ => format!("{least} to {most}"),
    }
}

fn withdrawn(entry: &Entry) -> String {
    if entry.withdrawn == i64::MAX { String::new() } else { format!("withdrawn in {}", entry.withdrawn) }
}
