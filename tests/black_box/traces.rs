//! Traces: spans of requests at a collector that speaks OTLP, and the `traceparent` that engines get. In: requests with and without a
//! trace; out: what the collector and the engine were told.

use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use super::client::ask;
use super::envoy::{Envoy, Form};
use super::lab;
use super::picker::Picker;
use super::program::{folder, free_port, wait_until};
use super::scripted::{Engine, Saying, completion};
use super::stage::{CHAT, chat};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector; gone when dropped.
struct Collector {
    port: u16,
    heard: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    _runtime: Runtime,
}

struct Heard(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Heard {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().expect("no thread failed").push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    fn start() -> Self {
        let (port, heard) = (free_port(), Arc::default());
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let service = TraceServiceServer::new(Heard(Arc::clone(&heard)));
        let incoming = {
            let _on_it = runtime.enter();
            TcpIncoming::bind(([127, 0, 0, 1], port).into()).expect("a free port")
        };
        runtime.spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
        Self { port, heard, _runtime: runtime }
    }

    fn spans(&self) -> Vec<Span> {
        let heard = self.heard.lock().expect("no thread failed");
        let scopes = heard.iter().flat_map(|request| &request.resource_spans).flat_map(|spans| &spans.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// All that it was told, as text.
    fn told(&self) -> String {
        format!("{:?}", self.heard.lock().expect("no thread failed"))
    }
}

/// A picker of that engine with this environment, and a gateway before it.
fn site(test: &str, engine: &Engine, environment: &[&str]) -> (Picker, Envoy) {
    let folder = folder(test);
    let picker = Picker::start_in(environment, &[engine.address], &[&lab::model_flag()], &folder);
    let envoy = Envoy::start(Form::OriginalDst, picker.port, &[], |config| config, &folder);
    (picker, envoy)
}

/// Sends a chat, within a trace or none; gives the trace that the engine was told.
fn send(envoy: &Envoy, engine: &Engine, traceparent: Option<&str>) -> Option<String> {
    let mut headers = vec![("content-type", "application/json"), ("x-request-id", "r-1")];
    headers.extend(traceparent.map(|traceparent| ("traceparent", traceparent)));
    let reply = ask(envoy.port, "POST", CHAT, &headers, chat(lab::MODEL, "my secret words").as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    engine.heard().last().expect("it was asked").header("traceparent").map(str::to_owned)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(span: &Span, name: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key == name);
    format!("{:?}", found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()))
}

#[test]
fn a_requests_spans_stand_in_the_clients_trace_and_the_engines_hang_under_them() {
    let (collector, engine) = (Collector::start(), Engine::scripted(|_| Saying::Json(completion(12, Some(0)))));
    let endpoint = format!("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{}", collector.port);
    let (mut picker, envoy) = site("traces", &engine, &[&endpoint, "OTEL_BSP_SCHEDULE_DELAY=200"]);
    let told = send(&envoy, &engine, Some(&format!("00-{TRACE}-{PARENT}-01"))).expect("the engine is told a trace");

    wait_until("the spans have come", || collector.spans().iter().any(|span| span.name == "gateway.request"));
    wait_until("its stages too", || collector.spans().iter().any(|span| span.name == "route"));
    let spans = collector.spans();
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no span {name}"));
    let request = named("gateway.request");
    assert_eq!((hex(&request.trace_id).as_str(), hex(&request.parent_span_id).as_str()), (TRACE, PARENT));
    assert_eq!(told, format!("00-{TRACE}-{}-01", hex(&request.span_id)), "the engine's parent is our span");
    let orchestration = named("gateway.request_orchestration");
    assert_eq!(orchestration.parent_span_id, request.span_id);
    let mut until = request.start_time_unix_nano;
    for stage in ["queue", "parse", "render", "tokenize", "hash", "route"] {
        let span = named(stage);
        assert_eq!(span.parent_span_id, orchestration.span_id, "{stage}");
        assert!(span.start_time_unix_nano >= until && span.end_time_unix_nano >= span.start_time_unix_nano, "{stage}");
        until = span.end_time_unix_nano;
    }
    assert!(request.end_time_unix_nano >= until);
    assert!(attribute(request, "gen_ai.request.id").contains("r-1"));
    assert!(attribute(request, "gen_ai.request.model").contains(lab::MODEL));
    assert!(attribute(request, "http.response.status_code").contains("200"));
    assert!(attribute(request, "gen_ai.usage.input_tokens").contains("12"));
    assert!(attribute(orchestration, "warmpath.chosen").contains(&format!("engine-{}", engine.address.port())));
    assert!(!collector.told().contains("secret"), "no prompt is in it");
    assert!(collector.told().contains("warmpath-epp"), "the service's name");

    // What nobody samples is told to nobody, and the engine is told so.
    let before = collector.spans().len();
    let told = send(&envoy, &engine, Some(&format!("00-{TRACE}-{PARENT}-00"))).expect("the engine is told a trace");
    assert!(told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-00"), "{told}");
    // What is left is sent on the way out.
    send(&envoy, &engine, Some(&format!("00-{TRACE}-{PARENT}-01")));
    picker.program.terminate();
    assert_eq!(picker.program.ended().code(), Some(0));
    assert_eq!(collector.spans().len() - before, before, "those of one more request");
}

#[test]
fn without_a_collector_or_with_one_that_is_gone_requests_go_on() {
    let engine = Engine::plain();
    let (_picker, envoy) = site("traces_off", &engine, &[]);
    let parent = format!("00-{TRACE}-{PARENT}-01");
    assert_eq!(send(&envoy, &engine, Some(&parent)).as_deref(), Some(&*parent), "it passes as it came");
    assert_eq!(send(&envoy, &engine, None), None);

    let endpoint = format!("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{}", free_port());
    let (picker, envoy) = site("traces_http", &engine, &[&endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"]);
    assert_eq!(send(&envoy, &engine, None), None, "a protocol that isn't spoken");
    assert!(picker.program.log().contains("grpc alone"));

    let (mut picker, envoy) =
        site("traces_gone", &engine, &[&endpoint, "OTEL_TRACES_SAMPLER=always_on", "OTEL_BSP_SCHEDULE_DELAY=50"]);
    for _ in 0..20 {
        assert!(send(&envoy, &engine, None).is_some_and(|told| told.ends_with("-01")));
    }
    wait_until("it is said", || picker.program.log().contains("spans can't be sent"));
    assert_eq!(picker.program.log().matches("spans can't be sent").count(), 1, "once");
    // Nor does it keep the picker from ending.
    picker.program.terminate();
    assert_eq!(picker.program.ended().code(), Some(0));
}

#[test]
fn what_a_client_says_takes_little_room_and_a_refusal_is_an_error() {
    let (collector, engine) = (Collector::start(), Engine::plain());
    let endpoint = format!("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{}", collector.port);
    let folder = folder("traces_long");
    let environment =
        [endpoint.as_str(), "OTEL_TRACES_SAMPLER=always_on", "OTEL_RESOURCE_ATTRIBUTES=service.name=ours"];
    let flags = [&lab::model_flag(), "--strict-requests"];
    let mut picker = Picker::start_in(&environment, &[engine.address], &flags, &folder);
    let envoy = Envoy::start(Form::OriginalDst, picker.port, &[], |config| config, &folder);
    let (id, state, parent) =
        ("i".repeat(2000), format!("vendor={}", "w".repeat(200)), format!("00-{TRACE}-{PARENT}-01"));
    let headers = [("x-request-id", id.as_str()), ("traceparent", &parent), ("tracestate", &state)];
    let post = |body: &[u8]| ask(envoy.port, "POST", CHAT, &headers, body).status;
    assert_eq!((post(chat(lab::MODEL, "hello").as_bytes()), post(b"no JSON")), (200, 400));
    assert_eq!(engine.heard()[0].header("tracestate"), Some(state.as_str()), "it passes as it came");
    picker.program.terminate();
    assert_eq!(picker.program.ended().code(), Some(0));
    let spans = collector.spans();
    let requests: Vec<&Span> = spans.iter().filter(|span| span.name == "gateway.request").collect();
    let failed = |span: &&&Span| span.status.as_ref().is_some_and(|status| status.code == 2);
    assert_eq!((requests.len(), requests.iter().filter(failed).count()), (2, 1), "{requests:?}");
    let told = collector.told();
    assert!(!told.contains(&id[..129]) && told.contains(&id[..128]) && !told.contains("vendor"), "{told}");
    assert!(told.contains("\"ours\"") && !told.contains("warmpath-epp"), "the service's name");
}
