//! A picker that dies or freezes under a request, at each moment of it: what a real Envoy makes of that by its own rules,
//! failing open and failing closed, with bodies in full duplex and buffered. Whatever arrives is what was sent, and nothing
//! stays in flight. docs/protocol.md says the same in a table.

use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use tonic_health::pb::health_check_response::ServingStatus;

use super::client::{Client, Outcome, ask};
use super::envoy::{Form, buffered};
use super::health::probe;
use super::program::wait_until;
use super::scripted::{Arrival, Arrivals, Engine, Saying, completion};
use super::stage::{Stage, chat};

const EVENT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n";
/// Less than an answer's head takes on the wire.
const HEAD: usize = 60;

/// Where the request is when it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Nowhere yet.
    Before,
    /// Its headers are with the picker, and nothing of its body with anybody.
    Headers,
    /// A part of its body is with the gateway.
    Body,
    /// All of its body is with the gateway, and it isn't picked for.
    Undecided,
    /// It is picked for, and its engine hasn't said anything.
    Waiting,
    /// A part of its answer is with the gateway.
    Answer,
}
use Moment::{Answer, Before, Body, Headers, Undecided, Waiting};

/// What happens to the picker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Killed,
    /// Stopped, until the gateway has all that the client and the engine send, or has lost patience.
    Frozen,
}

/// How the gateway sends bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bodies {
    FullDuplex,
    Buffered,
}

struct Scene {
    stage: Stage,
    engine: Engine,
    arrivals: Arrivals,
    fate: Fate,
    bodies: Bodies,
    request: Vec<u8>,
}

/// What Envoy has counted.
#[derive(Clone, Copy)]
struct Counts {
    from_clients: u64,
    from_engines: u64,
    to_picker: u64,
    from_picker: u64,
    picker_failures: u64,
}

impl Counts {
    fn of(stage: &Stage) -> Self {
        let ext_proc = |name| stage.envoy.stat(&format!("http.clients.ext_proc.{name}"));
        Self {
            from_clients: stage.envoy.stat("http.clients.downstream_cx_rx_bytes_total"),
            from_engines: stage.envoy.stat("cluster.pool.upstream_cx_rx_bytes_total"),
            to_picker: ext_proc("stream_msgs_sent"),
            from_picker: ext_proc("stream_msgs_received"),
            picker_failures: ext_proc("streams_failed"),
        }
    }
}

/// A request for each moment. What may become of it: `served` (every byte of it and of its answer), `cut` within the answer, or the
/// gateway's own status.
#[track_caller]
fn check(test: &str, fate: Fate, bodies: Bodies, open: bool, expected: &[(Moment, &str)]) {
    let edit = |config: String| {
        let config = config.replace("failure_mode_allow: true", &format!("failure_mode_allow: {open}"));
        match bodies {
            Bodies::FullDuplex => config,
            // Short enough to be waited for.
            Bodies::Buffered => buffered(config).replace("message_timeout: 10s", "message_timeout: 2s"),
        }
    };
    let (engine, arrivals) = Engine::led();
    let stage = Stage::start_with(test, Form::OverrideHost, &[engine.address], &[], edit);
    let request = chat("qwen3", &"four score and seven years ago ".repeat(10_000)).into_bytes();
    let mut scene = Scene { stage, engine, arrivals, fate, bodies, request };
    let became: Vec<_> = expected.iter().map(|(moment, _)| (*moment, scene.play(*moment))).collect();
    let became: Vec<_> = became.iter().map(|(moment, became)| (*moment, became.as_str())).collect();
    assert_eq!(became, expected, "{fate:?}, {bodies:?}, failing open: {open}");
}

impl Scene {
    fn play(&mut self, moment: Moment) -> String {
        let begun = Counts::of(&self.stage);
        let half = self.request.len() / 2;
        let (mut client, mut sent) = (Client::connect(self.stage.port), 0);
        if moment != Before {
            self.send_head(&mut client, moment);
            // Buffered, they are answered before the body is wanted.
            let answers = u64::from(self.bodies == Bodies::Buffered);
            self.wait("the picker has the headers", &begun, |is, was| {
                is.to_picker > was.to_picker && is.from_picker >= was.from_picker + answers
            });
        }
        if matches!(moment, Body | Undecided) {
            client.write(&self.request[..half]);
            sent = half;
            self.wait("half of the body is there", &begun, |is, was| is.from_clients >= was.from_clients + half as u64);
        }
        let mut answer = String::new();
        let led = match moment {
            Undecided => {
                self.stage.picker.program.freeze();
                client.write(&self.request[half..]);
                sent = self.request.len();
                self.wait("the body is there", &begun, |is, was| is.from_clients >= was.from_clients + sent as u64);
                None
            }
            Waiting | Answer => {
                client.write(&self.request);
                sent = self.request.len();
                Some(self.arrivals.next())
            }
            Before | Headers | Body => None,
        };
        let (led, gate) = match led {
            Some(arrival) if moment == Answer => {
                (None, Some(self.begin_the_answer(arrival, &mut client, &mut answer, &begun)))
            }
            led => (led, None),
        };
        self.strike();
        if moment == Before {
            self.send_head(&mut client, moment);
        }
        if self.fate == Fate::Killed {
            self.wait("the gateway knows", &begun, |is, was| is.picker_failures > was.picker_failures);
        }
        client.try_write(&self.request[sent..]);
        let mut rest = completion(12, None);
        if let Some(arrival) = led {
            assert!(arrival.heard.body == self.request, "other bytes arrived");
            arrival.say(Saying::Json(rest.clone()));
        }
        if let Some(gate) = gate {
            // An engine whose answer was given up listens no more.
            let _ = gate.send(EVENT.into());
            rest = EVENT.repeat(2);
        }
        if self.fate == Fate::Frozen && self.bodies == Bodies::FullDuplex {
            let answered = if matches!(moment, Waiting | Answer) { rest.len() + HEAD } else { 0 };
            self.wait("all of it is with the gateway", &begun, |is, was| {
                let of_client = is.from_clients - was.from_clients;
                let of_engine = is.from_engines - was.from_engines;
                of_client >= self.request.len() as u64 && of_engine >= answered as u64
            });
            self.stage.picker.program.thaw();
        }
        let became = self.read(&mut client, answer, &rest);
        match self.fate {
            Fate::Killed => self.stage.picker.start_again(),
            Fate::Frozen => self.stage.picker.program.thaw(),
        }
        for heard in self.engine.heard() {
            assert!(heard.body == self.request, "{moment:?}: other bytes arrived");
        }
        wait_until("nothing is in flight", || self.stage.picker.in_flight() == 0.0);
        became
    }

    fn send_head(&self, client: &mut Client, moment: Moment) {
        let led: &[_] = if matches!(moment, Waiting | Answer) { &[("x-led", "yes")] } else { &[] };
        client.send_head("POST", "/v1/chat/completions", led, self.request.len());
    }

    /// The answer's first event is with the gateway, and in full duplex with the client.
    fn begin_the_answer(
        &self,
        arrival: Arrival,
        client: &mut Client,
        answer: &mut String,
        begun: &Counts,
    ) -> Sender<Vec<u8>> {
        assert!(arrival.heard.body == self.request, "other bytes arrived");
        let (gate, pieces) = mpsc::channel();
        arrival.say(Saying::Gated(pieces));
        gate.send(EVENT.into()).expect("the engine waits for it");
        match self.bodies {
            Bodies::FullDuplex => {
                assert_eq!(client.head().status, 200);
                *answer = String::from_utf8(client.chunk().expect("an event")).expect("text");
            }
            Bodies::Buffered => self.wait("an event is there", begun, |is, was| {
                // Answered are the request's headers, its body, and the headers of its answer.
                let answered = is.from_picker >= was.from_picker + 3;
                answered && is.from_engines >= was.from_engines + (HEAD + EVENT.len()) as u64
            }),
        }
        gate
    }

    fn strike(&mut self) {
        match self.fate {
            Fate::Killed => self.stage.picker.program.kill(),
            Fate::Frozen => self.stage.picker.program.freeze(),
        }
    }

    fn read(&self, client: &mut Client, answer: String, expected: &str) -> String {
        let Outcome { status, body, whole } = if answer.is_empty() {
            client.outcome()
        } else {
            let (body, whole) = client.rest_in_chunks();
            Outcome { status: Some(200), body: [answer.into_bytes(), body].concat(), whole }
        };
        match status {
            Some(200) if whole => {
                assert_eq!(String::from_utf8_lossy(&body), expected);
                "served".to_owned()
            }
            Some(200) => {
                assert!(expected.as_bytes().starts_with(&body), "other bytes: {}", String::from_utf8_lossy(&body));
                "cut".to_owned()
            }
            Some(status) => status.to_string(),
            None => "reset".to_owned(),
        }
    }

    fn wait(&self, what: &str, begun: &Counts, is_so: impl Fn(Counts, Counts) -> bool) {
        wait_until(what, || is_so(Counts::of(&self.stage), *begun));
    }
}

#[test]
fn a_killed_picker_full_duplex_failing_closed() {
    let expected =
        [(Before, "500"), (Headers, "500"), (Body, "500"), (Undecided, "500"), (Waiting, "500"), (Answer, "cut")];
    check("killed_duplex_closed", Fate::Killed, Bodies::FullDuplex, false, &expected);
}

#[test]
fn a_killed_picker_full_duplex_failing_open() {
    let expected =
        [(Before, "served"), (Headers, "served"), (Body, "500"), (Undecided, "500"), (Waiting, "500"), (Answer, "cut")];
    check("killed_duplex_open", Fate::Killed, Bodies::FullDuplex, true, &expected);
}

#[test]
fn a_killed_picker_buffered_failing_closed() {
    let expected =
        [(Before, "500"), (Headers, "500"), (Body, "500"), (Undecided, "500"), (Waiting, "500"), (Answer, "500")];
    check("killed_buffered_closed", Fate::Killed, Bodies::Buffered, false, &expected);
}

#[test]
fn a_killed_picker_buffered_failing_open() {
    let expected = [
        (Before, "served"),
        (Headers, "served"),
        (Body, "served"),
        (Undecided, "served"),
        (Waiting, "served"),
        (Answer, "served"),
    ];
    check("killed_buffered_open", Fate::Killed, Bodies::Buffered, true, &expected);
}

#[test]
fn a_frozen_picker_full_duplex_failing_closed() {
    let expected = [(Before, "served"), (Headers, "served"), (Body, "served"), (Waiting, "served"), (Answer, "served")];
    check("frozen_duplex_closed", Fate::Frozen, Bodies::FullDuplex, false, &expected);
}

#[test]
fn a_frozen_picker_full_duplex_failing_open() {
    let expected = [(Before, "served"), (Headers, "served"), (Body, "served"), (Waiting, "served"), (Answer, "served")];
    check("frozen_duplex_open", Fate::Frozen, Bodies::FullDuplex, true, &expected);
}

#[test]
fn a_frozen_picker_buffered_failing_closed() {
    let expected = [(Before, "504"), (Headers, "504"), (Body, "504"), (Waiting, "504"), (Answer, "504")];
    check("frozen_buffered_closed", Fate::Frozen, Bodies::Buffered, false, &expected);
}

#[test]
fn a_frozen_picker_buffered_failing_open() {
    let expected = [(Before, "served"), (Headers, "served"), (Body, "served"), (Waiting, "served"), (Answer, "served")];
    check("frozen_buffered_open", Fate::Frozen, Bodies::Buffered, true, &expected);
}

/// An ORIGINAL_DST cluster knows nobody: without a pick there is nowhere to go, and a client's own word doesn't count.
#[test]
fn failing_open_gains_nothing_where_the_destination_is_a_header() {
    let engine = Engine::plain();
    let open = |config: String| config.replace("failure_mode_allow: false", "failure_mode_allow: true");
    let mut stage = Stage::start_with("killed_by_header", Form::OriginalDst, &[engine.address], &[], open);
    stage.picker.program.kill();
    assert_eq!(ask(stage.port, "GET", "/v1/models", &[], b"").status, 503);
    assert_eq!(engine.heard().len(), 0);
    stage.picker.start_again();
    assert_eq!(ask(stage.port, "GET", "/v1/models", &[], b"").status, 200);
}

#[test]
fn a_picker_that_was_frozen_for_long_is_not_taken_for_stuck() {
    let engine = Engine::plain();
    let flag = ["--stuck-after=200ms"];
    let stage = Stage::start_with("frozen_long", Form::OriginalDst, &[engine.address], &flag, |config| config);
    let picker = &stage.picker;
    picker.program.freeze();
    let frozen = Instant::now();
    let mut client = Client::connect(stage.port);
    client.send("POST", "/v1/chat/completions", &[], chat("qwen3", "hello").as_bytes());
    wait_until("it would be dead by its own clock", || frozen.elapsed() > Duration::from_secs(2));
    picker.program.thaw();
    let outcome = client.outcome();
    assert_eq!(
        (outcome.status, String::from_utf8_lossy(&outcome.body).into_owned()),
        (Some(200), completion(12, None))
    );
    assert_eq!(picker.metrics().sum("warmpath_runtime_stuck_total", &[]), 0.0);
    assert_eq!(probe(picker.health_port, "liveness"), Some(ServingStatus::Serving));
}

#[test]
fn a_client_that_leaves_a_frozen_picker_leaves_nothing_in_flight() {
    let (engine, arrivals) = Engine::led();
    let stage = Stage::start("frozen_left", Form::OriginalDst, &[engine.address]);
    let body = chat("qwen3", "hello");
    let send = || {
        let mut client = Client::connect(stage.port);
        client.send("POST", "/v1/chat/completions", &[("x-led", "yes")], body.as_bytes());
        client
    };
    let waiting = send();
    let _arrival = arrivals.next();
    assert_eq!(stage.picker.in_flight(), 1.0);
    stage.picker.program.freeze();
    let sent = stage.envoy.stat("http.clients.ext_proc.stream_msgs_sent");
    let unpicked = send();
    wait_until("it is sent to the picker", || stage.envoy.stat("http.clients.ext_proc.stream_msgs_sent") > sent);
    drop((waiting, unpicked));
    wait_until("the gateway let go of them", || stage.envoy.stat("http.clients.downstream_rq_active") == 0);
    stage.picker.program.thaw();
    wait_until("nothing is in flight", || stage.picker.in_flight() == 0.0);
    assert_eq!(stage.post("/v1/chat/completions", &body).status, 200);
}
