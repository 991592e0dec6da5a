//! The findings as SARIF 2.1.0, for code scanning. What the report says of costs has no place in it.
//!
//! Sections named below are those of the standard, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use serde::Serialize;

use super::concise::inside;
use super::human::findings::Found;
use super::human::{files, findings};
use super::paths::Root;
use super::text::printable;
use crate::diagnostics::{Code, Level};
use crate::ir::stable_hash::Fnv;
use crate::report::{Location, Report};

/// Where the JSON Schema of the standard is.
const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Writes the findings; paths are relative to `root`.
///
/// # Errors
/// Writing fails.
pub fn write(report: &Report, root: &Root, out: &mut dyn Write) -> io::Result<()> {
    let rules = rules(report);
    let mut results = Vec::new();
    for models in files(report) {
        let mut taken = HashMap::new();
        let found = findings::merged(models);
        results.extend(found.iter().map(|found| SarifResult::of(found, &rules, &mut taken, root)));
    }
    let driver = Driver {
        name: "dlcost",
        version: &report.dlcost.version,
        semantic_version: &report.dlcost.version,
        information_uri: env!("CARGO_PKG_REPOSITORY"),
        rules: rules.iter().map(|&code| Rule::of(code)).collect(),
    };
    let run = Run { tool: Tool { driver }, column_kind: "unicodeCodePoints", results };
    serde_json::to_writer_pretty(&mut *out, &Log { schema: SCHEMA, version: "2.1.0", runs: [run] })?;
    out.write_all(b"\n")
}

/// The codes that occur, in the order of their numbers.
fn rules(report: &Report) -> Vec<Code> {
    let found = report.models.iter().flat_map(|model| &model.diagnostics);
    let codes: BTreeSet<Code> = found.filter_map(|finding| Code::find(&finding.code)).collect();
    codes.into_iter().collect()
}

#[derive(Serialize)]
struct Log<'r> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run<'r>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run<'r> {
    tool: Tool<'r>,
    column_kind: &'static str,
    results: Vec<SarifResult<'r>>,
}

#[derive(Serialize)]
struct Tool<'r> {
    driver: Driver<'r>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver<'r> {
    name: &'static str,
    version: &'r str,
    semantic_version: &'r str,
    information_uri: &'static str,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: &'static str,
    name: &'static str,
    short_description: Text,
    full_description: Text,
    help: Help,
    default_configuration: Configuration,
}

impl Rule {
    fn of(code: Code) -> Self {
        let summary = || Text { text: sentence(code.summary()) };
        let page = code.page();
        Self {
            id: code.number(),
            name: code.name(),
            short_description: summary(),
            full_description: summary(),
            help: Help { text: page, markdown: page },
            default_configuration: Configuration { level: level(code.default_level()) },
        }
    }
}

#[derive(Serialize)]
struct Text {
    text: String,
}

/// The explain page, which reads well as it is.
#[derive(Serialize)]
struct Help {
    text: &'static str,
    markdown: &'static str,
}

#[derive(Serialize)]
struct Configuration {
    level: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult<'r> {
    rule_id: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_index: Option<usize>,
    level: &'static str,
    message: Text,
    /// The first place alone: several would say that the finding is fixed only by a change at each of them (3.27.12).
    locations: [SarifLocation<'r>; 1],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_locations: Vec<SarifLocation<'r>>,
    partial_fingerprints: Fingerprints,
    #[serde(skip_serializing_if = "Properties::is_empty")]
    properties: Properties<'r>,
}

impl<'r> SarifResult<'r> {
    fn of(found: &Found<'r>, rules: &[Code], taken: &mut HashMap<String, usize>, root: &Root) -> Self {
        let finding = found.finding;
        let (first, others) = match finding.places.split_first() {
            Some((first, others)) => (Some(first), others),
            None => (None, &[][..]),
        };
        let binary = found.is_binary();
        Self {
            rule_id: &finding.code,
            rule_index: rules.iter().position(|code| code.number() == finding.code),
            level: level(finding.level),
            message: Text { text: message(found) },
            locations: [SarifLocation::of(first, &found.model.path, binary, root)],
            related_locations: others
                .iter()
                .map(|place| SarifLocation::of(Some(place), &found.model.path, binary, root))
                .collect(),
            partial_fingerprints: Fingerprints::of(found, taken),
            properties: Properties {
                graph: first.and_then(|place| place.graph.as_deref()),
                byte_range: first.and_then(|place| place.byte_range),
                holds: found.holds.clone(),
            },
        }
    }
}

/// What the standard has no field for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Properties<'r> {
    /// Path of the graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    graph: Option<&'r str>,
    /// First byte and one past the last, in binary files.
    #[serde(skip_serializing_if = "Option::is_none")]
    byte_range: Option<[u64; 2]>,
    /// Which targets it holds for, where others do not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<String>,
}

impl Properties<'_> {
    fn is_empty(&self) -> bool {
        self.graph.is_none() && self.byte_range.is_none() && self.holds.is_none()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifLocation<'r> {
    physical_location: PhysicalLocation,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logical_locations: Vec<LogicalLocation<'r>>,
}

impl<'r> SarifLocation<'r> {
    fn of(place: Option<&'r Location>, path: &str, binary: bool, root: &Root) -> Self {
        let file = place.map_or(path, |place| place.file.as_str());
        let region = match place {
            // A binary file has no lines, and code scanning shows nothing without one.
            _ if binary => Some(Region { start_line: 1, start_column: None }),
            Some(place) => place
                .line
                .filter(|&line| line > 0)
                .map(|line| Region { start_line: line, start_column: place.column.filter(|&column| column > 0) }),
            None => None,
        };
        Self {
            physical_location: PhysicalLocation { artifact_location: ArtifactLocation { uri: root.uri(file) }, region },
            logical_locations: place.map(logical).unwrap_or_default(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: ArtifactLocation,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<Region>,
}

#[derive(Serialize)]
struct ArtifactLocation {
    uri: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_column: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogicalLocation<'r> {
    name: &'r str,
    fully_qualified_name: String,
    kind: &'static str,
}

/// Node and tensor of a place, else its graph.
fn logical(place: &Location) -> Vec<LogicalLocation<'_>> {
    let graph = place.graph.as_deref().filter(|name| !name.is_empty());
    let named = [("node", &place.node), ("tensor", &place.tensor)];
    let parts = named.into_iter().filter_map(|(kind, name)| {
        let name = name.as_deref().filter(|name| !name.is_empty())?;
        let whole = graph.map_or_else(|| name.to_owned(), |graph| format!("{graph}/{name}"));
        Some(LogicalLocation { name, fully_qualified_name: whole, kind })
    });
    let parts: Vec<_> = parts.collect();
    match graph {
        Some(name) if parts.is_empty() => {
            vec![LogicalLocation { name, fully_qualified_name: name.to_owned(), kind: "graph" }]
        }
        _ => parts,
    }
}

/// What tells a finding from others of its rule in its file, in this and in later versions of the file.
#[derive(Serialize)]
struct Fingerprints {
    #[serde(rename = "dlcost/v1")]
    own: String,
    /// The only one that code scanning of GitHub reads. Where it is missing, a hash of the line is made, and all lines
    /// of a binary file are one.
    #[serde(rename = "primaryLocationLineHash")]
    github: String,
}

impl Fingerprints {
    fn of(found: &Found<'_>, taken: &mut HashMap<String, usize>) -> Self {
        let finding = found.finding;
        let target = &found.model.target;
        let mut identity = if is_about_target(&finding.code) {
            [&finding.code, target.gpu.as_deref().unwrap_or_default(), &target.mode].join("\0")
        } else {
            let place = finding.places.first();
            let tensor = place.and_then(|place| place.tensor.as_deref()).unwrap_or_default();
            [&finding.code, place.map(node_identity).unwrap_or_default(), tensor].join("\0")
        };
        // What has no name of its own is told apart by its order.
        let before = taken.entry(identity.clone()).or_insert(0);
        *before += 1;
        if *before > 1 {
            identity.push_str(&format!("\0{before}"));
        }
        let hash = Fnv::new("dlcost/v1").bytes(identity.as_bytes()).0;
        Self { own: format!("{hash:016x}"), github: format!("{hash:016x}:1") }
    }
}

/// What a node is known by: its name, else that of its first output, as its label `Op#index` changes with every edit
/// before it.
fn node_identity(place: &Location) -> &str {
    place.output.as_deref().or(place.node.as_deref()).unwrap_or_default()
}

/// Whether a rule is about the model on a device: the groups of memory, replicas and time. Each device has one finding,
/// and which node comes first there changes with the predicted times.
fn is_about_target(code: &str) -> bool {
    ["DL05", "DL06", "DL07"].iter().any(|group| code.starts_with(group))
}

/// The finding in words, with its place, notes and help.
fn message(found: &Found<'_>) -> String {
    let finding = found.finding;
    let mut text = printable(&finding.message).into_owned();
    let inside = finding.places.first().map(inside).unwrap_or_default();
    if !inside.is_empty() {
        text.push_str(&format!(" ({inside})"));
    }
    for note in finding.notes.iter().chain(&found.holds) {
        text.push_str(&format!("\nnote: {}", printable(note)));
    }
    if let Some(help) = &finding.help {
        text.push_str(&format!("\nhelp: {}", printable(help)));
    }
    // `[text](target)` would be a link (3.11.6).
    text.replace("](", "] (")
}

/// The words as a sentence.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).chain(['.']).collect())
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "note",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::render::sample;

    fn written(report: &Report) -> Value {
        let mut out = Vec::new();
        write(report, &Root::new(Path::new("/work")), &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn findings_have_rules_places_and_help() {
        let mut log = written(&sample::report());
        for rule in log["runs"][0]["tool"]["driver"]["rules"].as_array_mut().unwrap() {
            // The pages are tested where they are.
            assert!(rule["help"]["markdown"].as_str().unwrap().starts_with("# DL"));
            rule.as_object_mut().unwrap().shift_remove("help");
        }
        insta::assert_snapshot!(serde_json::to_string_pretty(&log).unwrap());
    }

    #[test]
    fn a_finding_of_several_targets_is_written_once() {
        let mut report = sample::report();
        report.models.insert(1, report.models[0].clone());
        report.models[1].target_index = 1;
        let results = written(&report)["runs"][0]["results"].as_array().unwrap().len();
        assert_eq!(results, 2);
    }

    #[test]
    fn what_is_found_on_several_devices_has_a_fingerprint_for_each() {
        let prints = |gpus: &[&str]| {
            let mut report = sample::report();
            let mut model = report.models.remove(0);
            report.models.clear();
            for gpu in gpus {
                model.target.gpu = Some((*gpu).to_owned());
                let finding = &mut model.diagnostics[0];
                finding.code = Code::OutOfMemory.number().to_owned();
                finding.message = format!("{gpu} is too small");
                // Which place is the first depends on times.
                finding.places.rotate_left(gpus.len() % 2);
                report.models.push(model.clone());
            }
            let log = written(&report);
            let results = log["runs"][0]["results"].as_array().unwrap().clone();
            results.iter().map(|result| result["partialFingerprints"]["dlcost/v1"].clone()).collect::<Vec<_>>()
        };
        let both = prints(&["t4", "v100"]);
        assert_ne!(both[0], both[1]);
        assert_eq!(prints(&["v100"]), both[1..]);
    }
}
