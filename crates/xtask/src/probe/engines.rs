//! Engines that only show metrics: in, a GET; out, an idle vLLM's page. The probe's streams are answered by the gateway
//! that it plays itself, so that nothing else is asked of an engine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use anyhow::{Context as _, Result};

/// Starts that many; gives their ports. They are gone with the process.
pub(crate) fn start(count: u16) -> Result<Vec<u16>> {
    let mut ports = Vec::new();
    for _ in 0..count {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on 127.0.0.1")?;
        ports.push(listener.local_addr()?.port());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(&stream));
            }
        });
    }
    Ok(ports)
}

/// One connection, page after page, until the picker lets go of it.
fn serve(stream: &TcpStream) {
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        if line.is_empty() && show(stream).is_err() {
            return;
        }
    }
}

fn show(mut stream: &TcpStream) -> std::io::Result<()> {
    let length = PAGE.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {length}\r\n\r\n{PAGE}"
    )
}

/// An idle vLLM's page, cut down to what pickers read (names and labels as vLLM 0.32 prints them).
const PAGE: &str = "\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine=\"0\",model_name=\"qwen3\"} 0.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine=\"0\",model_name=\"qwen3\"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"qwen3\"} 0.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"True\",engine=\"0\",num_gpu_blocks=\"31250\"} 1.0
";
