//! What a device is taken to reach: by its data sheet, or by the two figures that a minute on the card gives.

use super::element_bytes;
use crate::device::{Device, Precision};

/// Whether what was seen on a card may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Anchors {
    /// Where the device has them.
    #[default]
    Use,
    /// Never: the card is one that nobody had in hand.
    Ignore,
}

/// Share of the peak at the sustained clock that large matrix products reach on ordinary units, and on tensor cores.
const SHARES: [f64; 2] = [0.97, 0.92];

/// Share of the tensor cores' peak in 8 bits.
const SHARE_OF_8_BITS: f64 = 0.78;

/// Share of the ordinary units that products keep busy. Kepler's schedulers issue for two thirds of its lanes.
fn busy_share(architecture: &str) -> f64 {
    if architecture == "kepler" { 0.6 } else { 1.0 }
}

/// Share of the data sheet's bandwidth that large copies reach, as BabelStream and its like find it. Later boards that keep
/// their checksums in the memory itself, and so show less of it, read them beside the data.
fn copy_share(device: &Device) -> f64 {
    match &*device.board.architecture {
        "kepler" => 0.72,
        "maxwell" => 0.8,
        "pascal" => 0.76,
        "volta" => 0.92,
        _ if device.memory.visible_gib < 0.96 * device.memory.gib => 0.78,
        _ => 0.85,
    }
}

/// What ordinary units draw under long products in fp32, W for each TFLOPS: power over peak of a card of the generation that
/// holds its boost clock. `None` where no limit is known to bind.
fn watts_each(architecture: &str) -> Option<f64> {
    match architecture {
        "pascal" => Some(20.3),
        "volta" => Some(16.8),
        "turing" => Some(21.3),
        "ampere" => Some(9.8),
        "ada" => Some(7.1),
        "hopper" => Some(6.9),
        _ => None,
    }
}

/// The clock that fixed times are given at, MHz.
const CLOCK_MHZ: f64 = 2_000.0;

/// Rates of a device for kernels of one precision.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Matrix products, FLOP a ms.
    pub product: f64,
    /// The same in the long run, under the board's power limit.
    pub lasting: f64,
    /// Whether tensor or matrix cores compute them.
    pub tensor: bool,
    /// Arithmetic on ordinary units, FLOP a ms.
    pub plain: f64,
    /// Memory, bytes a ms.
    pub memory: f64,
    /// Last-level cache, bytes a ms.
    pub cache: f64,
    /// Its size in bytes.
    pub cache_bytes: f64,
    /// Multiprocessors.
    pub sms: f64,
    /// Bytes that a multiprocessor takes from its cache, a ms.
    pub local: f64,
    /// How long a clock lasts, over one at 2 GHz: what starting, waiting and ending take is so many clocks. Short kernels
    /// run at the boost clock.
    pub clock: f64,
}

impl Rates {
    /// The rates of a device.
    #[must_use]
    pub fn of(device: &Device, precision: Precision, anchors: Anchors) -> Self {
        let seen = |rate: Option<f64>| rate.filter(|_| anchors == Anchors::Use);
        let product = seen(device.reached.products.of(precision)).unwrap_or_else(|| product_tflops(device, precision));
        let tensor = element_bytes(precision) < 4.0 || precision == Precision::Tf32;
        let tensor = tensor && device.tensor.of(precision).is_some();
        let watts = watts_each(&device.board.architecture).filter(|_| precision == Precision::Fp32);
        let lasting = watts.map_or(product, |watts| product.min(device.board.power_w / watts));
        let clock = device.board.sustained_share();
        let memory = seen(device.reached.copy_gb_s).unwrap_or(device.memory.gb_s * copy_share(device));
        let sms = f64::from(device.board.sms.max(1));
        // 64 bytes a clock and multiprocessor, a third of it for all of them at once.
        let local = 64.0 * device.board.boost_mhz.max(1.0) * clock * 1e3;
        let plain = device.plain_tflops(Precision::Fp32).max(device.plain_tflops(precision));
        Self {
            product: product.max(1e-3) * 1e9,
            lasting: lasting.max(1e-3) * 1e9,
            tensor,
            plain: plain.max(1e-3) * clock * 1e9,
            memory: memory.max(1e-3) * 1e6,
            cache: (0.36 * local * sms).max(memory * 1e6),
            cache_bytes: (device.memory.l2_mib * 1_048_576.0).max(1.0),
            sms,
            local,
            clock: CLOCK_MHZ / device.board.boost_mhz.max(1.0),
        }
    }
}

/// Bytes that a multiprocessor asks memory for in a clock.
const REQUESTED: f64 = 16.0;

impl Rates {
    /// The rates of convolutions and of what frameworks put around them. They do not ask memory for all that it could give:
    /// few multiprocessors ask for less. Networks show no power limit in them.
    #[must_use]
    pub fn of_convolutions(&self) -> Self {
        let asked = self.local / 64.0 * REQUESTED * self.sms;
        Self { memory: 1.0 / (1.0 / self.memory + 1.0 / asked), lasting: self.product, ..*self }
    }
}

/// What large products reach by the data sheet, TFLOPS; what has no units of its own is computed in fp32.
fn product_tflops(device: &Device, precision: Precision) -> f64 {
    let own = device.matrix_tflops(precision);
    let ordinary = SHARES[0] * busy_share(&device.board.architecture);
    let share = match precision {
        Precision::Fp32 | Precision::Fp64 => ordinary,
        _ if device.tensor.of(precision).is_none() => ordinary,
        Precision::Fp8 | Precision::Int8 => SHARE_OF_8_BITS,
        _ => SHARES[1],
    };
    let plain = if precision == Precision::Fp64 { 0.0 } else { device.plain_tflops(Precision::Fp32) * ordinary };
    (own * share).max(plain) * device.board.sustained_share()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::find;

    fn rates(id: &str, precision: Precision) -> Rates {
        Rates::of(find(id).unwrap().device, precision, Anchors::Ignore)
    }

    #[test]
    fn what_was_seen_counts_only_where_it_may() {
        let device = find("v100-sxm2-16gb").unwrap().device;
        let copies = device.reached.copy_gb_s.unwrap();
        assert!((Rates::of(device, Precision::Fp32, Anchors::Use).memory - copies * 1e6).abs() < 1.0);
        let sheet = device.memory.gb_s * 0.92;
        assert!((Rates::of(device, Precision::Fp32, Anchors::Ignore).memory - sheet * 1e6).abs() < 1.0);
    }

    #[test]
    fn small_boards_do_not_hold_their_rate() {
        let share = |id: &str, precision| rates(id, precision).lasting / rates(id, precision).product;
        assert!(share("l4", Precision::Fp32) < 0.95);
        assert!(share("t4", Precision::Fp32) < 0.7);
        assert!(share("v100-sxm2-16gb", Precision::Fp32) > 0.999);
        assert!(share("l4", Precision::Fp16) > 0.999, "tensor cores are not limited");
    }

    #[test]
    fn checksums_in_the_memory_are_read_too() {
        let share = |id: &str| rates(id, Precision::Fp32).memory / find(id).unwrap().device.memory.gb_s / 1e6;
        assert!(share("l4") < share("rtx-4090"));
        assert!((share("l4") - share("a40")).abs() < 1e-9);
    }

    #[test]
    fn few_multiprocessors_ask_for_less() {
        let share = |id: &str| {
            let rates = rates(id, Precision::Fp32);
            rates.of_convolutions().memory / rates.memory
        };
        assert!(share("k40") < share("m60") && share("m60") < 1.0);
    }
}
