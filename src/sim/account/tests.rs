use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::at_millis(0).plus(Duration::from_secs(seconds))
}

/// Field case C30: a second use of a refresh token is refused, and revokes nothing.
#[test]
fn a_refresh_token_is_good_for_one_use() {
    let mut account = Account::new(AccountSpec::oauth("a"), at(0));
    let first = account.credentials();
    let spent = first.refresh_token.clone().expect("a login has one");
    let second = account.refresh(&spent, at(10)).expect("the first use");
    assert_ne!((&second.token, &second.refresh_token), (&first.token, &first.refresh_token));
    assert_eq!(account.refresh(&spent, at(11)), None, "the second use");
    assert_eq!(account.token(&second.token, at(11)), Some(Token::Good), "what came of the first use still holds");
    assert_eq!(account.credentials(), second);
    assert!(account.knows_refresh(&spent));
}

#[test]
fn an_access_token_ends_with_its_lifetime() {
    let spec = AccountSpec { token_seconds: Some(60), ..AccountSpec::oauth("a") };
    let account = Account::new(spec, at(0));
    let token = account.credentials().token;
    assert_eq!(account.token(&token, at(59)), Some(Token::Good));
    assert_eq!(account.token(&token, at(60)), Some(Token::Expired));
    assert_eq!(account.token("sk-ant-oat01-other", at(0)), None);
}

#[test]
fn a_setup_token_and_a_key_cannot_be_refreshed() {
    for spec in [AccountSpec::setup_token("a"), AccountSpec::api_key("a")] {
        assert_eq!(Account::new(spec, at(0)).credentials().refresh_token, None);
    }
}

#[test]
fn a_new_login_brings_a_revoked_account_back() {
    let mut account = Account::new(AccountSpec::oauth("a"), at(0));
    let old = account.credentials();
    account.revoke(at(1));
    assert_eq!(account.token(&old.token, at(1)), Some(Token::Expired));
    assert_eq!(account.refresh(&old.refresh_token.expect("had one"), at(1)), None);
    let new = account.log_in(at(2));
    assert_eq!(account.token(&new.token, at(2)), Some(Token::Good));
    assert!(account.refresh(&new.refresh_token.expect("has one"), at(3)).is_some());
}

#[test]
fn debug_shows_no_token() {
    let account = Account::new(AccountSpec::oauth("a"), at(0));
    assert!(!format!("{:?}", account.credentials()).contains("sk-ant"));
}
