//! When a refused credential is asked about, and what the answers to these questions decide.

use super::*;

/// An account whose provider can be asked, and which it refused at 0.
fn refused(outcome: Outcome) -> Subject {
    let mut account = Subject::default();
    account.is_asked_about(-1);
    account.answer(0, 0, outcome);
    account
}

/// A question of its schedule, asked and answered at this moment.
fn question(account: &mut Subject, now: i64, verdict: Verdict) {
    let by = AskedBy::Schedule { again: AGAIN };
    account.hears(now, HealthEvent::Probed { verdict, generation: Generation(0), sent_at: at(now), by });
}

/// In how many seconds it is asked about.
fn next(account: &Subject, now: i64) -> Option<u64> {
    match account.health.question(at(now)) {
        Question::At(at_then) => Some(at_then.remaining(at(now)).as_secs()),
        Question::None | Question::EachRound => None,
    }
}

#[test]
fn after_each_refusal_the_next_question_waits_twice_as_long_up_to_half_an_hour() {
    let mut account = refused(Outcome::OrgRefused);
    let mut now = 0;
    for minutes in [1, 2, 4, 8, 16, 30, 30, 30] {
        assert_eq!(next(&account, now), Some(minutes * 60));
        now += i64::try_from(minutes * 60).expect("it is small");
        question(&mut account, now, Verdict::OrgRefused);
        assert_eq!(account.state(now), State::AuthDead, "it stays out after {now} s");
    }
}

#[test]
fn an_undecided_answer_is_asked_again_soon_and_advances_nothing() {
    let mut account = refused(Outcome::Unauthorized);
    question(&mut account, MINUTE, Verdict::InvalidToken);
    question(&mut account, 3 * MINUTE, Verdict::Undecided);
    assert_eq!(next(&account, 3 * MINUTE), Some(60));
    account.hears(4 * MINUTE, HealthEvent::NotAskable { again: AGAIN });
    assert_eq!(next(&account, 4 * MINUTE), Some(60));
    question(&mut account, 5 * MINUTE, Verdict::InvalidToken);
    assert_eq!(next(&account, 5 * MINUTE), Some(4 * 60), "as if nothing had been asked between");
    assert_eq!(account.health.strikes(), 1);
}

#[test]
fn a_refusal_on_live_traffic_begins_the_waits_anew_and_those_of_one_burst_do_so_once() {
    let mut account = refused(Outcome::Unauthorized);
    for minutes in [1, 3, 7] {
        question(&mut account, minutes * MINUTE, Verdict::InvalidToken);
    }
    account.answer(-5, 7 * MINUTE + 1, Outcome::Unauthorized);
    assert_eq!(next(&account, 7 * MINUTE + 1), Some(8 * 60 - 1), "it was under way when the hold began");
    account.answer(7 * MINUTE + 2, 7 * MINUTE + 2, Outcome::Unauthorized);
    assert_eq!(next(&account, 7 * MINUTE + 2), Some(60));
    assert_eq!(account.health.strikes(), 1);
}

#[test]
fn a_valid_answer_heals_at_any_time_and_the_next_refusal_begins_from_the_start() {
    for minutes in [1, 14, 16] {
        let mut account = refused(Outcome::OrgRefused);
        question(&mut account, minutes * MINUTE, Verdict::Valid);
        assert_eq!((account.state(minutes * MINUTE), account.health.strikes()), (State::Healthy, 0));
        assert!(!account.standing(minutes * MINUTE).is_on_trial(at(minutes * MINUTE)));
        assert_eq!(next(&account, minutes * MINUTE), None);
        account.answer(DAY, DAY, Outcome::Unauthorized);
        assert_eq!(next(&account, DAY), Some(60));
    }
}

#[test]
fn a_hold_whose_time_is_over_goes_on_until_the_next_question_decides() {
    let over = 15 * MINUTE;
    let mut account = refused(Outcome::OrgRefused);
    for minutes in [1, 3, 7, 14] {
        question(&mut account, minutes * MINUTE, Verdict::OrgRefused);
    }
    // The next question is due after 30 minutes.
    for now in [over - 1, over, over + 1, 29 * MINUTE] {
        account.tick(now);
        let standing = account.standing(now);
        assert_eq!((standing.state(at(now)), standing.is_on_trial(at(now))), (State::AuthDead, false), "{now}");
        assert!(standing.is_out_by_auth(at(now)));
    }
    let told: Vec<bool> = [over - 1, over, over + 1].map(|now| account.standing(now).is_out_by_auth(at(now))).to_vec();
    assert_eq!(told, [true; 3]);
    assert_eq!(account.health.strikes(), 1);

    let mut refused = account.clone();
    question(&mut refused, 30 * MINUTE, Verdict::OrgRefused);
    assert_eq!((refused.health.strikes(), refused.until(AuthDead).is_some()), (2, true), "the next strike");
    assert_eq!(next(&refused, 30 * MINUTE), Some(30 * 60), "and its schedule goes on");

    let mut undecided = account.clone();
    question(&mut undecided, 30 * MINUTE, Verdict::Undecided);
    assert_eq!(undecided.told, vec![ended(AuthDead, EndedBy::Time), EventKind::TrialBegan, healthy_again()]);
    assert!(undecided.standing(30 * MINUTE).is_on_trial(at(30 * MINUTE)));
    assert_eq!((undecided.health.strikes(), next(&undecided, 30 * MINUTE)), (1, None), "strikes are kept");

    account.hears(30 * MINUTE, HealthEvent::NotAskable { again: AGAIN });
    assert!(account.standing(30 * MINUTE).is_on_trial(at(30 * MINUTE)));
}

fn healthy_again() -> EventKind {
    EventKind::StateChanged { from: State::AuthDead, to: State::Healthy }
}

/// Whoever should have asked did not: the account does not stay out for ever.
#[test]
fn a_hold_that_no_question_decides_leaves_the_account_on_trial_in_the_end() {
    let mut account = refused(Outcome::Unauthorized);
    account.tick(15 * MINUTE);
    assert!(!account.health.auth.on_trial);
    let last = account.health.next_deadline(at(15 * MINUTE)).expect("it ends");
    assert!(last.remaining(at(15 * MINUTE)) <= Duration::from_secs(5 * 60));
    account.tick(20 * MINUTE);
    assert!(account.health.auth.on_trial);
}

#[test]
fn where_nobody_can_be_asked_an_ended_hold_leaves_the_account_on_trial_at_once() {
    for questions in [Questions::Never, Questions::OfCli] {
        let mut account = Subject::default();
        account.hears(-1, HealthEvent::SettingsChanged(Settings { questions, ..Settings::default() }));
        account.answer(0, 0, Outcome::Unauthorized);
        assert_eq!(account.health.question(at(60)), Question::None);
        account.tick(15 * MINUTE);
        assert!(account.health.auth.on_trial);
    }
}

/// What an operator asks counts, and moves no question of the schedule.
#[test]
fn an_operators_question_leaves_the_schedule_alone() {
    let mut account = refused(Outcome::Unauthorized);
    for verdict in [Verdict::InvalidToken, Verdict::Undecided] {
        let by = AskedBy::Operator;
        account.hears(30, HealthEvent::Probed { verdict, generation: Generation(0), sent_at: at(30), by });
        assert_eq!(next(&account, 30), Some(30));
    }
    account.tick(15 * MINUTE);
    let (now, by) = (15 * MINUTE + 1, AskedBy::Operator);
    account.hears(
        now,
        HealthEvent::Probed { verdict: Verdict::Undecided, generation: Generation(0), sent_at: at(now), by },
    );
    assert!(!account.health.auth.on_trial, "only its own question decides so");
    let mut healthy = Subject::default();
    healthy.is_asked_about(0);
    let refusal = HealthEvent::Probed { verdict: Verdict::OrgRefused, generation: Generation(0), sent_at: at(1), by };
    healthy.hears(1, refusal);
    assert_eq!((healthy.state(1), next(&healthy, 1)), (State::AuthDead, Some(60)), "it begins one where there is none");
}

#[test]
fn an_unchecked_credential_and_a_broken_connection_are_asked_about_with_each_round() {
    let mut account = Subject::default();
    account.is_asked_about(0);
    assert_eq!(account.health.question(at(0)), Question::None);
    let renewed = HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Undecided };
    account.hears(1, renewed);
    account.generation = Generation(1);
    assert_eq!(account.health.question(at(1)), Question::EachRound);
    let valid = |sent| HealthEvent::Probed {
        verdict: Verdict::Valid,
        generation: Generation(1),
        sent_at: at(sent),
        by: AskedBy::Schedule { again: AGAIN },
    };
    account.hears(2, valid(2));
    assert_eq!(account.health.question(at(2)), Question::None);
    for (connecting, asked) in [(true, Question::EachRound), (false, Question::None)] {
        let mut account = account.clone();
        for now in [10, 11] {
            account.answer(now, now, Outcome::Unreachable { connecting });
        }
        assert_eq!(account.state(11), State::Erroring);
        assert_eq!(account.health.question(at(11)), asked);
        account.hears(13, valid(12));
        assert_eq!(account.state(13) == State::Healthy, connecting, "a check ends what is due to the connection alone");
    }
}

#[test]
fn a_clis_word_ends_what_is_unchecked_or_unreachable_and_never_a_refusal() {
    let mut account = Subject::default();
    let questions = Questions::OfCli;
    account.hears(0, HealthEvent::SettingsChanged(Settings { questions, ..Settings::default() }));
    account.hears(1, HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Undecided });
    account.generation = Generation(1);
    for now in [2, 3] {
        account.answer(now, now, Outcome::Unreachable { connecting: true });
    }
    assert_eq!(account.health.question(at(4)), Question::EachRound);
    let mut dead = account.clone();
    account.hears(5, HealthEvent::CliLoggedIn { sent_at: at(4) });
    assert_eq!((account.state(5), account.standing(5).unverified), (State::Healthy, false));
    assert_eq!(account.health.question(at(5)), Question::None);
    dead.answer(4, 4, Outcome::OrgRefused);
    dead.hears(5, HealthEvent::CliLoggedIn { sent_at: at(5) });
    assert_eq!(dead.state(5), State::AuthDead);
}

#[test]
fn the_schedule_outlives_a_restart_and_time_that_passed_counts() {
    let mut account = refused(Outcome::OrgRefused);
    for minutes in [1, 3, 7] {
        question(&mut account, minutes * MINUTE, Verdict::OrgRefused);
    }
    let saved = serde_json::to_vec(&Snapshot::take(&account.health, at(8 * MINUTE))).expect("it is written");
    let snapshot: Snapshot = serde_json::from_slice(&saved).expect("it is read");
    // Another run of the machine: its steady clock began anew, and five minutes passed.
    let now = Timestamp { wall: wall(13 * MINUTE), boot: Boot(3000) };
    let settings = Settings { questions: Questions::OfProvider { every: AGAIN }, ..Settings::default() };
    let health = snapshot.restore(AccountId(7), settings, now).expect("it is of this version");
    let Question::At(next) = health.question(now) else { panic!("it is asked about") };
    assert_eq!(next.remaining(now), Duration::from_secs(2 * 60));
}
