//! Sliding windows: pools, convolutions and their transposes, and resizing.

use dlcost::ir::element_type::ElementType;

use super::REAL;
use crate::differential::builder::{Builder, Known};
use crate::differential::case::{Attribute, Call};

/// A kernel for the spatial axes of a tensor.
fn kernel(b: &mut Builder, x: &Known) -> Vec<i64> {
    x.dims.iter().skip(2).map(|&dim| if b.wrong() { b.between(0, 8) } else { b.between(1, dim.clamp(1, 3)) }).collect()
}

/// Strides, dilations and padding of a window.
fn window(b: &mut Builder, mut call: Call, kernel: &[i64], dilates: bool) -> Call {
    let axes = kernel.len();
    if b.chance(55) {
        let strides = b.many(axes, 1, 3);
        call = call.set("strides", b.ints(&strides));
    }
    if dilates && b.chance(30) {
        let dilations = b.many(axes, 1, 2);
        call = call.set("dilations", b.ints(&dilations));
    }
    if b.chance(35) {
        let words = ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"];
        call = call.word("auto_pad", b.pick(&words).unwrap_or("VALID"));
    }
    let padded = call.attributes.iter().all(|(name, _)| *name != "auto_pad") || b.wrong();
    if padded && b.chance(60) {
        let mut pads = Vec::new();
        for _ in 0..2 {
            pads.extend(kernel.iter().map(|&extent| b.between(0, (extent - 1).max(0))));
        }
        call = call.set("pads", b.ints(&pads));
    }
    call
}

pub(super) fn pool(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(REAL, 3, 5);
    let op = b.pick(&["MaxPool", "AveragePool", "LpPool"])?;
    let extents = kernel(b, &x);
    let call = Call::new(op).input(&x.name).set("kernel_shape", b.ints(&extents));
    let since = match op {
        "MaxPool" => (10, 10),
        "AveragePool" => (19, 10),
        _ => (18, 18),
    };
    let mut call = window(b, call, &extents, b.opset() >= since.0);
    if b.opset() >= since.1 && b.chance(45) {
        call = call.int("ceil_mode", 1);
    }
    if op == "AveragePool" && b.chance(40) {
        call = call.int("count_include_pad", 1);
    }
    if op == "LpPool" && b.chance(30) {
        call = call.int("p", b.between(1, 3));
    }
    if op == "MaxPool" && b.opset() >= 8 && b.chance(25) {
        let (values, places) = (b.output(), b.output());
        call = call.output(&values).output(&places);
        if b.chance(30) {
            call = call.int("storage_order", 1);
        }
    }
    Some(call)
}

pub(super) fn global_pool(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(REAL, 3, 5);
    let op = b.pick(&["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"])?;
    Some(Call::new(op).input(&x.name))
}

/// A divisor of a number of channels.
fn groups(b: &mut Builder, channels: i64) -> i64 {
    let divisors: Vec<i64> = (1..=channels.max(1)).filter(|group| channels % group == 0).collect();
    if b.wrong() {
        return b.between(0, 4);
    }
    if b.chance(50) { 1 } else { b.pick(&divisors).unwrap_or(1) }
}

pub(super) fn convolution(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(REAL, 3, 5);
    let group = groups(b, x.dim(1));
    let extents = kernel(b, &x);
    let filters = group * b.between(1, 3);
    let mut dims = vec![filters, x.dim(1) / group.max(1)];
    dims.extend(&extents);
    let w = b.input(x.element, dims);
    let mut call = Call::new("Conv").input(&x.name).input(&w.name);
    if b.chance(40) {
        let bias = b.input(x.element, vec![filters]);
        call = call.input(&bias.name);
    }
    call = shaped(b, call, &extents, group);
    Some(window(b, call, &extents, true))
}

/// Kernel and groups, where they are written.
fn shaped(b: &mut Builder, mut call: Call, extents: &[i64], group: i64) -> Call {
    if b.chance(50) {
        call = call.set("kernel_shape", b.ints(extents));
    }
    if group != 1 || b.chance(10) {
        call = call.int("group", group);
    }
    call
}

pub(super) fn quantized_convolution(b: &mut Builder) -> Option<Call> {
    if b.opset() < 10 {
        return None;
    }
    let x = b.tensor(&[ElementType::Uint8], 4, 4);
    let group = groups(b, x.dim(1));
    let extents = kernel(b, &x);
    let filters = group * b.between(1, 3);
    let mut dims = vec![filters, x.dim(1) / group.max(1)];
    dims.extend(&extents);
    let w = b.input(ElementType::Uint8, dims);
    let call = if b.chance(50) {
        Call::new("ConvInteger").input(&x.name).input(&w.name)
    } else {
        let scale = b.stored(ElementType::Float, Vec::new(), vec![0.5]);
        let zero = b.stored(ElementType::Uint8, Vec::new(), vec![1.0]);
        let pair = |call: Call| call.input(&scale).input(&zero);
        pair(pair(pair(Call::new("QLinearConv").input(&x.name)).input(&w.name)))
    };
    let call = shaped(b, call, &extents, group);
    Some(window(b, call, &extents, true))
}

pub(super) fn transposed_convolution(b: &mut Builder) -> Option<Call> {
    let x = b.tensor(REAL, 3, 5);
    let group = groups(b, x.dim(1));
    let extents: Vec<i64> = x.dims.iter().skip(2).map(|_| b.between(1, 3)).collect();
    let each = b.between(1, 3);
    let mut dims = vec![x.dim(1), each];
    dims.extend(&extents);
    let w = b.input(x.element, dims);
    let mut call = Call::new("ConvTranspose").input(&x.name).input(&w.name);
    if b.chance(30) {
        let bias = b.input(x.element, vec![each * group]);
        call = call.input(&bias.name);
    }
    call = shaped(b, call, &extents, group);
    call = window(b, call, &extents, true);
    let strides = match call.attributes.iter().find(|(name, _)| *name == "strides") {
        Some((_, Attribute::Ints(strides))) => strides.clone(),
        _ => vec![1; extents.len()],
    };
    if b.chance(30) {
        let padding: Vec<i64> = strides.iter().map(|&stride| b.between(0, (stride - 1).max(0))).collect();
        call = call.set("output_padding", b.ints(&padding));
    }
    if b.chance(25) {
        let mut sizes = Vec::new();
        for ((&dim, &stride), &extent) in x.dims.iter().skip(2).zip(&strides).zip(&extents) {
            let beyond = if b.wrong() { 2 } else { 0 };
            sizes.push(((dim - 1) * stride + extent + b.between(-1, stride.max(1) - 1 + beyond)).max(1));
        }
        call = call.set("output_shape", b.ints(&sizes));
    }
    Some(call)
}

pub(super) fn unpool(b: &mut Builder) -> Option<Call> {
    if b.opset() < 9 {
        return None;
    }
    let x = b.tensor(REAL, 4, 4);
    let extents = kernel(b, &x);
    let pool = Call::new("MaxPool").input(&x.name).set("kernel_shape", Attribute::Ints(extents.clone()));
    let strides = Attribute::Ints(extents.clone());
    let (values, places) = (b.output(), b.output());
    b.put(pool.set("strides", strides.clone()).output(&values).output(&places));
    let whole = b.integers(&x.dims);
    let call = Call::new("MaxUnpool").input(&values).input(&places).input(&whole);
    Some(call.set("kernel_shape", Attribute::Ints(extents)).set("strides", strides))
}

pub(super) fn resize(b: &mut Builder) -> Option<Call> {
    const SCALES: [f64; 9] = [0.3, 0.5, 0.7, 1.0, 1.0, 1.5, 2.0, 2.5, 3.0];
    let x = b.tensor(REAL, 1, 4);
    let opset = b.opset();
    // Kernels of other modes know some ranks only.
    let mode = if !(x.rank() == 4 || b.wrong()) || b.chance(40) { "nearest" } else { "linear" };
    let axes = (opset >= 18 && (mode == "nearest" || b.wrong()) && b.chance(60)).then(|| b.axes(x.rank(), x.rank()));
    let count = axes.as_ref().map_or(x.rank(), Vec::len);
    let plain = |place: usize| axes.is_none() && place < 2 && x.rank() == 4;
    let scales: Vec<f64> =
        (0..count).map(|place| if plain(place) { 1.0 } else { b.pick(&SCALES).unwrap_or(2.0) }).collect();
    if opset < 10 {
        let call = Call::new("Upsample").input(&x.name).word("mode", mode);
        let up: Vec<f64> = scales.iter().map(|scale| scale.max(1.0)).collect();
        return Some(if opset < 9 {
            call.set("scales", Attribute::Floats(up))
        } else {
            let scales = b.floats(&up);
            call.input(&scales)
        });
    }
    if opset == 10 {
        let scales = b.floats(&scales);
        return Some(Call::new("Resize").input(&x.name).input(&scales).word("mode", mode));
    }
    let mode = if x.rank() == 4 && b.chance(15) { "cubic" } else { mode };
    let mut call = Call::new("Resize").input(&x.name).word("mode", mode);
    let mut coordinates = vec!["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"];
    if opset >= 19 {
        coordinates.push("half_pixel_symmetric");
    }
    let coordinates = b.pick(&coordinates)?;
    if b.chance(60) {
        call = call.word("coordinate_transformation_mode", coordinates);
    }
    let crops = call.attributes.iter().any(|(_, value)| *value == Attribute::Text("tf_crop_and_resize".to_owned()));
    let roi = if crops {
        let starts = vec![0.1; count];
        let ends: Vec<f64> = (0..count).map(|_| if b.chance(50) { 0.8 } else { 0.6 }).collect();
        b.floats(&[starts, ends].concat())
    } else if opset < 13 {
        b.floats(&[])
    } else {
        String::new()
    };
    call = call.input(&roi);
    if mode == "nearest" && b.chance(40) {
        let words = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];
        call = call.word("nearest_mode", b.pick(&words)?);
    }
    if if crops { b.wrong() } else { b.chance(50) } {
        let scales = b.floats(&scales);
        call = call.input(&scales);
    } else {
        let place = |place: usize| {
            let axis =
                axes.as_ref().map_or(i64::try_from(place).unwrap_or(0), |axes| axes.get(place).copied().unwrap_or(0));
            usize::try_from(axis.rem_euclid(i64::try_from(x.rank().max(1)).unwrap_or(1))).unwrap_or(0)
        };
        let sizes: Vec<i64> = (0..count).map(|at| if plain(at) { x.dim(place(at)) } else { b.between(1, 9) }).collect();
        let none = if opset < 13 { b.floats(&[]) } else { String::new() };
        let sizes = b.integers(&sizes);
        call = call.input(&none).input(&sizes);
        if opset >= 18 && b.chance(45) {
            call = call.word("keep_aspect_ratio_policy", b.pick(&["stretch", "not_larger", "not_smaller"])?);
        }
    }
    if opset >= 18 && mode != "nearest" && b.chance(20) {
        call = call.int("antialias", 1);
    }
    if let Some(axes) = axes {
        call = call.set("axes", b.ints(&axes));
    }
    Some(call)
}
