//! Whose kernels were measured: libraries differ in what they make of the same work, and a predictor is told which.

use crate::device::{Device, Precision};
use crate::ops::work::Family;
use crate::runtime::{Kernel, Library, Runtime};

/// A stack of software whose kernels were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stack {
    /// TensorFlow 1, cuDNN 7.
    Tensorflow1,
    /// TensorFlow 2, cuDNN 7.
    Tensorflow2,
    /// PyTorch 1, in a network.
    Pytorch1,
    /// PyTorch 2, one operator at a time.
    Pytorch2,
    /// PyTorch 2 in a block of a transformer that serves.
    Sarathi,
    /// Megatron's modules on PyTorch.
    Megatron,
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM.
    TensorRtLlm,
    /// TensorRT.
    TensorRt,
    /// cuDNN and cuBLAS 5 to 7, called directly.
    Cudnn,
    /// MIOpen and rocBLAS, called directly; the fastest kernel that a search found.
    Miopen,
    /// NCCL or RCCL.
    Nccl,
}

impl Stack {
    /// The stacks whose rows on a device tell of this one there too, as a set. Layers that PyTorch 1 ran in a network say
    /// nothing of operators that PyTorch 2 ran alone.
    #[must_use]
    pub fn alike(self) -> u16 {
        let all = |stacks: &[Self]| stacks.iter().fold(0, |set, stack| set | stack.bit());
        match self {
            Self::Tensorflow1 | Self::Tensorflow2 => all(&[Self::Tensorflow1, Self::Tensorflow2]),
            Self::Vllm | Self::Sglang | Self::TensorRtLlm => all(&[Self::Vllm, Self::Sglang, Self::TensorRtLlm]),
            _ => self.bit(),
        }
    }

    /// Its bit in a set of stacks.
    #[must_use]
    pub fn bit(self) -> u16 {
        1 << self as u8
    }

    /// The name that its predictors carry. Stacks that share one are told apart by a feature.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::Tensorflow1 | Self::Tensorflow2 => "tensorflow",
            Self::Pytorch1 | Self::Pytorch2 => "pytorch",
            Self::Sarathi => "sarathi",
            Self::Megatron => "megatron",
            Self::Vllm | Self::Sglang | Self::TensorRtLlm => "serving",
            Self::TensorRt => "tensorrt",
            Self::Cudnn => "cudnn",
            Self::Miopen => "miopen",
            Self::Nccl => "nccl",
        }
    }
}

/// Who wrote an attention kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AttentionKernel {
    /// Not said.
    #[default]
    Unknown,
    /// `FlashAttention` 2.
    Flash2,
    /// `FlashAttention` 3.
    Flash3,
    /// `FlashAttention` 4.
    Flash4,
    /// `FlashInfer`'s own.
    FlashInfer,
    /// TensorRT-LLM's, through another stack.
    TensorRtLlm,
    /// TensorRT-LLM's, through its `PyTorch` flow.
    TorchFlow,
    /// Triton.
    Triton,
}

/// What a kernel's time depends on beside the kernel and the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Setting {
    /// The stack of software.
    pub stack: Stack,
    /// Who wrote it, if it is one of attention.
    pub attention: AttentionKernel,
    /// Whether keys and values are kept in 8 bits.
    pub small_cache: bool,
    /// Whether the left and the right matrix of a product lie transposed.
    pub transposed: [bool; 2],
    /// What the devices of an exchange are joined by.
    pub link: Link,
}

/// What joins the devices of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Link {
    /// What the device's board has.
    #[default]
    Board,
    /// PCIe.
    Pcie,
    /// `NVLink` between two, PCIe between pairs.
    Pairs,
    /// `NVLink`, Infinity Fabric or a switch of them between all.
    All,
}

impl Setting {
    /// A stack and nothing more.
    #[must_use]
    pub fn of(stack: Stack) -> Self {
        Self {
            stack,
            attention: AttentionKernel::Unknown,
            small_cache: false,
            transposed: [false; 2],
            link: Link::Board,
        }
    }

    /// A stack, with what else a kernel of it on a device depends on.
    #[must_use]
    pub fn near(stack: Stack, kernel: &Kernel, device: &Device) -> Self {
        let attention = match (&kernel.family, &*device.board.architecture) {
            (Family::Attention { .. }, "hopper") => AttentionKernel::Flash3,
            (Family::Attention { .. }, _) => AttentionKernel::Flash2,
            _ => AttentionKernel::Unknown,
        };
        Self { attention, ..Self::of(stack) }
    }
}

/// How far what was learned of a stack is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// On cards that were measured, and others of their chips: those that were are too few to tell what holds for all.
    Measured,
    /// On any card.
    Any,
}

/// The measured stacks that a runtime's kernel comes near to, the nearest first.
///
/// Not every stack that was measured says what a kernel takes in a network:
/// - `NeuSight`'s convolutions (PyTorch 2) are of random sizes, by whatever algorithm came first: in whole networks the same
///   kernels take half to two thirds of what they say. Those of TensorFlow agree with networks of all frameworks.
/// - cuDNN called directly takes the algorithm that a search found fastest, as TensorRT does and frameworks do not.
/// - Products and attention in 16 bits and fewer were measured on cards with tensor cores, and say nothing of others.
/// - Products and elementwise work of Megatron, and the elementwise work of a serving block, were timed as modules are
///   called, and take a fifth to a third more than in networks.
/// - Backward rows of elementwise work count the bytes of the forward pass. None is asked of them.
#[must_use]
pub fn stacks(kernel: &Kernel, runtime: &Runtime, device: &Device) -> &'static [(Stack, Reach)] {
    use Reach::{Any, Measured};
    use Stack::{Cudnn, Megatron, Miopen, Pytorch1, Pytorch2, Sarathi, TensorRt, Tensorflow1, Vllm};
    let small = matches!(kernel.precision, Precision::Fp16 | Precision::Bf16 | Precision::Fp8 | Precision::Int8);
    let is_backward = kernel.pass.is_backward();
    match kernel.family {
        Family::Convolution(_) if device.is_amd() => &[(Miopen, Any)],
        Family::Convolution(_) if kernel.library == Library::TensorRt => &[(TensorRt, Measured), (Cudnn, Measured)],
        Family::Convolution(_) if kernel.precision == Precision::Tf32 => &[(Pytorch1, Measured)],
        Family::Convolution(_) => &[(Tensorflow1, Any)],
        Family::Product { .. } | Family::Attention { .. } if small && !device.has_tensor_cores() => &[],
        Family::Product { .. } if small && is_backward => &[],
        Family::Product { .. } if small => &[(Sarathi, Measured), (Vllm, Any)],
        Family::Product { .. } if runtime.name == "tensorflow" => &[(Tensorflow1, Measured), (Pytorch2, Any)],
        Family::Product { .. } => &[(Pytorch2, Any), (Tensorflow1, Measured)],
        Family::Recurrent { .. } if device.is_amd() => &[(Miopen, Any)],
        Family::Recurrent { .. } => &[(Cudnn, Any)],
        Family::Attention { .. } => &[(Vllm, Any)],
        Family::BatchNorm { .. } | Family::Pool { .. } => &[(Pytorch1, Measured)],
        Family::Elementwise { .. } if is_backward || small => &[],
        _ if small => &[(Sarathi, Measured), (Megatron, Measured)],
        _ => &[(Pytorch2, Any)],
    }
}
