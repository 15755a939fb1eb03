//! What can be typed. In: the command line; out: [`Command`] with the flags of one sub-command. Flags are named as
//! vLLM's where vLLM has the thing. Nothing is checked here beyond what one flag alone can say.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::compare::Preset;
use crate::model::Profile;
use crate::policy::Policy;

/// The laboratory: a stand-in for model servers, and a client that loads them.
#[derive(Debug, Parser)]
#[command(name = "lab", version, about)]
pub struct Flags {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The sub-commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Stand in for one or more vLLM servers over HTTP; no GPU, the time of a step is modelled.
    Engine(Box<EngineFlags>),
    /// Send a workload to a base URL and print what was measured as JSON.
    Load(Box<LoadFlags>),
    /// Play a traffic in virtual time under every policy and say which serves it best.
    Compare(Box<CompareFlags>),
}

/// Flags of `lab engine`.
#[derive(Clone, Debug, Args)]
pub struct EngineFlags {
    /// Directory with tokenizer.json, tokenizer_config.json and, if the model has one, chat_template.jinja.
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Names that the model answers to; the first is the one in answers and metrics. Default: the directory as given.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub served_model_name: Vec<String>,
    /// Adapters served beside the model, as NAME or NAME=PATH (the path is not read).
    #[arg(long, value_name = "NAME[=PATH]", num_args = 1..)]
    pub lora_modules: Vec<String>,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub host: IpAddr,
    /// Port to listen on; 0 takes a free one. The ports in use are printed on standard output, one a line.
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// Several engines in this one process, sharing one tokenizer: their ports.
    #[arg(long, value_name = "PORT,PORT,...", value_delimiter = ',', conflicts_with_all = ["port", "count"])]
    pub ports: Vec<u16>,
    /// Several engines in this one process on ports from `--port` upwards.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub count: u16,
    /// Tokens in a block of the KV cache.
    #[arg(long, value_name = "TOKENS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub block_size: u32,
    /// Blocks in the KV cache, the null block among them.
    #[arg(long, value_name = "BLOCKS", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(2..=16_777_216))]
    pub num_gpu_blocks_override: u32,
    /// Most sequences in one step.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_num_seqs: u32,
    /// Most tokens computed in one step; longer prefills are cut into chunks.
    #[arg(long, value_name = "TOKENS", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_num_batched_tokens: u32,
    /// Longest prompt and answer together. Default: 40960, or what the KV cache holds if that is less.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(2..))]
    pub max_model_len: Option<u32>,
    /// Say in `usage` how many prompt tokens came from the cache.
    #[arg(long)]
    pub enable_prompt_tokens_details: bool,
    /// Never reuse a block.
    #[arg(long)]
    pub no_enable_prefix_caching: bool,
    /// Name this engine in an `x-engine-id` header on every answer; with several engines, their port is appended
    /// (`NAME-18101`). vLLM has no such header, so there is none by default.
    #[arg(long, value_name = "NAME")]
    pub engine_name: Option<String>,
    /// Say in each answer what arrived and what leaves: `x-request-checksum`, `x-answer-checksum` and, at the end of a
    /// stream, a comment `: checksum HEX`, each the xxh3 (64 bits) of a body. vLLM has none of it.
    #[arg(long)]
    pub checksums: bool,
    /// Seed of the generated text.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Where the times of a step come from; the figures stand in the documentation of `lab::model::cost`.
    #[arg(long, value_enum, default_value_t = StepProfile::Qwen3_1_7bSixthH100)]
    pub step_profile: StepProfile,
    /// Microseconds that any step takes; replaces the profile's.
    #[arg(long, value_name = "US", value_parser = duration_figure)]
    pub step_base_us: Option<f64>,
    /// Microseconds for each prefill token in a step; replaces the profile's.
    #[arg(long, value_name = "US", value_parser = duration_figure)]
    pub step_prefill_token_us: Option<f64>,
    /// Microseconds for each sequence in a step; replaces the profile's.
    #[arg(long, value_name = "US", value_parser = duration_figure)]
    pub step_sequence_us: Option<f64>,
    /// Microseconds for each token of context that a step reads; replaces the profile's.
    #[arg(long, value_name = "US", value_parser = duration_figure)]
    pub step_context_token_us: Option<f64>,
}

/// Named step times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StepProfile {
    /// Qwen3-1.7B in bfloat16 on a sixth of an H100.
    #[value(name = "qwen3-1.7b-sixth-h100")]
    Qwen3_1_7bSixthH100,
    /// Qwen3-8B in bfloat16 on an H100.
    #[value(name = "qwen3-8b-h100")]
    Qwen3_8bH100,
}

impl StepProfile {
    /// Its figures.
    pub fn profile(self) -> Profile {
        match self {
            StepProfile::Qwen3_1_7bSixthH100 => Profile::QWEN3_1_7B_SIXTH_H100,
            StepProfile::Qwen3_8bH100 => Profile::QWEN3_8B_H100,
        }
    }
}

/// Flags of `lab load`.
#[derive(Clone, Debug, Args)]
pub struct LoadFlags {
    /// Base URL, without a path: `http://127.0.0.1:8080`.
    #[arg(long)]
    pub url: String,
    /// Allow a host that is not this machine.
    #[arg(long)]
    pub allow_remote: bool,
    /// Which workload.
    #[arg(long, value_enum)]
    pub workload: WorkloadKind,
    /// Model named in the requests.
    #[arg(long, value_name = "NAME")]
    pub model: String,
    /// Directory with the model's tokenizer files; texts are cut to size with it.
    #[arg(long, value_name = "DIR")]
    pub tokenizer: PathBuf,
    /// Seed of texts, arrivals, users, and turn counts.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Seed of the session keys; default: `--seed`. Another draw of keys over the same texts and times.
    #[arg(long)]
    pub session_seed: Option<u64>,
    /// Header that carries the session key.
    #[arg(long, default_value = "x-session-id")]
    pub session_header: String,
    /// Response header that names the engine which answered.
    #[arg(long, default_value = "x-engine-id")]
    pub engine_header: String,
    /// Most requests in all. Default: 240 for workload a; for workload b, as many as its dialogs have turns.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub requests: Option<u32>,
    /// Workload a: arrivals a second (Poisson). Workload b: dialogs begun a second.
    #[arg(long, default_value_t = 8.0, value_parser = rate_figure)]
    pub rate: f64,
    /// Most requests under way at once; an arrival that finds them all taken waits, and the wait counts in its times.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub concurrency: u32,
    /// Tokens that each answer has (`max_tokens` with `ignore_eos`).
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub output_tokens: u32,
    /// Workload a: shared instructions.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub instructions: u32,
    /// Workload a: tokens of a shared instruction.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub instruction_tokens: u32,
    /// Workload a: users, each with a session key of its own.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub users: u32,
    /// Tokens of a question (workload a) or of a user's turn (workload b).
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub question_tokens: u32,
    /// Workload b: dialogs.
    #[arg(long, default_value_t = 36, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub dialogs: u32,
    /// Workload b: turns of a dialog on average.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub turns: u32,
    /// Workload b: how far a dialog's turns may be from the average, in percent of it; 0 gives each dialog the same.
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub turns_spread: u32,
    /// Workload b: tokens of a dialog's own opening (a document that its first turn carries).
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub opening_tokens: u32,
    /// Workload b: mean think time between an answer and the next turn, in milliseconds (exponential, cut at five times the mean).
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=600_000))]
    pub think_ms: u32,
    /// Longest that one request may take, in seconds; then it counts as an error.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub timeout_s: u32,
    /// Longest that the whole run may take, in seconds; what has not been sent by then is left out, and the result says so.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub duration_s: u32,
    /// Where to write the result; default: standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write each request's measurements into the result too.
    #[arg(long)]
    pub each: bool,
    /// No progress on standard error.
    #[arg(long)]
    pub quiet: bool,
}

/// Flags of `lab compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareFlags {
    /// Which traffics; default shared-instructions.
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',', num_args = 1.., conflicts_with = "trace")]
    pub preset: Vec<Preset>,
    /// A recorded traffic instead: Mooncake's JSONL, Azure's CSV, or JSONL of your own (`at` in seconds, `request`, and if
    /// known `path`, `session`, `output_tokens`).
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Directory with the model's tokenizer files, for a trace of your own requests.
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// How many times as fast conversations come. Closed loops (shared-instructions), dialogs and mixes keep their pace.
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, value_parser = rate_figure)]
    pub rate_factor: f64,
    /// Requests in a repeat, about; default: the preset's, or the whole trace. Mixes keep their length.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub requests: Option<u32>,
    /// Which policies; default all.
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',', num_args = 1..)]
    pub policies: Vec<Policy>,
    /// Whom the verdicts are about.
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Policy::Warmpath)]
    pub reference: Policy,
    /// Engines.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub engines: u16,
    /// The model and machine: step times and the KV cache's size.
    #[arg(long, value_enum, default_value_t = StepProfile::Qwen3_1_7bSixthH100)]
    pub step_profile: StepProfile,
    /// Tokens in a block of the KV cache.
    #[arg(long, value_name = "TOKENS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub block_size: u32,
    /// Blocks in the KV cache; default: the profile's tokens.
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(2..=16_777_216))]
    pub num_gpu_blocks_override: Option<u32>,
    /// Most sequences in one step.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_num_seqs: u32,
    /// Most tokens computed in one step.
    #[arg(long, value_name = "TOKENS", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_num_batched_tokens: u32,
    /// Draws of the traffic, all policies on each.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeats: u32,
    /// The first repeat's seed; the others follow.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Most milliseconds to the first token for an answer to be good.
    #[arg(long, value_name = "MS", default_value_t = 500.0, value_parser = delay_figure)]
    pub slo_ttft_ms: f64,
    /// Most milliseconds from token to token, on average over an answer, for it to be good.
    #[arg(long, value_name = "MS", default_value_t = 50.0, value_parser = delay_figure)]
    pub slo_itl_ms: f64,
    /// How long a reading of an engine's metrics takes.
    #[arg(long, value_name = "MS", default_value_t = 20.0, value_parser = delay_figure)]
    pub reading_ms: f64,
    /// How late a picker knows what KV events tell.
    #[arg(long, value_name = "MS", default_value_t = 20.0, value_parser = delay_figure)]
    pub events_ms: f64,
    /// Write all figures here.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with plots here; it needs no network.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// No progress on standard error.
    #[arg(long)]
    pub quiet: bool,
}

/// The workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadKind {
    /// Independent requests over shared instructions, each with a short question of its own; open loop.
    A,
    /// Multi-turn dialogs whose history grows by the answers received; closed loop with think times.
    B,
}

fn duration_figure(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(us) if (0.0..=60e6).contains(&us) => Ok(us),
        _ => Err("a number of microseconds from 0 to 60000000".to_owned()),
    }
}

fn delay_figure(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ms) if (0.0..=3.6e6).contains(&ms) => Ok(ms),
        _ => Err("a number of milliseconds from 0 to 3600000".to_owned()),
    }
}

fn rate_figure(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.001..=100_000.0).contains(&rate) => Ok(rate),
        _ => Err("a number from 0.001 to 100000 a second".to_owned()),
    }
}
