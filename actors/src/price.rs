//! What tokens cost, exactly.
//!
//! A price is a whole number of pico-dollars a token: what a price list states in dollars a million, to the sixth
//! decimal. So a row's cost is an exact sum, and it is rounded once, to the micro-dollar, half up.
//!
//! A prompt above a step of the price pays the step's rates on the whole request, output included. The prompt is all of
//! the input: fresh, read from the cache, written to it.
//!
//! Never here: where a list comes from, what is left of a budget.

mod list;

use std::sync::Arc;

pub use self::list::{Listed, PriceList};
use crate::money::Micros;
use crate::outcome::Usage;
use crate::rows::PriceBasis;

/// Pico-dollars in a micro-dollar.
const PICOS: u128 = 1_000_000;
/// Above this many dollars a million tokens a price is a slip of the pen.
const MOST_DOLLARS: f64 = 1_000_000.0;

/// A price in pico-dollars a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

impl Picos {
    /// The price that a list states as so many dollars a million tokens. None if that is no price.
    #[must_use]
    pub fn per_million(dollars: f64) -> Option<Self> {
        (0.0..=MOST_DOLLARS).contains(&dollars).then(|| Self((dollars * 1e6).round() as u64))
    }
}

/// What each kind of token costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Input that no cache served.
    pub input: Picos,
    /// Output.
    pub output: Picos,
    /// Input that the cache served.
    pub cache_read: Picos,
    /// Input written to the cache for a short time.
    pub cache_write_5m: Picos,
    /// Input written to the cache for a long time.
    pub cache_write_1h: Picos,
}

/// Other rates for long prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Prompts of more tokens than this pay them.
    pub above: u64,
    /// The rates.
    pub rates: Rates,
}

/// The price of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Price {
    base: Rates,
    steps: Vec<Step>,
}

/// A price, and where it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priced {
    /// The price.
    pub price: Arc<Price>,
    /// Where it is from.
    pub basis: PriceBasis,
}

impl Price {
    /// A price with these rates, and others for long prompts.
    #[must_use]
    pub fn new(base: Rates, mut steps: Vec<Step>) -> Self {
        steps.sort_by_key(|step| step.above);
        Self { base, steps }
    }

    /// The rates for a prompt of so many tokens.
    #[must_use]
    pub fn rates(&self, prompt: u64) -> &Rates {
        self.steps.iter().rev().find(|step| prompt > step.above).map_or(&self.base, |step| &step.rates)
    }

    /// How many tokens of output fit in an amount, beside the other tokens of a use.
    #[must_use]
    pub fn output_within(&self, amount: Micros, usage: &Usage) -> u64 {
        let amount = u128::try_from(amount.0).unwrap_or(0).saturating_mul(PICOS);
        let left = amount.saturating_sub(self.picos(&Usage { output: 0, ..*usage }));
        let each = u128::from(self.rates(usage.prompt()).output.0);
        left.checked_div(each).map_or(u64::MAX, |tokens| u64::try_from(tokens).unwrap_or(u64::MAX))
    }

    /// What these tokens cost.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Micros {
        let picos = self.picos(usage);
        Micros(i64::try_from((picos.saturating_add(PICOS / 2)) / PICOS).unwrap_or(i64::MAX))
    }

    fn picos(&self, usage: &Usage) -> u128 {
        let rates = self.rates(usage.prompt());
        let parts = [
            (usage.input, rates.input),
            (usage.output, rates.output),
            (usage.cache_read, rates.cache_read),
            (usage.cache_write_5m, rates.cache_write_5m),
            (usage.cache_write_1h, rates.cache_write_1h),
        ];
        parts.iter().fold(0_u128, |sum, (tokens, price)| {
            sum.saturating_add(u128::from(*tokens).saturating_mul(u128::from(price.0)))
        })
    }

    /// What orders prices, the dearest last.
    fn weight(&self) -> (Picos, Picos, Picos) {
        (self.base.output, self.base.input, self.base.cache_read)
    }
}

#[cfg(test)]
mod tests;
