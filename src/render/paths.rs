//! Paths of models as other programs take them: relative to the working folder, with forward slashes, and as URIs.

use std::path::Path;

/// What stands for standard input, which has no path.
const STANDARD_INPUT: &str = "stdin";

/// The folder that paths are relative to.
#[derive(Clone, Debug)]
pub struct Root {
    folder: Full,
    /// Whether paths have drives and backslashes.
    windows: bool,
}

/// A whole path: where it starts and the names from there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Full {
    /// Empty, a drive (`C:`) or a host (`//server`).
    anchor: String,
    names: Vec<String>,
}

/// Where a file is, seen from the folder.
enum Seen {
    Inside(Vec<String>),
    Outside(Full),
}

impl Root {
    /// Paths are relative to this folder, which is given as a whole path.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self::of(&folder.to_string_lossy(), cfg!(windows))
    }

    fn of(folder: &str, windows: bool) -> Self {
        let (anchor, names) = split(folder, windows);
        Self { folder: Full { anchor: anchor.unwrap_or_default(), names: settled(names) }, windows }
    }

    /// The path, readable: relative inside the folder, else whole.
    pub(super) fn path(&self, file: &str) -> String {
        match self.seen(file) {
            Seen::Inside(names) => names.join("/"),
            Seen::Outside(full) => format!("{}/{}", full.anchor, full.names.join("/")),
        }
    }

    /// The path as a URI reference: relative inside the folder, else with `file:`.
    pub(super) fn uri(&self, file: &str) -> String {
        let encoded = |names: &[String]| names.iter().map(|name| encoded(name)).collect::<Vec<_>>().join("/");
        match self.seen(file) {
            Seen::Inside(names) => encoded(&names),
            Seen::Outside(Full { anchor, names }) => {
                let start = if anchor.starts_with("//") {
                    "file:"
                } else if anchor.is_empty() {
                    "file://"
                } else {
                    "file:///"
                };
                format!("{start}{anchor}/{}", encoded(&names))
            }
        }
    }

    fn seen(&self, file: &str) -> Seen {
        if file == "-" {
            return Seen::Inside(vec![STANDARD_INPUT.to_owned()]);
        }
        let (anchor, names) = split(file, self.windows);
        let full = match anchor {
            Some(anchor) => Full { anchor, names: settled(names) },
            None => {
                let from_folder = self.folder.names.iter().cloned().chain(names).collect();
                Full { anchor: self.folder.anchor.clone(), names: settled(from_folder) }
            }
        };
        // Drives and hosts have no case.
        let same_start = full.anchor.eq_ignore_ascii_case(&self.folder.anchor);
        match full.names.strip_prefix(self.folder.names.as_slice()) {
            Some(rest) if same_start && !rest.is_empty() => Seen::Inside(rest.to_vec()),
            _ => Seen::Outside(full),
        }
    }
}

/// Where a path starts (`None` for a relative one), and its names.
fn split(path: &str, windows: bool) -> (Option<String>, Vec<String>) {
    let names = |rest: &str| rest.split('/').map(str::to_owned).collect();
    if !windows {
        return (path.starts_with('/').then(String::new), names(path));
    }
    let path = path.replace('\\', "/");
    // The long form is the same path.
    let path = match path.strip_prefix("//?/UNC/") {
        Some(rest) => format!("//{rest}"),
        None => path.strip_prefix("//?/").unwrap_or(&path).to_owned(),
    };
    if let Some(rest) = path.strip_prefix("//") {
        let (host, rest) = rest.split_once('/').unwrap_or((rest, ""));
        return (Some(format!("//{host}")), names(rest));
    }
    match path.split_once(":/") {
        Some((drive, rest)) if drive.len() == 1 => (Some(format!("{drive}:")), names(rest)),
        _ => (path.starts_with('/').then(String::new), names(&path)),
    }
}

/// The names without `.`, `..` and what is empty.
fn settled(names: Vec<String>) -> Vec<String> {
    let mut settled = Vec::with_capacity(names.len());
    for name in names {
        match name.as_str() {
            "" | "." => {}
            ".." => {
                settled.pop();
            }
            _ => settled.push(name),
        }
    }
    settled
}

/// A name with all but the unreserved characters of RFC 3986, section 2.3, as bytes of UTF-8 in hexadecimal.
fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_inside_the_folder_are_relative_and_encoded() {
        let root = Root::of("/work/net", false);
        for (path, uri) in [
            ("models/größe 1.onnx", "models/gr%C3%B6%C3%9Fe%201.onnx"),
            ("./a.onnx", "a.onnx"),
            ("../net/a:b,100%.onnx", "a%3Ab%2C100%25.onnx"),
            ("/work/net/sub/a.onnx", "sub/a.onnx"),
            ("/work/network/a.onnx", "file:///work/network/a.onnx"),
            ("../a b.onnx", "file:///work/a%20b.onnx"),
            ("back\\slash.onnx", "back%5Cslash.onnx"),
            ("-", "stdin"),
        ] {
            assert_eq!(root.uri(path), uri, "{path}");
        }
        assert_eq!(root.path("./models/größe 1.onnx"), "models/größe 1.onnx");
        assert_eq!(root.path("../a.onnx"), "/work/a.onnx");
    }

    #[test]
    fn paths_of_windows_have_drives_hosts_and_backslashes() {
        let root = Root::of("D:\\work", true);
        for (path, uri) in [
            ("C:\\m\\a b.onnx", "file:///C:/m/a%20b.onnx"),
            ("d:\\work\\models\\a.onnx", "models/a.onnx"),
            ("models\\a.onnx", "models/a.onnx"),
            ("..\\a.onnx", "file:///D:/a.onnx"),
            ("\\\\?\\C:\\long\\a.onnx", "file:///C:/long/a.onnx"),
            ("\\\\server\\share\\a.onnx", "file://server/share/a.onnx"),
        ] {
            assert_eq!(root.uri(path), uri, "{path}");
        }
        assert_eq!(root.path("C:\\m\\a b.onnx"), "C:/m/a b.onnx");
    }
}
