//! Static cost analysis of neural-network model files: counts, and predicted time and memory on GPUs.

pub mod analysis;
pub mod assume;
pub mod cli;
pub mod config;
pub mod device;
pub mod diagnostics;
pub mod engine;
pub mod frontend;
pub mod ir;
pub mod ops;
pub mod options;
pub mod passes;
pub mod predict;
pub mod profile;
pub mod render;
pub mod report;
pub mod runtime;
pub mod target;
pub mod walk;
