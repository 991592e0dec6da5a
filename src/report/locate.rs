//! Places as text: locations with byte ranges or lines and columns, and excerpts around them.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Excerpt, Location, Text};
use crate::engine::Checked;
use crate::frontend::onnx::decode::decode_node;
use crate::frontend::onnx_text::{Layout, PrintOptions, print_node};
use crate::frontend::sniff::Format;
use crate::frontend::source::Source;
use crate::ir::place::{Place, PlaceData, Places, Span};

/// Elements of a list that an excerpt shows.
const EXCERPT_ELEMENTS: usize = 8;

/// Bytes of an excerpt of a text that are shown as they are.
const LONGEST: usize = 400;

/// Bytes before and behind a place that are shown of a longer one.
const AROUND: usize = 70;

/// Bytes of a block.
const BLOCK: usize = 256;

/// Characters that begin in these bytes.
fn starts(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

/// Characters in front of each block of a text.
fn characters(text: &str) -> Vec<usize> {
    let mut sum = 0;
    let mut before = Vec::with_capacity(text.len() / BLOCK + 1);
    for block in text.as_bytes().chunks(BLOCK) {
        before.push(sum);
        sum += starts(block);
    }
    before.push(sum);
    before
}

/// Turns places of one file into text.
pub(super) struct Locator<'a> {
    path: Text,
    source: &'a Source,
    places: &'a Places,
    layout: &'a Layout,
    text: Option<&'a str>,
    /// Whether the text is another than that of `annotate`.
    own_text: bool,
    /// Offsets at which the lines of a text file start.
    lines: Vec<usize>,
    /// Characters of the text in front of each block of bytes: a model may stand on one line.
    characters: Vec<usize>,
    /// Spans of nodes by graph path and index, made when the first excerpt of a binary file asks for it.
    nodes: Option<HashMap<(Arc<str>, u32), Span>>,
}

impl<'a> Locator<'a> {
    pub(super) fn new(path: &str, source: &'a Source, checked: &'a Checked) -> Self {
        let text = match checked.format {
            Some(Format::OnnxText) => std::str::from_utf8(&source.bytes).ok(),
            _ => checked.text.as_deref(),
        };
        let own_text = checked.format.is_some_and(Format::is_keras);
        let starts = |text: &str| std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let lines = text.map_or_else(Vec::new, starts);
        Self {
            path: path.into(),
            source,
            places: checked.places(),
            layout: &checked.layout,
            text,
            own_text,
            lines,
            characters: text.map_or_else(Vec::new, characters),
            nodes: None,
        }
    }

    /// The file as a whole.
    pub(super) fn file(&self) -> Location {
        Location { file: self.path.clone(), ..Location::default() }
    }

    pub(super) fn location(&self, place: Place) -> Location {
        let Some(data) = self.places.get(place) else { return self.file() };
        let mut location = self.file();
        location.graph = (!data.graph.is_empty()).then(|| Text::from(&data.graph));
        location.node = data.node.as_ref().map(Text::from);
        location.output = data.output.as_ref().map(Text::from);
        location.tensor = data.tensor.as_ref().map(Text::from);
        location.lines = data.span.filter(|_| !self.own_text).and_then(|span| self.layout.of(span));
        match (data.span, self.text) {
            (Some(span), Some(text)) => {
                let (line, column) = self.line_and_column(text, span.start);
                location.line = Some(line);
                location.column = Some(column);
            }
            (Some(span), None) if span.end > 0 => location.byte_range = Some([span.start, span.end]),
            _ => {}
        }
        location
    }

    /// Line and column from 1; a byte order mark is no column.
    fn line_and_column(&self, text: &str, offset: u64) -> (u64, u64) {
        let offset = floor(text, usize::try_from(offset).unwrap_or(usize::MAX));
        let line = self.lines.partition_point(|&start| start <= offset).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        let count = |end: usize| {
            let block = end / BLOCK;
            let rest = text.as_bytes().get(block * BLOCK..end).unwrap_or_default();
            self.characters.get(block).copied().unwrap_or(0) + starts(rest)
        };
        let mark = usize::from(text.get(start..).is_some_and(|line| line.starts_with('\u{feff}')) && offset > start);
        (line as u64, (count(offset) - count(start) - mark) as u64 + 1)
    }

    /// Lines around a place, as ONNX text.
    pub(super) fn excerpt(&mut self, place: Place) -> Option<Excerpt> {
        let data = self.places.get(place)?.clone();
        match self.text {
            Some(text) => self.text_excerpt(text, data.span?),
            None => self.node_excerpt(&data),
        }
    }

    fn text_excerpt(&self, text: &str, span: Span) -> Option<Excerpt> {
        let start = floor(text, usize::try_from(span.start).ok()?);
        let end = floor(text, usize::try_from(span.end).ok()?).max(start);
        let line = self.lines.partition_point(|&line| line <= start).max(1);
        let first = line.saturating_sub(1).max(1);
        let from = self.lines.get(first - 1).copied()?;
        let last_line = self.lines.partition_point(|&line| line < end.max(start + 1)).clamp(line, line + 3);
        let to = self.lines.get(last_line).copied().unwrap_or(text.len());
        let shown = text.get(from..to)?;
        let range = start - from..end.min(to) - from;
        if shown.len() <= LONGEST {
            return Some(Excerpt { first_line: first, text: shown.to_owned(), range, label: String::new() });
        }
        // A model on one line: what stands around the place.
        let begin = floor(shown, range.start.saturating_sub(AROUND));
        let begin = shown.get(begin..range.start)?.rfind('\n').map_or(begin, |at| begin + at + 1);
        let stop = floor(shown, range.start.saturating_add(AROUND).min(shown.len()));
        let part = shown.get(begin..stop)?.lines().next().unwrap_or_default();
        let marked = range.start - begin..(range.end - begin).min(part.len());
        let text = format!("{part}\n");
        Some(Excerpt { first_line: line, text, range: marked, label: String::new() })
    }

    fn node_excerpt(&mut self, data: &PlaceData) -> Option<Excerpt> {
        let index = data.node_index?;
        let graph = data.graph.clone();
        let line = data.span.and_then(|span| self.layout.of(span)).map(|lines| lines.first);
        let spans = self.nodes.get_or_insert_with(|| node_spans(self.places));
        let mut text = String::new();
        let mut range = 0..0;
        let mut first_line = line;
        let options = PrintOptions { max_elements: EXCERPT_ELEMENTS, metadata: false, ..PrintOptions::default() };
        for at in index.saturating_sub(1)..=index {
            let Some(span) = spans.get(&(graph.clone(), at)) else { continue };
            if at != index {
                // It is shown where it stands on the line before.
                let before = self.layout.of(*span).filter(|lines| lines.first == lines.last).map(|lines| lines.first);
                if before.is_none() || before.map(|before| before + 1) != line {
                    continue;
                }
                first_line = before;
            }
            let Some(node) = decode_node(&self.source.bytes, *span) else { continue };
            let line = print_node(&node, &options);
            let line = line.trim_end();
            if at == index {
                let found = marked(line, data.tensor.as_deref().unwrap_or_default(), &node.op_type);
                range = text.len() + found.start..text.len() + found.end;
            }
            text.push_str(line);
            text.push('\n');
        }
        let first_line = first_line.map_or(1, |line| line as usize);
        (!text.is_empty()).then(|| Excerpt { first_line, text, range, label: String::new() })
    }
}

fn node_spans(places: &Places) -> HashMap<(Arc<str>, u32), Span> {
    let mut spans = HashMap::new();
    for data in places.iter() {
        if let (Some(index), Some(span)) = (data.node_index, data.span) {
            spans.insert((data.graph.clone(), index), span);
        }
    }
    spans
}

/// The nearest character border at or before an offset.
fn floor(text: &str, offset: usize) -> usize {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// What an excerpt of a node marks: the tensor that is meant, else the operator's name. The node's own name, which often
/// holds the operator's, stands in front of the outputs and is passed over.
fn marked(line: &str, tensor: &str, op_type: &str) -> std::ops::Range<usize> {
    let behind = line.find(" = ").map_or(0, |at| at + 3);
    let place = |target: &str, from: usize| {
        let rest = line.get(from..)?;
        rest.find(target).map(|at| from + at..from + at + target.len())
    };
    let tensor = if tensor.is_empty() { None } else { place(tensor, behind).or_else(|| place(tensor, 0)) };
    tensor.or_else(|| place(op_type, behind)).unwrap_or(0..line.len())
}
