//! The plugin types that are honoured, what each stands for here, their parameters, and what is said of the others.

use pick::Scorer;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

use crate::config::Scheme;
use crate::duration::Span;
use crate::error::unknown;
use crate::metric::Spec;
use crate::scalar;

/// A plugin type that is honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Scorer(Scorer),
    MaxScorePicker,
    SingleProfileHandler,
    MetricsDataSource,
    CoreMetricsExtractor,
    ApproxPrefixCacheProducer,
    FileDiscovery,
}

const HONOURED: [(&str, Type); 11] = [
    ("queue-scorer", Type::Scorer(Scorer::Waiting)),
    ("kv-cache-utilization-scorer", Type::Scorer(Scorer::KvUsage)),
    ("running-requests-size-scorer", Type::Scorer(Scorer::Running)),
    ("prefix-cache-scorer", Type::Scorer(Scorer::Prefix)),
    ("active-request-scorer", Type::Scorer(Scorer::InFlight)),
    ("max-score-picker", Type::MaxScorePicker),
    ("single-profile-handler", Type::SingleProfileHandler),
    ("metrics-data-source", Type::MetricsDataSource),
    ("core-metrics-extractor", Type::CoreMetricsExtractor),
    ("approx-prefix-cache-producer", Type::ApproxPrefixCacheProducer),
    ("file-discovery", Type::FileDiscovery),
];

/// llm-d's other types, by what to do instead.
const OTHERS: [(&str, &[&str]); 17] = [
    (
        "use `prefix-cache-scorer`: the prompt is tokenized here, exactly",
        &["precise-prefix-cache-scorer", "precise-prefix-cache-producer", "burst-prefix-cache-producer"],
    ),
    (
        "remove it: prompts are tokenized here, with the model's own tokenizer (`warmpath.models`)",
        &["token-producer", "tokenizer"],
    ),
    (
        "remove it: what is under way at each endpoint is always counted (`active-request-scorer` scores by it)",
        &["inflight-load-producer"],
    ),
    (
        "`active-request-scorer` and `queue-scorer` are the nearest",
        &["token-load-scorer", "load-aware-scorer", "latency-scorer", "predicted-latency-producer"],
    ),
    (
        "a scorer of type `spare` under `warmpath.scorers` is the nearest: it spreads cold prompts",
        &["no-hit-lru-scorer"],
    ),
    (
        "adapters are told apart by `warmpath.models[].adapters`, and each one's cached prefixes draw its requests",
        &["lora-affinity-scorer"],
    ),
    (
        "a session's own prefix draws its requests (`prefix-cache-scorer`)",
        &["session-affinity-scorer", "session-affinity-filter", "session-id-producer", "agent-identity"],
    ),
    ("`max-score-picker` is the nearest: equals are shuffled", &["random-picker", "weighted-random-picker"]),
    (
        "`single-profile-handler` is the nearest: there is one profile",
        &["header-profile-handler", "data-parallel-profile-handler"],
    ),
    (
        "prefill and decode apart come later",
        &[
            "disagg-profile-handler",
            "pd-profile-handler",
            "disagg-headers-handler",
            "prefill-header-handler",
            "prefix-based-pd-decider",
            "always-disagg-pd-decider",
            "always-disagg-multimodal-decider",
            "decode-filter",
            "prefill-filter",
            "encode-filter",
            "p2p-source-producer",
        ],
    ),
    (
        "filters come later",
        &[
            "label-selector-filter",
            "by-label",
            "by-label-selector",
            "prefix-cache-affinity-filter",
            "slo-headroom-tier-filter",
            "utilization-filter",
            "endpoint-attribute-filter",
            "topology-affinity-filter",
        ],
    ),
    (
        "scoring by labels and attributes comes later",
        &[
            "context-length-aware",
            "header-label-affinity-scorer",
            "endpoint-attribute-scorer",
            "topology-affinity-scorer",
            "topology-extractor",
        ],
    ),
    (
        "flow control and admission come later",
        &[
            "utilization-detector",
            "concurrency-detector",
            "latency-slo-admitter",
            "probabilistic-admitter",
            "global-strict-fairness-policy",
            "round-robin-fairness-policy",
            "program-aware-fairness",
            "fcfs-ordering-policy",
            "edf-ordering-policy",
            "slo-deadline-ordering-policy",
            "static-usage-limit-policy",
            "priority-holdback-policy",
            "soft-reflective-ceiling-policy",
            "sheddable-eviction-filter",
            "priority-then-time-eviction-order-policy",
        ],
    ),
    (
        "remove it: every API that is known is parsed without being asked",
        &[
            "openai-parser",
            "anthropic-parser",
            "vllmhttp-parser",
            "sglanghttp-parser",
            "vllmgrpc-parser",
            "vertexai-parser",
            "passthrough-parser",
        ],
    ),
    ("models are told by `warmpath.models`", &["models-data-source", "models-data-extractor"]),
    (
        "images and other media are no signal of their own",
        &["mm-embeddings-cache-scorer", "mm-embeddings-cache-producer"],
    ),
    (
        "there is nothing like it here",
        &[
            "dcgm-data-source",
            "dcgm-extractor",
            "k8s-notification-source",
            "endpoint-notification-source",
            "multicluster-queue-scorer",
            "multicluster-kv-cache-utilization-scorer",
            "multicluster-prefix-cache-scorer",
            "multicluster-session-affinity-filter",
            "multicluster-file-discovery",
            "disaggregatedset-rollout-screener",
            "request-attribute-reporter",
            "local-syncer",
        ],
    ),
];

impl Type {
    /// What files call it.
    pub(crate) fn name(self) -> &'static str {
        HONOURED.iter().find(|(_, this)| *this == self).map_or("warmpath scorer", |(name, _)| name)
    }
}

impl<'de> Deserialize<'de> for Type {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::text(deserializer, |typed| {
            if let Some((_, known)) = HONOURED.iter().find(|(name, _)| *name == typed) {
                return Ok(*known);
            }
            if let Some((instead, _)) = OTHERS.iter().find(|(_, names)| names.contains(&typed)) {
                return Err(format!("plugin type `{typed}` isn't supported: {instead}."));
            }
            Err(unknown("plugin type", typed, &HONOURED.map(|(name, _)| name)))
        })
    }
}

/// `queue-scorer`, `kv-cache-utilization-scorer`, `running-requests-size-scorer`, `single-profile-handler`: none.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParameters {}

/// `prefix-cache-scorer`. Until llm-d gave it a producer it had the producer's parameters itself.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct PrefixCacheScorer {
    /// Must name a declared producer.
    pub(crate) prefix_match_info_producer_name: Option<String>,
    /// Without effect.
    pub(crate) match_length_weight: Option<f64>,
    /// Without effect.
    pub(crate) match_length_scale_tokens: Option<u64>,
    block_size_tokens: Option<u32>,
    #[serde(rename = "lruCapacityPerServer")]
    lru_capacity_per_server: Option<u32>,
    auto_tune: Option<bool>,
    max_prefix_tokens_to_match: Option<u64>,
    max_prefix_blocks_to_match: Option<u64>,
    block_size: Option<u64>,
    /// Without effect.
    pub(crate) hash_block_size: Option<u64>,
}

impl PrefixCacheScorer {
    /// Those that belong to the producer.
    pub(crate) fn producer(&self) -> ApproxPrefixCacheProducer {
        ApproxPrefixCacheProducer {
            block_size_tokens: self.block_size_tokens,
            lru_capacity_per_server: self.lru_capacity_per_server,
            auto_tune: self.auto_tune,
            max_prefix_tokens_to_match: self.max_prefix_tokens_to_match,
            max_prefix_blocks_to_match: self.max_prefix_blocks_to_match,
            block_size: self.block_size,
        }
    }
}

/// `active-request-scorer`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ActiveRequestScorer {
    /// Without effect.
    pub(crate) idle_threshold: Option<u64>,
    /// Without effect.
    pub(crate) max_busy_score: Option<f64>,
    /// Without effect.
    pub(crate) in_flight_load_producer_name: Option<String>,
}

/// `max-score-picker`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct MaxScorePicker {
    /// How many endpoints to name, default 1.
    pub(crate) max_num_of_endpoints: Option<usize>,
}

/// `metrics-data-source`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct MetricsDataSource {
    pub(crate) scheme: Option<Scheme>,
    pub(crate) path: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) insecure_skip_verify: Option<bool>,
    pub(crate) ca_cert_path: Option<String>,
    pub(crate) client_cert_path: Option<String>,
    pub(crate) client_key_path: Option<String>,
    pub(crate) interval: Option<Span>,
}

impl<'de> Deserialize<'de> for Scheme {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::text(deserializer, |typed| match typed {
            "http" => Ok(Self::Http),
            "https" => Ok(Self::Https),
            other => Err(format!("`{other}` is neither http nor https.")),
        })
    }
}

/// `core-metrics-extractor`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct CoreMetricsExtractor {
    pub(crate) engine_label_key: Option<String>,
    pub(crate) default_engine: Option<String>,
    pub(crate) engine_configs: Option<Vec<EngineConfig>>,
}

/// One of `engineConfigs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct EngineConfig {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) queued_requests_spec: Spec,
    #[serde(default)]
    pub(crate) running_requests_spec: Spec,
    #[serde(default, rename = "kvUsageSpec")]
    pub(crate) kv_usage_spec: Spec,
    #[serde(default, rename = "loraSpec")]
    pub(crate) lora_spec: Spec,
    #[serde(default)]
    pub(crate) cache_info_spec: Spec,
    #[serde(default)]
    pub(crate) cache_block_size_label_name: String,
    #[serde(default)]
    pub(crate) cache_num_blocks_label_name: String,
    #[serde(default)]
    pub(crate) cache_block_size_spec: Spec,
    #[serde(default)]
    pub(crate) cache_num_blocks_spec: Spec,
    /// Without effect.
    #[serde(rename = "loraLoadedSpec")]
    pub(crate) lora_loaded_spec: Option<IgnoredAny>,
    /// Without effect.
    #[serde(rename = "loraGPULoadedSpec")]
    pub(crate) lora_gpu_loaded_spec: Option<IgnoredAny>,
    /// Without effect.
    #[serde(rename = "loraGPUSlotsSpec")]
    pub(crate) lora_gpu_slots_spec: Option<IgnoredAny>,
    /// Without effect.
    pub(crate) custom_metrics: Option<IgnoredAny>,
}

/// `approx-prefix-cache-producer`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ApproxPrefixCacheProducer {
    pub(crate) block_size_tokens: Option<u32>,
    #[serde(rename = "lruCapacityPerServer")]
    pub(crate) lru_capacity_per_server: Option<u32>,
    /// `false` is without effect.
    pub(crate) auto_tune: Option<bool>,
    /// Without effect.
    pub(crate) max_prefix_tokens_to_match: Option<u64>,
    /// Without effect.
    pub(crate) max_prefix_blocks_to_match: Option<u64>,
    /// Without effect.
    pub(crate) block_size: Option<u64>,
}

/// `file-discovery`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct FileDiscovery {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) watch_file: bool,
}
