//! What is inferred for a case, held against what was recorded.

use std::collections::HashSet;

use dlcost::diagnostics::Level;
use dlcost::frontend::onnx::model::TensorDef;
use dlcost::ir::element_type::ElementType;
use dlcost::ir::fact::{Fact, SequenceFact};
use dlcost::ir::graph::{Holder, Origin, Program, Stored, TensorId};
use dlcost::ir::place::{Place, PlaceData, Places};
use dlcost::passes::bind::{Bindings, bind_inputs, declared_fact};
use dlcost::passes::infer::{infer, stored_fact};
use dlcost::passes::resolve::resolve;
use dlcost::report::stages::fact_text;

use super::cases::{Case, Recorded};

/// What is told of the inputs beside their shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Elements of small integer, boolean and floating-point tensors.
    SmallValues,
    /// Elements of small integer tensors.
    IntegerValues,
    /// No elements.
    ShapesOnly,
}

impl Mode {
    pub(super) const ALL: [Self; 3] = [Self::SmallValues, Self::IntegerValues, Self::ShapesOnly];

    fn tells(self, element: ElementType) -> bool {
        match self {
            Self::SmallValues => element.is_integer() || element.is_real() || element == ElementType::Bool,
            Self::IntegerValues => element.is_integer(),
            Self::ShapesOnly => false,
        }
    }
}

/// Elements that a small tensor has at most.
const SMALL: u128 = 64;

/// How an inferred output stands to the recorded one, best first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// Type and shape are the recorded ones.
    Exact,
    /// Type and rank are, and the bounds of what is open hold.
    Symbolic {
        /// Operator where it opens.
        operator: String,
        /// The shape as it was inferred.
        inferred: String,
    },
    /// Something has neither type, rank nor bound.
    Open { operator: String, inferred: String },
    /// Something else than what was recorded.
    Wrong(String),
}

/// The worst verdict on the outputs of a case.
pub(super) fn judge(case: &Case, mode: Mode) -> Verdict {
    let (mut program, mut findings) = resolve(&case.model, Places::default());
    let mut bound = bind_inputs(&mut program, &Bindings::default());
    for ((_, fact), recorded) in bound.facts.iter_mut().zip(&case.inputs) {
        *fact = input_fact(recorded, mode);
    }
    bound.free.clear();
    let inference = infer(&program, &bound);
    findings.extend(inference.diagnostics.iter().cloned());
    if let Some(error) = findings.iter().find(|finding| finding.level == Level::Error) {
        return Verdict::Wrong(error.message.clone());
    }
    let outputs: Vec<Option<TensorId>> = program.graphs.first().map(|main| main.outputs.clone()).unwrap_or_default();
    let mut worst = Verdict::Exact;
    for (output, recorded) in outputs.iter().zip(&case.outputs) {
        let Some(output) = *output else { return Verdict::Wrong("an output without producer".to_owned()) };
        let fact = inference.fact(output);
        let verdict = match compare(fact, recorded) {
            Fit::Exact => Verdict::Exact,
            Fit::Wrong => Verdict::Wrong(format!("{}, recorded is {}", fact_text(fact), shown_recorded(recorded))),
            fit => {
                let operator = opened_at(&program, &inference.facts, output);
                let inferred = fact_text(fact);
                if fit == Fit::Bounded {
                    Verdict::Symbolic { operator, inferred }
                } else {
                    Verdict::Open { operator, inferred }
                }
            }
        };
        worst = worst.max(verdict);
    }
    worst
}

fn input_fact(recorded: &Recorded, mode: Mode) -> Fact {
    match recorded {
        Recorded::Tensor(def) => {
            let told = def.element.is_some_and(|element| mode.tells(element))
                && def.element_count().is_some_and(|count| count <= SMALL);
            let fact = fact_of(def);
            match fact {
                Fact::Tensor(tensor) if !told => tensor.without_value().into(),
                fact => fact,
            }
        }
        Recorded::Sequence(elements) => {
            let facts: Vec<Fact> = elements.iter().map(|element| input_fact(element, mode)).collect();
            Fact::Sequence(SequenceFact::Each(facts))
        }
        Recorded::Optional(inner) => match inner {
            Some(inner) => Fact::Optional(Box::new(input_fact(inner, mode))),
            None => Fact::Optional(Box::new(Fact::Unknown)),
        },
        Recorded::Declared(ty) => declared_fact(ty),
    }
}

fn fact_of(def: &TensorDef) -> Fact {
    let place: Place = Places::default().add(PlaceData::default());
    stored_fact(&Stored { def: def.clone(), tensor: TensorId(0), holder: Holder::Initializer, place })
}

/// How far a fact says what was recorded, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Exact,
    /// Open dims lie within their bounds.
    Bounded,
    /// True as far as it goes.
    Open,
    Wrong,
}

fn exact_if(equal: bool) -> Fit {
    if equal { Fit::Exact } else { Fit::Wrong }
}

fn compare(fact: &Fact, recorded: &Recorded) -> Fit {
    match (fact, recorded) {
        (Fact::Unknown, _) | (_, Recorded::Declared(_)) => Fit::Open,
        (Fact::Tensor(tensor), Recorded::Tensor(def)) => {
            let element = match tensor.element {
                None => Fit::Open,
                Some(element) if Some(element) == def.element => Fit::Exact,
                Some(_) => Fit::Wrong,
            };
            let Some(shape) = &tensor.shape else { return element.max(Fit::Open) };
            if shape.rank() != def.dims.len() {
                return Fit::Wrong;
            }
            let dims = shape.dims().iter().zip(&def.dims).map(|(dim, &recorded)| match dim.range() {
                (Some(lo), Some(hi)) if lo == hi => exact_if(lo == i128::from(recorded)),
                (lo, hi) => {
                    let recorded = i128::from(recorded);
                    let within = lo.is_none_or(|lo| lo <= recorded) && hi.is_none_or(|hi| recorded <= hi);
                    match (within, hi) {
                        (false, _) => Fit::Wrong,
                        (true, Some(_)) => Fit::Bounded,
                        (true, None) => Fit::Open,
                    }
                }
            });
            dims.fold(element, Fit::max)
        }
        (Fact::Sequence(sequence), Recorded::Sequence(elements)) => {
            let length = match sequence.length().map(|length| length.range()) {
                Some((Some(lo), Some(hi))) if lo == hi => exact_if(usize::try_from(lo) == Ok(elements.len())),
                _ => Fit::Open,
            };
            let facts = match sequence {
                SequenceFact::Each(facts) => facts.iter().collect(),
                SequenceFact::Alike { element, .. } => vec![&**element; elements.len()],
            };
            facts.iter().zip(elements).map(|(fact, recorded)| compare(fact, recorded)).fold(length, Fit::max)
        }
        (Fact::Optional(_), Recorded::Optional(None)) => Fit::Exact,
        (Fact::Optional(fact), Recorded::Optional(Some(recorded))) => compare(fact, recorded),
        _ => Fit::Wrong,
    }
}

fn shown_recorded(recorded: &Recorded) -> String {
    match recorded {
        Recorded::Tensor(def) => fact_text(&fact_of(def)),
        Recorded::Sequence(elements) => {
            let elements: Vec<_> = elements.iter().map(shown_recorded).collect();
            format!("seq({})", elements.join(", "))
        }
        Recorded::Optional(inner) => {
            format!("optional({})", inner.as_ref().map_or_else(String::new, |inner| shown_recorded(inner)))
        }
        Recorded::Declared(_) => "not recorded".to_owned(),
    }
}

/// The operator behind which a tensor stops to be known exactly: the first on the way back that reads nothing open.
fn opened_at(program: &Program, facts: &[Fact], output: TensorId) -> String {
    let mut tensor = output;
    let mut seen = HashSet::new();
    loop {
        let Some(found) = program.tensor(tensor) else { return "?".to_owned() };
        let Origin::Node(index) = found.origin else { return "input".to_owned() };
        let Some(node) = program.graph(found.graph).and_then(|graph| graph.net.node_weight(index)) else {
            return "?".to_owned();
        };
        let open = |input: &&TensorId| {
            let fact = facts.get(input.0 as usize).unwrap_or(&Fact::Unknown);
            is_open(fact) && !seen.contains(*input)
        };
        match node.inputs.iter().flatten().find(open) {
            Some(&input) => {
                seen.insert(input);
                tensor = input;
            }
            None => return node.op.to_string(),
        }
    }
}

/// Whether something of the type or shape is not known.
fn is_open(fact: &Fact) -> bool {
    match fact {
        Fact::Unknown => true,
        Fact::Tensor(tensor) => {
            tensor.element.is_none() || tensor.shape.as_ref().is_none_or(|shape| shape.as_const().is_none())
        }
        Fact::Sequence(sequence) => {
            sequence.length().and_then(|length| length.as_const()).is_none() || sequence.facts().iter().any(is_open)
        }
        Fact::Optional(inner) => is_open(inner),
        Fact::Map => false,
    }
}
