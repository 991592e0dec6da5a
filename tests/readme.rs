//! The report that README.md shows is the one that the command above it prints. `UPDATE_EXPECT=1` writes it anew.

#![allow(missing_docs, clippy::unwrap_used, clippy::string_slice)]

use std::path::PathBuf;
use std::process::Command;

/// What stands before the command in its block.
const PROMPT: &str = "$ cargo run --release -- ";

#[test]
fn the_report_in_the_readme_is_what_its_command_prints() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let start = readme.find(PROMPT).unwrap() + PROMPT.len();
    let end = start + readme[start..].find("```").unwrap();
    let (command, shown) = readme[start..end].split_once('\n').unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_dlcost"));
    program.args(command.split_whitespace()).arg("--no-config").current_dir(&root).env("NO_COLOR", "1");
    let output = program.env("COLUMNS", "100").output().unwrap();
    assert!(output.status.success());
    let printed = format!("\n{}", String::from_utf8(output.stdout).unwrap());
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let [before, after] = [&readme[..start], &readme[end..]];
        std::fs::write(&path, format!("{before}{command}\n{printed}{after}")).unwrap();
    } else {
        assert_eq!(shown, printed, "UPDATE_EXPECT=1 cargo test --test readme writes it anew");
    }
}
