//! The ways to people: messages go out by the channel that the configuration names for them.
//!
//! Never here: what is told to whom and when.

mod webhook;

use std::sync::Arc;

use arc_swap::ArcSwap;
use duduclaw_actors::postman::{Courier, Delivery, Parcel};

use crate::config::settings::Webhook;
use crate::credentials::Environment;
use crate::upstream::client::Client;

/// The channels of the configuration in force.
pub struct Channels {
    webhooks: ArcSwap<Vec<Webhook>>,
    client: Client,
    environment: Environment,
}

impl Channels {
    /// These channels; addresses and keys are read from the environment when they are needed.
    #[must_use]
    pub fn new(webhooks: Vec<Webhook>, client: Client, environment: Environment) -> Arc<Self> {
        Arc::new(Self { webhooks: ArcSwap::from_pointee(webhooks), client, environment })
    }

    /// Another configuration is in force.
    pub fn replace(&self, webhooks: Vec<Webhook>) {
        self.webhooks.store(Arc::new(webhooks));
    }

    /// Where a message goes.
    fn webhook(&self, parcel: &Parcel) -> Option<Webhook> {
        let webhooks = self.webhooks.load();
        let named = webhooks.iter().find(|webhook| webhook.name == parcel.target.name);
        named.filter(|_| &*parcel.target.channel == "webhook").cloned()
    }
}

impl Courier for Channels {
    fn deliver(&self, parcel: Parcel) -> Delivery {
        let Some(webhook) = self.webhook(&parcel) else {
            let why = format!("no channel {} has a target {}", parcel.target.channel, parcel.target.name);
            return Box::pin(async move { Err(why) });
        };
        let (client, environment) = (self.client.clone(), Arc::clone(&self.environment));
        Box::pin(async move {
            let sent = webhook::send(&client, &webhook, &environment, &parcel).await;
            sent.map_err(|error| error.to_string())
        })
    }
}
