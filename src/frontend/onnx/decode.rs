//! Protobuf bytes to a [`Model`], one message level at a time. Every level is a slice of the file, so payloads are not
//! copied and the position of a slice is its span.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::model::{
    AttributeDef, AttributeValue, DimDef, ExternalData, FunctionDef, GraphDef, Model, Name, NodeDef, OpsetImport,
    Payload, SparseTensorDef, TensorDef, TensorTypeDef, TypeDef, ValueInfo,
};
use super::proto;
use super::wire::{self, Kind};
use crate::ir::element_type::ElementType;
use crate::ir::hash::HashSet;
use crate::ir::place::Span;

/// Subgraphs may be nested this deep in the main graph.
pub const MAX_GRAPHS: usize = 32;

/// Types (sequences of optionals of ...) may be nested this deep.
const MAX_TYPES: usize = 32;

/// Why a file cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The file ends too early.
    Truncated { message: String, span: Span },
    /// Bytes are not what the format allows.
    Malformed { message: String, span: Span },
    /// Subgraphs are nested deeper than [`MAX_GRAPHS`].
    TooDeep { span: Span },
}

/// Decodes a file.
pub(crate) fn decode(bytes: &Bytes) -> Result<Model, DecodeError> {
    let mut decoder = Decoder { file: bytes.clone(), names: HashSet::default() };
    decoder.model()
}

/// Decodes the `NodeProto` at a place of the file, for an excerpt; attributes that cannot be read are left out.
pub(crate) fn decode_node(bytes: &Bytes, span: Span) -> Option<NodeDef> {
    let start = usize::try_from(span.start).ok()?;
    let end = usize::try_from(span.end).ok()?;
    if start >= end || end > bytes.len() {
        return None;
    }
    let mut decoder = Decoder { file: bytes.clone(), names: HashSet::default() };
    decoder.node(bytes.slice(start..end), 0).ok()
}

struct Decoder {
    file: Bytes,
    names: HashSet<Name>,
}

type Decoded<T> = Result<T, DecodeError>;

impl Decoder {
    fn offset(&self, bytes: &Bytes) -> u64 {
        (bytes.as_ptr() as usize).saturating_sub(self.file.as_ptr() as usize) as u64
    }

    fn span(&self, bytes: &Bytes) -> Span {
        // An empty slice may point anywhere.
        if bytes.is_empty() {
            return Span::default();
        }
        let start = self.offset(bytes);
        Span::new(start, start + bytes.len() as u64)
    }

    fn message<M: Message + Default>(&self, bytes: &Bytes, kind: Kind) -> Decoded<M> {
        M::decode(bytes.clone()).map_err(|error| {
            // The fault is looked for from the top of the file, so that the text names the whole path.
            let fault = wire::find_fault(Kind::Model, &self.file, 0)
                .or_else(|| wire::find_fault(kind, bytes, self.offset(bytes)));
            match fault {
                Some(fault) if fault.truncated => DecodeError::Truncated { message: fault.message, span: fault.span },
                Some(fault) => DecodeError::Malformed { message: fault.message, span: fault.span },
                None => DecodeError::Malformed {
                    message: format!("this is no ONNX model: {error}"),
                    span: self.span(bytes),
                },
            }
        })
    }

    fn name(&mut self, bytes: &Bytes) -> Name {
        let text = String::from_utf8_lossy(bytes);
        if let Some(name) = self.names.get(&*text) {
            return name.clone();
        }
        let name: Name = Arc::from(&*text);
        self.names.insert(name.clone());
        name
    }

    fn optional_name(&mut self, bytes: Option<&Bytes>) -> Name {
        bytes.map_or_else(|| Arc::from(""), |bytes| self.name(bytes))
    }

    fn names(&mut self, list: &[Bytes]) -> Vec<Name> {
        list.iter().map(|bytes| self.name(bytes)).collect()
    }

    fn model(&mut self) -> Decoded<Model> {
        let file = self.file.clone();
        let message: proto::ModelProto = self.message(&file, Kind::Model)?;
        let text =
            |bytes: Option<Bytes>| bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let Some(graph) = message.graph else {
            let message = "the file parses as protobuf but holds no graph: it is no ONNX model".to_owned();
            return Err(DecodeError::Malformed { message, span: Span::new(0, file.len() as u64) });
        };
        Ok(Model {
            ir_version: message.ir_version,
            opset_imports: self.opsets(&message.opset_import)?,
            producer_name: text(message.producer_name),
            producer_version: text(message.producer_version),
            domain: text(message.domain),
            model_version: message.model_version,
            doc_string: text(message.doc_string),
            metadata: self.entries(&message.metadata_props)?,
            graph: self.graph(&graph, 0)?,
            functions: message.functions.iter().map(|bytes| self.function(bytes)).collect::<Decoded<_>>()?,
        })
    }

    fn opsets(&mut self, list: &[Bytes]) -> Decoded<Vec<OpsetImport>> {
        list.iter()
            .map(|bytes| {
                let message: proto::OperatorSetIdProto = self.message(bytes, Kind::Opset)?;
                Ok(OpsetImport {
                    domain: self.optional_name(message.domain.as_ref()),
                    version: message.version.unwrap_or(0),
                })
            })
            .collect()
    }

    fn entries(&mut self, list: &[Bytes]) -> Decoded<Vec<(Name, Name)>> {
        list.iter()
            .map(|bytes| {
                let message: proto::StringStringEntryProto = self.message(bytes, Kind::Entry)?;
                Ok((self.optional_name(message.key.as_ref()), self.optional_name(message.value.as_ref())))
            })
            .collect()
    }

    fn graph(&mut self, bytes: &Bytes, depth: usize) -> Decoded<GraphDef> {
        if depth > MAX_GRAPHS {
            return Err(DecodeError::TooDeep { span: self.span(bytes) });
        }
        let message: proto::GraphProto = self.message(bytes, Kind::Graph)?;
        Ok(GraphDef {
            name: self.optional_name(message.name.as_ref()),
            inputs: self.values(&message.input)?,
            outputs: self.values(&message.output)?,
            value_info: self.values(&message.value_info)?,
            initializers: message.initializer.iter().map(|bytes| self.tensor(bytes)).collect::<Decoded<_>>()?,
            sparse_initializers: message
                .sparse_initializer
                .iter()
                .map(|bytes| self.sparse(bytes))
                .collect::<Decoded<_>>()?,
            nodes: message.node.into_iter().map(|bytes| self.node(bytes, depth)).collect::<Decoded<_>>()?,
            metadata: self.entries(&message.metadata_props)?,
            span: self.span(bytes),
        })
    }

    fn function(&mut self, bytes: &Bytes) -> Decoded<FunctionDef> {
        let message: proto::FunctionProto = self.message(bytes, Kind::Function)?;
        Ok(FunctionDef {
            name: self.optional_name(message.name.as_ref()),
            domain: self.optional_name(message.domain.as_ref()),
            overload: self.optional_name(message.overload.as_ref()),
            inputs: self.names(&message.input),
            outputs: self.names(&message.output),
            attributes: self.names(&message.attribute),
            attribute_defaults: message
                .attribute_proto
                .iter()
                .map(|bytes| self.attribute(bytes, 0))
                .collect::<Decoded<_>>()?,
            opset_imports: self.opsets(&message.opset_import)?,
            value_info: self.values(&message.value_info)?,
            nodes: message.node.into_iter().map(|bytes| self.node(bytes, 0)).collect::<Decoded<_>>()?,
            span: self.span(bytes),
        })
    }

    fn node(&mut self, bytes: Bytes, depth: usize) -> Decoded<NodeDef> {
        let message: proto::NodeProto = self.message(&bytes, Kind::Node)?;
        Ok(NodeDef {
            name: self.optional_name(message.name.as_ref()),
            op_type: self.optional_name(message.op_type.as_ref()),
            domain: self.optional_name(message.domain.as_ref()),
            overload: self.optional_name(message.overload.as_ref()),
            inputs: self.names(&message.input),
            outputs: self.names(&message.output),
            attributes: message.attribute.iter().map(|bytes| self.attribute(bytes, depth)).collect::<Decoded<_>>()?,
            metadata: self.entries(&message.metadata_props)?,
            span: self.span(&bytes),
        })
    }

    fn attribute(&mut self, bytes: &Bytes, depth: usize) -> Decoded<AttributeDef> {
        let message: proto::AttributeProto = self.message(bytes, Kind::Attribute)?;
        let name = self.optional_name(message.name.as_ref());
        let value = self.attribute_value(&name, message, depth, bytes)?;
        Ok(AttributeDef { name, value, span: self.span(bytes) })
    }

    fn attribute_value(
        &mut self,
        name: &Name,
        message: proto::AttributeProto,
        depth: usize,
        bytes: &Bytes,
    ) -> Decoded<AttributeValue> {
        if let Some(reference) = message.ref_attr_name.as_ref().filter(|reference| !reference.is_empty()) {
            return Ok(AttributeValue::Reference { name: self.name(reference), kind: message.r#type.unwrap_or(0) });
        }
        // Files before IR version 2 do not say the type; then the field that is there decides.
        let kind = message.r#type.filter(|&kind| kind != 0).unwrap_or_else(|| guess_kind(&message));
        let absent = || DecodeError::Malformed {
            message: format!("attribute {name:?} announces a value of kind {kind} that is not there"),
            span: self.span(bytes),
        };
        Ok(match kind {
            // The writer leaves out zeros and empty strings.
            1 => AttributeValue::Float(message.f.unwrap_or(0.0)),
            2 => AttributeValue::Int(message.i.unwrap_or(0)),
            3 => AttributeValue::String(message.s.unwrap_or_default()),
            4 => AttributeValue::Tensor(self.tensor(message.t.as_ref().ok_or_else(absent)?)?),
            5 => AttributeValue::Graph(Box::new(self.graph(message.g.as_ref().ok_or_else(absent)?, depth + 1)?)),
            6 => AttributeValue::Floats(message.floats),
            7 => AttributeValue::Ints(message.ints),
            8 => AttributeValue::Strings(message.strings),
            9 => {
                AttributeValue::Tensors(message.tensors.iter().map(|bytes| self.tensor(bytes)).collect::<Decoded<_>>()?)
            }
            10 => AttributeValue::Graphs(
                message.graphs.iter().map(|bytes| self.graph(bytes, depth + 1)).collect::<Decoded<_>>()?,
            ),
            11 => AttributeValue::SparseTensor(self.sparse(message.sparse_tensor.as_ref().ok_or_else(absent)?)?),
            12 => AttributeValue::SparseTensors(
                message.sparse_tensors.iter().map(|bytes| self.sparse(bytes)).collect::<Decoded<_>>()?,
            ),
            13 => AttributeValue::Type(self.type_def(message.tp.as_ref().ok_or_else(absent)?, 0)?),
            14 => AttributeValue::Types(
                message.type_protos.iter().map(|bytes| self.type_def(bytes, 0)).collect::<Decoded<_>>()?,
            ),
            _ => {
                let message = format!("attribute {name:?} is of kind {kind}, which ONNX does not define");
                return Err(DecodeError::Malformed { message, span: self.span(bytes) });
            }
        })
    }

    fn tensor(&mut self, bytes: &Bytes) -> Decoded<TensorDef> {
        let message: proto::TensorProto = self.message(bytes, Kind::Tensor)?;
        let external = message.data_location == Some(1) || !message.external_data.is_empty();
        let data = if external {
            Payload::External(ExternalData { entries: self.entries(&message.external_data)? })
        } else if let Some(raw) = message.raw_data.filter(|raw| !raw.is_empty()) {
            Payload::Raw(raw)
        } else if !message.string_data.is_empty() {
            Payload::Strings(message.string_data)
        } else if wire::has_field(bytes, &[4, 5, 7, 10, 11]) {
            Payload::Fields(bytes.clone())
        } else {
            Payload::Missing
        };
        Ok(TensorDef {
            name: self.optional_name(message.name.as_ref()),
            element: message.data_type.and_then(ElementType::from_code),
            dims: message.dims,
            data,
            span: self.span(bytes),
        })
    }

    fn sparse(&mut self, bytes: &Bytes) -> Decoded<SparseTensorDef> {
        let message: proto::SparseTensorProto = self.message(bytes, Kind::SparseTensor)?;
        let mut part =
            |part: Option<Bytes>| part.as_ref().map_or_else(|| Ok(TensorDef::default()), |bytes| self.tensor(bytes));
        Ok(SparseTensorDef { values: part(message.values)?, indices: part(message.indices)?, dims: message.dims })
    }

    fn values(&mut self, list: &[Bytes]) -> Decoded<Vec<ValueInfo>> {
        list.iter()
            .map(|bytes| {
                let message: proto::ValueInfoProto = self.message(bytes, Kind::ValueInfo)?;
                let ty = message.r#type.as_ref().map(|bytes| self.type_def(bytes, 0)).transpose()?;
                Ok(ValueInfo { name: self.optional_name(message.name.as_ref()), ty, span: self.span(bytes) })
            })
            .collect()
    }

    fn type_def(&mut self, bytes: &Bytes, depth: usize) -> Decoded<TypeDef> {
        if depth > MAX_TYPES {
            let message = format!("a type is nested deeper than {MAX_TYPES} levels");
            return Err(DecodeError::Malformed { message, span: self.span(bytes) });
        }
        let message: proto::TypeProto = self.message(bytes, Kind::Type)?;
        Ok(if let Some(tensor) = message.tensor_type {
            TypeDef::Tensor(self.tensor_type(&tensor)?)
        } else if let Some(tensor) = message.sparse_tensor_type {
            TypeDef::SparseTensor(self.tensor_type(&tensor)?)
        } else if let Some(sequence) = message.sequence_type {
            TypeDef::Sequence(Box::new(self.inner_type(&sequence, depth)?))
        } else if let Some(optional) = message.optional_type {
            TypeDef::Optional(Box::new(self.inner_type(&optional, depth)?))
        } else if let Some(map) = message.map_type {
            let map: proto::MapTypeProto = self.message(&map, Kind::Other)?;
            let value = map.value_type.as_ref().map_or(Ok(TypeDef::Opaque), |bytes| self.type_def(bytes, depth + 1))?;
            TypeDef::Map(map.key_type.and_then(ElementType::from_code), Box::new(value))
        } else {
            TypeDef::Opaque
        })
    }

    fn inner_type(&mut self, bytes: &Bytes, depth: usize) -> Decoded<TypeDef> {
        let message: proto::ElementTypeProto = self.message(bytes, Kind::Other)?;
        message.elem_type.as_ref().map_or(Ok(TypeDef::Opaque), |bytes| self.type_def(bytes, depth + 1))
    }

    fn tensor_type(&mut self, bytes: &Bytes) -> Decoded<TensorTypeDef> {
        let message: proto::TensorTypeProto = self.message(bytes, Kind::Other)?;
        let shape = message.shape.as_ref().map(|bytes| self.dims(bytes)).transpose()?;
        Ok(TensorTypeDef { element: message.elem_type.and_then(ElementType::from_code), shape })
    }

    fn dims(&mut self, bytes: &Bytes) -> Decoded<Vec<DimDef>> {
        let message: proto::TensorShapeProto = self.message(bytes, Kind::Other)?;
        message
            .dim
            .iter()
            .map(|bytes| {
                let dim: proto::DimensionProto = self.message(bytes, Kind::Other)?;
                Ok(match (dim.dim_value, dim.dim_param) {
                    (_, Some(param)) if !param.is_empty() => DimDef::Param(self.name(&param)),
                    (Some(value), _) => DimDef::Value(value),
                    _ => DimDef::Unknown,
                })
            })
            .collect()
    }
}

/// `AttributeProto.AttributeType` by the field that is there.
fn guess_kind(message: &proto::AttributeProto) -> i32 {
    let present = [
        (1, message.f.is_some()),
        (2, message.i.is_some()),
        (3, message.s.is_some()),
        (4, message.t.is_some()),
        (5, message.g.is_some()),
        (6, !message.floats.is_empty()),
        (7, !message.ints.is_empty()),
        (8, !message.strings.is_empty()),
        (9, !message.tensors.is_empty()),
        (10, !message.graphs.is_empty()),
        (11, message.sparse_tensor.is_some()),
        (12, !message.sparse_tensors.is_empty()),
        (13, message.tp.is_some()),
        (14, !message.type_protos.is_empty()),
    ];
    // An attribute without any value is an empty list of integers.
    present.iter().find(|(_, there)| *there).map_or(7, |(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message;

    use super::{DecodeError, MAX_GRAPHS, decode};
    use crate::frontend::onnx::model::{AttributeValue, Payload};
    use crate::frontend::onnx::proto;

    fn nested(levels: usize) -> Bytes {
        let mut graph = proto::GraphProto::default();
        for _ in 0..levels {
            let attribute = proto::AttributeProto {
                name: Some(Bytes::from_static(b"then_branch")),
                g: Some(graph.encode_to_vec().into()),
                r#type: Some(5),
                ..Default::default()
            };
            let node = proto::NodeProto { attribute: vec![attribute.encode_to_vec().into()], ..Default::default() };
            graph = proto::GraphProto { node: vec![node.encode_to_vec().into()], ..Default::default() };
        }
        proto::ModelProto { graph: Some(graph.encode_to_vec().into()), ..Default::default() }.encode_to_vec().into()
    }

    #[test]
    fn graphs_nest_to_the_limit_and_no_deeper_on_a_small_stack() {
        let run = || {
            assert!(decode(&nested(MAX_GRAPHS)).is_ok());
            assert!(matches!(decode(&nested(MAX_GRAPHS + 1)), Err(DecodeError::TooDeep { .. })));
        };
        std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
    }

    #[test]
    fn payloads_are_slices_of_the_file() {
        let tensor = proto::TensorProto {
            dims: vec![4],
            data_type: Some(1),
            raw_data: Some(vec![7u8; 16].into()),
            ..Default::default()
        };
        let graph = proto::GraphProto { initializer: vec![tensor.encode_to_vec().into()], ..Default::default() };
        let file: Bytes = proto::ModelProto { graph: Some(graph.encode_to_vec().into()), ..Default::default() }
            .encode_to_vec()
            .into();
        let model = decode(&file).unwrap();
        let Payload::Raw(raw) = &model.graph.initializers[0].data else { panic!("raw data") };
        let start = raw.as_ptr() as usize - file.as_ptr() as usize;
        assert_eq!(&file[start..start + 16], &[7u8; 16]);
    }

    #[test]
    fn attributes_of_old_files_have_the_type_of_their_field() {
        let attribute =
            proto::AttributeProto { name: Some(Bytes::from_static(b"axis")), i: Some(3), ..Default::default() };
        let node = proto::NodeProto { attribute: vec![attribute.encode_to_vec().into()], ..Default::default() };
        let graph = proto::GraphProto { node: vec![node.encode_to_vec().into()], ..Default::default() };
        let file: Bytes = proto::ModelProto { graph: Some(graph.encode_to_vec().into()), ..Default::default() }
            .encode_to_vec()
            .into();
        let model = decode(&file).unwrap();
        assert!(matches!(model.graph.nodes[0].attributes[0].value, AttributeValue::Int(3)));
    }
}
