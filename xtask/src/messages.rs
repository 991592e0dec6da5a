//! The protobuf messages of ONNX, as `dlcost` generates them, and a writer from its model tree. `dlcost` itself never
//! writes model files; fixtures and fuzzing do.

#[allow(dead_code, reason = "the file is shared with the reader, which uses all of it")]
#[rustfmt::skip]
#[path = "../../src/frontend/onnx/proto.rs"]
mod proto;

use dlcost::frontend::onnx::model::{
    AttributeDef, AttributeValue, DimDef, ExternalData, FunctionDef, GraphDef, Model, Name, NodeDef, OpsetImport,
    Payload, SparseTensorDef, TensorDef, TensorTypeDef, TypeDef, ValueInfo,
};
use dlcost::ir::element_type::ElementType;
use prost::Message;
use prost::bytes::Bytes;
pub(crate) use proto::*;

/// The bytes of a model file.
pub(crate) fn model(model: &Model) -> Vec<u8> {
    ModelProto {
        ir_version: model.ir_version,
        producer_name: given(&model.producer_name),
        producer_version: given(&model.producer_version),
        domain: given(&model.domain),
        model_version: model.model_version,
        doc_string: given(&model.doc_string),
        graph: Some(graph(&model.graph)),
        opset_import: list(&model.opset_imports, opset),
        metadata_props: pairs(&model.metadata),
        functions: list(&model.functions, function),
    }
    .encode_to_vec()
}

fn bytes(message: &impl Message) -> Bytes {
    Bytes::from(message.encode_to_vec())
}

fn text(name: &str) -> Bytes {
    Bytes::copy_from_slice(name.as_bytes())
}

/// A field that is left out where it is empty.
fn given(name: &str) -> Option<Bytes> {
    (!name.is_empty()).then(|| text(name))
}

fn list<T>(items: &[T], write: impl Fn(&T) -> Bytes) -> Vec<Bytes> {
    items.iter().map(write).collect()
}

fn names(names: &[Name]) -> Vec<Bytes> {
    list(names, |name| text(name))
}

fn pair(key: &str, value: &str) -> Bytes {
    bytes(&StringStringEntryProto { key: Some(text(key)), value: Some(text(value)) })
}

fn pairs(pairs: &[(Name, Name)]) -> Vec<Bytes> {
    list(pairs, |(key, value)| pair(key, value))
}

fn opset(import: &OpsetImport) -> Bytes {
    bytes(&OperatorSetIdProto { domain: Some(text(&import.domain)), version: Some(import.version) })
}

fn function(function: &FunctionDef) -> Bytes {
    bytes(&FunctionProto {
        name: given(&function.name),
        input: names(&function.inputs),
        output: names(&function.outputs),
        attribute: names(&function.attributes),
        node: list(&function.nodes, node),
        opset_import: list(&function.opset_imports, opset),
        domain: given(&function.domain),
        attribute_proto: list(&function.attribute_defaults, attribute),
        value_info: list(&function.value_info, value_info),
        overload: given(&function.overload),
    })
}

fn graph(graph: &GraphDef) -> Bytes {
    bytes(&GraphProto {
        node: list(&graph.nodes, node),
        name: given(&graph.name),
        initializer: list(&graph.initializers, tensor),
        input: list(&graph.inputs, value_info),
        output: list(&graph.outputs, value_info),
        value_info: list(&graph.value_info, value_info),
        sparse_initializer: list(&graph.sparse_initializers, sparse_tensor),
        metadata_props: pairs(&graph.metadata),
    })
}

fn node(node: &NodeDef) -> Bytes {
    bytes(&NodeProto {
        input: names(&node.inputs),
        output: names(&node.outputs),
        name: given(&node.name),
        op_type: given(&node.op_type),
        attribute: list(&node.attributes, attribute),
        domain: given(&node.domain),
        overload: given(&node.overload),
        metadata_props: pairs(&node.metadata),
    })
}

fn attribute(attribute: &AttributeDef) -> Bytes {
    let mut out = AttributeProto { name: given(&attribute.name), ..AttributeProto::default() };
    let kind = match &attribute.value {
        AttributeValue::Float(value) => (out.f = Some(*value), 1).1,
        AttributeValue::Int(value) => (out.i = Some(*value), 2).1,
        AttributeValue::String(value) => (out.s = Some(value.clone()), 3).1,
        AttributeValue::Tensor(value) => (out.t = Some(tensor(value)), 4).1,
        AttributeValue::Graph(value) => (out.g = Some(graph(value)), 5).1,
        AttributeValue::Floats(values) => (out.floats = values.clone(), 6).1,
        AttributeValue::Ints(values) => (out.ints = values.clone(), 7).1,
        AttributeValue::Strings(values) => (out.strings = values.clone(), 8).1,
        AttributeValue::Tensors(values) => (out.tensors = list(values, tensor), 9).1,
        AttributeValue::Graphs(values) => (out.graphs = list(values, graph), 10).1,
        AttributeValue::SparseTensor(value) => (out.sparse_tensor = Some(sparse_tensor(value)), 11).1,
        AttributeValue::SparseTensors(values) => (out.sparse_tensors = list(values, sparse_tensor), 12).1,
        AttributeValue::Type(value) => (out.tp = Some(type_of(value)), 13).1,
        AttributeValue::Types(values) => (out.type_protos = list(values, type_of), 14).1,
        AttributeValue::Reference { name, kind } => (out.ref_attr_name = Some(text(name)), *kind).1,
    };
    out.r#type = Some(kind);
    bytes(&out)
}

fn value_info(info: &ValueInfo) -> Bytes {
    bytes(&ValueInfoProto { name: given(&info.name), r#type: info.ty.as_ref().map(type_of) })
}

fn code(element: Option<ElementType>) -> Option<i32> {
    element.map(ElementType::code)
}

fn type_of(ty: &TypeDef) -> Bytes {
    let mut out = TypeProto::default();
    let inner = |ty: &TypeDef| bytes(&ElementTypeProto { elem_type: Some(type_of(ty)) });
    match ty {
        TypeDef::Tensor(tensor) => out.tensor_type = Some(tensor_type(tensor)),
        TypeDef::SparseTensor(tensor) => out.sparse_tensor_type = Some(tensor_type(tensor)),
        TypeDef::Sequence(ty) => out.sequence_type = Some(inner(ty)),
        TypeDef::Optional(ty) => out.optional_type = Some(inner(ty)),
        TypeDef::Map(key, value) => {
            out.map_type = Some(bytes(&MapTypeProto { key_type: code(*key), value_type: Some(type_of(value)) }));
        }
        TypeDef::Opaque => out.opaque_type = Some(Bytes::new()),
    }
    bytes(&out)
}

fn tensor_type(ty: &TensorTypeDef) -> Bytes {
    let dim = |dim: &DimDef| {
        bytes(&match dim {
            DimDef::Value(value) => DimensionProto { dim_value: Some(*value), dim_param: None },
            DimDef::Param(name) => DimensionProto { dim_value: None, dim_param: Some(text(name)) },
            DimDef::Unknown => DimensionProto::default(),
        })
    };
    let shape = ty.shape.as_ref().map(|dims| bytes(&TensorShapeProto { dim: list(dims, dim) }));
    bytes(&TensorTypeProto { elem_type: code(ty.element), shape })
}

fn tensor(tensor: &TensorDef) -> Bytes {
    let mut out = TensorProto {
        dims: tensor.dims.clone(),
        data_type: code(tensor.element),
        name: given(&tensor.name),
        ..TensorProto::default()
    };
    match &tensor.data {
        Payload::Missing => {}
        Payload::Raw(raw) => out.raw_data = Some(raw.clone()),
        Payload::Strings(strings) => out.string_data = strings.clone(),
        Payload::External(ExternalData { entries }) => {
            out.external_data = pairs(entries);
            out.data_location = Some(1);
        }
        Payload::Fields(message) => {
            // The numeric fields alone, behind the header: fields may stand in any order.
            let mut both = out.encode_to_vec();
            if let Ok(values) = TensorValuesProto::decode(message.clone()) {
                both.extend(values.encode_to_vec());
            }
            return Bytes::from(both);
        }
    }
    bytes(&out)
}

fn sparse_tensor(sparse: &SparseTensorDef) -> Bytes {
    bytes(&SparseTensorProto {
        values: Some(tensor(&sparse.values)),
        indices: Some(tensor(&sparse.indices)),
        dims: sparse.dims.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dlcost::frontend::load;
    use dlcost::frontend::onnx_text::{PrintOptions, parse, print_model};
    use dlcost::frontend::source::Source;
    use dlcost::ir::place::Places;

    #[test]
    fn what_is_written_reads_back_to_the_same_text() {
        let text = r#"<ir_version: 8, opset_import: ["" : 17, "my" : 1], producer_name: "test">
g (float[batch, 4] x, seq(int64[?]) s, bool c) => (float[batch, 2] y)
<float[4, 2] w = {}, int64[2] t = {3, -1}, float[2] b = {0.5, 1}>
{
  [one] h = MatMul (x, w)
  k = If (c) <then_branch = g1 () => (float[batch, 2] a) { a = Relu (h) }, else_branch = g2 () => (float[batch, 2] d) { d = my.F <k = 2> (h) }>
  y = Add (k, b)
}
<domain: "my", opset_import: ["" : 17]>
F <k> (v) => (u) { u = Softmax <axis: int = @k> (v) }
"#;
        let (tree, errors) = parse(text);
        assert!(errors.is_empty(), "{errors:?}");
        let back = load(&Source::from_stdin(model(&tree)), &mut Places::default()).model.unwrap();
        let options = PrintOptions::default();
        assert_eq!(print_model(&back, &options), print_model(&tree, &options));
    }
}
