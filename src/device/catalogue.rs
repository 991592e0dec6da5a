//! The devices that are built in, by id and by other names: `predictors/devices.toml`.

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use super::form::{self, DeviceError, Section, Wrong};
use super::{Device, Source, read};

const TEXT: &str = include_str!("../../predictors/devices.toml");
const PATH: &str = "predictors/devices.toml";

/// Devices and their other names.
#[derive(Debug, Default)]
pub struct Catalogue {
    devices: Vec<Device>,
    aliases: Vec<Alias>,
}

/// Another name of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Alias {
    id: String,
    device: String,
    /// Which of several boards is meant is not known.
    uncertain: bool,
}

/// A device that was asked for by id or by another name.
#[derive(Clone, Debug)]
pub struct Found<'c> {
    /// The device.
    pub device: &'c Device,
    /// The other name, where it was one.
    pub alias: Option<&'c str>,
    /// Whether the name leaves open which board is meant: intervals are wider then.
    pub uncertain: bool,
    /// Ids of the boards that the name could mean as well.
    pub variants: Vec<&'c str>,
}

impl Found<'_> {
    /// What to say where another name was taken for a device and there are more that it could mean.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let alias = self.alias?;
        let id = &self.device.id;
        if self.variants.is_empty() {
            return self.uncertain.then(|| format!("'{alias}' is taken as {id}"));
        }
        Some(format!("'{alias}' is taken as {id}; there are also {}", self.variants.join(", ")))
    }
}

/// No device has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDevice {
    /// What was asked for.
    pub name: String,
    /// The three names that come nearest, best first.
    pub nearest: Vec<String>,
}

impl fmt::Display for UnknownDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no device is called '{}'; nearest: {}", self.name, self.nearest.join(", "))
    }
}

impl std::error::Error for UnknownDevice {}

/// The devices that are built in; the text is parsed on first use.
pub fn catalogue() -> &'static Catalogue {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    // A test reads the file that is built in, so it is never empty.
    CATALOGUE.get_or_init(|| parse().unwrap_or_default())
}

/// The built-in device of an id or another name; small and capital letters are the same.
///
/// # Errors
/// There is none; the three names that come nearest are in the error.
pub fn find(name: &str) -> Result<Found<'static>, UnknownDevice> {
    catalogue().find(name)
}

/// Reads the file that is built in.
pub(super) fn parse() -> Result<Catalogue, DeviceError> {
    form::parse(Path::new(PATH), TEXT, |document| {
        document.only(&["device", "alias"])?;
        let devices = devices(document, Source::Recalled)?;
        let aliases = match document.section("alias", "alias")? {
            Some(section) => section.sections("alias")?,
            None => Vec::new(),
        };
        let aliases = aliases.into_iter().map(|(id, entry)| alias(id, &entry, &devices)).collect::<Result<_, _>>()?;
        Ok(Catalogue { devices, aliases })
    })
}

/// The devices of a document, at least one.
pub(super) fn devices(document: &Section<'_, '_>, others: Source) -> Result<Vec<Device>, Wrong> {
    let section = document.section("device", "device")?.ok_or_else(|| document.lacks("device.ID"))?;
    let entries = section.sections("device.ID")?;
    if entries.is_empty() {
        return Err(document.lacks("device.ID"));
    }
    entries.into_iter().map(|(id, entry)| read::device(id, &entry.unnamed(), others)).collect()
}

fn alias(id: &str, entry: &Section<'_, '_>, devices: &[Device]) -> Result<Alias, Wrong> {
    entry.only(&["device", "uncertain"])?;
    let device = entry.text("device")?.ok_or_else(|| entry.lacks("device"))?;
    if !devices.iter().any(|known| known.id == device) {
        return Err(Wrong::at(entry.span_of("device"), format!("no device is called '{device}'")));
    }
    if devices.iter().any(|known| known.id == id) {
        return Err(Wrong::at(entry.span.clone(), format!("'{id}' is a device and cannot be another name")));
    }
    Ok(Alias { id: id.to_owned(), device: device.to_owned(), uncertain: entry.truth("uncertain")? })
}

impl Catalogue {
    /// All devices, in the order of the file: by age.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Other names and the ids that they stand for.
    pub fn aliases(&self) -> impl Iterator<Item = (&str, &str)> {
        self.aliases.iter().map(|alias| (alias.id.as_str(), alias.device.as_str()))
    }

    /// As [`find`].
    ///
    /// # Errors
    /// As [`find`].
    pub fn find(&self, name: &str) -> Result<Found<'_>, UnknownDevice> {
        let asked = name.trim();
        let named = |id: &str| self.devices.iter().find(|device| device.id.eq_ignore_ascii_case(id));
        if let Some(device) = named(asked) {
            return Ok(Found { device, alias: None, uncertain: false, variants: Vec::new() });
        }
        let alias = self.aliases.iter().find(|alias| alias.id.eq_ignore_ascii_case(asked));
        if let Some((alias, device)) = alias.and_then(|alias| Some((alias, named(&alias.device)?))) {
            let stem = alias.id.strip_suffix("-unknown").unwrap_or(&alias.id);
            let is_variant = |id: &&str| id.strip_prefix(stem).is_some_and(|rest| rest.starts_with('-'));
            let variants = self.devices.iter().map(|device| device.id.as_str()).filter(is_variant);
            let variants = variants.filter(|id| *id != device.id).collect();
            return Ok(Found { device, alias: Some(&alias.id), uncertain: alias.uncertain, variants });
        }
        Err(UnknownDevice { name: asked.to_owned(), nearest: self.nearest(asked) })
    }

    /// The three names that come nearest to a text, best first; those of makers and families do not count.
    fn nearest(&self, text: &str) -> Vec<String> {
        const NOISE: [&str; 9] =
            ["nvidia", "amd", "geforce", "tesla", "instinct", "radeon", "quadro", "gpu", "graphics"];
        let lower = text.to_lowercase();
        let words: Vec<&str> =
            lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let telling: Vec<&str> = words.iter().copied().filter(|word| !NOISE.contains(word)).collect();
        let wanted = if telling.is_empty() { words.concat() } else { telling.concat() };
        let ids = self.devices.iter().map(|device| device.id.as_str());
        let mut scored: Vec<(f64, &str)> = ids.map(|id| (likeness(&wanted, id), id)).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        scored.into_iter().take(3).map(|(_, id)| id.to_owned()).collect()
    }
}

/// How much an id is like a text without signs, from 0 to 2.
fn likeness(wanted: &str, id: &str) -> f64 {
    let id: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
    let letters_apart = id.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let within = !wanted.is_empty() && (id.contains(wanted) || wanted.contains(id.as_str()));
    let alike = strsim::jaro_winkler(wanted, &id).max(0.98 * strsim::jaro_winkler(wanted, letters_apart));
    if within { 1.0 + alike } else { alike }
}
