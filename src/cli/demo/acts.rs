//! What is done to the system, step by step, and which events must follow.

use std::time::Duration;

use duduclaw_actors::event::span;
use duduclaw_actors::event::{EndedBy, Event, EventKind, RequestClose};
use duduclaw_actors::outcome::Cause;
use duduclaw_actors::standing::HoldKind;

use super::client::{Client, Form, Question, Verdict};
use super::stage::WINDOW_TOKENS;
use super::story::{Asked, Story, Trouble};
use crate::sim::{Fault, FaultRule};

/// The client's conversations.
const ONE: &str = "conversation-one";
const TWO: &str = "conversation-two";
const THREE: &str = "conversation-three";
/// So many long answers fill a window, with some to spare.
const FILLING: u64 = 8;
/// How long before a window's reset the clock is moved to.
const BEFORE_RESET: Duration = Duration::from_secs(180);

/// Plays all steps.
pub(super) async fn play(story: &mut Story) -> Result<(), Trouble> {
    let client = Client::new(&story.stage.url)?;
    story.open()?;
    every_day(story, &client).await?;
    overload(story, &client).await?;
    overload_in_a_stream(story, &client).await?;
    cut(story, &client).await?;
    let full = window_filled(story, &client).await?;
    let refused = organisation(story, &client).await?;
    hours_later(story, &client, &full, &refused).await?;
    exhaustion(story, &client, &full).await?;
    recovery(story, &client).await
}

fn short(session: &'static str, form: Form) -> Question {
    Question { session, form, tokens: 20 }
}

/// A bit less than a third of a window.
fn long(session: &'static str) -> Question {
    Question { session, form: Form::Stream, tokens: WINDOW_TOKENS * 29 / 100 }
}

async fn every_day(story: &mut Story, client: &Client) -> Result<(), Trouble> {
    story.expect("the gateway serves (started)", |event| matches!(event.kind, EventKind::Started { .. })).await?;
    story.step("Three conversations, streaming and not").await?;
    for form in [Form::Stream, Form::Whole] {
        for session in [ONE, TWO, THREE] {
            story.served(client, short(session, form)).await?;
        }
    }
    Ok(())
}

async fn overload(story: &mut Story, client: &Client) -> Result<(), Trouble> {
    story.step("An account answers a request with 529, overloaded").await?;
    let home = story.served(client, short(ONE, Form::Whole)).await?;
    story.stage.sim.fault(FaultRule::next(&home, 1, Fault::Overloaded { retry_after: None }));
    story.served(client, short(ONE, Form::Whole)).await?;
    story.expect("another account is asked (failed_over)", |event| failed_over(event, &home)).await?;
    story.expect("the request makes a detour (detoured)", |event| detoured(event, &home)).await?;
    story.served(client, short(ONE, Form::Whole)).await?;
    story.expect("the conversation goes back (returned)", returned).await?;
    Ok(())
}

async fn overload_in_a_stream(story: &mut Story, client: &Client) -> Result<(), Trouble> {
    story.step("A stream begins well (200), and its first event is an overload").await?;
    let home = story.served(client, short(TWO, Form::Stream)).await?;
    let fault = Fault::FirstEventError { kind: "overloaded_error".to_owned() };
    story.stage.sim.fault(FaultRule::next(&home, 1, fault));
    story.served(client, short(TWO, Form::Stream)).await?;
    story.expect("another account is asked (failed_over)", |event| failed_over(event, &home)).await?;
    story.served(client, short(TWO, Form::Stream)).await?;
    Ok(())
}

async fn cut(story: &mut Story, client: &Client) -> Result<(), Trouble> {
    story.step("A stream is cut in mid-answer; the client repeats the request").await?;
    let home = story.served(client, short(THREE, Form::Stream)).await?;
    story.stage.sim.fault(FaultRule::next(&home, 1, Fault::CutAfter { events: 4 }));
    let reply = client.ask(short(THREE, Form::Stream)).await;
    story.insist(reply, &Verdict::Cut).await?;
    story.expect("the answer broke off (request_ended, cut)", broke_off).await?;
    story.served(client, short(THREE, Form::Stream)).await?;
    Ok(())
}

/// The account whose window is full.
async fn window_filled(story: &mut Story, client: &Client) -> Result<String, Trouble> {
    story.step("A conversation uses up its account's five-hour window").await?;
    let home = story.served(client, short(ONE, Form::Whole)).await?;
    for _ in 0..FILLING {
        if story.served(client, long(ONE)).await? != home {
            break;
        }
    }
    story.expect("the account is out (hold_began, quota)", |event| quota_refused(event, &home)).await?;
    story.expect("the conversation moves (conversation_moved)", |event| moved(event, &home)).await?;
    Ok(home)
}

/// The account that its organisation refuses.
async fn organisation(story: &mut Story, client: &Client) -> Result<String, Trouble> {
    story.step("An organisation switches off access for one account (403)").await?;
    let home = story.served(client, short(TWO, Form::Stream)).await?;
    story.stage.sim.fault(FaultRule::standing(&home, Fault::OrgDisabled));
    story.served(client, short(TWO, Form::Stream)).await?;
    story.expect("the account is out (hold_began, org_disabled)", |event| shut_out(event, &home)).await?;
    story.expect("the conversation moves (conversation_moved)", |event| moved(event, &home)).await?;
    story.served(client, short(THREE, Form::Whole)).await?;
    Ok(home)
}

async fn hours_later(story: &mut Story, client: &Client, full: &str, refused: &str) -> Result<(), Trouble> {
    let step = story.stage.until_reset(full).unwrap_or_default().saturating_sub(BEFORE_RESET);
    story.step(&format!("{} later: tokens have expired, access is allowed again", span(step))).await?;
    story.stage.sim.clear_faults(Some(refused));
    story.stage.advance(step);
    story.expect("a check finds the refused account well (hold_ended, probe)", |event| well(event, refused)).await?;
    story.served(client, short(ONE, Form::Stream)).await?;
    story.expect("a token is renewed (token_refreshed)", |event| event.kind == EventKind::TokenRefreshed).await?;
    Ok(())
}

async fn exhaustion(story: &mut Story, client: &Client, full: &str) -> Result<(), Trouble> {
    story.step("More work than all accounts have quota for").await?;
    let mut held = false;
    for _ in 0..2 * FILLING {
        if story.asks(client, long(ONE), quota_refused).await? == Asked::Held {
            held = true;
            break;
        }
    }
    if !held {
        story.expect("a client is kept waiting (request_held)", |_| false).await?;
    }
    story.expect("its window began anew (hold_ended, time)", |event| quota_is_back(event, full)).await?;
    story.expect("the client goes on (request_released)", |event| event.kind == EventKind::RequestReleased).await?;
    Ok(())
}

async fn recovery(story: &mut Story, client: &Client) -> Result<(), Trouble> {
    story.step("Back to every day").await?;
    for session in [ONE, TWO, THREE] {
        story.served(client, short(session, Form::Stream)).await?;
        story.served(client, short(session, Form::Whole)).await?;
    }
    story.pause().await
}

fn is_of(event: &Event, name: &str) -> bool {
    event.account.as_ref().is_some_and(|entry| &*entry.name == name)
}

fn failed_over(event: &Event, name: &str) -> bool {
    matches!(&event.kind, EventKind::FailedOver { from, .. } if &*from.name == name)
}

fn detoured(event: &Event, name: &str) -> bool {
    matches!(&event.kind, EventKind::Detoured { from, .. } if &*from.name == name)
}

fn returned(event: &Event) -> bool {
    matches!(event.kind, EventKind::Returned { .. })
}

fn broke_off(event: &Event) -> bool {
    matches!(event.kind, EventKind::RequestEnded { close: RequestClose::Cut, .. })
}

fn moved(event: &Event, name: &str) -> bool {
    matches!(&event.kind, EventKind::ConversationMoved { from, .. } if &*from.name == name)
}

fn quota_refused(event: &Event, name: &str) -> bool {
    let hold = matches!(event.kind, EventKind::HoldBegan { hold: HoldKind::RateLimited, cause: Cause::Quota, .. });
    hold && is_of(event, name)
}

fn shut_out(event: &Event, name: &str) -> bool {
    let hold = matches!(event.kind, EventKind::HoldBegan { hold: HoldKind::AuthDead, cause: Cause::OrgDisabled, .. });
    hold && is_of(event, name)
}

fn well(event: &Event, name: &str) -> bool {
    let ended = matches!(event.kind, EventKind::HoldEnded { hold: HoldKind::AuthDead, by: EndedBy::Probe, .. });
    ended && is_of(event, name)
}

fn quota_is_back(event: &Event, name: &str) -> bool {
    let ended = matches!(event.kind, EventKind::HoldEnded { hold: HoldKind::RateLimited, by: EndedBy::Time, .. });
    ended && is_of(event, name)
}
