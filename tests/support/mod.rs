//! What the whole-program tests share: models as ONNX text or as bytes in, the report of one model out.

#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use dlcost::device::find;
use dlcost::diagnostics::Level;
use dlcost::engine::{CheckOptions, Input, Mode, check};
use dlcost::report::{Extent, Finding, Graph, Layer, Model};
use dlcost::target::{ChosenGpu, Request};
use tempfile::TempDir;

/// A file of IR version 10 that imports one operator set.
pub(crate) fn opset(version: u32, body: &str) -> String {
    format!("<ir_version: 10, opset_import: [\"\" : {version}]>\n{body}")
}

/// `{0, 0, 0}`: a payload of so many zeros.
pub(crate) fn zeros(count: usize) -> String {
    format!("{{{}}}", vec!["0"; count].join(", "))
}

/// Inference with every tensor in the report.
pub(crate) fn inference() -> CheckOptions {
    CheckOptions { mode: Mode::Infer, tensors: true, ..CheckOptions::default() }
}

/// A request for one device of the catalogue.
pub(crate) fn gpu(id: &str) -> Request {
    Request { gpus: vec![ChosenGpu::of(find(id).unwrap().device.clone())], ..Request::default() }
}

/// Checks ONNX text on a target.
pub(crate) fn priced(text: &str, mode: Mode, request: Request) -> Model {
    text_with(text, &CheckOptions { mode, request, ..CheckOptions::default() })
}

/// The middle of the predicted step, ms.
pub(crate) fn step_ms(model: &Model) -> f64 {
    let time = model.time_ms.unwrap_or_else(|| panic!("no time: {:#?}", model.diagnostics));
    time.step.p50
}

/// The predicted time of a layer, both passes, ms.
pub(crate) fn layer_ms(model: &Model, key: &str) -> f64 {
    layer(model, key).time_ms.unwrap_or_else(|| panic!("no time: {:#?}", model.diagnostics)).p50
}

/// A stored tensor whose payload lies in a side file of its own that is not there.
pub(crate) fn far_weight(element: &str, bytes_each: u64, name: &str, dims: &[u64]) -> String {
    let list: Vec<_> = dims.iter().map(u64::to_string).collect();
    let bytes = dims.iter().product::<u64>() * bytes_each;
    format!(
        "{element}[{}] {name} = [\"location\": \"{name}.bin\", \"offset\": \"0\", \"length\": \"{bytes}\"]",
        list.join(", ")
    )
}

/// Checks ONNX text for inference.
pub(crate) fn text(text: &str) -> Model {
    text_with(text, &inference())
}

/// Checks ONNX text for inference, with values of dims.
pub(crate) fn text_at(model: &str, dims: &[(&str, &str)]) -> Model {
    let dims = dims.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    text_with(model, &CheckOptions { dims, ..inference() })
}

/// Checks ONNX text.
pub(crate) fn text_with(text: &str, options: &CheckOptions) -> Model {
    bytes_with(text.as_bytes(), options)
}

/// Checks a file that is given by its bytes.
pub(crate) fn bytes(bytes: &[u8]) -> Model {
    bytes_with(bytes, &inference())
}

fn bytes_with(bytes: &[u8], options: &CheckOptions) -> Model {
    check(&Input::Stdin(bytes.to_vec()), "-", options).unwrap().remove(0)
}

/// The program in a folder, with a locale and without what speaks about colour.
pub(crate) fn dlcost(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlcost"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    for variable in ["NO_COLOR", "TERM", "LC_CTYPE", "LANG"] {
        command.env_remove(variable);
    }
    command.env("LC_ALL", "C.UTF-8");
    command
}

/// A folder for a model with side files.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With these files.
    pub(crate) fn with(files: &[(&str, &[u8])]) -> Self {
        let folder = Self::new();
        for (name, bytes) in files {
            folder.write(name, bytes);
        }
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Writes the text as `model.onnxtxt` and checks it for inference.
    pub(crate) fn check(&self, text: &str) -> Model {
        self.write("model.onnxtxt", text.as_bytes());
        let path = self.path().join("model.onnxtxt");
        check(&Input::Path(path), "model.onnxtxt", &inference()).unwrap().remove(0)
    }

    /// Runs the program in the folder.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        dlcost(self.path(), arguments).output().unwrap()
    }

    /// Exit status of `dlcost check FILE` for a file of these bytes, and what it printed.
    pub(crate) fn status(&self, name: &str, bytes: &[u8]) -> (i32, String) {
        self.write(name, bytes);
        let output = self.run(&["check", "--mode", "infer", name]);
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }
}

/// Totals of the graph.
pub(crate) fn graph(model: &Model) -> &Graph {
    model.graph.as_ref().unwrap_or_else(|| panic!("no graph: {:#?}", model.diagnostics))
}

/// MACs in all.
pub(crate) fn macs(model: &Model) -> i128 {
    graph(model).macs.unwrap_or_else(|| panic!("MACs are not known: {:#?}", model.diagnostics))
}

/// FLOPs forward.
pub(crate) fn flops(model: &Model) -> i128 {
    graph(model).flops.forward.unwrap_or_else(|| panic!("FLOPs are not known: {:#?}", model.diagnostics))
}

/// Parameters in all.
pub(crate) fn parameters(model: &Model) -> i128 {
    graph(model).parameters.total
}

/// Dims as `[2, N+5]`, unknown rank as `?`.
pub(crate) fn dims(shape: Option<&[Extent]>) -> String {
    let Some(shape) = shape else { return "?".to_owned() };
    let dims: Vec<_> = shape
        .iter()
        .map(|dim| match dim {
            Extent::Number(number) => number.to_string(),
            Extent::Symbolic(text) => text.clone(),
        })
        .collect();
    format!("[{}]", dims.join(", "))
}

/// Dims of an output of the main graph.
pub(crate) fn shape(model: &Model, output: &str) -> String {
    let port = model.outputs.iter().find(|port| port.name == output);
    dims(port.unwrap_or_else(|| panic!("no output {output}: {model:#?}")).shape.as_deref())
}

/// Dims of any tensor, by path.
pub(crate) fn tensor(model: &Model, name: &str) -> String {
    let tensors = model.tensors.as_ref().unwrap();
    dims(tensors.get(name).unwrap_or_else(|| panic!("no tensor {name}: {tensors:#?}")).shape.as_deref())
}

/// Upper bounds of the dims of a tensor that depend on data, `_` for the others.
pub(crate) fn bounds(model: &Model, name: &str) -> String {
    let bounds = model.tensors.as_ref().unwrap().get(name).unwrap().upper_bound.as_ref();
    let bounds: Vec<_> = bounds
        .unwrap_or_else(|| panic!("{name} has no bounds"))
        .iter()
        .map(|bound| match bound {
            Some(Extent::Number(number)) => number.to_string(),
            Some(Extent::Symbolic(text)) => text.clone(),
            None => "_".to_owned(),
        })
        .collect();
    bounds.join(", ")
}

/// The layer of a key.
pub(crate) fn layer<'m>(model: &'m Model, key: &str) -> &'m Layer {
    model.layers.iter().find(|layer| layer.key == key).unwrap_or_else(|| {
        panic!("no layer {key}: {:?}", model.layers.iter().map(|layer| &layer.key).collect::<Vec<_>>())
    })
}

/// Asserts that nothing above a note was found.
#[track_caller]
pub(crate) fn assert_clean(model: &Model) {
    let loud: Vec<_> = model.diagnostics.iter().filter(|finding| finding.level > Level::Note).collect();
    assert!(loud.is_empty(), "{loud:#?}");
}

/// Asserts that nothing was found at all.
#[track_caller]
pub(crate) fn assert_silent(model: &Model) {
    assert!(model.diagnostics.is_empty(), "{:#?}", model.diagnostics);
}

/// Findings of one level.
pub(crate) fn at_level(model: &Model, level: Level) -> Vec<&Finding> {
    model.diagnostics.iter().filter(|finding| finding.level == level).collect()
}

/// The one error of a model, which has this name.
#[track_caller]
pub(crate) fn only_error<'m>(model: &'m Model, name: &str) -> &'m Finding {
    only(model, Level::Error, name)
}

/// The one warning of a model without errors, which has this name.
#[track_caller]
pub(crate) fn only_warning<'m>(model: &'m Model, name: &str) -> &'m Finding {
    assert!(at_level(model, Level::Error).is_empty(), "{:#?}", model.diagnostics);
    only(model, Level::Warning, name)
}

#[track_caller]
fn only<'m>(model: &'m Model, level: Level, name: &str) -> &'m Finding {
    let found = at_level(model, level);
    assert!(found.len() == 1 && found[0].name == name, "one {name} at level {level}: {:#?}", model.diagnostics);
    found[0]
}

/// The findings of a name.
pub(crate) fn named<'m>(model: &'m Model, name: &str) -> Vec<&'m Finding> {
    model.diagnostics.iter().filter(|finding| finding.name == name).collect()
}

/// Asserts that a message holds each of these words.
#[track_caller]
pub(crate) fn assert_says(finding: &Finding, words: &[&str]) {
    for word in words {
        assert!(finding.message.contains(word), "{word:?} is missing in {:?}", finding.message);
    }
}

/// Protobuf bytes of a message, field by field.
#[derive(Clone, Default)]
pub(crate) struct Proto(pub(crate) Vec<u8>);

impl Proto {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A number.
    pub(crate) fn int(mut self, field: u32, value: i64) -> Self {
        self.raw_varint(u64::from(field) << 3);
        self.raw_varint(value.cast_unsigned());
        self
    }

    /// Packed numbers.
    pub(crate) fn ints(self, field: u32, values: &[i64]) -> Self {
        let mut packed = Self::new();
        for &value in values {
            packed.raw_varint(value.cast_unsigned());
        }
        self.bytes(field, &packed.0)
    }

    /// Bytes or text.
    pub(crate) fn bytes(mut self, field: u32, value: impl AsRef<[u8]>) -> Self {
        self.raw_varint(u64::from(field) << 3 | 2);
        self.raw_varint(value.as_ref().len() as u64);
        self.0.extend_from_slice(value.as_ref());
        self
    }

    /// A message inside.
    pub(crate) fn message(self, field: u32, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }
}

/// A `ValueInfoProto` of a float tensor.
pub(crate) fn float_value(name: &str, dims: &[i64]) -> Proto {
    value(name, 1, dims)
}

/// A `ValueInfoProto` of a tensor.
pub(crate) fn value(name: &str, element: i64, dims: &[i64]) -> Proto {
    let mut shape = Proto::new();
    for &dim in dims {
        shape = shape.message(1, &Proto::new().int(1, dim));
    }
    let tensor = Proto::new().int(1, element).message(2, &shape);
    Proto::new().bytes(1, name).message(2, &Proto::new().message(1, &tensor))
}

/// A `NodeProto`.
pub(crate) fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> Proto {
    let mut node = Proto::new();
    for input in inputs {
        node = node.bytes(1, input);
    }
    for output in outputs {
        node = node.bytes(2, output);
    }
    node.bytes(4, op)
}

/// A `ModelProto` of IR version 10 around a graph.
pub(crate) fn model(opset: i64, graph: &Proto) -> Proto {
    Proto::new().int(1, 10).message(7, graph).message(8, &Proto::new().bytes(1, "").int(2, opset))
}

/// The graph of one Relu over 2 floats.
pub(crate) fn relu_graph() -> Proto {
    Proto::new()
        .message(1, &node("Relu", &["x"], &["y"]))
        .bytes(2, "g")
        .message(11, &float_value("x", &[2]))
        .message(12, &float_value("y", &[2]))
}
