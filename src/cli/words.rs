//! Words and figures that several commands show alike.

use crate::admin::PoolAccount;

/// What an account is in, in the words of the documentation.
pub(super) fn label(account: &PoolAccount) -> String {
    let cause = account.cause.as_deref().map(|cause| format!(" ({cause})")).unwrap_or_default();
    let wait = match account.cooldown_secs_remaining {
        0 => String::new(),
        seconds => format!(", {} left", span(seconds)),
    };
    let word = match account.state.as_str() {
        _ if account.disabled => "disabled".to_owned(),
        _ if account.paused => "paused".to_owned(),
        "broken" => format!("broken{cause}"),
        _ if account.needs_login => "needs login".to_owned(),
        "healthy" if account.capped => "capped".to_owned(),
        "healthy" if account.on_trial => "on trial".to_owned(),
        "healthy" if account.near_quota => "near quota".to_owned(),
        "healthy" if !account.available => "not available".to_owned(),
        "healthy" => "available".to_owned(),
        state => format!("{}{cause}{wait}", state.replace('_', " ")),
    };
    let scopes = account.scope_cooldowns.iter().next();
    let more = [
        scopes.map(|(scope, seconds)| format!("{scope} {} left", span(*seconds))),
        account.unverified.then(|| "unverified".to_owned()),
        account.expiring.then(|| "expiring".to_owned()),
    ];
    std::iter::once(word).chain(more.into_iter().flatten()).collect::<Vec<_>>().join("; ")
}

/// An account that was called by this name, and whose own it is if that is another.
pub(super) fn same(named: &str, own: &str) -> String {
    if named == own { own.to_owned() } else { format!("{named} (the same account as {own})") }
}

/// A number with a comma between thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut parts = vec![&digits[..first]];
    parts.extend((first..digits.len()).step_by(3).map(|at| &digits[at..at + 3]));
    parts.retain(|part| !part.is_empty());
    parts.join(",")
}

/// A moment of RFC 3339 by the clock of this machine.
pub(super) fn local_time(moment: &str) -> String {
    chrono::DateTime::parse_from_rfc3339(moment).map_or_else(
        |_| moment.to_owned(),
        |at| at.with_timezone(&chrono::Local).format("%Y-%m-%d %H:%M:%S").to_string(),
    )
}

/// A span of time in the two units that matter.
pub(super) fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A span of time that is watched as it runs out.
pub(super) fn countdown(seconds: u64) -> String {
    match seconds {
        0..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3600..=172_799 => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}
