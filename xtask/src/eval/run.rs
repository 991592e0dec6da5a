//! The chore itself: options in, tables and figures out.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlcost::predict::learned::predictors::Predictors;

use super::network::ModelFiles;
use super::observe::{Asked, Observed, Skipped, observe};
use super::question::Question;
use super::row::Row;
use super::sets::{By, sets};
use super::{doubt, judge, layers, page, show, table};
use crate::{Outcome, root};

/// Holds predictions against tables of measurements.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Tables of whole networks: Parquet files, or folders of them
    #[arg(long, value_name = "DIR", num_args = 1.., required_unless_present = "layers")]
    models: Vec<PathBuf>,

    /// Folder of the model files that the tables name
    #[arg(long, value_name = "DIR", required_unless_present = "layers")]
    model_files: Option<PathBuf>,

    /// Tables of layers: Parquet files, or folders of them
    #[arg(long, value_name = "DIR", num_args = 1..)]
    layers: Vec<PathBuf>,

    /// Folder of predictors instead of those that are built in
    #[arg(long, value_name = "DIR")]
    predictors: Option<PathBuf>,

    /// Rates that were seen on cards that no predictor learned from: none, or a file in the form of anchors.csv; else those
    /// of the catalogue
    #[arg(long, value_name = "none|FILE")]
    anchors: Option<String>,

    /// Columns that make a set: table, source, device, family, pass, precision, model, framework, layout; of layers
    /// source, device, chip, family, op, pass, precision, framework, section
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', default_value = "source,device,precision,pass")]
    by: Vec<String>,

    /// Layers of the development test set only
    #[arg(long)]
    dev: bool,

    /// Leave out times below this many milliseconds
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    min_ms: f64,

    /// Also print the layers that are predicted worst
    #[arg(long, value_name = "N", default_value_t = 0)]
    worst: usize,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Write docs/accuracy/baseline.md as well
    #[arg(long)]
    write: bool,
}

/// Runs the chore.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if !arguments.layers.is_empty() {
        return layers::run(&layers::Asked {
            layers: &arguments.layers,
            predictors: arguments.predictors.as_ref(),
            anchors: arguments.anchors.as_deref(),
            by: &arguments.by,
            min_ms: arguments.min_ms,
            dev: arguments.dev,
            json: arguments.json,
            worst: arguments.worst,
        });
    }
    let by = arguments.by.iter().map(|name| name.parse());
    let by: Vec<By> = by.collect::<Result<_, _>>()?;
    let folder = arguments.model_files.as_deref().ok_or("no --model-files")?;
    let files = ModelFiles::of(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut broken = Vec::new();
    let mut rows = Vec::new();
    for table in table::read(&arguments.models)? {
        for (number, cells) in (1..).zip(&table.rows) {
            match Row::read(&table.name, number, cells) {
                Ok(row) => rows.push(row),
                Err(column) => {
                    broken.push(Skipped {
                        table: table.name.clone(),
                        reason: format!("broken row: {column}"),
                        row: None,
                    });
                }
            }
        }
    }
    let count = rows.len() + broken.len();
    let predictors = match &arguments.predictors {
        Some(folder) => Arc::new(Predictors::of_folder(folder)?),
        None => Predictors::built_in(),
    };
    let mut observed = judged(&rows, folder, &files, &predictors, arguments.min_ms);
    observed.skipped.extend(broken);
    let sets = sets(&observed.observations, &by);
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&show::json(count, &observed, &sets))?);
    } else {
        print!("{}", show::human(count, &observed, &sets));
    }
    if arguments.write {
        let path = root().join(page::PATH);
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        fs::write(&path, page::text(&rows, &observed)?)?;
        eprintln!("{}: written", path.display());
    }
    Ok(true)
}

fn judged<'r>(
    rows: &'r [Row],
    folder: &Path,
    files: &ModelFiles,
    predictors: &Arc<Predictors>,
    min_ms: f64,
) -> Observed<'r> {
    let doubts = doubt::reasons(rows);
    let asked: Vec<Asked<'r>> =
        rows.iter().zip(doubts).map(|(row, doubt)| Asked { row, question: Question::of(row, files), doubt }).collect();
    let questions = asked.iter().filter_map(|asked| asked.question.as_ref().ok());
    let answers = judge::answers(folder, predictors, questions);
    observe(&asked, &answers, min_ms)
}
