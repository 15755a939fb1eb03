//! Scripts: what a gateway sends and what it gets back, as text.
//!
//! In: lines that begin with `>`. Out: the same lines, with what came of each below it (`<` what is sent, `=` what the
//! ticket saw). [`check`] compares that with the script.
//!
//!     > mode buffered none             protocol_config of the first message: request body, response body
//!     > headers POST /p [end] [n=v]..  > body DATA [end]   > trailers
//!     > response 200 [end] [n=v]..     > chunk DATA [end]  > response-trailers
//!     > subset a,b  > subset list a;b  > served ADDRESS    metadata of the next message
//!     > decided ADDRESS[,..] [set n=v] [remove n] [body DATA] [score n]    > refused KIND
//!     > supposed ADDRESS | -    > stalls    > drains    > let-go    > leave    > hang-up
//!
//! DATA is a text without blanks, `-` for nothing, or `5B` for five bytes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use envoy::{BodyMemory, Exchange, Limits, Refusal, ResponseHead, Step, Ticket, Unread, Untold, Verdict};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{CommonResponse, HeaderMutation, ProcessingResponse};

use crate::gateway::{self, Beside};

/// What the ticket does to the response's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rewrite {
    Nothing,
    /// Every `a` becomes `bb`.
    Longer,
    /// All is kept back until the end.
    Late,
}

/// A ticket that writes down what it saw.
#[derive(Debug)]
pub(crate) struct Witness {
    log: Arc<Mutex<Vec<String>>>,
    rewrite: Rewrite,
    kept: Vec<u8>,
    /// Whether the client is told who served.
    tells: bool,
}

impl Witness {
    pub(crate) fn new(log: &Arc<Mutex<Vec<String>>>, rewrite: Rewrite) -> Self {
        Self { log: Arc::clone(log), rewrite, kept: Vec::new(), tells: true }
    }

    /// One that sets no header of the response, as the picker's own outside of conformance tests.
    pub(crate) fn silent(log: &Arc<Mutex<Vec<String>>>) -> Self {
        let mut witness = Self::new(log, Rewrite::Nothing);
        witness.tells = false;
        witness
    }

    fn note(&self, line: String) {
        self.log.lock().unwrap().push(line);
    }
}

impl Ticket for Witness {
    fn head(&mut self, head: &ResponseHead) -> Vec<(String, Vec<u8>)> {
        let served = head.served.map(|served| format!(" served={served}")).unwrap_or_default();
        let whole = flag(!head.may_keep_back, "keep-nothing");
        self.note(format!("head {}{served}{whole}{}", head.status, flag(head.end, "end")));
        assert_eq!(head.served.is_none(), head.untold.is_some());
        if head.untold == Some(Untold::Endpoint) {
            self.note("no endpoint told".to_owned());
        }
        head.served
            .filter(|_| self.tells)
            .map(|served| ("x-served".to_owned(), served.to_string().into_bytes()))
            .into_iter()
            .collect()
    }

    fn body(&mut self, part: Bytes, end: bool) -> Bytes {
        self.note(format!("part {}{}", show(&part), flag(end, "end")));
        match self.rewrite {
            Rewrite::Nothing => part,
            Rewrite::Longer => String::from_utf8(part.to_vec()).unwrap().replace('a', "bb").into(),
            Rewrite::Late => {
                self.kept.extend_from_slice(&part);
                if end { std::mem::take(&mut self.kept).into() } else { Bytes::new() }
            }
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.note("dropped".to_owned());
    }
}

/// Plays the script's `>` lines, and compares what comes of them with its other lines.
pub(crate) fn check(script: &str) {
    check_with(Limits::default(), Rewrite::Nothing, script);
}

pub(crate) fn check_with(limits: Limits, rewrite: Rewrite, script: &str) {
    check_within(&BodyMemory::new(usize::MAX), limits, rewrite, script);
}

pub(crate) fn check_within(memory: &BodyMemory, limits: Limits, rewrite: Rewrite, script: &str) {
    let script: Vec<&str> = script.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut play = Play::new(memory, limits, rewrite);
    let mut came = Vec::new();
    for line in script.iter().filter_map(|line| line.strip_prefix("> ")) {
        came.push(format!("> {line}"));
        came.extend(play.line(line));
    }
    assert_eq!(came.join("\n"), script.join("\n"));
}

struct Play {
    exchange: Option<Exchange<Witness>>,
    log: Arc<Mutex<Vec<String>>>,
    rewrite: Rewrite,
    beside: Beside,
}

impl Play {
    fn new(memory: &BodyMemory, limits: Limits, rewrite: Rewrite) -> Self {
        let exchange = Some(Exchange::new(limits, memory.clone(), "spare".to_owned()));
        Self { exchange, log: Arc::default(), rewrite, beside: Beside::default() }
    }

    fn line(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let step = self.step(&words);
        let mut shown = step.map(show_step).unwrap_or_default();
        if let Some(refusal) = self.exchange.as_mut().and_then(Exchange::take_refusal) {
            shown.push(format!("< told {}", refusal.as_str()));
        }
        if self.exchange.as_ref().is_some_and(Exchange::is_over) && !shown.contains(&"< close".to_owned()) {
            shown.push("< close".to_owned());
        }
        shown.extend(self.log.lock().unwrap().drain(..).map(|line| format!("= {line}")));
        shown
    }

    fn step(&mut self, words: &[&str]) -> Option<Step> {
        match words {
            ["mode", request, response] => self.beside.modes = Some((gateway::mode(request), gateway::mode(response))),
            ["subset", "list", list] => {
                self.beside.subset_list = Some(list.split(';').map(|element| element.replace('-', "")).collect());
            }
            ["subset", list] => self.beside.subset_text = Some((*list).to_owned()),
            ["served", address] => self.beside.served = Some((*address).to_owned()),
            ["decided", address, edits @ ..] => return Some(self.decided(address, edits)),
            ["refused", kind] => return Some(self.exchange.as_mut()?.decided(Err(refusal(kind)))),
            ["supposed", address] => return Some(self.exchange.as_mut()?.supposed(address.parse().ok())),
            ["stalls"] => return Some(self.exchange.as_mut()?.stalled()),
            ["drains"] => return Some(self.exchange.as_mut()?.drain()),
            ["let-go"] => return Some(self.exchange.as_mut()?.let_go()),
            ["leave"] => return Some(self.exchange.as_mut()?.leave()),
            ["hang-up"] => self.exchange = None,
            _ => {
                let message = gateway::message(words, std::mem::take(&mut self.beside));
                return Some(self.exchange.as_mut()?.receive(message));
            }
        }
        None
    }

    fn decided(&mut self, addresses: &str, edits: &[&str]) -> Step {
        let destination: Vec<SocketAddr> =
            addresses.split(',').filter(|one| *one != "-").map(|one| one.parse().unwrap()).collect();
        let mut verdict = Verdict { destination, ..Verdict::default() };
        for edit in edits.chunks(2) {
            match edit {
                ["set", pair] => {
                    let (name, value) = pair.split_once('=').unwrap();
                    verdict.set_headers.push((name.to_owned(), value.into()));
                }
                ["remove", name] => verdict.remove_headers.push((*name).to_owned()),
                ["score", score] => verdict.scores.push((verdict.destination[0], score.parse().unwrap())),
                ["hands", "off"] => verdict.hands_off = true,
                ["body", body] => verdict.body = Some(gateway::data(body).into()),
                other => panic!("no such edit: {other:?}"),
            }
        }
        let ticket = Witness::new(&self.log, self.rewrite);
        self.exchange.as_mut().unwrap().decided(Ok((verdict, ticket)))
    }
}

fn refusal(kind: &str) -> Refusal {
    match kind {
        "bad_request" => Refusal::BadRequest("bad".into()),
        "saturated" => Refusal::Saturated("full".into()),
        "no_endpoint" => Refusal::NoEndpoint("none".into()),
        "internal" => Refusal::Internal("broken".into()),
        other => panic!("no such refusal: {other}"),
    }
}

fn show_step(step: Step) -> Vec<String> {
    match step {
        Step::Wait => Vec::new(),
        Step::Close => vec!["< close".to_owned()],
        Step::Send(replies) => replies.map(|reply| format!("< {}", show_reply(&reply))).collect(),
        Step::Suppose(inbound) => vec![format!("< suppose {} {}", inbound.method, inbound.path)],
        Step::Decide(inbound) => {
            let body = match inbound.unread {
                None => inbound.body.map_or("none".to_owned(), |body| show(&body.join())),
                Some(unread) => {
                    assert_eq!(inbound.body, None);
                    name(unread).to_owned()
                }
            };
            let subset = inbound.subset.map(|subset| format!(" subset=[{}]", subset.join(","))).unwrap_or_default();
            let id = &inbound.request_id;
            vec![format!("< decide {} {} body={body}{subset} id={id}", inbound.method, inbound.path)]
        }
    }
}

fn name(unread: Unread) -> &'static str {
    match unread {
        Unread::Hidden => "hidden",
        Unread::Memory => "no-memory",
        Unread::Stalled => "stalled",
    }
}

pub(crate) fn show_reply(reply: &ProcessingResponse) -> String {
    let asked = reply.mode_override.map(|mode| format!(" ask={}", gateway::show_modes(&mode))).unwrap_or_default();
    let scores = gateway::scores_in_metadata(reply);
    format!("{}{scores}{asked}", show_answer(reply))
}

fn show_answer(reply: &ProcessingResponse) -> String {
    let destination = gateway::destination_in_metadata(reply);
    let shown = match reply.response.as_ref().unwrap() {
        Response::RequestHeaders(headers) => format!("headers{}", common(headers.response.as_ref(), &destination)),
        Response::RequestBody(body) => format!("body{}", common(body.response.as_ref(), &destination)),
        Response::RequestTrailers(trailers) => format!("trailers{}", edits(trailers.header_mutation.as_ref(), "")),
        Response::ResponseHeaders(headers) => format!("response{}", common(headers.response.as_ref(), "")),
        Response::ResponseBody(body) => format!("chunk{}", common(body.response.as_ref(), "")),
        Response::ResponseTrailers(trailers) => {
            format!("response-trailers{}", edits(trailers.header_mutation.as_ref(), ""))
        }
        Response::ImmediateResponse(immediate) => {
            let status = immediate.status.as_ref().unwrap().code;
            return format!("immediate {status}{}", edits(immediate.headers.as_ref(), ""));
        }
        Response::StreamedImmediateResponse(_) => panic!("never sent"),
    };
    match destination.is_empty() || shown.contains(" dest=") {
        true => shown,
        false => format!("{shown} metadata-dest={destination}"),
    }
}

fn common(common: Option<&CommonResponse>, destination: &str) -> String {
    let common = common.unwrap();
    let body = match common.body_mutation.as_ref().and_then(|body| body.mutation.as_ref()) {
        None => String::new(),
        Some(Mutation::StreamedResponse(part)) => format!(" {}{}", show(&part.body), flag(part.end_of_stream, "end")),
        Some(Mutation::Body(body)) => format!(" whole={}", show(body)),
        Some(Mutation::ClearBody(_)) => panic!("never sent"),
    };
    let edits = edits(common.header_mutation.as_ref(), destination);
    format!("{body}{edits}{}", flag(common.clear_route_cache, "reroute"))
}

/// `dest=` where the header and the metadata agree; other headers as `+name=value` and `-name`.
fn edits(mutation: Option<&HeaderMutation>, destination: &str) -> String {
    let mut shown = String::new();
    for (name, value) in mutation.map(gateway::set_headers).unwrap_or_default() {
        if name == "x-gateway-destination-endpoint" && value == destination {
            shown += &format!(" dest={value}");
        } else {
            shown += &format!(" +{name}={value}");
        }
    }
    for name in mutation.iter().flat_map(|mutation| &mutation.remove_headers) {
        shown += &format!(" -{name}");
    }
    shown
}

fn show(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok("") => "-".to_owned(),
        Ok(text) if text.len() <= 24 => text.to_owned(),
        _ => format!("{}B", bytes.len()),
    }
}

fn flag(set: bool, name: &str) -> String {
    if set { format!(" {name}") } else { String::new() }
}
