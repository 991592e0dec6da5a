//! ONNX: the model tree that both its frontends give, and the binary one.

pub mod decode;
pub mod external;
pub mod model;
pub mod payload;
#[rustfmt::skip]
pub(crate) mod proto;
mod wire;
