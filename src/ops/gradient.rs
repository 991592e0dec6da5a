//! The backward pass of an operator, derived from its forward work: which kernels its gradients take, with their sizes.
//!
//! A product has a product for each operand that needs a gradient; an attention is one kernel that computes its scores
//! again; every other item has one item, which reads the gradient of the outputs and what was kept and writes the
//! gradients of the inputs. Inputs that were broadcast get theirs by a sum. Sums of the gradients of a tensor that
//! several nodes read are no part of a node.

use super::work::{product, stretches_to};
use super::{Family, Function, Saved, Work, WorkCx};

/// Which gradients a work item of the backward pass gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gradient {
    /// That of the left operand of a product, of the data of a convolution.
    Data,
    /// That of the right operand of a product, of the weight of a convolution, of a bias.
    Weight,
    /// Those of all inputs in one.
    All,
}

/// A fused attention computes its scores once more for its backward pass: five products where forward takes two
/// (Dao et al., `FlashAttention`, 2022, section 3.1 and appendix B).
const ATTENTION_BACKWARD: f64 = 2.5;

/// The work items of the backward pass, in running order. `works` is what the operator does forward, `saved` what it
/// keeps. Empty where no input needs a gradient.
#[must_use]
pub fn backward(works: &[Work], cx: &WorkCx<'_>, saved: &Saved) -> Vec<(Work, Gradient)> {
    if !cx.has_backward() {
        return Vec::new();
    }
    let multiplies =
        |work: &Work| matches!(work.family, Family::Convolution(_) | Family::Product { .. } | Family::Attention { .. });
    if !works.iter().any(multiplies) {
        return plain(works, cx, saved);
    }
    // What is counted without a backward pass (models that are not trained by gradients) has none.
    if cx.backward_flops <= 0.0 {
        return Vec::new();
    }
    let mut items = Vec::new();
    for work in works.iter().rev() {
        match work.family {
            Family::Product { .. } | Family::Convolution(_) => sides(work, cx, &mut items),
            Family::Attention { .. } => items.push((attention(work, cx), Gradient::All)),
            _ => items.extend(beside(work, cx).map(|item| (item, Gradient::All))),
        }
    }
    items.extend(added(works, cx).map(|item| (item, Gradient::Weight)));
    items
}

fn item(family: Family, flops: f64, bytes_read: f64, bytes_written: f64) -> Work {
    Work { family, flops, bytes_read, bytes_written, operands: [None; 2] }
}

/// One product for each operand that needs a gradient. An operand that is no input is an intermediate result, which
/// needs one as soon as any input does.
fn sides(work: &Work, cx: &WorkCx<'_>, items: &mut Vec<(Work, Gradient)>) {
    let [left, right] = work.operands;
    let needs = |operand: Option<usize>| operand.map_or_else(|| cx.needs_any(), |input| cx.needs(input));
    let (sizes, flops, families) = match work.family {
        Family::Product { batch, m, n, k } => {
            let sizes = [[batch, m, k], [batch, k, n], [batch, m, n]].map(|dims| product(&dims));
            let flops = 2.0 * [batch, m, n, k].map(|size| size as f64).iter().product::<f64>();
            let data = Family::Product { batch, m, n: k, k: n };
            (sizes, flops, [data, Family::Product { batch, m: k, n, k: m }])
        }
        Family::Convolution(sizes) => {
            let outputs = product(&[sizes.batch, sizes.out_channels, product(&sizes.output)]);
            let inputs = product(&[sizes.batch, sizes.in_channels, product(&sizes.input)]);
            let weights = product(&[sizes.out_channels, sizes.in_channels, product(&sizes.kernel)])
                .checked_div(sizes.groups)
                .unwrap_or_default();
            ([inputs, weights, outputs], 2.0 * sizes.macs(), [work.family; 2])
        }
        _ => return,
    };
    let [left_size, right_size, output_size] = sizes;
    let width = cx.width();
    let bytes = |operand: Option<usize>, size: u64| {
        operand.and_then(|input| cx.input(input)).map_or(size as f64 * width, |input| input.bytes() as f64)
    };
    let output = output_size as f64 * width;
    let of = [(left, left_size, Gradient::Data), (right, right_size, Gradient::Weight)];
    let others = [bytes(right, right_size), bytes(left, left_size)];
    for (((operand, size, gradient), other), family) in of.into_iter().zip(others).zip(families) {
        if !needs(operand) {
            continue;
        }
        let given = operand.and_then(|input| cx.input(input));
        // The batch of a product broadcasts: then each of it has a gradient first, and they are summed.
        let summed = given.filter(|given| {
            matches!(family, Family::Product { .. }) && given.elements() > 0 && given.elements() < size
        });
        let written = if summed.is_some() { size as f64 * width } else { bytes(operand, size) };
        items.push((item(family, flops, output + other, written), gradient));
        if let Some(given) = summed {
            let cols = size.checked_div(given.elements()).unwrap_or(1);
            let family = Family::Reduce { rows: given.elements(), cols };
            items.push((item(family, size as f64, written, given.bytes() as f64), gradient));
        }
    }
}

/// One kernel: reads query, key, value, the output and its gradient, writes the gradients of the first three.
fn attention(work: &Work, cx: &WorkCx<'_>) -> Work {
    let Family::Attention { batch, heads, kv_heads, queries, keys, head_dim, .. } = work.family else {
        return *work;
    };
    let width = cx.width();
    let query = product(&[batch, heads, queries, head_dim]) as f64 * width;
    let key = product(&[batch, kv_heads, keys, head_dim]) as f64 * width;
    let operands = query + 2.0 * key;
    item(work.family, work.flops * ATTENTION_BACKWARD, operands + 2.0 * query, operands)
}

/// An item beside products: its gradient takes as much as it does, and writes those of the inputs that it alone reads.
fn beside(work: &Work, cx: &WorkCx<'_>) -> Option<Work> {
    let own: Vec<usize> = work.operands.iter().flatten().copied().collect();
    let needed = own.is_empty() || own.iter().any(|&input| cx.needs(input)) || cx.needs(0);
    let written: f64 = own
        .iter()
        .filter(|&&input| cx.needs(input))
        .filter_map(|&input| cx.input(input))
        .map(|input| input.bytes() as f64)
        .sum();
    needed.then(|| item(work.family, work.flops, work.bytes_read + written, work.bytes_written + written))
}

/// Sums for the inputs that are added to a product: biases. One as large as the output takes its gradient as it is.
fn added<'a>(works: &'a [Work], cx: &'a WorkCx<'_>) -> impl Iterator<Item = Work> + 'a {
    let fused = works.iter().any(|work| matches!(work.family, Family::Attention { .. }));
    let results = works.iter().find_map(|work| match work.family {
        Family::Product { batch, m, n, .. } => Some(product(&[batch, m, n])),
        Family::Convolution(sizes) => Some(product(&[sizes.batch, sizes.out_channels, product(&sizes.output)])),
        _ => None,
    });
    let tokens = works.iter().find_map(|work| match work.family {
        Family::Attention { batch, queries, .. } => Some(batch.saturating_mul(queries)),
        _ => None,
    });
    let is_named = move |input: usize| works.iter().any(|work| work.operands.contains(&Some(input)));
    (0..cx.inputs.len()).filter(move |&input| cx.needs(input) && !is_named(input)).filter_map(move |input| {
        let bias = cx.input(input)?;
        // Beside an attention, larger inputs are its own operands.
        let rows = Some(bias.elements()).filter(|&rows| rows > 0 && (!fused || bias.dims.len() <= 1))?;
        let cols = match (results, tokens) {
            (Some(results), _) => results.checked_div(rows)?,
            (None, tokens) => tokens?,
        };
        let read = rows.saturating_mul(cols) as f64;
        let family = Family::Reduce { rows, cols };
        (cols > 1).then(|| item(family, read, read * cx.width(), bias.bytes() as f64))
    })
}

/// The backward pass of operators without products.
fn plain(works: &[Work], cx: &WorkCx<'_>, saved: &Saved) -> Vec<(Work, Gradient)> {
    let gradient: f64 =
        cx.outputs.iter().flatten().filter(|output| output.element.is_real()).map(|output| output.bytes() as f64).sum();
    let is_kept = |bits: u64, index: usize| index < 64 && bits >> index & 1 == 1;
    let kept = |tensors: &[Option<super::work::Sized<'_>>], bits: u64| -> f64 {
        let kept = tensors.iter().enumerate().filter(|(index, _)| is_kept(bits, *index));
        kept.filter_map(|(_, tensor)| *tensor).map(|tensor| tensor.bytes() as f64).sum()
    };
    let kept = kept(cx.inputs, saved.inputs) + kept(cx.outputs, saved.outputs) + saved.extra_bytes as f64;
    let mut written: f64 = (0..cx.inputs.len())
        .filter(|&input| cx.needs(input))
        .filter_map(|input| cx.input(input))
        .map(|input| input.bytes() as f64)
        .sum();
    let mut sums = Vec::new();
    let mut passes = false;
    if let [Work { family: Family::Elementwise { elements, .. }, flops, .. }] = works
        && let Some(output) = cx.output(0)
    {
        let stretched = |input: &usize| {
            cx.input(*input).is_some_and(|input| input.element.is_real() && stretches_to(input.dims, output.dims))
        };
        let operands = (0..cx.inputs.len()).filter(stretched).count();
        // A sum hands its gradient on as it is.
        passes = *saved == Saved::NOTHING
            && operands > 1
            && *flops <= elements.saturating_mul(operands.saturating_sub(1) as u64) as f64;
        for input in (0..cx.inputs.len()).filter(|input| cx.needs(*input) && stretched(input)) {
            let Some(input) = cx.input(input) else { continue };
            let rows = input.elements();
            let cols = output.elements().checked_div(rows).unwrap_or(1);
            if cols > 1 {
                let whole = output.elements() as f64 * f64::from(input.element.bits()) / 8.0;
                let family = Family::Reduce { rows, cols };
                sums.push((item(family, output.elements() as f64, whole, input.bytes() as f64), Gradient::Weight));
                written += whole - input.bytes() as f64;
            }
        }
    }
    let mut items = Vec::new();
    if !passes {
        let flops = (cx.backward_flops - sums.iter().map(|(sum, _)| sum.flops).sum::<f64>()).max(0.0);
        let total: f64 = works.iter().map(weight).sum();
        for work in works.iter().rev() {
            let share = weight(work) / total;
            if let Some(family) = family_of(work, cx) {
                items.push((
                    item(family, flops * share, (gradient + kept) * share, written.max(0.0) * share),
                    Gradient::All,
                ));
            }
        }
    }
    items.extend(sums);
    items
}

/// By what the items of an operator share its backward pass: the bytes that they move.
fn weight(work: &Work) -> f64 {
    (work.bytes_read + work.bytes_written).max(1.0)
}

/// The family of the gradient of an item that is no product.
fn family_of(work: &Work, cx: &WorkCx<'_>) -> Option<Family> {
    let elements = cx.input(0).map_or(0, |input| input.elements());
    match work.family {
        // What was summed to one element is spread again; what was picked goes back to its place.
        Family::Reduce { rows, cols } => {
            Some(Family::Elementwise { elements: rows.saturating_mul(cols), function: Function::Arithmetic })
        }
        Family::Sort { .. } => Some(Family::Copy { elements }),
        Family::Update { .. } => None,
        Family::Copy { .. } => match work.operands {
            [Some(repeated), None] => {
                let rows = cx.input(repeated).map_or(0, |input| input.elements());
                let outputs = cx.output(0).map_or(0, |output| output.elements());
                Some(Family::Reduce { rows, cols: outputs.checked_div(rows).unwrap_or_default() })
            }
            _ => Some(work.family),
        },
        family => Some(family),
    }
}
