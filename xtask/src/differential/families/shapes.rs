//! Shapes as values, and shapes that values make.

use dlcost::ir::element_type::ElementType;

use super::{ANY, NUMBER, REAL};
use crate::differential::builder::Builder;
use crate::differential::case::{Attribute, Call};

pub(super) fn shape(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(ANY, 0, 4);
    if b.chance(25) {
        return Some(Call::new("Size").input(&x.name));
    }
    let mut call = Call::new("Shape").input(&x.name);
    if b.opset() >= 15 && b.chance(50) {
        call = call.int("start", b.between(-5, 5));
        if b.chance(60) {
            call = call.int("end", b.between(-5, 5));
        }
    }
    Some(call)
}

pub(super) fn constant_of_shape(b: &mut Builder) -> Option<Call> {
    if b.opset() < 9 {
        return None;
    }
    let rank = b.below(4);
    let dims = b.dims(rank);
    let shape = b.integers(&dims);
    Some(Call::new("ConstantOfShape").input(&shape))
}

pub(super) fn range(b: &mut Builder) -> Option<Call> {
    if b.opset() < 11 {
        return None;
    }
    let element = b.pick(&[ElementType::Int64, ElementType::Int32, ElementType::Float])?;
    let (start, limit) = (b.between(-4, 4), b.between(-6, 12));
    let step = b.pick(&[-3, -2, -1, 1, 2, 3])?;
    #[allow(clippy::cast_precision_loss, reason = "numbers are small")]
    let numbers = [start, limit, step].map(|number| number as f64);
    let half = if element == ElementType::Float && b.chance(50) { 0.25 } else { 0.0 };
    let mut call = Call::new("Range");
    for number in numbers {
        let stored = b.stored(element, Vec::new(), vec![number + half]);
        call = call.input(&stored);
    }
    Some(call)
}

pub(super) fn one_hot(b: &mut Builder) -> Option<Call> {
    if b.opset() < 9 {
        return None;
    }
    let indices = b.tensor(&[ElementType::Int64], 1, 3);
    let depth = b.between(1, 5);
    let vector = b.chance(40);
    let depth = b.integer(depth, vector);
    let values = b.floats(&[0.0, 1.0]);
    let call = Call::new("OneHot").input(&indices.name).input(&depth).input(&values);
    let rank = i64::try_from(indices.rank()).unwrap_or(0);
    let beyond = i64::from(b.wrong());
    let axis = b.between(-rank - 1 - beyond, rank + beyond);
    Some(if b.chance(60) { call.int("axis", axis) } else { call })
}

/// Outputs whose dims are counts of elements.
pub(super) fn data_dependent(b: &mut Builder) -> Option<Call> {
    match b.below(3) {
        0 if b.opset() >= 9 => {
            let x = b.tensor(NUMBER, 0, 3);
            Some(Call::new("NonZero").input(&x.name))
        }
        1 if b.opset() >= 11 => {
            let x = b.tensor(NUMBER, 1, 3);
            let mut call = Call::new("Unique").input(&x.name);
            if b.chance(50) {
                call = call.int("axis", b.axis(x.rank()));
            }
            for _ in 0..1 + b.below(4) {
                call.outputs.push(b.output());
            }
            Some(call)
        }
        _ if b.opset() >= 9 => {
            let x = b.tensor(REAL, 1, 3);
            let axis = b.chance(60).then(|| b.axis(x.rank()));
            let rank = i64::try_from(x.rank().max(1)).unwrap_or(1);
            let along = axis.map_or_else(
                || x.dims.iter().product(),
                |axis| x.dim(usize::try_from(axis.rem_euclid(rank)).unwrap_or(0)),
            );
            let length = if b.chance(70) { along } else { b.between(0, along.max(0)) };
            let known = b.chance(50);
            let condition = if known {
                let values = (0..length).map(|_| f64::from(u8::from(b.chance(50)))).collect();
                b.stored(ElementType::Bool, vec![length], values)
            } else {
                b.input(ElementType::Bool, vec![length]).name
            };
            let call = Call::new("Compress").input(&x.name).input(&condition);
            Some(match axis {
                Some(axis) => call.int("axis", axis),
                None => call,
            })
        }
        _ => None,
    }
}

/// A view whose shape is computed from the shape of another tensor.
pub(super) fn arithmetic(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(ANY, 1, 4);
    let rank = i64::try_from(x.rank()).unwrap_or(0);
    let whole = b.before(Call::new("Shape").input(&x.name));
    match b.below(5) {
        // Some axes kept, the rest in one.
        0 => {
            let kept = b.between(0, rank);
            let indices = (0..kept).map(|axis| f64::from(i32::try_from(axis).unwrap_or(0))).collect();
            let indices = b.stored(ElementType::Int64, vec![kept], indices);
            let head = b.before(Call::new("Gather").input(&whole).input(&indices).int("axis", 0));
            let rest = b.integers(&[-1]);
            let target = b.before(Call::new("Concat").input(&head).input(&rest).int("axis", 0));
            Some(Call::new("Reshape").input(&x.name).input(&target))
        }
        // The last axis folded into the first.
        1 => {
            let split = Call::new("Slice").input(&whole);
            let (from, to) = ([0], [rank - 1]);
            let head = if b.opset() < 10 {
                split.set("starts", Attribute::Ints(from.into())).set("ends", Attribute::Ints(to.into()))
            } else {
                let (from, to) = (b.integers(&from), b.integers(&to));
                split.input(&from).input(&to)
            };
            let head = b.before(head);
            let one = b.integers(&[-1]);
            let target = b.before(Call::new("Concat").input(&one).input(&head).int("axis", 0));
            Some(Call::new("Reshape").input(&x.name).input(&target))
        }
        // A constant of the same shape.
        2 if b.opset() >= 9 => {
            let constant = b.before(Call::new("ConstantOfShape").input(&whole));
            let sum = if x.element == ElementType::Float { constant } else { return None };
            Some(Call::new("Add").input(&x.name).input(&sum))
        }
        // Each dim times a number.
        3 if b.opset() >= 8 => {
            let factor = b.between(1, 3);
            let factor = b.integer(factor, true);
            let larger = b.before(Call::new("Mul").input(&whole).input(&factor));
            let one = b.input(ElementType::Float, vec![1]);
            Some(Call::new("Expand").input(&one.name).input(&larger))
        }
        // As long as an axis.
        _ if b.opset() >= 11 => {
            let axis = b.axis(x.rank());
            let index = b.integer(axis, false);
            let length = b.before(Call::new("Gather").input(&whole).input(&index).int("axis", 0));
            let (start, step) = (b.between(0, 2), b.between(1, 2));
            let (start, step) = (b.integer(start, false), b.integer(step, false));
            Some(Call::new("Range").input(&start).input(&length).input(&step))
        }
        _ => Some(Call::new("Reshape").input(&x.name).input(&whole)),
    }
}

pub(super) fn random(b: &mut Builder) -> Option<Call> {
    match b.below(4) {
        0 => {
            let rank = b.below(4);
            let dims = b.dims(rank);
            let op = b.pick(&["RandomNormal", "RandomUniform"])?;
            let call = Call::new(op).set("shape", b.ints(&dims));
            Some(if b.chance(40) { call.int("dtype", b.pick(&[1, 11])?) } else { call })
        }
        1 => {
            let x = b.tensor(REAL, 0, 4);
            let op = b.pick(&["RandomNormalLike", "RandomUniformLike"])?;
            Some(Call::new(op).input(&x.name))
        }
        2 if b.opset() >= 15 => {
            let x = b.tensor(REAL, 0, 4);
            let call = Call::new("Bernoulli").input(&x.name);
            Some(if b.chance(40) { call.int("dtype", b.pick(&[1, 7, 9])?) } else { call })
        }
        _ => {
            let x = b.tensor(REAL, 2, 2);
            let call = Call::new("Multinomial").input(&x.name);
            let call = if b.chance(60) { call.int("sample_size", b.between(1, 4)) } else { call };
            Some(if b.chance(40) { call.int("dtype", b.pick(&[6, 7])?) } else { call })
        }
    }
}
