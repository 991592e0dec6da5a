//! What a check has to do: the files with their options, and how to write the report.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::thread;

use super::Arguments;
use crate::cli::configs::{Configs, targets};
use crate::cli::input::{read_stdin, refuse_to_overwrite};
use crate::cli::{Failure, output};
use crate::config::OutputSettings;
use crate::engine::{CheckOptions, Input, LevelRule};
use crate::options::{ColorChoice, Emit, Format};
use crate::walk;

/// Rows in the table of layers where nothing else is said.
const TOP: usize = 10;

/// A file to check.
pub(super) struct Job {
    pub(super) input: Input,
    /// The path as the report shows it.
    pub(super) shown: String,
    /// Options of each target, at least one.
    pub(super) targets: Vec<CheckOptions>,
}

/// All that is to be done.
pub(super) struct Plan {
    pub(super) jobs: Vec<Job>,
    /// What could not be found or read so far.
    pub(super) problems: Vec<String>,
    pub(super) threads: usize,
    pub(super) format: Format,
    pub(super) color: ColorChoice,
    pub(super) emit: Emit,
    pub(super) top: usize,
    pub(super) quiet: bool,
}

impl Plan {
    pub(super) fn new(arguments: &Arguments, levels: Vec<LevelRule>) -> Result<Self, Failure> {
        refuse_form_of_stage(arguments)?;
        let mut configs = Configs::new(&arguments.config)?;
        let here = configs.of_working_folder()?;
        let output = arguments.output_settings();
        let from_file = here.as_ref().map_or_else(OutputSettings::default, |config| config.output.clone());
        let verbose = output.verbose.or(from_file.verbose).unwrap_or_default();

        let (files, problems) = find(&arguments.paths)?;
        if let Some(report) = &arguments.output {
            refuse_to_overwrite(report, files.iter().filter_map(|file| file.path.as_deref()))?;
        }
        let settings = arguments.settings();
        let mut jobs = Vec::new();
        for file in files {
            let (config, input) = match &file.path {
                Some(path) => (configs.of_file(path)?, Input::Path(path.clone())),
                None => (here.clone(), Input::Stdin(read_stdin()?)),
            };
            if verbose {
                let from =
                    config.as_ref().map_or_else(String::new, |config| format!(" with {}", config.path.display()));
                output::note(&format!("checking {}{from}", file.shown));
            }
            let targets = targets(&settings, &levels, config.as_deref())?;
            jobs.push(Job { input, shown: file.shown, targets });
        }
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            jobs,
            problems,
            threads: output.jobs.or(from_file.jobs).unwrap_or(cores),
            format: output.format.or(from_file.format).unwrap_or_default(),
            color: output.color.or(from_file.color).unwrap_or_default(),
            emit: arguments.emit.unwrap_or_default(),
            top: output.top.or(from_file.top).unwrap_or(TOP),
            quiet: output.quiet.or(from_file.quiet).unwrap_or_default(),
        })
    }
}

/// Stages are printed as text only.
fn refuse_form_of_stage(arguments: &Arguments) -> Result<(), Failure> {
    let stage = arguments.emit.unwrap_or_default();
    let form = arguments.format.unwrap_or_default();
    if stage != Emit::Report && form != Format::Human {
        return Err(Failure::new(
            "--emit prints a stage as text; the report has the same with --format json: types with --tensors, figures in layers",
        ));
    }
    Ok(())
}

/// A file that was found; standard input has no path.
struct File {
    path: Option<PathBuf>,
    shown: String,
}

/// The files of the command line, folders searched, in the order in which they are named; what cannot be found is a
/// problem and hinders no other file.
fn find(paths: &[PathBuf]) -> Result<(Vec<File>, Vec<String>), Failure> {
    let mut files = Vec::new();
    let mut problems = Vec::new();
    let mut seen = HashSet::new();
    for path in paths {
        if path == Path::new("-") {
            if !seen.insert(path.clone()) {
                return Err(Failure::new("standard input (-) can be read only once"));
            }
            files.push(File { path: None, shown: "-".to_owned() });
        } else if path.is_dir() {
            let found = walk::models_in(path);
            problems.extend(found.problems.iter().map(|problem| format!("error: {problem}")));
            if found.files.is_empty() && found.problems.is_empty() {
                problems.push(format!(
                    "error: {} holds no model (.onnx .onnxtxt .keras .h5 .hdf5 or .json of Keras; hidden and ignored files are skipped)",
                    path.display()
                ));
            }
            // A file that was named before its folder is not reported twice.
            let new = found.files.into_iter().filter(|file| seen.insert(file.clone()));
            files.extend(new.map(|file| File { shown: file.to_string_lossy().into_owned(), path: Some(file) }));
        } else {
            seen.insert(path.clone());
            files.push(File { shown: path.to_string_lossy().into_owned(), path: Some(path.clone()) });
        }
    }
    Ok((files, problems))
}
