//! The upstreams that a model's name leads to, one after another.
//!
//! Never here: which account of an upstream serves; that is admission's.

use std::sync::Arc;

use http::StatusCode;

use crate::config::settings::{AuthMode, Protocol};
use crate::config::topology::{Element, Step as RouteStep};
use crate::gateway::access::Caller;
use crate::gateway::error::ApiError;
use crate::gateway::live::Live;

/// One upstream of a request's chain.
#[derive(Clone)]
pub(super) struct Leg {
    live: Arc<Live>,
    element: usize,
    model: String,
    /// The model of the first upstream of the chain, if this one's is another.
    pub(super) stands_in_for: Option<String>,
    /// Whether no other follows.
    pub(super) is_last: bool,
}

impl Leg {
    /// The upstreams for a model, in order, those left out that the client may not use.
    pub(super) fn chain(live: &Arc<Live>, model: &str, caller: &Caller) -> Result<Vec<Self>, ApiError> {
        let chain =
            live.topology.resolve(model, Protocol::Anthropic).map_err(|no| ApiError::NotFound(no.to_string()))?;
        let allowed = |e: &Element| caller.client.as_ref().is_none_or(|c| c.may_use_element(&e.name, &e.provider));
        let mut legs: Vec<Self> =
            chain.steps().filter(|step| allowed(step.element)).map(|step| Self::of(live, step)).collect();
        let wanted = legs.first().map(|first| first.model.clone());
        for leg in &mut legs {
            leg.stands_in_for = wanted.clone().filter(|wanted| *wanted != leg.model);
        }
        let Some(last) = legs.last_mut() else {
            return Err(ApiError::Forbidden("this client may not use the provider of this model".to_owned()));
        };
        last.is_last = true;
        Ok(legs)
    }

    fn of(live: &Arc<Live>, step: RouteStep<'_>) -> Self {
        let found = live.topology.elements().iter().position(|element| element.id == step.element.id);
        Self {
            live: Arc::clone(live),
            element: found.unwrap_or(0),
            model: step.model.to_owned(),
            stands_in_for: None,
            is_last: false,
        }
    }

    pub(super) fn element(&self) -> &Element {
        &self.live.topology.elements()[self.element]
    }

    pub(super) fn name(&self) -> &str {
        &self.element().name
    }

    pub(super) fn provider(&self) -> &str {
        &self.element().provider
    }

    /// The model's name there.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// Whether the credential is ours to put in.
    pub(super) fn injects(&self) -> bool {
        self.element().auth != AuthMode::Passthrough
    }
}

/// Whether a status makes the chain go on.
pub(super) fn advances(status: StatusCode) -> bool {
    let named = [StatusCode::TOO_MANY_REQUESTS, StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND];
    named.contains(&status) || status.is_server_error()
}
