//! The largest batch that fits a device. Memory is nearly affine in the batch: a line through two batches says where to
//! look, and the batches around it are priced until one fits and the next does not.

use std::collections::BTreeMap;

use super::memory;
use super::plans::Plans;
use crate::target::Target;

/// Evaluations before the search ends with the largest batch that was seen to fit. Two give the line and two more the
/// answer where memory is affine; each halves what is left where it is not.
const MOST: usize = 40;

/// No batch beyond is looked at.
const LARGEST: u64 = 1 << 30;

/// The largest batch per replica whose upper end fits the device: 0 where not even one sample does; `None` where the
/// analysis has no free batch, where memory does not depend on it, or a size is not known.
#[must_use]
pub fn largest_batch(plans: &Plans<'_>, values: &BTreeMap<String, i128>, target: &Target) -> Option<u64> {
    let analysis = plans.analysis();
    let symbol = analysis.bound.batch.as_deref()?;
    if !analysis.bound.free.iter().any(|free| free.name() == symbol) {
        return None;
    }
    let capacity = target.device.memory.visible_bytes();
    let mut values = values.clone();
    let mut target = target.clone();
    let mut needed = |batch: u64| -> Option<f64> {
        values.insert(symbol.to_owned(), i128::from(batch));
        target.batch = Some(batch);
        Some(memory::estimate(plans, &values, &target)?.upper_end() as f64)
    };
    let mut fits = (1, needed(1)?);
    if fits.1 > capacity {
        return Some(0);
    }
    let mut over = (64, needed(64)?);
    for _ in 0..MOST {
        if over.1 > capacity {
            break;
        }
        let grows = over.1 - fits.1;
        let along = crossing(fits, over, capacity).saturating_add(1);
        fits = over;
        if grows <= 0.0 || fits.0 >= LARGEST {
            return None;
        }
        let next = along.clamp(fits.0 + 1, LARGEST);
        over = (next, needed(next)?);
    }
    for round in 0..MOST {
        let left = over.0.saturating_sub(fits.0);
        if left <= 1 {
            break;
        }
        // Along the line first; by halves where it leads nowhere.
        let guess = if round < 6 { crossing(fits, over, capacity) } else { fits.0 + left / 2 };
        let batch = guess.clamp(fits.0 + 1, over.0 - 1);
        let found = (batch, needed(batch)?);
        if found.1 > capacity {
            over = found;
        } else {
            fits = found;
            // The line mostly ends right below the limit.
            if over.0 > batch + 1 {
                let next = (batch + 1, needed(batch + 1)?);
                if next.1 > capacity {
                    over = next;
                } else {
                    fits = next;
                }
            }
        }
    }
    Some(fits.0)
}

/// The last batch at which a line through two of them stays below the limit.
fn crossing(low: (u64, f64), high: (u64, f64), limit: f64) -> u64 {
    let slope = (high.1 - low.1) / (high.0.saturating_sub(low.0)).max(1) as f64;
    if slope <= 0.0 {
        return LARGEST;
    }
    let batch = low.0 as f64 + (limit - low.1) / slope;
    if batch < LARGEST as f64 { batch.max(0.0) as u64 } else { LARGEST }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_the_limit() {
        // 1.76 GB and 50 MB a sample under 8 GB.
        let at = |batch: u64| (batch, 1.76e9 + 5e7 * batch as f64);
        assert_eq!(crossing(at(1), at(2), 8.0e9), 124);
        assert_eq!(crossing(at(1), (2, at(1).1), 8.0e9), LARGEST);
    }
}
