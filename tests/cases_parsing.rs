//! Whole-program answers to CASES.md, group 1: parsing and external data.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::fs::File;

use dlcost::engine::CheckOptions;
use support::{
    Folder, Proto, assert_clean, assert_says, assert_silent, bytes, float_value, graph, inference, macs, model, named,
    node, only_error, only_warning, opset, parameters, relu_graph, shape, tensor, text, text_with, value, zeros,
};

/// Case 1.
#[test]
fn weights_in_a_side_file_count_by_their_dims_not_by_the_size_of_the_file() {
    let folder = Folder::with(&[("w.bin", &[0; 1056])]);
    let model = folder.check(&opset(
        18,
        r#"g (float[2, 16] x) => (float[2, 8] y) <
            float[16, 8] W = ["location": "w.bin", "offset": "0", "length": "512"],
            float[8] B = ["location": "w.bin", "offset": "1024", "length": "32"]
        > { y = Gemm (x, W, B) }"#,
    ));
    assert_silent(&model);
    assert_eq!(parameters(&model), 136);
    assert_eq!(graph(&model).parameters.bytes, 544);
    assert_eq!(macs(&model), 256);
    assert_eq!(shape(&model, "y"), "[2, 8]");
}

/// Case 1: without a length the dims decide; a side file of 64 GiB takes no time, because nobody reads it.
#[test]
fn a_huge_side_file_is_not_read_to_count_what_it_holds() {
    let folder = Folder::new();
    let huge = File::create(folder.path().join("w.bin")).unwrap();
    if huge.set_len(64 << 30).is_err() {
        return;
    }
    let model = folder.check(&opset(
        18,
        r#"g (float16[1, 65536] x) => (float16[1, 262144] y) <
            float16[65536, 262144] W = ["location": "w.bin", "offset": "4096"]
        > { y = MatMul (x, W) }"#,
    ));
    assert_silent(&model);
    assert_eq!(parameters(&model), 1 << 34);
    assert_eq!(graph(&model).parameters.bytes, 1 << 35);
}

const THREE_GIB: &str = r#"g (float[1, 16384] x) => (float[1, 16384] y) <
    float[16384, 16384] W0 = ["location": "weights-not-here.bin", "offset": "0", "length": "1073741824"],
    float[16384, 16384] W1 = ["location": "weights-not-here.bin", "offset": "1073741824", "length": "1073741824"],
    float[16384, 16384] W2 = ["location": "weights-not-here.bin", "offset": "2147483648", "length": "1073741824"]
> {
    a = MatMul (x, W0)
    b = MatMul (a, W1)
    y = MatMul (b, W2)
}"#;

/// Case 2.
#[test]
fn a_missing_side_file_is_named_once_and_hinders_no_count() {
    let folder = Folder::new();
    for model in [folder.check(&opset(18, THREE_GIB)), text(&opset(18, THREE_GIB))] {
        let warning = only_warning(&model, "missing-external-data");
        assert_says(warning, &["weights-not-here.bin", "3 tensors"]);
        assert!(warning.notes.iter().any(|note| note.contains("do not need it")), "{warning:#?}");
        assert_eq!(model.diagnostics.len(), 1);
        assert_eq!(parameters(&model), 805_306_368);
        assert_eq!(graph(&model).parameters.bytes, 3_221_225_472);
        assert_eq!(macs(&model), 805_306_368);
        assert_eq!(graph(&model).layers, 3);
        assert_eq!(shape(&model, "y"), "[1, 16384]");
    }
    let (status, printed) = folder.status("model.onnxtxt", opset(18, THREE_GIB).as_bytes());
    assert_eq!(status, 0);
    assert_eq!(printed.matches("weights-not-here.bin").count(), 1, "{printed}");
}

/// Case 2: two side files are two warnings.
#[test]
fn each_missing_side_file_has_its_warning() {
    let model = text(&opset(18, &THREE_GIB.replacen("weights-not-here.bin", "first.bin", 1)));
    let messages: Vec<_> = named(&model, "missing-external-data").iter().map(|finding| &finding.message).collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
}

fn at_location(location: &str) -> String {
    let escaped = location.replace('\\', "\\\\");
    opset(
        18,
        &format!(
            r#"g (float[1, 4] x) => (float[1, 4] y) <float[4, 4] W = ["location": "{escaped}"]> {{ y = MatMul (x, W) }}"#
        ),
    )
}

/// Case 3.
#[test]
fn side_files_outside_the_folder_of_the_model_are_refused_by_their_text() {
    let models = Folder::with(&[("sub/w.bin", &[0; 64])]);
    for location in [
        "sub/../../../secret.bin",
        "../secret.bin",
        "a/b/../../../secret.bin",
        "./../secret.bin",
        "/etc/passwd",
        "//server/share/w.bin",
        "C:/w.bin",
        "c:w.bin",
        "C:\\w.bin",
        "\\\\server\\share\\w.bin",
        "..\\secret.bin",
        "sub\\..\\..\\secret.bin",
        "sub\\w.bin",
    ] {
        let model = models.check(&at_location(location));
        let error = only_error(&model, "external-data-escapes-folder");
        assert_says(error, &["\"W\"", &format!("{location:?}")]);
        assert_eq!(error.places[0].tensor.as_deref(), Some("W"));
        assert_eq!(model.diagnostics.len(), 1, "{:#?}", model.diagnostics);
        assert_eq!(shape(&model, "y"), "[1, 4]");
        assert_eq!(macs(&model), 16);
    }
    for location in ["sub/w.bin", "./sub/w.bin", "sub/../sub/w.bin"] {
        assert_silent(&models.check(&at_location(location)));
    }
}

/// Case 3: links.
#[cfg(unix)]
#[test]
fn links_that_lead_out_of_the_folder_are_refused() {
    let outside = Folder::with(&[("secret.bin", &[0; 64])]);
    let folder = Folder::with(&[("inner/w.bin", &[0; 64])]);
    let out = outside.path().join("secret.bin");
    std::os::unix::fs::symlink(&out, folder.path().join("soft.bin")).unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("away")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("inner"), folder.path().join("here")).unwrap();
    let mut locations = vec!["soft.bin", "away/secret.bin"];
    if std::fs::hard_link(&out, folder.path().join("hard.bin")).is_ok() {
        locations.push("hard.bin");
    }
    for location in locations {
        let model = folder.check(&at_location(location));
        assert_says(only_error(&model, "external-data-escapes-folder"), &["\"W\"", location]);
        assert_eq!(shape(&model, "y"), "[1, 4]");
    }
    assert_silent(&folder.check(&at_location("here/w.bin")));
}

const SHAPE_OUTSIDE: &str = r#"g (float[2, 3, 4] x) => (y) <
    int64[2] s = ["location": "s.bin", "offset": "0", "length": "16"]
> {
    [reshape] r = Reshape (x, s)
    [relu] a = Relu (r)
    [neg] y = Neg (a)
}"#;

/// Case 4.
#[test]
fn a_shape_that_lies_in_the_side_file_is_read() {
    let folder = Folder::new();
    folder.write("s.bin", &[4i64, 6].map(i64::to_le_bytes).concat());
    let model = folder.check(&opset(18, SHAPE_OUTSIDE));
    assert_silent(&model);
    assert_eq!(shape(&model, "y"), "[4, 6]");
    folder.write("s.bin", &[-1i64, 2].map(i64::to_le_bytes).concat());
    assert_eq!(shape(&folder.check(&opset(18, SHAPE_OUTSIDE)), "y"), "[12, 2]");
}

/// Case 4: without the side file.
#[test]
fn a_missing_shape_leaves_the_rank_and_is_told_once_at_its_reader() {
    let model = Folder::new().check(&opset(18, SHAPE_OUTSIDE));
    let output = shape(&model, "y");
    assert_eq!(output.matches(',').count(), 1, "rank 2: {output}");
    assert!(output.bytes().all(|byte| byte != b'4' && byte != b'6'), "{output}");
    assert_eq!(named(&model, "missing-external-data").len(), 1);
    let told: Vec<_> = model
        .diagnostics
        .iter()
        .filter(|finding| {
            finding.message.contains("reshape")
                || finding.places.iter().any(|place| place.node.as_deref() == Some("reshape"))
        })
        .collect();
    assert!(!told.is_empty(), "{:#?}", model.diagnostics);
    for finding in &model.diagnostics {
        assert!(!finding.message.contains("relu") && !finding.message.contains("neg"), "{finding:#?}");
        assert!(finding.places.iter().all(|place| !matches!(place.node.as_deref(), Some("relu" | "neg"))));
    }
}

fn with_range(offset: &str, length: &str) -> String {
    opset(
        18,
        &format!(
            r#"g (float[1, 4] x) => (float[1, 4] y) <
                float[4, 4] W = ["location": "w.bin", "offset": "{offset}", "length": "{length}"]
            > {{ y = MatMul (x, W) }}"#
        ),
    )
}

/// Case 5.
#[test]
fn length_and_offset_in_the_side_file_must_fit_tensor_and_file() {
    let folder = Folder::with(&[("w.bin", &[0; 64])]);
    for (offset, length, words) in [
        ("0", "60", &["length 60", "needs 64"][..]),
        ("0", "68", &["length 68", "needs 64"]),
        ("4", "64", &["68", "64"]),
        ("64", "64", &["128", "64"]),
        ("9223372036854775807", "64", &["64"]),
        ("18446744073709551615", "64", &["64"]),
        ("-4", "64", &["offset", "-4"]),
        ("x", "64", &["offset", "\"x\""]),
        ("1.5", "64", &["offset", "1.5"]),
        ("0", "-64", &["length", "-64"]),
        ("0", "all", &["length", "\"all\""]),
        ("99999999999999999999999", "64", &["offset", "99999999999999999999999"]),
    ] {
        let model = folder.check(&with_range(offset, length));
        let error = only_error(&model, "external-data-invalid");
        assert_says(error, &["\"W\""]);
        assert_says(error, words);
        assert_eq!(error.places[0].tensor.as_deref(), Some("W"));
        assert_eq!(model.diagnostics.len(), 1, "{offset} {length}: {:#?}", model.diagnostics);
        assert_eq!(shape(&model, "y"), "[1, 4]");
    }
    assert_silent(&folder.check(&with_range("0", "64")));
    let (status, _) = folder.status("model.onnxtxt", with_range("0", "60").as_bytes());
    assert_eq!(status, 1);
}

/// Case 5: the range is checked although the file is not there.
#[test]
fn a_length_that_does_not_fit_is_an_error_without_the_side_file_too() {
    let model = text(&with_range("0", "60"));
    assert_says(only_error(&model, "external-data-invalid"), &["\"W\"", "60", "64"]);
}

fn stored(element: i64, field: u32, values: &[i64]) -> Vec<u8> {
    let weight = Proto::new().ints(1, &[2, 3]).int(2, element).ints(field, values).bytes(8, "W");
    let graph = Proto::new()
        .message(1, &node("MatMul", &["x", "W"], &["y"]))
        .bytes(2, "g")
        .message(5, &weight)
        .message(11, &value("x", element, &[1, 2]))
        .message(12, &value("y", element, &[1, 3]));
    model(18, &graph).0
}

/// Case 6.
#[test]
fn bytes_follow_the_element_type_not_the_field_that_stores_it() {
    for (element, field, name, byte_count) in [
        (10, 5, "float16", 12),
        (16, 5, "bfloat16", 12),
        (6, 5, "int32", 24),
        (12, 11, "uint32", 24),
        (13, 11, "uint64", 48),
    ] {
        let model = bytes(&stored(element, field, &[15360, 0, 15360, 0, 15360, 0]));
        assert_clean(&model);
        assert_eq!(graph(&model).parameters.bytes, byte_count, "{name}");
        assert_eq!(model.tensors.as_ref().unwrap()["W"].dtype.as_deref(), Some(name));
        assert_eq!(shape(&model, "y"), "[1, 3]");
    }
    let model = bytes(&stored(10, 5, &[15360; 6]));
    assert_silent(&model);
    assert_eq!(parameters(&model), 6);
    assert_eq!(macs(&model), 6);
}

fn old_file() -> String {
    format!(
        "<ir_version: 3, opset_import: [\"\" : 8]>\n\
         g (float[1, 8] x, float[8, 4] W) => (float[1, 4] y) <float[8, 4] W = {}> {{ y = MatMul (x, W) }}",
        zeros(32)
    )
}

/// Case 7.
#[test]
fn an_initializer_that_is_also_an_input_is_a_weight() {
    let model = text(&old_file());
    assert_silent(&model);
    let inputs: Vec<_> = model.inputs.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(inputs, ["x"]);
    assert_eq!(parameters(&model), 32);
    assert_eq!(macs(&model), 32);
    assert_eq!(shape(&model, "y"), "[1, 4]");
}

/// Case 7: the batch is not a weight's first dim.
#[test]
fn a_new_batch_does_not_touch_a_weight_that_is_listed_as_input() {
    let model = text_with(&old_file(), &CheckOptions { batch: Some(16), ..inference() });
    only_warning(&model, "batch-rebound");
    assert_eq!(tensor(&model, "W"), "[8, 4]");
    assert_eq!(shape(&model, "y"), "[16, 4]");
    assert_eq!(parameters(&model), 32);
    assert_eq!(macs(&model), 16 * 32);
}

fn relu(header: &str) -> String {
    format!("<{header}>\ng (float[2] x) => (float[2] y) {{ y = Relu (x) }}")
}

/// Case 8: a newer format.
#[test]
fn a_newer_ir_version_is_one_warning() {
    for version in [15, 99] {
        let model = text(&relu(&format!("ir_version: {version}, opset_import: [\"\" : 18]")));
        assert_says(only_warning(&model, "newer-ir-version"), &[&version.to_string()]);
        assert_eq!(model.diagnostics.len(), 1);
        assert_eq!(shape(&model, "y"), "[2]");
    }
}

/// Case 8: a newer operator set.
#[test]
fn a_newer_opset_is_one_warning_however_many_nodes_use_it() {
    let model = text(&relu("ir_version: 10, opset_import: [\"\" : 99]"));
    assert_says(only_warning(&model, "newer-opset"), &["99"]);
    assert_eq!(model.diagnostics.len(), 1);
    assert_eq!(shape(&model, "y"), "[2]");
    let model = text(&opset(99, "g (float[2] x) => (y) { a = Relu (x) b = Neg (a) y = Relu (b) }"));
    only_warning(&model, "newer-opset");
}

/// Case 8: unknown fields at every level.
#[test]
fn unknown_protobuf_fields_are_skipped_without_a_word() {
    let unknown = |message: Proto| message.int(1000, 7).bytes(1001, "text").int(999, -1);
    let node = unknown(node("Relu", &["x"], &["y"]));
    let graph = unknown(
        Proto::new()
            .message(1, &node)
            .bytes(2, "g")
            .message(11, &unknown(float_value("x", &[2])))
            .message(12, &float_value("y", &[2])),
    );
    for file in [unknown(model(18, &graph)), unknown(model(18, &relu_graph()))] {
        let model = bytes(&file.0);
        assert_silent(&model);
        assert_eq!(shape(&model, "y"), "[2]");
    }
}

/// Case 8: no import.
#[test]
fn a_missing_opset_import_is_an_error_from_ir_version_3_on() {
    for version in [3, 8, 10] {
        let model = text(&relu(&format!("ir_version: {version}")));
        only_error(&model, "missing-opset-import");
        assert_eq!(shape(&model, "y"), "[2]");
    }
    for version in [1, 2] {
        let model = text(&relu(&format!("ir_version: {version}")));
        assert_clean(&model);
        assert_eq!(shape(&model, "y"), "[2]");
    }
}

/// Case 8: two names of one domain.
#[test]
fn the_domain_ai_onnx_is_the_empty_domain() {
    assert_silent(&text(&relu("ir_version: 10, opset_import: [\"ai.onnx\" : 18]")));
    assert_silent(&text(&relu("ir_version: 10, opset_import: [\"\" : 18, \"ai.onnx\" : 18]")));
    let model = text(&opset(18, "g (float[2] x) => (y) { y = ai.onnx.Relu (x) }"));
    assert_silent(&model);
    assert_eq!(shape(&model, "y"), "[2]");
}

/// Case 8: two versions of one domain.
#[test]
fn two_versions_of_one_domain_are_an_error() {
    for imports in
        ["\"\" : 17, \"\" : 18", "\"\" : 17, \"ai.onnx\" : 18", "\"\" : 18, \"ai.onnx.ml\" : 3, \"ai.onnx.ml\" : 4"]
    {
        let model = text(&relu(&format!("ir_version: 10, opset_import: [{imports}]")));
        only_error(&model, "conflicting-opset-imports");
        assert_eq!(shape(&model, "y"), "[2]");
    }
}
