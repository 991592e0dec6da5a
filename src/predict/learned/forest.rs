//! Boosted trees, flat: what training leaves and pricing walks. Features are cut into bins once, then every split is a
//! comparison of two bytes.

use std::ops::Deref;
use std::sync::OnceLock;

use super::file::trees;

/// The most leaves of a tree: its nodes are numbered in 15 bits, and features in bins of a byte leave no use for more.
pub const MOST_LEAVES: usize = 1024;

/// Trees that are walked at once.
const LANES: usize = 8;

/// A child with this bit is a leaf.
const LEAF: u16 = 0x8000;

/// One split: rows whose bin is at most `bin` go left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Which feature.
    pub feature: u8,
    /// The last bin that goes left.
    pub bin: u8,
    /// The split or leaf on the left: leaves have the highest bit set.
    pub left: u16,
    /// The same on the right.
    pub right: u16,
}

/// Trees over one list of features.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forest {
    /// Upper bounds of the bins of each feature but the last, ascending.
    pub cuts: Vec<Vec<f32>>,
    /// What is walked.
    pub trees: Held,
    /// What a leaf's number is multiplied with.
    pub unit: f32,
    /// What all leaves add to.
    pub start: f32,
}

/// Trees one behind the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trees {
    /// All splits, tree by tree, the root first.
    pub splits: Vec<Split>,
    /// All leaves, tree by tree, in units of `unit`.
    pub leaves: Vec<i16>,
    /// Splits of each tree; it has one leaf more.
    pub sizes: Vec<u16>,
}

/// Trees, or the bytes of a built-in file that they are made of when somebody walks them: of a section's models most programs
/// ask one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held {
    made: OnceLock<Trees>,
    packed: &'static [u8],
    count: usize,
}

impl Held {
    /// So many trees, still as bytes.
    #[must_use]
    pub fn packed(packed: &'static [u8], count: usize) -> Self {
        Self { made: OnceLock::new(), packed, count }
    }
}

impl From<Trees> for Held {
    fn from(trees: Trees) -> Self {
        Self { made: OnceLock::from(trees), ..Self::default() }
    }
}

impl Deref for Held {
    type Target = Trees;

    /// A test reads what is built in, so that no trees stand for bytes that are none.
    fn deref(&self) -> &Trees {
        self.made.get_or_init(|| trees(self.packed, self.count).unwrap_or_default())
    }
}

impl Split {
    /// The mark of a leaf as a child.
    #[must_use]
    pub const fn leaf(index: u16) -> u16 {
        index | LEAF
    }

    /// The leaf that a child is; `None` for a split.
    #[must_use]
    pub fn as_leaf(child: u16) -> Option<u16> {
        (child & LEAF != 0).then_some(child & !LEAF)
    }
}

impl Forest {
    /// The bin of a value: how many cuts lie below it. What is not a number lies below all.
    #[must_use]
    pub fn bin(cuts: &[f32], value: f32) -> u8 {
        u8::try_from(cuts.partition_point(|cut| *cut < value)).unwrap_or(u8::MAX)
    }

    /// The sum of the leaves that a row falls into.
    #[must_use]
    pub fn value(&self, features: &[f32]) -> f64 {
        let mut bins = [0_u8; 256];
        for ((bin, cuts), value) in bins.iter_mut().zip(&self.cuts).zip(features) {
            *bin = Self::bin(cuts, *value);
        }
        self.sum(&bins)
    }

    /// The same for a row of bins. Trees are walked several at once: each step waits for memory, and their steps do not
    /// wait for each other.
    #[must_use]
    pub fn sum(&self, bins: &[u8; 256]) -> f64 {
        let (mut splits, mut leaves, mut sum) = (&*self.trees.splits, &*self.trees.leaves, 0_i64);
        for sizes in self.trees.sizes.chunks(LANES) {
            let mut first_splits = [0_usize; LANES];
            let mut first_leaves = [0_usize; LANES];
            let mut next = [LEAF; LANES];
            let (mut all, mut deepest) = (0, 0);
            for (lane, &size) in sizes.iter().enumerate() {
                let size = usize::from(size);
                if let (Some(first_split), Some(first_leaf), Some(root)) =
                    (first_splits.get_mut(lane), first_leaves.get_mut(lane), next.get_mut(lane))
                {
                    (*first_split, *first_leaf) = (all, all + lane);
                    *root = if size == 0 { LEAF } else { 0 };
                }
                all += size;
                deepest = deepest.max(size);
            }
            // A path visits every split once at most, whatever a broken file says.
            for _ in 0..deepest {
                let mut open = LEAF;
                for (at, first) in next.iter_mut().zip(&first_splits) {
                    // A leaf stays where it is; what is read for it does not count.
                    let split = splits.get(first + usize::from(*at & !LEAF)).copied().unwrap_or_default();
                    let bin = bins.get(usize::from(split.feature)).copied().unwrap_or_default();
                    let child = if bin > split.bin { split.right } else { split.left };
                    *at = if *at & LEAF == 0 { child } else { *at };
                    open &= *at;
                }
                if open & LEAF != 0 {
                    break;
                }
            }
            for (at, first) in next.iter().zip(&first_leaves).take(sizes.len()) {
                sum += leaves.get(first + usize::from(*at & !LEAF)).map_or(0, |leaf| i64::from(*leaf));
            }
            splits = splits.get(all..).unwrap_or_default();
            leaves = leaves.get(all + sizes.len()..).unwrap_or_default();
        }
        f64::from(self.start) + f64::from(self.unit) * sum as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `x ≤ 1`: 10, else `y ≤ 5`: 20, else 30; and a tree of one leaf.
    fn forest() -> Forest {
        let trees = Trees {
            splits: vec![
                Split { feature: 0, bin: 0, left: Split::leaf(0), right: 1 },
                Split { feature: 1, bin: 0, left: Split::leaf(1), right: Split::leaf(2) },
            ],
            leaves: vec![10, 20, 30, 1],
            sizes: vec![2, 0],
        };
        Forest { cuts: vec![vec![1.0, 2.0], vec![5.0]], trees: trees.into(), unit: 0.5, start: 100.0 }
    }

    #[test]
    fn rows_fall_to_the_leaf_of_their_bins() {
        let forest = forest();
        assert!((forest.value(&[1.0, 9.0]) - 105.5).abs() < 1e-9);
        assert!((forest.value(&[1.5, 5.0]) - 110.5).abs() < 1e-9);
        assert!((forest.value(&[1.5, 5.1]) - 115.5).abs() < 1e-9);
        assert!((forest.value(&[f32::NAN, 0.0]) - 105.5).abs() < 1e-9);
    }

    #[test]
    fn more_trees_than_are_walked_at_once_add_up() {
        let one = forest();
        let repeated = |count: usize| {
            let Trees { splits, leaves, sizes } = &*one.trees;
            let trees =
                Trees { splits: splits.repeat(count), leaves: leaves.repeat(count), sizes: sizes.repeat(count) };
            Forest { trees: trees.into(), ..one.clone() }
        };
        for count in 1..=9 {
            let sum = repeated(count).value(&[1.5, 5.1]);
            assert!((sum - (100.0 + 15.5 * count as f64)).abs() < 1e-9, "{count}: {sum}");
        }
    }

    #[test]
    fn a_broken_tree_ends() {
        let whole = forest();
        let splits = vec![Split { feature: 9, bin: 0, left: 0, right: 0 }; 2];
        let forest = Forest { trees: Trees { splits, ..(*whole.trees).clone() }.into(), ..whole };
        assert!(forest.value(&[1.0, 1.0]).is_finite());
    }
}
