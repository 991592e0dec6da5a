//! Arguments of `dlcost check`.

use std::path::{Path, PathBuf};

use clap::ArgMatches;

use crate::config::{OutputSettings, Settings};
use crate::diagnostics::{Level, selector};
use crate::engine::{LevelRule, Mode};
use crate::options::{self, ColorChoice, Emit, Format};

/// Report shapes, parameters, MACs, FLOPs and bytes of models, and what is wrong with them.
///
/// An option that is given twice counts as it is given last; those marked as repeatable add up.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Arguments {
    /// Model files, folders that are searched for them (.onnx .onnxtxt .keras .h5 .hdf5 and .json of Keras; hidden and
    /// ignored files are skipped), or - for standard input.
    #[arg(required = true, value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,

    /// What the model is for: train or infer [default: train]
    #[arg(long, value_name = "MODE", value_parser = options::mode, help_heading = "Model")]
    pub(super) mode: Option<Mode>,

    /// Samples per replica [default: the file's own where it is fixed, else 32 for train, 1 for infer]
    #[arg(long, value_name = "N", value_parser = options::batch, allow_negative_numbers = true, help_heading = "Model")]
    pub(super) batch: Option<u64>,

    /// Value of a free dim, a number or an expression such as 2*seq (repeatable)
    #[arg(long = "dim", value_name = "NAME=EXPR", value_parser = options::dim, help_heading = "Model")]
    pub(super) dims: Vec<(String, String)>,

    /// Shape of an input, as in image=2x3x224x224 (repeatable).
    ///
    /// Dims are numbers or expressions: image=batchx3x224x224. An x separates where a digit or a parenthesis touches
    /// it; where names hold an x next to a digit, separate by commas: ids=[batch,max2]. Nothing after = is a scalar.
    #[arg(long = "input-shape", value_name = "NAME=DIMS", value_parser = options::input_shape, help_heading = "Model")]
    pub(super) input_shapes: Vec<(String, Vec<String>)>,

    /// Value of an integer input that shapes depend on, as in size=[224,224], n=3 or ids=@file.json (repeatable)
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = input, help_heading = "Model")]
    pub(super) inputs: Vec<(String, Vec<i64>)>,

    /// Layers that are not trained, by their keys (repeatable)
    #[arg(long, value_name = "GLOB", value_parser = options::glob, help_heading = "Model")]
    pub(super) frozen: Vec<String>,

    /// Form of the report: human, concise or json [default: human]
    #[arg(long, value_name = "FORMAT", value_parser = options::format, help_heading = "Output")]
    pub(super) format: Option<Format>,

    /// File to write to instead of standard output; it is written whole or not at all
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,

    /// Rows in the table of layers [default: 10]
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub(super) top: Option<usize>,

    /// List type and shape of every tensor in the JSON report
    #[arg(long, help_heading = "Output")]
    pub(super) tensors: bool,

    /// Stop at a stage and print it: graph, shapes or report [default: report]
    #[arg(long, value_name = "STAGE", value_parser = options::emit, help_heading = "Output")]
    pub(super) emit: Option<Emit>,

    /// Leave diagnostics out: by code (DL0302), name, group (DL03xx) or warnings (repeatable; of --allow, --warn and
    /// --deny the last one that names a diagnostic counts)
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = selector::canonical, help_heading = "Levels")]
    allow: Vec<String>,

    /// Make diagnostics warnings (repeatable)
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = selector::canonical, help_heading = "Levels")]
    warn: Vec<String>,

    /// Make diagnostics errors (repeatable)
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = selector::canonical, help_heading = "Levels")]
    deny: Vec<String>,

    /// Configuration for all models [default: dlcost.toml, found upwards from each model]
    #[arg(long, value_name = "FILE", conflicts_with = "no_config", help_heading = "Run")]
    pub(super) config: Option<PathBuf>,

    /// Read no configuration
    #[arg(long, help_heading = "Run")]
    pub(super) no_config: bool,

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
            mode: self.mode,
            batch: self.batch,
            dims: self.dims.clone(),
            input_shapes: self.input_shapes.clone(),
            inputs: self.inputs.clone(),
            frozen: (!self.frozen.is_empty()).then(|| self.frozen.clone()),
            tensors: self.tensors.then_some(true),
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

/// The rules of `--allow`, `--warn` and `--deny` in the order of the command line.
pub(crate) fn levels(matches: &ArgMatches) -> Vec<LevelRule> {
    let options = [("allow", None), ("warn", Some(Level::Warning)), ("deny", Some(Level::Error))];
    let mut rules: Vec<(usize, LevelRule)> = options
        .into_iter()
        .flat_map(|(option, level)| {
            let indices = matches.indices_of(option).into_iter().flatten();
            let selectors = matches.get_many::<String>(option).into_iter().flatten();
            indices
                .zip(selectors)
                .map(move |(index, selector)| (index, LevelRule { selector: selector.clone(), level }))
        })
        .collect();
    rules.sort_by_key(|(index, _)| *index);
    rules.into_iter().map(|(_, rule)| rule).collect()
}

fn input(text: &str) -> Result<(String, Vec<i64>), String> {
    options::input(text, Path::new(""))
}

fn jobs(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&jobs| jobs > 0).ok_or_else(|| format!("'{text}' is not a number from 1"))
}
