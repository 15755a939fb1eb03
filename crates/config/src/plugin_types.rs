//! llm-d's plugin types: which are honoured, which need not be, and what is said of the others.
//!
//! One table is the source of what is accepted, of what is said, and of the one in docs/configuration.md.

use pick::Scorer;
use serde::Deserialize;
use serde::de::Deserializer;

use crate::error::unknown;
use crate::scalar;

/// A plugin type of llm-d, and what becomes of it here.
#[derive(Debug, PartialEq, Eq)]
pub struct PluginType {
    /// What files call it.
    pub name: &'static str,
    /// How far its job is done.
    pub done: Done,
    /// What is done; or, where it isn't, the nearest to it and why.
    pub what: &'static str,
    pub(crate) job: Option<Job>,
}

/// How far a type's job is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// As llm-d does it.
    Exact,
    /// Nearly so: a warning says the difference.
    Near,
    /// It is done without being asked, so that naming it changes nothing.
    Anyway,
    /// It isn't: a file that names it is refused.
    Not,
}

impl Done {
    /// As the documentation has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Near => "near",
            Self::Anyway => "anyway",
            Self::Not => "refused",
        }
    }
}

/// What a type that is accepted stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    Scorer(Scorer),
    PreciseScorer,
    NoHitLru,
    Adapters,
    MaxScorePicker,
    SingleProfileHandler,
    RoleFilter,
    LabelSelectorFilter,
    LabelFilter,
    UtilizationDetector,
    MetricsDataSource,
    CoreMetricsExtractor,
    ApproxProducer,
    PreciseProducer,
    FileDiscovery,
    Parser,
    Passthrough,
    NotificationSource,
    /// Its parameters don't matter either.
    Anyway,
}

impl Job {
    /// What it scores by.
    pub(crate) fn scorer(self) -> Option<Scorer> {
        match self {
            Self::Scorer(scorer) => Some(scorer),
            Self::PreciseScorer => Some(Scorer::Prefix),
            Self::NoHitLru => Some(Scorer::Spare),
            _ => None,
        }
    }

    pub(crate) fn is_filter(self) -> bool {
        matches!(self, Self::RoleFilter | Self::LabelSelectorFilter | Self::LabelFilter)
    }

    pub(crate) fn is_picker(self) -> bool {
        self == Self::MaxScorePicker
    }

    pub(crate) fn is_parser(self) -> bool {
        matches!(self, Self::Parser | Self::Passthrough)
    }

    /// Whether a second one can have a meaning.
    pub(crate) fn may_repeat(self) -> bool {
        !matches!(
            self,
            Self::SingleProfileHandler
                | Self::MetricsDataSource
                | Self::CoreMetricsExtractor
                | Self::ApproxProducer
                | Self::PreciseProducer
                | Self::FileDiscovery
        )
    }
}

const fn exact(name: &'static str, job: Job, what: &'static str) -> PluginType {
    PluginType { name, done: Done::Exact, what, job: Some(job) }
}

const fn near(name: &'static str, job: Job, what: &'static str) -> PluginType {
    PluginType { name, done: Done::Near, what, job: Some(job) }
}

const fn anyway(name: &'static str, job: Job, what: &'static str) -> PluginType {
    PluginType { name, done: Done::Anyway, what, job: Some(job) }
}

const fn not(name: &'static str, what: &'static str) -> PluginType {
    PluginType { name, done: Done::Not, what, job: None }
}

const KV_EVENTS: &str = "what an engine holds is known from the picks and answers of this picker, block by block in the engine's \
                         own size; KV events aren't read";
const TOKENIZED: &str = "prompts are tokenized here, with the model's own files (`warmpath.models`; without them they are \
                         estimated)";
const PARSED: &str = "every API that is known is parsed without being asked";
const OTHER_API: &str = "requests to its API pass, and are picked for by load; the other APIs are parsed all the same";
const DISAGGREGATION: &str = "prefill/decode disaggregation isn't done yet; `decode-filter` with `single-profile-handler`, for pods \
                              that do both, is the nearest";
const FLOW_CONTROL: &str = "flow control isn't done: requests are never queued; `utilization-detector` is the nearest: while every \
                            endpoint is saturated, objectives of negative priority are answered with 429";
const LABELS: &str = "`label-selector-filter` is the nearest: it is a filter, not a score";
const MANY_CLUSTERS: &str = "a picker knows the endpoints of one pool";
const LATENCY: &str = "latency isn't predicted; `active-request-scorer` and `queue-scorer` are the nearest";
const SESSIONS: &str =
    "sessions aren't pinned; `prefix-cache-scorer` is the nearest: a session's own prefix draws its requests";

/// All of them, in the order of the documentation.
pub static PLUGIN_TYPES: &[PluginType] = &[
    exact(
        "prefix-cache-scorer",
        Job::Scorer(Scorer::Prefix),
        "`prefix`: the share of the prompt's blocks that an endpoint holds",
    ),
    exact(
        "queue-scorer",
        Job::Scorer(Scorer::Waiting),
        "`waiting`, our own dispatches since the last reading included",
    ),
    exact("kv-cache-utilization-scorer", Job::Scorer(Scorer::KvUsage), "`kv_usage`"),
    exact("running-requests-size-scorer", Job::Scorer(Scorer::Running), "`running`"),
    exact(
        "active-request-scorer",
        Job::Scorer(Scorer::InFlight),
        "`in_flight`: the fewest requests under way score 1, the most 0",
    ),
    exact("max-score-picker", Job::MaxScorePicker, "the best endpoints, equals in random order"),
    exact("single-profile-handler", Job::SingleProfileHandler, "there is one profile"),
    exact(
        "decode-filter",
        Job::RoleFilter,
        "endpoints whose label `llm-d.ai/role` says that they don't decode are left out",
    ),
    exact("label-selector-filter", Job::LabelSelectorFilter, "endpoints that it doesn't select are left out"),
    exact("by-label-selector", Job::LabelSelectorFilter, "the old name of `label-selector-filter`"),
    exact("by-label", Job::LabelFilter, "endpoints whose label has none of the values are left out"),
    exact("metrics-data-source", Job::MetricsDataSource, "how engines' metrics are read"),
    exact(
        "core-metrics-extractor",
        Job::CoreMetricsExtractor,
        "which engines there are, and what their metrics are called",
    ),
    exact(
        "approx-prefix-cache-producer",
        Job::ApproxProducer,
        "which blocks an endpoint holds, of whole prompts and in real tokens",
    ),
    exact("file-discovery", Job::FileDiscovery, "endpoints from a file"),
    near(
        "utilization-detector",
        Job::UtilizationDetector,
        "when an endpoint is saturated; objectives of negative priority are answered with 429 while every endpoint is, and not \
         from the mean of all on, and one whose metrics are too old doesn't count as saturated",
    ),
    near(
        "no-hit-lru-scorer",
        Job::NoHitLru,
        "`spare`: prompts that nobody holds go where their new blocks displace least",
    ),
    near(
        "lora-affinity-scorer",
        Job::Adapters,
        "an adapter's requests go where its own prefixes are (`prefix`), and so where it is loaded; a prompt that nobody holds goes \
         by the other scores",
    ),
    near("precise-prefix-cache-producer", Job::PreciseProducer, KV_EVENTS),
    near("precise-prefix-cache-scorer", Job::PreciseScorer, KV_EVENTS),
    near("vllmhttp-parser", Job::Parser, OTHER_API),
    near("sglanghttp-parser", Job::Parser, OTHER_API),
    anyway("token-producer", Job::Anyway, TOKENIZED),
    anyway("tokenizer", Job::Anyway, TOKENIZED),
    anyway("inflight-load-producer", Job::Anyway, "what is under way at each endpoint is always counted"),
    anyway("endpoint-notification-source", Job::NotificationSource, "endpoints that come and go are always heeded"),
    anyway("openai-parser", Job::Parser, PARSED),
    anyway("anthropic-parser", Job::Parser, PARSED),
    anyway(
        "passthrough-parser",
        Job::Passthrough,
        "where it is the only parser, prompts are left unread: `warmpath.load_only`",
    ),
    not(
        "load-aware-scorer",
        "`queue-scorer` is the nearest: it scores queues by the shortest and the longest, not by a threshold",
    ),
    not("token-load-scorer", "`active-request-scorer` is the nearest: it counts requests, not tokens"),
    not("latency-scorer", LATENCY),
    not("predicted-latency-producer", LATENCY),
    not("latency-slo-admitter", LATENCY),
    not("slo-headroom-tier-filter", LATENCY),
    not("prefix-cache-affinity-filter", "`prefix-cache-scorer` is the nearest: it is a score, not a filter"),
    not(
        "burst-prefix-cache-producer",
        "requests are never held; `approx-prefix-cache-producer` is the nearest: a prompt is learned \
                                        at its pick, so that those which follow find it",
    ),
    not("session-affinity-scorer", SESSIONS),
    not("session-affinity-filter", SESSIONS),
    not("session-id-producer", SESSIONS),
    not("agent-identity", SESSIONS),
    not("random-picker", "`max-score-picker` is the nearest: equals are in random order"),
    not("weighted-random-picker", "`max-score-picker` is the nearest: equals are in random order"),
    not("header-profile-handler", "`single-profile-handler` is the nearest: there is one profile"),
    not(
        "data-parallel-profile-handler",
        "each port of a pool (`targetPorts`) is an endpoint of its own; `single-profile-handler` is the \
                                          nearest",
    ),
    not("disagg-profile-handler", DISAGGREGATION),
    not("pd-profile-handler", DISAGGREGATION),
    not("disagg-headers-handler", DISAGGREGATION),
    not("prefill-header-handler", DISAGGREGATION),
    not("prefix-based-pd-decider", DISAGGREGATION),
    not("always-disagg-pd-decider", DISAGGREGATION),
    not("always-disagg-multimodal-decider", DISAGGREGATION),
    not("prefill-filter", DISAGGREGATION),
    not("encode-filter", DISAGGREGATION),
    not("p2p-source-producer", DISAGGREGATION),
    not(
        "utilization-filter",
        "`queue-scorer` and `kv-cache-utilization-scorer` are the nearest: they are scores, not filters",
    ),
    not(
        "endpoint-attribute-filter",
        "`label-selector-filter` is the nearest: an endpoint's attributes are its labels and its load",
    ),
    not("topology-affinity-filter", "`label-selector-filter` is the nearest: one topology is as good as another here"),
    not("context-length-aware", LABELS),
    not("header-label-affinity-scorer", LABELS),
    not("endpoint-attribute-scorer", LABELS),
    not("topology-affinity-scorer", LABELS),
    not("topology-extractor", LABELS),
    not(
        "concurrency-detector",
        "`utilization-detector` is the nearest: saturation is by queue and KV use, not by requests under way",
    ),
    not("probabilistic-admitter", FLOW_CONTROL),
    not("global-strict-fairness-policy", FLOW_CONTROL),
    not("round-robin-fairness-policy", FLOW_CONTROL),
    not("program-aware-fairness", FLOW_CONTROL),
    not("fcfs-ordering-policy", FLOW_CONTROL),
    not("edf-ordering-policy", FLOW_CONTROL),
    not("slo-deadline-ordering-policy", FLOW_CONTROL),
    not("static-usage-limit-policy", FLOW_CONTROL),
    not("priority-holdback-policy", FLOW_CONTROL),
    not("soft-reflective-ceiling-policy", FLOW_CONTROL),
    not("sheddable-eviction-filter", FLOW_CONTROL),
    not("priority-then-time-eviction-order-policy", FLOW_CONTROL),
    not("vllmgrpc-parser", "vLLM's gRPC API isn't read: serve the engine's HTTP API"),
    not("vertexai-parser", "Vertex AI's gRPC API isn't read: serve the engine's HTTP API"),
    not("models-data-source", "models are told by `warmpath.models`"),
    not("models-data-extractor", "models are told by `warmpath.models`"),
    not("mm-embeddings-cache-scorer", "images part prompts where they stand; `prefix-cache-scorer` is the nearest"),
    not("mm-embeddings-cache-producer", "images part prompts where they stand; `prefix-cache-scorer` is the nearest"),
    not("header-based-testing-filter", "start with `--conformance-test-headers` instead"),
    not("destination-endpoint-served-verifier", "start with `--conformance-test-headers` instead"),
    not("model-server-protocol-metrics", "it is called `core-metrics-extractor` now"),
    not("dcgm-data-source", "GPUs aren't asked; `metrics-data-source` is the nearest: engines are"),
    not("dcgm-extractor", "GPUs aren't asked; `core-metrics-extractor` is the nearest: engines are"),
    not(
        "k8s-notification-source",
        "nothing here takes its notices: the pool's own objects are watched without being asked",
    ),
    not("disaggregatedset-rollout-screener", DISAGGREGATION),
    not("disaggregatedset-rollout-pod-extractor", DISAGGREGATION),
    not(
        "request-attribute-reporter",
        "no attributes of requests are reported to the gateway; usage is in the metrics and the log",
    ),
    not("multicluster-queue-scorer", MANY_CLUSTERS),
    not("multicluster-kv-cache-utilization-scorer", MANY_CLUSTERS),
    not("multicluster-prefix-cache-scorer", MANY_CLUSTERS),
    not("multicluster-session-affinity-filter", MANY_CLUSTERS),
    not("multicluster-file-discovery", MANY_CLUSTERS),
    not("multicluster-approx-prefix-cache-producer", MANY_CLUSTERS),
    not("multicluster-metrics-data-source", MANY_CLUSTERS),
    not("multicluster-metrics-extractor", MANY_CLUSTERS),
    not("local-syncer", "pickers don't know each other"),
];

/// A type that is accepted, as a file names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type {
    pub(crate) known: &'static PluginType,
    pub(crate) job: Job,
}

impl<'de> Deserialize<'de> for Type {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::text(deserializer, |typed| match PLUGIN_TYPES.iter().find(|known| known.name == typed) {
            Some(known) => match known.job {
                Some(job) => Ok(Self { known, job }),
                None => Err(format!("plugin type `{typed}` isn't supported: {}.", known.what)),
            },
            None => {
                let accepted = PLUGIN_TYPES.iter().filter(|known| known.job.is_some());
                Err(unknown("plugin type", typed, &accepted.map(|known| known.name).collect::<Vec<_>>()))
            }
        })
    }
}
