//! What was found: one line each, with a mark, in groups.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;

/// How grave it is. Declared from least to gravest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// As it should be.
    Pass,
    /// Worth knowing.
    Warn,
    /// Wrong.
    Fail,
}

/// What it concerns, in the order in which it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The configuration.
    Config,
    /// The key, and who may read what.
    Keys,
    /// Accounts with a secret of their own.
    Accounts,
    /// Command line tools.
    Tools,
    /// The daemon and what starts it.
    Service,
    /// What is remembered.
    Store,
    /// The time.
    Clock,
    /// The ways to people.
    Channels,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// What it concerns.
    pub group: Group,
    /// How grave it is.
    pub mark: Mark,
    /// What was looked at.
    pub what: String,
    /// What was found.
    pub finding: String,
    /// What to do; null where nothing is to be done.
    pub advice: Option<String>,
}

/// All that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// In groups.
    pub findings: Vec<Finding>,
}

/// The same, as JSON.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReportView<'a> {
    /// The gravest mark.
    pub verdict: Mark,
    /// The version that looked.
    pub version: &'static str,
    /// What was found.
    pub findings: &'a [Finding],
}

impl Mark {
    fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        }
    }
}

impl Group {
    fn title(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Keys => "key and permissions",
            Self::Accounts => "accounts",
            Self::Tools => "command line tools",
            Self::Service => "service",
            Self::Store => "store",
            Self::Clock => "clock",
            Self::Channels => "channels",
        }
    }
}

impl Finding {
    /// Something that is as it should be.
    pub fn pass(group: Group, what: impl Into<String>, finding: impl Into<String>) -> Self {
        Self { group, mark: Mark::Pass, what: what.into(), finding: finding.into(), advice: None }
    }

    /// Something that is worth knowing.
    pub fn warn(group: Group, what: impl Into<String>, finding: impl Into<String>) -> Self {
        Self { mark: Mark::Warn, ..Self::pass(group, what, finding) }
    }

    /// Something that is wrong.
    pub fn fail(group: Group, what: impl Into<String>, finding: impl Into<String>) -> Self {
        Self { mark: Mark::Fail, ..Self::pass(group, what, finding) }
    }

    /// The same, with what to do.
    #[must_use]
    pub fn advised(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

impl Report {
    /// The gravest mark.
    #[must_use]
    pub fn verdict(&self) -> Mark {
        self.findings.iter().map(|finding| finding.mark).max().unwrap_or(Mark::Pass)
    }

    /// As JSON.
    #[must_use]
    pub fn view(&self) -> ReportView<'_> {
        ReportView { verdict: self.verdict(), version: env!("CARGO_PKG_VERSION"), findings: &self.findings }
    }

    /// As text: a line each, under the title of its group.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        let mut group = None;
        for finding in &self.findings {
            if group != Some(finding.group) {
                let gap = if group.is_some() { "\n" } else { "" };
                let _ = writeln!(text, "{gap}{}", finding.group.title());
                group = Some(finding.group);
            }
            let advice = finding.advice.as_ref().map(|advice| format!(" → {advice}")).unwrap_or_default();
            let _ = writeln!(text, "{}  {}: {}{advice}", finding.mark.word(), finding.what, finding.finding);
        }
        let of = |mark| self.findings.iter().filter(|finding| finding.mark == mark).count();
        let (warnings, failures) = (of(Mark::Warn), of(Mark::Fail));
        let _ = writeln!(text, "\n{} pass, {warnings} warn, {failures} fail", of(Mark::Pass));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_is_the_gravest_mark_and_each_finding_a_line_in_its_group() {
        let mut report = Report { findings: vec![Finding::pass(Group::Config, "config.toml", "ok")] };
        assert_eq!(report.verdict(), Mark::Pass);
        report.findings.push(Finding::warn(Group::Accounts, "a/b", "unreachable").advised("see the network"));
        assert_eq!(report.verdict(), Mark::Warn);
        report.findings.push(Finding::fail(Group::Accounts, "a/c", "invalid token (401)"));
        assert_eq!(report.verdict(), Mark::Fail);
        let expected = "config\nPASS  config.toml: ok\n\naccounts\nWARN  a/b: unreachable → see the network\n\
                        FAIL  a/c: invalid token (401)\n\n1 pass, 1 warn, 1 fail\n";
        assert_eq!(report.render(), expected);
    }
}
