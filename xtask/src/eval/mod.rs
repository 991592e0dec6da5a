//! `cargo xtask eval`: holds predictions against what was measured, from tables of whole networks and their model files.

mod doubt;
mod judge;
#[cfg(feature = "train")]
mod layers;
mod limit;
pub(crate) mod metrics;
mod network;
mod observe;
mod page;
mod price;
mod question;
mod row;
mod sets;
mod setup;
mod show;
#[cfg(feature = "train")]
mod table;

#[cfg(feature = "train")]
mod run;
#[cfg(feature = "train")]
pub(crate) use run::{Arguments, run};
