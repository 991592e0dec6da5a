//! A hash that is the same on every machine.

/// Stable 64-bit FNV-1a, so that names made from it are the same on every machine.
pub(crate) struct Fnv(pub(crate) u64);

impl Fnv {
    pub(crate) fn new(tag: &str) -> Self {
        Self(0xcbf2_9ce4_8422_2325).bytes(tag.as_bytes())
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self
    }

    pub(crate) fn word(self, word: u64) -> Self {
        self.bytes(&word.to_le_bytes())
    }

    pub(crate) fn int(self, value: i128) -> Self {
        self.bytes(&value.to_le_bytes())
    }
}
