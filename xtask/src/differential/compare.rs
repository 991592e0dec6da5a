//! Where two answers for a case differ.

use std::collections::BTreeMap;
use std::fmt;

use dlcost::ir::dim::Dim;
use dlcost::ir::fact::{Fact, TensorFact};
use dlcost::passes::bind::Bindings;
use dlcost::report::stages::fact_text;

use super::case::Case;
use super::opinion::{Said, Told};
use super::ours::{self, Ours, Symbols};

/// What kind of difference it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// dlcost panics.
    Panics,
    /// dlcost takes what the other refuses.
    Accepts,
    /// dlcost refuses what the other takes.
    Refuses,
    Type,
    Shape,
    /// Elements of an integer tensor.
    Value,
    /// With dims as symbols dlcost refuses what it takes with their values.
    SymbolicRefuses,
    /// The formula does not give the number.
    SymbolicShape,
    /// A symbol that is bound gives another shape than the number in its place.
    BoundShape,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panics => "panics",
            Self::Accepts => "accepts",
            Self::Refuses => "refuses",
            Self::Type => "type",
            Self::Shape => "shape",
            Self::Value => "value",
            Self::SymbolicRefuses => "symbolic refuses",
            Self::SymbolicShape => "symbolic shape",
            Self::BoundShape => "bound shape",
        })
    }
}

/// A difference.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    pub(super) kind: Kind,
    /// The call whose output differs; the last one where answers for the whole model do.
    pub(super) call: usize,
    /// What each says.
    pub(super) detail: String,
}

impl Difference {
    /// Why one of the two refuses, without numbers: what two cases of one cause have in common.
    pub(super) fn reason(&self) -> String {
        /// What stands before the reason in messages.
        const MARKS: [&str; 6] = [
            "Status Message: ",
            "[ShapeInferenceError] ",
            " Error ",
            "Type Error: ",
            " was false. ",
            "initialization: ",
        ];
        let said = match self.kind {
            Kind::Accepts => self.detail.rsplit(" | ").next().unwrap_or_default(),
            Kind::Refuses => self.detail.split(" | ").next().unwrap_or_default(),
            Kind::SymbolicRefuses | Kind::Panics => &self.detail,
            _ => return String::new(),
        };
        let reason = MARKS.iter().fold(said, |said, mark| said.rsplit(mark).next().unwrap_or_default());
        let reason = reason.split("nput shape").next().unwrap_or_default();
        reason.chars().filter(|letter| !letter.is_ascii_digit()).take(80).collect()
    }
}

/// What a comparison comes to.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub(super) difference: Option<Difference>,
    /// Operators whose outputs dlcost leaves open where the other has numbers.
    pub(super) open: Vec<&'static str>,
    /// Whether both take the model for wrong.
    pub(super) both_refuse: bool,
}

impl Compared {
    fn differ(kind: Kind, call: usize, detail: String) -> Self {
        Self { difference: Some(Difference { kind, call, detail }), ..Self::default() }
    }
}

/// Compares dlcost's answer with another; `None` where the other has none and dlcost does not panic.
pub(super) fn compare(case: &Case, ours: &Ours, said: &Said) -> Option<Compared> {
    let last = case.calls.len().saturating_sub(1);
    match (ours, said) {
        (Ours::Panicked(message), _) => Some(Compared::differ(Kind::Panics, last, message.clone())),
        (_, Said::Silent(_)) | (Ours::Refused { .. }, Said::Inferred(_)) => None,
        (Ours::Refused { .. }, Said::Refused(_)) => Some(Compared { both_refuse: true, ..Compared::default() }),
        (Ours::Refused { code, message }, Said::Outputs(outputs)) => {
            let theirs: Vec<String> = outputs.iter().map(shown).collect();
            let detail = format!("{code}: {message} | {}", theirs.join(", "));
            Some(Compared::differ(Kind::Refuses, last, detail))
        }
        (Ours::Facts(facts), Said::Refused(message)) => {
            let ours: Vec<String> = facts.iter().map(fact_text).collect();
            Some(Compared::differ(Kind::Accepts, last, format!("{} | {message}", ours.join(", "))))
        }
        (Ours::Facts(facts), Said::Outputs(outputs) | Said::Inferred(outputs)) => {
            Some(compare_outputs(case, facts, outputs))
        }
    }
}

fn compare_outputs(case: &Case, facts: &[Fact], outputs: &[Told]) -> Compared {
    let mut compared = Compared::default();
    for (((call, name), fact), told) in case.outputs().zip(facts).zip(outputs) {
        let Some(element) = told.element else { continue };
        let place = case.calls.iter().position(|other| other.outputs.iter().any(|output| output == name)).unwrap_or(0);
        let differ = |kind| Compared::differ(kind, place, format!("{} | {}", fact_text(fact), shown(told)));
        let Some(tensor) = fact.as_tensor() else {
            if *fact == Fact::Unknown {
                compared.open.push(call.op);
                continue;
            }
            return differ(Kind::Type);
        };
        if tensor.element.is_some_and(|ours| ours != element) {
            return differ(Kind::Type);
        }
        match fits(tensor, &told.dims, &|_| None) {
            Some(true) => {}
            Some(false) => return differ(Kind::Shape),
            None => compared.open.push(call.op),
        }
        if let Some(values) = &told.values
            && let Some(known) = tensor.const_integers()
            && known != *values
        {
            return Compared::differ(Kind::Value, place, format!("{known:?} | {values:?}"));
        }
    }
    compared
}

/// Whether a shape is these numbers; `None` where it leaves something open, and what is known fits.
fn fits(tensor: &TensorFact, dims: &[i64], value: &dyn Fn(&str) -> Option<i128>) -> Option<bool> {
    let Some(shape) = &tensor.shape else { return None };
    if shape.rank() != dims.len() {
        return Some(false);
    }
    let mut open = tensor.element.is_none();
    for (dim, &told) in shape.dims().iter().zip(dims) {
        let told = i128::from(told);
        let lookup = |symbol: &dlcost::ir::dim::Symbol| value(symbol.name());
        match dim.eval(&lookup) {
            Some(number) if number == told => {}
            Some(_) => return Some(false),
            None => {
                let bound = |dim: Option<Dim>| dim.and_then(|dim| dim.eval(&lookup));
                if bound(dim.lower_bound()).is_some_and(|lo| told < lo)
                    || bound(dim.upper_bound()).is_some_and(|hi| told > hi)
                {
                    return Some(false);
                }
                open = true;
            }
        }
    }
    if open { None } else { Some(true) }
}

fn shown(told: &Told) -> String {
    let dims: Vec<String> = told.dims.iter().map(i64::to_string).collect();
    told.element.map_or_else(|| "?".to_owned(), |element| format!("{element}[{}]", dims.join(", ")))
}

/// Compares what dlcost says of a case with what it says of the same with dims of inputs as symbols.
pub(super) fn compare_symbolic(case: &Case, plain: &[Fact], shared: bool) -> Option<Difference> {
    let symbols = ours::symbols(case, shared);
    if symbols.is_empty() {
        return None;
    }
    let text = case.text_with(&symbols);
    let values = ours::values(case, &symbols);
    bound(case, plain, &text, &symbols, &values).or_else(|| free(case, plain, &text, &values))
}

/// Symbols that are bound.
fn bound(
    case: &Case,
    plain: &[Fact],
    text: &str,
    symbols: &Symbols,
    values: &BTreeMap<String, i128>,
) -> Option<Difference> {
    let mut dims: Vec<(String, String)> = symbols
        .iter()
        .map(|(_, _, name)| (name.clone(), values.get(name).map_or(String::new(), i128::to_string)))
        .collect();
    dims.sort();
    dims.dedup();
    let last = case.calls.len().saturating_sub(1);
    match ours::answer(text, &Bindings { dims, ..Bindings::default() }) {
        Ours::Panicked(detail) => Some(Difference { kind: Kind::Panics, call: last, detail }),
        Ours::Refused { message, .. } => Some(Difference { kind: Kind::BoundShape, call: last, detail: message }),
        Ours::Facts(facts) => case.outputs().zip(plain).zip(&facts).find_map(|(((call, _), plain), fact)| {
            let (plain, fact) = (fact_text(plain), fact_text(fact));
            let call = case.calls.iter().position(|other| other == call).unwrap_or(0);
            (plain != fact).then(|| Difference { kind: Kind::BoundShape, call, detail: format!("{fact} | {plain}") })
        }),
    }
}

/// Symbols that stay free: formulas that give the numbers.
fn free(case: &Case, plain: &[Fact], text: &str, values: &BTreeMap<String, i128>) -> Option<Difference> {
    let last = case.calls.len().saturating_sub(1);
    let facts = match ours::answer(text, &Bindings::default()) {
        Ours::Panicked(detail) => return Some(Difference { kind: Kind::Panics, call: last, detail }),
        Ours::Refused { message, .. } => {
            return Some(Difference { kind: Kind::SymbolicRefuses, call: last, detail: message });
        }
        Ours::Facts(facts) => facts,
    };
    let lookup = |name: &str| values.get(name).copied();
    case.outputs().zip(plain).zip(&facts).find_map(|(((call, _), plain), fact)| {
        let (tensor, known) = (fact.as_tensor()?, plain.as_tensor()?);
        let dims = known.shape.as_ref()?.as_const()?;
        let dims: Vec<i64> = dims.into_iter().filter_map(|dim| dim.try_into().ok()).collect();
        let wrong = fits(tensor, &dims, &lookup) == Some(false)
            || (tensor.element.is_some() && tensor.element != known.element);
        let detail = format!("{} | {}", fact_text(fact), fact_text(plain));
        let call = case.calls.iter().position(|other| other == call).unwrap_or(0);
        wrong.then_some(Difference { kind: Kind::SymbolicShape, call, detail })
    })
}
