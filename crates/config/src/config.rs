//! The checked configuration: what the rest of the program takes. Out of [`Config::read`], or [`Config::default`] where
//! no file is given.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use pick::Policy;

use crate::{Error, Labelled, Metric, check};

/// Everything that the operator can say, checked, with the defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How an endpoint is chosen: the profile's scorers and weights (default prefix 3, queue 2, KV use 2), those of
    /// `warmpath.scorers`, and `max-score-picker`'s `maxNumOfEndpoints` (default 1).
    ///
    /// Its `stale_after` is the age at which a reading is stale: `warmpath.scrape.idle_interval` and
    /// `warmpath.stale_after` together (default 5 s + 2 s), since an idle endpoint is read that seldom on purpose.
    pub policy: Policy,
    /// Served models and where their tokenizers are; empty where none is configured.
    pub models: Vec<Model>,
    /// The endpoints file, where `dataLayer.discovery` names a `file-discovery`.
    pub discovery: Option<FileDiscovery>,
    /// What an endpoint's labels must say for it to be chosen: the profile's filters. Default nothing.
    pub labelled: Vec<Labelled>,
    /// How engines are read.
    pub scrape: Scrape,
    /// Which engines there are.
    pub engines: Engines,
    /// What is taken for an engine that doesn't say.
    pub blocks: Blocks,
    /// The request header, in lower case, that says which tenant asks (`warmpath.tenant_header`). Requests of
    /// different tenants never share a prefix. Whoever fills it must be trusted. Default none.
    pub tenant_header: Option<String>,
    /// The request header, in lower case, whose bearers are told the decision in a header of the answer
    /// (`warmpath.tell_decision_if`). Whoever fills it must be trusted: the decision names endpoints and what is cached there.
    /// Default none: nobody is told.
    pub tell_decision_if: Option<String>,
    /// Whether endpoints are chosen by load alone, prompts left unread (`warmpath.load_only`, default false). The one key
    /// that takes effect while the picker runs.
    pub load_only: bool,
    /// Requests that are picked for by a baseline, to be compared with (`warmpath.holdout`). Default none.
    pub holdout: Option<Holdout>,
    /// Whether requests are decided on and not steered: the gateway sends them where it would by itself (`warmpath.shadow`,
    /// default false).
    pub shadow: bool,
    /// What a client may say of itself (`warmpath.trust`).
    pub trust: Trust,
    /// Whether a chat template that comes in a request is run, within bounds (`warmpath.trust_request_chat_template`, default
    /// false); to be set as the engines have it (vLLM's `--trust-request-chat-template`).
    pub trust_request_chat_template: bool,
    /// Bounds.
    pub limits: Limits,
    /// What was accepted but has no effect here, or was raised to a bound.
    pub warnings: Vec<Warning>,
}

impl Config {
    /// Reads and checks an `EndpointPickerConfig`, YAML or JSON.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn read(text: &str) -> Result<Self, Error> {
        check::config(text)
    }
}

impl Default for Config {
    /// What is done without a file.
    fn default() -> Self {
        let scrape = Scrape::default();
        Self {
            policy: Policy { stale_after: scrape.idle_interval + OVERDUE, ..Policy::default() },
            models: Vec::new(),
            discovery: None,
            labelled: Vec::new(),
            scrape,
            engines: Engines::default(),
            blocks: Blocks::default(),
            tenant_header: None,
            tell_decision_if: None,
            load_only: false,
            holdout: None,
            shadow: false,
            trust: Trust::default(),
            trust_request_chat_template: false,
            limits: Limits::default(),
            warnings: Vec::new(),
        }
    }
}

/// Requests that are picked for by a baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Holdout {
    /// Their share of all, 0..=1.
    pub share: f64,
    /// How they are picked for.
    pub baseline: Baseline,
}

/// What picking is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Any endpoint that may be picked.
    Random,
    /// The policy without what it knows of prompts.
    Load,
}

/// What a client may say of itself, in headers; what it may not is taken off its request. `warmpath.trust` lists all of
/// it: a list without one of these words forbids that.
///
/// By default a client may name its objective and its fairness id, as with llm-d's picker: who moves from it expects them to
/// work, and neither changes whose cache is used, nor which model. It may not name a session, which steers where requests
/// go, and no other model than the body's, by which a gateway may have checked what the client may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// `x-llm-d-inference-objective` (`objective`).
    pub objective: bool,
    /// `x-llm-d-inference-fairness-id` (`fairness_id`).
    pub fairness_id: bool,
    /// `x-session-id` (`session`).
    pub session: bool,
    /// `x-llm-d-model-name-rewrite` (`model_rewrite`).
    pub model_rewrite: bool,
}

impl Default for Trust {
    fn default() -> Self {
        Self { objective: true, fairness_id: true, session: false, model_rewrite: false }
    }
}

/// Default of `warmpath.stale_after`.
pub(crate) const OVERDUE: Duration = Duration::from_secs(2);

/// One entry of `warmpath.models`: a served model and the files that its tokens come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// What requests call it in `model`.
    pub name: String,
    /// Other names of the same model. Default none.
    pub aliases: Vec<String>,
    /// The directory that holds `tokenizer.json`, `tokenizer_config.json` and perhaps `chat_template.jinja`.
    pub path: PathBuf,
    /// Separates the caches of two revisions under one name. Default empty.
    pub revision: String,
    /// Names, as requests say them in `model`, of adapters (LoRA) on this model: its tokenizer, a cache of their own.
    /// Default none.
    pub adapters: Vec<String>,
}

/// Parameters of `file-discovery`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiscovery {
    /// The endpoints file; see [`crate::endpoints`].
    pub path: PathBuf,
    /// Whether to reload it when it changes (`watchFile`, default false).
    pub watch: bool,
}

/// How engines' metrics are read: `metrics-data-source` and `warmpath.scrape`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrape {
    /// `http` (the default) or `https`.
    pub scheme: Scheme,
    /// The path of the metrics page. Default: as the engine has it, `/metrics` for most.
    pub path: Option<String>,
    /// The port, where it isn't the one that serves requests.
    pub port: Option<u16>,
    /// From the start of one reading to the next of an endpoint that has requests of ours, or had some lately.
    /// Default 200 ms, at least 50 ms. `warmpath.scrape.interval` goes before `metrics-data-source`'s `interval`.
    pub interval: Duration,
    /// The same while nothing is asked of the whole fleet. Default 5 s, at least `interval`.
    pub idle_interval: Duration,
    /// How long a reading may take, connecting included, before it counts as failed. Default 1 s.
    pub timeout: Duration,
    /// TLS, where the scheme is `https`.
    pub tls: Tls,
}

impl Default for Scrape {
    fn default() -> Self {
        Self {
            scheme: Scheme::Http,
            path: None,
            port: None,
            interval: Duration::from_millis(200),
            idle_interval: Duration::from_secs(5),
            timeout: Duration::from_secs(1),
            tls: Tls { skip_verify: true, ca: None, client: None },
        }
    }
}

/// The scheme of the metrics page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

/// TLS towards engines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Whether any certificate will do (`insecureSkipVerify`, default true, as engines' own certificates are seldom
    /// signed by anyone).
    pub skip_verify: bool,
    /// File of the certificates (PEM) that sign the engines' (`caCertPath`). Default: the system's.
    pub ca: Option<PathBuf>,
    /// What we show an engine that asks who we are. Default nothing.
    pub client: Option<ClientCertificate>,
}

/// Files of a client's certificate, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The chain (`clientCertPath`).
    pub certificate: PathBuf,
    /// Its key (`clientKeyPath`).
    pub key: PathBuf,
}

/// Which engines serve, and how theirs differ from the built-in ones: `core-metrics-extractor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engines {
    /// The engine of endpoints that don't say (`defaultEngine`, default `vllm`).
    pub default: String,
    /// Labels of an endpoint that name its engine, the first that is there counting (`engineLabelKey`, default
    /// `llm-d.ai/engine-type`, then `inference.networking.k8s.io/engine-type`).
    pub label_keys: Vec<String>,
    /// Engines described in the file; one named as a built-in replaces what it says of it.
    pub custom: Vec<Engine>,
}

impl Engines {
    /// The built-in engines.
    pub const BUILT_IN: [&'static str; 5] = ["vllm", "sglang", "trtllm-serve", "triton-tensorrt-llm", "triton"];
}

impl Default for Engines {
    fn default() -> Self {
        Self {
            default: "vllm".into(),
            label_keys: vec!["llm-d.ai/engine-type".into(), "inference.networking.k8s.io/engine-type".into()],
            custom: Vec::new(),
        }
    }
}

/// One of `engineConfigs`: where an engine's figures stand on its metrics page. `None` where it has no such figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// What labels and `defaultEngine` call it.
    pub name: String,
    /// Waiting requests (`queuedRequestsSpec`).
    pub waiting: Option<Metric>,
    /// Running requests (`runningRequestsSpec`).
    pub running: Option<Metric>,
    /// Share of the KV cache in use, 0..=1 (`kvUsageSpec`).
    pub kv_usage: Option<Metric>,
    /// Adapters, in labels (`loraSpec`).
    pub lora: Option<Metric>,
    /// Shape of the cache, in labels (`cacheInfoSpec`).
    pub cache_info: Option<Metric>,
    /// The label of `cache_info` with a block's tokens (`cacheBlockSizeLabelName`, default `block_size`).
    pub block_size_label: String,
    /// The label of `cache_info` with the number of blocks (`cacheNumBlocksLabelName`, default `num_gpu_blocks`).
    pub num_blocks_label: String,
    /// A block's tokens as a metric of its own (`cacheBlockSizeSpec`).
    pub block_size: Option<Metric>,
    /// The number of blocks as a metric of its own (`cacheNumBlocksSpec`).
    pub num_blocks: Option<Metric>,
}

/// What is taken for engines that don't say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Tokens in a block (`warmpath.block_size_tokens`, else `approx-prefix-cache-producer`'s `blockSizeTokens`;
    /// default 16, at most 65536).
    pub size: NonZeroU32,
    /// Blocks in an engine's cache (`warmpath.default_capacity_blocks`, else `lruCapacityPerServer`; default 31250).
    pub capacity: NonZeroU32,
}

impl Default for Blocks {
    fn default() -> Self {
        let of = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        Self { size: of(16), capacity: of(31_250) }
    }
}

/// Bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest request body that is read, in bytes (`warmpath.max_body_bytes`, default 64 MiB, at least 1).
    pub max_body_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_body_bytes: 64 << 20 }
    }
}

/// Something in the file that is good to know but no error. Prints as `line 7: plugins[1].parameters: ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Its line, from 1; `None` where it isn't known.
    pub line: Option<usize>,
    /// The key it is about, as `plugins[1].parameters.autoTune`.
    pub path: String,
    /// What there is to know.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}
