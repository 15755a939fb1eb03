//! One arm's turn. In: a port, a concurrency and a time; out: how long each request took. Clients ask in a closed loop: each
//! over a connection of its own that stays, the next request when the last one's answer is there.

use std::io::{BufReader, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::json;

use super::MODEL;
use crate::draw::Draw;
use crate::http::{read_body, read_head};

/// What stands in the way of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// Envoy alone.
    Alone,
    /// Envoy, and an ext_proc server that does nothing.
    NoOp,
    /// Envoy and Warmpath.
    Warmpath,
}

impl Arm {
    /// All, the plainest first.
    pub(crate) const ALL: [Arm; 3] = [Arm::Alone, Arm::NoOp, Arm::Warmpath];

    /// As it is written in tables and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arm::Alone => "envoy",
            Arm::NoOp => "no_op",
            Arm::Warmpath => "warmpath",
        }
    }
}

/// A turn to be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    /// The arm's port.
    pub(crate) port: u16,
    /// Clients.
    pub(crate) concurrency: usize,
    /// For how long.
    pub(crate) long: Duration,
    /// Bytes of a body's text.
    pub(crate) bytes: usize,
    /// Seed of the texts.
    pub(crate) seed: u64,
}

/// A turn that was taken.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// How long each request took.
    pub(crate) took: Vec<Duration>,
    /// How long the turn lasted.
    pub(crate) long: Duration,
}

impl Slice {
    /// Takes it; an error where a request isn't answered with 200.
    pub(crate) fn run(self) -> Result<Turn> {
        let start = Instant::now();
        let took = thread::scope(|scope| {
            let clients: Vec<_> =
                (0..self.concurrency).map(|client| scope.spawn(move || self.ask_on(client, start))).collect();
            let mut took = Vec::new();
            for client in clients {
                took.extend(client.join().map_err(|_| anyhow!("a client's thread failed"))??);
            }
            anyhow::Ok(took)
        })?;
        Ok(Turn { took, long: start.elapsed() })
    }

    fn ask_on(self, client: usize, start: Instant) -> Result<Vec<Duration>> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut reader = BufReader::new(&stream);
        // No two clients or rounds ask the same; the arms do.
        let mut draw = Draw::new(self.seed, client as u64 + 1);
        let mut took = Vec::new();
        while start.elapsed() < self.long {
            let request = request(&mut draw, self.bytes);
            let asked = Instant::now();
            (&stream).write_all(&request)?;
            let head = read_head(&mut reader).context("no answer")?;
            read_body(&mut reader, &head, usize::MAX)?;
            took.push(asked.elapsed());
            ensure!(head.status == 200, "a request was answered with {}", head.status);
        }
        Ok(took)
    }
}

/// A chat: three quarters of it one of twelve shared beginnings.
fn request(draw: &mut Draw, bytes: usize) -> Vec<u8> {
    let shared = Draw::new(draw.below(12), 0).words(bytes * 3 / 4);
    let question = draw.words(bytes / 4);
    let messages = json!([{"role": "system", "content": shared}, {"role": "user", "content": question}]);
    let body = json!({"model": MODEL, "max_tokens": 16, "messages": messages}).to_string();
    let length = body.len();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: latency\r\ncontent-type: application/json\r\n";
    format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
}
