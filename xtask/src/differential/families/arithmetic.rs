//! Elementwise operators with broadcasting, reductions and products.

use dlcost::ir::element_type::ElementType;

use super::{ANY, NUMBER, REAL};
use crate::differential::builder::{Builder, Known};
use crate::differential::case::Call;

/// Dims that broadcast with others: some left out in front, some 1.
fn partner(b: &mut Builder, dims: &[i64]) -> Vec<i64> {
    let from = if b.chance(40) { b.below(dims.len() + 1) } else { 0 };
    let mut partner: Vec<i64> = dims.iter().skip(from).map(|&dim| if b.chance(30) { 1 } else { dim }).collect();
    if from == 0 && partner.len() < 4 && b.chance(15) {
        partner.insert(0, b.between(1, 3));
    }
    partner
}

/// Another operand for a tensor.
fn operand(b: &mut Builder, x: &Known) -> Known {
    let dims = partner(b, &x.dims);
    b.input(x.element, dims)
}

pub(super) fn binary(b: &mut Builder) -> Option<Call> {
    const ARITHMETIC: &[&str] = &["Add", "Sub", "Mul", "Div", "Pow", "Mod", "PRelu"];
    const COMPARISONS: &[&str] = &["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"];
    const LOGIC: &[&str] = &["And", "Or", "Xor"];
    const BITS: &[&str] = &["BitwiseAnd", "BitwiseOr", "BitwiseXor"];
    let (ops, elements): (&[&'static str], &[ElementType]) = match b.below(10) {
        0..=5 => (ARITHMETIC, NUMBER),
        6..=7 => (COMPARISONS, NUMBER),
        8 => (LOGIC, &[ElementType::Bool]),
        _ => (BITS, &[ElementType::Int32, ElementType::Int64]),
    };
    let op = b.pick(ops)?;
    let since = match op {
        "Mod" => 10,
        "LessOrEqual" | "GreaterOrEqual" => 12,
        "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" => 18,
        _ => 7,
    };
    if b.opset() < since {
        return None;
    }
    let elements = match op {
        // What early versions take.
        "Pow" | "Less" | "Greater" | "PRelu" if b.opset() < 12 && !b.wrong() => REAL,
        "Equal" if b.opset() < 11 && !b.wrong() => &[ElementType::Int64, ElementType::Int32],
        _ => elements,
    };
    let x = b.tensor(elements, 0, 4);
    let y = operand(b, &x);
    let mut call = Call::new(op);
    // A slope of PRelu broadcasts to the input, not the other way.
    let swapped = op != "PRelu" && b.chance(40);
    for name in if swapped { [&y.name, &x.name] } else { [&x.name, &y.name] } {
        call = call.input(name);
    }
    Some(if op == "Mod" && x.element.is_real() { call.int("fmod", 1) } else { call })
}

pub(super) fn variadic(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(REAL, 0, 4);
    let op = b.pick(&["Max", "Min", "Sum", "Mean"])?;
    let mut call = Call::new(op).input(&x.name);
    for _ in 0..b.below(3) {
        let alike = b.opset() < 8 && !b.wrong();
        let other = if alike { b.input(x.element, x.dims.clone()) } else { operand(b, &x) };
        call = call.input(&other.name);
    }
    Some(call)
}

pub(super) fn expand(b: &mut Builder) -> Option<Call> {
    if b.opset() < 8 {
        return None;
    }
    let x = b.tensor(NUMBER, 0, 4);
    let mut dims: Vec<i64> = x.dims.iter().map(|&dim| if dim == 1 { b.between(1, 4) } else { dim }).collect();
    for dim in &mut dims {
        if b.chance(20) {
            *dim = 1;
        }
    }
    if b.chance(30) {
        dims.insert(0, b.between(0, 3));
    } else if b.chance(15) && !dims.is_empty() {
        dims.remove(0);
    }
    let shape = b.integers(&dims);
    Some(Call::new("Expand").input(&x.name).input(&shape))
}

pub(super) fn select(b: &mut Builder) -> Option<Call> {
    if b.opset() < 9 {
        return None;
    }
    let x = b.tensor(NUMBER, 0, 4);
    let y = operand(b, &x);
    let dims = partner(b, &x.dims);
    let condition = b.input(ElementType::Bool, dims);
    Some(Call::new("Where").input(&condition.name).input(&x.name).input(&y.name))
}

pub(super) fn reduction(b: &mut Builder) -> Option<Call> {
    const OPS: &[&str] = &[
        "ReduceSum",
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceSumSquare",
    ];
    let op = b.pick(OPS)?;
    let x = b.tensor(REAL, 0, 4);
    let mut call = Call::new(op).input(&x.name);
    let as_input = b.opset() >= if op == "ReduceSum" { 13 } else { 18 };
    if b.chance(75) && (x.rank() > 0 || b.wrong()) {
        let mut axes = b.axes(x.rank(), x.rank());
        if b.chance(8) {
            axes.clear();
        }
        if as_input {
            let axes = b.integers(&axes);
            call = call.input(&axes);
        } else {
            call = call.set("axes", b.ints(&axes));
        }
    }
    if b.chance(60) {
        call = call.int("keepdims", b.between(0, 1));
    }
    if as_input && b.chance(25) {
        call = call.int("noop_with_empty_axes", 1);
    }
    Some(call)
}

pub(super) fn arg(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(REAL, 1, 4);
    let op = b.pick(&["ArgMax", "ArgMin"])?;
    let axis = b.axis(x.rank());
    let mut call = Call::new(op).input(&x.name);
    if b.chance(70) {
        call = call.int("axis", axis);
    }
    if b.chance(60) {
        call = call.int("keepdims", b.between(0, 1));
    }
    if b.opset() >= 12 && b.chance(20) {
        call = call.int("select_last_index", 1);
    }
    Some(call)
}

/// Letters of a subscript and their sizes.
const LETTERS: [char; 5] = ['a', 'b', 'i', 'j', 'k'];

pub(super) fn einsum(b: &mut Builder) -> Option<Call> {
    if b.opset() < 12 {
        return None;
    }
    let sizes = b.many(LETTERS.len(), 1, 4);
    let spread = b.many(2, 1, 3);
    let ellipsis = b.chance(30);
    let (mut terms, mut call, mut used) = (Vec::new(), Call::new("Einsum"), Vec::new());
    for _ in 0..1 + b.below(3) {
        let (mut term, mut dims) = (String::new(), Vec::new());
        let dotted = ellipsis && b.chance(75);
        let at = b.below(2);
        let dots = |b: &mut Builder, term: &mut String, dims: &mut Vec<i64>| {
            term.push_str("...");
            let from = if b.chance(8) { b.below(spread.len() + 1) } else { 0 };
            dims.extend(spread.iter().skip(from).map(|&dim| if b.chance(15) { 1 } else { dim }));
        };
        if dotted && at == 0 {
            dots(b, &mut term, &mut dims);
        }
        let mut own: Vec<usize> = Vec::new();
        for _ in 0..1 + b.below(3) {
            let letter = b.below(LETTERS.len());
            // A letter that repeats in a term is a diagonal.
            if own.contains(&letter) && !b.chance(20) {
                continue;
            }
            own.push(letter);
            term.push(*LETTERS.get(letter)?);
            let size = *sizes.get(letter)?;
            dims.push(if b.chance(4) { 1 } else { size });
        }
        if dotted && at == 1 {
            dots(b, &mut term, &mut dims);
        }
        used.extend(own);
        terms.push(term);
        let operand = b.input(ElementType::Float, dims);
        call = call.input(&operand.name);
    }
    let mut equation = terms.join(if b.chance(15) { " , " } else { "," });
    if b.chance(65) {
        equation.push_str("->");
        if equation.contains("...") && b.chance(85) {
            equation.push_str("...");
        }
        used.sort_unstable();
        used.dedup();
        while !used.is_empty() {
            let letter = used.remove(b.below(used.len()));
            if b.chance(60) {
                equation.push(*LETTERS.get(letter)?);
            }
        }
        if b.wrong() {
            equation.push('z');
        }
    }
    Some(call.word("equation", &equation))
}

pub(super) fn matmul(b: &mut Builder) -> Option<Call> {
    let quantized = b.opset() >= 10 && b.chance(20);
    let x = b.tensor(if quantized { &[ElementType::Uint8] } else { REAL }, 1, 4);
    let inner = x.dim(x.rank().saturating_sub(1));
    let mut dims = if b.chance(25) { vec![inner] } else { vec![inner, b.between(1, 4)] };
    if dims.len() == 2 && x.rank() > 2 && b.chance(60) {
        let batch: Vec<i64> = x.dims.iter().take(x.rank() - 2).copied().collect();
        let batch = partner(b, &batch);
        dims = [batch, dims].concat();
    }
    let y = b.input(x.element, dims);
    Some(Call::new(if quantized { "MatMulInteger" } else { "MatMul" }).input(&x.name).input(&y.name))
}

pub(super) fn gemm(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(REAL, 2, 2);
    let (left, right) = (b.chance(40), b.chance(40));
    let (rows, inner) = if left { (x.dim(1), x.dim(0)) } else { (x.dim(0), x.dim(1)) };
    let columns = b.between(1, 5);
    let y = b.input(x.element, if right { vec![columns, inner] } else { vec![inner, columns] });
    let mut call = Call::new("Gemm").input(&x.name).input(&y.name);
    if b.opset() < 11 || b.chance(60) {
        let dims = partner(b, &[rows, columns]);
        let dims: Vec<i64> = dims.into_iter().rev().take(2).collect();
        let bias = b.input(x.element, dims.into_iter().rev().collect());
        call = call.input(&bias.name);
    }
    for (name, set) in [("transA", left), ("transB", right)] {
        if set {
            call = call.int(name, 1);
        }
    }
    Some(call)
}

pub(super) fn unary(b: &mut Builder) -> Option<Call> {
    const OPS: &[(&str, i64)] = &[
        ("Relu", 7),
        ("Sigmoid", 7),
        ("Tanh", 7),
        ("Exp", 7),
        ("Neg", 7),
        ("Abs", 7),
        ("Sqrt", 7),
        ("Floor", 7),
        ("Elu", 7),
        ("Selu", 7),
        ("LeakyRelu", 7),
        ("Softplus", 7),
        ("Identity", 7),
        ("Erf", 9),
        ("Sign", 9),
        ("IsNaN", 9),
        ("IsInf", 10),
        ("Round", 11),
        ("HardSwish", 14),
        ("Mish", 18),
        ("Gelu", 20),
        ("Dropout", 7),
        ("Clip", 7),
        ("Shrink", 9),
        ("ThresholdedRelu", 10),
        ("Not", 7),
        ("Trilu", 14),
        ("Det", 11),
        ("EyeLike", 9),
    ];
    let (op, since) = b.pick(OPS)?;
    if b.opset() < since {
        return None;
    }
    match op {
        "Not" => {
            let x = b.tensor(&[ElementType::Bool], 0, 4);
            Some(Call::new(op).input(&x.name))
        }
        "Trilu" | "Det" => {
            let x = b.tensor(REAL, 2, 4);
            Some(Call::new(op).input(&x.name))
        }
        "EyeLike" => {
            let x = b.tensor(NUMBER, 2, 2);
            let call = Call::new(op).input(&x.name);
            Some(if b.chance(40) { call.int("dtype", b.pick(&[1, 6, 7, 9])?) } else { call })
        }
        "Dropout" => {
            let x = b.tensor(REAL, 0, 4);
            let (y, mask) = (b.output(), b.output());
            let call = Call::new(op).input(&x.name).output(&y);
            Some(if b.chance(40) { call.output(&mask) } else { call })
        }
        _ => {
            let x = b.tensor(REAL, 0, 4);
            Some(Call::new(op).input(&x.name))
        }
    }
}

pub(super) fn cast(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(ANY, 0, 4);
    if b.opset() >= 15 && b.chance(25) {
        let like = b.tensor(ANY, 0, 3);
        return Some(Call::new("CastLike").input(&x.name).input(&like.name));
    }
    Some(Call::new("Cast").input(&x.name).int("to", b.pick(&[1, 2, 3, 6, 7, 9, 10, 11])?))
}

pub(super) fn running(b: &mut Builder) -> Option<Call> {
    if b.opset() < 11 {
        return None;
    }
    let x = b.tensor(REAL, 1, 4);
    let axis = b.axis(x.rank());
    let axis = b.integer(axis, false);
    let call = Call::new("CumSum").input(&x.name).input(&axis);
    Some(if b.chance(40) { call.int("exclusive", 1).int("reverse", b.between(0, 1)) } else { call })
}
