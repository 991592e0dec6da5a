//! Commands that are specified and not there yet: refused by name, before anything else is looked at.

use std::ffi::OsString;
use std::path::Path;

use super::Failure;
use crate::options::COMMANDS_NOT_AVAILABLE;

/// Refuses a command line that names one of them.
pub(super) fn refuse(arguments: &[OsString]) -> Result<(), Failure> {
    let Some(command) = arguments.get(1).and_then(|argument| argument.to_str()) else {
        return Ok(());
    };
    if COMMANDS_NOT_AVAILABLE.contains(&command) {
        return Err(Failure::new(format!("the command '{command}' is not available in this version")));
    }
    if looks_like_a_model(command) {
        return Err(Failure::new(format!("'{command}' is not a command; to check it, say: dlcost check {command}")));
    }
    Ok(())
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
    fn specified_commands_are_refused_by_name() {
        assert_eq!(
            refused("dlcost sweep m.onnx"),
            Some("the command 'sweep' is not available in this version".to_owned())
        );
        assert_eq!(refused("dlcost check m.onnx --feature 3"), None);
        assert_eq!(refused("dlcost"), None);
    }
}
