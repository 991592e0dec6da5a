//! Widths of elements, and the copies that operators make of their inputs: by automatic casting, and because no library
//! multiplies a matrix as it lies.

use super::storages::{Source, Walker};
use crate::ir::element_type::ElementType;
use crate::ir::graph::TensorId;
use crate::ops::work::Sized;
use crate::ops::{Family, Work};
use crate::passes::compose::Operation;
use crate::passes::lower::Form;

/// How automatic casting treats an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Casting {
    /// Computes in 16 bits.
    Half,
    /// Computes in fp32.
    Full,
    /// Computes in the widest type of its inputs.
    Widest,
    /// Computes in the type of its first input, whatever its weights have.
    First,
}

impl Walker<'_> {
    /// Bits of an element where one precision holds for all operators.
    pub(super) fn element_bits(&self, element: ElementType) -> u64 {
        self.lowering.target.precision.bits_of(element)
    }

    pub(super) fn output_bits(&self, operation: &Operation, element: ElementType, casting: Casting) -> u64 {
        let own = u64::from(element.bits());
        if !self.casts || !element.is_real() || own < 16 {
            return self.element_bits(element);
        }
        match casting {
            Casting::Half => 16,
            Casting::Full => own,
            Casting::Widest | Casting::First => {
                let read = if casting == Casting::First { 1 } else { operation.inputs.len() };
                let inputs = operation.inputs.iter().take(read).flatten().filter_map(|&input| {
                    // Numbers of the code take the type of the tensor beside them.
                    let sized = self.sizes.get(input).filter(|sized| sized.element.is_real())?;
                    let storage = self.storage_of.get(input.0 as usize).copied().flatten()?;
                    let bits = self.walk.storages.get(storage as usize)?.bits;
                    (sized.elements() > 1).then_some(bits)
                });
                inputs.max().unwrap_or(own).min(own)
            }
        }
    }

    /// The storage that is kept of an input: its own, or that of the copy which the operator works on.
    pub(super) fn kept_form(
        &mut self,
        input: TensorId,
        sized: Sized<'_>,
        form: &Form<'_>,
        index: usize,
        casting: Casting,
    ) -> Option<u32> {
        let own = self.storage(input)?;
        let (bits, source) = self.walk.storages.get(own as usize).map(|own| (own.bits, own.source))?;
        if self.casts && sized.element.is_real() {
            let wanted = match casting {
                Casting::Half => 16,
                Casting::Full => 32,
                Casting::Widest | Casting::First => bits,
            };
            if wanted < bits && source == Source::Stored {
                return Some(self.weight_copy(input, sized));
            }
            if wanted != bits && source != Source::Stored {
                return Some(self.copy(sized.elements(), wanted));
            }
        }
        let is_matrices = casting == Casting::Half && multiplies_rows(form, index);
        let other = form.inputs.get(1 - index.min(1)).copied().flatten().map_or(0, |other| other.dims.len());
        if is_matrices && source != Source::Stored && !self.strides.is_matrix(input, sized.dims, other <= 2) {
            return Some(self.copy(sized.elements(), bits));
        }
        Some(own)
    }

    /// A copy that an operator makes of an input.
    fn copy(&mut self, elements: u64, bits: u64) -> u32 {
        let storage = self.new_storage(elements, bits, Source::Step);
        self.makes.push(storage);
        storage
    }

    /// Casts a weight for a product; the copy stays until the forward pass ends, for whoever reads the weight again.
    pub(super) fn cast_weight(&mut self, weight: TensorId, storage: u32, casting: Casting) {
        let stored = self.walk.storages.get(storage as usize).filter(|found| found.source == Source::Stored);
        let sized = self.sizes.get(weight).filter(|sized| sized.element.is_real());
        if let (true, Casting::Half, Some(stored), Some(sized)) = (self.casts, casting, stored, sized)
            && stored.bits > 16
        {
            self.weight_copy(weight, sized);
        }
    }

    pub(super) fn weight_copy(&mut self, weight: TensorId, sized: Sized<'_>) -> u32 {
        if let Some(&copy) = self.weight_copies.get(&weight) {
            return copy;
        }
        let copy = self.new_storage(sized.elements(), 16, Source::WeightCopy);
        self.weight_copies.insert(weight, copy);
        copy
    }
}

/// Whether an input of an operation is a matrix of a product, or several.
fn multiplies_rows(form: &Form<'_>, index: usize) -> bool {
    index < 2
        && form.inputs.len() <= 3
        && form.inputs.iter().take(2).all(|input| input.is_some())
        && matches!(form.forward.as_slice(), [Work { family: Family::Product { .. }, .. }])
}

/// What automatic casting does with an operator: products in 16 bits; normalisations but that of batches, softmax, sums,
/// powers and exponentials in fp32; the rest as its inputs are (lists of `torch.amp`, "CUDA Op-Specific Behavior").
pub(super) fn casting(op: &str, works: &[Work]) -> Casting {
    if works.iter().any(|work| work.family.is_product()) {
        return Casting::Half;
    }
    let full = works.iter().any(|work| matches!(work.family, Family::LayerNorm { .. } | Family::Softmax { .. }));
    let named = matches!(
        op,
        "Exp"
            | "Log"
            | "Pow"
            | "Reciprocal"
            | "Softplus"
            | "Sinh"
            | "Cosh"
            | "Tan"
            | "Acos"
            | "Asin"
            | "ReduceSum"
            | "ReduceProd"
            | "ReduceL1"
            | "ReduceL2"
            | "CumSum"
    );
    let plain = matches!(works, [Work { family: Family::Elementwise { .. } | Family::Copy { .. }, .. }]);
    match (full || named, plain) {
        (true, _) => Casting::Full,
        (false, true) => Casting::Widest,
        (false, false) => Casting::First,
    }
}
