//! How an engine calls its figures. Data only: which series of a metrics page hold what.

use std::sync::Arc;

use fleet::Member;

/// Which series of a page are meant: those of this name that have all these labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The metric's name, a counter's with its `_total`.
    pub name: String,
    /// Labels and the values they must have.
    pub labels: Vec<(String, String)>,
}

impl Series {
    /// All series of that name.
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), labels: Vec::new() }
    }

    fn with(name: &str, label: &str, value: &str) -> Self {
        Self { name: name.into(), labels: vec![(label.into(), value.into())] }
    }
}

/// Where an engine's figures stand on its metrics page. Where several series are named for one figure, the first that
/// is on the page counts; none named means that the engine has no such figure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// The engine, as endpoints' labels name it.
    pub name: String,
    /// Path of the metrics page, where it isn't `/metrics`.
    pub path: Option<String>,
    /// Waiting requests.
    pub waiting: Vec<Series>,
    /// Running requests.
    pub running: Vec<Series>,
    /// Share of the KV cache in use, 0..=1.
    pub kv_usage: Vec<Series>,
    /// Adapters: an info gauge whose labels `running_lora_adapters`, `waiting_lora_adapters` and `max_lora` say which,
    /// and whose value is the unix time it was set at.
    pub adapters: Vec<Series>,
    /// Shape of the cache.
    pub cache: CacheNames,
    /// Counter of prompt tokens looked up in the prefix cache.
    pub prefix_queries: Vec<Series>,
    /// Counter of prompt tokens found there.
    pub prefix_hits: Vec<Series>,
    /// Counter of prompt tokens served.
    pub prompt_tokens: Vec<Series>,
    /// Counter of requests finished.
    pub requests: Vec<Series>,
}

/// Where the shape of an engine's KV cache stands: in the labels of an info gauge, or in gauges of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheNames {
    /// The info gauge; its value is of no account.
    pub info: Vec<Series>,
    /// Its label with a block's tokens.
    pub block_size_label: String,
    /// Its label with the number of blocks, all ranks together.
    pub num_blocks_label: String,
    /// Its label with the tokens that the cache of one rank holds.
    pub capacity_label: String,
    /// Its label that says whether prefixes are reused.
    pub prefix_caching_label: String,
    /// Gauge of a block's tokens.
    pub block_size: Vec<Series>,
    /// Gauge of the number of blocks.
    pub num_blocks: Vec<Series>,
}

impl Dialect {
    /// vLLM. KV use under its name since 0.10 and the one before.
    pub fn vllm() -> Self {
        Self {
            name: "vllm".into(),
            path: None,
            waiting: vec![Series::named("vllm:num_requests_waiting")],
            running: vec![Series::named("vllm:num_requests_running")],
            kv_usage: vec![Series::named("vllm:kv_cache_usage_perc"), Series::named("vllm:gpu_cache_usage_perc")],
            adapters: vec![Series::named("vllm:lora_requests_info")],
            cache: CacheNames {
                info: vec![Series::named("vllm:cache_config_info")],
                block_size_label: "block_size".into(),
                num_blocks_label: "num_gpu_blocks".into(),
                capacity_label: "kv_cache_size_tokens".into(),
                prefix_caching_label: "enable_prefix_caching".into(),
                ..CacheNames::default()
            },
            prefix_queries: counter("vllm:prefix_cache_queries"),
            prefix_hits: counter("vllm:prefix_cache_hits"),
            prompt_tokens: counter("vllm:prompt_tokens"),
            requests: counter("vllm:request_success"),
        }
    }

    /// SGLang. The cache's shape in labels or in gauges, by version.
    pub fn sglang() -> Self {
        Self {
            name: "sglang".into(),
            waiting: vec![Series::named("sglang:num_queue_reqs")],
            running: vec![Series::named("sglang:num_running_reqs")],
            kv_usage: vec![Series::named("sglang:token_usage")],
            cache: CacheNames {
                info: vec![Series::named("sglang:cache_config_info")],
                block_size_label: "page_size".into(),
                num_blocks_label: "num_pages".into(),
                block_size: vec![Series::named("sglang:page_size")],
                num_blocks: vec![Series::named("sglang:num_pages")],
                ..CacheNames::default()
            },
            prompt_tokens: counter("sglang:prompt_tokens"),
            requests: counter("sglang:num_requests"),
            ..Self::default()
        }
    }

    /// TensorRT-LLM's own server.
    pub fn trtllm_serve() -> Self {
        Self {
            name: "trtllm-serve".into(),
            path: Some("/prometheus/metrics".into()),
            waiting: vec![Series::named("trtllm_num_requests_waiting")],
            running: vec![Series::named("trtllm_num_requests_running")],
            kv_usage: vec![Series::named("trtllm_kv_cache_utilization")],
            cache: CacheNames {
                block_size: vec![Series::named("trtllm_kv_cache_tokens_per_block")],
                num_blocks: vec![Series::named("trtllm_kv_cache_max_blocks")],
                ..CacheNames::default()
            },
            ..Self::default()
        }
    }

    /// Triton with the TensorRT-LLM backend.
    pub fn triton_tensorrt_llm() -> Self {
        let requests = |kind| vec![Series::with("nv_trt_llm_request_metrics", "request_type", kind)];
        let blocks = |kind| vec![Series::with("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", kind)];
        Self {
            name: "triton-tensorrt-llm".into(),
            waiting: requests("waiting"),
            running: requests("scheduled"),
            kv_usage: blocks("fraction"),
            cache: CacheNames { block_size: blocks("tokens_per"), num_blocks: blocks("max"), ..CacheNames::default() },
            ..Self::default()
        }
    }

    /// Triton without an LLM backend. What it has for running requests (`nv_inference_exec_count`) counts executions
    /// since its start, so running is unknown.
    pub fn triton() -> Self {
        Self {
            name: "triton".into(),
            waiting: vec![Series::named("nv_inference_pending_request_count")],
            ..Self::default()
        }
    }

    /// The built-in one of that name, or one without any figure.
    pub fn named(name: &str) -> Self {
        Self::built_in()
            .into_iter()
            .find(|dialect| dialect.name == name)
            .unwrap_or_else(|| Self { name: name.into(), ..Self::default() })
    }

    /// All that are built in.
    pub fn built_in() -> [Self; 5] {
        [Self::vllm(), Self::sglang(), Self::trtllm_serve(), Self::triton_tensorrt_llm(), Self::triton()]
    }

    /// Every series that is looked for.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Series> {
        let cache = &self.cache;
        [
            &self.waiting,
            &self.running,
            &self.kv_usage,
            &self.adapters,
            &cache.info,
            &cache.block_size,
            &cache.num_blocks,
            &self.prefix_queries,
            &self.prefix_hits,
            &self.prompt_tokens,
            &self.requests,
        ]
        .into_iter()
        .flatten()
    }
}

/// A counter's name in either form: OpenMetrics and most clients print `_total`, a few old ones don't.
fn counter(name: &str) -> Vec<Series> {
    vec![Series::named(&format!("{name}_total")), Series::named(name)]
}

/// Which endpoint speaks which dialect.
#[derive(Clone, Debug)]
pub struct Dialects {
    known: Vec<Arc<Dialect>>,
    default: Arc<Dialect>,
    label_keys: Vec<String>,
}

impl Dialects {
    /// The built-in dialects and `custom` ones, which go before a built-in of the same name; `default` for endpoints
    /// that don't say; `label_keys` the labels that say it, the first that is there counting. An unknown default is a
    /// dialect without figures.
    pub fn new(default: &str, label_keys: Vec<String>, custom: Vec<Dialect>) -> Self {
        let known: Vec<_> = custom.into_iter().chain(Dialect::built_in()).map(Arc::new).collect();
        let of = |name: &str| known.iter().find(|dialect| dialect.name == name).cloned();
        let default = of(default).unwrap_or_else(|| Arc::new(Dialect::named(default)));
        Self { known, default, label_keys }
    }

    /// The dialect of that endpoint: its label's, else the default.
    pub fn of(&self, member: &Member) -> &Arc<Dialect> {
        let label = self.label_keys.iter().find_map(|key| member.labels.get(key));
        label.and_then(|name| self.known.iter().find(|dialect| dialect.name == *name)).unwrap_or(&self.default)
    }
}

impl Default for Dialects {
    /// vLLM, unless llm-d's labels say otherwise.
    fn default() -> Self {
        let keys = ["llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type"];
        Self::new("vllm", keys.map(String::from).to_vec(), Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(dialects: &Dialects, labels: &[(&str, &str)], expected: &str) {
        let mut member = Member::new("a", ([127, 0, 0, 1], 1).into());
        member.labels = labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        assert_eq!(dialects.of(&member).name, expected, "{labels:?}");
    }

    #[test]
    fn an_endpoints_label_says_its_engine() {
        let dialects = Dialects::default();
        check(&dialects, &[], "vllm");
        check(&dialects, &[("llm-d.ai/engine-type", "sglang")], "sglang");
        check(&dialects, &[("inference.networking.k8s.io/engine-type", "triton")], "triton");
        check(&dialects, &[("llm-d.ai/engine-type", "nobody")], "vllm");
        let keys = vec!["engine".to_string()];
        let mine = Dialect { name: "mine".into(), ..Dialect::default() };
        let dialects = Dialects::new("sglang", keys, vec![mine]);
        check(&dialects, &[("llm-d.ai/engine-type", "triton")], "sglang");
        check(&dialects, &[("engine", "mine")], "mine");
    }

    #[test]
    fn a_custom_dialect_goes_before_the_built_in_of_its_name() {
        let custom = Dialect { waiting: vec![Series::named("w")], ..Dialect::vllm() };
        let dialects = Dialects::new("vllm", Vec::new(), vec![custom]);
        assert_eq!(dialects.of(&Member::new("a", ([127, 0, 0, 1], 1).into())).waiting, [Series::named("w")]);
    }
}
