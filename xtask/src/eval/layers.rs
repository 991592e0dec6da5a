//! Holds layer predictors against tables of measured layers.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use dlcost::predict::learned::predictors::Predictors;
use serde_json::{Map, Value, json};

use super::metrics::{Errors, Pair};
use crate::Outcome;
use crate::train::anchor::anchors;
use crate::train::prepare::{Example, examples, judged};
use crate::train::row::LayerRow;
use crate::train::table;

/// A column that parts rows into sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Source,
    Device,
    Chip,
    Family,
    Op,
    Pass,
    Precision,
    Framework,
    Section,
}

const COLUMNS: [(&str, Column); 9] = [
    ("source", Column::Source),
    ("device", Column::Device),
    ("chip", Column::Chip),
    ("family", Column::Family),
    ("op", Column::Op),
    ("pass", Column::Pass),
    ("precision", Column::Precision),
    ("framework", Column::Framework),
    ("section", Column::Section),
];

/// What is asked.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) layers: &'a [PathBuf],
    pub(super) predictors: Option<&'a PathBuf>,
    pub(super) anchors: Option<&'a str>,
    pub(super) by: &'a [String],
    pub(super) min_ms: f64,
    pub(super) dev: bool,
    pub(super) json: bool,
    pub(super) worst: usize,
    pub(super) write: bool,
}

/// Runs it.
pub(super) fn run(asked: &Asked<'_>) -> Outcome {
    let columns = asked
        .by
        .iter()
        .map(|name| {
            let found = COLUMNS.iter().find(|(known, _)| known == name).map(|(name, column)| (*name, *column));
            found.ok_or_else(|| format!("--by {name}: layers have {}", COLUMNS.map(|(name, _)| name).join(", ")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let predictors = match asked.predictors {
        Some(folder) => std::sync::Arc::new(Predictors::of_folder(folder)?),
        None => Predictors::built_in(),
    };
    let table::Layers { rows, mut refused } = table::read(asked.layers)?;
    let count = rows.len() + refused.values().sum::<usize>();
    let mut sets: BTreeMap<Vec<String>, Vec<Pair>> = BTreeMap::new();
    let mut worst: Vec<(f64, usize, f64)> = Vec::new();
    let mut page: Families = BTreeMap::new();
    let (anchors, mut devices) = anchors(asked.anchors)?;
    for (name, examples) in examples(&rows, &mut devices, &mut refused) {
        let family = name.split('/').next().unwrap_or_default();
        let Some(section) = predictors.section(family, &name) else {
            *refused.entry(format!("no predictor {name}")).or_default() += examples.len();
            continue;
        };
        for example in &examples {
            if asked.dev && !example.dev {
                *refused.entry("not of the development test set".to_owned()).or_default() += 1;
                continue;
            }
            if example.time_ms < asked.min_ms {
                *refused.entry("shorter than --min-ms".to_owned()).or_default() += 1;
                continue;
            }
            let Some(pair) = judged(section, example, anchors) else {
                *refused.entry("cannot be priced".to_owned()).or_default() += 1;
                continue;
            };
            let key =
                columns.iter().filter_map(|(_, column)| Some(value(*column, rows.get(example.row)?, example, &name)));
            sets.entry(key.collect()).or_default().push(pair);
            if asked.write
                && let Some(row) = rows.get(example.row)
            {
                let set = [&row.source, &row.family, &row.pass, &row.precision].map(ToString::to_string);
                page.entry(family.to_owned()).or_default().push((set, example.device.id.clone(), pair));
            }
            if asked.worst > 0 {
                worst.push(((pair.predicted / pair.measured).ln().abs(), example.row, pair.predicted));
            }
        }
    }
    if asked.write {
        write(&page)?;
    }
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    if asked.json {
        println!("{}", serde_json::to_string_pretty(&document(count, &refused, &names, &sets))?);
    } else {
        print(count, &refused, &sets);
        worst.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        for (_, row, time) in worst.iter().take(asked.worst) {
            if let Some(row) = rows.get(*row) {
                println!("{time:.5} ms for {row}");
            }
        }
    }
    Ok(true)
}

/// Judged rows by predictor's family: source, family, pass and precision; device; prediction.
type Families = BTreeMap<String, Vec<([String; 4], String, Pair)>>;

/// Writes docs/accuracy/layers.md and a plot for each family beside it.
fn write(page: &Families) -> Result<(), Box<dyn std::error::Error>> {
    let folder = crate::root().join("docs/accuracy");
    std::fs::create_dir_all(folder.join("layers"))?;
    let mut text = String::from(
        "# Layers: predicted against measured\n\n<!-- written by `cargo xtask eval --layers DIR --dev --write` -->\n\n\
         Rows of the development test set, whose configurations no predictor learned from, on devices that were \
         measured. Errors are absolute percentage errors; bias is the mean signed error, inside the share of times \
         between p10 and p90. The cards beside the predictor files say the same by device, and what left-out chips \
         come to.\n",
    );
    for (family, rows) in page {
        let mut sets: BTreeMap<&[String; 4], Vec<Pair>> = BTreeMap::new();
        let mut devices: BTreeMap<String, Vec<Pair>> = BTreeMap::new();
        for (set, device, pair) in rows {
            sets.entry(set).or_default().push(*pair);
            devices.entry(device.clone()).or_default().push(*pair);
        }
        text += &format!("\n## {family}\n\n![{family}](layers/{family}.svg)\n\n");
        text += "| source | family | pass | precision | rows | mean % | median % | p90 % | bias % | inside % |\n";
        text += "|---|---|---|---|---:|---:|---:|---:|---:|---:|\n";
        for ([source, of, pass, precision], pairs) in sets {
            let Some(errors) = Errors::of(&pairs) else { continue };
            let [mean, median, p90, bias] =
                [errors.mape, errors.median_ape, errors.p90_ape, errors.bias].map(|share| share * 100.0);
            let (rows, inside) = (errors.n, errors.coverage80.unwrap_or_default() * 100.0);
            text += &format!(
                "| {source} | {of} | {pass} | {precision} | {rows} | {mean:.1} | {median:.1} | {p90:.1} | {bias:+.1} | \
                 {inside:.0} |\n"
            );
        }
        std::fs::write(folder.join(format!("layers/{family}.svg")), super::plot::family(family, &devices))?;
    }
    std::fs::write(folder.join("layers.md"), text)?;
    Ok(())
}

fn value(column: Column, row: &LayerRow, example: &Example, section: &str) -> String {
    match column {
        Column::Source => row.source.to_string(),
        Column::Device => row.device.to_string(),
        Column::Chip => example.device.board.chip.clone(),
        Column::Family => row.family.to_string(),
        Column::Op => row.op.to_string(),
        Column::Pass => row.pass.to_string(),
        Column::Precision => row.precision.to_string(),
        Column::Framework => row.framework.to_string(),
        Column::Section => section.to_owned(),
    }
}

fn document(
    rows: usize,
    skipped: &HashMap<String, usize>,
    names: &[&str],
    sets: &BTreeMap<Vec<String>, Vec<Pair>>,
) -> Value {
    let skipped: BTreeMap<_, _> = skipped.iter().collect();
    let sets = sets.iter().filter_map(|(key, pairs)| {
        let by: Map<String, Value> =
            names.iter().zip(key).map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let errors = Errors::of(pairs)?;
        Some(json!({
            "kind": "layer",
            "by": by,
            "n": errors.n,
            "mape": errors.mape,
            "median_ape": errors.median_ape,
            "p90_ape": errors.p90_ape,
            "bias": errors.bias,
            "rmse_ms": errors.rmse,
            "coverage80": errors.coverage80,
            "accuracy": null,
        }))
    });
    json!({ "schema": "dlcost-eval/1", "rows": rows, "skipped": skipped, "sets": sets.collect::<Vec<_>>() })
}

fn print(rows: usize, skipped: &HashMap<String, usize>, sets: &BTreeMap<Vec<String>, Vec<Pair>>) {
    println!("{rows} rows");
    let mut skipped: Vec<_> = skipped.iter().collect();
    skipped.sort();
    for (reason, count) in skipped {
        println!("  {count:>8} skipped: {reason}");
    }
    let width = sets.keys().map(|key| key.join(" ").len()).max().unwrap_or_default();
    println!(
        "{:<width$} {:>8} {:>7} {:>7} {:>7} {:>7} {:>9} {:>6}",
        "", "n", "mape %", "median", "p90", "bias", "rmse ms", "in 80"
    );
    for (key, pairs) in sets {
        let Some(errors) = Errors::of(pairs) else { continue };
        let [mape, median, p90, bias] =
            [errors.mape, errors.median_ape, errors.p90_ape, errors.bias].map(|share| share * 100.0);
        let name = key.join(" ");
        println!(
            "{name:<width$} {:>8} {mape:>7.2} {median:>7.2} {p90:>7.2} {bias:>7.2} {:>9.3} {:>6.2}",
            errors.n,
            errors.rmse,
            errors.coverage80.unwrap_or_default()
        );
    }
}
