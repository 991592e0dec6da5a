//! Static cost analysis of neural-network model files.

pub mod analysis;
pub mod diagnostics;
pub mod frontend;
pub mod ir;
pub mod ops;
pub mod passes;
pub mod report;
