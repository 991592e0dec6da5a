//! Runs one operator rule in a unit test.

use crate::frontend::onnx::model::{AttributeDef, AttributeValue, NodeDef};
use crate::ir::dim::{Dim, Symbol, SymbolKind};
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar, TensorFact};
use crate::ir::shape::Shape;
use crate::ops::work::Sized;
use crate::ops::{
    Cost, CostCx, Family, Fault, Gradient, Host, InferCx, NodeView, Repeats, Saved, Work, WorkCx, backward, table,
};

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

/// A node of `com.microsoft`.
pub(crate) fn microsoft(name: &str) -> TestNode {
    op(name).domain("com.microsoft")
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

    /// Work, kept tensors and backward work where these inputs need a gradient; the items sum to what is counted.
    pub(crate) fn priced(self, inputs: &[Fact], needs: &[usize]) -> Priced {
        let inputs: Vec<_> = inputs.iter().cloned().map(Some).collect();
        self.priced_optional(&inputs, needs)
    }

    /// The same where inputs may be left out.
    pub(crate) fn priced_optional(mut self, inputs: &[Option<Fact>], needs: &[usize]) -> Priced {
        let operator = self.build(inputs).expect("an operator");
        let inputs: Vec<_> = inputs.iter().map(Option::as_ref).collect();
        let facts = operator.infer(&mut InferCx::new(&inputs, self.outputs, &mut TestHost::default()));
        let facts = facts.expect("a node without fault");
        let outputs: Vec<_> = facts.iter().take(self.outputs).map(Some).collect();
        let needs_gradient: Vec<_> = (0..inputs.len()).map(|input| needs.contains(&input)).collect();
        let cost = operator.cost(&CostCx::new(&inputs, &outputs, &needs_gradient)).expect("a known cost");
        let [flops, bytes_read, bytes_written, backward_flops] = totals(&cost, &|_| None).expect("numbers");
        let (inputs, outputs) = (Numbers::of(&inputs, &|_| None), Numbers::of(&outputs, &|_| None));
        let cx = WorkCx {
            inputs: &inputs.sized(),
            outputs: &outputs.sized(),
            needs_gradient: &needs_gradient,
            flops,
            bytes_read,
            bytes_written,
            backward_flops,
        };
        let (works, saved) = (operator.work(&cx), operator.saved(&cx));
        if !works.is_empty() {
            let sum = |part: fn(&Work) -> f64| works.iter().map(part).sum::<f64>();
            let sums = [sum(|work| work.flops), sum(|work| work.bytes_read), sum(|work| work.bytes_written)];
            assert_eq!(sums, [flops, bytes_read, bytes_written], "{works:?}");
        }
        Priced { backward: backward(&works, &cx, &saved), works, saved }
    }

    fn build(&mut self, inputs: &[Option<Fact>]) -> table::Built {
        let given = |input: &Option<Fact>| if input.is_some() { "x".into() } else { "".into() };
        self.node.inputs = inputs.iter().map(given).collect();
        self.node.outputs = (0..self.outputs).map(|index| format!("y{index}").into()).collect();
        let entry = table::find(&self.node.domain, &self.node.op_type).expect("an operator of the table");
        (entry.build)(&NodeView::new(&self.node, self.opset))
    }

    /// Facts of the outputs and the remarks.
    pub(crate) fn run_optional(mut self, inputs: &[Option<Fact>]) -> Result<Findings, Fault> {
        let operator = self.build(inputs)?;
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

/// What a node does, keeps and does backward.
pub(crate) struct Priced {
    pub(crate) works: Vec<Work>,
    pub(crate) saved: Saved,
    pub(crate) backward: Vec<(Work, Gradient)>,
}

impl Priced {
    /// Families, forward.
    pub(crate) fn families(&self) -> Vec<Family> {
        self.works.iter().map(|work| work.family).collect()
    }

    /// The only family, forward.
    pub(crate) fn family(&self) -> Family {
        assert_eq!(self.works.len(), 1, "{:?}", self.works);
        self.works[0].family
    }

    /// Families and gradients, backward.
    pub(crate) fn gradients(&self) -> Vec<(Family, Gradient)> {
        self.backward.iter().map(|(work, gradient)| (work.family, *gradient)).collect()
    }
}

/// Dims and element types of facts as numbers.
pub(crate) struct Numbers(pub(crate) Vec<Option<(Vec<u64>, ElementType)>>);

impl Numbers {
    /// Of tensors of known type and rank whose dims have numbers under `lookup`.
    pub(crate) fn of(facts: &[Option<&Fact>], lookup: &dyn Fn(&Symbol) -> Option<i128>) -> Self {
        let numbers = |fact: &Fact| {
            let tensor = fact.as_tensor()?;
            let dims = tensor.shape.as_ref()?.dims().iter();
            let dims: Option<Vec<u64>> =
                dims.map(|dim| Some(dim.eval(lookup)?.clamp(0, i128::from(u64::MAX)) as u64)).collect();
            Some((dims?, tensor.element?))
        };
        Self(facts.iter().map(|fact| fact.and_then(numbers)).collect())
    }

    pub(crate) fn sized(&self) -> Vec<Option<Sized<'_>>> {
        let sized = self.0.iter().map(Option::as_ref);
        sized.map(|numbers| numbers.map(|(dims, element)| Sized { dims, element: *element })).collect()
    }
}

/// The numbers of a cost: FLOPs, bytes read and written, FLOPs backward.
pub(crate) fn totals(cost: &Cost, lookup: &dyn Fn(&Symbol) -> Option<i128>) -> Option<[f64; 4]> {
    let dims = [&cost.flops, &cost.bytes_read, &cost.bytes_written, &cost.backward_flops];
    let numbers: Option<Vec<f64>> = dims.iter().map(|dim| Some(dim.eval(lookup)?.max(0) as f64)).collect();
    numbers?.try_into().ok()
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
