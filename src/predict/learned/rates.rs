//! What a device is taken to reach: by its data sheet, or by the two figures that a minute on the card gives.

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

/// Share of the peak at the sustained clock that large matrix products reach on ordinary units.
const PLAIN_SHARE: f64 = 0.95;

/// The same on tensor cores.
const TENSOR_SHARE: f64 = 0.85;

/// Share of the data sheet's bandwidth that large copies reach.
const COPY_SHARE: f64 = 0.85;

/// Rates of a device for kernels of one precision.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Matrix products, FLOP a ms.
    pub product: f64,
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
}

impl Rates {
    /// The rates of a device.
    #[must_use]
    pub fn of(device: &Device, precision: Precision, anchors: Anchors) -> Self {
        let seen = |rate: Option<f64>| rate.filter(|_| anchors == Anchors::Use);
        let product = seen(device.reached.products.of(precision)).unwrap_or_else(|| product_tflops(device, precision));
        let clock = device.board.sustained_share();
        let memory = seen(device.reached.copy_gb_s).unwrap_or(device.memory.gb_s * COPY_SHARE);
        let sms = f64::from(device.board.sms.max(1));
        // 64 bytes a clock and multiprocessor, a third of it for all of them at once.
        let local = 64.0 * device.board.boost_mhz.max(1.0) * clock * 1e3;
        let plain = device.plain_tflops(Precision::Fp32).max(device.plain_tflops(precision));
        Self {
            product: product.max(1e-3) * 1e9,
            plain: plain.max(1e-3) * clock * 1e9,
            memory: memory.max(1e-3) * 1e6,
            cache: (0.36 * local * sms).max(memory * 1e6),
            cache_bytes: (device.memory.l2_mib * 1_048_576.0).max(1.0),
            sms,
            local,
        }
    }
}

/// A device whose reached rates are those of its data sheet times factors.
#[must_use]
pub fn scaled(device: &Device, product: f64, copy: f64) -> Device {
    let mut scaled = device.clone();
    for precision in Precision::ALL {
        let rates = Rates::of(device, precision, Anchors::Ignore);
        scaled.reached.products.set(precision, rates.product / 1e9 * product);
        scaled.reached.copy_gb_s = Some(rates.memory / 1e6 * copy);
    }
    scaled
}

/// What large products reach by the data sheet, TFLOPS; what has no units of its own is computed in fp32.
fn product_tflops(device: &Device, precision: Precision) -> f64 {
    let own = device.matrix_tflops(precision);
    let tensor = device.tensor.of(precision).is_some();
    let share = if tensor { TENSOR_SHARE } else { PLAIN_SHARE };
    let plain =
        if precision == Precision::Fp64 { 0.0 } else { device.plain_tflops(Precision::Fp32) * 0.95 * PLAIN_SHARE };
    (own * share).max(plain) * device.board.sustained_share()
}
