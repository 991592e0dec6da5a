//! What a step takes at least on a board at its peaks, so that rows which beat them are refused: they were timed without
//! waiting for the device, or are of another network than the file.

use dlcost::analysis::Analysis;
use dlcost::device::{Device, Precision};
use dlcost::passes::lower::Schedule;
use dlcost::passes::parameters::Kind;
use dlcost::predict::floor::saved;
use dlcost::runtime::{Kernel, Pass};
use dlcost::target::Target;

/// Least times, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Least {
    pub(super) step: f64,
    pub(super) forward: f64,
}

/// Boards run above the clock of their data sheets: a GTX 1080 Ti at 1.2 times that.
const ABOVE_CLOCK: f64 = 1.25;

/// Memory is clocked as its data sheet says, up to what owners change.
const ABOVE_BANDWIDTH: f64 = 1.05;

impl Least {
    /// Products at the peak of their precision, and weights of products once through memory, whichever takes longer.
    pub(super) fn of(schedule: &Schedule, analysis: &Analysis, target: &Target) -> Self {
        let weights = weights_ms(analysis, target);
        let mut products = Self::default();
        let kernels = schedule.launches.iter().flat_map(|launch| schedule.kernels(launch));
        for kernel in kernels.filter(|kernel| kernel.family.is_product()) {
            let ms = product_ms(kernel, &target.device);
            products.step += ms;
            products.forward += if kernel.pass == Pass::Forward { ms } else { 0.0 };
        }
        Self { step: products.step.max(weights), forward: products.forward.max(weights) }
    }
}

fn product_ms(kernel: &Kernel, device: &Device) -> f64 {
    let teraflops = peak(kernel.precision, device);
    if teraflops <= 0.0 {
        return 0.0;
    }
    kernel.flops * kernel.runs / saved(&kernel.family).unwrap_or(1.0) / (teraflops * ABOVE_CLOCK * 1e9)
}

/// The highest of the peaks that a product may be computed at: frameworks take tf32 for fp32, and libraries fp32 for fewer
/// bits where the board has slow units for them.
fn peak(precision: Precision, device: &Device) -> f64 {
    let instead = match precision {
        Precision::Fp64 => Precision::Fp64,
        Precision::Fp32 => Precision::Tf32,
        _ => Precision::Fp32,
    };
    device.matrix_tflops(precision).max(device.matrix_tflops(instead))
}

/// Weights that products read, those that stay in the cache from step to step left out.
fn weights_ms(analysis: &Analysis, target: &Target) -> f64 {
    let device = &target.device;
    let multiplies = |graph, node| {
        let layer = analysis.layers.iter().find(|layer| (layer.graph, layer.node) == (graph, node));
        layer.and_then(|layer| layer.cost.as_ref()).is_some_and(|cost| cost.macs != dlcost::ir::dim::Dim::ZERO)
    };
    let read = analysis.program.stored.iter().zip(&analysis.usages).filter(|(_, usage)| {
        usage.kind == Kind::Trainable && !usage.repeats && usage.readers.iter().any(|&(g, n)| multiplies(g, n))
    });
    #[allow(clippy::cast_precision_loss)]
    let bytes: f64 = read
        .map(|(stored, usage)| {
            let bits = stored.element().map_or(32, |element| target.precision.bits_of(element));
            usage.elements as f64 * bits as f64 / 8.0
        })
        .sum();
    let cached = device.memory.l2_mib * 1_048_576.0;
    (bytes - cached).max(0.0) / (device.memory.gb_s * ABOVE_BANDWIDTH * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_may_be_computed_in_tf32_or_fp32_instead_and_no_faster() {
        let device = |id: &str| dlcost::device::find(id).unwrap().device;
        assert!(peak(Precision::Fp32, device("a100")) > 100.0);
        assert!(peak(Precision::Fp32, device("v100")) < 20.0);
        assert!(peak(Precision::Fp16, device("v100")) > 100.0);
        // A Pascal card has fp16 units at a 64th of the rate, which no library takes.
        assert!(peak(Precision::Fp16, device("gtx-1080-ti")) > 10.0);
    }
}
