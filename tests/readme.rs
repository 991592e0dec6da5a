//! The reports that README.md shows are those that the commands above them print. `UPDATE_EXPECT=1` writes them anew.

#![allow(missing_docs, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// What stands before a command at the top of its block.
const PROMPT: &str = "$ cargo run --release -- ";

/// What ends a block.
const END: &str = "```";

/// What a command prints into a pipe.
fn printed(command: &str, root: &Path) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_dlcost"));
    program.args(command.split_whitespace()).arg("--no-config").current_dir(root).env("NO_COLOR", "1");
    program.env("COLUMNS", "100").env("LC_ALL", "C.UTF-8");
    let output = program.output().unwrap();
    assert!(output.status.success(), "{command}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_reports_in_the_readme_are_what_their_commands_print() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let mut blocks = readme.split(PROMPT);
    let mut current = blocks.next().unwrap().to_owned();
    let mut shown = 0;
    for block in blocks {
        let (command, rest) = block.split_once('\n').unwrap();
        let (_, behind) = rest.split_once(END).unwrap();
        current += &format!("{PROMPT}{command}\n\n{}{END}{behind}", printed(command, &root));
        shown += 1;
    }
    assert!(shown > 0);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, current).unwrap();
    } else {
        assert_eq!(readme, current, "UPDATE_EXPECT=1 cargo test --test readme writes them anew");
    }
}
