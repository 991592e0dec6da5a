//! What is worth saying once shapes and costs are known: shapes that stay unknown, sizes that depend on data, totals
//! that are bounds, dims without a value.

use std::collections::BTreeMap;

use crate::analysis::{Analysis, Figures};
use crate::diagnostics::{Code, Diagnostic, Level};
use crate::frontend::onnx::model::{DimDef, TensorTypeDef, TypeDef};
use crate::ir::dim::{Symbol, SymbolKind};
use crate::ir::fact::Fact;
use crate::ir::graph::{GraphId, Node, TensorId};
use crate::ir::hash::HashSet;
use crate::passes::bind::Bound;
use crate::passes::count::Layer;
use crate::passes::infer::Outcome;

/// Kinds of operators that a message lists.
const LISTED: usize = 8;

/// Findings about an analysis as a whole, for one set of values.
#[must_use]
pub fn review(analysis: &Analysis, figures: &Figures) -> Vec<Diagnostic> {
    let mut diagnostics = unknown_shapes(analysis);
    diagnostics.extend(data_dependent(analysis));
    diagnostics.extend(baked_in_batch(analysis));
    diagnostics.extend(renamed_dims(analysis));
    for name in &figures.unbound {
        let message = format!("free dim {name} has no value, so numbers that depend on it are missing");
        diagnostics.push(Diagnostic::new(Code::UnboundDim, message).help(format!("give it one: --dim {name}=N")));
    }
    diagnostics.extend(coverage(analysis, figures));
    diagnostics
}

fn is_unknown(fact: &Fact) -> bool {
    match fact {
        Fact::Unknown => true,
        Fact::Tensor(tensor) => tensor.shape.is_none(),
        Fact::Sequence(_) | Fact::Optional(_) | Fact::Map => false,
    }
}

/// Nodes at which shapes become unknown; what follows from each is counted.
fn unknown_shapes(analysis: &Analysis) -> Vec<Diagnostic> {
    let mut diagnostics: Vec<Diagnostic> = Vec::new();
    let mut followers = 0;
    let unknown = |tensor: &TensorId| is_unknown(analysis.inference.fact(*tensor));
    for (graph, index, node) in analysis.program.nodes() {
        let outcome = analysis.inference.outcomes.get(&(graph, index));
        if !node.outputs.iter().flatten().any(unknown) || outcome.is_none() {
            continue;
        }
        if node.inputs.iter().flatten().any(unknown) || reads_unknown(analysis, node) {
            followers += 1;
            continue;
        }
        // A faulty node and one without a rule have their own diagnostic.
        if outcome == Some(&Outcome::Inferred) {
            let message = format!("the output shape of node {:?} ({}) cannot be computed", &*node.key, node.op);
            diagnostics.push(Diagnostic::new(Code::UnknownShape, message).at(node.place));
        }
    }
    if followers > 0 {
        let nodes = if followers == 1 { "1 node has".to_owned() } else { format!("{followers} nodes have") };
        let note = format!("{nodes} unknown shapes in consequence");
        match diagnostics.first_mut() {
            Some(first) => first.notes.push(note),
            None => {
                let message = format!("{nodes} unknown shapes because of what they read");
                diagnostics.push(Diagnostic::new(Code::UnknownShape, message));
            }
        }
    }
    diagnostics
}

/// Whether a subgraph of the node ends in something unknown.
fn reads_unknown(analysis: &Analysis, node: &Node) -> bool {
    node.children
        .iter()
        .filter_map(|&child| analysis.program.graph(child))
        .any(|graph| graph.outputs.iter().flatten().any(|&tensor| is_unknown(analysis.inference.fact(tensor))))
}

/// Operators at which sizes that depend on data begin.
fn data_dependent(analysis: &Analysis) -> Option<Diagnostic> {
    let mut sources: BTreeMap<&str, usize> = BTreeMap::new();
    let mut seen: HashSet<Symbol> = HashSet::default();
    let mut first = None;
    for (graph, index, node) in analysis.program.nodes() {
        let mut begins = false;
        // What a node without a rule or a faulty one leaves open, a run need not.
        let inferred = analysis.inference.outcomes.get(&(graph, index)) == Some(&Outcome::Inferred);
        for &output in node.outputs.iter().flatten() {
            let Some(shape) = analysis.inference.fact(output).as_tensor().and_then(|tensor| tensor.shape.as_ref())
            else {
                continue;
            };
            for dim in shape.dims() {
                dim.for_each_symbol(&mut |symbol| {
                    begins |= symbol.kind() != SymbolKind::Free && seen.insert(symbol.clone());
                });
            }
        }
        if begins && inferred {
            *sources.entry(&node.op).or_insert(0) += 1;
            first = first.or(Some(node.place));
        }
    }
    let count: usize = sources.values().sum();
    let place = first?;
    let mut kinds: Vec<_> = sources.into_iter().collect();
    kinds.sort_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
    let mut list: Vec<_> = kinds.iter().take(LISTED).map(|(name, count)| format!("{count} {name}")).collect();
    if kinds.len() > LISTED {
        list.push(format!("{} other kinds", kinds.len() - LISTED));
    }
    let nodes = if count == 1 { "1 node has a size".to_owned() } else { format!("{count} nodes have sizes") };
    let message = format!("{nodes} that only a run knows: {}", list.join(", "));
    Some(Diagnostic::new(Code::DataDependentShape, message).at(place))
}

/// A batch that was replaced must reach the outputs.
fn baked_in_batch(analysis: &Analysis) -> Vec<Diagnostic> {
    let Some((file, user)) = analysis.bound.rebound else { return Vec::new() };
    let Some(main) = analysis.program.graph(GraphId(0)) else { return Vec::new() };
    let mut diagnostics = Vec::new();
    for &output in main.outputs.iter().flatten() {
        let Some(shape) = analysis.inference.fact(output).as_tensor().and_then(|tensor| tensor.shape.as_ref()) else {
            continue;
        };
        if shape.rank() > 1 && shape.dim(0).and_then(crate::ir::dim::Dim::as_const) == Some(file) && file != user {
            let name = analysis.program.tensor(output).map(|tensor| tensor.name.to_string()).unwrap_or_default();
            let message = format!(
                "the graph holds the batch of {file} as a number: with {user} samples, output {name:?} still is {shape}"
            );
            diagnostics
                .push(Diagnostic::new(Code::BatchBakedIn, message).help("export the model again with a dynamic batch"));
        }
    }
    diagnostics
}

/// Dims of inputs that are negative for the values of the symbols in them.
#[must_use]
pub fn impossible_dims(bound: &Bound, values: &BTreeMap<String, i128>) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for (name, fact) in &bound.inputs {
        let Some(shape) = fact.as_tensor().and_then(|tensor| tensor.shape.as_ref()) else { continue };
        for (axis, dim) in shape.dims().iter().enumerate() {
            let Some(number) = dim.eval(&|symbol| values.get(symbol.name()).copied()).filter(|&number| number < 0)
            else {
                continue;
            };
            let formula = if dim.as_const().is_some() { String::new() } else { format!(", {dim},") };
            let message =
                format!("dim {axis} of input {:?}{formula} is {number} for the values of its symbols", &**name);
            let mut symbols = Vec::new();
            dim.for_each_symbol(&mut |symbol| symbols.push(symbol.name().to_owned()));
            let mut diagnostic = Diagnostic::new(Code::NegativeDim, message).level(Level::Error);
            diagnostic.help = symbols.first().map(|symbol| format!("give a larger value: --dim {symbol}=N"));
            diagnostics.push(diagnostic);
        }
    }
    diagnostics
}

/// Names that the file gives to dims of its outputs and that the computed dims do not bear.
fn renamed_dims(analysis: &Analysis) -> Option<Diagnostic> {
    let main = analysis.program.graph(GraphId(0))?;
    let mut renamed = Vec::new();
    for &output in main.outputs.iter().flatten() {
        let Some(tensor) = analysis.program.tensor(output) else { continue };
        let Some(TypeDef::Tensor(TensorTypeDef { shape: Some(dims), .. })) = &tensor.declared else { continue };
        let Some(shape) = analysis.inference.fact(output).as_tensor().and_then(|fact| fact.shape.as_ref()) else {
            continue;
        };
        for (axis, (declared, dim)) in dims.iter().zip(shape.dims()).enumerate() {
            let DimDef::Param(name) = declared else { continue };
            let bound = analysis.bound.values.contains_key(&**name);
            let same = dim.to_string() == name.replace(char::is_whitespace, "");
            if !bound && dim.is_free() && !same {
                renamed.push(format!("dim {axis} of {:?} is {dim}, the file calls it {name}", &*tensor.name));
            }
        }
    }
    let (first, rest) = renamed.split_first()?;
    let mut diagnostic = Diagnostic::new(Code::DeclaredSymbolDiffers, first.clone());
    if !rest.is_empty() {
        diagnostic = diagnostic.note(format!("{} more dims of outputs have other names than computed", rest.len()));
    }
    Some(diagnostic)
}

/// Whether another finding says why a layer has no cost: it has no rule, it is faulty, or it reads what is unknown.
fn has_own_finding(analysis: &Analysis, layer: &Layer) -> bool {
    let outcome = analysis.inference.outcomes.get(&(layer.graph, layer.node));
    let unknown = |tensor: &TensorId| is_unknown(analysis.inference.fact(*tensor));
    outcome != Some(&Outcome::Inferred)
        || analysis.node(layer).is_some_and(|node| node.inputs.iter().chain(&node.outputs).flatten().any(unknown))
}

fn coverage(analysis: &Analysis, figures: &Figures) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    if figures.not_counted > 0 && figures.unbound.is_empty() {
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        let mut explained = true;
        for (layer, figures) in analysis.layers.iter().zip(&figures.layers) {
            if figures.macs.is_none() || figures.flops.is_none() || figures.bytes.is_none() {
                let op = analysis.node(layer).map_or_else(String::new, |node| node.op.to_string());
                *kinds.entry(op).or_insert(0) += 1;
                explained &= has_own_finding(analysis, layer);
            }
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
        let list: Vec<_> = kinds.iter().take(LISTED).map(|(name, count)| format!("{count} {name}")).collect();
        let total = figures.layers.len();
        let message = format!(
            "{} of {total} layers have no cost, so totals are lower bounds: {}",
            figures.not_counted,
            list.join(", ")
        );
        let mut diagnostic = Diagnostic::new(Code::NotCounted, message);
        if explained {
            diagnostic = diagnostic.level(Level::Note);
        }
        diagnostics.push(diagnostic);
    }
    let at_bound: Vec<_> =
        figures.layers.iter().filter(|figures| figures.at_bound && figures.repeats != Some(0)).collect();
    let worth = at_bound.iter().any(|figures| figures.flops.unwrap_or(0) > 0 || figures.bytes.unwrap_or(0) > 0);
    if worth {
        let macs: i128 = at_bound.iter().filter_map(|figures| figures.macs).fold(0, i128::saturating_add);
        let share = match figures.total.macs {
            #[allow(clippy::cast_precision_loss, reason = "a share in percent")]
            Some(total) if total > 0 => format!(", {:.1} % of the MACs", 100.0 * macs as f64 / total as f64),
            _ => String::new(),
        };
        let layers =
            if at_bound.len() == 1 { "1 layer is".to_owned() } else { format!("{} layers are", at_bound.len()) };
        let message = format!("{layers} counted at an upper bound: sizes, branches or rounds depend on data{share}");
        diagnostics.push(Diagnostic::new(Code::CostAtBound, message));
    }
    diagnostics
}
