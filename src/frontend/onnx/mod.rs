//! ONNX.

pub mod model;
#[rustfmt::skip]
pub(crate) mod proto;
