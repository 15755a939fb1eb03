//! A request on its way: held from the pick until its stream's end, however it ends.
//!
//! In: the answer's head and body, as they pass; out: the same bytes, but for the model's name where the engine was given
//! another. On the way it corrects the index and the books, and
//! reads what the engine says it used. Its drop gives the booking back, counts, and logs the decision's record and tells it to whom it
//! may concern.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use envoy::{ResponseHead, Ticket, Untold};
use fleet::View;
use prometheus_client::metrics::histogram::Histogram;
use request::{Answer, NameBack, Seen, Usage};
use route::{Outcome, Routed, Served};
use tokio::runtime::Handle;

use crate::client::Said;
use crate::decisions::words;
use crate::feed::Feed;
use crate::holdout::Arm;
use crate::metrics::{Finished, Foretold, Metrics, ModelLabel, ModelNames, Running};
use crate::pipeline::{LONG_PROMPT, Pipeline, SERVED};
use crate::record_log::{self, Logged};
use crate::spans::RequestSpan;
use crate::understand::Understood;

/// By it Envoy's router says in an answer how often it tried, where it is set up to.
const ATTEMPTS: &str = "x-envoy-attempt-count";

/// By it a trusted client is told the decision.
const DECISION: &str = "x-warmpath-decision";

/// How a request began.
#[derive(Debug)]
pub(crate) struct Beginning {
    /// When it was whole.
    pub(crate) arrived: Instant,
    /// The same by the calendar.
    pub(crate) at: SystemTime,
    /// How long the decision took.
    pub(crate) decided_in: Duration,
    /// The request's id.
    pub(crate) request_id: String,
    /// The body's size.
    pub(crate) body_bytes: usize,
    /// The fleet as it was then: the names of its endpoints.
    pub(crate) view: Arc<View>,
    /// What the client said of itself and may say.
    pub(crate) said: Said,
    /// Whether the client is told the decision.
    pub(crate) asks_why: bool,
    /// By what it was picked for.
    pub(crate) arm: Arm,
    /// How long it took to choose an endpoint.
    pub(crate) route: Duration,
    /// What traces show of it.
    pub(crate) span: RequestSpan,
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Underway {
    pub(crate) beginning: Beginning,
    pub(crate) understood: Understood,
    pub(crate) routed: Routed,
    pub(crate) predicted: Option<u64>,
    pub(crate) model: ModelLabel,
    pub(crate) status: Option<u16>,
    pub(crate) served: Option<std::net::SocketAddr>,
    pub(crate) first_content: Option<Duration>,
    pub(crate) complete: bool,
    /// How many times the gateway tried, where it says.
    pub(crate) attempts: Option<u32>,
    answer: Option<Answer>,
    /// Puts the model's name back that the client asked for.
    name_back: Option<NameBack>,
    /// Whether what isn't given on at once may go with a later part.
    may_keep_back: bool,
    response_bytes: usize,
    /// Whether it was not steered.
    shadow: bool,
    /// Prompt tokens that were foretold to be reused where it was picked for.
    at_pick: Option<u64>,
    /// Whether arms are compared.
    compared: bool,
    logged: Logged,
    feed: Feed,
    conformance: bool,
    names: Arc<ModelNames>,
    metrics: Arc<Metrics>,
    /// When the answer's head came.
    answered: Option<Instant>,
    /// How long the answer's parts were dealt with.
    dealt_with: Duration,
    /// When content came last.
    last_content: Option<Instant>,
    /// The times between parts with content, of the endpoint that answers.
    at_endpoint: Option<Histogram>,
    running: Running,
}

impl Underway {
    /// After the pick.
    pub(crate) fn new(
        beginning: Beginning,
        understood: Understood,
        routed: Routed,
        model: ModelLabel,
        running: Running,
        pipeline: &Pipeline,
    ) -> Self {
        let predicted = (routed.ask.blocks > 0).then(|| routed.predicted_cached_tokens());
        let underway = Self {
            beginning,
            understood,
            routed,
            predicted,
            model,
            status: None,
            served: None,
            first_content: None,
            complete: false,
            attempts: None,
            answer: None,
            name_back: None,
            may_keep_back: false,
            response_bytes: 0,
            shadow: pipeline.shadow,
            at_pick: predicted,
            compared: pipeline.holdout.is_some(),
            logged: pipeline.logged,
            feed: pipeline.feed.clone(),
            conformance: pipeline.conformance,
            names: Arc::clone(&pipeline.names),
            metrics: Arc::clone(&pipeline.metrics),
            answered: None,
            dealt_with: Duration::ZERO,
            last_content: None,
            at_endpoint: None,
            running,
        };
        let (traced, followed) = (underway.beginning.span.is_seen(), underway.feed.wants_picks());
        if !traced && !followed {
            return underway;
        }
        let record = record_log::picked(&underway);
        if traced {
            let mut stages = underway.understood.took.stages().to_vec();
            stages.push(("route", underway.beginning.route));
            underway.beginning.span.decided(&stages, &record);
        }
        if followed {
            underway.feed.tell(Arc::new(record));
        }
        underway
    }

    /// What the engine says it used, as far as it has passed.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.answer.as_ref().and_then(Answer::usage)
    }

    /// A model's name as a bounded label.
    pub(crate) fn label_of(&self, model: &str) -> String {
        self.names.label(Some(model)).name()
    }

    /// Time since the request was whole.
    pub(crate) fn took(&self) -> Duration {
        self.beginning.arrived.elapsed()
    }

    fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    fn correct_the_books(&mut self, served: Option<std::net::SocketAddr>) {
        self.served = served;
        let Some(served) = served else {
            if self.shadow {
                self.routed.served_by_nobody_knows();
                self.predicted = None;
                self.metrics.worth.shadowed("untold", None);
            }
            return;
        };
        let as_picked = self.routed.served_by(served, Instant::now()) == Served::AsPicked;
        if !as_picked {
            self.predicted = self.predicted.map(|_| self.routed.predicted_cached_tokens());
        }
        if self.shadow {
            let served = if as_picked { "as_picked" } else { "elsewhere" };
            self.metrics.worth.shadowed(served, self.at_pick.zip(self.predicted));
        } else if !as_picked {
            self.metrics.picks.served_elsewhere();
        }
    }

    fn saw(&mut self, seen: Seen) {
        if seen < Seen::Content {
            return;
        }
        let now = Instant::now();
        match self.last_content.replace(now) {
            None => {
                let ttft = now - self.beginning.arrived;
                self.first_content = Some(ttft);
                let endpoint = self.routed.endpoint();
                self.at_endpoint = endpoint.map(|endpoint| self.metrics.picks.first_content(&endpoint.member, ttft));
            }
            Some(before) => {
                self.running.between_chunks(now - before);
                if let Some(gaps) = &self.at_endpoint {
                    gaps.observe((now - before).as_secs_f64());
                }
            }
        }
    }

    fn over(&mut self) {
        let seen = self.answer.as_mut().map(Answer::finish);
        if let Some(seen) = seen {
            self.saw(seen);
        }
        self.complete = true;
    }
}

impl Ticket for Underway {
    fn head(&mut self, head: &ResponseHead) -> Vec<(String, Vec<u8>)> {
        self.answered = Some(Instant::now());
        self.status = (head.status != 0).then_some(head.status);
        self.attempts = head.headers.text(ATTEMPTS).and_then(|count| count.parse().ok());
        self.correct_the_books(head.served);
        if self.succeeded() {
            learn(self.routed.succeeded());
            if let Some(model) = &self.understood.model {
                self.names.served(model);
            }
            let header = |name| head.headers.text(name);
            self.answer = Some(Answer::new(header("content-type"), header("content-encoding")));
        } else {
            let outcome = self.routed.failed();
            if outcome.blocks() > 0 {
                self.metrics.picks.undone();
            }
            learn(outcome);
            self.metrics.requests.failed(&self.model, "ModelServerError");
        }
        self.may_keep_back = head.may_keep_back;
        if let Some(renamed) = &self.understood.renamed {
            let header = |name| head.headers.text(name);
            let (kind, coding) = (header("content-type"), header("content-encoding"));
            self.name_back = Some(NameBack::new(&renamed.to, &renamed.asked, kind, coding));
        }
        if head.end {
            self.over();
        }
        let mut told = Vec::new();
        if self.conformance {
            told.push((SERVED.to_owned(), who_served(head).into_bytes()));
        }
        if self.beginning.asks_why {
            told.push((DECISION.to_owned(), words::header(&record_log::picked(self)).into_bytes()));
        }
        told
    }

    fn body(&mut self, part: Bytes, end: bool) -> Bytes {
        let begun = Instant::now();
        let passed = self.pass(part, end);
        self.dealt_with += begun.elapsed();
        passed
    }
}

impl Underway {
    fn pass(&mut self, part: Bytes, end: bool) -> Bytes {
        self.response_bytes += part.len();
        let seen = self.answer.as_mut().map(|answer| answer.feed(&part));
        if let Some(seen) = seen {
            self.saw(seen);
        }
        if end {
            self.over();
        }
        let Some(name_back) = &mut self.name_back else { return part };
        let mut passed = name_back.pass(&part);
        if end || !self.may_keep_back {
            passed.append(&mut name_back.let_go());
        }
        passed.into()
    }
}

/// Away from the runtime's threads where it takes long.
fn learn(outcome: Outcome) {
    if outcome.blocks() >= LONG_PROMPT
        && let Ok(runtime) = Handle::try_current()
    {
        runtime.spawn_blocking(move || drop(outcome));
    }
}

/// The share of a prompt that the engine says it reused; nothing where it doesn't say.
fn reuse(usage: &Usage) -> Option<f64> {
    let prompt = usage.prompt_tokens.filter(|tokens| *tokens > 0)?;
    Some((usage.cached_tokens? as f64 / prompt as f64).min(1.0))
}

/// As conformance tests want it told.
fn who_served(head: &ResponseHead) -> String {
    match (head.served, head.untold) {
        (Some(served), _) => served.to_string(),
        (None, Some(Untold::Endpoint)) => "fail: missing destination endpoint served metadata".to_owned(),
        (None, Some(Untold::Namespace) | None) => "fail: missing envoy lb metadata".to_owned(),
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        // Where no answer came.
        learn(self.routed.failed());
        let usage = self.usage();
        if self.status.is_some() {
            let usage = usage.unwrap_or_default();
            let streaming = self.answer.as_ref().is_some_and(Answer::is_stream);
            let whole = self.answered.map(|answered| answered.elapsed()).filter(|_| !streaming);
            let finished = Finished {
                took: self.took(),
                request_bytes: self.beginning.body_bytes,
                response_bytes: self.response_bytes,
                ttft: self.first_content,
                streaming,
                prompt_tokens: usage.prompt_tokens,
                cached_tokens: usage.cached_tokens,
                completion_tokens: usage.completion_tokens,
                answer_processed_in: whole.unwrap_or(self.dealt_with),
            };
            self.metrics.requests.finished(&self.model, &finished);
        }
        // Only answers of APIs that report usage count for its coverage.
        if self.succeeded() && self.complete && !self.understood.api.is_empty() {
            let exact = !self.understood.estimated && !self.understood.multimodal && !self.understood.inexact;
            let foretold = Foretold {
                prompt_tokens: self.understood.prompt_tokens.filter(|_| exact),
                cached_tokens: self.predicted,
            };
            self.metrics.picks.answered(&self.model, foretold, usage.as_ref());
            if self.compared {
                let reuse = usage.as_ref().and_then(reuse);
                self.metrics.worth.answered(self.beginning.arm, self.first_content, reuse);
            }
        }
        let (logging, followed, traced) = (self.logged.any(), self.feed.wants_ends(), self.beginning.span.is_seen());
        if !logging && !followed && !traced {
            return;
        }
        let record = record_log::ended(self);
        self.beginning.span.ended(&record);
        if logging && self.logged.wants(&record, rand::random()) {
            record_log::print(&record);
        }
        if followed {
            self.feed.tell(Arc::new(record));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conformance_tests_are_told_who_served_or_what_was_missing() {
        let told = |served: Option<&str>, untold| {
            let served = served.map(|address| address.parse().expect("an address"));
            who_served(&ResponseHead { served, untold, ..ResponseHead::default() })
        };
        assert_eq!(told(Some("10.0.0.1:3000"), None), "10.0.0.1:3000");
        assert_eq!(told(None, Some(Untold::Namespace)), "fail: missing envoy lb metadata");
        assert_eq!(told(None, Some(Untold::Endpoint)), "fail: missing destination endpoint served metadata");
    }
}
