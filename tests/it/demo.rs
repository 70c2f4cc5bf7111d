//! `duduclaw demo`, as a newcomer runs it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn demo(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duduclaw"));
    command.arg("demo").args(args).env_clear().env("TMPDIR", folder).env("HOME", "/nonexistent");
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What differs from run to run: the port, real seconds, and the order of news of one moment from different actors.
fn redacted(story: &str) -> String {
    let mut page = Vec::new();
    let mut step: Vec<String> = Vec::new();
    for line in story.lines() {
        if line.starts_with("  ") && line.get(9..11) == Some("  ") && line.contains(':') {
            step.push(without_port(&format!("  H:MM:SS{}", &line[9..])));
        } else {
            step.sort();
            page.append(&mut step);
            page.push(line.to_owned());
        }
    }
    page.join("\n")
}

fn without_port(line: &str) -> String {
    let Some((before, after)) = line.split_once("127.0.0.1:") else { return line.to_owned() };
    format!("{before}127.0.0.1:PORT{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

#[test]
fn the_demo_tells_the_whole_story_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo(folder.path(), &[]);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    let story = text(&output.stdout);
    assert!(story.lines().all(|line| line.chars().count() <= 80), "{story}");
    assert!(!story.contains('\x1b'), "no colours where no terminal is");
    insta::assert_snapshot!(redacted(&story));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "its home is gone");
}

#[test]
fn as_json_it_is_the_events_of_the_feed_and_a_summary() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo(folder.path(), &["--json", "--fast"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, events) = lines.split_last().unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    for kind in [
        "started",
        "failed_over",
        "detoured",
        "returned",
        "hold_began",
        "hold_ended",
        "conversation_moved",
        "token_refreshed",
        "request_held",
        "request_released",
        "request_ended",
    ] {
        assert!(events.iter().any(|event| event["kind"]["kind"] == kind), "{kind}");
    }
    let ended = events.iter().filter(|event| event["kind"]["kind"] == "request_ended");
    assert_eq!(summary["summary"]["requests"], ended.count());
    assert_eq!(summary["summary"]["errors"], 0);
}

/// A folder that cannot be had is named, and nothing is half-started.
#[test]
fn a_demo_that_cannot_begin_says_why() {
    let output = demo(Path::new("/nonexistent/folder"), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).contains("no temporary folder can be made"), "{}", text(&output.stderr));
}
