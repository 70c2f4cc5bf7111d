//! What of a changed configuration acts only after a restart: listeners, store and limits.

use super::settings::Settings;

/// The parts that changed and need a restart, by their names in the configuration; all else acts with the reload.
#[must_use]
pub fn needs_restart(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let admin = |settings: &Settings| settings.server.admin.as_ref().map(|a| a.binds.clone()).unwrap_or_default();
    let parts = [
        ("server.bind", old.server.binds != new.server.binds),
        ("server.admin.bind", admin(old) != admin(new)),
        ("server.limits", old.server.limits != new.server.limits),
        ("server.max_concurrent_requests", old.server.max_concurrent != new.server.max_concurrent),
        ("store", old.store != new.store),
    ];
    parts.into_iter().filter_map(|(part, changed)| changed.then_some(part)).collect()
}
