//! What a config file means, as text.

use std::fmt::Write as _;

use config::{Config, Metric};

/// What `yaml` means, one line a thing, and only what differs from the default; or the error.
pub(crate) fn understood(yaml: &str) -> String {
    let config = match Config::read(yaml) {
        Ok(config) => config,
        Err(error) => return error.to_string(),
    };
    let default = Config::default();
    let mut out = String::new();
    let mut say = |name: &str, value: String| writeln!(out, "{name} {value}").expect("a string takes all");
    let scorers: Vec<String> =
        config.policy.scorers.iter().map(|w| format!("{}*{}", w.scorer.name(), w.weight)).collect();
    say("policy", scorers.join(" "));
    if config.policy.endpoints != 1 {
        say("endpoints", config.policy.endpoints.to_string());
    }
    if config.policy.stale_after != default.policy.stale_after {
        say("stale after", format!("{:?}", config.policy.stale_after));
    }
    for m in &config.models {
        say("model", format!("{} {:?} {} {:?} {:?}", m.name, m.aliases, m.path.display(), m.revision, m.adapters));
    }
    for required in &config.labelled {
        say("only", required.to_string());
    }
    if config.policy.saturation != default.policy.saturation {
        let s = config.policy.saturation;
        say("saturated from", format!("{} waiting, {} of the KV cache", s.waiting, s.kv_usage));
    }
    if let Some(file) = &config.discovery {
        say("discovery", format!("{} watch {}", file.path.display(), file.watch));
    }
    if config.scrape != default.scrape {
        let s = &config.scrape;
        say(
            "scrape",
            format!(
                "{:?} {:?} {:?} every {:?}/{:?} within {:?}",
                s.scheme, s.path, s.port, s.interval, s.idle_interval, s.timeout
            ),
        );
        if s.tls != default.scrape.tls {
            say("tls", format!("skip {} ca {:?} client {}", s.tls.skip_verify, s.tls.ca, s.tls.client.is_some()));
        }
    }
    if config.engines.default != default.engines.default || config.engines.label_keys != default.engines.label_keys {
        say("engines", format!("{} by {:?}", config.engines.default, config.engines.label_keys));
    }
    let metric = |m: &Option<Metric>| {
        m.as_ref()
            .map_or("-".into(), |m| m.labels.iter().fold(m.name.clone(), |text, (k, v)| format!("{text}/{k}={v}")))
    };
    for e in &config.engines.custom {
        say(
            "engine",
            [&e.waiting, &e.running, &e.kv_usage, &e.lora, &e.cache_info, &e.block_size, &e.num_blocks]
                .iter()
                .fold(e.name.clone(), |text, m| format!("{text} {}", metric(m)))
                + &format!(" {} {}", e.block_size_label, e.num_blocks_label),
        );
    }
    if config.blocks != default.blocks {
        say("blocks", format!("{} tokens, {} blocks", config.blocks.size, config.blocks.capacity));
    }
    if let Some(header) = &config.tenant_header {
        say("tenant", header.clone());
    }
    if let Some(header) = &config.tell_decision_if {
        say("tell", header.clone());
    }
    if config.load_only {
        say("load", "only".to_owned());
    }
    if let Some(holdout) = config.holdout {
        say("holdout", format!("{} {:?}", holdout.share, holdout.baseline));
    }
    if config.shadow {
        say("shadow", "true".to_owned());
    }
    if config.trust != default.trust {
        say("trust", format!("{:?}", config.trust));
    }
    if config.trust_request_chat_template {
        say("templates", "of requests".to_owned());
    }
    if config.limits != default.limits {
        say("body", format!("{} bytes", config.limits.max_body_bytes));
    }
    for warning in &config.warnings {
        say("warning", warning.to_string());
    }
    out.trim_end().to_string()
}
