//! An engine that answers by script: it speaks HTTP and prints metrics as vLLM does, keeps what it heard, and says
//! whatever the test wants to see pass. In: requests; out: scripted bytes, cut where the script says.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::client::{Transfer, header, read_headers, read_line, transfer};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without its transfer coding.
    pub body: Vec<u8>,
}

impl Heard {
    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

/// What it says to a request.
pub enum Saying {
    /// A whole JSON body.
    Json(String),
    /// An error with a JSON body.
    Refusal(u16, String),
    /// An error in plain words, as a proxy before an engine writes it.
    Words(u16, &'static str),
    /// An event stream, each piece a chunk of its own on the wire.
    Pieces(Vec<Vec<u8>>),
    /// An event stream that goes on, a chunk whenever the gate gives a piece, until it is closed or the client is gone.
    Gated(Receiver<Vec<u8>>),
}

/// A request that waits for the test to say what the engine says; without a word, a short chat completion.
pub struct Arrival {
    /// The request.
    pub heard: Heard,
    say: Sender<Saying>,
}

impl Arrival {
    /// What the engine says.
    pub fn say(self, saying: Saying) {
        self.say.send(saying).expect("the engine waits for it");
    }
}

/// Requests in the order in which they arrive.
pub struct Arrivals(Receiver<Arrival>);

impl Arrivals {
    /// Waits for the next one.
    pub fn next(&self) -> Arrival {
        self.0.recv_timeout(Duration::from_secs(60)).expect("a request arrives at the engine")
    }
}

type Script = dyn Fn(&Heard) -> Saying + Send + Sync;

/// The engine. It is gone when dropped.
pub struct Engine {
    /// Where it listens.
    pub address: SocketAddr,
    heard: Arc<Mutex<Vec<Heard>>>,
    page: Arc<Mutex<String>>,
    closing: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

impl Engine {
    /// An engine that says a short chat completion to everything.
    pub fn plain() -> Self {
        Self::scripted(|_| Saying::Json(completion(12, None)))
    }

    /// An engine that gives out each piece when the test does; for one request.
    pub fn gated() -> (Self, Sender<Vec<u8>>) {
        let (gate, pieces) = mpsc::channel();
        let pieces = Mutex::new(Some(pieces));
        let take = move || pieces.lock().expect("no thread failed").take().expect("one request only");
        (Self::scripted(move |_| Saying::Gated(take())), gate)
    }

    /// An engine that hands requests with the header `x-led` to the test, and says to them what the test says.
    pub fn led() -> (Self, Arrivals) {
        let (tell, arrivals) = mpsc::channel();
        let engine = Self::scripted(move |heard| {
            let (say, said) = mpsc::channel();
            if heard.header("x-led").is_some() {
                // A test that is over listens no more.
                let _ = tell.send(Arrival { heard: heard.clone(), say });
                return said.recv().unwrap_or_else(|_| Saying::Json(completion(12, None)));
            }
            Saying::Json(completion(12, None))
        });
        (engine, Arrivals(arrivals))
    }

    /// An engine with a script.
    pub fn scripted(script: impl Fn(&Heard) -> Saying + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, super::program::free_port())).expect("a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let (heard, closing) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let page = Arc::new(Mutex::new(METRICS.to_owned()));
        let shared = Shared {
            heard: Arc::clone(&heard),
            page: Arc::clone(&page),
            closing: Arc::clone(&closing),
            script: Arc::new(script),
        };
        let listener = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.closing.load(Ordering::Acquire) {
                    return;
                }
                let shared = shared.clone();
                thread::spawn(move || shared.serve(&stream));
            }
        });
        Self { address, heard, page, closing, listener: Some(listener) }
    }

    /// From now on its metrics say that so many requests wait.
    pub fn set_waiting(&self, requests: u32) {
        self.set_figure("vllm:num_requests_waiting{engine=\"0\",model_name=\"qwen3\"}", requests);
    }

    /// From now on its metrics say that it started at that second.
    pub fn set_started(&self, second: u32) {
        self.set_figure("process_start_time_seconds", second);
    }

    fn set_figure(&self, series: &str, figure: u32) {
        let others = METRICS.lines().filter(|line| !line.starts_with(&format!("{series} ")));
        let page: String = others.map(|line| format!("{line}\n")).collect();
        self.set_metrics(&format!("{page}{series} {figure}.0\n"));
    }

    /// From now on that is what it shows.
    pub fn set_metrics(&self, page: &str) {
        page.clone_into(&mut self.page.lock().expect("no thread failed"));
    }

    /// What it heard, scrapes left out.
    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().expect("no thread failed").clone()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

#[derive(Clone)]
struct Shared {
    heard: Arc<Mutex<Vec<Heard>>>,
    page: Arc<Mutex<String>>,
    closing: Arc<AtomicBool>,
    script: Arc<Script>,
}

impl Shared {
    /// One connection, request after request. A peer that goes away ends it.
    fn serve(&self, stream: &TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream);
        while self.waits_for_request(stream, &mut reader) {
            let Some(heard) = read_request(&mut reader) else { return };
            let saying = match heard.path.as_str() {
                "/metrics" => None,
                _ => Some((self.script)(&heard)),
            };
            if saying.is_some() {
                self.heard.lock().expect("no thread failed").push(heard);
            }
            let mut writer = stream;
            let said = match saying {
                None => {
                    let page = self.page.lock().expect("no thread failed").clone();
                    say_whole(&mut writer, 200, "text/plain; version=0.0.4; charset=utf-8", &page)
                }
                Some(Saying::Json(json)) => say_whole(&mut writer, 200, "application/json", &json),
                Some(Saying::Refusal(status, json)) => say_whole(&mut writer, status, "application/json", &json),
                Some(Saying::Words(status, words)) => say_whole(&mut writer, status, "text/plain", words),
                Some(Saying::Pieces(pieces)) => say_pieces(&mut writer, pieces),
                Some(Saying::Gated(gate)) => say_pieces(&mut writer, gate),
            };
            if said.is_err() {
                return;
            }
        }
    }

    /// Whether a request begins; looks up now and then to see whether the engine is to go.
    fn waits_for_request(&self, stream: &TcpStream, reader: &mut BufReader<&TcpStream>) -> bool {
        let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
        loop {
            if self.closing.load(Ordering::Acquire) {
                return false;
            }
            match std::io::BufRead::fill_buf(reader) {
                Ok(bytes) => {
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
                    return !bytes.is_empty();
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return false,
            }
        }
    }
}

fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<Heard> {
    let line = read_line(reader)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let headers = read_headers(reader);
    let body = match transfer(&headers) {
        Transfer::Length(length) => {
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            body
        }
        Transfer::Chunked => read_chunks(reader)?,
    };
    Some(Heard { method, path, headers, body })
}

fn read_chunks(reader: &mut BufReader<&TcpStream>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let length = usize::from_str_radix(read_line(reader)?.trim(), 16).ok()?;
        let start = body.len();
        body.resize(start + length, 0);
        reader.read_exact(&mut body[start..]).ok()?;
        if length == 0 {
            // Trailers, if there are any, and an empty line.
            read_headers(reader);
            return Some(body);
        }
        read_line(reader)?;
    }
}

fn say_whole(writer: &mut impl Write, status: u16, content_type: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    write!(writer, "HTTP/1.1 {status} .\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn say_pieces(writer: &mut impl Write, pieces: impl IntoIterator<Item = Vec<u8>>) -> std::io::Result<()> {
    writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
    for piece in pieces {
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend(piece);
        chunk.extend(b"\r\n");
        writer.write_all(&chunk)?;
        writer.flush()?;
    }
    writer.write_all(b"0\r\n\r\n")
}

/// A chat completion, its `usage` as vLLM writes it.
pub fn completion(prompt_tokens: u64, cached_tokens: Option<u64>) -> String {
    let details = cached_tokens.map_or_else(|| "null".to_owned(), |cached| format!("{{\"cached_tokens\":{cached}}}"));
    format!(
        "{{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"qwen3\",\"choices\":[{{\"index\":0,\
         \"message\":{{\"role\":\"assistant\",\"content\":\"Hello.\"}},\"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":\
         {prompt_tokens},\"total_tokens\":{},\"completion_tokens\":3,\"prompt_tokens_details\":{details}}}}}",
        prompt_tokens + 3
    )
}

/// An idle vLLM's page, cut down to what pickers read (names and labels as vLLM 0.32 prints them).
const METRICS: &str = include_str!("../fixtures/idle_vllm.txt");
