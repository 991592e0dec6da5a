//! Static cost analysis of neural-network model files.

pub mod frontend;
pub mod ir;
