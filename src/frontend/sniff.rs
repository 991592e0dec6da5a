//! What kind of file it is, from its first bytes.

use super::keras::container::{GZIP, HDF5, ZIP, gzip_head};
use super::source::Source;
use crate::diagnostics::{Code, Diagnostic};

/// A file that a frontend reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// ONNX protobuf.
    Onnx,
    /// ONNX textual syntax.
    OnnxText,
    /// Keras configuration as JSON, plain or compressed.
    KerasJson,
    /// Keras archive (`.keras`).
    KerasArchive,
    /// Keras model in HDF5 (`.h5`).
    KerasHdf5,
}

impl Format {
    /// Whether it is a Keras file in one of its forms.
    #[must_use]
    pub fn is_keras(self) -> bool {
        matches!(self, Self::KerasJson | Self::KerasArchive | Self::KerasHdf5)
    }

    /// The word of the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Onnx => "onnx",
            Self::OnnxText => "onnx-text",
            Self::KerasJson => "keras-json",
            Self::KerasArchive => "keras",
            Self::KerasHdf5 => "keras-h5",
        }
    }
}

/// How many bytes are looked at.
const WINDOW: usize = 4096;

const LFS_HEADER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// Names the format, or says what the file is instead.
///
/// # Errors
/// The diagnostic for an empty file, a Git LFS pointer, or a known other kind of file.
pub fn sniff(source: &Source) -> Result<Format, Box<Diagnostic>> {
    let bytes = &source.bytes[..];
    let head = bytes.get(..WINDOW).unwrap_or(bytes);
    if bytes.is_empty() {
        let help = "download or export the model again".to_owned();
        return Err(Box::new(Diagnostic::new(Code::EmptyFile, "the file is empty (0 bytes)").help(help)));
    }
    if bytes.starts_with(LFS_HEADER) {
        return Err(Box::new(lfs_pointer(head)));
    }
    if let Some(format) = keras_container(source, head) {
        return Ok(format);
    }
    if let Some((what, help)) = other_binary(bytes, head) {
        return Err(Box::new(Diagnostic::new(Code::NotAModel, format!("this is {what}, not a model")).help(help)));
    }
    let Some(text) = leading_text(head) else { return not_text(source, head) };
    let start = text.trim_start_matches('\u{feff}').trim_start();
    if source.extension == "onnxtxt" && !start.starts_with("<!") && !start.to_lowercase().starts_with("<html") {
        return Ok(Format::OnnxText);
    }
    if start.is_empty() {
        let help = "download or export the model again";
        return Err(Box::new(Diagnostic::new(Code::NotAModel, "this is white space, not a model").help(help)));
    }
    if is_keras_json(start) {
        return Ok(Format::KerasJson);
    }
    if let Some(diagnostic) = other_text(start) {
        return Err(Box::new(diagnostic));
    }
    if source.extension == "json" {
        let help = "a Keras model is a JSON object with class_name and config";
        let message = "this is a JSON document, not a model: no object with class_name and config";
        return Err(Box::new(Diagnostic::new(Code::NotAModel, message).help(help)));
    }
    if looks_like_onnx_text(start) { Ok(Format::OnnxText) } else { Ok(Format::Onnx) }
}

/// Whether a text is JSON that names a class, as a Keras model does at its top.
fn is_keras_json(start: &str) -> bool {
    let json = start.starts_with('{') || start.starts_with('"');
    json && (start.contains("class_name") || start.contains("modelTopology"))
}

/// Keras in another form than plain JSON.
fn keras_container(source: &Source, head: &[u8]) -> Option<Format> {
    let bytes = &source.bytes[..];
    if bytes.starts_with(HDF5) {
        return Some(Format::KerasHdf5);
    }
    if bytes.starts_with(ZIP) {
        let end = bytes.len().saturating_sub(65_536);
        let ends = [bytes.get(..65_536).unwrap_or(bytes), bytes.get(end..).unwrap_or(bytes)];
        let names = |name: &[u8]| ends.iter().any(|part| part.windows(name.len()).any(|window| window == name));
        return (names(b"config.json") || source.extension == "keras").then_some(Format::KerasArchive);
    }
    if bytes.starts_with(GZIP) {
        let unpacked = gzip_head(bytes, WINDOW);
        let text = leading_text(&unpacked)?;
        return is_keras_json(text.trim_start_matches('\u{feff}').trim_start()).then_some(Format::KerasJson);
    }
    // Half of the bytes of such a text are zero.
    let wide = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
    (wide && source.extension == "json").then_some(Format::KerasJson)
}

/// The head as text where it is text: UTF-8 (a character may be cut at the end) without control characters.
fn leading_text(head: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => std::str::from_utf8(head.get(..error.valid_up_to())?).ok()?,
        Err(_) => return None,
    };
    let control = |character: char| character.is_control() && !matches!(character, '\n' | '\r' | '\t' | '\u{c}');
    (!text.chars().any(control)).then_some(text)
}

/// The format of bytes that are no clean text: protobuf, or a text with stray bytes.
fn not_text(source: &Source, head: &[u8]) -> Result<Format, Box<Diagnostic>> {
    let lossy = String::from_utf8_lossy(head);
    let start = lossy.trim_start();
    // No protobuf begins like markup.
    if start.starts_with('<')
        && let Some(diagnostic) = other_text(start)
    {
        return Err(Box::new(diagnostic));
    }
    // The first field of a binary model has the tag 8.
    let binary = head.first().is_some_and(|&byte| byte < b'\t');
    Ok(if source.extension == "onnxtxt" && !binary { Format::OnnxText } else { Format::Onnx })
}

fn looks_like_onnx_text(start: &str) -> bool {
    let mut rest = start;
    while let Some(comment) = rest.strip_prefix('#') {
        rest = comment.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
    }
    let after = rest.strip_prefix('<').map(str::trim_start);
    let key = |text: &str| {
        ["ir_version", "opset_import", "producer", "domain", "model_version", "doc_string", "metadata"]
            .iter()
            .any(|key| text.starts_with(key))
    };
    after.is_some_and(|after| key(after) || after.starts_with('>')) || (rest.contains("=>") && rest.contains('('))
}

fn lfs_pointer(head: &[u8]) -> Diagnostic {
    let text = String::from_utf8_lossy(head);
    let field = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned());
    let digest = field("oid sha256:")
        .map_or_else(|| "unknown object".to_owned(), |oid| format!("sha256 {}...", oid.get(..12).unwrap_or(&oid)));
    let size = field("size ")
        .and_then(|size| size.parse::<u64>().ok())
        .map_or_else(|| "size not given".to_owned(), |size| format!("{} bytes", grouped(size)));
    Diagnostic::new(Code::LfsPointer, format!("this is a Git LFS pointer ({digest}, {size}), not the model itself"))
        .help("fetch the model with `git lfs pull`")
}

/// Whether the bytes are a Git LFS pointer.
#[must_use]
pub fn is_lfs_pointer(head: &[u8]) -> bool {
    head.starts_with(LFS_HEADER)
}

/// `102,442,450`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn other_binary(bytes: &[u8], head: &[u8]) -> Option<(&'static str, &'static str)> {
    let contains =
        |needle: &[u8]| bytes.get(..65_536).unwrap_or(bytes).windows(needle.len()).any(|window| window == needle);
    const EXPORT: &str = "export it with torch.onnx.export, then check the .onnx file";
    const UNPACK: &str = "unpack it first";
    const ONNX: &str = "convert it to ONNX first";
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    Some(if starts(b"PK\x03\x04") || starts(b"PK\x05\x06") {
        if contains(b"data.pkl") { ("a PyTorch archive", EXPORT) } else { ("a zip archive", UNPACK) }
    } else if matches!(bytes, [0x80, 2..=5, ..]) {
        // The opcode for protocols 2 to 5; as protobuf it would be a field that ONNX does not have.
        ("a Python pickle (an old PyTorch file?)", EXPORT)
    } else if bytes.get(4..8) == Some(b"TFL3") {
        ("a TensorFlow Lite file", ONNX)
    } else if starts(&[0x1f, 0x8b]) {
        ("gzip data", "unpack it first: gunzip")
    } else if bytes.get(257..262) == Some(b"ustar") {
        ("a tar archive", UNPACK)
    } else if starts(b"ptrt") || starts(b"ftrt") {
        ("a TensorRT plan", "check the ONNX file that it was built from")
    } else if starts(b"GGUF") {
        ("a GGUF file", ONNX)
    } else if starts(b"\x93NUMPY") {
        ("a NumPy array", "check the model, not its data")
    } else if starts(b"BZh")
        || starts(b"\xfd7zXZ\0")
        || starts(b"7z\xbc\xaf\x27\x1c")
        || starts(&[0x28, 0xb5, 0x2f, 0xfd])
        || starts(b"Rar!\x1a\x07")
    {
        ("a compressed file", UNPACK)
    } else if starts(b"\x7fELF") || starts(b"MZ\x90") {
        ("a program", "check a model file")
    } else if starts(b"%PDF-") {
        ("a PDF document", "check a model file")
    } else if starts(b"\x89PNG") || starts(&[0xff, 0xd8, 0xff]) || starts(b"GIF8") {
        ("a picture", "check a model file")
    } else if is_safetensors(bytes, head) {
        ("a safetensors file, which holds weights without a graph", "export the network itself with torch.onnx.export")
    } else if bytes.get(4..8) == Some(b"ORTM") {
        ("an ONNX Runtime file (.ort)", "check the ONNX file that it was made from")
    } else if head.len() >= 16 && head.iter().all(|&byte| byte == 0) {
        ("a file of zeros", "the download or copy was not finished: fetch it again")
    } else if starts(&[0xff, 0xfe]) || starts(&[0xfe, 0xff]) {
        ("UTF-16 text", "save it as UTF-8")
    } else {
        return None;
    })
}

fn is_safetensors(bytes: &[u8], head: &[u8]) -> bool {
    let Some((length, rest)) = head.split_first_chunk::<8>() else { return false };
    let length = u64::from_le_bytes(*length);
    length > 1 && length < bytes.len() as u64 && matches!(rest, [b'{', b'"' | b'}' | b' ' | b'\n' | b'\t', ..])
}

fn other_text(start: &str) -> Option<Diagnostic> {
    let lower = start.to_lowercase();
    let other = |what: String, help: &str| {
        Some(Diagnostic::new(Code::NotAModel, format!("this is {what}, not a model")).help(help))
    };
    const DOWNLOAD: &str =
        "the download needs a login or another address; compare the file's size with the one announced";
    if lower.starts_with("<!doctype html")
        || lower.starts_with("<html")
        || (lower.starts_with("<!--") && lower.contains("<html"))
    {
        let title = lower.find("<title").and_then(|at| {
            let inner = start.get(at..)?.split_once('>')?.1;
            inner.split_once("</").map(|(title, _)| title.trim().to_owned())
        });
        let title =
            title.filter(|title| !title.is_empty()).map(|title| format!(" titled {title:?}")).unwrap_or_default();
        return other(format!("an HTML page{title}"), DOWNLOAD);
    }
    if lower.starts_with("<?xml") || (lower.starts_with("<error") && lower.contains("</")) {
        let code = start
            .split_once("<Code>")
            .and_then(|(_, rest)| rest.split_once("</Code>"))
            .map(|(code, _)| format!(" saying {code:?}"));
        return other(format!("an XML document{}", code.unwrap_or_default()), DOWNLOAD);
    }
    if start.starts_with('{') || start.starts_with('"') || start.starts_with('[') {
        if start.contains("\"irVersion\"") || start.contains("\"opsetImport\"") || start.contains("\"ir_version\"") {
            return Some(
                Diagnostic::new(
                    Code::OtherEncoding,
                    "this is an ONNX model in the JSON form of protobuf, which is not read",
                )
                .help("convert it: onnx.save(onnx.load(FILE, format=\"json\"), \"model.onnx\")"),
            );
        }
        let said = json_error(start).map_or(" without class_name".to_owned(), |text| format!(" saying {text:?}"));
        return other(format!("a JSON document{said}"), "a Keras model is a JSON object with class_name and config");
    }
    let textproto = ["ir_version:", "producer_name:", "graph {", "graph{", "opset_import {", "opset_import{"];
    if textproto.iter().any(|key| start.starts_with(key)) || (start.starts_with('#') && start.contains("\nir_version:"))
    {
        return Some(
            Diagnostic::new(
                Code::OtherEncoding,
                "this is an ONNX model in the text form of protobuf, which is not read",
            )
            .help("convert it: onnx.save(onnx.load(FILE, format=\"textproto\"), \"model.onnx\")"),
        );
    }
    if start.lines().take(40).any(|line| line.trim_start().starts_with("class_name:")) {
        return other(
            "a Keras model in YAML, which Keras itself no longer reads (to_yaml was removed in TensorFlow 2.6)"
                .to_owned(),
            "write it as JSON: open(\"model.json\", \"w\").write(model.to_json())",
        );
    }
    let plain = start
        .chars()
        .take(200)
        .filter(|character| character.is_ascii_alphabetic() || character.is_whitespace())
        .count();
    if !start.is_empty() && plain * 10 > start.chars().take(200).count() * 7 && !looks_like_onnx_text(start) {
        return other("a text file".to_owned(), "check a model file");
    }
    None
}

/// What the body of an error in JSON says.
fn json_error(text: &str) -> Option<String> {
    const LONGEST: usize = 100;
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let text = |value: &serde_json::Value| {
        ["message", "detail", "error", "Message", "code", "Code"]
            .iter()
            .find_map(|key| value.get(key)?.as_str().map(str::to_owned))
    };
    let said = text(&value).or_else(|| text(value.get("error")?))?;
    Some(said.chars().take(LONGEST).collect())
}

#[cfg(test)]
mod tests {
    use super::{Format, sniff};
    use crate::diagnostics::Code;
    use crate::frontend::source::Source;

    fn code(bytes: &[u8]) -> Result<Format, Code> {
        sniff(&Source::from_stdin(bytes.to_vec())).map_err(|diagnostic| diagnostic.code)
    }

    #[test]
    fn files_that_are_no_models_are_named() {
        assert_eq!(code(b""), Err(Code::EmptyFile));
        assert_eq!(code(b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3\n"), Err(Code::LfsPointer));
        for bytes in [
            &b"<!DOCTYPE html><html><head><title>Sign in</title>"[..],
            b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>",
            b"{\"message\": \"not found\"}",
            b"PK\x03\x04\x14\0archive/data.pkl",
            b"\x80\x02}q\0",
            b"\x1c\0\0\0TFL3",
            b"\x1f\x8b\x08",
            b"\x0a\0\0\0\0\0\0\0{\"a\":0,\"b\":{}}",
            b"<html><title>caf\xe9</title>",
            b"<!DOCTYPE html>\x1b[31m",
            b"\x18\0\0\0ORTM",
            b"\r\n \t",
            &[0; 64],
        ] {
            assert_eq!(code(bytes), Err(Code::NotAModel), "{:?}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(code(b"{\"irVersion\": \"8\"}"), Err(Code::OtherEncoding));
        assert_eq!(code(b"ir_version: 8\ngraph {\n}\n"), Err(Code::OtherEncoding));
    }

    #[test]
    fn the_name_decides_on_a_text_with_stray_bytes() {
        let named = |bytes: &[u8]| {
            sniff(&Source { extension: "onnxtxt".to_owned(), ..Source::from_stdin(bytes.to_vec()) }).unwrap()
        };
        assert_eq!(named(b"<ir_version: 8>\ng (float[\xff] x) => () {}"), Format::OnnxText);
        assert_eq!(named(b"<ir_version: 8>\ng (float[\0] x) => () {}"), Format::OnnxText);
        assert_eq!(named(b"\x08\x08\x3a\x00"), Format::Onnx);
    }

    #[test]
    fn keras_is_recognised_in_each_of_its_forms() {
        assert_eq!(code(b"{\"class_name\": \"Sequential\"}"), Ok(Format::KerasJson));
        assert_eq!(code(b"\xef\xbb\xbf {\"module\": \"keras\", \"class_name\": 1}"), Ok(Format::KerasJson));
        assert_eq!(code(b"\"{\\\"class_name\\\": 1}\""), Ok(Format::KerasJson));
        assert_eq!(code(b"PK\x03\x04\x14\0config.json"), Ok(Format::KerasArchive));
        assert_eq!(code(b"\x89HDF\r\n\x1a\n\0\0"), Ok(Format::KerasHdf5));
        assert_eq!(code(b"class_name: Sequential\nconfig:\n"), Err(Code::NotAModel));
    }

    #[test]
    fn both_forms_of_onnx_are_recognised() {
        assert_eq!(code(b"\x08\x08\x3a\x00"), Ok(Format::Onnx));
        assert_eq!(
            code(b"<ir_version: 8, opset_import: [\"\" : 17]>\ng (float[N] x) => (float[N] y) {}"),
            Ok(Format::OnnxText)
        );
        assert_eq!(code(b"# a comment\n<ir_version: 8>"), Ok(Format::OnnxText));
    }

    #[test]
    fn the_pointer_is_told_with_its_size() {
        let text = b"version https://git-lfs.github.com/spec/v1\noid sha256:abababababababababab\nsize 102442450\n";
        let diagnostic = sniff(&Source::from_stdin(text.to_vec())).unwrap_err();
        assert!(diagnostic.message.contains("102,442,450 bytes"), "{}", diagnostic.message);
    }
}
