//! The report for people keeps its form for every model, device, mode and terminal.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};

use dlcost::engine::{CheckOptions, Input, Mode, check};
use dlcost::render::{Style, concise, human};
use dlcost::report::{Model, Program, Report, SCHEMA, Summary};
use dlcost::target::{Cards, ChosenGpu, Request, Zero};

/// Width of a line.
const COLUMNS: usize = 100;

/// Old and new, small and large, with and without a catalogue entry that names its board in full.
const GPUS: [&str; 5] = ["k80", "t4", "v100", "a100", "rtx-4090"];

/// Marks of a bar.
const BLOCKS: [char; 9] = ['█', '▉', '▊', '▋', '▌', '▍', '▎', '▏', '#'];

/// Widest bar that its column takes.
const BAR: usize = 17;

fn models() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "onnx" || extension == "onnxtxt"))
        .collect();
    files.sort();
    files
}

fn requests() -> Vec<Request> {
    let all = || GPUS.iter().flat_map(|id| support::gpu(id).gpus).collect::<Vec<_>>();
    let mut requests: Vec<Request> = GPUS.iter().map(|id| support::gpu(id)).collect();
    requests.push(Request { replicas: Some(8), samples: Some(1_281_167), epochs: Some(90), ..support::gpu("v100") });
    requests.push(Request {
        replicas: Some(8),
        accumulate: Some(4),
        zero: Some(Zero::Parameters),
        ..support::gpu("v100")
    });
    let cards = all().into_iter().map(|gpu| gpu.device).collect();
    let together = ChosenGpu { cards: Cards::new(cards), ..all().remove(0) };
    requests.push(Request { gpus: vec![together], accumulate: Some(4), ..Request::default() });
    requests.push(Request { gpus: all().into_iter().take(2).collect(), ..Request::default() });
    requests.push(Request { gpus: all(), replicas: Some(16), hosts: Some(2), ..Request::default() });
    requests
}

fn report(models: Vec<Model>) -> Report {
    Report {
        schema: SCHEMA.to_owned(),
        dlcost: Program { version: String::new(), predictors: None },
        models,
        summary: Summary { files: 1, ..Summary::default() },
    }
}

fn human(report: &Report, style: Style) -> String {
    let mut out = Vec::new();
    human::write(report, 10, style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn every_report(mut each: impl FnMut(&Report)) {
    for path in models() {
        let name = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().display().to_string();
        for request in requests() {
            for mode in [Mode::Train, Mode::Infer] {
                let options = CheckOptions { mode, request: request.clone(), ..CheckOptions::default() };
                each(&report(check(&Input::Path(path.clone()), &name, &options).unwrap()));
            }
        }
    }
}

#[test]
fn lines_fit_and_nothing_but_what_the_style_allows_is_written() {
    every_report(|report| {
        for unicode in [true, false] {
            let text = human(report, Style { color: false, unicode });
            assert!(!text.contains('\u{1b}'));
            assert!(unicode || text.is_ascii(), "{text}");
            for line in text.lines() {
                assert!(line.chars().count() <= COLUMNS, "{line}\n{text}");
                assert_eq!(line, line.trim_end());
                let bars = line.split(|c| !BLOCKS.contains(&c)).map(|bar| bar.chars().count());
                assert!(bars.max().unwrap_or(0) <= BAR, "{line}");
            }
            // Numbers that are not numbers never get here.
            assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
        }
    });
}

#[test]
fn colour_changes_nothing_but_colour() {
    every_report(|report| {
        let colored = human(report, Style { color: true, unicode: true });
        let mut plain = String::new();
        let mut rest = colored.as_str();
        while let Some((before, code)) = rest.split_once('\u{1b}') {
            plain.push_str(before);
            rest = code.split_once('m').unwrap().1;
        }
        plain.push_str(rest);
        assert_eq!(plain, human(report, Style::PLAIN));
    });
}

#[test]
fn every_entry_has_a_line_in_the_concise_form_with_step_and_memory() {
    every_report(|report| {
        let mut out = Vec::new();
        concise::write(report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let findings: usize = report.models.iter().map(|model| model.diagnostics.len()).sum();
        assert_eq!(text.lines().count(), report.models.len() + findings);
        for model in report.models.iter().filter(|model| model.time_ms.is_some()) {
            let id = model.target.gpu.as_deref().unwrap();
            let of_it = |line: &&str| line.contains(id) && line.contains(" GiB, ") && line.contains("80 % between");
            assert!(text.lines().any(|line| of_it(&line)), "{text}");
        }
    });
}

#[test]
fn what_a_size_that_nobody_bound_hinders_is_said() {
    let text = support::opset(17, "g (float[rows, 4] x) => (float[rows, 4] y) { y = Relu (x) }");
    let options = CheckOptions { request: support::gpu("t4"), ..CheckOptions::default() };
    let models = check(&Input::Stdin(text.into_bytes()), "-", &options).unwrap();
    assert!(models.iter().all(|model| model.time_ms.is_none() == model.memory_bytes.is_none()));
    if models.iter().any(|model| model.time_ms.is_none()) {
        assert!(human(&report(models), Style::PLAIN).contains("nothing says what rows is (--dim rows=N)"));
    }
}

/// Four cards and more are a table: what a run costs stands in it where that was asked for.
#[test]
fn many_devices_are_compared_in_money_where_there_are_totals() {
    let folder = support::Folder::with(&[(
        "m.onnxtxt",
        support::opset(18, "g (float[batch, 64] x) => (y) { y = Relu (x) }").as_bytes(),
    )]);
    let table = |options: &[&str]| {
        let fixed = ["check", "m.onnxtxt", "--no-config", "--gpu", "v100,a100,t4,gtx-1080-ti"];
        String::from_utf8(folder.run(&[&fixed[..], options].concat()).stdout).unwrap()
    };
    let priced = table(&["--samples", "1000000", "--epochs", "90", "--price", "3"]);
    assert!(priced.contains("USD in all") && !priced.contains("bound by"), "{priced}");
    assert!(priced.lines().all(|line| line.chars().count() <= 100), "{priced}");
    assert!(table(&[]).contains("bound by"));
}
