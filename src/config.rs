//! The configuration: raw text → checked values → one topology of elements, entries and identities.

mod document;
pub mod problem;
mod raw;
pub mod surroundings;
