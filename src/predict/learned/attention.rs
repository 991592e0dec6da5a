//! Features of attention in one kernel: many queries at once, or one for each sample against keys that are kept.

use super::rates::Rates;
use super::row::Row;
use super::setting::Setting;
use crate::ops::work::Family;
use crate::runtime::Kernel;

/// The shortest attention, ms at 2 GHz: of many queries, and of one for each sample.
const SHORTEST_MS: [f64; 2] = [13e-3, 9.5e-3];

/// What a block of 64 keys takes beside its arithmetic, ms at 2 GHz: one comes after the other.
const BLOCK_MS: [f64; 2] = [0.3e-3, 0.6e-3];

/// What a second kernel, which joins the parts of keys, costs, ms at 2 GHz.
const SPLIT_MS: f64 = 0.5e-3;

/// Share of what large products reach that attention does, and of what large copies reach.
const SHARES: [f64; 2] = [0.75, 0.7];

/// Parts that keys are split into where samples and heads are few.
const SPLITS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

/// Adds the features of attention; its physical time, ms. Operations and bytes of the kernel are those of the keys that
/// queries really see.
pub(super) fn describe(row: &mut Row, kernel: &Kernel, rates: &Rates, setting: Setting) -> Option<f64> {
    let Family::Attention { batch, heads, kv_heads, queries, keys, head_dim, causal } = kernel.family else {
        return None;
    };
    let sizes = [batch, heads, kv_heads, queries, keys, head_dim].map(|size| size.max(1) as f64);
    let [batch, heads, kv_heads, queries, keys, head_dim] = sizes;
    let group = (heads / kv_heads).max(1.0);
    let decode = queries < 2.0 && !causal;
    let arithmetic = kernel.flops / rates.product;
    let memory = kernel.bytes() / rates.memory;
    let [shortest, block] = [SHORTEST_MS, BLOCK_MS].map(|[many, one]| rates.clock * if decode { one } else { many });
    let (mut blocks, mut splits, mut best) = (0.0, 1.0, [f64::INFINITY, 0.0, 0.0]);
    let seen = (kernel.flops / (4.0 * batch * heads * queries * head_dim)).max(1.0);
    for candidate in SPLITS {
        if candidate > 1.0 && (!decode || seen < 64.0 * candidate) {
            break;
        }
        let grid =
            if decode { batch * kv_heads * (group / 64.0).ceil() } else { batch * heads * (queries / 128.0).ceil() };
        let all = grid * candidate;
        let waves = (all / rates.sms).ceil();
        let part = (seen / candidate).max(16.0);
        // Rows of a tile that no query fills are computed all the same.
        let rows = if decode { 16.0 } else { 128.0 };
        let each =
            4.0 * rows * part * head_dim / (rates.product / rates.sms * SHARES[0]) + (part / 64.0).ceil() * block;
        let stream = memory / SHARES[1] / (4.0 * all.min(rates.sms) / rates.sms).min(1.0);
        let join = if candidate > 1.0 { SPLIT_MS * rates.clock } else { 0.0 };
        let time = waves * each + stream + join;
        if time < best[0] {
            (best, blocks, splits) = ([time, waves * each, stream], all, candidate);
        }
    }
    let [best, tiles, stream] = best;
    let base = shortest + best;
    row.log("arithmetic/base", arithmetic / base);
    row.log("memory/base", memory / base);
    row.log("floor/base", shortest / base);
    row.log("tiles/base", tiles / base);
    row.log("stream/base", stream / base);
    row.log("intensity", arithmetic / memory.max(1e-9));
    row.log("waves", blocks / rates.sms);
    let waves = blocks / rates.sms;
    row.add("last-wave", if waves > 64.0 { 1.0 } else { waves.ceil() / waves.max(1e-9) });
    row.log("splits", splits);
    row.log("samples", batch);
    row.log("heads", heads);
    row.log("key-heads", kv_heads);
    row.log("group", group);
    row.log("queries", queries);
    row.log("keys", keys);
    row.log("seen-keys", seen);
    row.log("seen-share", seen / keys);
    row.add("head-size", head_dim);
    row.log("bytes/cache", kernel.bytes() / rates.cache_bytes);
    row.log("tokens", batch * queries);
    row.alignment("queries-multiple", queries as u64);
    row.add("queries-over-128", queries % 128.0);
    row.flag("decode", decode);
    row.add("written-by", f64::from(setting.attention as u8));
    row.flag("small-cache", setting.small_cache);
    Some(base)
}
