//! `cargo xtask fuzz`: damaged copies of small files are checked, and none may panic, run long or take much memory.
//!
//! Copies are checked in child processes that say on standard output which one they are at. The parent ends a child
//! that spends too long on one, and starts another behind the copy that a child did not survive.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{env, fs, io, panic, thread};

use dlcost::engine::{self, CheckOptions, Input, Mode, Stage};
use dlcost::frontend;
use dlcost::frontend::onnx_text::{PrintOptions, print_model};
use dlcost::frontend::source::Source;
use dlcost::ir::place::Places;
use dlcost::render::{self, Style};
use dlcost::report;

use crate::mutate::{Kind, Random, damage};
use crate::{Outcome, root, shared};

/// Files beyond this size are left out: damage to them says no more, and takes longer.
const SEED_BYTES: u64 = 96 * 1024;

/// CPU time that one copy may take.
const CPU_LIMIT: Duration = Duration::from_secs(2);

/// Memory that one copy may take.
const MEMORY_KIB: u64 = 500 * 1024;

/// Address space of a child: the memory limit, its stack, and what a thread's arena reserves.
const ADDRESS_SPACE_KIB: u64 = MEMORY_KIB + 256 * 1024;

/// Copies for one child.
const BATCH: usize = 250;

/// Most pieces of damage to one copy.
const DAMAGES: usize = 4;

/// Stack as the program gives it to a job.
const STACK_BYTES: usize = 16 << 20;

/// Checks damaged copies of small model files.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Damaged copies
    #[arg(long, default_value_t = 5_000)]
    files: usize,
    /// What decides the damage
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after this time, however many copies are left
    #[arg(long)]
    seconds: Option<u64>,
    /// Folder for the copies that failed
    #[arg(long, default_value = "target/fuzz-findings")]
    findings: PathBuf,
    /// Work as a child: check the copies from a number to another
    #[arg(long, hide = true, num_args = 2)]
    child: Option<Vec<usize>>,
    /// Which pieces of damage a child applies
    #[arg(long, hide = true)]
    damages: Option<u32>,
}

/// A file that copies are made from.
struct Seed {
    label: String,
    kind: Kind,
    bytes: Vec<u8>,
}

/// How a copy failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Failure {
    /// With a message and its place in the source.
    Panic(String),
    /// CPU time.
    TooLong,
    /// Peak of resident memory.
    TooLarge,
    /// The process ended: no memory, or no stack.
    Died(String),
}

/// What a run found.
#[derive(Debug, Default)]
struct Tally {
    checked: usize,
    slowest: (Duration, usize),
    largest: (u64, usize),
    failures: BTreeMap<Failure, Vec<usize>>,
}

/// Runs the chore.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let seeds = seeds()?;
    if let Some(&[from, to]) = arguments.child.as_deref() {
        run_child(arguments, &seeds, from, to)?;
        return Ok(true);
    }
    let start = Instant::now();
    let deadline = arguments.seconds.map(|seconds| start + Duration::from_secs(seconds));
    let batches: Vec<usize> = (0..arguments.files).step_by(BATCH).rev().collect();
    let batches = Mutex::new(batches);
    let tally = Mutex::new(Tally::default());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let work = || -> Result<(), Box<dyn Error>> {
        while deadline.is_none_or(|deadline| Instant::now() < deadline) {
            let next = batches.lock().ok().and_then(|mut batches| batches.pop());
            let Some(from) = next else { break };
            let to = (from + BATCH).min(arguments.files);
            watch_range(arguments.seed, from, to, None, &tally)?;
        }
        Ok(())
    };
    let problems: Vec<String> = thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(|| work().map_err(|error| error.to_string()))).collect();
        handles.into_iter().filter_map(|handle| handle.join().ok()?.err()).collect()
    });
    if let Some(problem) = problems.first() {
        return Err(problem.clone().into());
    }
    let tally = tally.into_inner().unwrap_or_default();
    print_table(&tally, &seeds, start.elapsed());
    save_findings(arguments, &seeds, &tally)?;
    Ok(tally.failures.is_empty())
}

/// The kind of a model file by its name.
fn kind_of(path: &Path) -> Option<Kind> {
    let within = |folder: &str| path.components().any(|part| part.as_os_str() == folder);
    Some(match path.extension()?.to_str()? {
        "onnx" => Kind::Binary,
        "onnxtxt" => Kind::Text,
        "json" if within("keras") => Kind::Json,
        "keras" | "h5" => Kind::Container,
        _ => return None,
    })
}

/// Small model files, as they are and, where they can be read, as text.
fn seeds() -> Result<Vec<Seed>, Box<dyn Error>> {
    let mut paths = Vec::new();
    let mut folders = vec![root().join("testdata"), shared().join("cases"), shared().join("models")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if kind_of(&path).is_some() {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let mut seeds = Vec::new();
    for path in paths {
        if fs::metadata(&path)?.len() > SEED_BYTES {
            continue;
        }
        let bytes = fs::read(&path)?;
        let label = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(kind) = kind_of(&path) else { continue };
        if kind != Kind::Binary {
            seeds.push(Seed { label, kind, bytes });
            continue;
        }
        if let Some(model) = frontend::load(&Source::from_stdin(bytes.clone()), &mut Places::default()).model {
            let options = PrintOptions { max_elements: 64, ..PrintOptions::default() };
            let text = print_model(&model, &options);
            if text.len() as u64 <= SEED_BYTES {
                seeds.push(Seed { label: format!("{label} as text"), kind: Kind::Text, bytes: text.into_bytes() });
            }
        }
        seeds.push(Seed { label, kind: Kind::Binary, bytes });
    }
    if seeds.is_empty() { Err("no model files to damage".into()) } else { Ok(seeds) }
}

/// A damaged copy by its number; `damages` picks pieces of the damage.
fn copy(seeds: &[Seed], seed: u64, number: usize, damages: Option<u32>) -> Option<(&Seed, Vec<u8>)> {
    let mut random = Random::new(seed.wrapping_mul(0x0100_0000_01b3) ^ (number as u64).wrapping_mul(0x9e37_79b9));
    let model = seeds.get(random.below(seeds.len()))?;
    let other = seeds.get(random.below(seeds.len()))?;
    let mut bytes = model.bytes.clone();
    for piece in 0..=random.below(DAMAGES) {
        let mut own = random.clone();
        random.below(1);
        if damages.is_none_or(|damages| damages & (1 << piece) != 0) {
            damage(&mut bytes, &other.bytes, model.kind, &mut own);
        }
    }
    Some((model, bytes))
}

/// Checks a range of copies in children.
fn watch_range(
    seed: u64,
    from: usize,
    to: usize,
    damages: Option<u32>,
    tally: &Mutex<Tally>,
) -> Result<(), Box<dyn Error>> {
    let mut from = from;
    while from < to {
        from = watch_child(seed, from, to, damages, tally)?;
    }
    Ok(())
}

/// Watches one child; gives the number that the next one starts at.
fn watch_child(
    seed: u64,
    from: usize,
    to: usize,
    damages: Option<u32>,
    tally: &Mutex<Tally>,
) -> Result<usize, Box<dyn Error>> {
    let mut child = spawn(seed, from, to, damages)?;
    let stdout = child.stdout.take().ok_or("no standard output")?;
    let (sender, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    let record = |act: &mut dyn FnMut(&mut Tally)| {
        if let Ok(mut tally) = tally.lock() {
            act(&mut tally);
        }
    };
    let mut at = from;
    let mut cpu_at_start = Duration::ZERO;
    let next = loop {
        match lines.recv_timeout(Duration::from_millis(200)) {
            Ok(line) => {
                let mut words = line.splitn(5, ' ');
                let mut word = || words.next().unwrap_or_default();
                let (verb, number) = (word(), word().parse::<usize>().unwrap_or(at));
                at = number;
                if verb == "start" {
                    cpu_at_start = cpu_of(child.id());
                    continue;
                }
                let cpu = Duration::from_micros(word().parse().unwrap_or(0));
                let kib: u64 = word().parse().unwrap_or(0);
                let panic = word();
                record(&mut |tally| {
                    tally.checked += 1;
                    tally.slowest = tally.slowest.max((cpu, number));
                    tally.largest = tally.largest.max((kib, number));
                    let mut fail = |failure| tally.failures.entry(failure).or_default().push(number);
                    if !panic.is_empty() {
                        fail(Failure::Panic(panic.to_owned()));
                    }
                    if cpu > CPU_LIMIT {
                        fail(Failure::TooLong);
                    }
                    if kib > MEMORY_KIB {
                        fail(Failure::TooLarge);
                    }
                });
                at = number + 1;
            }
            Err(RecvTimeoutError::Timeout) => {
                if cpu_of(child.id()).saturating_sub(cpu_at_start) > 3 * CPU_LIMIT {
                    child.kill()?;
                    record(&mut |tally| tally.failures.entry(Failure::TooLong).or_default().push(at));
                    break at + 1;
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                if at >= to {
                    break to;
                }
                let status = child.wait()?;
                let mut said = String::new();
                if let Some(mut stderr) = child.stderr.take() {
                    io::Read::read_to_string(&mut stderr, &mut said)?;
                }
                let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned();
                record(&mut |tally| {
                    tally.failures.entry(Failure::Died(format!("{status}: {said}"))).or_default().push(at);
                });
                break at + 1;
            }
        }
    };
    child.wait()?;
    drop(reader.join());
    Ok(next)
}

fn spawn(seed: u64, from: usize, to: usize, damages: Option<u32>) -> Result<Child, Box<dyn Error>> {
    let limited = format!("ulimit -c 0; ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).arg(env::current_exe()?);
    command.args(["fuzz", "--seed", &seed.to_string(), "--child", &from.to_string(), &to.to_string()]);
    if let Some(damages) = damages {
        command.args(["--damages", &damages.to_string()]);
    }
    Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

/// CPU time of a process.
fn cpu_of(process: u32) -> Duration {
    /// Ticks in a second on every Linux.
    const TICKS: u64 = 100;
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS)
}

/// Checks copies in this process.
fn run_child(arguments: &Arguments, seeds: &[Seed], from: usize, to: usize) -> Result<(), Box<dyn Error>> {
    static SAID: Mutex<String> = Mutex::new(String::new());
    panic::set_hook(Box::new(|info| {
        if let Ok(mut said) = SAID.lock() {
            *said = info.to_string().replace('\n', " ");
        }
    }));
    let folder = env::temp_dir().join(format!("dlcost-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    for number in from..to {
        let Some((seed, bytes)) = copy(seeds, arguments.seed, number, arguments.damages) else { continue };
        let file = folder.join(match seed.kind {
            Kind::Binary => "model.onnx",
            Kind::Text => "model.onnxtxt",
            Kind::Json => "model.json",
            Kind::Container => "model.keras",
        });
        fs::write(&file, bytes)?;
        writeln!(io::stdout().lock(), "start {number}")?;
        // Starts the peak anew.
        let _ = fs::write("/proc/self/clear_refs", "5");
        let checked = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
            let ok = panic::catch_unwind(|| check(&file, number)).is_ok();
            (ok, cpu_of_this_thread())
        })?;
        let (ok, cpu) = checked.join().unwrap_or((false, Duration::ZERO));
        let panic = if ok { String::new() } else { SAID.lock().map(|said| said.clone()).unwrap_or_default() };
        writeln!(io::stdout().lock(), "done {number} {} {} {panic}", cpu.as_micros(), peak_kib())?;
    }
    fs::remove_dir_all(&folder)?;
    Ok(())
}

/// All that the program does with a file.
fn check(file: &Path, number: usize) {
    let options = CheckOptions {
        mode: if number.is_multiple_of(2) { Mode::Train } else { Mode::Infer },
        batch: number.is_multiple_of(3).then_some(2),
        tensors: true,
        ..CheckOptions::default()
    };
    let Ok((_, models)) = engine::emit(&Input::Path(file.to_path_buf()), "model", &options, Stage::Shapes) else {
        return;
    };
    let report = report::Report {
        schema: report::SCHEMA.to_owned(),
        dlcost: report::Program { version: String::new(), predictors: None },
        models,
        summary: report::Summary::default(),
    };
    let _ = render::human::write(&report, 10, Style::PLAIN, &mut io::sink());
    let _ = render::concise::write(&report, &mut io::sink());
    let _ = render::json::write(&report, &mut io::sink());
    let root = render::paths::Root::new(Path::new("/"));
    let _ = render::sarif::write(&report, &root, &mut io::sink());
    let _ = render::github::write(&report, 10, Style::PLAIN, &root, &mut io::sink());
}

fn cpu_of_this_thread() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0))
}

fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn print_table(tally: &Tally, seeds: &[Seed], time: Duration) {
    println!("{:30} {}", "files to damage", seeds.len());
    println!("{:30} {} in {:.0} s", "copies checked", tally.checked, time.as_secs_f64());
    println!("{:30} {:.2} s of CPU (copy {})", "slowest", tally.slowest.0.as_secs_f64(), tally.slowest.1);
    println!("{:30} {} MB (copy {})", "largest", tally.largest.0 / 1000, tally.largest.1);
    for (failure, numbers) in &tally.failures {
        println!("{failure:?}: {} copies: {:?}", numbers.len(), numbers.iter().take(8).collect::<Vec<_>>());
    }
    if tally.failures.is_empty() {
        println!("no panic, none too long, none too large");
    }
}

/// Saves the first copy of each failure with as little damage as still makes it fail.
fn save_findings(arguments: &Arguments, seeds: &[Seed], tally: &Tally) -> Result<(), Box<dyn Error>> {
    for (index, (failure, numbers)) in tally.failures.iter().enumerate() {
        let Some(&number) = numbers.first() else { continue };
        fs::create_dir_all(&arguments.findings)?;
        let mut damages = (1 << DAMAGES) - 1;
        for piece in 0..DAMAGES {
            let fewer = damages & !(1 << piece);
            let again = Mutex::new(Tally::default());
            watch_range(arguments.seed, number, number + 1, Some(fewer), &again)?;
            if again.into_inner().unwrap_or_default().failures.contains_key(failure) {
                damages = fewer;
            }
        }
        let Some((seed, bytes)) = copy(seeds, arguments.seed, number, Some(damages)) else { continue };
        let extension = if seed.kind == Kind::Text { "onnxtxt" } else { "onnx" };
        let file = arguments.findings.join(format!("{index:02}-{number}.{extension}"));
        fs::write(&file, bytes)?;
        println!("{}: from {}, {failure:?}", file.display(), seed.label);
    }
    Ok(())
}
