//! The scraper against small real servers on loopback.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::{Dialects, Event, Pace, Reason, Scraper, Target, Tls, Trouble};
use fleet::{EndpointId, Fleet, Member, Standing};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const PAGE: &str = "vllm:num_requests_waiting 5\nvllm:num_requests_running 3\nvllm:kv_cache_usage_perc 0.25\n";

fn ok(page: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{page}", page.len()).into_bytes()
}

/// A server that answers its n-th request with `answer(n)`, and how many connections and requests it has had.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    /// What the last request said.
    asked: Arc<Mutex<String>>,
}

async fn server(answer: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server { address, connections: Arc::default(), requests: Arc::default(), asked: Arc::default() };
    let (connections, requests, asked) =
        (Arc::clone(&server.connections), Arc::clone(&server.requests), Arc::clone(&server.asked));
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(serve(stream, Arc::clone(&answer), Arc::clone(&requests), Arc::clone(&asked)));
        }
    });
    server
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: Arc<impl Fn(usize) -> Vec<u8>>,
    requests: Arc<AtomicUsize>,
    asked: Arc<Mutex<String>>,
) {
    let mut buffer = Vec::new();
    while stream.read_buf(&mut buffer).await.is_ok_and(|n| n > 0) {
        if buffer.ends_with(b"\r\n\r\n") {
            *asked.lock().unwrap() = String::from_utf8_lossy(&buffer).to_ascii_lowercase();
            buffer.clear();
            let answer = answer(requests.fetch_add(1, Ordering::SeqCst));
            if stream.write_all(&answer).await.is_err() {
                return;
            }
        }
    }
}

/// A scraper at work on endpoints at these addresses; `e0` is the first. Ends when dropped.
struct Work {
    fleet: Arc<Fleet>,
    events: UnboundedReceiver<Event>,
    run: tokio::task::JoinHandle<()>,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.run.abort();
    }
}

fn members(addresses: &[SocketAddr]) -> Vec<Member> {
    addresses.iter().enumerate().map(|(at, address)| Member::new(format!("e{at}"), *address)).collect()
}

fn work(addresses: &[SocketAddr], target: Target, pace: Pace) -> Work {
    let fleet = Arc::new(Fleet::new());
    fleet.replace(members(addresses));
    let (tell, events) = unbounded_channel();
    let tell = move |event: Event| {
        event.log();
        let _ = tell.send(event);
    };
    let scraper = Scraper::new(Arc::clone(&fleet), Dialects::default(), target, pace, tell).unwrap();
    Work { fleet, events, run: tokio::spawn(scraper.run()) }
}

/// A pace that never waits long.
fn quick(timeout: Duration) -> Pace {
    Pace { interval: Duration::from_millis(1), idle_interval: Duration::from_millis(1), timeout }
}

const SOON: Duration = Duration::from_secs(2);
const NEVER: Duration = Duration::from_secs(3600);

impl Work {
    async fn next(&mut self) -> Event {
        self.events.recv().await.expect("the scraper is at work")
    }

    /// The first failure of every endpoint, by name.
    async fn failures(&mut self, count: usize) -> HashMap<String, Reason> {
        let mut reasons = HashMap::new();
        while reasons.len() < count {
            if let Event::Failed { endpoint, reason, .. } = self.next().await {
                reasons.entry(endpoint.member.name.clone()).or_insert(reason);
            }
        }
        reasons
    }

    /// Waits for that many readings of an endpoint.
    async fn readings(&mut self, name: &str, count: usize) {
        let mut seen = 0;
        while seen < count {
            if let Event::Read { endpoint, .. } = self.next().await {
                seen += usize::from(endpoint.member.name == name);
            }
        }
    }
}

#[tokio::test]
async fn what_a_page_says_is_in_the_fleet() {
    let engine = server(|_| ok(PAGE)).await;
    let mut work = work(&[engine.address], Target::default(), Pace::default());
    let Event::Read { read, say, .. } = work.next().await else { panic!("it can be read") };
    assert!(read.recovered && say && !read.restarted);
    let view = work.fleet.view();
    let reading = &view.endpoints()[0].reading;
    let load = reading.load.as_ref().unwrap();
    assert_eq!((load.waiting, load.running, load.kv_usage), (Some(5.0), Some(3.0), Some(0.25)));
    assert_eq!(reading.standing(load.seen_at, Duration::from_secs(2)), Standing::Fresh);
    let asked = engine.asked.lock().unwrap().clone();
    assert!(asked.starts_with("get /metrics http/1.1\r\n"), "{asked}");
    assert!(!asked.contains("accept-encoding"), "{asked}");
}

#[tokio::test]
async fn answers_that_are_no_metrics_fail_and_delay_nobody() {
    let html = "<html>";
    let not_found = format!("HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n{html}");
    let not_found = server(move |_| not_found.clone().into_bytes()).await;
    let refused = server(|_| b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n".to_vec()).await;
    let gzip = server(|_| {
        let mut answer = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n".to_vec();
        answer.extend([0x1f, 0x8b, 8, 0]);
        answer
    })
    .await;
    let empty = server(|_| ok("")).await;
    let endless = server(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nvllm:num".to_vec()).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let moved = "HTTP/1.1 301 Moved\r\nlocation: http://127.0.0.1:1/metrics\r\ncontent-length: 0\r\n\r\n";
    let moved = server(|_| moved.as_bytes().to_vec()).await;
    let html_ok = server(|_| ok("<html>welcome</html>")).await;
    let good = server(|_| ok(PAGE)).await;
    let addresses = [
        not_found.address,
        refused.address,
        gzip.address,
        empty.address,
        endless.address,
        closed,
        moved.address,
        html_ok.address,
        good.address,
    ];

    let mut work = work(&addresses, Target::default(), quick(SOON));
    let mut failed = work.failures(8).await;
    let mut kind = |name: &str| failed.remove(name).map(|reason| format!("{} {reason}", reason.as_str())).unwrap();
    assert_eq!(kind("e0"), "status it answered 404");
    assert_eq!(kind("e1"), "status it answered 401");
    assert_eq!(kind("e2"), "compressed it answered in \"gzip\", unasked");
    assert_eq!(kind("e3"), "not_metrics the page has no metrics of vllm: is the engine type right?");
    assert_eq!(kind("e4"), "timeout no whole answer in time");
    assert!(kind("e5").starts_with("connect no connection: "));
    assert_eq!(kind("e6"), "redirect it redirects to \"http://127.0.0.1:1/metrics\", which isn't followed");
    assert_eq!(kind("e7"), "not_metrics the page has no metrics of vllm: is the engine type right?");
    assert!(failed.is_empty(), "the good one never failed");
    let view = work.fleet.view();
    let standing = |id| view.get(EndpointId(id)).unwrap().reading.standing(Instant::now(), NEVER);
    assert!((0..8).all(|id| standing(id) == Standing::Failed));
    assert_eq!(standing(8), Standing::Fresh);
}

#[tokio::test]
async fn an_endpoint_that_never_answers_delays_no_other() {
    let stuck = server(|_| Vec::new()).await;
    let good = server(|_| ok(PAGE)).await;
    let mut work = work(&[stuck.address, good.address], Target::default(), quick(NEVER));
    work.readings("e1", 5).await;
    assert_eq!(stuck.requests.load(Ordering::SeqCst), 1, "one reading at a time");
}

#[tokio::test]
async fn a_page_larger_than_the_bound_is_not_read() {
    let large = server(|_| ok(&"# x\n".repeat(1_100_000))).await;
    let chunked = server(|_| {
        let chunk = "# x\n".repeat(1_100_000);
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{chunk}\r\n0\r\n\r\n", chunk.len()).into()
    })
    .await;
    let within = server(|_| ok(&format!("{}{PAGE}", "# x\n".repeat(500_000)))).await;
    let addresses = [large.address, chunked.address, within.address];
    let mut work = work(&addresses, Target::default(), quick(NEVER));
    let failed = work.failures(2).await;
    assert_eq!((failed.get("e0"), failed.get("e1")), (Some(&Reason::TooLarge), Some(&Reason::TooLarge)));
    work.readings("e2", 1).await;
}

#[tokio::test]
async fn values_are_kept_while_readings_fail_and_come_back() {
    let engine =
        server(|n| if n == 1 { b"HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n".to_vec() } else { ok(PAGE) }).await;
    let mut work = work(&[engine.address], Target::default(), quick(NEVER));
    assert!(matches!(work.next().await, Event::Read { read, .. } if read.recovered));
    let Event::Failed { first, say, .. } = work.next().await else { panic!("the second fails") };
    assert!(first && say);
    let load = work.fleet.view().endpoints()[0].reading.load.clone().unwrap();
    assert_eq!(load.waiting, Some(5.0), "the last good reading is kept");
    assert!(matches!(work.next().await, Event::Read { read, .. } if read.recovered));
    assert!(matches!(work.next().await, Event::Read { read, say: false, .. } if !read.recovered));
}

#[tokio::test]
async fn an_endpoint_that_comes_and_goes_has_two_log_lines_a_minute() {
    let engine =
        server(|n| if n % 2 == 0 { b"HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n".to_vec() } else { ok(PAGE) }).await;
    let mut work = work(&[engine.address], Target::default(), quick(NEVER));
    let mut said = 0;
    for _ in 0..12 {
        match work.next().await {
            Event::Read { say, .. } | Event::Failed { say, .. } => said += usize::from(say),
            Event::Warning { .. } => {}
        }
    }
    assert_eq!(said, 2);
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let engine = server(|_| ok(PAGE)).await;
    let mut work = work(&[engine.address], Target::default(), quick(NEVER));
    work.readings("e0", 5).await;
    assert_eq!(engine.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_booking_wakes_the_readings_of_an_idle_fleet() {
    let engine = server(|_| ok(PAGE)).await;
    let pace = Pace { interval: Duration::from_millis(1), idle_interval: NEVER, timeout: NEVER };
    let mut work = work(&[engine.address], Target::default(), pace);
    work.readings("e0", 1).await;
    let booking = work.fleet.view().endpoints()[0].book(0, Instant::now());
    work.readings("e0", 2).await;
    let unseen = |work: &Work| work.fleet.view().endpoints()[0].books.unseen();
    assert_eq!(unseen(&work), 0, "a reading begun after the booking has seen it");
    drop(booking);
}

#[tokio::test]
async fn who_joins_is_read_and_who_leaves_is_not() {
    let (old, new) = (server(|_| ok(PAGE)).await, server(|_| ok(PAGE)).await);
    let mut work = work(&[old.address], Target::default(), quick(NEVER));
    work.readings("e0", 1).await;
    work.fleet.replace(vec![Member::new("new", new.address)]);
    work.readings("new", 3).await;
    while let Ok(event) = work.events.try_recv() {
        assert!(matches!(event, Event::Read { endpoint, .. } if endpoint.member.name == "new"));
    }
}

#[tokio::test]
async fn a_restart_is_reported() {
    let engine = server(|n| ok(&format!("{PAGE}vllm:prompt_tokens_total {}\n", [5, 9, 2, 3][n.min(3)]))).await;
    let mut work = work(&[engine.address], Target::default(), quick(NEVER));
    let mut restarted = Vec::new();
    for _ in 0..4 {
        let Event::Read { read, .. } = work.next().await else { panic!("all can be read") };
        restarted.push(read.restarted);
    }
    assert_eq!(restarted, [false, false, true, false]);
}

#[tokio::test]
async fn a_page_without_kv_use_is_warned_of_once() {
    let engine =
        server(|_| ok("vllm:num_requests_waiting 5\nvllm:cache_config_info{enable_prefix_caching=\"False\"} 1\n"))
            .await;
    let silent = server(|_| ok("# TYPE vllm:num_requests_waiting gauge\n")).await;
    let mut work = work(&[engine.address, silent.address], Target::default(), quick(NEVER));
    let mut troubles = Vec::new();
    let mut readings = 0;
    while readings < 8 {
        match work.next().await {
            Event::Warning { endpoint, trouble } => troubles.push((endpoint.member.name.clone(), trouble)),
            Event::Read { .. } => readings += 1,
            Event::Failed { reason, .. } => panic!("{reason}"),
        }
    }
    let of_first = |trouble| ("e0".to_string(), trouble);
    assert_eq!(troubles, [of_first(Trouble::NoKvUsage), of_first(Trouble::PrefixCachingOff)]);
}

#[tokio::test]
async fn port_path_and_dialect_are_as_configured() {
    let page = "sglang:num_queue_reqs 4\n";
    let engine = server(move |_| ok(page)).await;
    let target = Target { path: Some("/m?x=1".into()), port: Some(engine.address.port()), ..Target::default() };
    let fleet = Arc::new(Fleet::new());
    let mut member = Member::new("e0", ([127, 0, 0, 1], 9).into());
    member.labels.insert("llm-d.ai/engine-type".into(), "sglang".into());
    fleet.replace(vec![member]);
    let (tell, mut events) = unbounded_channel();
    let tell = move |event: Event| {
        let _ = tell.send(event);
    };
    let scraper = Scraper::new(Arc::clone(&fleet), Dialects::default(), target, Pace::default(), tell).unwrap();
    let run = tokio::spawn(scraper.run());
    assert!(matches!(events.recv().await, Some(Event::Read { .. })));
    assert_eq!(fleet.view().endpoints()[0].reading.load.as_ref().unwrap().waiting, Some(4.0));
    assert!(engine.asked.lock().unwrap().starts_with("get /m?x=1 http/1.1\r\n"));
    run.abort();
}

/// A TLS server with a certificate of its own, and that certificate as PEM.
async fn tls_server() -> (SocketAddr, String) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream, Arc::new(|_| ok(PAGE)), Arc::default(), Arc::default()).await;
                }
            });
        }
    });
    (address, made.cert.pem())
}

#[tokio::test]
async fn tls_takes_any_certificate_or_only_signed_ones() {
    let (address, certificate) = tls_server().await;
    let (_, other) = tls_server().await;
    let folder = std::env::temp_dir().join(format!("engine-tls-{}-{}", std::process::id(), address.port()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let https = |tls: Tls| Target { https: true, tls, ..Target::default() };
    let signed_by = |ca| https(Tls { skip_verify: false, ca: Some(ca), client: None });

    let mut any = work(&[address], https(Tls::default()), quick(NEVER));
    any.readings("e0", 1).await;
    let mut signed = work(&[address], signed_by(file("ca.pem", &certificate)), quick(NEVER));
    signed.readings("e0", 1).await;
    let mut unsigned = work(&[address], signed_by(file("other.pem", &other)), quick(NEVER));
    assert_eq!(unsigned.failures(1).await["e0"].as_str(), "connect");

    let error = |target| {
        Scraper::new(Arc::default(), Dialects::default(), target, Pace::default(), |_| {}).err().unwrap().to_string()
    };
    assert!(error(signed_by(folder.join("none.pem"))).contains("none.pem can't be read"));
    assert!(error(signed_by(file("empty.pem", ""))).contains("give a CA's file"));
    std::fs::remove_dir_all(&folder).unwrap();
}
