//! All verbs. A new one is a line here, and the function that it names.

use http::Method;

use super::verb::Verb;
use super::{accounts, health, pool};

/// What may befall whoever names an account.
const NAMED: &[u16] = &[404, 409, 422];

/// Every verb, in the order of the document.
pub(super) fn verbs() -> Vec<Verb> {
    let post = |path| (Method::POST, path);
    vec![
        Verb::read("pool", "/pool", "The fleet at one moment: every account with its state and quota", pool::pool),
        Verb::read("health", "/health", "Whether the daemon can do its work", health::health),
        Verb::read("accounts.list", "/accounts", "Every account, with where it is configured", accounts::list),
        Verb::write(
            "accounts.pause",
            post("/accounts/{account}/pause"),
            "Takes an account out of use until it is resumed",
            accounts::pause,
        )
        .refusing(NAMED),
        Verb::write(
            "accounts.resume",
            post("/accounts/{account}/resume"),
            "Takes a paused account into use again",
            accounts::resume,
        )
        .refusing(NAMED),
        Verb::write(
            "accounts.clear",
            post("/accounts/{account}/clear"),
            "Ends an account's waits for quota and budget",
            accounts::clear,
        )
        .refusing(NAMED),
    ]
}
