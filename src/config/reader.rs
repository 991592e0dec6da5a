//! Reads the text of a configuration, with the place of whatever is wrong in it.

mod target;

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Config, ConfigError, OutputSettings, Settings};
use crate::device::Device;
use crate::diagnostics::Level;
use crate::diagnostics::selector;
use crate::engine::LevelRule;
use crate::options;
use target::TARGET_KEYS;

type Entry<'t> = Spanned<DeValue<'t>>;

const SECTIONS: &[&str] = &["defaults", "levels", "target", "devices"];
const MODEL_KEYS: &[&str] =
    &["mode", "batch", "dim", "input-shape", "layer-shape", "input", "frozen", "tensors", "features"];
const OUTPUT_KEYS: &[&str] = &["format", "color", "jobs", "top", "quiet", "verbose"];
/// Long names of `check` that mean one run and not a project.
const COMMAND_LINE_ONLY: &[&str] = &["output", "emit", "config", "no-config"];

/// Reads the text of the file at `path`.
pub(super) fn read(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let fail = |error: Wrong| ConfigError {
        path: path.to_owned(),
        position: Some(position(text, error.span.start)),
        message: error.message,
    };
    let document = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        fail(Wrong { span, message: error.message().to_owned() })
    })?;
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    Reader { folder, devices: Vec::new() }
        .document(document.get_ref())
        .map_err(fail)
        .map(|config| Config { path: path.to_owned(), ..config })
}

/// Line and column of a byte, from 1, the column in characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |index| index + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}

/// Something wrong and where.
struct Wrong {
    span: Range<usize>,
    message: String,
}

impl Wrong {
    fn at(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }
}

struct Reader {
    /// Files that the configuration names are relative to its own folder.
    folder: PathBuf,
    /// Devices of the files that it names.
    devices: Vec<Device>,
}

impl Reader {
    fn document(mut self, document: &DeTable<'_>) -> Result<Config, Wrong> {
        let mut config = Config::default();
        // Devices may be named anywhere, in front of their section too.
        if let Some(value) = document.get("devices") {
            self.devices = self.devices(value)?;
        }
        let mut places = Vec::new();
        for (key, value) in in_order(document) {
            match key.get_ref().as_ref() {
                "defaults" => {
                    for (key, value) in in_order(table(value, "[defaults]")?) {
                        if !self.output_key(key.get_ref(), value, &mut config.output)? {
                            self.model_key(key, value, &mut config.defaults, true)?;
                        }
                    }
                }
                "levels" => config.levels = levels(table(value, "[levels]")?)?,
                "target" => (config.targets, places) = self.targets(value)?.into_iter().unzip(),
                "devices" => {}
                "budget" => {
                    return Err(Wrong::at(key.span(), format!("'{}' is not available in this version", key.get_ref())));
                }
                other if [MODEL_KEYS, TARGET_KEYS, OUTPUT_KEYS].iter().any(|keys| keys.contains(&other)) => {
                    return Err(Wrong::at(key.span(), format!("'{other}' belongs under [defaults]")));
                }
                other => {
                    return Err(Wrong::at(key.span(), unknown("section", other, SECTIONS.iter().copied())));
                }
            }
        }
        for (target, place) in config.targets.iter().zip(places) {
            // Whether settings go together is decided when the command line has been heard; a setting that its own mode
            // makes void is wrong in any case.
            let whole = target.clone().over(&config.defaults).into_options(Vec::new(), &self.devices);
            if let Ok(whole) = whole {
                target.refuse_without_backward(&whole).map_err(|message| Wrong::at(place, message))?;
            }
        }
        config.devices = self.devices;
        Ok(config)
    }

    /// The targets with their places.
    fn targets(&self, value: &Entry<'_>) -> Result<Vec<(Settings, Range<usize>)>, Wrong> {
        let DeValue::Array(entries) = value.get_ref() else {
            return Err(Wrong::at(value.span(), "targets are written as [[target]]"));
        };
        let mut targets = Vec::new();
        for entry in entries.iter() {
            let mut settings = Settings::default();
            for (key, value) in in_order(table(entry, "[[target]]")?) {
                if OUTPUT_KEYS.contains(&key.get_ref().as_ref()) {
                    let message = format!("'{}' concerns the output and belongs under [defaults]", key.get_ref());
                    return Err(Wrong::at(key.span(), message));
                }
                self.model_key(key, value, &mut settings, false)?;
            }
            targets.push((settings, entry.span()));
        }
        Ok(targets)
    }

    /// Reads a key about the output; false when it is none.
    fn output_key(&self, key: &str, value: &Entry<'_>, output: &mut OutputSettings) -> Result<bool, Wrong> {
        match key {
            "format" => output.format = Some(word(value, options::format)?),
            "color" => output.color = Some(word(value, options::color)?),
            "jobs" => output.jobs = Some(count(value, 1)?),
            "top" => output.top = Some(count(value, 0)?),
            "quiet" => output.quiet = Some(truth(value)?),
            "verbose" => output.verbose = Some(truth(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads a key about the model.
    fn model_key(
        &self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Entry<'_>,
        settings: &mut Settings,
        with_output: bool,
    ) -> Result<(), Wrong> {
        match key.get_ref().as_ref() {
            "mode" => settings.mode = Some(word(value, options::mode)?),
            "batch" => {
                let number = integer(value).ok_or_else(|| Wrong::at(value.span(), "batch is a number of samples"))?;
                settings.batch = Some(options::batch(&number.to_string()).map_err(|e| Wrong::at(value.span(), e))?);
            }
            "dim" => {
                settings.dims = named(value, "dim = { seq = 128 }", |value| {
                    number_or_text(value).and_then(|text| options::dim_expression(&text)).map_err(|e| at(value, e))
                })?;
            }
            "input-shape" => {
                settings.input_shapes = named(value, "input-shape = { x = \"2x3x224x224\" }", |value| {
                    shape(value).map_err(|e| at(value, e))
                })?;
            }
            "layer-shape" => {
                settings.layer_shapes = named(value, "layer-shape = { lambda = \"None,8\" }", |value| {
                    shape(value).map_err(|e| at(value, e))
                })?;
            }
            "input" => {
                settings.inputs =
                    named(value, "input = { size = [224, 224] }", |value| self.input(value).map_err(|e| at(value, e)))?;
            }
            "frozen" => settings.frozen = Some(globs(value)?),
            "tensors" => settings.tensors = Some(truth(value)?),
            "features" => settings.features = Some(truth(value)?),
            other => {
                if self.target_key(other, value, settings)? {
                    return Ok(());
                }
                let message = if COMMAND_LINE_ONLY.contains(&other) {
                    format!("'{other}' is an option of the command line only")
                } else if matches!(other, "allow" | "warn" | "deny") {
                    format!("levels are written under [levels], as in: shape-mismatch = \"{other}\"")
                } else {
                    let output = if with_output { OUTPUT_KEYS } else { &[] };
                    unknown("key", other, MODEL_KEYS.iter().chain(TARGET_KEYS).chain(output).copied())
                };
                return Err(Wrong::at(key.span(), message));
            }
        }
        Ok(())
    }

    /// An integer, a list of them, or `"@file.json"`.
    fn input(&self, value: &Entry<'_>) -> Result<Vec<i64>, String> {
        match value.get_ref() {
            DeValue::String(text) => options::input_value(text, &self.folder),
            DeValue::Array(items) => items.iter().try_fold(Vec::new(), |mut values, item| {
                values.extend(self.input(item)?);
                Ok(values)
            }),
            _ => integer(value).map(|number| vec![number]).ok_or_else(|| "the value is not an integer".to_owned()),
        }
    }
}

/// The rules of `[levels]`, wide selectors first.
fn levels(entries: &DeTable<'_>) -> Result<Vec<LevelRule>, Wrong> {
    let mut rules = Vec::new();
    for (key, value) in in_order(entries) {
        let selector = selector::canonical(key.get_ref()).map_err(|message| Wrong::at(key.span(), message))?;
        let level = match value.get_ref().as_str() {
            Some("allow") => None,
            Some("warn") => Some(Level::Warning),
            Some("deny") => Some(Level::Error),
            _ => return Err(Wrong::at(value.span(), "a level is \"allow\", \"warn\" or \"deny\"")),
        };
        rules.push(LevelRule { selector, level });
    }
    rules.sort_by_key(|rule| selector::narrowness(&rule.selector));
    Ok(rules)
}

/// The entries of a table as they stand in the file.
fn in_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(&'t Spanned<std::borrow::Cow<'i, str>>, &'t Entry<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn table<'t, 'i>(value: &'t Entry<'i>, name: &str) -> Result<&'t DeTable<'i>, Wrong> {
    match value.get_ref() {
        DeValue::Table(table) => Ok(table),
        _ => Err(Wrong::at(value.span(), format!("{name} is a table"))),
    }
}

fn named<T>(
    value: &Entry<'_>,
    example: &str,
    read: impl Fn(&Entry<'_>) -> Result<T, Wrong>,
) -> Result<Vec<(String, T)>, Wrong> {
    let DeValue::Table(entries) = value.get_ref() else {
        return Err(Wrong::at(value.span(), format!("values are given by name, as in: {example}")));
    };
    in_order(entries).into_iter().map(|(key, value)| Ok((key.get_ref().to_string(), read(value)?))).collect()
}

fn at(value: &Entry<'_>, message: String) -> Wrong {
    Wrong::at(value.span(), message)
}

fn word<T>(value: &Entry<'_>, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Wrong> {
    let text = value.get_ref().as_str().ok_or_else(|| Wrong::at(value.span(), "the value is a word in quotes"))?;
    read(text).map_err(|message| at(value, message))
}

fn truth(value: &Entry<'_>) -> Result<bool, Wrong> {
    value.get_ref().as_bool().ok_or_else(|| Wrong::at(value.span(), "the value is true or false"))
}

fn count(value: &Entry<'_>, least: usize) -> Result<usize, Wrong> {
    integer(value)
        .and_then(|number| usize::try_from(number).ok())
        .filter(|&number| number >= least)
        .ok_or_else(|| Wrong::at(value.span(), format!("the value is a number from {least}")))
}

fn integer(value: &Entry<'_>) -> Option<i64> {
    let integer = value.get_ref().as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn number_or_text(value: &Entry<'_>) -> Result<String, String> {
    match value.get_ref().as_str() {
        Some(text) => Ok(text.to_owned()),
        None => integer(value)
            .map(|number| number.to_string())
            .ok_or_else(|| "a dim is a number or an expression in quotes".to_owned()),
    }
}

/// `"2x3x224x224"`, `["batch", 3]`, or a number for one dim.
fn shape(value: &Entry<'_>) -> Result<Vec<String>, String> {
    match value.get_ref() {
        DeValue::String(text) => options::dims(text),
        DeValue::Array(items) => {
            items.iter().map(|item| number_or_text(item).and_then(|text| options::dim_expression(&text))).collect()
        }
        _ => number_or_text(value).map(|text| vec![text]),
    }
}

fn globs(value: &Entry<'_>) -> Result<Vec<String>, Wrong> {
    match value.get_ref() {
        DeValue::Array(items) => items.iter().map(|item| word(item, options::glob)).collect(),
        _ => Ok(vec![word(value, options::glob)?]),
    }
}

fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match selector::nearest(name, known.clone()).first() {
        Some(nearest) => format!("unknown {kind} '{name}'; did you mean '{nearest}'?"),
        None => format!("unknown {kind} '{name}'; possible are {}", known.collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Mode;
    use crate::options::Format;

    fn good(text: &str) -> Config {
        read(Path::new("dlcost.toml"), text).unwrap()
    }

    fn bad(text: &str) -> String {
        read(Path::new("dlcost.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn every_key_is_read() {
        let config = good(
            "[defaults]\nmode = 'infer'\nbatch = 4\ndim = {seq = 128, past = 'seq-1'}\ninput-shape = {x = '2x3', y = ['n', 3]}\n\
             input = {s = 3, t = [[1], [2]]}\nfrozen = 'enc*'\ntensors = true\nformat = 'json'\njobs = 2\ntop = 0\n\
             [levels]\nDL0302 = 'deny'\nDL03xx = 'allow'\nwarnings = 'warn'\n[[target]]\nbatch = 1\n[[target]]\nmode = 'train'\n",
        );
        assert_eq!(config.defaults.mode, Some(Mode::Infer));
        assert_eq!(config.defaults.dims.last(), Some(&("past".to_owned(), "seq-1".to_owned())));
        assert_eq!(config.defaults.input_shapes.last(), Some(&("y".to_owned(), vec!["n".to_owned(), "3".to_owned()])));
        assert_eq!(config.defaults.inputs.last(), Some(&("t".to_owned(), vec![1, 2])));
        assert_eq!(config.output.format, Some(Format::Json));
        assert_eq!(config.targets.len(), 2);
        let order: Vec<&str> = config.levels.iter().map(|rule| rule.selector.as_str()).collect();
        assert_eq!(order, ["warnings", "DL03xx", "DL0302"]);
    }

    #[test]
    fn line_ends_and_byte_order_mark_do_not_matter() {
        assert_eq!(good("\u{feff}[defaults]\r\nbatch = 4\r\n").defaults.batch, Some(4));
        assert!(bad("[defaults]\r\n  bach = 4\r\n").starts_with("dlcost.toml:2:3: "));
    }

    #[test]
    fn unknown_keys_name_place_and_nearest() {
        assert_eq!(bad("[defaults]\nbach = 4\n"), "dlcost.toml:2:1: unknown key 'bach'; did you mean 'batch'?");
        assert_eq!(bad("[default]\n"), "dlcost.toml:1:2: unknown section 'default'; did you mean 'defaults'?");
        assert!(bad("[levels]\nshape-missmatch = 'deny'\n").contains("2:1: no diagnostic is called"));
        assert!(bad("batch = 4\n").contains("belongs under [defaults]"));
    }

    #[test]
    fn what_is_not_there_yet_is_refused_by_name() {
        assert!(bad("[[budget]]\nrule = 'x'\n").contains("'budget' is not available in this version"));
        assert!(bad("[defaults]\nformat = 'junit'\n").contains("not available in this version"));
    }

    #[test]
    fn wrong_values_are_refused_at_their_place() {
        assert!(bad("[defaults]\nbatch = 0\n").starts_with("dlcost.toml:2:9: "));
        assert!(bad("[defaults]\nbatch = 'x'\n").starts_with("dlcost.toml:2:9: "));
        assert!(bad("[defaults]\nbatch = \n").starts_with("dlcost.toml:2:"));
        assert!(bad("[defaults]\ndim = 3\n").contains("by name"));
        assert!(bad("[defaults]\nfrozen = '['\n").starts_with("dlcost.toml:2:10: "));
        assert!(bad("[levels]\nDL0302 = 'error'\n").contains("\"allow\", \"warn\" or \"deny\""));
        assert!(bad("target = 3\n").contains("[[target]]"));
        assert!(bad("[[target]]\nformat = 'json'\n").contains("belongs under [defaults]"));
    }
}
