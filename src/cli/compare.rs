//! `dlcost compare`: a layer profile that a runtime measured beside the prediction.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::arguments::{ConfigArguments, ModelArguments};
use super::configs::{Configs, targets};
use super::input::{one, refuse_to_overwrite};
use super::{COULD_NOT, Failure, jobs, output, terminal};
use crate::config::Settings;
use crate::diagnostics::Level;
use crate::engine::{self, Mode};
use crate::options::target as values;
use crate::options::{self, ColorChoice};
use crate::profile::{self, Profile};
use crate::render::{human, json};

/// Rows in each table where nothing else is said.
const TOP: usize = 10;

/// Lay a layer profile that a runtime measured beside the prediction: predicted and measured time of each line, the worst
/// first.
///
/// Read are what trtexec --exportProfile writes and the profile of a session of ONNX Runtime. A line of several fused
/// nodes is compared with all of them; copies, reformats and whatever has no counterpart are listed apart. The mode is
/// infer and the runtime that of the profile, unless something else is given. Of several targets of a configuration the
/// first one counts.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(super) struct Arguments {
    /// Model file, or - for standard input.
    #[arg(value_name = "MODEL")]
    path: PathBuf,

    /// What the runtime measured.
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,

    #[command(flatten)]
    model: ModelArguments,

    /// Milliseconds that a whole run takes, where the profile does not say
    #[arg(long, value_name = "MS", value_parser = values::amount, allow_negative_numbers = true, help_heading = "Model")]
    end_to_end_ms: Option<f64>,

    /// Form of the comparison: human or json [default: human]
    #[arg(long, value_name = "FORMAT", value_parser = format, help_heading = "Output")]
    format: Option<Format>,

    /// File to write to instead of standard output; it is written whole or not at all
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,

    /// Rows in each table [default: 10]
    #[arg(long, value_name = "N", help_heading = "Output")]
    top: Option<usize>,

    #[command(flatten)]
    config: ConfigArguments,

    /// Colour: auto, always or never [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = options::color, help_heading = "Run")]
    color: Option<ColorChoice>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Format {
    #[default]
    Human,
    Json,
}

fn format(text: &str) -> Result<Format, String> {
    options::choice(text, &[("human", Format::Human), ("json", Format::Json)], &[])
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let file = arguments.output.as_deref().filter(|path| *path != Path::new("-"));
    let shown_profile = arguments.profile.to_string_lossy();
    let bytes = profile::open(&arguments.profile)
        .map_err(|error| Failure::new(format!("cannot read {shown_profile}: {error}")))?;
    let mut profile = profile::read(&bytes);
    drop(bytes);
    if let (Ok(profile), Some(ms)) = (&mut profile, arguments.end_to_end_ms) {
        profile.end_to_end_ms = Some(ms);
    }
    let mut configs = Configs::new(&arguments.config)?;
    let (here, config) = (configs.of_working_folder()?, configs.of_file(&arguments.path)?);
    let (shown, input) = (arguments.path.to_string_lossy(), one(&arguments.path)?);
    if let Some(file) = file {
        refuse_to_overwrite(file, [&*arguments.path, &*arguments.profile])?;
    }
    let settings = settings(arguments, profile.as_ref().ok())?;
    let targets = targets(&settings, &[], config.as_deref())?;
    let options = targets.into_iter().next().unwrap_or_default();
    let work = || engine::compare(&input, &shown, &options, profile.as_ref(), &shown_profile);
    let (comparison, model) = match jobs::alone(work) {
        Ok(result) => result.map_err(|unreadable| Failure::new(format!("cannot read {unreadable}")))?,
        Err(panic) => {
            output::note(&panic.describe(&shown));
            return Ok(ExitCode::from(COULD_NOT));
        }
    };
    let from_file = here.map(|config| config.output.clone()).unwrap_or_default();
    let color = arguments.color.or(from_file.color).unwrap_or_default();
    let top = arguments.top.or(from_file.top).unwrap_or(TOP);
    let style = file.map_or_else(|| terminal::of_stdout(color), |_| terminal::of_file(color));
    let write = |out: &mut dyn std::io::Write| match arguments.format.unwrap_or_default() {
        Format::Human => human::write_comparison(&comparison, &model, top, style, out),
        Format::Json => json::write(&comparison, out),
    };
    match file {
        Some(file) => output::to_file(file, write)?,
        None => output::to_stdout(write)?,
    }
    let broken = comparison.diagnostics.iter().any(|finding| finding.level == Level::Error);
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What the command line says, and what the profile says of the run where the command line does not.
fn settings(arguments: &Arguments, profile: Option<&Profile>) -> Result<Settings, Failure> {
    let mut settings = arguments.model.settings();
    if settings.gpus.len() > 1 {
        return Err(Failure::new("a profile is of one device; give one --gpu"));
    }
    if settings.request.samples.is_some() {
        return Err(Failure::new("compare shows no totals; --samples is for dlcost check"));
    }
    if settings.mode == Some(Mode::Train) {
        return Err(Failure::new("these profiles are of inference; give no --mode train"));
    }
    settings.mode = Some(Mode::Infer);
    if let (None, Some(profile)) = (settings.request.runtime, profile) {
        settings.request.runtime = values::runtime(profile.recorder.runtime()).ok();
    }
    Ok(settings)
}
