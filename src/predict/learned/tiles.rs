//! Matrix products as libraries compute them: tiles of the result, one to a multiprocessor at a time, the inner size split
//! where tiles are few. Of all tiles and splits the cheapest one counts.

use super::rates::Rates;

/// A product of two matrices, or several of one size.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Products.
    pub batch: f64,
    /// Rows of the left matrix.
    pub m: f64,
    /// Columns of the right matrix.
    pub n: f64,
    /// Inner size.
    pub k: f64,
    /// Bytes of an element that is read.
    pub read: f64,
    /// Bytes of an element that is written.
    pub written: f64,
    /// Bytes that memory moves at least.
    pub bytes: f64,
}

/// How a product is computed best, ms.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// All of it.
    pub total: f64,
    /// Arithmetic.
    pub compute: f64,
    /// Memory.
    pub memory: f64,
    /// Last-level cache.
    pub cache: f64,
    /// What splitting the inner size costs.
    pub split_cost: f64,
    /// Rounds of one tile for each multiprocessor.
    pub waves: f64,
    /// Rows of a tile.
    pub rows: f64,
    /// Columns of a tile.
    pub cols: f64,
    /// Parts of the inner size.
    pub splits: f64,
}

/// How libraries compute products on one kind of units.
#[derive(Debug)]
struct Units {
    /// Rows and columns of a tile, and the share of the device's rate that such tiles reach.
    tiles: &'static [(f64, f64, f64)],
    /// Bytes of a row that a tile takes at once along the inner size.
    step: f64,
    /// What a tile costs beside its arithmetic, ms at 2 GHz.
    tile_ms: f64,
    /// What a second kernel, which adds the parts of a split, costs, ms at 2 GHz.
    split_ms: f64,
    /// Whether arithmetic and memory overlap well: the third norm joins them, else the second.
    overlaps: bool,
    /// Bytes of operands that tiles share on their way from the last-level cache, over those that are read there.
    shared: f64,
}

/// Fused multiply-adds of single lanes.
const PLAIN: Units = Units {
    tiles: &[
        (32.0, 64.0, 0.24),
        (64.0, 32.0, 0.24),
        (32.0, 128.0, 0.38),
        (128.0, 32.0, 0.38),
        (64.0, 64.0, 0.48),
        (64.0, 128.0, 0.93),
        (128.0, 64.0, 0.93),
        (128.0, 128.0, 1.0),
        (128.0, 256.0, 0.67),
        (256.0, 128.0, 0.67),
    ],
    step: 32.0,
    tile_ms: 1.4e-3,
    split_ms: 10e-3,
    overlaps: false,
    shared: 1.0,
};

/// Matrix instructions: the larger a tile, the better it feeds them.
const TENSOR: Units = Units {
    tiles: &[
        (16.0, 64.0, 0.38),
        (32.0, 32.0, 0.445),
        (64.0, 32.0, 0.537),
        (64.0, 64.0, 0.676),
        (64.0, 128.0, 0.776),
        (128.0, 64.0, 0.776),
        (128.0, 128.0, 0.912),
        (128.0, 256.0, 1.0),
        (256.0, 128.0, 1.0),
    ],
    step: 256.0,
    tile_ms: 0.5e-3,
    split_ms: 2.5e-3,
    overlaps: true,
    shared: 2.8,
};

const SPLITS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

/// A board's power limit begins to bind in kernels of this length, ms, and binds whole in such that are so many times longer.
const LIMITED_FROM_MS: f64 = 0.5;
const LIMITED_WHOLLY: f64 = 40.0;

impl Shape {
    /// Operations.
    #[must_use]
    pub fn flops(&self) -> f64 {
        2.0 * self.batch * self.m * self.n * self.k
    }

    /// Bytes of operands and result.
    #[must_use]
    pub fn operand_bytes(&self) -> f64 {
        self.batch * ((self.m * self.k + self.k * self.n) * self.read + self.m * self.n * self.written)
    }

    /// The cheapest way to compute it.
    #[must_use]
    pub fn plan(&self, rates: &Rates) -> Plan {
        let plan = self.plan_at(rates, rates.product);
        let bound = (libm::log(plan.total / LIMITED_FROM_MS) / libm::log(LIMITED_WHOLLY)).clamp(0.0, 1.0);
        if bound > 0.0 && rates.lasting < rates.product {
            self.plan_at(rates, rates.product * libm::pow(rates.lasting / rates.product, bound))
        } else {
            plan
        }
    }

    /// The cheapest way at a rate of arithmetic.
    fn plan_at(&self, rates: &Rates, product: f64) -> Plan {
        let units = if rates.tensor { &TENSOR } else { &PLAIN };
        let bytes = self.bytes;
        let each = product / rates.sms;
        let step = units.step / self.read;
        // What was read a moment ago may still lie in the cache.
        let missed = (1.0 - 0.15 * rates.cache_bytes / bytes.max(1.0)).clamp(0.0, 1.0);
        let stream = (bytes * missed / rates.memory).max(bytes / rates.cache);
        let mut best = Plan { total: f64::INFINITY, ..Plan::default() };
        for &(rows, cols, share) in units.tiles {
            let grid = self.batch * (self.m / rows).ceil() * (self.n / cols).ceil();
            for splits in SPLITS {
                if splits > 1.0 && (grid * splits > 4.0 * rates.sms || self.k < splits * step) {
                    break;
                }
                let depth = (self.k / splits / step).ceil() * step;
                let tiles = grid * splits;
                let waves = (tiles / rates.sms).ceil();
                let moved = depth * (rows + cols) * self.read;
                let arithmetic = (2.0 * rows * cols * depth / (each * share)).max(moved / rates.local);
                let compute = waves * (arithmetic + units.tile_ms * rates.clock);
                let cache = tiles * moved / (rates.cache * units.shared);
                let memory = stream / (3.0 * tiles.min(rates.sms) / rates.sms).min(1.0);
                let split_cost = if splits > 1.0 {
                    units.split_ms * rates.clock + 8.0 * splits * self.batch * self.m * self.n / rates.cache
                } else {
                    0.0
                };
                let joint = if units.overlaps {
                    libm::cbrt(compute * compute * compute + memory * memory * memory + cache * cache * cache)
                } else {
                    libm::sqrt(compute * compute + memory * memory + cache * cache)
                };
                let total = joint + split_cost;
                if total < best.total {
                    best = Plan { total, compute, memory, cache, split_cost, waves, rows, cols, splits };
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates() -> Rates {
        Rates {
            product: 100e9,
            lasting: 100e9,
            tensor: true,
            plain: 15e9,
            memory: 800e6,
            cache: 2_000e6,
            cache_bytes: 6e6,
            sms: 80.0,
            local: 64.0 * 1.5e6,
            clock: 1.3,
        }
    }

    fn shape(m: f64, n: f64, k: f64) -> Shape {
        let shape = Shape { batch: 1.0, m, n, k, read: 2.0, written: 2.0, bytes: 0.0 };
        Shape { bytes: shape.operand_bytes(), ..shape }
    }

    fn square(size: f64) -> Shape {
        shape(size, size, size)
    }

    #[test]
    fn large_products_come_near_the_rate_and_small_ones_do_not() {
        let large = square(8192.0);
        let share = large.flops() / 100e9 / large.plan(&rates()).total;
        assert!((0.6..1.0).contains(&share), "{share}");
        let small = square(128.0);
        assert!(small.flops() / 100e9 / small.plan(&rates()).total < 0.1);
    }

    #[test]
    fn the_power_limit_slows_long_products_on_ordinary_units() {
        let plain = Rates { tensor: false, ..rates() };
        let limited = Rates { lasting: 40e9, ..plain };
        let slower = |size: f64| square(size).plan(&limited).total / square(size).plan(&plain).total;
        assert!((slower(512.0) - 1.0).abs() < 1e-9);
        assert!((1.05..2.4).contains(&slower(4096.0)));
        let longest = slower(16_384.0);
        assert!((2.0..2.6).contains(&longest), "{longest}");
    }

    #[test]
    fn fixed_parts_are_clocks() {
        let slow = Rates { clock: 2.0 * rates().clock, ..rates() };
        let ratio = |size: f64| square(size).plan(&slow).total / square(size).plan(&rates()).total;
        assert!(ratio(64.0) > 1.2);
        assert!(ratio(8192.0) < 1.1);
    }

    #[test]
    fn few_tiles_are_split_along_the_inner_size() {
        let deep = shape(64.0, 64.0, 16_384.0);
        assert!(deep.plan(&rates()).splits > 1.0);
        assert!((square(4096.0).plan(&rates()).splits - 1.0).abs() < 1e-9);
    }
}
