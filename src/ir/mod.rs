//! Intermediate representation.

pub mod dim;
pub mod element_type;
pub mod fact;
pub mod graph;
pub mod hash;
pub mod place;
pub mod shape;
pub(crate) mod stable_hash;
