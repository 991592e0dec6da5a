//! Learned predictors as the program uses them: which prices a layer, what is said of kernels that none has seen, and files
//! of others.

#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Two convolutions and an activation, fp32.
const MODEL: &str = r#"<ir_version: 8, opset_import: ["" : 17]>
agraph (float[batch, 64, 56, 56] x) => (float[batch, 64, 56, 56] y)
<float[64, 64, 3, 3] w = {}, float[64, 64, 1, 1] v = {}>
{
   a = Conv <pads = [1, 1, 1, 1]> (x, w)
   b = Relu (a)
   y = Conv (b, v)
}
"#;

fn run(folder: &Path, arguments: &str) -> Output {
    fs::write(folder.join("m.onnxtxt"), MODEL).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_dlcost"));
    program.args(["check", "m.onnxtxt", "--no-config", "--mode", "infer", "--batch", "64"]);
    program.args(arguments.split_whitespace()).current_dir(folder).output().unwrap()
}

fn model(folder: &Path, arguments: &str) -> Value {
    let output = run(folder, &format!("{arguments} --format json"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["models"][0].clone()
}

fn codes(model: &Value) -> Vec<&str> {
    model["diagnostics"].as_array().unwrap().iter().filter_map(|finding| finding["name"].as_str()).collect()
}

#[test]
fn what_was_measured_is_priced_by_a_predictor_and_what_was_not_by_physics() {
    let folder = tempfile::tempdir().unwrap();
    let measured = model(folder.path(), "--gpu v100 --precision fp32");
    let layer = &measured["layers"][0];
    assert!(layer["model"].as_str().unwrap().starts_with("convolution/"), "{layer}");
    assert_eq!(layer["in_domain"], true);
    assert!(!codes(&measured).contains(&"outside-training-domain"));
    // No predictor has seen 64-bit arithmetic or bf16 convolutions on NVIDIA cards.
    let strange = model(folder.path(), "--gpu h100 --precision bf16");
    let layer = &strange["layers"][0];
    assert_eq!((&layer["model"], &layer["in_domain"]), (&Value::from("roofline"), &Value::from(false)));
    assert!(codes(&strange).contains(&"outside-training-domain"));
    let width = |model: &Value| {
        let step = &model["layers"][0]["time_ms"];
        step["p90"].as_f64().unwrap() / step["p10"].as_f64().unwrap()
    };
    assert!(width(&measured) < width(&strange));
}

#[test]
fn features_are_listed_where_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let plain = model(folder.path(), "--gpu v100");
    assert!(plain["layers"][0].get("features").is_none());
    let listed = model(folder.path(), "--gpu v100 --features");
    let kernel = &listed["layers"][0]["features"][0];
    assert_eq!((&kernel["pass"], &kernel["family"]), (&Value::from("forward"), &Value::from("convolution")));
    assert_eq!(kernel["model"], listed["layers"][0]["model"]);
    assert_eq!(kernel["values"]["kernel-height"], 3.0);
    let human = String::from_utf8(run(folder.path(), "--gpu v100 --features").stdout).unwrap();
    assert!(human.contains("features of kernels") && human.contains("kernel-height 3"), "{human}");
}

#[test]
fn a_folder_of_predictors_replaces_those_that_are_built_in() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    let told = |status: i32, words: &[&str]| {
        let output = run(folder.path(), "--gpu v100 --precision fp32 --predictors own");
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    told(2, &["own", "no predictor files"]);
    let pool = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("predictors/pool.bin")).unwrap();
    let path = own.join("pool.bin");
    let mut damaged = pool.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&path, damaged).unwrap();
    told(2, &["pool.bin", "damaged", "checksum"]);
    let mut newer = pool.clone();
    newer[4] = 99;
    fs::write(&path, newer).unwrap();
    told(2, &["pool.bin", "use a newer dlcost"]);
    fs::write(&path, pool).unwrap();
    told(0, &[]);
    let layers = model(folder.path(), "--gpu v100 --precision fp32 --predictors own")["layers"].clone();
    assert!(layers.as_array().unwrap().iter().all(|layer| layer["model"] == "roofline"), "{layers}");
    fs::write(folder.path().join("dlcost.toml"), "[defaults]\npredictors = \"nowhere\"\n").unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_dlcost"));
    let output = program.args(["check", "m.onnxtxt"]).current_dir(folder.path()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && error.contains("dlcost.toml:2:14") && error.contains("nowhere"),
        "{error}"
    );
}
