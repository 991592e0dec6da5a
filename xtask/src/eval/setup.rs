//! What the columns of a table say about the software, in the words of `dlcost check`.

use dlcost::engine::Mode;
use dlcost::runtime::{Attention, Runtime, Version};
use dlcost::target::{Compute, Optimizer, Strategy};

use super::row::{Part, Row};

/// How the sources write the ways in which replicas work together.
const STRATEGIES: &[(&str, Strategy)] = &[
    ("ddp", Strategy::Ddp),
    ("megatron-dp", Strategy::Ddp),
    ("mirrored", Strategy::Mirrored),
    // tf_cnn_benchmarks: variables on every device, gradients summed before each update.
    ("replicated", Strategy::Mirrored),
    ("replicated nccl", Strategy::Mirrored),
    ("replicated+nccl", Strategy::Mirrored),
    ("parameter_server", Strategy::ParameterServer),
    ("parameter_server/cpu", Strategy::ParameterServer),
    ("parameter_server/gpu", Strategy::ParameterServer),
];

/// Runtime and version. The word and the number at the start of `framework` are the version's: what follows are the
/// versions of CUDA and containers. `1.0-1.2` is 1.0, `2.x` is 2.0. XLA is not described: it counts as plain TensorFlow.
pub(super) fn runtime(row: &Row) -> Result<(&'static str, Option<Version>), String> {
    let runtime = Runtime::find(&row.runtime).ok_or_else(|| format!("runtime not described: {}", row.runtime))?;
    Ok((runtime.name, version(&row.framework)))
}

fn version(framework: &str) -> Option<Version> {
    let number = framework.split_whitespace().nth(1)?;
    let mut parts = number.split(|c: char| !c.is_ascii_alphanumeric());
    let major = parts.next()?.parse().ok()?;
    match parts.next()? {
        "x" => Some((major, 0)),
        minor => Some((major, minor.parse().ok()?)),
    }
}

/// How attention was computed, where the source set it.
pub(super) fn attention(row: &Row) -> Option<&'static str> {
    match row.source.as_str() {
        // Its script builds every network with the eager implementation, also those that it compiles.
        "neusight" => Some(Attention::Eager.name()),
        "hf-sdpa-docs" if row.notes.starts_with("attention eager") => Some(Attention::Eager.name()),
        "hf-sdpa-docs" => Some(Attention::Fused.name()),
        _ => None,
    }
}

/// Precision by its name.
pub(super) fn precision(row: &Row) -> Result<&'static str, String> {
    let found = Compute::ALL.into_iter().find(|(name, _)| *name == row.precision);
    found.map(|(name, _)| name).ok_or_else(|| format!("precision not described: {}", row.precision))
}

/// Optimizer. Where nothing was updated it is none; where the source does not say, what its script takes.
pub(super) fn optimizer(row: &Row) -> Result<Option<&'static str>, String> {
    if row.mode == Mode::Infer || row.part != Part::Step {
        return Ok(Some(Optimizer::None.name()));
    }
    let name = match (&row.optimizer, row.source.as_str()) {
        (Some(name), _) => name.as_str(),
        // timm's train.py: `sgd` with momentum 0.9.
        (None, "gpumemnet-faketensor") => "momentum",
        (None, _) => return Ok(None),
    };
    let found = Optimizer::ALL.into_iter().find(|(known, _)| *known == name);
    found.map(|(name, _)| Some(name)).ok_or_else(|| format!("optimizer not described: {name}"))
}

/// How replicas work together; none on one device.
pub(super) fn strategy(row: &Row) -> Result<Option<&'static str>, String> {
    let Some(name) = row.strategy.as_deref().filter(|_| row.replicas > 1) else { return Ok(None) };
    let found = STRATEGIES.iter().find(|(known, _)| *known == name);
    found.map(|(_, strategy)| Some(strategy.name())).ok_or_else(|| format!("strategy not described: {name}"))
}

/// Milliseconds that a source counts beside the step itself.
pub(super) fn added_ms(row: &Row) -> f64 {
    // The images lie in pageable memory of the host and are copied inside the timed region. 6 GB/s is what such a
    // copy over the third generation of PCIe reaches (NVIDIA's bandwidthTest gives 3 to 9).
    const PAGEABLE_BYTES_PER_MS: f64 = 6e6;
    match (row.source.as_str(), row.image()) {
        ("ryujaehun", Some(image)) => {
            let bytes = if row.precision == "fp16" { 2 } else { 4 };
            let all = image.iter().product::<u64>() * row.batch * u64::from(row.replicas) * bytes;
            u32::try_from(all).map_or(0.0, |all| f64::from(all) / PAGEABLE_BYTES_PER_MS)
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    #[test]
    fn the_version_is_the_frameworks_and_not_that_of_what_it_runs_on() {
        assert_eq!(version("pytorch 1.10 cuda 11.3 (timm)"), Some((1, 10)));
        assert_eq!(version("pytorch 1.0-1.2 (2019)"), Some((1, 0)));
        assert_eq!(version("tensorflow 1.15.4 cuda 11.1.74"), Some((1, 15)));
        assert_eq!(version("pytorch 2.x (timm train script)"), Some((2, 0)));
        assert_eq!(version("pytorch, NGC container 24.10"), None);
        assert_eq!(version("pytorch (superbench v0.2.1)"), None);
    }

    #[test]
    fn a_runtime_that_is_not_described_is_refused_by_name() {
        assert_eq!(runtime(&row(&[])), Ok(("pytorch", Some((2, 1)))));
        let mxnet = row(&[("runtime", "mxnet"), ("framework", "mxnet 1.2.0.rc1 cudnn 7.0.5")]);
        assert_eq!(runtime(&mxnet).unwrap_err(), "runtime not described: mxnet");
    }

    #[test]
    fn nothing_is_updated_where_only_gradients_were_timed() {
        let gradients = row(&[("mode", "train"), ("part", "forward_backward"), ("optimizer", "sgd")]);
        assert_eq!(optimizer(&gradients), Ok(Some("none")));
        assert_eq!(optimizer(&row(&[("mode", "train"), ("optimizer", "adam")])), Ok(Some("adam")));
        assert_eq!(optimizer(&row(&[("mode", "train")])), Ok(None));
        assert_eq!(optimizer(&row(&[("mode", "train"), ("source", "gpumemnet-faketensor")])), Ok(Some("momentum")));
    }

    #[test]
    fn replicas_need_a_strategy_that_is_described() {
        let threads = row(&[("strategy", "data_parallel"), ("replicas", "4")]);
        assert_eq!(strategy(&threads).unwrap_err(), "strategy not described: data_parallel");
        assert_eq!(strategy(&row(&[("strategy", "data_parallel")])), Ok(None));
        assert_eq!(strategy(&row(&[("strategy", "replicated nccl"), ("replicas", "2")])), Ok(Some("mirrored")));
    }
}
