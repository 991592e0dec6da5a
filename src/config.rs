//! Configuration: `dlcost.toml`, what it may say and where it is looked for. Nothing here reads a model.

mod reader;
mod resolve;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::device::Device;
use crate::engine::{LevelRule, Mode};
use crate::options::target::GpuName;
use crate::options::{ColorChoice, Format};
use crate::target::Request;

/// Name of the configuration file.
pub const FILE_NAME: &str = "dlcost.toml";

/// What `dlcost init` writes.
pub const TEMPLATE: &str = include_str!("config/template.toml");

/// A configuration file.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Where it stands.
    pub path: PathBuf,
    /// `[defaults]`, what concerns the model.
    pub defaults: Settings,
    /// `[defaults]`, what concerns the output; counts only in the working folder's file.
    pub output: OutputSettings,
    /// `[levels]`, wide selectors first, so that the narrower one wins.
    pub levels: Vec<LevelRule>,
    /// `[[target]]`: each overrides the defaults and makes an entry of its own in the report.
    pub targets: Vec<Settings>,
    /// `[devices]`: those of the files that it names.
    pub devices: Vec<Device>,
}

/// Options that concern the model.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `mode`.
    pub mode: Option<Mode>,
    /// `batch`.
    pub batch: Option<u64>,
    /// `dim`, by name.
    pub dims: Vec<(String, String)>,
    /// `input-shape`, by name.
    pub input_shapes: Vec<(String, Vec<String>)>,
    /// `layer-shape`, by path of the layer.
    pub layer_shapes: Vec<(String, Vec<String>)>,
    /// `input`, by name.
    pub inputs: Vec<(String, Vec<i64>)>,
    /// `frozen`; a list replaces the list of a wider place.
    pub frozen: Option<Vec<String>>,
    /// `tensors`.
    pub tensors: Option<bool>,
    /// `features`.
    pub features: Option<bool>,
    /// `gpu`; a list replaces the list of a wider place.
    pub gpus: Vec<GpuName>,
    /// What else is said of the target. Its devices are those of `gpus` and not looked up yet.
    pub request: Request,
}

/// Options that concern the output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputSettings {
    /// `format`.
    pub format: Option<Format>,
    /// `color`.
    pub color: Option<ColorChoice>,
    /// `jobs`.
    pub jobs: Option<usize>,
    /// `top`.
    pub top: Option<usize>,
    /// `quiet`.
    pub quiet: Option<bool>,
    /// `verbose`.
    pub verbose: Option<bool>,
}

impl Settings {
    /// These settings, and where they say nothing, those of a wider place. What is given by name is merged by name.
    #[must_use]
    pub fn over(self, wider: &Self) -> Self {
        // The batch per replica and that of all replicas are two ways to say one thing.
        let batch = self.batch.or_else(|| wider.batch.filter(|_| self.request.global_batch.is_none()));
        let global_batch =
            self.request.global_batch.or_else(|| wider.request.global_batch.filter(|_| self.batch.is_none()));
        Self {
            mode: self.mode.or(wider.mode),
            batch,
            dims: by_name(self.dims, &wider.dims),
            input_shapes: by_name(self.input_shapes, &wider.input_shapes),
            layer_shapes: by_name(self.layer_shapes, &wider.layer_shapes),
            inputs: by_name(self.inputs, &wider.inputs),
            frozen: self.frozen.or_else(|| wider.frozen.clone()),
            tensors: self.tensors.or(wider.tensors),
            features: self.features.or(wider.features),
            gpus: if self.gpus.is_empty() { wider.gpus.clone() } else { self.gpus },
            request: Request { global_batch, ..self.request.over(&wider.request) },
        }
    }
}

/// The narrower entries, behind those of the wider list that they do not replace. A name that a list holds twice keeps
/// its last value.
fn by_name<T: Clone>(narrow: Vec<(String, T)>, wide: &[(String, T)]) -> Vec<(String, T)> {
    let mut merged: Vec<(String, T)> = Vec::new();
    for (name, value) in wide.iter().cloned().chain(narrow) {
        match merged.iter_mut().find(|(known, _)| *known == name) {
            Some(entry) => entry.1 = value,
            None => merged.push((name, value)),
        }
    }
    merged
}

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file.
    pub path: PathBuf,
    /// Line and column, from 1, in characters; none when the file cannot be read.
    pub position: Option<(usize, usize)>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ConfigError {}

/// Reads a configuration file.
///
/// # Errors
/// The file cannot be read, is not TOML, or says something that this version does not know.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let fail = |message: String| ConfigError { path: path.to_owned(), position: None, message };
    let bytes = std::fs::read(path).map_err(|error| fail(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| fail("the file is not UTF-8".to_owned()))?;
    reader::read(path, &text)
}

/// Finds configurations by folder and reads each file once.
#[derive(Debug, Default)]
pub struct Finder {
    by_folder: HashMap<PathBuf, Option<Arc<Config>>>,
}

impl Finder {
    /// The configuration of a folder: its own `dlcost.toml`, else that of the nearest folder above it.
    ///
    /// # Errors
    /// The file that was found cannot be used.
    pub fn of_folder(&mut self, folder: &Path) -> Result<Option<Arc<Config>>, ConfigError> {
        let mut passed = Vec::new();
        let mut found = None;
        for ancestor in folder.ancestors() {
            if let Some(known) = self.by_folder.get(ancestor) {
                found.clone_from(known);
                break;
            }
            passed.push(ancestor.to_owned());
            let candidate = ancestor.join(FILE_NAME);
            if candidate.is_file() {
                found = Some(Arc::new(load(&candidate)?));
                break;
            }
        }
        for folder in passed {
            self.by_folder.insert(folder, found.clone());
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_file_above_counts() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(root.path().join(FILE_NAME), "[defaults]\nbatch = 8\n").unwrap();
        let mut finder = Finder::default();
        let found = finder.of_folder(&inner).unwrap().unwrap();
        assert_eq!(found.defaults.batch, Some(8));
        assert!(Arc::ptr_eq(&found, &finder.of_folder(root.path()).unwrap().unwrap()));
        std::fs::write(inner.join(FILE_NAME), "[defaults]\nbatch = 2\n").unwrap();
        assert_eq!(Finder::default().of_folder(&inner).unwrap().unwrap().defaults.batch, Some(2));
    }

    #[test]
    fn narrower_settings_replace_by_name() {
        let dims = |entries: &[(&str, &str)]| entries.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let wide = Settings { batch: Some(1), dims: dims(&[("seq", "1"), ("n", "2")]), ..Settings::default() };
        let narrow = Settings { dims: dims(&[("seq", "3"), ("m", "4")]), ..Settings::default() };
        let merged = narrow.over(&wide);
        assert_eq!(merged.batch, Some(1));
        assert_eq!(merged.dims, dims(&[("seq", "3"), ("n", "2"), ("m", "4")]) as Vec<_>);
    }

    #[test]
    fn the_template_is_a_valid_configuration() {
        reader::read(Path::new("t.toml"), TEMPLATE).unwrap();
        let active: String = TEMPLATE
            .lines()
            .map(|line| line.strip_prefix("#: ").map_or_else(|| line.to_owned(), str::to_owned) + "\n")
            .collect();
        let config = reader::read(Path::new("t.toml"), &active).unwrap();
        assert_eq!(config.targets.len(), 2, "the commented entries of the template work when they are uncommented");
    }
}
