//! Paths: what could be read in two ways is refused, what is no endpoint is not served, what is open goes through as it
//! came.

use crate::support::{World, status};

async fn post(world: &World, target: &str) -> u16 {
    let request =
        format!("POST {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}");
    status(&world.raw(request).await)
}

#[tokio::test]
async fn a_path_that_two_programs_could_read_differently_is_refused() {
    let world = World::logins(&["a"]).await;
    let refused = [
        "/v1/../admin/api/pool",
        "/v1/./messages",
        "/v1/messages/..",
        "/v1//messages",
        "//v1/messages",
        "/v1/messages/%2e%2e/oauth/token",
        "/v1/%2E%2e/x",
        "/v1/%252e%252e/x",
        "/v1/%25252e%25252e/x",
        "/v1/messages%2fcount_tokens",
        "/v1/messages%252Fcount_tokens",
        "/v1/x%5c..%5coauth",
        "/v1/x\\..\\oauth",
        "/v1/..;/oauth/token",
        "/v1/files%00",
        "/v1/files%0d%0ax",
        "/v1/%2525252525252e",
    ];
    for target in refused {
        assert_eq!(post(&world, target).await, 400, "{target}");
    }
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn logins_are_never_passed_through_however_they_are_spelled() {
    let world = World::logins(&["a"]).await;
    for target in [
        "/v1/oauth/token",
        "/v1/oauth",
        "/v1/OAuth/token",
        "/v1/o%61uth/token",
        "/v1/%256fauth/token",
        "/v1/oauth/token?x=/../y",
    ] {
        assert_eq!(post(&world, target).await, 403, "{target}");
    }
    assert!(world.sim.log().is_empty());
}

/// A provider answers TRACE with the request as it got it, credential and all.
#[tokio::test]
async fn a_request_that_asks_for_its_own_echo_goes_nowhere() {
    let world = World::logins(&["a"]).await;
    for target in ["/v1/files", "/v1/messages", "/v1/models", "/api/oauth/usage"] {
        let request = format!("TRACE {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        assert_eq!(status(&world.raw(request).await), 405, "{target}");
    }
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn what_is_no_endpoint_of_ours_is_not_found_and_goes_nowhere() {
    let world = World::logins(&["a"]).await;
    for target in [
        "/v2/messages",
        "/messages",
        "/v1beta/models/x:generateContent",
        "/v1/chat/completions",
        "/v1/responses",
        "/favicon.ico",
        "/rpcx",
    ] {
        assert_eq!(post(&world, target).await, 404, "{target}");
    }
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn a_path_answers_its_methods_only() {
    let world = World::logins(&["a"]).await;
    for (method, target) in [
        ("GET", "/v1/messages"),
        ("PUT", "/v1/messages/count_tokens"),
        ("POST", "/v1/models"),
        ("POST", "/"),
        ("DELETE", "/api/hello"),
    ] {
        let answer =
            world.raw(format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")).await;
        assert_eq!(status(&answer), 405, "{method} {target}");
        assert!(answer.to_ascii_lowercase().contains("\r\nallow: "), "{answer}");
    }
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn query_and_path_reach_the_provider_as_they_came() {
    let world = World::logins(&["a"]).await;
    let kept = [
        "/v1/files?after=a%2Fb&x=..%2F",
        "/v1/files/f%C3%A9?q=%20",
        "/api/thing?beta=true&beta=false",
        "/v1/models/claude-opus-5-5?",
    ];
    for target in kept {
        world.status_of(target, "host: localhost\r\n").await;
        let record = world.sim.log().pop().unwrap();
        assert_eq!(record.path.trim_end_matches('?'), target.trim_end_matches('?'));
    }
    assert_eq!(world.sim.log().len(), kept.len());
}
