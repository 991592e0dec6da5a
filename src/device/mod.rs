//! GPUs: the catalogue of devices and interconnects that is built in, and files of the same form by users. Figures of
//! boards only; what a kernel takes on one is none of its business, and nothing here is learned.
//!
//! Where a figure is from is kept beside it. What was seen on a card ([`Device::reached`]) stands apart from its data
//! sheet, so that a card can be judged as if nobody had measured it.

mod catalogue;
mod form;
mod interconnect;
mod price;
mod read;
mod user;

use serde::Serialize;

pub use catalogue::{Catalogue, Found, UnknownDevice, catalogue, find};
pub use form::DeviceError;
pub use interconnect::{Interconnect, Kind, find_interconnect, interconnects};
pub use price::{ListPrice, list_price};
pub use user::load_user;

/// A GPU, or what a framework sees as one: a die of a board with two.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Device {
    /// Its id: `v100-sxm2-16gb`.
    pub id: String,
    /// Its name in full.
    pub name: String,
    /// Chip, clocks and power.
    pub board: Board,
    /// Memory and last-level cache.
    pub memory: Memory,
    /// How it reaches other devices.
    pub links: Links,
    /// Peaks on ordinary units, TFLOPS (int8: TOPS) at the boost clock.
    pub plain: Rates,
    /// The same on tensor or matrix cores, dense, with fp32 accumulation.
    pub tensor: Rates,
    /// What was seen on the card. To judge a card as unseen, leave it out.
    pub reached: Reached,
    /// Where its figures are from.
    pub sources: Sources,
    /// Figures that a user's file left out and that were assumed: whatever is predicted with them is less certain.
    pub assumed: Vec<&'static str>,
}

/// Chip, clocks and power of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Board {
    /// The chip: `GV100`. Boards with one chip are alike in more than their sheets say.
    pub chip: String,
    /// `volta`, `ampere`, `cdna3`, ...
    pub architecture: String,
    /// When it came out.
    pub year: u32,
    /// Streaming multiprocessors; compute units of AMD.
    pub sms: u32,
    /// Rated boost clock, at which peaks are given.
    pub boost_mhz: f64,
    /// Clock under long matrix products, as the power limit allows.
    pub sustained_mhz: f64,
    /// Power of the board.
    pub power_w: f64,
}

impl Board {
    /// Sustained over boost clock: peaks are given at the boost clock.
    #[must_use]
    pub fn sustained_share(&self) -> f64 {
        if self.boost_mhz > 0.0 { (self.sustained_mhz / self.boost_mhz).clamp(0.3, 1.2) } else { 1.0 }
    }
}

/// Memory of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// Size by the data sheet.
    pub gib: f64,
    /// What the driver shows, with error correction as shipped.
    pub visible_gib: f64,
    /// Bandwidth, in 10⁹ bytes a second.
    pub gb_s: f64,
    /// L2 cache; where a chip has a larger one behind it, that one.
    pub l2_mib: f64,
}

impl Memory {
    /// Bytes that the driver shows.
    #[must_use]
    pub fn visible_bytes(&self) -> f64 {
        self.visible_gib * 1_073_741_824.0
    }
}

/// How a device reaches others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Links {
    /// Id of the interconnect.
    pub interconnect: String,
    /// Links of it.
    pub count: u32,
    /// Interconnect of the bridge that can join two boards, at extra cost.
    pub bridge: Option<String>,
    /// Links of the bridge; 0 without one.
    pub bridge_count: u32,
}

/// What numbers are computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 64 bits.
    Fp64,
    /// 32 bits.
    Fp32,
    /// fp32 cut to 19 bits, on tensor cores only.
    Tf32,
    /// 16 bits.
    Fp16,
    /// 16 bits with the range of fp32.
    Bf16,
    /// 8 bits.
    Fp8,
    /// Integers of 8 bits.
    Int8,
}

impl Precision {
    /// All of them, as tables list them.
    pub const ALL: [Self; 7] = [Self::Fp64, Self::Fp32, Self::Tf32, Self::Fp16, Self::Bf16, Self::Fp8, Self::Int8];

    /// `fp16`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp64 => "fp64",
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Int8 => "int8",
        }
    }
}

/// Rates by precision, TFLOPS (int8: TOPS); none where there are no units for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Rates {
    pub fp64: Option<f64>,
    pub fp32: Option<f64>,
    pub tf32: Option<f64>,
    pub fp16: Option<f64>,
    pub bf16: Option<f64>,
    pub fp8: Option<f64>,
    pub int8: Option<f64>,
}

impl Rates {
    /// The rate of a precision.
    #[must_use]
    pub fn of(&self, precision: Precision) -> Option<f64> {
        match precision {
            Precision::Fp64 => self.fp64,
            Precision::Fp32 => self.fp32,
            Precision::Tf32 => self.tf32,
            Precision::Fp16 => self.fp16,
            Precision::Bf16 => self.bf16,
            Precision::Fp8 => self.fp8,
            Precision::Int8 => self.int8,
        }
    }

    /// Sets the rate of a precision.
    pub fn set(&mut self, precision: Precision, rate: f64) {
        *self.slot(precision) = Some(rate);
    }

    /// Whether no rate is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn slot(&mut self, precision: Precision) -> &mut Option<f64> {
        match precision {
            Precision::Fp64 => &mut self.fp64,
            Precision::Fp32 => &mut self.fp32,
            Precision::Tf32 => &mut self.tf32,
            Precision::Fp16 => &mut self.fp16,
            Precision::Bf16 => &mut self.bf16,
            Precision::Fp8 => &mut self.fp8,
            Precision::Int8 => &mut self.int8,
        }
    }
}

/// Rates that were seen on a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Reached {
    /// Copies within its memory, bytes read and written, in 10⁹ a second.
    pub copy_gb_s: Option<f64>,
    /// Matrix products, on whatever units the library takes.
    pub products: Rates,
}

/// Where a figure is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A data sheet, or a text that cites one.
    Quoted,
    /// Read off a card.
    Measured,
    /// Known by heart, or computed from what is: not seen on a sheet.
    Recalled,
    /// Given by a user.
    Given,
}

/// Where the figures of a device are from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sources {
    /// Figures that were quoted, as `memory.gb_s`.
    pub quoted: Vec<String>,
    /// Figures that were measured.
    pub measured: Vec<String>,
    /// The source of all others.
    pub others: Source,
}

impl Sources {
    /// The source of a figure, as `memory.gb_s`.
    #[must_use]
    pub fn of(&self, figure: &str) -> Source {
        let names = |list: &[String]| list.iter().any(|name| name == figure);
        if figure.starts_with("reached.") || names(&self.measured) {
            Source::Measured
        } else if names(&self.quoted) {
            Source::Quoted
        } else {
            self.others
        }
    }
}

impl Device {
    /// Peak of a precision on ordinary units, TFLOPS: what has no units of its own runs as fp32.
    #[must_use]
    pub fn plain_tflops(&self, precision: Precision) -> f64 {
        self.plain.of(precision).or(self.plain.fp32).unwrap_or_default()
    }

    /// Peak of matrix products of a precision on the best units for it, TFLOPS.
    #[must_use]
    pub fn matrix_tflops(&self, precision: Precision) -> f64 {
        let plain = self.plain_tflops(precision);
        self.tensor.of(precision).map_or(plain, |tensor| tensor.max(plain))
    }

    /// Whether AMD made it.
    #[must_use]
    pub fn is_amd(&self) -> bool {
        ["cdna", "rdna", "gcn", "vega"].iter().any(|kind| self.board.architecture.starts_with(kind))
    }

    /// Whether it has tensor or matrix cores.
    #[must_use]
    pub fn has_tensor_cores(&self) -> bool {
        !self.tensor.is_empty()
    }
}

#[cfg(test)]
mod tests;
