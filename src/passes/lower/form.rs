//! What operations do on a target, worked out once for all that are alike: work items forward and backward, what the
//! backward pass keeps, and what fusion asks for.

use super::Lowering;
use crate::analysis::Figures;
use crate::device::Precision;
use crate::engine::Mode;
use crate::ir::graph::TensorId;
use crate::ops::work::Sized;
use crate::ops::{Family, Gradient, Operator, Saved, Work, WorkCx, backward};
use crate::passes::compose::Operation;
use crate::passes::kinds::Operations;
use crate::passes::sizes::Sizes;
use crate::runtime::Pass;

/// What an operation is to fusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::passes) enum Class {
    /// Launches nothing: views.
    View,
    /// A function of each element.
    Pointwise,
    /// Normalisation, softmax or reduction.
    Rows,
    /// Batch normalisation.
    BatchNorm,
    /// A convolution or product.
    Product,
    /// Moves elements.
    Move,
    /// Anything else.
    Other,
}

/// An operation with what it does.
#[derive(Clone, Copy)]
pub(in crate::passes) struct Item<'a> {
    pub(in crate::passes) operation: &'a Operation,
    pub(in crate::passes) form: &'a Form<'a>,
    pub(in crate::passes) kind: usize,
}

/// What operations of a kind do on a target.
pub struct Form<'a> {
    pub(in crate::passes) operator: &'a dyn Operator,
    /// The operator's name; empty for one that exporters took apart.
    pub(in crate::passes) op: &'a str,
    pub(in crate::passes) inputs: Vec<Option<Sized<'a>>>,
    pub(in crate::passes) outputs: Vec<Option<Sized<'a>>>,
    pub(in crate::passes) needs_gradient: Vec<bool>,
    /// Whether a gradient can reach any input at all.
    pub(in crate::passes) has_backward: bool,
    /// Whether PyTorch gives the outputs as views of the first input, where strides allow it.
    pub(in crate::passes) shares_storage: bool,
    pub(in crate::passes) class: Class,
    pub(in crate::passes) forward: Vec<Work>,
    pub(in crate::passes) backward: Vec<(Work, Pass)>,
    pub(in crate::passes) saved: Saved,
    /// How often it runs in a micro-batch.
    pub(in crate::passes) runs: f64,
    /// Bytes that the target's precision makes of one byte of the file's.
    pub(in crate::passes) scale: f64,
    /// What products are computed in.
    pub(in crate::passes) precision: Precision,
}

/// What all operations do.
pub struct Forms<'a> {
    operations: &'a Operations,
    /// Sizes of tensors.
    pub(in crate::passes) sizes: &'a Sizes<'a>,
    /// By kind; `None` where figures are not known.
    list: Vec<Option<Form<'a>>>,
}

impl<'a> Forms<'a> {
    /// What the operations of a model do on a target.
    #[must_use]
    pub fn of(lowering: &Lowering<'a>, figures: &'a Figures, sizes: &'a Sizes<'a>) -> Self {
        let forming = Forming { lowering: *lowering, figures, sizes };
        let list = lowering.operations.firsts().map(|operation| forming.form(operation)).collect();
        Self { operations: lowering.operations, sizes, list }
    }

    /// Each operation with what it does, in running order; `None` where that is not known.
    pub(in crate::passes) fn items(&self) -> impl Iterator<Item = Option<Item<'_>>> {
        self.operations.with_kinds().map(|(operation, kind)| {
            let form = self.list.get(kind)?.as_ref()?;
            Some(Item { operation, form, kind })
        })
    }
}

/// What forms are made of.
struct Forming<'a> {
    lowering: Lowering<'a>,
    figures: &'a Figures,
    sizes: &'a Sizes<'a>,
}

impl<'a> Forming<'a> {
    /// What an operation does; `None` where its figures are not known.
    fn form(&self, operation: &'a Operation) -> Option<Form<'a>> {
        let (lowering, analysis) = (&self.lowering, self.lowering.analysis);
        let layer = self.figures.layers.get(operation.layer)?;
        let runs = layer.repeats? as f64;
        let operator = operation.operator(analysis)?;
        let sized = |tensors: &[Option<TensorId>]| -> Vec<_> {
            tensors.iter().map(|tensor| tensor.and_then(|tensor| self.sizes.get(tensor))).collect()
        };
        let (inputs, outputs) = (sized(&operation.inputs), sized(&operation.outputs));
        let train = lowering.target.mode == Mode::Train;
        let needs_gradient: Vec<bool> = operation
            .inputs
            .iter()
            .map(|input| train && input.is_some_and(|tensor| lowering.needs_gradient(tensor)))
            .collect();
        let [flops, bytes_read, bytes_written, backward_flops] = self.counted(operation, runs, &inputs, &outputs)?;
        let cx = WorkCx {
            inputs: &inputs,
            outputs: &outputs,
            needs_gradient: &needs_gradient,
            flops,
            bytes_read,
            bytes_written,
            backward_flops: if train { backward_flops } else { 0.0 },
        };
        let forward = if runs == 0.0 { Vec::new() } else { operator.work(&cx) };
        let saved = if train { operator.saved(&cx) } else { Saved::NOTHING };
        let gradients = if train && runs > 0.0 { backward(&forward, &cx, &saved) } else { Vec::new() };
        let (has_backward, shares_storage) = (cx.has_backward(), operator.shares_storage(&cx));
        let quantised = inputs.first().copied().flatten().is_some_and(|input| {
            input.element.is_integer()
                && input.element.bits() <= 8
                && forward.iter().any(|work| work.family.is_product())
        });
        Some(Form {
            operator,
            op: self.name(operation),
            has_backward,
            shares_storage,
            class: class_of(&forward, operator.is_view()),
            scale: self.scale(&inputs, &outputs),
            precision: if quantised { Precision::Int8 } else { self.precision(&forward) },
            inputs,
            outputs,
            needs_gradient,
            forward,
            backward: gradients.into_iter().map(|(work, gradient)| (work, pass_of(gradient))).collect(),
            saved,
            runs,
        })
    }

    /// Operations, bytes read and written, and operations backward of one run, as counted. An operation of several layers
    /// does the arithmetic of all and touches memory once.
    fn counted(
        &self,
        operation: &Operation,
        runs: f64,
        inputs: &[Option<Sized<'_>>],
        outputs: &[Option<Sized<'_>>],
    ) -> Option<[f64; 4]> {
        let layer = self.figures.layers.get(operation.layer)?;
        let one = |total: Option<i128>| total.map_or(0.0, |total| total as f64) / runs.max(1.0);
        let (mut flops, mut backward_flops) = (0.0, 0.0);
        for figures in operation.layers().filter_map(|layer| self.figures.layers.get(layer)) {
            flops += one(figures.flops);
            backward_flops += one(figures.backward_flops);
        }
        let composed = operation.operator.is_some();
        let total =
            |sizes: &[Option<Sized<'_>>]| -> f64 { sizes.iter().flatten().map(|sized| sized.bytes() as f64).sum() };
        let (bytes_read, bytes_written) = match (layer.bytes, layer.bytes_written) {
            (Some(bytes), Some(written)) if !composed => (one(Some(bytes - written)), one(Some(written))),
            (None, _) if !composed => return None,
            _ => (total(inputs), total(outputs)),
        };
        Some([flops, bytes_read, bytes_written, backward_flops])
    }

    /// The name of an operation's operator; empty for one that exporters took apart.
    fn name(&self, operation: &Operation) -> &'a str {
        let node =
            self.lowering.analysis.layers.get(operation.layer).and_then(|layer| self.lowering.analysis.node(layer));
        node.filter(|_| operation.operator.is_none()).map_or("", |node| &*node.op)
    }

    /// What a byte of the tensors of an operation becomes.
    fn scale(&self, inputs: &[Option<Sized<'_>>], outputs: &[Option<Sized<'_>>]) -> f64 {
        let sizes = || inputs.iter().chain(outputs).flatten();
        let before: f64 = sizes().map(|sized| sized.bytes() as f64).sum();
        let after: f64 = sizes().map(|sized| self.lowering.bytes(*sized)).sum();
        if before > 0.0 { after / before } else { 1.0 }
    }

    /// What the products among these are computed in.
    fn precision(&self, works: &[Work]) -> Precision {
        match works.iter().find(|work| work.family.is_product()) {
            Some(product) => self.lowering.target.product_precision(matches!(product.family, Family::Convolution(_))),
            None => self.lowering.target.precision.other(),
        }
    }
}

fn pass_of(gradient: Gradient) -> Pass {
    match gradient {
        Gradient::Data => Pass::BackwardData,
        Gradient::Weight => Pass::BackwardWeight,
        Gradient::All => Pass::Backward,
    }
}

fn class_of(works: &[Work], is_view: bool) -> Class {
    let Some(first) = works.first() else { return Class::View };
    if is_view {
        return Class::View;
    }
    match first.family {
        _ if works.len() > 1 => Class::Other,
        Family::Elementwise { .. } => Class::Pointwise,
        Family::LayerNorm { .. } | Family::Softmax { .. } | Family::Reduce { .. } => Class::Rows,
        Family::BatchNorm { .. } => Class::BatchNorm,
        Family::Convolution(_) | Family::Product { .. } => Class::Product,
        Family::Copy { .. } => Class::Move,
        _ => Class::Other,
    }
}
