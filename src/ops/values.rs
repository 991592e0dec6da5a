//! Known elements of tensors: how operators read them and build those of their outputs.
//!
//! Everything is bounded by [`VALUE_LIMIT`]; a value that cannot be built within it is dropped.

use std::sync::Arc;

use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::{Fact, Scalar, TensorFact, VALUE_LIMIT, Value};
use crate::ir::shape::Shape;

/// A tensor fact from its parts.
pub(super) fn fact(element: Option<ElementType>, shape: Option<Shape>, value: Option<Arc<Value>>) -> Fact {
    Fact::Tensor(TensorFact { element, shape, value })
}

/// An `int64` scalar of a known value.
pub(super) fn int_scalar(number: Dim) -> Fact {
    fact(Some(ElementType::Int64), Some(Shape::scalar()), Some(Arc::new(Value::Each(vec![Scalar::Integer(number)]))))
}

/// Extents of a shape whose elements can be followed: numbers, and at most [`VALUE_LIMIT`] elements.
pub(super) fn sizes(shape: &Shape) -> Option<Vec<usize>> {
    shape.elements().as_usize().filter(|&count| count <= VALUE_LIMIT)?;
    shape.dims().iter().map(Dim::as_usize).collect()
}

/// Number of elements of extents that [`sizes`] gave. Beside a 0 the others may be too large to multiply.
pub(super) fn count(sizes: &[usize]) -> usize {
    if sizes.contains(&0) { 0 } else { sizes.iter().fold(1, |product, &size| product.saturating_mul(size)) }
}

/// A value of these elements; `None` where none of them is known or they are too many.
pub(super) fn each(elements: Vec<Scalar>) -> Option<Arc<Value>> {
    let known = elements.is_empty() || elements.iter().any(|scalar| *scalar != Scalar::Unknown);
    (known && elements.len() <= VALUE_LIMIT).then(|| Arc::new(Value::Each(elements)))
}

/// The value of a tensor of equal elements.
pub(super) fn uniform(scalar: Scalar) -> Option<Arc<Value>> {
    (scalar != Scalar::Unknown).then(|| Arc::new(Value::Uniform(scalar)))
}

/// The element that all elements are equal to.
pub(super) fn uniform_of(tensor: &TensorFact) -> Option<Scalar> {
    match &**tensor.value.as_ref()? {
        Value::Uniform(scalar) => Some(scalar.clone()),
        Value::Each(elements) => match elements.as_slice() {
            [scalar] => Some(scalar.clone()),
            _ => None,
        },
    }
}

/// Row-major strides.
pub(super) fn strides(sizes: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; sizes.len()];
    let mut step = 1_usize;
    for (stride, size) in strides.iter_mut().zip(sizes).rev() {
        *stride = step;
        step = step.saturating_mul(*size);
    }
    strides
}

/// The place of an index in row-major order.
pub(super) fn place(index: &[usize], strides: &[usize]) -> usize {
    index.iter().zip(strides).fold(0, |sum, (index, stride)| sum.saturating_add(index.saturating_mul(*stride)))
}

/// Calls `visit` for every index of a tensor in row-major order.
pub(super) fn for_each_index(sizes: &[usize], mut visit: impl FnMut(&[usize])) {
    if sizes.contains(&0) {
        return;
    }
    let mut index = vec![0; sizes.len()];
    loop {
        visit(&index);
        let mut carry = true;
        for (place, size) in index.iter_mut().zip(sizes).rev() {
            *place += 1;
            carry = *place >= *size;
            if !carry {
                break;
            }
            *place = 0;
        }
        if carry {
            return;
        }
    }
}

/// A tensor whose elements are known one by one (some perhaps not at all), with its extents.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) sizes: Vec<usize>,
    strides: Vec<usize>,
    pub(super) elements: Vec<Scalar>,
}

impl Grid {
    /// The elements of a tensor, where extents and elements are known.
    pub(super) fn of(tensor: &TensorFact) -> Option<Self> {
        let sizes = sizes(tensor.shape.as_ref()?)?;
        Some(Self { strides: strides(&sizes), sizes, elements: tensor.elements()? })
    }

    /// The same, with [`Scalar::Unknown`] for a tensor without a value.
    pub(super) fn of_any(tensor: &TensorFact) -> Option<Self> {
        let sizes = sizes(tensor.shape.as_ref()?)?;
        let elements = match tensor.elements() {
            Some(elements) => elements,
            None => vec![Scalar::Unknown; count(&sizes)],
        };
        Some(Self { strides: strides(&sizes), sizes, elements })
    }

    /// The element at an index; unknown where there is none.
    pub(super) fn at(&self, index: &[usize]) -> Scalar {
        self.elements.get(place(index, &self.strides)).cloned().unwrap_or(Scalar::Unknown)
    }

    /// The element at an index, to change.
    pub(super) fn at_mut(&mut self, index: &[usize]) -> Option<&mut Scalar> {
        self.elements.get_mut(place(index, &self.strides))
    }

    /// The value, when it is complete.
    pub(super) fn into_value(self) -> Option<Arc<Value>> {
        each(self.elements)
    }
}

/// A value of this shape, element by element.
pub(super) fn build(shape: &Shape, mut element: impl FnMut(&[usize]) -> Scalar) -> Option<Arc<Value>> {
    let sizes = sizes(shape)?;
    let mut elements = Vec::new();
    for_each_index(&sizes, |index| elements.push(element(index)));
    each(elements)
}

/// The value of a tensor whose elements are those of `tensor` at other places.
pub(super) fn moved(
    tensor: &TensorFact,
    shape: &Shape,
    mut source: impl FnMut(&[usize]) -> Vec<usize>,
) -> Option<Arc<Value>> {
    if let Some(scalar) = uniform_of(tensor) {
        return spread(scalar, shape);
    }
    let grid = Grid::of(tensor)?;
    build(shape, |index| grid.at(&source(index)))
}

/// The value of a tensor of this shape that is one element throughout.
pub(super) fn spread(scalar: Scalar, shape: &Shape) -> Option<Arc<Value>> {
    match shape.elements().as_const() {
        Some(0) => each(Vec::new()),
        Some(1) => each(vec![scalar]),
        _ => uniform(scalar),
    }
}

/// Computes a value from the elements of broadcast inputs. Inputs without a value count as unknown elements.
pub(super) fn map(inputs: &[&TensorFact], shape: &Shape, compute: impl Fn(&[Scalar]) -> Scalar) -> Option<Arc<Value>> {
    if inputs.iter().all(|input| input.value.is_none()) {
        return None;
    }
    let same = |input: &&TensorFact| if input.value.is_none() { Some(Scalar::Unknown) } else { uniform_of(input) };
    if let Some(scalars) = inputs.iter().map(same).collect::<Option<Vec<_>>>() {
        return spread(compute(&scalars), shape);
    }
    let rank = shape.rank();
    let mut sources = Vec::new();
    for input in inputs {
        sources.push(match same(input) {
            Some(scalar) => (vec![scalar], vec![0; rank]),
            None => (input.elements()?, aligned_strides(&sizes(input.shape.as_ref()?)?, rank)?),
        });
    }
    let mut scalars = Vec::new();
    build(shape, |index| {
        scalars.clear();
        scalars.extend(
            sources
                .iter()
                .map(|(elements, strides)| elements.get(place(index, strides)).cloned().unwrap_or(Scalar::Unknown)),
        );
        compute(&scalars)
    })
}

/// Strides of an input under a broadcast to a rank: 0 along the axes where it repeats.
fn aligned_strides(sizes: &[usize], rank: usize) -> Option<Vec<usize>> {
    let mut aligned = vec![0; rank.checked_sub(sizes.len())?];
    aligned.extend(strides(sizes).iter().zip(sizes).map(|(&stride, &size)| if size == 1 { 0 } else { stride }));
    Some(aligned)
}

/// The elements of a tensor as dims where they are known. `None` when not even their number is.
pub(super) fn targets(tensor: &TensorFact) -> Option<Vec<Option<Dim>>> {
    if let Some(elements) = tensor.elements() {
        return Some(elements.into_iter().map(Scalar::into_integer).collect());
    }
    let count = tensor.shape.as_ref()?.elements().as_usize().filter(|&count| count <= VALUE_LIMIT)?;
    let same = match tensor.value.as_deref() {
        Some(Value::Uniform(Scalar::Integer(dim))) => Some(dim.clone()),
        _ => None,
    };
    Some(vec![same; count])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{free, ints, shape};

    #[test]
    fn indices_are_visited_row_major() {
        let mut seen = Vec::new();
        for_each_index(&[2, 2], |index| seen.push(index.to_vec()));
        assert_eq!(seen, [[0, 0], [0, 1], [1, 0], [1, 1]]);
        for_each_index(&[2, 0], |_| unreachable!("an empty tensor has no index"));
        let mut count = 0;
        for_each_index(&[], |_| count += 1);
        assert_eq!(count, 1);
    }

    #[test]
    fn equal_elements_stay_one_element() {
        let ones = TensorFact {
            element: Some(ElementType::Int64),
            shape: Some(Shape::new(vec![free("N")])),
            value: uniform(Scalar::Integer(Dim::ONE)),
        };
        let value = map(&[&ones, &ones], &Shape::new(vec![free("N")]), |scalars| scalars[0].clone());
        assert_eq!(value.as_deref(), Some(&Value::Uniform(Scalar::Integer(Dim::ONE))));
    }

    #[test]
    fn a_value_past_the_limit_is_dropped() {
        let vector = ints(&[1, 2]);
        let value = map(&[vector.as_tensor().unwrap()], &shape(&[20_000, 2]), |scalars| scalars[0].clone());
        assert_eq!(value, None);
    }
}
