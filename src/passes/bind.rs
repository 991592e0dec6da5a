//! What the user says of free dims, and what the file says of its inputs: facts of the main graph's inputs.

use std::collections::BTreeMap;

use crate::diagnostics::{Code, Diagnostic, Level};
use crate::frontend::onnx::model::{DimDef, Name, TypeDef};
use crate::ir::dim::{Dim, Symbol, SymbolKind};
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar, TensorFact};
use crate::ir::graph::{Program, TensorId};
use crate::ir::hash::{HashMap, HashSet};
use crate::ir::place::PlaceData;
use crate::ir::shape::Shape;

/// What the user gives.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    /// Samples per replica.
    pub batch: Option<u64>,
    /// Values of symbols, as text: a number, or a formula in other symbols.
    pub dims: Vec<(String, String)>,
    /// Shapes of inputs; each dim as text.
    pub input_shapes: Vec<(String, Vec<String>)>,
    /// Values of integer inputs.
    pub inputs: Vec<(String, Vec<i64>)>,
}

impl Bindings {
    /// Whether nothing is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batch.is_none() && self.dims.is_empty() && self.input_shapes.is_empty() && self.inputs.is_empty()
    }
}

/// Facts of the inputs, and what was decided on the way.
#[derive(Debug, Default)]
pub struct Bound {
    /// Facts of the main graph's inputs, in their order.
    pub facts: Vec<(TensorId, Fact)>,
    /// The same by name.
    pub inputs: Vec<(Name, Fact)>,
    /// Free symbols that are left, in order of appearance.
    pub free: Vec<Symbol>,
    /// The free symbol that is the batch, or was before it was bound.
    pub batch: Option<String>,
    /// Number that the batch is bound to, by the file or the user.
    pub batch_value: Option<i128>,
    /// A batch that the file fixes and the user replaced: the file's number and the user's.
    pub rebound: Option<(i128, i128)>,
    /// Symbols that have a value, with the value.
    pub values: BTreeMap<String, Dim>,
    /// Whether shapes that the file declares hold for other sizes than the user's.
    pub resized: bool,
    /// Findings.
    pub diagnostics: Vec<Diagnostic>,
}

/// Declared dims of an input before binding.
struct Input {
    tensor: TensorId,
    name: String,
    ty: Option<TypeDef>,
    dims: Option<Vec<Dim>>,
}

/// Binds what the user gives to the inputs of a program.
#[must_use]
pub fn bind_inputs(program: &mut Program, bindings: &Bindings) -> Bound {
    let mut binder = Binder { bound: Bound::default(), symbols: BTreeMap::new(), program };
    let inputs = binder.declared_inputs();
    binder.bound.batch = find_batch(&inputs, &binder.symbols);
    binder.run(inputs, bindings)
}

struct Binder<'a> {
    bound: Bound,
    symbols: BTreeMap<String, Symbol>,
    program: &'a mut Program,
}

impl Binder<'_> {
    /// Reads the declared inputs; symbols are made for every name and every dim without one.
    fn declared_inputs(&mut self) -> Vec<Input> {
        let Some(main) = self.program.graphs.first() else { return Vec::new() };
        let ids = main.inputs.clone();
        let tensors: Vec<_> = ids
            .into_iter()
            .filter_map(|id| {
                self.program.tensor(id).map(|tensor| (id, tensor.name.to_string(), tensor.declared.clone()))
            })
            .collect();
        let plain = |ty: &Option<TypeDef>| -> Vec<String> {
            declared_dims(ty)
                .unwrap_or_default()
                .iter()
                .filter_map(|dim| match dim {
                    DimDef::Param(name) if is_plain(name) => Some(name.to_string()),
                    _ => None,
                })
                .collect()
        };
        for name in tensors.iter().flat_map(|(_, _, ty)| plain(ty)) {
            self.symbol(&name);
        }
        let mut inputs = Vec::new();
        for (tensor, name, ty) in tensors {
            let dims = declared_dims(&ty).map(|dims| {
                dims.iter()
                    .enumerate()
                    .map(|(axis, dim)| self.declared_dim(dim, &name, axis, tensor))
                    .collect::<Vec<_>>()
            });
            inputs.push(Input { tensor, name, ty, dims });
        }
        inputs
    }

    fn declared_dim(&mut self, dim: &DimDef, input: &str, axis: usize, tensor: TensorId) -> Dim {
        match dim {
            DimDef::Value(value) if *value >= 0 => {
                if *value == 0 {
                    let message = format!("input {input:?} declares 0 for dim {axis}: the tensor is empty");
                    let mut diagnostic = Diagnostic::new(Code::ZeroDim, message);
                    if axis == 0 {
                        diagnostic = diagnostic.help(format!(
                            "if the batch is meant: --input-shape {input}=1x... or a symbol in the file"
                        ));
                    }
                    self.report(diagnostic, tensor);
                }
                Dim::from(*value)
            }
            DimDef::Value(value) => {
                let mut diagnostic =
                    Diagnostic::new(Code::NegativeDim, format!("input {input:?} declares {value} for dim {axis}"));
                if *value == -1 {
                    diagnostic = diagnostic
                        .note("-1 is taken as a free dim".to_owned())
                        .help(format!("bind it: --dim {input}.{axis}=1"));
                } else {
                    diagnostic = diagnostic.level(Level::Error).note("it is taken as a free dim".to_owned());
                }
                self.report(diagnostic, tensor);
                self.symbol(&format!("{input}.{axis}"))
            }
            DimDef::Param(text) if is_plain(text) => self.symbol(text),
            DimDef::Param(text) => {
                let known = &self.symbols;
                let parsed = Dim::parse(text, &|name| known.get(name).map(Dim::from));
                // A text that is no expression in the symbols of the inputs is a name as it stands.
                parsed.unwrap_or_else(|_| self.symbol(text))
            }
            DimDef::Unknown => self.symbol(&format!("{input}.{axis}")),
        }
    }

    fn symbol(&mut self, name: &str) -> Dim {
        let symbol = self.symbols.entry(name.to_owned()).or_insert_with(|| {
            // A cache of earlier steps may be empty; every other dim holds at least one.
            let lo = i128::from(!is_past(name));
            Symbol::new(name, SymbolKind::Free, lo, None)
        });
        Dim::from(&*symbol)
    }

    fn run(mut self, inputs: Vec<Input>, bindings: &Bindings) -> Bound {
        self.bind_symbols(&inputs, bindings);
        let given = &self.bound.values;
        let values: BTreeMap<_, _> = given.iter().map(|(name, value)| (name.clone(), resolve(value, given))).collect();
        self.bound.values.clone_from(&values);
        let fixed_batch = leading_number(&inputs);
        let mut rebound = None;
        if let Some(batch) = bindings.batch.map(i128::from) {
            match (&self.bound.batch, fixed_batch) {
                (None, Some(number)) if number != batch => rebound = Some((number, batch)),
                _ => {}
            }
            self.bound.batch_value = Some(batch);
        } else if self.bound.batch.is_none() {
            self.bound.batch_value = fixed_batch;
        }
        if let Some(batch) = &self.bound.batch {
            self.bound.batch_value = values.get(batch).and_then(Dim::as_const);
        }
        let resolve = |dim: &Dim| resolve(dim, &values);
        for input in &inputs {
            let shaped = bindings.input_shapes.iter().rev().find(|(name, _)| *name == input.name);
            let dims = match (shaped, &input.dims) {
                (Some((_, texts)), declared) => self.given_dims(input, texts, declared.as_deref(), &values),
                (None, Some(dims)) => Some(dims.iter().map(&resolve).collect()),
                (None, None) => None,
            };
            let dims = dims.map(|mut dims: Vec<Dim>| {
                if let (Some((number, batch)), Some(first), true) = (rebound, dims.first_mut(), shaped.is_none())
                    && first.as_const() == Some(number)
                {
                    *first = Dim::from(batch);
                }
                dims
            });
            let fact = self.input_fact(input, dims, bindings);
            self.bound.inputs.push((input.name.as_str().into(), fact.clone()));
            self.bound.facts.push((input.tensor, fact));
        }
        if let Some((number, batch)) = rebound {
            let message = format!("the file fixes the batch at {number}; it was replaced by {batch}");
            self.bound.diagnostics.push(Diagnostic::new(Code::BatchRebound, message));
            self.bound.resized = true;
        }
        self.bound.rebound = rebound.or(self.bound.rebound);
        self.left_free();
        self.unused(&inputs, bindings);
        self.bound
    }

    /// Collects values of symbols from `--dim`, `--batch` and the shapes given for inputs.
    fn bind_symbols(&mut self, inputs: &[Input], bindings: &Bindings) {
        let mut sources: Vec<(String, Dim, String)> = Vec::new();
        for (name, text) in &bindings.dims {
            let known = &self.symbols;
            match Dim::parse(text, &|other| known.get(other).map(Dim::from)) {
                Ok(value) => sources.push((name.clone(), value, format!("--dim {name}"))),
                Err(error) => {
                    let message = format!("--dim {name}={text}: {error}");
                    self.bound.diagnostics.push(Diagnostic::new(Code::ConflictingBinding, message));
                }
            }
        }
        if let (Some(batch), Some(name)) = (bindings.batch, self.bound.batch.clone()) {
            sources.push((name, Dim::from(i128::from(batch)), "--batch".to_owned()));
        }
        for (name, texts) in &bindings.input_shapes {
            let Some(dims) = inputs.iter().find(|input| input.name == *name).and_then(|input| input.dims.as_ref())
            else {
                continue;
            };
            for (text, dim) in texts.iter().zip(dims) {
                let known = &self.symbols;
                if let (Some(symbol), Ok(value)) =
                    (dim.as_symbol(), Dim::parse(text, &|other| known.get(other).map(Dim::from)))
                {
                    sources.push((symbol.name().to_owned(), value, format!("--input-shape {name}")));
                }
            }
        }
        let mut origin: HashMap<String, String> = HashMap::default();
        for (name, value, source) in sources {
            if value.as_symbol().is_some_and(|symbol| symbol.name() == name) {
                continue;
            }
            match self.bound.values.get(&name) {
                Some(first) if *first != value => {
                    let before = origin.get(&name).map_or("", String::as_str);
                    let message = format!("symbol {name} is {first} by {before} and {value} by {source}");
                    self.bound.diagnostics.push(Diagnostic::new(Code::ConflictingBinding, message));
                }
                Some(_) => {}
                None => {
                    if value == Dim::ZERO && self.bound.batch.as_deref() == Some(&*name) {
                        let message = format!("{source} makes the batch 0: a batch has at least one sample");
                        self.bound.diagnostics.push(Diagnostic::new(Code::ZeroDim, message).level(Level::Error));
                    }
                    self.bound.values.insert(name.clone(), value);
                    origin.insert(name, source);
                }
            }
        }
        let names: Vec<_> = self.bound.values.keys().cloned().collect();
        for name in names {
            let Some(circle) = circle(&name, &self.bound.values) else { continue };
            self.bound.values.remove(&name);
            let source = origin.get(&name).map_or("", String::as_str);
            let message = format!("{source}: the value of {name} depends on itself: {}", circle.join(" -> "));
            self.bound.diagnostics.push(Diagnostic::new(Code::ConflictingBinding, message));
        }
    }

    fn given_dims(
        &mut self,
        input: &Input,
        texts: &[String],
        declared: Option<&[Dim]>,
        values: &BTreeMap<String, Dim>,
    ) -> Option<Vec<Dim>> {
        if let Some(declared) = declared
            && declared.len() != texts.len()
        {
            let message = format!(
                "--input-shape gives input {:?} {} dims, the file declares {}",
                input.name,
                texts.len(),
                declared.len()
            );
            self.report(Diagnostic::new(Code::ConflictingBinding, message), input.tensor);
            return Some(declared.iter().map(|dim| resolve(dim, values)).collect());
        }
        let mut dims = Vec::new();
        for (axis, text) in texts.iter().enumerate() {
            let known = self.symbols.clone();
            let Ok(value) = Dim::parse(text, &|other| known.get(other).map(Dim::from))
                .or_else(|_| if is_plain(text) { Ok(self.symbol(text)) } else { Err(()) })
            else {
                let message = format!(
                    "--input-shape {}: {text:?} is neither a number nor an expression in the model's symbols",
                    input.name
                );
                self.report(Diagnostic::new(Code::ConflictingBinding, message), input.tensor);
                return declared.map(<[Dim]>::to_vec);
            };
            let declared = declared.and_then(|dims| dims.get(axis));
            // A dim that the symbols decide keeps their value, so that one conflict is not told again at each node.
            let decided = declared.filter(|dim| dim.as_const().is_none()).map(|dim| resolve(dim, values));
            if let (Some(declared), Some(decided)) = (declared, decided)
                && let (Some(number), Some(other)) = (decided.as_const(), resolve(&value, values).as_const())
                && number != other
            {
                if declared.as_symbol().is_none() {
                    let message = format!(
                        "dim {axis} of input {:?}, {declared}, is {number} and {other} by --input-shape",
                        input.name
                    );
                    self.report(Diagnostic::new(Code::ConflictingBinding, message), input.tensor);
                }
                dims.push(decided);
                continue;
            }
            if let Some(number) = declared.and_then(Dim::as_const)
                && value.as_const() != Some(number)
            {
                let message = format!(
                    "--input-shape gives dim {axis} of input {:?} as {value}; the file fixes it at {number}",
                    input.name
                );
                let mut diagnostic = Diagnostic::new(Code::BatchRebound, message);
                if axis > 0 {
                    diagnostic = diagnostic.note("it is not the batch: other sizes may not fit the graph".to_owned());
                }
                self.report(diagnostic, input.tensor);
                self.bound.resized = true;
                if axis == 0 && texts.len() > 1 {
                    self.bound.rebound = self.bound.rebound.or(value.as_const().map(|value| (number, value)));
                }
            }
            dims.push(resolve(&value, values));
        }
        Some(dims)
    }

    fn input_fact(&mut self, input: &Input, dims: Option<Vec<Dim>>, bindings: &Bindings) -> Fact {
        let given = bindings.inputs.iter().rev().find(|(name, _)| *name == input.name).map(|(_, values)| values);
        match &input.ty {
            Some(TypeDef::Tensor(ty) | TypeDef::SparseTensor(ty)) => {
                let mut fact = TensorFact { element: ty.element, shape: dims.map(Shape::new), value: None };
                if let Some(values) = given {
                    fact = self.with_values(input, fact, values);
                }
                Fact::Tensor(fact)
            }
            Some(other) => declared_fact(other),
            None => match dims {
                Some(dims) => Fact::tensor(None, Shape::new(dims)),
                None => Fact::Unknown,
            },
        }
    }

    fn with_values(&mut self, input: &Input, fact: TensorFact, values: &[i64]) -> TensorFact {
        let element = fact.element.unwrap_or(ElementType::Int64);
        let shape = match fact.shape {
            Some(shape) if shape.rank() == 0 => shape,
            Some(shape) if shape.elements().as_usize() == Some(values.len()) => shape,
            // One free dim takes what the values give.
            _ => Shape::new(vec![Dim::from(values.len())]),
        };
        let elements = values
            .iter()
            .map(|&value| {
                #[allow(clippy::cast_precision_loss, reason = "a float input holds no more")]
                if element.is_real() { Scalar::Real(value as f64) } else { Scalar::Integer(Dim::from(value)) }
            })
            .collect();
        let known = TensorFact::with_elements(Some(element), shape, elements);
        if known.value.is_none() {
            let message =
                format!("--input gives input {:?} {} values, which do not fit its shape", input.name, values.len());
            self.report(Diagnostic::new(Code::ConflictingBinding, message), input.tensor);
        }
        known
    }

    fn left_free(&mut self) {
        let mut seen = HashSet::default();
        let mut free = Vec::new();
        for (_, fact) in &self.bound.facts {
            let Some(shape) = fact.as_tensor().and_then(|tensor| tensor.shape.as_ref()) else { continue };
            for dim in shape.dims() {
                dim.for_each_symbol(&mut |symbol| {
                    if seen.insert(symbol.clone()) {
                        free.push(symbol.clone());
                    }
                });
            }
        }
        self.bound.free = free;
    }

    fn unused(&mut self, inputs: &[Input], bindings: &Bindings) {
        let inputs: Vec<_> = inputs.iter().map(|input| input.name.as_str()).collect();
        let symbols: Vec<_> = self.symbols.keys().map(String::as_str).collect();
        let mut unused = Vec::new();
        for (name, _) in &bindings.dims {
            if !self.symbols.contains_key(name) {
                unused.push(("--dim", "free dim", name, symbols.as_slice()));
            }
        }
        let names = bindings.input_shapes.iter().map(|(name, _)| ("--input-shape", name));
        for (option, name) in names.chain(bindings.inputs.iter().map(|(name, _)| ("--input", name))) {
            if !inputs.contains(&name.as_str()) {
                unused.push((option, "input", name, inputs.as_slice()));
            }
        }
        for (option, what, name, known) in unused {
            let listed = if known.is_empty() {
                "none".to_owned()
            } else {
                known.iter().take(12).copied().collect::<Vec<_>>().join(", ")
            };
            let message = format!("{option} {name}: the model has no {what} of this name; it has: {listed}");
            self.bound.diagnostics.push(Diagnostic::new(Code::UnusedBinding, message));
        }
    }

    fn report(&mut self, diagnostic: Diagnostic, tensor: TensorId) {
        let name = self.program.tensor(tensor).map(|tensor| tensor.name.clone());
        let place = self.program.places.add(PlaceData { graph: "main".into(), tensor: name, ..PlaceData::default() });
        self.bound.diagnostics.push(diagnostic.at(place));
    }
}

/// The way from a symbol through the values of others back to itself, if there is one.
fn circle(name: &str, values: &BTreeMap<String, Dim>) -> Option<Vec<String>> {
    let mut seen: HashSet<String> = HashSet::default();
    let mut waiting = vec![vec![name.to_owned()]];
    while let Some(path) = waiting.pop() {
        let mut next: Vec<String> = Vec::new();
        if let Some(value) = path.last().and_then(|last| values.get(last)) {
            value.for_each_symbol(&mut |symbol| next.push(symbol.name().to_owned()));
        }
        for symbol in next {
            let back = symbol == name;
            if back || seen.insert(symbol.clone()) {
                let longer = path.iter().cloned().chain([symbol]).collect();
                if back {
                    return Some(longer);
                }
                waiting.push(longer);
            }
        }
    }
    None
}

/// Substitutes bound symbols, also those that the values themselves mention; values lead into no circle.
fn resolve(dim: &Dim, values: &BTreeMap<String, Dim>) -> Dim {
    let mut dim = dim.clone();
    for _ in 0..=values.len() {
        let next = dim.substitute(&|symbol| values.get(symbol.name()).cloned());
        if next == dim {
            break;
        }
        dim = next;
    }
    dim
}

fn declared_dims(ty: &Option<TypeDef>) -> Option<&[DimDef]> {
    match ty {
        Some(TypeDef::Tensor(tensor) | TypeDef::SparseTensor(tensor)) => tensor.shape.as_deref(),
        _ => None,
    }
}

/// The fact of a declared type, where only numbers among its dims are believed.
#[must_use]
pub fn declared_fact(ty: &TypeDef) -> Fact {
    match ty {
        TypeDef::Tensor(tensor) => Fact::tensor(tensor.element, tensor.shape.as_deref().and_then(numbers)),
        TypeDef::SparseTensor(tensor) => Fact::tensor(tensor.element, None),
        TypeDef::Sequence(inner) => Fact::sequence(declared_fact(inner), None),
        TypeDef::Optional(inner) => Fact::Optional(Box::new(declared_fact(inner))),
        TypeDef::Map(..) => Fact::Map,
        TypeDef::Opaque => Fact::Unknown,
    }
}

/// The shape, where every dim is a number. A shape without dims is how files leave the shape of elements open; a name
/// need not mean one size for all elements.
fn numbers(dims: &[DimDef]) -> Option<Shape> {
    let number = |dim: &DimDef| match dim {
        DimDef::Value(value) if *value >= 0 => Some(Dim::from(*value)),
        _ => None,
    };
    if dims.is_empty() { None } else { dims.iter().map(number).collect() }
}

/// A name that the grammar of dims reads as one symbol.
fn is_plain(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|character| character.is_ascii_alphanumeric() || matches!(character, '_' | '.'))
        && !matches!(text, "floor" | "ceil" | "min" | "max" | "mod")
}

/// A dim that counts what earlier steps left behind.
#[must_use]
pub fn is_past(name: &str) -> bool {
    name.to_lowercase().starts_with("past")
}

/// A dim that counts nodes or edges of a graph that the model reads: one graph is one sample, whatever its size.
fn is_of_a_graph(name: &str) -> bool {
    let name = name.to_lowercase();
    ["node", "edge", "vertice"].iter().any(|word| name.contains(word))
}

/// The batch: a symbol whose name holds `batch`, or is `N` or `bs`; else the symbol that leads most inputs, unless it
/// counts nodes or edges.
fn find_batch(inputs: &[Input], symbols: &BTreeMap<String, Symbol>) -> Option<String> {
    let leading = |input: &Input| {
        input
            .dims
            .as_ref()
            .and_then(|dims| dims.first())
            .and_then(Dim::as_symbol)
            .map(|symbol| symbol.name().to_owned())
    };
    let named = |name: &str| name.to_lowercase().contains("batch") || name == "N" || name == "bs";
    let leaders: Vec<_> = inputs.iter().filter_map(leading).collect();
    if let Some(name) = leaders.iter().find(|name| named(name)) {
        return Some(name.clone());
    }
    if let Some(name) = symbols.keys().find(|name| named(name)) {
        return Some(name.clone());
    }
    let mut counts: HashMap<&str, usize> = HashMap::default();
    for name in leaders.iter().filter(|name| !is_of_a_graph(name)) {
        *counts.entry(name).or_insert(0) += 1;
    }
    let best = counts.values().max()?;
    leaders.iter().find(|name| counts.get(name.as_str()) == Some(best)).cloned()
}

/// The number that leads the inputs, where the batch is fixed: that of the first input with a rank of two or more. A graph
/// with its list of edges has none.
fn leading_number(inputs: &[Input]) -> Option<i128> {
    let dims = inputs.iter().filter_map(|input| input.dims.as_ref());
    let mut leaders = dims.clone().filter_map(|dims| dims.first().and_then(Dim::as_symbol));
    if leaders.any(|symbol| is_of_a_graph(symbol.name())) {
        return None;
    }
    dims.filter(|dims| dims.len() >= 2).find_map(|dims| dims.first().and_then(Dim::as_const))
}

#[cfg(test)]
mod tests {
    use super::declared_fact;
    use crate::frontend::onnx::model::{DimDef, TensorTypeDef, TypeDef};
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ops::testing::float;

    #[test]
    fn declared_numbers_of_elements_are_believed_and_names_are_not() {
        let element =
            |dims: Vec<DimDef>| TypeDef::Tensor(TensorTypeDef { element: Some(ElementType::Float), shape: Some(dims) });
        let of = |dims| declared_fact(&TypeDef::Optional(Box::new(element(dims))));
        let unknown = || Fact::Optional(Box::new(Fact::tensor(ElementType::Float, None)));
        assert_eq!(of(vec![DimDef::Value(4)]), Fact::Optional(Box::new(float(&[4]))));
        assert_eq!(of(vec![DimDef::Value(4), DimDef::Param("N".into())]), unknown());
        assert_eq!(of(vec![]), unknown());
    }
}
