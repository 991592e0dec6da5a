//! Shapes of all tensors, each different one once, and their sizes for one set of values of the free dims.

use std::collections::BTreeMap;

use crate::ir::dim::{Dim, Symbol};
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::graph::TensorId;
use crate::ir::hash::HashMap;
use crate::ir::shape::Shape;
use crate::ops::work::Sized;
use crate::passes::infer::Inference;

/// Which tensors have the same shape and element type. A network has few different ones.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    /// The shape of each tensor.
    tensors: Vec<ShapeId>,
    /// A tensor of each shape.
    examples: Vec<TensorId>,
}

/// A shape with its element type; 0 where one of both is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShapeId(pub u32);

impl Shapes {
    /// Shapes of all tensors.
    #[must_use]
    pub fn of(inference: &Inference) -> Self {
        let mut known: HashMap<(ElementType, &Shape), ShapeId> = HashMap::default();
        let mut shapes = Self { tensors: Vec::with_capacity(inference.facts.len()), examples: Vec::new() };
        for (tensor, fact) in (0..).map(TensorId).zip(&inference.facts) {
            let id = shape_of(fact).map(|key| {
                *known.entry(key).or_insert_with(|| {
                    shapes.examples.push(tensor);
                    ShapeId(u32::try_from(shapes.examples.len()).unwrap_or_default())
                })
            });
            shapes.tensors.push(id.unwrap_or_default());
        }
        shapes
    }

    /// The shape of a tensor.
    #[must_use]
    pub fn get(&self, tensor: TensorId) -> ShapeId {
        self.tensors.get(tensor.0 as usize).copied().unwrap_or_default()
    }
}

fn shape_of(fact: &Fact) -> Option<(ElementType, &Shape)> {
    let fact = match fact {
        Fact::Optional(inner) => inner,
        other => other,
    };
    let tensor = fact.as_tensor()?;
    Some((tensor.element?, tensor.shape.as_ref()?))
}

/// Dims of every shape as numbers.
#[derive(Clone, Debug)]
pub struct Sizes<'a> {
    shapes: &'a Shapes,
    dims: Vec<Option<(Vec<u64>, ElementType)>>,
}

impl<'a> Sizes<'a> {
    /// Sizes of all tensors; a dim that data decides counts at its upper bound.
    #[must_use]
    pub fn of(shapes: &'a Shapes, inference: &Inference, values: &BTreeMap<String, i128>) -> Self {
        let sized = |tensor: &TensorId| {
            let (element, shape) = shape_of(inference.fact(*tensor))?;
            let dims: Option<Vec<u64>> = shape.dims().iter().map(|dim| number(dim, values)).collect();
            Some((dims?, element))
        };
        Self { shapes, dims: shapes.examples.iter().map(sized).collect() }
    }

    /// The size of a tensor; `None` where it is not known.
    #[must_use]
    pub fn get(&self, tensor: TensorId) -> Option<Sized<'_>> {
        let place = (self.shapes.get(tensor).0 as usize).checked_sub(1)?;
        let (dims, element) = self.dims.get(place)?.as_ref()?;
        Some(Sized { dims, element: *element })
    }
}

fn number(dim: &Dim, values: &BTreeMap<String, i128>) -> Option<u64> {
    let lookup = |symbol: &Symbol| values.get(symbol.name()).copied();
    let number = if dim.is_free() { dim.eval(&lookup) } else { dim.upper_bound()?.eval(&lookup) };
    number.and_then(|number| u64::try_from(number).ok())
}
