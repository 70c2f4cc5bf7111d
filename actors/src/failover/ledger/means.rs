//! How long answers are: what the next of the same asker and model is expected to have.

use std::collections::HashMap;
use std::sync::Arc;

use crate::id::Principal;

/// From so many answers on their mean counts.
const ENOUGH: u32 = 20;
/// Older answers fade as if there were never more than this.
const MEMORY: u32 = 200;
/// So many askers and models are remembered; then all is learnt anew.
const MOST: usize = 4_096;

/// Who asks, and which model.
type Key = (Option<Arc<str>>, Option<Arc<str>>, Arc<str>);

/// The lengths of answers.
#[derive(Debug, Default)]
pub(super) struct Means {
    means: HashMap<Key, Mean>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    answers: u32,
    tokens: f64,
}

impl Means {
    pub(super) fn note(&mut self, principal: &Principal, model: &Arc<str>, output: u64) {
        if self.means.len() >= MOST {
            self.means.clear();
        }
        let mean = self.means.entry(key(principal, model)).or_default();
        mean.answers = (mean.answers + 1).min(MEMORY);
        mean.tokens += (output as f64 - mean.tokens) / f64::from(mean.answers);
    }

    /// The mean, once it counts.
    pub(super) fn of(&self, principal: &Principal, model: &Arc<str>) -> Option<f64> {
        if self.means.is_empty() {
            return None;
        }
        let mean = self.means.get(&key(principal, model))?;
        (mean.answers >= ENOUGH).then_some(mean.tokens)
    }
}

fn key(principal: &Principal, model: &Arc<str>) -> Key {
    (principal.client.clone(), principal.agent.clone(), Arc::clone(model))
}
