//! The predictors at hand: those that are built in, or those of a folder. A section is read when the first kernel asks
//! for it.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock, OnceLock};

use thiserror::Error;

use super::file::{self, FileError, Head};
use super::section::Section;
use super::setting::Stack;
use crate::runtime::Kernel;

/// Files that are built in, by family.
const BUILT_IN: &[(&str, &[u8])] = &[
    ("attention", include_bytes!("../../../predictors/attention.bin")),
    ("batch-norm", include_bytes!("../../../predictors/batch-norm.bin")),
    ("collective", include_bytes!("../../../predictors/collective.bin")),
    ("convolution", include_bytes!("../../../predictors/convolution.bin")),
    ("elementwise", include_bytes!("../../../predictors/elementwise.bin")),
    ("embedding", include_bytes!("../../../predictors/embedding.bin")),
    ("layer-norm", include_bytes!("../../../predictors/layer-norm.bin")),
    ("pool", include_bytes!("../../../predictors/pool.bin")),
    ("product", include_bytes!("../../../predictors/product.bin")),
    ("recurrent", include_bytes!("../../../predictors/recurrent.bin")),
    ("softmax", include_bytes!("../../../predictors/softmax.bin")),
];

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
    /// Names of the family's features.
    features: OnceLock<Vec<&'static str>>,
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
        static ALL: LazyLock<Arc<Predictors>> = LazyLock::new(|| Arc::new(Predictors::unread()));
        Arc::clone(&ALL)
    }

    /// Those that are built in, with no section read yet.
    #[must_use]
    pub fn unread() -> Self {
        let file = |(family, bytes): &(&str, &'static [u8])| File::read(family, Cow::Borrowed(*bytes)).ok();
        Self { files: BUILT_IN.iter().filter_map(file).collect() }
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

    /// What tells these predictors from others: a hash of their sections' checksums.
    #[must_use]
    pub fn version(&self) -> String {
        let entries = self.files.iter().flat_map(|file| &file.head.entries);
        let bytes: Vec<u8> = entries.flat_map(|entry| entry.checksum().to_le_bytes()).collect();
        format!("{:016x}", file::checksum(&bytes))
    }

    /// Whether there are predictors of a family.
    #[must_use]
    pub fn knows(&self, family: &str) -> bool {
        self.files.iter().any(|file| file.family == family)
    }

    /// The name of a feature by its place in a family's list.
    #[must_use]
    pub fn feature(&self, family: &str, at: usize) -> Option<&'static str> {
        self.files.iter().find(|file| file.family == family)?.features().get(at).copied()
    }

    /// The section of a stack for a kernel.
    #[must_use]
    pub fn of_kernel(&self, kernel: &Kernel, stack: Stack) -> Option<&Section> {
        self.section(super::family(&kernel.family)?, &super::section_name(kernel, stack)?)
    }
}

impl File {
    fn read(family: &str, bytes: Cow<'static, [u8]>) -> Result<Self, FileError> {
        let head = file::head(&bytes)?;
        let sections = head.entries.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { family: family.to_owned(), bytes, head, sections, features: OnceLock::new() })
    }

    fn section(&self, at: usize) -> Result<&Section, &FileError> {
        static MISSING: FileError = FileError::Damaged { what: "a section is missing" };
        let (Some(slot), Some(entry)) = (self.sections.get(at), self.head.entries.get(at)) else {
            return Err(&MISSING);
        };
        let read = || match self.bytes {
            Cow::Borrowed(bytes) => file::trusted(bytes, entry),
            Cow::Owned(ref bytes) => file::section(bytes, entry),
        };
        slot.get_or_init(|| read().and_then(|section| self.known(section))).as_ref()
    }

    /// The section, if every feature that it asks for is one that is computed here, at the same place.
    fn known(&self, section: Section) -> Result<Section, FileError> {
        let names = self.features();
        let mut features = section.features.iter().enumerate();
        let unknown = features.find(|(at, feature)| names.get(*at).is_none_or(|name| name != feature));
        match unknown {
            Some((_, feature)) => Err(FileError::Feature { section: section.name.clone(), feature: feature.clone() }),
            None => Ok(section),
        }
    }

    fn features(&self) -> &[&'static str] {
        self.features.get_or_init(|| super::feature_names(&self.family))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_is_built_in_is_whole_and_asks_for_known_features() {
        for (family, bytes) in BUILT_IN {
            let file = File::read(family, Cow::Owned(bytes.to_vec())).unwrap();
            assert!(!file.head.entries.is_empty(), "{family}");
            for (at, entry) in file.head.entries.iter().enumerate() {
                let section = file.section(at).unwrap();
                assert!(entry.name.starts_with(&format!("{family}/")), "{}", entry.name);
                assert!(section.offsets.is_empty() || section.offsets.len() == section.boards.len(), "{}", entry.name);
                assert!(section.boards.iter().all(|board| crate::device::find(board).is_ok()), "{:?}", section.boards);
                assert!(section.seen_interval.low <= 1.0 && section.seen_interval.high >= 1.0);
                assert!(section.unseen_interval.low <= 1.0 && section.unseen_interval.high >= 1.0);
            }
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let told = || Predictors::of_folder(folder.path()).unwrap_err().to_string();
        assert!(told().contains("no predictor files"));
        let path = folder.path().join("pool.bin");
        let (_, whole) = BUILT_IN.iter().find(|(family, _)| *family == "pool").unwrap();
        let mut damaged = whole.to_vec();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(told(), format!("{}: the predictor file is damaged: a checksum does not fit", path.display()));
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(told().contains("it ends too early"));
        let mut newer = whole.to_vec();
        newer[4] = 200;
        fs::write(&path, &newer).unwrap();
        assert!(told().contains("use a newer dlcost"));
        // The features of pools are no features of products.
        fs::write(folder.path().join("product.bin"), whole).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(told().contains("which this dlcost does not know"), "{}", told());
        fs::write(&path, whole).unwrap();
        fs::remove_file(folder.path().join("product.bin")).unwrap();
        assert!(Predictors::of_folder(folder.path()).unwrap().section("pool", "pool/pytorch").is_some());
    }
}
