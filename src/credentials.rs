//! Secrets: where they come from, how they are renewed, and the only place that holds them.
