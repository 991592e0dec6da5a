//! What settings come to when all places that may say something have been heard, and whether they go together.

use super::Settings;
use crate::device::Device;
use crate::engine::{CheckOptions, LevelRule, Mode};
use crate::target::{ChosenGpu, Optimizer, Recompute, Request, Strategy, Zero, choose};

impl Settings {
    /// These settings as options of the engine; `own` are devices of the configuration.
    ///
    /// # Errors
    /// Settings contradict each other, or a device is not known.
    pub fn into_options(self, levels: Vec<LevelRule>, own: &[Device]) -> Result<CheckOptions, String> {
        let mode = mode(&self)?;
        let gpus = choose(&self.gpus, own)?;
        let replicas = replicas(&self.request, &gpus, mode)?;
        let batch = batch(&self, &replicas, mode)?;
        for &replicas in &replicas {
            hosts(&self.request, replicas)?;
            if mode == Mode::Train {
                zero(&self.request, replicas)?;
            }
        }
        Ok(CheckOptions {
            mode,
            mode_is_assumed: self.mode.is_none(),
            batch,
            dims: self.dims,
            input_shapes: self.input_shapes,
            layer_shapes: self.layer_shapes,
            inputs: self.inputs,
            frozen: self.frozen.unwrap_or_default(),
            request: Request { gpus, ..self.request },
            tensors: self.tensors.unwrap_or_default(),
            features: self.features.unwrap_or_default(),
            levels,
        })
    }

    /// Refuses settings of one place, the command line or a target, that would do nothing in the whole: who wrote them
    /// there expects that they do. Defaults may hold for targets of both modes.
    ///
    /// # Errors
    /// There is one.
    pub fn refuse_idle(&self, whole: &CheckOptions) -> Result<(), String> {
        self.refuse_without_backward(whole)?;
        if whole.request.samples.is_none() {
            let idle = [("epochs", self.request.epochs.is_some()), ("price", self.request.price.is_some())];
            if let Some((name, _)) = idle.into_iter().find(|(_, given)| *given) {
                return Err(format!("{name} counts only together with samples, the samples of an epoch"));
            }
        }
        Ok(())
    }

    /// Refuses settings that only a backward pass gives a meaning.
    ///
    /// # Errors
    /// There is one, and the whole is for inference.
    pub(super) fn refuse_without_backward(&self, whole: &CheckOptions) -> Result<(), String> {
        if whole.mode == Mode::Infer {
            if let Some(optimizer) = self.request.optimizer.filter(|optimizer| *optimizer != Optimizer::None) {
                return Err(format!("optimizer {} has nothing to update: the mode is infer", optimizer.name()));
            }
            if let Some(recompute) = self.request.recompute.filter(|recompute| *recompute != Recompute::None) {
                return Err(format!(
                    "recompute {} is of the backward pass, and there is none: the mode is infer",
                    recompute.name()
                ));
            }
            if let Some(count) = self.request.accumulate.filter(|count| *count > 1) {
                return Err(format!("accumulate {count} sums up gradients, and there are none: the mode is infer"));
            }
            if let Some(zero) = self.request.zero.filter(|zero| *zero != Zero::None) {
                return Err(format!("zero {} shards what only training holds, and the mode is infer", zero.stage()));
            }
        }
        Ok(())
    }
}

/// Training, unless something else was said or the runtime cannot.
fn mode(settings: &Settings) -> Result<Mode, String> {
    let serves_only = settings.request.runtime.filter(|(runtime, _)| !runtime.trains);
    match (settings.mode, serves_only) {
        (Some(Mode::Train), Some((runtime, _))) => {
            Err(format!("runtime {} does not train; give the mode infer or another runtime", runtime.name))
        }
        (Some(mode), _) => Ok(mode),
        (None, Some(_)) => Ok(Mode::Infer),
        (None, None) => Ok(Mode::default()),
    }
}

/// How many replicas there are, with each device that has another number of them: cards that are named together say it.
fn replicas(request: &Request, gpus: &[ChosenGpu], mode: Mode) -> Result<Vec<u32>, String> {
    let given = request.replicas.unwrap_or(1).max(1);
    let mut counts = Vec::new();
    for gpu in gpus {
        let count = if gpu.cards.is_empty() { given } else { gpu.cards.count() };
        let cards = if count == 1 { "1 card".to_owned() } else { format!("{count} cards") };
        if request.replicas.is_some_and(|replicas| replicas != count) {
            return Err(format!(
                "{} is {cards}, one for each replica, and replicas is {given}; leave it out",
                gpu.id()
            ));
        }
        if mode == Mode::Infer && gpu.cards.kinds().len() > 1 {
            return Err(format!(
                "{} is {cards} that train together; in inference each works alone: give them with commas",
                gpu.id()
            ));
        }
        counts.push(count);
    }
    if counts.is_empty() {
        counts.push(given);
    }
    counts.sort_unstable();
    counts.dedup();
    Ok(counts)
}

/// Samples of a micro-batch of a replica, by either way of saying it.
fn batch(settings: &Settings, replicas: &[u32], mode: Mode) -> Result<Option<u64>, String> {
    let Some(global) = settings.request.global_batch else { return Ok(settings.batch) };
    let &[replicas] = replicas else {
        let list: Vec<String> = replicas.iter().map(u32::to_string).collect();
        let list = list.join(" and ");
        return Err(format!(
            "devices with {list} replicas share a global batch differently; give the batch of a replica"
        ));
    };
    let replicas = u64::from(replicas);
    let accumulated = settings.request.accumulate.filter(|_| mode == Mode::Train).map_or(1, u64::from).max(1);
    let parts = replicas.saturating_mul(accumulated);
    let noun = if replicas == 1 { "replica" } else { "replicas" };
    let each = if accumulated == 1 { String::new() } else { format!(" with {accumulated} micro-batches each") };
    if let Some(batch) = settings.batch {
        return if batch.checked_mul(parts) == Some(global) {
            Ok(Some(batch))
        } else {
            Err(format!(
                "batch {batch} on {replicas} {noun}{each} is {} in all and not the global batch {global}; give one of \
                 the two",
                batch.saturating_mul(parts)
            ))
        };
    }
    if global % parts == 0 {
        return Ok(Some(global / parts));
    }
    let below = global / parts * parts;
    let above = below.saturating_add(parts);
    let nearest = if below == 0 { above.to_string() } else { format!("{below} or {above}") };
    Err(format!("global batch {global} cannot be split evenly over {replicas} {noun}{each}; nearest: {nearest}"))
}

/// Stages of ZeRO are of data parallelism as PyTorch has it, and shard over several replicas.
fn zero(request: &Request, replicas: u32) -> Result<(), String> {
    let Some(zero) = request.zero.filter(|zero| *zero != Zero::None) else { return Ok(()) };
    let stage = zero.stage();
    let strategy = request.strategy.or(request.runtime.map(|(runtime, _)| runtime.strategy));
    if let Some(other) = strategy.filter(|strategy| *strategy != Strategy::Ddp) {
        return Err(format!("zero {stage} needs the strategy ddp, and it is {}", other.name()));
    }
    if replicas < 2 {
        return Err(format!("zero {stage} shards over replicas, and there is one; give replicas"));
    }
    Ok(())
}

/// Replicas are spread evenly over hosts.
fn hosts(request: &Request, replicas: u32) -> Result<(), String> {
    let hosts = request.hosts.unwrap_or(1).max(1);
    if hosts > replicas {
        return Err(format!(
            "{hosts} hosts need at least as many replicas, and there {} {replicas}",
            if replicas == 1 { "is" } else { "are" }
        ));
    }
    if !replicas.is_multiple_of(hosts) {
        return Err(format!("{replicas} replicas cannot be spread evenly over {hosts} hosts"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::target::{optimizer, recompute, runtime};

    fn options(settings: Settings) -> Result<CheckOptions, String> {
        settings.into_options(Vec::new(), &[])
    }

    fn with(request: Request) -> Settings {
        Settings { request, ..Settings::default() }
    }

    #[test]
    fn a_global_batch_is_split_over_the_replicas() {
        let over = |global, replicas| {
            let request = Request { global_batch: Some(global), replicas: Some(replicas), ..Request::default() };
            options(with(request)).map(|options| options.batch)
        };
        assert_eq!(over(64, 2), Ok(Some(32)));
        assert!(over(65, 8).unwrap_err().ends_with("nearest: 64 or 72"));
        assert!(over(3, 8).unwrap_err().ends_with("nearest: 8"));
    }

    #[test]
    fn a_global_batch_is_split_over_the_micro_batches_too() {
        let over = |global, accumulate, mode| {
            let request = Request {
                global_batch: Some(global),
                replicas: Some(2),
                accumulate: Some(accumulate),
                ..Request::default()
            };
            options(Settings { mode: Some(mode), ..with(request) }).map(|options| options.batch)
        };
        assert_eq!(over(64, 4, Mode::Train), Ok(Some(8)));
        assert_eq!(over(64, 4, Mode::Infer), Ok(Some(32)));
        let error = over(66, 4, Mode::Train).unwrap_err();
        assert!(
            error.contains("2 replicas with 4 micro-batches each") && error.ends_with("nearest: 64 or 72"),
            "{error}"
        );
    }

    #[test]
    fn sharding_needs_replicas_and_ddp() {
        let on = |zero, replicas, strategy| {
            let request = Request { zero: Some(zero), replicas, strategy, ..Request::default() };
            options(with(request)).map(|_| ())
        };
        assert_eq!(on(Zero::Gradients, Some(8), None), Ok(()));
        assert_eq!(on(Zero::None, None, Some(Strategy::Mirrored)), Ok(()));
        assert!(on(Zero::Optimizer, None, None).unwrap_err().contains("there is one"));
        assert!(on(Zero::Optimizer, Some(8), Some(Strategy::Mirrored)).unwrap_err().contains("it is mirrored"));
    }

    #[test]
    fn two_batches_have_to_agree() {
        let both = |batch, global| {
            let request = Request { global_batch: Some(global), replicas: Some(2), ..Request::default() };
            options(Settings { batch: Some(batch), request, ..Settings::default() }).map(|options| options.batch)
        };
        assert_eq!(both(32, 64), Ok(Some(32)));
        assert!(both(64, 64).unwrap_err().contains("is 128 in all"));
    }

    #[test]
    fn the_narrower_way_to_say_the_batch_wins() {
        let global = with(Request { global_batch: Some(64), ..Request::default() });
        let each = Settings { batch: Some(8), ..Settings::default() };
        assert_eq!(options(global.clone().over(&each)).unwrap().batch, Some(64));
        assert_eq!(options(each.over(&global)).unwrap().batch, Some(8));
    }

    #[test]
    fn a_runtime_that_does_not_train_is_for_inference() {
        let request = Request { runtime: runtime("tensorrt").ok(), ..Request::default() };
        let assumed = options(with(request.clone())).unwrap();
        assert!(assumed.mode == Mode::Infer && assumed.mode_is_assumed);
        let train = Settings { mode: Some(Mode::Train), request, ..Settings::default() };
        assert!(options(train).unwrap_err().contains("does not train"));
    }

    #[test]
    fn hosts_share_the_replicas_evenly() {
        let on = |replicas, hosts| options(with(Request { replicas, hosts, ..Request::default() })).is_ok();
        assert!(on(Some(8), Some(2)) && on(Some(8), None));
        assert!(!on(Some(8), Some(3)) && !on(None, Some(2)) && !on(Some(2), Some(4)));
    }

    #[test]
    fn what_would_do_nothing_is_refused() {
        let whole = |mode| options(Settings { mode: Some(mode), ..Settings::default() }).unwrap();
        let adam = with(Request { optimizer: optimizer("adam").ok(), ..Request::default() });
        let sqrt = with(Request { recompute: recompute("sqrt").ok(), ..Request::default() });
        assert!(adam.refuse_idle(&whole(Mode::Train)).is_ok() && sqrt.refuse_idle(&whole(Mode::Train)).is_ok());
        assert!(adam.refuse_idle(&whole(Mode::Infer)).is_err() && sqrt.refuse_idle(&whole(Mode::Infer)).is_err());
        let steps = with(Request { accumulate: Some(8), ..Request::default() });
        let shards = with(Request { zero: Some(Zero::Gradients), ..Request::default() });
        assert!(steps.refuse_idle(&whole(Mode::Train)).is_ok() && shards.refuse_idle(&whole(Mode::Train)).is_ok());
        assert!(steps.refuse_idle(&whole(Mode::Infer)).is_err() && shards.refuse_idle(&whole(Mode::Infer)).is_err());
        let none = with(Request { optimizer: optimizer("none").ok(), ..Request::default() });
        assert!(none.refuse_idle(&whole(Mode::Infer)).is_ok());
        let epochs = with(Request { epochs: Some(3), ..Request::default() });
        assert!(epochs.refuse_idle(&whole(Mode::Train)).unwrap_err().contains("samples"));
    }
}
