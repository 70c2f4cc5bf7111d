//! What a simulated provider is like at the start.

use serde::{Deserialize, Serialize};

use super::account::AccountSpec;
use super::fault::FaultRule;

/// A simulated provider as it is asked for; also the scenario file of `duduclaw sim`, in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimConfig {
    /// Its accounts.
    pub accounts: Vec<AccountSpec>,
    /// What goes wrong from the start.
    pub faults: Vec<FaultRule>,
    /// Milliseconds before each event of a stream.
    pub pace_millis: u64,
    /// Milliseconds that the token endpoint takes.
    pub token_delay_millis: u64,
    /// The models it lists. It serves all names that begin with `claude-` and hold no bracket.
    pub models: Vec<String>,
    /// Models whose thinking is bound to the account that made it: beginnings of names.
    pub binds_thinking: Vec<String>,
    /// The longest prompt in tokens; without it, any.
    pub context_tokens: Option<u64>,
    /// How many bytes of bodies the log keeps.
    pub keep_bytes: usize,
    /// Two simulators with the same seed know each other's thinking signatures.
    pub seed: String,
}

impl Default for SimConfig {
    fn default() -> Self {
        let models = ["claude-opus-5-5", "claude-sonnet-5-5", "claude-sonnet-5", "claude-fable-5", "claude-haiku-4-5"];
        Self {
            accounts: Vec::new(),
            faults: Vec::new(),
            pace_millis: 0,
            token_delay_millis: 0,
            models: models.map(str::to_owned).to_vec(),
            binds_thinking: vec!["claude-sonnet-5-5".to_owned()],
            context_tokens: None,
            keep_bytes: 256 * 1024 * 1024,
            seed: "simulated provider".to_owned(),
        }
    }
}

impl SimConfig {
    /// A provider with these accounts.
    #[must_use]
    pub fn with(accounts: impl IntoIterator<Item = AccountSpec>) -> Self {
        Self { accounts: accounts.into_iter().collect(), ..Self::default() }
    }

    pub(super) fn offers(&self, model: &str) -> bool {
        (model.starts_with("claude-") && !model.contains('[')) || self.models.iter().any(|known| known == model)
    }

    pub(super) fn binds_thinking(&self, model: &str) -> bool {
        self.binds_thinking.iter().any(|prefix| model.starts_with(prefix.as_str()))
    }
}
