//! `cargo xtask train`: makes predictors from tables of measured layers.

pub(crate) mod boost;
pub(crate) mod fit;
pub(crate) mod measure;
pub(crate) mod prepare;
pub(crate) mod row;
#[cfg(feature = "train")]
mod run;
#[cfg(feature = "train")]
pub(crate) mod table;
#[cfg(feature = "train")]
pub(crate) use run::{Arguments, run};
