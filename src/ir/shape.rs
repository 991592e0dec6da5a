//! Shapes: the dims of a tensor of known rank.

use std::fmt;

use super::dim::Dim;

/// The dims of a tensor, outermost first. A scalar has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Shape(Vec<Dim>);

impl Shape {
    /// A shape of these dims.
    #[must_use]
    pub fn new(dims: Vec<Dim>) -> Self {
        Self(dims)
    }

    /// The shape of a scalar.
    #[must_use]
    pub fn scalar() -> Self {
        Self(Vec::new())
    }

    /// Number of dims.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The dims.
    #[must_use]
    pub fn dims(&self) -> &[Dim] {
        &self.0
    }

    /// The dims, to change.
    pub fn dims_mut(&mut self) -> &mut Vec<Dim> {
        &mut self.0
    }

    /// The dim at an index.
    #[must_use]
    pub fn dim(&self, index: usize) -> Option<&Dim> {
        self.0.get(index)
    }

    /// The index of an axis that may count from the end; `None` when out of range.
    #[must_use]
    pub fn axis(&self, axis: i64) -> Option<usize> {
        normalize_axis(axis, self.rank())
    }

    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> Dim {
        product(&self.0)
    }

    /// Every dim as a number; `None` when one is symbolic.
    #[must_use]
    pub fn as_const(&self) -> Option<Vec<i128>> {
        self.0.iter().map(Dim::as_const).collect()
    }
}

impl fmt::Display for Shape {
    /// `1×64×56×56`; `scalar` without dims.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("scalar");
        }
        for (index, dim) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("×")?;
            }
            write!(f, "{dim}")?;
        }
        Ok(())
    }
}

impl FromIterator<Dim> for Shape {
    fn from_iter<I: IntoIterator<Item = Dim>>(dims: I) -> Self {
        Self(dims.into_iter().collect())
    }
}

/// The index of an axis that may count from the end.
#[must_use]
pub fn normalize_axis(axis: i64, rank: usize) -> Option<usize> {
    let length = i64::try_from(rank).ok()?;
    let index = if axis < 0 { axis.checked_add(length)? } else { axis };
    usize::try_from(index).ok().filter(|&index| index < rank)
}

/// The product of dims.
#[must_use]
pub fn product(dims: &[Dim]) -> Dim {
    // Numbers are multiplied as numbers; a polynomial is built for the symbols alone.
    let mut number = 1_i128;
    let mut symbolic: Option<Dim> = None;
    for dim in dims {
        match dim.as_const() {
            Some(constant) => number = number.saturating_mul(constant),
            None => symbolic = Some(symbolic.map_or_else(|| dim.clone(), |product| product * dim)),
        }
    }
    match symbolic {
        Some(product) if number == 1 => product,
        Some(product) => product * number,
        None => Dim::constant(number),
    }
}
