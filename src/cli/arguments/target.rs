//! Arguments that say what a model runs on.

use std::path::Path;
use std::sync::Arc;

use crate::device::Interconnect;
use crate::options::target::{self as values, GpuName};
use crate::predict::learned::predictors::Predictors;
use crate::runtime::{Attention, Runtime, Version};
use crate::target::{Compute, Optimizer, Recompute, Request, Strategy, Zero};

/// What the model runs on.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Target")]
pub(in crate::cli) struct TargetArguments {
    /// Devices by id or short name (v100,t4), or a file of devices (card.toml); each is reported (repeatable). Cards joined
    /// by plus, as in 2*rtx-3090+rtx-3060, are the replicas of one run
    /// [default: a100-sxm4-40gb]
    #[arg(long = "gpu", value_name = "ID", value_delimiter = ',', value_parser = gpu)]
    pub(super) gpus: Vec<GpuName>,

    /// Samples of a step over all replicas, instead of --batch
    #[arg(long, value_name = "N", value_parser = crate::options::batch, allow_negative_numbers = true)]
    global_batch: Option<u64>,

    /// Micro-batches of --batch samples that a step of a replica sums up gradients over, with one exchange and one update
    /// [default: 1]
    #[arg(long, value_name = "K", value_parser = values::accumulate, allow_negative_numbers = true)]
    accumulate: Option<u32>,

    /// Compute precision: fp32, tf32, fp16, bf16, amp, fp8 or int8 [default: what the file holds; tf32 where the runtime
    /// takes it]
    #[arg(long, value_name = "PRECISION", value_parser = values::precision)]
    precision: Option<Compute>,

    /// Optimizer: none, sgd, momentum, adam, adamw, rmsprop, adagrad, adadelta, lamb or lion [default: sgd]
    #[arg(long, value_name = "NAME", value_parser = values::optimizer)]
    optimizer: Option<Optimizer>,

    /// Runtime: tensorflow, pytorch, pytorch-compile, onnxruntime or tensorrt, with @VERSION as in pytorch@1.13
    /// [default: by who wrote the file]
    #[arg(long, value_name = "NAME", value_parser = values::runtime)]
    runtime: Option<(&'static Runtime, Option<Version>)>,

    /// How attention is computed: eager or fused [default: by runtime]
    #[arg(long, value_name = "HOW", value_parser = values::attention)]
    attention: Option<Attention>,

    /// Devices that work on it, each with a copy of the model [default: 1, or the cards of --gpu]
    #[arg(long, value_name = "N", value_parser = values::replicas, allow_negative_numbers = true)]
    replicas: Option<u32>,

    /// Hosts that the replicas are spread over [default: 1]
    #[arg(long, value_name = "N", value_parser = values::replicas, allow_negative_numbers = true)]
    hosts: Option<u32>,

    /// How replicas train together: mirrored, ddp, central-storage or parameter-server [default: by runtime]
    #[arg(long, value_name = "NAME", value_parser = values::strategy)]
    strategy: Option<Strategy>,

    /// Stage of ZeRO, with --strategy ddp: what is sharded over the replicas, 1 state of the optimizer, 2 gradients too,
    /// 3 parameters too [default: 0]
    #[arg(long, value_name = "STAGE", value_parser = values::zero, allow_negative_numbers = true)]
    zero: Option<Zero>,

    /// What joins the devices of a host, or hosts, as in nvlink3, pcie4 or infiniband-hdr [default: by board]
    #[arg(long, value_name = "ID", value_parser = values::interconnect)]
    interconnect: Option<&'static Interconnect>,

    /// Activations that are computed again in the backward pass instead of being kept: none, sqrt or all [default: none]
    #[arg(long, value_name = "WHICH", value_parser = values::recompute)]
    recompute: Option<Recompute>,

    /// Samples of an epoch: the report then holds hours, energy and money
    #[arg(long, value_name = "N", value_parser = values::samples, allow_negative_numbers = true)]
    samples: Option<u64>,

    /// Epochs, with --samples [default: 1]
    #[arg(long, value_name = "N", value_parser = values::epochs, allow_negative_numbers = true)]
    epochs: Option<u64>,

    /// US dollars for an hour of one device, with --samples [default: a list price where one is known]
    #[arg(long, value_name = "USD", value_parser = values::amount, allow_negative_numbers = true)]
    price: Option<f64>,

    /// Milliseconds that the input of a batch takes to load
    #[arg(long, value_name = "MS", value_parser = values::amount, allow_negative_numbers = true)]
    input_ms: Option<f64>,

    /// Samples a second that the input can deliver, to all replicas together
    #[arg(long, value_name = "X", value_parser = values::rate, allow_negative_numbers = true)]
    input_samples_per_s: Option<f64>,

    /// Folder of predictors (*.bin) that price kernels instead of those that are built in
    #[arg(long, value_name = "DIR", value_parser = predictors)]
    predictors: Option<Arc<Predictors>>,
}

impl TargetArguments {
    /// The same as a request, but for the devices, which are looked up later.
    pub(super) fn request(&self) -> Request {
        Request {
            gpus: Vec::new(),
            global_batch: self.global_batch,
            accumulate: self.accumulate,
            precision: self.precision,
            optimizer: self.optimizer,
            runtime: self.runtime,
            attention: self.attention,
            replicas: self.replicas,
            hosts: self.hosts,
            strategy: self.strategy,
            zero: self.zero,
            interconnect: self.interconnect,
            recompute: self.recompute,
            samples: self.samples,
            epochs: self.epochs,
            price: self.price,
            input_ms: self.input_ms,
            input_samples_per_s: self.input_samples_per_s,
            predictors: self.predictors.clone(),
        }
    }
}

fn gpu(text: &str) -> Result<GpuName, String> {
    values::gpu(text, Path::new(""))
}

fn predictors(text: &str) -> Result<Arc<Predictors>, String> {
    values::predictors(text, Path::new(""))
}
