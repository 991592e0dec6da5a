//! Arguments that several commands share: what is said of the model, the levels of diagnostics, and the configuration.

mod target;

use std::path::{Path, PathBuf};

use clap::ArgMatches;

use crate::config::Settings;
use crate::diagnostics::{Level, selector};
use crate::engine::{LevelRule, Mode};
use crate::options;

/// What is said of the model and of what its figures shall hold for.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Model")]
pub(super) struct ModelArguments {
    /// What the model is for: train or infer [default: train]
    #[arg(long, value_name = "MODE", value_parser = options::mode)]
    mode: Option<Mode>,

    /// Samples per replica [default: the file's own where it is fixed, else 32 for train, 1 for infer]
    #[arg(long, value_name = "N", value_parser = options::batch, allow_negative_numbers = true)]
    batch: Option<u64>,

    /// Value of a free dim, a number or an expression such as 2*seq (repeatable)
    #[arg(long = "dim", value_name = "NAME=EXPR", value_parser = options::dim)]
    dims: Vec<(String, String)>,

    /// Shape of an input, as in image=2x3x224x224 (repeatable).
    ///
    /// Dims are numbers or expressions: image=batchx3x224x224. An x separates where a digit or a parenthesis touches
    /// it; where names hold an x next to a digit, separate by commas: ids=[batch,max2]. Nothing after = is a scalar.
    #[arg(long = "input-shape", value_name = "NAME=DIMS", value_parser = options::input_shape)]
    input_shapes: Vec<(String, Vec<String>)>,

    /// Shape that a Keras layer without a rule gives, by its path, as in lambda=None,8 (repeatable).
    ///
    /// Layers without a rule are Lambda, classes of the user and those that wrap another framework; a finding names all
    /// of a file. None at the first place is the batch.
    #[arg(long = "layer-shape", value_name = "NAME=DIMS", value_parser = options::input_shape)]
    layer_shapes: Vec<(String, Vec<String>)>,

    /// Value of an integer input that shapes depend on, as in size=[224,224], n=3 or ids=@file.json (repeatable)
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = input)]
    inputs: Vec<(String, Vec<i64>)>,

    /// Layers that are not trained, by their keys (repeatable)
    #[arg(long, value_name = "GLOB", value_parser = options::glob)]
    frozen: Vec<String>,

    #[command(flatten)]
    target: target::TargetArguments,
}

impl ModelArguments {
    /// The same as settings, which a configuration may complete.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            mode: self.mode,
            batch: self.batch,
            dims: self.dims.clone(),
            input_shapes: self.input_shapes.clone(),
            layer_shapes: self.layer_shapes.clone(),
            inputs: self.inputs.clone(),
            frozen: (!self.frozen.is_empty()).then(|| self.frozen.clone()),
            gpus: self.target.gpus.clone(),
            request: self.target.request(),
            ..Settings::default()
        }
    }
}

fn input(text: &str) -> Result<(String, Vec<i64>), String> {
    options::input(text, Path::new(""))
}

/// Levels of diagnostics. Their order across the options counts, so that they are read by [`levels`].
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Levels")]
pub(super) struct LevelArguments {
    /// Leave diagnostics out: by code (DL0302), name, group (DL03xx) or warnings (repeatable; of --allow, --warn and
    /// --deny the last one that names a diagnostic counts)
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = selector::canonical)]
    allow: Vec<String>,

    /// Make diagnostics warnings (repeatable)
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = selector::canonical)]
    warn: Vec<String>,

    /// Make diagnostics errors (repeatable)
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = selector::canonical)]
    deny: Vec<String>,
}

/// The rules of `--allow`, `--warn` and `--deny` in the order of the command line.
pub(super) fn levels(matches: &ArgMatches) -> Vec<LevelRule> {
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

/// Where the configuration comes from.
#[derive(Debug, clap::Args)]
pub(super) struct ConfigArguments {
    /// Configuration for all models [default: dlcost.toml, found upwards from each model]
    #[arg(long, value_name = "FILE", conflicts_with = "no_config", help_heading = "Run")]
    pub(super) config: Option<PathBuf>,

    /// Read no configuration
    #[arg(long, help_heading = "Run")]
    pub(super) no_config: bool,
}
