//! Reads tables of measured layers from Parquet files.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::row::LayerRow;
use crate::parquets::{files, number};

/// Rows of all tables in folders, in the order of their paths; and how many could not be read, by reason.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub(crate) rows: Vec<LayerRow>,
    pub(crate) refused: HashMap<String, usize>,
}

/// Texts that occur again and again are kept once.
#[derive(Default)]
struct Texts(HashMap<String, Rc<str>>);

impl Texts {
    fn of(&mut self, text: &str) -> Rc<str> {
        if let Some(known) = self.0.get(text) {
            return Rc::clone(known);
        }
        let new: Rc<str> = text.into();
        self.0.insert(text.to_owned(), Rc::clone(&new));
        new
    }
}

/// Reads the tables at paths: files, or folders of them.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Layers, Box<dyn Error>> {
    let mut layers = Layers::default();
    let mut texts = Texts::default();
    for file in &files(paths)? {
        table(file, &mut layers, &mut texts).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(layers)
}

fn table(file: &Path, layers: &mut Layers, texts: &mut Texts) -> Result<(), Box<dyn Error>> {
    let reader = SerializedFileReader::new(File::open(file)?)?;
    for row in reader.get_row_iter(None)? {
        let mut layer = LayerRow::default();
        let row = row?;
        let mut broken = None;
        for (column, field) in row.get_column_iter() {
            if let Err(reason) = set(&mut layer, column, field, texts) {
                broken = Some(reason);
            }
        }
        match broken.or_else(|| unusable(&layer)) {
            Some(reason) => *layers.refused.entry(reason).or_default() += 1,
            None => layers.rows.push(layer),
        }
    }
    Ok(())
}

fn unusable(row: &LayerRow) -> Option<String> {
    if !row.time_ms.is_finite() || row.time_ms <= 0.0 {
        return Some("no time".to_owned());
    }
    [(&row.device, "device"), (&row.family, "family"), (&row.row_group, "row_group")]
        .into_iter()
        .find(|(text, _)| text.is_empty())
        .map(|(_, column)| format!("no {column}"))
}

fn set(row: &mut LayerRow, column: &str, field: &Field, texts: &mut Texts) -> Result<(), String> {
    if matches!(field, Field::Null) {
        return Ok(());
    }
    if let Field::Str(text) = field {
        let slot = match column {
            "source" => &mut row.source,
            "device" => &mut row.device,
            "framework" => &mut row.framework,
            "family" => &mut row.family,
            "op" => &mut row.op,
            "pass" => &mut row.pass,
            "precision" => &mut row.precision,
            "optimizer" => &mut row.optimizer,
            "activation" => &mut row.activation,
            "padding" => &mut row.padding,
            "strategy" => &mut row.strategy,
            "interconnect" => &mut row.interconnect,
            "kernel" => &mut row.kernel,
            "notes" => &mut row.notes,
            // Hashes are as many as rows.
            "row_group" => {
                row.row_group = text.as_str().into();
                return Ok(());
            }
            _ => return Ok(()),
        };
        *slot = texts.of(text);
        return Ok(());
    }
    if let Field::Bool(truth) = field {
        match column {
            "use_bias" => row.use_bias = *truth,
            "bidirectional" => row.bidirectional = *truth,
            "trans_a" => row.trans_a = *truth,
            "trans_b" => row.trans_b = *truth,
            _ => {}
        }
        return Ok(());
    }
    let Some(number) = number(field) else { return Ok(()) };
    match column {
        "time_ms" => row.time_ms = number,
        "time_std_ms" => row.time_std_ms = Some(number),
        _ if number.is_nan() => {}
        _ => {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let whole = number as u64;
            let known = row.sizes.set(column, whole);
            if known && (number < 0.0 || number.fract() != 0.0) {
                return Err(format!("{column} is no whole number"));
            }
        }
    }
    Ok(())
}
