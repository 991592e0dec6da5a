//! Chores that need heavy crates. The light build, which `cargo xtask` makes, knows them by name only and runs the
//! package again, optimised and with the feature that holds them.

use std::env;
use std::ffi::OsString;
use std::process::{Command, exit};

use crate::{Outcome, root};

/// Options of the chore; `--help` lists them.
#[cfg(not(feature = "train"))]
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

/// Runs a chore in the build that has it, and ends with its exit status.
#[cfg(not(feature = "train"))]
pub(crate) fn run(chore: &str, arguments: &Arguments) -> Outcome {
    build_and_run("train", [OsString::from(chore)].iter().chain(&arguments.arguments))
}

/// Runs this very command in the build with a feature, and ends with its exit status.
#[cfg(not(all(feature = "tract", feature = "contest")))]
pub(crate) fn again(feature: &str) -> Outcome {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    build_and_run(feature, arguments.iter())
}

fn build_and_run<'a>(feature: &str, arguments: impl Iterator<Item = &'a OsString>) -> Outcome {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(program)
        .args(["run", "--quiet", "--release", "--package", "xtask", "--features", feature, "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .arg("--")
        .args(arguments)
        .status()?;
    exit(status.code().unwrap_or(2));
}
