//! A small net: two hidden layers, rectified, Adam on squared errors, the same from the same seed.

use super::super::boost::Random;

/// Units of a hidden layer.
const HIDDEN: usize = 64;
/// Rows between two steps.
const BATCH: usize = 128;
/// The least steps in all; small tables are passed over more often.
const STEPS: usize = 4_000;
/// Passes over a table that is large enough.
const PASSES: usize = 40;
/// The first step of Adam; it falls to nothing by half a cosine.
const RATE: f32 = 3e-3;

/// A net of one output.
#[derive(Debug)]
pub(super) struct Mlp {
    layers: [Layer; 3],
    /// Mean and scale of the targets.
    target: [f32; 2],
}

/// Weights by input, and last those that are always added; with their gradients and the moments of Adam.
#[derive(Debug)]
struct Layer {
    outputs: usize,
    weights: Vec<f32>,
    gradients: Vec<f32>,
    moments: Vec<[f32; 2]>,
}

impl Layer {
    fn new(inputs: usize, outputs: usize, random: &mut Random) -> Self {
        let scale = (6.0 / inputs.max(1) as f64).sqrt();
        let mut weights: Vec<f32> =
            (0..inputs * outputs).map(|_| ((2.0 * random.unit() - 1.0) * scale) as f32).collect();
        weights.resize((inputs + 1) * outputs, 0.0);
        let count = weights.len();
        Self { outputs, weights, gradients: vec![0.0; count], moments: vec![[0.0; 2]; count] }
    }

    fn forward(&self, inputs: &[f32]) -> Vec<f32> {
        let (weights, added) = self.weights.split_at(inputs.len() * self.outputs);
        let mut outputs = added.to_vec();
        for (input, weights) in
            inputs.iter().zip(weights.chunks_exact(self.outputs)).filter(|(input, _)| **input != 0.0)
        {
            outputs.iter_mut().zip(weights).for_each(|(output, weight)| *output += input * weight);
        }
        outputs
    }

    /// Adds to gradients what errors of the outputs say of weights.
    fn collect(&mut self, inputs: &[f32], errors: &[f32]) {
        let ones = inputs.iter().chain(&[1.0]);
        for (input, gradients) in ones.zip(self.gradients.chunks_exact_mut(self.outputs)) {
            if *input != 0.0 {
                gradients.iter_mut().zip(errors).for_each(|(gradient, error)| *gradient += input * error);
            }
        }
    }

    /// What errors of the outputs mean for inputs, which were rectified.
    fn back(&self, inputs: &[f32], errors: &[f32]) -> Vec<f32> {
        let pairs = inputs.iter().zip(self.weights.chunks_exact(self.outputs));
        pairs.map(|(input, weights)| if *input > 0.0 { dot(weights, errors) } else { 0.0 }).collect()
    }

    fn step(&mut self, rate: f32, decay: [f32; 2]) {
        for ((weight, gradient), moments) in self.weights.iter_mut().zip(&mut self.gradients).zip(&mut self.moments) {
            moments[0] += 0.1 * (*gradient - moments[0]);
            moments[1] += 0.001 * (*gradient * *gradient - moments[1]);
            *weight -= rate * (moments[0] / decay[0]) / ((moments[1] / decay[1]).sqrt() + 1e-8);
            *gradient = 0.0;
        }
    }
}

impl Mlp {
    /// Fits a net to rows of as many inputs each.
    pub(super) fn fit(inputs: &[f32], width: usize, targets: &[f64], seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = targets.len();
        let mean = targets.iter().sum::<f64>() / count.max(1) as f64;
        let variance = targets.iter().map(|target| (target - mean).powi(2)).sum::<f64>() / count.max(1) as f64;
        let target = [mean as f32, variance.sqrt().max(1e-9) as f32];
        let layers = [(width, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)].map(|(i, o)| Layer::new(i, o, &mut random));
        let mut net = Self { layers, target };
        let steps = STEPS.max(PASSES * count / BATCH);
        let mut decay = [1.0_f32, 1.0];
        for step in 0..steps {
            for _ in 0..BATCH {
                let at = (random.unit() * count as f64) as usize;
                let (Some(row), Some(truth)) = (inputs.get(at * width..(at + 1) * width), targets.get(at)) else {
                    continue;
                };
                net.learn(row, (*truth as f32 - target[0]) / target[1]);
            }
            decay = [decay[0] * 0.9, decay[1] * 0.999];
            let left = libm::cos(std::f64::consts::PI * step as f64 / steps as f64) as f32;
            let rate = RATE * 0.5 * (1.0 + left);
            net.layers.iter_mut().for_each(|layer| layer.step(rate, [1.0 - decay[0], 1.0 - decay[1]]));
        }
        net
    }

    fn learn(&mut self, row: &[f32], truth: f32) {
        let [first, second, last] = &mut self.layers;
        let one = rectified(first.forward(row));
        let two = rectified(second.forward(&one));
        let error = last.forward(&two).iter().sum::<f32>() - truth;
        let errors = [error / BATCH as f32];
        let to_second = last.back(&two, &errors);
        last.collect(&two, &errors);
        let to_first = second.back(&one, &to_second);
        second.collect(&one, &to_second);
        first.collect(row, &to_first);
    }

    /// The output for a row.
    pub(super) fn value(&self, row: &[f32]) -> f64 {
        let [first, second, last] = &self.layers;
        let two = rectified(second.forward(&rectified(first.forward(row))));
        f64::from(last.forward(&two).iter().sum::<f32>() * self.target[1] + self.target[0])
    }

    /// How many weights it has.
    pub(super) fn weights(&self) -> usize {
        self.layers.iter().map(|layer| layer.weights.len()).sum()
    }
}

/// The sum of products, eight beside each other.
fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 8];
    for (left, right) in left.chunks(8).zip(right.chunks(8)) {
        sums.iter_mut().zip(left.iter().zip(right)).for_each(|(sum, (left, right))| *sum += left * right);
    }
    sums.iter().sum()
}

fn rectified(mut values: Vec<f32>) -> Vec<f32> {
    values.iter_mut().for_each(|value| *value = value.max(0.0));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_of_two_inputs_is_learned_and_the_same_seed_gives_the_same_net() {
        let mut random = Random::new(5);
        let inputs: Vec<f32> = (0..2_000).map(|_| (2.0 * random.unit() - 1.0) as f32).collect();
        let truth = |row: &[f32]| f64::from(row[0] * row[1]);
        let targets: Vec<f64> = inputs.chunks_exact(2).map(truth).collect();
        let net = Mlp::fit(&inputs, 2, &targets, 1);
        for row in [[0.5, 0.5], [-0.6, 0.7], [0.1, -0.9]] {
            assert!((net.value(&row) - truth(&row)).abs() < 0.05, "{row:?}: {}", net.value(&row));
        }
        let again = Mlp::fit(&inputs, 2, &targets, 1);
        assert_eq!(net.value(&[0.3, 0.4]).to_bits(), again.value(&[0.3, 0.4]).to_bits());
    }
}
