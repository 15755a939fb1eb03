//! What stands behind Envoy when latency is measured: a server that answers any request at once with the same small chat
//! completion, and shows an idle vLLM's metrics, so that a picker can read it. In: ports; out: answers, on a thread a
//! connection, for as long as the process lives.

use std::io::{self, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use anyhow::{Context, Result};

use crate::http::read_request;

/// Serves at this port of this machine.
pub(crate) fn start(port: u16) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| format!("port {port}"))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A connection that breaks ends its thread, and nothing else.
            thread::spawn(move || drop(serve(&stream)));
        }
    });
    Ok(())
}

fn serve(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(64 << 10, stream);
    let mut writer = stream;
    while let Some((path, _)) = read_request(&mut reader)? {
        let (kind, body) = match path.as_str() {
            "/metrics" => ("text/plain; version=0.0.4; charset=utf-8", METRICS),
            _ => ("application/json", COMPLETION),
        };
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        writer.write_all(answer.as_bytes())?;
    }
    Ok(())
}

/// A chat completion, its `usage` as vLLM writes it.
const COMPLETION: &str = "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"qwen3\",\"choices\":[{\"index\":0,\
    \"message\":{\"role\":\"assistant\",\"content\":\"Hello.\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":400,\
    \"total_tokens\":403,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":320}}}";

/// An idle vLLM's page, cut down to what pickers read (names and labels as vLLM 0.32 prints them).
const METRICS: &str = include_str!("../../../../tests/fixtures/idle_vllm.txt");
