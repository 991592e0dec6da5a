//! `misaligned-channels`: sizes of weights that are no multiple of what tensor cores take at once.

use super::{LintCx, layer_ms, say, share, step_ms};
use crate::device::{Device, Precision};
use crate::diagnostics::{Code, Diagnostic, Level};
use crate::ir::graph::{Origin, TensorId};
use crate::ir::hash::HashMap;
use crate::ir::place::Place;
use crate::ops::Family;
use crate::passes::compose::Operation;
use crate::passes::lower::Launch;
use crate::passes::sizes::Sizes;
use crate::predict::pricer::Pricer;
use crate::predict::roofline::{self, required_multiple};
use crate::runtime::{Kernel, Pass};

/// Share of the step below which a layer is not worth a change.
const LAYER: f64 = 0.01;

/// Gain of a step from which it is said, and from which it costs real money.
const GAIN: [f64; 2] = [0.01, 0.05];

/// Nobody pads a size to more than this many times itself.
const MOST_PADDING: f64 = 1.34;

/// Channels of images: no network can change those.
const IMAGE_CHANNELS: u64 = 4;

/// A size of a layer's weight.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// What there are so many of.
    what: &'static str,
    size: u64,
    multiple: u64,
}

impl Size {
    fn next(self) -> u64 {
        self.size.next_multiple_of(self.multiple)
    }
}

/// A layer with a size that does not fit.
struct Found<'a> {
    op: &'a str,
    key: &'a str,
    place: Place,
    precision: Precision,
    size: Size,
    /// What a step gains where all its sizes fit, ms.
    gain: f64,
}

pub(super) fn check(cx: &LintCx<'_>) -> Option<Diagnostic> {
    let anywhere = |index| cx.product_precision(index).is_some_and(|precision| on_tensor(precision, &cx.target.device));
    if !(0..cx.analysis.layers.len()).any(anywhere) {
        return None;
    }
    let mut found = find(cx);
    let gain: f64 = found.iter().map(|found| found.gain).sum();
    let step = step_ms(cx.estimate);
    if share(gain, step) < GAIN[0] {
        return None;
    }
    found.sort_by(|left, right| right.gain.total_cmp(&left.gain));
    let first = found.first()?;
    let Size { what, size, multiple } = first.size;
    let (rest, next, name) = (size % multiple, first.size.next(), first.precision.name());
    let layer = format!("{} {:?} has {size} {what} ({size} mod {multiple} = {rest})", first.op, first.key);
    let wanted = format!("a multiple of {multiple}, as {name} products on the {} want", cx.device());
    let message = if found.len() == 1 {
        format!("{layer}, which is not {wanted}")
    } else {
        format!("{} layers have sizes that are not {wanted}; the dearest, {layer}", found.len())
    };
    let help = format!(
        "{next} instead of {size} costs {} more parameters in that layer; with all of them padded a {} is predicted to \
         take {} instead of {}",
        say::percent(next as f64 / size as f64 - 1.0),
        cx.run(),
        say::ms(step - gain),
        say::ms(step)
    );
    let level = if share(gain, step) < GAIN[1] { Level::Note } else { Level::Warning };
    let mut diagnostic = Diagnostic::new(Code::MisalignedChannels, message).level(level).help(help);
    diagnostic.places = found.iter().map(|found| found.place).collect();
    Some(diagnostic)
}

fn find<'a>(cx: &LintCx<'a>) -> Vec<Found<'a>> {
    let operations = cx.analysis.operations(cx.target.attention);
    let sizes = cx.analysis.sizes(cx.values);
    let target = cx.target;
    let Some(schedule) = cx.plans.schedule(cx.values, target) else { return Vec::new() };
    let by_layer: HashMap<usize, &Operation> =
        operations.list().iter().map(|operation| (operation.layer, operation)).collect();
    let step = step_ms(cx.estimate);
    let pricer = cx.plans.pricer(target);
    let one = |launch: &Launch| {
        let layer = cx.estimate.layers.get(launch.layer)?;
        if share(layer_ms(layer), step) < LAYER {
            return None;
        }
        let operation = by_layer.get(&launch.layer)?;
        let forward = schedule
            .kernels(launch)
            .iter()
            .find(|kernel| kernel.pass == Pass::Forward && kernel.family.is_product())?;
        if !on_tensor(forward.precision, &target.device) {
            return None;
        }
        let weights = weight_dims(cx, operation, &sizes);
        let sizes = unaligned(forward, &weights);
        let size = *sizes.first()?;
        let gain: f64 =
            schedule.kernels(launch).iter().map(|kernel| gain(kernel, &sizes, &pricer, &target.device)).sum();
        // A product with its bias is reported at the addition; the name to look for is the product's.
        let nodes = || operation.layers().filter_map(|layer| cx.node(layer));
        let node = nodes().find(|node| is_product(&node.op)).or_else(|| nodes().next())?;
        let (op, key, place, precision) = (&*node.op, &*node.key, node.place, forward.precision);
        (gain > 0.0).then_some(Found { op, key, place, precision, size, gain })
    };
    schedule.launches.iter().filter_map(one).collect()
}

fn is_product(op: &str) -> bool {
    ["Conv", "Gemm", "MatMul"].iter().any(|part| op.contains(part))
}

/// Whether products of a precision run on tensor cores.
fn on_tensor(precision: Precision, device: &Device) -> bool {
    device.tensor.of(precision).is_some_and(|rate| rate >= device.plain_tflops(precision))
}

/// Dims of the matrix that an operation has stored.
fn weight_dims(cx: &LintCx<'_>, operation: &Operation, sizes: &Sizes<'_>) -> Vec<u64> {
    let stored = operation.inputs.iter().flatten().copied().filter(|&tensor| is_stored(cx, tensor));
    let dims = stored.filter_map(|tensor| sizes.get(tensor)).find(|sized| sized.dims.len() == 2);
    dims.map(|sized| sized.dims.to_vec()).unwrap_or_default()
}

/// Whether a tensor is stored, or a stored one in another order or type.
fn is_stored(cx: &LintCx<'_>, tensor: TensorId) -> bool {
    let program = &cx.analysis.program;
    let Some(found) = program.tensor(tensor) else { return false };
    match found.origin {
        Origin::Stored(_) => true,
        Origin::Node(index) => {
            let node = program.graph(found.graph).and_then(|graph| graph.net.node_weight(index));
            let passes = |op: &str| matches!(op, "Transpose" | "Cast" | "Identity" | "DequantizeLinear");
            let from = node.filter(|node| passes(&node.op)).and_then(|node| *node.inputs.first()?);
            let origin = from.and_then(|from| program.tensor(from)).map(|tensor| tensor.origin);
            matches!(origin, Some(Origin::Stored(_)))
        }
        Origin::Input | Origin::Undefined => false,
    }
}

/// Sizes of a product's weight that do not fit its precision.
fn unaligned(kernel: &Kernel, weight: &[u64]) -> Vec<Size> {
    let multiple = required_multiple(kernel.precision);
    let candidates: Vec<(&'static str, u64)> = match kernel.family {
        Family::Convolution(convolution) if convolution.groups <= 1 => {
            let input = convolution.in_channels;
            let images = input <= IMAGE_CHANNELS;
            vec![("output channels", convolution.out_channels), ("input channels", if images { 0 } else { input })]
        }
        Family::Product { m, n, k, .. } => {
            let output = if weight.contains(&n) { n } else { m };
            vec![("output features", output), ("input features", k)]
                .into_iter()
                .filter(|(_, size)| weight.contains(size))
                .collect()
        }
        Family::Recurrent { inputs, hidden, .. } => vec![("elements of state", hidden), ("inputs", inputs)],
        _ => Vec::new(),
    };
    let sizes = candidates.into_iter().map(|(what, size)| Size { what, size, multiple });
    // One score, or a few colours, are what they are.
    let few = |size: &Size| size.next() as f64 > MOST_PADDING * size.size as f64;
    sizes.filter(|size| size.size % multiple != 0 && !few(size)).collect()
}

/// What a kernel gains where these sizes are the next multiples, ms a step.
fn gain(kernel: &Kernel, sizes: &[Size], pricer: &Pricer, device: &Device) -> f64 {
    let padded = |size: u64| sizes.iter().find(|unaligned| unaligned.size == size).map_or(size, |found| found.next());
    let mut grown = 1.0;
    let mut grow = |size: &mut u64| {
        let next = padded(*size);
        grown *= next as f64 / (*size).max(1) as f64;
        *size = next;
    };
    let mut changed = *kernel;
    match &mut changed.family {
        Family::Convolution(convolution) => {
            grow(&mut convolution.in_channels);
            grow(&mut convolution.out_channels);
        }
        Family::Product { m, n, k, .. } => [m, n, k].into_iter().for_each(grow),
        Family::Recurrent { inputs, hidden, .. } => [inputs, hidden].into_iter().for_each(grow),
        _ => return 0.0,
    }
    changed.flops *= grown;
    // What a multiple gains is a rule of physics; predictors, which know sizes that were measured, say of how much.
    let rough = |kernel: &Kernel| roofline::price(kernel, device).time_ms.p50;
    pricer.price(kernel).time_ms.p50 * kernel.runs * (1.0 - rough(&changed) / rough(kernel))
}
