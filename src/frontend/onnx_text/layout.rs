//! Where things stand in the text that the printer writes.

use crate::ir::place::Span;

/// Lines of something, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// The line on which it begins.
    pub first: u32,
    /// The first line from there that a comment may end. It is another one only where a string holds a line break.
    pub last: u32,
}

/// Lines of nodes, stored tensors and declared types, by their spans in the file.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    items: Vec<(Span, Lines)>,
    header: u32,
}

impl Layout {
    pub(super) fn new(mut items: Vec<(Span, Lines)>, header: u32) -> Self {
        // Files list things nearly in the order in which they are printed, which makes this cheap.
        items.sort_by_key(|(span, _)| *span);
        Self { items, header }
    }

    /// The lines of what stands at this span of the file.
    #[must_use]
    pub fn of(&self, span: Span) -> Option<Lines> {
        let index = self.items.binary_search_by_key(&span, |(span, _)| *span).ok()?;
        self.items.get(index).map(|(_, lines)| *lines)
    }

    /// The line below which stands what is said of the model as a whole: the last one of the header, else of the
    /// main graph's signature.
    #[must_use]
    pub fn header(&self) -> u32 {
        self.header
    }
}
