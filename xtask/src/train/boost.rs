//! Gradient boosting over histograms, for measurements that are sums: `time = Σ baseᵢ · exp(forestᵢ(featuresᵢ))`. A row
//! of a table is one measurement, each of its parts an instance of one of a few forests. Every round fits one tree to
//! each forest: its target is the error of the logarithm of the sum, its weight the part's share in the sum, so that what
//! matters little in a measurement learns little from it.
//!
//! No crate fits this: those in pure Rust take one prediction a row. The contest of methods has them on rows of one part.

#![allow(clippy::indexing_slicing, reason = "loops over histograms; all sizes are checked when data is built")]

use dlcost::predict::learned::file::MOST_FEATURES;
use dlcost::predict::learned::forest::{Forest, MOST_LEAVES, Split, Trees};

/// Instances of one forest, binned.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    /// Upper bounds of bins by feature.
    pub(crate) cuts: Vec<Vec<f32>>,
    /// Bins, instance by instance.
    bins: Vec<u8>,
    /// The measurement of each instance.
    pub(crate) measurement: Vec<u32>,
    /// Its physical time, ms.
    pub(crate) base: Vec<f64>,
}

/// How a forest is grown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    /// Rounds.
    pub(crate) trees: usize,
    /// Leaves of a tree.
    pub(crate) leaves: usize,
    /// Share of a leaf's fit that is taken.
    pub(crate) rate: f64,
    /// The least weight of instances in a leaf.
    pub(crate) least: f64,
    /// Weight of instances at zero that is added to each leaf.
    pub(crate) pull: f64,
    /// Share of features that a tree may look at.
    pub(crate) features: f64,
    /// Share of measurements that a tree is grown on.
    pub(crate) rows: f64,
    /// Whether it is the median of errors that is fitted instead of their mean: for tables with wild rows.
    pub(crate) median: bool,
    /// The most bins of a feature.
    pub(crate) bins: usize,
    /// Seed of what is drawn.
    pub(crate) seed: u64,
}

impl Default for Growth {
    fn default() -> Self {
        Self {
            trees: 600,
            leaves: 63,
            rate: 0.1,
            least: 10.0,
            pull: 1.0,
            features: 0.7,
            rows: 0.8,
            median: false,
            bins: MOST_BINS,
            seed: 1,
        }
    }
}

/// Bins of a feature.
const MOST_BINS: usize = 255;

impl Instances {
    /// Bins rows of features: the same number in each.
    pub(crate) fn new(features: &[f32], width: usize, measurement: Vec<u32>, base: Vec<f64>, bins: usize) -> Self {
        assert!(width <= MOST_FEATURES, "{width} features, files name {MOST_FEATURES}");
        assert_eq!(features.len(), width * measurement.len());
        assert_eq!(base.len(), measurement.len());
        let cuts: Vec<Vec<f32>> =
            (0..width).map(|feature| cuts(features, width, feature, bins.min(MOST_BINS))).collect();
        let mut bins = vec![0; features.len()];
        for (bins, values) in bins.chunks_exact_mut(width.max(1)).zip(features.chunks_exact(width.max(1))) {
            for ((bin, value), cuts) in bins.iter_mut().zip(values).zip(&cuts) {
                *bin = Forest::bin(cuts, *value);
            }
        }
        Self { cuts, bins, measurement, base }
    }

    fn width(&self) -> usize {
        self.cuts.len()
    }

    fn row(&self, instance: usize) -> &[u8] {
        let width = self.width();
        &self.bins[instance * width..(instance + 1) * width]
    }
}

/// Cuts at quantiles of the distinct values, in the middle between neighbours.
fn cuts(features: &[f32], width: usize, feature: usize, most: usize) -> Vec<f32> {
    let mut values: Vec<f32> = features.iter().skip(feature).step_by(width.max(1)).copied().collect();
    values.retain(|value| !value.is_nan());
    values.sort_unstable_by(f32::total_cmp);
    let mut distinct: Vec<(f32, usize)> = Vec::new();
    for value in values {
        match distinct.last_mut() {
            Some((last, count)) if *last == value => *count += 1,
            _ => distinct.push((value, 1)),
        }
    }
    let total: usize = distinct.iter().map(|(_, count)| count).sum();
    let mut cuts = Vec::new();
    let (mut passed, mut taken) = (0, 0.0);
    // A value that fills a bin of its own leaves fewer for the rest, which are spread evenly over what remains.
    for pair in distinct.windows(2) {
        passed += pair[0].1;
        let left = most.saturating_sub(cuts.len() + 1).max(1) as f64;
        let step = if distinct.len() <= most { 0.0 } else { (total as f64 - taken) / left };
        if cuts.len() + 1 < most && passed as f64 >= taken + step {
            cuts.push(f32::midpoint(pair[0].0, pair[1].0));
            taken = passed as f64;
        }
    }
    cuts.dedup();
    cuts
}

/// Measurements and their instances.
#[derive(Debug, Default)]
pub(crate) struct Data {
    /// Measured times, ms.
    pub(crate) times: Vec<f64>,
    /// Weights of measurements.
    pub(crate) weights: Vec<f64>,
    /// Instances of each forest.
    pub(crate) parts: Vec<Instances>,
}

/// A small generator of random numbers: the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number of 64 bits (splitmix).
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// The next number from 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Grows forests; `seen` is called after each round.
pub(crate) fn grow(data: &Data, growth: &Growth, mut seen: impl FnMut(usize)) -> Vec<Forest> {
    let count = data.times.len();
    let mut random = Random::new(growth.seed);
    let mut forests: Vec<Forest> =
        data.parts.iter().map(|part| Forest { cuts: part.cuts.clone(), unit: UNIT, ..Forest::default() }).collect();
    let mut values: Vec<Vec<f64>> = data.parts.iter().map(|part| vec![0.0; part.base.len()]).collect();
    start(data, &mut forests, &mut values);
    let mut grown = vec![Trees::default(); forests.len()];
    let mut errors = vec![0.0_f32; count];
    let mut totals = vec![0.0_f64; count];
    for round in 0..growth.trees {
        let chosen: Vec<bool> = (0..count).map(|_| random.unit() < growth.rows).collect();
        for (index, part) in data.parts.iter().enumerate() {
            // Later forests see what the earlier ones of this round did.
            sum(data, &values, &mut totals);
            for ((error, time), total) in errors.iter_mut().zip(&data.times).zip(&totals) {
                *error = libm::log(time / total) as f32;
            }
            let weights: Vec<f32> = part
                .base
                .iter()
                .zip(&values[index])
                .zip(&part.measurement)
                .map(|((base, value), measurement)| {
                    let measurement = *measurement as usize;
                    (data.weights[measurement] * base * libm::exp(*value) / totals[measurement]) as f32
                })
                .collect();
            let instances: Vec<u32> = (0..part.base.len() as u32)
                .filter(|instance| chosen[part.measurement[*instance as usize] as usize])
                .collect();
            let usable: Vec<usize> = (0..part.width()).filter(|_| random.unit() < growth.features).collect();
            let mut tree = Tree::grow(part, &errors, &weights, instances, &usable, growth);
            // The last rounds settle.
            let rate = growth.rate * if round * 10 > growth.trees * 9 { 0.5 } else { 1.0 };
            tree.scale(rate);
            for (instance, value) in values[index].iter_mut().enumerate() {
                *value += tree.value(part.row(instance));
            }
            tree.append(&mut grown[index]);
        }
        seen(round + 1);
    }
    for (forest, trees) in forests.iter_mut().zip(grown) {
        forest.trees = trees.into();
    }
    forests
}

/// Unit of leaves: a hundredth of a percent.
const UNIT: f32 = 1e-4;

/// One factor for each forest in front of all trees: the weighted mean of errors, a few times over.
fn start(data: &Data, forests: &mut [Forest], values: &mut [Vec<f64>]) {
    let mut totals = vec![0.0; data.times.len()];
    for _ in 0..8 {
        for (index, part) in data.parts.iter().enumerate() {
            sum(data, values, &mut totals);
            let (mut errors, mut weights) = (0.0, 0.0);
            for ((base, value), measurement) in part.base.iter().zip(&values[index]).zip(&part.measurement) {
                let at = *measurement as usize;
                let share = data.weights[at] * base * libm::exp(*value) / totals[at];
                errors += share * libm::log(data.times[at] / totals[at]);
                weights += share;
            }
            let step = if weights > 0.0 { errors / weights } else { 0.0 };
            forests[index].start += step as f32;
            let start = f64::from(forests[index].start);
            values[index].iter_mut().for_each(|value| *value = start);
        }
    }
}

/// Predicted times of all measurements.
fn sum(data: &Data, values: &[Vec<f64>], totals: &mut [f64]) {
    totals.iter_mut().for_each(|total| *total = 0.0);
    for (part, values) in data.parts.iter().zip(values) {
        for ((base, value), measurement) in part.base.iter().zip(values).zip(&part.measurement) {
            totals[*measurement as usize] += base * libm::exp(*value);
        }
    }
}

/// A tree while it grows.
#[derive(Debug)]
struct Tree {
    splits: Vec<Split>,
    leaves: Vec<f64>,
}

/// A leaf that may still be split.
#[derive(Debug)]
struct Open {
    instances: Vec<u32>,
    histogram: Vec<[f32; 2]>,
    /// Which split and side it hangs on; none for the root.
    parent: Option<(usize, bool)>,
    best: Option<Cut>,
    error: f64,
    weight: f64,
}

#[derive(Clone, Copy, Debug)]
struct Cut {
    feature: usize,
    bin: usize,
    gain: f64,
}

impl Tree {
    fn grow(
        part: &Instances,
        errors: &[f32],
        weights: &[f32],
        instances: Vec<u32>,
        usable: &[usize],
        growth: &Growth,
    ) -> Self {
        let target = |instance: u32| {
            let error = errors[part.measurement[instance as usize] as usize];
            if growth.median { error.signum() } else { error }
        };
        let gradients: Vec<[f32; 2]> = (0..part.base.len() as u32)
            .map(|instance| {
                let weight = weights[instance as usize];
                [weight * target(instance), weight]
            })
            .collect();
        let grower = Grower { part, gradients: &gradients, usable, growth };
        let mut open = vec![grower.open(instances, None, None)];
        let mut tree = Self { splits: Vec::new(), leaves: Vec::new() };
        let most = growth.leaves.min(MOST_LEAVES);
        while open.len() < most {
            let Some(at) = (0..open.len()).filter(|&at| open[at].best.is_some()).max_by(|&a, &b| {
                let gain = |at: usize| open[at].best.map_or(0.0, |cut| cut.gain);
                gain(a).total_cmp(&gain(b)).then(b.cmp(&a))
            }) else {
                break;
            };
            let leaf = open.swap_remove(at);
            let Some(cut) = leaf.best else { break };
            let index = tree.splits.len();
            tree.splits.push(Split { feature: cut.feature as u8, bin: cut.bin as u8, left: 0, right: 0 });
            tree.hang(leaf.parent, index as u16);
            let (left, right): (Vec<u32>, Vec<u32>) = leaf
                .instances
                .iter()
                .partition(|instance| usize::from(part.row(**instance as usize)[cut.feature]) <= cut.bin);
            let (small, large, small_is_right) =
                if left.len() <= right.len() { (left, right, false) } else { (right, left, true) };
            let small = grower.open(small, Some((index, small_is_right)), None);
            let mut rest = leaf.histogram;
            for (rest, taken) in rest.iter_mut().zip(&small.histogram) {
                rest[0] -= taken[0];
                rest[1] -= taken[1];
            }
            let large = grower.open(large, Some((index, !small_is_right)), Some(rest));
            open.push(small);
            open.push(large);
        }
        for leaf in open {
            let index = tree.leaves.len();
            let value = if growth.median {
                median(&leaf.instances, part, errors, weights)
            } else {
                leaf.error / (leaf.weight + growth.pull)
            };
            tree.leaves.push(value);
            tree.hang(leaf.parent, Split::leaf(index as u16));
        }
        tree
    }

    fn hang(&mut self, parent: Option<(usize, bool)>, child: u16) {
        if let Some((parent, is_right)) = parent {
            let split = &mut self.splits[parent];
            if is_right { split.right = child } else { split.left = child }
        }
    }

    fn scale(&mut self, rate: f64) {
        for leaf in &mut self.leaves {
            // What is kept is what the walker will read.
            let units = (*leaf * rate / f64::from(UNIT)).round().clamp(-32_000.0, 32_000.0);
            *leaf = units * f64::from(UNIT);
        }
    }

    fn value(&self, row: &[u8]) -> f64 {
        if self.splits.is_empty() {
            return self.leaves[0];
        }
        let mut next = 0_u16;
        while next & 0x8000 == 0 {
            let split = &self.splits[usize::from(next)];
            next = if row[usize::from(split.feature)] > split.bin { split.right } else { split.left };
        }
        self.leaves[usize::from(next & 0x7fff)]
    }

    fn append(self, trees: &mut Trees) {
        trees.sizes.push(self.splits.len() as u16);
        trees.splits.extend(self.splits);
        trees.leaves.extend(self.leaves.iter().map(|leaf| (leaf / f64::from(UNIT)).round() as i16));
    }
}

/// The weighted median of the errors in a leaf.
fn median(instances: &[u32], part: &Instances, errors: &[f32], weights: &[f32]) -> f64 {
    let mut pairs: Vec<(f32, f32)> = instances
        .iter()
        .map(|instance| (errors[part.measurement[*instance as usize] as usize], weights[*instance as usize]))
        .collect();
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = pairs.iter().map(|(_, weight)| f64::from(*weight)).sum::<f64>() / 2.0;
    let mut passed = 0.0;
    for (error, weight) in pairs {
        passed += f64::from(weight);
        if passed >= half {
            return f64::from(error);
        }
    }
    0.0
}

struct Grower<'a> {
    part: &'a Instances,
    gradients: &'a [[f32; 2]],
    usable: &'a [usize],
    growth: &'a Growth,
}

/// Instances from which on a histogram is shared among threads.
const SHARED_FROM: usize = 8_192;

impl Grower<'_> {
    fn open(&self, instances: Vec<u32>, parent: Option<(usize, bool)>, histogram: Option<Vec<[f32; 2]>>) -> Open {
        let histogram = histogram.unwrap_or_else(|| self.histogram(&instances));
        let (mut error, mut weight) = (0.0, 0.0);
        for instance in &instances {
            let [gradient, share] = self.gradients[*instance as usize];
            error += f64::from(gradient);
            weight += f64::from(share);
        }
        let best = self.best(&histogram, error, weight);
        Open { instances, histogram, parent, best, error, weight }
    }

    /// Sums of errors and weights by feature and bin. Halves are summed apart and then together, whatever the number of
    /// threads, so that the result is the same.
    fn histogram(&self, instances: &[u32]) -> Vec<[f32; 2]> {
        if instances.len() < SHARED_FROM {
            return self.part_of_histogram(instances);
        }
        let (front, back) = instances.split_at(instances.len() / 2);
        let (mut sum, other) = std::thread::scope(|scope| {
            let other = scope.spawn(|| self.part_of_histogram(back));
            (self.part_of_histogram(front), other.join().unwrap_or_default())
        });
        for (sum, other) in sum.iter_mut().zip(&other) {
            sum[0] += other[0];
            sum[1] += other[1];
        }
        sum
    }

    fn part_of_histogram(&self, instances: &[u32]) -> Vec<[f32; 2]> {
        let mut sums = vec![[0.0_f32; 2]; self.usable.len() * 256];
        for instance in instances {
            let [error, weight] = self.gradients[*instance as usize];
            let row = self.part.row(*instance as usize);
            for (bins, feature) in sums.chunks_exact_mut(256).zip(self.usable) {
                let slot = &mut bins[usize::from(row[*feature])];
                slot[0] += error;
                slot[1] += weight;
            }
        }
        sums
    }

    fn best(&self, histogram: &[[f32; 2]], error: f64, weight: f64) -> Option<Cut> {
        let pull = self.growth.pull;
        let score = |error: f64, weight: f64| error * error / (weight + pull);
        let all = score(error, weight);
        let mut best: Option<Cut> = None;
        for (&feature, bins) in self.usable.iter().zip(histogram.chunks_exact(256)) {
            let (mut left_error, mut left_weight) = (0.0_f64, 0.0_f64);
            for (bin, [part_error, part_weight]) in bins.iter().enumerate().take(self.part.cuts[feature].len()) {
                left_error += f64::from(*part_error);
                left_weight += f64::from(*part_weight);
                if left_weight < self.growth.least {
                    continue;
                }
                if weight - left_weight < self.growth.least {
                    break;
                }
                let gain = score(left_error, left_weight) + score(error - left_error, weight - left_weight) - all;
                if gain > best.map_or(1e-7, |cut| cut.gain) {
                    best = Some(Cut { feature, bin, gain });
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two parts in every measurement: one known by one feature, the other by another.
    #[test]
    fn parts_of_sums_are_told_apart() {
        let mut random = Random::new(3);
        let (mut first, mut second, mut times) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..4_000 {
            let [x, y] = [random.unit() as f32, random.unit() as f32];
            first.push(x);
            second.push(y);
            let true_first = if x > 0.5 { 3.0 } else { 1.0 };
            let true_second = if y > 0.3 { 0.5 } else { 2.0 };
            times.push(true_first + true_second);
        }
        let order: Vec<u32> = (0..4_000).collect();
        let part = |features: &[f32]| Instances::new(features, 1, order.clone(), vec![1.0; 4_000], MOST_BINS);
        let data = Data { weights: vec![1.0; 4_000], parts: vec![part(&first), part(&second)], times };
        let forests = grow(&data, &Growth { trees: 150, leaves: 8, features: 1.1, ..Growth::default() }, |_| ());
        let total = |x: f32, y: f32| forests[0].value(&[x]).exp() + forests[1].value(&[y]).exp();
        for (x, y, truth) in [(0.2, 0.1, 3.0), (0.8, 0.1, 5.0), (0.2, 0.9, 1.5), (0.8, 0.9, 3.5)] {
            assert!((total(x, y) / truth - 1.0).abs() < 0.02, "{x} {y}: {} instead of {truth}", total(x, y));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_forest() {
        let features: Vec<f32> = (0..20_000).map(|at| (at % 977) as f32).collect();
        let times: Vec<f64> = (0..20_000).map(|at| 1.0 + f64::from(at % 977_u32) / 100.0).collect();
        let data = Data {
            weights: vec![1.0; 20_000],
            parts: vec![Instances::new(&features, 1, (0..20_000).collect(), vec![1.0; 20_000], MOST_BINS)],
            times,
        };
        let growth = Growth { trees: 10, features: 1.1, ..Growth::default() };
        assert_eq!(grow(&data, &growth, |_| ()), grow(&data, &growth, |_| ()));
    }

    #[test]
    fn few_values_have_a_bin_each() {
        let cuts = cuts(&[1.0, 2.0, 2.0, 3.0, f32::NAN], 1, 0, MOST_BINS);
        assert_eq!(cuts, [1.5, 2.5]);
    }
}
