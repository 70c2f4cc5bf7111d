//! Figures of tokens and money, and of how well the cache serves.

use std::sync::atomic::AtomicU64;

use duduclaw_actors::efficiency::Share;
use duduclaw_actors::money::Micros;
use duduclaw_actors::outcome::Usage;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The figures.
#[derive(Default)]
pub(super) struct UsageFigures {
    tokens: Family<TokenLabels, Counter>,
    cost: Family<CostLabels, Counter<f64, AtomicU64>>,
    caches: Family<CacheLabels, Gauge<f64, AtomicU64>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TokenLabels {
    provider: String,
    bucket: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CostLabels {
    provider: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CacheLabels {
    scope: &'static str,
    name: String,
}

impl UsageFigures {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("tokens", "Tokens of attempts, by provider and bucket", self.tokens.clone());
        registry.register("cost_dollars", "What attempts cost, in US dollars", self.cost.clone());
        registry.register(
            "cache_efficiency",
            "Share of the prompts of the last hour that the cache served, over 20 requests or more",
            self.caches.clone(),
        );
    }

    pub(super) fn settled(&self, provider: &str, usage: &Usage, cost: Micros) {
        let buckets = [
            ("input", usage.input),
            ("output", usage.output),
            ("cache_read", usage.cache_read),
            ("cache_write_5m", usage.cache_write_5m),
            ("cache_write_1h", usage.cache_write_1h),
        ];
        for (bucket, tokens) in buckets.into_iter().filter(|(_, tokens)| *tokens > 0) {
            self.tokens.get_or_create(&TokenLabels { provider: provider.to_owned(), bucket }).inc_by(tokens);
        }
        self.cost.get_or_create(&CostLabels { provider: provider.to_owned() }).inc_by(cost.dollars());
    }

    /// The shares as they are now; those of scopes that are quiet are shown no more.
    pub(super) fn show_caches(&self, shares: &[Share]) {
        self.caches.clear();
        for Share { scope, efficiency } in shares {
            let labels = CacheLabels { scope: scope.kind(), name: scope.name() };
            self.caches.get_or_create(&labels).set(*efficiency);
        }
    }
}
