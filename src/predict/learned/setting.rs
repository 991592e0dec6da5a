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
}

impl Setting {
    /// A stack and nothing more.
    #[must_use]
    pub fn of(stack: Stack) -> Self {
        Self { stack, attention: AttentionKernel::Unknown, small_cache: false, transposed: [false; 2] }
    }

    /// The measured stack that a runtime's kernel on a device comes nearest to.
    #[must_use]
    pub fn nearest(kernel: &Kernel, runtime: &Runtime, device: &Device) -> Self {
        let small = matches!(kernel.precision, Precision::Fp16 | Precision::Bf16 | Precision::Fp8);
        let is_amd = device.board.architecture.starts_with("cdna")
            || device.board.architecture.starts_with("rdna")
            || device.board.architecture.starts_with("gcn")
            || device.board.architecture.starts_with("vega");
        match kernel.family {
            Family::Convolution(_) if is_amd => Self::of(Stack::Miopen),
            Family::Convolution(_) if kernel.library == Library::TensorRt => Self::of(Stack::TensorRt),
            Family::Convolution(_) => Self::of(Stack::Tensorflow1),
            Family::Product { .. } if small => Self::of(Stack::Vllm),
            Family::Product { .. } if runtime.name == "tensorflow" => Self::of(Stack::Pytorch2),
            Family::Recurrent { .. } => Self::of(Stack::Cudnn),
            Family::Attention { .. } => {
                let attention = match &*device.board.architecture {
                    "hopper" => AttentionKernel::Flash3,
                    _ => AttentionKernel::Flash2,
                };
                Self { attention, ..Self::of(Stack::Vllm) }
            }
            _ => Self::of(Stack::Pytorch2),
        }
    }
}
