//! `dlcost check`: reports on model files. Gathers options, files and configurations, lets the engine work, writes.

mod arguments;
mod plan;
mod progress;

use std::path::Path;
use std::process::ExitCode;

pub(super) use arguments::Arguments;

use super::{COULD_NOT, Failure, jobs, output, terminal};
use crate::diagnostics::Level;
use crate::engine::{self, LevelRule, Stage, Unreadable};
use crate::options::{Emit, Format};
use crate::render::paths::Root;
use crate::render::{self, Style};
use crate::report::{Model, Program, Report, SCHEMA, Summary};
use plan::{Job, Plan};

/// What came out for one file.
#[derive(Default)]
struct Outcome {
    models: Vec<Model>,
    /// Output of `--emit`.
    emitted: String,
    /// Why the file could not be read.
    problem: Option<String>,
}

pub(super) fn run(arguments: Arguments, levels: Vec<LevelRule>) -> Result<ExitCode, Failure> {
    let plan = Plan::new(&arguments, levels)?;
    let mut problems = plan.problems.clone();
    let given = plan.jobs.iter().flat_map(|job| &job.targets).find_map(|target| target.request.predictors.as_ref());
    let dlcost = given.map_or_else(Program::this, |predictors| Program::with(predictors));
    let mut report = Report { schema: SCHEMA.to_owned(), dlcost, models: Vec::new(), summary: Summary::default() };
    let mut emitted = String::new();
    let mut progress = progress::Progress::new(plan.jobs.len(), plan.quiet);
    let results = jobs::map_in_order(&plan.jobs, plan.threads, |job| check(job, plan.emit), |done| progress.show(done));
    progress.finish();
    for (job, result) in plan.jobs.iter().zip(results) {
        match result {
            Ok(outcome) => {
                report.summary.files += usize::from(!outcome.models.is_empty());
                report.models.extend(outcome.models);
                emitted.push_str(&outcome.emitted);
                problems.extend(outcome.problem);
            }
            Err(panic) => problems.push(panic.describe(&job.shown)),
        }
    }
    if arguments.problems {
        keep_problems(&mut report);
    }
    count(&mut report);
    for problem in &problems {
        output::note(problem);
    }
    let style =
        arguments.output.as_ref().map_or_else(|| terminal::of_stdout(plan.color), |_| terminal::of_file(plan.color));
    // A folder that is gone has no paths that are relative to it.
    let root = Root::new(&std::env::current_dir().unwrap_or_default());
    if plan.emit == Emit::Report {
        write(arguments.output.as_deref(), |out| match plan.format {
            // A run in which nothing could be read has said so already.
            Format::Human | Format::Github if report.models.is_empty() && !problems.is_empty() => Ok(()),
            Format::Human => render::human::write(&report, plan.top, style, out),
            Format::Concise => render::concise::write(&report, out),
            Format::Json => render::json::write(&report, out),
            Format::Sarif => render::sarif::write(&report, &root, out),
            Format::Github => render::github::write(&report, plan.top, style, &root, out),
        })?;
    } else {
        write(arguments.output.as_deref(), |out| out.write_all(emitted.as_bytes()))?;
        diagnostics_to_stderr(&report, terminal::of_stderr(plan.color));
    }
    Ok(if !problems.is_empty() {
        ExitCode::from(COULD_NOT)
    } else if report.summary.errors > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Checks one file for each of its targets.
fn check(job: &Job, emit: Emit) -> Outcome {
    let done = match emit {
        Emit::Report => {
            engine::check_targets(&job.input, &job.shown, &job.targets).map(|models| (String::new(), models))
        }
        Emit::Graph => stage(job, Stage::Graph),
        Emit::Shapes => stage(job, Stage::Shapes),
        Emit::Kernels => stage(job, Stage::Kernels),
        Emit::Memory => stage(job, Stage::Memory),
    };
    match done {
        Ok((emitted, models)) => Outcome { models, emitted, problem: None },
        Err(unreadable) => Outcome { problem: Some(format!("error: cannot read {unreadable}")), ..Outcome::default() },
    }
}

/// The texts of a stage for each target.
fn stage(job: &Job, stage: Stage) -> Result<(String, Vec<Model>), Unreadable> {
    let mut text = String::new();
    let mut models = Vec::new();
    for options in &job.targets {
        let (emitted, checked) = engine::emit(&job.input, &job.shown, options, stage)?;
        text.push_str(&emitted);
        models.extend(checked);
    }
    Ok((text, models))
}

/// Leaves out notes, and models without warnings and errors.
fn keep_problems(report: &mut Report) {
    for model in &mut report.models {
        model.diagnostics.retain(|finding| finding.level > Level::Note);
    }
    report.models.retain(|model| !model.diagnostics.is_empty());
}

/// Counts the diagnostics by level.
fn count(report: &mut Report) {
    for finding in report.models.iter().flat_map(|model| &model.diagnostics) {
        match finding.level {
            Level::Error => report.summary.errors += 1,
            Level::Warning => report.summary.warnings += 1,
            Level::Note => report.summary.notes += 1,
        }
    }
}

fn write(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>,
) -> Result<(), Failure> {
    match path {
        Some(path) if path != Path::new("-") => output::to_file(path, write),
        _ => output::to_stdout(write),
    }
}

fn diagnostics_to_stderr(report: &Report, style: Style) {
    // Where standard error is closed nobody misses them.
    let _ = render::human::write_diagnostics(report, style, &mut std::io::stderr().lock());
}
