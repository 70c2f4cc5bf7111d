//! `[billing]`, `[[prices]]`, and what may be spent.

use std::collections::BTreeMap;
use std::sync::Arc;

use duduclaw_actors::billing::BillingCycle;
use duduclaw_actors::money::Micros;
use duduclaw_actors::price::{Listed, PriceList};
use duduclaw_actors::roster::Cap;

use super::Checker;
use crate::config::document::{At, Mark};
use crate::config::prices;
use crate::config::problem::{nearest, shown};
use crate::config::raw::{Key, RawAccount, RawBilling, RawPrice};
use crate::credentials::SecretSource;

const ZONE: &str = "UTC";
const DAY: u32 = 1;

impl Checker<'_> {
    pub(super) fn billing(&mut self, raw: Option<&RawBilling>) -> BillingCycle {
        let day = raw.and_then(|raw| raw.cycle_day.as_ref());
        if let Some(day) = day.filter(|day| !(1..=31).contains(&day.value)) {
            self.error(day.mark, "billing.cycle_day must be a day of the month, 1 to 31");
        }
        let zone = raw.and_then(|raw| raw.timezone.as_ref());
        if let Some(zone) = zone.filter(|zone| BillingCycle::new(zone.trim(), DAY).is_none()) {
            self.unknown_zone(zone);
        }
        let (zone, day) = (zone.map_or(ZONE, |zone| zone.trim()), day.map_or(DAY, |day| day.value));
        BillingCycle::new(zone, day).unwrap_or_default()
    }

    fn unknown_zone(&mut self, zone: &At<String>) {
        let near = nearest(zone.trim(), BillingCycle::zones());
        let hint = near.map_or_else(|| "e.g. \"Asia/Taipei\"".to_owned(), |near| format!("did you mean {near:?}?"));
        self.error(zone.mark, format!("billing.timezone {} is no time zone; {hint}", shown(zone)));
    }

    /// The rows of the configuration over those that come with the program.
    pub(super) fn prices(&mut self, raw: Option<&[At<RawPrice>]>) -> Arc<PriceList> {
        let mut rows: BTreeMap<String, Listed> =
            prices::built_in().iter().map(|row| (row.model.to_ascii_lowercase(), row.clone())).collect();
        let mut own: BTreeMap<String, Mark> = BTreeMap::new();
        for raw in raw.into_iter().flatten() {
            let name = raw.model.as_ref().map(|model| model.trim().to_ascii_lowercase()).unwrap_or_default();
            let bad = prices::bad_amounts(raw);
            bad.iter().for_each(|mark| self.error(*mark, "a price is dollars per million tokens, 0 or more"));
            match prices::row(raw, rows.get(&name)) {
                _ if !bad.is_empty() && !name.is_empty() => {}
                Ok(row) if own.insert(name.clone(), raw.mark).is_none() => drop(rows.insert(name, row)),
                Ok(row) => self.error(raw.mark, format!("[[prices]] has {} twice", shown(&row.model))),
                Err(missing) => self.missing(raw.mark, missing.to_string()),
            }
        }
        Arc::new(PriceList::new(rows.into_values()))
    }

    /// What an account may spend in a month.
    pub(super) fn account_cap(&mut self, whose: &str, raw: &RawAccount, source: &SecretSource) -> Cap {
        let subscribed = match source {
            SecretSource::CredentialsFile(_) | SecretSource::TokenEnv(_) | SecretSource::Keychain { .. } => true,
            SecretSource::ApiKeyEnv(_) | SecretSource::StoreFile(_) | SecretSource::None => false,
        };
        if let Some(amount) = raw.monthly_budget_usd.as_ref().filter(|_| subscribed) {
            let text = "never acts: the requests of a subscription cost nothing";
            self.warn(amount.mark, format!("monthly_budget_usd of {whose} {text}"));
        }
        self.cap(whose, &raw.monthly_budget_usd, &raw.monthly_requests)
    }

    /// What an account or a client may spend in a month.
    pub(super) fn cap(&mut self, whose: &str, dollars: &Key<f64>, requests: &Key<u64>) -> Cap {
        let money = dollars.as_ref().and_then(|amount| {
            let money = Micros::of_dollars(amount.value);
            if money.is_none() {
                let text = "must be an amount of dollars, 0 or more";
                self.error(amount.mark, format!("monthly_budget_usd of {whose} {text}"));
            }
            money
        });
        Cap { money, requests: requests.as_deref().copied() }
    }
}
