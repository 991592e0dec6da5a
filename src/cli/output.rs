//! Where text goes: standard output that may be a closed pipe, files that are written whole or not at all, and notes on
//! standard error.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::Failure;

/// Writes a line to standard error; where that is closed nobody misses it.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Lets `write` write to standard output. A reader that went away, as `head` does, is no error.
pub(super) fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            // What is left in the buffer would only fail again.
            let _ = out.into_parts();
            Err(Failure::new(format!("cannot write to standard output: {error}")))
        }
        Err(_) => {
            let _ = out.into_parts();
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Lets `write` write a file: beside it first, then renamed over it, so that nobody ever sees half of it.
pub(super) fn to_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let result = match fs::metadata(path) {
        // A device or a pipe cannot be renamed over.
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => {
            OpenOptions::new().write(true).open(path).and_then(|file| write_all(file, write))
        }
        // A link keeps its name: what it points to is replaced.
        Ok(_) => fs::canonicalize(path).and_then(|target| replace(&target, write)),
        Err(_) => replace(path, write),
    };
    result.map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::Error::from(ErrorKind::IsADirectory));
    }
    let (beside, file) = create_beside(path)?;
    let kept = fs::metadata(path).ok().map(|metadata| metadata.permissions());
    let result = write_all(file, write)
        .and_then(|()| kept.map_or(Ok(()), |permissions| fs::set_permissions(&beside, permissions)))
        .and_then(|()| fs::rename(&beside, path));
    if result.is_err() {
        let _ = fs::remove_file(&beside);
    }
    result
}

/// A new file in the folder of another one.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    const TRIES: u32 = 100;
    let name = path.file_name().ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?.to_string_lossy();
    let mut last = io::Error::from(ErrorKind::AlreadyExists);
    for attempt in 0..TRIES {
        let beside = path.with_file_name(format!(".{name}.{}-{attempt}.tmp", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&beside) {
            Ok(file) => return Ok((beside, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn write_all(file: File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        to_file(&path, |out| out.write_all(b"old")).unwrap();
        let failed = to_file(&path, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("disk"))
        });
        assert!(failed.unwrap_err().0.contains("disk"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(to_file(folder.path(), |_| Ok(())).is_err());
        assert!(to_file(&folder.path().join("no/where"), |_| Ok(())).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link_and_devices_are_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        to_file(&link, |out| out.write_all(b"new")).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
        to_file(Path::new("/dev/null"), |out| out.write_all(b"new")).unwrap();
    }
}
