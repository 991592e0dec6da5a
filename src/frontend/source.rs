//! The bytes of a model file: a memory map, so that weights that nobody asks for are never read.
//!
//! This is the one module that may use `unsafe`. A file that another process shortens while it is mapped can end the
//! program with a bus error; that is the price of not reading gigabytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::sniff::sniff;

/// Files up to this size are read rather than mapped: cheaper, and safe against a change underneath.
const READ_WHOLE: u64 = 256 * 1024;

/// An opened model file.
#[derive(Clone, Debug)]
pub struct Source {
    /// The contents; slices of it stay valid as long as they live.
    pub bytes: Bytes,
    /// Folder of the file, where external data is looked for; `None` for standard input.
    pub folder: Option<PathBuf>,
    /// File extension, lower case.
    pub extension: String,
}

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// When the path does not exist, is not a file, or may not be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
        }
        let bytes = if metadata.is_file() && metadata.len() > READ_WHOLE {
            map(&file)?
        } else {
            Bytes::from(read_stream(file)?)
        };
        let folder =
            path.parent().map(|folder| if folder.as_os_str().is_empty() { ".".into() } else { folder.to_path_buf() });
        let extension = path.extension().map(|text| text.to_string_lossy().to_lowercase()).unwrap_or_default();
        Ok(Self { bytes, folder, extension })
    }

    /// Bytes that came from standard input.
    #[must_use]
    pub fn from_stdin(bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.into(), folder: None, extension: String::new() }
    }
}

/// Reads a stream to its end, which what is no model may not have: of it only the beginning is read.
///
/// # Errors
/// When reading fails, or the stream is longer than any protobuf message may be.
pub fn read_stream(mut stream: impl Read) -> io::Result<Vec<u8>> {
    const LONGEST: u64 = 2 << 30;
    let mut bytes = Vec::new();
    stream.by_ref().take(READ_WHOLE).read_to_end(&mut bytes)?;
    let head = Source::from_stdin(bytes);
    if head.bytes.len() as u64 == READ_WHOLE && sniff(&head).is_ok() {
        let mut bytes = Vec::from(head.bytes);
        stream.take(LONGEST).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LONGEST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a stream of more than 2 GiB; save it to a file"));
        }
        return Ok(bytes);
    }
    Ok(Vec::from(head.bytes))
}

#[allow(unsafe_code, reason = "the memory map is the one place for it")]
fn map(file: &File) -> io::Result<Bytes> {
    // SAFETY: the map is private and read-only. Another process may change the file underneath; every byte is
    // validated when it is read, so changed bytes are at worst another malformed file.
    let map = unsafe { memmap2::Mmap::map(file)? };
    #[cfg(unix)]
    // Without it the kernel reads ahead through the weights.
    map.advise(memmap2::Advice::Random).ok();
    Ok(Bytes::from_owner(map))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, repeat};

    use super::{READ_WHOLE, read_stream};

    #[test]
    fn an_endless_stream_that_is_no_model_is_left_alone() {
        assert_eq!(read_stream(repeat(0)).unwrap().len() as u64, READ_WHOLE);
    }

    #[test]
    fn a_model_is_read_to_its_end() {
        let model = b"\x08\x08".chain(repeat(0x3a)).take(2 * READ_WHOLE);
        assert_eq!(read_stream(model).unwrap().len() as u64, 2 * READ_WHOLE);
        assert_eq!(read_stream(&b"\x08"[..]).unwrap(), b"\x08");
    }
}
