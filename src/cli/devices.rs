//! `dlcost devices`: the catalogue, and cards side by side.

use std::path::Path;
use std::process::ExitCode;

use super::{Failure, output, terminal};
use crate::device::{Device, catalogue, find, load_user};
use crate::options::ColorChoice;
use crate::render::devices;

/// List the GPUs that are known, or compare some of them.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Ids (v100-sxm2-16gb), short names (v100) or files of devices (card.toml) to compare; without any, all are listed.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// How they are written.
    #[arg(long, value_enum, default_value_t = Form::Human)]
    format: Form,
    /// Whether to use colour.
    #[arg(long, value_name = "WHEN", value_parser = crate::options::color, default_value = "auto")]
    color: ColorChoice,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Form {
    /// Tables for people.
    Human,
    /// All figures and where they are from, for programs.
    Json,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let devices = devices(&arguments.ids)?;
    let devices: Vec<&Device> = devices.iter().collect();
    let style = terminal::of_stdout(arguments.color);
    output::to_stdout(|out| match arguments.format {
        Form::Json => devices::json(&devices, out),
        Form::Human if arguments.ids.is_empty() => out.write_all(devices::list(&devices, style).as_bytes()),
        Form::Human => out.write_all(devices::comparison(&devices, style).as_bytes()),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The devices that were asked for, each once; all of them when none was.
fn devices(ids: &[String]) -> Result<Vec<Device>, Failure> {
    if ids.is_empty() {
        return Ok(catalogue().devices().to_vec());
    }
    let mut devices: Vec<Device> = Vec::new();
    for id in ids.iter().flat_map(|ids| ids.split(',')) {
        let new = if is_file(id) {
            load_user(Path::new(id)).map_err(|error| Failure::new(error.to_string()))?
        } else {
            let found = find(id).map_err(|error| Failure::new(error.to_string()))?;
            if let Some(note) = found.note() {
                output::note(&format!("note: {note}"));
            }
            vec![found.device.clone()]
        };
        for device in new {
            if !devices.iter().any(|known| known.id == device.id) {
                devices.push(device);
            }
        }
    }
    Ok(devices)
}

fn is_file(id: &str) -> bool {
    Path::new(id).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_files_and_lists_of_them_are_taken() {
        let ids = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            devices(&names).map(|devices| devices.into_iter().map(|device| device.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&["t4,v100", "v100-sxm2-16gb"]).unwrap(), ["t4", "v100-sxm2-16gb"]);
        assert!(ids(&[]).unwrap().len() > 100);
        assert!(ids(&["t4x"]).unwrap_err().0.contains("nearest: t4, "));
        assert!(ids(&["no-such.toml"]).unwrap_err().0.starts_with("no-such.toml: "));
    }
}
