//! `dlcost init`: a commented configuration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{Failure, output};
use crate::config::{FILE_NAME, TEMPLATE};

/// Write a commented dlcost.toml.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The folder to write it to.
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Replace a file that is there.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let path =
        if arguments.folder == Path::new(".") { PathBuf::from(FILE_NAME) } else { arguments.folder.join(FILE_NAME) };
    if !arguments.force && path.symlink_metadata().is_ok() {
        return Err(Failure::new(format!("{} exists already; --force replaces it", path.display())));
    }
    output::to_file(&path, |out| out.write_all(TEMPLATE.as_bytes()))?;
    output::note(&format!("wrote {}", path.display()));
    Ok(ExitCode::SUCCESS)
}
