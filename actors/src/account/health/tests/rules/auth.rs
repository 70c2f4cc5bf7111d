//! Refused credentials, trials, checks, new credentials, broken secrets.

use super::*;

/// C09: an organisation's refusal is shown as what it is, and holds the account.
#[test]
fn a_refusal_by_the_organisation_is_an_auth_hold_of_its_own_cause() {
    let mut account = Subject::default();
    account.answer(0, 1, Outcome::OrgRefused);
    assert_eq!(account.hold(AuthDead).map(|hold| hold.cause), Some(Cause::OrgDisabled));
    assert_eq!(account.state(2), State::AuthDead);
    assert!(account.standing(2).is_out_by_auth(at(2)));
}

#[test]
fn each_strike_doubles_the_auth_hold_up_to_six_hours() {
    let mut account = Subject::default();
    let mut now = 0;
    for minutes in [15, 30, 60, 120, 240, 360, 360] {
        account.answer(now, now, Outcome::Unauthorized);
        assert_eq!(account.until(AuthDead), Some(wait(now, minutes * MINUTE)));
        now += minutes * MINUTE + 1;
        account.tick(now);
    }
    assert_eq!(account.health.strikes(), 7);
}

#[test]
fn parallel_refusals_of_a_credential_are_one_strike() {
    let mut account = Subject::default();
    account.answer(0, 10, Outcome::Unauthorized);
    for sent in [0, 5, 9, 10] {
        account.answer(sent, 11, Outcome::Unauthorized);
    }
    assert_eq!((account.health.strikes(), account.until(AuthDead)), (1, Some(wait(10, 15 * MINUTE))));
    account.answer(8, 20 * MINUTE, Outcome::Unauthorized);
    assert_eq!((account.health.strikes(), account.hold(AuthDead)), (1, None), "even if it comes after the hold");
}

#[test]
fn a_refusal_during_the_hold_adds_no_strike() {
    let mut account = Subject::default();
    account.answer(0, 1, Outcome::Unauthorized);
    account.answer(5, 6, Outcome::Unauthorized);
    let probe = HealthEvent::Probed {
        verdict: Verdict::InvalidToken,
        generation: Generation(0),
        sent_at: at(7),
        by: AskedBy::Operator,
    };
    account.hears(8, probe);
    assert_eq!((account.health.strikes(), account.until(AuthDead)), (1, Some(wait(1, 15 * MINUTE))));
}

#[test]
fn an_ended_auth_hold_leaves_the_account_on_trial_until_it_serves() {
    let mut account = Subject::default();
    account.answer(0, 0, Outcome::Unauthorized);
    assert!(account.standing(900).is_on_trial(at(900)), "even before the machine was told");
    account.tick(900);
    assert_eq!(
        account.told,
        vec![
            ended(AuthDead, EndedBy::Time),
            EventKind::TrialBegan,
            EventKind::StateChanged { from: State::AuthDead, to: State::Healthy },
        ]
    );
    assert!(account.standing(900).on_trial);
    assert!(!account.standing(900).is_out_by_auth(at(900)));
    assert_eq!(account.health.strikes(), 1, "strikes are kept");
    account.answer(901, 902, Outcome::Served);
    assert!(!account.standing(902).on_trial);
    account.answer(903, 904, Outcome::Unauthorized);
    assert_eq!(account.until(AuthDead), Some(wait(904, 15 * MINUTE)), "healed: it counts from one again");
}

#[test]
fn a_late_success_heals_no_newer_refusal() {
    let mut account = Subject::default();
    account.answer(5, 10, Outcome::Unauthorized);
    account.answer(4, 11, Outcome::Served);
    assert!(account.hold(AuthDead).is_some());
    account.tick(10 + 900);
    account.answer(6, 911, Outcome::Served);
    assert!(account.standing(911).on_trial);
}

#[test]
fn a_valid_probe_ends_auth_and_connection_holds_and_nothing_else() {
    let mut account = Subject::default();
    account.answer(0, 1, Outcome::Unauthorized);
    account.answer(0, 1, quota_refused(Some(stated(HOUR))));
    account.answer(0, 1, Outcome::BalanceEmpty);
    account.answer(2, 3, Outcome::Unreachable { connecting: true });
    account.answer(2, 4, Outcome::Unreachable { connecting: true });
    let probe = |sent| HealthEvent::Probed {
        verdict: Verdict::Valid,
        generation: Generation(0),
        sent_at: at(sent),
        by: AskedBy::Operator,
    };
    account.hears(5, probe(0));
    assert!(account.hold(AuthDead).is_some(), "asked before the refusal");
    account.hears(7, probe(6));
    let left = account.standing(7).holds.iter().map(|hold| hold.kind).collect::<Vec<_>>();
    assert_eq!(left, vec![RateLimited, BudgetExhausted]);
    account.answer(8, 9, Outcome::Unreachable { connecting: true });
    assert_eq!(account.until(Erroring), Some(wait(9, 60)), "only a served request resets the doubling");
}

#[test]
fn a_probe_does_not_end_a_back_off_that_the_provider_caused() {
    for outcome in [server_fault(Some(60)), server_fault(None)] {
        let mut account = Subject::default();
        account.answer(0, 1, outcome.clone());
        account.answer(0, 1, outcome);
        let probe = HealthEvent::Probed {
            verdict: Verdict::Valid,
            generation: Generation(0),
            sent_at: at(2),
            by: AskedBy::Operator,
        };
        account.hears(3, probe);
        assert!(account.hold(Erroring).is_some());
    }
    let mut account = Subject::default();
    account.answer(0, 1, Outcome::Unreachable { connecting: true });
    account.answer(0, 1, Outcome::Unreachable { connecting: true });
    account.answer(2, 3, server_fault(None));
    let probe = HealthEvent::Probed {
        verdict: Verdict::Valid,
        generation: Generation(0),
        sent_at: at(4),
        by: AskedBy::Operator,
    };
    account.hears(5, probe);
    assert!(account.hold(Erroring).is_some(), "of several causes one is not the connection");
}

#[test]
fn an_undecided_probe_changes_nothing() {
    let mut account = Subject::default();
    account.hears(0, HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Undecided });
    let before = account.health.clone();
    let probe = HealthEvent::Probed {
        verdict: Verdict::Undecided,
        generation: Generation(1),
        sent_at: at(1),
        by: AskedBy::Operator,
    };
    assert_eq!(account.hears(2, probe), Vec::new());
    assert_eq!(account.health, before);
}

#[test]
fn a_served_request_or_a_valid_probe_verifies_a_credential() {
    for verdict in [None, Some(Verdict::Valid)] {
        let mut account = Subject { generation: Generation(1), ..Subject::default() };
        account.hears(0, HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Undecided });
        assert!(account.standing(0).unverified);
        match verdict {
            None => drop(account.answer(1, 2, Outcome::Served)),
            Some(verdict) => {
                drop(account.hears(
                    2,
                    HealthEvent::Probed { verdict, generation: Generation(1), sent_at: at(1), by: AskedBy::Operator },
                ));
            }
        }
        assert!(!account.standing(2).unverified);
    }
}

#[test]
fn evidence_of_an_older_credential_is_ignored() {
    let mut account = Subject::default();
    account.hears(0, HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Passed });
    let before = account.health.clone();
    account.shows(1, Outcome::Unauthorized, rejected("5h", HOUR));
    account.answer(1, 2, quota_refused(Some(stated(HOUR))));
    account.ends(1, 3, Close::Broken);
    account.ends(1, 3, Close::Broken);
    account.hears(4, HealthEvent::UsagePolled(&poll(4, &[("5h", 1.0)], HOUR)));
    let probe = HealthEvent::Probed {
        verdict: Verdict::OrgRefused,
        generation: Generation(0),
        sent_at: at(1),
        by: AskedBy::Operator,
    };
    account.hears(5, probe);
    assert_eq!(account.health, before);
}

/// C43: after a new login the old figures keep nobody out; what the provider stated does.
#[test]
fn a_new_credential_ends_auth_holds_and_forgets_figures_and_keeps_the_rest() {
    let mut account = Subject::default();
    account.shows(0, quota_refused(Some(stated(HOUR))), rejected("5h", HOUR));
    account.answer(0, 1, Outcome::BalanceEmpty);
    account.answer(0, 1, Outcome::Unauthorized);
    account.answer(0, 1, server_fault(Some(600)));
    account.hears(2, HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Passed });
    let left = account.standing(2).holds.iter().map(|hold| hold.kind).collect::<Vec<_>>();
    assert_eq!(left, vec![Erroring, RateLimited, BudgetExhausted]);
    assert_eq!(account.health.strikes(), 0);
    assert!(!account.health.quota().rejected(ModelScope::Base, at(2)));
    assert_eq!(account.health.quota().remaining(ModelScope::Base, at(2)), 1.0);
}

#[test]
fn a_new_credential_ends_a_trial() {
    let mut account = Subject::default();
    account.answer(0, 0, Outcome::Unauthorized);
    account.tick(900);
    account.hears(901, HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Passed });
    assert_eq!((account.standing(901).on_trial, account.health.strikes()), (false, 0));
}

#[test]
fn evidence_of_a_newer_credential_tells_that_it_was_renewed() {
    let mut account = Subject::default();
    account.answer(0, 1, Outcome::Unauthorized);
    account.generation = Generation(3);
    account.answer(2, 3, Outcome::Served);
    assert_eq!((account.health.generation(), account.state(3)), (Generation(3), State::Healthy));
}

#[test]
fn a_broken_secret_is_the_gravest_until_its_source_reads_again() {
    let mut account = Subject::default();
    account.answer(0, 1, Outcome::Unauthorized);
    account.hears(2, HealthEvent::CredentialBroke { cause: Cause::Undecryptable });
    assert_eq!(account.state(2), State::Broken);
    account.hears(3, HealthEvent::CredentialBroke { cause: Cause::Undecryptable });
    assert_eq!(account.told, Vec::new(), "the same again is no news");
    account.hears(4, HealthEvent::CredentialRead { generation: Generation(0) });
    assert_eq!(account.state(4), State::AuthDead, "the other holds are untouched");
    account.hears(5, HealthEvent::CredentialBroke { cause: Cause::Empty });
    account.hears(6, HealthEvent::CredentialRead { generation: Generation(1) });
    assert_eq!(account.state(6), State::Healthy, "a new secret was read");
}

#[test]
fn an_account_whose_grant_is_gone_serves_while_its_access_token_lives() {
    let mut account = Subject::default();
    account.hears(0, HealthEvent::GrantLost { access_until: stated(HOUR) });
    assert_eq!(account.told, vec![EventKind::LoginNeeded]);
    assert_eq!((account.state(1), account.standing(1).is_out_by_auth(at(1))), (State::Healthy, false));
    assert_eq!(account.health.next_deadline(at(1)), Some(stated(HOUR)));
    assert!(account.standing(HOUR).is_out_by_auth(at(HOUR)));
    account.tick(HOUR);
    assert_eq!(account.health.next_deadline(at(HOUR)), None, "told once");
    account.hears(HOUR + 1, HealthEvent::GrantRegained);
    assert!(!account.standing(HOUR + 1).is_out_by_auth(at(HOUR + 1)));
}

#[test]
fn a_credential_that_cannot_be_renewed_warns_a_month_and_a_week_before_its_end() {
    let mut account = Subject::default();
    let ends = HealthEvent::ExpiryTold { ends: Some(wall(40 * DAY)) };
    let warning = |days| EventKind::CredentialExpiring { ends: stated(40 * DAY), days };
    account.hears(0, ends);
    assert_eq!(account.health.next_deadline(at(0)), Some(stated(10 * DAY)));
    account.tick(10 * DAY);
    assert_eq!(account.told, [warning(30)]);
    account.tick(10 * DAY);
    account.hears(10 * DAY, ends);
    assert_eq!(account.told, [], "once");
    account.tick(33 * DAY);
    assert_eq!(account.told, [warning(7)]);
    account.tick(39 * DAY);
    assert_eq!(account.told, []);
    assert_eq!(account.health.next_deadline(at(39 * DAY)), None);
}

#[test]
fn of_warnings_that_are_due_together_one_is_told_and_another_credential_warns_anew() {
    let mut account = Subject::default();
    account.hears(0, HealthEvent::ExpiryTold { ends: Some(wall(2 * DAY)) });
    assert_eq!(account.told, [EventKind::CredentialExpiring { ends: stated(2 * DAY), days: 2 }]);
    account.hears(1, HealthEvent::ExpiryTold { ends: None });
    assert_eq!(account.told, []);
    account.hears(2, HealthEvent::ExpiryTold { ends: Some(wall(20 * DAY)) });
    assert_eq!(account.told, [EventKind::CredentialExpiring { ends: stated(20 * DAY), days: 19 }]);
}
