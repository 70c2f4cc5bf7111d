use super::*;
use crate::credentials::lock::{LockAttempt, Step};
use base64::Engine;
use std::os::unix::fs::PermissionsExt;

const QUICK: Duration = Duration::from_millis(30);

async fn expired() -> (Profile, Endpoint, Daemon) {
    ending(-1).await
}

async fn ending(after: i64) -> (Profile, Endpoint, Daemon) {
    let (profile, server) = (Profile::ending(after), Endpoint::start(QUICK).await);
    let daemon = Daemon::on(profile.source(), Some(server.endpoint())).await;
    (profile, server, daemon)
}

/// C30: many requests, one expiry, one refresh; the rotated pair is on disk for its owner alone.
#[tokio::test]
async fn a_hundred_requests_on_an_ended_token_spend_one_refresh_token() {
    for requests in [20, 100] {
        let (profile, server, daemon) = expired().await;
        let tokens = join_all((0..requests).map(|_| daemon.fresh(Patience::Full))).await;
        assert!(tokens.iter().all(|token| token.as_deref() == Ok("at-2")), "{tokens:?}");
        assert_eq!(server.spent(), ["rt-1"]);
        assert_eq!(profile.refresh_token(), "rt-2");
        assert_eq!(fs::metadata(&profile.file).expect("there").permissions().mode() & 0o777, 0o600);
    }
}

/// C30: two daemons share one file; one renews, the other adopts. A stored file has no lock but ours.
#[tokio::test]
async fn two_daemons_on_one_file_spend_one_refresh_token() {
    for stored in [false, true] {
        let (profile, server) = (Profile::ending(-1), Endpoint::start(QUICK).await);
        let source = if stored { profile.stored() } else { profile.source() };
        let one = Daemon::on(source.clone(), Some(server.endpoint())).await;
        let two = Daemon::on(source, Some(server.endpoint())).await;
        let requests = (0..100).map(|n| if n % 2 == 0 { &one } else { &two });
        let tokens = join_all(requests.map(|daemon| daemon.fresh(Patience::Full))).await;
        assert!(tokens.iter().all(|token| token.as_deref() == Ok("at-2")), "{tokens:?}");
        assert_eq!(server.spent(), ["rt-1"]);
        let told: Vec<_> = one.recorder.all().into_iter().chain(two.recorder.all()).collect();
        assert_eq!(told.iter().filter(|news| is_renewed(news)).count(), 1);
        assert!(told.contains(&CredentialNews::Adopted { generation: Generation(2) }), "{told:?}");
    }
}

#[tokio::test]
async fn only_the_pair_is_changed_in_the_file() {
    let (profile, _server, daemon) = expired().await;
    daemon.fresh(Patience::Full).await.expect("renewed");
    let login = json!({"accessToken": "at-2", "refreshToken": "rt-2", "expiresAt": T0 + 8 * HOUR,
        "subscriptionType": "max", "kept": [1]});
    assert_eq!(profile.login(), login);
}

#[tokio::test]
async fn the_request_names_us_and_says_what_it_wants() {
    let (_profile, server, daemon) = expired().await;
    daemon.fresh(Patience::Full).await.expect("renewed");
    let expected = json!({"grant_type": "refresh_token", "refresh_token": "rt-1",
        "client_id": "9d1c250a-e61b-44d9-88ed-5944d1962f5e",
        "scope": "user:profile user:inference user:sessions:claude_code user:mcp_servers user:file_upload"});
    assert_eq!(server.state.calls.lock().expect("unpoisoned")[0], expected);
}

#[tokio::test]
async fn a_client_that_hangs_up_cannot_lose_a_rotated_token() {
    let (profile, server, daemon) = expired().await;
    {
        let request = daemon.fresh(Patience::Full);
        tokio::pin!(request);
        tokio::select! {
            _ = &mut request => panic!("answered before the client hung up"),
            () = server.state.called.notified() => {}
        }
    }
    daemon.settle().await;
    assert_eq!((profile.refresh_token().as_str(), daemon.token().as_deref()), ("rt-2", Ok("at-2")));
}

#[tokio::test]
async fn while_the_old_token_lives_nobody_waits() {
    let (_profile, server, daemon) = ending(4 * 60_000).await;
    assert_eq!(daemon.token().as_deref(), Ok("at-1"));
    assert_eq!(daemon.fresh(Patience::Full).await.as_deref(), Ok("at-1"));
    daemon.recorder.wait_for(is_renewed).await;
    assert_eq!(daemon.token().as_deref(), Ok("at-2"));
    assert_eq!(server.spent(), ["rt-1"]);
}

#[tokio::test]
async fn a_token_with_time_left_is_not_renewed() {
    let (_profile, server, daemon) = ending(6 * 60_000).await;
    assert_eq!(daemon.fresh(Patience::Full).await.as_deref(), Ok("at-1"));
    daemon.vault.reload_sources().await;
    daemon.settle().await;
    assert!(server.spent().is_empty());
}

/// C37: looking at the state of an ended token asks nobody for a new one.
#[tokio::test]
async fn a_look_at_the_status_never_spends_a_refresh_token() {
    let (_profile, server, daemon) = expired().await;
    let status = daemon.vault.status(ACCOUNT).expect("known");
    daemon.settle().await;
    assert_eq!((status.grant, status.expires_at.map(|end| end.0)), (Grant::Alive, Some(T0 - 1)));
    assert!(server.spent().is_empty());
}

/// C32: what proves nothing changes nothing, and is tried again after a pause.
#[tokio::test]
async fn a_hiccup_at_the_endpoint_keeps_the_account() {
    let (profile, server, daemon) = expired().await;
    let mut tries = 0;
    for (status, body) in [(503, ""), (429, "{}"), (408, ""), (403, "<html>no</html>"), (400, "{}"), (200, "<html>")] {
        server.answer(status, body);
        assert!(matches!(daemon.fresh(Patience::Short).await, Err(NotNow::Postponed(_))), "{status}");
        tries += 1;
        assert_eq!(server.spent().len(), tries, "nobody asks during the pause");
        assert!(matches!(daemon.token(), Err(NotNow::Postponed(_))));
        daemon.clock.advance(Duration::from_secs(61));
    }
    assert_eq!(profile.refresh_token(), "rt-1");
    assert!(daemon.recorder.all().iter().all(is_failed));
    assert_eq!(daemon.fresh(Patience::Short).await.as_deref(), Ok("at-2"));
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_reached_keeps_the_account() {
    let profile = Profile::ending(-1);
    let closed = TokenUrl::parse("http://127.0.0.1:1/token").expect("loopback");
    let daemon =
        Daemon::on(profile.source(), Some(TokenEndpoint { url: closed, user_agent: None, issuer: Issuer::Anthropic }))
            .await;
    assert!(matches!(daemon.fresh(Patience::Short).await, Err(NotNow::Postponed(_))));
    assert!(
        matches!(&daemon.recorder.all()[..], [CredentialNews::RefreshFailed { detail, .. }] if detail == "no connection")
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (_profile, server, daemon) = expired().await;
    server.script(|| axum::response::Redirect::temporary("/token").into_response());
    assert!(matches!(daemon.fresh(Patience::Short).await, Err(NotNow::Postponed(_))));
    assert_eq!(server.spent().len(), 1);
}

/// Whoever comes to look only after the pause is over, since the machine slept or was busy, has waited through it.
#[tokio::test]
async fn a_pause_that_is_over_before_it_is_seen_is_no_end() {
    let (_profile, server, daemon) = expired().await;
    server.answer(503, "");
    let slept = async {
        daemon.recorder.wait_for(is_failed).await;
        daemon.clock.advance(Duration::from_secs(60));
    };
    let ((), token) = tokio::join!(slept, daemon.fresh(Patience::Full));
    assert_eq!(token.as_deref(), Ok("at-2"));
    assert_eq!(server.spent(), ["rt-1", "rt-1"]);
}

/// C30: a failed refresh releases those who wait and does not spoil the next try.
#[tokio::test]
async fn whoever_has_nowhere_else_to_go_waits_through_a_failure() {
    let (_profile, server, daemon) = expired().await;
    server.answer(503, "");
    let (token, ()) = tokio::join!(daemon.fresh(Patience::Full), async {
        daemon.recorder.wait_for(is_failed).await;
        daemon.clock.advance(Duration::from_secs(1));
    });
    assert_eq!(token.as_deref(), Ok("at-2"));
    assert_eq!(server.spent(), ["rt-1", "rt-1"]);
}

#[tokio::test]
async fn a_refused_token_does_not_break_the_pause_between_tries() {
    let (_profile, server, daemon) = ending(HOUR).await;
    server.answer(503, "");
    assert_eq!(daemon.rejected("at-1").await.0, "failed");
    assert_eq!(daemon.rejected("at-1").await.0, "failed");
    assert_eq!(server.spent().len(), 1);
    daemon.clock.advance(Duration::from_secs(1));
    assert_eq!(daemon.rejected("at-1").await, ("refreshed", Some("at-2".into())));
}

/// C32, C34: a dead refresh token is sent once in total; a new one in the file is used without a restart.
#[tokio::test]
async fn a_dead_refresh_token_is_sent_once() {
    for (status, body) in [(400, r#"{"error":"invalid_grant"}"#), (200, r#"{"error":"bad_refresh_token"}"#)] {
        let (profile, server, daemon) = expired().await;
        server.answer(status, body);
        for _ in 0..10 {
            assert_eq!(daemon.fresh(Patience::Full).await, Err(NotNow::LoginNeeded));
            assert_eq!(daemon.rejected("at-1").await.0, "grant lost");
            daemon.vault.reload_sources().await;
            daemon.clock.advance(Duration::from_secs(180));
        }
        assert_eq!(server.spent(), ["rt-1"]);
        let lost = daemon.recorder.all();
        assert!(matches!(&lost[..], [CredentialNews::GrantLost { .. }]), "told once: {lost:?}");
        profile.write("at-y", "rt-y", T0 + HOUR);
        daemon.vault.reload_sources().await;
        assert_eq!(daemon.token().as_deref(), Ok("at-y"));
        let replaced = CredentialNews::Replaced { generation: Generation(2) };
        assert_eq!(daemon.recorder.all().last(), Some(&replaced));
    }
}

#[tokio::test]
async fn a_lost_grant_serves_until_its_access_token_ends() {
    let (_profile, server, daemon) = ending(60_000).await;
    server.answer(400, r#"{"error":"invalid_grant"}"#);
    assert_eq!(daemon.token().as_deref(), Ok("at-1"));
    let news = daemon.recorder.wait_for(|news| matches!(news, CredentialNews::GrantLost { .. })).await;
    let until = duduclaw_actors::clock::Deadline::Wall(duduclaw_actors::clock::Wall(T0 + 60_000));
    assert_eq!(news, CredentialNews::GrantLost { access_until: until });
    assert_eq!(daemon.token().as_deref(), Ok("at-1"));
    daemon.clock.advance(Duration::from_secs(60));
    assert_eq!(daemon.token(), Err(NotNow::LoginNeeded));
    assert_eq!(server.spent().len(), 1);
}

#[tokio::test]
async fn a_pair_that_another_program_rotated_meanwhile_is_adopted() {
    let (profile, server, daemon) = expired().await;
    let file = profile.file.clone();
    server.script(move || {
        write_login(&file, "at-other", "rt-other", T0 + HOUR);
        (StatusCode::BAD_REQUEST, r#"{"error":"invalid_grant"}"#).into_response()
    });
    assert_eq!(daemon.fresh(Patience::Full).await.as_deref(), Ok("at-other"));
    assert_eq!(daemon.recorder.all(), [CredentialNews::Adopted { generation: Generation(2) }]);
}

#[tokio::test]
async fn a_newer_pair_in_the_file_is_never_overwritten() {
    let (profile, server, daemon) = expired().await;
    let file = profile.file.clone();
    server.script(move || {
        write_login(&file, "at-other", "rt-other", T0 + HOUR);
        axum::Json(json!({"access_token": "at-late", "refresh_token": "rt-late"})).into_response()
    });
    assert_eq!(daemon.fresh(Patience::Full).await.as_deref(), Ok("at-other"));
    assert_eq!(profile.refresh_token(), "rt-other");
}

#[tokio::test]
async fn a_login_that_was_removed_meanwhile_is_not_brought_back() {
    let (profile, server, daemon) = expired().await;
    let file = profile.file.clone();
    server.script(move || {
        fs::remove_file(&file).expect("logged out");
        axum::Json(json!({"access_token": "at-2", "refresh_token": "rt-2"})).into_response()
    });
    assert_eq!(daemon.fresh(Patience::Full).await, Err(NotNow::Broken(Cause::Unreadable)));
    assert!(!profile.file.exists());
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_for_all() {
    let (_profile, server, daemon) = ending(HOUR).await;
    let answers = join_all((0..20).map(|_| daemon.rejected("at-1"))).await;
    assert!(answers.iter().all(|(_, token)| token.as_deref() == Some("at-2")), "{answers:?}");
    assert_eq!(server.spent(), ["rt-1"]);
    assert_eq!(daemon.rejected("at-1").await, ("adopted", Some("at-2".into())), "a late 401 on the old token");
    assert_eq!(server.spent(), ["rt-1"]);
}

#[tokio::test]
async fn a_refused_token_that_the_file_has_replaced_costs_no_call() {
    let (profile, server, daemon) = ending(HOUR).await;
    profile.write("at-other", "rt-other", T0 + HOUR);
    assert_eq!(daemon.rejected("at-1").await, ("adopted", Some("at-other".into())));
    assert!(server.spent().is_empty());
}

#[tokio::test]
async fn a_refused_token_with_a_dead_grant_serves_no_more() {
    let (_profile, server, daemon) = ending(HOUR).await;
    server.answer(400, r#"{"error":"invalid_grant"}"#);
    assert_eq!(daemon.rejected("at-1").await.0, "grant lost");
    let now = duduclaw_actors::clock::Deadline::Wall(daemon.clock.now().wall);
    assert_eq!(daemon.recorder.all(), [CredentialNews::GrantLost { access_until: now }]);
}

#[tokio::test]
async fn a_failed_write_is_tried_again_while_the_new_token_serves() {
    let (profile, server, daemon) = expired().await;
    let in_the_way = profile.file.with_file_name("..credentials.json.duduclaw-new");
    fs::create_dir(&in_the_way).expect("made");
    assert_eq!(daemon.fresh(Patience::Full).await.as_deref(), Ok("at-2"));
    assert_eq!(profile.refresh_token(), "rt-1");
    let news = daemon.recorder.wait_for(|news| matches!(news, CredentialNews::NotSaved { .. })).await;
    assert!(format!("{news:?}").contains(".credentials.json"), "{news:?}");
    daemon.vault.reload_sources().await;
    assert_eq!(daemon.token().as_deref(), Ok("at-2"), "the older pair in the file is not taken for a newer one");
    daemon.clock.advance(Duration::from_secs(9 * 3600));
    assert_eq!(daemon.fresh(Patience::Full).await.as_deref(), Ok("at-3"));
    assert_eq!(server.spent(), ["rt-1", "rt-2"], "renewed from memory");
    fs::remove_dir(&in_the_way).expect("cleared");
    daemon.settle().await;
    daemon.vault.reload_sources().await;
    assert_eq!(profile.refresh_token(), "rt-3");
    assert!(daemon.vault.status(ACCOUNT).expect("known").is_saved);
}

#[tokio::test]
async fn what_could_not_be_written_is_written_at_a_later_look() {
    let (profile, _server, daemon) = expired().await;
    let in_the_way = profile.file.with_file_name("..credentials.json.duduclaw-new");
    fs::create_dir(&in_the_way).expect("made");
    daemon.fresh(Patience::Full).await.expect("renewed");
    daemon.settle().await;
    fs::remove_dir(&in_the_way).expect("cleared");
    daemon.vault.reload_sources().await;
    assert_eq!(profile.refresh_token(), "rt-2");
    assert_eq!(daemon.recorder.all().last(), Some(&CredentialNews::Saved));
}

#[tokio::test]
async fn a_lock_of_claude_code_is_respected_and_only_those_without_choice_wait() {
    let (profile, server, daemon) = expired().await;
    fs::create_dir(profile.lock_folder()).expect("locked by Claude Code");
    let (token, ()) = tokio::join!(daemon.fresh(Patience::Short), async {
        daemon.blocked().await;
        daemon.clock.advance(Duration::from_secs(2));
    });
    assert_eq!(token, Err(NotNow::Renewing));
    let at_once = timeout(Duration::from_millis(500), daemon.fresh(Patience::Short)).await;
    assert_eq!(at_once.expect("blocked for long: no further wait"), Err(NotNow::Renewing));
    assert!(server.spent().is_empty());
    let (token, ()) = tokio::join!(daemon.fresh(Patience::Full), async {
        fs::remove_dir(profile.lock_folder()).expect("released");
    });
    assert_eq!(token.as_deref(), Ok("at-2"));
    assert!(!profile.lock_folder().exists());
}

#[tokio::test]
async fn what_the_lock_holder_writes_is_adopted_even_if_it_never_lets_go() {
    let (profile, server, daemon) = expired().await;
    let Ok(Step::Locked(_held)) = LockAttempt::on(&profile.file).step() else { panic!("nobody else holds it") };
    let (token, ()) = tokio::join!(daemon.fresh(Patience::Full), async {
        daemon.blocked().await;
        profile.write("at-other", "rt-other", T0 + HOUR);
    });
    assert_eq!(token.as_deref(), Ok("at-other"));
    assert!(server.spent().is_empty());
}

#[tokio::test]
async fn a_short_lived_token_is_not_renewed_on_every_use() {
    let (_profile, server, daemon) = expired().await;
    server.script(|| axum::Json(json!({"access_token": "at-short", "expires_in": 120})).into_response());
    assert_eq!(daemon.fresh(Patience::Full).await.as_deref(), Ok("at-short"));
    assert_eq!(daemon.token().as_deref(), Ok("at-short"));
    daemon.settle().await;
    assert_eq!(server.spent().len(), 1);
    daemon.clock.advance(Duration::from_secs(61));
    assert_eq!(daemon.token().as_deref(), Ok("at-short"));
    daemon.settle().await;
    assert_eq!(server.spent(), ["rt-1", "rt-1"], "the refresh token was kept, since no other came");
}

/// Where our clock is ahead, a new token says by itself that it has ended. Renewed again at once, it would be for ever.
#[tokio::test]
async fn a_token_that_says_it_had_ended_when_it_was_given_is_taken_as_new() {
    let (_profile, server, daemon) = expired().await;
    let claims = json!({"exp": T0 / 1000 - 60}).to_string();
    let token = format!("e30.{}.sig", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims));
    let given = token.clone();
    server.script(move || axum::Json(json!({"access_token": given, "expires_in": 3600})).into_response());
    assert_eq!(daemon.fresh(Patience::Full).await, Ok(token.clone()));
    assert_eq!(daemon.token(), Ok(token));
    daemon.settle().await;
    assert_eq!(server.spent().len(), 1);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("unpoisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// C116: whatever the endpoint answers, no log line, message or debug text holds a token.
#[tokio::test]
async fn no_token_ever_shows() {
    const ECHO: &str = r#"{"error":"invalid_request","error_description":"rt-CANARY","refresh_token":"rt-CANARY"}"#;
    let log = Log::default();
    let sink = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || sink.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (profile, server, daemon) = ending(HOUR).await;
    profile.write("at-CANARY", "rt-CANARY", T0 - 1);
    daemon.vault.reload_sources().await;
    for (status, body) in [(400, ECHO), (200, r#"{"access_token":"at-CANARY"#), (503, ECHO)] {
        server.answer(status, body);
        daemon.fresh(Patience::Short).await.expect_err("no token");
        daemon.clock.advance(Duration::from_secs(61));
    }
    server
        .script(|| axum::Json(json!({"access_token": "new-CANARY", "refresh_token": "newer-CANARY"})).into_response());
    let held = daemon.vault.fresh(ACCOUNT, Patience::Full).await.expect("renewed");
    server.answer(400, r#"{"error":"invalid_grant","refresh_token":"newer-CANARY"}"#);
    let lost = daemon.vault.refresh_rejected(ACCOUNT, held.secret.fingerprint(), Patience::Full).await;
    let shown = format!(
        "{held:?} {lost:?} {:?} {:?} {:?} {}",
        daemon.recorder.all(),
        daemon.vault,
        daemon.vault.status(ACCOUNT),
        String::from_utf8_lossy(&log.0.lock().expect("unpoisoned"))
    );
    assert!(shown.contains("the refresh grant is gone"), "the log was captured");
    assert!(!shown.contains("CANARY"), "{shown}");
}
