//! Devices of a user: a file of the form of `predictors/devices.toml`.

use std::path::Path;

use super::catalogue::devices;
use super::form::{self, DeviceError};
use super::{Device, Source};

/// Largest file that is read; the built-in catalogue is a tenth of it.
const MOST_BYTES: u64 = 1 << 20;

/// Reads the devices of a file, at least one. Needed are `memory.gib`, `memory.gb_s` and `plain.fp32`; what else is left
/// out is assumed and listed in [`Device::assumed`].
///
/// # Errors
/// The file cannot be read, is not TOML, lacks a figure that is needed, has one that cannot be, or a field that is not
/// known.
pub fn load_user(path: &Path) -> Result<Vec<Device>, DeviceError> {
    let fail = |message: String| DeviceError { path: path.to_owned(), position: None, message };
    let metadata = std::fs::metadata(path).map_err(|error| fail(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return Err(fail("a file of devices is a file of at most 1 MiB".to_owned()));
    }
    let bytes = std::fs::read(path).map_err(|error| fail(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| fail("the file is not UTF-8".to_owned()))?;
    read(path, &text)
}

/// Reads the text of the file at `path`.
pub(super) fn read(path: &Path, text: &str) -> Result<Vec<Device>, DeviceError> {
    form::parse(path, text, |document| {
        document.only(&["device"])?;
        devices(document, Source::Given)
    })
}
