//! Who may use the control API: named operators, each known by the hash of its token.
//!
//! Tokens themselves are never kept. A token is compared with all operators in constant time.

use std::fmt;
use std::sync::Arc;

use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::clients::TokenHash;

/// One operator.
#[derive(Clone)]
pub struct Operator {
    /// Its name, unique.
    pub name: Arc<str>,
    /// The SHA-256 hash of its token.
    pub token: TokenHash,
    /// What it may do.
    pub access: Access,
}

/// What an operator may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Look.
    Read,
    /// Look, and change things.
    Write,
}

/// All operators.
#[derive(Clone, Debug, Default)]
pub struct Operators(Vec<Operator>);

impl Operators {
    /// These operators.
    #[must_use]
    pub fn new(operators: Vec<Operator>) -> Self {
        Self(operators)
    }

    /// The operator that this token belongs to. Every operator is looked at, whether or not an earlier one fits.
    #[must_use]
    pub fn authenticate(&self, token: &[u8]) -> Option<&Operator> {
        let offered = TokenHash::of_bytes(token);
        let mut found = u32::MAX;
        for (index, operator) in (0u32..).zip(&self.0) {
            found.conditional_assign(&index, offered.ct_eq(&operator.token));
        }
        self.0.get(found as usize)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Operator> {
        self.0.iter()
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator").field("name", &self.name).field("access", &self.access).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(name: &str, token: &str, access: Access) -> Operator {
        Operator { name: name.into(), token: TokenHash::of(token), access }
    }

    #[test]
    fn a_token_finds_its_operator_with_what_it_may_do_and_nothing_else_does() {
        let all = [operator("a", "one", Access::Write), operator("b", "two:too", Access::Read)];
        let operators = Operators::new(all.into());
        let found = |token: &str| operators.authenticate(token.as_bytes()).map(|o| (o.name.to_string(), o.access));
        assert_eq!(found("one"), Some(("a".to_owned(), Access::Write)));
        assert_eq!(found("two:too"), Some(("b".to_owned(), Access::Read)));
        for token in ["", "One", "one ", "two", "a"] {
            assert_eq!(found(token), None, "{token:?}");
        }
        assert!(Operators::default().authenticate(b"one").is_none());
    }
}
