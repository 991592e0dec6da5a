//! How far the times of a board are from what a model without boards says. Power limits, caches and hosts are not on data
//! sheets, but boards that are alike share them.

use crate::device::{Device, Precision};

/// Physical times that an offset is known at: from 0.01 ms on, three for each two powers of ten.
pub const TIMES: usize = 6;

/// Logarithms of measured over modelled times, by physical time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Offset(pub [f32; TIMES]);

impl Offset {
    /// Between which two times a physical time lies, ms, and how near it is to the second.
    #[must_use]
    pub fn place(base_ms: f64) -> (usize, f64) {
        let at = ((libm::log10(base_ms.max(1e-9)) + 2.0) * 1.5).clamp(0.0, (TIMES - 1) as f64);
        let low = (at as usize).min(TIMES - 2);
        (low, at - low as f64)
    }

    /// The factor at a physical time.
    #[must_use]
    pub fn factor(&self, base_ms: f64) -> f64 {
        let (low, near) = Self::place(base_ms);
        let at = |index: usize| self.0.get(index).copied().map_or(0.0, f64::from);
        libm::exp(at(low) * (1.0 - near) + at(low + 1) * near)
    }

    /// The mean of boards, those that are like a device before others.
    #[must_use]
    pub fn like<'b>(device: &Device, boards: impl Iterator<Item = (&'b Device, Self)>) -> Self {
        let (mut weights, mut sums) = (STRANGER, [0.0; TIMES]);
        for (board, offset) in boards {
            let weight = libm::exp(-NARROW * distance(device, board));
            weights += weight;
            for (sum, value) in sums.iter_mut().zip(offset.0) {
                *sum += weight * f64::from(value);
            }
        }
        Self(sums.map(|sum| (sum / weights) as f32))
    }
}

/// How fast a board counts less the less it is like the device.
const NARROW: f64 = 2.0;

/// What a board weighs that has no offset: a device that is like none has none.
const STRANGER: f64 = 0.05;

/// Generations of one maker, in order.
const GENERATIONS: [&[&str]; 2] = [
    &["kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell"],
    &["gcn5", "cdna1", "rdna2", "cdna2", "rdna3", "cdna3", "rdna4", "cdna4"],
];

/// How unlike two devices are: in generations, in arithmetic for each byte of memory, and in power.
fn distance(a: &Device, b: &Device) -> f64 {
    let generation = |device: &Device| {
        GENERATIONS
            .iter()
            .enumerate()
            .find_map(|(maker, names)| Some((maker, names.iter().position(|name| *name == device.board.architecture)?)))
    };
    let apart = match (generation(a), generation(b)) {
        (Some((maker, older)), Some((other, newer))) if maker == other => older.abs_diff(newer).min(6) as f64,
        _ => 6.0,
    };
    let doublings = |of: &dyn Fn(&Device) -> f64| (libm::log2(of(a).max(1e-3)) - libm::log2(of(b).max(1e-3))).abs();
    let balance = |device: &Device| device.plain_tflops(Precision::Fp32) * 1e3 / device.memory.gb_s.max(1.0);
    0.5 * apart + doublings(&balance) + doublings(&|device: &Device| device.board.power_w)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::find;

    #[test]
    fn a_device_takes_after_boards_that_are_like_it() {
        let device = |id: &str| find(id).unwrap().device;
        let boards =
            || [(device("t4"), Offset([0.4; TIMES])), (device("v100-sxm2-16gb"), Offset([-0.4; TIMES]))].into_iter();
        assert!(Offset::like(device("p4"), boards()).factor(1.0) > 1.1);
        assert!(Offset::like(device("p100-pcie-16gb"), boards()).factor(1.0) < 0.9);
    }

    #[test]
    fn a_device_like_none_has_no_offset() {
        let boards = std::iter::once((find("k40").unwrap().device, Offset([1.0; TIMES])));
        let factor = Offset::like(find("mi300x").unwrap().device, boards).factor(0.1);
        assert!((1.0..1.05).contains(&factor), "{factor}");
    }

    #[test]
    fn between_two_times_an_offset_changes_steadily() {
        let offset = Offset([0.0, 0.0, 0.0, 0.6, 0.6, 0.6]);
        let factors = [0.01, 0.2, 0.4, 0.9, 5.0, 1e6].map(|ms| offset.factor(ms));
        assert!(factors.is_sorted());
        assert!((factors[0] - 1.0).abs() < 1e-6 && (factors[5] - libm::exp(0.6)).abs() < 1e-6);
    }
}
