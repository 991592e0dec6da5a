//! Damaged copies of files: of the bytes, of the protobuf tree, and of the lines of texts. A seed decides everything, so
//! that a number is enough to make a copy again.

use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};

/// Numbers that are at the edge of something.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    3,
    7,
    127,
    128,
    255,
    65_536,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
    u64::MAX - 1,
    1 << 40,
];

/// Edges as they are written in texts, and pieces of syntax.
const WORDS: [&str; 18] = [
    "0",
    "-1",
    "1",
    "9223372036854775807",
    "-9223372036854775808",
    "2147483648",
    "1e38",
    "nan",
    "{",
    "}",
    "<",
    ">",
    "(",
    ")",
    "[",
    "]",
    "=",
    ",",
];

/// A sequence of numbers that a seed decides (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 where there is none.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or(0)
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }

    /// A short range inside `length`.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let longest = if self.below(4) == 0 { length } else { 16 };
        start..(start + self.below(longest + 1)).min(length)
    }
}

/// What kind of file is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Protobuf.
    Binary,
    /// ONNX text.
    Text,
    /// Keras configuration.
    Json,
    /// Zip or HDF5 around one.
    Container,
}

/// Applies one damage; `other` is a file to take pieces from.
pub(crate) fn damage(bytes: &mut Vec<u8>, other: &[u8], kind: Kind, random: &mut Random) {
    let fine = random.below(2) == 0;
    match (kind, fine) {
        (Kind::Binary, true) => damage_tree(bytes, random),
        (Kind::Text, true) => damage_lines(bytes, random),
        (Kind::Json, true) => damage_values(bytes, other, random),
        (Kind::Container, true) | (_, false) => damage_bytes(bytes, other, random),
    }
}

/// What stands where a value of JSON should.
const VALUES: [&str; 16] = [
    "null",
    "true",
    "-1",
    "0",
    "1",
    "2.5",
    "1e308",
    "9223372036854775807",
    "9223372036854775808",
    "\"\"",
    "\"same\"",
    "[]",
    "[0]",
    "[[1,2],[3]]",
    "{}",
    "[null,null]",
];

/// Puts another value, or one of another file, in the place of a value of JSON.
fn damage_values(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let starts: Vec<usize> =
        (1..bytes.len()).filter(|&at| matches!(bytes.get(at - 1), Some(b':' | b',' | b'['))).collect();
    let Some(&start) = random.pick(&starts) else { return };
    let start = bytes.iter().skip(start).position(|byte| *byte != b' ').map_or(start, |behind| start + behind);
    let end = value_end(bytes, start);
    let value = if random.below(4) == 0 {
        let from = random.below(other.len().max(1));
        let from = other.iter().skip(from).position(|byte| *byte == b':').map_or(0, |behind| from + behind + 1);
        other.get(from..value_end(other, from)).unwrap_or_default().to_vec()
    } else {
        random.pick(&VALUES).copied().unwrap_or("null").as_bytes().to_vec()
    };
    drop(bytes.splice(start..end.max(start), value));
}

/// The end of the value that begins at a place, by its brackets.
fn value_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_i32;
    let mut quoted = false;
    for (at, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted && depth == 0 => return at,
            b'}' | b']' if !quoted => depth -= 1,
            b',' if !quoted && depth == 0 => return at,
            _ => {}
        }
    }
    bytes.len()
}

fn damage_bytes(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let range = random.range(bytes.len());
    match random.below(8) {
        0 | 1 => {
            let bit = 1 << random.below(8);
            let at = random.below(bytes.len());
            bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= bit);
        }
        2 => {
            let value = [0, 1, 0x7f, 0x80, 0xff].get(random.below(5)).copied().unwrap_or(0);
            let at = random.below(bytes.len());
            bytes.get_mut(at).into_iter().for_each(|byte| *byte = value);
        }
        3 => drop(bytes.drain(range)),
        4 => {
            let noise: Vec<u8> = (0..random.below(16)).map(|_| random.next().to_le_bytes()[0]).collect();
            drop(bytes.splice(range.start..range.start, noise));
        }
        5 => {
            let piece = other.get(random.range(other.len())).unwrap_or_default().to_vec();
            drop(bytes.splice(range, piece));
        }
        6 => bytes.truncate(random.below(bytes.len() + 1)),
        _ => {
            // A varint of any length over what is there: often the length of a message.
            let mut varint = Vec::new();
            encode_varint(random.pick(&EDGES).copied().unwrap_or(0), &mut varint);
            let end = (range.start + 1).min(bytes.len());
            drop(bytes.splice(range.start..end, varint));
        }
    }
}

/// A field of a protobuf message.
#[derive(Clone, Debug)]
struct Field {
    tag: u32,
    value: Value,
}

#[derive(Clone, Debug)]
enum Value {
    Number(u64),
    Four([u8; 4]),
    Eight([u8; 8]),
    Bytes(Vec<u8>),
    Message(Vec<Field>),
}

/// Messages are looked into this deep.
const DEPTH: usize = 12;

/// Damage that leaves the encoding whole: numbers, fields and messages change, lengths fit.
fn damage_tree(bytes: &mut Vec<u8>, random: &mut Random) {
    let Some(mut fields) = parse(bytes, 0) else { return };
    let count = count_fields(&fields);
    let donor = nth(&mut fields, &mut random.below(count)).cloned();
    let choice = random.below(8);
    let mut target = random.below(count);
    match choice {
        0 | 1 => edit_siblings(&mut fields, &mut target, &mut |siblings, at| match random.below(3) {
            0 => drop(siblings.remove(at)),
            1 => siblings.extend(siblings.get(at).cloned()),
            _ => {
                let with = random.below(siblings.len());
                siblings.swap(at, with);
            }
        }),
        _ => {
            if let (Some(field), Some(donor)) = (nth(&mut fields, &mut target), donor) {
                damage_field(field, donor, random);
            }
        }
    }
    bytes.clear();
    write(&fields, bytes);
}

fn damage_field(field: &mut Field, donor: Field, random: &mut Random) {
    let edge = random.pick(&EDGES).copied().unwrap_or(0);
    match &mut field.value {
        Value::Number(number) => match random.below(3) {
            0 => *number = number.wrapping_add(1),
            1 => *number = number.wrapping_sub(1),
            _ => *number = edge,
        },
        Value::Four(bytes) => bytes.copy_from_slice(edge.to_le_bytes().first_chunk().unwrap_or(&[0; 4])),
        Value::Eight(bytes) => *bytes = edge.to_le_bytes(),
        Value::Bytes(_) | Value::Message(_) => match random.below(4) {
            0 => field.value = Value::Bytes(Vec::new()),
            1 => field.tag = donor.tag,
            _ => field.value = donor.value,
        },
    }
}

fn parse(mut bytes: &[u8], depth: usize) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while bytes.has_remaining() {
        let (tag, wire) = decode_key(&mut bytes).ok()?;
        let value = match wire {
            WireType::Varint => Value::Number(decode_varint(&mut bytes).ok()?),
            WireType::ThirtyTwoBit => {
                let (head, rest) = bytes.split_first_chunk()?;
                bytes = rest;
                Value::Four(*head)
            }
            WireType::SixtyFourBit => {
                let (head, rest) = bytes.split_first_chunk()?;
                bytes = rest;
                Value::Eight(*head)
            }
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut bytes).ok()?).ok()?;
                let (head, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                let inner = (depth < DEPTH && !head.is_empty()).then(|| parse(head, depth + 1)).flatten();
                inner.map_or_else(|| Value::Bytes(head.to_vec()), Value::Message)
            }
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        fields.push(Field { tag, value });
    }
    Some(fields)
}

fn write(fields: &[Field], out: &mut Vec<u8>) {
    let delimited = |tag: u32, content: &[u8], out: &mut Vec<u8>| {
        encode_key(tag, WireType::LengthDelimited, out);
        encode_varint(content.len() as u64, out);
        out.extend_from_slice(content);
    };
    for Field { tag, value } in fields {
        match value {
            Value::Number(number) => {
                encode_key(*tag, WireType::Varint, out);
                encode_varint(*number, out);
            }
            Value::Four(bytes) => {
                encode_key(*tag, WireType::ThirtyTwoBit, out);
                out.extend_from_slice(bytes);
            }
            Value::Eight(bytes) => {
                encode_key(*tag, WireType::SixtyFourBit, out);
                out.extend_from_slice(bytes);
            }
            Value::Bytes(bytes) => delimited(*tag, bytes, out),
            Value::Message(fields) => {
                let mut content = Vec::new();
                write(fields, &mut content);
                delimited(*tag, &content, out);
            }
        }
    }
}

fn count_fields(fields: &[Field]) -> usize {
    fields
        .iter()
        .map(|field| match &field.value {
            Value::Message(inner) => 1 + count_fields(inner),
            _ => 1,
        })
        .sum()
}

/// The field at a place in the tree, counted depth first.
fn nth<'a>(fields: &'a mut [Field], place: &mut usize) -> Option<&'a mut Field> {
    for field in fields {
        if *place == 0 {
            return Some(field);
        }
        *place -= 1;
        if let Value::Message(inner) = &mut field.value {
            let within = count_fields(inner);
            if *place < within {
                return nth(inner, place);
            }
            *place -= within;
        }
    }
    None
}

/// Edits the list that the field at a place stands in.
fn edit_siblings(fields: &mut Vec<Field>, place: &mut usize, edit: &mut dyn FnMut(&mut Vec<Field>, usize)) {
    for index in 0..fields.len() {
        if *place == 0 {
            edit(fields, index);
            return;
        }
        *place -= 1;
        if let Some(Field { value: Value::Message(inner), .. }) = fields.get_mut(index) {
            let within = count_fields(inner);
            if *place < within {
                edit_siblings(inner, place, edit);
                return;
            }
            *place -= within;
        }
    }
}

/// Damage to lines and words of a text.
fn damage_lines(bytes: &mut Vec<u8>, random: &mut Random) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let at = random.below(lines.len());
    let other = random.below(lines.len());
    match random.below(6) {
        0 => drop(lines.remove(at)),
        1 => lines.extend(lines.get(at).cloned()),
        2 => lines.swap(at, other),
        _ => {
            let donor = words(lines.get(other).map_or("", String::as_str));
            let word = if random.below(2) == 0 { random.pick(&WORDS).map(|word| (*word).to_owned()) } else { None };
            let word = word.or_else(|| random.pick(&donor).cloned()).unwrap_or_default();
            if let Some(line) = lines.get_mut(at) {
                let mut pieces = words(line);
                let place = random.below(pieces.len());
                if let Some(piece) = pieces.get_mut(place) {
                    *piece = word;
                }
                *line = pieces.concat();
            }
        }
    }
    *bytes = lines.join("\n").into_bytes();
}

/// A line cut between letters and signs.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut joins = false;
    for sign in line.chars() {
        let letter = sign.is_alphanumeric() || sign == '_';
        match words.last_mut().filter(|_| joins && letter) {
            Some(word) => word.push(sign),
            None => words.push(sign.to_string()),
        }
        joins = letter;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_written_as_it_was_read() {
        let model = std::fs::read(crate::root().join("testdata/resnet50.onnx")).unwrap();
        let mut out = Vec::new();
        write(&parse(&model, 0).unwrap(), &mut out);
        assert_eq!(out, model);
    }

    #[test]
    fn a_seed_decides_the_damage() {
        let model = std::fs::read(crate::root().join("testdata/lenet5.onnx")).unwrap();
        let copy = |seed| {
            let mut bytes = model.clone();
            damage(&mut bytes, &model, Kind::Binary, &mut Random::new(seed));
            bytes
        };
        assert!((0..50).all(|seed| copy(seed) == copy(seed)));
        assert!((0..50).filter(|&seed| copy(seed) != model).count() > 30);
    }
}
