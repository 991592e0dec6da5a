//! Multidirectional broadcasting, and dims that must be equal.

use super::{Fault, InferCx};
use crate::ir::dim::{Dim, Symbol};
use crate::ir::shape::Shape;

/// The dim of two broadcast dims; `None` where they do not fit.
pub(super) fn merge(a: &Dim, b: &Dim) -> Option<Dim> {
    if a == b {
        return Some(a.clone());
    }
    match (a.as_const(), b.as_const()) {
        (Some(1), _) => Some(b.clone()),
        (_, Some(1)) => Some(a.clone()),
        (Some(_), Some(_)) => None,
        (Some(_), None) => Some(a.clone()),
        (None, Some(_)) => Some(b.clone()),
        (None, None) if a.is_eq(b) == Some(true) => Some(a.clone()),
        (None, None) => Some(larger(a, b)),
    }
}

/// Most symbols of two dims that are compared at sample points.
const MAX_SAMPLED_SYMBOLS: usize = 5;
/// Values of symbols at sample points that are not 1.
const SAMPLES: [i128; 3] = [7, 60, 500];

/// The larger dim. That of `N` and `min(N, 1024)`, as position tables give it, is `N`.
fn larger(a: &Dim, b: &Dim) -> Dim {
    let smaller = a.min(b);
    if smaller == *b {
        return a.clone();
    }
    if smaller == *a {
        return b.clone();
    }
    match sampled(a, b) {
        Some(true) => a.clone(),
        Some(false) => b.clone(),
        None => a.max(b),
    }
}

/// Whether the first of two broadcast dims is the result at every sample point at which they fit, or the second is;
/// `None` where each is somewhere. Each symbol takes each value beside 1 for all the others, and with them.
///
/// No proof: it keeps formulas from growing where a mask that is cut from a table meets what it masks, layer by layer.
fn sampled(a: &Dim, b: &Dim) -> Option<bool> {
    let mut symbols: Vec<Symbol> = Vec::new();
    let mut collect = |symbol: &Symbol| {
        if !symbols.contains(symbol) {
            symbols.push(symbol.clone());
        }
    };
    a.for_each_symbol(&mut collect);
    b.for_each_symbol(&mut collect);
    if symbols.len() > MAX_SAMPLED_SYMBOLS {
        return None;
    }
    let (mut first, mut second, mut fits) = (true, true, 0);
    for ones in 0..1_usize << symbols.len() {
        for (turn, sample) in SAMPLES.into_iter().enumerate() {
            let value = |symbol: &Symbol| {
                let place = symbols.iter().position(|other| other == symbol)?;
                let number =
                    if ones >> place & 1 == 1 { 1 } else { sample + i128::try_from(place * (turn + 2)).ok()? };
                let (lo, hi) = symbol.range();
                let number = lo.map_or(number, |lo| number.max(lo));
                Some(hi.map_or(number, |hi| number.min(hi)))
            };
            let (left, right) = (a.eval(&value)?, b.eval(&value)?);
            // Empty tensors tell nothing.
            if left.min(right) >= 1 && (left == right || left == 1 || right == 1) {
                fits += usize::from(left == right && left != 1);
                let result = left.max(right);
                (first, second) = (first && result == left, second && result == right);
            }
        }
    }
    match (first, second) {
        _ if fits == 0 => None,
        (true, true) => Some(weight(a) <= weight(b)),
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

/// The shape of two broadcast tensors.
pub(super) fn pair(a: &Shape, b: &Shape) -> Result<Shape, Fault> {
    let rank = a.rank().max(b.rank());
    let mut dims = Vec::with_capacity(rank);
    for axis in 0..rank {
        let (left, right) = (aligned(a, rank, axis), aligned(b, rank, axis));
        match merge(left, right) {
            Some(dim) => dims.push(dim),
            None => return Err(mismatch(a, b, axis, rank)),
        }
    }
    Ok(Shape::new(dims))
}

/// The shape of any number of broadcast tensors; a scalar for none.
pub(super) fn all<'a>(shapes: impl IntoIterator<Item = &'a Shape>) -> Result<Shape, Fault> {
    let mut shapes = shapes.into_iter();
    let first = shapes.next().cloned().unwrap_or_default();
    shapes.try_fold(first, |sum, shape| pair(&sum, shape))
}

/// The shape of broadcast inputs of a node; `None` while the rank of one is unknown.
pub(super) fn inputs(cx: &InferCx<'_>, inputs: impl IntoIterator<Item = usize>) -> Result<Option<Shape>, Fault> {
    let shapes: Option<Vec<_>> = inputs.into_iter().map(|input| cx.shape(input)).collect();
    shapes.map(all).transpose()
}

fn aligned(shape: &Shape, rank: usize, axis: usize) -> &Dim {
    const ONE: &Dim = &Dim::ONE;
    axis.checked_sub(rank - shape.rank()).and_then(|axis| shape.dim(axis)).unwrap_or(ONE)
}

fn mismatch(a: &Shape, b: &Shape, axis: usize, rank: usize) -> Fault {
    let (left, right) = (aligned(a, rank, axis), aligned(b, rank, axis));
    let which = if axis + 1 == rank { "last dims" } else { "dims" };
    let fault =
        Fault::shape(format!("shapes {a} and {b} do not broadcast: {which} {left} and {right} differ (axis {axis})"));
    let hint = widened(a, b).map(|shape| (b, shape)).or_else(|| widened(b, a).map(|shape| (a, shape)));
    match hint {
        Some((shape, wider)) => {
            let was = list(shape);
            fault.help(format!("{} would fit in place of {was}; Reshape or Unsqueeze adds the dims of 1", list(&wider)))
        }
        None => fault,
    }
}

/// The second shape with as few ones at its end as make it fit.
fn widened(a: &Shape, b: &Shape) -> Option<Shape> {
    (1..=a.rank().checked_sub(b.rank())?).find_map(|ones| {
        let wider: Shape = b.dims().iter().cloned().chain(std::iter::repeat_n(Dim::ONE, ones)).collect();
        let fits =
            (0..a.rank()).all(|axis| merge(aligned(a, a.rank(), axis), aligned(&wider, a.rank(), axis)).is_some());
        fits.then_some(wider)
    })
}

/// A shape as ONNX writes it: `[3, 1]`.
pub(super) fn list(shape: &Shape) -> String {
    let dims: Vec<_> = shape.dims().iter().map(Dim::to_string).collect();
    format!("[{}]", dims.join(", "))
}

/// One dim for two that must be equal in a model that runs; `None` where they certainly differ.
pub(super) fn unify(a: &Dim, b: &Dim) -> Option<Dim> {
    if a == b {
        return Some(a.clone());
    }
    match (a.as_const(), b.as_const(), a.is_eq(b)) {
        (_, _, Some(false)) => None,
        (Some(_), _, _) => Some(a.clone()),
        (_, Some(_), _) => Some(b.clone()),
        _ => Some(if weight(b) < weight(a) { b.clone() } else { a.clone() }),
    }
}

/// How far a dim is from a plain symbol of an input.
fn weight(dim: &Dim) -> (bool, usize) {
    let mut symbols = 0;
    dim.for_each_symbol(&mut |_| symbols += 1);
    (!dim.is_free(), symbols)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{free, shape};

    #[test]
    fn a_missing_dim_counts_as_one() {
        assert_eq!(pair(&shape(&[2, 1, 4]), &shape(&[3, 1])).unwrap(), shape(&[2, 3, 4]));
        assert_eq!(pair(&shape(&[]), &shape(&[5])).unwrap(), shape(&[5]));
        assert_eq!(pair(&shape(&[0]), &shape(&[1])).unwrap(), shape(&[0]));
    }

    #[test]
    fn a_symbol_against_a_number_is_the_number() {
        let n = Shape::new(vec![free("N")]);
        assert_eq!(pair(&n, &shape(&[4])).unwrap(), shape(&[4]));
        assert_eq!(pair(&n, &shape(&[1])).unwrap(), n);
        let m = Shape::new(vec![free("M")]);
        assert_eq!(pair(&n, &m).unwrap(), Shape::new(vec![free("N").max(&free("M"))]));
        let cut = Shape::new(vec![free("N").min(&Dim::constant(1024))]);
        assert_eq!(pair(&n, &cut).unwrap(), n);
        assert_eq!(pair(&cut, &n).unwrap(), n);
    }

    #[test]
    fn a_mask_that_is_cut_from_a_table_does_not_grow_the_formula() {
        let (seq, past, table) = (free("seq"), free("past"), Dim::constant(1024));
        let mask = (&past + &seq).min(&table) - past.min(&table);
        assert_eq!(merge(&seq, &mask), Some(seq.clone()));
        assert_eq!(merge(&mask.max(&Dim::ZERO), &seq), Some(seq.clone()));
        assert_eq!(merge(&seq, &past), Some(seq.max(&past)));
        assert_eq!(merge(&(&seq * 2), &seq), Some((&seq * 2).max(&seq)));
    }

    #[test]
    fn a_bias_along_the_wrong_axis_is_named_with_the_shape_that_fits() {
        let fault = pair(&shape(&[3, 4]), &shape(&[3])).unwrap_err();
        assert!(fault.message.contains("last dims 4 and 3 differ (axis 1)"), "{}", fault.message);
        assert!(fault.help.unwrap().contains("[3, 1] would fit"));
        let fault = pair(&shape(&[2, 4]), &shape(&[3, 4])).unwrap_err();
        assert!(fault.message.contains("dims 2 and 3 differ (axis 0)"));
        assert!(fault.help.is_none());
    }
}
