//! Whole-program answers to CASES.md, group 9: output and CI.
//!
//! Also `tests/cli.rs`: exit status of each outcome, pipes that are closed at once, colour on request, output for any
//! number of jobs; `src/cli/terminal.rs`: which variables speak against colour and signs; `src/render/paths.rs`: paths of
//! Windows.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::fmt::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use support::{Folder, Proto, dlcost, float_value, model, node, opset};

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// What `check` prints, whatever it finds.
fn printed(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.run(&[&["check"], arguments].concat());
    assert_ne!(output.status.code(), Some(2), "{}", stderr(&output));
    stdout(&output)
}

/// The SARIF log, of which every region and location is one that code scanning takes.
fn sarif(folder: &Folder, arguments: &[&str]) -> Value {
    let log: Value = serde_json::from_str(&printed(folder, &[&["--format", "sarif"], arguments].concat())).unwrap();
    assert_eq!(log["version"], "2.1.0");
    assert_eq!(log["runs"].as_array().unwrap().len(), 1);
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    for result in results(&log) {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let locations = result["locations"].as_array().unwrap();
        assert_eq!(locations.len(), 1, "{result:#}");
        for location in locations.iter().chain(result["relatedLocations"].as_array().into_iter().flatten()) {
            let place = &location["physicalLocation"];
            let uri = place["artifactLocation"]["uri"].as_str().unwrap();
            assert!(!uri.is_empty() && uri.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'), "{uri}");
            if let Some(region) = place["region"].as_object() {
                assert!(region.values().all(|number| number.as_u64() >= Some(1)), "{region:?}");
                assert!(region.contains_key("startLine"));
            }
        }
    }
    log
}

fn results(log: &Value) -> &[Value] {
    log["runs"][0]["results"].as_array().unwrap()
}

/// The results of one rule.
fn of_rule<'l>(log: &'l Value, id: &str) -> Vec<&'l Value> {
    results(log).iter().filter(|result| result["ruleId"] == id).collect()
}

fn uri(result: &Value) -> &str {
    result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap()
}

fn fingerprint(result: &Value) -> &str {
    result["partialFingerprints"]["dlcost/v1"].as_str().unwrap()
}

/// A binary model of a chain of nodes, each with operator and name.
fn chain(nodes: &[(&str, &str)]) -> Vec<u8> {
    let mut graph = Proto::new();
    for (index, (op, name)) in nodes.iter().enumerate() {
        let [before, after] = [index, index + 1].map(|index| match index {
            0 => "x".to_owned(),
            index if index == nodes.len() => "y".to_owned(),
            index => format!("t{index}"),
        });
        graph = graph.message(1, &node(op, &[&before], &[&after]).bytes(3, name));
    }
    let graph = graph.bytes(2, "g").message(11, &float_value("x", &[2])).message(12, &float_value("y", &[2]));
    model(18, &graph).0
}

/// The same chain as ONNX text: each node but the last gives a tensor of 4 that is declared as one of 5.
fn wrong_declarations(count: usize) -> String {
    let mut declared = String::new();
    let mut nodes = String::new();
    let mut before = "x".to_owned();
    for index in 0..count {
        let _ = write!(declared, "{}float[5] t{index}", if index == 0 { "" } else { ", " });
        let _ = writeln!(nodes, "  [n{index}] t{index} = Relu ({before})");
        before = format!("t{index}");
    }
    opset(18, &format!("g (float[4] x) => (float[4] y)\n<{declared}>\n{{\n{nodes}  y = Relu ({before})\n}}\n"))
}

const CLEAN: &str = "<ir_version: 8, opset_import: [\"\" : 17]>\n\
    agraph (float[batch, 4] x) => (float[batch, 4] y) {\n  y = Relu (x)\n}\n";

/// Case 119.
#[test]
fn a_place_in_a_binary_file_is_line_1_with_the_node_by_name() {
    let mut nodes = vec![("Relu", ""); 20];
    nodes[17] = ("Reluu", "block/act");
    let folder = Folder::with(&[("m.onnx", &chain(&nodes))]);
    let log = sarif(&folder, &["m.onnx"]);
    let found = of_rule(&log, "DL0201");
    assert_eq!(found.len(), 1, "{log:#}");
    let location = &found[0]["locations"][0];
    assert_eq!(location["physicalLocation"]["region"], serde_json::json!({"startLine": 1}));
    let logical = &location["logicalLocations"][0];
    assert_eq!((&logical["name"], &logical["kind"]), (&Value::from("block/act"), &Value::from("node")));
    assert_eq!(logical["fullyQualifiedName"], "main/block/act");
    assert!(found[0]["message"]["text"].as_str().unwrap().contains("block/act"));
    assert_eq!(found[0]["level"], "error");
}

/// Case 119: a text file has lines.
#[test]
fn a_place_in_a_text_file_has_line_and_column() {
    let folder = Folder::with(&[("m.onnxtxt", wrong_declarations(1).as_bytes())]);
    let log = sarif(&folder, &["m.onnxtxt"]);
    let region = &of_rule(&log, "DL0302")[0]["locations"][0]["physicalLocation"]["region"];
    assert!(region["startLine"].as_u64() > Some(1) && region["startColumn"].as_u64() >= Some(1), "{region}");
}

/// Case 120.
#[test]
fn a_finding_about_the_whole_model_is_at_its_file() {
    let model = opset(18, "g (float[batch, 1000000] x) => (y) { y = Relu (x) }");
    let folder = Folder::with(&[("sub/m.onnxtxt", model.as_bytes())]);
    let log = sarif(&folder, &["sub/m.onnxtxt", "--gpu", "v100,t4", "--batch", "1000000"]);
    let found = of_rule(&log, "DL0501");
    assert!(!found.is_empty(), "{log:#}");
    for result in &found {
        assert_eq!(result["locations"].as_array().unwrap().len(), 1);
        assert_eq!(uri(result), "sub/m.onnxtxt");
    }
    // One for each card, as one of them may be mended without the other.
    let mut prints: Vec<_> = found.iter().map(|result| fingerprint(result)).collect();
    prints.dedup();
    assert_eq!(prints.len(), 2, "{log:#}");
}

/// Case 121. `src/render/paths.rs` has the paths of Windows.
#[test]
fn paths_are_relative_and_encoded_in_sarif_and_readable_on_the_console() {
    let folder = Folder::with(&[("models/größe 1.onnx", b""), ("run/here.onnx", b"")]);
    let log = sarif(&folder, &["models/größe 1.onnx"]);
    assert_eq!(uri(&results(&log)[0]), "models/gr%C3%B6%C3%9Fe%201.onnx");
    assert_eq!(uri(&results(&sarif(&folder, &["./models"]))[0]), "models/gr%C3%B6%C3%9Fe%201.onnx");
    assert!(printed(&folder, &["models/größe 1.onnx"]).contains("models/größe 1.onnx"));

    let whole = folder.path().canonicalize().unwrap().join("models/größe 1.onnx");
    let log = sarif(&folder, &[whole.to_str().unwrap()]);
    assert_eq!(uri(&results(&log)[0]), "models/gr%C3%B6%C3%9Fe%201.onnx");
    for path in [whole.to_str().unwrap(), "../models/größe 1.onnx"] {
        let inside = folder.path().join("run");
        let output = dlcost(&inside, &["check", "--format", "sarif", path]).output().unwrap();
        let log: Value = serde_json::from_slice(&output.stdout).unwrap();
        let uri = uri(&results(&log)[0]);
        assert!(uri.starts_with("file:///") && uri.ends_with("/models/gr%C3%B6%C3%9Fe%201.onnx"), "{uri}");
    }
    let log = sarif(&folder, &["-"]);
    assert_eq!(uri(&results(&log)[0]), "stdin");
}

/// Case 122.
#[test]
fn findings_of_one_rule_are_told_apart_and_stay_the_same() {
    let prints = |nodes: &[(&str, &str)]| {
        let folder = Folder::with(&[("m.onnx", &chain(nodes))]);
        let log = sarif(&folder, &["m.onnx"]);
        let found = of_rule(&log, "DL0201");
        assert!(found.iter().all(|result| uri(result) == "m.onnx"));
        for result in &found {
            // What GitHub compares.
            let line = result["partialFingerprints"]["primaryLocationLineHash"].as_str().unwrap();
            assert_eq!(line, format!("{}:1", fingerprint(result)));
        }
        found.iter().map(|result| fingerprint(result).to_owned()).collect::<Vec<_>>()
    };
    let both = prints(&[("Reluu", "a"), ("Relu", ""), ("Abss", "b")]);
    assert_eq!(both.len(), 2);
    assert_ne!(both[0], both[1]);
    assert_eq!(prints(&[("Relu", "a"), ("Relu", ""), ("Abss", "b")]), both[1..], "one is mended");
    let more = [("Abs", "new"), ("Relu", ""), ("Reluu", "a"), ("Relu", ""), ("Abss", "b"), ("Abs", "")];
    assert_eq!(prints(&more), both, "nodes are put before them");
}

/// Case 122: nodes that are only known by their place.
#[test]
fn the_output_tells_findings_about_nodes_without_names_apart() {
    let prints = |body: &str| {
        let text = opset(18, &format!("g (float[4] x) => (float[4] y) <float[5] a, float[5] b> {{ {body} }}"));
        let folder = Folder::with(&[("m.onnxtxt", text.as_bytes())]);
        let log = sarif(&folder, &["m.onnxtxt"]);
        of_rule(&log, "DL0302").iter().map(|result| fingerprint(result).to_owned()).collect::<Vec<_>>()
    };
    let both = prints("a = Relu (x) b = Relu (a) y = Abs (b)");
    assert_eq!(both.len(), 2);
    assert_ne!(both[0], both[1]);
    assert_eq!(prints("z = Relu (x) w = Relu (z) a = Relu (w) b = Relu (a) y = Abs (b)"), both);
    assert_eq!(prints("z = Relu (x) b = Relu (z) y = Abs (b)"), both[1..]);
}

/// Case 123.
#[test]
fn ten_annotations_of_a_level_are_written_and_the_rest_is_counted() {
    let folder = Folder::with(&[("m.onnxtxt", wrong_declarations(300).as_bytes())]);
    let only = ["--allow", "DL07xx", "--allow", "DL05xx", "--mode", "infer", "m.onnxtxt"];
    let human = printed(&folder, &only);
    let text = printed(&folder, &[&["--format", "github"], &only[..]].concat());
    let commands = text.strip_prefix(&human).expect("the report comes first");
    let lines: Vec<_> = commands.lines().collect();
    assert_eq!(lines.len(), 11, "{commands}");
    for (index, line) in lines[..10].iter().enumerate() {
        assert!(line.starts_with("::warning file=m.onnxtxt,line="), "{line}");
        assert!(line.contains(",title=DL0302 declared-shape-wrong::"), "{line}");
        assert!(line.contains(&format!("node n{index}")), "{line}");
    }
    assert_eq!(lines[10], "::notice title=dlcost::290 more, see log");
}

/// Case 123: what is gravest.
#[test]
fn errors_are_annotated_before_warnings_of_earlier_files() {
    let folder = Folder::with(&[("a.onnxtxt", wrong_declarations(3).as_bytes()), ("b, 50%.onnx", b"")]);
    let text = printed(&folder, &["--format", "github", "--allow", "DL07xx", "."]);
    let commands: Vec<_> = text.lines().filter(|line| line.starts_with("::")).collect();
    assert!(commands[0].starts_with("::error file=b%2C 50%25.onnx,title=DL0104 empty-file::"), "{text}");
    assert!(commands[1..4].iter().all(|line| line.starts_with("::warning file=a.onnxtxt,line=")), "{text}");
    assert!(!text.contains("see log"));
}

/// Case 123: nothing to say.
#[test]
fn a_clean_model_has_no_annotations_and_no_results() {
    let folder = Folder::with(&[("m.onnxtxt", CLEAN.as_bytes())]);
    let quiet = ["--allow", "DL07xx", "m.onnxtxt"];
    assert_eq!(printed(&folder, &[&["--format", "github"], &quiet[..]].concat()), printed(&folder, &quiet));
    let log = sarif(&folder, &quiet);
    assert!(results(&log).is_empty());
    assert_eq!(log["runs"][0]["tool"]["driver"]["rules"], Value::Array(Vec::new()));
}

/// Case 124. `tests/cli.rs` has more of it.
#[test]
fn exit_status_is_the_same_in_every_form() {
    let folder = Folder::with(&[
        ("clean.onnxtxt", CLEAN.as_bytes()),
        ("warned.onnxtxt", wrong_declarations(1).as_bytes()),
        ("broken.onnx", &chain(&[("Reluu", "")])),
        ("cut.onnx", &chain(&[("Relu", "")])[..20]),
        ("syntax.onnxtxt", b"<ir_version: 8, opset_import: [\"\" : 17]>\ng (float[4] x) => "),
    ]);
    for format in ["human", "concise", "json", "sarif", "github"] {
        for (arguments, expected) in [
            (&["clean.onnxtxt"][..], 0),
            (&["warned.onnxtxt"], 0),
            (&["warned.onnxtxt", "--deny", "warnings"], 1),
            (&["broken.onnx"], 1),
            (&["cut.onnx"], 1),
            (&["syntax.onnxtxt"], 1),
            (&["nowhere.onnx"], 2),
            (&["nowhere.onnx", "broken.onnx"], 2),
            (&["clean.onnxtxt", "--batch", "none"], 2),
        ] {
            let output = folder.run(&[&["check", "--format", format], arguments].concat());
            assert_eq!(output.status.code(), Some(expected), "{format} {arguments:?}: {}", stderr(&output));
            assert_eq!(output.stderr.is_empty(), expected != 2, "{format} {arguments:?}: {}", stderr(&output));
        }
    }
}

/// Case 124: the reader takes a line and goes.
#[cfg(unix)]
#[test]
fn a_reader_that_takes_one_line_is_no_error() {
    let folder = Folder::with(&[("m.onnxtxt", wrong_declarations(300).as_bytes())]);
    for format in ["human", "json", "sarif", "github"] {
        let pipe = format!(
            "{{ '{}' check --format {format} m.onnxtxt; echo $? >&2; }} | head -1",
            env!("CARGO_BIN_EXE_dlcost")
        );
        let output = Command::new("sh").current_dir(folder.path()).args(["-c", &pipe]).output().unwrap();
        assert_eq!(stderr(&output).trim(), "0", "{format}");
        assert_eq!(stdout(&output).lines().count(), 1);
    }
}

/// Case 125: without a terminal. `tests/cli.rs` has `--color always`.
#[test]
fn pipes_and_files_are_without_escape_codes_in_every_form() {
    let folder = Folder::with(&[("m.onnxtxt", wrong_declarations(8).as_bytes())]);
    let plain = printed(&folder, &["m.onnxtxt"]);
    for (name, value) in
        [("NO_COLOR", "1"), ("NO_COLOR", ""), ("TERM", "dumb"), ("TERM", "xterm-256color"), ("CI", "true")]
    {
        let output = dlcost(folder.path(), &["check", "m.onnxtxt"]).env(name, value).output().unwrap();
        assert_eq!(stdout(&output), plain, "{name}={value}");
    }
    for format in ["human", "concise", "json", "sarif", "github"] {
        let output = dlcost(folder.path(), &["check", "m.onnxtxt", "--format", format, "-o", "out"])
            .env("TERM", "xterm-256color")
            .output()
            .unwrap();
        assert!(output.stdout.is_empty() && !stderr(&output).contains('\u{1b}'));
        assert!(!std::fs::read_to_string(folder.path().join("out")).unwrap().contains('\u{1b}'), "{format}");
    }
}

/// Case 125: at a terminal, which `script` of util-linux gives.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_has_colour_unless_a_variable_speaks_against_it() {
    let folder = Folder::with(&[("m.onnxtxt", wrong_declarations(8).as_bytes())]);
    let at_terminal = |variables: &[(&str, &str)]| {
        let check = format!("'{}' check --quiet m.onnxtxt", env!("CARGO_BIN_EXE_dlcost"));
        let mut command = Command::new("script");
        command.current_dir(folder.path()).args(["-qec", &check, "/dev/null"]).stdin(Stdio::null());
        command.env_remove("NO_COLOR").env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8");
        command.envs(variables.iter().copied());
        command.output().ok().map(|output| stdout(&output).replace('\r', ""))
    };
    // Where there is no `script`, the variables have their tests in `src/cli/terminal.rs`.
    let Some(coloured) = at_terminal(&[]) else { return };
    assert!(coloured.contains('\u{1b}'), "{coloured}");
    assert_eq!(at_terminal(&[("NO_COLOR", "")]).unwrap(), coloured);
    let plain = printed(&folder, &["m.onnxtxt"]);
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        assert_eq!(at_terminal(&[variable]).unwrap(), plain, "{variable:?}");
    }
    assert_eq!(without_codes(&coloured), plain, "colour moves no column");
}

/// The text without escape codes for colours.
#[cfg(target_os = "linux")]
fn without_codes(text: &str) -> String {
    let mut pieces = text.split("\u{1b}[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once('m').unwrap().1);
    }
    plain
}

/// Case 126. The product of the dims is 2^53 + 1, which a float cannot hold.
#[test]
fn integers_are_exact_at_any_size() {
    let model = opset(18, "g (float[107, 3] a, float[3, 28059810762433] b) => (y) { y = MatMul (a, b) }");
    let folder = Folder::with(&[("m.onnxtxt", model.as_bytes())]);
    let text = printed(&folder, &["m.onnxtxt", "--format", "json", "--mode", "infer"]);
    assert!(text.contains("\"macs\": 9007199254740993,"), "{text}");
    assert!(text.contains("\"forward\": 18014398509481986,"), "{text}");
}

/// Case 126: what is not known.
#[test]
fn what_is_not_known_is_null_with_a_reason_and_never_no_number() {
    let unbound = opset(18, "g (float[batch, anything] x) => (y) { y = Relu (x) }");
    let nothing = opset(18, "g (float[0, 4] x, float[4, 4] w) => (y) { y = MatMul (x, w) }");
    let folder = Folder::with(&[("unbound.onnxtxt", unbound.as_bytes()), ("nothing.onnxtxt", nothing.as_bytes())]);
    for file in ["unbound.onnxtxt", "nothing.onnxtxt"] {
        let text = printed(&folder, &[file, "--format", "json", "--samples", "10", "--epochs", "2"]);
        assert!(!text.contains("NaN") && !text.contains("inf,") && !text.contains("Infinity"), "{text}");
        let report: Value = serde_json::from_str(&text).unwrap();
        let model = &report["models"][0];
        if file == "unbound.onnxtxt" {
            assert!(model["time_ms"].is_null() && model["graph"]["flops"]["forward"].is_null(), "{text}");
            let named = |finding: &Value| finding["name"] == "unbound-dim";
            assert!(model["diagnostics"].as_array().unwrap().iter().any(named), "{text}");
        }
    }
}

/// Case 127. `tests/cli.rs` compares numbers of jobs for more files.
#[test]
fn the_same_input_gives_the_same_bytes_wherever_it_is() {
    let broken = chain(&[("Reluu", "a"), ("Relu", ""), ("Reluu", "")]);
    let declared = wrong_declarations(12);
    let files: [(&str, &[u8]); 4] = [
        ("clean.onnxtxt", CLEAN.as_bytes()),
        ("sub/broken.onnx", &broken),
        ("sub/declared.onnxtxt", declared.as_bytes()),
        ("empty.onnx", b""),
    ];
    let [here, there] = [Folder::with(&files), Folder::with(&files)];
    for format in ["human", "concise", "json", "sarif", "github"] {
        let text =
            |folder: &Folder, jobs| printed(folder, &[".", "--format", format, "--gpu", "t4,v100", "--jobs", jobs]);
        let first = text(&here, "1");
        assert_eq!(text(&here, "4"), first, "{format}");
        assert_eq!(text(&there, "4"), first, "{format}");
        for folder in [here.path(), &std::env::temp_dir()] {
            assert!(!first.contains(folder.to_str().unwrap()), "{format}: {first}");
        }
        assert!(!first.contains("Time") && !first.contains("Utc"), "{format}: {first}");
        if matches!(format, "json" | "sarif") {
            assert!(first.contains(&format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"))));
        }
    }
}

/// Case 128.
#[test]
fn borders_are_ascii_where_the_locale_has_no_signs_and_names_stay() {
    let text = wrong_declarations(2).replace("[n0]", "[größe]");
    let folder = Folder::with(&[("schön 1.onnxtxt", text.as_bytes())]);
    let plain = dlcost(folder.path(), &["check", "schön 1.onnxtxt"]).env("LC_ALL", "C").output().unwrap();
    assert_eq!(plain.status.code(), Some(0));
    let plain = stdout(&plain);
    let outside: String = plain.chars().filter(|c| !c.is_ascii()).collect();
    assert!(!outside.is_empty() && outside.chars().all(|c| "öß".contains(c)), "{outside}");
    assert!(plain.contains("schön 1.onnxtxt") && plain.contains("größe"), "{plain}");
    assert!(printed(&folder, &["schön 1.onnxtxt"]).contains('│'));
}

/// Case 128: files of Windows.
#[test]
fn carriage_returns_and_long_paths_are_read() {
    // Longer than the 260 characters that old programs of Windows stop at.
    let long = format!("{}m.onnxtxt", "a folder with a long name/".repeat(20));
    let folder = Folder::with(&[
        (&long, CLEAN.replace('\n', "\r\n").as_bytes()),
        (
            "dlcost.toml",
            b"# defaults\r\n[defaults]\r\nbatch = 7\r\nformat = \"sarif\"\r\n\r\n[levels]\r\nDL07xx = \"allow\"\r\n",
        ),
        ("empty.onnx", b""),
    ]);
    let report: Value = serde_json::from_str(&printed(&folder, &[&long, "--format", "json"])).unwrap();
    assert_eq!(report["models"][0]["target"]["batch"], 7);
    assert_eq!(report["models"][0]["path"], long);
    let log: Value = serde_json::from_str(&printed(&folder, &["empty.onnx"])).unwrap();
    assert_eq!(uri(&results(&log)[0]), "empty.onnx");
    assert!(printed(&folder, &[&long, "--format", "human"]).contains("m.onnxtxt"));
}

/// Case 124: Ctrl-C ends the program as it ends any other, and what stood in the file of the report stays.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_ends_quietly_and_leaves_no_half_of_a_report() {
    use std::os::unix::process::ExitStatusExt;
    const INTERRUPT: i32 = 2;
    // Whoever started the tests may have had signals ignored, which children inherit.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    if u64::from_str_radix(ignored, 16).unwrap() >> (INTERRUPT - 1) & 1 == 1 {
        return;
    }
    let folder = Folder::with(&[("report.json", b"old")]);
    for index in 0..400 {
        folder.write(&format!("models/{index}.onnxtxt"), wrong_declarations(300).as_bytes());
    }
    let busy = ["check", "models", "--format", "json", "-o", "report.json"];
    let waiting = ["check", "-", "--format", "json", "-o", "report.json"];
    for arguments in [&busy, &waiting] {
        let mut command = dlcost(folder.path(), arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        // The shell makes 130 of it.
        assert_eq!(child.wait().unwrap().signal(), Some(INTERRUPT), "{arguments:?}");
        let output = child.wait_with_output().unwrap();
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
        assert_eq!(std::fs::read(folder.path().join("report.json")).unwrap(), b"old");
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["models", "report.json"]);
    }
}

/// Stages are text: no other form is given for them, and none is ignored.
#[test]
fn a_stage_in_another_form_is_refused() {
    let folder = Folder::with(&[("m.onnxtxt", CLEAN.as_bytes())]);
    for stage in ["graph", "shapes", "kernels", "memory"] {
        let output = folder.run(&["check", "m.onnxtxt", "--emit", stage, "--format", "json"]);
        assert_eq!(output.status.code(), Some(2), "{stage}");
        assert!(stderr(&output).contains("--emit prints a stage as text"), "{}", stderr(&output));
        assert_eq!(folder.run(&["check", "m.onnxtxt", "--emit", stage]).status.code(), Some(0));
    }
    assert_eq!(folder.run(&["check", "m.onnxtxt", "--emit", "report", "--format", "json"]).status.code(), Some(0));
}
