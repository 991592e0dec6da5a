//! Runs one operator rule in a unit test.

use crate::frontend::onnx::model::{AttributeDef, AttributeValue, NodeDef};
use crate::ir::dim::{Dim, Symbol, SymbolKind};
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar, TensorFact};
use crate::ir::shape::Shape;
use crate::ops::{Cost, CostCx, Fault, Host, InferCx, NodeView, Repeats, table};

/// A node under test: `op("Conv").int("group", 2).run(&[x, w])`.
pub(crate) struct TestNode {
    node: NodeDef,
    opset: i64,
    outputs: usize,
}

/// A node of the standard domain, opset 21, one output.
pub(crate) fn op(name: &str) -> TestNode {
    TestNode { node: NodeDef { op_type: name.into(), ..NodeDef::default() }, opset: 21, outputs: 1 }
}

/// A `float` tensor of constant dims.
pub(crate) fn float(dims: &[i128]) -> Fact {
    typed(ElementType::Float, dims)
}

/// A tensor of constant dims.
pub(crate) fn typed(element: ElementType, dims: &[i128]) -> Fact {
    Fact::tensor(element, shape(dims))
}

/// A shape of constant dims.
pub(crate) fn shape(dims: &[i128]) -> Shape {
    dims.iter().copied().map(Dim::constant).collect()
}

/// A free symbol, at least 1.
pub(crate) fn free(name: &str) -> Dim {
    Dim::from(&Symbol::new(name, SymbolKind::Free, 1, None))
}

/// An `int64` vector of known elements.
pub(crate) fn ints(elements: &[i128]) -> Fact {
    TensorFact::vector(elements.iter().copied().map(Dim::constant).collect()).into()
}

/// A `float` vector of known elements.
pub(crate) fn reals(elements: &[f64]) -> Fact {
    let shape = shape(&[elements.len() as i128]);
    let elements = elements.iter().copied().map(Scalar::Real).collect();
    TensorFact::with_elements(Some(ElementType::Float), shape, elements).into()
}

/// The dims of a fact as text: `2×N×3`, `?` when unknown.
pub(crate) fn dims(fact: &Fact) -> String {
    match fact.as_tensor().and_then(|tensor| tensor.shape.as_ref()) {
        Some(shape) => shape.to_string(),
        None => "?".into(),
    }
}

impl TestNode {
    pub(crate) fn opset(mut self, version: i64) -> Self {
        self.opset = version;
        self
    }

    pub(crate) fn domain(mut self, domain: &str) -> Self {
        self.node.domain = domain.into();
        self
    }

    pub(crate) fn outputs(mut self, count: usize) -> Self {
        self.outputs = count;
        self
    }

    pub(crate) fn attribute(mut self, name: &str, value: AttributeValue) -> Self {
        self.node.attributes.push(AttributeDef { name: name.into(), value, span: Default::default() });
        self
    }

    pub(crate) fn int(self, name: &str, value: i64) -> Self {
        self.attribute(name, AttributeValue::Int(value))
    }

    pub(crate) fn ints(self, name: &str, values: &[i64]) -> Self {
        self.attribute(name, AttributeValue::Ints(values.to_vec()))
    }

    pub(crate) fn string(self, name: &str, value: &str) -> Self {
        self.attribute(name, AttributeValue::String(value.as_bytes().to_vec().into()))
    }

    /// Facts of the outputs and the remarks.
    pub(crate) fn run_optional(mut self, inputs: &[Option<Fact>]) -> Result<Findings, Fault> {
        let given = |input: &Option<Fact>| if input.is_some() { "x".into() } else { "".into() };
        self.node.inputs = inputs.iter().map(given).collect();
        self.node.outputs = (0..self.outputs).map(|index| format!("y{index}").into()).collect();
        let entry = table::find(&self.node.domain, &self.node.op_type).expect("an operator of the table");
        let operator = (entry.build)(&NodeView::new(&self.node, self.opset))?;
        let inputs: Vec<_> = inputs.iter().map(Option::as_ref).collect();
        let mut host = TestHost::default();
        let facts = operator.infer(&mut InferCx::new(&inputs, self.outputs, &mut host))?;
        let outputs: Vec<_> = facts.iter().map(Some).collect();
        let gradients: Vec<_> = inputs.iter().map(|input| input.is_some()).collect();
        let cost = operator.cost(&CostCx::new(&inputs, &outputs, &gradients));
        Ok((facts, host.remarks, cost))
    }

    /// Facts of the outputs, all inputs given.
    pub(crate) fn run(self, inputs: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let inputs: Vec<_> = inputs.iter().cloned().map(Some).collect();
        Ok(self.run_optional(&inputs)?.0)
    }

    /// The dims of the first output as text.
    pub(crate) fn dims(self, inputs: &[Fact]) -> String {
        match self.run(inputs) {
            Ok(facts) => facts.first().map_or_else(|| "?".into(), dims),
            Err(fault) => format!("{}: {}", fault.code, fault.message),
        }
    }

    /// The cost where every input needs a gradient.
    pub(crate) fn cost(self, inputs: &[Fact]) -> Cost {
        let inputs: Vec<_> = inputs.iter().cloned().map(Some).collect();
        self.run_optional(&inputs).expect("a node without fault").2.expect("a known cost")
    }
}

/// Facts of the outputs, remarks, and the cost where it is known.
pub(crate) type Findings = (Vec<Fact>, Vec<Fault>, Option<Cost>);

#[derive(Default)]
struct TestHost {
    remarks: Vec<Fault>,
}

impl Host for TestHost {
    fn fresh_dim(&mut self, output: usize, axis: usize, lo: i128, hi: Option<Dim>) -> Dim {
        Dim::from(&Symbol::new(&format!("y{output}.{axis}"), SymbolKind::Data, lo, hi))
    }

    fn remark(&mut self, fault: Fault) {
        self.remarks.push(fault);
    }

    fn infer_child(&mut self, _child: usize, _inputs: &[Fact]) -> Vec<Fact> {
        Vec::new()
    }

    fn set_repeats(&mut self, _child: usize, _repeats: Repeats) {}
}
