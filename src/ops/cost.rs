//! What an operator costs: MACs, FLOPs and bytes, as formulas in the free dims. The rules are `docs/counting.md`.

use crate::ir::dim::Dim;
use crate::ir::fact::{Fact, SequenceFact, TensorFact};
use crate::ir::shape::Shape;

/// Cost of one run of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Multiply-accumulate pairs of convolutions, matrix and attention products and recurrent cells, forward.
    pub macs: Dim,
    /// Floating-point (for integer tensors: integer) operations forward: two for each MAC, and the rest.
    pub flops: Dim,
    /// Operations of the backward pass, for the inputs that need a gradient.
    pub backward_flops: Dim,
    /// Bytes read forward.
    pub bytes_read: Dim,
    /// Bytes written forward.
    pub bytes_written: Dim,
}

impl Cost {
    /// No cost at all: views and what only shapes need.
    pub const FREE: Self = Self {
        macs: Dim::ZERO,
        flops: Dim::ZERO,
        backward_flops: Dim::ZERO,
        bytes_read: Dim::ZERO,
        bytes_written: Dim::ZERO,
    };

    /// Reads every input, writes every output, computes nothing. The gradient only moves too.
    #[must_use]
    pub fn moved(cx: &CostCx<'_>) -> Option<Self> {
        Some(Self { bytes_read: cx.bytes_in()?, bytes_written: cx.bytes_out()?, ..Self::FREE })
    }

    /// `flops` operations forward over all inputs and outputs, and `backward` for each input that needs a gradient.
    #[must_use]
    pub fn computed(cx: &CostCx<'_>, flops: Dim, backward: &Dim) -> Option<Self> {
        let gradients = i128::try_from(cx.gradient_count()).unwrap_or(i128::MAX);
        Some(Self { flops, backward_flops: backward * gradients, ..Self::moved(cx)? })
    }

    /// Reads every input and writes every output; `macs` MACs and `other` further operations forward,
    /// `backward_flops` operations backward in all.
    #[must_use]
    pub fn composed(cx: &CostCx<'_>, macs: Dim, other: &Dim, backward_flops: Dim) -> Option<Self> {
        let flops = &macs * 2 + other;
        Some(Self { macs, flops, backward_flops, ..Self::moved(cx)? })
    }

    /// `per_element` operations for each element of the first output, and as many backward for each input that needs a
    /// gradient.
    #[must_use]
    pub fn elementwise(cx: &CostCx<'_>, per_element: i128) -> Option<Self> {
        let flops = cx.elements_out(0)? * per_element;
        Self::computed(cx, flops.clone(), &flops)
    }

    /// A product of the inputs `left` and `right` (convolution, matrix product) with `macs` MACs and `other` further
    /// operations forward (bias). Backward: one product of the same size for each of the two that needs a gradient,
    /// and `other` again where `bias` needs one.
    #[must_use]
    pub fn product(cx: &CostCx<'_>, macs: Dim, other: &Dim, [left, right, bias]: [usize; 3]) -> Option<Self> {
        let gradients = i128::from(cx.needs_gradient(left)) + i128::from(cx.needs_gradient(right));
        let mut backward_flops = &macs * (2 * gradients);
        if cx.needs_gradient(bias) {
            backward_flops += other.clone();
        }
        let flops = &macs * 2 + other;
        Some(Self { macs, flops, backward_flops, ..Self::moved(cx)? })
    }
}

/// Inputs and outputs of a node when its cost is counted.
pub struct CostCx<'a> {
    pub(super) inputs: &'a [Option<&'a Fact>],
    pub(super) outputs: &'a [Option<&'a Fact>],
    pub(super) needs_gradient: &'a [bool],
}

impl<'a> CostCx<'a> {
    /// A context for one node; `needs_gradient` says so for each input (all `false` in inference).
    #[must_use]
    pub fn new(inputs: &'a [Option<&'a Fact>], outputs: &'a [Option<&'a Fact>], needs_gradient: &'a [bool]) -> Self {
        Self { inputs, outputs, needs_gradient }
    }

    /// The tensor fact of an input; `None` where it is left out or not known.
    #[must_use]
    pub fn input(&self, index: usize) -> Option<&'a TensorFact> {
        self.inputs.get(index).copied().flatten().and_then(Fact::as_tensor)
    }

    /// The tensor fact of an output.
    #[must_use]
    pub fn output(&self, index: usize) -> Option<&'a TensorFact> {
        self.outputs.get(index).copied().flatten().and_then(Fact::as_tensor)
    }

    /// Whether the node asks for an output.
    #[must_use]
    pub fn wants(&self, output: usize) -> bool {
        self.outputs.get(output).is_some_and(Option::is_some)
    }

    /// Elements of all tensors of an input that is a sequence.
    #[must_use]
    pub fn sequence_elements(&self, index: usize) -> Option<Dim> {
        let of = |fact: &Fact| Some(fact.as_tensor()?.shape.as_ref()?.elements());
        match self.inputs.get(index).copied().flatten()? {
            Fact::Sequence(SequenceFact::Each(elements)) => elements.iter().map(of).sum(),
            Fact::Sequence(SequenceFact::Alike { element, length }) => Some(of(element)? * length.clone()?),
            other => of(other),
        }
    }

    /// Whether the input is given.
    #[must_use]
    pub fn has(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }

    /// Shape of an input.
    #[must_use]
    pub fn shape_in(&self, index: usize) -> Option<&'a Shape> {
        self.input(index)?.shape.as_ref()
    }

    /// Shape of an output.
    #[must_use]
    pub fn shape_out(&self, index: usize) -> Option<&'a Shape> {
        self.output(index)?.shape.as_ref()
    }

    /// Number of elements of an input.
    #[must_use]
    pub fn elements_in(&self, index: usize) -> Option<Dim> {
        Some(self.shape_in(index)?.elements())
    }

    /// Number of elements of an output.
    #[must_use]
    pub fn elements_out(&self, index: usize) -> Option<Dim> {
        Some(self.shape_out(index)?.elements())
    }

    /// Whether an input needs a gradient.
    #[must_use]
    pub fn needs_gradient(&self, index: usize) -> bool {
        self.needs_gradient.get(index).copied().unwrap_or(false)
    }

    /// How many inputs need a gradient.
    #[must_use]
    pub fn gradient_count(&self) -> usize {
        self.needs_gradient.iter().filter(|&&needs| needs).count()
    }

    /// Bytes of all inputs.
    #[must_use]
    pub fn bytes_in(&self) -> Option<Dim> {
        total(self.inputs)
    }

    /// Bytes of all outputs.
    #[must_use]
    pub fn bytes_out(&self) -> Option<Dim> {
        total(self.outputs)
    }
}

fn total(facts: &[Option<&Fact>]) -> Option<Dim> {
    facts.iter().flatten().try_fold(Dim::ZERO, |sum, fact| Some(sum + fact_bytes(fact)?))
}

/// Bytes of a tensor in memory; sequences and maps count their known parts.
#[must_use]
pub fn fact_bytes(fact: &Fact) -> Option<Dim> {
    match fact {
        Fact::Tensor(tensor) => tensor_bytes(tensor),
        Fact::Sequence(SequenceFact::Each(elements)) => {
            elements.iter().try_fold(Dim::ZERO, |sum, element| Some(sum + fact_bytes(element)?))
        }
        Fact::Sequence(SequenceFact::Alike { element, length }) => Some(fact_bytes(element)? * length.clone()?),
        Fact::Optional(inner) => fact_bytes(inner),
        Fact::Map => Some(Dim::ZERO),
        Fact::Unknown => None,
    }
}

/// Bytes of a tensor in memory; sub-byte elements share bytes, strings count 0.
#[must_use]
pub fn tensor_bytes(tensor: &TensorFact) -> Option<Dim> {
    let elements = tensor.shape.as_ref()?.elements();
    let bits = i128::from(tensor.element?.bits());
    Some(if bits % 8 == 0 { elements * (bits / 8) } else { (elements * bits).ceil_div(&Dim::constant(8)) })
}
