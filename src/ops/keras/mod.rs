//! Operators that Keras layers become where their shapes or weights differ from the standard ones: weights whose shapes
//! follow from the input, channels last, padding and sizes as Keras has them. What is computed, costs and gradients are
//! those of the operators beside this folder.

mod attention;
mod convolution;
mod dense;
mod lookup;
mod merge;
mod norm;
mod pooling;
mod recurrent;
mod reshaping;
mod shaped;

use std::fmt;

use super::table::{Built, Entry};
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx, unary};
use crate::frontend::onnx::model::KERAS;
use crate::ir::dim::{Dim, SymbolKind};
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, TensorFact};
use crate::ir::shape::Shape;

/// Any number.
const MANY: usize = usize::MAX;

const fn keras(name: &'static str, inputs: [usize; 2], max_outputs: usize, build: fn(&NodeView<'_>) -> Built) -> Entry {
    Entry { domain: KERAS, name, min_inputs: inputs[0], max_inputs: inputs[1], max_outputs, withdrawn: i64::MAX, build }
}

/// Every operator of the domain, sorted by name.
pub(super) const ENTRIES: &[Entry] = &[
    keras("Activation", [1, 1], 1, unary::unary),
    keras("Add", [2, 2], 1, merge::merge),
    keras("Attention", [3, MANY], 2, attention::attention),
    keras("AveragePool", [1, 1], 1, pooling::average_pool),
    keras("BatchNormalization", [1, MANY], 1, norm::batch_norm),
    keras("Conv", [2, MANY], 1, convolution::conv),
    keras("ConvLSTM", [3, MANY], MANY, recurrent::conv_lstm),
    keras("ConvTranspose", [2, MANY], 1, convolution::conv_transpose),
    keras("Dense", [2, MANY], 1, dense::dense),
    keras("Dot", [2, 2], 1, merge::dot),
    keras("EinsumDense", [2, MANY], 1, dense::einsum_dense),
    keras("Encode", [1, MANY], 1, lookup::encode),
    keras("Flatten", [1, 1], 1, reshaping::flatten),
    keras("FoldTime", [1, 1], 1, reshaping::fold_time),
    keras("GRU", [3, MANY], MANY, recurrent::recurrent),
    keras("Gather", [2, MANY], 1, lookup::embedding),
    keras("GlobalAveragePool", [1, 1], 1, pooling::global_average_pool),
    keras("GlobalMaxPool", [1, 1], 1, pooling::global_max_pool),
    keras("Glu", [1, 1], 1, reshaping::glu),
    keras("GroupNormalization", [1, MANY], 1, norm::norm),
    keras("Item", [1, MANY], 1, reshaping::item),
    keras("LSTM", [3, MANY], MANY, recurrent::recurrent),
    keras("LayerNormalization", [1, MANY], 1, norm::norm),
    keras("LocallyConnected", [2, MANY], 1, convolution::locally_connected),
    keras("Max", [2, 2], 1, merge::merge),
    keras("MaxPool", [1, 1], 1, pooling::max_pool),
    keras("Min", [2, 2], 1, merge::merge),
    keras("Mul", [2, 2], 1, merge::merge),
    keras("PRelu", [2, MANY], 1, norm::prelu),
    keras("Permute", [1, 1], 1, reshaping::permute),
    keras("RNN", [3, MANY], MANY, recurrent::recurrent),
    keras("Reduce", [1, 1], 1, pooling::reduce),
    keras("Reshape", [1, 1], 1, reshaping::reshape),
    keras("Scale", [1, MANY], 1, norm::scale),
    keras("Shaped", [1, MANY], 1, shaped::shaped),
    keras("Sub", [2, 2], 1, merge::merge),
    keras("UnfoldTime", [2, 2], 1, reshaping::unfold_time),
    keras("UnitNormalization", [1, 1], 1, norm::norm),
];

/// What a layer stores.
trait Stores: fmt::Debug + Send + Sync {
    /// Shapes of stored inputs by their index, as far as what the layer reads decides them.
    fn shapes(&self, cx: &InferCx<'_>) -> Result<Vec<(usize, Shape)>, Fault>;
}

/// An operator whose weights take their shapes from what it reads, and which computes in the type of a dtype policy.
#[derive(Debug)]
struct Layer {
    stores: Box<dyn Stores>,
    /// Inputs that are data; all others are stored.
    data: &'static [usize],
    /// Type in which it computes, where that is not the type of what it reads.
    compute: Option<ElementType>,
    inner: Box<dyn Operator>,
}

impl Layer {
    fn of(node: &NodeView<'_>, stores: impl Stores + 'static, inner: impl Operator + 'static) -> Built {
        Ok(Box::new(Self { stores: Box::new(stores), data: &[0], compute: compute(node)?, inner: Box::new(inner) }))
    }

    /// A fact as the operator computes with it.
    fn cast(&self, fact: &TensorFact, element: Option<ElementType>) -> Fact {
        match fact.element {
            Some(found) if !found.is_real() => Fact::Tensor(fact.clone()),
            _ => Fact::Tensor(TensorFact { element: element.or(fact.element), ..fact.clone() }),
        }
    }
}

/// The type in which a node computes, where the file names one.
fn compute(node: &NodeView<'_>) -> Result<Option<ElementType>, Fault> {
    Ok(match node.string("compute")? {
        Some("float16") => Some(ElementType::Float16),
        Some("bfloat16") => Some(ElementType::Bfloat16),
        Some("float64") => Some(ElementType::Double),
        _ => None,
    })
}

impl Operator for Layer {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let shapes = self.stores.shapes(cx)?;
        for (input, shape) in &shapes {
            if cx.has(*input) {
                cx.shape_stored(*input, shape)?;
            }
        }
        let first = self.data.first().and_then(|&input| cx.element(input)).filter(|element| element.is_real());
        let element = self.compute.or(first);
        let facts: Vec<Option<Fact>> = (0..cx.input_count())
            .map(|input| {
                let fact = cx.fact(input)?;
                let Some(tensor) = fact.as_tensor() else { return Some(fact.clone()) };
                let mut tensor = tensor.clone();
                if let Some((_, shape)) = shapes.iter().find(|(stored, _)| *stored == input) {
                    tensor.shape = Some(shape.clone());
                }
                // Keras casts what a layer reads and its weights to one type.
                let element = element.or(if self.data.contains(&input) { None } else { tensor.element });
                Some(self.cast(&tensor, element))
            })
            .collect();
        let given: Vec<Option<&Fact>> = facts.iter().map(Option::as_ref).collect();
        self.inner.infer(&mut InferCx::new(&given, cx.outputs, cx.host))
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        self.inner.cost(cx)
    }

    fn role(&self, input: usize) -> Role {
        match self.inner.role(input) {
            _ if self.data.contains(&input) => Role::Data,
            Role::Statistic => Role::Statistic,
            _ => Role::Weight,
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        self.inner.work(cx)
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        self.inner.saved(cx)
    }
}

/// A dim that a weight is made by: it must be a number. Where an earlier fault or a layer without a rule hides it, nothing
/// is said.
fn wanted(dim: Option<&Dim>, what: impl FnOnce() -> String) -> Result<Option<Dim>, Fault> {
    let Some(dim) = dim else { return Ok(None) };
    if dim.as_const().is_some() {
        return Ok(Some(dim.clone()));
    }
    let mut free = true;
    dim.for_each_symbol(&mut |symbol| free &= symbol.kind() == SymbolKind::Free);
    if free {
        return Err(Fault::shape(format!("{} must be known", what()))
            .help("give the input a shape in the model, or bind it: --input-shape NAME=..."));
    }
    Ok(None)
}

/// Checks that an input has a rank.
fn expect_rank(cx: &InferCx<'_>, input: usize, class: &str, rank: usize) -> Result<(), Fault> {
    match cx.shape(input) {
        Some(shape) if shape.rank() != rank => {
            Err(Fault::shape(format!("{class} needs a rank-{rank} input, got rank {} ({shape})", shape.rank())))
        }
        _ => Ok(()),
    }
}

/// A positive whole number of an attribute.
fn positive(node: &NodeView<'_>, name: &str) -> Result<i64, Fault> {
    match node.int(name)? {
        Some(number) if number > 0 => Ok(number),
        Some(number) => Err(Fault::attribute(format!("{name} must be positive, got {number}"))),
        None => Err(node.missing(name)),
    }
}

/// A list of whole numbers, none where it is left out.
fn list(node: &NodeView<'_>, name: &str) -> Result<Vec<i64>, Fault> {
    Ok(node.ints(name)?.unwrap_or_default())
}
