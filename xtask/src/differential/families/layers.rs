//! Layers of networks: normalisations, recurrent cells, quantisation, sampling, spectra, attention.

use dlcost::ir::element_type::ElementType;

use super::REAL;
use crate::differential::builder::Builder;
use crate::differential::case::{Attribute, Call};

pub(super) fn normalization(b: &mut Builder) -> Option<Call> {
    let opset = b.opset();
    let op = b.pick(&[
        "BatchNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "GroupNormalization",
        "RMSNormalization",
        "LRN",
        "LpNormalization",
        "MeanVarianceNormalization",
    ])?;
    let since = match op {
        "LayerNormalization" => 17,
        "GroupNormalization" => 21,
        "RMSNormalization" => 23,
        "MeanVarianceNormalization" => 9,
        _ => 7,
    };
    if opset < since {
        return None;
    }
    let x = b.tensor(REAL, if op == "MeanVarianceNormalization" { 4 } else { 2 }, 4);
    let channels = x.dim(1);
    let call = Call::new(op).input(&x.name);
    let vectors = |b: &mut Builder, mut call: Call, count: usize, dims: &[i64]| {
        for _ in 0..count {
            let vector = b.input(ElementType::Float, dims.to_vec());
            call = call.input(&vector.name);
        }
        call
    };
    Some(match op {
        "BatchNormalization" => vectors(b, call, 4, &[channels]),
        "InstanceNormalization" => vectors(b, call, 2, &[channels]),
        "GroupNormalization" => {
            let groups: Vec<i64> = (1..=channels.max(1)).filter(|group| channels % group == 0).collect();
            let groups = b.pick(&groups).unwrap_or(1);
            vectors(b, call, 2, &[channels]).int("num_groups", groups)
        }
        "LayerNormalization" | "RMSNormalization" => {
            let axis = b.axis(x.rank());
            let rank = i64::try_from(x.rank().max(1)).unwrap_or(1);
            let from = usize::try_from(axis.rem_euclid(rank)).unwrap_or(0);
            let dims: Vec<i64> = x.dims.iter().skip(from).copied().collect();
            let mut call = vectors(b, call, if op == "LayerNormalization" { 2 } else { 1 }, &dims).int("axis", axis);
            if op == "LayerNormalization" && b.chance(40) {
                for _ in 0..3 {
                    call.outputs.push(b.output());
                }
            }
            call
        }
        "LRN" => call.int("size", 3),
        "LpNormalization" => call.int("axis", b.axis(x.rank())).int("p", b.between(1, 2)),
        _ => call,
    })
}

pub(super) fn recurrent(b: &mut Builder) -> Option<Call> {
    let (op, gates) = b.pick(&[("LSTM", 4), ("GRU", 3), ("RNN", 1)])?;
    let x = b.tensor(REAL, 3, 3);
    let batch_first = b.opset() >= 14 && b.wrong();
    let batch = x.dim(usize::from(!batch_first));
    let hidden = b.between(1, 4);
    let direction = b.pick(&["forward", "reverse", "bidirectional"])?;
    let directions = if direction == "bidirectional" { 2 } else { 1 };
    let w = b.input(ElementType::Float, vec![directions, gates * hidden, x.dim(2)]);
    let r = b.input(ElementType::Float, vec![directions, gates * hidden, hidden]);
    let mut call = Call::new(op).input(&x.name).input(&w.name).input(&r.name);
    if !b.wrong() {
        call = call.int("hidden_size", hidden);
    }
    if direction != "forward" || b.chance(20) {
        call = call.word("direction", direction);
    }
    if batch_first {
        call = call.int("layout", 1);
    }
    if b.chance(40) {
        let bias = b.input(ElementType::Float, vec![directions, 2 * gates * hidden]);
        call = call.input(&bias.name);
        if b.chance(50) {
            let dims = if batch_first { vec![batch, directions, hidden] } else { vec![directions, batch, hidden] };
            let state = b.input(ElementType::Float, dims);
            call = call.input("").input(&state.name);
        }
    }
    for _ in 0..1 + b.below(if op == "LSTM" { 3 } else { 2 }) {
        call.outputs.push(b.output());
    }
    Some(call)
}

pub(super) fn softmax(b: &mut Builder) -> Option<Call> {
    let op = b.pick(&["Softmax", "LogSoftmax", "Hardmax"])?;
    let x = b.tensor(REAL, 1, 4);
    let axis = b.axis(x.rank());
    let call = Call::new(op).input(&x.name);
    Some(if b.chance(70) { call.int("axis", axis) } else { call })
}

pub(super) fn quantization(b: &mut Builder) -> Option<Call> {
    if b.opset() < 10 {
        return None;
    }
    let x = b.tensor(REAL, 1, 4);
    if b.opset() >= 11 && b.chance(25) {
        let names = [b.output(), b.output(), b.output()];
        return Some(
            names.iter().fold(Call::new("DynamicQuantizeLinear").input(&x.name), |call, name| call.output(name)),
        );
    }
    let per_axis = b.opset() >= 13 && b.chance(40);
    let axis = b.axis(x.rank());
    let rank = i64::try_from(x.rank().max(1)).unwrap_or(1);
    let count = if per_axis { x.dim(usize::try_from(axis.rem_euclid(rank)).unwrap_or(0)) } else { 1 };
    let dims = if per_axis { vec![count] } else { Vec::new() };
    let scales = (0..count).map(|_| 0.5).collect();
    let scale = b.stored(ElementType::Float, dims.clone(), scales);
    let mut call = Call::new("QuantizeLinear").input(&x.name).input(&scale);
    if b.chance(60) {
        let element = b.pick(&[ElementType::Uint8, ElementType::Int8])?;
        let zero = b.stored(element, dims, (0..count).map(|_| 1.0).collect());
        call = call.input(&zero);
    }
    if per_axis {
        call = call.int("axis", axis);
    }
    if b.chance(50) {
        let zero = call.inputs.get(2).cloned();
        let quantized = b.before(call.clone());
        let mut back = Call::new("DequantizeLinear").input(&quantized).input(&scale);
        back.attributes = call.attributes;
        if let Some(zero) = zero {
            back = back.input(&zero);
        }
        return Some(back);
    }
    Some(call)
}

pub(super) fn sampling(b: &mut Builder) -> Option<Call> {
    match b.below(3) {
        0 if b.opset() >= 16 => {
            let x = b.tensor(REAL, 4, if b.opset() >= 20 { 5 } else { 4 });
            let mut dims = vec![x.dim(0)];
            dims.extend(b.many(x.rank().saturating_sub(2), 1, 4));
            dims.push(i64::try_from(x.rank().saturating_sub(2)).unwrap_or(2));
            let grid = b.input(ElementType::Float, dims);
            Some(Call::new("GridSample").input(&x.name).input(&grid.name))
        }
        1 if b.opset() >= 20 => {
            let batch = b.between(1, 3);
            let flat = b.chance(60);
            let theta = b.input(ElementType::Float, if flat { vec![batch, 2, 3] } else { vec![batch, 3, 4] });
            let mut size = vec![batch, b.between(1, 3)];
            size.extend(b.many(if flat { 2 } else { 3 }, 1, 4));
            let size = b.integers(&size);
            Some(Call::new("AffineGrid").input(&theta.name).input(&size))
        }
        _ if b.opset() >= 18 => {
            let image = b.many(2, 2, 5);
            let block = b.many(2, 1, 2);
            let pairs = image.iter().zip(&block);
            let places: i64 = pairs.map(|(image, block)| image - block + 1).product();
            let channels = b.between(1, 3);
            let columns = block.iter().product::<i64>() * channels;
            let batch = b.between(1, 2);
            let x = b.input(ElementType::Float, vec![batch, columns, places]);
            let (image, block) = (b.integers(&image), b.integers(&block));
            Some(Call::new("Col2Im").input(&x.name).input(&image).input(&block))
        }
        _ => None,
    }
}

pub(super) fn signal(b: &mut Builder) -> Option<Call> {
    if b.opset() < 17 {
        return None;
    }
    match b.below(4) {
        0 => {
            let op = b.pick(&["HannWindow", "HammingWindow", "BlackmanWindow"])?;
            let size = b.between(1, 12);
            let size = b.integer(size, false);
            let call = Call::new(op).input(&size);
            Some(if b.chance(40) { call.int("output_datatype", b.pick(&[1, 11])?) } else { call })
        }
        1 => {
            let numbers = [b.between(1, 5), b.between(32, 64), 16_000];
            let mut call = Call::new("MelWeightMatrix");
            for number in numbers {
                let stored = b.integer(number, false);
                call = call.input(&stored);
            }
            for number in [0.0, 8000.0] {
                let stored = b.stored(ElementType::Float, Vec::new(), vec![number]);
                call = call.input(&stored);
            }
            Some(call)
        }
        2 => {
            let (batch, length) = (b.between(1, 2), b.between(2, 6));
            let complex = b.chance(40);
            let x = b.input(ElementType::Float, vec![batch, length, if complex { 2 } else { 1 }]);
            let mut call = Call::new("DFT").input(&x.name);
            let sized = b.chance(40);
            if sized {
                let size = b.between(1, 8);
                let size = b.integer(size, false);
                call = call.input(&size);
            }
            if b.opset() >= 20 {
                if b.chance(50) {
                    let axis = b.integer(1, false);
                    call = if sized { call.input(&axis) } else { call.input("").input(&axis) };
                }
            } else if b.chance(50) {
                call = call.int("axis", 1);
            }
            Some(if complex {
                if b.chance(40) { call.int("inverse", 1) } else { call }
            } else if b.chance(50) {
                call.int("onesided", 1)
            } else {
                call
            })
        }
        _ => {
            let (batch, length) = (b.between(1, 2), b.between(8, 20));
            let x = b.input(ElementType::Float, vec![batch, length, 1]);
            let (step, frame) = (b.between(1, 4), b.between(3, 8));
            let (step, frame) = (b.integer(step, false), b.integer(frame, false));
            let call = Call::new("STFT").input(&x.name).input(&step).input("").input(&frame);
            Some(if b.chance(50) { call.int("onesided", b.between(0, 1)) } else { call })
        }
    }
}

pub(super) fn regions(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(REAL, 4, 4);
    let count = b.between(1, 3);
    if b.opset() >= 16 && b.chance(60) {
        let corners = (0..count).flat_map(|_| [0.0, 0.0, 2.0, 1.0]).collect();
        let boxes = b.stored(ElementType::Float, vec![count, 4], corners);
        let places = b.stored(ElementType::Int64, vec![count], (0..count).map(|_| 0.0).collect());
        let mut call = Call::new("RoiAlign").input(&x.name).input(&boxes).input(&places);
        if b.chance(70) {
            call = call.int("output_height", b.between(1, 4)).int("output_width", b.between(1, 4));
        }
        return Some(call);
    }
    let zeros = (0..5 * count).map(|_| 0.0).collect();
    let boxes = b.stored(ElementType::Float, vec![count, 5], zeros);
    let sizes = b.many(2, 1, 3);
    Some(Call::new("MaxRoiPool").input(&x.name).input(&boxes).set("pooled_shape", Attribute::Ints(sizes)))
}

pub(super) fn attention(b: &mut Builder) -> Option<Call> {
    if b.opset() < 23 {
        return None;
    }
    let (batch, queries, keys) = (b.between(1, 2), b.between(1, 4), b.between(1, 5));
    let shared = b.between(1, 2);
    let (heads, groups) = (shared * b.between(1, 2), shared);
    let (width, values) = (b.between(1, 4), b.between(1, 4));
    let four = b.chance(50);
    let dims = |heads: i64, length: i64, width: i64| {
        if four { vec![batch, heads, length, width] } else { vec![batch, length, heads * width] }
    };
    let q = b.input(ElementType::Float, dims(heads, queries, width));
    let k = b.input(ElementType::Float, dims(groups, keys, width));
    let v = b.input(ElementType::Float, dims(groups, keys, values));
    let mut call = Call::new("Attention").input(&q.name).input(&k.name).input(&v.name);
    if !four || b.wrong() {
        call = call.int("q_num_heads", heads).int("kv_num_heads", groups);
    }
    if b.chance(30) {
        let past = b.between(0, 3);
        let (pk, pv) = (
            b.input(ElementType::Float, vec![batch, groups, past, width]),
            b.input(ElementType::Float, vec![batch, groups, past, values]),
        );
        call = call.input("").input(&pk.name).input(&pv.name);
        for _ in 0..3 {
            call.outputs.push(b.output());
        }
    }
    if b.chance(30) {
        call = call.int("is_causal", 1);
    }
    Some(call)
}
