//! `cargo xtask tidy`: what must hold before anything else is looked at. Without `--check` it repairs what it can.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::{Outcome, generate, pages, root};

/// Longest line of a table in TOML: beyond it nobody sees what a row says.
const TOML_COLUMNS: usize = 160;

/// Largest file under version control, but for predictors.
const FILE_BYTES: u64 = 1_500_000;

/// Most bytes of all predictors together: they are built into the program.
const PREDICTOR_BYTES: u64 = 16_000_000;

/// Marks of code that is not written yet. Split, so that this file does not hold them.
const UNWRITTEN: [&str; 2] = [concat!("todo", "!("), concat!("unimplemented", "!(")];

/// Formatting, lints, generated files, and rules on files.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Change nothing; fail where something is not as it should be
    #[arg(long)]
    check: bool,
}

/// Runs the chore.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let root = root();
    let mut sound = true;
    for (path, content) in generated(&root)? {
        sound &= keep_current(&path, &content, arguments.check)?;
    }
    let format: &[&str] = if arguments.check { &["fmt", "--all", "--check"] } else { &["fmt", "--all"] };
    sound &= cargo(format)?;
    sound &= rules_on_files(&root)?;
    let mut clippy = vec!["clippy", "--quiet", "--workspace", "--all-targets"];
    if arguments.check {
        clippy.extend(["--", "-D", "warnings"]);
    }
    sound &= cargo(&clippy)?;
    Ok(sound)
}

/// Files that are made from others, with what they should hold.
fn generated(root: &Path) -> Result<[(PathBuf, String); 4], Box<dyn Error>> {
    Ok([
        (root.join("src/frontend/onnx/proto.rs"), generate::onnx_proto(&root.join("grammar/onnx.proto"))?),
        (root.join("docs/diagnostics.md"), pages::diagnostics()),
        (root.join("docs/operators.md"), pages::operators()),
        (root.join("docs/devices.md"), pages::devices()),
    ])
}

fn keep_current(path: &Path, content: &str, check: bool) -> Outcome {
    if fs::read_to_string(path).is_ok_and(|text| text == content) {
        return Ok(true);
    }
    if check {
        println!("{}: not current; run cargo xtask tidy", path.display());
        return Ok(false);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)?;
    println!("{}: written", path.display());
    Ok(true)
}

fn cargo(arguments: &[&str]) -> Outcome {
    println!("cargo {}", arguments.join(" "));
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    Ok(Command::new(program).args(arguments).current_dir(root()).status()?.success())
}

/// Sizes, long lines and unwritten code in the files under version control, or those that would come under it.
fn rules_on_files(root: &Path) -> Outcome {
    let mut sound = true;
    let mut complain = |path: &str, what: &str| {
        println!("{path}: {what}");
        sound = false;
    };
    let mut predictors = 0;
    for path in files(root)? {
        let Ok(metadata) = fs::metadata(root.join(&path)) else { continue };
        if path.starts_with("predictors/") && path.ends_with(".bin") {
            predictors += metadata.len();
            if predictors > PREDICTOR_BYTES {
                complain(&path, &format!("predictors have more than {PREDICTOR_BYTES} bytes together"));
            }
            continue;
        }
        if metadata.len() > FILE_BYTES {
            complain(&path, &format!("{} bytes; at most {FILE_BYTES} belong under version control", metadata.len()));
            continue;
        }
        let (rust, toml) = (path.ends_with(".rs"), path.ends_with(".toml"));
        if !rust && !toml {
            continue;
        }
        for (number, line) in fs::read_to_string(root.join(&path))?.lines().enumerate() {
            if toml && line.chars().count() > TOML_COLUMNS {
                complain(&format!("{path}:{}", number + 1), &format!("more than {TOML_COLUMNS} columns"));
            }
            if rust && UNWRITTEN.iter().any(|mark| line.contains(mark)) {
                complain(&format!("{path}:{}", number + 1), "code that is not written yet");
            }
        }
    }
    Ok(sound)
}

fn files(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(arguments).current_dir(root).output()?;
    if !output.status.success() {
        return Err("git ls-files failed".into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}
