//! Credentials in doubt are asked about by themselves: when, with what, and what each answer does.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use duduclaw::sim::{AccountChange, AccountSpec, Endpoint, Fault, FaultRule};
use duduclaw_actors::account::fact::Fact;
use duduclaw_actors::account::health::{Check, HealthEvent, Question};
use duduclaw_actors::clock::Clock;
use duduclaw_actors::id::{AccountId, Generation};
use duduclaw_actors::outcome::{Answered, CallKind, Evidence, Outcome, QuotaReading};

use crate::support::{PATIENCE, World, eventually};

const MINUTE: u64 = 60;

/// A Claude Code whose status says that it is logged in, and which writes down how it was run.
fn claude_that_is_logged_in(folder: &Path) {
    let script = format!(
        "#!/bin/sh\necho \"$* $CLAUDE_CONFIG_DIR [$(env | cut -d= -f1 | sort | tr '\\n' ' ')]\" >> '{}'\n\
         echo '{{\"loggedIn\": true, \"authMethod\": \"claude.ai\"}}'\n",
        folder.join("runs").display()
    );
    write_program(folder, &script);
}

fn write_program(folder: &Path, script: &str) {
    let program = folder.join("claude");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn refusal(account: &str, fault: Fault) -> [FaultRule; 2] {
    let rule = FaultRule::standing(account, fault);
    [rule.clone(), rule.on(Endpoint::Models)]
}

impl World {
    /// When an account was asked about, in milliseconds.
    fn asked(&self, account: &str) -> Vec<i64> {
        self.sim.hits(account, Endpoint::Models).iter().map(|record| record.at).collect()
    }

    fn id_of(&self, account: &str) -> AccountId {
        let roster = self.running.as_ref().unwrap().gateway.fleet.roster();
        roster.accounts.values().find(|spec| &*spec.entry.name == account).unwrap().id
    }

    /// In how many seconds an account is to be asked about next, if that has a time of its own.
    fn next_question(&self, account: &str) -> Option<u64> {
        let (now, fleet) = (self.clock.now(), &self.running.as_ref().unwrap().gateway.fleet);
        match fleet.health(self.id_of(account)).unwrap().question(now) {
            Question::At(at) => Some(at.remaining(now).as_secs()),
            Question::None | Question::EachRound => None,
        }
    }

    fn is_in_doubt(&self, account: &str) -> bool {
        let (now, fleet) = (self.clock.now(), &self.running.as_ref().unwrap().gateway.fleet);
        fleet.health(self.id_of(account)).unwrap().question(now) != Question::None
    }

    /// Lets round after round pass until it is so.
    async fn rounds_until(&self, so: impl Fn() -> bool) {
        let rounds = async {
            while !so() {
                self.advance(67);
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, rounds).await.expect("it comes to be so");
    }

    /// Waits until the answer to an account's question number `nth` has been taken in.
    async fn answered(&self, account: &str, nth: usize) {
        eventually(|| (self.asked(account).len() >= nth).then_some(())).await;
        eventually(|| self.next_question(account).is_none_or(|left| left > 0).then_some(())).await;
    }

    /// Lets the time for question after question pass until an account is well.
    pub async fn until_well(&self, account: &str) {
        let well = async {
            while self.account(account).await.state != "healthy" {
                self.advance(30 * MINUTE + 1);
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, well).await.expect("a question finds it well");
    }

    async fn tell(&self, account: &str, event: HealthEvent<'static>) {
        let fleet = &self.running.as_ref().unwrap().gateway.fleet;
        fleet.deliver(self.id_of(account), Fact::Told(event)).await.unwrap();
    }
}

#[tokio::test]
async fn an_organisations_refusal_is_asked_about_ever_less_often_until_it_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    claude_that_is_logged_in(folder.path());
    let path = folder.path().display().to_string();
    let world = World::with([AccountSpec::oauth("a")]).var("PATH", &path).start().await;
    refusal("a", Fault::OrgDisabled).into_iter().for_each(|rule| world.sim.fault(rule));
    world.turn("s", false).await;
    world.until_state("a", "auth_dead").await;
    assert_eq!(world.hits("a"), 1, "it goes out on the first refusal");
    let mut last = world.messages()[0].at;
    for (nth, minutes) in [1, 2, 4, 8, 16, 30, 30].into_iter().enumerate() {
        world.advance(minutes * MINUTE - 2);
        let shown = world.account("a").await;
        assert_eq!((shown.state.as_str(), shown.on_trial), ("auth_dead", false), "before question {nth}");
        assert_ne!(world.turn("s", false).await.status, 200);
        world.advance(2);
        world.answered("a", nth + 1).await;
        let at = world.asked("a")[nth];
        let waited = u64::try_from(at - last).unwrap();
        let expected = minutes * MINUTE * 1000;
        assert!((expected..expected + 2500).contains(&waited), "question {nth} came after {waited} ms");
        last = at;
        assert_eq!(world.account("a").await.state, "auth_dead", "after question {nth}");
    }
    assert_eq!(world.asked("a").len(), 7);
    assert_eq!(world.hits("a"), 1, "no request was tried on it meanwhile");
    assert!(!folder.path().join("runs").exists(), "what the CLI believes is not asked for");

    world.sim.clear_faults(None);
    world.advance(30 * MINUTE - 2);
    assert_eq!(world.account("a").await.state, "auth_dead", "it waits for its question");
    world.advance(2);
    world.until_state("a", "healthy").await;
    world.turn("s", false).await.served_by("a");
    let ended = world.events.of("hold_ended");
    assert_eq!(ended.last().unwrap()["kind"]["by"], "probe");
    assert_eq!(world.events.of("trial_began").len(), 0);
}

/// A new refusal on live traffic begins the waits anew.
#[tokio::test]
async fn a_refusal_after_a_revival_is_asked_about_from_the_start() {
    let world = World::with([AccountSpec::setup_token("a")]).start().await;
    refusal("a", Fault::Unauthorized).into_iter().for_each(|rule| world.sim.fault(rule));
    world.turn("s", false).await;
    for (nth, minutes) in [1, 2, 4].into_iter().enumerate() {
        world.advance(minutes * MINUTE + 1);
        world.answered("a", nth + 1).await;
    }
    world.sim.clear_faults(None);
    world.advance(8 * MINUTE + 1);
    world.until_state("a", "healthy").await;
    refusal("a", Fault::Unauthorized).into_iter().for_each(|rule| world.sim.fault(rule));
    world.turn("s", false).await;
    world.until_state("a", "auth_dead").await;
    assert!(world.next_question("a").is_some_and(|left| (58..=60).contains(&left)), "{:?}", world.next_question("a"));
}

/// Each row of the table, on an account that was refused: state, and in how many seconds it is asked again.
#[tokio::test]
async fn each_answer_has_its_own_effect_and_no_other() {
    let html =
        || Fault::Status { status: 200, headers: Vec::new(), body: "<html>welcome to our hotel</html>".to_owned() };
    let status = |status| Fault::Status { status, headers: Vec::new(), body: "{}".to_owned() };
    let trickle = || Fault::Split { sizes: vec![1], pause_millis: 60_000 };
    let soon = 40..=66;
    let rows: [(&str, Option<Fault>, &str, std::ops::RangeInclusive<u64>); 12] = [
        ("200", None, "healthy", 0..=0),
        ("401", Some(Fault::Unauthorized), "auth_dead", 118..=120),
        ("403", Some(Fault::OrgDisabled), "auth_dead", 118..=120),
        ("404", Some(status(404)), "auth_dead", soon.clone()),
        ("429", Some(Fault::ThrottleUnstated), "auth_dead", soon.clone()),
        ("500", Some(Fault::ServerError), "auth_dead", soon.clone()),
        ("529", Some(Fault::Overloaded { retry_after: None }), "auth_dead", soon.clone()),
        ("network", Some(Fault::ResetBeforeHead), "auth_dead", soon.clone()),
        ("blank", Some(Fault::RefuseConnection), "auth_dead", soon.clone()),
        ("garbage", Some(html()), "auth_dead", soon.clone()),
        ("time-out", Some(Fault::StallBeforeHead), "auth_dead", 30..=66),
        ("slow trickle", Some(trickle()), "auth_dead", 30..=66),
    ];
    let all = rows.map(|(name, fault, state, next)| async move {
        let world = World::with([AccountSpec::setup_token("a")]).start().await;
        world.sim.fault(FaultRule::next("a", 1, Fault::OrgDisabled));
        // What it is held for beside the refusal is nothing that a question ends.
        world.sim.fault(FaultRule::next("a", 1, Fault::Quota5h { resets_in: Some(100_000) }));
        world.turn("s", false).await;
        world.until_state("a", "auth_dead").await;
        let faults = fault.into_iter().map(|fault| FaultRule::standing("a", fault).on(Endpoint::Models));
        faults.for_each(|rule| world.sim.fault(rule));
        world.advance(MINUTE + 1);
        eventually(|| (!world.asked("a").is_empty()).then_some(())).await;
        if ["time-out", "slow trickle"].contains(&name) {
            world.advance(11);
        }
        world.answered("a", 1).await;
        assert_eq!(world.account("a").await.state, state, "{name}");
        let left = world.next_question("a").unwrap_or_default();
        assert!(next.contains(&left), "{name}: asked again in {left} s");
        assert_eq!(world.asked("a").len(), 1, "{name}");
    });
    futures_util::future::join_all(all).await;
}

/// A credential that is known to the provider says nothing of quota or money.
#[tokio::test]
async fn a_valid_answer_frees_no_quota_and_no_budget() {
    let world = World::with([AccountSpec::setup_token("a"), AccountSpec::setup_token("b")]).start().await;
    for (account, outcome, after) in [
        ("a", Outcome::Throttled { wait: Some(std::time::Duration::from_secs(9000)) }, "rate_limited"),
        ("b", Outcome::BalanceEmpty, "budget_exhausted"),
    ] {
        let gateway = &world.running.as_ref().unwrap().gateway;
        for outcome in [outcome, Outcome::OrgRefused] {
            let evidence = answered(outcome, &world, Generation(0));
            gateway.fleet.deliver(world.id_of(account), Fact::Answered(evidence)).await.unwrap();
        }
        world.until_state(account, "auth_dead").await;
        world.advance(MINUTE + 1);
        world.until_state(account, after).await;
        assert_eq!(world.next_question(account), None);
    }
}

fn answered(outcome: Outcome, world: &World, generation: Generation) -> std::sync::Arc<Answered> {
    let now = world.clock.now();
    std::sync::Arc::new(Answered {
        lease: duduclaw_actors::id::LeaseId(u64::MAX),
        call: CallKind::Inference,
        scope: duduclaw_actors::id::ModelScope::Base,
        generation,
        sent_at: now,
        answered_at: now,
        outcome,
        quota: QuotaReading::default(),
        evidence: Evidence::default(),
    })
}

/// The hold's time is over and the provider says nothing: the account is tried, which proves nothing; serving does.
#[tokio::test]
async fn a_trial_is_no_recovery_and_a_served_request_is() {
    let world = World::with([AccountSpec::setup_token("a"), AccountSpec::setup_token("b")]).start().await;
    for name in ["a", "b"] {
        world.sim.fault(FaultRule::next(name, 1, Fault::Unauthorized));
        world.sim.fault(FaultRule::standing(name, Fault::ServerError).on(Endpoint::Models));
    }
    world.turn("s", false).await;
    world.events.wait_for("outage_began").await;
    world.advance(14 * MINUTE);
    for name in ["a", "b"] {
        world.answered(name, 1).await;
        assert_eq!(world.account(name).await.state, "auth_dead", "its hold has a minute to go");
    }
    world.advance(2 * MINUTE);
    eventually(|| (world.events.of("trial_began").len() == 2).then_some(())).await;
    assert!(world.account("a").await.on_trial);
    assert_eq!(world.events.of("outage_ended").len(), 0);
    assert_eq!(world.turn("s", false).await.status, 200);
    world.events.wait_for("outage_ended").await;
    assert_eq!((world.events.of("outage_began").len(), world.events.of("outage_ended").len()), (1, 1));
}

#[tokio::test]
async fn a_question_that_is_accepted_ends_an_outage_without_any_request() {
    let world = World::with([AccountSpec::setup_token("a"), AccountSpec::setup_token("b")]).start().await;
    for rule in ["a", "b"].map(|name| refusal(name, Fault::OrgDisabled)).concat() {
        world.sim.fault(rule);
    }
    world.turn("s", false).await;
    world.events.wait_for("outage_began").await;
    world.advance(MINUTE + 1);
    world.answered("a", 1).await;
    world.answered("b", 1).await;
    assert_eq!(world.events.of("outage_ended").len(), 0);
    world.sim.clear_faults(Some("b"));
    world.advance(2 * MINUTE + 1);
    world.until_state("b", "healthy").await;
    let ended = world.events.wait_for("outage_ended").await;
    assert_eq!(ended["account"]["name"], "b");
    assert_eq!(world.account("a").await.state, "auth_dead");
    world.turn("t", false).await.served_by("b");
}

/// A credential that could not be checked when it was saved serves, and is asked about with the next rounds.
#[tokio::test]
async fn an_unchecked_credential_is_asked_about_with_each_round_until_something_is_learnt() {
    let world = World::with([AccountSpec::oauth("a")]).start().await;
    // The login that is told of here is the one that the first question renews.
    world.tell("a", HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Undecided }).await;
    world.sim.change("a", &AccountChange { expire_tokens: true, ..AccountChange::default() }).unwrap();
    world.sim.fault(FaultRule::standing("a", Fault::ServerError).on(Endpoint::Models));
    assert!(world.account("a").await.unverified);
    for times in 1..=3 {
        world.rounds_until(|| world.asked("a").len() >= times).await;
        let shown = world.account("a").await;
        assert!(shown.unverified && shown.available, "{shown:?}");
    }
    let at = world.asked("a");
    assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= 53_000), "once a round: {at:?}");
    world.sim.clear_faults(None);
    world.rounds_until(|| !world.is_in_doubt("a")).await;
    assert!(!world.account("a").await.unverified);
    world.turn("s", false).await.served_by("a");
    let before = world.asked("a").len();
    for _ in 0..5 {
        world.advance(67);
        world.account("a").await;
    }
    assert_eq!(world.asked("a").len(), before, "what is in no doubt is not asked about");
}

fn with_keychain(path: &Path) -> crate::support::WorldBuilder {
    let text = "[server]\nbind = \"127.0.0.1:0\"\n\
        [providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{sim}\"\nauth = \"claude_oauth\"\n\
        [[providers.anthropic.accounts]]\nname = \"a\"\ncredentials = \"{creds}/a.json\"\n\
        [[providers.anthropic.accounts]]\nname = \"host\"\nkeychain = true\nconfig_dir = \"/tmp/of-the-host\"\n";
    let world =
        World::with([AccountSpec::oauth("a")]).config(text).var("PATH", &format!("{}:/usr/bin:/bin", path.display()));
    world.var("ANTHROPIC_API_KEY", "canary").var("CLAUDE_CODE_OAUTH_TOKEN", "canary")
}

/// A CLI's own login is asked for by its status command, which knows of no refusal.
#[tokio::test]
async fn a_keychain_login_is_asked_for_by_its_cli_which_ends_no_refusal() {
    let folder = tempfile::tempdir().unwrap();
    claude_that_is_logged_in(folder.path());
    let world = with_keychain(folder.path()).start().await;
    let unchecked = || HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Undecided };
    world.tell("host", unchecked()).await;
    assert!(world.account("host").await.unverified);
    world.advance(67);
    world.until("host", |shown| !shown.unverified).await;
    let runs = || std::fs::read_to_string(folder.path().join("runs")).unwrap_or_default();
    assert!(runs().starts_with("auth status --json /tmp/of-the-host ["), "{}", runs());
    assert!(!runs().contains("ANTHROPIC_API_KEY") && !runs().contains("OAUTH_TOKEN"), "{}", runs());

    let before = runs();
    let gateway = &world.running.as_ref().unwrap().gateway;
    let refused = answered(Outcome::OrgRefused, &world, Generation(1));
    gateway.fleet.deliver(world.id_of("host"), Fact::Answered(refused)).await.unwrap();
    for _ in 0..10 {
        world.advance(67);
        assert_eq!(world.account("host").await.state, "auth_dead");
    }
    assert_eq!(runs(), before, "nobody is asked who could not know");
    world.advance(5 * MINUTE);
    eventually(|| (world.events.of("trial_began").len() == 1).then_some(())).await;
}

#[tokio::test]
async fn a_cli_that_hangs_or_has_no_login_or_says_nonsense_teaches_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for script in ["exec sleep 1000", "echo '{\"loggedIn\": false}'; exit 1", "echo nonsense"] {
        let mark = folder.path().join("mark");
        let _ = std::fs::remove_file(&mark);
        write_program(folder.path(), &format!("#!/bin/sh\necho x >> '{}'\n{script}\n", mark.display()));
        let world = with_keychain(folder.path()).start().await;
        world.tell("host", HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Undecided }).await;
        let runs = || std::fs::read_to_string(&mark).unwrap_or_default().len() / 2;
        for times in 1..=2 {
            world.rounds_until(|| runs() >= times).await;
        }
        assert!(world.account("host").await.unverified, "{script}");
    }
}
