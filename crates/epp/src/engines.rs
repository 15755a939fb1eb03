//! From the operator's words about engines to those of the crate that reads them.

use config::{Engine, Engines, Metric, Scheme, Scrape};
use engine::{CacheNames, ClientCertificate, Dialect, Dialects, Series, Target, Tls};

/// Which endpoint speaks which dialect.
pub(crate) fn dialects(engines: &Engines) -> Dialects {
    Dialects::new(&engines.default, engines.label_keys.clone(), engines.custom.iter().map(dialect).collect())
}

/// Where engines' metrics pages are.
pub(crate) fn target(scrape: &Scrape) -> Target {
    let client = scrape
        .tls
        .client
        .as_ref()
        .map(|client| ClientCertificate { certificate: client.certificate.clone(), key: client.key.clone() });
    Target {
        https: scrape.scheme == Scheme::Https,
        path: scrape.path.clone(),
        port: scrape.port,
        tls: Tls { skip_verify: scrape.tls.skip_verify, ca: scrape.tls.ca.clone(), client },
    }
}

fn dialect(engine: &Engine) -> Dialect {
    // Counters and the names of cache labels that llm-d's form has no word for are those of the built-in engine.
    let base = Dialect::built_in().into_iter().find(|d| d.name == engine.name).unwrap_or_default();
    Dialect {
        name: engine.name.clone(),
        waiting: series(engine.waiting.as_ref()),
        running: series(engine.running.as_ref()),
        kv_usage: series(engine.kv_usage.as_ref()),
        adapters: series(engine.lora.as_ref()),
        cache: CacheNames {
            info: series(engine.cache_info.as_ref()),
            block_size_label: engine.block_size_label.clone(),
            num_blocks_label: engine.num_blocks_label.clone(),
            block_size: series(engine.block_size.as_ref()),
            num_blocks: series(engine.num_blocks.as_ref()),
            ..base.cache.clone()
        },
        ..base
    }
}

fn series(metric: Option<&Metric>) -> Vec<Series> {
    metric.map(|m| Series { name: m.name.clone(), labels: m.labels.clone() }).into_iter().collect()
}
