//! Models: which layer reads from which. Sequential and Functional ones, inside each other, shared and called again.

use super::builder::{Builder, Owner, dim_def, element_of};
use super::call::{Argument, Call, Reference, read_call, references};
use super::json::{Json, Value};
use super::layer::{Generation, Layer, Refusal};
use super::layers;
use super::wiring::{Step, Wiring};
use crate::diagnostics::{Code, Diagnostic};
use crate::frontend::onnx::model::{Name, TensorTypeDef, TypeDef};
use crate::ir::hash::HashMap;
use crate::ir::place::Span;

/// Models and wrappers inside each other.
pub(super) const MAX_NESTED: usize = 60;

/// Reads models into a builder.
pub(super) struct Reader<'b, 'p> {
    pub(super) builder: &'b mut Builder<'p>,
    pub(super) generation: Generation,
    /// How often each layer was called so far, by path.
    calls: HashMap<String, usize>,
}

/// What kind of model a class with layers is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sequential,
    Functional,
}

/// A layer as it stands in the list of a model.
pub(super) struct Entry<'j> {
    pub(super) class: &'j str,
    pub(super) name: String,
    pub(super) json: &'j Json<'j>,
    pub(super) config: &'j Json<'j>,
}

/// What surrounds a layer.
#[derive(Clone, Default)]
pub(super) struct Around {
    /// Path of the models around it.
    pub(super) scope: String,
    /// Whether a wrapper freezes it.
    pub(super) frozen: bool,
    pub(super) depth: usize,
    /// Stored tensors that a wrapper adds to those of the layer.
    pub(super) extra: Vec<Name>,
}

/// The model that a layer of this class and configuration is, where it is one.
pub(super) fn kind_of(class: &str, config: &Json<'_>) -> Option<Kind> {
    if config.list().is_some() && class == "Sequential" {
        return Some(Kind::Sequential);
    }
    if class == "Sequential" {
        return Some(Kind::Sequential);
    }
    config.get("layers")?;
    match class {
        "Functional" | "Model" => Some(Kind::Functional),
        "Pipeline" => Some(Kind::Sequential),
        _ if config.get("input_layers").is_some() => Some(Kind::Functional),
        _ => None,
    }
}

/// The layers of a model.
pub(super) fn layers_of<'j>(config: &'j Json<'j>) -> Option<&'j [Json<'j>]> {
    config.list().or_else(|| config.get("layers")?.list())
}

impl<'b, 'p> Reader<'b, 'p> {
    pub(super) fn new(builder: &'b mut Builder<'p>, generation: Generation) -> Self {
        Self { builder, generation, calls: HashMap::default() }
    }

    /// The model of a file: its inputs become those of the graph.
    pub(super) fn main<'j>(&mut self, kind: Kind, json: &'j Json<'j>, config: &'j Json<'j>) {
        let around = Around::default();
        let outputs = match kind {
            Kind::Sequential => {
                let input = self.sequential_input(json, config, 0);
                self.sequential(config, &around, input)
            }
            Kind::Functional => self.functional(config, &around, None),
        };
        for output in outputs {
            self.builder.output(output, json.span);
        }
    }

    /// The inputs of a Sequential model at the top.
    fn sequential_input<'j>(&mut self, json: &'j Json<'j>, config: &'j Json<'j>, depth: usize) -> Vec<Name> {
        let first = layers_of(config).and_then(<[Json<'_>]>::first);
        if let Some(first) = first.and_then(|first| read_entry(first, 0))
            && depth < MAX_NESTED
        {
            let shape = ["batch_shape", "batch_input_shape"].iter().find_map(|key| first.config.given(key));
            if first.class == "InputLayer" {
                return vec![self.input_layer(&first)];
            }
            if let Some(shape) = shape {
                let span = shape.span;
                let ty = self.input_type(&first, Some(shape));
                return vec![self.builder.input(&format!("{}_input", first.name), ty, span)];
            }
            match kind_of(first.class, first.config) {
                Some(Kind::Sequential) => return self.sequential_input(first.json, first.config, depth + 1),
                Some(Kind::Functional) => {
                    let inner = layers_of(first.config).unwrap_or_default();
                    let entries = inner.iter().enumerate().filter_map(|(index, json)| read_entry(json, index));
                    let wanted: Vec<String> = first
                        .config
                        .get("input_layers")
                        .map(references)
                        .unwrap_or_default()
                        .into_iter()
                        .map(|reference| reference.layer)
                        .collect();
                    let inputs: Vec<_> = entries.filter(|entry| entry.class == "InputLayer").collect();
                    let mut names = Vec::new();
                    for wanted in &wanted {
                        if let Some(entry) = inputs.iter().find(|entry| entry.name == *wanted) {
                            names.push(self.input_layer(entry));
                        }
                    }
                    if !names.is_empty() {
                        return names;
                    }
                }
                None => {}
            }
        }
        let build = json.get("build_config").and_then(|build| build.given("input_shape"));
        let shape = config.given("build_input_shape").or(build).filter(|shape| {
            shape.list().is_some_and(|dims| !dims.is_empty() && dims.iter().all(|dim| dim.list().is_none()))
        });
        let ty = shape.and_then(|shape| self.shape_type(shape, None, "the model"));
        vec![self.builder.input("input", ty, json.span)]
    }

    fn input_layer(&mut self, entry: &Entry<'_>) -> Name {
        let shape = ["batch_shape", "batch_input_shape"].iter().find_map(|key| entry.config.given(key));
        let ty = self.input_type(entry, shape);
        let span = shape.map_or(entry.json.span, |shape| shape.span);
        self.builder.input(&entry.name, ty, span)
    }

    fn input_type(&mut self, entry: &Entry<'_>, shape: Option<&Json<'_>>) -> Option<TypeDef> {
        let element = super::layer::policy_name(entry.config);
        let mut element = element.as_deref().unwrap_or("float32");
        if entry.class == "Embedding" {
            element = "int32";
        }
        let element = element_of(element).unwrap_or(crate::ir::element_type::ElementType::Float);
        match shape {
            Some(shape) => self.shape_type(shape, Some(element), &entry.name),
            None => Some(TypeDef::Tensor(TensorTypeDef { element: Some(element), shape: None })),
        }
    }

    fn shape_type(
        &mut self,
        shape: &Json<'_>,
        element: Option<crate::ir::element_type::ElementType>,
        name: &str,
    ) -> Option<TypeDef> {
        let element = element.unwrap_or(crate::ir::element_type::ElementType::Float);
        let mut dims = Vec::new();
        for (axis, dim) in super::layer::items_of(shape).list()?.iter().enumerate() {
            dims.push(match (&dim.value, dim.integer()) {
                (Value::Null, _) => dim_def(axis, None),
                (_, Some(number)) if number < 0 => {
                    let message = format!("input {name:?} has a negative dimension: {number}");
                    let diagnostic = Diagnostic::new(Code::NegativeDim, message)
                        .level(crate::diagnostics::Level::Error)
                        .note("it is taken as a free dim".to_owned());
                    self.builder.report(diagnostic, Some(name), dim.span);
                    dim_def(axis, None)
                }
                (_, Some(number)) => {
                    if number == 0 {
                        let message = format!("input {name:?} has a dimension of 0: no work is counted");
                        let level = crate::diagnostics::Level::Warning;
                        let diagnostic = Diagnostic::new(Code::ZeroDim, message).level(level);
                        self.builder.report(diagnostic, Some(name), dim.span);
                    }
                    dim_def(axis, Some(number))
                }
                _ => {
                    let message = format!("input {name:?}: a dimension must be an integer, got {}", dim.shown());
                    self.builder.report(Diagnostic::new(Code::InvalidAttribute, message), Some(name), dim.span);
                    dim_def(axis, None)
                }
            });
        }
        Some(TypeDef::Tensor(TensorTypeDef { element: Some(element), shape: Some(dims) }))
    }

    /// Runs the layers of a Sequential model one after the other.
    pub(super) fn sequential<'j>(&mut self, config: &'j Json<'j>, around: &Around, inputs: Vec<Name>) -> Vec<Name> {
        let Some(list) = self.layer_list(config) else { return inputs };
        let mut tensors = inputs;
        let mut names: HashMap<String, usize> = HashMap::default();
        for (index, json) in list.iter().enumerate() {
            let Some(entry) = self.entry(json, index) else { continue };
            if entry.class == "InputLayer" {
                if around.depth > 0 {
                    tensors = tensors.into_iter().map(|name| self.pass(&entry, around, name)).collect();
                }
                continue;
            }
            let repeats = names.entry(entry.name.clone()).or_insert(0);
            *repeats += 1;
            if *repeats == 2 {
                self.duplicate(&entry);
            }
            tensors = self.call(&entry, around, &Call::of(&tensors), 1);
        }
        tensors
    }

    fn layer_list<'j>(&mut self, config: &'j Json<'j>) -> Option<&'j [Json<'j>]> {
        if let Some(list) = layers_of(config) {
            return Some(list);
        }
        let (message, span) = match config.get("layers") {
            Some(layers) => (format!("layers must be a list, got {}", layers.shown()), layers.span),
            None => ("the model's config has no layers".to_owned(), config.span),
        };
        self.builder.report(Diagnostic::new(Code::MalformedFile, message), None, span);
        None
    }

    fn duplicate(&mut self, entry: &Entry<'_>) {
        let message = format!("two layers are named {:?}: references to it are ambiguous", entry.name);
        self.builder.report(Diagnostic::new(Code::DuplicateName, message), Some(&entry.name), entry.json.span);
    }

    /// Reads an entry of the list of layers; says what is wrong with one that is none.
    fn entry<'j>(&mut self, json: &'j Json<'j>, index: usize) -> Option<Entry<'j>> {
        if let Some(entry) = read_entry(json, index) {
            return Some(entry);
        }
        let name = json.get("name").and_then(Json::text);
        let message = match (json.get("class_name").and_then(Json::text), name) {
            (None, _) => format!("layer {index} is no layer: class_name is missing"),
            (Some(class), Some(name)) => format!("layer {name:?} ({class}) has no config"),
            (Some(class), None) => format!("layer {index} ({class}) has no config"),
        };
        self.builder.report(Diagnostic::new(Code::MalformedFile, message), name, json.span);
        None
    }

    /// Runs the layers of a Functional model. Without inputs its own become those of the graph.
    pub(super) fn functional<'j>(
        &mut self,
        config: &'j Json<'j>,
        around: &Around,
        inputs: Option<Vec<Name>>,
    ) -> Vec<Name> {
        let Some(list) = self.layer_list(config) else { return inputs.unwrap_or_default() };
        let mut entries = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::default();
        for (index, json) in list.iter().enumerate() {
            let Some(entry) = self.entry(json, index) else { continue };
            if places.insert(entry.name.clone(), entries.len()).is_some() {
                self.duplicate(&entry);
            }
            entries.push(entry);
        }
        let mut steps: Vec<Step<'j>> = Vec::new();
        // By layer: its steps in the order of its calls.
        let mut calls: Vec<Vec<usize>> = vec![Vec::new(); entries.len()];
        for (layer, entry) in entries.iter().enumerate() {
            let inbound = entry.json.get("inbound_nodes").and_then(Json::list).unwrap_or_default();
            if inbound.is_empty() && entry.class == "InputLayer" {
                self.push(&mut steps, &mut calls, layer, Call::default(), entry.json.span);
            }
            for json in inbound {
                self.push(&mut steps, &mut calls, layer, read_call(json), json.span);
            }
        }
        let mut graph = Wiring { entries, places, steps, calls, wanted: Vec::new() };
        let outputs = config.get("output_layers").map(references).unwrap_or_default();
        let ready = graph.order(self, around);
        let mut made: Vec<Option<Vec<Name>>> = vec![None; graph.steps.len()];
        self.bind_inputs(config, &graph, inputs, around, &mut made);
        for step in ready {
            self.step(&mut graph, step, around, &outputs, &mut made);
        }
        let mut results = Vec::new();
        for output in &outputs {
            let Some(found) = graph.find(output, true, self.generation) else {
                self.missing_output(&graph, output);
                continue;
            };
            let Some(Some(names)) = made.get(found) else { continue };
            match usize::try_from(output.tensor).ok().and_then(|tensor| names.get(tensor)) {
                Some(name) => results.push(name.clone()),
                None => self.missing_tensor("the model's output", output, names.len()),
            }
        }
        results
    }

    fn push<'j>(
        &mut self,
        steps: &mut Vec<Step<'j>>,
        calls: &mut [Vec<usize>],
        layer: usize,
        call: Call<'j, Reference>,
        span: Span,
    ) {
        if let Some(calls) = calls.get_mut(layer) {
            calls.push(steps.len());
        }
        steps.push(Step { layer, call, waits: 0, span });
    }

    fn bind_inputs<'j>(
        &mut self,
        config: &'j Json<'j>,
        graph: &Wiring<'j>,
        inputs: Option<Vec<Name>>,
        around: &Around,
        made: &mut [Option<Vec<Name>>],
    ) {
        let wanted = config.get("input_layers").map(references).unwrap_or_default();
        let mut order: Vec<usize> = wanted.iter().filter_map(|input| graph.places.get(&input.layer).copied()).collect();
        for input in &wanted {
            if !graph.places.contains_key(&input.layer) {
                let message = format!("the model's input names layer {:?}, which is not in the model", input.layer);
                self.builder.report(Diagnostic::new(Code::UndefinedTensor, message), None, input.span);
            }
        }
        let others = (0..graph.entries.len())
            .filter(|layer| graph.entries.get(*layer).is_some_and(|entry| entry.class == "InputLayer"));
        for layer in others {
            if !order.contains(&layer) {
                order.push(layer);
            }
        }
        let mut given = inputs.as_ref().map(|inputs| inputs.iter().cloned());
        for layer in order {
            let (Some(entry), Some(step)) =
                (graph.entries.get(layer), graph.calls.get(layer).and_then(|calls| calls.first()))
            else {
                continue;
            };
            let name = match &mut given {
                Some(given) => given.next().map(|name| self.pass(entry, around, name)),
                None => Some(self.input_layer(entry)),
            };
            if let (Some(name), Some(slot)) = (name, made.get_mut(*step)) {
                *slot = Some(vec![name]);
            }
        }
    }

    /// What a model inside another one reads, under the name of its input.
    fn pass(&mut self, entry: &Entry<'_>, around: &Around, name: Name) -> Name {
        let owner = self.owner(entry, around);
        let named = self.builder.node(&owner, "", ["", "Identity"], vec![name.clone()], 1, Vec::new());
        named.into_iter().next().unwrap_or(name)
    }

    /// Names a call of a layer.
    fn owner(&mut self, entry: &Entry<'_>, around: &Around) -> Owner {
        let path = join(&around.scope, &entry.name);
        let count = self.calls.entry(path.clone()).or_insert(0);
        *count += 1;
        let key = if *count == 1 { path } else { format!("{path}~{count}") };
        let class = if entry.class == "Model" { "Functional" } else { entry.class };
        let (scope, name, span) = (around.scope.clone(), entry.name.clone(), entry.json.span);
        Owner { key, scope, name, class: class.to_owned(), span }
    }

    fn step<'j>(
        &mut self,
        graph: &mut Wiring<'j>,
        step: usize,
        around: &Around,
        outputs: &[Reference],
        made: &mut [Option<Vec<Name>>],
    ) {
        if made.get(step).is_some_and(Option::is_some) {
            return;
        }
        let Some(Step { layer, call, .. }) = graph.steps.get(step) else { return };
        let Some(entry) = graph.entries.get(*layer) else { return };
        if entry.class == "InputLayer" {
            return;
        }
        let mut problems = Vec::new();
        let mut records = Vec::new();
        let bound = call.map(&mut |reference: &Reference| -> Name {
            let names = graph.find(reference, false, self.generation).and_then(|found| made.get(found)?.as_ref());
            let Some(names) = names else { return "".into() };
            match usize::try_from(reference.tensor).ok().and_then(|tensor| names.get(tensor)) {
                Some(name) => {
                    if let Some(recorded) = &reference.recorded {
                        records.push((name.clone(), recorded.clone()));
                    }
                    name.clone()
                }
                None => {
                    problems.push((reference.clone(), names.len()));
                    "".into()
                }
            }
        });
        for (name, recorded) in records {
            self.builder.record(&name, recorded);
        }
        let who = format!("layer {:?}", entry.name);
        for (reference, count) in problems {
            self.missing_tensor(&who, &reference, count);
        }
        let mut broken = false;
        bound.each(&mut |name| broken |= name.is_empty());
        let wanted = graph.wanted.get(*layer).copied().unwrap_or(1);
        let further = outputs.iter().filter(|output| output.layer == entry.name).map(|output| output.tensor + 1).max();
        let wanted = wanted.max(further.and_then(|count| usize::try_from(count).ok()).unwrap_or(1)).clamp(1, 64);
        let names = if broken {
            // What it should read is told of already.
            let owner = self.owner(entry, around);
            let given = bound.all().into_iter().filter(|name| !name.is_empty()).collect();
            self.builder.opaque(&owner, given, wanted)
        } else {
            self.call(entry, around, &bound, wanted)
        };
        if let Some(slot) = made.get_mut(step) {
            *slot = Some(names);
        }
    }

    fn missing_tensor(&mut self, who: &str, reference: &Reference, count: usize) {
        let Reference { layer, tensor, .. } = reference;
        let message = if *tensor < 0 {
            format!("{who} reads output {tensor} of layer {layer:?}: a negative index")
        } else {
            let has = if count == 1 { "has one output".to_owned() } else { format!("has {count} outputs") };
            format!("{who} reads output {tensor} of layer {layer:?}, which {has}")
        };
        self.builder.report(Diagnostic::new(Code::UndefinedTensor, message), None, reference.span);
    }

    fn missing_output(&mut self, graph: &Wiring<'_>, output: &Reference) {
        let message = match graph.places.get(&output.layer) {
            None => format!("the model's output names layer {:?}, which is not in the model", output.layer),
            Some(&layer) => graph.no_such_call("the model's output", output, layer),
        };
        self.builder.report(Diagnostic::new(Code::UndefinedTensor, message), None, output.span);
    }

    /// Calls a layer, or the model that it is.
    pub(super) fn call<'j>(
        &mut self,
        entry: &Entry<'j>,
        around: &Around,
        call: &Call<'j, Name>,
        wanted: usize,
    ) -> Vec<Name> {
        let path = join(&around.scope, &entry.name);
        let owner = self.owner(entry, around);
        if around.depth >= MAX_NESTED {
            let message = format!("models and wrappers are nested deeper than {MAX_NESTED} levels");
            self.builder.report(Diagnostic::new(Code::NestedTooDeep, message), Some(&owner.key), entry.json.span);
            return self.builder.opaque(&owner, call.all(), wanted);
        }
        if self.builder.over_budget {
            return call.tensors();
        }
        if let Some(kind) = kind_of(entry.class, entry.config) {
            let inner = Around { scope: path, depth: around.depth + 1, frozen: around.frozen, extra: Vec::new() };
            let outputs = match kind {
                Kind::Sequential => self.sequential(entry.config, &inner, call.tensors()),
                Kind::Functional => self.functional(entry.config, &inner, Some(in_order(entry.config, call))),
            };
            return self.name_outputs(&owner, &outputs);
        }
        let mut layer = Layer {
            reader: self,
            class: entry.class,
            module: entry.json.get("module").and_then(Json::text).unwrap_or_default(),
            custom: is_custom(entry.json),
            config: entry.config,
            build: entry.json.given("build_config"),
            path: path.clone(),
            owner,
            frozen: around.frozen,
            wanted,
            depth: around.depth,
            extra: around.extra.clone(),
        };
        let translated = layers::translate(&mut layer, call);
        let owner = layer.owner;
        match translated {
            Ok(outputs) => outputs,
            Err(refusal) => {
                self.refuse(&refusal, &owner, &path);
                self.builder.opaque(&owner, call.all(), wanted)
            }
        }
    }

    fn refuse(&mut self, refusal: &Refusal, owner: &Owner, path: &str) {
        // A shared layer is told of once.
        if !self.builder.is_news(format!("{path}: {}", refusal.message)) {
            return;
        }
        let message = format!("layer {path:?} ({}): {}", owner.class, refusal.message);
        let span = refusal.span.unwrap_or(owner.span);
        self.builder.report(Diagnostic::new(refusal.code, message), Some(&owner.key), span);
    }

    /// The outputs of a model under its own name.
    fn name_outputs(&mut self, owner: &Owner, outputs: &[Name]) -> Vec<Name> {
        let mut named = Vec::new();
        for (index, output) in outputs.iter().enumerate() {
            let part = if index == 0 { String::new() } else { index.to_string() };
            named.extend(self.builder.node(owner, &part, ["", "Identity"], vec![output.clone()], 1, Vec::new()));
        }
        named
    }
}

/// The tensors of a call in the order in which a model lists its inputs: dictionaries go by name.
fn in_order(config: &Json<'_>, call: &Call<'_, Name>) -> Vec<Name> {
    let wanted = config.get("input_layers").map(references).unwrap_or_default();
    if let Some(Argument::Map(items)) = call.positional.first() {
        let by_name: Option<Vec<Name>> = wanted
            .iter()
            .map(|input| match items.iter().find(|(key, _)| *key == input.layer) {
                Some((_, Argument::Tensor(name))) => Some(name.clone()),
                _ => None,
            })
            .collect();
        if let Some(names) = by_name {
            return names;
        }
        // Keys of the structure that the model was made with.
        let structure = config.get("input_layers").map(Json::members).unwrap_or_default();
        let mut names = Vec::new();
        for (key, _) in structure {
            if let Some((_, argument)) = items.iter().find(|(name, _)| *name == **key) {
                argument.each(&mut |tensor| names.push(tensor.clone()));
            }
        }
        if names.len() == wanted.len() {
            return names;
        }
    }
    call.tensors()
}

/// A layer of a list; `None` where class or configuration is missing.
pub(super) fn read_entry<'j>(json: &'j Json<'j>, index: usize) -> Option<Entry<'j>> {
    let class = json.get("class_name").and_then(Json::text)?;
    let config = json.given("config").filter(|config| config.is_object() || config.list().is_some())?;
    let name = config.get("name").and_then(Json::text).or_else(|| json.get("name").and_then(Json::text));
    let name = name.map_or_else(|| format!("{}_{index}", snake(class)), str::to_owned);
    Some(Entry { class, name, json, config })
}

/// Whether a class was registered by the user: `package>Name`, of a module that is not Keras' own.
fn is_custom(json: &Json<'_>) -> bool {
    let registered = json.get("registered_name").and_then(Json::text).unwrap_or_default();
    let module = json.get("module").and_then(Json::text).unwrap_or_default();
    let own = ["keras", "tf_keras", "tensorflow.keras", "tensorflow.python.keras"];
    registered.contains('>') && !own.iter().any(|own| module == *own || module.starts_with(&format!("{own}.")))
}

/// `BatchNormalization` as `batch_normalization`.
pub(super) fn snake(class: &str) -> String {
    let mut text = String::new();
    for (index, letter) in class.chars().enumerate() {
        if letter.is_uppercase() && index > 0 {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// A path of names.
pub(super) fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}/{name}") }
}
