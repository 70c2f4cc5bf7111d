//! The configuration: raw text → checked values → one topology of elements, entries and identities.

pub mod bind;
mod check;
pub mod clients;
mod document;
pub mod origin;
pub mod problem;
mod raw;
pub mod secret;
pub mod settings;
pub mod surroundings;
