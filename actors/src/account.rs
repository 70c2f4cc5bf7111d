//! One account: its health, and the actor that alone owns it.

/// Whether a test switched this rule off, to see that a property notices. Outside tests: never, at no cost.
#[cfg(test)]
macro_rules! sabotaged {
    ($fault:ident) => {
        $crate::account::fault::is_on($crate::account::fault::Fault::$fault)
    };
}
#[cfg(not(test))]
macro_rules! sabotaged {
    ($fault:ident) => {
        false
    };
}

#[cfg(test)]
mod fault;
pub mod health;
pub mod quota;
