//! Operators: one file per operator or tight family, and one table that names them.
//!
//! An operator knows its own rule: shape and element type of its outputs, their values where shape arithmetic needs
//! them, its cost, and what each input is to it. It knows nothing of the model around it, of runtimes or of devices.
//! To add one: a file here with a type that implements [`Operator`], and a line in [`table`].

mod alike;
pub mod attention;
pub mod attributes;
mod axes;
pub mod batch_norm;
mod binary;
mod broadcast;
mod cast;
pub mod composed;
mod concat;
mod constant;
mod control_flow;
pub mod conv;
pub mod conv_transpose;
pub mod cost;
pub mod detection;
mod dropout;
pub mod einsum;
mod expand;
mod flex_attention;
mod gather;
pub mod gemm;
pub mod gradient;
#[cfg(test)]
mod hostile;
pub mod keras;
pub mod layer_norm;
mod linear_attention;
mod loss;
pub mod matmul;
mod merge;
pub mod microsoft_attention;
mod microsoft_cached_attention;
mod microsoft_conv_grad;
mod microsoft_decoder_attention;
mod microsoft_elementwise;
mod microsoft_embedding;
mod microsoft_fft;
pub mod microsoft_fused;
mod microsoft_fused_products;
mod microsoft_gated;
mod microsoft_generation;
mod microsoft_group_norm;
pub mod microsoft_group_query;
mod microsoft_longformer;
pub mod microsoft_matmul_nbits;
mod microsoft_moe;
mod microsoft_packed_attention;
pub mod microsoft_quantized;
mod microsoft_serving;
mod microsoft_shapes;
mod microsoft_training;
mod ml;
mod nonzero;
pub mod normalization;
mod one_hot;
mod operands;
mod optimizer;
mod pad;
pub mod pool;
pub mod quantize;
mod random;
mod range;
pub mod recurrent;
mod reduce;
mod reshape;
mod resize;
pub mod rotary;
mod sample;
mod scalar;
mod scatter;
mod sequence;
mod shape_of;
mod signal;
mod slice;
pub mod softmax;
mod split;
mod squeeze;
pub mod table;
#[cfg(test)]
pub(crate) mod testing;
mod text;
mod topk;
mod transpose;
mod unary;
mod values;
pub mod window;
pub mod work;
#[cfg(test)]
mod work_tests;

use std::fmt;

pub use attributes::NodeView;
pub use cost::{Cost, CostCx};
pub use gradient::{Gradient, backward};
pub use work::{Family, Function, Saved, Work, WorkCx};

use crate::diagnostics::Code;
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar, TensorFact};
use crate::ir::shape::Shape;

/// What an operator finds wrong with a node. It becomes an error at the node; its outputs are then unknown.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Kind of the finding.
    pub code: Code,
    /// One sentence that names attribute or input, value, and what is allowed.
    pub message: String,
    /// What to try.
    pub help: Option<String>,
}

impl Fault {
    /// A fault of this kind.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None }
    }

    /// Shapes that do not fit together.
    #[must_use]
    pub fn shape(message: impl Into<String>) -> Self {
        Self::new(Code::ShapeMismatch, message)
    }

    /// An attribute out of its range.
    #[must_use]
    pub fn attribute(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidAttribute, message)
    }

    /// Sets the help text.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// What an input is to its operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Data: an activation, or a stored tensor that takes part in the computation.
    Data,
    /// A trained weight where it is stored (kernel, bias, scale, table).
    Weight,
    /// Running statistics of a normalisation: stored, not trained.
    Statistic,
    /// Something that could have been an attribute: axes, limits, ratios, scales of a resize, quantisation parameters.
    Setting,
}

/// How often a subgraph runs for each run of its node.
#[derive(Clone, Debug, PartialEq)]
pub enum Repeats {
    /// It is one of several branches of which one runs.
    Branch,
    /// Exactly this often.
    Exactly(Dim),
    /// At most this often.
    AtMost(Dim),
    /// Not known at all.
    Unknown,
}

/// An operator with its attributes.
pub trait Operator: fmt::Debug + Send + Sync {
    /// Facts of the outputs, in order; fewer facts than outputs leave the rest unknown.
    ///
    /// # Errors
    /// When the node cannot run: shapes that do not fit, a type that is not allowed.
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault>;

    /// What one run costs; `None` when the shapes it depends on are not known.
    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost>;

    /// What an input is to the operator.
    fn role(&self, _input: usize) -> Role {
        Role::Data
    }

    /// How many parameters an input holds where it is stored; `None` where that is its number of elements. Operators
    /// that read several parameters out of one stored element say it here.
    fn stored_elements(&self, _input: usize) -> Option<Dim> {
        None
    }

    /// Whether the outputs depend on shapes of inputs only, not on their elements.
    fn reads_only_shape(&self) -> bool {
        false
    }

    /// The order in which axes of an input of this rank become axes of the output, where that is all that happens.
    fn permutation(&self, _rank: usize) -> Option<Vec<usize>> {
        None
    }

    /// Whether the first output is the first input under another shape or name: nothing is moved.
    fn is_view(&self) -> bool {
        false
    }

    /// What a forward run does, as the work items that libraries have kernels for, in running order. The default is
    /// one function of each element, and nothing where nothing was counted.
    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        if self.is_view() || cx.is_free() { Vec::new() } else { vec![cx.function(self.function())] }
    }

    /// The function that is computed of each element, where that is all that is done.
    fn function(&self) -> Function {
        Function::Arithmetic
    }

    /// What the backward pass reads of a forward run, as the automatic differentiation of `PyTorch` keeps it. The default
    /// is nothing: sums, copies and views.
    fn saved(&self, _cx: &WorkCx<'_>) -> Saved {
        Saved::NOTHING
    }

    /// Whether `PyTorch` gives the outputs as views of the first input, so that they are one tensor in memory there.
    fn shares_storage(&self, _cx: &WorkCx<'_>) -> bool {
        self.is_view()
    }
}

/// What the analysis offers to an operator while it infers, beyond its inputs.
pub trait Host {
    /// A symbol for a dim of an output that the inputs do not decide, between `lo` and `hi` (where a bound is known).
    fn fresh_dim(&mut self, output: usize, axis: usize, lo: i128, hi: Option<Dim>) -> Dim;
    /// Reports a finding that does not stop the node.
    fn remark(&mut self, fault: Fault);
    /// Infers a subgraph (by its place among the node's graph attributes) for these inputs; gives its outputs.
    fn infer_child(&mut self, child: usize, inputs: &[Fact]) -> Vec<Fact>;
    /// Says how often a subgraph runs.
    fn set_repeats(&mut self, child: usize, repeats: Repeats);
    /// Gives a stored input, whose file does not say it, its shape.
    ///
    /// # Errors
    /// When it has another shape already.
    fn shape_stored(&mut self, _input: usize, _shape: &Shape) -> Result<(), Fault> {
        Ok(())
    }
}

/// The inputs of a node while its outputs are inferred.
pub struct InferCx<'a> {
    inputs: &'a [Option<&'a Fact>],
    outputs: usize,
    host: &'a mut dyn Host,
}

impl<'a> InferCx<'a> {
    /// A context for one node: its inputs (`None` where one is left out) and its number of outputs.
    pub fn new(inputs: &'a [Option<&'a Fact>], outputs: usize, host: &'a mut dyn Host) -> Self {
        Self { inputs, outputs, host }
    }

    /// Number of inputs, left-out ones in the middle included.
    #[must_use]
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs that the node names.
    #[must_use]
    pub fn output_count(&self) -> usize {
        self.outputs
    }

    /// The fact of an input; `None` where it is left out.
    #[must_use]
    pub fn fact(&self, input: usize) -> Option<&'a Fact> {
        self.inputs.get(input).copied().flatten()
    }

    /// Whether the input is given.
    #[must_use]
    pub fn has(&self, input: usize) -> bool {
        self.fact(input).is_some()
    }

    /// The tensor fact of an input; `None` where it is left out, unknown or no tensor.
    #[must_use]
    pub fn tensor(&self, input: usize) -> Option<&'a TensorFact> {
        self.fact(input).and_then(Fact::as_tensor)
    }

    /// The shape of an input, where its rank is known.
    #[must_use]
    pub fn shape(&self, input: usize) -> Option<&'a Shape> {
        self.tensor(input).and_then(|tensor| tensor.shape.as_ref())
    }

    /// The element type of an input.
    #[must_use]
    pub fn element(&self, input: usize) -> Option<ElementType> {
        self.tensor(input).and_then(|tensor| tensor.element)
    }

    /// The elements of an input as symbolic integers.
    #[must_use]
    pub fn integers(&self, input: usize) -> Option<Vec<Dim>> {
        self.tensor(input).and_then(TensorFact::integers)
    }

    /// The elements of an input as plain integers.
    #[must_use]
    pub fn const_integers(&self, input: usize) -> Option<Vec<i64>> {
        self.tensor(input).and_then(TensorFact::const_integers)
    }

    /// The only element of an input, where it is a known integer or truth value.
    #[must_use]
    pub fn integer(&self, input: usize) -> Option<Dim> {
        self.tensor(input).and_then(TensorFact::single).and_then(Scalar::into_integer)
    }

    /// Whether an input is given and holds no element (an empty constant counts as not given in `Resize` and others).
    #[must_use]
    pub fn is_empty(&self, input: usize) -> bool {
        self.shape(input).is_some_and(|shape| shape.elements().as_const() == Some(0))
    }

    /// A symbol for an output dim that depends on values; see [`Host::fresh_dim`].
    pub fn fresh_dim(&mut self, output: usize, axis: usize, lo: i128, hi: Option<Dim>) -> Dim {
        self.host.fresh_dim(output, axis, lo, hi)
    }

    /// A shape of known rank whose dims are all fresh.
    pub fn fresh_shape(&mut self, output: usize, rank: usize) -> Shape {
        (0..rank).map(|axis| self.fresh_dim(output, axis, 0, None)).collect()
    }

    /// Reports a finding that does not stop the node.
    pub fn remark(&mut self, fault: Fault) {
        self.host.remark(fault);
    }

    /// Infers a subgraph; see [`Host::infer_child`].
    pub fn infer_child(&mut self, child: usize, inputs: &[Fact]) -> Vec<Fact> {
        self.host.infer_child(child, inputs)
    }

    /// Gives a stored input its shape; see [`Host::shape_stored`].
    ///
    /// # Errors
    /// When it has another shape already.
    pub fn shape_stored(&mut self, input: usize, shape: &Shape) -> Result<(), Fault> {
        self.host.shape_stored(input, shape)
    }

    /// Says how often a subgraph runs; see [`Host::set_repeats`].
    pub fn set_repeats(&mut self, child: usize, repeats: Repeats) {
        self.host.set_repeats(child, repeats);
    }
}
