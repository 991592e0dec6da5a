//! Commands and options that are specified and not there yet: refused by name, before anything else is looked at.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::Failure;
use crate::options::{COMMANDS_NOT_AVAILABLE, NOT_ACTED_ON};

/// Refuses a command line that names one of them.
pub(super) fn refuse(arguments: &[OsString]) -> Result<(), Failure> {
    let Some(command) = arguments.get(1).and_then(|argument| argument.to_str()) else {
        return Ok(());
    };
    if COMMANDS_NOT_AVAILABLE.contains(&command) {
        return Err(Failure::new(format!("the command '{command}' is not available in this version")));
    }
    if matches!(command, "check" | "annotate" | "compare") {
        // No option takes a value that starts with dashes, so whatever looks like an option is one.
        for argument in arguments.iter().skip(2).take_while(|argument| *argument != "--") {
            if let Some(option) = not_acted_on(argument) {
                return Err(Failure::new(format!("--{option} is not acted on by this version")));
            }
        }
    } else if looks_like_a_model(command) {
        return Err(Failure::new(format!("'{command}' is not a command; to check it, say: dlcost check {command}")));
    }
    Ok(())
}

fn not_acted_on(argument: &OsStr) -> Option<&'static str> {
    let argument = argument.to_string_lossy();
    let name = argument.strip_prefix("--")?;
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    NOT_ACTED_ON.iter().copied().find(|option| *option == name)
}

/// Whether somebody forgot `check`.
fn looks_like_a_model(command: &str) -> bool {
    !command.starts_with('-') && command.contains(['.', '/', '\\']) && Path::new(command).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> Option<String> {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        refuse(&arguments).err().map(|Failure(message)| message)
    }

    #[test]
    fn specified_options_and_commands_are_refused_by_name() {
        let features = Some("--features is not acted on by this version".to_owned());
        assert_eq!(refused("dlcost check m.onnx --features"), features);
        assert_eq!(refused("dlcost check --features=x m.onnx"), features);
        assert_eq!(
            refused("dlcost sweep m.onnx"),
            Some("the command 'sweep' is not available in this version".to_owned())
        );
        assert_eq!(refused("dlcost check -- --features"), None);
        assert_eq!(refused("dlcost check --feature 3"), None);
        assert_eq!(refused("dlcost"), None);
    }
}
