//! The story as it goes: asks, tells the events as they come, and insists on those that must.

use std::io;
use std::pin::pin;
use std::time::Duration;

use duduclaw_actors::event::{Event, EventKind};

use super::client::{Client, Question, Reply, Verdict};
use super::line::Teller;
use super::screen::Screen;
use super::stage::{ACCOUNTS, Stage};
use super::tally::Tally;

/// How long nothing may happen while an event is awaited.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why the story cannot go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// What must happen did not.
    #[error("in step {step} of the demo an expected event did not come: {what}")]
    Missing {
        /// Which step.
        step: usize,
        /// Which event.
        what: &'static str,
    },
    /// The client saw what it never should.
    #[error("in step {step} of the demo the client saw an error: {what}")]
    Client {
        /// Which step.
        step: usize,
        /// What it saw.
        what: String,
    },
    /// Nothing can be printed.
    #[error("the story cannot be printed")]
    Screen(#[from] io::Error),
    /// No client.
    #[error("the built-in client cannot be made")]
    Http(#[from] reqwest::Error),
}

/// The story.
pub(super) struct Story {
    pub(super) stage: Stage,
    screen: Screen,
    teller: Teller,
    tally: Tally,
    step: usize,
    /// The events of this step.
    seen: Vec<Event>,
}

impl Story {
    /// A story on this stage.
    pub(super) fn new(stage: Stage, screen: Screen) -> Self {
        Self { stage, screen, teller: Teller::default(), tally: Tally::default(), step: 0, seen: Vec::new() }
    }

    /// What stands above the first step.
    pub(super) fn open(&mut self) -> Result<(), Trouble> {
        Ok(self.screen.open()?)
    }

    /// The next step begins.
    pub(super) async fn step(&mut self, title: &str) -> Result<(), Trouble> {
        self.pause().await?;
        self.step += 1;
        self.seen.clear();
        Ok(self.screen.heading(self.step, title).await?)
    }

    /// Tells what is there to be told.
    pub(super) async fn pause(&mut self) -> Result<(), Trouble> {
        while let Ok(event) = self.stage.feed.try_recv() {
            self.tell(event).await?;
        }
        if let Some(line) = self.teller.flush() {
            self.screen.line(&line).await?;
        }
        Ok(())
    }

    /// An event of this step that must have happened, or must happen now.
    pub(super) async fn expect(&mut self, what: &'static str, is: impl Fn(&Event) -> bool) -> Result<Event, Trouble> {
        if let Some(event) = self.seen.iter().find(|event| is(event)) {
            return Ok(event.clone());
        }
        loop {
            let next = tokio::time::timeout(PATIENCE, self.stage.feed.recv()).await;
            let Ok(Some(event)) = next else { return Err(Trouble::Missing { step: self.step, what }) };
            let found = is(&event);
            self.tell(event.clone()).await?;
            if found {
                return Ok(event);
            }
        }
    }

    /// Asks, and insists on a good answer and its event. Gives the account that answered.
    pub(super) async fn served(&mut self, client: &Client, question: Question) -> Result<String, Trouble> {
        let reply = client.ask(question).await;
        self.insist(reply, &Verdict::Good).await
    }

    /// Insists on what the client saw, and on the event of the request's end.
    pub(super) async fn insist(&mut self, reply: Reply, verdict: &Verdict) -> Result<String, Trouble> {
        if reply.verdict != *verdict {
            return Err(Trouble::Client { step: self.step, what: format!("{:?}", reply.verdict) });
        }
        let ended = |event: &Event| {
            matches!(event.kind, EventKind::RequestEnded { .. })
                && event.evidence.request_id.as_ref() == Some(&reply.id)
        };
        self.expect("a request ended (request_ended)", ended).await?;
        Ok(reply.account)
    }

    /// Asks, and tells what happens. If the client is kept waiting, the clock is moved to the end of the wait, and its
    /// answer must follow. `is_out` tells that an account is out: before the clock moves, all of them have said so.
    pub(super) async fn asks(
        &mut self,
        client: &Client,
        question: Question,
        is_out: fn(&Event, &str) -> bool,
    ) -> Result<Asked, Trouble> {
        let client = client.clone();
        let mut asking = pin!(async move { client.ask(question).await });
        loop {
            tokio::select! {
                reply = &mut asking => return Ok(Asked::Answered(self.insist(reply, &Verdict::Good).await?)),
                event = self.stage.feed.recv() => {
                    let Some(event) = event else {
                        return Err(Trouble::Missing { step: self.step, what: "the feed goes on" });
                    };
                    let held = matches!(event.kind, EventKind::RequestHeld { .. });
                    self.tell(event.clone()).await?;
                    if held {
                        break;
                    }
                }
            }
        }
        for name in ACCOUNTS {
            self.expect("every account is out (hold_began, quota)", |event| is_out(event, name)).await?;
        }
        let wait = self.held_for();
        self.step(&format!("{} later: the clock is moved to the end of the wait", duduclaw_actors::event::span(wait)))
            .await?;
        self.stage.advance(wait + Duration::from_secs(1));
        let reply = tokio::time::timeout(PATIENCE, asking).await;
        let Ok(reply) = reply else {
            return Err(Trouble::Missing { step: self.step, what: "the waiting client goes on (request_released)" });
        };
        self.insist(reply, &Verdict::Good).await?;
        Ok(Asked::Held)
    }

    fn held_for(&self) -> Duration {
        let now = self.stage.now();
        let held = |event: &Event| if let EventKind::RequestHeld { until } = event.kind { until } else { None };
        let until = self.seen.iter().rev().find_map(held);
        until.map(|until| until.remaining(now)).unwrap_or_default()
    }

    async fn tell(&mut self, event: Event) -> Result<(), Trouble> {
        self.tally.count(&event);
        self.screen.event(&event)?;
        for line in self.teller.tell(&event) {
            self.screen.line(&line).await?;
        }
        self.seen.push(event);
        Ok(())
    }

    /// Takes everything down.
    pub(super) async fn end(self) -> (Tally, Screen) {
        self.stage.strike().await;
        (self.tally, self.screen)
    }
}

/// How a request went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// It was answered by this account without a wait.
    Answered(String),
    /// It had to wait, and was answered then.
    Held,
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn story() -> Story {
        let stage = Stage::set().await.expect("loopback and a temporary folder are there");
        Story::new(stage, Screen::json(Box::new(io::sink())))
    }

    #[tokio::test]
    async fn an_expected_event_that_does_not_come_is_named() {
        let mut story = story().await;
        story.step("One").await.expect("it can be told");
        tokio::time::pause();
        let error = story.expect("a token is renewed (token_refreshed)", |_| false).await.expect_err("nothing happens");
        tokio::time::resume();
        let text = "in step 1 of the demo an expected event did not come: a token is renewed (token_refreshed)";
        assert_eq!(error.to_string(), text);
        story.end().await;
    }

    #[tokio::test]
    async fn an_error_that_the_client_saw_ends_the_story() {
        let mut story = story().await;
        let client = Client::new(&story.stage.url).expect("it can be made");
        let fault = crate::sim::FaultRule::next("work", 9, crate::sim::Fault::NoSuchModel).for_all();
        story.stage.sim.fault(fault);
        let question = Question { session: "s", form: super::super::client::Form::Whole, tokens: 5 };
        let error = story.served(&client, question).await.expect_err("the client is told of it").to_string();
        assert!(error.contains("the client saw an error") && error.contains("404"), "{error}");
        drop(client);
        story.end().await;
    }

    #[tokio::test]
    async fn an_event_of_the_step_counts_whenever_it_came_and_one_before_it_does_not() {
        let mut story = story().await;
        let started = |event: &Event| matches!(event.kind, EventKind::Started { .. });
        story.expect("started", started).await.expect("it serves");
        story.expect("started", started).await.expect("it was told already");
        story.step("One").await.expect("it can be told");
        tokio::time::pause();
        story.expect("started", started).await.expect_err("that was before");
        tokio::time::resume();
        story.end().await;
    }
}
