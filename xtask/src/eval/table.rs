//! Reads tables of whole networks from Parquet files.

use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::row::{Cell, Cells};

/// Rows of one file.
#[derive(Debug)]
pub(super) struct Table {
    /// Name of the file without its ending.
    pub(super) name: String,
    pub(super) rows: Vec<Cells>,
}

/// Reads the tables at paths: files, or folders of them. In the order of their paths.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Table>, Box<dyn Error>> {
    let mut files = Vec::new();
    for path in paths {
        collect(path, &mut files).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if files.is_empty() {
        return Err("no .parquet file in the folders of --models".into());
    }
    files.sort();
    files.dedup();
    files.iter().map(|file| table(file).map_err(|error| format!("{}: {error}", file.display()).into())).collect()
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

fn table(file: &Path) -> Result<Table, Box<dyn Error>> {
    let reader = SerializedFileReader::new(File::open(file)?)?;
    let mut rows = Vec::new();
    for row in reader.get_row_iter(None)? {
        let row = row?;
        let cells = row.get_column_iter().filter_map(|(name, field)| Some((name.clone(), cell(field)?)));
        rows.push(cells.collect());
    }
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Table { name, rows })
}

/// A value; `None` for null and for types that no table has.
#[allow(clippy::cast_precision_loss)]
fn cell(field: &Field) -> Option<Cell> {
    Some(match field {
        Field::Str(text) => Cell::Text(text.clone()),
        Field::Bool(truth) => Cell::Truth(*truth),
        Field::Byte(number) => Cell::Number(f64::from(*number)),
        Field::Short(number) => Cell::Number(f64::from(*number)),
        Field::Int(number) => Cell::Number(f64::from(*number)),
        Field::Long(number) => Cell::Number(*number as f64),
        Field::UByte(number) => Cell::Number(f64::from(*number)),
        Field::UShort(number) => Cell::Number(f64::from(*number)),
        Field::UInt(number) => Cell::Number(f64::from(*number)),
        Field::ULong(number) => Cell::Number(*number as f64),
        Field::Float(number) => Cell::Number(f64::from(*number)),
        Field::Double(number) => Cell::Number(*number),
        _ => return None,
    })
}
