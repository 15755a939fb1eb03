//! What was typed on the command line, and what it means once checked.
//!
//! In: arguments; out: [`Flags`]. Names are those of the llm-d picker where it has the thing, so that its charts'
//! arguments start this program; what is ours alone is marked so in its help. Nothing is read or opened here.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand};
use request::Engine;

/// The whole command line: flags serve, a sub-command is a tool.
#[derive(Debug, Parser)]
#[command(name = "epp", version, about = "Warmpath: an endpoint picker for LLM inference behind Envoy")]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) tool: Option<Tool>,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// Tools for a person; none of them serves.
#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    /// Read a config file and print the effective policy in words; exit 1 and say where if it can't be read.
    CheckConfig {
        /// An EndpointPickerConfig in YAML; `-` reads standard input.
        file: PathBuf,
    },
    /// Print the text, the tokens and the block hashes of the request on standard input, as JSON: what the picker makes
    /// of it. Exit 1 and say why if it can't be understood.
    Tokenize {
        #[command(flatten)]
        reading: Reading,
    },
    /// Print the text that a chat template gives for a context, and nothing else; exit 1 and name the line if it fails.
    Render {
        /// The template: a chat_template.jinja.
        #[arg(long, value_name = "FILE")]
        template: PathBuf,
        /// The context as a JSON object: messages, tools, add_generation_prompt, bos_token and what else the template
        /// reads.
        #[arg(long, value_name = "FILE")]
        context: PathBuf,
    },
    /// Say how far requests share the beginning of their prompts, where they part and why: each file against the first.
    Audit {
        #[command(flatten)]
        reading: Reading,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Bodies of requests.
        #[arg(value_name = "REQUEST.json", required = true, num_args = 2..)]
        files: Vec<PathBuf>,
    },
}

/// How a tool reads a request, and within which border it hashes its prompt.
#[derive(Clone, Debug, Args)]
pub(crate) struct Reading {
    /// Directory with the model's tokenizer.json, tokenizer_config.json and chat_template.jinja.
    #[arg(long, value_name = "DIR")]
    pub(crate) model: PathBuf,
    /// Path of the API, such as /v1/chat/completions; guessed from the body's shape if not given.
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// The model's name in the picker's config, of which the names in requests are then aliases; else the request's own.
    #[arg(long, value_name = "MODEL")]
    pub(crate) name: Option<String>,
    /// The model's revision in the picker's config.
    #[arg(long, value_name = "REVISION", default_value = "")]
    pub(crate) revision: String,
    /// The adapter that the request's name of a model means in the picker's config.
    #[arg(long, value_name = "ADAPTER", default_value = "")]
    pub(crate) adapter: String,
    /// The tenant, as the header that the operator trusts would name it.
    #[arg(long, value_name = "TENANT", default_value = "")]
    pub(crate) tenant: String,
    /// The pool's engine, as the picker's config has it in defaultEngine: vllm or sglang.
    #[arg(long, value_name = "ENGINE", default_value = "vllm", value_parser = engine)]
    pub(crate) engine: Engine,
    /// Tokens in a block of the engine's cache.
    #[arg(long, value_name = "TOKENS", default_value = "16")]
    pub(crate) block_size: NonZeroU32,
}

/// A switch that takes `--x`, `--x=true` or `--x=false`, as Go's flags do.
macro_rules! switch {
    () => {
        "true"
    };
}

/// Everything that serving takes.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// EndpointPickerConfig file (YAML). Without one: prefix 3, queue 2, KV use 2.
    #[arg(long, value_name = "FILE", conflicts_with = "config_text")]
    pub(crate) config_file: Option<PathBuf>,
    /// The config itself, as text.
    #[arg(long, value_name = "YAML")]
    pub(crate) config_text: Option<String>,
    /// The InferencePool whose pods are the endpoints.
    #[arg(long, value_name = "NAME")]
    pub(crate) pool_name: Option<String>,
    /// Namespace of the pool and its pods; default the environment's NAMESPACE, else `default`.
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) pool_namespace: Option<String>,
    /// API group of the pool.
    #[arg(long, value_name = "GROUP", default_value = "inference.networking.k8s.io")]
    pub(crate) pool_group: String,
    /// Label selector of the pods that are the endpoints, where there is no pool, as `app=vllm,tier in (a,b)`.
    #[arg(long, value_name = "SELECTOR", requires = "endpoint_target_ports")]
    pub(crate) endpoint_selector: Option<String>,
    /// Ports at which those pods serve: one to eight, with commas between them or the flag repeated.
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    pub(crate) endpoint_target_ports: Vec<u16>,
    /// Of several replicas, only the one that holds a Lease is ready; the others stand by.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = switch!())]
    pub(crate) ha_enable_leader_election: bool,
    /// Endpoints file in llm-d's file-discovery form; re-read when it changes. (Warmpath's own flag.)
    #[arg(long, value_name = "FILE")]
    pub(crate) endpoints_file: Option<PathBuf>,
    /// Where the tokenizer and chat template of a served model are: NAME=DIR, repeatable; NAME,ALIAS=DIR names
    /// aliases. (Warmpath's own flag; the config's `warmpath.models` says more.)
    #[arg(long, value_name = "NAME[,ALIAS...]=DIR")]
    pub(crate) model: Vec<String>,

    /// Address that all ports listen on; default every address, IPv6 and IPv4. (Warmpath's own flag.)
    #[arg(long, value_name = "IP")]
    pub(crate) bind_address: Option<IpAddr>,
    /// Port of the ext_proc server.
    #[arg(long, default_value_t = 9002)]
    pub(crate) grpc_port: u16,
    /// Port of the gRPC health server.
    #[arg(long, default_value_t = 9003)]
    pub(crate) grpc_health_port: u16,
    /// Port of the metrics and admin pages.
    #[arg(long, default_value_t = 9090)]
    pub(crate) metrics_port: u16,

    /// Serve ext_proc over TLS: with --cert-path's certificate, else a self-signed one.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = switch!())]
    pub(crate) secure_serving: bool,
    /// Directory with tls.crt and tls.key.
    #[arg(long, value_name = "DIR")]
    pub(crate) cert_path: Option<PathBuf>,
    /// How long streams under way are served after SIGTERM.
    #[arg(long, default_value = "30s", value_parser = config::parse_duration)]
    pub(crate) drain_timeout: Duration,

    /// A reading older than this is stale: its endpoint is used only where no fresher one is left.
    #[arg(long, value_name = "DURATION", value_parser = config::parse_duration)]
    pub(crate) metrics_staleness_threshold: Option<Duration>,
    /// How often a busy endpoint's metrics are read.
    #[arg(long, value_name = "DURATION", value_parser = config::parse_duration)]
    pub(crate) refresh_metrics_interval: Option<Duration>,
    /// Answer 400 to bodies that can't be understood instead of passing them on by load, as llm-d does.
    /// (Warmpath's own flag.)
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = switch!())]
    pub(crate) strict_requests: bool,
    /// Ignore the gateway's subset hint.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = switch!())]
    pub(crate) disable_endpoint_subset_filter: bool,
    /// Also export the deprecated inference_* names of the metrics. (Warmpath's own flag.)
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = switch!())]
    pub(crate) deprecated_metrics: bool,
    /// Largest request body in bytes; larger ones are refused with 413. (Warmpath's own flag.)
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_body_bytes: Option<usize>,
    /// The most bytes that all bodies together may take up; at the bound requests are picked for by load and their bodies
    /// pass through. Default 1 GiB, or a quarter of the memory there is if that is less. (Warmpath's own flag.)
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_body_memory: Option<usize>,
    /// How long a request waits for more of its body before it is picked for by load. (Warmpath's own flag.)
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = config::parse_duration)]
    pub(crate) body_stall: Duration,
    /// How long reading a prompt may take before its request is picked for with what is known. (Warmpath's own flag.)
    #[arg(long, default_value = "1s", value_name = "DURATION", value_parser = config::parse_duration)]
    pub(crate) decide_timeout: Duration,
    /// How long the picker may give no sign of life before it turns not serving and ends its connections; six times as
    /// long, and liveness fails too. (Warmpath's own flag.)
    #[arg(long, default_value = "5s", value_name = "DURATION", value_parser = config::parse_duration)]
    pub(crate) stuck_after: Duration,
    /// Tell the gateway every candidate's score in the metadata `x-gateway-destination-endpoint-scores`.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = switch!())]
    pub(crate) emit_endpoint_scores: bool,
    /// Heed the conformance tests' request header and answer theirs: clients choose endpoints then. (Warmpath's own flag.)
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = switch!())]
    pub(crate) conformance_test_headers: bool,
    /// Threads for parsing, rendering and tokenizing; default one a core. (Warmpath's own flag.)
    #[arg(long, value_name = "N")]
    pub(crate) cpu_threads: Option<usize>,
    /// Requests that may wait for such a thread; when as many wait, a request is picked for by load alone.
    /// (Warmpath's own flag.)
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub(crate) cpu_queue: usize,

    /// Log verbosity: 2 is the default, 4 debug, 5 trace. RUST_LOG overrides it.
    #[arg(short = 'v', long = "v", default_value_t = 2, value_name = "LEVEL")]
    pub(crate) verbosity: u8,
    /// Log form: json or console.
    #[arg(long, default_value = "json", value_name = "FORM", value_parser = ["json", "console"])]
    pub(crate) zap_encoder: String,
    /// Log each decision as one line.  (Warmpath's own flag.)
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = switch!())]
    pub(crate) log_decisions: bool,
}

impl Cli {
    /// Parses the process's arguments. Empty ones are dropped: KServe's template leaves them where a flag is off.
    pub(crate) fn from_process() -> Self {
        Self::parse_from(std::env::args_os().enumerate().filter(|(at, a)| *at == 0 || !a.is_empty()).map(|(_, a)| a))
    }
}

/// An engine whose prompts differ.
fn engine(name: &str) -> Result<Engine, String> {
    Engine::named(name).ok_or_else(|| format!("expected one of {}", Engine::ALL.map(Engine::as_str).join(", ")))
}

/// One `--model` flag: the name first, then aliases, and the directory.
pub(crate) fn model_flag(text: &str) -> Result<(Vec<String>, PathBuf), String> {
    let (names, dir) = text.split_once('=').ok_or_else(|| format!("--model {text}: expected NAME=DIR"))?;
    let names: Vec<String> = names.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect();
    if names.is_empty() || dir.is_empty() {
        return Err(format!("--model {text}: expected NAME=DIR"));
    }
    Ok((names, PathBuf::from(dir)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("epp").chain(line.split_whitespace()))
    }

    #[test]
    fn the_defaults_are_those_of_the_llm_d_picker() {
        let flags = parse("").expect("no flag is needed").flags;
        assert_eq!((flags.grpc_port, flags.grpc_health_port, flags.metrics_port), (9002, 9003, 9090));
        assert!(flags.secure_serving && flags.deprecated_metrics && !flags.strict_requests);
        assert_eq!(flags.drain_timeout, Duration::from_secs(30));
    }

    #[test]
    fn switches_are_written_as_go_writes_them() {
        assert!(!parse("--secure-serving=false").expect("off").flags.secure_serving);
        assert!(parse("--secure-serving=true").expect("on").flags.secure_serving);
        assert!(parse("--strict-requests").expect("bare").flags.strict_requests);
        assert!(parse("--strict-requests maybe").is_err(), "a switch takes no separate word");
    }

    #[test]
    fn a_model_flag_names_its_aliases() {
        let (names, dir) = model_flag("qwen3,q=/models/qwen3").expect("well formed");
        assert_eq!(names, ["qwen3", "q"]);
        assert_eq!(dir, PathBuf::from("/models/qwen3"));
        assert!(model_flag("qwen3").is_err() && model_flag("=/x").is_err());
    }

    #[test]
    fn tools_are_sub_commands_and_take_no_serving_flags() {
        assert!(matches!(parse("check-config x.yaml").expect("a tool").tool, Some(Tool::CheckConfig { .. })));
        assert!(parse("--grpc-port 1 check-config x.yaml").is_err());
    }
}
