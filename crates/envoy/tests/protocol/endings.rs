//! Whatever happens on the way (no memory, a stall, a drain, an end), in whatever order legal messages come: decided at most
//! once, every byte goes back in its order, a clean end leaves nothing behind, and what was held is given back.

use std::sync::{Arc, Mutex};

use envoy::{BodyMemory, Exchange, Limits, Step, Verdict};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{BodyResponse, ProcessingResponse};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::gateway::{self, Beside};
use crate::script::{Rewrite, Witness};

/// What may happen between two messages, or the message itself.
#[derive(Debug, Clone, Copy)]
enum Event {
    Part(usize),
    Stall,
    Drain,
    LetGo,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => (0..200usize).prop_map(Event::Part),
        1 => (61_990..130_000usize).prop_map(Event::Part),
        2 => Just(Event::Stall),
        1 => Just(Event::Drain),
        1 => Just(Event::LetGo),
    ];
    vec(event, 0..8)
}

/// One way of a stream's bytes: what the gateway sent, and what came back.
#[derive(Debug, Default)]
struct Way {
    sent: Vec<u8>,
    back: Vec<u8>,
    ended: bool,
}

struct Run {
    exchange: Exchange<Witness>,
    log: Arc<Mutex<Vec<String>>>,
    request: Way,
    response: Way,
    decided: usize,
    refused: bool,
    /// The gateway goes on alone.
    over: bool,
}

impl Run {
    fn new(memory: &BodyMemory) -> Self {
        Self {
            exchange: Exchange::new(Limits::default(), memory.clone(), "spare".to_owned()),
            log: Arc::default(),
            request: Way::default(),
            response: Way::default(),
            decided: 0,
            refused: false,
            over: false,
        }
    }

    fn say(&mut self, words: &[&str]) {
        if !self.over {
            let step = self.exchange.receive(gateway::message(words, Beside::default()));
            self.step(step);
        }
    }

    fn part(&mut self, response: bool, length: usize, end: bool) {
        if self.over {
            return;
        }
        let part = gateway::pattern(length);
        let way = if response { &mut self.response } else { &mut self.request };
        way.sent.extend_from_slice(&part);
        let part = gateway::part(part, end);
        let content = if response { Request::ResponseBody(part) } else { Request::RequestBody(part) };
        let step = self.exchange.receive(gateway::framed(content, Beside::default()));
        self.step(step);
    }

    fn happen(&mut self, event: Event, response: bool) {
        if self.over {
            return;
        }
        let step = match event {
            Event::Part(length) => return self.part(response, length, false),
            Event::Stall => self.exchange.stalled(),
            Event::Drain => self.exchange.drain(),
            Event::LetGo => self.exchange.let_go(),
        };
        self.step(step);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Wait => {}
            Step::Close => self.over = true,
            Step::Suppose(_) => unreachable!("in full duplex headers can wait"),
            Step::Send(replies) => replies.for_each(|reply| self.take(reply)),
            Step::Decide(_) => {
                self.decided += 1;
                let ticket = Witness::new(&self.log, Rewrite::Nothing);
                let step = self.exchange.decided(Ok((Verdict::to("10.0.0.1:8000".parse().unwrap()), ticket)));
                return self.step(step);
            }
        }
        self.over |= self.exchange.is_over();
    }

    fn take(&mut self, reply: ProcessingResponse) {
        match reply.response.unwrap() {
            Response::RequestBody(body) => take(&mut self.request, body),
            Response::ResponseBody(body) => take(&mut self.response, body),
            Response::ImmediateResponse(_) => self.refused = true,
            _ => {}
        }
    }
}

fn take(way: &mut Way, body: BodyResponse) {
    assert!(!way.ended, "nothing follows the end");
    match body.response.unwrap().body_mutation.unwrap().mutation.unwrap() {
        Mutation::StreamedResponse(part) => {
            way.back.extend_from_slice(&part.body);
            way.ended = part.end_of_stream;
        }
        other => panic!("not streamed: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn whatever_happens_every_byte_goes_back_and_what_is_held_is_given_back(
        asked in events(), ask_trailers in any::<bool>(), answered in events(), answer_trailers in any::<bool>(),
        room in prop_oneof![0..400usize, Just(usize::MAX)],
    ) {
        let memory = BodyMemory::new(room);
        let mut run = Run::new(&memory);
        run.say(&["headers", "POST", "/p"]);
        asked.iter().for_each(|event| run.happen(*event, false));
        if ask_trailers { run.say(&["trailers"]) } else { run.part(false, 3, true) }
        run.say(&["response", "200"]);
        answered.iter().for_each(|event| run.happen(*event, true));
        if answer_trailers { run.say(&["response-trailers"]) } else { run.part(true, 3, true) }

        prop_assert!(run.decided <= 1);
        if run.refused {
            prop_assert!(run.over && run.request.back.is_empty() && run.response.sent.is_empty());
        } else {
            prop_assert_eq!(run.decided, 1);
            prop_assert_eq!(&run.request.back, &run.request.sent);
            prop_assert_eq!(&run.response.back, &run.response.sent);
            prop_assert!(run.over || run.request.ended != ask_trailers);
            prop_assert!(run.over || run.response.ended != answer_trailers);
        }
        let Run { exchange, log, decided, .. } = run;
        drop(exchange);
        prop_assert_eq!(memory.held(), 0);
        let dropped = log.lock().unwrap().iter().filter(|line| *line == "dropped").count();
        prop_assert_eq!(dropped, decided);
    }

    #[test]
    fn a_buffering_gateway_gets_one_answer_a_message_whether_it_streams_events_or_not(
        parts in vec(0..300usize, 1..6), honoured in any::<bool>(), trailers in any::<bool>(),
    ) {
        let mut run = Run::new(&BodyMemory::new(usize::MAX));
        let modes = Some((gateway::mode("buffered"), gateway::mode("buffered")));
        let asked = gateway::message(&["headers", "GET", "/p", "end"], Beside { modes, ..Beside::default() });
        let step = run.exchange.receive(asked);
        run.step(step);
        let parts = if honoured { parts } else { vec![parts.iter().sum()] };
        let messages = parts.iter().enumerate().map(|(at, length)| {
            (format!("{length}B"), at + 1 == parts.len() && !trailers)
        });
        run.say(&["response", "200", "content-type=text/event-stream"]);
        for (data, end) in messages {
            let words: Vec<&str> = ["chunk", &data].into_iter().chain(end.then_some("end")).collect();
            let answers = match run.exchange.receive(gateway::message(&words, Beside::default())) {
                Step::Send(replies) => replies.count(),
                other => panic!("not answered: {other:?}"),
            };
            prop_assert_eq!(answers, 1);
        }
        if trailers { run.say(&["response-trailers"]) }
        let seen = run.log.lock().unwrap().clone();
        prop_assert_eq!(seen.iter().filter(|line| line.starts_with("part") && line.ends_with("end")).count(), 1);
        prop_assert_eq!(seen.last().map(String::as_str), Some("dropped"));
    }
}
