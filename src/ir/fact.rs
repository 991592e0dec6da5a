//! Facts: what the analysis knows of a value that flows along an edge, before anything runs.

use std::sync::Arc;

use super::dim::Dim;
use super::element_type::ElementType;
use super::shape::Shape;

/// Values of at most this many elements are followed through the graph; larger ones keep type and shape only.
pub const VALUE_LIMIT: usize = 16_384;

/// What is known of a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Fact {
    /// Nothing.
    #[default]
    Unknown,
    /// A tensor.
    Tensor(TensorFact),
    /// A sequence.
    Sequence(SequenceFact),
    /// A value or nothing.
    Optional(Box<Fact>),
    /// A map.
    Map,
}

impl Fact {
    /// A tensor of this type and shape.
    #[must_use]
    pub fn tensor(element: impl Into<Option<ElementType>>, shape: impl Into<Option<Shape>>) -> Self {
        Self::Tensor(TensorFact { element: element.into(), shape: shape.into(), value: None })
    }

    /// A sequence of elements that all satisfy one fact.
    #[must_use]
    pub fn sequence(element: Fact, length: Option<Dim>) -> Self {
        Self::Sequence(SequenceFact::Alike { element: Box::new(element), length })
    }

    /// The fact of a tensor.
    #[must_use]
    pub fn as_tensor(&self) -> Option<&TensorFact> {
        match self {
            Self::Tensor(fact) => Some(fact),
            _ => None,
        }
    }
}

impl From<TensorFact> for Fact {
    fn from(fact: TensorFact) -> Self {
        Self::Tensor(fact)
    }
}

/// Sequences of at most this many elements are followed element by element.
pub const SEQUENCE_LIMIT: usize = 256;

/// What is known of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum SequenceFact {
    /// Its elements one by one, at most [`SEQUENCE_LIMIT`].
    Each(Vec<Fact>),
    /// What holds for every element.
    Alike {
        /// The fact that all elements satisfy.
        element: Box<Fact>,
        /// Number of elements.
        length: Option<Dim>,
    },
}

impl SequenceFact {
    /// Number of elements.
    #[must_use]
    pub fn length(&self) -> Option<Dim> {
        match self {
            Self::Each(elements) => Some(Dim::from(elements.len())),
            Self::Alike { length, .. } => length.clone(),
        }
    }

    /// Facts of which every element satisfies at least one.
    #[must_use]
    pub fn facts(&self) -> &[Fact] {
        match self {
            Self::Each(elements) => elements,
            Self::Alike { element, .. } => std::slice::from_ref(element),
        }
    }
}

/// What is known of a tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorFact {
    /// Element type.
    pub element: Option<ElementType>,
    /// Shape; `None` when the rank is unknown.
    pub shape: Option<Shape>,
    /// Elements, where they are known.
    pub value: Option<Arc<Value>>,
}

impl TensorFact {
    /// A tensor with known elements, row-major; the value is dropped where their number is over [`VALUE_LIMIT`] or is
    /// not the shape's.
    #[must_use]
    pub fn with_elements(element: Option<ElementType>, shape: Shape, elements: Vec<Scalar>) -> Self {
        let fits = elements.len() <= VALUE_LIMIT && shape.elements().as_usize() == Some(elements.len());
        let value = fits.then(|| Arc::new(Value::Each(elements)));
        Self { element, shape: Some(shape), value }
    }

    /// An `int64` vector of known elements.
    #[must_use]
    pub fn vector(elements: Vec<Dim>) -> Self {
        let shape = Shape::new(vec![Dim::from(elements.len())]);
        let elements = elements.into_iter().map(Scalar::Integer).collect();
        Self::with_elements(Some(ElementType::Int64), shape, elements)
    }

    /// The elements one by one; `None` when the value is not known or holds more than [`VALUE_LIMIT`] elements.
    #[must_use]
    pub fn elements(&self) -> Option<Vec<Scalar>> {
        match &**self.value.as_ref()? {
            Value::Each(elements) => Some(elements.clone()),
            Value::Uniform(scalar) => {
                let count = self.shape.as_ref()?.elements().as_usize().filter(|&count| count <= VALUE_LIMIT)?;
                Some(vec![scalar.clone(); count])
            }
        }
    }

    /// The elements as symbolic integers (`bool` as 0 and 1); `None` unless every one is known.
    #[must_use]
    pub fn integers(&self) -> Option<Vec<Dim>> {
        self.elements()?.into_iter().map(|scalar| scalar.into_integer()).collect()
    }

    /// The elements as plain integers; `None` unless every one is known and a number.
    #[must_use]
    pub fn const_integers(&self) -> Option<Vec<i64>> {
        self.integers()?.iter().map(Dim::as_i64).collect()
    }

    /// The elements as numbers; `None` unless every one is known and not symbolic.
    #[must_use]
    pub fn reals(&self) -> Option<Vec<f64>> {
        self.elements()?.iter().map(Scalar::as_real).collect()
    }

    /// The only element, or the first of a one-element tensor.
    #[must_use]
    pub fn single(&self) -> Option<Scalar> {
        match &**self.value.as_ref()? {
            Value::Each(elements) => match elements.as_slice() {
                [scalar] => Some(scalar.clone()),
                _ => None,
            },
            Value::Uniform(scalar) => (self.shape.as_ref()?.elements().as_const() == Some(1)).then(|| scalar.clone()),
        }
    }

    /// The same without its value.
    #[must_use]
    pub fn without_value(&self) -> Self {
        Self { element: self.element, shape: self.shape.clone(), value: None }
    }
}

/// Known elements of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// One by one, row-major, at most [`VALUE_LIMIT`].
    Each(Vec<Scalar>),
    /// All elements are equal, however many there are.
    Uniform(Scalar),
}

/// One element.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// An integer or a bool (0, 1), possibly symbolic.
    Integer(Dim),
    /// A real number.
    Real(f64),
    /// A symbolic integer over a positive number, in a tensor of reals (what `Cast` and `Div` make of a shape).
    Quotient(Dim, i128),
    /// Not known; its neighbours are.
    Unknown,
}

impl Scalar {
    /// The integer; `None` for other kinds.
    #[must_use]
    pub fn into_integer(self) -> Option<Dim> {
        match self {
            Self::Integer(dim) => Some(dim),
            _ => None,
        }
    }

    /// The number, where it is not symbolic.
    #[must_use]
    pub fn as_real(&self) -> Option<f64> {
        match self {
            #[allow(clippy::cast_precision_loss, reason = "elements of a tensor of reals are rounded anyway")]
            Self::Integer(dim) => dim.as_const().map(|number| number as f64),
            Self::Real(number) => Some(*number),
            Self::Quotient(..) | Self::Unknown => None,
        }
    }
}
