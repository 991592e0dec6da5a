//! Configurations of model files, and the options that they give together with the command line.

use std::path::Path;
use std::sync::Arc;

use super::Failure;
use super::arguments::ConfigArguments;
use crate::config::{self, Config, Finder, Settings};
use crate::engine::{CheckOptions, LevelRule};

/// Options of each target, at least one: the command line over the target over the defaults.
///
/// # Errors
/// They contradict each other, or one of the command line would do nothing.
pub(super) fn targets(
    settings: &Settings,
    levels: &[LevelRule],
    config: Option<&Config>,
) -> Result<Vec<CheckOptions>, Failure> {
    let no_config = Config::default();
    let config = config.unwrap_or(&no_config);
    let levels: Vec<LevelRule> = config.levels.iter().chain(levels).cloned().collect();
    let one = [Settings::default()];
    let targets = if config.targets.is_empty() { one.as_slice() } else { config.targets.as_slice() };
    let of = |target: &Settings| {
        let configured = target.clone().over(&config.defaults);
        let whole = settings.clone().over(&configured);
        let options = whole.into_options(levels.clone(), &config.devices).map_err(|message| {
            // What is wrong without the command line as well is the configuration's.
            match configured.into_options(Vec::new(), &config.devices) {
                Err(same) if same == message => format!("{}: {message}", config.path.display()),
                _ => message,
            }
        })?;
        settings.refuse_idle(&options)?;
        Ok(options)
    };
    targets.iter().map(of).collect::<Result<_, _>>().map_err(|message: String| Failure::new(message))
}

/// Where configurations come from.
pub(super) struct Configs {
    finder: Option<Finder>,
    given: Option<Arc<Config>>,
}

impl Configs {
    pub(super) fn new(arguments: &ConfigArguments) -> Result<Self, Failure> {
        let given = arguments.config.as_deref().map(config::load).transpose();
        let given = given.map_err(|error| Failure::new(error.to_string()))?.map(Arc::new);
        let finder = (given.is_none() && !arguments.no_config).then(Finder::default);
        Ok(Self { finder, given })
    }

    pub(super) fn of_working_folder(&mut self) -> Result<Option<Arc<Config>>, Failure> {
        self.of_file(Path::new("-"))
    }

    /// The configuration of a file, found upwards from its folder.
    pub(super) fn of_file(&mut self, path: &Path) -> Result<Option<Arc<Config>>, Failure> {
        let Some(finder) = &mut self.finder else {
            return Ok(self.given.clone());
        };
        // Links are not resolved: a model belongs to the project that it is named in.
        let absolute =
            std::path::absolute(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        let folder = absolute.parent().unwrap_or(&absolute);
        finder.of_folder(folder).map_err(|error| Failure::new(error.to_string()))
    }
}
