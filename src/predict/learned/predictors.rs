//! The predictors at hand: those that are built in, or those of a folder. A section is read when the first kernel asks
//! for it.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock, OnceLock};

use thiserror::Error;

use super::file::{self, FileError, Head};
use super::section::Section;
use super::setting::Setting;
use crate::runtime::Kernel;

/// Files that are built in, by family.
const BUILT_IN: &[(&str, &[u8])] = &[];

/// Predictors of some families.
#[derive(Debug)]
pub struct Predictors {
    files: Vec<File>,
}

#[derive(Debug)]
struct File {
    family: String,
    bytes: Cow<'static, [u8]>,
    head: Head,
    sections: Vec<OnceLock<Result<Section, FileError>>>,
}

/// Why predictors cannot be used.
#[derive(Debug, Error)]
pub enum PredictorError {
    /// The folder or a file cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// Its path.
        path: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// A file is none or is damaged.
    #[error("{path}: {error}")]
    Broken {
        /// Its path.
        path: String,
        /// What is wrong.
        error: FileError,
    },
    /// The folder has no predictor.
    #[error("{path}: no predictor files (*.bin) in this folder")]
    Empty {
        /// Its path.
        path: String,
    },
}

impl Predictors {
    /// Those that are built in.
    #[must_use]
    pub fn built_in() -> Arc<Self> {
        static ALL: LazyLock<Arc<Predictors>> = LazyLock::new(|| {
            let file = |(family, bytes): &(&str, &'static [u8])| File::read(family, Cow::Borrowed(*bytes)).ok();
            Arc::new(Predictors { files: BUILT_IN.iter().filter_map(file).collect() })
        });
        Arc::clone(&ALL)
    }

    /// Those of a folder; all of their sections are looked at, so that a damaged one is told at once.
    ///
    /// # Errors
    /// Where the folder or a file cannot be read or used.
    pub fn of_folder(folder: &Path) -> Result<Self, PredictorError> {
        let unreadable = |path: &Path, error| PredictorError::Unreadable { path: path.display().to_string(), error };
        let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, error))?;
        let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "bin"));
        paths.sort();
        if paths.is_empty() {
            return Err(PredictorError::Empty { path: folder.display().to_string() });
        }
        let mut files = Vec::new();
        for path in paths {
            let broken = |error| PredictorError::Broken { path: path.display().to_string(), error };
            let bytes = fs::read(&path).map_err(|error| unreadable(&path, error))?;
            let family = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let file = File::read(&family, Cow::Owned(bytes)).map_err(broken)?;
            for at in 0..file.sections.len() {
                file.section(at).map_err(|error| broken(error.clone()))?;
            }
            files.push(file);
        }
        Ok(Self { files })
    }

    /// A section by its name.
    #[must_use]
    pub fn section(&self, family: &str, name: &str) -> Option<&Section> {
        let file = self.files.iter().find(|file| file.family == family)?;
        let at = file.head.entries.iter().position(|entry| entry.name == name)?;
        file.section(at).ok()
    }

    /// The section that knows best about a kernel: its stack's own.
    #[must_use]
    pub fn of_kernel(&self, kernel: &Kernel, setting: Setting) -> Option<&Section> {
        self.section(super::family(&kernel.family)?, &super::section_name(kernel, setting)?)
    }
}

impl File {
    fn read(family: &str, bytes: Cow<'static, [u8]>) -> Result<Self, FileError> {
        let head = file::head(&bytes)?;
        let sections = head.entries.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { family: family.to_owned(), bytes, head, sections })
    }

    fn section(&self, at: usize) -> Result<&Section, &FileError> {
        static MISSING: FileError = FileError::Damaged { what: "a section is missing" };
        let (Some(slot), Some(entry)) = (self.sections.get(at), self.head.entries.get(at)) else {
            return Err(&MISSING);
        };
        slot.get_or_init(|| file::section(&self.bytes, entry).and_then(|section| known(section))).as_ref()
    }
}

/// The section, if every feature that it asks for is one that is computed here, at the same place.
fn known(section: Section) -> Result<Section, FileError> {
    let names = super::feature_names(section.name.split('/').next().unwrap_or_default());
    let unknown =
        section.features.iter().enumerate().find(|(at, feature)| names.get(*at).is_none_or(|name| name != feature));
    match unknown {
        Some((_, feature)) => Err(FileError::Feature { section: section.name.clone(), feature: feature.clone() }),
        None => Ok(section),
    }
}
