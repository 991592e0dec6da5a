//! What samples and epochs come to: steps, hours, money, energy.

use super::Totals;
use crate::device::{Device, ListPrice, list_price};
use crate::predict::network::Estimate;
use crate::target::{Request, Target};

const MS_PER_HOUR: f64 = 3_600_000.0;

/// Totals of a run; `None` where no samples were given, or the model has no batch to count them by.
pub(super) fn totals(request: &Request, target: &Target, estimate: &Estimate) -> Option<Totals> {
    let samples = request.samples?;
    let batch = target.global_batch().filter(|batch| *batch > 0)?;
    // The last batch of an epoch may be smaller; it takes about as long as a full one.
    let steps = samples.div_ceil(batch).saturating_mul(request.epochs.unwrap_or(1));
    let hours = steps as f64 * estimate.time.step.p50 / MS_PER_HOUR;
    let gpu_hours = hours * f64::from(target.replicas);
    let (usd_per_gpu_hour, price_source) = match request.price {
        Some(price) => (Some(price), Some("given".to_owned())),
        None => {
            let listed = listed(target);
            (listed.as_ref().map(|(usd, _)| *usd), listed.map(|(_, origin)| origin))
        }
    };
    let kinds = target.kinds();
    let watts: f64 = kinds
        .into_iter()
        .map(|(count, device)| f64::from(count) * device.board.power_w * busy_share(estimate, device))
        .sum();
    Some(Totals {
        steps,
        hours,
        gpu_hours,
        usd: usd_per_gpu_hour.map(|price| price * gpu_hours),
        usd_per_gpu_hour,
        price_source,
        energy_kwh: Some(hours * watts / 1e3),
    })
}

/// List price of an hour of one device, the mean of unequal cards, and where it is from; `None` where one has none.
fn listed(target: &Target) -> Option<(f64, String)> {
    let (mut usd, mut origins) = (0.0, Vec::new());
    for (count, device) in target.kinds() {
        let price = list_price(&device.id)?;
        usd += f64::from(count) * price.usd_per_hour;
        origins.push(ListPrice::origin(price));
    }
    Some((usd / f64::from(target.replicas), origins.join("; ")))
}

/// Share of the step in which kernels run. A board is counted at its full power then and at none in the gaps: the first
/// is too much for kernels that wait for memory, the second too little for a board that idles.
fn busy_share(estimate: &Estimate, device: &Device) -> f64 {
    let time = &estimate.time;
    let own = estimate.cards.iter().find(|card| card.device.id == device.id).map(|card| card.kernels_ms);
    let busy = own.unwrap_or(time.forward + time.backward + time.optimizer);
    if time.step.p50 > 0.0 { (busy / time.step.p50).clamp(0.0, 1.0) } else { 0.0 }
}
