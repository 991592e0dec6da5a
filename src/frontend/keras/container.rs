//! Where the text of a Keras file lies: in the file itself, compressed, in `config.json` of an archive, or in an attribute
//! of an HDF5 file. Sizes are limited before anything is unpacked; nothing is written to disk.

use std::io::{Cursor, Read};
use std::sync::Arc;

use crate::diagnostics::Code;
use crate::frontend::source::Source;

/// Most bytes of a text of JSON.
const LARGEST: u64 = 128 << 20;

/// Most bytes of what is read beside it.
const LARGEST_BESIDE: u64 = 1 << 20;

/// What lies in a file.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The configuration.
    pub text: Arc<str>,
    /// What it stands in, for messages: `config.json: `.
    pub origin: &'static str,
    /// Version of Keras, where it stands beside the text.
    pub version: Option<String>,
    /// Text of the configuration of training, where it stands beside.
    pub training: Option<String>,
}

/// Why there is no text.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Kind.
    pub code: Code,
    /// One sentence.
    pub message: String,
    /// What to try.
    pub help: Option<String>,
}

impl Failure {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None }
    }

    fn help(mut self, help: &str) -> Self {
        self.help = Some(help.to_owned());
        self
    }
}

/// Signature of an HDF5 file.
pub(crate) const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";

/// Signature of a zip archive.
pub(crate) const ZIP: &[u8] = b"PK\x03\x04";

/// Signature of gzip data.
pub(crate) const GZIP: &[u8] = &[0x1f, 0x8b];

/// Finds the text of a file by its first bytes.
///
/// # Errors
/// When there is none, or it passes the limits.
pub fn open(source: &Source) -> Result<Contents, Failure> {
    let bytes = &source.bytes[..];
    if bytes.starts_with(ZIP) {
        return archive(bytes);
    }
    if bytes.starts_with(HDF5) {
        return hdf5(source);
    }
    let unpacked;
    let (bytes, origin) = if bytes.starts_with(GZIP) {
        unpacked = gunzip(bytes)?;
        (&unpacked[..], "the unpacked text: ")
    } else {
        (bytes, "")
    };
    if bytes.len() as u64 > LARGEST {
        return Err(too_large("the text"));
    }
    Ok(Contents { text: utf8(bytes)?.into(), origin, version: None, training: None })
}

fn utf8(bytes: &[u8]) -> Result<&str, Failure> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let failure = Failure::new(Code::OtherEncoding, "the file is UTF-16 text, not UTF-8");
        return Err(failure.help("save it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE"));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Failure::new(Code::SyntaxError, format!("byte {at} is not UTF-8 text"))
    })
}

fn too_large(what: &str) -> Failure {
    Failure::new(
        Code::MalformedFile,
        format!("{what} unpacks to more than {} MiB, which is past the limit", LARGEST >> 20),
    )
}

fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let reader = flate2::read::MultiGzDecoder::new(bytes);
    match reader.take(LARGEST + 1).read_to_end(&mut text) {
        Ok(_) if text.len() as u64 > LARGEST => Err(too_large("the gzip data")),
        Ok(_) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(Failure::new(Code::TruncatedFile, "the gzip data is cut short"))
        }
        Err(error) => Err(Failure::new(Code::MalformedFile, format!("the gzip data is damaged: {error}"))),
    }
}

/// The beginning of gzip data, unpacked.
pub(crate) fn gzip_head(bytes: &[u8], length: usize) -> Vec<u8> {
    let mut head = vec![0; length];
    let mut reader = flate2::read::GzDecoder::new(bytes);
    let mut filled = 0;
    while let Some(rest) = head.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest) {
            Ok(0) | Err(_) => break,
            Ok(read) => filled += read,
        }
    }
    head.truncate(filled);
    head
}

/// The attributes of an HDF5 file that Keras writes.
fn hdf5(source: &Source) -> Result<Contents, Failure> {
    let length = source.bytes.len() as u64;
    let most = usize::try_from(LARGEST).unwrap_or(usize::MAX);
    let options = hdf5_reader::OpenOptions::default()
        .with_max_read_bytes(most)
        .with_max_object_header_bytes(most)
        .with_chunk_cache_bytes(0);
    let cut = || {
        Failure::new(Code::TruncatedFile, "the HDF5 file is cut short")
            .help("the download or copy stopped early: compare the file's size with the original")
    };
    let damaged = |error: hdf5_reader::error::Error| {
        Failure::new(Code::MalformedFile, format!("the HDF5 file is damaged: {error}"))
    };
    let file = hdf5_reader::Hdf5File::from_owner(source.bytes.clone(), options).map_err(damaged)?;
    let cut_short = file.superblock().eof_address > length;
    let failed = |error| if cut_short { cut() } else { damaged(error) };
    let root = file.root_group().map_err(failed)?;
    let attribute = root.attribute("model_config").map_err(|error| match error {
        hdf5_reader::error::Error::AttributeNotFound(_) => {
            Failure::new(Code::NotAModel, "the HDF5 file holds weights only: it has no attribute model_config")
                .help("save the whole model with model.save(...), or check the JSON of model.to_json()")
        }
        error => failed(error),
    })?;
    let text = attribute.read_string().map_err(|error| match error {
        hdf5_reader::error::Error::TypeMismatch { .. } => {
            Failure::new(Code::MalformedFile, format!("model_config is not text: {error}"))
        }
        error => failed(error),
    })?;
    if text.len() as u64 > LARGEST {
        return Err(too_large("model_config"));
    }
    let beside = |name: &str| root.attribute(name).and_then(|attribute| attribute.read_string()).ok();
    let training = beside("training_config").filter(|text| text.len() as u64 <= LARGEST_BESIDE);
    Ok(Contents { text: text.into(), origin: "model_config: ", version: beside("keras_version"), training })
}

fn archive(bytes: &[u8]) -> Result<Contents, Failure> {
    let cut = || {
        Failure::new(Code::TruncatedFile, "the zip archive is cut short or damaged: its directory is missing")
            .help("the download or copy stopped early: compare the file's size with the original")
    };
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|_| cut())?;
    let named = |archive: &zip::ZipArchive<Cursor<&[u8]>>, ending: &str| {
        archive.file_names().flatten().any(|name| name == ending || name.ends_with(&format!("/{ending}")))
    };
    if archive.index_for_name("config.json").is_none() {
        let message = if named(&archive, "data.pkl") {
            "the zip archive holds no config.json: it is a PyTorch checkpoint, not a Keras archive"
        } else {
            "the zip archive holds no config.json: it is no Keras archive"
        };
        return Err(Failure::new(Code::NotAModel, message));
    }
    let text = member(&mut archive, "config.json", LARGEST)?;
    let version = member(&mut archive, "metadata.json", LARGEST_BESIDE).ok().and_then(|text| {
        let value: serde_json::Value = serde_json::from_slice(&text).ok()?;
        value.get("keras_version")?.as_str().map(str::to_owned)
    });
    Ok(Contents { text: utf8(&text)?.into(), origin: "config.json: ", version, training: None })
}

fn member(archive: &mut zip::ZipArchive<Cursor<&[u8]>>, name: &str, limit: u64) -> Result<Vec<u8>, Failure> {
    let damaged = |what: String| Failure::new(Code::MalformedFile, format!("{name} is damaged: {what}"));
    let file = archive.by_name(name).map_err(|error| damaged(error.to_string()))?;
    if file.size() > limit {
        return Err(too_large(&format!("{name} of the archive")));
    }
    let mut text = Vec::new();
    match file.take(limit + 1).read_to_end(&mut text) {
        Ok(_) if text.len() as u64 > limit => Err(too_large(&format!("{name} of the archive"))),
        Ok(_) => Ok(text),
        Err(error) => Err(damaged(error.to_string())),
    }
}
