//! Keras files: the cases of group 8, and what else trips readers of them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::fmt::Write as _;
use std::io::Write as _;

use dlcost::diagnostics::Level;
use dlcost::engine::{CheckOptions, Input, Mode, Stage, annotate, check, emit};
use dlcost::report::{Extent, Finding, Layer, Model};
use serde_json::{Value, json};

fn options() -> CheckOptions {
    CheckOptions { mode: Mode::Infer, batch: Some(1), tensors: true, ..CheckOptions::default() }
}

fn bytes_with(bytes: Vec<u8>, options: &CheckOptions) -> Model {
    check(&Input::Stdin(bytes), "model.json", options).unwrap().pop().unwrap()
}

fn json_with(model: &Value, options: &CheckOptions) -> Model {
    bytes_with(model.to_string().into_bytes(), options)
}

fn read(model: &Value) -> Model {
    json_with(model, &options())
}

fn input(name: &str, shape: Value) -> Value {
    json!({"class_name": "InputLayer", "config": {"name": name, "dtype": "float32", "batch_input_shape": shape},
           "name": name, "inbound_nodes": []})
}

fn layer(class: &str, name: &str, config: Value, inbound: Value) -> Value {
    let mut config = config;
    config["name"] = json!(name);
    json!({"class_name": class, "name": name, "config": config, "inbound_nodes": inbound})
}

/// A Sequential model of Keras 2.
fn sequential(shape: Value, layers: Vec<Value>) -> Value {
    let mut all = vec![input("x", shape)];
    all.extend(layers);
    json!({"class_name": "Sequential", "keras_version": "2.15.0", "config": {"name": "net", "layers": all}})
}

fn functional(layers: Vec<Value>, inputs: &[&str], outputs: Value) -> Value {
    let inputs: Vec<Value> = inputs.iter().map(|name| json!([name, 0, 0])).collect();
    json!({"class_name": "Functional", "keras_version": "2.15.0",
           "config": {"name": "net", "layers": layers, "input_layers": inputs, "output_layers": outputs}})
}

fn dense(name: &str, units: i64, inbound: Value) -> Value {
    layer("Dense", name, json!({"units": units, "use_bias": true, "activation": "linear"}), inbound)
}

/// Parameters, MACs of a sample.
fn counts(model: &Model) -> (i128, i128) {
    let graph = model.graph.as_ref().unwrap_or_else(|| panic!("{:?}", model.diagnostics));
    (graph.parameters.total, graph.macs.unwrap())
}

fn shape(model: &Model, tensor: &str) -> String {
    let dims = model.tensors.as_ref().unwrap()[tensor].shape.clone().unwrap();
    let text = |dim: &Extent| match dim {
        Extent::Number(number) => number.to_string(),
        Extent::Symbolic(symbol) => symbol.clone(),
    };
    dims.iter().map(text).collect::<Vec<_>>().join("×")
}

fn found<'a>(model: &'a Model, name: &str) -> &'a Finding {
    let finding = model.diagnostics.iter().find(|finding| finding.name == name);
    finding.unwrap_or_else(|| panic!("no {name}: {:?}", model.diagnostics))
}

fn row<'a>(model: &'a Model, key: &str) -> &'a Layer {
    model.layers.iter().find(|layer| &*layer.key == key).unwrap_or_else(|| panic!("no layer {key}"))
}

fn errors(model: &Model) -> Vec<&Finding> {
    model.diagnostics.iter().filter(|finding| finding.level == Level::Error).collect()
}

#[test]
fn case_112_keras_2_json_with_the_shape_in_the_first_layer() {
    let conv = json!({"class_name": "Conv2D", "config": {"name": "conv2d", "batch_input_shape": [null, 28, 28, 1],
        "dtype": "float32", "filters": 48, "kernel_size": [7, 7], "strides": [1, 1], "padding": "valid",
        "data_format": "channels_last", "activation": "relu", "use_bias": true}});
    let pool = json!({"class_name": "MaxPooling2D", "config": {"name": "pool", "pool_size": [2, 2], "padding": "valid",
        "strides": [2, 2], "data_format": "channels_last"}});
    let flat = json!({"class_name": "Flatten", "config": {"name": "flatten", "data_format": "channels_last"}});
    let fc = |name: &str, units: i64| json!({"class_name": "Dense", "config": {"name": name, "units": units, "use_bias": true}});
    let model = read(&json!({"class_name": "Sequential", "keras_version": "2.4.0", "backend": "tensorflow",
        "config": {"name": "net", "layers": [conv, pool, flat, fc("fc", 24), fc("out", 10)]}}));
    assert_eq!(counts(&model), (142_066, 1_278_000));
    let shapes = ["conv2d", "pool", "flatten", "fc", "out"].map(|name| shape(&model, name));
    assert_eq!(shapes, ["1×22×22×48", "1×11×11×48", "1×5808", "1×24", "1×10"]);
    assert_eq!(row(&model, "conv2d").macs, Some(1_138_368));
    assert_eq!((row(&model, "conv2d").class.as_deref(), &*row(&model, "conv2d").op), (Some("Conv2D"), "Conv"));
}

#[test]
fn case_113_a_shared_layer_of_keras_3_counts_once_and_computes_twice() {
    let tensor = |name: &str, call: i64, width: i64| {
        json!({"class_name": "__keras_tensor__",
               "config": {"shape": [null, width], "dtype": "float32", "keras_history": [name, call, 0]}})
    };
    let input = |name: &str| {
        json!({"module": "keras.layers", "class_name": "InputLayer", "name": name, "inbound_nodes": [],
               "config": {"name": name, "dtype": "float32", "batch_shape": [null, 10]}})
    };
    let shared = json!({"module": "keras.layers", "class_name": "Dense", "name": "shared",
        "config": {"name": "shared", "units": 10, "use_bias": true, "activation": "linear"},
        "inbound_nodes": [{"args": [tensor("a", 0, 10)], "kwargs": {}}, {"args": [tensor("b", 0, 10)], "kwargs": {}}]});
    let add = json!({"module": "keras.layers", "class_name": "Add", "name": "add", "config": {"name": "add"},
        "inbound_nodes": [{"args": [[tensor("shared", 0, 10), tensor("shared", 1, 10)]], "kwargs": {}}]});
    let model = read(&json!({"module": "keras.src.models.functional", "class_name": "Functional",
        "config": {"name": "net", "layers": [input("a"), input("b"), shared, add],
                   "input_layers": [["a", 0, 0], ["b", 0, 0]], "output_layers": ["add", 0, 0]}}));
    assert_eq!(counts(&model), (110, 200));
    assert_eq!(shape(&model, "add"), "1×10");
    assert_eq!(row(&model, "shared").parameters + row(&model, "shared~2").parameters, 110);
}

#[test]
fn case_114_a_gru_with_and_without_reset_after() {
    let gru = |name: &str, after: bool, sequences: bool| {
        let config = json!({"units": 32, "use_bias": true, "reset_after": after, "return_sequences": sequences});
        layer("GRU", name, config, json!([]))
    };
    let model = read(&sequential(json!([null, 20, 16]), vec![gru("first", true, true), gru("second", false, false)]));
    assert_eq!((row(&model, "first").parameters, row(&model, "second").parameters), (4_800, 6_240));
    assert_eq!((row(&model, "first").macs, row(&model, "second").macs), (Some(92_160), Some(122_880)));
    assert_eq!((shape(&model, "first"), shape(&model, "second")), ("1×20×32".to_owned(), "1×32".to_owned()));
}

#[test]
fn case_115_transposed_convolutions_have_sizes_of_their_own() {
    for (kernel, padding, extent, parameters) in [(3, "same", 14, 76), (3, "valid", 15, 76), (1, "valid", 14, 12)] {
        let config = json!({"filters": 4, "kernel_size": [kernel, kernel], "strides": [2, 2], "padding": padding,
            "data_format": "channels_last", "use_bias": true, "activation": "linear"});
        let model = read(&sequential(json!([null, 7, 7, 2]), vec![layer("Conv2DTranspose", "up", config, json!([]))]));
        assert_eq!(shape(&model, "up"), format!("1×{extent}×{extent}×4"));
        assert_eq!(counts(&model).0, parameters);
    }
}

#[test]
fn case_115_one_after_the_other() {
    let up = |name: &str, kernel: i64, padding: &str| {
        let config = json!({"filters": 4, "kernel_size": [kernel, kernel], "strides": [2, 2], "padding": padding,
            "data_format": "channels_last", "use_bias": true});
        layer("Conv2DTranspose", name, config, json!([]))
    };
    let layers = vec![up("a", 3, "same"), up("b", 3, "valid"), up("c", 1, "valid")];
    let model = read(&sequential(json!([null, 7, 7, 2]), layers));
    assert_eq!(["a", "b", "c"].map(|name| shape(&model, name)), ["1×14×14×4", "1×29×29×4", "1×58×58×4"]);
    assert_eq!(["a", "b", "c"].map(|name| row(&model, name).parameters), [76, 148, 20]);
}

#[test]
fn case_116_json_inside_a_json_string_is_read_through() {
    let inner = sequential(json!([null, 4]), vec![dense("d", 2, json!([]))]).to_string();
    let model = bytes_with(Value::String(inner).to_string().into_bytes(), &options());
    assert_eq!(counts(&model).0, 10);
    assert_eq!(found(&model, "other-encoding").level, Level::Warning);
    let model = bytes_with(b"\"class_name\"".to_vec(), &options());
    assert_eq!((model.graph.is_none(), found(&model, "not-a-model").level), (true, Level::Error));
}

#[test]
fn case_117_same_padding_and_odd_sizes() {
    for (padding, extent) in [("same", 3), ("valid", 2)] {
        let config =
            json!({"pool_size": [2, 2], "strides": [2, 2], "padding": padding, "data_format": "channels_last"});
        let model = read(&sequential(json!([null, 5, 5, 1]), vec![layer("MaxPooling2D", "pool", config, json!([]))]));
        assert_eq!(shape(&model, "pool"), format!("1×{extent}×{extent}×1"));
    }
    let config = json!({"filters": 8, "kernel_size": [3, 3], "strides": [2, 2], "padding": "same"});
    let model = read(&sequential(json!([null, 224, 224, 3]), vec![layer("Conv2D", "conv", config, json!([]))]));
    assert_eq!(shape(&model, "conv"), "1×112×112×8");
}

#[test]
fn case_118_wrappers_run_once_for_each_step() {
    let inner = |class: &str, name: &str, config: Value| layer(class, name, config, json!([]));
    let td = json!({"layer": inner("Dense", "dense", json!({"units": 4, "use_bias": true}))});
    let model = read(&sequential(json!([null, 5, 3]), vec![layer("TimeDistributed", "td", td, json!([]))]));
    assert_eq!((shape(&model, "td"), counts(&model)), ("1×5×4".to_owned(), (16, 60)));

    let lstm = inner("LSTM", "lstm", json!({"units": 8, "use_bias": true, "return_sequences": true}));
    let both = json!({"layer": lstm, "merge_mode": "concat"});
    let model = read(&sequential(json!([null, 5, 3]), vec![layer("Bidirectional", "both", both, json!([]))]));
    assert_eq!((shape(&model, "both"), counts(&model)), ("1×5×16".to_owned(), (768, 3_520)));

    let config = json!({"num_heads": 4, "key_dim": 16, "use_bias": true});
    let attention = layer("MultiHeadAttention", "mha", config, json!([[["x", 0, 0, {"value": ["x", 0, 0]}]]]));
    let net = functional(vec![input("x", json!([null, 6, 64])), attention], &["x"], json!([["mha", 0, 0]]));
    assert_eq!(counts(&read(&net)), (16_640, 102_912));
}

#[test]
fn the_batch_stays_free_and_binds_like_any() {
    let net = sequential(json!([null, 4]), vec![dense("d", 2, json!([]))]);
    let free = json_with(&net, &CheckOptions { batch: None, ..options() });
    assert_eq!(shape(&free, "d"), "batch×2");
    assert_eq!(free.graph.unwrap().macs_formula.as_deref(), Some("8*batch"));
    let bound = json_with(&net, &CheckOptions { batch: Some(3), ..options() });
    assert_eq!(bound.graph.unwrap().macs, Some(24));
}

#[test]
fn frozen_layers_have_no_gradient_of_their_weights() {
    let net = |trainable: bool| {
        let config = json!({"units": 8, "use_bias": false, "trainable": trainable});
        sequential(json!([null, 4]), vec![layer("Dense", "first", config, json!([])), dense("second", 2, json!([]))])
    };
    let training = CheckOptions { mode: Mode::Train, ..options() };
    let [frozen, free] = [false, true].map(|trainable| json_with(&net(trainable), &training).graph.unwrap());
    assert_eq!((frozen.parameters.trainable, frozen.parameters.non_trainable), (18, 32));
    assert_eq!((free.parameters.trainable, free.parameters.non_trainable), (50, 0));
    // The product with the input for the kernel of the first, and with the kernel of the second for its input.
    let missing = free.flops.backward.unwrap() - frozen.flops.backward.unwrap();
    assert_eq!(missing, 2 * 32 + 2 * 16);
}

#[test]
fn models_inside_models_are_called_as_often_as_they_say() {
    let inner = json!({"class_name": "Functional", "name": "encoder",
        "config": {"name": "encoder", "layers": [input("in", json!([null, 16])), dense("d", 4, json!([[["in", 0, 0, {}]]]))],
                   "input_layers": [["in", 0, 0]], "output_layers": [["d", 0, 0]]},
        "inbound_nodes": [[["a", 0, 0, {}]], [["b", 0, 0, {}]]]});
    let sum = layer("Subtract", "diff", json!({}), json!([[["encoder", 1, 0, {}], ["encoder", 2, 0, {}]]]));
    let layers = vec![input("a", json!([null, 16])), input("b", json!([null, 16])), inner, sum];
    let model = read(&functional(layers, &["a", "b"], json!([["diff", 0, 0]])));
    assert_eq!(counts(&model), (68, 128));
    let names = ["encoder", "encoder~2", "encoder/d", "encoder/d~2", "diff"];
    assert_eq!(names.map(|name| shape(&model, name)), ["1×4"; 5]);
    let dense = row(&model, "encoder/d");
    assert_eq!((&*dense.scope, &*dense.name), ("encoder", "d"));
    assert_eq!(row(&model, "encoder").class.as_deref(), Some("Functional"));
}

#[test]
fn a_wrapper_that_is_frozen_freezes_what_is_in_it_in_keras_2_alone() {
    for (version, trained) in [("2.15.0", 0), ("3.1.0", 16)] {
        let dense = layer("Dense", "dense", json!({"units": 4, "use_bias": true, "trainable": true}), json!([]));
        let td = layer("TimeDistributed", "td", json!({"layer": dense, "trainable": false}), json!([]));
        let mut net = sequential(json!([null, 5, 3]), vec![td]);
        net["keras_version"] = json!(version);
        assert_eq!(read(&net).graph.unwrap().parameters.trainable, trained, "{version}");
    }
}

#[test]
fn layers_without_a_rule_are_named_at_once_and_may_be_given_a_shape() {
    let lambda = layer("Lambda", "squash", json!({"function": {"class_name": "__lambda__"}}), json!([]));
    let custom = layer("FancyNorm", "fancy", json!({}), json!([]));
    let net = sequential(json!([null, 4]), vec![lambda, custom, dense("d", 2, json!([]))]);
    let model = read(&net);
    let finding = found(&model, "unknown-layer");
    assert!(finding.message.contains("\"squash\" (Lambda") && finding.message.contains("\"fancy\" (FancyNorm"));
    assert_eq!((finding.level, finding.places.len()), (Level::Warning, 2));
    assert_eq!(model.diagnostics.iter().filter(|finding| finding.name == "unknown-layer").count(), 1);
    assert!(errors(&model).is_empty());

    let given = vec![("fancy".to_owned(), vec!["None".to_owned(), "6".to_owned()])];
    let model = json_with(&net, &CheckOptions { layer_shapes: given, ..options() });
    assert_eq!((shape(&model, "fancy"), shape(&model, "d")), ("1×6".to_owned(), "1×2".to_owned()));
    assert_eq!(row(&model, "d").parameters, 14);
    let unused = vec![("nothing".to_owned(), vec!["1".to_owned()])];
    let model = json_with(&net, &CheckOptions { layer_shapes: unused, ..options() });
    assert!(found(&model, "unused-binding").message.contains("nothing"));
}

#[test]
fn faults_point_at_the_value_in_the_json() {
    let mut text =
        serde_json::to_string_pretty(&sequential(json!([null, 4]), vec![dense("d", -1, json!([]))])).unwrap();
    let line = text.lines().position(|line| line.contains("\"units\": -1")).unwrap() + 1;
    let model = bytes_with(text.clone().into_bytes(), &options());
    let finding = found(&model, "invalid-attribute");
    assert_eq!(finding.message, "layer \"d\" (Dense): units must be positive, got -1");
    assert_eq!(finding.places[0].line, Some(line as u64));
    let column = finding.places[0].column;
    // Line ends of Windows and a byte order mark change nothing.
    text = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let model = bytes_with(text.into_bytes(), &options());
    let place = &found(&model, "invalid-attribute").places[0];
    assert_eq!((place.line, place.column), (Some(line as u64), column));
}

#[test]
fn case_129_columns_count_characters_beyond_the_first_plane_once() {
    let head =
        "{\"class_name\": \"Sequential\", \"keras_version\": \"2.15.0\", \"config\": {\"name\": \"n\", \"layers\": [\n";
    let second = "{\"class_name\": \"Dense\", \"config\": {\"name\": \"\u{1f600}\", \"batch_input_shape\": [null, 4], \"units\": -1}}]}}";
    let model = bytes_with(format!("{head}{second}").into_bytes(), &options());
    let place = &found(&model, "invalid-attribute").places[0];
    let column = second.chars().position(|letter| letter == '-').unwrap() + 1;
    assert_eq!((place.line, place.column), (Some(2), Some(column as u64)));
}

#[test]
fn broken_topologies_are_told_once_each() {
    let x = || input("x", json!([null, 4]));
    let net = |inbound: Value| functional(vec![x(), dense("d", 4, inbound)], &["x"], json!([["d", 0, 0]]));
    let message = |model: &Value| {
        let model = read(model);
        let [error] = errors(&model)[..] else { panic!("{:?}", model.diagnostics) };
        (error.name.clone(), error.message.clone())
    };
    for (inbound, code, text) in [
        (
            json!([[["ghost", 0, 0, {}]]]),
            "undefined-tensor",
            "layer \"d\" reads from \"ghost\", which is not in the model",
        ),
        (json!([[["x", 3, 0, {}]]]), "undefined-tensor", "reads call 3 of layer \"x\", which is called once"),
        (json!([[["x", 0, 7, {}]]]), "undefined-tensor", "reads output 7 of layer \"x\", which has one output"),
        (json!([[["x", -1, 0, {}]]]), "undefined-tensor", "a negative index"),
        (json!([[["d", 0, 0, {}]]]), "cyclic-graph", "layer \"d\" takes its own output as input"),
    ] {
        let (name, said) = message(&net(inbound));
        assert!(name == code && said.contains(text), "{name}: {said}");
    }
    let twice = functional(
        vec![x(), dense("d", 4, json!([[["x", 0, 0, {}]]])), dense("d", 4, json!([[["x", 0, 0, {}]]]))],
        &["x"],
        json!([["d", 0, 0]]),
    );
    assert_eq!(message(&twice).0, "duplicate-name");
}

#[test]
fn the_oldest_layouts_are_read() {
    // Keras 2.0 to 2.2: the configuration of a Sequential model is a list, a Functional one is a Model.
    let conv = json!({"class_name": "Dense", "config": {"name": "d", "batch_input_shape": [null, 4], "units": 2, "use_bias": true}});
    let list = json!({"class_name": "Sequential", "keras_version": "2.1.2", "config": [conv]});
    assert_eq!(counts(&read(&list)), (10, 8));
    let mut model = functional(
        vec![input("x", json!([null, 4])), dense("d", 2, json!([[["x", 0, 0, {}]]]))],
        &["x"],
        json!([["d", 0, 0]]),
    );
    model["class_name"] = json!("Model");
    assert_eq!(counts(&read(&model)), (10, 8));
}

#[test]
fn the_file_says_optimizer_loss_and_precision() {
    let mut net = sequential(
        json!([null, 4]),
        vec![layer(
            "Dense",
            "d",
            json!({"units": 2, "dtype": {"class_name": "Policy",
        "config": {"name": "mixed_float16"}}}),
            json!([]),
        )],
    );
    net["compile_config"] = json!({"optimizer": {"class_name": "AdamW", "config": {}}, "loss": "mse"});
    let model = json_with(&net, &CheckOptions { mode: Mode::Train, ..options() });
    let assumed = |key: &str| model.assumptions.iter().find(|assumption| assumption.key == key).unwrap();
    assert_eq!((&*assumed("optimizer").value, &*assumed("precision").value), ("adamw", "amp"));
    assert_eq!(model.target.runtime.as_deref(), Some("tensorflow"));
}

#[test]
fn an_archive_is_read_without_unpacking_more_than_its_configuration() {
    let config = sequential(json!([null, 4]), vec![dense("d", 2, json!([]))]).to_string();
    let zip = |text: &[u8], name: &str| {
        let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        for (member, bytes) in [("../../escape.txt", &b"no"[..]), (name, text)] {
            writer.start_file(member, stored).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    };
    let bytes = zip(config.as_bytes(), "config.json");
    assert_eq!(counts(&bytes_with(bytes.clone(), &options())), (10, 8));
    let model = bytes_with(bytes[..bytes.len() - 30].to_vec(), &options());
    assert_eq!(errors(&model).len(), 1, "{:?}", model.diagnostics);
    let model = bytes_with(zip(b"{}", "config.json"), &options());
    assert!(found(&model, "not-a-model").message.contains("class_name is missing"));
    // Compressed JSON.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(config.as_bytes()).unwrap();
    assert_eq!(counts(&bytes_with(gzip.finish().unwrap(), &options())), (10, 8));
}

#[test]
fn what_is_no_keras_model_is_named() {
    for (text, code, part) in [
        ("{\"class_name\": \"Sequential\", \"config\": null}", "malformed-file", "config is null"),
        ("{\"class_name\": \"Sequential\", \"config\": {\"name\": \"n\"}}", "malformed-file", "no layers"),
        ("{\"class_name\": \"Sequential\", \"config\": {\"layers\": {}}}", "malformed-file", "must be a list"),
        ("{'class_name': 'Sequential'}", "syntax-error", "single quotes"),
        ("{\"class_name\": \"Sequential\", \"config\": NaN}", "syntax-error", "NaN is not JSON"),
        ("{\"class_name\": \"Sequential\", \"config\"", "truncated-file", "before it is complete"),
        ("{\"modelTopology\": {\"model_config\": {}}}", "not-a-model", "TensorFlow.js"),
        ("class_name: Sequential\nconfig:\n", "not-a-model", "YAML"),
    ] {
        let model = bytes_with(text.as_bytes().to_vec(), &options());
        let finding = found(&model, code);
        assert!(finding.message.contains(part), "{text}: {}", finding.message);
        assert_eq!(finding.level, Level::Error);
    }
    let mut nested = String::new();
    (0..5_000).for_each(|_| write!(nested, "{{\"class_name\": \"Sequential\", \"config\": {{\"layers\": [").unwrap());
    let model = bytes_with(nested.into_bytes(), &options());
    assert_eq!(errors(&model)[0].name, "nested-too-deep");
}

#[test]
fn both_generations_of_one_model_give_the_same_figures() {
    let old = sequential(
        json!([null, 12, 5]),
        vec![
            layer(
                "Conv1D",
                "c",
                json!({"filters": 4, "kernel_size": [3], "padding": "causal", "activation": "relu", "use_bias": true}),
                json!([]),
            ),
            layer("BatchNormalization", "b", json!({"axis": [2], "center": true, "scale": true}), json!([])),
            layer("LSTM", "l", json!({"units": 6, "use_bias": true}), json!([])),
            dense("d", 2, json!([])),
        ],
    );
    let mut new = old.clone();
    new.as_object_mut().unwrap().remove("keras_version");
    new["module"] = json!("keras");
    for layer in new["config"]["layers"].as_array_mut().unwrap() {
        layer["module"] = json!("keras.layers");
        let config = layer["config"].as_object_mut().unwrap();
        if let Some(shape) = config.remove("batch_input_shape") {
            config.insert("batch_shape".to_owned(), shape);
        } else {
            config.insert("dtype".to_owned(), json!({"class_name": "DTypePolicy", "config": {"name": "float32"}}));
        }
        if config.get("axis").is_some() {
            config.insert("axis".to_owned(), json!(-1));
        }
    }
    let [mut old, mut new] = [old, new].map(|net| json_with(&net, &CheckOptions { mode: Mode::Train, ..options() }));
    old.producer = new.producer.clone();
    for model in [&mut old, &mut new] {
        model.layers.iter_mut().for_each(|layer| layer.place = Default::default());
    }
    assert_eq!(serde_json::to_value(&old).unwrap(), serde_json::to_value(&new).unwrap());
}

#[test]
fn what_layers_become_can_be_printed() {
    let net = sequential(json!([null, 4]), vec![dense("d", 2, json!([]))]).to_string().into_bytes();
    let (text, _) = annotate(&Input::Stdin(net.clone()), "model.json", &options()).unwrap();
    let text = text.unwrap().text;
    assert!(text.contains("float[4,2] \"d/kernel\"") || text.contains("d/kernel"), "{text}");
    let (graph, _) = emit(&Input::Stdin(net), "model.json", &options(), Stage::Shapes).unwrap();
    assert!(graph.contains("Dense"), "{graph}");
}

#[test]
fn the_wrong_rank_and_kernels_that_do_not_fit_are_told_at_the_layer() {
    let conv = |shape: Value, config: Value| {
        let model = read(&sequential(shape, vec![layer("Conv2D", "c", config, json!([]))]));
        let [error] = errors(&model)[..] else { panic!("{:?}", model.diagnostics) };
        error.message.clone()
    };
    let config = |kernel: i64, groups: i64| json!({"filters": 4, "kernel_size": [kernel, kernel], "groups": groups});
    let wrong = conv(json!([null, 12]), config(3, 1));
    assert!(wrong.contains("layer \"c\" (Conv2D): Conv2D needs a rank-4 input, got rank 2"), "{wrong}");
    let wrong = conv(json!([null, 5, 5, 3]), config(7, 1));
    assert!(wrong.contains("a 7×7 kernel with valid padding on a 5×5 input leaves no output"), "{wrong}");
    let wrong = conv(json!([null, 5, 5, 3]), config(3, 2));
    assert!(wrong.contains("3 input channels do not divide into 2 groups"), "{wrong}");
    let wrong = conv(json!([null, null, null, null]), config(3, 1));
    assert!(wrong.contains("must be known"), "{wrong}");
}

#[test]
fn dropout_works_in_training_only() {
    let net = |rate: f64| {
        let dropout = layer("Dropout", "drop", json!({"rate": rate}), json!([]));
        sequential(json!([null, 64]), vec![dense("d", 128, json!([])), dropout, dense("e", 8, json!([]))])
    };
    let at = |mode: Mode, rate: f64| {
        let model = json_with(&net(rate), &CheckOptions { mode, batch: Some(32), ..options() });
        let layer = row(&model, "drop").clone();
        (layer.kernels, layer.saved_bytes, layer.flops.forward)
    };
    // A mask of a byte; what came out is kept by the product behind it.
    assert_eq!(at(Mode::Train, 0.5), (Some(2), Some(32 * 128), Some(0)));
    assert_eq!(at(Mode::Train, 0.0), (Some(0), Some(0), Some(0)));
    assert_eq!(at(Mode::Infer, 0.5), (Some(0), Some(0), Some(0)));
}

#[test]
fn the_loss_of_the_file_is_named() {
    let mut net = sequential(json!([null, 4]), vec![dense("d", 2, json!([]))]);
    assert_eq!(read(&net).graph.unwrap().loss, None);
    net["compile_config"] = json!({"optimizer": "adam", "loss": ["mse", "binary_crossentropy"]});
    assert_eq!(read(&net).graph.unwrap().loss.as_deref(), Some("mse, binary_crossentropy"));
}
