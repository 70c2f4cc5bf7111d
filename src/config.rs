//! The configuration: raw text → checked values → one topology of elements, entries and identities.
