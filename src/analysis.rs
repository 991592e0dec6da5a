//! An analysis is made once from a file and asked many times: [`Analysis::at`] gives the figures for one set of values
//! of the free dims, without parsing or inferring again.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use petgraph::stable_graph::NodeIndex;

use crate::diagnostics::Diagnostic;
use crate::frontend::keras::Training;
use crate::frontend::onnx::model::Model;
use crate::ir::dim::{Dim, Symbol, Tape};
use crate::ir::graph::{GraphId, Node, Program};
use crate::ir::hash::{HashMap, HashSet};
use crate::ir::place::Places;
use crate::ops::{Cost, Repeats};
use crate::passes::bind::{Bindings, Bound, bind_inputs};
use crate::passes::compose::compose;
use crate::passes::count::{Counted, Layer, count};
use crate::passes::infer::{Inference, infer, shape_stored};
use crate::passes::kinds::Operations;
use crate::passes::parameters::{Usage, classify};
use crate::passes::resolve::resolve;
use crate::passes::sizes::{Shapes, Sizes};
use crate::runtime::Attention;

/// All that is known of a model before the free dims have values.
#[derive(Debug)]
pub struct Analysis {
    /// How a Keras model was compiled.
    pub training: Training,
    /// The graphs.
    pub program: Program,
    /// Inputs as they were bound.
    pub bound: Bound,
    /// Shapes, types and values.
    pub inference: Inference,
    /// What each stored tensor is.
    pub usages: Vec<Usage>,
    /// Layers that are not trained.
    pub frozen: HashSet<(GraphId, NodeIndex)>,
    /// Layers with their costs as formulas.
    pub layers: Vec<Layer>,
    /// Whether training asks for the gradient of a tensor, by its id.
    pub needs_gradient: Vec<bool>,
    /// Findings of all passes, in the order of the passes.
    pub diagnostics: Vec<Diagnostic>,
    tape: Tape,
    /// For each layer whether its cost depends on free dims alone.
    is_free: Vec<bool>,
    /// Made when first asked for.
    shapes: OnceLock<Shapes>,
    /// Operations with attention eager and fused, made when first asked for.
    operations: [OnceLock<Operations>; 2],
}

/// Figures of one layer for one set of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerFigures {
    /// Multiply-accumulate pairs, forward.
    pub macs: Option<i128>,
    /// Operations forward.
    pub flops: Option<i128>,
    /// Operations backward.
    pub backward_flops: Option<i128>,
    /// Bytes read and written forward.
    pub bytes: Option<i128>,
    /// Bytes written forward.
    pub bytes_written: Option<i128>,
    /// How often the layer runs; `None` when not known.
    pub repeats: Option<i128>,
    /// Whether an upper bound stands for something that only a run knows.
    pub at_bound: bool,
}

/// Figures of a whole model for one set of values.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// By layer, in the order of [`Analysis::layers`].
    pub layers: Vec<LayerFigures>,
    /// Sums over the layers whose figures are known.
    pub total: LayerFigures,
    /// Layers without known figures.
    pub not_counted: usize,
    /// Free symbols without a value that some figure depends on.
    pub unbound: Vec<String>,
    /// For each graph that runs how often it does, as a formula; `None` where MACs in it have none.
    rounds: HashMap<GraphId, Option<Dim>>,
}

/// Figures of a layer on the tape.
const SLOTS: usize = 5;

impl Analysis {
    /// Analyses a model. `frozen` says by key which layers are not trained.
    #[must_use]
    pub fn new(model: &Model, places: Places, bindings: &Bindings, frozen: &dyn Fn(&str) -> bool) -> Self {
        let (mut program, mut diagnostics) = resolve(model, places);
        let mut bound = bind_inputs(&mut program, bindings);
        diagnostics.append(&mut bound.diagnostics);
        let mut inference = infer(&program, &bound);
        diagnostics.append(&mut inference.diagnostics);
        shape_stored(&mut program, &inference);
        let usages = classify(&program);
        let frozen: HashSet<_> =
            program.nodes().filter(|(_, _, node)| frozen(&node.key)).map(|(graph, index, _)| (graph, index)).collect();
        let Counted { layers, needs_gradient } = count(&program, &inference, &usages, &frozen);
        let tape = compile(&layers);
        let is_free = layers.iter().map(|layer| layer.cost.as_ref().is_some_and(is_free)).collect();
        Self {
            training: Training::default(),
            program,
            bound,
            inference,
            usages,
            frozen,
            layers,
            needs_gradient,
            diagnostics,
            tape,
            is_free,
            shapes: OnceLock::new(),
            operations: [OnceLock::new(), OnceLock::new()],
        }
    }

    /// The operations that a framework runs: layers, with those that an exporter took apart put together again.
    #[must_use]
    pub fn operations(&self, attention: Attention) -> &Operations {
        let [eager, fused] = &self.operations;
        let slot = if attention == Attention::Fused { fused } else { eager };
        slot.get_or_init(|| Operations::new(self, compose(self, attention)))
    }

    /// Which tensors have the same shape.
    #[must_use]
    pub fn shapes(&self) -> &Shapes {
        self.shapes.get_or_init(|| Shapes::of(&self.inference))
    }

    /// Sizes of all tensors for these values of the free symbols.
    #[must_use]
    pub fn sizes(&self, values: &BTreeMap<String, i128>) -> Sizes<'_> {
        Sizes::of(self.shapes(), &self.inference, values)
    }

    /// What tells the cost of one run of a layer from others: equal for layers whose formulas are.
    #[must_use]
    pub fn cost_slots(&self, layer: usize) -> &[usize] {
        self.tape.places().get(layer * SLOTS..(layer + 1) * SLOTS).unwrap_or_default()
    }

    /// The node of a layer.
    #[must_use]
    pub fn node(&self, layer: &Layer) -> Option<&Node> {
        self.program.graph(layer.graph)?.net.node_weight(layer.node)
    }

    /// Figures for these values of the free symbols.
    #[must_use]
    pub fn at(&self, values: &BTreeMap<String, i128>) -> Figures {
        let lookup = |symbol: &Symbol| values.get(symbol.name()).copied();
        let costs = self.tape.eval_places(&lookup);
        let mut by_graph: HashMap<GraphId, Vec<usize>> = HashMap::default();
        for (index, layer) in self.layers.iter().enumerate() {
            by_graph.entry(layer.graph).or_default().push(index);
        }
        let mut summing = Summing {
            analysis: self,
            costs,
            by_graph,
            values,
            figures: vec![LayerFigures::default(); self.layers.len()],
            rounds: HashMap::default(),
        };
        let mut sum = summing.graph(GraphId(0), &Times::ONCE);
        summing.forget_impossible(&mut sum.total);
        let mut figures = Figures {
            layers: summing.figures,
            total: sum.total,
            not_counted: sum.not_counted,
            unbound: Vec::new(),
            rounds: summing.rounds,
        };
        if figures.not_counted > 0 {
            self.find_unbound(values, &mut figures);
        }
        figures
    }

    /// MACs as a formula in the free dims; `None` where it is too long or rests on what is not known. The values decide
    /// only which branches run.
    #[must_use]
    pub fn macs_formula(&self, figures: &Figures) -> Option<Dim> {
        let mut terms = Vec::new();
        for layer in &self.layers {
            // What never runs has no MACs.
            let Some(rounds) = figures.rounds.get(&layer.graph) else { continue };
            let macs = &layer.cost.as_ref()?.macs;
            if *macs != Dim::ZERO {
                terms.push(at_bound(macs) * rounds.as_ref()?);
            }
        }
        Some(terms.into_iter().sum()).filter(Dim::is_free)
    }

    /// Names the free symbols without a value that some figure depends on; totals that need one are not known.
    fn find_unbound(&self, values: &BTreeMap<String, i128>, figures: &mut Figures) {
        let mut names: Vec<String> = Vec::new();
        let mut seen: HashSet<Symbol> = HashSet::default();
        let mut depends = |dim: &Dim| {
            let Some(dim) = dim.upper_bound() else { return false };
            let mut found = false;
            dim.for_each_symbol(&mut |symbol| {
                if !values.contains_key(symbol.name()) {
                    found = true;
                    if seen.insert(symbol.clone()) {
                        names.push(symbol.name().to_owned());
                    }
                }
            });
            found
        };
        for cost in self.layers.iter().filter_map(|layer| layer.cost.as_ref()) {
            if depends(&cost.macs) {
                figures.total.macs = None;
            }
            if depends(&cost.flops) {
                figures.total.flops = None;
            }
            if depends(&cost.backward_flops) {
                figures.total.backward_flops = None;
            }
            if depends(&cost.bytes_read) || depends(&cost.bytes_written) {
                figures.total.bytes = None;
            }
        }
        figures.unbound = names;
    }

    /// Whether a layer is the first that reads a stored tensor, with the parameters of those it is first to read.
    #[must_use]
    pub fn first_parameters(&self) -> HashMap<(GraphId, NodeIndex), i128> {
        use crate::passes::parameters::Kind;
        let mut first = HashMap::default();
        for usage in
            self.usages.iter().filter(|usage| matches!(usage.kind, Kind::Trainable | Kind::Statistic) && !usage.repeats)
        {
            if let Some(reader) = usage.readers.first() {
                *first.entry(*reader).or_insert(0) += usage.elements;
            }
        }
        first
    }
}

/// A dim at its upper bound in free symbols; what has none is a symbol that nobody can bind.
fn at_bound(dim: &Dim) -> Dim {
    if dim.is_free() { dim.clone() } else { dim.upper_bound().unwrap_or_else(|| dim.clone()) }
}

/// Whether a cost depends on nothing that only a run knows.
fn is_free(cost: &Cost) -> bool {
    [&cost.macs, &cost.flops, &cost.bytes_read, &cost.bytes_written].iter().all(|dim| dim.is_free())
}

fn compile(layers: &[Layer]) -> Tape {
    let mut dims = Vec::with_capacity(layers.len() * SLOTS);
    for layer in layers {
        match &layer.cost {
            Some(cost) => {
                let bytes = &cost.bytes_read + &cost.bytes_written;
                let parts = [&cost.macs, &cost.flops, &cost.backward_flops, &bytes, &cost.bytes_written];
                dims.extend(parts.map(at_bound));
            }
            None => dims.extend([Dim::ZERO; SLOTS]),
        }
    }
    Tape::compile(&dims)
}

/// How often something runs, as a number and as a formula.
#[derive(Clone)]
struct Times {
    number: Option<i128>,
    formula: Option<Dim>,
    at_bound: bool,
}

impl Times {
    const ONCE: Self = Self { number: Some(1), formula: Some(Dim::ONE), at_bound: false };
}

#[derive(Default)]
struct Sum {
    total: LayerFigures,
    not_counted: usize,
}

struct Summing<'a> {
    analysis: &'a Analysis,
    /// Different costs, by their slots.
    costs: Vec<Option<i128>>,
    by_graph: HashMap<GraphId, Vec<usize>>,
    values: &'a BTreeMap<String, i128>,
    figures: Vec<LayerFigures>,
    rounds: HashMap<GraphId, Option<Dim>>,
}

impl Summing<'_> {
    fn graph(&mut self, id: GraphId, times: &Times) -> Sum {
        let zero = LayerFigures {
            macs: Some(0),
            flops: Some(0),
            backward_flops: Some(0),
            bytes: Some(0),
            bytes_written: Some(0),
            repeats: times.number,
            at_bound: false,
        };
        let mut sum = Sum { total: zero, not_counted: 0 };
        self.rounds.insert(id, times.formula.clone());
        for index in self.by_graph.get(&id).cloned().unwrap_or_default() {
            let Some(layer) = self.analysis.layers.get(index) else { continue };
            let figures = self.layer(index, layer, times);
            add(&mut sum, &figures);
            if let Some(slot) = self.figures.get_mut(index) {
                *slot = figures;
            }
            // MACs that pass the range of numbers.
            if self.cost(index, 0) == Some(i128::MAX) {
                self.rounds.insert(id, None);
            }
            self.children(layer, times, &mut sum);
        }
        sum
    }

    fn children(&mut self, layer: &Layer, times: &Times, sum: &mut Sum) {
        let mut branches = Vec::new();
        for (child, repeats) in &layer.children {
            if *repeats == Repeats::Branch {
                branches.push(*child);
                continue;
            }
            let inner = self.times(repeats, times);
            let part = self.graph(*child, &inner);
            merge(sum, part);
        }
        if branches.is_empty() {
            return;
        }
        // One branch runs; the dearer one counts, the other is listed at zero runs.
        let bound = Times { at_bound: true, ..times.clone() };
        let parts: Vec<_> = branches.iter().map(|&child| (child, self.graph(child, &bound))).collect();
        let weight = |sum: &Sum| (sum.not_counted > 0, sum.total.macs, sum.total.flops, sum.total.bytes);
        let dearest = parts
            .iter()
            .enumerate()
            .max_by_key(|(place, (_, part))| (weight(part), std::cmp::Reverse(*place)))
            .map(|(place, _)| place);
        for (place, (child, part)) in parts.into_iter().enumerate() {
            if Some(place) == dearest {
                merge(sum, part);
            } else {
                self.never(child);
            }
        }
    }

    /// Sets the figures of a subgraph that does not run, with all that is nested in it.
    fn never(&mut self, id: GraphId) {
        let never = Times { number: Some(0), formula: None, at_bound: true };
        self.rounds.remove(&id);
        for index in self.by_graph.get(&id).cloned().unwrap_or_default() {
            let Some(layer) = self.analysis.layers.get(index) else { continue };
            let figures = self.layer(index, layer, &never);
            if let Some(slot) = self.figures.get_mut(index) {
                *slot = figures;
            }
            for (child, _) in &layer.children {
                self.never(*child);
            }
        }
    }

    fn times(&self, repeats: &Repeats, outer: &Times) -> Times {
        let lookup = |symbol: &Symbol| self.values.get(symbol.name()).copied();
        let (formula, bound) = match repeats {
            Repeats::Branch => (Some(Dim::ONE), true),
            Repeats::Exactly(rounds) => (Some(at_bound(rounds)), !rounds.is_free()),
            Repeats::AtMost(rounds) => (Some(at_bound(rounds)), true),
            Repeats::Unknown => (None, true),
        };
        let number = formula
            .as_ref()
            .and_then(|formula| formula.eval(&lookup))
            .zip(outer.number)
            .map(|(inner, outer)| inner.saturating_mul(outer));
        let formula = formula.zip(outer.formula.as_ref()).map(|(inner, outer)| inner * outer);
        Times { number, formula, at_bound: outer.at_bound || bound }
    }

    /// A total has no number where that of a layer is negative or passes the range of numbers.
    fn forget_impossible(&self, total: &mut LayerFigures) {
        let layers = self.analysis.layers.iter().zip(&self.figures);
        for (index, (layer, figures)) in layers.enumerate() {
            let (Some(_), Some(1..)) = (&layer.cost, figures.repeats) else { continue };
            let parts = [figures.macs, figures.flops, figures.backward_flops, figures.bytes];
            let totals = [&mut total.macs, &mut total.flops, &mut total.backward_flops, &mut total.bytes];
            for (slot, (total, part)) in totals.into_iter().zip(parts).enumerate() {
                if part.is_none() && self.cost(index, slot).is_some() {
                    *total = None;
                }
            }
        }
    }

    /// A part of the cost of one run of a layer.
    fn cost(&self, layer: usize, slot: usize) -> Option<i128> {
        let place = *self.analysis.tape.places().get(layer * SLOTS + slot)?;
        self.costs.get(place).copied().flatten()
    }

    fn layer(&self, index: usize, layer: &Layer, times: &Times) -> LayerFigures {
        if layer.cost.is_none() {
            return LayerFigures { repeats: times.number, at_bound: times.at_bound, ..LayerFigures::default() };
        }
        let slot = |offset: usize| {
            let one = self.cost(index, offset)?;
            let all = one.saturating_mul(times.number?);
            // A dim below zero has no cost, and a number that was cut off at the end of the range is none.
            (0..i128::MAX).contains(&all).then_some(all)
        };
        LayerFigures {
            macs: slot(0),
            flops: slot(1),
            backward_flops: slot(2),
            bytes: slot(3),
            bytes_written: slot(4),
            repeats: times.number,
            at_bound: times.at_bound || self.analysis.is_free.get(index) != Some(&true),
        }
    }
}

fn add(sum: &mut Sum, figures: &LayerFigures) {
    let known = figures.macs.is_some() && figures.flops.is_some() && figures.bytes.is_some();
    if !known {
        sum.not_counted += 1;
    }
    let join = |total: &mut Option<i128>, part: Option<i128>| {
        if let (Some(total), Some(part)) = (total, part) {
            *total = total.saturating_add(part);
        }
    };
    join(&mut sum.total.macs, figures.macs);
    join(&mut sum.total.flops, figures.flops);
    join(&mut sum.total.backward_flops, figures.backward_flops);
    join(&mut sum.total.bytes, figures.bytes);
    sum.total.at_bound |= figures.at_bound;
}

fn merge(sum: &mut Sum, part: Sum) {
    let not_counted = sum.not_counted;
    let known = LayerFigures { repeats: None, ..part.total };
    add(sum, &known);
    sum.not_counted = not_counted + part.not_counted;
}
