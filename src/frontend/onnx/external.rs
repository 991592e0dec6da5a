//! External data: where a tensor's payload lies outside the model file. It is located and checked; it is read only for
//! the few small integer tensors that decide shapes.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;

use super::model::{ExternalData, TensorDef};
use crate::frontend::sniff::is_lfs_pointer;

/// What is wrong with the external data of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalFault {
    /// The side file is not there (or there is no folder to look in).
    Missing {
        /// Its location as the model writes it.
        location: String,
    },
    /// The side file is a Git LFS pointer.
    Pointer {
        /// Its location.
        location: String,
    },
    /// The location leaves the folder of the model.
    Escapes {
        /// Its location.
        location: String,
        /// How it does so.
        how: &'static str,
    },
    /// Offset or length do not fit.
    Invalid {
        /// What does not fit.
        message: String,
    },
}

/// A range of a side file that exists and is inside the model's folder.
#[derive(Clone, Debug)]
pub struct ExternalRange {
    path: PathBuf,
    offset: u64,
    length: u64,
}

#[derive(Clone)]
enum SideFile {
    Missing,
    Pointer,
    Escapes(&'static str),
    Found { path: PathBuf, length: u64 },
}

/// Locates side files of one model; each is looked at once.
pub struct ExternalFiles {
    folder: Option<PathBuf>,
    seen: HashMap<String, SideFile>,
}

impl ExternalFiles {
    /// Looks in this folder; without one every file is missing.
    #[must_use]
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, seen: HashMap::new() }
    }

    /// The checked range of a tensor's payload.
    ///
    /// # Errors
    /// When the location leaves the folder, the file is missing, or offset and length do not fit tensor and file.
    pub fn locate(&mut self, tensor: &TensorDef, data: &ExternalData) -> Result<ExternalRange, ExternalFault> {
        let invalid = |message: String| ExternalFault::Invalid { message };
        let Some(location) = data.get("location").filter(|location| !location.is_empty()) else {
            return Err(invalid("external data without a location".to_owned()));
        };
        if let Some(how) = escapes(location) {
            return Err(ExternalFault::Escapes { location: location.to_owned(), how });
        }
        let offset = number(data, "offset").map_err(invalid)?.unwrap_or(0);
        let stated = number(data, "length").map_err(invalid)?;
        let needed = tensor.stored_bytes();
        if let (Some(stated), Some(needed)) = (stated, needed)
            && u128::from(stated) != needed
        {
            return Err(invalid(format!("external data length {stated}, tensor needs {needed}")));
        }
        let folder = self.folder.clone();
        let file = self.seen.entry(location.to_owned()).or_insert_with(|| look(folder.as_deref(), location));
        match file.clone() {
            SideFile::Missing => Err(ExternalFault::Missing { location: location.to_owned() }),
            SideFile::Pointer => Err(ExternalFault::Pointer { location: location.to_owned() }),
            SideFile::Escapes(how) => Err(ExternalFault::Escapes { location: location.to_owned(), how }),
            SideFile::Found { path, length } => {
                let end =
                    needed.or(stated.map(u128::from)).map_or(u128::from(offset), |needed| u128::from(offset) + needed);
                if end > u128::from(length) {
                    let message = format!("external data ends at byte {end} of {location:?}, which has {length} bytes");
                    return Err(invalid(message));
                }
                let length = u64::try_from(end).unwrap_or(u64::MAX) - offset;
                Ok(ExternalRange { path, offset, length })
            }
        }
    }
}

impl ExternalRange {
    /// Reads the payload, which the caller knows to be small.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(&self) -> std::io::Result<Bytes> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        file.take(self.length).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }
}

fn number(data: &ExternalData, key: &str) -> Result<Option<u64>, String> {
    match data.get(key) {
        None | Some("") => Ok(None),
        Some(text) => {
            text.trim().parse().map(Some).map_err(|_| format!("external data {key} {text:?} is not a number of bytes"))
        }
    }
}

/// How a location leaves the model's folder, by its text alone. The same answer on every system.
fn escapes(location: &str) -> Option<&'static str> {
    let drive = |text: &str| {
        text.as_bytes().get(1) == Some(&b':') && text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
    };
    if location.contains('\\') {
        return Some("it has a backslash");
    }
    if location.starts_with('/') || drive(location) {
        return Some("it is an absolute path");
    }
    if location.contains('\0') {
        return Some("it has a zero byte");
    }
    let mut depth = 0i64;
    for component in Path::new(location).components() {
        match component {
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return Some("it is an absolute path"),
        }
        if depth < 0 {
            return Some("it climbs out with \"..\"");
        }
    }
    None
}

fn look(folder: Option<&Path>, location: &str) -> SideFile {
    let Some(folder) = folder else { return SideFile::Missing };
    let (Ok(folder), Ok(path)) = (fs::canonicalize(folder), fs::canonicalize(folder.join(location))) else {
        return SideFile::Missing;
    };
    if !path.starts_with(&folder) {
        return SideFile::Escapes("a symbolic link leads out");
    }
    let Ok(metadata) = fs::metadata(&path) else { return SideFile::Missing };
    if !metadata.is_file() {
        return SideFile::Missing;
    }
    if hard_links(&metadata) > 1 {
        return SideFile::Escapes("the file is a hard link, whose other names may lie outside");
    }
    if metadata.len() < 1024 {
        let mut head = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(64).read_to_end(&mut head));
        if read.is_ok() && is_lfs_pointer(&head) {
            return SideFile::Pointer;
        }
    }
    SideFile::Found { path, length: metadata.len() }
}

#[cfg(unix)]
fn hard_links(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

#[cfg(not(unix))]
fn hard_links(_metadata: &fs::Metadata) -> u64 {
    1
}

#[cfg(test)]
mod tests {
    use super::{ExternalFault, ExternalFiles, escapes};
    use crate::frontend::onnx::model::{ExternalData, TensorDef};
    use crate::ir::element_type::ElementType;

    fn tensor() -> TensorDef {
        TensorDef { element: Some(ElementType::Float), dims: vec![4, 4], ..TensorDef::default() }
    }

    fn data(entries: &[(&str, &str)]) -> ExternalData {
        ExternalData { entries: entries.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect() }
    }

    #[test]
    fn locations_that_leave_the_folder_are_known_by_their_text() {
        for location in
            ["../w.bin", "a/../../w.bin", "/etc/passwd", "C:/w.bin", "c:w.bin", "\\\\host\\w", "a\\..\\..\\w"]
        {
            assert!(escapes(location).is_some(), "{location}");
        }
        for location in ["w.bin", "a/w.bin", "a/../w.bin", "./w.bin", "..w.bin"] {
            assert_eq!(escapes(location), None, "{location}");
        }
    }

    #[test]
    fn offset_and_length_are_checked_against_tensor_and_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("w.bin"), [0; 64]).unwrap();
        let mut files = ExternalFiles::new(Some(folder.path().to_path_buf()));
        assert!(files.locate(&tensor(), &data(&[("location", "w.bin")])).is_ok());
        for entries in [
            &[("location", "w.bin"), ("length", "60")][..],
            &[("location", "w.bin"), ("offset", "4")],
            &[("location", "w.bin"), ("offset", "-4")],
            &[("location", "w.bin"), ("offset", "x")],
            &[("offset", "0")],
        ] {
            assert!(
                matches!(files.locate(&tensor(), &data(entries)), Err(ExternalFault::Invalid { .. })),
                "{entries:?}"
            );
        }
        assert!(matches!(files.locate(&tensor(), &data(&[("location", "x.bin")])), Err(ExternalFault::Missing { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_out_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret.bin"), [0; 64]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret.bin"), folder.path().join("soft.bin")).unwrap();
        std::fs::hard_link(outside.path().join("secret.bin"), folder.path().join("hard.bin")).unwrap();
        let mut files = ExternalFiles::new(Some(folder.path().to_path_buf()));
        for location in ["soft.bin", "hard.bin"] {
            let found = files.locate(&tensor(), &data(&[("location", location)]));
            assert!(matches!(found, Err(ExternalFault::Escapes { .. })), "{location}");
        }
    }
}
