//! Where gradient checkpointing cuts the forward pass: what crosses a cut is kept, the rest of a segment is computed
//! again in its backward pass.

use super::storages::{Source, Walk};
use super::timeline::Ledger;
use crate::analysis::Analysis;
use crate::target::Recompute;

/// The first step of every segment, in order; one segment where nothing is computed again.
pub(super) fn segments(walk: &Walk, analysis: &Analysis, recompute: Recompute) -> Vec<usize> {
    match recompute {
        Recompute::None => vec![0],
        Recompute::All => blocks(walk, analysis),
        Recompute::Sqrt => thinned(walk, &blocks(walk, analysis)),
    }
}

/// Blocks: the entries of the lists of modules that a network is made of, as the names of its nodes tell; of nested lists
/// those that leave the least in memory. Without such names, what lies between steps that a single tensor crosses.
fn blocks(walk: &Walk, analysis: &Analysis) -> Vec<usize> {
    let crossing = crossing(walk);
    let kept = kept(walk);
    let weight = |cuts: &Vec<usize>| {
        let borders: u64 =
            cuts.iter().filter_map(|&cut| crossing.bytes.get(cut)).fold(0, |sum, &bytes| sum.saturating_add(bytes));
        let ends = cuts.iter().skip(1).copied().chain([walk.steps.len()]);
        let work =
            cuts.iter().zip(ends).map(|(&start, end)| kept.get(start..end).unwrap_or_default().iter().sum::<u64>());
        borders.saturating_add(work.max().unwrap_or_default())
    };
    let named = (1..=3).map(|depth| named_blocks(walk, analysis, depth)).filter(|cuts| cuts.len() > 2);
    named.min_by_key(weight).unwrap_or_else(|| {
        let alone = (1..walk.steps.len()).filter(|&step| crossing.count.get(step) == Some(&1));
        std::iter::once(0).chain(alone).collect()
    })
}

/// About √n of n segments, each with about the same bytes.
fn thinned(walk: &Walk, cuts: &[usize]) -> Vec<usize> {
    let kept = kept(walk);
    let total: u64 = kept.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes));
    let wanted = (cuts.len() as f64).sqrt().round().max(1.0) as u64;
    let share = (total / wanted).max(1);
    let mut thinned = vec![0];
    let (mut sum, mut next) = (0_u64, 0);
    for &cut in cuts {
        sum = sum.saturating_add(kept.get(next..cut).unwrap_or_default().iter().sum());
        next = cut;
        if sum >= share.saturating_mul(thinned.len() as u64) {
            thinned.push(cut);
        }
    }
    thinned
}

/// Where the path of modules changes, down to so many entries of lists.
fn named_blocks(walk: &Walk, analysis: &Analysis, depth: usize) -> Vec<usize> {
    let mut cuts = vec![0];
    let mut before = None;
    for (index, step) in walk.steps.iter().enumerate() {
        let node = analysis.layers.get(step.layer).and_then(|layer| analysis.node(layer));
        let path = node.map_or("", |node| if node.scope.is_empty() { &*node.name } else { &*node.scope });
        let Some(block) = block(path, depth) else { continue };
        if before.is_some_and(|before| before != block) {
            cuts.push(index);
        }
        before = Some(block);
    }
    cuts
}

/// A path up to its so-manieth part that names an entry of a list: `blocks.3`, `layer_3`.
fn block(path: &str, depth: usize) -> Option<&str> {
    let mut found = 0;
    let mut last = None;
    let mut end = 0;
    for part in path.split('/') {
        end += part.len();
        let number = part.rsplit(['.', '_']).next().unwrap_or(part);
        if number.len() < part.len() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
            found += 1;
            last = path.get(..end);
            if found == depth {
                break;
            }
        }
        end += 1;
    }
    last
}

/// Bytes and number of the tensors that are made before each step and read by it or later.
struct Crossing {
    bytes: Vec<u64>,
    count: Vec<u64>,
}

fn crossing(walk: &Walk) -> Crossing {
    let (mut bytes, mut count) = (Ledger::new(walk.steps.len()), Ledger::new(walk.steps.len()));
    for storage in walk.storages.iter().filter(|storage| storage.source == Source::Step) {
        let (from, to) = (storage.made as usize + 1, storage.last_read as usize);
        bytes.add(from, to, storage.bytes);
        count.add(from, to, 1);
    }
    Crossing { bytes: bytes.levels().collect(), count: count.levels().collect() }
}

/// What each step is the first to keep.
fn kept(walk: &Walk) -> Vec<u64> {
    let mut kept: Vec<u64> = walk.steps.iter().map(|step| step.extra.saturating_mul(step.runs)).collect();
    for storage in walk.storages.iter().filter(|storage| storage.source == Source::Step) {
        if let Some(slot) = storage.keeper.and_then(|keeper| kept.get_mut(keeper as usize)) {
            *slot = slot.saturating_add(storage.bytes);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_entries_of_lists_of_modules() {
        assert_eq!(block("/stages/stages.0/blocks/blocks.1/conv2/conv/Conv", 1), Some("/stages/stages.0"));
        assert_eq!(
            block("/stages/stages.0/blocks/blocks.1/conv2/conv/Conv", 2),
            Some("/stages/stages.0/blocks/blocks.1")
        );
        assert_eq!(block("/stages/stages.0/blocks/blocks.1/conv2", 3), Some("/stages/stages.0/blocks/blocks.1"));
        assert_eq!(block("/encoder/encoder_layer_7/ln_1/Add", 1), Some("/encoder/encoder_layer_7"));
        assert_eq!(block("/head/fc/Gemm", 1), None);
    }
}
