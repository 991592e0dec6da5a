//! `dlcost explain`: the page of a diagnostic, or what a key of the JSON report means.

use std::process::ExitCode;

use super::{Failure, output};
use crate::diagnostics::Code;
use crate::diagnostics::selector::nearest;
use crate::render::wrapped;
use crate::report::schema;

/// Explain a diagnostic or a key of the JSON report.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A code (DL0204), the name of a diagnostic (undefined-tensor), or the path of a key (graph.macs).
    #[arg(value_name = "CODE|KEY")]
    subject: String,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let page = page(&arguments.subject)?;
    output::to_stdout(|out| out.write_all(page.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

fn page(subject: &str) -> Result<String, Failure> {
    let subject = subject.trim();
    let code = Code::find(subject).or_else(|| Code::find(&subject.to_lowercase()));
    if let Some(code) = code {
        let page = code.page().trim_end();
        return Ok(format!(
            "{page}\n\nDefault level: {}. Change it with --allow, --warn or --deny {}, or under [levels] of dlcost.toml.\n",
            code.default_level(),
            code.name()
        ));
    }
    if let Some(key) = schema::explain(subject) {
        return Ok(wrapped(&key));
    }
    let keys = schema::keys();
    let codes = Code::ALL.iter().flat_map(|code| [code.number(), code.name()]);
    let nearest = nearest(subject, codes.chain(keys.iter().map(String::as_str)));
    Err(Failure::new(if nearest.is_empty() {
        format!("nothing is called '{subject}'; give a code (DL0204), a name (undefined-tensor) or a key (graph.macs)")
    } else {
        format!("nothing is called '{subject}'; nearest: {}", nearest.join(", "))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_names_and_keys_have_pages() {
        for subject in ["DL0204", "dl0204", "undefined-tensor", "Undefined-Tensor"] {
            assert!(page(subject).unwrap().starts_with("# DL0204 undefined-tensor"), "{subject}");
        }
        assert!(page("graph.macs").unwrap().contains("multiply"));
        assert!(page("undefined-tenser").unwrap_err().0.contains("nearest: undefined-tensor"));
        assert!(page("graph.mac").unwrap_err().0.contains("graph.macs"));
    }
}
