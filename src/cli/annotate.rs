//! `dlcost annotate`: the model as ONNX text with notes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::arguments::{ConfigArguments, LevelArguments, ModelArguments};
use super::configs::{Configs, targets};
use super::input::{one, refuse_to_overwrite};
use super::{COULD_NOT, Failure, jobs, output, terminal};
use crate::config::Settings;
use crate::diagnostics::Level;
use crate::engine::{self, LevelRule};
use crate::options::{self, ColorChoice};
use crate::render::{annotated, human};

/// Print a model as ONNX text with notes: at each node its output shape, MACs and share of the time, and below its line
/// what is wrong with it.
///
/// Notes are comments, so that the text can be read by whatever reads ONNX text, `dlcost check -` among it. Weights are
/// left out; integers that shapes may depend on are kept. Of several targets of a configuration the first one counts.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(super) struct Arguments {
    /// Model file, or - for standard input.
    #[arg(value_name = "PATH")]
    path: PathBuf,

    #[command(flatten)]
    model: ModelArguments,

    /// File to write to instead of standard output; it is written whole or not at all
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,

    #[command(flatten)]
    levels: LevelArguments,

    #[command(flatten)]
    config: ConfigArguments,

    /// Colour: auto, always or never [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = options::color, help_heading = "Run")]
    color: Option<ColorChoice>,
}

pub(super) fn run(arguments: &Arguments, levels: &[LevelRule]) -> Result<ExitCode, Failure> {
    let file = arguments.output.as_deref().filter(|path| *path != Path::new("-"));
    let mut configs = Configs::new(&arguments.config)?;
    let (here, config) = (configs.of_working_folder()?, configs.of_file(&arguments.path)?);
    let (shown, input) = (arguments.path.to_string_lossy(), one(&arguments.path)?);
    if let Some(file) = file {
        refuse_to_overwrite(file, [&*arguments.path])?;
    }
    let color = arguments.color.or(here.and_then(|config| config.output.color)).unwrap_or_default();
    let settings = arguments.model.settings();
    refuse_what_no_note_shows(&settings)?;
    let targets = targets(&settings, levels, config.as_deref())?;
    let options = targets.into_iter().next().unwrap_or_default();
    let (text, model) = match jobs::alone(|| engine::annotate(&input, &shown, &options)) {
        Ok(result) => result.map_err(|unreadable| Failure::new(format!("cannot read {unreadable}")))?,
        Err(panic) => {
            output::note(&panic.describe(&shown));
            return Ok(ExitCode::from(COULD_NOT));
        }
    };
    if let Some(text) = &text {
        match file {
            Some(file) => {
                output::to_file(file, |out| annotated::write(&model, text, terminal::of_file(color), out))?;
            }
            None => output::to_stdout(|out| annotated::write(&model, text, terminal::of_stdout(color), out))?,
        }
    } else {
        // Where standard error is closed nobody misses them.
        let _ = human::write_findings_of(&model, terminal::of_stderr(color), &mut std::io::stderr().lock());
    }
    let broken = model.diagnostics.iter().any(|finding| finding.level == Level::Error);
    Ok(if broken || text.is_none() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Notes are of one device and one step.
fn refuse_what_no_note_shows(settings: &Settings) -> Result<(), Failure> {
    if settings.gpus.len() > 1 {
        return Err(Failure::new("annotate shows the times of one device; give one --gpu"));
    }
    if settings.request.samples.is_some() {
        return Err(Failure::new("annotate shows no totals; --samples is for dlcost check"));
    }
    Ok(())
}
