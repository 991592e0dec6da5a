//! Backend cases of the `onnx` package: a model, its inputs, and the outputs that were recorded for them.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use dlcost::frontend::load;
use dlcost::frontend::onnx::model::{AttributeValue, GraphDef, Model, NodeDef, TensorDef, TypeDef, ValueInfo};
use dlcost::frontend::source::Source;
use dlcost::ir::place::Places;
use prost::Message;
use prost::bytes::Bytes;

use crate::messages::{GraphProto, ModelProto};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Groups of cases: folders of the package's test data.
pub(super) const GROUPS: [&str; 5] = ["node", "simple", "light", "pytorch-converted", "pytorch-operator"];

/// A model without the types that it declares for what is computed.
pub(super) struct Case {
    pub(super) model: Model,
    /// What the model reads, in its order.
    pub(super) inputs: Vec<Recorded>,
    /// What it gave.
    pub(super) outputs: Vec<Recorded>,
}

/// A value that was recorded.
#[derive(Debug)]
pub(super) enum Recorded {
    Tensor(TensorDef),
    Sequence(Vec<Recorded>),
    Optional(Option<Box<Recorded>>),
    /// Only the type is known: the model declares it.
    Declared(TypeDef),
}

/// Where a case is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Location {
    pub(super) group: &'static str,
    pub(super) name: String,
    path: PathBuf,
}

/// Every case of the package in a folder, by group and name.
pub(super) fn find(package: &Path) -> Outcome<Vec<Location>> {
    let data = package.join("onnx/backend/test/data");
    let mut cases = Vec::new();
    for group in GROUPS {
        for entry in fs::read_dir(data.join(group))? {
            let path = entry?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
            let is_case = if group == "light" {
                path.extension().is_some_and(|extension| extension == "onnx")
            } else {
                path.join("model.onnx").is_file()
            };
            if is_case {
                cases.push(Location { group, name: stem, path });
            }
        }
    }
    cases.sort();
    Ok(cases)
}

/// Reads a case.
pub(super) fn read(location: &Location) -> Outcome<Case> {
    let light = location.group == "light";
    let file = if light { location.path.clone() } else { location.path.join("model.onnx") };
    let loaded = load(&Source::from_stdin(fs::read(&file)?), &mut Places::default());
    let mut model = loaded.model.ok_or_else(|| format!("{}: no model", file.display()))?;
    let graph = &model.graph;
    let stored = |info: &ValueInfo| graph.initializers.iter().any(|tensor| tensor.name == info.name);
    let read: Vec<&ValueInfo> = graph.inputs.iter().filter(|info| !stored(info)).collect();
    let recorded = |kind: &str, index: usize| {
        if light {
            location.path.with_file_name(format!("{}_{kind}_{index}.pb", location.name))
        } else {
            location.path.join(format!("test_data_set_0/{kind}_{index}.pb"))
        }
    };
    let mut inputs = Vec::new();
    for (index, info) in read.into_iter().enumerate() {
        let ty = info.ty.clone().ok_or("an input without type")?;
        inputs.push(match fs::read(recorded("input", index)) {
            Ok(bytes) => value(bytes.into(), &ty)?,
            // Large inputs are not part of the package.
            Err(_) => Recorded::Declared(ty),
        });
    }
    let mut outputs = Vec::new();
    for (index, info) in graph.outputs.iter().enumerate() {
        let ty = info.ty.clone().ok_or("an output without type")?;
        outputs.push(value(fs::read(recorded("output", index))?.into(), &ty)?);
    }
    erase(&mut model.graph);
    for function in &mut model.functions {
        function.value_info.clear();
        erase_inside(&mut function.nodes);
    }
    Ok(Case { model, inputs, outputs })
}

/// Removes the declared types of everything that is computed.
fn erase(graph: &mut GraphDef) {
    graph.value_info.clear();
    for output in &mut graph.outputs {
        output.ty = None;
    }
    erase_inside(&mut graph.nodes);
}

fn erase_inside(nodes: &mut [NodeDef]) {
    for attribute in nodes.iter_mut().flat_map(|node| &mut node.attributes) {
        match &mut attribute.value {
            AttributeValue::Graph(graph) => erase(graph),
            AttributeValue::Graphs(graphs) => graphs.iter_mut().for_each(erase),
            _ => {}
        }
    }
}

/// `SequenceProto`, as far as the cases use it.
#[derive(Clone, PartialEq, Message)]
struct SequenceProto {
    #[prost(bytes = "bytes", repeated, tag = "3")]
    tensors: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "5")]
    sequences: Vec<Bytes>,
}

/// `OptionalProto`, as far as the cases use it.
#[derive(Clone, PartialEq, Message)]
struct OptionalProto {
    #[prost(bytes = "bytes", optional, tag = "3")]
    tensor: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    sequence: Option<Bytes>,
}

/// A recorded value of the type that the model declares for it.
fn value(bytes: Bytes, ty: &TypeDef) -> Outcome<Recorded> {
    match ty {
        TypeDef::Tensor(_) => Ok(Recorded::Tensor(tensor(bytes)?)),
        TypeDef::Sequence(element) => {
            let sequence = SequenceProto::decode(bytes)?;
            let elements = sequence.tensors.into_iter().chain(sequence.sequences);
            Ok(Recorded::Sequence(elements.map(|element_bytes| value(element_bytes, element)).collect::<Outcome<_>>()?))
        }
        TypeDef::Optional(inner) => {
            let optional = OptionalProto::decode(bytes.clone())?;
            let found = match optional.tensor.or(optional.sequence) {
                Some(found) => Some(Box::new(value(found, inner)?)),
                None => None,
            };
            Ok(Recorded::Optional(found))
        }
        _ => Err(format!("values of type {ty:?} are not read").into()),
    }
}

/// A `TensorProto`, read as the only stored tensor of a model.
fn tensor(bytes: Bytes) -> Outcome<TensorDef> {
    let graph = GraphProto { initializer: vec![bytes], ..GraphProto::default() };
    let model = ModelProto { ir_version: Some(8), graph: Some(graph.encode_to_vec().into()), ..ModelProto::default() };
    let loaded = load(&Source::from_stdin(model.encode_to_vec()), &mut Places::default());
    let tensor = loaded.model.and_then(|model| model.graph.initializers.into_iter().next());
    tensor.ok_or_else(|| "no tensor in a recorded value".into())
}
