//! Shape, type and value of every tensor. Shapes feed values (`Shape`) and values feed shapes (`Reshape`), so both are
//! followed in one walk in running order; subgraphs are walked when their node asks for it.

use petgraph::stable_graph::NodeIndex;

use super::bind::{Bound, declared_fact};
use crate::diagnostics::{Code, Diagnostic};
use crate::frontend::onnx::model::{DimDef, TensorTypeDef, TypeDef};
use crate::ir::dim::{Dim, Symbol, SymbolKind};
use crate::ir::fact::{Fact, Scalar, TensorFact, VALUE_LIMIT, Value};
use crate::ir::graph::{GraphId, Holder, Node, Origin, Program, Stored, TensorId};
use crate::ir::hash::{HashMap, HashSet};
use crate::ir::place::Place;
use crate::ir::shape::Shape;
use crate::ops::{Fault, Host, InferCx, Repeats};

/// What became of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its outputs follow from its rule.
    Inferred,
    /// It has no rule; its outputs are as the file declares them, if it does.
    Declared,
    /// It cannot run; its outputs are unknown.
    Faulty,
}

/// What is known after the walk.
#[derive(Debug, Default)]
pub struct Inference {
    /// Facts by tensor.
    pub facts: Vec<Fact>,
    /// What became of each node; nodes that were never reached are missing.
    pub outcomes: HashMap<(GraphId, NodeIndex), Outcome>,
    /// How often each subgraph runs for each run of its node.
    pub repeats: HashMap<GraphId, Repeats>,
    /// Findings.
    pub diagnostics: Vec<Diagnostic>,
}

impl Inference {
    /// What is known of a tensor.
    #[must_use]
    pub fn fact(&self, tensor: TensorId) -> &Fact {
        self.facts.get(tensor.0 as usize).unwrap_or(&Fact::Unknown)
    }
}

/// Visits of nodes that are allowed beyond a few for each node.
const VISITS: usize = 200_000;

/// Most elements that a tensor may have: more bytes than any address space.
const MAX_ELEMENTS: i128 = 1 << 63;

/// Infers all of a program.
#[must_use]
pub fn infer(program: &Program, bound: &Bound) -> Inference {
    let mut engine = Engine {
        program,
        inference: Inference { facts: vec![Fact::Unknown; program.tensors.len()], ..Inference::default() },
        reported: HashSet::default(),
        resized: bound.resized,
        too_large: false,
        budget: VISITS + 4 * program.node_count,
        values: &bound.values,
    };
    for stored in &program.stored {
        engine.set(stored.tensor, stored_fact(stored));
    }
    for (tensor, fact) in &bound.facts {
        engine.check_size(*tensor, fact, None);
        engine.set(*tensor, fact.clone());
    }
    engine.walk(GraphId(0));
    engine.inference
}

/// The fact of a stored tensor; values of up to [`VALUE_LIMIT`] integers and of fewer reals are read.
#[must_use]
pub fn stored_fact(stored: &Stored) -> Fact {
    const REALS: usize = 4096;
    let def = &stored.def;
    let shape: Option<Shape> = def.dims.iter().map(|&dim| (dim >= 0).then(|| Dim::from(dim))).collect();
    let Some(shape) = shape else { return Fact::tensor(def.element, None) };
    if stored.holder == Holder::Sparse {
        return Fact::tensor(def.element, shape);
    }
    let elements = match def.element {
        Some(element) if element.is_real() => {
            def.reals(REALS).map(|reals| reals.into_iter().map(Scalar::Real).collect())
        }
        Some(_) => def
            .integers(VALUE_LIMIT)
            .map(|integers| integers.into_iter().map(|value| Scalar::Integer(Dim::from(value))).collect()),
        None => None,
    };
    match elements {
        Some(elements) => TensorFact::with_elements(def.element, shape, elements).into(),
        None => Fact::tensor(def.element, shape),
    }
}

struct Engine<'a> {
    program: &'a Program,
    inference: Inference,
    /// What was said already: bodies of loops are walked several times.
    reported: HashSet<(Option<Place>, Code, String)>,
    resized: bool,
    /// Whether a tensor of absurd size was reported; what is computed from it is not worth a word.
    too_large: bool,
    /// Nodes that may still be visited: bodies of nested loops are walked again and again.
    budget: usize,
    values: &'a std::collections::BTreeMap<String, Dim>,
}

impl<'a> Engine<'a> {
    fn set(&mut self, tensor: TensorId, fact: Fact) {
        if let Some(slot) = self.inference.facts.get_mut(tensor.0 as usize) {
            *slot = fact;
        }
    }

    fn walk(&mut self, id: GraphId) {
        let Some(graph) = self.program.graph(id) else { return };
        for (index, node) in graph.nodes() {
            if self.budget == 0 {
                return;
            }
            self.budget -= 1;
            let outcome = self.node(node);
            self.inference.outcomes.insert((id, index), outcome);
        }
    }

    fn node(&mut self, node: &'a Node) -> Outcome {
        let Some(operator) = &node.operator else {
            return self.declared_only(node);
        };
        let inputs: Vec<Option<Fact>> =
            node.inputs.iter().map(|input| input.map(|tensor| self.inference.fact(tensor).clone())).collect();
        let given: Vec<Option<&Fact>> = inputs.iter().map(Option::as_ref).collect();
        let outputs = node.outputs.len();
        let mut host = NodeHost { engine: self, node };
        let result = operator.infer(&mut InferCx::new(&given, outputs, &mut host));
        match result {
            Ok(facts) => {
                let mut facts = facts.into_iter();
                for output in &node.outputs {
                    let fact = facts.next().unwrap_or_default();
                    let Some(tensor) = *output else { continue };
                    let fact = self.reconcile(tensor, fact, node);
                    self.check_size(tensor, &fact, Some(node.place));
                    self.set(tensor, fact);
                }
                Outcome::Inferred
            }
            Err(fault) => {
                self.report(fault_text(node, fault), Some(node.place));
                for tensor in node.outputs.iter().flatten() {
                    self.set(*tensor, Fact::Unknown);
                }
                Outcome::Faulty
            }
        }
    }

    fn declared_only(&mut self, node: &Node) -> Outcome {
        for output in &node.outputs {
            let Some(tensor) = *output else { continue };
            let Some(ty) = self.program.tensor(tensor).and_then(|tensor| tensor.declared.as_ref()) else { continue };
            let fact = self.believe(ty, tensor);
            self.set(tensor, fact);
        }
        Outcome::Declared
    }

    /// The declared type of a tensor that no rule gives.
    fn believe(&self, ty: &TypeDef, tensor: TensorId) -> Fact {
        let TypeDef::Tensor(TensorTypeDef { element, shape: Some(dims) }) = ty else { return declared_fact(ty) };
        let path = self.program.tensor(tensor).map(crate::ir::graph::Tensor::path).unwrap_or_default();
        let dims = dims.iter().enumerate().map(|(axis, dim)| self.believe_dim(dim, &path, axis)).collect();
        Fact::tensor(*element, Shape::new(dims))
    }

    fn believe_dim(&self, dim: &DimDef, path: &str, axis: usize) -> Dim {
        match dim {
            DimDef::Value(value) if *value >= 0 => Dim::from(*value),
            DimDef::Param(name) => match self.values.get(&**name) {
                Some(value) => value.clone(),
                None => Dim::from(&Symbol::new(name, self.kind_of(name), 1, None)),
            },
            _ => Dim::from(&Symbol::new(&format!("{path}.{axis}"), SymbolKind::Opaque, 0, None)),
        }
    }

    /// A declared name means the input's dim where an input has it; any other is a name of its own.
    fn kind_of(&self, name: &str) -> SymbolKind {
        let main = self.program.graphs.first();
        let is_input = main.is_some_and(|main| {
            main.inputs.iter().any(|&input| {
                let mut found = false;
                if let Some(shape) = self.inference.fact(input).as_tensor().and_then(|tensor| tensor.shape.as_ref()) {
                    for dim in shape.dims() {
                        dim.for_each_symbol(&mut |symbol| found |= symbol.name() == name);
                    }
                }
                found
            })
        });
        if is_input { SymbolKind::Free } else { SymbolKind::Opaque }
    }

    /// Joins what a rule gives with what the file declares: the rule wins, the declaration fills gaps.
    fn reconcile(&mut self, tensor: TensorId, fact: Fact, node: &Node) -> Fact {
        let Some(ty) = self.program.tensor(tensor).and_then(|tensor| tensor.declared.as_ref()) else { return fact };
        match (fact, ty) {
            (Fact::Unknown, _) if !self.resized => self.believe(ty, tensor),
            (Fact::Tensor(fact), TypeDef::Tensor(declared)) => {
                Fact::Tensor(self.reconcile_tensor(tensor, fact, declared, node))
            }
            (fact, _) => fact,
        }
    }

    fn reconcile_tensor(
        &mut self,
        tensor: TensorId,
        mut fact: TensorFact,
        declared: &TensorTypeDef,
        node: &Node,
    ) -> TensorFact {
        fact.element = fact.element.or(declared.element);
        if let (Some(inferred), Some(declared)) = (fact.element, declared.element)
            && inferred != declared
        {
            let message = format!("the file declares tensor {:?} as {declared}, it is {inferred}", self.name(tensor));
            self.report(Diagnostic::new(Code::DeclaredShapeWrong, message), Some(node.place));
        }
        let Some(dims) = &declared.shape else { return fact };
        if self.resized {
            return fact;
        }
        let Some(shape) = &mut fact.shape else {
            let path = self.program.tensor(tensor).map(crate::ir::graph::Tensor::path).unwrap_or_default();
            fact.shape = Some(dims.iter().enumerate().map(|(axis, dim)| self.believe_dim(dim, &path, axis)).collect());
            return fact;
        };
        if shape.rank() != dims.len() {
            let message = format!(
                "the file declares rank {} for tensor {:?}, it has {}: {shape}",
                dims.len(),
                self.name(tensor),
                shape.rank()
            );
            self.report(
                Diagnostic::new(Code::DeclaredShapeWrong, message).note("the computed shape is used".to_owned()),
                Some(node.place),
            );
            return fact;
        }
        let mut wrong = false;
        for (dim, declared) in shape.dims_mut().iter_mut().zip(dims) {
            let DimDef::Value(value) = *declared else { continue };
            if value < 0 {
                continue;
            }
            match dim.as_const() {
                Some(number) => wrong |= number != i128::from(value),
                // Nothing is known of an opaque dim; the file may know.
                None if dim
                    .as_symbol()
                    .is_some_and(|symbol| symbol.kind() == SymbolKind::Opaque && symbol.hi().is_none()) =>
                {
                    *dim = Dim::from(value)
                }
                None => {}
            }
        }
        if wrong {
            let declared: Vec<_> = dims.iter().map(dim_text).collect();
            let message = format!(
                "the file declares tensor {:?} as {}, node {:?} gives {}",
                self.name(tensor),
                declared.join("×"),
                &*node.key,
                fact.shape.as_ref().map(Shape::to_string).unwrap_or_default(),
            );
            self.report(
                Diagnostic::new(Code::DeclaredShapeWrong, message).note("the computed shape is used".to_owned()),
                Some(node.place),
            );
        }
        fact
    }

    fn name(&self, tensor: TensorId) -> String {
        self.program.tensor(tensor).map(|tensor| tensor.name.to_string()).unwrap_or_default()
    }

    fn check_size(&mut self, tensor: TensorId, fact: &Fact, place: Option<Place>) {
        let Some(shape) = fact.as_tensor().and_then(|tensor| tensor.shape.as_ref()) else { return };
        // Free dims count with the least that they can be.
        let least = |dim: &Dim| dim.as_const().or_else(|| dim.range().0).unwrap_or(0).max(0);
        let elements = shape.dims().iter().map(least).try_fold(1_i128, |product, dim| match dim {
            0 => None,
            dim => Some(product.saturating_mul(dim)),
        });
        let Some(elements) = elements else { return };
        if elements > MAX_ELEMENTS && !self.too_large {
            self.too_large = true;
            let size = super::payloads::magnitude(u128::try_from(elements).unwrap_or(u128::MAX));
            let message = format!("tensor {:?} would have {size} elements: {shape}", self.name(tensor));
            self.report(Diagnostic::new(Code::TensorTooLarge, message), place);
        }
    }

    fn report(&mut self, mut diagnostic: Diagnostic, place: Option<Place>) {
        if self.reported.insert((place, diagnostic.code, diagnostic.message.clone())) {
            diagnostic.places.extend(place);
            self.inference.diagnostics.push(diagnostic);
        }
    }
}

fn fault_text(node: &Node, fault: Fault) -> Diagnostic {
    let what = match &node.class {
        Some(class) => format!("layer {:?} ({class})", &*node.key),
        None => format!("node {:?} ({})", &*node.key, node.op),
    };
    let mut diagnostic = Diagnostic::new(fault.code, format!("{what}: {}", fault.message));
    diagnostic.help = fault.help;
    diagnostic
}

fn dim_text(dim: &DimDef) -> String {
    match dim {
        DimDef::Value(value) => value.to_string(),
        DimDef::Param(name) => name.to_string(),
        DimDef::Unknown => "?".to_owned(),
    }
}

/// What one node may ask of the engine.
struct NodeHost<'e, 'a> {
    engine: &'e mut Engine<'a>,
    node: &'a Node,
}

impl Host for NodeHost<'_, '_> {
    fn fresh_dim(&mut self, output: usize, axis: usize, lo: i128, hi: Option<Dim>) -> Dim {
        let tensor =
            self.node.outputs.get(output).copied().flatten().and_then(|tensor| self.engine.program.tensor(tensor));
        let name = tensor.map_or_else(|| format!("{}:{output}", self.node.key), crate::ir::graph::Tensor::path);
        let kind = if hi.is_some() { SymbolKind::Data } else { SymbolKind::Opaque };
        Dim::from(&Symbol::new(&format!("{name}.{axis}"), kind, lo, hi))
    }

    fn remark(&mut self, fault: Fault) {
        let diagnostic = fault_text(self.node, fault);
        self.engine.report(diagnostic, Some(self.node.place));
    }

    fn infer_child(&mut self, child: usize, inputs: &[Fact]) -> Vec<Fact> {
        let Some(&id) = self.node.children.get(child) else { return Vec::new() };
        let program = self.engine.program;
        let Some(graph) = program.graph(id) else { return Vec::new() };
        for (index, &input) in graph.inputs.iter().enumerate() {
            let fact = inputs.get(index).cloned().unwrap_or_else(|| {
                let declared = program.tensor(input).and_then(|tensor| tensor.declared.as_ref());
                declared.map_or(Fact::Unknown, |ty| self.engine.believe(ty, input))
            });
            self.engine.set(input, fact);
        }
        self.engine.walk(id);
        if self.engine.budget == 0 {
            let message = "loops are nested so deeply that their sizes are not followed to the end".to_owned();
            self.engine.report(Diagnostic::new(Code::UnknownShape, message), Some(self.node.place));
            return vec![Fact::Unknown; graph.outputs.len()];
        }
        let outputs = graph.outputs.iter();
        outputs
            .map(|output| output.map_or(Fact::Unknown, |tensor| self.engine.inference.fact(tensor).clone()))
            .collect()
    }

    fn set_repeats(&mut self, child: usize, repeats: Repeats) {
        if let Some(&id) = self.node.children.get(child) {
            self.engine.inference.repeats.insert(id, repeats);
        }
    }

    fn shape_stored(&mut self, input: usize, shape: &Shape) -> Result<(), Fault> {
        let Some(tensor) = self.node.inputs.get(input).copied().flatten() else { return Ok(()) };
        if !is_stored(self.engine.program, tensor) {
            return Ok(());
        }
        let Fact::Tensor(known) = self.engine.inference.fact(tensor) else { return Ok(()) };
        match &known.shape {
            Some(known) if known == shape => Ok(()),
            Some(known) => Err(Fault::shape(format!(
                "weight {:?} is {known} where it was first used; this input asks for {shape}",
                self.engine.name(tensor)
            ))),
            None => {
                let fact = Fact::tensor(known.element, shape.clone());
                self.engine.check_size(tensor, &fact, Some(self.node.place));
                self.engine.set(tensor, fact);
                Ok(())
            }
        }
    }
}

/// Gives stored tensors, whose file does not say it, the shapes that the nodes which read them ask for.
pub fn shape_stored(program: &mut Program, inference: &Inference) {
    for stored in program.stored.iter_mut().filter(|stored| stored.def.is_unshaped()) {
        let shape = inference.fact(stored.tensor).as_tensor().and_then(|tensor| tensor.shape.as_ref());
        let dims = shape.and_then(Shape::as_const);
        let dims = dims.and_then(|dims| dims.into_iter().map(|dim| i64::try_from(dim).ok()).collect::<Option<_>>());
        if let Some(dims) = dims {
            stored.def.dims = dims;
        }
    }
}

/// Whether every element of a tensor is known.
#[must_use]
pub fn is_folded(fact: &Fact) -> bool {
    let Some(value) = fact.as_tensor().and_then(|tensor| tensor.value.as_ref()) else { return false };
    match &**value {
        Value::Each(elements) => !elements.contains(&Scalar::Unknown),
        Value::Uniform(scalar) => *scalar != Scalar::Unknown,
    }
}

/// Whether the tensor stands in the file.
#[must_use]
pub fn is_stored(program: &Program, tensor: TensorId) -> bool {
    matches!(program.tensor(tensor).map(|tensor| tensor.origin), Some(Origin::Stored(_)))
}
