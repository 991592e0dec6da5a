//! The command line: one file per command. Parsing, output and exit status; what is computed lies elsewhere.
//!
//! Exit status: 0 done, 1 a diagnostic at level error, 2 the command could not be carried out. Never anything else.

mod annotate;
mod arguments;
mod check;
mod compare;
mod completions;
mod configs;
mod devices;
mod explain;
mod init;
mod input;
mod jobs;
mod man;
mod output;
mod refused;
mod schema;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Cost of neural-network model files before anything runs: time and memory on a GPU, shapes, parameters, MACs, FLOPs and
/// bytes, with the diagnostics of a compiler. Models are never run and no GPU is needed
#[derive(Debug, Parser)]
#[command(name = "dlcost", version, arg_required_else_help = true, disable_help_subcommand = true)]
#[command(after_help = "Exit status: 0 done; 1 at least one diagnostic at level error; 2 the command could not be \
    carried out (usage, missing or unreadable path, broken configuration).")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(Box<check::Arguments>),
    Annotate(Box<annotate::Arguments>),
    Compare(Box<compare::Arguments>),
    Devices(devices::Arguments),
    Explain(explain::Arguments),
    Init(init::Arguments),
    Schema(schema::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// The command could not be carried out; the text says why, and is empty where that was said already.
#[derive(Debug)]
struct Failure(String);

impl Failure {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The exit status of a command that could not be carried out.
const COULD_NOT: u8 = 2;

/// Runs the program with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    jobs::catch_panics_quietly();
    match jobs::guard(|| run(std::env::args_os().collect())) {
        Ok(Ok(code)) => code,
        Ok(Err(Failure(message))) => {
            if !message.is_empty() {
                output::note(&format!("error: {message}"));
            }
            ExitCode::from(COULD_NOT)
        }
        Err(panic) => {
            output::note(&panic.describe("dlcost"));
            ExitCode::from(COULD_NOT)
        }
    }
}

fn run(arguments: Vec<OsString>) -> Result<ExitCode, Failure> {
    refused::refuse(&arguments)?;
    let parsed = Cli::command().try_get_matches_from(arguments);
    let parsed = parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        // Help and version come this way as well; clap knows the status and the stream of each.
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(COULD_NOT);
            // A closed pipe is no reason to complain.
            let _ = error.print();
            return Ok(ExitCode::from(code));
        }
    };
    let levels_of = |command| matches.subcommand_matches(command).map(arguments::levels).unwrap_or_default();
    match cli.command {
        Command::Check(arguments) => check::run(*arguments, levels_of("check")),
        Command::Annotate(arguments) => annotate::run(&arguments, &levels_of("annotate")),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Devices(arguments) => devices::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Init(arguments) => init::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => man::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
