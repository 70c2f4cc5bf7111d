//! What a token of the three-part kind says of itself. It is read and not verified: it came from the provider over TLS
//! or from the user's own file, and nothing is granted by what it says.
//!
//! Never here: what ids mean for accounts.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use duduclaw_actors::clock::Wall;
use serde_json::Value;
use zeroize::Zeroizing;

/// The claim in which the issuer of ChatGPT logins says whose one is.
const CHATGPT: &str = "https://api.openai.com/auth";

/// When the token ends.
pub(crate) fn expiry(token: &str) -> Option<Wall> {
    let seconds = claims(token)?.get("exp")?.as_i64()?;
    Some(Wall(seconds.checked_mul(1000)?))
}

/// The ChatGPT account that an id token is of.
pub(crate) fn chatgpt_account(id_token: &str) -> Option<String> {
    chatgpt(id_token, "chatgpt_account_id")
}

/// The plan that an id token tells.
pub(crate) fn chatgpt_plan(id_token: &str) -> Option<String> {
    chatgpt(id_token, "chatgpt_plan_type")
}

fn chatgpt(id_token: &str, key: &str) -> Option<String> {
    let claims = claims(id_token)?;
    let value = claims.get(CHATGPT)?.get(key)?.as_str()?.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

fn claims(token: &str) -> Option<Value> {
    let payload = token.split('.').nth(1)?.trim_end_matches('=');
    let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(payload).ok()?);
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn an_id_token_says_whose_it_is() {
        let token = token(
            r#"{"https://api.openai.com/auth":{"chatgpt_account_id":"acc-1","chatgpt_plan_type":"pro"},"exp":7}"#,
        );
        assert_eq!(chatgpt_account(&token).as_deref(), Some("acc-1"));
        assert_eq!(chatgpt_plan(&token).as_deref(), Some("pro"));
        assert_eq!(expiry(&token), Some(Wall(7_000)));
    }

    #[test]
    fn what_is_no_such_token_says_nothing() {
        for odd in ["", "a", "a.b.c", "a.!!.c", &token("[]"), &token(r#"{"exp":"soon"}"#)] {
            assert_eq!((expiry(odd), chatgpt_account(odd)), (None, None), "{odd}");
        }
    }
}
