//! Operators who pause and resume, each an account of its own, and log what was answered.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::stage::{Stage, TOGGLED};

/// How long each rests between two actions.
const REST: Duration = Duration::from_millis(100);

/// What an operator knows of its account.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Word {
    /// What was last answered with yes: whether it is paused.
    pub(crate) acknowledged: bool,
    /// What was asked for since, and not answered.
    pub(crate) asked: Option<bool>,
}

pub(crate) struct Operators {
    words: Arc<[Mutex<Word>; TOGGLED.len()]>,
    written: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Operators {
    pub(crate) fn start(stage: &Arc<Stage>) -> Self {
        let (words, written, over) = (Arc::<[Mutex<Word>; 4]>::default(), Arc::default(), Arc::<AtomicBool>::default());
        let mut tasks = JoinSet::new();
        for (at, account) in TOGGLED.into_iter().enumerate() {
            let (stage, words, over) = (Arc::clone(stage), Arc::clone(&words), Arc::clone(&over));
            let written: Arc<AtomicU64> = Arc::clone(&written);
            tasks.spawn(async move {
                let mut rest = interval(REST);
                rest.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    stage.may_work().await;
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    rest.tick().await;
                    act(&stage, account, &words[at], &written).await;
                }
            });
        }
        Self { words, written, over, tasks }
    }

    /// What each knows, and what the daemon says of it now: the last word that was answered must hold, unless another
    /// one was asked for since.
    pub(crate) fn judge(&self, at: usize, is_paused: bool) -> Result<(), String> {
        let mut word = self.words[at].lock().unwrap();
        let holds = is_paused == word.acknowledged || word.asked == Some(is_paused);
        let told = format!("{} is paused: {is_paused}, but {word:?}", TOGGLED[at]);
        *word = Word { acknowledged: is_paused, asked: None };
        if holds { Ok(()) } else { Err(told) }
    }

    /// Ends them; how many actions were answered with yes.
    pub(crate) async fn stop(mut self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.tasks.shutdown().await;
        self.written.load(Ordering::Relaxed)
    }
}

/// Pauses, or resumes; the opposite of what was last acknowledged.
async fn act(stage: &Stage, account: &str, word: &Mutex<Word>, written: &AtomicU64) {
    let paused = {
        let mut word = word.lock().unwrap();
        // Nobody knows what became of the last one before the judge has looked.
        if word.asked.is_some() {
            return;
        }
        let paused = !word.acknowledged;
        word.asked = Some(paused);
        paused
    };
    if acknowledged(stage, account, paused).await {
        *word.lock().unwrap() = Word { acknowledged: paused, asked: None };
        written.fetch_add(1, Ordering::Relaxed);
    }
}

/// The one place that knows how an acknowledged write is made.
async fn acknowledged(stage: &Stage, account: &str, paused: bool) -> bool {
    let verb = if paused { "pause" } else { "resume" };
    let url = format!("{}/admin/api/accounts/{account}/{verb}", stage.url);
    let answer = stage.client.post(url).bearer_auth(stage.key()).send().await;
    let Ok(answer) = answer else { return false };
    answer.status() == 200 && answer.bytes().await.is_ok()
}
