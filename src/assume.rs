//! Values for free dims that nobody bound. They are assumptions: the report lists each with the option that changes it.

use std::collections::BTreeMap;

use crate::engine::Mode;
use crate::ir::dim::{Dim, Symbol};
use crate::ir::element_type::ElementType;
use crate::ir::fact::TensorFact;
use crate::ir::hash::{HashMap, HashSet};
use crate::ir::shape::Shape;
use crate::passes::bind::{Bound, is_past};
use crate::report::Assumption;

/// Samples in training and in inference.
const BATCH: [i128; 2] = [32, 1];

/// Length of sequences.
const SEQUENCE: i128 = 128;

/// Height and width of images.
const IMAGE: i128 = 224;

/// Values of the free dims, and what was assumed for them.
#[derive(Clone, Debug, Default)]
pub struct Assumed {
    /// By symbol; symbols for which nothing sensible can be assumed are missing.
    pub values: BTreeMap<String, i128>,
    /// What was assumed.
    pub assumptions: Vec<Assumption>,
}

/// Assumes values for the free dims that are left.
#[must_use]
pub fn assume(bound: &Bound, mode: Mode) -> Assumed {
    let mut assumed = Assumed::default();
    let decodes = is_decoder(bound);
    let uses = Uses::of(bound);
    for symbol in &bound.free {
        let name = symbol.name();
        let leads = uses.is_made_up(symbol) && uses.stands_in(symbol, &|_, _, axis| axis == 0);
        let is_batch = bound.batch.as_deref() == Some(name) || name.to_lowercase().contains("batch") || leads;
        let guess = if is_batch {
            let value = if mode == Mode::Train { BATCH[0] } else { BATCH[1] };
            let why = if mode == Mode::Train { "usual for training" } else { "usual for inference" };
            Some((value, why))
        } else if is_past(name) || uses.stands_in(symbol, &|input, _, _| is_past(input)) {
            if decodes {
                Some((SEQUENCE, "tokens in the cache before this step"))
            } else {
                Some((0, "the first step: no cache yet"))
            }
        } else if is_image_size(symbol, &uses) {
            Some((IMAGE, "usual for images"))
        } else if is_sequence(name)
            || (uses.is_made_up(symbol)
                && uses.stands_in(symbol, &|name, tensor, axis| {
                    is_token_axis(name, tensor, axis) || is_step_axis(tensor, axis)
                }))
        {
            Some((SEQUENCE, "usual for sequences"))
        } else {
            None
        };
        if let Some((value, why)) = guess {
            let key = if bound.batch.as_deref() == Some(name) { "batch".to_owned() } else { format!("dim {name}") };
            assumed.values.insert(name.to_owned(), value);
            assumed.assumptions.push(Assumption { key, value: value.to_string(), why: why.to_owned() });
        }
    }
    assumed
}

/// A file for single steps: a cache of free length beside one fixed new token.
fn is_decoder(bound: &Bound) -> bool {
    let integer = |tensor: &TensorFact| tensor.element.is_some_and(ElementType::is_integer);
    bound.inputs.iter().filter_map(|(_, fact)| fact.as_tensor()).any(|tensor| {
        let dims = tensor.shape.as_ref().map_or(&[][..], Shape::dims);
        integer(tensor) && dims.len() == 2 && dims.get(1).and_then(Dim::as_const) == Some(1)
    })
}

fn is_sequence(name: &str) -> bool {
    let name = name.to_lowercase();
    ["seq", "length", "len", "token", "time", "frame", "step"].iter().any(|word| name.contains(word))
        || matches!(&*name, "t" | "s" | "l")
}

/// Where symbols stand among the dims of the inputs.
struct Uses<'a> {
    by_symbol: HashMap<&'a str, Vec<(&'a str, &'a TensorFact, usize)>>,
    inputs: HashSet<&'a str>,
}

impl<'a> Uses<'a> {
    fn of(bound: &'a Bound) -> Self {
        let mut uses = Self { by_symbol: HashMap::default(), inputs: HashSet::default() };
        for (name, fact) in &bound.inputs {
            uses.inputs.insert(name);
            let Some(tensor) = fact.as_tensor() else { continue };
            for (axis, dim) in tensor.shape.as_ref().map_or(&[][..], Shape::dims).iter().enumerate() {
                if let Some(symbol) = dim.as_symbol() {
                    uses.by_symbol.entry(symbol.name()).or_default().push((name, tensor, axis));
                }
            }
        }
        uses
    }

    /// A name that says nothing: `INPUT.AXIS`, or a letter and a running number of an exporter.
    fn is_made_up(&self, symbol: &Symbol) -> bool {
        let name = symbol.name();
        let numbered = name
            .strip_prefix(['s', 'u'])
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()));
        numbered
            || name.starts_with("unk__")
            || name.match_indices('.').any(|(dot, _)| name.get(..dot).is_some_and(|input| self.inputs.contains(input)))
    }

    /// Whether the symbol is a dim of an input that fits: by the input's name, what is known of it, and the axis.
    fn stands_in(&self, symbol: &Symbol, fits: &dyn Fn(&str, &TensorFact, usize) -> bool) -> bool {
        let uses = self.by_symbol.get(symbol.name()).into_iter().flatten();
        uses.into_iter().any(|&(name, tensor, axis)| fits(name, tensor, axis))
    }
}

/// The second dim of a matrix of integers: tokens of a sequence.
fn is_token_axis(_: &str, tensor: &TensorFact, axis: usize) -> bool {
    let rank = tensor.shape.as_ref().map_or(0, Shape::rank);
    axis == 1 && rank == 2 && tensor.element.is_some_and(ElementType::is_integer)
}

/// The second dim of three, where the last is a number: steps of so many features.
fn is_step_axis(tensor: &TensorFact, axis: usize) -> bool {
    let dims = tensor.shape.as_ref().map_or(&[][..], Shape::dims);
    axis == 1 && dims.len() == 3 && dims.last().is_some_and(|last| last.as_const().is_some())
}

/// Height or width by name, or, where the name says nothing, the two dims of a float input of rank four behind or in
/// front of few channels.
fn is_image_size(symbol: &Symbol, uses: &Uses<'_>) -> bool {
    let name = symbol.name().to_lowercase();
    let named = matches!(&*name, "h" | "w") || ["height", "width"].iter().any(|word| name.contains(word));
    let made_up = uses.is_made_up(symbol);
    uses.stands_in(symbol, &|_, tensor, axis| {
        let dims = tensor.shape.as_ref().map_or(&[][..], Shape::dims);
        let image = dims.len() == 4 && tensor.element.is_none_or(ElementType::is_real);
        let few = |at: usize| dims.get(at).and_then(Dim::as_const).is_some_and(|channels| channels <= 4);
        let placed = (few(1) && axis >= 2) || (few(3) && matches!(axis, 1 | 2));
        image && (named || (made_up && placed))
    })
}
