//! A plain HTTP/1.1 client over one connection: in, a request; out, status, headers and the body's bytes as they
//! came. It can stop reading, or go away, at any byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without its transfer coding.
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

/// What came of a request, whatever it was.
#[derive(Debug)]
pub struct Outcome {
    /// The status; none where the connection ended before it.
    pub status: Option<u16>,
    /// The body as far as it came.
    pub body: Vec<u8>,
    /// Whether the body came to the end that the headers announce.
    pub whole: bool,
}

/// One connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects to a port on this machine.
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the port accepts connections");
        stream.set_nodelay(true).expect("an option of a socket");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("an option of a socket");
        Self { stream: BufReader::new(stream) }
    }

    /// Sends a request and reads its whole answer.
    pub fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.send(method, path, headers, body);
        let mut reply = self.head();
        reply.body = match transfer(&reply.headers) {
            Transfer::Length(length) => self.exactly(length),
            Transfer::Chunked => std::iter::from_fn(|| self.chunk()).flatten().collect(),
        };
        reply
    }

    /// Sends a request and reads nothing.
    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        self.send_head(method, path, headers, body.len());
        self.write(body);
    }

    /// Sends a request's head alone, of a body that is to be so long.
    pub fn send_head(&mut self, method: &str, path: &str, headers: &[(&str, &str)], length: usize) {
        let host = if headers.iter().any(|(name, _)| *name == "host") { "" } else { "host: test\r\n" };
        let mut head = format!("{method} {path} HTTP/1.1\r\n{host}");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if method != "GET" {
            head += &format!("content-length: {length}\r\n");
        }
        self.write((head + "\r\n").as_bytes());
    }

    /// Sends bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("bytes can be sent");
    }

    /// Sends bytes to a server that may have hung up.
    pub fn try_write(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// Reads an answer's head; the body stays empty.
    pub fn head(&mut self) -> Reply {
        let line = self.line();
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status in `{line}`"));
        Reply { status, headers: read_headers(&mut self.stream), body: Vec::new() }
    }

    /// Whether anything has come that wasn't read.
    pub fn has_something(&mut self) -> bool {
        self.stream.get_ref().set_nonblocking(true).expect("an option of a socket");
        let came = self.stream.fill_buf().is_ok();
        self.stream.get_ref().set_nonblocking(false).expect("an option of a socket");
        came
    }

    /// Reads whatever comes of a request: a whole answer, a part of one, or none.
    pub fn outcome(&mut self) -> Outcome {
        let status = read_line(&mut self.stream).and_then(|line| line.split(' ').nth(1)?.parse().ok());
        if status.is_none() {
            return Outcome { status, body: Vec::new(), whole: false };
        }
        let headers = read_headers(&mut self.stream);
        let (body, whole) = match transfer(&headers) {
            Transfer::Length(length) => {
                let body = self.at_most(length);
                let whole = body.len() == length;
                (body, whole)
            }
            Transfer::Chunked => self.rest_in_chunks(),
        };
        Outcome { status, body, whole }
    }

    /// Reads what is left of a chunked body, and says whether its end came.
    pub fn rest_in_chunks(&mut self) -> (Vec<u8>, bool) {
        let mut body = Vec::new();
        loop {
            let line = read_line(&mut self.stream);
            let Some(length) = line.and_then(|line| usize::from_str_radix(line.trim(), 16).ok()) else {
                return (body, false);
            };
            let chunk = self.at_most(length);
            let whole = chunk.len() == length && read_line(&mut self.stream).is_some();
            body.extend(chunk);
            if !whole || length == 0 {
                return (body, whole);
            }
        }
    }

    /// Reads the next chunk of a chunked body; `None` at its end.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.line();
        let length = usize::from_str_radix(line.trim(), 16).unwrap_or_else(|_| panic!("no chunk length in `{line}`"));
        let chunk = self.exactly(length);
        self.line();
        (length > 0).then_some(chunk)
    }

    fn at_most(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A connection that breaks shows by what is missing.
        let _ = self.stream.by_ref().take(length as u64).read_to_end(&mut bytes);
        bytes
    }

    fn exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).expect("the body comes whole");
        bytes
    }

    fn line(&mut self) -> String {
        read_line(&mut self.stream).expect("a line comes")
    }
}

/// One request over a connection of its own.
pub fn ask(port: u16, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    Client::connect(port).ask(method, path, headers, body)
}

/// A GET over a connection of its own; `None` where nobody answers.
pub fn page(port: u16, path: &str) -> Option<String> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    let reply = ask(port, "GET", path, &[], b"");
    (reply.status == 200).then(|| reply.text())
}

/// How a body's end is known.
pub enum Transfer {
    /// After so many bytes.
    Length(usize),
    /// By an empty chunk.
    Chunked,
}

/// By a message's headers. A message with neither header has no body.
pub fn transfer(headers: &[(String, String)]) -> Transfer {
    match header(headers, "transfer-encoding") {
        Some("chunked") => Transfer::Chunked,
        _ => Transfer::Length(header(headers, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0)),
    }
}

/// The first header of that name.
pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(at, _)| at == name).map(|(_, value)| value.as_str())
}

/// Headers up to the empty line.
pub fn read_headers(stream: &mut impl BufRead) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    while let Some(line) = read_line(stream) {
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    headers
}

/// A line without its end; `None` at the end of the connection.
pub fn read_line(stream: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    let read = stream.read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
    (read > 0).then_some(line)
}
