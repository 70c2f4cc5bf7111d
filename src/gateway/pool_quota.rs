//! `quota_headers = "pool"`: the quota headers of a served answer tell how much the pool has left, not how much the one
//! account has that happened to serve it.
//!
//! The pool has as much left as its best account: of those that can serve, the one whose fullest window is least full.
//! All windows are told of that one account, so that they fit together; the least of each window over all accounts
//! would promise room that no account has. Accounts of which nothing was observed yet promise nothing.
//!
//! Never here: final refusals, which tell the soonest return.

use duduclaw_actors::account::quota::{KnownWindow, Quota, WindowState};
use duduclaw_actors::clock::Timestamp;
use duduclaw_actors::id::{AccountId, EvidenceSeq, ModelScope, Window};
use duduclaw_actors::outcome::{QuotaReading, QuotaStatus, WindowReading};
use duduclaw_actors::provider::anthropic::quota::{PREFIX, claim_of, quota_reading, unified_headers};
use duduclaw_actors::roster::Switch;
use duduclaw_actors::standing::{Paused, Standing, State};
use http::HeaderMap;

use crate::config::topology::Element;
use crate::gateway::live::Live;
use crate::gateway::service::Gateway;

/// An answer whose headers are to tell of the pool.
#[derive(Clone, Copy)]
pub(super) struct Served<'a> {
    /// The pool it came from.
    pub(super) element: &'a Element,
    /// The account that served it.
    pub(super) account: AccountId,
    /// What it was for.
    pub(super) scope: ModelScope,
}

/// Puts the pool's figures in the place of the serving account's, unless that one is the pool's best.
pub(super) fn tell(headers: &mut HeaderMap, gateway: &Gateway, live: &Live, served: Served<'_>, now: Timestamp) {
    let own = Some((served.account, quota_reading(headers, now).windows)).filter(|(_, windows)| !windows.is_empty());
    let others = served.element.accounts.iter().filter(|account| **account != served.account);
    let others = others.filter_map(|account| Some((*account, windows_of(*account, gateway, live, now)?)));
    let full = |windows: &[WindowReading]| fullest(windows, served.scope).and_then(|window| window.utilization);
    let judged =
        own.into_iter().chain(others).filter_map(|(account, windows)| Some((full(&windows)?, account, windows)));
    let Some((_, best, windows)) = judged.min_by(|a, b| a.0.total_cmp(&b.0)) else { return };
    if best == served.account {
        return;
    }
    drop_claims(headers);
    headers.extend(unified_headers(&reading(windows, served.scope)));
}

/// Takes all quota headers out.
pub(super) fn drop_claims(headers: &mut HeaderMap) {
    let claims: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with(PREFIX)).cloned().collect();
    for name in claims {
        headers.remove(name);
    }
}

/// What is known of the windows of an account that can serve.
fn windows_of(account: AccountId, gateway: &Gateway, live: &Live, now: Timestamp) -> Option<Vec<WindowReading>> {
    let spec = live.topology.roster().accounts.get(&account)?;
    let standing = gateway.fleet.health(account)?.standing(0, EvidenceSeq(0), now);
    let serves = spec.switch == Switch::On && can_serve(&standing, now);
    let capped = standing.quota.capped(ModelScope::Base, &spec.caps, now).is_some();
    (serves && !capped).then(|| observed(standing.quota, now))
}

fn can_serve(standing: &Standing, now: Timestamp) -> bool {
    standing.state(now) == State::Healthy && standing.paused == Paused::No && !standing.is_out_by_auth(now)
}

/// The windows of which something is known and still true.
pub(super) fn observed(mut quota: Quota, now: Timestamp) -> Vec<WindowReading> {
    quota.expire(now);
    let reading = |(window, state): (Window, &WindowState)| WindowReading {
        window,
        utilization: state.utilization,
        reset: state.reset,
        status: state.status.clone(),
    };
    quota.windows.iter().map(reading).collect()
}

fn reading(windows: Vec<WindowReading>, scope: ModelScope) -> QuotaReading {
    let decisive = fullest(&windows, scope).cloned();
    let warned = windows.iter().filter(|w| binds(w, scope)).any(|w| w.status == Some(QuotaStatus::Warning));
    QuotaReading {
        status: Some(if warned { QuotaStatus::Warning } else { QuotaStatus::Allowed }),
        reset: decisive.as_ref().and_then(|window| window.reset),
        representative: decisive.map(|window| claim_of(&window.window).to_owned()),
        windows,
    }
}

fn fullest(windows: &[WindowReading], scope: ModelScope) -> Option<&WindowReading> {
    let used = |window: &WindowReading| window.utilization.unwrap_or(0.0);
    let binding = windows.iter().filter(|window| binds(window, scope) && window.utilization.is_some());
    binding.max_by(|a, b| used(a).total_cmp(&used(b)))
}

fn binds(window: &WindowReading, scope: ModelScope) -> bool {
    KnownWindow::of(&window.window).is_none_or(|known| known.binds(scope))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(name: &str, used: f64) -> WindowReading {
        let window = Window::from_name(name);
        WindowReading { window, utilization: Some(used), reset: None, status: Some(QuotaStatus::Allowed) }
    }

    #[test]
    fn the_fullest_window_that_binds_decides() {
        let windows = [window("5h", 0.2), window("7d", 0.4), window("7d_oi", 0.9)];
        let named = |scope| fullest(&windows, scope).unwrap().window.name().to_owned();
        assert_eq!(named(ModelScope::Base), "7d");
        assert_eq!(named(ModelScope::Fable), "7d_oi");
    }

    #[test]
    fn a_warning_of_a_window_that_binds_is_the_pools() {
        let warned = WindowReading { status: Some(QuotaStatus::Warning), ..window("7d_oi", 0.9) };
        let status = |scope| reading(vec![window("5h", 0.2), warned.clone()], scope).status;
        assert_eq!(status(ModelScope::Base), Some(QuotaStatus::Allowed));
        assert_eq!(status(ModelScope::Fable), Some(QuotaStatus::Warning));
    }
}
