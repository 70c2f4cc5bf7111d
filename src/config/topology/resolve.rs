//! Which elements a request for a model may use, in which order, and what the model is called there.
//!
//! A model's map decides first, then exact routes, then the longest prefix, then the default provider if it speaks the
//! client's protocol, then the first provider that does. Nothing is allocated for a request.

use std::collections::HashMap;
use std::slice;
use std::sync::Arc;

use super::{Element, Topology, Usable};
use crate::config::check::without_long_context;
use crate::config::settings::{Protocol, Settings};

/// Models whose reasoning is bound to the account that made it, unless `[[models]]` says otherwise.
const BINDS_THINKING: &[&str] = &["claude-sonnet-5-5"];

/// What the configuration says of models.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    maps: HashMap<Arc<str>, Mapped>,
    exact: HashMap<String, usize>,
    /// The longest first.
    prefixes: Vec<(String, usize)>,
    default: Option<usize>,
    /// For each element, the chain that is it alone.
    alone: Vec<Link>,
}

#[derive(Clone, Debug)]
struct Mapped {
    links: Vec<Link>,
    binds_thinking: Option<bool>,
}

#[derive(Clone, Debug)]
struct Link {
    element: usize,
    /// The model's name there, if another.
    model: Option<Arc<str>>,
}

/// The elements that may serve a request, in order.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'t> {
    topology: &'t Topology,
    links: &'t [Link],
    model: &'t str,
    protocol: Protocol,
}

/// One element of a chain.
#[derive(Clone, Copy, Debug)]
pub struct Step<'t> {
    /// The element.
    pub element: &'t Element,
    /// What the model is called there.
    pub model: &'t str,
}

/// Why nothing may serve a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoute {
    /// No provider speaks the client's protocol.
    #[error("no configured provider speaks the {} protocol", .protocol.as_str())]
    NoProvider {
        /// The client's protocol.
        protocol: Protocol,
    },
    /// The model is routed to a provider that speaks another protocol, or one this version cannot use.
    #[error("the model {model:?} is served by {element:?}, which speaks the {} protocol", .speaks.as_str())]
    OtherProtocol {
        /// The model.
        model: String,
        /// The first element it is routed to.
        element: String,
        /// What that speaks.
        speaks: Protocol,
    },
}

/// Whether a model's reasoning is bound to the account that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// It is: leaving the account loses it.
    Bound,
    /// It is not.
    Free,
}

impl Routes {
    pub(super) fn new(settings: &Settings) -> Self {
        let maps = settings.models.iter().map(|model| {
            let links = model.upstream_models.iter();
            let links = links.map(|(element, name)| Link { element: *element, model: Some(name.clone()) }).collect();
            (model.id.clone(), Mapped { links, binds_thinking: model.binds_thinking })
        });
        let mut prefixes: Vec<_> = settings.route_prefixes.iter().map(|r| (r.pattern.clone(), r.unit)).collect();
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Self {
            maps: maps.collect(),
            exact: settings.routes.iter().map(|route| (route.pattern.clone(), route.unit)).collect(),
            prefixes,
            default: settings.default_unit,
            alone: (0..settings.units.len()).map(|element| Link { element, model: None }).collect(),
        }
    }

    fn routed(&self, model: &str) -> Option<usize> {
        let by_prefix = || self.prefixes.iter().find(|(prefix, _)| model.starts_with(prefix.as_str())).map(|(_, e)| e);
        self.exact.get(model).or_else(by_prefix).copied()
    }
}

impl Topology {
    /// The elements that may serve this model to a client that speaks this protocol: at least one.
    ///
    /// # Errors
    /// When none may; the client gets 404.
    pub fn resolve<'t>(&'t self, model: &'t str, protocol: Protocol) -> Result<Chain<'t>, NoRoute> {
        let model = without_long_context(model);
        let links = match self.routes.maps.get(model) {
            Some(mapped) => mapped.links.as_slice(),
            None => match self.routes.routed(model) {
                Some(element) => self.alone(element),
                None => self.alone(self.fallback(protocol)?),
            },
        };
        let chain = Chain { topology: self, links, model, protocol };
        if chain.steps().next().is_some() {
            return Ok(chain);
        }
        Err(links.first().map_or(NoRoute::NoProvider { protocol }, |link| self.other_protocol(model, link)))
    }

    /// Whether reasoning of this model, by the client's name for it and the provider's, is bound to an account.
    #[must_use]
    pub fn binds_thinking(&self, asked: &str, served: &str) -> Binding {
        let said = self.routes.maps.get(without_long_context(asked)).and_then(|mapped| mapped.binds_thinking);
        let known = || BINDS_THINKING.iter().any(|begin| asked.starts_with(begin) || served.starts_with(begin));
        if said.unwrap_or_else(known) { Binding::Bound } else { Binding::Free }
    }

    fn alone(&self, element: usize) -> &[Link] {
        self.routes.alone.get(element).map(slice::from_ref).unwrap_or_default()
    }

    /// For models that nothing names.
    fn fallback(&self, protocol: Protocol) -> Result<usize, NoRoute> {
        let fits = |element: &usize| serves(&self.elements[*element], protocol);
        let first = || (0..self.elements.len()).find(fits);
        self.routes.default.filter(fits).or_else(first).ok_or(NoRoute::NoProvider { protocol })
    }

    fn other_protocol(&self, model: &str, link: &Link) -> NoRoute {
        let element = &self.elements[link.element];
        NoRoute::OtherProtocol { model: model.to_owned(), element: element.name.to_string(), speaks: element.protocol }
    }
}

fn serves(element: &Element, protocol: Protocol) -> bool {
    element.protocol == protocol && element.usable == Usable::Yes
}

impl<'t> Chain<'t> {
    /// The steps, in order.
    pub fn steps(self) -> impl Iterator<Item = Step<'t>> {
        let fitting = self.links.iter().filter(move |l| serves(&self.topology.elements[l.element], self.protocol));
        fitting.map(move |link| Step {
            element: &self.topology.elements[link.element],
            model: link.model.as_deref().unwrap_or(self.model),
        })
    }
}
