//! What was typed on the command line, and what it means once checked.
//!
//! In: arguments; out: [`Flags`], and what of them does nothing here. Names are those of the llm-d picker where it has the thing,
//! so that its charts' arguments start this program; what is ours alone is marked so in its help. docs/flags.md is this file, held
//! to it by a test. Nothing is read or opened here.

mod quantity;
mod tls;
mod typed;
mod unheeded;

use std::ffi::OsString;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use request::Engine;

pub(crate) use tls::terms;

/// The whole command line: flags serve, a sub-command is a tool.
#[derive(Debug, Parser)]
#[command(name = "epp", version, about = "Warmpath: an endpoint picker for LLM inference behind Envoy")]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true, args_override_self = true)]
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
    /// Print what a running picker decides, as it does: a line for each request when it has ended.
    Decisions {
        #[command(flatten)]
        following: Following,
    },
    /// Make recorded decisions again under another policy, and say for each where it goes then, part by part, and why.
    Explain {
        /// The other policy: an EndpointPickerConfig in YAML.
        #[arg(long, value_name = "FILE")]
        config_file: PathBuf,
        /// The decision with this request id only; else all of them.
        #[arg(long, value_name = "ID")]
        request_id: Option<String>,
        /// Print JSON: an object a line.
        #[arg(long)]
        json: bool,
        /// Lines of the picker's log, or of `epp decisions --json`; what is no decision is passed over. `-` is standard input.
        #[arg(value_name = "FILE", default_value = "-")]
        decisions: PathBuf,
    },
    /// Show a running picker's endpoints and last decisions in the terminal, as its live page does.
    Top {
        #[command(flatten)]
        top: Looking,
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

/// Which picker's decisions are followed, and which of them.
#[derive(Clone, Debug, Args)]
pub(crate) struct Following {
    /// Go on until the picker ends: the one way there is, said so that it is no surprise.
    #[arg(long, required = true)]
    pub(crate) follow: bool,
    /// The picker's metrics port, as HOST:PORT, http://... or https://...
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    pub(crate) address: String,
    /// File with the token to show, where the picker asks the cluster who may see them.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificate (PEM) that has signed the picker's; https takes it.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Those for this model only, as its label in metrics is.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Those only of which this endpoint, by name or address, was chosen or is said to have served.
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) endpoint: Option<String>,
    /// Those with this request id only.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    /// Those only that had to do without something, or did not end in a complete answer of status 2xx.
    #[arg(long)]
    pub(crate) troubled: bool,
    /// Each also when it is picked, before its end.
    #[arg(long)]
    pub(crate) picks: bool,
    /// End after so many.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Print JSON: a record a line, as in the log.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which picker is shown, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct Looking {
    /// The picker's metrics port, as HOST:PORT, http://... or https://...
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    pub(crate) address: String,
    /// File with a token that the cluster knows, where the picker asks for one.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificates (PEM) of which one has signed the picker's; https takes it.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Print once and end.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON, once.
    #[arg(long)]
    pub(crate) json: bool,
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

/// The value of a switch, as Go's flags have it: `--x`, `--x=true`, `--x=false`, `--x=0` and so on.
fn switch(typed: &str) -> Result<bool, String> {
    match typed {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(format!("`{other}` is neither true nor false")),
    }
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
    /// Namespace of the pool and its pods. Default the environment's NAMESPACE, else `default`.
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) pool_namespace: Option<String>,
    /// API group of the pool.
    #[arg(long, value_name = "GROUP", default_value = "inference.networking.k8s.io")]
    pub(crate) pool_group: String,
    /// Label selector of the pods that are the endpoints, where there is no pool, as `app=vllm,tier in (a,b)`. The environment's
    /// POD_NAME gives the name that metrics call the pool by: the deployment's.
    #[arg(long, value_name = "SELECTOR", requires = "endpoint_target_ports")]
    pub(crate) endpoint_selector: Option<String>,
    /// Ports at which those pods serve: one to eight, with commas between them or the flag repeated.
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    pub(crate) endpoint_target_ports: Vec<u16>,
    /// Of several replicas, only the one that holds a Lease is ready; the others stand by.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
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
    #[arg(long, default_value_t = 9002, value_name = "PORT")]
    pub(crate) grpc_port: u16,
    /// Port of the gRPC health server.
    #[arg(long, default_value_t = 9003, value_name = "PORT")]
    pub(crate) grpc_health_port: u16,
    /// Port of the metrics and admin pages.
    #[arg(long, default_value_t = 9090, value_name = "PORT")]
    pub(crate) metrics_port: u16,
    /// Show the metrics only to whom the cluster's API server lets: TokenReview, then SubjectAccessReview (`get` of `/metrics`). Default
    /// true where endpoints come from a cluster; with endpoints from a file there is nobody to ask, and it takes `=true` and access to a
    /// cluster.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub(crate) metrics_endpoint_auth: Option<bool>,
    /// Directory with tls.crt and tls.key, by which the metrics are served with TLS; read again when it changes.
    #[arg(long, value_name = "DIR")]
    pub(crate) metrics_cert_dir: Option<PathBuf>,
    /// Certificates (PEM) of which one must have signed that of a client who wants the metrics. Takes --metrics-cert-dir.
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics_client_ca_file: Option<PathBuf>,
    /// Keep the last decisions, and show them with the endpoints at `/live` of the metrics port, to whom decisions are shown.
    /// (Warmpath's own flag.)
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub(crate) live_page: bool,

    /// Serve ext_proc over TLS: with --cert-path's certificate, else a self-signed one.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub(crate) secure_serving: bool,
    /// Directory with tls.crt and tls.key.
    #[arg(long, value_name = "DIR")]
    pub(crate) cert_path: Option<PathBuf>,
    /// Read that directory again when it changes. (llm-d's default is false, with which a certificate runs out.)
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub(crate) enable_cert_reload: bool,
    /// The oldest TLS that is spoken, as Go names it: VersionTLS12 or VersionTLS13. Older ones are taken for VersionTLS12, with a
    /// warning. Default VersionTLS12.
    #[arg(long, value_name = "VERSION")]
    pub(crate) tls_min_version: Option<String>,
    /// The cipher suites of TLS 1.2 that are spoken, as Go names them, with commas between them. Those that are too weak to be spoken
    /// are left out, with a warning. Default all that are strong.
    #[arg(long, value_name = "SUITES", value_delimiter = ',')]
    pub(crate) tls_cipher_suites: Vec<String>,
    /// The largest gRPC message that is read, as 10MiB, 25MB or 4194304. Default what the largest body takes.
    #[arg(long, value_name = "QUANTITY", value_parser = quantity::parse)]
    pub(crate) grpc_max_recv_msg_size: Option<usize>,
    /// How long streams under way are served after SIGTERM.
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = config::parse_duration)]
    pub(crate) drain_timeout: Duration,

    /// How much longer than an idle endpoint's interval ago one was last read when it isn't believed any more: it is used only where no
    /// fresher one is left. Default as the config has it, 2s.
    #[arg(long, value_name = "DURATION", value_parser = config::parse_duration)]
    pub(crate) metrics_staleness_threshold: Option<Duration>,
    /// How often a busy endpoint's metrics are read; less than 50ms is raised to it, with a warning. Default as the config has it,
    /// 200ms.
    #[arg(long, value_name = "DURATION", value_parser = config::parse_duration)]
    pub(crate) refresh_metrics_interval: Option<Duration>,
    /// How engines' metrics are read: http or https. Default as the config's `metrics-data-source` has it, http.
    #[arg(long, value_name = "SCHEME", value_parser = ["http", "https"])]
    pub(crate) model_server_metrics_scheme: Option<String>,
    /// The path of engines' metrics. Default as the config has it, else as the engine does.
    #[arg(long, value_name = "PATH")]
    pub(crate) model_server_metrics_path: Option<String>,
    /// The port of engines' metrics; 0 is the one that serves. Default as the config has it, 0.
    #[arg(long, value_name = "PORT")]
    pub(crate) model_server_metrics_port: Option<u16>,
    /// Whether any certificate of an engine will do. Default as the config has it, true.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub(crate) model_server_metrics_https_insecure_skip_verify: Option<bool>,
    /// Answer 400 to bodies that can't be understood instead of passing them on by load, as llm-d does.
    /// (Warmpath's own flag.)
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub(crate) strict_requests: bool,
    /// Ignore the gateway's subset hint.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub(crate) disable_endpoint_subset_filter: bool,
    /// Also export the deprecated inference_* names of the metrics. (Warmpath's own flag.)
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
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
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub(crate) emit_endpoint_scores: bool,
    /// Heed the conformance tests' request header and answer theirs: clients choose endpoints then. (Warmpath's own flag.)
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub(crate) conformance_test_headers: bool,
    /// Threads for parsing, rendering and tokenizing; default one a core. (Warmpath's own flag.)
    #[arg(long, value_name = "N")]
    pub(crate) cpu_threads: Option<usize>,
    /// Requests that may wait for such a thread; when as many wait, a request is picked for by load alone.
    /// (Warmpath's own flag.)
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub(crate) cpu_queue: usize,

    /// Log verbosity: up to 3 info, 4 debug, 5 trace. RUST_LOG overrides it.
    #[arg(short = 'v', long = "v", default_value_t = 2, value_name = "LEVEL", allow_negative_numbers = true)]
    pub(crate) verbosity: i32,
    /// Log form: json or console.
    #[arg(long, default_value_if("zap_devel", "true", "console"), default_value = "json", value_name = "FORM", value_parser = ["json", "console"])]
    pub(crate) zap_encoder: String,
    /// Log for a person, as --zap-encoder=console does.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub(crate) zap_devel: bool,
    /// Log level: debug, info, error or panic, or a number as --v takes it, before which it goes.
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub(crate) zap_log_level: Option<&'static str>,
    /// Export a trace of requests by OTLP over gRPC, where the environment names a collector (OTEL_EXPORTER_OTLP_ENDPOINT, or
    /// OTEL_TRACES_EXPORTER=otlp).
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub(crate) tracing: bool,
    /// Log each decision as one line. (Warmpath's own flag.)
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub(crate) log_decisions: bool,
    /// Of which share of the decisions a line is logged, 0 to 1: of those, at random, and always of those that had to do without
    /// something or did not end in a complete answer of status 2xx. (Warmpath's own flag.)
    #[arg(long, default_value_t = 1.0, value_name = "SHARE", value_parser = share)]
    pub(crate) log_decisions_share: f64,
}

impl Cli {
    /// Parses the process's arguments; gives what is to be said of those that do nothing. Where they are wrong the process ends, with a
    /// word on standard error.
    pub(crate) fn from_process() -> (Self, Vec<String>) {
        Self::from_typed(std::env::args_os().collect()).unwrap_or_else(|error| error.exit())
    }

    fn from_typed(typed: Vec<OsString>) -> Result<(Self, Vec<String>), clap::Error> {
        let mut command = unheeded::added_to(Self::command());
        let wrong = |command: &mut clap::Command, message| command.error(clap::error::ErrorKind::InvalidValue, message);
        let typed = typed::clean(&command, typed).map_err(|message| wrong(&mut command, message))?;
        let typed = command.try_get_matches_from_mut(typed)?;
        let unheeded = unheeded::warnings(&typed).map_err(|message| wrong(&mut command, message))?;
        Ok((Self::from_arg_matches(&typed)?, unheeded))
    }
}

impl Flags {
    /// The level that is logged from.
    pub(crate) fn level(&self) -> &'static str {
        self.zap_log_level.unwrap_or_else(|| verbose(self.verbosity))
    }
}

/// llm-d's verbosity: what is less than nothing is the default there, and no more than the default's here.
fn verbose(verbosity: i32) -> &'static str {
    match verbosity {
        ..=3 => "info",
        4 => "debug",
        5.. => "trace",
    }
}

/// A level as zap has it.
fn level(typed: &str) -> Result<&'static str, String> {
    match typed.to_ascii_lowercase().as_str() {
        "debug" => Ok("debug"),
        "info" => Ok("info"),
        "error" | "panic" => Ok("error"),
        number => match number.parse() {
            Ok(verbosity @ 1..) => Ok(verbose(verbosity)),
            _ => Err(format!("`{typed}` is no level: debug, info, error, panic, or a number above 0")),
        },
    }
}

/// A part of a whole.
fn share(typed: &str) -> Result<f64, String> {
    let share = typed.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{typed}` is no share: a number from 0 to 1"))
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
        said(line).map(|(cli, _)| cli)
    }

    fn said(line: &str) -> Result<(Cli, Vec<String>), clap::Error> {
        Cli::from_typed(std::iter::once("epp").chain(line.split_whitespace()).map(OsString::from).collect())
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
        let apart = parse("--secure-serving false").expect_err("it would be ignored by Go").to_string();
        assert!(apart.contains("`--secure-serving=false`"), "{apart}");
        assert!(!parse("--secure-serving=0 --v=3 --v=4").expect("the last one counts").flags.secure_serving);
    }

    #[test]
    fn what_does_nothing_here_is_said_once_and_what_is_agreed_on_is_not() {
        let check = |line: &str, expected: &[&str]| assert_eq!(said(line).expect("taken").1, expected, "{line}");
        check("", &[]);
        check("--tracing=false --tracing --enable-pprof=false --health-checking", &[]);
        check(
            "--grpc-max-send-msg-size 10MiB --zap-time-encoding=epoch",
            &[
                "--grpc-max-send-msg-size=10MiB has no effect: what is sent is bounded by what was received",
                "--zap-time-encoding=epoch has no effect: times are written by RFC 3339",
            ],
        );
        for wrong in ["--grpc-max-send-msg-size=much", "--tracing=maybe", "--refresh-prometheus-metrics-interval=5"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let refused = parse("--lora-info-metric=x").expect_err("as with llm-d").to_string();
        assert!(refused.contains("--lora-info-metric is deprecated and can't be used"), "{refused}");
    }

    #[test]
    fn logs_are_asked_for_as_zap_has_it() {
        let check = |line: &str, expected: (&str, &str)| {
            let flags = parse(line).expect(line).flags;
            assert_eq!((flags.level(), flags.zap_encoder.as_str()), expected, "{line}");
        };
        check("", ("info", "json"));
        check("-v 4", ("debug", "json"));
        check("--v=-1 --zap-devel", ("info", "console"));
        check("-v=5 --zap-log-level=error --zap-devel=true --zap-encoder=json", ("error", "json"));
        check("--zap-log-level=Debug --zap-devel=false", ("debug", "json"));
        check("--zap-log-level=5", ("trace", "json"));
        assert!(parse("--zap-log-level=loud").is_err());
    }

    /// Those of llm-d's picker (pkg/epp/server/options.go at ebab687), of the gateway-api-inference-extension's 1.5, and of its small
    /// picker.
    const LLM_D: &str = "grpc-port grpc-health-port metrics-port pool-name pool-namespace pool-group endpoint-selector \
        endpoint-target-ports disable-endpoint-subset-filter emit-endpoint-scores ha-enable-leader-election drain-timeout \
        grpc-max-recv-msg-size grpc-max-send-msg-size refresh-metrics-interval refresh-prometheus-metrics-interval \
        metrics-staleness-threshold total-queued-requests-metric total-running-requests-metric \
        kv-cache-usage-percentage-metric lora-info-metric cache-info-metric health-checking enable-pprof secure-serving cert-path \
        enable-cert-reload tls-min-version tls-cipher-suites metrics-endpoint-auth metrics-cert-dir metrics-client-ca-file \
        enable-grpc-stream-metrics tracing config-file config-text allow-experimental-plugins v zap-devel zap-encoder \
        zap-log-level zap-stacktrace-level zap-time-encoding model-server-metrics-scheme model-server-metrics-path \
        model-server-metrics-port model-server-metrics-https-insecure-skip-verify";

    /// docs/flags.md's table, as these definitions have it.
    fn table() -> String {
        let ours = "(Warmpath's own flag";
        let mut table = "| flag | default | | what |\n|---|---|---|---|\n".to_owned();
        for arg in unheeded::added_to(Cli::command()).get_arguments() {
            let Some(name) = arg.get_long().filter(|name| !["help", "version"].contains(name)) else { continue };
            let value = arg.get_value_names().filter(|_| arg.get_num_args().is_none_or(|n| n.min_values() > 0));
            let value = value.map_or(String::new(), |names| format!(" {}", names[0]));
            let default: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
            let default = default.join(" ");
            let help = arg.get_help().expect("each says what it is for").to_string();
            let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
            let known = LLM_D.split_whitespace().any(|known| known == name);
            assert_eq!(known, !help.contains(ours), "--{name}: whose flag it is");
            let part = if known { unheeded::part(name) } else { "ours" };
            let help =
                help.split_once(ours).map_or(help.as_str(), |(before, _)| before).trim_end().trim_end_matches('.');
            let help = help.strip_prefix("No effect: ").unwrap_or(help).replace('|', "\\|");
            table += &format!("| `--{name}{value}` | {default} | {part} | {help} |\n");
        }
        table
    }

    #[test]
    fn each_flag_of_llm_d_is_known_and_each_is_in_the_documentation_as_it_is_here() {
        let table = table();
        for name in LLM_D.split_whitespace() {
            let rows = table.lines().filter(|row| row.starts_with(&format!("| `--{name}")));
            assert!(rows.count() >= 1, "--{name} isn't known");
        }
        let page = include_str!("../../../docs/flags.md");
        let (_, rest) = page.split_once("<!-- flags -->\n").expect("the table's begin");
        let (written, _) = rest.split_once("<!-- end -->").expect("its end");
        assert!(written == table, "docs/flags.md should say:\n{table}");
    }

    #[test]
    fn a_model_flag_names_its_aliases() {
        let (names, dir) = model_flag("qwen3,q=/models/qwen3").expect("well formed");
        assert_eq!(names, ["qwen3", "q"]);
        assert_eq!(dir, PathBuf::from("/models/qwen3"));
        assert!(model_flag("qwen3").is_err() && model_flag("=/x").is_err());
    }

    #[test]
    fn a_share_is_a_number_from_0_to_1() {
        let share = |typed: &str| {
            parse(&format!("--log-decisions-share={typed}")).ok().map(|cli| cli.flags.log_decisions_share)
        };
        assert_eq!(["0", "0.01", "1"].map(share), [Some(0.0), Some(0.01), Some(1.0)]);
        assert_eq!(["-0.1", "1.01", "NaN", "5%"].map(share), [None; 4]);
    }

    #[test]
    fn tools_are_sub_commands_and_take_no_serving_flags() {
        assert!(matches!(parse("check-config x.yaml").expect("a tool").tool, Some(Tool::CheckConfig { .. })));
        assert!(parse("--grpc-port 1 check-config x.yaml").is_err());
    }
}
