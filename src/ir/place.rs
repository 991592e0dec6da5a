//! Places: where in a file something stands. A [`Place`] is a small handle; it becomes text only when printed.

use std::sync::Arc;

/// A byte range in the file. For text formats it is turned into line and column when printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl Span {
    /// The range `start..end`.
    #[must_use]
    pub fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }
}

/// Handle of a [`PlaceData`] in [`Places`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(u32);

/// What a place says.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PlaceData {
    /// Graph path: `main`, `main/if0/then`, `fn:NAME@call`. Empty for the file as a whole.
    pub graph: Arc<str>,
    /// Index of the node in its graph (for a function body: in the function).
    pub node_index: Option<u32>,
    /// The node's label: its name, else `Op#index`.
    pub node: Option<Arc<str>>,
    /// The first output of a node without a name: an index changes with every edit before it, a tensor's name does not.
    pub output: Option<Arc<str>>,
    /// The tensor that is meant, where one is.
    pub tensor: Option<Arc<str>>,
    /// Byte range in the file.
    pub span: Option<Span>,
}

/// Arena of places of one file.
#[derive(Clone, Debug, Default)]
pub struct Places {
    data: Vec<PlaceData>,
}

impl Places {
    /// Stores a place.
    pub fn add(&mut self, data: PlaceData) -> Place {
        let id = u32::try_from(self.data.len()).unwrap_or(u32::MAX);
        self.data.push(data);
        Place(id)
    }

    /// Every place.
    pub fn iter(&self) -> impl Iterator<Item = &PlaceData> {
        self.data.iter()
    }

    /// What the place says.
    #[must_use]
    pub fn get(&self, place: Place) -> Option<&PlaceData> {
        self.data.get(place.0 as usize)
    }
}
