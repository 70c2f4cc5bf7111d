//! Is the configuration good?

use super::finding::{Finding, Group};
use super::{Doctor, Mark};
use crate::config::locate::Source;
use crate::config::problem::{Place, Problem, Severity};

/// A line for each problem, or one that says that there is none. What is wrong with an account's secret is said of the
/// account.
pub(super) fn look(doctor: &Doctor) -> Vec<Finding> {
    let report = &doctor.loaded.report;
    let what = match &report.source {
        Source::File(path) => path.display().to_string(),
        Source::BuiltIn => "no config file".to_owned(),
    };
    let mut findings: Vec<_> =
        report.problems.iter().filter(|problem| !is_of_an_account(doctor, &problem.place)).map(found).collect();
    if !findings.iter().any(|finding| finding.mark == Mark::Fail) {
        findings.insert(0, Finding::pass(Group::Config, what, summary(&report.summary, &report.source)));
    }
    findings
}

fn found(problem: &Problem) -> Finding {
    let what = problem.place.to_string();
    match problem.severity {
        Severity::Warning => Finding::warn(Group::Config, what, &problem.text),
        Severity::Error => Finding::fail(Group::Config, what, &problem.text),
    }
}

fn is_of_an_account(doctor: &Doctor, place: &Place) -> bool {
    let entries = doctor.ready().into_iter().flat_map(|ready| ready.topology.entries());
    matches!(place, Place::Line { .. }) && entries.into_iter().any(|entry| entry.place == *place)
}

fn summary(lines: &[String], source: &Source) -> String {
    let how = match source {
        Source::File(_) => "ok",
        Source::BuiltIn => "what was found on this machine is used",
    };
    std::iter::once(how).chain(lines.iter().map(String::as_str)).collect::<Vec<_>>().join("; ")
}
