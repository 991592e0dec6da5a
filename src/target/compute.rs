//! Precisions as options name them, and what they make of weights, activations and products.

use crate::device::Precision;
use crate::ir::element_type::ElementType;

/// What numbers are computed in, as an option says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute {
    /// fp32 everywhere, TF32 off.
    Fp32,
    /// fp32 in memory, products on tensor cores with TF32.
    Tf32,
    /// fp16 everywhere.
    Fp16,
    /// bf16 everywhere.
    Bf16,
    /// Automatic mixed precision: products in 16 bits, weights in fp32.
    Amp,
    /// Products in fp8, the rest in bf16.
    Fp8,
    /// Products in int8.
    Int8,
}

impl Compute {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 7] = [
        ("fp32", Self::Fp32),
        ("tf32", Self::Tf32),
        ("fp16", Self::Fp16),
        ("bf16", Self::Bf16),
        ("amp", Self::Amp),
        ("fp8", Self::Fp8),
        ("int8", Self::Int8),
    ];

    /// `amp`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, compute)| *compute == self).map_or("fp32", |(name, _)| name)
    }

    /// Bits of a floating-point activation in memory.
    #[must_use]
    pub fn activation_bits(self) -> u64 {
        match self {
            Self::Fp32 | Self::Tf32 => 32,
            Self::Fp16 | Self::Bf16 | Self::Amp | Self::Fp8 | Self::Int8 => 16,
        }
    }

    /// Bits of an element of an activation that the file holds as this type: floating point of 16 bits and more is cut to
    /// what is computed in, all else stays.
    #[must_use]
    pub fn bits_of(self, element: ElementType) -> u64 {
        let own = u64::from(element.bits());
        if element.is_real() && own >= 16 { own.min(self.activation_bits()) } else { own }
    }

    /// Bits of a floating-point weight in memory.
    #[must_use]
    pub fn weight_bits(self) -> u64 {
        match self {
            Self::Fp32 | Self::Tf32 | Self::Amp => 32,
            Self::Fp16 | Self::Bf16 => 16,
            Self::Fp8 | Self::Int8 => 8,
        }
    }

    /// Bytes of the gradient of a weight, in memory and between replicas.
    #[must_use]
    pub fn gradient_bytes(self) -> u64 {
        if self.weight_bits() < 32 { 2 } else { 4 }
    }

    /// What products are computed in on a device: 16 bits are fp16 before Ampere and bf16 is asked for by name.
    #[must_use]
    pub fn product(self) -> Precision {
        match self {
            Self::Fp32 => Precision::Fp32,
            Self::Tf32 => Precision::Tf32,
            Self::Fp16 | Self::Amp => Precision::Fp16,
            Self::Bf16 => Precision::Bf16,
            Self::Fp8 => Precision::Fp8,
            Self::Int8 => Precision::Int8,
        }
    }

    /// What all other kernels compute in.
    #[must_use]
    pub fn other(self) -> Precision {
        match self {
            Self::Fp32 | Self::Tf32 => Precision::Fp32,
            Self::Fp16 | Self::Amp | Self::Int8 => Precision::Fp16,
            Self::Bf16 | Self::Fp8 => Precision::Bf16,
        }
    }
}
