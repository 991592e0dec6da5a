//! Finds model files. A path that is named is taken whatever it is called; a folder is walked as ripgrep does it: hidden
//! and ignored files are skipped, links are followed, the order is that of the names.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;

/// What a folder holds.
#[derive(Debug, Default)]
pub struct Found {
    /// Model files, sorted.
    pub files: Vec<PathBuf>,
    /// What could not be read on the way.
    pub problems: Vec<String>,
}

/// The model files under a folder.
#[must_use]
pub fn models_in(folder: &Path) -> Found {
    let mut found = Found::default();
    // Download caches hold their models as links, so links are followed; the walker reports loops and stops at them.
    for entry in WalkBuilder::new(folder).follow_links(true).build() {
        match entry {
            Ok(entry) => {
                if entry.file_type().is_some_and(|kind| kind.is_file()) && is_model(entry.path()) {
                    found.files.push(entry.into_path());
                }
            }
            Err(error) => found.problems.extend(problem(&error)),
        }
    }
    found.files.sort();
    found
}

/// Whether a file in a walked folder counts as a model.
fn is_model(path: &Path) -> bool {
    match extension(path).as_deref() {
        Some("onnx" | "onnxtxt" | "keras" | "h5" | "hdf5") => true,
        Some("json") => sniffs_as_keras(path),
        _ => false,
    }
}

fn extension(path: &Path) -> Option<String> {
    path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase)
}

/// Whether the beginning of a JSON file names Keras classes; most JSON files next to models are something else.
fn sniffs_as_keras(path: &Path) -> bool {
    const ENOUGH: u64 = 64 * 1024;
    let mut head = Vec::new();
    if File::open(path).and_then(|file| file.take(ENOUGH).read_to_end(&mut head)).is_err() {
        return false;
    }
    let head = String::from_utf8_lossy(&head);
    head.contains("class_name")
        && ["keras", "Sequential", "Functional", "\"Model"].iter().any(|word| head.contains(word))
}

/// What to say about an error of the walker; nothing for a loop of links, and nothing for a dangling link that is not
/// called like a model.
fn problem(error: &ignore::Error) -> Option<String> {
    let mut inner = error;
    let mut path = None;
    loop {
        match inner {
            ignore::Error::Loop { .. } => return None,
            ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => inner = err,
            ignore::Error::WithPath { path: at, err } => {
                path = Some(at);
                inner = err;
            }
            _ => break,
        }
    }
    if path.is_some_and(|path| path.is_symlink() && !is_model(path)) {
        return None;
    }
    Some(match (path, inner) {
        (Some(path), ignore::Error::Io(error)) => {
            // The walker's error repeats the path in front of what the system says.
            let source = error.get_ref().and_then(|error| error.source());
            let said = source.map_or_else(|| error.to_string(), ToString::to_string);
            format!("cannot read {}: {said}", path.display())
        }
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(found: &Found, folder: &Path) -> Vec<String> {
        let name = |path: &PathBuf| path.strip_prefix(folder).unwrap().to_string_lossy().replace('\\', "/");
        found.files.iter().map(name).collect()
    }

    #[test]
    fn folders_give_models_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("sub/.hidden")).unwrap();
        for name in ["b.onnx", "a.ONNX", "sub/c.onnxtxt", "sub/.hidden/d.onnx", ".e.onnx", "f.txt", "g.h5"] {
            fs::write(root.join(name), "x").unwrap();
        }
        fs::write(root.join("skipped.onnx"), "x").unwrap();
        fs::write(root.join(".ignore"), "skipped.onnx\n").unwrap();
        fs::write(root.join("keras.json"), r#"{"class_name": "Sequential", "keras_version": "3"}"#).unwrap();
        fs::write(root.join("package.json"), r#"{"name": "x"}"#).unwrap();
        let found = models_in(root);
        assert_eq!(names(&found, root), ["a.ONNX", "b.onnx", "g.h5", "keras.json", "sub/c.onnxtxt"]);
        assert!(found.problems.is_empty(), "{:?}", found.problems);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_loops_end() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("blobs")).unwrap();
        fs::write(root.join("blobs/1234"), "x").unwrap();
        std::os::unix::fs::symlink(root.join("blobs/1234"), root.join("model.onnx")).unwrap();
        std::os::unix::fs::symlink(root, root.join("blobs/loop")).unwrap();
        std::os::unix::fs::symlink("nowhere", root.join("dangling.txt")).unwrap();
        let found = models_in(root);
        assert_eq!(names(&found, root), ["model.onnx"]);
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        std::os::unix::fs::symlink("nowhere", root.join("dangling.onnx")).unwrap();
        let problems = models_in(root).problems;
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("cannot read "), "{problems:?}");
        assert_eq!(problems[0].matches("dangling.onnx").count(), 1, "{problems:?}");
    }
}
