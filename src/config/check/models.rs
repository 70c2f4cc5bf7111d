//! `[[models]]`, `[[routes]]` and `[[route_prefixes]]`: which unit serves which model.

use std::sync::Arc;

use super::Checker;
use crate::config::document::{At, Mark, Ordered};
use crate::config::problem::shown;
use crate::config::raw::{Raw, RawModel};
use crate::config::settings::{ModelEntry, Route, Unit};

/// How Claude Code marks a model with the long context; it is no part of any provider's model id.
const LONG_CONTEXT: &str = "[1m]";

/// A model's name without the mark for the long context.
#[must_use]
pub(crate) fn without_long_context(model: &str) -> &str {
    let cut = model.len().saturating_sub(LONG_CONTEXT.len());
    match model.get(cut..) {
        Some(end) if end.eq_ignore_ascii_case(LONG_CONTEXT) => model[..cut].trim_end(),
        _ => model,
    }
}

impl Checker<'_> {
    pub(super) fn models(&mut self, raw: &Raw, units: &[Unit]) -> Vec<ModelEntry> {
        let mut models: Vec<ModelEntry> = Vec::new();
        for model in raw.models.as_deref().into_iter().flatten() {
            let Some(entry) = self.model(model, units) else { continue };
            if models.iter().any(|other| other.id == entry.id) {
                self.error(model.mark, format!("[[models]] has {} twice; join the two", shown(&entry.id)));
            } else {
                models.push(entry);
            }
        }
        models
    }

    fn model(&mut self, raw: &At<RawModel>, units: &[Unit]) -> Option<ModelEntry> {
        let id = self.text("an entry of [[models]]", "id", raw.mark, raw.id.as_ref())?;
        if without_long_context(&id) != id {
            let bare = without_long_context(&id);
            self.error(raw.mark, format!("model {id:?}: {LONG_CONTEXT} never reaches a provider; write {bare:?}"));
            return None;
        }
        let upstream_models = match &raw.upstream_model {
            Some(map) => self.upstream_models(&id, map, units),
            None => {
                self.missing(raw.mark, format!("model {} has no [models.upstream_model]", shown(&id)));
                Vec::new()
            }
        };
        Some(ModelEntry {
            id: id.as_str().into(),
            display_name: raw.display_name.as_deref().cloned(),
            binds_thinking: raw.binds_thinking.as_deref().copied(),
            upstream_models,
        })
    }

    /// In the order of the units, whatever the order of the map.
    fn upstream_models(&mut self, id: &str, map: &At<Ordered<String>>, units: &[Unit]) -> Vec<(usize, Arc<str>)> {
        if map.0.is_empty() {
            let text = "has an empty [models.upstream_model]; name an upstream and its id of the model";
            self.error(map.mark, format!("model {} {text}", shown(id)));
        }
        let mut mapped = Vec::new();
        for (upstream, theirs) in &map.0 {
            let key = format!("[models.upstream_model] of {id:?}");
            let name = At { value: upstream.clone(), mark: theirs.mark };
            let Some(unit) = self.unit_named(&key, &name, units) else { continue };
            if theirs.trim().is_empty() {
                self.error(theirs.mark, format!("{key} maps {upstream:?} to nothing; write the model's id there"));
                continue;
            }
            if without_long_context(theirs) != theirs.as_str() {
                self.error(theirs.mark, format!("{key}: {LONG_CONTEXT} never reaches a provider; leave it out"));
            }
            mapped.push((unit, Arc::from(theirs.trim())));
        }
        mapped.sort_by_key(|(unit, _)| *unit);
        mapped
    }

    pub(super) fn routes(&mut self, raw: &Raw, units: &[Unit], models: &[ModelEntry]) -> Vec<Route> {
        let mut routes: Vec<Route> = Vec::new();
        for route in raw.routes.as_deref().into_iter().flatten() {
            let Some(model) = self.text("an entry of [[routes]]", "model", route.mark, route.model.as_ref()) else {
                continue;
            };
            if models.iter().any(|entry| *entry.id == *model) {
                let text = format!("{} stands in [[models]] and in [[routes]]", shown(&model));
                self.error(route.mark, format!("{text}; the map decides already, so remove the route"));
            }
            self.route("[[routes]]", &mut routes, route.mark, model, route.provider.as_ref(), units);
        }
        routes
    }

    pub(super) fn route_prefixes(&mut self, raw: &Raw, units: &[Unit]) -> Vec<Route> {
        let mut routes: Vec<Route> = Vec::new();
        for route in raw.route_prefixes.as_deref().into_iter().flatten() {
            let whose = "an entry of [[route_prefixes]]";
            let Some(prefix) = self.text(whose, "prefix", route.mark, route.prefix.as_ref()) else { continue };
            self.route("[[route_prefixes]]", &mut routes, route.mark, prefix, route.provider.as_ref(), units);
        }
        routes
    }

    fn route(
        &mut self,
        table: &str,
        routes: &mut Vec<Route>,
        mark: Mark,
        pattern: String,
        provider: Option<&At<String>>,
        units: &[Unit],
    ) {
        if routes.iter().any(|other| other.pattern == pattern) {
            self.error(mark, format!("{table} has {} twice; keep one", shown(&pattern)));
        }
        let Some(provider) = provider else {
            return self.missing(mark, format!("{table}: {} has no provider", shown(&pattern)));
        };
        if let Some(unit) = self.unit_named(table, provider, units) {
            routes.push(Route { pattern, unit });
        }
    }

    /// Text that must be there and not blank.
    fn text(&mut self, whose: &str, key: &str, mark: Mark, value: Option<&At<String>>) -> Option<String> {
        let text = value.map(|value| value.trim().to_owned()).filter(|text| !text.is_empty());
        if text.is_none() {
            self.missing(mark, format!("{whose} has no {key}"));
        }
        text
    }
}
