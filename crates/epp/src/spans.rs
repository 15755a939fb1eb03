//! Spans: each request as a trace shows it, sent by OTLP where the environment names a collector.
//!
//! In: a request's `traceparent` and what becomes of it. Out: a span `gateway.request` from the request's last byte to the end of its
//! answer, under it `gateway.request_orchestration` with a span for each stage, and the `traceparent` that the engine is to carry on, so
//! that its spans hang under ours. No prompt text. Nothing waits for a collector: what can't be sent in time is lost.
//!
//! `OTEL_TRACES_EXPORTER`, `OTEL_EXPORTER_OTLP_*`, `OTEL_TRACES_SAMPLER*`, `OTEL_BSP_*`, `OTEL_SERVICE_NAME` and
//! `OTEL_RESOURCE_ATTRIBUTES` are heeded as OpenTelemetry has them.

use std::collections::HashMap;
use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use envoy::{Headers, Refusal};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Array, Context, Key, KeyValue, StringValue, Value};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, Span, SpanData};
use record::{Ended, Record};

/// What is sampled where nobody says and no parent is: as llm-d.
const SHARE: f64 = 0.1;
/// How long the last spans may take on the way out.
const LAST: Duration = Duration::from_secs(2);
/// The header that carries a trace, and nothing else of it is read: what vendors say beside it (`tracestate`) goes on to the engine as it
/// came, and waits in no queue.
const CARRIED: &str = "traceparent";
/// The longest request id that is in a span, in characters: the client's word.
const LONGEST: usize = 128;

/// Makes spans, or none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans(Option<SdkTracer>);

/// Sends what is left when it is ended.
#[derive(Debug, Default)]
pub(crate) struct Sender(Option<SdkTracerProvider>);

impl Spans {
    /// Where the environment names a collector. To be called on the runtime.
    ///
    /// # Errors
    /// Where what it says can't be used.
    pub(crate) fn start() -> anyhow::Result<(Self, Sender)> {
        let said = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let endpoints = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
        let names_one = endpoints.into_iter().any(|name| said(name).is_some());
        match said("OTEL_TRACES_EXPORTER").as_deref() {
            Some("otlp") => {}
            None if names_one => {}
            Some("none") | None => return Ok(Self::default_pair()),
            Some(other) => {
                tracing::warn!(
                    exporter = other,
                    "traces are exported by otlp alone: OTEL_TRACES_EXPORTER has no effect"
                );
                return Ok(Self::default_pair());
            }
        }
        let protocols = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
        if let Some(protocol) = protocols.into_iter().find_map(said).filter(|protocol| protocol != "grpc") {
            tracing::warn!(protocol, "traces are exported by OTLP over grpc alone: there are none");
            return Ok(Self::default_pair());
        }
        let exporter = SpanExporter::builder().with_tonic().build()?;
        let exporter = Told { exporter, failing: AtomicBool::new(false) };
        let mut provider = SdkTracerProvider::builder().with_resource(resource()).with_batch_exporter(exporter);
        if said("OTEL_TRACES_SAMPLER").is_none() {
            provider = provider.with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(SHARE))));
        }
        let provider = provider.build();
        tracing::info!("traces are exported by OTLP");
        Ok((Self(Some(provider.tracer("warmpath"))), Sender(Some(provider))))
    }

    fn default_pair() -> (Self, Sender) {
        (Self::default(), Sender::default())
    }

    /// A request that was whole then, with the trace that its headers carry.
    pub(crate) fn begin(&self, headers: &Headers, request_id: &str, at: SystemTime) -> RequestSpan {
        let Some(tracer) = &self.0 else { return RequestSpan(None) };
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &Carried(headers));
        let builder =
            tracer.span_builder("gateway.request").with_kind(SpanKind::Server).with_start_time(at).with_attributes([
                KeyValue::new("gen_ai.request.id", request_id.chars().take(LONGEST).collect::<String>()),
            ]);
        let span = tracer.build_with_context(builder, &parent);
        RequestSpan(Some(Open { tracer: tracer.clone(), context: Context::new().with_span(span), at }))
    }
}

impl Sender {
    /// Sends what is left, within two seconds.
    pub(crate) async fn end(self) {
        let Some(provider) = self.0 else { return };
        let sent = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(LAST)).await;
        if !matches!(sent, Ok(Ok(()))) {
            tracing::warn!("the last spans could not be sent");
        }
    }
}

/// Who tells the spans, as the environment has it.
fn resource() -> Resource {
    let builder = || Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    let resource = builder().build();
    match resource.get(&Key::from_static_str("service.name")) {
        Some(name) if !name.as_str().starts_with("unknown_service") => resource,
        _ => builder().with_service_name("warmpath-epp").build(),
    }
}

/// An exporter whose failures are logged where they begin and where they end.
#[derive(Debug)]
struct Told {
    exporter: SpanExporter,
    failing: AtomicBool,
}

impl opentelemetry_sdk::trace::SpanExporter for Told {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = self.exporter.export(batch).await;
        let was_failing = self.failing.swap(sent.is_err(), Ordering::Relaxed);
        match &sent {
            Err(why) if !was_failing => tracing::warn!(%why, "spans can't be sent, and are lost"),
            Ok(()) if was_failing => tracing::info!("spans are sent again"),
            _ => {}
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// A request's span; ends by itself with the request.
#[derive(Debug, Default)]
pub(crate) struct RequestSpan(Option<Open>);

#[derive(Debug)]
struct Open {
    tracer: SdkTracer,
    /// The span.
    context: Context,
    at: SystemTime,
}

impl RequestSpan {
    /// What the engine is to carry on, as headers. Nothing where nothing is traced.
    pub(crate) fn carried(&self) -> Vec<(String, Vec<u8>)> {
        let Some(open) = &self.0 else { return Vec::new() };
        let mut headers = HashMap::new();
        TraceContextPropagator::new().inject_context(&open.context, &mut headers);
        let kept = |(name, value): (String, String)| (!value.is_empty()).then(|| (name, value.into_bytes()));
        let mut headers: Vec<_> = headers.into_iter().filter_map(kept).collect();
        headers.sort_unstable();
        headers
    }

    /// Whether anybody will see it.
    pub(crate) fn is_seen(&self) -> bool {
        self.0.as_ref().is_some_and(|open| open.context.span().is_recording())
    }

    /// Nobody serves it.
    pub(crate) fn refused(&self, refusal: &Refusal) {
        if let Some(open) = &self.0 {
            open.context.span().set_status(Status::error(refusal.to_string()));
        }
    }

    /// The decision: its stages one after the other, and what was decided.
    pub(crate) fn decided(&self, stages: &[(&'static str, Duration)], record: &Record) {
        let Some(open) = self.0.as_ref().filter(|_| self.is_seen()) else { return };
        let all = open.child(&open.context, "gateway.request_orchestration", open.at);
        let context = open.context.with_span(all);
        let mut from = open.at;
        for (stage, took) in stages.iter().filter(|(_, took)| !took.is_zero()) {
            let mut span = open.child(&context, stage, from);
            from += *took;
            span.end_with_timestamp(from);
        }
        let span = context.span();
        span.set_attributes(decision(record));
        span.end_with_timestamp(open.at + Duration::from_micros(record.decided_in_us));
    }

    /// The request's end.
    pub(crate) fn ended(&self, record: &Record) {
        let Some(open) = self.0.as_ref().filter(|_| self.is_seen()) else { return };
        let span = open.context.span();
        span.set_attribute(KeyValue::new("gen_ai.request.model", record.asked.model.clone()));
        let Some(outcome) = &record.outcome else { return };
        if let Some(ttft) = outcome.ttft_ms {
            let at = open.at + Duration::from_secs_f64(ttft.max(0.0) / 1e3);
            span.add_event_with_timestamp("first content", at, Vec::new());
        }
        let counts = [
            ("http.response.status_code", outcome.status.map(u64::from)),
            ("gen_ai.usage.input_tokens", outcome.prompt_tokens),
            ("gen_ai.usage.output_tokens", outcome.completion_tokens),
            ("warmpath.cached_tokens", outcome.cached_tokens),
            ("warmpath.predicted_cached_tokens", record.predicted_cached_tokens),
            ("warmpath.attempts", outcome.attempts.map(u64::from)),
        ];
        let counts =
            counts.into_iter().filter_map(|(name, count)| Some(KeyValue::new(name, i64::try_from(count?).ok()?)));
        span.set_attributes(counts);
        if let Some(served) = &outcome.served {
            span.set_attribute(KeyValue::new("warmpath.served", served.clone()));
        }
        if !outcome.is_good() {
            let why = if outcome.ended == Ended::Complete { "no 2xx" } else { outcome.ended.as_str() };
            span.set_status(Status::error(why));
        }
    }
}

impl Open {
    fn child(&self, parent: &Context, name: &'static str, at: SystemTime) -> Span {
        self.tracer.build_with_context(self.tracer.span_builder(name).with_start_time(at), parent)
    }
}

/// What was decided, as attributes: numbers and names of ours.
fn decision(record: &Record) -> Vec<KeyValue> {
    let texts =
        |texts: &[String]| Value::Array(Array::String(texts.iter().map(|t| StringValue::from(t.clone())).collect()));
    let mut all = vec![
        KeyValue::new("warmpath.chosen", texts(&record.chosen)),
        KeyValue::new("warmpath.notes", texts(&record.notes)),
        KeyValue::new("warmpath.candidates", record.candidates.len() as i64),
        KeyValue::new("warmpath.blocks", i64::from(record.asked.blocks)),
        KeyValue::new("warmpath.holdout", record.holdout),
    ];
    if let Some(chosen) = record.candidates.first().filter(|candidate| !candidate.set_aside) {
        all.push(KeyValue::new("warmpath.overlap", i64::from(chosen.overlap)));
        all.push(KeyValue::new("warmpath.score", chosen.total));
        let parts = chosen.parts.iter().filter(|part| part.known);
        all.extend(
            parts.map(|part| KeyValue::new(format!("warmpath.score.{}", part.scorer), part.score * part.weight)),
        );
    }
    all
}

/// A request's headers, as far as they carry a trace.
struct Carried<'a>(&'a Headers);

impl Extractor for Carried<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.text(key).filter(|_| key == CARRIED)
    }

    fn keys(&self) -> Vec<&str> {
        vec![CARRIED]
    }
}
