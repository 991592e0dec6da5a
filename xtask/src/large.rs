//! `cargo xtask large`: wall time and memory of the release binary on the files of `fixtures --large`.
//!
//! Memory is the peak of everything that is resident (`VmHWM`), with the share of it that no file backs: the process
//! is held at its last write, into a pipe that is full, while `/proc` is read. The peak counts pages of the model file
//! and of the program as well, so private memory is never more. CPU time stands beside the wall time: on a machine that
//! does other work it is the one to compare.

use std::error::Error;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{Outcome, fixtures, root};

/// A file, and what checking it may take.
struct Bar {
    file: &'static str,
    wall_ms: Option<f64>,
    memory_mb: Option<f64>,
}

const fn bar(file: &'static str, wall_ms: Option<f64>, memory_mb: Option<f64>) -> Bar {
    Bar { file, wall_ms, memory_mb }
}

const BARS: [Bar; 8] = [
    bar("resnet50-100mb.onnx", Some(20.0), Some(25.0)),
    bar("gpt2-medium-1.6gb.onnx", Some(80.0), Some(50.0)),
    bar("gpt2-medium-exported.onnx", Some(80.0), Some(50.0)),
    bar("gpt2-xl-6gb.onnx", Some(80.0), Some(50.0)),
    bar("gpt2-xl-exported.onnx", Some(80.0), Some(50.0)),
    bar("chain-1k.onnx", None, None),
    bar("chain-10k.onnx", Some(150.0), None),
    bar("chain-100k.onnx", None, None),
];

/// Time and memory of the release binary on large files, against their bars.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folder of the files [default: target/fixtures]
    #[arg(long)]
    files: Option<PathBuf>,
    /// Program to measure [default: target/release/dlcost]
    #[arg(long)]
    program: Option<PathBuf>,
    /// Warm runs of each file; the median counts
    #[arg(long, default_value_t = 20)]
    runs: usize,
}

/// Runs the chore.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let folder = arguments.files.clone().unwrap_or_else(fixtures::default_large_folder);
    let program = arguments.program.clone().unwrap_or_else(|| root().join("target/release/dlcost"));
    if !program.exists() {
        return Err(format!("{} is not there; cargo build --release first", program.display()).into());
    }
    let mut sound = true;
    println!(
        "{:28} {:>10} {:>8} {:>8} {:>10} {:>10} {:>8}",
        "file", "median ms", "CPU ms", "bar", "peak MB", "anon MB", "bar"
    );
    for bar in &BARS {
        let file = folder.join(bar.file);
        if !file.exists() {
            println!("{:28} not there", bar.file);
            continue;
        }
        let (wall_ms, cpu_ms) = times_ms(&program, &file, arguments.runs)?;
        let (peak_mb, anonymous_mb) = memory_mb(&program, &file)?;
        let misses =
            bar.wall_ms.is_some_and(|most| wall_ms > most) || bar.memory_mb.is_some_and(|most| anonymous_mb > most);
        let text = |bar: Option<f64>| bar.map_or_else(|| "-".to_owned(), |bar| bar.to_string());
        println!(
            "{:28} {wall_ms:>10.1} {cpu_ms:>8.1} {:>8} {peak_mb:>10.1} {anonymous_mb:>10.1} {:>8}{}",
            bar.file,
            text(bar.wall_ms),
            text(bar.memory_mb),
            if misses { "  MISSED" } else { "" }
        );
        sound &= !misses;
    }
    Ok(sound)
}

fn check(program: &Path, file: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["check", "--no-config"]).arg(file).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// The median of the wall times, and the mean of the CPU times.
fn times_ms(program: &Path, file: &Path, runs: usize) -> Result<(f64, f64), Box<dyn Error>> {
    let mut times = Vec::new();
    let mut cpu_before = 0.0;
    // Two runs warm the page cache.
    for run in 0..runs + 2 {
        if run == 2 {
            cpu_before = cpu_of_children_ms()?;
        }
        let start = Instant::now();
        let status = check(program, file).stdout(Stdio::null()).status()?;
        let time = start.elapsed().as_secs_f64() * 1e3;
        if status.code().is_none_or(|code| code > 1) {
            return Err(format!("{}: {status}", file.display()).into());
        }
        if run >= 2 {
            times.push(time);
        }
    }
    times.sort_by(f64::total_cmp);
    let cpu = (cpu_of_children_ms()? - cpu_before) / runs as f64;
    Ok((times.get(times.len() / 2).copied().ok_or("no runs")?, cpu))
}

/// CPU time of all children that have ended, in steps of 10 ms.
fn cpu_of_children_ms() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: f64 = fields.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks * 10.0)
}

/// Peak of all that is resident, and of what no file backs.
fn memory_mb(program: &Path, file: &Path) -> Result<(f64, f64), Box<dyn Error>> {
    /// Bytes that a pipe holds.
    const PIPE: usize = 65_536;
    let (mut reader, mut writer) = io::pipe()?;
    writer.write_all(&vec![b' '; PIPE])?;
    let mut child = check(program, file).stdout(writer).spawn()?;
    let [status_path, stat_path] = ["status", "stat"].map(|name| format!("/proc/{}/{name}", child.id()));
    let mut last = (String::new(), 0.0, 0.0);
    // The process is at its last write when nothing changes any more.
    let mut still = 0;
    while still < 10 {
        sleep(Duration::from_millis(20));
        let status = fs::read_to_string(&status_path)?;
        let of = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0 / 1e6
        };
        // User and system time of all threads.
        let spent = fs::read_to_string(&stat_path)?.split(' ').skip(13).take(2).collect::<Vec<_>>().join(" ");
        let now = (spent, of("VmHWM:"), of("VmHWM:") - of("RssFile:") - of("RssShmem:"));
        still = if now == last { still + 1 } else { 0 };
        last = now;
    }
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest)?;
    child.wait()?;
    Ok((last.1, last.2))
}
