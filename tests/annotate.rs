//! `dlcost annotate`: the text is whole and valid, its notes are true, and lines of the report are lines of the text.

#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use dlcost::engine::{CheckOptions, Input, annotate, check};
use dlcost::render::{Style, annotated};
use dlcost::report::Model;
use support::{dlcost, opset, zeros};

fn testdata() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

fn options() -> CheckOptions {
    CheckOptions { tensors: true, ..CheckOptions::default() }
}

/// The text with its notes, and the report behind it.
fn annotated_with(input: &Input, options: &CheckOptions) -> (String, Model) {
    let (text, model) = annotate(input, "m", options).unwrap();
    let mut out = Vec::new();
    annotated::write(&model, &text.unwrap(), Style::PLAIN, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), model)
}

fn checked(input: &Input) -> Model {
    check(input, "m", &options()).unwrap().remove(0)
}

fn of_text(text: &str) -> String {
    annotated_with(&Input::Stdin(text.into()), &options()).0
}

fn line<'t>(text: &'t str, needle: &str) -> &'t str {
    text.lines().find(|line| line.contains(needle)).unwrap_or_else(|| panic!("no {needle} in {text}"))
}

/// What a text that leaves out weights and metadata keeps: all but the form, the scopes and the places.
fn figures(model: &Model) -> serde_json::Value {
    let layer = |layer: &dlcost::report::Layer| {
        serde_json::json!([
            layer.key,
            layer.op,
            layer.output_shape,
            layer.parameters,
            layer.macs,
            layer.flops,
            layer.bytes,
            layer.repeats,
            layer.at_bound
        ])
    };
    let found = |finding: &&dlcost::report::Finding| finding.name != "weights-stripped";
    let findings: Vec<_> = model.diagnostics.iter().filter(found).map(|finding| &finding.message).collect();
    serde_json::json!([
        model.graph,
        model.inputs,
        model.outputs,
        model.tensors,
        model.layers.iter().map(layer).collect::<Vec<_>>(),
        findings
    ])
}

fn assert_round_trip(name: &str, input: &Input) {
    let (text, model) = annotated_with(input, &options());
    let again = checked(&Input::Stdin(text.clone().into_bytes()));
    assert_eq!(again.format.as_deref(), Some("onnx-text"), "{name}");
    assert_eq!(figures(&again), figures(&model), "{name}\n{text}");
    // What is annotated again is the same text; only that weights are left out is then said of the file.
    let (twice, _) = annotated_with(&Input::Stdin(text.clone().into_bytes()), &options());
    let without = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.contains("weights-stripped")).map(str::to_owned).collect()
    };
    assert_eq!(without(&twice), without(&text), "{name}");
}

#[test]
fn what_is_printed_reads_back_to_the_same_figures() {
    let mut read = 0;
    for entry in fs::read_dir(testdata()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "onnx" || extension == "onnxtxt") {
            assert_round_trip(&path.to_string_lossy(), &Input::Path(path.clone()));
            read += 1;
        }
    }
    assert!(read > 8);
}

#[test]
fn broken_models_read_back_to_the_same_findings() {
    for body in [
        "g (float[2,3] a, float[4,5] b) => (float[2,5] c) { [\"m m\"] c = MatMul (a, b) }",
        "g (float[2] a) => (float[2] c) { b = Foo (nothing) c = Relu (b) d = Foo (nothing) }",
        "g (float[2] a) => (float[2] c) { c = Add (a, d) d = Relu (c) }",
        "g (float[2] a) => (float[2] c, float x) { c = Conv <kernel_shape = [0]> (a) }",
    ] {
        assert_round_trip(body, &Input::Stdin(opset(17, body).into()));
    }
}

#[test]
fn nodes_have_shape_macs_and_aligned_notes() {
    let text = of_text(&opset(
        17,
        "g (float[N,4] x) => (float[N,8] y) <float[4,8] w = {}> { [first] h = MatMul (x, w) y = Relu (h) }",
    ));
    let first = line(&text, "MatMul");
    assert!(first.contains("  # 32×8, 1.02 KMACs, "), "{first}");
    let second = line(&text, "Relu");
    assert!(second.contains("  # 32×8, 0 MACs, "), "{second}");
    assert_eq!(first.find('#'), second.find('#'));
    assert!(first.ends_with(" %") && second.ends_with(" %"), "{text}");
}

#[test]
fn notes_stand_below_each_other_for_most_lines_of_an_exported_model() {
    let (text, model) = annotated_with(&Input::Path(testdata().join("resnet50.onnx")), &options());
    let columns: Vec<usize> =
        text.lines().filter(|line| line.starts_with("   [")).filter_map(|line| line.find("  # ")).collect();
    assert_eq!(columns.len(), model.layers.len());
    let widest = *columns.iter().filter(|&&column| column <= 100).max().unwrap();
    // Behind a longer line the note follows it.
    assert!(columns.iter().all(|&column| column == widest || column > 100));
    assert!(columns.iter().filter(|&&column| column == widest).count() > columns.len() / 2);
}

#[test]
fn subgraphs_and_functions_have_notes_of_their_own() {
    let (text, _) = annotated_with(&Input::Path(testdata().join("control-flow.onnx")), &options());
    assert!(line(&text, "e = MatMul").contains("# 32×6, ≤ 3.07 KMACs"), "{text}");
    assert!(line(&text, "y = If").contains("{  "), "{text}");
    let (text, _) = annotated_with(&Input::Path(testdata().join("local-functions.onnx")), &options());
    assert!(line(&text, "[block_0]").contains("# 32×64, 1.05 MMACs, "), "{text}");
    // The shape differs between the calls.
    assert!(
        line(&text, "MatMul").contains("# 3.15 MMACs, ") && line(&text, "MatMul").ends_with(" % in 6 calls"),
        "{text}"
    );
}

#[test]
fn findings_stand_below_their_node_and_those_of_the_model_below_the_header() {
    let text = of_text(&opset(
        17,
        "g (float[2,3] a, float[4,5] b) => (float[2,5] c) <float[9] w = {}> {\n [m] c = MatMul (a, b)\n d = Relu (c) }",
    ));
    let lines: Vec<&str> = text.lines().collect();
    let node = lines.iter().position(|line| line.contains("[m] c")).unwrap();
    assert!(lines[node + 1].starts_with("   # error[DL0301 shape-mismatch]: "), "{text}");
    let header = lines.iter().position(|line| *line == ">").unwrap();
    let below: Vec<_> = lines[header + 1..].iter().take_while(|line| line.starts_with("# ")).collect();
    assert!(below.iter().any(|line| line.starts_with("# note[DL0109 weights-stripped]: ")), "{text}");
    assert!(lines[header + 1 + below.len()].starts_with("g ("), "{text}");
}

#[test]
fn payloads_that_no_shape_needs_are_left_out() {
    let values = |count: usize| (0..count).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    let text = of_text(&opset(
        17,
        &format!(
            "g (float[65] x) => (float[65] y) <float[65] w = {}, int64[65] i = {{{}}}, float[3] s = {{1, 2, 3}}> {{ y = Add (x, w) z = Gather (x, i) }}",
            zeros(65),
            values(65)
        ),
    ));
    assert!(text.contains("float[65] w = {},"), "{text}");
    assert!(text.contains("int64[65] i = {0, 1, 2, "), "{text}");
    assert!(text.contains("float[3] s = {1.0, 2.0, 3.0}"), "{text}");
}

#[test]
fn tied_weights_stay_tied_without_their_values() {
    let table: Vec<String> = (0..4096).map(|index| index.to_string()).collect();
    let head: Vec<String> = (0..4096).map(|index| ((index % 64) * 64 + index / 64).to_string()).collect();
    let body = format!(
        "g (int64[3] ids) => (float[3,64] y) <float[64,64] table = {{{}}}, float[64,64] head = {{{}}}> {{
           x = Gather (table, ids)
           y = MatMul (x, head)
         }}",
        table.join(", "),
        head.join(", ")
    );
    let input = Input::Stdin(opset(17, &body).into());
    assert_eq!(checked(&input).graph.unwrap().parameters.total, 4096);
    assert_round_trip("tied", &input);
}

/// The bytes of a binary model with two nodes, of which the second is broken, and strings that hold line breaks.
fn binary_model() -> Vec<u8> {
    fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![u8::try_from(number << 3 | 2).unwrap(), u8::try_from(bytes.len()).unwrap()];
        out.extend(bytes);
        out
    }
    let node = |inputs: &[&str], output: &str, op: &str, name: &str| {
        let mut out: Vec<u8> = inputs.iter().flat_map(|input| field(1, input.as_bytes())).collect();
        out.extend(field(2, output.as_bytes()));
        out.extend(field(3, name.as_bytes()));
        out.extend(field(4, op.as_bytes()));
        field(1, &out)
    };
    let mut graph = node(&["x"], "a\nb", "Relu", "first");
    graph.extend(node(&["a\nb"], "c", "Foo", "second"));
    graph.extend(node(&["c"], "d", "Relu", "third"));
    graph.extend(node(&["nothing"], "e", "Foo", "fourth"));
    graph.extend(field(2, b"g\n\n"));
    graph.extend(field(11, &field(1, b"x")));
    graph.extend(field(12, &field(1, b"d")));
    let mut model = vec![8, 8];
    model.extend(field(6, b"one\ntwo"));
    model.extend(field(7, &graph));
    model.extend(field(8, &[16, 17]));
    model
}

#[test]
fn lines_of_a_binary_model_are_those_of_its_text() {
    let files = fs::read_dir(testdata()).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "onnx")).map(Input::Path);
    for input in files.chain([Input::Stdin(binary_model())]) {
        let (text, model) = annotated_with(&input, &options());
        let lines: Vec<&str> = text.lines().collect();
        let at = |line: Option<u64>| lines[usize::try_from(line.unwrap()).unwrap() - 1];
        for layer in &model.layers {
            let node = layer.name.rsplit('\n').next().unwrap();
            let op = layer.op.rsplit('.').next().unwrap();
            let shown = at(layer.place.line);
            let called = layer.place.graph.as_deref().is_some_and(|graph| graph.starts_with("fn:"));
            // Names with line breaks put the operator on a later line.
            assert!(
                shown.contains(node) && (shown.contains(op) || node == "first" || called),
                "{}: {shown}",
                layer.key
            );
        }
        for finding in &model.diagnostics {
            for place in finding.places.iter().filter(|place| place.node.is_some()) {
                let first = usize::try_from(place.line.unwrap()).unwrap();
                let below = lines[first..].iter().take(8).any(|line| line.contains(&format!("[{} ", finding.code)));
                assert!(below, "{}: {:?}\n{text}", finding.code, place);
            }
        }
        // The report of a check says the same.
        assert_eq!(checked(&input).layers[0].place, model.layers[0].place);
    }
}

#[test]
fn excerpts_of_a_binary_model_have_its_lines() {
    let (text, model) = annotated_with(&Input::Stdin(binary_model()), &options());
    let lines: Vec<&str> = text.lines().collect();
    let finding = model.diagnostics.iter().find(|finding| finding.name == "unknown-operator").unwrap();
    let excerpt = finding.excerpt.as_ref().unwrap();
    for (number, shown) in (excerpt.first_line..).zip(excerpt.text.lines()) {
        assert!(lines[number - 1].contains(shown.split(']').next().unwrap()), "{number}: {shown}\n{text}");
    }
    assert_eq!(&excerpt.text[excerpt.range.clone()], "Foo");
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    dlcost(folder, arguments).output().unwrap()
}

#[test]
fn a_pipe_carries_the_model_to_check() {
    let folder = testdata();
    let mut first = dlcost(&folder, &["annotate", "resnet50.onnx"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut second = dlcost(&folder, &["check", "-", "--format", "json"]);
    let piped = second.stdin(first.stdout.take().unwrap()).output().unwrap();
    assert!(first.wait().unwrap().success());
    let read = |output: Output| serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    let (piped, direct) = (read(piped), read(run(&folder, &["check", "resnet50.onnx", "--format", "json"])));
    assert_eq!(piped["models"][0]["graph"], direct["models"][0]["graph"]);
}

#[test]
fn colour_is_for_terminals_and_those_who_ask() {
    let folder = testdata();
    let plain = run(&folder, &["annotate", "mlp.onnx"]).stdout;
    assert!(!plain.contains(&0x1b));
    let coloured = run(&folder, &["annotate", "mlp.onnx", "--color", "always"]).stdout;
    assert!(coloured.contains(&0x1b));
}

#[test]
fn options_of_the_model_count() {
    let folder = testdata();
    let text = String::from_utf8(run(&folder, &["annotate", "mlp.onnx", "--batch", "7"]).stdout).unwrap();
    assert!(text.contains("# 7×3, 84 MACs"), "{text}");
    let denied = run(&folder, &["annotate", "resnet50.onnx", "--deny", "weights-stripped"]);
    assert_eq!(denied.status.code(), Some(1));
    assert!(String::from_utf8(denied.stdout).unwrap().contains("\n# error[DL0109 weights-stripped]: "));
}

#[test]
fn what_cannot_be_read_is_said_on_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let whole = fs::read(testdata().join("lenet5.onnx")).unwrap();
    fs::write(at.join("cut.onnx"), &whole[..whole.len() / 2]).unwrap();
    let output = run(at, &["annotate", "cut.onnx", "-o", "cut.onnxtxt"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty() && !at.join("cut.onnxtxt").exists());
    assert!(String::from_utf8(output.stderr).unwrap().contains("truncated-file"));
    assert_eq!(run(at, &["annotate", "nowhere.onnx"]).status.code(), Some(2));
    assert_eq!(run(at, &["annotate", "."]).status.code(), Some(2));
    assert_eq!(run(at, &["annotate", "--gpu", "v1000", "cut.onnx"]).status.code(), Some(2));
}

#[test]
fn a_file_is_written_and_no_model_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::copy(testdata().join("mlp.onnx"), at.join("m.onnx")).unwrap();
    assert_eq!(run(at, &["annotate", "m.onnx", "-o", "m.onnxtxt"]).status.code(), Some(0));
    assert_eq!(run(at, &["check", "m.onnxtxt"]).status.code(), Some(0));
    assert_eq!(run(at, &["annotate", "m.onnx", "-o", "m.onnx"]).status.code(), Some(2));
}

#[test]
fn syntax_errors_are_told_with_their_line_in_the_file() {
    let text =
        "<ir_version: 8, opset_import: [\"\" : 17]>\ng (float[2] x) => (float[2] y) {\n  y = Relu (x\n  z = Abs (x)\n}";
    let text = of_text(text);
    assert!(line(&text, "DL0110 syntax-error").contains("(line 4, column "), "{text}");
}
