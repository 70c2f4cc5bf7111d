//! The way to a provider: the HTTP client and the reading of event streams.
