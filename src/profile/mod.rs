//! Layer profiles that runtimes write: what each layer took in a run that somebody measured. Read here into lines of one
//! form, and laid on the nodes of a model by [`layers`].

pub(crate) mod layers;
mod names;
mod onnxruntime;
mod tensorrt;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, SeqAccess, Visitor};

use crate::ir::hash::HashMap;

/// The largest file that is read: thousands of runs of the largest models have less.
const MOST_BYTES: u64 = 256 << 20;

/// Lines with names of their own; a model has no more nodes.
const MOST_LINES: usize = 1 << 20;

/// What a runtime measured.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Who wrote it.
    pub recorder: Recorder,
    /// Runs that the times are averages over.
    pub runs: u64,
    /// Whose time it is.
    pub clock: Clock,
    /// Lines, each name once, in the order of the file.
    pub lines: Vec<Line>,
    /// A whole run, where the profile has it.
    pub end_to_end_ms: Option<f64>,
}

/// A line of a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// The layer as the runtime calls it.
    pub name: String,
    /// The operator, where the profile has it.
    pub op: Option<String>,
    /// Average of a run.
    pub ms: f64,
}

/// The program that wrote a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorder {
    /// `trtexec --exportProfile`.
    TensorRt,
    /// `enable_profiling` of a session.
    OnnxRuntime,
}

impl Recorder {
    /// The runtime, as `--runtime` names it.
    #[must_use]
    pub fn runtime(self) -> &'static str {
        match self {
            Self::TensorRt => "tensorrt",
            Self::OnnxRuntime => "onnxruntime",
        }
    }
}

/// Whose time a profile has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The device's.
    Device,
    /// The host's, which does not wait for a GPU.
    Host,
}

impl Clock {
    /// `device` or `host`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Host => "host",
        }
    }
}

/// Why a profile cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Broken {
    /// What is wrong.
    pub message: String,
    /// From 1; `None` for the file as a whole.
    pub line: Option<u64>,
    /// From 1.
    pub column: Option<u64>,
}

impl Broken {
    fn whole(message: impl Into<String>) -> Self {
        Self { message: message.into(), line: None, column: None }
    }
}

/// The bytes of a profile.
///
/// # Errors
/// The file cannot be read, or is larger than any profile.
pub fn open(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
    }
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 256 MiB; profile fewer runs"));
    }
    Ok(bytes)
}

/// Reads a profile of `trtexec --exportProfile` or of ONNX Runtime, whichever it is.
///
/// # Errors
/// It is neither, or holds times that cannot be.
pub fn read(bytes: &[u8]) -> Result<Profile, Broken> {
    let mut first = None;
    for_each(bytes, &mut |entry| {
        first.get_or_insert(entry.cat.is_some() || entry.ph.is_some());
        Ok(())
    })?;
    let profile = match first {
        None => return Err(Broken::whole("the list of layers is empty")),
        Some(true) => onnxruntime::read(bytes)?,
        Some(false) => tensorrt::read(bytes)?,
    };
    if profile.lines.is_empty() {
        return Err(Broken::whole("no layer has a time in it"));
    }
    Ok(profile)
}

/// An entry of either form; what it holds beside these is skipped without being built.
#[derive(Debug, Default, Deserialize)]
struct Entry {
    name: Option<String>,
    count: Option<f64>,
    #[serde(rename = "timeMs")]
    time_ms: Option<f64>,
    #[serde(rename = "averageMs")]
    average_ms: Option<f64>,
    cat: Option<String>,
    ph: Option<String>,
    /// Microseconds, as all times of an event.
    ts: Option<f64>,
    dur: Option<f64>,
    args: Option<Arguments>,
}

/// Arguments of an event.
#[derive(Debug, Default, Deserialize)]
struct Arguments {
    op_name: Option<String>,
    provider: Option<String>,
}

/// Walks the entries of a list one by one, so that no more than one is in memory. The reader bounds the depth.
fn for_each(bytes: &[u8], each: &mut dyn FnMut(Entry) -> Result<(), String>) -> Result<(), Broken> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let done = Entries(each).deserialize(&mut reader).and_then(|()| reader.end());
    done.map_err(|error| {
        let text = error.to_string();
        // The place stands beside the message.
        let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
        let place = |number: usize| (error.line() > 0).then_some(number as u64);
        Broken { message: message.to_owned(), line: place(error.line()), column: place(error.column().max(1)) }
    })
}

struct Entries<'f>(&'f mut dyn FnMut(Entry) -> Result<(), String>);

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the list of a layer profile (trtexec --exportProfile, or profiling of ONNX Runtime)")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(entry) = entries.next_element()? {
            (self.0)(entry).map_err(de::Error::custom)?;
        }
        Ok(())
    }
}

/// Lines by name, times added up.
#[derive(Default)]
struct Lines {
    lines: Vec<Line>,
    by_name: HashMap<String, usize>,
}

impl Lines {
    /// The line of a name, made where there is none.
    fn line(&mut self, name: &str, op: Option<&str>) -> Result<usize, String> {
        if let Some(&index) = self.by_name.get(name) {
            return Ok(index);
        }
        let index = self.lines.len();
        if index >= MOST_LINES {
            return Err(format!("more than {MOST_LINES} layers"));
        }
        self.by_name.insert(name.to_owned(), index);
        self.lines.push(Line { name: name.to_owned(), op: op.map(str::to_owned), ms: 0.0 });
        Ok(index)
    }

    fn add(&mut self, index: usize, ms: f64) {
        if let Some(line) = self.lines.get_mut(index) {
            line.ms += ms;
        }
    }
}

/// A time that can be.
fn checked(time: f64, name: &str) -> Result<f64, String> {
    if time.is_finite() && time >= 0.0 { Ok(time) } else { Err(format!("{name:?} took {time}, which no layer can")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> Broken {
        read(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn what_is_no_profile_is_refused_with_its_place() {
        let object = broken("{\"traceEvents\": []}");
        assert!(object.message.contains("trtexec --exportProfile"), "{object:?}");
        assert_eq!((object.line, object.column), (Some(1), Some(1)));
        let cut = broken("[\n{\"count\": 3},\n{\"name\": \"a\", \"aver");
        assert!(cut.message.contains("EOF"), "{cut:?}");
        assert_eq!(cut.line, Some(3));
        let negative = broken("[{\"count\": 3},\n{\"name\": \"a\", \"averageMs\": -1}]");
        assert!(negative.message.contains("\"a\" took -1"), "{negative:?}");
        assert_eq!(negative.line, Some(2));
        assert!(broken("[]").message.contains("empty"));
        assert!(broken("[{}]").message.contains("no layer"));
        assert!(broken("[{\"count\": 1}] x").message.contains("trailing"));
        assert!(broken("").line.is_some());
    }

    #[test]
    fn depth_and_stray_values_are_bounded() {
        let deep = format!("[{}", "[".repeat(1 << 20));
        assert!(read(deep.as_bytes()).is_err());
        let nested = format!("[{{\"x\": {}{}}}]", "[".repeat(1 << 20), "]".repeat(1 << 20));
        assert!(read(nested.as_bytes()).is_err());
        assert!(read(b"[{\"name\": 3}]").is_err());
        assert!(read(b"[{\"count\": 1}, {\"name\": \"a\", \"averageMs\": 1e999}]").is_err());
    }
}
