//! The parameters of the plugin types that are accepted.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

use crate::config::Scheme;
use crate::duration::Span;
use crate::metric::Spec;
use crate::scalar;

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

/// `precise-prefix-cache-producer`, and `precise-prefix-cache-scorer`, which is the scorer and its producer in one.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct PrecisePrefixCache {
    pub(crate) token_processor_config: Option<TokenProcessor>,
    #[allow(dead_code, reason = "what the type's own warning is about")]
    kv_events_config: Option<IgnoredAny>,
    #[allow(dead_code, reason = "the same")]
    indexer_config: Option<IgnoredAny>,
    #[allow(dead_code, reason = "the same: picks are always learned at once")]
    speculative_indexing: Option<IgnoredAny>,
    #[serde(rename = "speculativeTTL")]
    #[allow(dead_code, reason = "the same")]
    speculative_ttl: Option<IgnoredAny>,
}

/// `tokenProcessorConfig`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct TokenProcessor {
    #[serde(alias = "blockSize")]
    pub(crate) block_size_tokens: Option<u32>,
    /// Without effect: our hashes are nobody else's.
    #[allow(dead_code, reason = "hashes are our own")]
    hash_seed: Option<IgnoredAny>,
}

/// `no-hit-lru-scorer`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct NoHitLru {
    #[allow(dead_code, reason = "what the type's own warning is about")]
    lru_size: Option<u64>,
    /// Must name a declared producer.
    pub(crate) prefix_match_info_producer_name: Option<String>,
}

/// `utilization-detector`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct UtilizationDetector {
    pub(crate) queue_depth_threshold: Option<u64>,
    pub(crate) kv_cache_util_threshold: Option<f64>,
    /// Without effect.
    pub(crate) metrics_staleness_threshold: Option<Span>,
    /// Without effect.
    pub(crate) headroom: Option<f64>,
}

/// `label-selector-filter`: a label selector of Kubernetes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct LabelSelector {
    pub(crate) match_labels: BTreeMap<String, String>,
    pub(crate) match_expressions: Vec<Expression>,
}

/// One of `matchExpressions`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expression {
    pub(crate) key: String,
    pub(crate) operator: Operator,
    #[serde(default)]
    pub(crate) values: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(crate) enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// `by-label`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct LabelFilter {
    pub(crate) label: String,
    pub(crate) valid_values: Vec<String>,
    pub(crate) allows_no_label: bool,
}

/// `file-discovery`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct FileDiscovery {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) watch_file: bool,
}
