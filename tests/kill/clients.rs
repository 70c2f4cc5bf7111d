//! Clients that ask for models as fast as they are allowed to, and log what they got.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::stage::Stage;

/// How many clients there are, and how long each rests between two requests.
const CLIENTS: usize = 8;
const REST: Duration = Duration::from_millis(25);

/// What they saw.
#[derive(Default)]
pub(crate) struct Served {
    /// Answers that came to their end.
    pub(crate) whole: AtomicU64,
    /// By our id of the request: how many attempts the answer says it took.
    pub(crate) attempts: Mutex<BTreeMap<String, u32>>,
    /// Answers other than 200 while nothing was to break off.
    pub(crate) refused: Mutex<Vec<String>>,
}

pub(crate) struct Clients {
    served: Arc<Served>,
    over: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Clients {
    pub(crate) fn start(stage: &Arc<Stage>) -> Self {
        let (served, over) = (Arc::<Served>::default(), Arc::<AtomicBool>::default());
        let mut tasks = JoinSet::new();
        for client in 0..CLIENTS {
            let (stage, served, over) = (Arc::clone(stage), Arc::clone(&served), Arc::clone(&over));
            tasks.spawn(async move {
                let mut rest = interval(REST);
                rest.set_missed_tick_behavior(MissedTickBehavior::Delay);
                for nth in 0_u64.. {
                    stage.may_work().await;
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    rest.tick().await;
                    ask(&stage, &served, &format!("{client}-{}", nth % 5), nth % 2 == 0).await;
                }
            });
        }
        Self { served, over, tasks }
    }

    /// Ends them.
    pub(crate) async fn stop(mut self) -> Arc<Served> {
        self.over.store(true, Ordering::Relaxed);
        self.tasks.shutdown().await;
        self.served
    }
}

/// One request; what breaks off has nothing to say.
async fn ask(stage: &Stage, served: &Served, session: &str, stream: bool) {
    let Ok(answer) = request(stage, session, stream).send().await else { return };
    let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (status, id) = (answer.status(), header("x-duduclaw-request-id"));
    let attempts = header("x-duduclaw-attempts").and_then(|count| count.parse().ok());
    let Ok(body) = answer.text().await else { return };
    if status != 200 && stage.is_open() {
        served.refused.lock().unwrap().push(format!("{status}: {body}"));
    }
    if let (200, Some(id), Some(attempts)) = (status.as_u16(), id, attempts) {
        served.whole.fetch_add(1, Ordering::Relaxed);
        served.attempts.lock().unwrap().insert(id, attempts);
    }
}

/// A request of a session, as Claude Code asks.
pub(crate) fn request(stage: &Stage, session: &str, stream: bool) -> reqwest::RequestBuilder {
    let body = json!({
        "model": "claude-opus-5-5", "max_tokens": 64, "stream": stream,
        "messages": [{"role": "user", "content": "[[say: hello]]"}],
    });
    let url = format!("{}/v1/messages?beta=true", stage.url);
    let request = stage.client.post(url).header("anthropic-version", "2023-06-01").json(&body);
    request.header("x-claude-code-session-id", session)
}
