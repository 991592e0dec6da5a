//! Large files with holes: bytes that are written, and zeros that take no space on the disk.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use prost::encoding::{WireType, encode_key, encode_varint};

/// The contents of a file, or of a message inside it.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    parts: Vec<Part>,
    length: u64,
}

#[derive(Debug)]
enum Part {
    Bytes(Vec<u8>),
    Hole(u64),
}

impl Layout {
    /// Appends bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if let Some(Part::Bytes(last)) = self.parts.last_mut() {
            last.extend_from_slice(bytes);
        } else {
            self.parts.push(Part::Bytes(bytes.to_vec()));
        }
    }

    /// Appends zeros.
    pub(crate) fn hole(&mut self, length: u64) {
        self.length += length;
        self.parts.push(Part::Hole(length));
    }

    /// Appends a length-delimited protobuf field.
    pub(crate) fn field(&mut self, tag: u32, content: Layout) {
        let mut head = Vec::new();
        encode_key(tag, WireType::LengthDelimited, &mut head);
        encode_varint(content.length, &mut head);
        self.bytes(&head);
        self.append(content);
    }

    /// Appends another layout.
    pub(crate) fn append(&mut self, other: Layout) {
        for part in other.parts {
            match part {
                Part::Bytes(bytes) => self.bytes(&bytes),
                Part::Hole(length) => self.hole(length),
            }
        }
    }

    /// Appends a length-delimited protobuf field of plain bytes.
    pub(crate) fn bytes_field(&mut self, tag: u32, bytes: &[u8]) {
        let mut content = Layout::default();
        content.bytes(bytes);
        self.field(tag, content);
    }

    /// Writes the file.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.set_len(self.length)?;
        for part in &self.parts {
            match part {
                Part::Bytes(bytes) => file.write_all(bytes)?,
                Part::Hole(length) => {
                    file.seek(SeekFrom::Current(i64::try_from(*length).unwrap_or(i64::MAX)))?;
                }
            }
        }
        Ok(())
    }
}
