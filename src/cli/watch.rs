//! `duduclaw status --watch`: the fleet live, on the whole screen.
//!
//! `view` makes lines of what is known and draws nothing; `terminal` owns the screen and gives it back at every end;
//! here the two are joined: what is asked of the daemon, what a key does. Asking never holds up keys or drawing.

mod keys;
mod line;
mod terminal;
mod view;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::TaskTracker;

use self::keys::Key;
use self::terminal::Screen;
use self::view::{Seen, View};
use super::control::Control;
use super::words::label;
use super::{Ended, Exit, Globals};
use crate::admin::{AccountAnswer, HealthView, PoolView, ProbeAnswer};

/// How often the daemon is asked.
const EVERY: Duration = Duration::from_secs(1);

/// What comes back from what was asked.
enum News {
    /// The fleet now.
    Seen(Box<Seen>),
    /// Nobody answers.
    Silent(String),
    /// What became of an action.
    Done(String),
}

/// What a key asks the daemon for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Pause,
    Resume,
    Clear,
    Probe,
}

pub(super) async fn run(globals: &Globals) -> Result<Exit> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let text = "status --watch needs a terminal; use `duduclaw status`, or `duduclaw status --json` for programs";
        return Err(Ended::error(Exit::Usage, text.to_owned()));
    }
    let daemon = Arc::new(Control::find(globals)?);
    let mut end = Ends::catch()?;
    let mut screen = Screen::take()?;
    let mut keys = keys::read();
    let mut watch = Watch::of(daemon);
    let mut clock = interval(EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        screen.draw(|size| watch.view.lines(size))?;
        tokio::select! {
            () = end.came() => return Ok(Exit::Done),
            _ = clock.tick() => watch.ask(globals),
            Some(news) = watch.news.recv() => watch.take(news),
            key = keys.recv() => match key {
                None | Some(Key::Quit) => return Ok(Exit::Done),
                Some(key) => watch.press(key),
            },
        }
    }
}

struct Watch {
    daemon: Arc<Control>,
    view: View,
    tasks: TaskTracker,
    tell: mpsc::Sender<News>,
    news: mpsc::Receiver<News>,
    asking: bool,
}

impl Watch {
    fn of(daemon: Arc<Control>) -> Self {
        let (tell, news) = mpsc::channel(16);
        Self { daemon, view: View::default(), tasks: TaskTracker::new(), tell, news, asking: false }
    }

    /// Asks how the fleet stands, unless an answer is still to come. A daemon that went away is looked for again.
    fn ask(&mut self, globals: &Globals) {
        if self.asking {
            return;
        }
        if self.view.is_silent()
            && let Ok(Some(daemon)) = Control::look(globals)
        {
            self.daemon = Arc::new(daemon);
        }
        self.asking = true;
        let (daemon, tell) = (Arc::clone(&self.daemon), self.tell.clone());
        self.tasks.spawn(async move {
            let news = match look(&daemon).await {
                Ok(seen) => News::Seen(Box::new(seen)),
                Err(error) => News::Silent(format!("{error:#}")),
            };
            let _ = tell.send(news).await;
        });
    }

    fn take(&mut self, news: News) {
        match news {
            News::Seen(seen) => {
                self.asking = false;
                self.view.see(*seen);
            }
            News::Silent(why) => {
                self.asking = false;
                self.view.lose(why);
            }
            News::Done(what) => self.view.say(what),
        }
    }

    fn press(&mut self, key: Key) {
        match key {
            Key::Up => self.view.choose_above(),
            Key::Down => self.view.choose_below(),
            Key::First => self.view.choose_first(),
            Key::Last => self.view.choose_last(),
            Key::Pause => {
                let action = if self.view.chosen_is_paused() { Action::Resume } else { Action::Pause };
                self.act(action);
            }
            Key::Clear => self.act(Action::Clear),
            Key::Probe => self.act(Action::Probe),
            Key::Redraw | Key::Quit => {}
        }
    }

    fn act(&mut self, action: Action) {
        let Some(account) = self.view.chosen().map(str::to_owned) else { return };
        self.view.say(format!("{account}: {} …", action.words()));
        let (daemon, tell) = (Arc::clone(&self.daemon), self.tell.clone());
        self.tasks.spawn(async move {
            let done = perform(&daemon, action, &account).await;
            let _ = tell.send(News::Done(done.unwrap_or_else(|error| format!("{error:#}")))).await;
            if let Ok(seen) = look(&daemon).await {
                let _ = tell.send(News::Seen(Box::new(seen))).await;
            }
        });
    }
}

impl Action {
    fn words(self) -> &'static str {
        match self {
            Self::Pause => "pausing",
            Self::Resume => "resuming",
            Self::Clear => "clearing",
            Self::Probe => "asking the provider",
        }
    }
}

async fn look(daemon: &Control) -> Result<Seen> {
    let health: HealthView = daemon.call("health", json!({})).await?;
    let pool: PoolView = daemon.call("pool", json!({})).await?;
    Ok(Seen { health, pool })
}

async fn perform(daemon: &Control, action: Action, account: &str) -> Result<String> {
    let params = json!({ "account": account });
    let verb = match action {
        Action::Pause => "accounts.pause",
        Action::Resume => "accounts.resume",
        Action::Clear => "accounts.clear",
        Action::Probe => {
            let said: ProbeAnswer = daemon.call("accounts.probe", params).await?;
            return Ok(format!("{account}: {}", said.summary));
        }
    };
    let AccountAnswer { account, .. } = daemon.call(verb, params).await?;
    Ok(format!("{}: {}", account.id, label(&account.standing)))
}

/// Whatever ends a program from outside: the screen is given back first.
struct Ends {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Ends {
    fn catch() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn came(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
