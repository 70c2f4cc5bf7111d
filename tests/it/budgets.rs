//! What may be spent in a month: by an account, and by a client.

use chrono::DateTime;
use duduclaw::admin::SpendView;
use duduclaw::gateway::fields::estimate::input_tokens;
use duduclaw::sim::{AccountSpec, Ending, Fault, FaultRule, Record};
use duduclaw_actors::billing::BillingCycle;
use duduclaw_actors::clock::Clock;
use duduclaw_actors::event::Severity;
use duduclaw_actors::ports::Table;
use serde_json::{Value, json};

use crate::seen::{Got, events_of, got};
use crate::support::{World, WorldBuilder, eventually};

/// Input a tenth of a cent a token, output five times as much.
const PRICES: &str = "[[prices]]\nmodel = \"claude-opus-5-5\"\ninput = 1000.0\noutput = 5000.0\n";
const CLIENTS: &str = "[[server.auth.clients]]\nname = \"laptop\"\ntoken_env = \"LAPTOP\"\n";

/// A world with a metered key, of these prices.
fn keyed() -> WorldBuilder {
    World::with([AccountSpec::api_key("key")]).tables(PRICES)
}

/// The same for the client `laptop` with these limits, and another without any.
fn limited(limits: &str) -> WorldBuilder {
    let other = "[[server.auth.clients]]\nname = \"other\"\ntoken_env = \"OTHER\"\n";
    keyed().tables(&format!("{CLIENTS}{limits}\n{other}")).var("LAPTOP", "laptops-token").var("OTHER", "others-token")
}

fn body(prompt: &str, max_tokens: u64, stream: bool) -> Value {
    json!({
        "model": "claude-opus-5-5", "max_tokens": max_tokens, "stream": stream,
        "messages": [{"role": "user", "content": prompt}],
    })
}

/// What a request is expected to cost, in dollars.
fn expected(body: &Value, max_tokens: u64) -> f64 {
    let input = input_tokens(&serde_json::to_vec(body).unwrap());
    (input + 5 * max_tokens.min(4096)) as f64 / 1000.0
}

/// What the provider charges for a request that came to its end.
fn charged(record: &Record) -> f64 {
    let input = record.usage.map_or(0, |usage| usage.input);
    (input + 5 * record.output_tokens) as f64 / 1000.0
}

fn near(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-9
}

impl World {
    async fn spend(&self, account: &str) -> SpendView {
        self.account(account).await.spend
    }

    /// Waits until nothing is set aside any more.
    async fn settled(&self, account: &str) -> f64 {
        let mut spend = self.spend(account).await;
        while spend.reserved != Some(0.0) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            spend = self.spend(account).await;
        }
        spend.month.unwrap()
    }

    async fn as_client(&self, token: &str, body: &Value) -> Got {
        got(self.post("/v1/messages").header("x-duduclaw-token", token).json(body)).await
    }

    fn month(&self, zone: &str) -> duduclaw_actors::billing::Month {
        BillingCycle::new(zone, 1).unwrap().month(self.clock.now().wall)
    }
}

/// The refusal's text, after its form was looked at.
fn refusal(got: &Got) -> String {
    assert_eq!(got.status, 429, "{}", got.text());
    let body: Value = serde_json::from_slice(&got.body).unwrap();
    assert_eq!(body["error"]["type"], "rate_limit_error");
    body["error"]["message"].as_str().unwrap().to_owned()
}

/// C85, thirty times as wide: what is set aside counts before a byte was sent.
#[tokio::test]
async fn of_a_hundred_requests_at_once_those_go_that_the_budget_fits() {
    let body = body("[[pause: 1500]] [[words: 40]]", 100, true);
    let each = expected(&body, 100);
    let cap = each * 30.5;
    let world = keyed().account("key", &format!("monthly_budget_usd = {cap}")).start().await;
    let asked = (0..100).map(|_| got(world.post("/v1/messages").json(&body)));
    let answers = futures_util::future::join_all(asked).await;
    let served = answers.iter().filter(|got| got.status == 200).count();
    assert_eq!((served, world.hits("key")), (30, 30));
    for refused in answers.iter().filter(|got| got.status != 200) {
        assert!(refusal(refused).contains("too little of its budget left until"), "{}", refused.text());
    }
    let spent = world.settled("key").await;
    let charges: f64 = world.messages().iter().map(charged).sum();
    assert!(near(spent, charges), "{spent} {charges}");
    let errors: f64 = world.messages().iter().map(|record| (charged(record) - each).max(0.0)).sum();
    assert!(spent <= cap + errors, "{spent} of {cap}");
    assert_eq!(world.spend("key").await.cap, Some((cap * 1e6).round() / 1e6));
}

#[tokio::test]
async fn a_client_above_its_budget_is_told_which_and_until_when_and_nobody_is_asked() {
    let ask = body("[[words: 100]]", 256, false);
    let world = limited(&format!("monthly_budget_usd = {}", expected(&ask, 256) * 1.2)).start().await;
    assert_eq!(world.as_client("laptops-token", &ask).await.status, 200);
    world.settled("key").await;
    let refused = world.as_client("laptops-token", &ask).await;
    let text = refusal(&refused);
    let month = world.month("UTC");
    let reset = DateTime::from_timestamp(month.ends.as_secs(), 0).unwrap().format("%Y-%m-%d 00:00:00 UTC");
    let start = "the client \"laptop\" has $";
    assert!(text.starts_with(start) && text.ends_with(&format!("begins anew at {reset}")), "{text}");
    let wait = refused.retry_after().unwrap();
    assert!(wait.abs_diff(u64::try_from(month.ends.as_secs() - world.now()).unwrap()) <= 2, "{wait}");
    assert_eq!(refused.header("x-duduclaw-account"), None);
    assert_eq!(world.hits("key"), 1);
    let told = world.events.wait_for("budget_refused").await;
    assert_eq!((&told["kind"]["client"], &told["severity"]), (&json!("laptop"), &json!("warning")), "{told}");
    assert!(told["kind"]["until"].as_str().unwrap().ends_with("-01T00:00:00.000Z"), "{told}");
    let last = world.events.all().into_iter().rfind(|event| event.severity == Severity::Warning).unwrap();
    assert_eq!(last.summary(), format!("A request was refused: {text}."));
    assert!(world.events.of("pool_exhausted").is_empty(), "the fleet is well");
    assert_eq!(world.as_client("others-token", &ask).await.status, 200, "another client has no limit");
}

#[tokio::test]
async fn where_a_subscription_serves_a_spent_budget_costs_nobody_anything() {
    let ask = body("[[words: 100]]", 256, false);
    let world = World::with([AccountSpec::api_key("key"), AccountSpec::oauth("max")])
        .provider("strategy = \"failover\"")
        .tables(&format!("{PRICES}{CLIENTS}monthly_budget_usd = 0.0"))
        .var("LAPTOP", "laptops-token")
        .start()
        .await;
    let answer = world.as_client("laptops-token", &ask).await;
    answer.served_by("max");
    assert_eq!(world.settled("max").await, 0.0);
}

#[tokio::test]
async fn a_request_is_counted_once_however_many_attempts_it_takes() {
    let world = World::with([AccountSpec::oauth("a"), AccountSpec::oauth("b")])
        .provider("strategy = \"failover\"")
        .tables(&format!("{CLIENTS}monthly_requests = 1"))
        .var("LAPTOP", "laptops-token")
        .start()
        .await;
    world.sim.fault(FaultRule::next("a", 1, Fault::Overloaded { retry_after: None }));
    let ask = body("[[say: hi]]", 256, false);
    world.as_client("laptops-token", &ask).await.served_by("b");
    let before = world.messages().len();
    assert_eq!(before, 2, "an attempt failed");
    let refused = world.as_client("laptops-token", &ask).await;
    let text = refusal(&refused);
    assert!(text.starts_with("the client \"laptop\" has made its 1 request of this month"), "{text}");
    assert_eq!(world.messages().len(), before);
    let count = world.post("/v1/messages/count_tokens").header("x-duduclaw-token", "laptops-token").json(&ask);
    assert_eq!(got(count).await.status, 200, "counting tokens is no request");
}

/// What was delivered of an answer before it broke off: dollars, by the characters of its text.
fn delivered(got: &Got, record: &Record) -> f64 {
    let text = events_of(&got.body).into_iter().filter(|(name, _)| name == "content_block_delta");
    let characters: usize = text.map(|(_, data)| data["delta"]["text"].as_str().unwrap().chars().count()).sum();
    let tokens = u64::try_from(characters).unwrap().div_ceil(4);
    assert!(tokens > 10, "some of it was delivered");
    (record.usage.unwrap().input + 5 * tokens) as f64 / 1000.0
}

#[tokio::test]
async fn an_answer_that_breaks_off_costs_what_was_delivered_of_it() {
    for fault in [Fault::CutAfter { events: 20 }, Fault::ErrorEventAfter { events: 20, kind: "api_error".to_owned() }] {
        let world = keyed().start().await;
        world.sim.fault(FaultRule::next("key", 1, fault));
        let answer = got(world.post("/v1/messages").json(&body("[[words: 300]]", 4096, true))).await;
        let spent = world.settled("key").await;
        let cost = delivered(&answer, &world.messages()[0]);
        assert!(near(spent, cost), "{spent} {cost}");
    }
}

#[tokio::test]
async fn an_answer_whose_client_leaves_costs_what_passed_by() {
    let world = keyed().start().await;
    let asked = world.post("/v1/messages").json(&body("[[pace: 40]] [[words: 300]]", 4096, true));
    let mut answer = asked.send().await.unwrap();
    let (mut read, status, headers) = (Vec::new(), answer.status(), answer.headers().clone());
    while String::from_utf8_lossy(&read).matches("event: content_block_delta").count() < 12 {
        read.extend_from_slice(&answer.chunk().await.unwrap().expect("it goes on"));
    }
    drop(answer);
    let spent = world.settled("key").await;
    let record = world.messages().remove(0);
    assert_eq!(record.ending, Ending::ClientClosed);
    let least = delivered(&Got { status, headers, body: read.into(), whole: false }, &record);
    // One delta of 24 characters may have been on its way.
    assert!(spent >= least - 1e-9 && spent <= least + 0.031, "{spent} {least}");
}

#[tokio::test]
async fn an_attempt_whose_client_leaves_before_it_is_answered_is_settled_without_a_cost() {
    let world = keyed().start().await;
    world.sim.fault(FaultRule::next("key", 1, Fault::StallBeforeHead));
    let asked = tokio::spawn(world.post("/v1/messages").json(&body("[[say: hi]]", 256, true)).send());
    eventually(|| world.messages().pop()).await;
    asked.abort();
    let settled = world.events.wait_for("attempt_settled").await;
    let told = |key: &str| settled["kind"][key].clone();
    assert_eq!((told("end"), told("figures"), told("cost")), (json!("client_gone"), json!("estimated"), json!(0.0)));
    nothing_is_set_aside(&world).await;
}

async fn nothing_is_set_aside(world: &World) {
    world.settled("key").await;
    let journal = &world.running.as_ref().unwrap().gateway.fleet.journal;
    assert_eq!(journal.load(Table::Reservations).await.unwrap(), []);
}

#[tokio::test]
async fn a_stream_that_passes_what_was_set_aside_is_not_cut_and_sets_more_aside() {
    let prompt = body("[[pace: 5]] [[words: 200]] [[pause: 2000]]", 256, true);
    let short = body("[[say: hi]]", 256, true);
    let world = keyed().account("key", "monthly_budget_usd = 1000.0").start().await;
    // The mean of twenty short answers is what the next is expected to be.
    for _ in 0..20 {
        assert_eq!(got(world.post("/v1/messages").json(&short)).await.status, 200);
    }
    let before = world.settled("key").await;
    let asked = tokio::spawn(got(world.post("/v1/messages").json(&prompt)));
    let reserved = || async { world.spend("key").await.reserved.unwrap() };
    let first = loop {
        let reserved = reserved().await;
        if reserved > 0.0 {
            break reserved;
        }
    };
    assert!(first < 0.2, "{first}: as the twenty before");
    let mut most: f64 = first;
    while !asked.is_finished() {
        most = most.max(reserved().await);
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let answer = asked.await.unwrap();
    assert!(answer.whole && answer.text().contains("message_stop"));
    let cost = world.settled("key").await - before;
    assert!(cost > 1.0 && most >= cost, "{most} was set aside for {cost}");
}

#[tokio::test]
async fn an_account_at_its_cap_rests_until_the_month_ends_or_the_cap_is_raised() {
    let ask = body("[[words: 100]]", 256, false);
    let world = keyed().account("key", "monthly_budget_usd = 1.7").start().await;
    while got(world.post("/v1/messages").json(&ask)).await.status == 200 {
        world.settled("key").await;
    }
    let hits = world.hits("key");
    world.rewrite(|text| text.replace("monthly_budget_usd = 1.7", "monthly_budget_usd = 0.1"));
    world.reload().await;
    world.until_state("key", "budget_exhausted").await;
    assert!(refusal(&got(world.post("/v1/messages").json(&ask)).await).contains("key"));
    assert_eq!(world.hits("key"), hits);
    world.rewrite(|text| text.replace("monthly_budget_usd = 0.1", "monthly_budget_usd = 100.0"));
    world.reload().await;
    world.until_state("key", "healthy").await;
    assert_eq!(got(world.post("/v1/messages").json(&ask)).await.status, 200);
}

/// C87: the month ends at midnight of its zone, and not a moment later.
#[tokio::test]
async fn a_month_begins_at_midnight_of_the_billing_zone() {
    let world = limited("monthly_requests = 1").tables("[billing]\ntimezone = \"Asia/Shanghai\"").start().await;
    let ask = body("[[say: hi]]", 256, false);
    assert_eq!(world.as_client("laptops-token", &ask).await.status, 200);
    let ends = world.month("Asia/Shanghai").ends;
    assert_eq!(ends.as_secs().rem_euclid(86_400), 16 * 3600, "midnight there is 16:00 UTC");
    world.advance(u64::try_from(ends.as_secs() - world.now() - 5).unwrap());
    let refused = world.as_client("laptops-token", &ask).await;
    assert_eq!(refused.status, 429);
    assert!(refused.retry_after().unwrap() <= 5, "{:?}", refused.retry_after());
    world.advance(6);
    assert_eq!(world.as_client("laptops-token", &ask).await.status, 200);
    assert_eq!(world.as_client("laptops-token", &ask).await.status, 429, "one in the new month, too");
}

#[tokio::test]
async fn what_was_spent_is_known_after_a_restart() {
    let mut world = limited("monthly_requests = 2").account("key", "monthly_budget_usd = 50.0").start().await;
    let ask = body("[[words: 50]]", 256, false);
    assert_eq!(world.as_client("laptops-token", &ask).await.status, 200);
    let spent = world.settled("key").await;
    world.restart().await;
    assert!(near(world.spend("key").await.month.unwrap(), spent));
    assert_eq!(world.as_client("laptops-token", &ask).await.status, 200);
    assert_eq!(world.as_client("laptops-token", &ask).await.status, 429);
}

/// A stream that an orderly stop ends is paid for by the run that began it.
#[tokio::test]
async fn an_answer_that_a_stop_ends_is_settled_before_it() {
    let mut world = keyed().tables("[server.limits]").server("shutdown_timeout_seconds = 1").start().await;
    let asked = world.post("/v1/messages").json(&body("[[words: 60]] [[pause: 60000]]", 256, true));
    let mut answer = asked.send().await.unwrap();
    let mut read = String::new();
    while read.matches("event: content_block_delta").count() < 5 {
        read.push_str(&String::from_utf8_lossy(&answer.chunk().await.unwrap().expect("it goes on")));
    }
    world.restart().await;
    let spend = world.spend("key").await;
    let least = world.messages()[0].usage.unwrap().input as f64 / 1000.0;
    assert!(spend.month.unwrap() > least && spend.reserved == Some(0.0), "{spend:?}");
}

/// Who has a budget must be understood: a body that cannot be read may cost anything.
#[tokio::test]
async fn a_client_with_a_budget_must_send_what_can_be_read() {
    let world = limited("monthly_budget_usd = 5.0").start().await;
    let odd = world.post("/v1/messages").header("x-duduclaw-token", "laptops-token").body("{\"model\":");
    assert_eq!(got(odd).await.status, 400);
    let other = world.client.get(format!("{}/v1/files", world.url)).header("x-duduclaw-token", "laptops-token");
    assert_eq!(got(other).await.status, 403);
    assert!(world.sim.log().is_empty());
}

/// Twenty in flight at once, of which some fail, some are refused and some are left: in the end nothing is set aside.
#[tokio::test]
async fn whatever_becomes_of_requests_nothing_stays_set_aside() {
    let world = World::with([AccountSpec::api_key("key"), AccountSpec::api_key("other")])
        .tables(&format!("[server.timeouts]\nupstream_ttfb = \"2s\"\n{PRICES}"))
        .start()
        .await;
    for (account, fault) in [
        ("key", Fault::ServerError),
        ("other", Fault::ResetBeforeHead),
        ("key", Fault::Unauthorized),
        ("other", Fault::TooLong),
        ("key", Fault::FirstEventError { kind: "overloaded_error".to_owned() }),
        ("other", Fault::Blank),
        ("key", Fault::StallBeforeHead),
    ] {
        world.sim.fault(FaultRule::next(account, 1, fault));
    }
    let asked: Vec<_> =
        (0..20).map(|n| tokio::spawn(got(world.ask(&format!("s{n}"), "[[pace: 3]] [[words: 40]]", true)))).collect();
    eventually(|| (world.messages().len() >= 20).then_some(())).await;
    for (n, asked) in asked.into_iter().enumerate() {
        if n % 4 == 0 {
            asked.abort();
        } else {
            let _ = tokio::time::timeout(std::time::Duration::from_secs(5), asked).await;
        }
    }
    world.settled("other").await;
    nothing_is_set_aside(&world).await;
    crate::storm::calm(&world).await;
}
