//! The prices of all models, and which of them is that of a name.
//!
//! A name is looked up as it is, then as a variant of the longest listed name that ends where `-`, `@` or `:` begins
//! the rest: a date, a region, a word. A rest that begins with a number of up to three digits is no variant: it is
//! another version, `claude-opus-5-6` beside `claude-opus-5`. A name that is unknown has the dearest price of its
//! family, and says so.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Price, Priced};
use crate::id::Family;
use crate::rows::PriceBasis;

/// What asks for the long context at the end of a name.
const LONG_CONTEXT: &str = "[1m]";
/// What may separate a name from what makes it a variant.
const BOUNDARIES: [char; 3] = ['-', '@', ':'];
/// More digits than this are a date and no version.
const VERSION_DIGITS: usize = 3;

/// One row of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The model's name.
    pub model: String,
    /// The family that an unknown name may belong to as well.
    pub family: Option<Family>,
    /// Its price.
    pub price: Price,
}

/// The prices of all models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceList {
    rows: BTreeMap<String, Arc<Price>>,
    dearest: BTreeMap<Family, Arc<Price>>,
    free: Arc<Price>,
}

impl PriceList {
    /// A list of these rows; of two with one name the later counts.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = Listed>) -> Self {
        let by_name: BTreeMap<String, Listed> =
            rows.into_iter().map(|row| (row.model.to_ascii_lowercase(), row)).collect();
        let mut list = Self::default();
        for (name, Listed { family, price, .. }) in by_name {
            let price = Arc::new(price);
            if let Some(family) = family {
                list.offer(family, &price);
            }
            list.rows.insert(name, price);
        }
        list
    }

    /// The price of a model at a provider of this family.
    #[must_use]
    pub fn priced(&self, family: Family, model: &str) -> Priced {
        if family == Family::Local {
            return Priced { price: Arc::clone(&self.free), basis: PriceBasis::Free };
        }
        match self.find(&plain(model)) {
            Some(price) => Priced { price: Arc::clone(price), basis: PriceBasis::Listed },
            None => Priced { price: self.dearest(family), basis: PriceBasis::Dearest },
        }
    }

    fn find(&self, name: &str) -> Option<&Arc<Price>> {
        let listed =
            |(at, _): (usize, &str)| (!begins_with_version(&name[at + 1..])).then(|| self.rows.get(&name[..at]));
        self.rows.get(name).or_else(|| name.rmatch_indices(BOUNDARIES).find_map(|cut| listed(cut).flatten()))
    }

    fn offer(&mut self, family: Family, price: &Arc<Price>) {
        let dearest = self.dearest.entry(family).or_insert_with(|| Arc::clone(price));
        if price.weight() > dearest.weight() {
            *dearest = Arc::clone(price);
        }
    }

    /// Without any row of the family, the dearest of all.
    fn dearest(&self, family: Family) -> Arc<Price> {
        let of_all = || self.dearest.values().max_by_key(|price| price.weight());
        self.dearest.get(&family).or_else(of_all).map_or_else(|| Arc::clone(&self.free), Arc::clone)
    }
}

/// A name as the list has it: in small letters, without what asks for the long context.
fn plain(model: &str) -> Cow<'_, str> {
    let mut name = Cow::Borrowed(model.trim());
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        name = Cow::Owned(name.to_ascii_lowercase());
    }
    match name {
        Cow::Borrowed(name) => Cow::Borrowed(name.trim_end_matches(LONG_CONTEXT)),
        Cow::Owned(name) => Cow::Owned(name.trim_end_matches(LONG_CONTEXT).to_owned()),
    }
}

fn begins_with_version(rest: &str) -> bool {
    let first = rest.split(BOUNDARIES).next().unwrap_or_default();
    (1..=VERSION_DIGITS).contains(&first.len()) && first.bytes().all(|byte| byte.is_ascii_digit())
}
