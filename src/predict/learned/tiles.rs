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

/// Rows and columns of tiles; either may lie along the rows.
const TILES: [(f64, f64); 9] = [
    (16.0, 64.0),
    (32.0, 32.0),
    (64.0, 32.0),
    (64.0, 64.0),
    (64.0, 128.0),
    (128.0, 64.0),
    (128.0, 128.0),
    (128.0, 256.0),
    (256.0, 128.0),
];

const SPLITS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

/// Steps of the inner size that a tile takes at once.
const STEP: f64 = 64.0;

/// What a tile costs beside its arithmetic, ms.
const TILE_MS: f64 = 0.5e-3;

/// What a second kernel, which adds the parts of a split, costs, ms.
const SPLIT_MS: f64 = 2e-3;

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
        let bytes = self.bytes;
        let each = rates.product / rates.sms;
        // What was read a moment ago may still lie in the cache.
        let missed = (1.0 - 0.15 * rates.cache_bytes / bytes.max(1.0)).clamp(0.0, 1.0);
        let stream = (bytes * missed / rates.memory).max(bytes / rates.cache);
        let mut best = Plan { total: f64::INFINITY, ..Plan::default() };
        for (rows, cols) in TILES {
            let reuse = rows * cols / (rows + cols);
            let share = reuse / (reuse + 24.0);
            let grid = self.batch * (self.m / rows).ceil() * (self.n / cols).ceil();
            for splits in SPLITS {
                if splits > 1.0 && (grid * splits > 4.0 * rates.sms || self.k < splits * STEP) {
                    break;
                }
                let depth = (self.k / splits / STEP).ceil() * STEP;
                let tiles = grid * splits;
                let waves = (tiles / rates.sms).ceil();
                let moved = depth * (rows + cols) * self.read;
                let arithmetic = (2.0 * rows * cols * depth / (each * share)).max(moved / rates.local);
                let compute = waves * (arithmetic + TILE_MS);
                let cache = tiles * moved / rates.cache;
                let memory = stream / (3.0 * tiles.min(rates.sms) / rates.sms).min(1.0);
                let split_cost = if splits > 1.0 {
                    SPLIT_MS + 8.0 * splits * self.batch * self.m * self.n / rates.cache
                } else {
                    0.0
                };
                let joint = libm::cbrt(compute * compute * compute + memory * memory * memory + cache * cache * cache);
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
            plain: 15e9,
            memory: 800e6,
            cache: 2_000e6,
            cache_bytes: 6e6,
            sms: 80.0,
            local: 64.0 * 1.5e6,
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
    fn few_tiles_are_split_along_the_inner_size() {
        let deep = shape(64.0, 64.0, 16_384.0);
        assert!(deep.plan(&rates()).splits > 1.0);
        assert!((square(4096.0).plan(&rates()).splits - 1.0).abs() < 1e-9);
    }
}
