//! Sizes of all tensors for one set of values of the free dims.

use std::collections::BTreeMap;

use crate::ir::dim::{Dim, Symbol};
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::graph::TensorId;
use crate::ops::work::Sized;
use crate::passes::infer::Inference;

/// Dims of every tensor as numbers, in one list.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    dims: Vec<u64>,
    tensors: Vec<Option<Entry>>,
}

/// Where a tensor's dims stand in the list.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    rank: u32,
    element: ElementType,
}

impl Sizes {
    /// Sizes of all tensors; a dim that data decides counts at its upper bound.
    #[must_use]
    pub fn of(inference: &Inference, values: &BTreeMap<String, i128>) -> Self {
        let mut sizes = Self::default();
        let mut numbers = Numbers { values, last: None };
        sizes.tensors.reserve(inference.facts.len());
        for fact in &inference.facts {
            let entry = sizes.add(fact, &mut numbers);
            sizes.tensors.push(entry);
        }
        sizes
    }

    fn add(&mut self, fact: &Fact, numbers: &mut Numbers<'_>) -> Option<Entry> {
        let fact = match fact {
            Fact::Optional(inner) => inner,
            other => other,
        };
        let tensor = fact.as_tensor()?;
        let element = tensor.element?;
        let start = self.dims.len();
        for dim in tensor.shape.as_ref()?.dims() {
            match numbers.of(dim) {
                Some(number) => self.dims.push(number),
                None => {
                    self.dims.truncate(start);
                    return None;
                }
            }
        }
        let rank = u32::try_from(self.dims.len() - start).ok()?;
        Some(Entry { start: u32::try_from(start).ok()?, rank, element })
    }

    /// The size of a tensor; `None` where it is not known.
    #[must_use]
    pub fn get(&self, tensor: TensorId) -> Option<Sized<'_>> {
        let entry = self.tensors.get(tensor.0 as usize).copied().flatten()?;
        let start = entry.start as usize;
        let dims = self.dims.get(start..start + entry.rank as usize)?;
        Some(Sized { dims, element: entry.element })
    }
}

/// Dims as numbers; neighbours often have the same one.
struct Numbers<'a> {
    values: &'a BTreeMap<String, i128>,
    last: Option<(Dim, Option<u64>)>,
}

impl Numbers<'_> {
    fn of(&mut self, dim: &Dim) -> Option<u64> {
        if let Some(number) = dim.as_const() {
            return u64::try_from(number).ok();
        }
        if let Some((last, number)) = &self.last
            && last == dim
        {
            return *number;
        }
        let lookup = |symbol: &Symbol| self.values.get(symbol.name()).copied();
        let bounded = if dim.is_free() { Some(dim.clone()) } else { dim.upper_bound() };
        let number = bounded.and_then(|dim| dim.eval(&lookup)).and_then(|number| u64::try_from(number).ok());
        self.last = Some((dim.clone(), number));
        number
    }
}
