//! `dlcost completions`: a script for a shell.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Failure, output};

/// Print a script that completes commands and options in a shell.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The shell.
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    // The generator ends the program when writing fails, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "dlcost", &mut script);
    output::to_stdout(|out| out.write_all(&script))?;
    Ok(ExitCode::SUCCESS)
}
