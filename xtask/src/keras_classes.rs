//! `cargo xtask keras-classes`: the layer classes that both generations of Keras export, from their packages, which pip
//! unpacks under `target/`. They are read as text; nothing of them is imported.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

use crate::{python, root};

/// The list that tests go by.
const LIST: &str = "testdata/keras/classes.txt";

/// Writes the list of layer classes of the Keras packages.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Change nothing, fail where the list is not current.
    #[arg(long)]
    check: bool,
}

/// Writes or checks the list; whether it was current.
pub(crate) fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let mut names = BTreeSet::new();
    for (package, version, module) in python::KERAS {
        let folder = python::unpacked(package, version)?;
        names.extend(exported(&folder.join(module))?);
    }
    let versions: Vec<_> = python::KERAS.iter().map(|(package, version, _)| format!("{package} {version}")).collect();
    let mut text =
        format!("# Written by `cargo xtask keras-classes`: what {} export as layers.\n", versions.join(" and "));
    for name in &names {
        text.push_str(name);
        text.push('\n');
    }
    let path = root().join(LIST);
    let current = fs::read_to_string(&path).is_ok_and(|known| known == text);
    if !current && !arguments.check {
        fs::write(&path, text)?;
        println!("wrote {LIST}: {} classes", names.len());
        return Ok(true);
    }
    if !current {
        println!("{LIST} is not current: run cargo xtask keras-classes, and give new classes a case");
    }
    Ok(current)
}

/// Names in capitals that a module imports.
fn exported(module: &Path) -> Result<BTreeSet<String>, Box<dyn Error>> {
    let text = fs::read_to_string(module)?;
    let mut names = BTreeSet::new();
    // An import in parentheses spans lines.
    let joined = text.replace("(\n", "(").replace(",\n", ",").replace(['(', ')'], " ");
    for line in joined.lines() {
        let Some((_, imported)) = line.split_once(" import ") else { continue };
        for name in imported.split(',') {
            let name = name.split(" as ").next().unwrap_or(name).trim();
            if name.starts_with(|letter: char| letter.is_ascii_uppercase()) {
                names.insert(name.to_owned());
            }
        }
    }
    Ok(names)
}
