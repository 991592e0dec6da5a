//! One layer at one call: typed access to its configuration, its weights, and the nodes that it becomes.

use super::builder::{Attributes, Owner, element_of, text};
use super::call::{Argument, Call};
use super::json::{Json, Value};
use super::topology::Reader;
use crate::diagnostics::Code;
use crate::frontend::onnx::model::{AttributeValue, KERAS, Name};
use crate::ir::element_type::ElementType;
use crate::ir::place::Span;

/// Which of the two generations wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// Keras 1 and 2, `tf.keras` and `tf_keras`.
    Two,
    /// Keras 3.
    Three,
}

/// Why a layer cannot be read.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) code: Code,
    pub(super) message: String,
    pub(super) span: Option<Span>,
}

/// What a translation gives: the outputs of the layer.
pub(super) type Outputs = Result<Vec<Name>, Refusal>;

impl Refusal {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { code: Code::InvalidAttribute, message: message.into(), span: None }
    }

    pub(super) fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }
}

/// Largest number of a configuration that a dim can be.
const LARGEST: i128 = i64::MAX as i128;

/// Most axes of a window or a list of numbers.
const MANY: usize = 64;

/// A layer that is called.
pub(super) struct Layer<'r, 'b, 'p, 'j> {
    pub(super) reader: &'r mut Reader<'b, 'p>,
    pub(super) class: &'j str,
    /// Python module of the class, where the file says it.
    pub(super) module: &'j str,
    /// Whether the user registered the class, so that its name says nothing of what it does.
    pub(super) custom: bool,
    pub(super) config: &'j Json<'j>,
    /// `build_config` of the layer, where Keras 3 wrote one.
    pub(super) build: Option<&'j Json<'j>>,
    /// Path of the layer, the same for all its calls.
    pub(super) path: String,
    pub(super) owner: Owner,
    /// Whether something around it is frozen.
    pub(super) frozen: bool,
    /// Outputs that something asks for.
    pub(super) wanted: usize,
    /// Wrappers around it.
    pub(super) depth: usize,
    /// Further stored tensors, which the first node of the layer takes in.
    pub(super) extra: Vec<Name>,
}

impl<'j> Layer<'_, '_, '_, 'j> {
    pub(super) fn generation(&self) -> Generation {
        self.reader.generation
    }

    fn given(&self, key: &str) -> Option<&'j Json<'j>> {
        self.config.given(key)
    }

    /// A value of the configuration that is not null.
    pub(super) fn value(&self, key: &str) -> Option<&'j Json<'j>> {
        self.given(key)
    }

    fn whole(&self, key: &str, value: &Json<'_>) -> Result<i64, Refusal> {
        let refuse = |what: String| Err(Refusal::new(format!("{key} {what}")).at(value.span));
        match &value.value {
            Value::Integer(number) if i128::from(number.unsigned_abs()) > LARGEST => {
                refuse(format!("is {number}, past the largest dimension"))
            }
            Value::Whole(digits) => refuse(format!("is {digits}, past the largest dimension")),
            Value::Integer(number) => Ok(*number),
            Value::Real(number) if number.abs() >= 9.2e18 => {
                refuse(format!("is {}: not an integer a tensor can have", value.shown()))
            }
            #[allow(clippy::cast_possible_truncation, reason = "the range is checked")]
            Value::Real(number) if number.fract() == 0.0 => Ok(*number as i64),
            Value::Null => refuse("is null".to_owned()),
            _ => refuse(format!("must be an integer, got {}", value.shown())),
        }
    }

    /// A whole number.
    pub(super) fn integer(&self, key: &str) -> Result<Option<i64>, Refusal> {
        self.given(key).map(|value| self.whole(key, value)).transpose()
    }

    /// A whole number with a default.
    pub(super) fn integer_or(&self, key: &str, default: i64) -> Result<i64, Refusal> {
        Ok(self.integer(key)?.unwrap_or(default))
    }

    /// A number that must be there and be 1 or more.
    pub(super) fn positive(&self, key: &str) -> Result<i64, Refusal> {
        let Some(value) = self.config.get(key) else { return Err(Refusal::new(format!("{key} is missing"))) };
        match self.whole(key, value)? {
            number if number > 0 => Ok(number),
            number => Err(Refusal::new(format!("{key} must be positive, got {number}")).at(value.span)),
        }
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> bool {
        self.given(key).and_then(Json::truth).unwrap_or(default)
    }

    pub(super) fn text(&self, key: &str) -> Option<&'j str> {
        self.given(key).and_then(Json::text)
    }

    pub(super) fn real(&self, key: &str) -> Option<f64> {
        self.given(key).and_then(Json::real)
    }

    /// A list of whole numbers; one number is a list of one. NumPy arrays are lists in an object.
    pub(super) fn list(&self, key: &str) -> Result<Option<Vec<i64>>, Refusal> {
        let Some(value) = self.given(key) else { return Ok(None) };
        let value = items_of(value);
        match value.list() {
            Some(items) if items.len() <= MANY => {
                items.iter().map(|item| self.whole(key, item)).collect::<Result<_, _>>().map(Some)
            }
            Some(items) => Err(Refusal::new(format!("{key} holds {} numbers", items.len())).at(value.span)),
            None => self.whole(key, value).map(|number| Some(vec![number])),
        }
    }

    /// One number for each of so many axes, each at least `least`.
    pub(super) fn spatial(&self, key: &str, axes: usize, default: i64, least: i64) -> Result<Vec<i64>, Refusal> {
        let Some(values) = self.list(key)? else { return Ok(vec![default; axes]) };
        let span = self.given(key).map(|value| value.span).unwrap_or_default();
        let values = match values.as_slice() {
            [one] => vec![*one; axes],
            _ if values.len() == axes => values,
            _ => {
                let message = format!("{key} must be one integer or {axes}, got {values:?}");
                return Err(Refusal::new(message).at(span));
            }
        };
        match values.iter().find(|&&value| value < least) {
            Some(value) if least > 0 => Err(Refusal::new(format!("{key} must be positive, got {value}")).at(span)),
            Some(value) => Err(Refusal::new(format!("{key} must not be negative, got {value}")).at(span)),
            None => Ok(values),
        }
    }

    /// Pairs of numbers for each axis: `2`, `[1, 2]` for equal pairs, or `[[1, 2], [3, 4]]`.
    pub(super) fn pairs(&self, key: &str, axes: usize, default: i64) -> Result<Vec<[i64; 2]>, Refusal> {
        let Some(value) = self.given(key) else { return Ok(vec![[default; 2]; axes]) };
        let value = items_of(value);
        let refuse = || Refusal::new(format!("{key} must hold a pair of integers for each axis")).at(value.span);
        let negative = |pair: &[i64; 2]| pair.iter().any(|&number| number < 0);
        let Some(items) = value.list() else {
            let number = self.whole(key, value)?;
            let pairs = vec![[number; 2]; axes];
            return if number < 0 { Err(refuse()) } else { Ok(pairs) };
        };
        // One axis: the list is the pair.
        if axes == 1 && items.len() == 2 && items.iter().all(|item| item.list().is_none()) {
            let pair = [
                self.whole(key, items.first().ok_or_else(refuse)?)?,
                self.whole(key, items.get(1).ok_or_else(refuse)?)?,
            ];
            return if negative(&pair) { Err(refuse()) } else { Ok(vec![pair]) };
        }
        if items.len() != axes {
            return Err(refuse());
        }
        let mut pairs = Vec::new();
        for item in items {
            let pair = match items_of(item).list() {
                Some([first, second]) => [self.whole(key, first)?, self.whole(key, second)?],
                Some(_) => return Err(refuse()),
                None => [self.whole(key, item)?; 2],
            };
            if negative(&pair) {
                return Err(refuse());
            }
            pairs.push(pair);
        }
        Ok(pairs)
    }

    pub(super) fn channels_last(&self) -> bool {
        self.text("data_format") != Some("channels_first")
    }

    /// Whether its weights are trained.
    pub(super) fn trainable(&self) -> bool {
        !self.frozen && self.flag("trainable", true)
    }

    /// Types in which the layer computes and stores its weights.
    pub(super) fn dtypes(&self) -> (ElementType, ElementType) {
        let name = policy_name(self.config);
        let float = (ElementType::Float, ElementType::Float);
        let Some(name) = name else { return float };
        match name.split_once("_from_").map_or(&*name, |(_, source)| source) {
            "mixed_float16" | "mixed_bfloat16" => float,
            other => match element_of(other).filter(|element| element.is_real()) {
                Some(element) => (element, element),
                None => float,
            },
        }
    }

    /// How the weights are quantised: `int8`, `int4`, `float8`.
    pub(super) fn quantized(&self) -> Option<&'j str> {
        let dtype = self.config.given("dtype")?;
        let inner = dtype.get("config");
        let mode = inner.and_then(|config| config.given("mode")).and_then(Json::text);
        let name = inner.and_then(|config| config.given("name")).and_then(Json::text).or_else(|| dtype.text());
        mode.or_else(|| name?.split_once("_from_").map(|(mode, _)| mode))
    }

    /// A weight that is trained where the layer is.
    pub(super) fn weight(&mut self, part: &str) -> Name {
        self.weight_of(part, true, None)
    }

    /// A stored tensor that training never changes.
    pub(super) fn statistic(&mut self, part: &str) -> Name {
        self.weight_of(part, false, None)
    }

    /// A stored tensor: `trained` says whether it would be in a layer that is not frozen.
    pub(super) fn weight_of(&mut self, part: &str, trained: bool, dims: Option<Vec<i64>>) -> Name {
        let (_, variable) = self.dtypes();
        self.stored(part, variable, trained, dims)
    }

    /// The same in a type of its own.
    pub(super) fn stored(&mut self, part: &str, element: ElementType, trained: bool, dims: Option<Vec<i64>>) -> Name {
        if let Some(name) = policy_name(self.config) {
            let builder = &mut *self.reader.builder;
            match builder.policies.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => builder.policies.push((name, 1)),
            }
        }
        let trained = trained && self.trainable();
        let (path, span) = (format!("{}/{part}", self.path), self.owner.span);
        self.reader.builder.weight(path, element, trained, dims, span)
    }

    /// A node of our own domain with one output.
    pub(super) fn keras(&mut self, part: &str, op: &str, inputs: Vec<Name>, attributes: Attributes) -> Name {
        self.keras_many(part, op, inputs, 1, attributes).into_iter().next().unwrap_or_else(|| "".into())
    }

    /// A node of our own domain.
    pub(super) fn keras_many(
        &mut self,
        part: &str,
        op: &str,
        inputs: Vec<Name>,
        outputs: usize,
        mut attributes: Attributes,
    ) -> Vec<Name> {
        let (compute, _) = self.dtypes();
        if compute != ElementType::Float {
            attributes.push(("compute", text(compute_name(compute))));
        }
        self.reader.builder.node(&self.owner, part, [KERAS, op], inputs, outputs, attributes)
    }

    /// A node of the standard domain with one output.
    pub(super) fn onnx(&mut self, part: &str, op: &str, inputs: Vec<Name>, attributes: Attributes) -> Name {
        let names = self.reader.builder.node(&self.owner, part, ["", op], inputs, 1, attributes);
        names.into_iter().next().unwrap_or_else(|| "".into())
    }

    /// The only tensor that the layer is called with.
    pub(super) fn input(&self, call: &Call<'j, Name>) -> Result<Name, Refusal> {
        call.tensors().into_iter().next().ok_or_else(|| Refusal::new("the layer is called without a tensor"))
    }

    /// What the layer says of itself in attributes of operators that name it in messages.
    pub(super) fn class_attribute(&self) -> (&'static str, AttributeValue) {
        ("class", text(self.class))
    }
}

/// The items of a list that may be a NumPy array or a wrapped list.
pub(super) fn items_of<'x, 'j>(value: &'x Json<'j>) -> &'x Json<'j> {
    match value.get("class_name").and_then(Json::text) {
        Some("__numpy__" | "__tuple__" | "TensorShape") => match value.get("config") {
            Some(config) => config.get("value").or_else(|| config.get("items")).unwrap_or(config),
            None => value.get("items").unwrap_or(value),
        },
        _ => value,
    }
}

/// The name of a dtype policy, which is a text or an object.
pub(super) fn policy_name(config: &Json<'_>) -> Option<String> {
    let dtype = config.given("dtype")?;
    let name = match dtype.text() {
        Some(name) => name,
        None => dtype.get("config")?.given("name")?.text()?,
    };
    Some(name.to_owned())
}

fn compute_name(element: ElementType) -> &'static str {
    match element {
        ElementType::Float16 => "float16",
        ElementType::Bfloat16 => "bfloat16",
        ElementType::Double => "float64",
        _ => "float32",
    }
}

/// A value among arguments as JSON.
pub(super) fn constant<'j, T>(argument: Option<&Argument<'j, T>>) -> Option<&'j Json<'j>> {
    match argument {
        Some(Argument::Value(json)) => Some(json),
        _ => None,
    }
}
