//! ONNX.

pub mod model;
mod payload;
#[rustfmt::skip]
pub(crate) mod proto;
