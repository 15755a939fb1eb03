//! The server, asked over loopback by a client that speaks as Envoy does.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use envoy::{
    BodyMemory, Handler, Inbound, Limits, Patience, Readiness, Refusal, ResponseHead, Settings, State, Terms, Ticket,
    Tls, Unread, Verdict, Watchdog,
};
use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingRequest;
use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingResponse;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::CompressionEncoding;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::gateway::{self, Beside};
use crate::script::show_reply;

/// Decides by the path, and tells what became of it.
struct Desk {
    events: mpsc::UnboundedSender<&'static str>,
    together: Arc<Barrier>,
}

struct Held(&'static str, mpsc::UnboundedSender<&'static str>);

impl Drop for Held {
    fn drop(&mut self) {
        self.1.send(self.0).ok();
    }
}

impl Ticket for Held {
    fn head(&mut self, _: &ResponseHead) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }

    fn body(&mut self, part: Bytes, _: bool) -> Bytes {
        part
    }
}

impl Handler for Desk {
    type Ticket = Held;

    async fn decide(&self, inbound: Inbound) -> Result<(Verdict, Held), Refusal> {
        self.events.send("asked").ok();
        match inbound.path.as_str() {
            "/never" => {
                let _held = Held("decision dropped", self.events.clone());
                pending().await
            }
            "/together" => {
                self.together.wait().await;
            }
            "/broken" => panic!("as it should in this test"),
            "/refused" => return Err(Refusal::Saturated("full".into())),
            _ => {}
        }
        if inbound.unread == Some(Unread::Stalled) {
            self.events.send("stalled").ok();
        }
        if inbound.unread == Some(Unread::Memory) {
            self.events.send("no memory").ok();
        }
        Ok((Verdict::to("10.0.0.1:8000".parse().unwrap()), Held("ticket dropped", self.events.clone())))
    }

    fn suppose(&self, _: &Inbound) -> Option<SocketAddr> {
        "10.0.0.1:8000".parse().ok()
    }

    fn refused(&self, refusal: &Refusal) {
        self.events.send(refusal.as_str()).ok();
    }

    fn untaken(&self) {
        self.events.send("untaken").ok();
    }
}

/// A server on loopback.
struct Picker {
    address: SocketAddr,
    events: mpsc::UnboundedReceiver<&'static str>,
    readiness: Readiness,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<std::io::Result<()>>,
}

impl Picker {
    async fn start(settings: Settings, tls: Option<Tls>, together: usize) -> Self {
        Self::watched(settings, tls, together, Patience::default()).await.0
    }

    async fn watched(settings: Settings, tls: Option<Tls>, together: usize, patience: Patience) -> (Self, Watchdog) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, events) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let desk = Desk { events: tell, together: Arc::new(Barrier::new(together)) };
        let readiness = Readiness::new();
        let watchdog = Watchdog::start(readiness.clone(), patience).unwrap();
        let running =
            tokio::spawn(envoy::run(listener, tls, desk, watchdog.clone(), settings, async { drop(stopped.await) }));
        (Self { address, events, readiness, stop: Some(stop), running }, watchdog)
    }

    async fn plain() -> Self {
        Self::start(Settings::default(), None, 1).await
    }

    async fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    async fn event(&mut self) -> &'static str {
        self.events.recv().await.unwrap()
    }

    fn stop(&mut self) {
        drop(self.stop.take());
    }
}

/// One stream from a gateway.
struct Call {
    say: mpsc::Sender<ProcessingRequest>,
    hear: Streaming<ProcessingResponse>,
}

impl Call {
    async fn open(channel: &Channel) -> Self {
        Self::open_as(ExternalProcessorClient::new(channel.clone())).await.unwrap()
    }

    async fn open_as(mut client: ExternalProcessorClient<Channel>) -> Result<Self, Status> {
        let (say, said) = mpsc::channel(4);
        let hear = client.process(ReceiverStream::new(said)).await?.into_inner();
        Ok(Self { say, hear })
    }

    async fn say(&self, words: &str) {
        let message = gateway::message(&words.split(' ').collect::<Vec<_>>(), Beside::default());
        self.say.send(message).await.unwrap();
    }

    async fn say_all(&self, lines: &[&str]) {
        for line in lines {
            self.say(line).await;
        }
    }

    /// The next answer as a script shows it; `end` for a clean end of the stream.
    async fn hear(&mut self) -> String {
        match self.hear.message().await {
            Ok(Some(reply)) => show_reply(&reply),
            Ok(None) => "end".to_owned(),
            Err(status) => format!("{:?}", status.code()),
        }
    }

    async fn hears(&mut self, answers: &[&str]) {
        for answer in answers {
            assert_eq!(self.hear().await, *answer);
        }
    }
}

const ASKED: [&str; 2] = ["headers POST /now x-request-id=r", "body hello end"];
const ANSWERED: [&str; 2] = ["headers dest=10.0.0.1:8000 reroute", "body hello end"];

#[tokio::test]
async fn a_request_and_its_response_pass() {
    let mut picker = Picker::plain().await;
    let mut call = Call::open(&picker.channel().await).await;
    call.say_all(&ASKED).await;
    call.hears(&ANSWERED).await;
    call.say_all(&["response 200", "chunk one", "chunk two end"]).await;
    call.hears(&["response", "chunk one", "chunk two end"]).await;
    assert_eq!([picker.event().await, picker.event().await], ["asked", "ticket dropped"]);
    drop(call.say);
    assert!(call.hear.message().await.unwrap().is_none());
}

#[tokio::test]
async fn a_gateway_that_has_said_all_is_still_answered() {
    let picker = Picker::plain().await;
    let Call { say, hear } = Call::open(&picker.channel().await).await;
    let mut call = Call { say: say.clone(), hear };
    call.say_all(&ASKED).await;
    drop(say);
    call.say = mpsc::channel(1).0;
    call.hears(&ANSWERED).await;
    assert_eq!(call.hear().await, "end");
}

#[tokio::test]
async fn compressed_messages_are_read() {
    let picker = Picker::plain().await;
    let client = ExternalProcessorClient::new(picker.channel().await).send_compressed(CompressionEncoding::Gzip);
    let mut call = Call::open_as(client).await.unwrap();
    call.say_all(&ASKED).await;
    call.hears(&ANSWERED).await;
}

/// A gateway that buffers keeps every byte: what can't be held here is decided without, answered, and goes on as it is.
#[tokio::test]
async fn whole_bodies_that_can_not_be_held_are_answered_unread() {
    let memory = BodyMemory::new(100_000);
    let settings = Settings { body_memory: memory.clone(), ..Settings::default() };
    let mut picker = Picker::start(settings, None, 1).await;
    let call = Call::open(&picker.channel().await).await;
    let modes = Some((gateway::mode("buffered"), gateway::mode("buffered")));
    let first =
        gateway::message(&["headers", "POST", "/unread", "x-request-id=r"], Beside { modes, ..Beside::default() });
    call.say.send(first).await.unwrap();
    let mut call = call;
    call.hears(&["headers dest=10.0.0.1:8000 reroute"]).await;
    call.say("body 300000B").await;
    call.hears(&["body dest=10.0.0.1:8000 reroute"]).await;
    call.say_all(&["trailers", "response 200", "chunk 300000B", "response-trailers"]).await;
    call.hears(&["trailers", "response", "chunk", "response-trailers"]).await;
    assert_eq!([picker.event().await, picker.event().await], ["asked", "no memory"]);
    assert_eq!(picker.event().await, "ticket dropped");
    assert_eq!(memory.held(), 0);
}

#[tokio::test]
async fn a_request_without_an_id_gets_a_uuid() {
    let picker = Picker::plain().await;
    let mut call = Call::open(&picker.channel().await).await;
    call.say("headers GET /now end").await;
    let answer = call.hear().await;
    let id = answer.split("+x-request-id=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let groups: Vec<usize> = id.split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12]);
    assert!(id[14..].starts_with('4') && "89ab".contains(&id[19..20]), "{id} is a version 4");
}

#[tokio::test]
async fn a_gateway_that_hangs_up_frees_what_was_held_at_each_phase() {
    let mut picker = Picker::plain().await;
    let channel = picker.channel().await;

    let call = Call::open(&channel).await;
    call.say_all(&["headers POST /never", "body hello end"]).await;
    assert_eq!(picker.event().await, "asked");
    drop(call);
    assert_eq!(picker.event().await, "decision dropped");

    let rounds: [(&[&str], &[&str]); 3] =
        [(&[], &[]), (&["response 200"], &["response"]), (&["response 200", "chunk one"], &["response", "chunk one"])];
    for (more, heard) in rounds {
        let mut call = Call::open(&channel).await;
        call.say_all(&ASKED).await;
        call.hears(&ANSWERED).await;
        call.say_all(more).await;
        call.hears(heard).await;
        assert_eq!(picker.event().await, "asked");
        drop(call);
        assert_eq!(picker.event().await, "ticket dropped");
    }

    // Before the decision nothing was held, so that nothing is told: the next event is the next request's.
    for begun in [&["headers POST /now"][..], &["headers POST /now", "body hel"]] {
        let call = Call::open(&channel).await;
        call.say_all(begun).await;
        drop(call);
    }
    let mut call = Call::open(&channel).await;
    call.say("headers GET /refused end").await;
    assert_eq!(picker.event().await, "asked");
    assert!(call.hear().await.starts_with("immediate 429"));
    assert_eq!(call.hear().await, "end");
}

#[tokio::test]
async fn a_decision_that_breaks_ends_its_own_stream_with_an_error() {
    let picker = Picker::plain().await;
    let channel = picker.channel().await;
    let mut broken = Call::open(&channel).await;
    broken.say("headers GET /broken end").await;
    assert_eq!(broken.hear().await, "Internal");
    let mut call = Call::open(&channel).await;
    call.say_all(&ASKED).await;
    call.hears(&ANSWERED).await;
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_with_413() {
    let settings = Settings { limits: Limits { max_body: 1000 }, ..Settings::default() };
    let mut picker = Picker::start(settings, None, 1).await;
    let channel = picker.channel().await;
    for size in ["1001B", "2000000B"] {
        let mut call = Call::open(&channel).await;
        call.say_all(&["headers POST /now", &format!("body {size} end")]).await;
        call.hears(&["immediate 413 +content-type=application/json", "end"]).await;
        assert_eq!(picker.event().await, "too_large");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_thousand_streams_on_one_connection_are_under_way_at_once() {
    const STREAMS: usize = 3_000;
    let picker = Picker::start(Settings::default(), None, STREAMS).await;
    let channel = picker.channel().await;
    let mut calls = Vec::new();
    for _ in 0..STREAMS {
        let call = Call::open(&channel).await;
        // None is decided before all are asked.
        call.say("headers GET /together end x-request-id=r").await;
        calls.push(call);
    }
    for call in &mut calls {
        call.hears(&["headers dest=10.0.0.1:8000 reroute"]).await;
    }
}

#[tokio::test]
async fn a_stream_that_its_gateway_does_not_read_holds_up_no_other() {
    let picker = Picker::plain().await;
    let channel = picker.channel().await;
    let mut unread = Call::open(&channel).await;
    unread.say_all(&ASKED).await;
    unread.hears(&ANSWERED).await;
    unread.say("response 200").await;
    // More than all windows and queues of this stream take, so that this ends only with the stream.
    let say = unread.say.clone();
    let pushing = tokio::spawn(async move {
        for _ in 0..1_000 {
            let chunk = gateway::message(&["chunk", "60000B"], Beside::default());
            if say.send(chunk).await.is_err() {
                break;
            }
        }
    });
    for _ in 0..20 {
        let mut call = Call::open(&channel).await;
        call.say_all(&["headers POST /now x-request-id=r", "body 400000B end"]).await;
        assert_eq!(call.hear().await, ANSWERED[0]);
        for _ in 0..6 {
            assert_eq!(call.hear().await, "body 62000B");
        }
        assert_eq!(call.hear().await, "body 28000B end");
    }
    assert!(!pushing.is_finished());
    pushing.abort();
}

#[tokio::test]
async fn a_drain_takes_nothing_new_and_lets_what_runs_end() {
    let mut picker = Picker::plain().await;
    picker.readiness.set(State::Ready);
    let channel = picker.channel().await;
    let mut call = Call::open(&channel).await;
    call.say_all(&ASKED).await;
    call.hears(&ANSWERED).await;
    picker.stop();
    until_refused(picker.address).await;
    call.say_all(&["response 200", "chunk one end"]).await;
    call.hears(&["response", "chunk one end"]).await;
    drop(call.say);
    picker.running.await.unwrap().unwrap();
}

#[tokio::test]
async fn when_the_drain_window_ends_what_is_unanswered_is_refused_and_the_rest_left_to_the_gateway() {
    let settings = Settings { drain: Duration::ZERO, ..Settings::default() };
    let mut picker = Picker::start(settings, None, 1).await;
    let channel = picker.channel().await;
    let mut answered = Call::open(&channel).await;
    answered.say_all(&ASKED).await;
    answered.hears(&ANSWERED).await;
    let mut deciding = Call::open(&channel).await;
    deciding.say("headers GET /never end").await;
    assert_eq!([picker.event().await, picker.event().await], ["asked", "asked"]);
    picker.stop();
    assert_eq!(answered.hear().await, "end");
    let refused = "immediate 503 +content-type=application/json +x-llm-d-request-dropped-reason=rejected-shutting-down";
    deciding.hears(&[refused, "end"]).await;
    picker.running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_given_certificate_is_shown_and_can_be_replaced() {
    let (first, second) = (certificate(), certificate());
    let tls = Tls::from_pem(first.0.as_bytes(), first.1.as_bytes(), &Terms::default()).unwrap();
    let picker = Picker::start(Settings::default(), Some(tls.clone()), 1).await;

    let before = trusting(&picker, &first.0).await.unwrap();
    let mut running = Call::open(&before).await;
    running.say_all(&ASKED).await;
    running.hears(&ANSWERED).await;

    tls.replace(second.0.as_bytes(), second.1.as_bytes()).unwrap();
    // Streams that run and connections that stand are none the wiser.
    running.say_all(&["response 200", "chunk one end"]).await;
    running.hears(&["response", "chunk one end"]).await;
    let mut call = Call::open(&before).await;
    call.say_all(&ASKED).await;
    call.hears(&ANSWERED).await;
    assert!(trusting(&picker, &first.0).await.is_err());
    let mut call = Call::open(&trusting(&picker, &second.0).await.unwrap()).await;
    call.say_all(&ASKED).await;
    call.hears(&ANSWERED).await;

    // What can't be used changes nothing, and says what is wrong.
    let mixed = tls.replace(first.0.as_bytes(), second.1.as_bytes()).unwrap_err();
    assert!(mixed.to_string().starts_with("certificate and key don't go together"), "{mixed}");
    let empty = tls.replace(b"", second.1.as_bytes()).unwrap_err();
    assert_eq!(empty.to_string(), "certificate chain: no certificate in it");
    assert!(trusting(&picker, &second.0).await.is_ok());
}

/// A client that trusts this certificate; tonic's client takes nothing but h2 by ALPN.
async fn trusting(picker: &Picker, pem: &str) -> Result<Channel, tonic::transport::Error> {
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)).domain_name("localhost");
    let endpoint = Endpoint::from_shared(format!("https://{}", picker.address)).unwrap();
    endpoint.tls_config(tls).unwrap().connect().await
}

fn certificate() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[tokio::test]
async fn a_certificate_of_our_own_and_a_slow_handshake_beside_it() {
    let tls = Tls::self_signed(&Terms::default()).unwrap();
    let picker = Picker::start(Settings::default(), Some(tls), 1).await;
    // It never says a word, and holds nobody up.
    let _silent = TcpStream::connect(picker.address).await.unwrap();
    let stream = TcpStream::connect(picker.address).await.unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    let name = rustls::pki_types::ServerName::try_from("picker").unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
}

/// Verifies nothing, as gateways do with a picker.
#[derive(Debug)]
struct Anyone;

impl rustls::client::danger::ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Waits until nobody listens there any more.
async fn until_refused(address: SocketAddr) {
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stream_after_the_shutdown_is_not_taken() {
    let settings = Settings { drain: Duration::ZERO, ..Settings::default() };
    let mut picker = Picker::start(settings, None, 1).await;
    let channel = picker.channel().await;
    picker.stop();
    until_refused(picker.address).await;
    (&mut picker.running).await.unwrap().unwrap();
    // How the client says it depends on whether it has heard of the connection's end yet.
    assert!(Call::open_as(ExternalProcessorClient::new(channel)).await.is_err());
    assert_eq!(picker.events.recv().await, None, "nothing was asked");
}

#[tokio::test]
async fn a_body_that_stops_coming_is_not_waited_for() {
    let settings = Settings { body_stall: Duration::from_millis(20), ..Settings::default() };
    let mut picker = Picker::start(settings, None, 1).await;
    let mut call = Call::open(&picker.channel().await).await;
    call.say_all(&["headers POST /now x-request-id=r", "body hel"]).await;
    call.hears(&[ANSWERED[0], "body hel"]).await;
    assert_eq!([picker.event().await, picker.event().await], ["asked", "stalled"]);
    call.say("body lo end").await;
    call.hears(&["body lo end"]).await;
}

#[tokio::test]
async fn when_bodies_have_no_memory_left_requests_still_pass_whole() {
    let body_memory = BodyMemory::new(100_000);
    let settings = Settings { body_memory: body_memory.clone(), ..Settings::default() };
    let mut picker = Picker::start(settings, None, 1).await;
    let channel = picker.channel().await;
    let mut held = Call::open(&channel).await;
    held.say_all(&["headers POST /now x-request-id=r", "body 90000B"]).await;
    while body_memory.held() < 90_000 {
        tokio::task::yield_now().await;
    }
    let mut call = Call::open(&channel).await;
    call.say_all(&["headers POST /now x-request-id=r content-length=120000", "body 60000B", "body 60000B end"]).await;
    call.hears(&[ANSWERED[0], "body 60000B", "body 60000B end"]).await;
    held.say("body - end").await;
    held.hears(&[ANSWERED[0], "body 62000B", "body 28000B end"]).await;
    drop((held, call));
    let mut dropped = 0;
    while dropped < 2 {
        dropped += usize::from(picker.event().await == "ticket dropped");
    }
    while body_memory.held() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_gateway_that_takes_no_answers_loses_its_stream() {
    let settings = Settings { untaken: Duration::from_millis(50), ..Settings::default() };
    let mut picker = Picker::start(settings, None, 1).await;
    let mut call = Call::open(&picker.channel().await).await;
    call.say_all(&ASKED).await;
    call.hears(&ANSWERED).await;
    let say = call.say.clone();
    let pushing = tokio::spawn(async move {
        loop {
            if say.send(gateway::message(&["chunk", "60000B"], Beside::default())).await.is_err() {
                break;
            }
        }
    });
    let events = [picker.event().await, picker.event().await, picker.event().await];
    assert_eq!(events, ["asked", "ticket dropped", "untaken"]);
    let end = loop {
        match call.hear().await {
            answer if answer.starts_with("chunk") => {}
            end => break end,
        }
    };
    assert_eq!(end, "DeadlineExceeded");
    pushing.abort();
}

#[tokio::test]
async fn a_request_that_is_decided_while_draining_is_left_together_with_its_answers() {
    let mut picker = Picker::plain().await;
    let mut call = Call::open(&picker.channel().await).await;
    call.say_all(&["headers POST /now x-request-id=r", "body hel"]).await;
    // Taken, since another stream of the same connection is answered after it.
    let mut other = Call::open(&picker.channel().await).await;
    other.say_all(&ASKED).await;
    other.hears(&ANSWERED).await;
    picker.stop();
    until_refused(picker.address).await;
    call.say("body lo end").await;
    call.hears(&ANSWERED).await;
    assert_eq!(call.hear().await, "end");
    other.say("response 204 end").await;
    other.hears(&["response", "end"]).await;
    picker.running.await.unwrap().unwrap();
}

#[test]
fn a_stuck_runtime_is_not_serving_and_its_gateways_are_let_go_of_until_it_goes_on() {
    let serving = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let asking = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let patience = Patience { stuck_after: Duration::from_millis(300), dead_after: Duration::from_millis(900) };
    let (picker, watchdog) = serving.block_on(Picker::watched(Settings::default(), None, 1, patience));
    let (health, _stop) = serving.block_on(health_port(watchdog.clone()));
    picker.readiness.set(State::Ready);

    asking.block_on(async {
        let mut probe = HealthClient::new(plain(health).await);
        until(&mut probe, "", ServingStatus::Serving).await;
        let mut call = Call::open(&picker.channel().await).await;
        call.say_all(&ASKED).await;
        call.hears(&ANSWERED).await;

        let (release, held) = std::sync::mpsc::channel::<()>();
        serving.spawn(async move { held.recv() });
        until(&mut probe, "", ServingStatus::NotServing).await;
        until(&mut probe, "liveness", ServingStatus::NotServing).await;
        assert!(watchdog.is_stuck());
        assert_ne!(call.hear().await, "end", "a clean end would tell its gateway that all is well");
        let mut late = TcpStream::connect(picker.address).await.unwrap();
        assert!(matches!(late.read(&mut [0; 1]).await, Ok(0) | Err(_)));

        drop(release);
        until(&mut probe, "liveness", ServingStatus::Serving).await;
        until(&mut probe, "", ServingStatus::Serving).await;
        let mut call = Call::open(&picker.channel().await).await;
        call.say_all(&ASKED).await;
        call.hears(&ANSWERED).await;
        assert!(watchdog.times_stuck() >= 1);
    });
}

async fn health_port(watchdog: Watchdog) -> (SocketAddr, oneshot::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(envoy::run_health(listener, watchdog, async { drop(stopped.await) }));
    (address, stop)
}

async fn plain(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

async fn until(probe: &mut HealthClient<Channel>, service: &str, status: ServingStatus) {
    let ask = || HealthCheckRequest { service: service.to_owned() };
    while probe.check(ask()).await.unwrap().into_inner().status() != status {
        tokio::task::yield_now().await;
    }
}
