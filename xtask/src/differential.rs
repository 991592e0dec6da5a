//! `cargo xtask differential`: random small models, for which dlcost and another program must say the same: whether the
//! model can run, and types, shapes and small integer values of what it computes. dlcost itself must say the same with
//! dims as symbols. What differs is made small and looked up in the table of verdicts.

mod builder;
mod case;
mod compare;
mod families;
mod opinion;
mod ours;
mod shrink;
#[cfg(feature = "tract")]
mod tract;
mod verdicts;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use case::Case;
use compare::{Compared, Difference, Kind, compare, compare_symbolic};
use dlcost::engine::Mode;
use opinion::{Opinion, Said};
use ours::Ours;
use shrink::Shrinker;

use crate::{Outcome, root};

/// Random small models against onnxruntime.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Models
    #[arg(long)]
    cases: Option<u64>,
    /// Stop after this time [default: without --cases 1]
    #[arg(long)]
    minutes: Option<f64>,
    /// What decides the models
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Who is asked; tract is built first
    #[arg(long, value_enum, default_value_t = Asked::Onnxruntime)]
    opinion: Asked,
    /// Show one model, what both say of it, and end
    #[arg(long)]
    show: Option<u64>,
    /// Answer as tract, for this program itself
    #[cfg(feature = "tract")]
    #[arg(long, hide = true)]
    answer: bool,
    /// Folder for differences without a verdict
    #[arg(long, default_value = "target/differential")]
    findings: PathBuf,
}

/// Programs that can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Asked {
    Onnxruntime,
    Tract,
}

/// Every so many models is priced too.
const PRICED: u64 = 4;

/// What a run found.
#[derive(Debug, Default)]
struct Tally {
    cases: u64,
    nodes: usize,
    same: u64,
    both_refuse: u64,
    silent: BTreeMap<String, u64>,
    symbolic: u64,
    /// Outputs that are left open, by operator.
    open: BTreeMap<&'static str, u64>,
    /// Differences by verdict and file.
    judged: BTreeMap<(String, String), u64>,
    /// Differences without a verdict, by signature: how many, and the first.
    unjudged: BTreeMap<String, (u64, u64, Case, Difference)>,
    panics: u64,
}

/// Runs the chore.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    #[cfg(feature = "tract")]
    if arguments.answer {
        return tract::serve().map(|()| true);
    }
    match arguments.opinion {
        Asked::Onnxruntime => ask(arguments, &mut opinion::onnxruntime()),
        #[cfg(feature = "tract")]
        Asked::Tract => ask(arguments, &mut opinion::tract()),
        #[cfg(not(feature = "tract"))]
        Asked::Tract => crate::heavy::again("tract"),
    }
}

fn ask(arguments: &Arguments, opinion: &mut Opinion) -> Outcome {
    if let Some(number) = arguments.show {
        return show(&builder::case(arguments.seed, number), opinion);
    }
    let verdicts = verdicts::read()?;
    let minutes = arguments.minutes.or(arguments.cases.is_none().then_some(1.0));
    let limit = minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let start = Instant::now();
    let mut tally = Tally::default();
    while arguments.cases.is_none_or(|cases| tally.cases < cases) && limit.is_none_or(|limit| start.elapsed() < limit) {
        let number = tally.cases;
        tally.cases += 1;
        let case = builder::case(arguments.seed, number);
        if case.calls.is_empty() {
            continue;
        }
        tally.nodes += case.calls.len();
        let Some(found) = judge(&case, opinion, &mut tally)? else { continue };
        let (case, found) = Shrinker::new(opinion).shrink(case, found)?;
        tally.panics += u64::from(found.kind == Kind::Panics);
        if let Some(verdict) = verdicts::find(&verdicts, opinion.name, &case, &found) {
            *tally.judged.entry((verdict.right.clone(), verdict.file.clone())).or_default() += 1;
        } else {
            let signature = verdicts::signature(&case, &found);
            tally.unjudged.entry(signature).or_insert((0, number, case, found)).0 += 1;
        }
    }
    print_table(&tally, opinion.name, start.elapsed());
    save(&tally, &root().join(&arguments.findings))?;
    Ok(tally.unjudged.is_empty())
}

/// Asks both; gives the first difference.
fn judge(case: &Case, opinion: &mut Opinion, tally: &mut Tally) -> Result<Option<Difference>, Box<dyn Error>> {
    if tally.cases.is_multiple_of(PRICED) {
        let mode = if tally.cases.is_multiple_of(2 * PRICED) { Mode::Train } else { Mode::Infer };
        if let Some(detail) = ours::price(case, mode) {
            let call = case.calls.len().saturating_sub(1);
            return Ok(Some(Difference { kind: Kind::Panics, call, detail }));
        }
    }
    let ours = ours::ask(case);
    let said = opinion.ask(&case.model()?)?;
    match compare(case, &ours, &said) {
        None => {
            let why = match &said {
                Said::Silent(why) => why,
                _ => "it does not ask whether a model is one",
            };
            let why: String = why.chars().filter(|letter| !letter.is_ascii_digit()).take(60).collect();
            *tally.silent.entry(why).or_default() += 1;
        }
        Some(Compared { difference: Some(difference), .. }) => return Ok(Some(difference)),
        Some(Compared { both_refuse: true, .. }) => tally.both_refuse += 1,
        Some(Compared { open, .. }) => {
            tally.same += 1;
            for op in open {
                *tally.open.entry(op).or_default() += 1;
            }
        }
    }
    let Ours::Facts(facts) = &ours else { return Ok(None) };
    tally.symbolic += 1;
    Ok([false, true].into_iter().find_map(|shared| compare_symbolic(case, facts, shared)))
}

fn show(case: &Case, opinion: &mut Opinion) -> Outcome {
    println!("{}", case.text());
    println!("dlcost: {:?}", ours::ask(case));
    let said = opinion.ask(&case.model()?)?;
    println!("{}: {said:?}", opinion.name);
    Ok(true)
}

fn print_table(tally: &Tally, opinion: &str, time: Duration) {
    #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = tally.cases as f64 / time.as_secs_f64() * 60.0;
    let row = |what: &str, number: u64| println!("{what:44} {number:>8}");
    println!("{:44} {:>8} in {:.0} s, {rate:.0} a minute", "models", tally.cases, time.as_secs_f64());
    row("nodes", u64::try_from(tally.nodes).unwrap_or(u64::MAX));
    row("both say the same", tally.same);
    row("both refuse", tally.both_refuse);
    row(&format!("{opinion} has no opinion"), tally.silent.values().sum());
    row("asked again with dims as symbols", tally.symbolic);
    row("panics", tally.panics);
    row("differences with a verdict", tally.judged.values().sum());
    for ((right, file), count) in &tally.judged {
        let right = if right == "open" { "open".to_owned() } else { format!("{right} is right") };
        row(&format!("  {right}: {file}"), *count);
    }
    row("differences without a verdict", tally.unjudged.values().map(|(count, ..)| count).sum());
    for (signature, (count, number, ..)) in &tally.unjudged {
        println!("  {count:>6} {signature} (first: {number})");
    }
    row("outputs left open by dlcost", tally.open.values().sum());
    for (op, count) in &tally.open {
        row(&format!("  {op}"), *count);
    }
    for (why, count) in &tally.silent {
        row(&format!("  silent: {why}"), *count);
    }
}

/// Writes a file for each signature without a verdict.
fn save(tally: &Tally, folder: &std::path::Path) -> Result<(), Box<dyn Error>> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    for (index, (signature, (_, number, case, found))) in tally.unjudged.iter().enumerate() {
        fs::create_dir_all(folder)?;
        let op = case.calls.get(found.call).map_or("case", |call| call.op).to_lowercase();
        let kind = found.kind.to_string().replace(' ', "-");
        let text = format!("# {signature}\n# {}\n# case {number}\n{}", found.detail, case.text());
        fs::write(folder.join(format!("{index:02}-{op}-{kind}.onnxtxt")), text)?;
    }
    Ok(())
}
