//! Models that are read, and the promise that no output replaces one of them.

use std::path::Path;

use super::Failure;
use crate::engine::Input;
use crate::frontend::source::read_stream;

/// All of standard input.
pub(super) fn read_stdin() -> Result<Vec<u8>, Failure> {
    read_stream(std::io::stdin().lock()).map_err(|error| Failure::new(format!("cannot read standard input: {error}")))
}

/// The one model of a command: a file, or standard input for `-`.
pub(super) fn one(path: &Path) -> Result<Input, Failure> {
    Ok(if path == Path::new("-") { Input::Stdin(read_stdin()?) } else { Input::Path(path.to_owned()) })
}

/// Refuses an output over one of the models.
pub(super) fn refuse_to_overwrite<'p>(
    output: &Path,
    models: impl IntoIterator<Item = &'p Path>,
) -> Result<(), Failure> {
    let Ok(output) = output.canonicalize() else {
        return Ok(());
    };
    let hit = models.into_iter().find(|model| model.canonicalize().is_ok_and(|model| model == output));
    hit.map_or(Ok(()), |model| {
        Err(Failure::new(format!("--output would overwrite the model {}", model.to_string_lossy())))
    })
}
