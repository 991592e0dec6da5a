//! The command: reads, fits, writes.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use dlcost::predict::learned::file;
use dlcost::predict::learned::section::Section;

use super::anchor::anchors;
use super::card::{Made, Scores, card};
use super::few::tune;
use super::fit::{fit, plan};
use super::prepare::{Example, Sections, examples};
use super::row::LayerRow;
use super::table;
use crate::Outcome;

/// Makes predictors from tables of measurements.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Tables of measured layers: Parquet files or folders of them
    #[arg(long, value_name = "DIR", num_args = 1.., required = true)]
    layers: Vec<PathBuf>,
    /// Tables of whole networks: not learned from yet
    #[arg(long, value_name = "DIR", num_args = 1..)]
    models: Vec<PathBuf>,
    /// Folder of the model files that tables of networks name: not read yet
    #[arg(long, value_name = "DIR")]
    model_files: Option<PathBuf>,
    /// Where predictors are written
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Leaves a device out, as if nobody had measured it
    #[arg(long, value_name = "ID")]
    exclude_device: Vec<String>,
    /// Leaves out all devices with a chip
    #[arg(long, value_name = "CHIP")]
    exclude_chip: Vec<String>,
    /// Leaves out a family of the tables
    #[arg(long, value_name = "FAMILY")]
    exclude_family: Vec<String>,
    /// Leaves out a source
    #[arg(long, value_name = "SOURCE")]
    exclude_source: Vec<String>,
    /// Gives so many rows of a left-out device to each predictor after all, to find which devices it is like
    #[arg(long, value_name = "ID=N")]
    few: Vec<Few>,
    /// Rates that were seen on cards: none, or a file in the form of anchors.csv; else those of the catalogue
    #[arg(long, value_name = "none|FILE")]
    anchors: Option<String>,
    /// Fits these predictors only: `product/serving`
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Does not leave chips out in turn, so that intervals on unseen devices are a guess
    #[arg(long)]
    quick: bool,
    /// Holds other methods against the shipped one on samples and writes tables into README.md of the folder for
    /// predictors; `alone` fits no predictors beside
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "too")]
    compare: Option<Compare>,
    /// Seed of all that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Rows of a device that was left out.
#[derive(Clone, Debug)]
struct Few {
    device: String,
    rows: usize,
}

impl FromStr for Few {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (device, rows) = text.split_once('=').ok_or("not of the form ID=N")?;
        let rows = rows.parse().map_err(|_| format!("{rows} is no number of rows"))?;
        Ok(Self { device: device.to_owned(), rows })
    }
}

/// What is done beside the contest of methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Compare {
    /// Predictors are fitted first.
    Too,
    /// Nothing.
    Alone,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if !arguments.models.is_empty() || arguments.model_files.is_some() {
        return Err("--models and --model-files: whole networks are not learned from yet, layers are".into());
    }
    #[cfg(not(feature = "contest"))]
    if arguments.compare.is_some() {
        return crate::heavy::again("contest");
    }
    let begun = Instant::now();
    let (knows, mut devices) = anchors(arguments.anchors.as_deref())?;
    let table::Layers { rows, mut refused } = table::read(&arguments.layers)?;
    let data = fingerprint(&rows);
    eprintln!("{} rows read in {:.1} s", rows.len(), begun.elapsed().as_secs_f64());
    let mut sections = examples(&rows, &mut devices, &mut refused);
    let left_out = leave_out(&mut sections, &rows, arguments);
    print_refused(&refused);
    #[cfg(feature = "contest")]
    if arguments.compare == Some(Compare::Alone) {
        return super::contest::compare(&sections, &arguments.only, arguments.seed, &arguments.out.join("README.md"));
    }
    let chosen: Vec<(&String, &Vec<Example>)> =
        sections.iter().filter(|(name, _)| arguments.only.is_empty() || arguments.only.contains(*name)).collect();
    let bar = indicatif::ProgressBar::new(chosen.len() as u64).with_style(style());
    let mut made: BTreeMap<String, Vec<Made>> = BTreeMap::new();
    for (name, examples) in chosen {
        bar.set_message(name.clone());
        let started = Instant::now();
        let borrowed = borrowed(name, &sections);
        let mut plan = plan(name, examples.len() + borrowed.len(), arguments.seed);
        plan.leaves_out &= !arguments.quick;
        let (mut section, way, chips) = fit(name, examples, &borrowed, &plan, &|text| bar.set_message(text.to_owned()));
        for few in &arguments.few {
            let given = left_out.get(name).map(|examples| first(examples, few, arguments.seed)).unwrap_or_default();
            tune(&mut section, &given);
        }
        let scores = Scores::of(&section, examples, &rows, knows);
        bar.suspend(|| println!("{name}: {scores} ({:.0} s)", started.elapsed().as_secs_f64()));
        for chip in &chips {
            bar.suspend(|| println!("    {chip}"));
        }
        bar.inc(1);
        let family = name.split('/').next().unwrap_or(name).to_owned();
        made.entry(family).or_default().push(Made { section, scores, way, chips, examples: examples.len() });
    }
    bar.finish_and_clear();
    fs::create_dir_all(&arguments.out)?;
    for (family, made) in &made {
        let sections: Vec<Section> = made.iter().map(|made| made.section.clone()).collect();
        fs::write(arguments.out.join(format!("{family}.bin")), file::write(data, &sections))?;
        fs::write(arguments.out.join(format!("{family}.md")), card(family, made, data))?;
    }
    #[cfg(feature = "contest")]
    if arguments.compare.is_some() {
        super::contest::compare(&sections, &arguments.only, arguments.seed, &arguments.out.join("README.md"))?;
    }
    eprintln!("{:.0} s in all", begun.elapsed().as_secs_f64());
    Ok(true)
}

fn style() -> indicatif::ProgressStyle {
    let style = indicatif::ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {msg}");
    style.unwrap_or_else(|_| indicatif::ProgressStyle::default_bar())
}

/// A number that tells tables apart, whatever files they lie in.
fn fingerprint(rows: &[LayerRow]) -> u64 {
    rows.iter().fold(0, |sum, row| {
        let text = format!("{} {} {} {} {}", row.source, row.device, row.row_group, row.pass, row.time_ms);
        sum.wrapping_add(file::checksum(text.as_bytes()))
    })
}

/// Takes out what is to be left out; gives it back by section.
fn leave_out(sections: &mut Sections, rows: &[LayerRow], arguments: &Arguments) -> Sections {
    let named = |list: &[String], text: &str| list.iter().any(|name| name == text);
    let mut all = Sections::new();
    for (name, examples) in sections.iter_mut() {
        let (out, kept): (Vec<_>, Vec<_>) = std::mem::take(examples).into_iter().partition(|example| {
            rows.get(example.row).is_some_and(|row| {
                named(&arguments.exclude_chip, &example.device.board.chip)
                    || named(&arguments.exclude_device, &row.device)
                    || named(&arguments.exclude_family, &row.family)
                    || named(&arguments.exclude_source, &row.source)
            })
        });
        *examples = kept;
        all.insert(name.clone(), out);
    }
    sections.retain(|_, examples| examples.len() >= FEWEST);
    all
}

/// A section with fewer examples is none.
const FEWEST: usize = 30;

/// So many examples of a device, in an order that only the seed decides, none of them of the development test set.
fn first<'e>(examples: &'e [Example], few: &Few, seed: u64) -> Vec<&'e Example> {
    let mut of: Vec<&Example> =
        examples.iter().filter(|example| example.device.id == few.device && !example.dev).collect();
    of.sort_by_key(|example| file::checksum(format!("{seed} {}", example.row).as_bytes()));
    of.truncate(few.rows);
    of
}

/// Sections whose rows are about the same library: a section that has few rows of its own learns from them too.
const BORROWED: [(&str, &str); 1] = [("convolution/pytorch", "convolution/tensorflow")];

/// The examples that a section borrows, all together weighing several times as much as its own.
fn borrowed(name: &str, sections: &Sections) -> Vec<Example> {
    let of = BORROWED.iter().filter(|(borrower, _)| *borrower == name).filter_map(|(_, lender)| sections.get(*lender));
    let mut all: Vec<Example> = of.flatten().cloned().collect();
    let own = sections.get(name).map_or(0, Vec::len) as f64;
    let weight = (MOST_BORROWED * own / all.len().max(1) as f64).min(1.0);
    all.iter_mut().for_each(|example| example.weight = weight);
    all
}

/// How much borrowed examples weigh together, over a section's own.
const MOST_BORROWED: f64 = 10.0;

fn print_refused(refused: &HashMap<String, usize>) {
    let mut reasons: Vec<_> = refused.iter().collect();
    reasons.sort();
    for (reason, count) in reasons {
        eprintln!("  {count} rows left out: {reason}");
    }
}
