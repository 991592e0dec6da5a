//! Checks where the payloads of a model's tensors are: external data, sizes, weights left out. Integer tensors that are
//! small enough to decide a shape are read from side files here, so that no later pass touches the disk.

use std::collections::BTreeMap;

use crate::diagnostics::{Code, Diagnostic};
use crate::frontend::onnx::external::{ExternalFault, ExternalFiles};
use crate::frontend::onnx::model::{
    AttributeDef, AttributeValue, GraphDef, Model, NodeDef, Payload, SparseTensorDef, TensorDef,
};
use crate::ir::fact::VALUE_LIMIT;
use crate::ir::place::{PlaceData, Places};

/// Bytes over which a dims product is no tensor of this world: 2^63.
const MAX_ELEMENTS: u128 = 1 << 63;

/// Checks every tensor of the model; replaces small external integer tensors by their elements.
pub fn check_payloads(model: &mut Model, files: &mut ExternalFiles, places: &mut Places) -> Vec<Diagnostic> {
    let mut checker = Checker { files, places, diagnostics: Vec::new(), absent: BTreeMap::new(), stripped: 0 };
    checker.graph(&mut model.graph, "main");
    for function in &mut model.functions {
        let path = format!("fn:{}", function.name);
        for attribute in &mut function.attribute_defaults {
            checker.attribute(attribute, &path);
        }
        for node in &mut function.nodes {
            checker.node(node, &path);
        }
    }
    checker.finish()
}

struct Checker<'a> {
    files: &'a mut ExternalFiles,
    places: &'a mut Places,
    diagnostics: Vec<Diagnostic>,
    /// Side files that are missing, with the number of tensors in each and one of them, and whether a shape needs it.
    absent: BTreeMap<String, Absent>,
    stripped: usize,
}

struct Absent {
    pointer: bool,
    tensors: usize,
    needed: Option<String>,
}

impl Checker<'_> {
    fn graph(&mut self, graph: &mut GraphDef, path: &str) {
        for tensor in &mut graph.initializers {
            self.tensor(tensor, path);
        }
        for sparse in &mut graph.sparse_initializers {
            self.sparse(sparse, path);
        }
        for node in &mut graph.nodes {
            self.node(node, path);
        }
    }

    fn node(&mut self, node: &mut NodeDef, path: &str) {
        for attribute in &mut node.attributes {
            self.attribute(attribute, path);
        }
    }

    /// The recursion is as deep as the frontends let graphs nest.
    fn attribute(&mut self, attribute: &mut AttributeDef, path: &str) {
        match &mut attribute.value {
            AttributeValue::Tensor(tensor) => self.tensor(tensor, path),
            AttributeValue::Tensors(tensors) => tensors.iter_mut().for_each(|tensor| self.tensor(tensor, path)),
            AttributeValue::SparseTensor(sparse) => self.sparse(sparse, path),
            AttributeValue::SparseTensors(list) => list.iter_mut().for_each(|sparse| self.sparse(sparse, path)),
            AttributeValue::Graph(graph) => self.graph(graph, path),
            AttributeValue::Graphs(graphs) => graphs.iter_mut().for_each(|graph| self.graph(graph, path)),
            _ => {}
        }
    }

    fn sparse(&mut self, sparse: &mut SparseTensorDef, path: &str) {
        self.tensor(&mut sparse.values, path);
        self.tensor(&mut sparse.indices, path);
    }

    fn tensor(&mut self, tensor: &mut TensorDef, path: &str) {
        let Some(count) = tensor.element_count() else {
            let dims = &tensor.dims;
            self.report(
                Diagnostic::new(
                    Code::NegativeDim,
                    format!("stored tensor {:?} has a negative dim: {dims:?}", &*tensor.name),
                )
                .level(crate::diagnostics::Level::Error),
                tensor,
                path,
            );
            return;
        };
        if count > MAX_ELEMENTS {
            let message = format!("stored tensor {:?} would have {} elements", &*tensor.name, magnitude(count));
            self.report(Diagnostic::new(Code::TensorTooLarge, message), tensor, path);
            return;
        }
        match &tensor.data {
            Payload::Raw(raw) => {
                if let Some(needed) = tensor.stored_bytes().filter(|&needed| needed != raw.len() as u128) {
                    let message = format!(
                        "tensor {:?} stores {} bytes, but {} × {} needs {needed}",
                        &*tensor.name,
                        raw.len(),
                        dims_text(&tensor.dims),
                        tensor.element.map_or("?", |element| element.name()),
                    );
                    self.report(Diagnostic::new(Code::PayloadSize, message), tensor, path);
                }
            }
            Payload::Missing if count > 0 => self.stripped += 1,
            Payload::External(_) => self.external(tensor, count, path),
            Payload::Missing | Payload::Fields(_) | Payload::Strings(_) => {}
        }
    }

    fn external(&mut self, tensor: &mut TensorDef, count: u128, path: &str) {
        let Payload::External(data) = &tensor.data else { return };
        let decides_shapes = tensor.element.is_some_and(|element| element.is_integer()) && count <= VALUE_LIMIT as u128;
        let name = &tensor.name;
        match self.files.locate(tensor, data) {
            Ok(range) => {
                if decides_shapes && let Ok(bytes) = range.read() {
                    tensor.data = Payload::Raw(bytes);
                }
            }
            Err(ExternalFault::Escapes { location, how }) => {
                let message =
                    format!("external data of tensor {name:?} leaves the model's folder: {location:?}, {how}");
                let help = "the file is not opened; keep side files beside the model";
                self.report(Diagnostic::new(Code::ExternalDataEscapesFolder, message).help(help), tensor, path);
            }
            Err(ExternalFault::Invalid { message }) => {
                self.report(
                    Diagnostic::new(Code::ExternalDataInvalid, format!("tensor {name:?}: {message}")),
                    tensor,
                    path,
                );
            }
            Err(ExternalFault::Missing { location }) => self.count_absent(location, false, name, decides_shapes),
            Err(ExternalFault::Pointer { location }) => self.count_absent(location, true, name, decides_shapes),
        }
    }

    fn count_absent(&mut self, location: String, pointer: bool, name: &str, decides_shapes: bool) {
        let absent = self.absent.entry(location).or_insert(Absent { pointer, tensors: 0, needed: None });
        absent.tensors += 1;
        if decides_shapes && absent.needed.is_none() {
            absent.needed = Some(name.to_owned());
        }
    }

    fn report(&mut self, diagnostic: Diagnostic, tensor: &TensorDef, path: &str) {
        let place = self.places.add(PlaceData {
            graph: path.into(),
            tensor: Some(tensor.name.clone()),
            span: Some(tensor.span),
            ..PlaceData::default()
        });
        self.diagnostics.push(diagnostic.at(place));
    }

    fn finish(mut self) -> Vec<Diagnostic> {
        for (location, absent) in std::mem::take(&mut self.absent) {
            let tensors =
                if absent.tensors == 1 { "1 tensor".to_owned() } else { format!("{} tensors", absent.tensors) };
            let (code, what) = if absent.pointer {
                (Code::LfsPointer, format!("side file {location:?} is a Git LFS pointer; it should hold {tensors}"))
            } else {
                (Code::MissingExternalData, format!("side file {location:?} with {tensors} is not there"))
            };
            let mut diagnostic = Diagnostic::new(code, what).level(crate::diagnostics::Level::Warning);
            diagnostic = match absent.needed {
                Some(name) => diagnostic
                    .note(format!("integer tensor {name:?} is among them: shapes that depend on it stay unknown")),
                None => diagnostic.note("shapes and counts do not need it".to_owned()),
            };
            if absent.pointer {
                diagnostic = diagnostic.help("fetch it with `git lfs pull`");
            }
            self.diagnostics.push(diagnostic);
        }
        if self.stripped > 0 {
            let tensors = if self.stripped == 1 {
                "1 stored tensor has".to_owned()
            } else {
                format!("{} stored tensors have", self.stripped)
            };
            let message = format!("{tensors} no values in the file; shapes and counts do not need them");
            self.diagnostics.push(Diagnostic::new(Code::WeightsStripped, message));
        }
        self.diagnostics
    }
}

fn dims_text(dims: &[i64]) -> String {
    let dims: Vec<_> = dims.iter().map(i64::to_string).collect();
    if dims.is_empty() { "scalar".to_owned() } else { dims.join("×") }
}

/// `2^66` for large numbers.
pub(crate) fn magnitude(count: u128) -> String {
    // Numbers are cut off at the end of the range of dims.
    if count >= i128::MAX as u128 {
        return "more than 2^126".to_owned();
    }
    format!("about 2^{}", 127 - count.leading_zeros())
}
