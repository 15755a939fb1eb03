//! One request over a connection of its own. In: an [`Ask`]; out: what its client saw, with the time of each step, and
//! whether every byte is what the engine got and gave. It stops sending where an answer comes early, and leaves where
//! the ask says so.

use std::io::{self, BufReader, ErrorKind, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_64;

use super::asks::{Ask, HangUp};
use crate::http::{Head, read_body, read_head};

/// How long a client waits for the next byte. Longer than anything that the soak does to the others.
const PATIENCE: Duration = Duration::from_secs(40);

/// What came of an ask. Times count from the soak's start.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// The request.
    pub(crate) ask: Ask,
    /// When its connection was begun.
    pub(crate) began: Duration,
    /// When its head was sent.
    pub(crate) asked: Option<Duration>,
    /// When its body was sent.
    pub(crate) sent: Option<Duration>,
    /// When the answer's head had come.
    pub(crate) head: Option<Duration>,
    /// When it was over.
    pub(crate) ended: Duration,
    /// How.
    pub(crate) end: End,
    /// What the answer's head said, if one came.
    pub(crate) answer: Option<Answer>,
}

/// How a request ended for its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With a whole answer.
    Whole,
    /// The client left.
    HungUp,
    /// The connection broke, or nothing came any more.
    Broke(String),
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: u16,
    /// The engine that gave it; none where the gateway or the picker did.
    pub(crate) engine: Option<String>,
    /// Whether the engine got the body that was sent.
    pub(crate) request_intact: Option<bool>,
    /// Whether the whole answer that came is the one that the engine gave.
    pub(crate) answer_intact: Option<bool>,
    /// The beginning of the body of an answer that no engine gave.
    pub(crate) text: String,
}

impl Answer {
    /// Whether a byte is not what it was.
    pub(crate) fn is_changed(&self) -> bool {
        self.request_intact == Some(false) || self.answer_intact == Some(false)
    }
}

/// Sends it and reads the answer.
pub(crate) fn send(ask: Ask, port: u16, start: Instant) -> Told {
    let began = start.elapsed();
    let mut told =
        Told { ask, began, asked: None, sent: None, head: None, ended: began, end: End::HungUp, answer: None };
    let end = told.carry(port, start);
    told.ended = start.elapsed();
    told.end = match end {
        Ok(end) => end,
        Err(error) if error.kind() == ErrorKind::WouldBlock => End::Broke("nothing came any more".to_owned()),
        Err(error) => End::Broke(error.to_string()),
    };
    told
}

impl Told {
    fn carry(&mut self, port: u16, start: Instant) -> io::Result<End> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(head_of(&self.ask).as_bytes())?;
        self.asked = Some(start.elapsed());
        if self.ask.hang_up == Some(HangUp::AfterHead) {
            return Ok(End::HungUp);
        }
        match self.send_body(&mut stream) {
            Ok(true) => self.sent = Some(start.elapsed()),
            // An answer came before all was sent.
            Ok(false) => {}
            // Where the other side has closed, it may have answered before.
            Err(error) if error.kind() != ErrorKind::WouldBlock && answer_waits(&stream) => {}
            Err(error) => return Err(error),
        }
        match self.ask.hang_up {
            Some(HangUp::InBody(_)) => return Ok(End::HungUp),
            Some(HangUp::Waiting(wait)) => {
                thread::sleep(wait);
                return Ok(End::HungUp);
            }
            _ => {}
        }
        let mut reader = BufReader::new(stream);
        let head = read_head(&mut reader)?;
        self.head = Some(start.elapsed());
        let answer =
            self.answer.insert(Answer { status: head.status, engine: head.text("x-engine-id"), ..Answer::default() });
        if let Some(arrived) = head.text("x-request-checksum") {
            answer.request_intact = Some(arrived == checksum(self.ask.body.as_deref().unwrap_or_default()));
        } else if answer.engine.is_some() {
            answer.request_intact = Some(false);
        }
        let most_chunks = match self.ask.hang_up {
            Some(HangUp::InAnswer(chunks)) => chunks,
            _ => usize::MAX,
        };
        let Some(body) = read_body(&mut reader, &head, most_chunks)? else { return Ok(End::HungUp) };
        if answer.engine.is_some() {
            answer.answer_intact = Some(is_intact(&head, &body));
        } else {
            answer.text = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
        }
        Ok(End::Whole)
    }

    /// Whether all of it, or as much as the client wants, was sent; it stops where an answer comes.
    fn send_body(&self, stream: &mut TcpStream) -> io::Result<bool> {
        let body = self.ask.body.as_deref().unwrap_or_default();
        let until = match self.ask.hang_up {
            Some(HangUp::InBody(bytes)) => bytes.min(body.len()),
            _ => body.len(),
        };
        for (number, piece) in body[..until].chunks(self.ask.piece.max(1)).enumerate() {
            if number > 0 {
                thread::sleep(self.ask.pause);
                if answer_waits(stream) {
                    return Ok(false);
                }
            }
            stream.write_all(piece)?;
        }
        Ok(true)
    }
}

fn head_of(ask: &Ask) -> String {
    let (method, length) = match &ask.body {
        Some(body) => ("POST", format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len())),
        None => ("GET", String::new()),
    };
    format!("{method} {} HTTP/1.1\r\nhost: soak\r\nx-request-id: {}\r\n{length}\r\n", ask.path, ask.id)
}

/// Whether there is something to read, or the end of the connection.
fn answer_waits(stream: &TcpStream) -> bool {
    let peek = || {
        stream.set_nonblocking(true)?;
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        peeked
    };
    peek().is_ok()
}

/// As `lab engine --checksums` writes them.
fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

fn is_intact(head: &Head, body: &[u8]) -> bool {
    if let Some(said) = head.text("x-answer-checksum") {
        return said == checksum(body);
    }
    // A stream ends with a comment: the checksum of all before it. One that was cut has none.
    const SEAL: usize = ": checksum 0123456789abcdef\n\n".len();
    let Some(at) = body.len().checked_sub(SEAL) else { return false };
    body[at..] == *format!(": checksum {}\n\n", checksum(&body[..at])).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::{checksum, is_intact};
    use crate::http::Head;

    #[track_caller]
    fn check(header: Option<&str>, body: &str, intact: bool) {
        let headers = header.map(|value| ("x-answer-checksum".to_owned(), value.to_owned())).into_iter().collect();
        assert_eq!(is_intact(&Head { status: 200, headers }, body.as_bytes()), intact);
    }

    #[test]
    fn a_whole_answer_is_held_to_its_header() {
        check(Some(&checksum(b"whole")), "whole", true);
        check(Some(&checksum(b"whole")), "whale", false);
    }

    #[test]
    fn a_stream_is_held_to_its_last_comment() {
        let events = "data: 1\n\ndata: [DONE]\n\n";
        let seal = format!(": checksum {}\n\n", checksum(events.as_bytes()));
        check(None, &format!("{events}{seal}"), true);
        check(None, &format!("{events}\n{seal}"), false);
        check(None, events, false);
        check(None, "", false);
    }
}
