//! Collects what layers become: nodes, stored tensors, inputs and outputs of one model tree.

use crate::diagnostics::{Code, Diagnostic};
use crate::frontend::onnx::model::{
    AttributeDef, AttributeValue, DimDef, GraphDef, KERAS, LAYER_CLASS, LAYER_NAME, NOT_TRAINED, Name, NodeDef, OPAQUE,
    SCOPE, TensorDef, TensorTypeDef, TypeDef, ValueInfo,
};
use crate::ir::element_type::ElementType;
use crate::ir::hash::{HashMap, HashSet};
use crate::ir::place::{PlaceData, Places, Span};

/// Nodes that a model may become: shared models inside each other can double at every level.
const MAX_NODES: usize = 500_000;

/// The symbol of the batch.
pub(super) const BATCH: &str = "batch";

/// Attributes of a node under construction.
pub(super) type Attributes = Vec<(&'static str, AttributeValue)>;

/// A layer of which nothing is known.
pub(super) struct Unknown {
    pub(super) path: String,
    pub(super) class: String,
    /// Why.
    pub(super) why: &'static str,
    pub(super) span: Span,
}

/// The graph under construction.
pub(super) struct Builder<'p> {
    places: &'p mut Places,
    /// Names of tensors.
    taken: HashSet<Name>,
    /// Stored tensors.
    stored: HashSet<Name>,
    /// Shapes that the file records, by tensor.
    recorded: HashMap<Name, TensorTypeDef>,
    /// Tensors that opaque nodes make.
    opaque: HashSet<Name>,
    /// What was said of a layer already.
    told: HashSet<String>,
    pub(super) unknown: Vec<Unknown>,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) graph: GraphDef,
    /// Dtype policies of layers with weights: name and how many.
    pub(super) policies: Vec<(String, usize)>,
    pub(super) over_budget: bool,
}

/// Which layer a node belongs to.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    /// Key of the nodes: path of the layer, with the number of the call behind the first.
    pub(super) key: String,
    /// Path of the models around the layer.
    pub(super) scope: String,
    /// Name of the layer.
    pub(super) name: String,
    pub(super) class: String,
    pub(super) span: Span,
}

impl<'p> Builder<'p> {
    pub(super) fn new(places: &'p mut Places) -> Self {
        Self {
            places,
            taken: HashSet::default(),
            stored: HashSet::default(),
            recorded: HashMap::default(),
            opaque: HashSet::default(),
            told: HashSet::default(),
            unknown: Vec::new(),
            diagnostics: Vec::new(),
            graph: GraphDef::default(),
            policies: Vec::new(),
            over_budget: false,
        }
    }

    /// Reports a finding at a place in the file.
    pub(super) fn report(&mut self, diagnostic: Diagnostic, node: Option<&str>, span: Span) {
        let place = self.place(node, span);
        self.diagnostics.push(diagnostic.at(place));
    }

    pub(super) fn place(&mut self, node: Option<&str>, span: Span) -> crate::ir::place::Place {
        let data =
            PlaceData { graph: "main".into(), node: node.map(Into::into), span: Some(span), ..PlaceData::default() };
        self.places.add(data)
    }

    /// Whether this is said for the first time.
    pub(super) fn is_news(&mut self, what: String) -> bool {
        self.told.insert(what)
    }

    /// A name that no other tensor has.
    fn unique(&mut self, wish: String) -> Name {
        let mut name: Name = wish.as_str().into();
        let mut repeat = 2;
        while !self.taken.insert(name.clone()) {
            name = format!("{wish}~{repeat}").into();
            repeat += 1;
        }
        name
    }

    /// An input of the model.
    pub(super) fn input(&mut self, name: &str, ty: Option<TypeDef>, span: Span) -> Name {
        let name = self.unique(name.to_owned());
        self.graph.inputs.push(ValueInfo { name: name.clone(), ty, span });
        name
    }

    /// Names outputs of the model.
    pub(super) fn output(&mut self, name: Name, span: Span) {
        self.graph.outputs.push(ValueInfo { name, ty: None, span });
    }

    /// A stored tensor, made when it is first asked for. `dims` where the file alone decides them.
    pub(super) fn weight(
        &mut self,
        path: String,
        element: ElementType,
        trained: bool,
        dims: Option<Vec<i64>>,
        span: Span,
    ) -> Name {
        let name: Name = path.into();
        if self.stored.insert(name.clone()) {
            self.taken.insert(name.clone());
            let mut def = TensorDef::unshaped(name.clone(), element, span);
            if let Some(dims) = dims {
                def.dims = dims;
            }
            self.graph.initializers.push(def);
            if !trained {
                self.graph.metadata.push((NOT_TRAINED.into(), name.clone()));
            }
        }
        name
    }

    /// Adds a node with so many outputs; gives their names.
    pub(super) fn node(
        &mut self,
        owner: &Owner,
        part: &str,
        [domain, op]: [&str; 2],
        inputs: Vec<Name>,
        outputs: usize,
        attributes: Attributes,
    ) -> Vec<Name> {
        let key = if part.is_empty() { owner.key.clone() } else { format!("{}/{part}", owner.key) };
        let names: Vec<Name> = (0..outputs)
            .map(|output| self.unique(if output == 0 { key.clone() } else { format!("{key}:{output}") }))
            .collect();
        if self.graph.nodes.len() >= MAX_NODES {
            if !self.over_budget {
                let message =
                    format!("the model becomes more than {MAX_NODES} nodes: shared models inside each other?");
                self.report(Diagnostic::new(Code::TooManyNodes, message), None, owner.span);
            }
            self.over_budget = true;
            return names;
        }
        let span = owner.span;
        let attributes = attributes.into_iter().map(|(name, value)| AttributeDef { name: name.into(), value, span });
        let (scope, name) = if part.is_empty() {
            (owner.scope.clone(), owner.name.clone())
        } else {
            let scope =
                if owner.scope.is_empty() { owner.name.clone() } else { format!("{}/{}", owner.scope, owner.name) };
            (scope, part.to_owned())
        };
        self.graph.nodes.push(NodeDef {
            name: key.into(),
            op_type: op.into(),
            domain: domain.into(),
            inputs,
            outputs: names.clone(),
            attributes: attributes.collect(),
            metadata: vec![
                (SCOPE.into(), scope.into()),
                (LAYER_NAME.into(), name.into()),
                (LAYER_CLASS.into(), owner.class.as_str().into()),
            ],
            span,
            ..NodeDef::default()
        });
        names
    }

    /// Adds a node of which nothing is known.
    pub(super) fn opaque(&mut self, owner: &Owner, inputs: Vec<Name>, outputs: usize) -> Vec<Name> {
        let names = self.node(owner, "", [KERAS, OPAQUE], inputs, outputs, Vec::new());
        self.opaque.extend(names.iter().cloned());
        names
    }

    /// What the file says of the shape of a tensor.
    pub(super) fn record(&mut self, tensor: &Name, ty: TensorTypeDef) {
        self.recorded.entry(tensor.clone()).or_insert(ty);
    }

    /// What a layer was built for, where nothing is known of what it reads.
    pub(super) fn record_built(&mut self, tensor: &Name, dims: Vec<DimDef>) {
        if self.opaque.contains(tensor) {
            self.record(tensor, TensorTypeDef { element: None, shape: Some(dims) });
        }
    }

    /// The graph, with recorded shapes as declarations. The types of most tensors follow from policies.
    pub(super) fn finish(&mut self) -> GraphDef {
        let mut graph = std::mem::take(&mut self.graph);
        let made: Vec<Name> = graph.nodes.iter().flat_map(|node| &node.outputs).cloned().collect();
        for name in made {
            let Some(mut ty) = self.recorded.remove(&name) else { continue };
            ty.element = match self.opaque.contains(&name) {
                true => ty.element.or(Some(ElementType::Float)),
                false => None,
            };
            graph.value_info.push(ValueInfo { name, ty: Some(TypeDef::Tensor(ty)), span: Span::default() });
        }
        graph
    }
}

/// A dim of the file: `None` at the first place is the batch.
pub(super) fn dim_def(axis: usize, dim: Option<i64>) -> DimDef {
    match dim {
        Some(number) => DimDef::Value(number),
        None if axis == 0 => DimDef::Param(BATCH.into()),
        None => DimDef::Unknown,
    }
}

/// An element type by its name in Keras.
pub(super) fn element_of(name: &str) -> Option<ElementType> {
    Some(match name {
        "float32" => ElementType::Float,
        "float16" => ElementType::Float16,
        "bfloat16" => ElementType::Bfloat16,
        "float64" => ElementType::Double,
        "int8" => ElementType::Int8,
        "uint8" => ElementType::Uint8,
        "int16" => ElementType::Int16,
        "uint16" => ElementType::Uint16,
        "int32" => ElementType::Int32,
        "uint32" => ElementType::Uint32,
        "int64" => ElementType::Int64,
        "uint64" => ElementType::Uint64,
        "bool" => ElementType::Bool,
        "string" => ElementType::String,
        "complex64" => ElementType::Complex64,
        "complex128" => ElementType::Complex128,
        _ => return None,
    })
}

pub(super) fn int(value: i64) -> AttributeValue {
    AttributeValue::Int(value)
}

pub(super) fn flag(value: bool) -> AttributeValue {
    AttributeValue::Int(i64::from(value))
}

pub(super) fn ints(values: impl Into<Vec<i64>>) -> AttributeValue {
    AttributeValue::Ints(values.into())
}

pub(super) fn text(value: &str) -> AttributeValue {
    AttributeValue::String(value.as_bytes().to_vec().into())
}

pub(super) fn texts<T: AsRef<str>>(values: impl IntoIterator<Item = T>) -> AttributeValue {
    AttributeValue::Strings(values.into_iter().map(|value| value.as_ref().as_bytes().to_vec().into()).collect())
}
