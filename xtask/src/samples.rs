//! A call of each operator, for docs/operators.md: what its rule says of shape, cost, work and what the backward pass
//! keeps, on one example.

use std::collections::{BTreeMap, HashMap};

use dlcost::analysis::Analysis;
use dlcost::frontend::onnx_text::parse;
use dlcost::ir::element_type::ElementType;
use dlcost::ir::fact::Fact;
use dlcost::ir::graph::Node;
use dlcost::ops::table::Entry;
use dlcost::ops::work::Sized;
use dlcost::ops::{Cost, CostCx, Gradient, Saved, Work, WorkCx, backward};
use dlcost::passes::bind::Bindings;
use dlcost::passes::infer::Outcome;
use dlcost::report::stages::fact_text;

const TEXT: &str = include_str!("../operator_samples.txt");

/// Inputs of operators without a sample of their own, tried in this order.
const PLAIN: [&str; 6] = ["float[N,D]", "float[N,C,H,W]", "float[N,L,D]", "bool[N,D]", "int64[N]", "uint8[N,D]"];

/// What is said of an operator.
#[derive(Default)]
pub(crate) struct Example {
    /// The call with the types of inputs and outputs.
    pub(crate) call: String,
    pub(crate) macs: String,
    /// Operations beside the MACs.
    pub(crate) other: String,
    pub(crate) backward_flops: String,
    pub(crate) kept: String,
    pub(crate) forward: String,
    pub(crate) backward: String,
}

/// A call as the file writes it.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    attributes: &'static str,
    inputs: &'static str,
    outputs: usize,
}

/// Samples by operator.
pub(crate) fn samples() -> HashMap<&'static str, Sample> {
    let mut samples = HashMap::new();
    for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
        let Some((call, inputs)) = line.split_once(" :") else { continue };
        let (call, outputs) = call.split_once(" @").unwrap_or((call, "1"));
        let (name, attributes) = call.split_once(' ').unwrap_or((call, ""));
        let outputs = outputs.parse().unwrap_or(1);
        samples.insert(name, Sample { attributes, inputs: inputs.trim(), outputs });
    }
    samples
}

/// The name under which a sample stands.
fn key(entry: &Entry) -> String {
    if entry.domain.is_empty() { entry.name.to_owned() } else { format!("{}.{}", entry.domain, entry.name) }
}

/// An example of an operator; `None` where no call of it is known that can be inferred.
pub(crate) fn example(entry: &Entry, samples: &HashMap<&'static str, Sample>) -> Option<Example> {
    let key = key(entry);
    if let Some(Sample { attributes, inputs, outputs }) = samples.get(key.as_str()) {
        return run(entry, attributes, inputs, *outputs);
    }
    PLAIN.iter().find_map(|ty| {
        let letters = ["x", "y", "z", "u", "v", "w"];
        let inputs: Vec<_> = letters.iter().take(entry.min_inputs).map(|name| format!("{ty} {name}")).collect();
        run(entry, "", &inputs.join(", "), 1)
    })
}

/// The parts of a list that no bracket encloses.
fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_i32, 0, Vec::new());
    for (place, character) in list.char_indices() {
        match character {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list.get(start..place).unwrap_or_default().trim());
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(list.get(start..).unwrap_or_default().trim());
    parts
}

fn run(entry: &Entry, attributes: &str, inputs: &str, outputs: usize) -> Option<Example> {
    let parts = if inputs.is_empty() { Vec::new() } else { split(inputs) };
    let is_stored = |part: &&&str| part.contains(" = ");
    let name =
        |part: &str| part.split(" = ").next().and_then(|part| part.rsplit(' ').next()).unwrap_or_default().to_owned();
    let given: Vec<&str> = parts.iter().filter(|part| !part.is_empty() && !is_stored(part)).copied().collect();
    let stored: Vec<&str> = parts.iter().filter(is_stored).copied().collect();
    let names: Vec<_> = parts.iter().map(|part| if part.is_empty() { "\"\"".to_owned() } else { name(part) }).collect();
    let stored = if stored.is_empty() { String::new() } else { format!("<{}>", stored.join(", ")) };
    let results: Vec<_> =
        (0..outputs).map(|output| if output == 0 { "out".to_owned() } else { format!("out{output}") }).collect();
    let results = results.join(", ");
    let opset = if entry.withdrawn == i64::MAX { 24 } else { entry.withdrawn - 1 };
    let text = format!(
        r#"<ir_version: 10, opset_import: ["" : {opset}, "ai.onnx.ml" : 4, "ai.onnx.preview" : 1, "ai.onnx.preview.training" : 1, "com.microsoft" : 1, "com.microsoft.nchwc" : 1]>
g ({}) => ({results}) {stored} {{ {results} = {} {attributes} ({}) }}"#,
        given.join(", "),
        key(entry),
        names.join(", ")
    );
    let (model, errors) = parse(&text);
    if !errors.is_empty() {
        return None;
    }
    let analysis = Analysis::new(&model, Default::default(), &Bindings::default(), &|_| false);
    let (graph, index, node) = analysis.program.nodes().next()?;
    if analysis.inference.outcomes.get(&(graph, index)) != Some(&Outcome::Inferred) {
        return None;
    }
    let facts = |tensors: &[Option<_>]| -> Vec<Option<Fact>> {
        tensors.iter().map(|tensor| tensor.map(|tensor| analysis.inference.fact(tensor).clone())).collect()
    };
    let (inputs, outputs) = (facts(&node.inputs), facts(&node.outputs));
    let open = |fact: &Fact| match fact {
        Fact::Unknown => true,
        fact => fact.as_tensor().is_some_and(|tensor| tensor.shape.is_none()),
    };
    if outputs.iter().flatten().any(open) {
        return None;
    }
    describe(node, &names, &inputs, &outputs, attributes)
}

fn describe(
    node: &Node,
    names: &[String],
    inputs: &[Option<Fact>],
    outputs: &[Option<Fact>],
    attributes: &str,
) -> Option<Example> {
    let operator = node.operator.as_ref()?;
    let (ins, outs): (Vec<_>, Vec<_>) =
        (inputs.iter().map(Option::as_ref).collect(), outputs.iter().map(Option::as_ref).collect());
    let real = |fact: &Option<Fact>| {
        fact.as_ref().and_then(Fact::as_tensor).is_some_and(|tensor| tensor.element.is_some_and(ElementType::is_real))
    };
    let needs: Vec<bool> = inputs.iter().map(real).collect();
    let types: Vec<_> = inputs
        .iter()
        .zip(names)
        .map(|(fact, name)| fact.as_ref().map_or_else(String::new, |fact| format!("{name}: {}", fact_text(fact))))
        .collect();
    let results: Vec<_> = outputs.iter().flatten().map(fact_text).collect();
    let attributes = if attributes.is_empty() { String::new() } else { format!("`{attributes}` ") };
    let call = format!("{attributes}`{}` → `{}`", types.join(", "), results.join(", "));
    let Some(cost) = operator.cost(&CostCx::new(&ins, &outs, &needs)) else {
        return Some(Example { call, macs: "not known".to_owned(), ..Example::default() });
    };
    let other = &cost.flops - &(&cost.macs * 2);
    let (sized_in, sized_out) = (numbers(inputs), numbers(outputs));
    let cx = WorkCx {
        inputs: &sized(&sized_in),
        outputs: &sized(&sized_out),
        needs_gradient: &needs,
        flops: number(&cost.flops),
        bytes_read: number(&cost.bytes_read),
        bytes_written: number(&cost.bytes_written),
        backward_flops: number(&cost.backward_flops),
    };
    let (works, saved) = (operator.work(&cx), operator.saved(&cx));
    Some(Example {
        call,
        macs: cost.macs.to_string(),
        other: other.to_string(),
        backward_flops: cost.backward_flops.to_string(),
        kept: kept(&saved, names),
        forward: families(works.iter()),
        backward: passes(&cost, &works, &cx, &saved),
    })
}

fn passes(cost: &Cost, works: &[Work], cx: &WorkCx<'_>, saved: &Saved) -> String {
    let back = backward(works, cx, saved);
    if number(&cost.backward_flops) <= 0.0 && !cx.has_backward() {
        return String::new();
    }
    let of = |gradient: &Gradient| match gradient {
        Gradient::Weight => " (weight)",
        Gradient::Data | Gradient::All => "",
    };
    let mut names: Vec<_> =
        back.iter().map(|(work, gradient)| format!("{}{}", work.family.name(), of(gradient))).collect();
    names.dedup();
    names.join(", ")
}

fn families<'a>(works: impl Iterator<Item = &'a Work>) -> String {
    let mut names: Vec<_> = works.map(|work| work.family.name()).collect();
    names.dedup();
    names.join(", ")
}

fn kept(saved: &Saved, names: &[String]) -> String {
    let mut parts: Vec<String> = (0..64_usize)
        .filter(|bit| saved.inputs >> bit & 1 == 1)
        .filter_map(|bit| names.get(bit).filter(|name| *name != "\"\"").cloned())
        .collect();
    if saved.outputs & 1 == 1 {
        parts.push("out".to_owned());
    }
    if saved.extra_bytes > 0 {
        parts.push("beside".to_owned());
    }
    parts.join(", ")
}

/// A number for every symbol of a formula.
fn value(dim: &dlcost::ir::dim::Dim) -> Option<i128> {
    let free = BTreeMap::from([("H", 32), ("W", 32), ("P", 30), ("Q", 30), ("K", 16)]);
    dim.upper_bound().unwrap_or_else(|| dim.clone()).eval(&|symbol| Some(*free.get(symbol.name()).unwrap_or(&8)))
}

#[allow(clippy::cast_precision_loss, reason = "examples are small")]
fn number(dim: &dlcost::ir::dim::Dim) -> f64 {
    value(dim).map_or(0.0, |number| number as f64)
}

fn numbers(facts: &[Option<Fact>]) -> Vec<Option<(Vec<u64>, ElementType)>> {
    let of = |fact: &Fact| {
        let tensor = fact.as_tensor()?;
        let dims = tensor.shape.as_ref()?.dims().iter();
        let dims: Option<Vec<u64>> = dims.map(|dim| value(dim).and_then(|dim| dim.try_into().ok())).collect();
        Some((dims?, tensor.element?))
    };
    facts.iter().map(|fact| fact.as_ref().and_then(of)).collect()
}

fn sized(numbers: &[Option<(Vec<u64>, ElementType)>]) -> Vec<Option<Sized<'_>>> {
    numbers.iter().map(|tensor| tensor.as_ref().map(|(dims, element)| Sized { dims, element: *element })).collect()
}

#[cfg(test)]
mod tests {
    use dlcost::ops::table::ENTRIES;

    use super::*;

    /// Operators that cannot be called alone: they run subgraphs, or are stored.
    const NOT_ALONE: &[&str] = &["Constant", "If", "Loop", "Scan", "SequenceMap"];

    #[test]
    fn every_operator_has_an_example() {
        let samples = samples();
        let without: Vec<_> = ENTRIES
            .iter()
            .filter(|entry| !NOT_ALONE.contains(&entry.name) && example(entry, &samples).is_none())
            .map(key)
            .collect();
        assert_eq!(without, [""; 0]);
    }
}
