//! The command: reads, fits, writes.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use dlcost::predict::learned::file;
use dlcost::predict::learned::rates::Anchors;
use dlcost::predict::learned::section::Section;

use super::fit::{fit, plan};
use super::prepare::{Example, Sections, examples, predicted};
use super::table;
use crate::Outcome;

/// Makes predictors from tables of measurements.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Tables of measured layers: Parquet files or folders of them
    #[arg(long, value_name = "DIR", num_args = 1.., required = true)]
    layers: Vec<PathBuf>,
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
    /// Fits these predictors only: `product/serving`
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Does not leave chips out in turn, so that intervals on unseen devices are a guess
    #[arg(long)]
    quick: bool,
    /// Seed of all that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let begun = Instant::now();
    let files = table::files(&arguments.layers)?;
    let table::Layers { mut rows, mut refused } = table::read(&files)?;
    eprintln!("{} rows read in {:.1} s", rows.len(), begun.elapsed().as_secs_f64());
    let excluded = |list: &[String], text: &str| list.iter().any(|name| name == text);
    rows.retain(|row| {
        !excluded(&arguments.exclude_device, &row.device)
            && !excluded(&arguments.exclude_family, &row.family)
            && !excluded(&arguments.exclude_source, &row.source)
    });
    let mut sections = examples(&rows, &mut refused);
    for examples in sections.values_mut() {
        examples.retain(|example| !excluded(&arguments.exclude_chip, &example.device.board.chip));
    }
    print_refused(&refused);
    let mut made: BTreeMap<String, Vec<Section>> = BTreeMap::new();
    for (name, examples) in &sections {
        if !arguments.only.is_empty() && !arguments.only.contains(name) {
            continue;
        }
        let mut plan = plan(name, examples.len(), arguments.seed);
        plan.leaves_out &= !arguments.quick;
        let started = Instant::now();
        let borrowed = borrowed(name, &sections);
        let (section, left_out) = fit(name, examples, &borrowed, &plan, &|text| eprintln!("  {text}"));
        let errors: Vec<f64> = examples
            .iter()
            .filter(|example| example.dev)
            .filter_map(|example| Some((predicted(&section, example, Anchors::Ignore)? / example.time_ms - 1.0).abs()))
            .collect();
        println!("{name}: {} ({:.0} s)", summary(errors), started.elapsed().as_secs_f64());
        for chip in &left_out {
            println!(
                "    without {}: {:.1} % by sheet, {:.1} % by anchors ({} rows)",
                chip.chip,
                100.0 * chip.sheet,
                100.0 * chip.anchored,
                chip.rows
            );
        }
        let family = name.split('/').next().unwrap_or(name).to_owned();
        made.entry(family).or_default().push(section);
    }
    fs::create_dir_all(&arguments.out)?;
    for (family, sections) in &made {
        let path = arguments.out.join(format!("{family}.bin"));
        fs::write(&path, file::write(0, sections))?;
    }
    eprintln!("{:.0} s in all", begun.elapsed().as_secs_f64());
    Ok(true)
}

/// Sections whose rows are about the same library: a section that has few rows of its own learns from them too.
const BORROWED: [(&str, &str); 2] =
    [("convolution/pytorch", "convolution/tensorflow"), ("convolution/cudnn", "convolution/tensorflow")];

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
const MOST_BORROWED: f64 = 4.0;

fn print_refused(refused: &HashMap<String, usize>) {
    let mut reasons: Vec<_> = refused.iter().collect();
    reasons.sort();
    for (reason, count) in reasons {
        eprintln!("  {count} rows left out: {reason}");
    }
}

fn summary(mut errors: Vec<f64>) -> String {
    errors.sort_unstable_by(f64::total_cmp);
    let count = errors.len();
    let mean = errors.iter().sum::<f64>() / count.max(1) as f64;
    let at = |share: f64| errors.get((count as f64 * share) as usize).copied().unwrap_or_default();
    format!("{count} rows, mean {:.2} %, median {:.2} %, p90 {:.1} %", 100.0 * mean, 100.0 * at(0.5), 100.0 * at(0.9))
}
