//! Operators whose outputs have the types and shapes of inputs, and whose cost is so many operations for each element.
//! Families of them are tables of [`Alike`]; what has a shape of its own has a file of its own.

use super::{Cost, CostCx, Family, Fault, InferCx, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, TensorFact};
use crate::ir::shape::Shape;

/// What an output is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Out {
    /// As an input.
    Of(usize),
    /// Of the shape of an input, with elements of another type.
    As(usize, ElementType),
    /// A bit for each element of an input, in words of 32.
    Bits(usize),
    /// One element.
    One(ElementType),
    /// Of the shape whose dims are the elements of an input, with elements of the type of another.
    ShapedBy { shape: usize, element: usize },
}

/// Which kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    /// A function of each element.
    Each,
    /// Nothing but movement.
    Moves,
    /// A normalisation of the last dim.
    Norm,
    /// A softmax of the last dim.
    Softmax,
    /// A reduction of all inputs to one element.
    Reduction,
    /// An update of weights.
    Update,
}

/// An operator whose outputs are like inputs.
#[derive(Clone, Debug)]
pub(super) struct Alike {
    outputs: Vec<Out>,
    /// The input whose elements are counted; all of them in a reduction.
    counted: usize,
    /// Operations for each.
    operations: i128,
    runs: Runs,
    weights: &'static [usize],
    settings: &'static [usize],
    saved: Saved,
    /// Whether there is a backward pass through it.
    trains: bool,
}

impl Alike {
    /// With these outputs, one operation for each element of the first input.
    pub(super) fn new(outputs: impl Into<Vec<Out>>) -> Self {
        let outputs = outputs.into();
        let counted = match outputs.first() {
            Some(Out::Of(input) | Out::As(input, _) | Out::Bits(input)) => *input,
            _ => 0,
        };
        Self {
            outputs,
            counted,
            operations: 1,
            runs: Runs::Each,
            weights: &[],
            settings: &[],
            saved: Saved::NOTHING,
            trains: true,
        }
    }

    /// Another kernel.
    pub(super) fn runs(mut self, runs: Runs) -> Self {
        self.runs = runs;
        self
    }

    /// So many operations for each counted element.
    pub(super) fn operations(mut self, operations: i128) -> Self {
        self.operations = operations;
        self
    }

    /// Counts the elements of this input.
    pub(super) fn counting(mut self, input: usize) -> Self {
        self.counted = input;
        self
    }

    /// Inputs that are trained where they are stored.
    pub(super) fn weights(mut self, weights: &'static [usize]) -> Self {
        self.weights = weights;
        self
    }

    /// Inputs that could have been attributes.
    pub(super) fn settings(mut self, settings: &'static [usize]) -> Self {
        self.settings = settings;
        self
    }

    /// What the backward pass reads.
    pub(super) fn saves(mut self, saved: Saved) -> Self {
        self.saved = saved;
        self
    }

    /// Nothing is trained through it.
    pub(super) fn without_gradient(mut self) -> Self {
        self.trains = false;
        self
    }
}

impl Operator for Alike {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let mut facts = Vec::with_capacity(self.outputs.len());
        for output in self.outputs.iter().take(cx.output_count()) {
            facts.push(match *output {
                Out::Of(input) => match cx.fact(input) {
                    Some(Fact::Tensor(TensorFact { element, shape, .. })) => Fact::tensor(*element, shape.clone()),
                    other => other.cloned().unwrap_or_default(),
                },
                Out::As(input, element) => Fact::tensor(element, cx.shape(input).cloned()),
                Out::Bits(input) => {
                    let words = |shape: &Shape| Shape::new(vec![shape.elements().ceil_div(&Dim::constant(32))]);
                    Fact::tensor(ElementType::Uint32, cx.shape(input).map(words))
                }
                Out::One(element) => Fact::tensor(element, Shape::scalar()),
                Out::ShapedBy { shape, element } => {
                    Fact::tensor(cx.element(element), cx.integers(shape).map(Shape::new))
                }
            });
        }
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        if self.runs == Runs::Moves {
            return Cost::moved(cx);
        }
        let counted = match self.runs {
            Runs::Reduction => (0..).map_while(|input| cx.elements_in(input)).sum::<Dim>(),
            _ => cx.elements_in(self.counted)?,
        };
        let flops = counted * self.operations;
        let backward = if self.trains { flops.clone() } else { Dim::ZERO };
        Cost::computed(cx, flops, &backward)
    }

    fn role(&self, input: usize) -> Role {
        if self.weights.contains(&input) {
            Role::Weight
        } else if self.settings.contains(&input) {
            Role::Setting
        } else {
            Role::Data
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let counted = cx.input(self.counted);
        let elements = counted.map_or(0, |input| input.elements());
        let cols = counted.and_then(|input| input.dim_from_end(0)).unwrap_or(1);
        let rows = elements.checked_div(cols).unwrap_or_default();
        vec![match self.runs {
            Runs::Each => cx.elementwise(),
            Runs::Moves => cx.moved(),
            Runs::Norm => cx.all(Family::LayerNorm { rows, cols }),
            Runs::Softmax => cx.all(Family::Softmax { rows, cols }),
            Runs::Reduction => {
                let all = cx.inputs.iter().flatten().map(|input| input.elements()).fold(0, u64::saturating_add);
                cx.all(Family::Reduce { rows: 1, cols: all })
            }
            Runs::Update => cx.all(Family::Update { elements, tensors: 1 }),
        }]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        self.saved.when(self.trains && cx.has_backward())
    }
}
