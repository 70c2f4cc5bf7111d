use super::*;
use duduclaw_actors::id::CredentialKind;

fn broke(daemon: &Daemon) -> Vec<(Cause, String)> {
    let all = daemon.recorder.all();
    all.into_iter()
        .filter_map(|news| match news {
            CredentialNews::Broke { cause, detail } => Some((cause, detail)),
            CredentialNews::Renewed { .. }
            | CredentialNews::Adopted { .. }
            | CredentialNews::Replaced { .. }
            | CredentialNews::ReplacedUnverified { .. }
            | CredentialNews::ReadAgain { .. }
            | CredentialNews::GrantLost { .. }
            | CredentialNews::RefreshFailed { .. }
            | CredentialNews::NotSaved { .. }
            | CredentialNews::Saved => None,
        })
        .collect()
}

#[tokio::test]
async fn variables_serve_as_they_are_and_are_never_renewed() {
    let daemon = Daemon::empty(&[("T", " sk-ant-oat01-x\n"), ("K", "sk-ant-api03-y")]);
    daemon.assign(SecretSource::TokenEnv("T".into()), None).await;
    let held = daemon.vault.current(ACCOUNT).expect("a token");
    assert_eq!((held.kind, held.secret.expose()), (CredentialKind::SetupToken, "sk-ant-oat01-x"));
    assert_eq!(daemon.rejected("sk-ant-oat01-x").await.0, "still same");
    daemon.assign(SecretSource::ApiKeyEnv("K".into()), None).await;
    let held = daemon.vault.current(ACCOUNT).expect("a key");
    assert_eq!((held.kind, held.generation), (CredentialKind::ApiKey, Generation(2)));
    assert_eq!(daemon.recorder.all(), [CredentialNews::Replaced { generation: Generation(2) }]);
}

/// C50: an account that was declared and never logged in is broken, and says what to do.
#[tokio::test]
async fn an_account_without_its_file_is_broken_until_the_file_comes() {
    let profile = Profile::ending(HOUR);
    let text = fs::read(&profile.file).expect("there");
    fs::remove_file(&profile.file).expect("removed");
    let daemon = Daemon::on(profile.source(), None).await;
    assert_eq!(daemon.token(), Err(NotNow::Broken(Cause::Unreadable)));
    assert!(matches!(&broke(&daemon)[..], [(_, detail)] if detail.contains("log in")), "{:?}", broke(&daemon));
    daemon.vault.reload_sources().await;
    assert_eq!(broke(&daemon).len(), 1, "told once");
    fs::write(&profile.file, text).expect("logged in");
    daemon.vault.reload_sources().await;
    assert_eq!(daemon.token().as_deref(), Ok("at-1"));
    assert_eq!(daemon.recorder.all().last(), Some(&CredentialNews::ReadAgain { generation: Generation(1) }));
}

/// C110, C111: a corrupt file breaks its account, is named by place, and keeps every byte.
#[tokio::test]
async fn a_corrupt_file_breaks_its_account_and_is_never_overwritten() {
    let server = Endpoint::start(Duration::ZERO).await;
    let profile = Profile::ending(-1);
    let mut corrupt = fs::read(&profile.file).expect("there");
    corrupt.push(b'}');
    for (bytes, cause, words) in
        [(corrupt, Cause::Unreadable, "line 1, column"), (Vec::new(), Cause::Empty, "is empty")]
    {
        fs::write(&profile.file, &bytes).expect("written");
        let daemon = Daemon::on(profile.source(), Some(server.endpoint())).await;
        assert_eq!(daemon.fresh(Patience::Full).await, Err(NotNow::Broken(cause)));
        assert_eq!(daemon.rejected("at-1").await.0, "broken");
        assert!(broke(&daemon)[0].1.contains(words), "{:?}", broke(&daemon));
        assert_eq!(fs::read(&profile.file).expect("there"), bytes);
    }
    assert!(server.spent().is_empty());
}

#[tokio::test]
async fn a_file_that_is_just_being_written_is_read_again() {
    let profile = Profile::ending(HOUR);
    let whole = fs::read(&profile.file).expect("there");
    fs::write(&profile.file, &whole[..20]).expect("half written");
    let (daemon, ()) = tokio::join!(Daemon::on(profile.source(), None), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        fs::write(&profile.file, &whole).expect("wholly written");
    });
    assert_eq!(daemon.token().as_deref(), Ok("at-1"));
    assert!(daemon.recorder.all().is_empty());
}

/// Its key goes out of use when all is sealed with the new one, perhaps just after its file was read.
#[tokio::test]
async fn a_file_that_is_just_being_sealed_with_another_key_is_read_again() {
    let home = tempfile::tempdir().expect("a home");
    let file = home.path().join("mine.json");
    let text = |token: &str| format!(r#"{{"claudeAiOauth": {{"accessToken": "{token}"}}}}"#);
    let of_before = format!("duduclaw-sealed:1:0123456789abcdef:{}", "A".repeat(80));
    fs::write(&file, text(&of_before)).expect("written");
    let (daemon, ()) = tokio::join!(Daemon::on(SecretSource::StoreFile(file.clone()), None), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        fs::write(&file, text("at-1")).expect("written");
    });
    assert_eq!(daemon.token().as_deref(), Ok("at-1"));
    assert!(!daemon.recorder.all().iter().any(|news| matches!(news, CredentialNews::Broke { .. })));
}

#[tokio::test]
async fn a_renewal_by_another_program_is_adopted_and_another_account_replaces() {
    let profile = Profile::ending(HOUR);
    let record = profile.home.path().join(".claude.json");
    let of = |uuid: &str| format!(r#"{{"oauthAccount":{{"accountUuid":"{uuid}"}}}}"#);
    fs::write(&record, of("u-1")).expect("written");
    let daemon = Daemon::on(profile.source(), None).await;
    profile.write("at-2", "rt-2", T0 + HOUR);
    daemon.vault.reload_sources().await;
    fs::write(&record, of("u-2")).expect("written");
    profile.write("at-3", "rt-3", T0 + HOUR);
    daemon.vault.reload_sources().await;
    daemon.vault.reload_sources().await;
    let expected =
        [CredentialNews::Adopted { generation: Generation(2) }, CredentialNews::Replaced { generation: Generation(3) }];
    assert_eq!(daemon.recorder.all(), expected);
    assert_eq!(daemon.token().as_deref(), Ok("at-3"));
}

#[tokio::test]
async fn a_lost_file_breaks_the_account_and_its_return_heals_it() {
    let profile = Profile::ending(HOUR);
    let daemon = Daemon::on(profile.source(), None).await;
    fs::remove_file(&profile.file).expect("logged out");
    daemon.vault.reload_sources().await;
    assert_eq!(daemon.token(), Err(NotNow::Broken(Cause::Unreadable)));
    profile.write("at-2", "rt-2", T0 + HOUR);
    daemon.vault.reload_sources().await;
    assert_eq!(daemon.token().as_deref(), Ok("at-2"));
    assert!(daemon.recorder.all().contains(&CredentialNews::ReadAgain { generation: Generation(2) }));
}

/// C45: an account that appears while running is the same as one that was there from the start.
#[tokio::test]
async fn a_new_account_serves_at_once_and_a_removed_one_is_forgotten() {
    let profile = Profile::ending(HOUR);
    let daemon = Daemon::empty(&[]);
    assert_eq!(daemon.token(), Err(NotNow::Unknown));
    daemon.assign(profile.source(), None).await;
    assert_eq!(daemon.vault.current(ACCOUNT).expect("there").kind, CredentialKind::Oauth);
    daemon.vault.assign(Vec::new()).await;
    assert_eq!(daemon.token(), Err(NotNow::Unknown));
}

#[tokio::test]
async fn an_unchanged_account_keeps_what_it_knows_through_a_reload() {
    let server = Endpoint::start(Duration::ZERO).await;
    let profile = Profile::ending(-1);
    let daemon = Daemon::on(profile.source(), Some(server.endpoint())).await;
    server.answer(400, r#"{"error":"invalid_grant"}"#);
    daemon.fresh(Patience::Full).await.expect_err("dead");
    daemon.assign(profile.source(), Some(server.endpoint())).await;
    assert_eq!(daemon.fresh(Patience::Full).await, Err(NotNow::LoginNeeded));
    assert_eq!(server.spent(), ["rt-1"]);
}

#[tokio::test]
async fn a_remembered_generation_goes_on() {
    let profile = Profile::ending(HOUR);
    let daemon = Daemon::empty(&[]);
    let to = Assignment {
        account: ACCOUNT,
        source: profile.source(),
        endpoint: None,
        generation: Generation(41),
        trace: None,
        broken: None,
    };
    daemon.vault.assign(vec![to]).await;
    assert_eq!(daemon.vault.current(ACCOUNT).expect("there").generation, Generation(41));
}

#[tokio::test]
async fn a_setup_token_is_not_judged_by_its_date() {
    let profile = Profile::ending(-1);
    fs::write(&profile.file, r#"{"claudeAiOauth":{"accessToken":"t","expiresAt":1}}"#).expect("written");
    let daemon = Daemon::on(profile.source(), None).await;
    assert_eq!(daemon.token().as_deref(), Ok("t"));
}

#[tokio::test]
async fn accounts_without_a_secret_say_so() {
    let daemon = Daemon::on(SecretSource::Keychain { config_dir: None }, None).await;
    assert_eq!(daemon.token(), Err(NotNow::NoSecret));
    assert_eq!(daemon.fresh(Patience::Full).await, Err(NotNow::NoSecret));
}

#[tokio::test]
async fn an_ended_login_that_nothing_can_renew_needs_a_login() {
    let profile = Profile::ending(-1);
    let daemon = Daemon::on(profile.source(), None).await;
    let at_once = timeout(Duration::from_secs(1), daemon.fresh(Patience::Full)).await;
    assert_eq!(at_once.expect("no endless wait"), Err(NotNow::LoginNeeded));
}

#[tokio::test]
async fn a_watched_file_is_read_when_it_changes() {
    let profile = Profile::ending(HOUR);
    let daemon = Daemon::on(profile.source(), None).await;
    daemon.vault.watch();
    // The first two changes may be seen by the looks with which watching begins; the third only by watching.
    for (token, generation) in [("at-2", Generation(2)), ("at-3", Generation(3)), ("at-4", Generation(4))] {
        profile.write(token, "rt", T0 + HOUR);
        daemon.recorder.wait_for(|news| *news == CredentialNews::Adopted { generation }).await;
        assert_eq!(daemon.token().as_deref(), Ok(token));
    }
    daemon.shutdown.cancel();
    daemon.settle().await;
}
