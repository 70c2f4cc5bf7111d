//! The rules of admission, one sentence each, and its properties.

mod allowances;
mod bands;
mod bindings;
mod budgets;
mod exhaustion;
mod leases;
mod places;
mod probes;
mod properties;
mod world;
