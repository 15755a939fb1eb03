//! Families about requests: how many, how large, how long, how many tokens. Counted when a stream ends.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::labels::{ModelLabel, PairLabels, RequestLabels};
use super::registrar::{Made, NoLabels, Registrar, Twins};

/// llm-d's buckets for whole requests, in seconds.
const LATENCY: [f64; 35] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];
/// llm-d's buckets for the time between two pieces of a streamed answer, in seconds.
const ITL: [f64; 15] = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0];
/// llm-d's buckets for the time that one token of an answer takes, its prompt's time counted in, in seconds.
const NTPOT: [f64; 13] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
/// llm-d's buckets for the time that one token of a streamed answer takes, in seconds.
const TPOT: [f64; 19] =
    [0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 2.0];
/// llm-d's buckets for prompt tokens.
const INPUT_TOKENS: [f64; 19] = [
    1.0,
    8.0,
    16.0,
    32.0,
    64.0,
    128.0,
    256.0,
    512.0,
    1024.0,
    2048.0,
    4096.0,
    8192.0,
    16384.0,
    32778.0,
    65536.0,
    131_072.0,
    262_144.0,
    524_288.0,
    1_048_576.0,
];

fn latency() -> Histogram {
    Histogram::new(LATENCY)
}
pub(super) fn ttft() -> Histogram {
    Histogram::new(LATENCY.into_iter().take_while(|at| *at <= 120.0))
}
pub(super) fn itl() -> Histogram {
    Histogram::new(ITL)
}
fn ntpot() -> Histogram {
    Histogram::new(NTPOT)
}
fn tpot() -> Histogram {
    Histogram::new(TPOT)
}
/// llm-d's buckets for what the picker's own work takes, in seconds.
fn processing() -> Histogram {
    Histogram::new([0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
}
fn answer_processing() -> Histogram {
    Histogram::new([0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0])
}
fn request_bytes() -> Histogram {
    Histogram::new((0..25).map(|k| 64.0 * f64::from(1_u32 << k)))
}
fn response_bytes() -> Histogram {
    Histogram::new(INPUT_TOKENS.into_iter().take(15))
}
fn input_tokens() -> Histogram {
    Histogram::new(INPUT_TOKENS)
}
fn output_tokens() -> Histogram {
    Histogram::new(INPUT_TOKENS.into_iter().take(12))
}

/// How a request ended, as far as it was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finished {
    /// From its last byte to its stream's end.
    pub(crate) took: Duration,
    /// Bytes of the request's body.
    pub(crate) request_bytes: usize,
    /// Bytes of the answer's body.
    pub(crate) response_bytes: usize,
    /// From its last byte to the answer's first content; only for streamed answers.
    pub(crate) ttft: Option<Duration>,
    /// Whether the answer was streamed.
    pub(crate) streaming: bool,
    /// Prompt tokens, by the engine's own count.
    pub(crate) prompt_tokens: Option<u64>,
    /// Prompt tokens that the engine reused.
    pub(crate) cached_tokens: Option<u64>,
    /// Tokens generated.
    pub(crate) completion_tokens: Option<u64>,
    /// How long the answer was dealt with here: all its parts where it was streamed, else from its head to its end.
    pub(crate) answer_processed_in: Duration,
}

impl Finished {
    /// Seconds for each token generated; nothing where none was, or the engine doesn't say.
    fn for_each_token(&self) -> Option<f64> {
        let tokens = self.completion_tokens.filter(|tokens| *tokens > 0)?;
        Some(self.took.as_secs_f64() / tokens as f64)
    }

    /// Seconds for each token behind the first, of a streamed answer.
    fn for_each_streamed_token(&self) -> Option<f64> {
        let behind = self.completion_tokens?.checked_sub(1).filter(|behind| *behind > 0)?;
        let since_first = self.took.checked_sub(self.ttft.filter(|_| self.streaming)?)?;
        Some(since_first.as_secs_f64() / behind as f64)
    }
}

/// The families.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    total: Twins<RequestLabels, DeprecatedTotal, Counter>,
    errors: Twins<ErrorLabels, DeprecatedErrors, Counter>,
    running: Twins<RequestLabels, RunningLabels, Gauge>,
    duration: Sizes,
    request_size: Sizes,
    response_size: Sizes,
    input: Sizes,
    cached: Sizes,
    output: Sizes,
    ntpot: Sizes,
    tpot: Made<RequestLabels, Histogram>,
    ttft: Twins<TtftLabels, PairLabels, Histogram>,
    itl: Made<RequestLabels, Histogram>,
    processing: Made<NoLabels, Histogram>,
    answer_processing: Made<NoLabels, Histogram>,
    untaken: Counter,
}

/// Histograms under llm-d's base labels.
type Sizes = Twins<RequestLabels, PairLabels, Histogram>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeprecatedTotal {
    model_name: String,
    target_model_name: String,
    priority: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    model_name: String,
    target_model_name: String,
    fairness_id: &'static str,
    priority: &'static str,
    error_code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeprecatedErrors {
    model_name: String,
    target_model_name: String,
    error_code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunningLabels {
    model_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TtftLabels {
    model_name: String,
    target_model_name: String,
    fairness_id: &'static str,
    priority: &'static str,
    streaming: &'static str,
}

impl RequestMetrics {
    pub(super) fn register(families: &mut Registrar<'_>) -> Self {
        Self {
            total: families.counter_twins(
                ("llm_d_epp_request", "Total number of processed requests."),
                (
                    "inference_objective_request",
                    "Counter of inference objective requests broken out for each model and target model.",
                ),
            ),
            errors: families.counter_twins(
                ("llm_d_epp_request_error", "Total number of request errors."),
                (
                    "inference_objective_request_error",
                    "Counter of inference objective requests errors broken out for each model and target model.",
                ),
            ),
            running: families.twins(
                Gauge::default,
                ("llm_d_epp_request_running", "Current number of active running requests."),
                (
                    "inference_objective_running_requests",
                    "Inference objective number of running requests in each model.",
                ),
            ),
            duration: families.twins(
                latency,
                ("llm_d_epp_request_duration_seconds", "End-to-end request latency distribution in seconds."),
                (
                    "inference_objective_request_duration_seconds",
                    "Inference objective response latency distribution in seconds for each model and target \
                     model.",
                ),
            ),
            request_size: families.twins(
                request_bytes,
                ("llm_d_epp_request_size_bytes", "Incoming request body size distribution in bytes."),
                (
                    "inference_objective_request_sizes",
                    "Inference objective requests size distribution in bytes for each model and target model.",
                ),
            ),
            response_size: families.twins(
                response_bytes,
                ("llm_d_epp_response_size_bytes", "Outgoing response body size distribution in bytes."),
                (
                    "inference_objective_response_sizes",
                    "Inference objective responses size distribution in bytes for each model and target model.",
                ),
            ),
            input: families.twins(
                input_tokens,
                ("llm_d_epp_request_input_tokens", "Input token count distribution per request."),
                (
                    "inference_objective_input_tokens",
                    "Inference objective input token count distribution for requests in each model.",
                ),
            ),
            cached: families.twins(
                input_tokens,
                (
                    "llm_d_epp_request_cached_tokens",
                    "Distribution of prompt tokens read from cache per request, as reported by the model server \
                     in the response.",
                ),
                (
                    "inference_objective_prompt_cached_tokens",
                    "Inference objective prompt cached token count distribution for requests in each model.",
                ),
            ),
            output: families.twins(
                output_tokens,
                ("llm_d_epp_request_output_tokens", "Output token count distribution per request."),
                (
                    "inference_objective_output_tokens",
                    "Inference objective output token count distribution for requests in each model.",
                ),
            ),
            ntpot: families.twins(
                ntpot,
                (
                    "llm_d_epp_request_ntpot_seconds",
                    "Normalized time per output token in seconds (end-to-end latency divided by output token \
                     count).",
                ),
                (
                    "inference_objective_normalized_time_per_output_token_seconds",
                    "Inference objective latency divided by number of output tokens in seconds for each model \
                     and target model.",
                ),
            ),
            tpot: families.made(
                tpot,
                "llm_d_epp_request_streaming_tpot_seconds",
                "[ALPHA] Average time per output token in seconds for streaming requests, computed as (e2e - \
                 TTFT) / (output_tokens - 1).",
            ),
            ttft: families.twins(
                ttft,
                (
                    "llm_d_epp_request_ttft_seconds",
                    "Time to first token in seconds, measured from request received to first response byte. For \
                     non-streaming requests, this equals total request duration.",
                ),
                (
                    "inference_objective_request_ttft_seconds",
                    "Inference model TTFT distribution in seconds for each model and target model.",
                ),
            ),
            itl: families.made(
                itl,
                "llm_d_epp_request_streaming_itl_seconds",
                "[ALPHA] Inter-token latency in seconds for streaming requests, measured as the time between \
                 consecutive response body chunks.",
            ),
            processing: families.made(
                processing,
                "llm_d_epp_request_processing_duration_seconds",
                "[ALPHA] EPP request processing latency distribution in seconds, from request receipt until \
                 the request body has been handled, including admission control.",
            ),
            answer_processing: families.made(
                answer_processing,
                "llm_d_epp_response_processing_duration_seconds",
                "[ALPHA] EPP response processing latency distribution in seconds: the sum of per-chunk handler \
                 time for a streamed response, or the interval from response headers to completion for a \
                 non-streaming response.",
            ),
            untaken: families.counter(
                "warmpath_untaken_streams",
                "Streams ended because their gateway took no answers for five minutes",
            ),
        }
    }

    /// A stream was ended because its gateway takes no answers.
    pub(crate) fn untaken(&self) {
        self.untaken.inc();
    }

    /// An endpoint was picked: counts the request and holds it as running until the value is dropped.
    pub(crate) fn picked(&self, model: &ModelLabel) -> Running {
        let name = || model.name();
        let deprecated = || DeprecatedTotal { model_name: name(), target_model_name: name(), priority: "0" };
        self.total.each(&model.request(), deprecated, |total| {
            total.inc();
        });
        let mut gauges = vec![self.running.current.get_or_create_owned(&model.request())];
        if let Some(running) = &self.running.deprecated {
            gauges.push(running.get_or_create_owned(&RunningLabels { model_name: name() }));
        }
        for gauge in &gauges {
            gauge.inc();
        }
        Running { gauges, itl: self.itl.get_or_create_owned(&model.request()) }
    }

    /// A decision was made in that time, from the request's last byte on.
    pub(crate) fn processed(&self, took: Duration) {
        self.processing.get_or_create(&NoLabels {}).observe(took.as_secs_f64());
    }

    /// A request was refused, or its answer was an error: `code` as llm-d names it.
    pub(crate) fn failed(&self, model: &ModelLabel, code: &'static str) {
        let labels = ErrorLabels {
            model_name: model.name(),
            target_model_name: model.name(),
            fairness_id: "default-flow",
            priority: "0",
            error_code: code,
        };
        let deprecated =
            || DeprecatedErrors { model_name: model.name(), target_model_name: model.name(), error_code: code };
        self.errors.each(&labels, deprecated, |errors| {
            errors.inc();
        });
    }

    /// A request's stream ended after its answer.
    pub(crate) fn finished(&self, model: &ModelLabel, finished: &Finished) {
        let observe = |sizes: &Sizes, value: f64| {
            sizes.each(&model.request(), || model.pair(), |histogram| histogram.observe(value));
        };
        observe(&self.duration, finished.took.as_secs_f64());
        self.answer_processing.get_or_create(&NoLabels {}).observe(finished.answer_processed_in.as_secs_f64());
        observe(&self.request_size, finished.request_bytes as f64);
        observe(&self.response_size, finished.response_bytes as f64);
        for (sizes, tokens) in [
            (&self.input, finished.prompt_tokens),
            (&self.cached, finished.cached_tokens),
            (&self.output, finished.completion_tokens),
        ] {
            if let Some(tokens) = tokens {
                observe(sizes, tokens as f64);
            }
        }
        if let Some(each) = finished.for_each_token() {
            observe(&self.ntpot, each);
        }
        if let Some(each) = finished.for_each_streamed_token() {
            self.tpot.get_or_create(&model.request()).observe(each);
        }
        if let Some(ttft) = finished.ttft {
            let labels = TtftLabels {
                model_name: model.name(),
                target_model_name: model.name(),
                fairness_id: "default-flow",
                priority: "0",
                streaming: if finished.streaming { "true" } else { "false" },
            };
            self.ttft.each(&labels, || model.pair(), |histogram| histogram.observe(ttft.as_secs_f64()));
        }
    }
}

/// A request under way. Its drop takes it off the gauges.
#[derive(Debug)]
pub(crate) struct Running {
    gauges: Vec<Gauge>,
    itl: Histogram,
}

impl Running {
    /// Content came so long after the content before it.
    pub(crate) fn between_chunks(&self, gap: Duration) {
        self.itl.observe(gap.as_secs_f64());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for gauge in &self.gauges {
            gauge.dec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tokens_time_is_told_where_there_are_tokens() {
        let finished = |tokens: Option<u64>, ttft: Option<u64>, streaming| Finished {
            took: Duration::from_secs(10),
            ttft: ttft.map(Duration::from_secs),
            streaming,
            completion_tokens: tokens,
            ..Finished::default()
        };
        let told = |finished: Finished| (finished.for_each_token(), finished.for_each_streamed_token());
        assert_eq!(told(finished(Some(5), Some(2), true)), (Some(2.0), Some(2.0)));
        assert_eq!(told(finished(Some(5), Some(2), false)), (Some(2.0), None));
        assert_eq!(told(finished(Some(5), None, true)), (Some(2.0), None));
        assert_eq!(told(finished(Some(1), Some(2), true)), (Some(10.0), None));
        assert_eq!(told(finished(Some(0), Some(2), true)), (None, None));
        assert_eq!(told(finished(None, Some(2), true)), (None, None));
    }
}
