//! Operators that move elements: slices, pads, views, gathers, scatters.

use dlcost::ir::element_type::ElementType;

use super::{ANY, NUMBER, REAL};
use crate::differential::builder::{Builder, Known};
use crate::differential::case::{Attribute, Call};

/// A number as an `i64`.
fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The axis that a number from either end names.
fn place(axis: i64, rank: usize) -> usize {
    usize::try_from(axis.rem_euclid(signed(rank.max(1)))).unwrap_or(0)
}

pub(super) fn slice(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(ANY, 1, 4);
    let axes = b.axes(x.rank(), x.rank());
    let axes: Vec<i64> =
        if b.opset() < 10 { axes.iter().map(|&axis| signed(place(axis, x.rank()))).collect() } else { axes };
    let (mut starts, mut ends, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    let stepped = b.opset() >= 10 && b.chance(60);
    for &axis in &axes {
        let dim = x.dim(place(axis, x.rank()));
        let edge = |b: &mut Builder| match b.below(12) {
            0 => i64::from(i32::MAX),
            1 => i64::from(i32::MIN),
            _ => b.between(-dim - 2, dim + 2),
        };
        starts.push(edge(b));
        ends.push(edge(b));
        steps.push(if !stepped { 1 } else { [-3, -2, -1, 1, 2, 3].get(b.below(6)).copied()? });
    }
    let leading = axes.iter().enumerate().all(|(at, &axis)| axis == signed(at));
    if b.opset() < 10 {
        let call = Call::new("Slice").input(&x.name);
        let call = call.set("starts", b.ints(&starts)).set("ends", b.ints(&ends));
        return Some(if leading && b.chance(70) { call } else { call.set("axes", b.ints(&axes)) });
    }
    let (starts, ends) = (b.integers(&starts), b.integers(&ends));
    let mut call = Call::new("Slice").input(&x.name).input(&starts).input(&ends);
    let named = !leading || b.chance(40);
    if named {
        let axes = b.integers(&axes);
        call = call.input(&axes);
    }
    if stepped {
        let steps = b.integers(&steps);
        call = if named { call.input(&steps) } else { call.input("").input(&steps) };
    }
    Some(call)
}

pub(super) fn pad(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(if b.opset() >= 13 { NUMBER } else { REAL }, 1, 4);
    let opset = b.opset();
    let mut modes = vec!["constant", "reflect", "edge"];
    if opset >= 19 {
        modes.push("wrap");
    }
    let mode = b.pick(&modes)?;
    let axes = (opset >= 18 && b.chance(40)).then(|| b.axes(x.rank(), x.rank()));
    let count = axes.as_ref().map_or(x.rank(), Vec::len);
    let mut pads = Vec::new();
    for at in 0..2 * count {
        let axis =
            axes.as_ref().and_then(|axes| axes.get(at % count.max(1)).copied()).unwrap_or(signed(at % count.max(1)));
        let dim = x.dim(place(axis, x.rank()));
        let most = if mode == "reflect" { (dim - 1).clamp(0, 3) } else { 3 };
        pads.push(if b.chance(15) { b.between(-2, 0) } else { b.between(0, most) });
    }
    let mut call = Call::new("Pad").input(&x.name);
    if mode != "constant" || b.chance(40) {
        call = call.word("mode", mode);
    }
    if opset < 11 {
        return Some(call.set("pads", b.ints(&pads)));
    }
    let pads = b.integers(&pads);
    call = call.input(&pads);
    let valued = mode == "constant" && b.chance(40);
    if valued {
        let value = b.stored(x.element, Vec::new(), vec![2.0]);
        call = call.input(&value);
    }
    if let Some(axes) = axes {
        let axes = b.integers(&axes);
        call = if valued { call.input(&axes) } else { call.input("").input(&axes) };
    }
    Some(call)
}

/// A list of dims with this product.
fn factors(b: &mut Builder, count: i64) -> Vec<i64> {
    let (mut left, mut dims) = (count, Vec::new());
    while left > 1 && dims.len() < 4 {
        let divisors: Vec<i64> = (2..=left.min(40)).filter(|divisor| left % divisor == 0).collect();
        let divisor = b.pick(&divisors).unwrap_or(left);
        dims.push(divisor);
        left /= divisor.max(1);
    }
    if left != 1 {
        dims.push(left);
    }
    if b.chance(25) {
        dims.insert(b.below(dims.len() + 1), 1);
    }
    dims
}

/// A target of a reshape.
pub(super) fn target(b: &mut Builder, x: &Known, zero_copies: bool) -> Vec<i64> {
    let count: i64 = x.dims.iter().product();
    let mut dims = factors(b, count);
    if b.chance(30) && !dims.is_empty() {
        let kept = b.below(x.rank().min(dims.len()) + 1);
        let rest: i64 = x.dims.iter().skip(kept).product();
        dims = x.dims.iter().take(kept).copied().collect();
        dims.extend(factors(b, rest));
    }
    if zero_copies {
        for at in 0..dims.len() {
            if dims.get(at).copied() == x.dims.get(at).copied() && b.chance(40) {
                dims.splice(at..=at, [0]);
            }
        }
    }
    if b.chance(45) && !dims.is_empty() {
        let at = b.below(dims.len());
        dims.splice(at..=at, [-1]);
    }
    dims
}

pub(super) fn reshape(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(ANY, 0, 4);
    let allow_zero = b.opset() >= 14 && b.chance(20);
    let zero_copies = !allow_zero || b.wrong();
    let target = target(b, &x, zero_copies);
    let shape = b.integers(&target);
    let call = Call::new("Reshape").input(&x.name).input(&shape);
    Some(if allow_zero { call.int("allowzero", 1) } else { call })
}

/// Places along a dim, from either end.
#[allow(clippy::cast_precision_loss, reason = "places are small")]
fn places(b: &mut Builder, dims: &[i64], end: i64) -> String {
    let count = dims.iter().product::<i64>().max(0);
    let from = if b.opset() >= 11 { -end } else { 0 };
    let beyond = if b.wrong() { 2 } else { 0 };
    let values = (0..count).map(|_| b.between(from - beyond, (end - 1).max(from) + beyond) as f64).collect();
    let element = if b.chance(70) { ElementType::Int64 } else { ElementType::Int32 };
    b.stored(element, dims.to_vec(), values)
}

pub(super) fn gather(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(ANY, 1, 4);
    let axis = b.axis(x.rank());
    let rank = b.below(3);
    let dims = b.dims(rank);
    let indices = places(b, &dims, x.dim(place(axis, x.rank())));
    let call = Call::new("Gather").input(&x.name).input(&indices);
    Some(if b.chance(80) { call.int("axis", axis) } else { call })
}

pub(super) fn gather_elements(b: &mut Builder) -> Option<Call> {
    if b.opset() < 11 {
        return None;
    }
    let x = b.tensor(NUMBER, 1, 4);
    let axis = b.axis(x.rank());
    let at = place(axis, x.rank());
    let dims: Vec<i64> = (0..x.rank())
        .map(|place| if place == at { b.between(1, 4) } else { b.between(1.min(x.dim(place)), x.dim(place)) })
        .collect();
    let indices = places(b, &dims, x.dim(at));
    Some(Call::new("GatherElements").input(&x.name).input(&indices).int("axis", axis))
}

pub(super) fn gather_nd(b: &mut Builder) -> Option<Call> {
    if b.opset() < 11 {
        return None;
    }
    let x = b.tensor(NUMBER, 1, 4);
    let batch = if b.opset() >= 12 && b.chance(50) { b.below(x.rank()) } else { 0 };
    let depth = if b.wrong() { b.below(5) } else { 1 + b.below(x.rank() - batch.min(x.rank())) };
    let mut dims: Vec<i64> = x.dims.iter().take(batch).copied().collect();
    let more = b.below(2);
    dims.extend(b.many(more, 1, 3));
    dims.push(signed(depth));
    let least = x.dims.iter().skip(batch).take(depth).copied().min().unwrap_or(1);
    let count = dims.iter().product::<i64>().max(0);
    #[allow(clippy::cast_precision_loss, reason = "places are small")]
    let values = (0..count).map(|_| b.between(0, (least - 1).max(0)) as f64).collect();
    let indices = b.stored(ElementType::Int64, dims, values);
    let call = Call::new("GatherND").input(&x.name).input(&indices);
    Some(if batch > 0 || (b.opset() >= 12 && b.chance(10)) { call.int("batch_dims", signed(batch)) } else { call })
}

pub(super) fn scatter(b: &mut Builder) -> Option<Call> {
    if b.opset() < 11 {
        return None;
    }
    let x = b.tensor(REAL, 1, 3);
    if b.chance(50) {
        let axis = b.axis(x.rank());
        let at = place(axis, x.rank());
        let dims: Vec<i64> = (0..x.rank()).map(|place| b.between(1.min(x.dim(place)), x.dim(place))).collect();
        let indices = places(b, &dims, x.dim(at).min(1));
        let updates = b.input(x.element, dims);
        let call = Call::new("ScatterElements").input(&x.name).input(&indices).input(&updates.name);
        return Some(call.int("axis", axis));
    }
    let depth = 1 + b.below(x.rank());
    let mut dims = b.dims(1);
    let mut updates = dims.clone();
    updates.extend(x.dims.iter().skip(depth));
    dims.push(signed(depth));
    let count = dims.iter().product::<i64>();
    let indices = b.stored(ElementType::Int64, dims, (0..count).map(|_| 0.0).collect());
    let updates = b.input(x.element, updates);
    Some(Call::new("ScatterND").input(&x.name).input(&indices).input(&updates.name))
}

pub(super) fn concat(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(ANY, 1, 4);
    let axis = b.axis(x.rank());
    let mut call = Call::new("Concat").input(&x.name);
    for _ in 0..1 + b.below(2) {
        let mut dims = x.dims.clone();
        let at = place(axis, x.rank());
        *dims.get_mut(at)? = b.between(0, 4);
        let other = b.input(x.element, dims);
        call = call.input(&other.name);
    }
    Some(call.int("axis", axis))
}

pub(super) fn split(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(NUMBER, 1, 4);
    let axis = b.axis(x.rank());
    let dim = x.dim(place(axis, x.rank()));
    let parts = b.between(1, dim.clamp(1, 4));
    let mut call = Call::new("Split").input(&x.name);
    if axis != 0 || b.chance(50) {
        call = call.int("axis", axis);
    }
    let even = b.chance(45);
    if !even {
        let mut sizes = Vec::new();
        let mut left = dim;
        for part in 0..parts {
            let size = if part + 1 == parts { left } else { b.between(0, left) };
            sizes.push(size);
            left -= size;
        }
        if b.opset() < 13 {
            call = call.set("split", b.ints(&sizes));
        } else {
            let sizes = b.integers(&sizes);
            call = call.input(&sizes);
        }
    } else if b.opset() >= 18 {
        call = call.int("num_outputs", if b.wrong() { parts + 1 } else { parts });
    }
    for _ in 0..parts {
        call.outputs.push(b.output());
    }
    Some(call)
}

pub(super) fn tile(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(NUMBER, 1, 4);
    let repeats = b.many(x.rank(), 0, 3);
    let repeats = b.integers(&repeats);
    Some(Call::new("Tile").input(&x.name).input(&repeats))
}

pub(super) fn transpose(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(ANY, 0, 5);
    let call = Call::new("Transpose").input(&x.name);
    if b.chance(25) {
        return Some(call);
    }
    let mut left: Vec<i64> = (0..signed(x.rank())).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        order.push(left.remove(b.below(left.len())));
    }
    Some(call.set("perm", b.ints(&order)))
}

pub(super) fn squeeze(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(ANY, 1, 4);
    let ones: Vec<i64> = (0..x.rank()).filter(|&axis| x.dim(axis) == 1).map(signed).collect();
    let call = Call::new("Squeeze").input(&x.name);
    if b.chance(30) {
        return Some(call);
    }
    let mut axes: Vec<i64> = ones.into_iter().filter(|_| b.chance(70)).collect();
    // An empty list says nothing, or nothing is squeezed: the standard does not tell.
    if axes.is_empty() && !b.wrong() {
        return Some(call);
    }
    if b.opset() >= 11 && b.chance(30) {
        axes.iter_mut().for_each(|axis| *axis -= signed(x.rank()));
    }
    Some(if b.opset() < 13 {
        call.set("axes", b.ints(&axes))
    } else {
        let axes = b.integers(&axes);
        call.input(&axes)
    })
}

pub(super) fn unsqueeze(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(ANY, 0, 3);
    let axes = b.axes(x.rank() + 2, 2);
    let rank = signed(x.rank() + axes.len());
    let axes: Vec<i64> = axes.into_iter().map(|axis| axis.clamp(-rank, rank - 1)).collect();
    let call = Call::new("Unsqueeze").input(&x.name);
    Some(if b.opset() < 13 {
        call.set("axes", b.ints(&axes))
    } else {
        let axes = b.integers(&axes);
        call.input(&axes)
    })
}

pub(super) fn flatten(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(REAL, 0, 4);
    let call = Call::new("Flatten").input(&x.name);
    let rank = signed(x.rank());
    let from = if b.opset() >= 11 { -rank } else { 0 };
    let beyond = i64::from(b.wrong());
    let axis = b.between(from, rank + beyond);
    Some(if b.chance(75) { call.int("axis", axis) } else { call })
}

pub(super) fn depth(b: &mut Builder) -> Option<Call> {
    let block = b.between(1, 3);
    let known = b.tensor(REAL, 4, 4);
    let exact = b.wrong();
    let dims: Vec<i64> = known.dims.clone();
    if b.chance(50) {
        let dims =
            dims.iter().enumerate().map(|(axis, &dim)| if axis == 1 && !exact { block * block * dim } else { dim });
        let x = b.input(ElementType::Float, dims.collect());
        let mut call = Call::new("DepthToSpace").input(&x.name).int("blocksize", block);
        if b.opset() >= 11 && b.chance(50) {
            call = call.word("mode", b.pick(&["DCR", "CRD"])?);
        }
        return Some(call);
    }
    let dims = dims.iter().enumerate().map(|(axis, &dim)| if axis > 1 && !exact { block * dim } else { dim });
    let x = b.input(ElementType::Float, dims.collect());
    Some(Call::new("SpaceToDepth").input(&x.name).int("blocksize", block))
}

pub(super) fn top_k(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(REAL, 1, 4);
    let axis = b.axis(x.rank());
    let dim = x.dim(place(axis, x.rank()));
    let k = if b.wrong() { dim + 1 } else { b.between(0, dim) };
    let (values, places) = (b.output(), b.output());
    let mut call = Call::new("TopK").input(&x.name).output(&values).output(&places);
    if b.opset() < 10 {
        call = call.int("k", k);
    } else {
        let k = b.integers(&[k]);
        call = call.input(&k);
    }
    if b.opset() >= 11 && b.chance(40) {
        call = call.int("largest", 0).int("sorted", b.between(0, 1));
    }
    Some(if b.chance(75) { call.int("axis", axis) } else { call })
}

pub(super) fn sequence_order(b: &mut Builder) -> Option<Call> {
    if b.opset() < 10 {
        return None;
    }
    let x = b.tensor(REAL, 2, 4);
    let batch_first = b.chance(50);
    let (batch, time) = if batch_first { (0, 1) } else { (1, 0) };
    let lengths: Vec<f64> = (0..x.dim(batch)).map(|_| f64::from(u8::from(x.dim(time) > 0))).collect();
    let lengths = b.stored(ElementType::Int64, vec![x.dim(batch)], lengths);
    let call = Call::new("ReverseSequence").input(&x.name).input(&lengths);
    Some(call.int("batch_axis", signed(batch)).int("time_axis", signed(time)))
}

pub(super) fn crop(b: &mut Builder) -> Option<Call> {
    if b.opset() < 18 {
        return None;
    }
    let x = b.tensor(REAL, 1, 4);
    let axes = b.chance(50).then(|| b.axes(x.rank(), x.rank()));
    let count = axes.as_ref().map_or(x.rank(), Vec::len);
    let sizes = b.many(count, 0, 7);
    let sizes = b.integers(&sizes);
    let call = Call::new("CenterCropPad").input(&x.name).input(&sizes);
    Some(match axes {
        Some(axes) => call.set("axes", Attribute::Ints(axes)),
        None => call,
    })
}
