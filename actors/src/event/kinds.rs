//! The names of all kinds of events, for whoever asks for one by its name.

/// Every kind of event by its name, in the order in which they are declared.
pub const KINDS: [&str; 43] = [
    "state_changed",
    "hold_began",
    "hold_ended",
    "breather_taken",
    "trial_began",
    "credential_broke",
    "credential_renewed",
    "login_needed",
    "credential_expiring",
    "credential_proved",
    "token_refreshed",
    "token_adopted",
    "refresh_failed",
    "paused",
    "resumed",
    "cleared",
    "conversation_moved",
    "detoured",
    "returned",
    "failed_over",
    "model_substituted",
    "attempt_answered",
    "request_ended",
    "attempt_settled",
    "cache_efficiency_low",
    "request_held",
    "request_released",
    "pool_exhausted",
    "budget_refused",
    "clock_stepped",
    "config_reloaded",
    "config_refused",
    "actor_restarted",
    "store_set_aside",
    "store_failing",
    "store_healed",
    "started",
    "draining",
    "outage_began",
    "outage_ended",
    "message_delayed",
    "message_arrived",
    "message_lost",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// What serde calls a variant.
    fn name(variant: &str) -> String {
        let mut name = String::new();
        for (at, letter) in variant.char_indices() {
            if letter.is_uppercase() && at > 0 {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    #[test]
    fn the_list_of_kinds_is_that_of_the_events() {
        let source = include_str!("../event.rs");
        let (_, kinds) = source.split_once("pub enum EventKind {\n").expect("it is declared there");
        let (kinds, _) = kinds.split_once("\n}\n").expect("it ends");
        let variants = kinds
            .lines()
            .filter_map(|line| line.strip_prefix("    "))
            .filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
        let names: Vec<_> = variants.map(|line| name(line.trim_end_matches([' ', '{', ',']))).collect();
        assert_eq!(names, KINDS);
    }
}
