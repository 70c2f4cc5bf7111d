//! The price list: the rows that come with the program, and how a row is read, there and in the configuration.
//!
//! Never here: arithmetic.

use std::sync::LazyLock;

use duduclaw_actors::id::Family;
use duduclaw_actors::price::{Listed, Picos, Price, Rates, Step};
use serde::Deserialize;

use super::document::{At, Document, Mark};
use super::raw::{Key, RawPrice, RawStep};

/// The list that comes with the program.
const TEXT: &str = include_str!("../../docs/prices.toml");
/// What a write costs for a short and a long life, in fresh input, where nothing is said.
const WRITES: (f64, f64) = (1.25, 2.0);

/// The rows that come with the program.
pub(crate) fn built_in() -> &'static [Listed] {
    static ROWS: LazyLock<Vec<Listed>> = LazyLock::new(|| {
        let (raw, _) = read(TEXT);
        raw.iter().flatten().map(|raw| row(raw, None).expect("a test reads every row of docs/prices.toml")).collect()
    });
    &ROWS
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    prices: Key<Vec<At<RawPrice>>>,
}

/// The rows of a list, as written, and whether all of it could be read.
fn read(text: &str) -> (Option<Vec<At<RawPrice>>>, bool) {
    let Ok(mut document) = Document::parse(text, "docs/prices.toml") else { return (None, false) };
    let (file, problems) = document.read::<File>();
    (file.prices.map(|prices| prices.value), problems.is_empty())
}

/// What is missing in a row.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Missing(String);

/// The amounts in a row that are no prices.
pub(crate) fn bad_amounts(raw: &RawPrice) -> Vec<Mark> {
    let steps = raw.long_context.as_deref().into_iter().flatten();
    let all = steps.flat_map(|step| amounts_of_step(step)).chain(amounts(raw));
    let bad = all.flatten().filter(|amount| Picos::per_million(amount.value).is_none());
    bad.map(|amount| amount.mark).collect()
}

fn amounts(raw: &RawPrice) -> [&Key<f64>; 5] {
    [&raw.input, &raw.output, &raw.cache_read, &raw.cache_write_5m, &raw.cache_write_1h]
}

fn amounts_of_step(raw: &RawStep) -> [&Key<f64>; 5] {
    [&raw.input, &raw.output, &raw.cache_read, &raw.cache_write_5m, &raw.cache_write_1h]
}

/// Reads a row. What it leaves out is that of the listed row of this name, but for prices of long prompts, which count
/// only if they are stated.
pub(crate) fn row(raw: &RawPrice, known: Option<&Listed>) -> Result<Listed, Missing> {
    let model = raw.model.as_ref().map(|model| model.trim()).filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| Missing("an entry of [[prices]] has no model".to_owned()))?;
    let base = rates(model, known.map(|known| *known.price.rates(0)), amounts(raw))?;
    let steps: Result<Vec<Step>, Missing> =
        raw.long_context.as_deref().into_iter().flatten().map(|raw| step(model, raw)).collect();
    let family = raw.family.as_deref().copied().or(known.and_then(|known| known.family)).or_else(|| family_of(model));
    Ok(Listed { model: model.to_owned(), family, price: Price::new(base, steps?) })
}

fn step(model: &str, raw: &RawStep) -> Result<Step, Missing> {
    let above = raw.above.as_deref().copied();
    let above = above.ok_or_else(|| Missing(format!("a long_context of the price of {model:?} has no above")))?;
    let rates = rates(model, None, amounts_of_step(raw))?;
    Ok(Step { above, rates })
}

fn rates(model: &str, known: Option<Rates>, stated: [&Key<f64>; 5]) -> Result<Rates, Missing> {
    let price = |amount: &Key<f64>| amount.as_ref().and_then(|amount| Picos::per_million(amount.value));
    let [input, output, read, short, long] = stated.map(price);
    let needed = |price: Option<Picos>, of: fn(&Rates) -> Picos, key: &str| {
        let price = price.or(known.as_ref().map(of));
        price.ok_or_else(|| Missing(format!("the price of {model:?}, which is not listed, has no {key}")))
    };
    let input = needed(input, |known| known.input, "input")?;
    let times = |factor: f64| Picos((input.0 as f64 * factor).round() as u64);
    Ok(Rates {
        input,
        output: needed(output, |known| known.output, "output")?,
        cache_read: read.or(known.map(|known| known.cache_read)).unwrap_or(input),
        cache_write_5m: short.or(known.map(|known| known.cache_write_5m)).unwrap_or_else(|| times(WRITES.0)),
        cache_write_1h: long.or(known.map(|known| known.cache_write_1h)).unwrap_or_else(|| times(WRITES.1)),
    })
}

/// The family of a model whose row names none.
fn family_of(model: &str) -> Option<Family> {
    let known = [("claude", Family::Claude), ("gpt", Family::Codex), ("gemini", Family::Gemini)];
    known.into_iter().find(|(begins, _)| model.to_ascii_lowercase().starts_with(begins)).map(|(_, family)| family)
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDate;
    use duduclaw_actors::outcome::Usage;
    use duduclaw_actors::price::PriceList;
    use duduclaw_actors::rows::PriceBasis;

    use super::*;

    #[test]
    fn every_row_of_the_list_can_be_read_and_says_where_and_when_it_is_from() {
        let (raw, whole) = read(TEXT);
        assert!(whole, "a key that nobody reads");
        let raw = raw.expect("the list has rows");
        for raw in &raw {
            let row = row(raw, None).unwrap_or_else(|fault| panic!("{fault}"));
            let stated = |key: &Key<String>| key.as_deref().cloned().unwrap_or_default();
            assert!(stated(&raw.source).starts_with("https://"), "{}", row.model);
            assert!(stated(&raw.date).parse::<NaiveDate>().is_ok(), "{}", row.model);
            assert!(raw.family.is_some(), "{}", row.model);
            assert!(amounts(raw).iter().all(|price| price.is_some()), "{} leaves a price out", row.model);
        }
        let mut names: Vec<_> = raw.iter().filter_map(|raw| raw.model.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), raw.len(), "a model stands there twice");
    }

    #[test]
    fn the_prices_of_a_row_are_ordered_as_prices_are() {
        for row in built_in() {
            let (base, long) = (row.price.rates(0), row.price.rates(u64::MAX));
            for rates in [base, long] {
                assert!(rates.cache_read <= rates.input && rates.input <= rates.cache_write_5m, "{}", row.model);
                assert!(rates.cache_write_5m <= rates.cache_write_1h && rates.input < rates.output, "{}", row.model);
                assert!(rates.input.0 > 0 && rates.cache_read.0 > 0, "{}", row.model);
            }
            assert!(
                base.input <= long.input && base.output <= long.output,
                "{}: a long prompt is no cheaper",
                row.model
            );
        }
    }

    #[test]
    fn the_models_of_the_day_are_listed() {
        let list = PriceList::new(built_in().iter().cloned());
        let million = Usage { input: 1_000_000, output: 1_000_000, ..Usage::default() };
        let dollars = |family, model: &str| {
            let found = list.priced(family, model);
            assert_eq!(found.basis, PriceBasis::Listed, "{model}");
            found.price.cost(&million).dollars()
        };
        assert_eq!(dollars(Family::Claude, "claude-opus-5-5"), 24.0);
        assert_eq!(dollars(Family::Claude, "claude-sonnet-5-5[1m]"), 12.0);
        assert_eq!(dollars(Family::Claude, "claude-haiku-4-5-20251001"), 6.0);
        assert_eq!(dollars(Family::Claude, "claude-haiku-5-5"), 3.0, "a long prompt");
        assert_eq!(dollars(Family::Codex, "gpt-6.2-sol"), 19.0, "a long prompt");
        assert_eq!(dollars(Family::Gemini, "gemini-3.1-pro-preview"), 22.0, "a long prompt");
        assert_eq!(list.priced(Family::Claude, "claude-epic-6").price.cost(&million).dollars(), 60.0, "the dearest");
    }
}
