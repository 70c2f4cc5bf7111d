use super::*;
use duduclaw_actors::outcome::Cause;

fn parse(text: &str) -> Result<Document, SourceError> {
    Document::parse(Path::new("/home/u/.claude/.credentials.json"), text.as_bytes())
}

fn login(text: &str) -> Result<Login, SourceError> {
    parse(text).and_then(|document| document.login(Path::new("/f.json"), &Seals::FOREIGN))
}

fn tokens() -> NewTokens {
    let secret = |text| Secret::parse(text).expect("a token");
    NewTokens { access: secret("at-2"), refresh: secret("rt-2"), expires_at: Wall(99) }
}

const FULL: &str = r#"{"mcpOAuth":{"x":[1,2.50,null]},"claudeAiOauth":{"accessToken":" at-1\n","refreshToken":"rt-1","expiresAt":1700000000000,"scopes":["user:inference"],"subscriptionType":"max","rateLimitTier":"z"},"organizationUuid":"o-1","later":{"deep":18446744073709551615}}"#;

#[test]
fn claude_codes_own_shape_is_read() {
    let login = login(FULL).expect("a login");
    assert_eq!(login.kind, CredentialKind::Oauth);
    assert_eq!(login.access.expose(), "at-1");
    assert_eq!(login.refresh.expect("refreshable").expose(), "rt-1");
    assert_eq!(login.expires_at, Some(Wall(1_700_000_000_000)));
    assert_eq!(login.facts.organization.as_deref(), Some("o-1"));
    assert_eq!(login.facts.plan.as_deref(), Some("max"));
}

#[test]
fn a_renewed_pair_leaves_every_other_field_and_their_order_alone() {
    let written = parse(FULL).expect("a document").with_tokens(&tokens(), &Seals::FOREIGN).expect("nothing is sealed");
    let expected = FULL.replace(r#"" at-1\n""#, r#""at-2""#).replace("rt-1", "rt-2").replace("1700000000000", "99");
    assert_eq!(String::from_utf8_lossy(&written), expected.replace("2.50", "2.5"));
}

#[test]
fn an_indented_file_stays_indented() {
    let written = parse("{\n  \"claudeAiOauth\": {\"accessToken\": \"a\"}\n}")
        .expect("a document")
        .with_tokens(&tokens(), &Seals::FOREIGN)
        .expect("nothing is sealed");
    assert!(String::from_utf8_lossy(&written).contains("{\n  \"claudeAiOauth\": {\n    \"accessToken\": \"at-2\","));
}

#[test]
fn a_login_without_a_refresh_token_is_a_setup_token() {
    for refresh in ["", r#","refreshToken":null"#, r#","refreshToken":" ""#] {
        let text = format!(r#"{{"claudeAiOauth":{{"accessToken":"t"{refresh}}}}}"#);
        assert_eq!(login(&text).expect("a token").kind, CredentialKind::SetupToken, "{text}");
    }
}

#[test]
fn our_own_uuid_comes_before_one_of_another_tool() {
    let facts = |text| parse(text).expect("a document").facts();
    assert_eq!(facts(r#"{"shuntAccountUuid":"s"}"#).uuid.as_deref(), Some("s"));
    assert_eq!(facts(r#"{"shuntAccountUuid":"s","duduclawAccountUuid":"d"}"#).uuid.as_deref(), Some("d"));
    assert_eq!(facts(r#"{"shuntAccountUuid":" "}"#).uuid, None);
}

/// C110, C111: what is wrong is named by file and place, its content stays unsaid.
#[test]
fn a_broken_file_is_named_by_place_and_not_by_content() {
    let cases = [
        ("", Cause::Empty, "is empty"),
        (" \n", Cause::Empty, "is empty"),
        (r#"{"claudeAiOauth":{"accessToken":"CANARY"}}}"#, Cause::Unreadable, "line 1, column 43"),
        (r#"{"claudeAiOauth":{"accessToken":"CANARY"#, Cause::Unreadable, "line 1, column"),
        (r#"["CANARY"]"#, Cause::Unreadable, "is not an object"),
        (r#"{"CANARY":1}"#, Cause::Unreadable, "`claudeAiOauth` is missing"),
        (r#"{"claudeAiOauth":"CANARY"}"#, Cause::Unreadable, "`claudeAiOauth` is not an object"),
        (r#"{"claudeAiOauth":{"accessToken":" "}}"#, Cause::Empty, "`claudeAiOauth.accessToken` is empty"),
        (r#"{"claudeAiOauth":{"accessToken":"CA NARY"}}"#, Cause::Unreadable, "white space inside"),
        (r#"{"claudeAiOauth":{"accessToken":7}}"#, Cause::Unreadable, "is not a string"),
        (r#"{"claudeAiOauth":{"accessToken":"a","expiresAt":"CANARY"}}"#, Cause::Unreadable, "expiresAt"),
    ];
    for (text, cause, words) in cases {
        let error = login(text).expect_err(text);
        let shown = format!("{error} {error:?}");
        assert_eq!(error.cause(), cause, "{text}");
        assert!(shown.contains(words), "{shown}");
        assert!(!shown.contains("CANARY"), "{shown}");
    }
}

fn sealed_in(home: &Path) -> Sealer {
    Sealer::new(crate::credentials::seal::Sealing::On, crate::credentials::seal::KeyPlaces::in_home(home.to_owned()))
}

#[test]
fn a_stored_pair_is_sealed_field_by_field_and_read_again() {
    let home = tempfile::tempdir().expect("a home");
    let sealer = sealed_in(home.path());
    let seals = Seals { sealer: Some(&sealer), account: "claude/work" };
    let bytes = parse(FULL).expect("a document").with_tokens(&tokens(), &seals).expect("sealed");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(!text.contains("at-2") && !text.contains("rt-2") && text.contains("\"o-1\""), "{text}");
    let path = Path::new("/f.json");
    let read = |seals: &Seals<'_>| parse(&text).expect("a document").login(path, seals);
    let login = read(&seals).expect("it opens");
    assert_eq!((login.access.expose(), login.kind), ("at-2", CredentialKind::Oauth));
    assert_eq!(parse(&text).expect("a document").kind(), Some(CredentialKind::Oauth), "without opening it");
    let error = read(&Seals { account: "claude/home", ..seals }).expect_err("another account's");
    assert_eq!(error.cause(), Cause::Undecryptable);
    assert!(error.to_string().contains("claudeAiOauth.accessToken"), "{error}");
}
