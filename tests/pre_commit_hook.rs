//! `.pre-commit-hooks.yaml`: what it says is what the command line takes.

#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Keys of the one hook; the file needs no more of YAML than one list item of plain scalars.
fn hook() -> BTreeMap<String, String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".pre-commit-hooks.yaml");
    let text = fs::read_to_string(path).unwrap();
    let entries = text.lines().map(str::trim_start).filter(|line| !line.starts_with('#') && !line.is_empty());
    let pair = |line: &str| {
        let (key, value) = line.trim_start_matches("- ").split_once(": ").unwrap();
        (key.to_owned(), value.to_owned())
    };
    entries.map(pair).collect()
}

/// Runs the entry of the hook as pre-commit does: in the root of the repository, with the files behind it.
fn run(folder: &Path, files: &[&str]) -> Output {
    let entry = hook()["entry"].clone();
    let mut words = entry.split(' ');
    assert_eq!(words.next(), Some("dlcost"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlcost"));
    command.current_dir(folder).args(words).args(files).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_hook_has_its_id_and_takes_what_check_takes() {
    let hook = hook();
    assert_eq!(hook["id"], "dlcost-check");
    assert_eq!(hook["language"], "rust");
    assert_eq!(hook["require_serial"], "true");
    let pattern = hook["files"].strip_prefix("\\.(").unwrap().strip_suffix(")$").unwrap();
    assert_eq!(pattern.split('|').collect::<Vec<_>>(), ["onnx", "onnxtxt", "keras", "h5", "hdf5"]);
}

#[test]
fn a_good_model_passes_without_a_word() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let output = run(&root, &["testdata/resnet50.onnx", "testdata/mlp.onnxtxt"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}

#[test]
fn broken_models_and_pointers_fail_and_only_they_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let whole = fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/lenet5.onnx")).unwrap();
    fs::write(at.join("good.onnx"), &whole).unwrap();
    fs::write(at.join("cut.onnx"), &whole[..whole.len() / 2]).unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 102442450\n";
    fs::write(at.join("pointer.onnx"), pointer).unwrap();
    let output = run(at, &["good.onnx", "cut.onnx", "pointer.onnx"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("cut.onnx: error ") && text.contains(" truncated-file: "), "{text}");
    assert!(text.contains("pointer.onnx: error ") && text.contains(" lfs-pointer: "), "{text}");
    assert!(!text.contains("good.onnx"), "{text}");
}
