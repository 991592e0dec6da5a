//! What samples and epochs come to: steps, hours, money, energy.

use super::{TimeMs, Totals};
use crate::device::list_price;
use crate::target::{Request, Target};

const MS_PER_HOUR: f64 = 3_600_000.0;

/// Totals of a run; `None` where no samples were given, or the model has no batch to count them by.
pub(super) fn totals(request: &Request, target: &Target, time: &TimeMs) -> Option<Totals> {
    let samples = request.samples?;
    let batch = target.global_batch().filter(|batch| *batch > 0)?;
    // The last batch of an epoch may be smaller; it takes about as long as a full one.
    let steps = samples.div_ceil(batch).saturating_mul(request.epochs.unwrap_or(1));
    let hours = steps as f64 * time.step.p50 / MS_PER_HOUR;
    let gpu_hours = hours * f64::from(target.replicas);
    let (usd_per_gpu_hour, price_source) = match request.price {
        Some(price) => (Some(price), Some("given".to_owned())),
        None => {
            let listed = list_price(&target.device.id);
            (listed.map(|price| price.usd_per_hour), listed.map(crate::device::ListPrice::origin))
        }
    };
    Some(Totals {
        steps,
        hours,
        gpu_hours,
        usd: usd_per_gpu_hour.map(|price| price * gpu_hours),
        usd_per_gpu_hour,
        price_source,
        energy_kwh: Some(gpu_hours * target.device.board.power_w / 1e3 * busy_share(time)),
    })
}

/// Share of the step in which kernels run. A board is counted at its full power then and at none in the gaps: the first
/// is too much for kernels that wait for memory, the second too little for a board that idles.
fn busy_share(time: &TimeMs) -> f64 {
    let busy = time.forward + time.backward + time.optimizer;
    if time.step.p50 > 0.0 { (busy / time.step.p50).clamp(0.0, 1.0) } else { 0.0 }
}
