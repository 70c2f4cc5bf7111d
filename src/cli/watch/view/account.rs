//! One account on the screen: what it is in, and its windows as bars.

use crate::admin::{PoolAccount, SpendView, WindowView};
use crate::cli::watch::line::{Line, Tone};
use crate::cli::words::{countdown, label};

/// How many columns a window takes where there is room.
const CELL: usize = 44;
/// How many of them are its bar, at least and at most; the rest is its name, its share and its countdown.
const BAR: (usize, usize) = (4, 16);
const BESIDE_BAR: usize = 27;
/// Where an account's state stands.
const STATE: usize = 20;

/// A provider's name above its accounts.
pub(super) fn heading(provider: &str, auth: &str) -> Line {
    let mut line = Line::of(provider, Tone::Strong);
    line.push(&format!("  {auth}"), Tone::Faint);
    line
}

/// An account's lines.
pub(super) fn block(account: &PoolAccount, is_chosen: bool, now: i64, columns: usize) -> Vec<Line> {
    let mut first = Line::of(if is_chosen { "▸ " } else { "  " }, Tone::Strong);
    first.push(&account.name, if is_chosen { Tone::Chosen } else { Tone::Plain });
    first.push("  ", Tone::Plain);
    first.pad_to(STATE);
    first.push(&label(account), tone(account));
    let right = counts(account);
    if first.width() + right.chars().count() + 2 <= columns {
        first.pad_to(columns - right.chars().count());
        first.push(&right, Tone::Faint);
    }
    let room = columns.saturating_sub(4);
    let bar = room.saturating_sub(BESIDE_BAR).clamp(BAR.0, BAR.1);
    let cells: Vec<_> = account.windows.iter().map(|(name, window)| cell(name, window, bar, now)).collect();
    let beside = (room / CELL).max(1);
    let rows = cells.chunks(beside).map(|cells| {
        let mut line = Line::of("    ", Tone::Plain);
        for (at, cell) in cells.iter().enumerate() {
            line.pad_to(4 + at * CELL);
            cell.iter().for_each(|(text, tone)| line.push(text, *tone));
        }
        line
    });
    [first].into_iter().chain(rows).collect()
}

fn tone(account: &PoolAccount) -> Tone {
    match account.state.as_str() {
        _ if account.disabled || account.paused => Tone::Faint,
        "auth_dead" | "broken" => Tone::Bad,
        _ if account.needs_login => Tone::Bad,
        "healthy" if account.available && !account.near_quota => Tone::Good,
        _ => Tone::Uneasy,
    }
}

fn counts(account: &PoolAccount) -> String {
    let mut parts = vec![format!("{} in flight", account.in_flight), format!("{} conv.", account.conversations)];
    parts.extend(spend(&account.spend));
    parts.join("  ")
}

fn spend(spend: &SpendView) -> Option<String> {
    let month = spend.month?;
    Some(match spend.cap {
        Some(cap) => format!("${month:.2} of ${cap:.2}"),
        None => format!("${month:.2}"),
    })
}

/// A window's name as the configuration has it.
fn words(name: &str) -> &str {
    if name == "7d_oi" { "fable" } else { name }
}

type Cell = Vec<(String, Tone)>;

/// A window: its name, its bar, how much is used, and when it begins anew.
fn cell(name: &str, window: &WindowView, wide: usize, now: i64) -> Cell {
    let used = window.utilization;
    let figure = used.map_or_else(|| "  –".to_owned(), |used| format!("{:>3.0} %", used * 100.0));
    let reset = window.reset.map(|at| u64::try_from(at.saturating_sub(now)).unwrap_or(0));
    let reset = reset.map_or_else(String::new, |left| format!("  {}", countdown(left)));
    vec![
        (format!("{:<6}", words(name)), Tone::Faint),
        (bar(window, wide), pressure(window)),
        (format!(" {figure}"), pressure(window)),
        (reset, Tone::Faint),
    ]
}

/// Filled as far as it is used; `│` marks the soft threshold, `┃` the cap.
fn bar(window: &WindowView, wide: usize) -> String {
    let at = |share: f64| ((share * wide as f64).round().clamp(0.0, wide as f64)) as usize;
    let filled = at(window.utilization.unwrap_or(0.0));
    let mut cells: Vec<char> = (0..wide).map(|cell| if cell < filled { '█' } else { '░' }).collect();
    for (share, mark) in [(window.threshold, '│'), (window.max_utilization, '┃')] {
        if let Some(share) = share.filter(|share| *share < 1.0) {
            cells[at(share).min(wide - 1)] = mark;
        }
    }
    cells.into_iter().collect()
}

fn pressure(window: &WindowView) -> Tone {
    let used = window.utilization.unwrap_or(0.0);
    let over = |limit: Option<f64>| limit.is_some_and(|limit| used >= limit);
    if window.status.as_deref() == Some("rejected") || over(window.max_utilization) || used >= 1.0 {
        Tone::Bad
    } else if over(window.threshold) {
        Tone::Uneasy
    } else {
        Tone::Good
    }
}
