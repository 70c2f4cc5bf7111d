//! What must hold after each kill.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use duduclaw::admin::{PoolAccount, PoolView};
use duduclaw::sim::{Endpoint, Fault, FaultRule};
use rusqlite::Connection;
use tokio::time::{Instant, sleep};

use crate::clients::{Served, request};
use crate::operators::Operators;
use crate::stage::{DEAD, METERED, POOR, SERVING, Stage, TOGGLED, database};

/// The conversation whose place is looked at.
const ANCHOR: &str = "anchor";
/// While this lasts the refused credential's account is out.
const OUT: Duration = Duration::from_secs(14 * 60);

pub(crate) struct Judge {
    stage: Arc<Stage>,
    began: Instant,
    /// What was left of the empty balance's hold at the beginning.
    left: u64,
    /// Where the conversation is at home.
    home: String,
    /// The largest number of an event so far.
    last_event: i64,
}

impl Judge {
    pub(crate) fn new(stage: Arc<Stage>) -> Self {
        Self { stage, began: Instant::now(), left: 0, home: String::new(), last_event: 0 }
    }

    /// Brings about what is to last: a hold, a strike, figures, a conversation.
    pub(crate) async fn establish(&mut self) {
        self.stage.sim.fault(FaultRule::standing(POOR, Fault::BalanceEmpty));
        self.stage.sim.fault(FaultRule::standing(DEAD, Fault::Unauthorized));
        self.stage.sim.fault(FaultRule::standing(DEAD, Fault::Unauthorized).on(Endpoint::Models));
        let mut daemon = self.stage.spawn();
        self.stage.until_ready(&mut daemon).await;
        for nth in 0..400 {
            let _ = request(&self.stage, &format!("warm-{nth}"), false).send().await.unwrap().bytes().await;
            let pool = self.accounts().await;
            let seen = SERVING.iter().all(|name| has_figures(&pool[*name]));
            if seen && pool[POOR].cause.as_deref() == Some("balance") && pool[DEAD].state == "auth_dead" {
                break;
            }
        }
        for nth in 0.. {
            let session = format!("{ANCHOR}-{nth}");
            let answer = request(&self.stage, &session, false).send().await.unwrap();
            let account = answer.headers()["x-duduclaw-account"].to_str().unwrap().to_owned();
            if SERVING.contains(&&*account) {
                self.home = session;
                break;
            }
        }
        self.left = self.accounts().await[POOR].cooldown_secs_remaining;
        self.began = Instant::now();
        assert!(self.left > 23 * 3600, "the balance's hold lasts a day: {}", self.left);
        // Everything of before is kept within a second.
        sleep(Duration::from_millis(1500)).await;
        daemon.kill().await;
    }

    /// Asks the daemon, which has just become ready.
    pub(crate) async fn hears(&mut self, operators: &Operators) {
        let pool = self.accounts().await;
        for (at, name) in TOGGLED.into_iter().enumerate() {
            operators.judge(at, pool[name].paused).unwrap_or_else(|lost| panic!("lost: {lost}"));
        }
        let passed = self.began.elapsed();
        let poor = &pool[POOR];
        let expected = self.left.saturating_sub(passed.as_secs());
        assert_eq!(poor.cause.as_deref(), Some("balance"), "{poor:?}");
        assert!(poor.cooldown_secs_remaining.abs_diff(expected) <= 3, "{expected} s were left: {poor:?}");
        if passed < OUT {
            assert_eq!(pool[DEAD].state, "auth_dead", "{:?}", pool[DEAD]);
        }
        for name in SERVING {
            assert!(has_figures(&pool[name]), "{:?}", pool[name]);
        }
        self.anchor_holds().await;
    }

    async fn anchor_holds(&self) {
        let answer = request(&self.stage, &self.home, false).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let moved = answer.headers().get("x-duduclaw-session-moved");
        assert!(moved.is_none(), "the conversation moved: {moved:?}");
        let account = answer.headers()["x-duduclaw-account"].to_str().unwrap();
        assert!(SERVING.contains(&account), "the conversation is with {account} now");
    }

    async fn accounts(&self) -> BTreeMap<String, PoolAccount> {
        let url = format!("{}/admin/api/pool", self.stage.url);
        let answer = self.stage.client.get(url).bearer_auth(self.stage.key()).send().await.unwrap();
        let pool: PoolView = answer.json().await.unwrap();
        let accounts = pool.providers.into_iter().flat_map(|provider| provider.accounts);
        accounts.map(|account| (account.name.clone(), account)).collect()
    }

    /// Opens a copy of what the kill left, as a power cut would leave it to the next start.
    pub(crate) fn opens_the_database(&mut self, kill: u64) {
        let home = self.stage.home.path();
        let aside: Vec<_> = std::fs::read_dir(home)
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .filter(|name| name.contains(".corrupt-") || name.contains(".newer-"))
            .collect();
        assert_eq!(aside, [""; 0], "kill {kill}");
        let copy = tempfile::tempdir().unwrap();
        for part in ["", "-wal"] {
            let from = format!("{}{part}", database(home).display());
            if std::fs::exists(&from).unwrap() {
                std::fs::copy(&from, format!("{}{part}", database(copy.path()).display())).unwrap();
            }
        }
        let found = Connection::open(database(copy.path())).unwrap();
        let sound: String = found.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok", "kill {kill}");
        let last: i64 = found.query_row("SELECT COALESCE(MAX(seq), 0) FROM events", [], |row| row.get(0)).unwrap();
        assert!(last >= self.last_event, "kill {kill}: event {} is gone, {last} is the last", self.last_event);
        self.last_event = last;
        nothing_counts_twice(&found);
    }

    /// What the clients say of it all.
    pub(crate) fn sums_up(&self, served: &Served) {
        let refused = served.refused.lock().unwrap();
        assert!(
            refused.is_empty(),
            "{} of {} were refused: {:?}",
            refused.len(),
            served.whole.load(Ordering::Relaxed),
            &refused[..refused.len().min(3)]
        );
        let found = Connection::open(database(self.stage.home.path())).unwrap();
        let paid = "SELECT SUM(cost) FROM usage WHERE account = $1";
        let paid = found.query_row(paid, [METERED], |row| row.get::<_, Option<i64>>(0)).unwrap();
        assert!(paid > Some(0), "something was paid for: {paid:?}");
        let mut rows = found.prepare("SELECT request_id, COUNT(*) FROM usage GROUP BY request_id").unwrap();
        let rows = rows.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?))).unwrap();
        let attempts = served.attempts.lock().unwrap();
        for (request, rows) in rows.map(Result::unwrap) {
            let most = attempts.get(&request).copied().unwrap_or(u32::MAX);
            assert!(rows <= most, "request {request} took {most} attempts and has {rows} rows of usage");
        }
    }
}

fn has_figures(account: &PoolAccount) -> bool {
    account.windows.get("5h").is_some_and(|window| window.utilization.is_some())
}

/// Each account's budget holds what its rows add up to, to the micro-dollar, and each attempt once.
fn nothing_counts_twice(found: &Connection) {
    let one = |sql: &str| found.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let attempts = one("SELECT COUNT(*) FROM usage");
    let cost = one("SELECT COALESCE(SUM(cost), 0) FROM usage");
    let of_accounts = "FROM spent WHERE budget LIKE 'account:%'";
    let charged = one(&format!("SELECT COALESCE(SUM(amount), 0) {of_accounts}"));
    let counted = one(&format!("SELECT COALESCE(SUM(requests), 0) {of_accounts}"));
    assert_eq!((charged, counted), (cost, attempts), "budgets beside rows: micro-dollars, attempts");
}
