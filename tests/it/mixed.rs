//! A mixed run of a thousand requests: whatever became of each, the sums of usage are those of the provider's own log,
//! to the micro-dollar, priced here from the rows of `docs/prices.toml`.

use std::collections::BTreeMap;

use duduclaw::sim::{AccountSpec, Ending, Fault, FaultRule, Record};
use duduclaw::store::look;
use duduclaw_actors::clock::Wall;
use duduclaw_actors::money::Micros;
use duduclaw_actors::rows::{UsageBy, UsageQuery};
use serde_json::{Value, json};

use crate::seen::{events_of, got};
use crate::support::{PATIENCE, World, eventually};

const ROUNDS: usize = 40;
const AT_ONCE: usize = 25;
/// Carries the client's name to the provider, so that its log knows it.
const CLIENT: &str = "x-mixed-client";
const CLIENTS: [&str; 2] = ["laptop", "desk"];
const METERED: [&str; 2] = ["key", "spare-key"];
const MODELS: [&str; 4] = ["claude-opus-5-5", "claude-sonnet-5", "claude-haiku-5-5", "claude-fable-5-2"];
/// A model that pays other prices above so many tokens.
const STEPPED: (&str, u64) = ("claude-haiku-5-5", 100_000);

/// Tokens: input, output, cache read, cache written for five minutes, for an hour.
type Tokens = [u64; 5];

/// One sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sum {
    attempts: u64,
    tokens: Tokens,
    cost: i64,
    list_value: i64,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.attempts += other.attempts;
        (0..5).for_each(|at| self.tokens[at] += other.tokens[at]);
        self.cost += other.cost;
        self.list_value += other.list_value;
    }
}

/// The rows of the price list that the run needs, each in millionths of a dollar a million tokens.
struct Prices(toml::Table);

impl Prices {
    fn read() -> Self {
        let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/prices.toml")).unwrap();
        Self(text.parse().unwrap())
    }

    /// What these tokens are worth in micro-dollars: the exact sum, rounded half up, once.
    fn value(&self, model: &str, tokens: Tokens) -> i64 {
        let rows = self.0["prices"].as_array().unwrap();
        let row = rows.iter().find(|row| row["model"].as_str() == Some(model)).unwrap();
        let prompt = tokens[0] + tokens[2] + tokens[3] + tokens[4];
        let steps = row.get("long_context").and_then(toml::Value::as_array).into_iter().flatten();
        let step = steps.into_iter().find(|step| prompt > u64::try_from(step["above"].as_integer().unwrap()).unwrap());
        let rates = step.unwrap_or(row);
        let names = ["input", "output", "cache_read", "cache_write_5m", "cache_write_1h"];
        let parts = names.iter().zip(tokens).map(|(name, tokens)| {
            // Exact: a price has at most six decimals.
            let millionths = (rates[*name].as_float().unwrap() * 1_000_000.0).round() as i128;
            millionths * i128::from(tokens)
        });
        let whole: i128 = parts.sum();
        i64::try_from((whole + 500_000).div_euclid(1_000_000)).unwrap()
    }
}

/// What the provider knows was used: all of an answer that it counted to the end. Of one that broke off, or whose client
/// left, its prompt and as many tokens as the characters make that were handed to the connection. Of one that was
/// refused, or of which nothing was sent, nothing.
fn used(record: &Record) -> Tokens {
    let usage = record.usage.unwrap_or_default();
    let with = |output| [usage.input, output, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h];
    let sent = record.response_body();
    if record.status != Some(200) || sent.is_empty() {
        return [0; 5];
    }
    if !record.stream {
        assert_eq!(record.ending, Ending::Complete, "{record:?}");
        return with(record.output_tokens);
    }
    let events = events_of(&sent);
    if events.iter().any(|(name, _)| name == "message_delta") {
        return with(record.output_tokens);
    }
    let texts = events.iter().filter(|(name, _)| name == "content_block_delta");
    let characters: usize = texts.map(|(_, data)| data["delta"]["text"].as_str().unwrap().chars().count()).sum();
    if characters == 0 { [0; 5] } else { with(u64::try_from(characters).unwrap().div_ceil(4)) }
}

/// What the provider's log comes to, summed up by this.
fn expected(world: &World, prices: &Prices, name: impl Fn(&Record) -> String) -> BTreeMap<String, Sum> {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for record in world.messages() {
        let tokens = used(&record);
        let list_value = prices.value(record.model.as_deref().unwrap(), tokens);
        let is_metered = METERED.contains(&record.account.as_deref().unwrap());
        let cost = if is_metered { list_value } else { 0 };
        sums.entry(name(&record)).or_default().add(&Sum { attempts: 1, tokens, cost, list_value });
    }
    sums
}

/// A sum as usage says it.
fn said(sum: &Value) -> Sum {
    let micros = |key: &str| (sum[key].as_f64().unwrap() * 1e6).round() as i64;
    let tokens = ["input", "output", "cache_read", "cache_write_5m", "cache_write_1h"];
    Sum {
        attempts: sum["attempts"].as_u64().unwrap(),
        tokens: tokens.map(|name| sum["tokens"][name].as_u64().unwrap()),
        cost: micros("cost"),
        list_value: micros("list_value"),
    }
}

fn rows(usage: &Value) -> BTreeMap<String, Sum> {
    let rows = usage["rows"].as_array().unwrap().iter();
    rows.map(|row| (row["name"].as_str().unwrap().to_owned(), said(row))).collect()
}

/// One request of the run: what it is, and how its client behaves.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Reads to the end.
    Reads,
    /// Leaves while the answer rests, once all that was sent has arrived.
    LeavesMidway,
    /// Leaves before the answer begins.
    LeavesEarly,
}

/// Whether answers of a round come as streams: one that breaks off is a stream, or else nobody knows what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Streams {
    Some,
    All,
}

fn body(random: &mut fastrand::Rng, model: &str, manner: Manner, streams: Streams) -> Value {
    let words = 5 + random.usize(..60);
    let (prompt, stream) = match manner {
        Manner::Reads => (format!("[[words: {words}]]"), random.bool() || streams == Streams::All),
        Manner::LeavesMidway => (format!("[[words: {words}]] [[pause: 600000]] [[say: never]]"), true),
        Manner::LeavesEarly => (format!("[[pause: 600000]] [[words: {words}]]"), false),
    };
    let mut body = json!({
        "model": model, "max_tokens": 1024, "stream": stream, "messages": [{"role": "user", "content": prompt}],
    });
    // Half of them begin with one of a few long texts, marked to be kept for one of two times.
    if random.bool() {
        let topic = random.usize(..6);
        let mark = if topic.is_multiple_of(2) {
            json!({"type": "ephemeral"})
        } else {
            json!({"type": "ephemeral", "ttl": "1h"})
        };
        let text = format!("Topic {topic}. ").repeat(700 + 100 * topic);
        body["system"] = json!([{"type": "text", "text": text, "cache_control": mark}]);
    }
    body
}

async fn client(request: reqwest::RequestBuilder, manner: Manner) {
    match manner {
        Manner::Reads => drop(got(request).await),
        Manner::LeavesMidway => {
            let Ok(mut answer) = request.send().await else { return };
            let mut seen = Vec::new();
            // A refusal, a cut and the end all end it as well.
            while let Ok(Some(piece)) = answer.chunk().await {
                seen.extend_from_slice(&piece);
                if String::from_utf8_lossy(&seen).contains("event: content_block_stop") {
                    return;
                }
            }
        }
        Manner::LeavesEarly => {
            let early = tokio::time::timeout(std::time::Duration::from_millis(150), request.send()).await;
            drop(early);
        }
    }
}

/// What goes wrong in a round: with one account, once or twice.
fn trouble(random: &mut fastrand::Rng) -> FaultRule {
    let account = ["a", "b", "key", "spare-key"][random.usize(..4)];
    let events = 10 + random.usize(..4);
    let fault = match random.usize(..7) {
        0 => Fault::Throttle { retry_after: "40".to_owned() },
        1 => Fault::Quota5h { resets_in: Some(50) },
        2 => Fault::Overloaded { retry_after: None },
        3 => Fault::Overloaded { retry_after: Some("20".to_owned()) },
        4 => Fault::ServerError,
        5 => Fault::ErrorEventAfter { events, kind: "api_error".to_owned() },
        _ => Fault::CutAfter { events },
    };
    FaultRule::next(account, 1 + random.u32(..2), fault)
}

async fn round(world: &World, random: &mut fastrand::Rng, number: usize) {
    let trouble = trouble(random);
    let breaks = |fault: &Fault| matches!(fault, Fault::CutAfter { .. } | Fault::ErrorEventAfter { .. });
    let streams = if trouble.faults.iter().any(breaks) { Streams::All } else { Streams::Some };
    world.sim.fault(trouble);
    let mut asked = tokio::task::JoinSet::new();
    for at in 0..AT_ONCE {
        let manner = match random.usize(..20) {
            0 | 1 => Manner::LeavesMidway,
            2 if streams == Streams::Some => Manner::LeavesEarly,
            _ => Manner::Reads,
        };
        let model = MODELS[random.usize(..MODELS.len())];
        let mut body = body(random, model, manner, streams);
        if at == 0 && number.is_multiple_of(10) {
            body["model"] = STEPPED.0.into();
            body["system"] = format!("Long {number}. ").repeat(usize::try_from(STEPPED.1).unwrap() / 2).into();
        }
        let named = CLIENTS[random.usize(..2)];
        let request =
            world.post("/v1/messages?beta=true").json(&body).header("x-duduclaw-token", format!("the-{named}-token"));
        let session = format!("session-{}", random.usize(..12));
        let request = request.header(CLIENT, named).header("x-claude-code-session-id", session);
        asked.spawn(client(request, manner));
    }
    let all = tokio::time::timeout(4 * PATIENCE, asked.join_all()).await;
    all.expect("every client comes to its end");
    world.sim.clear_faults(None);
    world.advance(61);
}

/// All rows are there: one for each attempt that reached the provider.
async fn settled(world: &World) -> Value {
    let open = || world.messages().iter().all(|record| record.ending != Ending::Open).then_some(());
    eventually(open).await;
    world.usage_of(world.messages().len(), "").await
}

fn config() -> String {
    let client = |name: &str| format!("[[server.auth.clients]]\nname = \"{name}\"\ntoken_env = \"TOKEN_{name}\"\n");
    CLIENTS.map(client).concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_mixed_requests_add_up_to_the_providers_own_log_to_the_micro_dollar() {
    let accounts = [
        AccountSpec::oauth("a"),
        AccountSpec::oauth("b"),
        AccountSpec::api_key("key"),
        AccountSpec::api_key("spare-key"),
    ];
    let world = World::with(accounts).provider("strategy = \"round_robin\"").tables(&config());
    let world =
        CLIENTS.iter().fold(world, |world, name| world.var(&format!("TOKEN_{name}"), &format!("the-{name}-token")));
    let mut world = world.start().await;
    let mut random = fastrand::Rng::with_seed(20_261_130);
    for number in 0..ROUNDS {
        round(&world, &mut random, number).await;
    }
    let accounts = settled(&world).await;
    let records = world.messages();
    is_mixed(&records);

    let prices = Prices::read();
    let total = expected(&world, &prices, |_| String::new()).remove("").unwrap();
    assert_eq!(said(&accounts["total"]), total);
    let by_account = expected(&world, &prices, |record| format!("anthropic/{}", record.account.as_deref().unwrap()));
    assert_eq!(rows(&accounts), by_account);
    let by_model = expected(&world, &prices, |record| record.model.clone().unwrap());
    assert_eq!(rows(&world.usage("?by=model").await), by_model);
    let by_client = expected(&world, &prices, |record| record.header(CLIENT).unwrap().to_owned());
    assert_eq!(rows(&world.usage("?by=client").await), by_client);
    assert_eq!(rows(&world.usage("?by=provider").await)["anthropic"], total);
    let days = rows(&world.usage("?by=day").await);
    let mut all_days = Sum::default();
    days.values().for_each(|day| all_days.add(day));
    assert_eq!(all_days, total);

    budgets_and_figures(&world, &by_account, &total).await;
    world.stop().await;
    let mut left = look(&world.home.path().join("state.db")).unwrap();
    let ask = UsageQuery { from: Wall(i64::MIN), until: Wall(i64::MAX), by: UsageBy::Total };
    let left = left.usage(&ask).unwrap().remove(0);
    assert_eq!((left.cost, left.list_value), (Micros(total.cost), Micros(total.list_value)));
}

/// What accounts have spent, and what is shown as metrics, is the same.
async fn budgets_and_figures(world: &World, by_account: &BTreeMap<String, Sum>, total: &Sum) {
    for name in METERED {
        let month = world.account(name).await.spend.month.unwrap();
        assert_eq!((month * 1e6).round() as i64, by_account[&format!("anthropic/{name}")].cost, "{name}");
    }
    let text = world.client.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
    let figure = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    assert_eq!((figure("duduclaw_cost_dollars_total{") * 1e6).round() as i64, total.cost);
    for (bucket, tokens) in
        ["input", "output", "cache_read", "cache_write_5m", "cache_write_1h"].into_iter().zip(total.tokens)
    {
        let shown = figure(&format!("duduclaw_tokens_total{{provider=\"anthropic\",bucket=\"{bucket}\"}}"));
        assert_eq!(shown as u64, tokens, "{bucket}");
    }
}

/// The run has all that it is to have.
fn is_mixed(records: &[Record]) {
    let count = |what: &dyn Fn(&Record) -> bool| records.iter().filter(|record| what(record)).count();
    let figures = [
        ("streams", count(&|r| r.stream && r.ending == Ending::Complete)),
        ("whole answers", count(&|r| !r.stream && r.status == Some(200))),
        ("cache reads", count(&|r| r.usage.is_some_and(|usage| usage.cache_read > 0))),
        ("short writes", count(&|r| r.usage.is_some_and(|usage| usage.cache_write_5m > 0))),
        ("long writes", count(&|r| r.usage.is_some_and(|usage| usage.cache_write_1h > 0))),
        ("clients that left", count(&|r| r.ending == Ending::ClientClosed && r.sent_bytes > 0)),
        ("clients that left early", count(&|r| r.ending == Ending::ClientClosed && r.sent_bytes == 0)),
        ("refusals", count(&|r| r.status == Some(429))),
        ("overloads", count(&|r| r.status == Some(529))),
        ("cut streams", count(&|r| r.ending == Ending::Broken)),
        ("long prompts", count(&|r| r.usage.is_some_and(|usage| usage.total() > STEPPED.1))),
    ];
    assert!(records.len() >= 1000, "{} attempts", records.len());
    assert!(figures.iter().all(|(_, count)| *count >= 2), "{figures:?}");
    for account in ["a", "b", "key", "spare-key"] {
        assert!(count(&|r| r.account.as_deref() == Some(account)) > 100, "{account}");
    }
}

/// One answer whose prompt the cache served to this share, in hundredths.
fn cached(mark: usize, share: usize) -> Value {
    // A token is four characters; the prompt is 8,000 of them, of which so many are marked.
    let part = "word".repeat(80 * share);
    let rest = format!("{mark:08}").repeat(40 * (100 - share));
    let kept = json!({"type": "text", "text": part, "cache_control": {"type": "ephemeral", "ttl": "1h"}});
    let mut system = if share > 0 { vec![kept] } else { Vec::new() };
    system.push(json!({"type": "text", "text": rest}));
    json!({
        "model": "claude-opus-5-5", "max_tokens": 64, "system": system,
        "messages": [{"role": "user", "content": "[[say: x]]"}],
    })
}

async fn ask_cached(world: &World, times: usize, share: usize) {
    for mark in 0..times {
        let answer = got(world.post("/v1/messages").json(&cached(mark, share))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// The same share everywhere it is shown, and what the provider's log says of it.
async fn shares_agree(world: &World, since: usize) -> f64 {
    let records = world.messages();
    world.usage_of(records.len(), "").await;
    let hour = &records[since..];
    let read: u64 = hour.iter().map(|record| record.usage.unwrap().cache_read).sum();
    let prompt: u64 = hour.iter().map(|record| record.usage.unwrap().total()).sum();
    let share = read as f64 / prompt as f64;
    assert_eq!(world.usage("?since=1h").await["total"]["cache_efficiency"], json!(share));
    let pool = world.pool().await;
    let account = pool.providers[0].accounts[0].cache_efficiency;
    assert_eq!([pool.cache_efficiency, pool.providers[0].cache_efficiency, account], [Some(share); 3]);
    let text = world.client.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
    let shown = text.lines().find(|line| line.starts_with("duduclaw_cache_efficiency{scope=\"fleet\"")).unwrap();
    assert_eq!(shown.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap(), share);
    share
}

fn lows(world: &World) -> usize {
    let told = world.events.of("cache_efficiency_low");
    told.iter().filter(|event| event["kind"]["scope"] == "fleet").count()
}

#[tokio::test]
async fn a_cache_that_serves_little_is_told_once_and_again_only_after_it_served_well() {
    let world = World::with([AccountSpec::oauth("a")]).start().await;
    ask_cached(&world, 19, 0).await;
    world.usage_of(19, "").await;
    assert_eq!((lows(&world), world.pool().await.cache_efficiency), (0, None), "over 19 requests it says nothing");
    ask_cached(&world, 6, 0).await;
    assert_eq!(shares_agree(&world, 0).await, 0.0);
    world.events.wait_for("cache_efficiency_low").await;
    assert_eq!(lows(&world), 1);

    // Well, but not so well that it would be told again.
    world.advance(3660);
    ask_cached(&world, 30, 38).await;
    let share = shares_agree(&world, 25).await;
    assert!((0.30..0.40).contains(&share), "{share}");
    world.advance(3660);
    ask_cached(&world, 25, 0).await;
    shares_agree(&world, 55).await;
    assert_eq!(lows(&world), 1, "it was not above 0.40 in between");

    world.advance(3660);
    ask_cached(&world, 30, 60).await;
    let share = shares_agree(&world, 80).await;
    assert!(share > 0.40, "{share}");
    world.advance(3660);
    ask_cached(&world, 25, 0).await;
    shares_agree(&world, 110).await;
    eventually(|| (lows(&world) == 2).then_some(())).await;
    let told = world.events.of("cache_efficiency_low");
    let kept = got(world.control("GET", "/admin/api/activity?kind=cache_efficiency_low")).await.json();
    assert_eq!(kept["events"].as_array().unwrap().len(), told.len());
    assert_eq!(told.len(), 6, "the fleet, its provider, its account; twice each");
}
