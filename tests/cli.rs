//! The program as users run it: exit status, streams, pipes, colour, configuration.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use support::dlcost;
use tempfile::TempDir;

const GOOD: &str = "<ir_version: 8, opset_import: [\"\" : 17]>\n\
    agraph (float[batch, 4] x) => (float[batch, 4] y) {\n  y = Relu (x)\n}\n";

/// A folder with `good.onnxtxt` and `empty.onnx`.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("good.onnxtxt"), GOOD).unwrap();
    fs::write(folder.path().join("empty.onnx"), "").unwrap();
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    dlcost(folder, arguments).output().unwrap()
}

fn status(folder: &Path, arguments: &[&str]) -> i32 {
    run(folder, arguments).status.code().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn exit_status_tells_good_bad_and_impossible_apart() {
    let folder = folder();
    let at = folder.path();
    assert_eq!(status(at, &["check", "good.onnxtxt"]), 0);
    assert_eq!(status(at, &["check", "empty.onnx"]), 1);
    assert_eq!(status(at, &["check", "good.onnxtxt", "empty.onnx"]), 1);
    assert_eq!(status(at, &["check", "nowhere.onnx"]), 2);
    assert_eq!(status(at, &["check", "--bach", "3", "good.onnxtxt"]), 2);
    assert_eq!(status(at, &["check", "--batch", "0", "good.onnxtxt"]), 2);
    assert_eq!(status(at, &["check"]), 2);
    assert_eq!(status(at, &[]), 2);
    assert_eq!(status(at, &["-V"]), 0);
    assert_eq!(status(at, &["check", "--help"]), 0);
}

#[test]
fn a_missing_path_hinders_no_other() {
    let folder = folder();
    let output = run(folder.path(), &["check", "--format", "concise", "nowhere.onnx", "good.onnxtxt"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&output).starts_with("good.onnxtxt: "));
    assert!(stderr(&output).contains("nowhere.onnx"));
}

#[test]
fn what_is_not_there_yet_is_refused_by_name() {
    let folder = folder();
    for (arguments, named) in [
        (&["check", "--format", "junit", "good.onnxtxt"][..], "'junit' is not available in this version"),
        (&["sweep", "good.onnxtxt"], "'sweep' is not available in this version"),
        (&["check", "--deny", "shape-missmatch", "good.onnxtxt"], "nearest: shape-mismatch"),
        (&["explain", "undefined-tenser"], "nearest: undefined-tensor"),
        (&["good.onnxtxt"], "dlcost check good.onnxtxt"),
    ] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(named), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn folders_are_walked_in_order_and_an_empty_one_is_said_so() {
    let folder = folder();
    let at = folder.path();
    fs::create_dir(at.join("sub")).unwrap();
    fs::write(at.join("sub/a.onnxtxt"), GOOD).unwrap();
    fs::create_dir(at.join("none")).unwrap();
    let output = run(at, &["check", ".", "--format", "json", "--jobs", "3"]);
    let report = json(&output);
    let paths: Vec<&str> = report["models"].as_array().unwrap().iter().map(|m| m["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["./empty.onnx", "./good.onnxtxt", "./sub/a.onnxtxt"]);
    assert_eq!(report["summary"]["files"], 3);
    let output = run(at, &["check", "none"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("none holds no model"));
}

#[test]
fn standard_input_is_read_once() {
    let folder = folder();
    let at = folder.path();
    let model = fs::File::open(at.join("good.onnxtxt")).unwrap();
    let output = dlcost(at, &["check", "-", "--format", "json"]).stdin(model).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(json(&output)["models"][0]["path"], "-");
    assert_eq!(status(at, &["check", "-", "-"]), 2);
}

#[test]
fn output_is_the_same_for_any_number_of_jobs() {
    let folder = folder();
    let at = folder.path();
    for index in 0..20 {
        fs::write(at.join(format!("m{index}.onnxtxt")), GOOD).unwrap();
    }
    for format in ["json", "human", "concise", "sarif", "github"] {
        let with = |jobs| stdout(&run(at, &["check", ".", "--format", format, "--jobs", jobs]));
        assert_eq!(with("1"), with("7"));
        assert_eq!(with("7"), with("7"));
    }
}

#[test]
fn a_closed_pipe_ends_quietly_with_the_status_that_was_computed() {
    let folder = folder();
    for (path, expected) in [("good.onnxtxt", 0), ("empty.onnx", 1)] {
        let mut child = dlcost(folder.path(), &["check", path, "--format", "json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(expected));
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn pipes_get_no_escape_codes_unless_they_are_asked_for() {
    let folder = folder();
    let at = folder.path();
    let output = run(at, &["check", "good.onnxtxt", "empty.onnx"]);
    assert!(!stdout(&output).contains('\u{1b}'));
    assert!(stdout(&run(at, &["check", "--color", "always", "empty.onnx"])).contains('\u{1b}'));
    let output = dlcost(at, &["check", "--color", "always", "empty.onnx"]).env("NO_COLOR", "1").output().unwrap();
    assert!(stdout(&output).contains('\u{1b}'));
    let output = dlcost(at, &["check", "good.onnxtxt"]).env("LC_ALL", "C").output().unwrap();
    assert!(stdout(&output).is_ascii());
}

#[test]
fn the_output_file_is_replaced_and_no_model_is_overwritten() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("report.json"), "old").unwrap();
    let output = run(at, &["check", "good.onnxtxt", "--format", "json", "-o", "report.json"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty());
    assert!(fs::read_to_string(at.join("report.json")).unwrap().starts_with("{\n  \"schema\": \"dlcost-report/1\""));
    assert_eq!(status(at, &["check", "good.onnxtxt", "-o", "good.onnxtxt"]), 2);
    assert_eq!(fs::read_to_string(at.join("good.onnxtxt")).unwrap(), GOOD);
    assert_eq!(status(at, &["check", "good.onnxtxt", "-o", "no/where.txt"]), 2);
    assert_eq!(fs::read_dir(at).unwrap().count(), 3);
}

#[test]
fn the_last_level_wins() {
    let folder = folder();
    let at = folder.path();
    assert_eq!(status(at, &["check", "empty.onnx", "--warn", "empty-file"]), 0);
    assert_eq!(status(at, &["check", "empty.onnx", "--warn", "empty-file", "--deny", "DL0104"]), 1);
    assert_eq!(status(at, &["check", "empty.onnx", "--deny", "dl0104", "--warn", "DL01xx"]), 0);
}

#[test]
fn configuration_is_found_upwards_and_the_command_line_beats_it() {
    let folder = folder();
    let at = folder.path();
    fs::create_dir(at.join("sub")).unwrap();
    fs::rename(at.join("good.onnxtxt"), at.join("sub/good.onnxtxt")).unwrap();
    fs::write(at.join("dlcost.toml"), "[defaults]\nbatch = 7\nformat = \"json\"\n").unwrap();
    let batch = |arguments: &[&str]| json(&run(at, arguments))["models"][0]["target"]["batch"].as_i64();
    assert_eq!(batch(&["check", "sub/good.onnxtxt"]), Some(7));
    assert_eq!(batch(&["check", "sub/good.onnxtxt", "--batch", "3"]), Some(3));
    assert_eq!(batch(&["check", "sub/good.onnxtxt", "--no-config", "--format", "json"]), Some(32));
    fs::write(at.join("other.toml"), "[defaults]\nbatch = 9\nformat = \"json\"\n").unwrap();
    assert_eq!(batch(&["check", "sub/good.onnxtxt", "--config", "other.toml"]), Some(9));
    // A nearer file counts for the model, but not for the output.
    fs::write(at.join("sub/dlcost.toml"), "[defaults]\nbatch = 5\nformat = \"concise\"\n").unwrap();
    assert_eq!(batch(&["check", "sub/good.onnxtxt"]), Some(5));
}

#[test]
fn every_target_is_an_entry_of_its_own() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("dlcost.toml"), "[[target]]\nbatch = 1\nmode = \"infer\"\n[[target]]\nbatch = 2\n").unwrap();
    let report = json(&run(at, &["check", "good.onnxtxt", "--format", "json"]));
    let models = report["models"].as_array().unwrap();
    let entry = |index: usize| {
        let target = &models[index]["target"];
        (models[index]["target_index"].as_u64(), target["batch"].as_u64(), target["mode"].as_str())
    };
    assert_eq!(models.len(), 2);
    assert_eq!(entry(0), (Some(0), Some(1), Some("infer")));
    assert_eq!(entry(1), (Some(1), Some(2), Some("train")));
    assert_eq!(report["summary"]["files"], 1);
}

#[test]
fn a_broken_configuration_is_named_with_its_place() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("dlcost.toml"), "[defaults]\r\nbach = 7\r\n").unwrap();
    let output = run(at, &["check", "good.onnxtxt"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("dlcost.toml:2:1: unknown key 'bach'; did you mean 'batch'?"));
    assert_eq!(status(at, &["check", "good.onnxtxt", "--no-config"]), 0);
}

#[test]
fn init_writes_a_configuration_once() {
    let folder = folder();
    let at = folder.path();
    assert_eq!(status(at, &["init"]), 0);
    assert_eq!(status(at, &["check", "good.onnxtxt"]), 0);
    fs::write(at.join("dlcost.toml"), "# mine\n").unwrap();
    assert_eq!(status(at, &["init"]), 2);
    assert_eq!(fs::read_to_string(at.join("dlcost.toml")).unwrap(), "# mine\n");
    assert_eq!(status(at, &["init", "--force"]), 0);
}

#[test]
fn emitted_stages_go_to_standard_output_and_diagnostics_beside_it() {
    let folder = folder();
    let output = run(folder.path(), &["check", "--emit", "shapes", "good.onnxtxt", "empty.onnx"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("error[DL0104 empty-file]"));
    assert!(!stdout(&output).contains("DL0104"));
}

#[test]
fn schema_completions_manual_and_pages_are_printed() {
    let folder = folder();
    let at = folder.path();
    assert_eq!(json(&run(at, &["schema"]))["title"], "Report");
    for shell in ["bash", "zsh", "fish", "powershell"] {
        assert!(stdout(&run(at, &["completions", shell])).contains("dlcost"));
    }
    assert!(stdout(&run(at, &["man"])).contains(".TH dlcost 1"));
    assert!(stdout(&run(at, &["man", "check"])).contains("input\\-shape"));
    assert!(stdout(&run(at, &["explain", "dl0204"])).starts_with("# DL0204 undefined-tensor"));
    assert!(stdout(&run(at, &["explain", "layers[].key"])).contains("--frozen"));
}

#[test]
fn devices_are_listed_compared_and_read_from_files() {
    let folder = folder();
    let at = folder.path();
    let all = run(at, &["devices"]);
    assert_eq!(all.status.code(), Some(0));
    assert!(stdout(&all).contains("v100-sxm2-16gb") && stderr(&all).is_empty());
    assert_eq!(json(&run(at, &["devices", "--format", "json"]))["schema"], "dlcost-devices/1");
    let some = run(at, &["devices", "h100", "t4"]);
    assert!(stdout(&some).contains("h100-sxm5-80gb") && stderr(&some).contains("there are also h100-pcie-80gb"));
    let unknown = run(at, &["devices", "RTX 4070 Ti SUPER"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("nearest: rtx-4070-ti-super, "), "{}", stderr(&unknown));
    fs::write(at.join("card.toml"), "[device.mine]\nmemory = { gib = 16 }\nplain = { fp32 = 44.1 }\n").unwrap();
    let incomplete = run(at, &["devices", "card.toml"]);
    assert_eq!(incomplete.status.code(), Some(2));
    assert!(stderr(&incomplete).contains("card.toml:2:10: the field 'memory.gb_s' is missing"));
}
