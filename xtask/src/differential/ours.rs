//! What dlcost says of a case: with every dim a number, and with some of them symbols.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use dlcost::analysis::Analysis;
use dlcost::diagnostics::Level;
use dlcost::engine::{self, CheckOptions, Input, Mode, Stage};
use dlcost::ir::fact::Fact;
use dlcost::ir::place::Places;
use dlcost::passes::bind::Bindings;

use super::case::{Case, model_of};

/// An answer.
#[derive(Clone, Debug)]
pub(super) enum Ours {
    /// Message and place in the source.
    Panicked(String),
    /// The first error: its name and what it says.
    Refused { code: String, message: String },
    /// What is known of the outputs, in the order of the model.
    Facts(Vec<Fact>),
}

/// A dim that is a symbol: tensor, axis, name.
pub(super) type Symbols = Vec<(String, usize, String)>;

/// The answer for a case as it stands.
pub(super) fn ask(case: &Case) -> Ours {
    answer(&case.text(), &Bindings::default())
}

/// The answer for a text.
pub(super) fn answer(text: &str, bindings: &Bindings) -> Ours {
    let model = match model_of(text) {
        Ok(model) => model,
        Err(error) => return Ours::Panicked(format!("the text of a case does not parse: {error}")),
    };
    let analysis = caught(|| Analysis::new(&model, Places::default(), bindings, &|_| false));
    let analysis = match analysis {
        Ok(analysis) => analysis,
        Err(message) => return Ours::Panicked(message),
    };
    if let Some(error) = analysis.diagnostics.iter().find(|finding| finding.level == Level::Error) {
        return Ours::Refused { code: error.code.name().to_owned(), message: error.message.clone() };
    }
    let outputs = analysis.program.graphs.first().map(|main| main.outputs.clone()).unwrap_or_default();
    let fact = |output| analysis.inference.fact(output).clone();
    Ours::Facts(outputs.into_iter().map(|output| output.map_or(Fact::Unknown, fact)).collect())
}

/// Prices a case, as `dlcost check` does; the message of a panic.
pub(super) fn price(case: &Case, mode: Mode) -> Option<String> {
    let input = Input::Stdin(case.text().into_bytes());
    let options = CheckOptions { mode, tensors: true, ..CheckOptions::default() };
    caught(|| engine::emit(&input, "model", &options, Stage::Kernels).is_ok()).err()
}

/// Symbols for dims of inputs: equal dims share one where `shared` says so.
pub(super) fn symbols(case: &Case, shared: bool) -> Symbols {
    let mut symbols = Vec::new();
    for tensor in case.given.iter().filter(|tensor| tensor.values.is_none() && case.reads(&tensor.name)) {
        for (axis, &dim) in tensor.dims.iter().enumerate().filter(|(_, dim)| **dim > 1) {
            let name = if shared { format!("d{dim}") } else { format!("{}_{axis}", tensor.name) };
            symbols.push((tensor.name.clone(), axis, name));
        }
    }
    symbols
}

/// The values of the symbols.
pub(super) fn values(case: &Case, symbols: &Symbols) -> BTreeMap<String, i128> {
    let value = |(tensor, axis, name): &(String, usize, String)| {
        let given = case.given.iter().find(|given| given.name == *tensor)?;
        Some((name.clone(), i128::from(*given.dims.get(*axis)?)))
    };
    symbols.iter().filter_map(value).collect()
}

thread_local! {
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// What a function gives, or the message of its panic.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if WATCHED.get() {
                SAID.replace(info.to_string().replace('\n', " "));
            } else {
                usual(info);
            }
        }));
    });
    WATCHED.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    WATCHED.set(false);
    outcome.map_err(|_| SAID.take())
}
