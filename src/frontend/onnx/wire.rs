//! The protobuf wire format, walked only to say what is wrong with it: where a file ends too early, or which field of
//! which message holds what it may not. `prost` reads the messages; it does not tell places.

use crate::ir::place::Span;

/// A structural fault of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WireFault {
    /// What is wrong, with the path of fields.
    pub(super) message: String,
    /// Whether the bytes end too early, as opposed to being wrong.
    pub(super) truncated: bool,
    /// Where.
    pub(super) span: Span,
}

/// A kind of message, for the names of its fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    SparseTensor,
    ValueInfo,
    Function,
    Opset,
    Entry,
    Type,
    /// A message whose fields need no names.
    Other,
}

enum Content {
    Message(Kind),
    Bytes,
    Varint,
    /// Numbers, packed or not.
    Numbers,
    Fixed32,
}

/// Nesting that is followed; deeper messages are reported as a whole.
const MAX_DEPTH: usize = 256;

fn field(kind: Kind, number: u32) -> Option<(&'static str, Content)> {
    use Content::{Bytes, Fixed32, Message, Numbers, Varint};
    Some(match (kind, number) {
        (Kind::Model, 1) => ("ir_version", Varint),
        (Kind::Model, 2) => ("producer_name", Bytes),
        (Kind::Model, 3) => ("producer_version", Bytes),
        (Kind::Model, 4) => ("domain", Bytes),
        (Kind::Model, 5) => ("model_version", Varint),
        (Kind::Model, 6) => ("doc_string", Bytes),
        (Kind::Model, 7) => ("graph", Message(Kind::Graph)),
        (Kind::Model, 8) => ("opset_import", Message(Kind::Opset)),
        (Kind::Model, 14) => ("metadata_props", Message(Kind::Entry)),
        (Kind::Model, 25) => ("functions", Message(Kind::Function)),
        (Kind::Graph, 1) => ("node", Message(Kind::Node)),
        (Kind::Graph, 2) => ("name", Bytes),
        (Kind::Graph, 5) => ("initializer", Message(Kind::Tensor)),
        (Kind::Graph, 11) => ("input", Message(Kind::ValueInfo)),
        (Kind::Graph, 12) => ("output", Message(Kind::ValueInfo)),
        (Kind::Graph, 13) => ("value_info", Message(Kind::ValueInfo)),
        (Kind::Graph, 15) => ("sparse_initializer", Message(Kind::SparseTensor)),
        (Kind::Graph, 16) => ("metadata_props", Message(Kind::Entry)),
        (Kind::Node, 1) => ("input", Bytes),
        (Kind::Node, 2) => ("output", Bytes),
        (Kind::Node, 3) => ("name", Bytes),
        (Kind::Node, 4) => ("op_type", Bytes),
        (Kind::Node, 5) => ("attribute", Message(Kind::Attribute)),
        (Kind::Node, 7) => ("domain", Bytes),
        (Kind::Node, 8) => ("overload", Bytes),
        (Kind::Node, 9) => ("metadata_props", Message(Kind::Entry)),
        (Kind::Attribute, 1) => ("name", Bytes),
        (Kind::Attribute, 2) => ("f", Fixed32),
        (Kind::Attribute, 3) => ("i", Varint),
        (Kind::Attribute, 4) => ("s", Bytes),
        (Kind::Attribute, 5) => ("t", Message(Kind::Tensor)),
        (Kind::Attribute, 6) => ("g", Message(Kind::Graph)),
        (Kind::Attribute, 7) => ("floats", Numbers),
        (Kind::Attribute, 8) => ("ints", Numbers),
        (Kind::Attribute, 9) => ("strings", Bytes),
        (Kind::Attribute, 10) => ("tensors", Message(Kind::Tensor)),
        (Kind::Attribute, 11) => ("graphs", Message(Kind::Graph)),
        (Kind::Attribute, 14) => ("tp", Message(Kind::Type)),
        (Kind::Attribute, 15) => ("type_protos", Message(Kind::Type)),
        (Kind::Attribute, 20) => ("type", Varint),
        (Kind::Attribute, 21) => ("ref_attr_name", Bytes),
        (Kind::Attribute, 22) => ("sparse_tensor", Message(Kind::SparseTensor)),
        (Kind::Attribute, 23) => ("sparse_tensors", Message(Kind::SparseTensor)),
        (Kind::Tensor, 1) => ("dims", Numbers),
        (Kind::Tensor, 2) => ("data_type", Varint),
        (Kind::Tensor, 4) => ("float_data", Numbers),
        (Kind::Tensor, 5) => ("int32_data", Numbers),
        (Kind::Tensor, 6) => ("string_data", Bytes),
        (Kind::Tensor, 7) => ("int64_data", Numbers),
        (Kind::Tensor, 8) => ("name", Bytes),
        (Kind::Tensor, 9) => ("raw_data", Bytes),
        (Kind::Tensor, 10) => ("double_data", Numbers),
        (Kind::Tensor, 11) => ("uint64_data", Numbers),
        (Kind::Tensor, 13) => ("external_data", Message(Kind::Entry)),
        (Kind::Tensor, 14) => ("data_location", Varint),
        (Kind::SparseTensor, 1) => ("values", Message(Kind::Tensor)),
        (Kind::SparseTensor, 2) => ("indices", Message(Kind::Tensor)),
        (Kind::SparseTensor, 3) => ("dims", Numbers),
        (Kind::ValueInfo, 1) => ("name", Bytes),
        (Kind::ValueInfo, 2) => ("type", Message(Kind::Type)),
        (Kind::Function, 1) => ("name", Bytes),
        (Kind::Function, 4) => ("input", Bytes),
        (Kind::Function, 5) => ("output", Bytes),
        (Kind::Function, 6) => ("attribute", Bytes),
        (Kind::Function, 7) => ("node", Message(Kind::Node)),
        (Kind::Function, 9) => ("opset_import", Message(Kind::Opset)),
        (Kind::Function, 10) => ("domain", Bytes),
        (Kind::Function, 11) => ("attribute_proto", Message(Kind::Attribute)),
        (Kind::Function, 12) => ("value_info", Message(Kind::ValueInfo)),
        (Kind::Opset, 1) => ("domain", Bytes),
        (Kind::Opset, 2) => ("version", Varint),
        (Kind::Entry, 1) => ("key", Bytes),
        (Kind::Entry, 2) => ("value", Bytes),
        (Kind::Type, 1) => ("tensor_type", Message(Kind::Other)),
        (Kind::Type, 4) => ("sequence_type", Message(Kind::Other)),
        (Kind::Type, 5) => ("map_type", Message(Kind::Other)),
        (Kind::Type, 8) => ("sparse_tensor_type", Message(Kind::Other)),
        (Kind::Type, 9) => ("optional_type", Message(Kind::Other)),
        _ => return None,
    })
}

/// The field number of a message's name, and the word for the message in texts.
fn naming(kind: Kind) -> (u32, &'static str) {
    match kind {
        Kind::Model => (0, "model"),
        Kind::Graph => (2, "graph"),
        Kind::Node => (3, "node"),
        Kind::Attribute => (1, "attribute"),
        Kind::Tensor => (8, "initializer"),
        Kind::SparseTensor => (0, "sparse tensor"),
        Kind::ValueInfo => (1, "value"),
        Kind::Function => (1, "function"),
        Kind::Opset => (0, "opset import"),
        Kind::Entry => (1, "entry"),
        Kind::Type => (0, "type"),
        Kind::Other => (0, "message"),
    }
}

/// Finds the first structural fault of a message that starts at byte `base` of the file.
pub(super) fn find_fault(kind: Kind, bytes: &[u8], base: u64) -> Option<WireFault> {
    Walker { base, whole: bytes }.message(kind, 0, bytes.len(), "", 0)
}

/// Whether a message has one of these fields; stops at the first hit or fault.
pub(super) fn has_field(bytes: &[u8], numbers: &[u32]) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        let Ok((number, wire, after)) = read_tag(bytes, at) else { return false };
        if numbers.contains(&number) {
            return true;
        }
        match skip(bytes, after, wire) {
            Ok((_, next)) if next <= bytes.len() => at = next,
            _ => return false,
        }
    }
    false
}

struct Walker<'a> {
    base: u64,
    whole: &'a [u8],
}

#[derive(Debug)]
enum Bad {
    Truncated,
    Varint,
    Tag,
    Group,
}

impl Walker<'_> {
    /// Walks `start..end`, which may promise to reach past the end of the file.
    fn message(&self, kind: Kind, start: usize, end: usize, path: &str, depth: usize) -> Option<WireFault> {
        let available = end.min(self.whole.len());
        let bytes = self.whole.get(..available)?;
        let (name_field, word) = naming(kind);
        let mut name = String::new();
        let mut at = start;
        while at < available {
            let here = |name: &str| self.describe(path, word, name);
            let (number, wire, after) = match read_tag(bytes, at) {
                Ok(tag) => tag,
                Err(Bad::Truncated) => return Some(self.truncated(&format!("in {}", here(&name)), "a field begins")),
                Err(bad) => return Some(self.wrong(&here(&name), at, &bad)),
            };
            let known = field(kind, number);
            let field_name =
                known.as_ref().map_or_else(|| format!("field {number}"), |(name, _)| format!("field {name}"));
            let (payload, next) = match skip(bytes, after, wire) {
                Ok(range) => range,
                Err(Bad::Truncated) => {
                    let what = format!("{field_name} of {}", here(&name));
                    return Some(self.truncated(&format!("inside {what}"), "more was promised"));
                }
                Err(bad) => return Some(self.wrong(&format!("{field_name} of {}", here(&name)), at, &bad)),
            };
            if wire == 2 && number == name_field && next <= available {
                name =
                    bytes.get(payload..next).map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default();
            }
            match known {
                Some((_, Content::Message(inner))) if wire == 2 => {
                    if depth >= MAX_DEPTH {
                        return None;
                    }
                    let inner_path = here(&name);
                    if let Some(fault) = self.message(inner, payload, next, &inner_path, depth + 1) {
                        return Some(fault);
                    }
                }
                Some((_, content)) if !allows(&content, wire) => {
                    let what = format!("{field_name} of {} has wire type {wire}, which it may not have", here(&name));
                    return Some(WireFault { message: what, truncated: false, span: self.span(at, at + 1) });
                }
                _ => {}
            }
            if next > available {
                let what = format!("{field_name} of {}", here(&name));
                let missing = next - available;
                if available == self.whole.len() {
                    return Some(self.truncated(&format!("inside {what}"), &format!("it promises {missing} more")));
                }
                let message = format!("{what} reaches {missing} bytes past the end of the message that holds it");
                return Some(WireFault { message, truncated: false, span: self.span(at, available) });
            }
            at = next;
        }
        None
    }

    fn describe(&self, path: &str, word: &str, name: &str) -> String {
        match (name.is_empty(), path.is_empty() || path == "the model") {
            (false, _) => format!("{word} {name:?}"),
            (true, true) if word == "model" => "the model".to_owned(),
            (true, true) => format!("a {word}"),
            (true, false) => format!("a {word} of {path}"),
        }
    }

    fn truncated(&self, place: &str, why: &str) -> WireFault {
        let length = self.whole.len();
        let at = self.base + length as u64;
        WireFault {
            message: format!("the file ends {place} at byte {at}: {why}"),
            truncated: true,
            span: self.span(length, length),
        }
    }

    fn wrong(&self, place: &str, at: usize, bad: &Bad) -> WireFault {
        let what = match bad {
            Bad::Varint => "a number of more than ten bytes",
            Bad::Group => "a group, which ONNX does not use",
            Bad::Tag | Bad::Truncated => "no field tag",
        };
        let offset = self.base + at as u64;
        WireFault {
            message: format!("{what} in {place} at byte {offset}"),
            truncated: false,
            span: self.span(at, at + 1),
        }
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.base + start as u64, self.base + end as u64)
    }
}

fn allows(content: &Content, wire: u8) -> bool {
    match content {
        Content::Message(_) | Content::Bytes => wire == 2,
        Content::Varint => wire == 0,
        Content::Numbers => matches!(wire, 0 | 1 | 2 | 5),
        Content::Fixed32 => wire == 5,
    }
}

/// Field number, wire type and the position behind the tag.
fn read_tag(bytes: &[u8], at: usize) -> Result<(u32, u8, usize), Bad> {
    let (tag, after) = read_varint(bytes, at)?;
    let number = u32::try_from(tag >> 3).map_err(|_| Bad::Tag)?;
    let wire = u8::try_from(tag & 7).unwrap_or(7);
    if number == 0 || number > 0x1fff_ffff || wire > 5 {
        return Err(Bad::Tag);
    }
    Ok((number, wire, after))
}

fn read_varint(bytes: &[u8], at: usize) -> Result<(u64, usize), Bad> {
    let mut value = 0u64;
    for index in 0..10 {
        let byte = *bytes.get(at + index).ok_or(Bad::Truncated)?;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Ok((value, at + index + 1));
        }
    }
    Err(Bad::Varint)
}

/// Where the payload of a field starts and ends; the end may lie past the bytes.
fn skip(bytes: &[u8], at: usize, wire: u8) -> Result<(usize, usize), Bad> {
    let fixed = |length: usize| if at + length <= bytes.len() { Ok((at, at + length)) } else { Err(Bad::Truncated) };
    match wire {
        0 => read_varint(bytes, at).map(|(_, next)| (at, next)),
        1 => fixed(8),
        5 => fixed(4),
        2 => {
            let (length, start) = read_varint(bytes, at)?;
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            Ok((start, start.saturating_add(length)))
        }
        _ => Err(Bad::Group),
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, find_fault, has_field};

    #[test]
    fn a_cut_inside_a_weight_names_the_weight() {
        // graph { initializer { name: "W" raw_data: 16 bytes promised, 2 there } }
        let tensor = [0x42, 1, b'W', 0x4a, 16, 0, 0];
        let mut graph = vec![0x2a, 21];
        graph.extend(tensor);
        let mut model = vec![0x3a, 23];
        model.extend(&graph);
        let fault = find_fault(Kind::Model, &model, 0).unwrap();
        assert!(fault.truncated);
        assert_eq!(
            fault.message,
            "the file ends inside field raw_data of initializer \"W\" at byte 11: it promises 14 more"
        );
    }

    #[test]
    fn a_message_that_leaves_its_parent_is_wrong_not_short() {
        let model = [0x3a, 4, 0x2a, 9, 0x42, 0, 0x08, 0, 0, 0, 0, 0, 0];
        let fault = find_fault(Kind::Model, &model, 0).unwrap();
        assert!(!fault.truncated, "{}", fault.message);
    }

    #[test]
    fn sound_messages_have_no_fault() {
        assert_eq!(find_fault(Kind::Model, &[0x08, 8, 0x3a, 0], 0), None);
        assert!(has_field(&[0x08, 2, 0x22, 0], &[4]));
        assert!(!has_field(&[0x08, 2, 0x22, 9], &[9]));
    }
}
