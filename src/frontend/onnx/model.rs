//! The ONNX model as it stands in the file: names, not yet edges. Both the binary and the text frontend give this
//! tree, and the text printer writes it. It holds no shapes that are not declared and no costs.
//!
//! Weight payloads are slices of the file; nothing here copies or reads them before it is asked to.

use std::sync::Arc;

use bytes::Bytes;

use crate::ir::element_type::ElementType;
use crate::ir::place::Span;

/// An interned name. Empty where ONNX leaves a name out.
pub type Name = Arc<str>;

/// Key of metadata of the main graph that names a stored tensor whose values repeat another's. It speaks for the
/// values in a text that leaves them out.
pub const TIED: &str = "dlcost.tied";

/// Key of metadata of the main graph that names a stored tensor which training leaves alone: what a Keras file says of
/// frozen layers and running statistics.
pub const NOT_TRAINED: &str = "dlcost.not_trained";

/// Key of metadata of a node that names the class of the Keras layer that it belongs to.
pub const LAYER_CLASS: &str = "dlcost.class";

/// Key of metadata of a node that holds the names of the models around it.
pub const SCOPE: &str = "dlcost.scope";

/// Key of metadata of a node that holds the name of its layer.
pub const LAYER_NAME: &str = "dlcost.layer";

/// Domain of the operators that Keras layers become.
pub const KERAS: &str = "dlcost.keras";

/// Operator of that domain which stands for a layer that is told of elsewhere and of which nothing is known.
pub const OPAQUE: &str = "Opaque";

/// Operator of that domain which is no more than a shape and a number of operations: the class of the layer says more.
pub const SHAPED: &str = "Shaped";

/// `ModelProto`.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Version of the format; `None` when the file does not say.
    pub ir_version: Option<i64>,
    /// Operator sets that the model imports, in file order.
    pub opset_imports: Vec<OpsetImport>,
    /// Tool that wrote the file.
    pub producer_name: String,
    /// Version of that tool.
    pub producer_version: String,
    /// Reverse-DNS namespace of the model.
    pub domain: String,
    /// Version of the model.
    pub model_version: Option<i64>,
    /// Free text.
    pub doc_string: String,
    /// Key and value pairs.
    pub metadata: Vec<(Name, Name)>,
    /// The main graph.
    pub graph: GraphDef,
    /// Model-local functions.
    pub functions: Vec<FunctionDef>,
}

/// `OperatorSetIdProto`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpsetImport {
    /// Domain; empty for the standard one.
    pub domain: Name,
    /// Version.
    pub version: i64,
}

/// `GraphProto`: the main graph or a subgraph in an attribute.
#[derive(Clone, Debug, Default)]
pub struct GraphDef {
    /// Name.
    pub name: Name,
    /// Inputs; before IR version 4 they list the initializers too.
    pub inputs: Vec<ValueInfo>,
    /// Outputs.
    pub outputs: Vec<ValueInfo>,
    /// Declared types of inner tensors.
    pub value_info: Vec<ValueInfo>,
    /// Stored tensors.
    pub initializers: Vec<TensorDef>,
    /// Stored sparse tensors; each is named by its values tensor.
    pub sparse_initializers: Vec<SparseTensorDef>,
    /// Nodes in file order.
    pub nodes: Vec<NodeDef>,
    /// Key and value pairs.
    pub metadata: Vec<(Name, Name)>,
    /// Where it stands.
    pub span: Span,
}

/// `FunctionProto`.
#[derive(Clone, Debug, Default)]
pub struct FunctionDef {
    /// Name that nodes call.
    pub name: Name,
    /// Domain.
    pub domain: Name,
    /// Tells functions of one name apart; usually empty.
    pub overload: Name,
    /// Formal inputs.
    pub inputs: Vec<Name>,
    /// Formal outputs.
    pub outputs: Vec<Name>,
    /// Attributes without a default.
    pub attributes: Vec<Name>,
    /// Attributes with a default.
    pub attribute_defaults: Vec<AttributeDef>,
    /// Operator sets that the body uses.
    pub opset_imports: Vec<OpsetImport>,
    /// Declared types of inner tensors.
    pub value_info: Vec<ValueInfo>,
    /// The body.
    pub nodes: Vec<NodeDef>,
    /// Where it stands.
    pub span: Span,
}

/// `NodeProto`.
#[derive(Clone, Debug, Default)]
pub struct NodeDef {
    /// Name; often empty.
    pub name: Name,
    /// Operator.
    pub op_type: Name,
    /// Domain of the operator; empty for the standard one.
    pub domain: Name,
    /// Overload of a called function.
    pub overload: Name,
    /// Input tensors; an empty name is an input left out.
    pub inputs: Vec<Name>,
    /// Output tensors; an empty name is an output left out.
    pub outputs: Vec<Name>,
    /// Attributes in file order.
    pub attributes: Vec<AttributeDef>,
    /// Key and value pairs (exporters put the module path here).
    pub metadata: Vec<(Name, Name)>,
    /// Where it stands.
    pub span: Span,
}

impl NodeDef {
    /// The attribute of this name.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&AttributeDef> {
        self.attributes.iter().find(|attribute| &*attribute.name == name)
    }
}

/// `AttributeProto`.
#[derive(Clone, Debug)]
pub struct AttributeDef {
    /// Name.
    pub name: Name,
    /// Value.
    pub value: AttributeValue,
    /// Where it stands.
    pub span: Span,
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub enum AttributeValue {
    /// One float.
    Float(f32),
    /// One integer.
    Int(i64),
    /// One string of bytes, UTF-8 by convention.
    String(Bytes),
    /// One tensor.
    Tensor(TensorDef),
    /// One graph.
    Graph(Box<GraphDef>),
    /// One sparse tensor.
    SparseTensor(SparseTensorDef),
    /// One type.
    Type(TypeDef),
    /// Several floats.
    Floats(Vec<f32>),
    /// Several integers.
    Ints(Vec<i64>),
    /// Several strings.
    Strings(Vec<Bytes>),
    /// Several tensors.
    Tensors(Vec<TensorDef>),
    /// Several graphs.
    Graphs(Vec<GraphDef>),
    /// Several sparse tensors.
    SparseTensors(Vec<SparseTensorDef>),
    /// Several types.
    Types(Vec<TypeDef>),
    /// In a function body: the value of the caller's attribute of this name.
    Reference {
        /// Name of the function's attribute.
        name: Name,
        /// `AttributeProto.AttributeType` that the reference declares; 0 when it does not say.
        kind: i32,
    },
}

/// `ValueInfoProto`.
#[derive(Clone, Debug)]
pub struct ValueInfo {
    /// Tensor name.
    pub name: Name,
    /// Declared type; `None` when left out.
    pub ty: Option<TypeDef>,
    /// Where it stands.
    pub span: Span,
}

/// `TypeProto`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeDef {
    /// Dense tensor.
    Tensor(TensorTypeDef),
    /// Sparse tensor.
    SparseTensor(TensorTypeDef),
    /// Sequence of values of one type.
    Sequence(Box<TypeDef>),
    /// A value or nothing.
    Optional(Box<TypeDef>),
    /// Map from a key type to a value type.
    Map(Option<ElementType>, Box<TypeDef>),
    /// Nothing that we read: an empty or opaque type.
    Opaque,
}

/// Element type and shape of a declared tensor.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TensorTypeDef {
    /// Element type; `None` when undefined.
    pub element: Option<ElementType>,
    /// Dims; `None` when the rank is not declared.
    pub shape: Option<Vec<DimDef>>,
}

/// One declared dim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DimDef {
    /// A number.
    Value(i64),
    /// A `dim_param`.
    Param(Name),
    /// Neither.
    Unknown,
}

/// `TensorProto`.
#[derive(Clone, Debug, Default)]
pub struct TensorDef {
    /// Name; empty in attributes.
    pub name: Name,
    /// Element type; `None` when undefined or not a number that ONNX assigns.
    pub element: Option<ElementType>,
    /// Dims; none for a scalar.
    pub dims: Vec<i64>,
    /// The payload.
    pub data: Payload,
    /// Where it stands.
    pub span: Span,
}

/// Where the elements of a tensor are.
#[derive(Clone, Debug, Default)]
pub enum Payload {
    /// Nowhere: the file was stripped of its weights (or the tensor is empty).
    #[default]
    Missing,
    /// Little-endian, packed; a slice of the file, or what the text syntax spelled out.
    Raw(Bytes),
    /// In the numeric fields of this `TensorProto` message, decoded when asked for.
    Fields(Bytes),
    /// Strings, spelled out by the text syntax.
    Strings(Vec<Bytes>),
    /// In another file.
    External(ExternalData),
}

/// `external_data` of a tensor, as text of the file, not yet checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalData {
    /// Key and value pairs in file order: `location`, `offset`, `length`, `checksum`, ...
    pub entries: Vec<(Name, Name)>,
}

impl ExternalData {
    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries.iter().find(|(name, _)| &**name == key).map(|(_, value)| &**value)
    }
}

/// `SparseTensorProto`.
#[derive(Clone, Debug, Default)]
pub struct SparseTensorDef {
    /// The elements that are not zero; carries the name.
    pub values: TensorDef,
    /// Their places.
    pub indices: TensorDef,
    /// Dims of the dense tensor.
    pub dims: Vec<i64>,
}

impl TensorDef {
    /// A stored tensor whose file gives no shape: it follows from what reads it.
    #[must_use]
    pub fn unshaped(name: Name, element: ElementType, span: Span) -> Self {
        Self { name, element: Some(element), dims: vec![-1], data: Payload::Missing, span }
    }

    /// Whether the file gives no shape.
    #[must_use]
    pub fn is_unshaped(&self) -> bool {
        self.dims == [-1]
    }
}
