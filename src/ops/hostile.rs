//! Every operator of the table meets nodes that make no sense: random ranks, dims, values and attributes.
//! It may find fault with them, but not panic, and what it answers keeps the rules of facts.

use crate::frontend::onnx::model::{AttributeDef, AttributeValue, NodeDef};
use crate::ir::dim::{Dim, Symbol, SymbolKind};
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar, TensorFact, Value};
use crate::ir::shape::Shape;
use crate::ops::keras;
use crate::ops::table::{ENTRIES, Entry};
use crate::ops::testing::{Numbers as Numbered, totals};
use crate::ops::{CostCx, Fault, Host, InferCx, NodeView, Operator, Repeats, Saved, Work, WorkCx, backward};

/// A small generator of numbers that are the same on every machine.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.next(from.len())].clone()
    }

    fn integer(&mut self) -> i64 {
        self.pick(&[0, 1, 1, 2, 3, 4, -1, -1, -2, 5, 7, 64, i64::MAX, i64::MIN, i64::from(i32::MAX), -1_000_000])
    }

    fn real(&mut self) -> f64 {
        self.pick(&[0.0, 1.0, 0.5, -1.0, 2.0, 0.7, 1e30, -1e-30, f64::NAN, f64::INFINITY, 3.0])
    }

    fn total(&mut self) -> f64 {
        self.pick(&[0.0, 0.0, 1.0, 7.5, 4096.0, 1e12, 1e38])
    }

    fn sizes(&mut self) -> Option<(Vec<u64>, ElementType)> {
        let element = self.pick(&[ElementType::Float, ElementType::Int64, ElementType::Bool, ElementType::String]);
        let dims = (0..self.next(6)).map(|_| self.pick(&[0, 1, 2, 3, 64, u64::MAX])).collect();
        (self.next(5) > 0).then_some((dims, element))
    }

    fn dim(&mut self) -> Dim {
        let symbol = |name: &str| Dim::from(&Symbol::new(name, SymbolKind::Free, 1, None));
        match self.next(12) {
            0 => Dim::ZERO,
            1 => symbol("N"),
            2 => symbol("M") * 2 - 1,
            3 => symbol("N").floor_div(&Dim::constant(2)),
            4 => Dim::constant(i128::from(i64::MAX)),
            5 => Dim::ONE,
            other => Dim::constant(other as i128 - 4),
        }
    }

    fn scalar(&mut self, element: ElementType) -> Scalar {
        match self.next(6) {
            0 => Scalar::Unknown,
            1 if element.is_real() => Scalar::Quotient(Dim::from(&Symbol::new("N", SymbolKind::Free, 1, None)), 3),
            1 | 2 if !element.is_real() => Scalar::Integer(self.dim()),
            _ if element.is_real() => Scalar::Real(self.real()),
            _ => Scalar::Integer(Dim::from(self.integer())),
        }
    }

    fn fact(&mut self) -> Fact {
        let element = self.pick(&[
            ElementType::Float,
            ElementType::Float,
            ElementType::Int64,
            ElementType::Int64,
            ElementType::Bool,
            ElementType::Float16,
            ElementType::String,
        ]);
        let rank = self.next(5);
        let shape: Shape = (0..rank).map(|_| self.dim()).collect();
        match self.next(8) {
            0 => Fact::Unknown,
            1 => Fact::tensor(element, None),
            2 | 3 => {
                let count = self.next(5);
                let shape = Shape::new(vec![Dim::from(count); usize::from(count != 1 || self.next(2) == 0)]);
                let elements = (0..count).map(|_| self.scalar(element)).collect();
                TensorFact::with_elements(Some(element), shape, elements).into()
            }
            4 => {
                let value = std::sync::Arc::new(Value::Uniform(self.scalar(element)));
                TensorFact { element: Some(element), shape: Some(shape), value: Some(value) }.into()
            }
            _ => Fact::tensor(element, shape),
        }
    }

    fn attribute(&mut self, name: &str) -> AttributeDef {
        let value = match name {
            "shape" | "axes" | "pads" | "paddings" | "perm" | "split" | "starts" | "ends" | "strides" | "dilations"
            | "kernel_shape" | "qkv_hidden_sizes" => {
                AttributeValue::Ints((0..self.next(5)).map(|_| self.integer()).collect())
            }
            "scales" => AttributeValue::Floats((0..self.next(5)).map(|_| self.real() as f32).collect()),
            "equation" => AttributeValue::String(self.pick(&["ij,jk", "...a,ab->...b", "a,ab,bc->c", "ii->i"]).into()),
            "mode" => AttributeValue::String(self.pick(&["linear", "nearest", "constant", "circular", "x"]).into()),
            _ => AttributeValue::Int(self.integer()),
        };
        AttributeDef { name: name.into(), value, span: Default::default() }
    }
}

struct Nobody;

impl Host for Nobody {
    fn fresh_dim(&mut self, output: usize, axis: usize, lo: i128, hi: Option<Dim>) -> Dim {
        Dim::from(&Symbol::new(&format!("y{output}.{axis}"), SymbolKind::Data, lo, hi))
    }

    fn remark(&mut self, _fault: Fault) {}

    fn infer_child(&mut self, _child: usize, _inputs: &[Fact]) -> Vec<Fact> {
        Vec::new()
    }

    fn set_repeats(&mut self, _child: usize, _repeats: Repeats) {}
}

const ATTRIBUTES: [&str; 34] = [
    "equation",
    "num_heads",
    "q_num_heads",
    "kv_num_heads",
    "qkv_hidden_sizes",
    "hidden_size",
    "num_groups",
    "K",
    "N",
    "block_size",
    "axis",
    "axes",
    "keepdims",
    "perm",
    "pads",
    "paddings",
    "shape",
    "split",
    "starts",
    "ends",
    "scales",
    "mode",
    "k",
    "to",
    "blocksize",
    "batch_dims",
    "num_outputs",
    "allowzero",
    "noop_with_empty_axes",
    "strides",
    "dilations",
    "kernel_shape",
    "group",
    "broadcast",
];

fn try_one(entry: &Entry, numbers: &mut Numbers) {
    let count = entry.min_inputs + numbers.next(entry.max_inputs.min(6).saturating_sub(entry.min_inputs) + 1);
    let facts: Vec<Option<Fact>> =
        (0..count).map(|input| (input < entry.min_inputs || numbers.next(4) > 0).then(|| numbers.fact())).collect();
    let outputs = 1 + numbers.next(entry.max_outputs.min(4));
    let mut node = NodeDef { op_type: entry.name.into(), domain: entry.domain.into(), ..NodeDef::default() };
    node.inputs = facts.iter().map(|fact| if fact.is_some() { "x".into() } else { "".into() }).collect();
    node.outputs = (0..outputs).map(|output| format!("y{output}").into()).collect();
    node.attributes = ATTRIBUTES
        .iter()
        .filter_map(|name| if numbers.next(3) == 0 { Some(numbers.attribute(name)) } else { None })
        .collect();
    let opset = numbers.pick(&[1, 6, 7, 9, 10, 11, 13, 18, 21, 24]);
    let Ok(operator) = (entry.build)(&NodeView::new(&node, opset)) else { return };
    // Work is asked for sizes that inference found; nonsense does no harm either.
    for _ in 0..4 {
        let tensors = [count, outputs].map(|count| Numbered((0..count).map(|_| numbers.sizes()).collect()));
        let needs: Vec<bool> = (0..count).map(|_| numbers.next(2) == 0).collect();
        let counted = [0; 4].map(|_| numbers.total());
        check_work(&*operator, tensors, &needs, counted);
    }
    let inputs: Vec<_> = facts.iter().map(Option::as_ref).collect();
    let Ok(found) = operator.infer(&mut InferCx::new(&inputs, outputs, &mut Nobody)) else { return };
    for tensor in found.iter().filter_map(Fact::as_tensor) {
        if let (Some(shape), Some(Value::Each(elements))) = (&tensor.shape, tensor.value.as_deref()) {
            assert_eq!(shape.elements().as_usize(), Some(elements.len()), "{} of {node:?}", entry.name);
        }
    }
    let found: Vec<_> = found.iter().map(Some).collect();
    let gradients = vec![true; inputs.len()];
    let cost = operator.cost(&CostCx::new(&inputs, &found, &gradients));
    if let Some(cost) = &cost {
        let flops = cost.flops.range();
        assert!(flops.1.is_none_or(|hi| hi >= 0), "{}: {flops:?} FLOPs of {node:?} {inputs:?}", entry.name);
    }
    let symbol = numbers.pick(&[0, 1, 5, i128::from(i64::MAX)]);
    let lookup = |_: &Symbol| Some(symbol);
    let counted = cost.and_then(|cost| totals(&cost, &lookup)).unwrap_or_else(|| [0; 4].map(|_| numbers.total()));
    let needs: Vec<bool> = inputs.iter().map(|_| numbers.next(2) == 0).collect();
    check_work(&*operator, [&inputs, &found].map(|facts| Numbered::of(facts, &lookup)), &needs, counted);
}

/// Work of a node is finite and not negative, and sums to what was counted.
fn check_work(operator: &dyn Operator, [inputs, outputs]: [Numbered; 2], needs: &[bool], counted: [f64; 4]) {
    let [flops, bytes_read, bytes_written, backward_flops] = counted;
    let (inputs, outputs) = (inputs.sized(), outputs.sized());
    let cx = WorkCx {
        inputs: &inputs,
        outputs: &outputs,
        needs_gradient: needs,
        flops,
        bytes_read,
        bytes_written,
        backward_flops,
    };
    let (works, saved) = (operator.work(&cx), operator.saved(&cx));
    operator.shares_storage(&cx);
    let backward = backward(&works, &cx, &saved);
    for item in works.iter().chain(backward.iter().map(|(item, _)| item)) {
        for number in [item.flops, item.bytes_read, item.bytes_written] {
            assert!(number.is_finite() && number >= 0.0, "{item:?} of {operator:?} for {cx:?}");
        }
    }
    if !needs.contains(&true) {
        assert!(backward.is_empty() && saved == Saved::NOTHING, "{operator:?} keeps {saved:?} for {cx:?}");
    }
    let sum = |part: fn(&Work) -> f64| works.iter().map(part).sum::<f64>();
    let sums = [sum(|work| work.flops), sum(|work| work.bytes_read), sum(|work| work.bytes_written)];
    let close = |(sum, counted): (&f64, f64)| (sum - counted).abs() <= counted * 1e-9;
    let complete = sums.iter().zip(counted).all(close);
    assert!(works.is_empty() || complete, "{works:?} of {operator:?} for {cx:?}");
}

#[test]
fn no_node_makes_a_rule_panic() {
    for (place, entry) in ENTRIES.iter().chain(keras::ENTRIES).enumerate() {
        let mut numbers = Numbers(place as u64 + 1);
        for _ in 0..ROUNDS {
            try_one(entry, &mut numbers);
        }
    }
}

/// Nodes for each operator.
const ROUNDS: usize = 100;
