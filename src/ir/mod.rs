//! Intermediate representation.

pub mod element_type;
pub mod place;
