//! Claude Code, run as a person runs it: `claude -p` in a folder, then `--resume`.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::installed::{self, Version};
use crate::kin;
use crate::stage::Stage;

/// A person's Claude Code: a home, a working folder, one conversation.
pub struct Claude {
    version: Version,
    folder: PathBuf,
    session: String,
    url: String,
    vars: Vec<(String, String)>,
    within: Duration,
    turns: std::cell::Cell<usize>,
}

impl Claude {
    /// A new conversation through the gateway of this stage.
    pub fn new(stage: &Stage, version: Version) -> Self {
        Self {
            version,
            folder: stage.home(&format!("claude-{version:?}")),
            session: session_of(version),
            url: stage.url.clone(),
            vars: Vec::new(),
            within: kin::PATIENCE,
            turns: std::cell::Cell::new(0),
        }
    }

    /// The same, which may take longer.
    pub fn waiting(self, more: Duration) -> Self {
        Self { within: self.within + more, ..self }
    }

    /// Another conversation, of a person with another home.
    pub fn afresh(self, home: &str) -> Self {
        let folder = self.folder.join(home);
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder, ..self }
    }

    /// The same with another base URL.
    pub fn at(self, url: &str) -> Self {
        Self { url: url.to_owned(), ..self }
    }

    /// The same with a variable.
    pub fn var(mut self, name: &str, value: &str) -> Self {
        self.vars.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The conversation's id.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Lets a tool go on that waits with [`WAITS`].
    pub fn go(&self) {
        std::fs::write(self.folder.join("go"), "").unwrap();
    }

    /// One turn of the person: the client ends well, reports no error, and its last word is this.
    pub async fn turn(&self, prompt: &str, last_word: &str) {
        let said = self.ask(prompt).await;
        assert_eq!(said, last_word, "{:?}", self.version);
    }

    /// One turn of the person: the client ends well and reports no error. Gives its last word.
    pub async fn ask(&self, prompt: &str) -> String {
        let finished = kin::run(self.command(prompt), self.within).await;
        self.turns.set(self.turns.get() + 1);
        assert!(finished.code == Some(0), "{:?}: {finished:?}", self.version);
        assert!(!finished.out.contains("API Error") && finished.err.is_empty(), "{:?}: {finished:?}", self.version);
        let told: Value = serde_json::from_str(&finished.out).unwrap_or_else(|_| panic!("no JSON: {finished:?}"));
        assert_eq!(told["is_error"], false, "{told}");
        assert_eq!(told["session_id"], self.session, "{told}");
        told["result"].as_str().unwrap_or_default().to_owned()
    }

    fn command(&self, prompt: &str) -> tokio::process::Command {
        let mut command = kin::program(&installed::claude(self.version), &self.folder);
        let continues = if self.turns.get() == 0 { "--session-id" } else { "--resume" };
        command.args(["-p", prompt, "--output-format", "json", continues, &self.session]);
        command.args(["--allowedTools", "Bash", "Task", "Agent"]);
        command.env("ANTHROPIC_BASE_URL", &self.url).env("ANTHROPIC_AUTH_TOKEN", "nobody's");
        for quiet in ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER"] {
            command.env(quiet, "1");
        }
        command.env("DISABLE_ERROR_REPORTING", "1");
        command.envs(self.vars.iter().map(|(name, value)| (name, value)));
        command
    }
}

fn session_of(version: Version) -> String {
    match version {
        Version::Usual => "6f1f3c1e-0d6a-4c53-9a77-3f4ce1f0a001".to_owned(),
        Version::Pinned => "6f1f3c1e-0d6a-4c53-9a77-3f4ce1f0a002".to_owned(),
    }
}

/// A tool call of the model that lasts until [`Claude::go`], at most half a minute.
pub const WAITS: &str =
    r#"[[tool:Bash {"command":"for i in $(seq 300); do [ -e go ] && break; sleep 0.1; done; rm go && echo went"}]]"#;

/// A tool call, a subagent with a tool call of its own, and a last word: five requests for a model.
pub const ERRAND: &str = concat!(
    r#"[[say: I begin.]] [[tool:Bash {"command":"echo hello"}]] "#,
    r#"[[agent: [[tool:Bash {"command":"echo deep"}]] [[say: The errand is run.]]]] [[words: 40]] [[say: All done.]]"#
);
