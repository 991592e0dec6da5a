//! Frontends: bytes of a file to the model that stands in it.

pub mod onnx;
pub mod onnx_text;
pub mod sniff;
pub mod source;
