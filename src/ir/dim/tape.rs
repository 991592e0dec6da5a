//! Many dimensions compiled for evaluation in one pass.

use std::collections::HashMap;
use std::sync::Arc;

use super::interval as iv;
use super::poly::{Atom, NodeKind};
use super::{Dim, Repr, Symbol};

/// Dimensions as a list of instructions in which equal sub-expressions occur once, so that one binding evaluates
/// all of them in one pass. Gives what [`Dim::eval`] gives.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    code: Vec<Instruction>,
    results: Vec<usize>,
}

/// Operands are the positions of earlier instructions.
#[derive(Clone, Debug)]
enum Instruction {
    Const(i128),
    Symbol(Symbol),
    Floor(usize, usize),
    Min(Vec<usize>),
    Max(Vec<usize>),
    Sum(Vec<(i128, Vec<(usize, u32)>)>),
}

#[derive(Default)]
struct Compiler {
    code: Vec<Instruction>,
    dims: HashMap<Dim, usize>,
    atoms: HashMap<u64, Vec<(Atom, usize)>>,
}

impl Tape {
    /// Compiles the dimensions, in this order.
    pub fn compile(dims: &[Dim]) -> Self {
        let mut compiler = Compiler::default();
        let results = dims.iter().map(|dim| compiler.dim(dim)).collect();
        Self { code: compiler.code, results }
    }

    /// Number of instructions.
    pub fn len(&self) -> usize {
        self.code.len()
    }

    /// For each dimension the place of its value among those of [`Self::eval_places`]; equal dimensions share one.
    pub fn places(&self) -> &[usize] {
        &self.results
    }

    /// Whether there is nothing to evaluate.
    pub fn is_empty(&self) -> bool {
        self.code.is_empty()
    }

    /// The values of the dimensions under a binding. `None` where a symbol is unbound or a divisor is 0.
    pub fn eval(&self, lookup: &dyn Fn(&Symbol) -> Option<i128>) -> Vec<Option<i128>> {
        let values = self.eval_places(lookup);
        self.results.iter().map(|place| values.get(*place).copied().flatten()).collect()
    }

    /// The same values, each different one once and in no order but that of [`Self::places`].
    pub fn eval_places(&self, lookup: &dyn Fn(&Symbol) -> Option<i128>) -> Vec<Option<i128>> {
        let mut values: Vec<Option<i128>> = Vec::with_capacity(self.code.len());
        for instruction in &self.code {
            let value = evaluate(instruction, &|slot| values.get(slot).copied().flatten(), lookup);
            values.push(value);
        }
        values
    }
}

fn evaluate(
    instruction: &Instruction,
    get: &dyn Fn(usize) -> Option<i128>,
    lookup: &dyn Fn(&Symbol) -> Option<i128>,
) -> Option<i128> {
    match instruction {
        Instruction::Const(c) => Some(*c),
        Instruction::Symbol(symbol) => lookup(symbol).map(iv::clamp),
        Instruction::Floor(x, d) => iv::floor_div(get(*x)?, get(*d)?),
        Instruction::Min(args) => args.iter().map(|a| get(*a)).reduce(|a, b| Some(a?.min(b?)))?,
        Instruction::Max(args) => args.iter().map(|a| get(*a)).reduce(|a, b| Some(a?.max(b?)))?,
        Instruction::Sum(terms) => terms.iter().try_fold(0, |sum, (coef, factors)| {
            let product =
                factors.iter().try_fold(*coef, |p, (slot, power)| Some(iv::mul(p, iv::pow(get(*slot)?, *power))))?;
            Some(iv::add(sum, product))
        }),
    }
}

impl Compiler {
    fn push(&mut self, instruction: Instruction) -> usize {
        self.code.push(instruction);
        self.code.len() - 1
    }

    fn dim(&mut self, dim: &Dim) -> usize {
        if let Some(slot) = self.dims.get(dim) {
            return *slot;
        }
        let slot = match (&dim.0, dim.as_atom()) {
            (Repr::Const(c), _) => self.push(Instruction::Const(*c)),
            (_, Some(atom)) => self.atom(atom),
            (Repr::Expr(poly), None) => {
                let mut terms = Vec::with_capacity(poly.terms.len());
                for term in &poly.terms {
                    let factors = term.mono.factors.iter();
                    terms.push((term.coef, factors.map(|(atom, power)| (self.atom(atom), *power)).collect()));
                }
                self.push(Instruction::Sum(terms))
            }
        };
        self.dims.insert(dim.clone(), slot);
        slot
    }

    fn atom(&mut self, atom: &Atom) -> usize {
        let known = self.atoms.get(&atom.stable_hash());
        if let Some((_, slot)) = known.and_then(|list| list.iter().find(|(a, _)| a == atom)) {
            return *slot;
        }
        let instruction = match atom {
            Atom::Sym(symbol) => Instruction::Symbol(symbol.clone()),
            Atom::Node(node) => {
                let node = Arc::clone(node);
                match &node.kind {
                    NodeKind::Floor(x, d) => Instruction::Floor(self.dim(x), self.dim(d)),
                    NodeKind::Min(args) => Instruction::Min(args.iter().map(|d| self.dim(d)).collect()),
                    NodeKind::Max(args) => Instruction::Max(args.iter().map(|d| self.dim(d)).collect()),
                }
            }
        };
        let slot = self.push(instruction);
        self.atoms.entry(atom.stable_hash()).or_default().push((atom.clone(), slot));
        slot
    }
}
