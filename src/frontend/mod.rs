//! Frontends: bytes to a model.

pub mod onnx;
pub mod onnx_text;
