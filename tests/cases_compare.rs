//! Whole-program answers to CASES.md, case 83: layer profiles of fusing runtimes beside the prediction.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use support::{Folder, dlcost, opset};

fn profiles() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/profiles")
}

fn run(profile: &str, options: &[&str]) -> Output {
    let mut arguments = vec!["compare", "block.onnxtxt", profile, "--gpu", "t4", "--no-config"];
    arguments.extend(options);
    dlcost(&profiles(), &arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

fn compared(profile: &str) -> Value {
    let output = run(profile, &["--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    json(&output)
}

/// The nodes of the row with this line.
fn nodes_of(comparison: &Value, line: &str) -> Vec<String> {
    let rows = comparison["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["lines"].as_array().unwrap().iter().any(|name| name == line));
    let nodes = &row.unwrap_or_else(|| panic!("no row {line}: {rows:#?}"))["nodes"];
    nodes.as_array().unwrap().iter().map(|node| node.as_str().unwrap().to_owned()).collect()
}

fn apart(comparison: &Value) -> Vec<(&str, &str)> {
    let lines = comparison["apart"].as_array().unwrap().iter();
    lines.map(|line| (line["line"].as_str().unwrap(), line["kind"].as_str().unwrap())).collect()
}

fn sum(list: &Value, key: &str) -> f64 {
    list.as_array().unwrap().iter().map(|item| item[key].as_f64().unwrap()).sum()
}

fn close(a: f64, b: &Value) -> bool {
    (a - b.as_f64().unwrap()).abs() < 1e-6
}

#[test]
fn fused_lines_of_tensorrt_are_sets_of_nodes_and_what_was_added_stands_apart() {
    let comparison = compared("block.trtexec.json");
    assert_eq!(comparison["schema"], "dlcost-compare/1");
    assert_eq!(comparison["target"]["runtime"], "tensorrt");
    assert_eq!(comparison["target"]["mode"], "infer");
    assert_eq!(nodes_of(&comparison, "conv1 + bn1 + relu1"), ["conv1", "bn1", "relu1"]);
    assert_eq!(nodes_of(&comparison, "conv2 || conv3"), ["conv2", "conv3"]);
    assert_eq!(nodes_of(&comparison, "PWN(PWN(sigmoid), mul) + add"), ["sigmoid", "mul", "add"]);
    assert_eq!(nodes_of(&comparison, "{ForeignNode[pool...fc]}"), ["pool", "flatten", "fc"]);
    let copy = "Reformatting CopyNode for Input Tensor 0 to conv1 + bn1 + relu1";
    assert_eq!(
        apart(&comparison),
        [
            (copy, "reformat"),
            ("[DeviceToHostCopy 0]", "copy"),
            ("__myl_Fc_myl0_3", "opaque"),
            ("(Unnamed Layer* 12) [Shuffle]", "unmatched"),
        ]
    );
    let alone = comparison["layers_without_line"].as_array().unwrap();
    assert_eq!(alone.iter().map(|layer| &layer["key"]).collect::<Vec<_>>(), ["softmax"]);
}

#[test]
fn sums_add_up_and_are_not_forced_to_agree_with_the_whole_run() {
    for profile in ["block.trtexec.json", "block.onnxruntime.json"] {
        let comparison = compared(profile);
        let (measured, predicted) = (&comparison["measured"], &comparison["predicted"]);
        let (rows, apart) = (sum(&comparison["rows"], "measured_ms"), sum(&comparison["apart"], "measured_ms"));
        assert!(close(rows, &measured["matched_ms"]) && close(apart, &measured["apart_ms"]));
        assert!(close(rows + apart, &measured["sum_ms"]), "{measured}");
        let with_line = sum(&comparison["rows"], "predicted_ms");
        assert!(close(with_line, &predicted["matched_ms"]), "{predicted}");
        assert!(close(with_line + sum(&comparison["layers_without_line"], "predicted_ms"), &predicted["sum_ms"]));
    }
    let unknown = compared("block.trtexec.json");
    assert!(unknown["measured"]["end_to_end_ms"].is_null());
    let given = json(&run("block.trtexec.json", &["--format", "json", "--end-to-end-ms", "0.4"]));
    assert_eq!(given["measured"]["end_to_end_ms"], 0.4);
    // Lines overlap or leave gaps: the sum may lie on either side.
    assert!(given["measured"]["sum_ms"].as_f64() > Some(0.4));
    let whole = compared("block.onnxruntime.json");
    assert!(whole["measured"]["end_to_end_ms"].as_f64() > whole["measured"]["sum_ms"].as_f64());
}

#[test]
fn runs_of_onnx_runtime_are_averaged_without_the_first() {
    let comparison = compared("block.onnxruntime.json");
    assert_eq!(comparison["target"]["runtime"], "onnxruntime");
    assert_eq!(comparison["measured"]["runs"], 2);
    assert_eq!(nodes_of(&comparison, "fused conv2"), ["conv2"]);
    assert_eq!(apart(&comparison), [("Memcpy", "copy")]);
    let rows = comparison["rows"].as_array().unwrap();
    let conv1 = rows.iter().find(|row| row["lines"][0] == "conv1").unwrap();
    assert_eq!(conv1["measured_ms"], 0.4);
}

#[test]
fn the_worst_rows_come_first_and_top_limits_them() {
    let comparison = compared("block.trtexec.json");
    let distance = |row: &Value| (row["predicted_ms"].as_f64().unwrap() - row["measured_ms"].as_f64().unwrap()).abs();
    let distances: Vec<f64> = comparison["rows"].as_array().unwrap().iter().map(distance).collect();
    assert!(distances.is_sorted_by(|a, b| a >= b), "{distances:?}");
    let text = |options: &[&str]| String::from_utf8(run("block.trtexec.json", options).stdout).unwrap();
    assert!(text(&[]).contains("conv2 || conv3") && text(&[]).contains("predicted  measured  ratio"));
    assert!(text(&["--top", "1"]).contains("(1 of 4; --top N shows more"));
    assert!(text(&[]).lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn a_comparison_follows_its_schema() {
    let schema = dlcost(&profiles(), &["schema", "compare"]).output().unwrap();
    let validator = jsonschema::validator_for(&json(&schema)).unwrap();
    for profile in ["block.trtexec.json", "block.onnxruntime.json"] {
        let comparison = compared(profile);
        let errors: Vec<String> = validator.iter_errors(&comparison).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
}

#[test]
fn a_broken_profile_is_an_error_with_its_place() {
    let folder = Folder::new();
    let model = std::fs::read(profiles().join("block.onnxtxt")).unwrap();
    folder.write("m.onnxtxt", &model);
    let whole = std::fs::read(profiles().join("block.trtexec.json")).unwrap();
    let compare = |bytes: &[u8]| {
        folder.write("p.json", bytes);
        folder.run(&["compare", "m.onnxtxt", "p.json", "--no-config"])
    };
    for broken in [&whole[..whole.len() / 2], b"", b"{}", b"[]", b"\xff\xfe", b"[1]", b"[{\"name\": \"conv1\"}]"] {
        let output = compare(broken);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("error[DL0116 broken-profile]") && text.contains("p.json"), "{text}");
    }
    let half = compare(&whole[..whole.len() / 2]);
    assert!(String::from_utf8_lossy(&half.stdout).contains("--> p.json:6:"), "{half:?}");
    assert_eq!(compare("[".repeat(1 << 20).as_bytes()).status.code(), Some(1));
    assert_eq!(folder.run(&["compare", "m.onnxtxt", "nowhere.json"]).status.code(), Some(2));
    assert_eq!(folder.run(&["compare", "nowhere.onnx", "p.json"]).status.code(), Some(2));
    assert_eq!(folder.run(&["compare", "m.onnxtxt", "."]).status.code(), Some(2));
    // A broken model is one as well.
    folder.write("p.json", &whole);
    folder.write("cut.onnx", b"\x08\x08\x3a\xff\xff");
    let output = folder.run(&["compare", "cut.onnx", "p.json", "--no-config"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn options_that_mean_nothing_here_are_refused() {
    for options in [&["--gpu", "t4,v100"][..], &["--samples", "9"], &["--mode", "train"], &["--format", "sarif"]] {
        let output = run("block.trtexec.json", options);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
    }
}

/// A node belongs to one row: ranges hold what no line names, and lines that share a node share a row.
#[test]
fn each_node_is_counted_once() {
    let text = opset(
        18,
        "g (float[4, 8] x) => (float[4, 8] y) {
            [a] b = Relu (x) [b] c = Exp (b) [c] d = Tanh (c) [d] e = Sigmoid (d) [e] y = Neg (e) }",
    );
    let folder = Folder::with(&[("m.onnxtxt", text.as_bytes())]);
    let compare = |names: &[&str]| {
        let lines: Vec<String> = names.iter().map(|name| format!("{{\"name\": {name:?}, \"averageMs\": 1}}")).collect();
        folder.write("p.json", format!("[{{\"count\": 1}}, {}]", lines.join(", ")).as_bytes());
        json(&folder.run(&["compare", "m.onnxtxt", "p.json", "--format", "json", "--no-config"]))
    };
    let ranges = compare(&["{ForeignNode[a...e]}", "c", "{ForeignNode[c...e]}"]);
    assert_eq!(nodes_of(&ranges, "{ForeignNode[a...e]}"), ["a", "b", "d", "e"]);
    assert_eq!(nodes_of(&ranges, "c"), ["c"]);
    let shared = compare(&["a + b", "b + c"]);
    assert_eq!(shared["rows"].as_array().unwrap().len(), 1);
    assert_eq!(nodes_of(&shared, "b + c"), ["a", "b", "c"]);
    assert_eq!(shared["rows"][0]["measured_ms"], 2.0);
    let nothing = compare(&["{ForeignNode[x1...x2]}", "other + thing"]);
    assert_eq!(apart(&nothing).iter().filter(|(_, kind)| *kind == "unmatched").count(), 2);
}

/// The line of a loop holds the time of its body, which some profiles list again.
#[test]
fn a_loop_is_its_body_unless_that_has_lines_of_its_own() {
    let text = opset(
        18,
        "g (float[64, 64] x) => (float[64, 64] y) {
            n = Constant <value_int = 3> ()
            t = Constant <value = bool[1] {1}> ()
            [loop] y = Loop <body = body (int64 i, bool c, float[64, 64] s) => (bool c2, float[64, 64] z) {
                [keep] c2 = Identity (c)
                [inner] z = MatMul (s, s)
            }> (n, t, x)
        }",
    );
    let folder = Folder::with(&[("m.onnxtxt", text.as_bytes())]);
    let compare = |profile: &str| {
        folder.write("p.json", profile.as_bytes());
        json(&folder.run(&["compare", "m.onnxtxt", "p.json", "--format", "json", "--no-config"]))
    };
    let whole = compare(r#"[{"count": 1}, {"name": "loop", "averageMs": 1}]"#);
    let nodes = nodes_of(&whole, "loop");
    assert!(nodes.len() == 3 && nodes.iter().any(|node| node.ends_with("inner")), "{nodes:?}");
    let both = compare(r#"[{"count": 1}, {"name": "loop", "averageMs": 1}, {"name": "inner", "averageMs": 0.9}]"#);
    assert_eq!(apart(&both), [("loop", "control_flow")]);
    assert_eq!(nodes_of(&both, "inner").len(), 1);
}
