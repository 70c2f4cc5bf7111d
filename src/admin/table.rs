//! All verbs. A new one is a line here, and the function that it names.

use http::Method;

use super::verb::Verb;
use super::{accounts, activity, config, conversations, failures, health, logins, pool, route, state, usage};

/// What may befall whoever names an account.
const NAMED: &[u16] = &[404, 409, 422];

/// What may befall whoever looks for something by its name.
const FOUND: &[u16] = &[404, 409];

/// Every verb, in the order of the document.
pub(super) fn verbs() -> Vec<Verb> {
    let post = |path| (Method::POST, path);
    vec![
        Verb::read("pool", "/pool", "The fleet at one moment: every account with its state and quota", pool::pool),
        Verb::read("health", "/health", "Whether the daemon can do its work", health::health),
        Verb::read("accounts.list", "/accounts", "Every account, with where it is configured", accounts::list),
        Verb::write(
            "accounts.add",
            post("/accounts"),
            "Saves a token, a key or a whole login as an account, if its provider knows it",
            accounts::add,
        )
        .refusing(NAMED),
        Verb::write(
            "accounts.replace",
            (Method::PUT, "/accounts/{account}"),
            "Gives an account of the store another token, key or login, if its provider knows it",
            accounts::replace,
        )
        .refusing(NAMED),
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
        Verb::write(
            "accounts.probe",
            post("/accounts/{account}/probe"),
            "Asks the provider whether it knows an account's credential",
            accounts::probe,
        )
        .refusing(NAMED),
        Verb::write(
            "accounts.enable",
            post("/accounts/{account}/enable"),
            "Switches an account on, in the configuration file",
            accounts::enable,
        )
        .refusing(NAMED),
        Verb::write(
            "accounts.disable",
            post("/accounts/{account}/disable"),
            "Switches an account off, in the configuration file",
            accounts::disable,
        )
        .refusing(NAMED),
        Verb::write(
            "accounts.priority",
            (Method::PUT, "/accounts/{account}/priority"),
            "Gives an account another priority, in the configuration file",
            accounts::priority,
        )
        .refusing(NAMED),
        Verb::write(
            "accounts.remove",
            (Method::DELETE, "/accounts/{account}"),
            "Takes an account's entry out of the configuration file; its login stays where it is",
            accounts::remove,
        )
        .refusing(NAMED),
        Verb::write(
            "logins.start",
            post("/logins"),
            "Begins a login: gives the page on which a person says yes",
            logins::start,
        )
        .refusing(&[404, 409, 422]),
        Verb::write(
            "logins.complete",
            post("/logins/{login}"),
            "Finishes a login with the code that its page showed, and saves the account",
            logins::complete,
        )
        .refusing(NAMED),
        Verb::write(
            "state.import",
            post("/state/import"),
            "Takes over what another gateway knew of quota; what is of accounts that are not here waits for them",
            state::import,
        )
        .refusing(&[422, 503]),
        Verb::read("activity.list", "/activity", "What happened, oldest first", activity::list).refusing(FOUND),
        Verb::read("failures.list", "/failures", "Messages that did not arrive at once, or at all", failures::list),
        Verb::read("usage", "/usage", "Tokens, cost and cache efficiency of a period, summed up", usage::usage)
            .refusing(&[422]),
        Verb::read(
            "conversations.list",
            "/conversations",
            "The conversations that were used last, and where each is at home",
            conversations::list,
        )
        .refusing(FOUND),
        Verb::read(
            "route.explain",
            "/route",
            "Where a request for a model would go: the whole order, with every reason",
            route::explain,
        )
        .refusing(FOUND),
        Verb::read("config.show", "/config", "The configuration in force, without secrets", config::show),
        Verb::write(
            "config.reload",
            post("/config/reload"),
            "Reads the configuration again and puts it in force; a bad one is refused as a whole",
            config::reload,
        )
        .refusing(&[422]),
    ]
}
