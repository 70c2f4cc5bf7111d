//! `POST /v1/messages` and `/count_tokens`: quota, thinking, prompt cache, and the model's answer.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Call, World, identity};
use crate::sim::account::AccountKind;
use crate::sim::answer::Answer;
use crate::sim::cache::{InputUsage, minimum_tokens};
use crate::sim::fault::Fault;
use crate::sim::prompt::{Invalid, Prompt};
use crate::sim::quota::{Told, decisive, unified_headers};
use crate::sim::reply::{Envelope, Reply, events, whole};
use crate::sim::script::{Sight, reply};

const BODY_LIMIT: usize = 32 * 1024 * 1024;
const CACHE_READ_SHARE: u64 = 10;

impl World {
    pub(super) fn messages(&mut self, call: &Call<'_>, account: usize) -> Answer {
        let (prompt, body) = match self.valid(call) {
            Ok(valid) => valid,
            Err(refusal) => return refusal,
        };
        let Some(max_tokens) = prompt.max_tokens else {
            return call.invalid("max_tokens: Field required");
        };
        match self.refused(call, account, &prompt.model) {
            Some(refusal) => refusal,
            None => self.think(call, account, prompt, body, max_tokens),
        }
    }

    pub(super) fn count_tokens(&mut self, call: &Call<'_>, account: usize) -> Answer {
        let (prompt, _) = match self.valid(call) {
            Ok(valid) => valid,
            Err(refusal) => return refusal,
        };
        let headers = self.quota_headers(account, &prompt.model, Told::Served, call.now);
        Answer::json(200, &json!({"input_tokens": prompt.tokens()})).with_default(headers)
    }

    fn valid<'b>(&self, call: &Call<'b>) -> Result<(Prompt, &'b Value), Answer> {
        if call.arrived.body.len() > BODY_LIMIT {
            let text = "Request exceeds the maximum allowed number of bytes.";
            return Err(call.error(413, "request_too_large", text));
        }
        let body = call.body.ok_or_else(|| call.invalid("The request body is not valid JSON"))?;
        let prompt = Prompt::read(body).map_err(|Invalid(text)| call.invalid(&text))?;
        if !self.config.offers(&prompt.model) {
            return Err(call.error(404, "not_found_error", &format!("model: {}", prompt.model)));
        }
        let tokens = prompt.tokens();
        match self.config.context_tokens {
            Some(limit) if tokens > limit => {
                Err(call.invalid(&format!("prompt is too long: {tokens} tokens > {limit} maximum")))
            }
            Some(_) | None => Ok((prompt, body)),
        }
    }

    /// The refusal of an account whose quota is used up.
    fn refused(&mut self, call: &Call<'_>, at: usize, model: &str) -> Option<Answer> {
        let account = &mut self.accounts[at];
        let states = account.quota.governing(model, call.now);
        let full = decisive(&states).filter(|state| state.is_full())?;
        if account.spec.kind == AccountKind::ApiKey {
            return None;
        }
        let wait = full.reset.unwrap_or_default() - call.now.wall.as_secs();
        let text = "This request would exceed your account's rate limit. Please try again later.";
        let answer = call.error(429, "rate_limit_error", text).with("retry-after", wait.max(0).to_string());
        Some(answer.with_default(unified_headers(&states, Told::Refused)))
    }

    fn think(&mut self, call: &Call<'_>, at: usize, mut prompt: Prompt, body: &Value, max_tokens: u64) -> Answer {
        let dropped = match self.foreign_thinking(&prompt, at) {
            Ok(dropped) => dropped,
            Err(Invalid(text)) => return call.invalid(&text),
        };
        prompt.leave_out(&dropped);
        let sight = Sight { thinking: prompt.thinking().count(), serial: call.id };
        let said = if call.faults.contains(&Fault::EmptyMessage) { Reply::default() } else { reply(body, sight) };
        let said = said.within(max_tokens);
        let organization = identity(&self.accounts[at].organization);
        let input = self.cache.serve(organization, &prompt.prefixes(), minimum_tokens(&prompt.model), call.now);
        let headers = self.book(call, at, &prompt.model, input, said.tokens());
        self.note_thought(call, dropped.len(), sight.thinking, input, said.tokens());
        self.written(call, at, &prompt, &said, input).with_default(headers)
    }

    /// The thinking that another account made, where that matters; an error for a signature that nobody made.
    fn foreign_thinking(&self, prompt: &Prompt, at: usize) -> Result<Vec<usize>, Invalid> {
        let own = identity(&self.accounts[at].uuid);
        let bound = self.config.binds_thinking(&prompt.model);
        let mut foreign = Vec::new();
        for (block, signature, path) in prompt.thinking() {
            match self.seal.issuer(signature) {
                None => return Err(Invalid(format!("{path}: Invalid `signature` in `thinking` block"))),
                Some(issuer) if bound && issuer != own => foreign.push(block),
                Some(_) => {}
            }
        }
        Ok(foreign)
    }

    /// Books the use, and tells of the quota as it stood before the output.
    fn book(
        &mut self,
        call: &Call<'_>,
        at: usize,
        model: &str,
        input: InputUsage,
        output: u64,
    ) -> Vec<(String, String)> {
        let weighed = input.total() - input.cache_read + input.cache_read / CACHE_READ_SHARE;
        self.accounts[at].quota.charge(model, weighed, call.now);
        let headers = self.quota_headers(at, model, Told::Served, call.now);
        self.accounts[at].quota.charge(model, output, call.now);
        headers
    }

    fn written(&self, call: &Call<'_>, at: usize, prompt: &Prompt, said: &Reply, input: InputUsage) -> Answer {
        let display = call.body.and_then(|body| body.pointer("/thinking/display")).and_then(Value::as_str);
        let envelope = Envelope {
            id: format!("msg_sim{:012}", call.id),
            model: prompt.model.clone(),
            input,
            signature: self.seal.sign(identity(&self.accounts[at].uuid), call.id),
            omit_thinking: display == Some("omitted"),
        };
        if prompt.stream {
            return Answer::stream(events(said, &envelope, Duration::from_millis(self.config.pace_millis)))
                .with("anthropic-organization-id", self.accounts[at].organization.clone());
        }
        let (body, delay) = whole(said, &envelope);
        Answer::whole(200, "application/json", body)
            .after(delay)
            .with("anthropic-organization-id", self.accounts[at].organization.clone())
    }

    fn note_thought(&mut self, call: &Call<'_>, dropped: usize, seen: usize, input: InputUsage, output: u64) {
        if let Some(record) = self.log.get_mut(call.id) {
            record.dropped_thinking = dropped;
            record.seen_thinking = seen;
            record.usage = Some(input);
            record.output_tokens = output;
        }
    }
}
