//! A second telling of the rules that count: strikes, doublings, the ladder. It knows no clocks and no restarts, only the
//! time that truly passed.

use super::*;

/// What must be true of the counting rules, in milliseconds of true time.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    pub(super) auth: Counted,
    pub(super) trial: bool,
    pub(super) errors: Counted,
    strike: Option<i64>,
    /// What the last success forgave: whose it was, when, the strike, the failures.
    forgiven: Option<(LeaseId, i64, Option<i64>, u32)>,
    /// The last bare throttle: when, and how long it held.
    rung: Option<(i64, i64)>,
    /// What a hold by the bare throttle just heard must last; `None` if it was none.
    pub(super) throttle: Option<i64>,
    /// The bare throttle just heard was under way when the last one came.
    pub(super) joined: bool,
}

/// A hold that grows with each refusal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) times: u32,
    began: Option<i64>,
    pub(super) until: Option<i64>,
}

/// A request as the shadow sees it: what it came to, and the true moments of sending and hearing.
#[derive(Debug)]
pub(super) struct Heard<'a> {
    pub(super) lease: LeaseId,
    pub(super) ended: bool,
    pub(super) outcome: &'a Outcome,
    pub(super) inference: bool,
    pub(super) sent: i64,
    pub(super) now: i64,
    /// What is left of a stated wait.
    pub(super) stated: Option<i64>,
}

const SECOND: i64 = 1000;

impl Counted {
    fn is_news(&self, sent: i64) -> bool {
        self.began.is_none_or(|began| sent > began)
    }

    fn count(&mut self, now: i64, first: i64, longest: i64) {
        self.times += 1;
        let length = (0..self.times - 1).fold(first, |length, _| (length * 2).min(longest));
        self.hold(now, now + length);
    }

    fn hold(&mut self, now: i64, until: i64) {
        self.began = Some(now);
        self.until = self.until.max(Some(until));
    }

    fn lapse(&mut self, now: i64) -> bool {
        self.until.take_if(|until| *until <= now).is_some()
    }
}

impl Shadow {
    pub(super) fn pass(&mut self, now: i64) {
        self.trial |= self.auth.lapse(now);
        self.errors.lapse(now);
        self.throttle = None;
        self.joined = false;
    }

    pub(super) fn restart(&mut self) {
        self.forgiven = None;
    }

    pub(super) fn renew(&mut self) {
        self.auth = Counted::default();
        self.trial = false;
    }

    pub(super) fn clear(&mut self) {
        self.rung = None;
    }

    pub(super) fn probe(&mut self, verdict: Verdict, network: bool, sent: i64, now: i64) {
        match verdict {
            Verdict::Valid => {
                if self.auth.is_news(sent) {
                    self.renew();
                }
                if network && self.errors.is_news(sent) {
                    self.errors.until = None;
                }
            }
            Verdict::InvalidToken | Verdict::OrgRefused => self.refuse(sent, now),
            Verdict::Undecided => {}
        }
    }

    pub(super) fn hear(&mut self, heard: &Heard<'_>) {
        let Heard { sent, now, .. } = *heard;
        match heard.outcome {
            Outcome::Unauthorized | Outcome::OrgRefused => self.refuse(sent, now),
            Outcome::Served if heard.inference => self.serve(heard.lease, sent, now),
            Outcome::Throttled { wait: None } if heard.inference => self.throttle(sent, now),
            Outcome::ServerFault { .. }
            | Outcome::Unreachable { .. }
            | Outcome::HeadTimeout { streaming: true }
            | Outcome::Blank
                if heard.inference =>
            {
                self.fail(heard);
            }
            Outcome::Served
            | Outcome::Quota(_)
            | Outcome::Throttled { .. }
            | Outcome::BalanceEmpty
            | Outcome::ServerFault { .. }
            | Outcome::Unreachable { .. }
            | Outcome::HeadTimeout { .. }
            | Outcome::Blank
            | Outcome::Relayed
            | Outcome::Abandoned => {}
        }
    }

    fn refuse(&mut self, sent: i64, now: i64) {
        if self.auth.until.is_none() && self.auth.is_news(sent) {
            self.auth.count(now, 900 * SECOND, 21_600 * SECOND);
            self.trial = false;
        }
    }

    fn serve(&mut self, lease: LeaseId, sent: i64, now: i64) {
        let counted = self.strike.is_some() || self.errors.times > 0;
        self.forgiven = counted.then_some((lease, now, self.strike, self.errors.times));
        self.strike = None;
        if self.auth.is_news(sent) {
            self.renew();
        }
        if self.errors.is_news(sent) {
            self.errors = Counted { began: self.errors.began, ..Counted::default() };
        }
    }

    fn fail(&mut self, heard: &Heard<'_>) {
        let Heard { sent, now, .. } = *heard;
        if heard.ended
            && let Some((_, at, strike, times)) = self.forgiven.take_if(|forgiven| forgiven.0 == heard.lease)
            && now - at <= 60 * SECOND
        {
            self.strike = self.strike.or(strike);
            self.errors.times = self.errors.times.max(times);
        }
        let news = self.errors.is_news(sent);
        match heard.stated.filter(|left| *left > 0) {
            Some(left) if news => {
                self.errors.times += 1;
                self.errors.hold(now, now + left);
                self.strike = None;
            }
            Some(left) => {
                let began = if self.errors.until.is_some() { self.errors.began } else { Some(now) };
                self.errors.until = self.errors.until.max(Some(now + left));
                self.errors.began = began;
                self.strike = None;
            }
            None if !news => {}
            None if self.errors.times > 0 || self.strike.is_some_and(|first| now - first <= 60 * SECOND) => {
                self.errors.count(now, 30 * SECOND, 900 * SECOND);
                self.strike = None;
            }
            None => self.strike = Some(now),
        }
    }

    fn throttle(&mut self, sent: i64, now: i64) {
        let length = match self.rung {
            Some((began, held)) if now < began + held + 60 * SECOND => {
                if sent <= began {
                    self.joined = true;
                    return;
                }
                match held / SECOND {
                    5 => 15 * SECOND,
                    15 => 30 * SECOND,
                    _ => 60 * SECOND,
                }
            }
            Some(_) | None => 5 * SECOND,
        };
        self.rung = Some((now, length));
        self.throttle = Some(length);
    }
}
