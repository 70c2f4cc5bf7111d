use super::*;

fn says(message: &str) -> ProviderError {
    let body = serde_json::json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
    ProviderError::read(body.to_string().as_bytes())
}

#[test]
fn every_type_stands_in_its_own_row() {
    for (kind, name, status) in KINDS {
        assert_eq!((kind.as_str(), kind.status()), (name, status));
        assert_eq!(ErrorKind::from_name(name), Some(kind));
        assert_eq!(ErrorKind::of_status(status), kind);
    }
    assert_eq!(ErrorKind::from_name("error_of_tomorrow"), None);
    assert_eq!(OVERLOADED.as_u16(), 529);
}

#[test]
fn a_status_without_a_type_of_its_own_takes_that_of_its_class() {
    for (status, kind) in [
        (405, ErrorKind::InvalidRequest),
        (408, ErrorKind::Timeout),
        (421, ErrorKind::InvalidRequest),
        (431, ErrorKind::InvalidRequest),
        (502, ErrorKind::Api),
        (503, ErrorKind::Api),
        (599, ErrorKind::Api),
    ] {
        assert_eq!(ErrorKind::of_status(StatusCode::from_u16(status).unwrap()), kind, "{status}");
    }
}

#[test]
fn looser_shapes_are_read_and_others_say_nothing() {
    assert!(ProviderError::read(br#"{"error":"Your credit balance is too low"}"#).is_about_money());
    assert!(ProviderError::read(b"\xEF\xBB\xBF{\"error\":\"spend limit\"}").is_about_money());
    for silent in [
        "",
        "not json",
        "<html>credit balance</html>",
        "null",
        "[]",
        "7",
        r#""credit balance""#,
        r#"{"error":null}"#,
        r#"{"error":["credit balance"]}"#,
        r#"{"message":"credit balance"}"#,
        r#"{"error":{"details":"credit balance"}}"#,
        r#"{"error":{"type":7,"message":["credit balance"]}}"#,
        r#"{"error":{"message":"credit balance"#,
    ] {
        assert_eq!(ProviderError::read(silent.as_bytes()), ProviderError::default(), "{silent}");
    }
    assert_eq!(ProviderError::read(&b"[".repeat(100_000)), ProviderError::default(), "nested too deep");
    let long = format!(r#"{{"error":"credit balance {}"}}"#, "x".repeat(LONGEST_ERROR));
    assert_eq!(ProviderError::read(long.as_bytes()), ProviderError::default(), "too long to be an error");
}

/// C05: which of a provider's words speak of the request, in the forms seen.
#[test]
fn a_429_about_the_request_is_told_by_its_message() {
    for text in [
        "Extra usage is required for long context requests.",
        "Usage credits are required for long context requests.",
        "The long context beta is not yet available for this subscription.",
        "Extra usage is required for 1M context",
        "This model is not available on your plan.",
        "Your plan does not include this feature.",
        "claude-x is not supported: model not enabled",
    ] {
        assert!(says(text).is_about_the_request(), "{text}");
    }
    for text in [
        "",
        "limit",
        "Rate limited. Please try again later.",
        "This request would exceed your account's rate limit. Please try again later.",
        "This request would exceed your organization's rate limit of 30,000 input tokens per minute (model: claude-x).",
        "You have used up your plan. Upgrade to go on.",
        "An explanation is not available",
    ] {
        assert!(!says(text).is_about_the_request(), "{text}");
    }
}

/// C09.
#[test]
fn a_403_by_the_organisation_is_told_by_its_message() {
    for text in [
        "OAuth authentication is currently not allowed for this organization.",
        "Your organization has disabled Claude subscription access for Claude Code",
        "Your organisation does not have access to Claude. Please contact your administrator.",
        "OAuth token does not meet scope requirement any_of(user:inference)",
    ] {
        assert!(says(text).is_the_organisations(), "{text}");
    }
    for text in ["Request not allowed", "Your organization does not have access to model claude-x", "reorganised", ""] {
        assert!(!says(text).is_the_organisations(), "{text}");
    }
}

#[test]
fn empty_pockets_are_told_by_type_or_message() {
    for text in [
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
        "API key USD spend limit exceeded",
        "You have reached your specified API usage limits. You will regain access on 2026-11-01 at 00:00 UTC.",
        "You have reached your specified workspace API usage limits.",
    ] {
        assert!(says(text).is_about_money(), "{text}");
    }
    let billing = br#"{"type":"error","error":{"type":"billing_error","message":"no"}}"#;
    assert!(ProviderError::read(billing).is_about_money());
    for text in ["prompt is too long: 1186139 tokens > 1000000 maximum", "max_tokens exceeds the limit", ""] {
        assert!(!says(text).is_about_money(), "{text}");
    }
}
