use proptest::prelude::*;

use super::*;
use crate::id::Family;

fn rates(input: f64, output: f64, read: f64, five: f64, hour: f64) -> Rates {
    let price = |dollars| Picos::per_million(dollars).expect("a price");
    Rates {
        input: price(input),
        output: price(output),
        cache_read: price(read),
        cache_write_5m: price(five),
        cache_write_1h: price(hour),
    }
}

fn opus() -> Price {
    Price::new(rates(5.0, 25.0, 0.5, 6.25, 10.0), Vec::new())
}

/// Cheap up to 100,000 tokens of prompt.
fn haiku() -> Price {
    let long = Step { above: 100_000, rates: rates(0.5, 2.5, 0.05, 0.625, 1.0) };
    Price::new(rates(0.1, 0.5, 0.01, 0.125, 0.2), vec![long])
}

fn row(model: &str, family: Family, price: Price) -> Listed {
    Listed { model: model.to_owned(), family: Some(family), price }
}

fn list() -> PriceList {
    PriceList::new([
        row("claude-opus-5", Family::Claude, opus()),
        row("claude-haiku-5-5", Family::Claude, haiku()),
        row("gpt-5.5", Family::Codex, Price::new(rates(5.0, 30.0, 0.5, 5.0, 5.0), Vec::new())),
    ])
}

/// C83: an hour's writes at the price of five minutes' would make 6.25 of these 7.75.
#[test]
fn writes_for_an_hour_cost_more_than_those_for_five_minutes() {
    let split = Usage { cache_write_5m: 600_000, cache_write_1h: 400_000, ..Usage::default() };
    assert_eq!(opus().cost(&split), Micros(7_750_000));
    let whole = Usage { cache_write_5m: 1_000_000, ..Usage::default() };
    assert_eq!(opus().cost(&whole), Micros(6_250_000));
}

#[test]
fn a_cost_is_rounded_once_and_half_up() {
    let cheap = Price::new(rates(0.1, 0.5, 0.01, 0.125, 0.2), Vec::new());
    let cost = |input, output, read| cheap.cost(&Usage { input, output, cache_read: read, ..Usage::default() });
    assert_eq!(cost(4, 0, 0), Micros(0), "0.4 of a micro-dollar");
    assert_eq!(cost(5, 0, 0), Micros(1), "a half");
    assert_eq!(cost(4, 1, 0), Micros(1), "0.4 and 0.5 together, not each alone");
    assert_eq!(cost(4, 0, 10), Micros(1), "0.4 and 0.1");
}

#[test]
fn a_prompt_above_a_step_pays_its_rates_on_the_whole_request() {
    let cost = |input, read, output| haiku().cost(&Usage { input, cache_read: read, output, ..Usage::default() });
    assert_eq!(cost(100_000, 0, 1_000), Micros(10_000 + 500));
    assert_eq!(cost(100_001, 0, 1_000), Micros(50_001 + 2_500), "50,000.5 is rounded up");
    assert_eq!(cost(1, 100_000, 0), Micros(5_001), "what the cache served counts as prompt: 5,000.5");
}

#[test]
fn a_price_is_what_a_list_can_state() {
    assert_eq!(Picos::per_million(0.125), Some(Picos(125_000)));
    assert_eq!(Picos::per_million(0.0), Some(Picos(0)));
    for bad in [f64::NAN, f64::INFINITY, -0.1, 1e7] {
        assert_eq!(Picos::per_million(bad), None, "{bad}");
    }
}

#[test]
fn a_variant_has_the_price_of_the_longest_listed_name() {
    let list = list();
    for name in [
        "claude-opus-5",
        "Claude-OPUS-5",
        "claude-opus-5[1m]",
        "CLAUDE-OPUS-5[1M]",
        "claude-opus-5-20260724",
        "claude-opus-5-20260724[1m]",
        "claude-opus-5@20260724",
        "claude-opus-5-fast",
        "claude-opus-5:free",
    ] {
        let found = list.priced(Family::Claude, name);
        assert_eq!((&*found.price, found.basis), (&opus(), PriceBasis::Listed), "{name}");
    }
    assert_eq!(*list.priced(Family::Claude, "claude-haiku-5-5-20261007").price, haiku());
    assert_eq!(list.priced(Family::Codex, "gpt-5.5-2026-04-23").basis, PriceBasis::Listed);
}

#[test]
fn another_version_is_no_variant_and_what_is_unknown_has_its_familys_dearest_price() {
    let list = list();
    for name in ["claude-opus-5-6", "claude-opus-5-6-20270101", "claude-opus", "claude-opus-50", "", "claude-nova-1"] {
        let found = list.priced(Family::Claude, name);
        assert_eq!((&*found.price, found.basis), (&opus(), PriceBasis::Dearest), "{name}");
    }
    let gemini = list.priced(Family::Gemini, "gemini-9");
    assert_eq!(*gemini.price, *list.priced(Family::Codex, "gpt-5.5").price, "of a family without rows: of all");
}

#[test]
fn a_local_model_is_free_whatever_it_is_called() {
    let found = list().priced(Family::Local, "claude-opus-5");
    assert_eq!(
        (found.price.cost(&Usage { input: 1_000_000, ..Usage::default() }), found.basis),
        (Micros(0), PriceBasis::Free)
    );
}

#[test]
fn a_later_row_replaces_an_earlier_one() {
    let dear = Price::new(rates(7.0, 35.0, 0.7, 8.0, 9.0), Vec::new());
    let own = PriceList::new([
        row("claude-opus-5", Family::Claude, opus()),
        row("Claude-Opus-5", Family::Claude, dear.clone()),
    ]);
    assert_eq!(*own.priced(Family::Claude, "claude-opus-5").price, dear);
}

proptest! {
    #[test]
    fn more_tokens_never_cost_less(a in any::<[u32; 5]>(), more in 0_usize..5) {
        let usage = |t: [u32; 5]| Usage {
            input: t[0].into(), output: t[1].into(), cache_read: t[2].into(),
            cache_write_5m: t[3].into(), cache_write_1h: t[4].into(),
        };
        let mut b = a;
        b[more] = b[more].saturating_add(1);
        prop_assert!(haiku().cost(&usage(b)) >= haiku().cost(&usage(a)));
    }

    #[test]
    fn what_fits_in_an_amount_costs_no_more_and_one_token_more_no_less(amount in 0_i64..10_000_000, input in 0_u64..1_000_000) {
        let (price, amount) = (haiku(), Micros(amount));
        let usage = Usage { input, ..Usage::default() };
        let output = price.output_within(amount, &usage);
        let cost = |output| price.cost(&Usage { output, ..usage });
        prop_assert!(cost(0) > amount || cost(output) <= amount);
        prop_assert!(cost(output + 1) >= amount);
    }

    #[test]
    fn any_figures_have_a_cost(input in any::<u64>(), output in any::<u64>(), read in any::<u64>(), name in ".{0,40}") {
        let usage = Usage { input, output, cache_read: read, ..Usage::default() };
        prop_assert!(list().priced(Family::Claude, &name).price.cost(&usage) >= Micros::ZERO);
    }
}
