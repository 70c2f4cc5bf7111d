//! `[notify]` and `[channels]`: who is told of outages, and by which way.

use std::sync::Arc;

use duduclaw_actors::roster::Target;
use reqwest::Url;

use super::Checker;
use crate::config::document::{At, Mark};
use crate::config::problem::shown;
use crate::config::raw::{Raw, RawChannels, RawNotify, RawWebhook};
use crate::config::settings::Webhook;

const WEBHOOK: &str = "webhook";
const TELEGRAM: &str = "telegram";

impl Checker<'_> {
    /// Who is told of what concerns no agent.
    pub(super) fn notify(&mut self, raw: &Raw) -> Option<Target> {
        let notify = raw.notify.as_ref()?;
        let (Some(channel), Some(target)) = (&notify.channel, &notify.target) else {
            self.missing(notify.mark, "[notify] needs channel and target");
            return None;
        };
        self.notify_is_declared(notify, channel, target, raw.channels.as_deref());
        let sends = channel.as_str() == WEBHOOK;
        sends.then(|| Target { channel: channel.as_str().into(), name: target.as_str().into() })
    }

    fn notify_is_declared(
        &mut self,
        notify: &At<RawNotify>,
        channel: &At<String>,
        target: &At<String>,
        channels: Option<&RawChannels>,
    ) {
        let known = match channel.as_str() {
            WEBHOOK => {
                let webhooks = channels.and_then(|channels| channels.webhook.as_deref());
                webhooks.is_some_and(|webhooks| webhooks.0.iter().any(|(name, _)| *name == target.value))
            }
            TELEGRAM => {
                self.not_built(notify.mark, "[notify] by telegram; nothing is sent");
                channels.is_some_and(|channels| channels.telegram.is_some())
            }
            _ => {
                let text = format!("notify.channel {} is none of {WEBHOOK}, {TELEGRAM}", shown(channel));
                return self.error(channel.mark, text);
            }
        };
        if !known {
            let text = format!("[notify] names channel {} target {}", shown(channel), shown(target));
            self.error(channel.mark, format!("{text}, which [channels] does not declare"));
        }
    }

    /// The webhooks that can be sent to.
    pub(super) fn webhooks(&mut self, raw: &Raw) -> Vec<Webhook> {
        let Some(channels) = &raw.channels else { return Vec::new() };
        self.telegram(channels);
        let declared = channels.webhook.as_deref().map(|webhooks| &webhooks.0).into_iter().flatten();
        declared.filter_map(|(name, webhook)| self.webhook(name, webhook)).collect()
    }

    fn webhook(&mut self, name: &str, webhook: &At<RawWebhook>) -> Option<Webhook> {
        let key = format!("channels.webhook.{name}");
        self.variable(&format!("{key}.url_env"), webhook.url_env.as_ref());
        self.variable(&format!("{key}.secret_env"), webhook.secret_env.as_ref());
        self.needs(&key, "url_env", webhook.mark, webhook.url_env.is_some());
        let url_env = webhook.url_env.as_ref()?;
        self.webhook_address(&key, url_env);
        if let Some(secret) = webhook.secret_env.as_ref().filter(|name| self.is_unset(name)) {
            let text = format!("{key}: the variable {} is not set, so nothing can be sent; set it", secret.value);
            self.warn(secret.mark, text);
        }
        Some(Webhook {
            name: Arc::from(name),
            url_env: url_env.value.clone(),
            secret_env: webhook.secret_env.as_ref().map(|name| name.value.clone()),
        })
    }

    /// An address is a secret: it is looked at, and never shown.
    fn webhook_address(&mut self, key: &str, url_env: &At<String>) {
        let value = self.surroundings.text_var(url_env);
        let fault = match value.as_deref().map(str::trim) {
            None | Some("") => "is not set, so nothing can be sent; set it",
            Some(url) if Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https")) => return,
            Some(_) => "holds no http or https address, so nothing can be sent",
        };
        self.warn(url_env.mark, format!("{key}: the variable {} {fault}", url_env.value));
    }

    fn is_unset(&self, name: &str) -> bool {
        self.surroundings.text_var(name).is_none_or(|value| value.trim().is_empty())
    }

    fn telegram(&mut self, channels: &RawChannels) {
        let Some(telegram) = &channels.telegram else { return };
        self.not_built(telegram.mark, "[channels.telegram]");
        self.variable("channels.telegram.token_env", telegram.token_env.as_ref());
        self.needs("channels.telegram", "token_env", telegram.mark, telegram.token_env.is_some());
        self.needs("channels.telegram", "agent", telegram.mark, telegram.agent.is_some());
        self.needs("channels.telegram", "allow", telegram.mark, telegram.allow.is_some());
    }

    fn needs(&mut self, table: &str, key: &str, mark: Mark, given: bool) {
        if !given {
            self.missing(mark, format!("[{table}] has no {key}"));
        }
    }
}
