//! Arguments of `dlcost check`.

use std::path::PathBuf;

use crate::cli::arguments::{ConfigArguments, LevelArguments, ModelArguments};
use crate::config::{OutputSettings, Settings};
use crate::options::{self, ColorChoice, Emit, Format};

/// Report time and memory of models on a GPU, their parameters, MACs, FLOPs and bytes, and what is wrong with them.
///
/// An option that is given twice counts as it is given last; those marked as repeatable add up.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Arguments {
    /// Model files, folders that are searched for them (.onnx .onnxtxt .keras .h5 .hdf5 and .json of Keras; hidden and
    /// ignored files are skipped), or - for standard input.
    #[arg(required = true, value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) model: ModelArguments,

    /// Form of the report: human, concise, json, sarif (code scanning) or github (annotations of Actions, behind the
    /// human report) [default: human]
    #[arg(long, value_name = "FORMAT", value_parser = options::format, help_heading = "Output")]
    pub(super) format: Option<Format>,

    /// File to write to instead of standard output; it is written whole or not at all
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,

    /// Rows in the table of layers [default: 10]
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub(super) top: Option<usize>,

    /// Leave out notes, and models without warnings and errors
    #[arg(long, help_heading = "Output")]
    pub(super) problems: bool,

    /// List type and shape of every tensor in the JSON report
    #[arg(long, help_heading = "Output")]
    pub(super) tensors: bool,

    /// List the features of kernels, as the predictors that price them see them: of the layers in the table, in the JSON
    /// report of all
    #[arg(long, help_heading = "Output")]
    pub(super) features: bool,

    /// Stop at a stage and print it: graph, shapes, kernels, memory or report [default: report]
    #[arg(long, value_name = "STAGE", value_parser = options::emit, help_heading = "Output")]
    pub(super) emit: Option<Emit>,

    #[command(flatten)]
    levels: LevelArguments,

    #[command(flatten)]
    pub(super) config: ConfigArguments,

    /// Colour: auto, always or never [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = options::color, help_heading = "Run")]
    pub(super) color: Option<ColorChoice>,

    /// Files that are checked at once [default: number of cores]
    #[arg(long, value_name = "N", value_parser = jobs, allow_negative_numbers = true, help_heading = "Run")]
    pub(super) jobs: Option<usize>,

    /// No progress and no remarks on standard error; what could not be read is still said
    #[arg(long, short, help_heading = "Run")]
    pub(super) quiet: bool,

    /// Say on standard error which files and configurations are read
    #[arg(long, short, help_heading = "Run")]
    pub(super) verbose: bool,
}

impl Arguments {
    /// What they say about the model.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            tensors: self.tensors.then_some(true),
            features: self.features.then_some(true),
            ..self.model.settings()
        }
    }

    /// What they say about the output.
    pub(super) fn output_settings(&self) -> OutputSettings {
        OutputSettings {
            format: self.format,
            color: self.color,
            jobs: self.jobs,
            top: self.top,
            quiet: self.quiet.then_some(true),
            verbose: self.verbose.then_some(true),
        }
    }
}

fn jobs(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&jobs| jobs > 0).ok_or_else(|| format!("'{text}' is not a number from 1"))
}
