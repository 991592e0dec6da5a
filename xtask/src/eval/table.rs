//! Reads tables of whole networks from Parquet files.

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::row::{Cell, Cells};
use crate::parquets::{files, number};

/// Rows of one file.
#[derive(Debug)]
pub(super) struct Table {
    /// Name of the file without its ending.
    pub(super) name: String,
    pub(super) rows: Vec<Cells>,
}

/// Reads the tables at paths: files, or folders of them. In the order of their paths.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Table>, Box<dyn Error>> {
    let files = files(paths)?;
    files.iter().map(|file| table(file).map_err(|error| format!("{}: {error}", file.display()).into())).collect()
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
fn cell(field: &Field) -> Option<Cell> {
    Some(match field {
        Field::Str(text) => Cell::Text(text.clone()),
        Field::Bool(truth) => Cell::Truth(*truth),
        _ => Cell::Number(number(field)?),
    })
}
