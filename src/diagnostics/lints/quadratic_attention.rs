//! `quadratic-attention`: work over all pairs of tokens takes much of the time or the memory.

use super::{LintCx, joined, layer_ms, say, share, step_ms};
use crate::diagnostics::{Code, Diagnostic};
use crate::ir::graph::{Node, TensorId};
use crate::ir::place::Place;
use crate::passes::sizes::Sizes;
use crate::runtime::Attention;

/// Share of time or memory from which it is said.
const SHARE: f64 = 0.3;

/// Tokens from which the square is what grows.
const LENGTH: u64 = 1024;

/// Scores of an attention: queries and keys.
type Pair = (u64, u64);

pub(super) fn check(cx: &LintCx<'_>) -> Option<Diagnostic> {
    let sizes = cx.analysis.sizes(cx.values);
    let pairs = pairs(cx, &sizes);
    let queries = pairs.iter().map(|pair| pair.0).max()?;
    let (mut ms, mut kept) = (0.0, 0.0);
    let mut places: Vec<(Place, f64)> = Vec::new();
    for (index, layer) in cx.layers() {
        let Some(node) = cx.node(index) else { continue };
        let scores = node.inputs.iter().chain(&node.outputs).flatten().any(|&tensor| is_of(&sizes, tensor, &pairs));
        if !scores && !is_fused(node, &sizes) {
            continue;
        }
        let time = layer_ms(layer);
        (ms, kept) = (ms + time, kept + layer.saved_bytes as f64);
        if time > 0.0 {
            places.push((node.place, time));
        }
    }
    let time = share(ms, step_ms(cx.estimate));
    // A fused kernel keeps no scores; what it keeps grows with the length alone.
    let eager = cx.target.attention == Attention::Eager;
    let memory = if eager { share(kept, cx.estimate.memory.peak() as f64) } else { 0.0 };
    if time.max(memory) <= SHARE {
        return None;
    }
    places.sort_by(|left, right| right.1.total_cmp(&left.1));
    let of_memory = if memory > SHARE { format!(" and {} of the memory", say::percent(memory)) } else { String::new() };
    let message = format!(
        "{} of the time{of_memory} goes into attention between all pairs of {queries} tokens: twice the length costs \
         four times as much",
        say::percent(time)
    );
    let mut diagnostic =
        Diagnostic::new(Code::QuadraticAttention, message).maybe_help(joined([fused(cx), doubled(cx)]));
    diagnostic.places = places.into_iter().map(|(place, _)| place).collect();
    Some(diagnostic)
}

/// Sizes of scores that are long: of a softmax whose result a product reads.
fn pairs(cx: &LintCx<'_>, sizes: &Sizes<'_>) -> Vec<Pair> {
    let nodes = || (0..cx.analysis.layers.len()).filter_map(|index| cx.node(index));
    let output = |node: &Node| node.outputs.first().copied().flatten();
    let mut pairs: Vec<Pair> = nodes()
        .filter(|node| &*node.op == "Softmax")
        .filter_map(|node| pair_of(sizes, output(node)?))
        .filter(|pair| pair.0 >= LENGTH && pair.1 >= LENGTH)
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    // Probabilities of words over a long text are a softmax too, but no product reads them.
    let read = |pair: &Pair| {
        let reads = |node: &Node| node.inputs.first().copied().flatten().and_then(|tensor| pair_of(sizes, tensor));
        nodes().any(|node| matches!(&*node.op, "MatMul" | "Einsum") && reads(node) == Some(*pair))
    };
    pairs.retain(read);
    pairs.extend(nodes().filter(|node| is_fused(node, sizes)).filter_map(|node| {
        let rows = sizes.get(output(node)?)?.dim_from_end(1)?;
        Some((rows, rows))
    }));
    pairs
}

/// The last two dims of a tensor of three or more.
fn pair_of(sizes: &Sizes<'_>, tensor: TensorId) -> Option<Pair> {
    let sized = sizes.get(tensor).filter(|sized| sized.dims.len() >= 3)?;
    Some((sized.dim_from_end(1)?, sized.dim_from_end(0)?))
}

fn is_of(sizes: &Sizes<'_>, tensor: TensorId, pairs: &[Pair]) -> bool {
    pair_of(sizes, tensor).is_some_and(|pair| pairs.contains(&pair))
}

/// Whether a node is an attention over long sequences, as one operator.
fn is_fused(node: &Node, sizes: &Sizes<'_>) -> bool {
    let fused =
        matches!(&*node.op, "Attention" | "com.microsoft.MultiHeadAttention" | "com.microsoft.GroupQueryAttention");
    let output = node.outputs.first().copied().flatten().and_then(|tensor| sizes.get(tensor));
    fused && output.and_then(|sized| sized.dim_from_end(1)).is_some_and(|rows| rows >= LENGTH)
}

/// What one kernel instead of three changes.
fn fused(cx: &LintCx<'_>) -> Option<String> {
    if cx.target.attention == Attention::Fused {
        return None;
    }
    let estimate = cx.what_if(|target| target.attention = Attention::Fused)?;
    let (step, now) = (step_ms(&estimate), step_ms(cx.estimate));
    let (after, before) = (estimate.memory.peak(), cx.estimate.memory.peak());
    if step > 0.95 * now && after as f64 > 0.95 * before as f64 {
        return None;
    }
    let memory = if after == before { String::new() } else { format!(" and {}", say::bytes(after)) };
    Some(format!(
        "--attention fused is predicted to take {} a {} ({}){memory}",
        say::ms(step),
        cx.run(),
        say::times(now / step)
    ))
}

/// What twice the length takes, where it is a free dim.
fn doubled(cx: &LintCx<'_>) -> Option<String> {
    let batch = cx.analysis.bound.batch.as_deref();
    let long = |(name, value): &(&String, &i128)| **value >= i128::from(LENGTH) && Some(name.as_str()) != batch;
    let mut free = cx.values.iter().filter(long);
    let (name, value) = free.next()?;
    // Of several lengths nobody knows which belong together.
    if free.next().is_some() {
        return None;
    }
    let longer = value.checked_mul(2)?;
    let estimate = cx.at_dim(name, longer)?;
    let now = step_ms(cx.estimate);
    Some(format!(
        "--dim {name}={longer} is predicted to take {} a {} instead of {}",
        say::ms(step_ms(&estimate)),
        cx.run(),
        say::ms(now)
    ))
}
