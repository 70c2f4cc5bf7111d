//! For whom things go wrong, and how often.
//!
//! Never here: what goes wrong.

use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::Fault;

/// Which part of the provider was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// `POST /v1/messages`.
    Messages,
    /// `POST /v1/messages/count_tokens`.
    CountTokens,
    /// `GET /v1/models`.
    Models,
    /// The token endpoint.
    Token,
    /// `GET /api/oauth/usage`, and ChatGPT's page for the same.
    Usage,
    /// The login page.
    Login,
    /// `HEAD /` and the like.
    Preflight,
    /// Anything else.
    Other,
}

/// Which requests a rule is about: coding clients send small ones beside their turns, such as for a title.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// All.
    #[default]
    All,
    /// Those that offer tools to the model.
    WithTools,
    /// Those that do not.
    WithoutTools,
}

/// For whom faults happen, and how often. A rule without `endpoint` is about messages only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// The account; without it all, unknown callers included.
    #[serde(default)]
    pub account: Option<String>,
    /// The endpoint.
    #[serde(default = "messages")]
    pub endpoint: Endpoint,
    /// A part of the model's name.
    #[serde(default)]
    pub model: Option<String>,
    /// All requests, or those with or without tools.
    #[serde(default)]
    pub which: Which,
    /// So many requests are let through first.
    #[serde(default)]
    pub after: u32,
    /// How many requests it happens to; without it, to all until cleared.
    #[serde(default)]
    pub times: Option<u32>,
    /// What happens, all of it together.
    pub faults: Vec<Fault>,
}

fn messages() -> Endpoint {
    Endpoint::Messages
}

impl FaultRule {
    /// Happens to all messages of this account until cleared.
    #[must_use]
    pub fn standing(account: &str, fault: Fault) -> Self {
        Self {
            account: Some(account.to_owned()),
            endpoint: Endpoint::Messages,
            model: None,
            which: Which::All,
            after: 0,
            times: None,
            faults: vec![fault],
        }
    }

    /// Happens to the next so many messages of this account.
    #[must_use]
    pub fn next(account: &str, times: u32, fault: Fault) -> Self {
        Self { times: Some(times), ..Self::standing(account, fault) }
    }

    /// The same for whatever account.
    #[must_use]
    pub fn for_all(self) -> Self {
        Self { account: None, ..self }
    }

    /// The same for another endpoint.
    #[must_use]
    pub fn on(self, endpoint: Endpoint) -> Self {
        Self { endpoint, ..self }
    }

    /// The same for models with this in their name only.
    #[must_use]
    pub fn for_model(self, part: &str) -> Self {
        Self { model: Some(part.to_owned()), ..self }
    }

    /// The same for requests with, or without, tools only.
    #[must_use]
    pub fn only(self, which: Which) -> Self {
        Self { which, ..self }
    }

    /// The same after so many requests that it lets through.
    #[must_use]
    pub fn after(self, requests: u32) -> Self {
        Self { after: requests, ..self }
    }

    /// The same with one more thing going wrong at once.
    #[must_use]
    pub fn and(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// What no HTTP answer can be, if anything in the rule is.
    pub(in crate::sim) fn flaw(&self) -> Option<String> {
        self.faults.iter().find_map(flaw_of)
    }

    fn concerns(&self, asked: &Asked<'_>) -> bool {
        let kind = match self.which {
            Which::All => true,
            Which::WithTools => asked.tools,
            Which::WithoutTools => !asked.tools,
        };
        kind && self.account.as_deref().is_none_or(|wanted| Some(wanted) == asked.account)
            && self.endpoint == asked.endpoint
            && self.model.as_deref().is_none_or(|part| asked.model.contains(part))
    }
}

fn flaw_of(fault: &Fault) -> Option<String> {
    let Fault::Status { status, headers, .. } = fault else {
        return None;
    };
    if !(200..=599).contains(status) {
        return Some(format!("{status} is no status of an answer; take one from 200 to 599"));
    }
    let allowed = |(name, value): &'_ (String, String)| {
        HeaderName::try_from(name.as_str()).is_ok() && HeaderValue::try_from(value.as_str()).is_ok()
    };
    let bad = headers.iter().find(|header| !allowed(header));
    bad.map(|(name, _)| format!("the header {name:?} is none that HTTP allows"))
}

/// A request, as far as rules look at it.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Asked<'r> {
    /// Whose credential it bears.
    pub(in crate::sim) account: Option<&'r str>,
    /// What it calls.
    pub(in crate::sim) endpoint: Endpoint,
    /// The model it names.
    pub(in crate::sim) model: &'r str,
    /// Whether it offers tools.
    pub(in crate::sim) tools: bool,
}

/// The rules in force, in the order in which they were made.
#[derive(Debug, Default)]
pub(in crate::sim) struct FaultBook {
    rules: Vec<FaultRule>,
}

impl FaultBook {
    pub(in crate::sim) fn add(&mut self, rule: FaultRule) {
        self.rules.push(rule);
    }

    /// Forgets the rules of an account, or all.
    pub(in crate::sim) fn clear(&mut self, account: Option<&str>) {
        self.rules.retain(|rule| account.is_some() && rule.account.as_deref() != account);
    }

    pub(in crate::sim) fn rules(&self) -> &[FaultRule] {
        &self.rules
    }

    /// What happens to this request. Counted rules come before standing ones.
    pub(in crate::sim) fn take(&mut self, asked: Asked<'_>) -> Vec<Fault> {
        let concerned = |rule: &FaultRule| rule.concerns(&asked);
        let counted = self.rules.iter().position(|rule| rule.times.is_some() && concerned(rule));
        let Some(at) = counted.or_else(|| self.rules.iter().position(concerned)) else {
            return Vec::new();
        };
        let rule = &mut self.rules[at];
        if rule.after > 0 {
            rule.after -= 1;
            return Vec::new();
        }
        let faults = rule.faults.clone();
        rule.times = rule.times.map(|left| left.saturating_sub(1));
        if rule.times == Some(0) {
            self.rules.remove(at);
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SONNET: Asked<'_> =
        Asked { account: Some("a"), endpoint: Endpoint::Messages, model: "claude-sonnet-5", tools: false };
    const FABLE: Asked<'_> = Asked { model: "claude-fable-5", ..SONNET };

    fn take(book: &mut FaultBook, account: &str) -> Vec<Fault> {
        book.take(Asked { account: Some(account), ..SONNET })
    }

    #[test]
    fn a_counted_fault_happens_so_often_and_before_a_standing_one() {
        let mut book = FaultBook::default();
        book.add(FaultRule::standing("a", Fault::ServerError));
        book.add(FaultRule::next("a", 2, Fault::Unauthorized).and(Fault::Gzip));
        let happened: Vec<usize> = (0..3).map(|_| take(&mut book, "a").len()).collect();
        assert_eq!(happened, [2, 2, 1]);
        assert_eq!(take(&mut book, "a"), [Fault::ServerError], "it stands");
        assert_eq!(take(&mut book, "b"), [], "another account");
    }

    #[test]
    fn a_fault_waits_for_its_turn_endpoint_and_model() {
        let mut book = FaultBook::default();
        book.add(FaultRule::next("a", 1, Fault::ServerError).after(1).for_model("fable"));
        assert_eq!(take(&mut book, "a"), []);
        assert_eq!(book.take(Asked { endpoint: Endpoint::CountTokens, ..FABLE }), []);
        assert_eq!(book.take(FABLE), [], "let through");
        assert_eq!(book.take(FABLE), [Fault::ServerError]);
    }

    #[test]
    fn a_title_request_does_not_use_up_what_was_meant_for_a_turn() {
        let mut book = FaultBook::default();
        book.add(FaultRule::next("a", 1, Fault::ServerError).only(Which::WithTools));
        assert_eq!(take(&mut book, "a"), [], "no tools");
        assert_eq!(book.take(Asked { tools: true, ..SONNET }), [Fault::ServerError]);
        book.add(FaultRule::next("a", 1, Fault::ServerError).only(Which::WithoutTools));
        assert_eq!(book.take(Asked { tools: true, ..SONNET }), []);
        assert_eq!(take(&mut book, "a"), [Fault::ServerError]);
    }

    #[test]
    fn what_no_http_answer_can_be_is_a_flaw() {
        let status = |status, name: &str| {
            let headers = vec![(name.to_owned(), "x".to_owned())];
            FaultRule::next("a", 1, Fault::Status { status, headers, body: String::new() }).flaw()
        };
        assert_eq!(status(529, "retry-after"), None);
        assert!(status(99, "retry-after").is_some_and(|text| text.contains("99")));
        assert!(status(529, "two words").is_some_and(|text| text.contains("two words")));
    }

    #[test]
    fn clearing_one_account_leaves_the_others() {
        let mut book = FaultBook::default();
        book.add(FaultRule::standing("a", Fault::ServerError));
        book.add(FaultRule::standing("b", Fault::ServerError));
        book.clear(Some("a"));
        assert_eq!((take(&mut book, "a").len(), take(&mut book, "b").len()), (0, 1));
        book.clear(None);
        assert!(book.rules().is_empty());
    }

    #[test]
    fn every_fault_has_its_name_in_json() {
        let text = r#"{"account":"a","times":1,"faults":[{"fault":"quota_5h"},{"fault":"529"},{"fault":"split","sizes":[1]}]}"#;
        let rule: FaultRule = serde_json::from_str(text).expect("valid");
        assert_eq!(rule.faults.iter().map(Fault::name).collect::<Vec<_>>(), ["quota_5h", "529", "split"]);
        assert_eq!(rule.endpoint, Endpoint::Messages);
    }
}
