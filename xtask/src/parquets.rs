//! Parquet files: which there are, and numbers of any width in them.

use std::fs;
use std::path::{Path, PathBuf};

use parquet::record::Field;

/// Files at paths, and in folders there, in the order of their names.
pub(crate) fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for path in paths {
        collect(path, &mut files).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if files.is_empty() {
        return Err("no .parquet file in the folders".to_owned());
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        fs::metadata(path)?;
        files.push(path.to_path_buf());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?.path();
        if entry.is_dir() || entry.extension().is_some_and(|ending| ending == "parquet") {
            collect(&entry, files)?;
        }
    }
    Ok(())
}

/// The number that a field holds; `None` where it holds none.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn number(field: &Field) -> Option<f64> {
    Some(match field {
        Field::Byte(number) => f64::from(*number),
        Field::Short(number) => f64::from(*number),
        Field::Int(number) => f64::from(*number),
        Field::Long(number) => *number as f64,
        Field::UByte(number) => f64::from(*number),
        Field::UShort(number) => f64::from(*number),
        Field::UInt(number) => f64::from(*number),
        Field::ULong(number) => *number as f64,
        Field::Float(number) => f64::from(*number),
        Field::Double(number) => *number,
        _ => return None,
    })
}
