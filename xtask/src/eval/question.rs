//! What the library is asked for a row.

use std::fmt;

use dlcost::engine::Mode;
use dlcost::runtime::Version;

use super::network::ModelFiles;
use super::row::Row;
use super::setup;

/// A file in the form that it was run in. Rows that share it share one analysis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Form {
    /// Path under the folder of model files.
    pub(super) file: String,
    /// Channels, height and width of the images, where the row gives them.
    pub(super) image: Option<[u64; 3]>,
}

/// What a form is priced for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) device: String,
    /// Training, or inference.
    pub(super) trains: bool,
    pub(super) runtime: &'static str,
    pub(super) version: Option<Version>,
    pub(super) attention: Option<&'static str>,
    pub(super) precision: &'static str,
    /// What the runtime does by itself, where `None`.
    pub(super) optimizer: Option<&'static str>,
    pub(super) batch: u64,
    /// Tokens of a sample.
    pub(super) tokens: Option<u64>,
    pub(super) replicas: u32,
    pub(super) hosts: u32,
    pub(super) strategy: Option<&'static str>,
}

impl Target {
    /// Training or inference.
    pub(super) fn mode(&self) -> Mode {
        if self.trains { Mode::Train } else { Mode::Infer }
    }
}

/// A question to the library. Rows that differ in nothing that it looks at ask the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Question {
    pub(super) form: Form,
    pub(super) target: Target,
}

/// Why a row has no answer. Few words, because rows are counted by it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Unpriced(pub(super) String);

impl fmt::Display for Unpriced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Question {
    /// The question of a row.
    pub(super) fn of(row: &Row, files: &ModelFiles) -> Result<Self, Unpriced> {
        let file = files.find(row).ok_or_else(|| Unpriced("no model file".to_owned()))?;
        let device = dlcost::device::find(&row.device);
        let device = device.map_err(|_| Unpriced(format!("device not described: {}", row.device)))?;
        let (runtime, version) = setup::runtime(row).map_err(Unpriced)?;
        let form = Form { file: file.to_owned(), image: row.image() };
        let target = Target {
            device: device.device.id.clone(),
            trains: row.mode == Mode::Train,
            runtime,
            version,
            attention: setup::attention(row),
            precision: setup::precision(row).map_err(Unpriced)?,
            optimizer: setup::optimizer(row).map_err(Unpriced)?,
            batch: row.batch,
            tokens: row.tokens,
            replicas: row.replicas,
            hosts: row.hosts,
            strategy: setup::strategy(row).map_err(Unpriced)?,
        };
        Ok(Self { form, target })
    }
}

#[cfg(test)]
impl Question {
    /// The question of a row as if its file were there.
    pub(super) fn stand_in(row: &Row) -> Self {
        let files = ModelFiles::with(row.model_file.as_deref().unwrap_or_default());
        Self::of(row, &files).unwrap()
    }
}
