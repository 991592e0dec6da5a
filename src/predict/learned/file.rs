//! Predictor files: compact, versioned, with a checksum for each section, so that only what is used is read.
//!
//! ```text
//! "DLCP" version:u16 data:u64 sections:u16
//! for each section: name:text offset:u32 length:u32 checksum:u64
//! sections: features, boards, stacks of each, three models (seen, by data sheet, by two rates), ends of features and of
//!   intervals, spreads of kinds, offsets of boards, boards that few rows told of; a model: trees of kernels, and of what
//!   measuring added
//! ```
//! A split takes two bytes, a leaf two, so that a tree has four for each leaf. Numbers are little-endian; a text is its
//! length (u16) and its bytes.

use thiserror::Error;

use super::forest::{Forest, Held, MOST_LEAVES, Split, Trees};
use super::offset::Offset;
use super::section::{Domain, Interval, Model, Offsets, Section, Spread, Tuned};

/// The version that is written and the newest that is read.
pub const VERSION: u16 = 2;

const MAGIC: &[u8; 4] = b"DLCP";

/// Why a predictor file cannot be used.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum FileError {
    /// It is something else.
    #[error("not a predictor file: it does not begin with 'DLCP'")]
    Magic,
    /// A later program wrote it.
    #[error("format {found} of the predictor file is newer than {VERSION}, which is read here: use a newer dlcost")]
    Newer {
        /// Its version.
        found: u16,
    },
    /// It ends too early, or counts do not fit.
    #[error("the predictor file is damaged: {what}")]
    Damaged {
        /// What does not fit.
        what: &'static str,
    },
    /// Its features are others than those that are computed here.
    #[error(
        "section '{section}' asks for the feature '{feature}', which this dlcost does not know: it was made by another version"
    )]
    Feature {
        /// The section.
        section: String,
        /// The feature.
        feature: String,
    },
}

const ENDS: FileError = FileError::Damaged { what: "it ends too early" };

/// A section as the head of a file lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `product/serving`.
    pub name: String,
    offset: usize,
    length: usize,
    checksum: u64,
}

/// The head of a predictor file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// A hash of the rows that it was made from.
    pub data: u64,
    /// Its sections.
    pub entries: Vec<Entry>,
}

impl Entry {
    /// The checksum of its section.
    #[must_use]
    pub fn checksum(&self) -> u64 {
        self.checksum
    }
}

struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    fn bytes(&mut self, count: usize) -> Result<&'b [u8], FileError> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(ENDS)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FileError> {
        self.bytes(N)?.try_into().map_err(|_| ENDS)
    }

    fn u8(&mut self) -> Result<u8, FileError> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Result<u16, FileError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<usize, FileError> {
        self.array().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    fn u64(&mut self) -> Result<u64, FileError> {
        self.array().map(u64::from_le_bytes)
    }

    fn f32(&mut self) -> Result<f32, FileError> {
        self.array().map(f32::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, FileError> {
        let length = usize::from(self.u16()?);
        let text = std::str::from_utf8(self.bytes(length)?);
        text.map(str::to_owned).map_err(|_| FileError::Damaged { what: "a name is not UTF-8" })
    }

    fn texts(&mut self) -> Result<Vec<String>, FileError> {
        (0..self.u16()?).map(|_| self.text()).collect()
    }
}

/// FNV-1a.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Reads the head.
///
/// # Errors
/// Where the file is none, is newer than this program, or ends too early.
pub fn head(bytes: &[u8]) -> Result<Head, FileError> {
    let mut reader = Reader { rest: bytes };
    if reader.bytes(4).map_err(|_| FileError::Magic)? != MAGIC {
        return Err(FileError::Magic);
    }
    let found = reader.u16()?;
    if found > VERSION {
        return Err(FileError::Newer { found });
    }
    let data = reader.u64()?;
    let count = reader.u16()?;
    let entry = |reader: &mut Reader| {
        Ok(Entry { name: reader.text()?, offset: reader.u32()?, length: reader.u32()?, checksum: reader.u64()? })
    };
    let entries = (0..count).map(|_| entry(&mut reader)).collect::<Result<_, _>>()?;
    Ok(Head { data, entries })
}

/// Reads one section.
///
/// # Errors
/// Where it is damaged.
pub fn section(bytes: &[u8], entry: &Entry) -> Result<Section, FileError> {
    if checksum(body_of(bytes, entry)?) != entry.checksum {
        return Err(FileError::Damaged { what: "a checksum does not fit" });
    }
    read(bytes, entry, |_| None)
}

fn body_of<'b>(bytes: &'b [u8], entry: &Entry) -> Result<&'b [u8], FileError> {
    let end = entry.offset.checked_add(entry.length).ok_or(ENDS)?;
    bytes.get(entry.offset..end).ok_or(ENDS)
}

/// Reads one section of a file that is built in: a test looks at its checksum once and for all, so that nobody waits for it.
///
/// # Errors
/// Where it ends too early.
pub fn trusted(bytes: &'static [u8], entry: &Entry) -> Result<Section, FileError> {
    read(bytes, entry, Some)
}

/// Whether bytes of trees can wait until the trees are asked for.
type Hold<'b> = fn(&'b [u8]) -> Option<&'static [u8]>;

fn read<'b>(bytes: &'b [u8], entry: &Entry, hold: Hold<'b>) -> Result<Section, FileError> {
    let bytes = body_of(bytes, entry)?;
    let reader = &mut Reader { rest: bytes };
    let features = reader.texts()?;
    let boards = reader.texts()?;
    let stacks = boards.iter().map(|_| reader.u16()).collect::<Result<_, _>>()?;
    let seen = model(reader, features.len(), hold)?;
    let unseen = model(reader, features.len(), hold)?;
    let anchored = model(reader, features.len(), hold)?;
    let domain = (0..features.len())
        .map(|_| Ok(Domain { low: reader.f32()?, high: reader.f32()? }))
        .collect::<Result<_, FileError>>()?;
    let mut interval = || Ok(Interval { low: reader.f32()?, high: reader.f32()? });
    let (seen_interval, unseen_interval): (_, Interval) = (interval()?, interval()?);
    let by_board = (0..boards.len()).map(|_| interval()).collect::<Result<_, FileError>>()?;
    let spreads = (0..reader.u16()?)
        .map(|_| Ok(Spread { kind: reader.u16()?, times: reader.f32()? }))
        .collect::<Result<_, FileError>>()?;
    let offsets = (0..reader.u16()?)
        .map(|_| Ok(Offsets { sheet: offset(reader)?, anchored: offset(reader)? }))
        .collect::<Result<_, FileError>>()?;
    let tuned = (0..reader.u16()?)
        .map(|_| {
            let (board, offset, protocol) = (reader.text()?, offset(reader)?, reader.f32()?);
            let like = boards.iter().map(|_| reader.f32()).collect::<Result<_, _>>()?;
            Ok(Tuned { board, like, offset, protocol })
        })
        .collect::<Result<_, FileError>>()?;
    Ok(Section {
        name: entry.name.clone(),
        features,
        boards,
        stacks,
        seen,
        unseen,
        anchored,
        domain,
        seen_interval,
        unseen_interval,
        by_board,
        spreads,
        offsets,
        tuned,
    })
}

fn offset(reader: &mut Reader) -> Result<Offset, FileError> {
    let mut offset = Offset::default();
    for number in &mut offset.0 {
        *number = reader.f32()?;
    }
    Ok(offset)
}

fn model<'b>(reader: &mut Reader<'b>, width: usize, hold: Hold<'b>) -> Result<Model, FileError> {
    let kernels = forest(reader, hold)?;
    if kernels.cuts.len() > width + 1 {
        return Err(FileError::Damaged { what: "trees ask for more features than there are" });
    }
    let protocol = if reader.u8()? == 0 { None } else { Some(forest(reader, hold)?) };
    Ok(Model { kernels, protocol })
}

/// Reads a forest; its trees later, where their bytes can be held.
fn forest<'b>(reader: &mut Reader<'b>, hold: Hold<'b>) -> Result<Forest, FileError> {
    let features = reader.u16()?;
    let mut cuts = Vec::new();
    for _ in 0..features {
        let count = usize::from(reader.u8()?);
        cuts.push((0..count).map(|_| reader.f32()).collect::<Result<Vec<_>, _>>()?);
    }
    let (unit, start) = (reader.f32()?, reader.f32()?);
    let count = reader.u32()?;
    let whole = reader.rest;
    let splits: usize = pairs(reader, count)?.map(|size| usize::from(u16::from_le_bytes(size))).sum();
    // Two bytes for each split and each leaf, and two for the size of each tree.
    let bytes = splits.checked_mul(4).and_then(|bytes| bytes.checked_add(count.checked_mul(4)?)).ok_or(ENDS)?;
    let packed = whole.get(..bytes).ok_or(ENDS)?;
    reader.rest = whole.get(bytes..).unwrap_or_default();
    let held = match hold(packed) {
        Some(packed) => Held::packed(packed, count),
        None => trees(packed, count)?.into(),
    };
    Ok(Forest { cuts, trees: held, unit, start })
}

/// Reads so many trees.
///
/// # Errors
/// Where they are damaged.
pub(super) fn trees(bytes: &[u8], count: usize) -> Result<Trees, FileError> {
    let reader = &mut Reader { rest: bytes };
    let sizes: Vec<u16> = pairs(reader, count)?.map(u16::from_le_bytes).collect();
    let all: usize = sizes.iter().map(|&size| usize::from(size)).sum();
    let held = all.min(reader.rest.len());
    let (mut splits, mut leaves) = (Vec::with_capacity(held), Vec::with_capacity(held + count));
    for &size in &sizes {
        tree(reader, usize::from(size), &mut splits)?;
        leaves.extend(pairs(reader, usize::from(size) + 1)?.map(i16::from_le_bytes));
    }
    Ok(Trees { splits, leaves, sizes })
}

/// Two bytes at a time.
fn pairs<'b>(reader: &mut Reader<'b>, count: usize) -> Result<impl Iterator<Item = [u8; 2]> + use<'b>, FileError> {
    let bytes = reader.bytes(count.checked_mul(2).ok_or(ENDS)?)?;
    Ok(bytes.as_chunks().0.iter().copied())
}

/// Bits of a split's first byte that say which of its sides are leaves; the others are its feature.
const LEFT_IS_LEAF: u8 = 0x40;
const RIGHT_IS_LEAF: u8 = 0x80;

/// Features that a split can name.
pub const MOST_FEATURES: usize = 0x40;

/// Reads the splits of a tree: two bytes each, a split before what hangs on it, left before right. Leaves are numbered in
/// the order of the splits that they hang on.
fn tree(reader: &mut Reader, size: usize, splits: &mut Vec<Split>) -> Result<(), FileError> {
    const BROKEN: FileError = FileError::Damaged { what: "a tree hangs together no longer" };
    if size >= MOST_LEAVES {
        return Err(BROKEN);
    }
    let first = splits.len();
    // Splits whose right side is still to come.
    let mut open = Vec::with_capacity(64);
    let mut leaves = 0_u16;
    let mut leaf = || {
        leaves += 1;
        Split::leaf(leaves - 1)
    };
    for ([kind, bin], next) in pairs(reader, size)?.zip(1..) {
        let left = if kind & LEFT_IS_LEAF == 0 { next } else { leaf() };
        let right = if kind & RIGHT_IS_LEAF == 0 { next } else { leaf() };
        if kind & LEFT_IS_LEAF == 0 && kind & RIGHT_IS_LEAF == 0 {
            open.push(splits.len());
        }
        splits.push(Split { feature: kind & !(LEFT_IS_LEAF | RIGHT_IS_LEAF), bin, left, right });
        if kind & LEFT_IS_LEAF != 0 && kind & RIGHT_IS_LEAF != 0 && splits.len() < first + size {
            let parent = open.pop().and_then(|parent| splits.get_mut(parent)).ok_or(BROKEN)?;
            parent.right = next;
        }
    }
    let is_whole = splits
        .get(first..)
        .and_then(<[Split]>::last)
        .is_none_or(|last| Split::as_leaf(last.left).is_some() && Split::as_leaf(last.right).is_some());
    if open.is_empty() && is_whole { Ok(()) } else { Err(BROKEN) }
}

/// Writes a file of sections.
#[must_use]
pub fn write(data: u64, sections: &[Section]) -> Vec<u8> {
    let bodies: Vec<Vec<u8>> = sections.iter().map(body).collect();
    let heads: usize = sections.iter().map(|section| 2 + section.name.len() + 16).sum();
    let mut offset = 4 + 2 + 8 + 2 + heads;
    let mut file = Vec::new();
    file.extend(MAGIC);
    file.extend(VERSION.to_le_bytes());
    file.extend(data.to_le_bytes());
    file.extend((sections.len() as u16).to_le_bytes());
    for (section, body) in sections.iter().zip(&bodies) {
        put_text(&mut file, &section.name);
        file.extend((offset as u32).to_le_bytes());
        file.extend((body.len() as u32).to_le_bytes());
        file.extend(checksum(body).to_le_bytes());
        offset += body.len();
    }
    file.extend(bodies.concat());
    file
}

fn put_text(file: &mut Vec<u8>, text: &str) {
    file.extend((text.len() as u16).to_le_bytes());
    file.extend(text.as_bytes());
}

fn body(section: &Section) -> Vec<u8> {
    let mut body = Vec::new();
    for texts in [&section.features, &section.boards] {
        body.extend((texts.len() as u16).to_le_bytes());
        texts.iter().for_each(|text| put_text(&mut body, text));
    }
    section.stacks.iter().for_each(|stacks| body.extend(stacks.to_le_bytes()));
    for model in [&section.seen, &section.unseen, &section.anchored] {
        put_forest(&mut body, &model.kernels);
        body.push(u8::from(model.protocol.is_some()));
        if let Some(protocol) = &model.protocol {
            put_forest(&mut body, protocol);
        }
    }
    let ends = section.domain.iter().flat_map(|domain| [domain.low, domain.high]);
    let intervals =
        [&section.seen_interval, &section.unseen_interval].into_iter().flat_map(|ends| [ends.low, ends.high]);
    let by_board = section.by_board.iter().flat_map(|ends| [ends.low, ends.high]);
    ends.chain(intervals).chain(by_board).for_each(|number: f32| body.extend(number.to_le_bytes()));
    body.extend((section.spreads.len() as u16).to_le_bytes());
    for Spread { kind, times } in &section.spreads {
        body.extend(kind.to_le_bytes());
        body.extend(times.to_le_bytes());
    }
    body.extend((section.offsets.len() as u16).to_le_bytes());
    let offsets = section.offsets.iter().flat_map(|Offsets { sheet, anchored }| [sheet.0, anchored.0]);
    offsets.flatten().for_each(|number| body.extend(number.to_le_bytes()));
    body.extend((section.tuned.len() as u16).to_le_bytes());
    for Tuned { board, like, offset, protocol } in &section.tuned {
        put_text(&mut body, board);
        let numbers = offset.0.iter().chain(std::iter::once(protocol)).chain(like);
        numbers.for_each(|number| body.extend(number.to_le_bytes()));
    }
    body
}

fn put_forest(body: &mut Vec<u8>, forest: &Forest) {
    body.extend((forest.cuts.len() as u16).to_le_bytes());
    for cuts in &forest.cuts {
        body.push(cuts.len() as u8);
        cuts.iter().for_each(|cut| body.extend(cut.to_le_bytes()));
    }
    body.extend(forest.unit.to_le_bytes());
    body.extend(forest.start.to_le_bytes());
    let Trees { splits, leaves, sizes } = &*forest.trees;
    body.extend((sizes.len() as u32).to_le_bytes());
    sizes.iter().for_each(|size| body.extend(size.to_le_bytes()));
    let (mut splits, mut leaves) = (&**splits, &**leaves);
    for &size in sizes {
        let size = usize::from(size);
        let (Some((of, others)), Some((ends, other_ends))) =
            (splits.split_at_checked(size), leaves.split_at_checked(size + 1))
        else {
            return;
        };
        put_tree(body, of, ends);
        (splits, leaves) = (others, other_ends);
    }
}

/// Writes a tree in the order in which it is read.
fn put_tree(body: &mut Vec<u8>, splits: &[Split], leaves: &[i16]) {
    let mut ordered: Vec<i16> = Vec::new();
    let mut open: Vec<u16> = if splits.is_empty() { Vec::new() } else { vec![0] };
    while let Some(split) = open.pop().and_then(|at| splits.get(usize::from(at))) {
        let mut kind = split.feature;
        for (child, bit) in [(split.left, LEFT_IS_LEAF), (split.right, RIGHT_IS_LEAF)] {
            if let Some(leaf) = Split::as_leaf(child) {
                kind |= bit;
                ordered.push(leaves.get(usize::from(leaf)).copied().unwrap_or_default());
            }
        }
        body.extend([kind, split.bin]);
        open.extend([split.right, split.left].into_iter().filter(|child| Split::as_leaf(*child).is_none()));
    }
    if splits.is_empty() {
        ordered.extend(leaves.first());
    }
    ordered.iter().for_each(|leaf| body.extend(leaf.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::super::offset::TIMES;
    use super::super::setting::Stack;
    use super::*;

    fn file() -> Vec<u8> {
        let trees = Trees {
            splits: vec![Split { feature: 0, bin: 1, left: Split::leaf(0), right: Split::leaf(1) }],
            leaves: vec![-5, 7],
            sizes: vec![1],
        };
        let forest = Forest { cuts: vec![vec![1.0, 2.0], Vec::new()], trees: trees.into(), unit: 1e-4, start: 0.25 };
        let model = Model { kernels: forest.clone(), protocol: None };
        let section = Section {
            name: "product/serving".to_owned(),
            features: vec!["m".to_owned(), "n".to_owned()],
            boards: vec!["h200".to_owned()],
            stacks: vec![Stack::Vllm.bit()],
            seen: Model { protocol: Some(forest), ..model.clone() },
            unseen: model.clone(),
            anchored: model,
            domain: vec![Domain { low: 0.0, high: 1.0 }; 2],
            seen_interval: Interval { low: 0.9, high: 1.1 },
            unseen_interval: Interval { low: 0.7, high: 1.4 },
            by_board: vec![Interval { low: 0.8, high: 1.2 }],
            spreads: vec![Spread { kind: 3, times: 1.5 }],
            offsets: vec![Offsets { sheet: Offset([0.1; TIMES]), anchored: Offset([-0.1; TIMES]) }],
            tuned: vec![Tuned {
                board: "t4".to_owned(),
                like: vec![0.25],
                offset: Offset([0.1; TIMES]),
                protocol: 0.2,
            }],
        };
        write(42, &[section.clone(), Section { name: "product/pytorch".to_owned(), ..section }])
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = file();
        let head = head(&bytes).unwrap();
        assert_eq!((head.data, head.entries.len()), (42, 2));
        let read = section(&bytes, &head.entries[1]).unwrap();
        assert_eq!(read.name, "product/pytorch");
        assert_eq!(write(42, &[section(&bytes, &head.entries[0]).unwrap(), read]), bytes);
    }

    /// Trees of one leaf and of four, the deeper side on the left and on the right, and a row for each of their leaves.
    #[test]
    fn trees_fall_to_the_same_leaves_after_they_were_written() {
        let split = |feature, left, right| Split { feature, bin: 0, left, right };
        let leaf = Split::leaf;
        let trees = Trees {
            splits: vec![
                split(0, 2, leaf(3)),
                split(2, leaf(0), leaf(2)),
                split(1, leaf(1), 1),
                split(1, leaf(2), 1),
                split(0, 2, leaf(0)),
                split(2, leaf(1), leaf(3)),
            ],
            leaves: vec![1, 20, 300, 4000, 7, 5, -60, 700, -8000],
            sizes: vec![3, 0, 3],
        };
        let forest = Forest { cuts: vec![vec![0.5]; 3], trees: trees.into(), unit: 1.0, start: 0.5 };
        let mut body = Vec::new();
        put_forest(&mut body, &forest);
        let body: &'static [u8] = body.leak();
        let [read, later] = [|_| None, Some].map(|hold: Hold| super::forest(&mut Reader { rest: body }, hold).unwrap());
        for row in 0..8_u8 {
            let row = [0, 1, 2].map(|bit| f32::from(row >> bit & 1));
            let value = forest.value(&row).to_bits();
            assert_eq!([read.value(&row).to_bits(), later.value(&row).to_bits()], [value; 2], "{row:?}");
        }
        let mut again = Vec::new();
        put_forest(&mut again, &read);
        assert_eq!(again, body);
    }

    #[test]
    fn a_cut_or_changed_file_is_an_error_and_never_a_panic() {
        let bytes = file();
        for length in 0..bytes.len() {
            let cut = &bytes[..length];
            let read = head(cut)
                .and_then(|head| head.entries.iter().map(|entry| section(cut, entry)).collect::<Result<Vec<_>, _>>());
            assert!(read.is_err(), "{length}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x41;
            for entry in head(&changed).iter().flat_map(|head| &head.entries) {
                let _ = section(&changed, entry);
            }
        }
        let mut damaged = bytes.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let entries = head(&damaged).unwrap().entries;
        assert_eq!(
            section(&damaged, &entries[1]).unwrap_err().to_string(),
            "the predictor file is damaged: a checksum does not fit"
        );
    }

    #[test]
    fn other_files_and_newer_ones_are_told_apart() {
        assert_eq!(head(b"PK\x03\x04").unwrap_err(), FileError::Magic);
        let mut newer = file();
        newer[4] = 9;
        assert_eq!(head(&newer).unwrap_err(), FileError::Newer { found: 9 });
    }
}
