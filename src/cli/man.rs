//! `dlcost man`: manual pages.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_mangen::Man;

use super::{Cli, Failure, output};
use crate::diagnostics::selector::nearest;

/// Print the manual page of dlcost, or of one of its commands, in roff.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The command whose page is wanted.
    command: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut cli = Cli::command();
    cli.build();
    let page = match &arguments.command {
        None => Man::new(cli),
        Some(name) => match cli.find_subcommand(name) {
            Some(command) => Man::new(command.clone()),
            None => {
                let names: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
                let nearest = nearest(name, names.iter().copied());
                let names = if nearest.is_empty() { names } else { nearest };
                return Err(Failure::new(format!("no command is called '{name}'; nearest: {}", names.join(", "))));
            }
        },
    };
    output::to_stdout(|out| page.render(&mut *out))?;
    Ok(ExitCode::SUCCESS)
}
