//! `cargo xtask train`: makes predictors from tables of measured layers.

#[cfg(feature = "train")]
pub(crate) mod anchor;
pub(crate) mod boost;
#[cfg(feature = "train")]
mod card;
#[cfg(feature = "contest")]
mod contest;
#[cfg(feature = "train")]
mod few;
pub(crate) mod fit;
pub(crate) mod measure;
pub(crate) mod prepare;
pub(crate) mod row;
#[cfg(feature = "train")]
mod run;
#[cfg(feature = "train")]
pub(crate) mod table;
pub(crate) mod unseen;
#[cfg(feature = "train")]
pub(crate) use run::{Arguments, run};
