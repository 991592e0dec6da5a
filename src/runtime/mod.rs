//! Runtimes: what a framework makes of the work items of a model. One file each says which work it fuses, in which
//! layout and precision it computes, how it updates weights, and what it costs on the host. Figures of devices are in
//! [`crate::device`], operators in [`crate::ops`].

mod kernel;
mod onnxruntime;
mod pytorch;
mod pytorch_compile;
mod tensorflow;
mod tensorrt;

pub use kernel::{Kernel, Layout, Library, Pass};

use crate::device::{Device, Precision};
use crate::target::Strategy;

/// A runtime, as data. All times hold for a host of the year 2022 without other load.
#[derive(Debug)]
pub struct Runtime {
    /// `pytorch`, as `--runtime` names it.
    pub name: &'static str,
    /// `PyTorch`.
    pub title: &'static str,
    /// What it fuses.
    pub fusion: Fusion,
    /// Whether it can train.
    pub trains: bool,
    /// How it computes attention where nothing else is said, by version.
    pub attention: fn(Option<Version>) -> Attention,
    /// Whether convolutions and other products take TF32 on devices that have it, where nothing else is said.
    pub tf32: fn(Option<Version>) -> Tf32,
    /// Layout of images by precision.
    pub layout: fn(Precision) -> Layout,
    /// Library of products and convolutions.
    pub library: Library,
    /// Whether filters are stored with channels last and turned for every convolution that wants them first.
    pub turns_filters: bool,
    /// How weights are updated.
    pub update: fn(Option<Version>) -> Update,
    /// Times that do not depend on sizes.
    pub overhead: fn(Option<Version>) -> Overhead,
    /// Memory that does not depend on the model.
    pub memory: Allocation,
    /// How replicas work together where nothing else is said.
    pub strategy: Strategy,
    /// Whether mixed precision casts at each operator, normalisations and softmax to fp32, instead of once for all.
    pub casts_by_operator: bool,
    /// How much of the backward pass an all-reduce can hide behind, 0 to 1.
    pub overlap: f64,
}

/// What a runtime fuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fusion {
    /// Batch normalisation goes into the weights of the convolution before it, in inference.
    pub folds_batch_norm: bool,
    /// A convolution or product takes the bias and the activation behind it, in inference.
    pub epilogue: bool,
    /// Chains of elementwise work, with the normalisation or reduction they end in, become one kernel.
    pub chains: bool,
    /// Transpositions, slices and expansions are views with strides; a reshape of one copies.
    pub strided_views: bool,
}

/// How attention is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// Products and softmax one after the other, scores in memory.
    Eager,
    /// One kernel, scores never in memory.
    Fused,
}

impl Attention {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 2] = [("eager", Self::Eager), ("fused", Self::Fused)];

    /// `fused`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Fused => "fused",
        }
    }
}

/// Which products take TF32 without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tf32 {
    /// Convolutions.
    pub convolutions: bool,
    /// Matrix products.
    pub products: bool,
}

/// How weights are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// One kernel for each weight and optimizer.
    PerTensor,
    /// A few kernels over lists of weights.
    Grouped,
    /// One kernel over all weights.
    Fused,
}

/// Times that do not depend on sizes, µs.
#[derive(Clone, Copy, Debug)]
pub struct Overhead {
    /// From the end of one kernel to the start of the next on the device.
    pub launch_us: f64,
    /// What the host needs for an operator forward: the device waits where its kernels are shorter.
    pub host_forward_us: f64,
    /// The same backward.
    pub host_backward_us: f64,
    /// The same for the update of one weight tensor.
    pub host_update_us: f64,
    /// What a step costs on the host beside its operators.
    pub step_us: f64,
}

/// Memory that does not depend on the model.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    /// What the process holds before the first tensor: context and code of libraries.
    pub base_mib: f64,
    /// How it rounds and keeps.
    pub allocator: Allocator,
}

/// How a runtime's allocator rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// Blocks of 512 bytes in segments of 2 MiB and more, kept when freed.
    Caching,
    /// Best fit with coalescing in one arena, kept when freed.
    BestFit,
    /// Planned before the first run.
    Planned,
}

/// Major and minor version.
pub type Version = (u32, u32);

/// All runtimes.
pub const RUNTIMES: [&Runtime; 5] = [
    &tensorflow::TENSORFLOW,
    &pytorch::PYTORCH,
    &pytorch_compile::PYTORCH_COMPILE,
    &onnxruntime::ONNXRUNTIME,
    &tensorrt::TENSORRT,
];

impl Runtime {
    /// The minor version that stands for the newest one of a major version.
    pub const NEWEST_MINOR: u32 = u32::MAX;

    /// Name and version as `--runtime` takes them: `pytorch@1.13`.
    #[must_use]
    pub fn text(&self, version: Option<Version>) -> String {
        match version {
            None => self.name.to_owned(),
            Some((major, Self::NEWEST_MINOR)) => format!("{}@{major}", self.name),
            Some((major, minor)) => format!("{}@{major}.{minor}", self.name),
        }
    }

    /// A runtime by its name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        RUNTIMES.into_iter().find(|runtime| runtime.name == name)
    }

    /// The runtime of a file that nobody chose one for, by who wrote it.
    #[must_use]
    pub fn of_producer(producer: &str) -> &'static Self {
        let producer = producer.to_lowercase();
        let named = |words: &[&str]| words.iter().any(|word| producer.contains(word));
        if named(&["tf2onnx", "tensorflow", "keras"]) {
            &tensorflow::TENSORFLOW
        } else if named(&["onnx.quantize", "onnxruntime"]) {
            &onnxruntime::ONNXRUNTIME
        } else {
            &pytorch::PYTORCH
        }
    }

    /// What convolutions (`true`) or other products take for fp32 on a device where TF32 is left to the runtime.
    #[must_use]
    pub fn fp32_becomes(&self, version: Option<Version>, device: &Device, convolution: bool) -> Precision {
        let tf32 = (self.tf32)(version);
        let wanted = if convolution { tf32.convolutions } else { tf32.products };
        if wanted && device.tensor.tf32.is_some() { Precision::Tf32 } else { Precision::Fp32 }
    }
}
