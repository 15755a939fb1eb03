//! Families about requests: how many, how large, how long, how many tokens. Counted when a stream ends.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::{ModelLabel, PairLabels, RequestLabels};

/// A histogram family whose buckets are fixed by a function.
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// llm-d's buckets for whole requests, in seconds.
const LATENCY: [f64; 35] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];
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
fn ttft() -> Histogram {
    Histogram::new(LATENCY.into_iter().take_while(|at| *at <= 120.0))
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

/// One quantity under llm-d's name and, if wanted, under the one it had before.
#[derive(Debug)]
struct Twin {
    current: Histograms<RequestLabels>,
    deprecated: Option<Histograms<PairLabels>>,
}

impl Twin {
    fn register(
        registry: &mut Registry,
        buckets: fn() -> Histogram,
        help: &str,
        current: &str,
        deprecated: Option<&str>,
    ) -> Self {
        let family = Histograms::new_with_constructor(buckets);
        registry.register(current, format!("[ALPHA] {help}"), family.clone());
        let deprecated = deprecated.map(|name| {
            let family = Histograms::new_with_constructor(buckets);
            registry.register(name, format!("[ALPHA] [Deprecated: Use {current}] {help}"), family.clone());
            family
        });
        Self { current: family, deprecated }
    }

    fn observe(&self, model: &ModelLabel, value: f64) {
        self.current.get_or_create(&model.request()).observe(value);
        if let Some(family) = &self.deprecated {
            family.get_or_create(&model.pair()).observe(value);
        }
    }
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
}

/// The families.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    total: Family<RequestLabels, Counter>,
    total_deprecated: Option<Family<DeprecatedTotal, Counter>>,
    errors: Family<ErrorLabels, Counter>,
    errors_deprecated: Option<Family<DeprecatedErrors, Counter>>,
    running: Family<RequestLabels, Gauge>,
    running_deprecated: Option<Family<RunningLabels, Gauge>>,
    duration: Twin,
    request_size: Twin,
    response_size: Twin,
    input: Twin,
    cached: Twin,
    output: Twin,
    ttft: Histograms<TtftLabels>,
    ttft_deprecated: Option<Histograms<PairLabels>>,
}

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
    pub(super) fn register(registry: &mut Registry, deprecated: bool) -> Self {
        let old = |name: &'static str| deprecated.then_some(name);
        let total = Family::default();
        registry.register("llm_d_epp_request", "[ALPHA] Requests that an endpoint was picked for", total.clone());
        let errors = Family::default();
        registry.register(
            "llm_d_epp_request_error",
            "[ALPHA] Requests refused or answered with an error",
            errors.clone(),
        );
        let running = Family::default();
        registry.register("llm_d_epp_request_running", "[ALPHA] Requests under way", running.clone());
        let ttft_family = Histograms::new_with_constructor(ttft as fn() -> Histogram);
        let ttft_help = "Time from a request's last byte to its answer's first content, in seconds";
        registry.register("llm_d_epp_request_ttft_seconds", format!("[ALPHA] {ttft_help}"), ttft_family.clone());
        let mut twin = |buckets, help, current, name| Twin::register(registry, buckets, help, current, old(name));
        let duration = twin(
            latency,
            "Time from a request's last byte to the end of its answer, in seconds",
            "llm_d_epp_request_duration_seconds",
            "inference_objective_request_duration_seconds",
        );
        let request_size = twin(
            request_bytes,
            "Size of a request's body, in bytes",
            "llm_d_epp_request_size_bytes",
            "inference_objective_request_sizes",
        );
        let response_size = twin(
            response_bytes,
            "Size of an answer's body, in bytes",
            "llm_d_epp_response_size_bytes",
            "inference_objective_response_sizes",
        );
        let input = twin(
            input_tokens,
            "Prompt tokens of a request, counted by the engine",
            "llm_d_epp_request_input_tokens",
            "inference_objective_input_tokens",
        );
        let cached = twin(
            input_tokens,
            "Prompt tokens of a request that the engine reused from its cache",
            "llm_d_epp_request_cached_tokens",
            "inference_objective_prompt_cached_tokens",
        );
        let output = twin(
            output_tokens,
            "Tokens generated for a request",
            "llm_d_epp_request_output_tokens",
            "inference_objective_output_tokens",
        );
        let mut metrics = Self {
            total,
            total_deprecated: None,
            errors,
            errors_deprecated: None,
            running,
            running_deprecated: None,
            duration,
            request_size,
            response_size,
            input,
            cached,
            output,
            ttft: ttft_family,
            ttft_deprecated: None,
        };
        if deprecated {
            metrics.register_deprecated(registry);
        }
        metrics
    }

    fn register_deprecated(&mut self, registry: &mut Registry) {
        let total = Family::default();
        registry.register(
            "inference_objective_request",
            "[ALPHA] [Deprecated: Use llm_d_epp_request_total] Requests that an endpoint was picked for",
            total.clone(),
        );
        self.total_deprecated = Some(total);
        let errors = Family::default();
        registry.register(
            "inference_objective_request_error",
            "[ALPHA] [Deprecated: Use llm_d_epp_request_error_total] Requests refused or answered with an error",
            errors.clone(),
        );
        self.errors_deprecated = Some(errors);
        let running = Family::default();
        registry.register(
            "inference_objective_running_requests",
            "[ALPHA] [Deprecated: Use llm_d_epp_request_running] Requests under way",
            running.clone(),
        );
        self.running_deprecated = Some(running);
        let family = Histograms::new_with_constructor(ttft as fn() -> Histogram);
        registry.register(
            "inference_objective_request_ttft_seconds",
            "[ALPHA] [Deprecated: Use llm_d_epp_request_ttft_seconds] Time to an answer's first content, in seconds",
            family.clone(),
        );
        self.ttft_deprecated = Some(family);
    }

    /// An endpoint was picked: counts the request and holds it as running until the value is dropped.
    pub(crate) fn picked(&self, model: &ModelLabel) -> Running {
        self.total.get_or_create(&model.request()).inc();
        if let Some(total) = &self.total_deprecated {
            let name = model.name();
            let labels = DeprecatedTotal { model_name: name.clone(), target_model_name: name, priority: "0" };
            total.get_or_create(&labels).inc();
        }
        let mut gauges = vec![self.running.get_or_create_owned(&model.request())];
        if let Some(running) = &self.running_deprecated {
            gauges.push(running.get_or_create_owned(&RunningLabels { model_name: model.name() }));
        }
        for gauge in &gauges {
            gauge.inc();
        }
        Running(Arc::from(gauges))
    }

    /// A request was refused, or its answer was an error: `code` as llm-d names it.
    pub(crate) fn failed(&self, model: &ModelLabel, code: &'static str) {
        let name = model.name();
        let labels = ErrorLabels {
            model_name: name.clone(),
            target_model_name: name.clone(),
            fairness_id: "default-flow",
            priority: "0",
            error_code: code,
        };
        self.errors.get_or_create(&labels).inc();
        if let Some(errors) = &self.errors_deprecated {
            let labels = DeprecatedErrors { model_name: name.clone(), target_model_name: name, error_code: code };
            errors.get_or_create(&labels).inc();
        }
    }

    /// A request's stream ended after its answer.
    pub(crate) fn finished(&self, model: &ModelLabel, finished: &Finished) {
        self.duration.observe(model, finished.took.as_secs_f64());
        self.request_size.observe(model, finished.request_bytes as f64);
        self.response_size.observe(model, finished.response_bytes as f64);
        for (family, tokens) in [
            (&self.input, finished.prompt_tokens),
            (&self.cached, finished.cached_tokens),
            (&self.output, finished.completion_tokens),
        ] {
            if let Some(tokens) = tokens {
                family.observe(model, tokens as f64);
            }
        }
        if let Some(ttft) = finished.ttft {
            let name = model.name();
            let labels = TtftLabels {
                model_name: name.clone(),
                target_model_name: name,
                fairness_id: "default-flow",
                priority: "0",
                streaming: if finished.streaming { "true" } else { "false" },
            };
            self.ttft.get_or_create(&labels).observe(ttft.as_secs_f64());
            if let Some(family) = &self.ttft_deprecated {
                family.get_or_create(&model.pair()).observe(ttft.as_secs_f64());
            }
        }
    }
}

/// A request under way. Its drop takes it off the gauges.
#[derive(Debug)]
pub(crate) struct Running(Arc<[Gauge]>);

impl Drop for Running {
    fn drop(&mut self) {
        for gauge in self.0.iter() {
            gauge.dec();
        }
    }
}
