//! Passes: functions from data to data, over whole graphs. What holds for one operator is in [`crate::ops`].

pub mod bind;
pub mod compose;
pub mod count;
pub mod infer;
pub mod kinds;
pub mod liveness;
pub mod lower;
pub mod parameters;
pub mod payloads;
pub mod resolve;
pub mod review;
pub mod sizes;
pub mod strides;
mod ties;
