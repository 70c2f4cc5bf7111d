//! Admission: which account a request may use now.

pub mod demand;
