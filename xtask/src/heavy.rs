//! Chores that need heavy crates. The light build, which `cargo xtask` makes, knows them by name only and runs the
//! package again, optimised and with the feature that holds them.

use std::env;
use std::ffi::OsString;
use std::process::{Command, exit};

use crate::{Outcome, root};

/// Options of the chore; `--help` lists them.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

/// Runs a chore in the build that has it, and ends with its exit status.
pub(crate) fn run(chore: &str, arguments: &Arguments) -> Outcome {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(program)
        .args(["run", "--quiet", "--release", "--package", "xtask", "--features", "train", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .args(["--", chore])
        .args(&arguments.arguments)
        .status()?;
    exit(status.code().unwrap_or(2));
}
