//! `cargo xtask conformance`: infers the backend cases of the `onnx` package and holds types and shapes of the outputs
//! against the recorded ones. What the models declare for computed tensors is erased first.

mod cases;
mod judge;
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cases::Location;
use judge::{Mode, Verdict};

use crate::{Outcome, operators, python, root};

/// Types and shapes of the backend cases of the onnx package; writes docs/conformance.md.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Change nothing; fail where the page is not current or a bar is missed
    #[arg(long)]
    check: bool,
    /// Only the cases whose name contains this text, with the verdict in each mode
    only: Option<String>,
}

/// Fewest cases that must be exact: with small values, and with integer values alone.
const BARS: [(Mode, usize); 2] = [(Mode::SmallValues, 1845), (Mode::IntegerValues, 1810)];

/// Verdicts on a case, in the order of [`Mode::ALL`].
struct Judged {
    location: Location,
    verdicts: Vec<Verdict>,
}

/// Runs the chore.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let current = operators::keep_current(arguments.check)?;
    let package = python::onnx(python::CASES_VERSION)?;
    let mut locations = cases::find(&package)?;
    if let Some(only) = &arguments.only {
        locations.retain(|location| location.name.contains(only.as_str()));
    }
    let judged = judge_all(&locations)?;
    if arguments.only.is_some() {
        list(&judged);
        return Ok(true);
    }
    let mut sound = current;
    for (index, mode) in Mode::ALL.into_iter().enumerate() {
        let totals = page::totals(judged.iter().filter_map(|case| case.verdicts.get(index)));
        println!("{mode:?}: {totals:?} of {}", judged.len());
        sound &= totals.wrong == 0;
        sound &= BARS.iter().all(|(barred, bar)| *barred != mode || totals.exact >= *bar);
    }
    list_wrong(&judged);
    let (content, without_reason) = page::write(&judged);
    for operator in &without_reason {
        println!("no reason is known why {operator:?} leaves something open");
        sound = false;
    }
    let path = root().join("docs/conformance.md");
    if fs::read_to_string(&path).is_ok_and(|text| text == content) {
        return Ok(sound);
    }
    if arguments.check {
        println!("{}: not current; run cargo xtask conformance", path.display());
        return Ok(false);
    }
    fs::write(&path, content)?;
    println!("{}: written", path.display());
    Ok(sound)
}

fn list(judged: &[Judged]) {
    for case in judged {
        for (mode, verdict) in Mode::ALL.iter().zip(&case.verdicts) {
            println!("{} {mode:?}: {verdict:?}", case.location.name);
        }
    }
}

fn list_wrong(judged: &[Judged]) {
    for case in judged {
        for (mode, verdict) in Mode::ALL.iter().zip(&case.verdicts) {
            if let Verdict::Wrong(what) = verdict {
                println!("  {} {mode:?}: {what}", case.location.name);
            }
        }
    }
}

fn judge_all(locations: &[Location]) -> Result<Vec<Judged>, Box<dyn std::error::Error>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<BTreeMap<usize, Result<Vec<Verdict>, String>>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(location) = locations.get(index) else { return };
                    let verdicts = cases::read(location)
                        .map(|case| Mode::ALL.iter().map(|&mode| judge::judge(&case, mode)).collect())
                        .map_err(|error| format!("{}: {error}", location.name));
                    if let Ok(mut results) = results.lock() {
                        results.insert(index, verdicts);
                    }
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_default();
    locations
        .iter()
        .zip(results.into_values())
        .map(|(location, verdicts)| Ok(Judged { location: location.clone(), verdicts: verdicts? }))
        .collect()
}
