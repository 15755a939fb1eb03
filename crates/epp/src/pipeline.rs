//! The product's sentence: parse, encode, hash, route, answer, hold the booking.
//!
//! In: an [`Inbound`] request; out: where it goes, and the [`Underway`] request that is held until its end. It knows which
//! steps there are and in what order, not how any is done. What goes wrong in understanding a request degrades the pick
//! and is noted; refused is only what nobody can serve.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use blocks::Fingerprint;
use config::Trust;
use envoy::{Body, Handler, Inbound, Refusal, Unread, Verdict};
use fleet::{Fleet, View};
use pick::{Note, Policy};
use route::{Asked, Routed, Router, Unroutable};

use crate::client::{Said, said};
use crate::complaints::Complaints;
use crate::cpu::{Cpu, NotRun, Weight};
use crate::discovery::Ruled;
use crate::feed::Feed;
use crate::holdout::{Arm, Holdout};
use crate::load_only::LoadOnly;
use crate::metrics::{Metrics, ModelLabel, ModelNames, PickMetrics};
use crate::models::Models;
use crate::progress::Progress;
use crate::record_log::Logged;
use crate::spans::Spans;
use crate::understand::{Arrived, Rules, Ruling, Understood, understand};
use crate::underway::{Beginning, Underway};

/// Blocks from which on a prompt is scored and learned away from the runtime's threads: some 50 ns each.
pub(crate) const LONG_PROMPT: usize = 4096;

/// Conformance tests say by it which endpoints may be chosen.
const SELECTION: &str = "test-epp-endpoint-selection";
/// What conformance tests' echo server is told to reflect.
const ECHO: &str = "x-echo-set-header";
/// Conformance tests read from it who served.
pub(crate) const SERVED: &str = "x-conformance-test-served-endpoint";

/// What every request goes through.
#[derive(Debug)]
pub(crate) struct Pipeline {
    /// Who can serve.
    pub(crate) fleet: Arc<Fleet>,
    /// Scores, picks, books, learns.
    pub(crate) router: Router,
    /// How endpoints are chosen.
    pub(crate) policy: Policy,
    /// For which share of the requests otherwise.
    pub(crate) holdout: Option<Holdout>,
    /// Whether nothing is steered: what is decided is counted and told, and gateways send requests where they would by themselves.
    pub(crate) shadow: bool,
    /// Tokenizers, by model.
    pub(crate) models: Arc<Models>,
    /// Where the CPU work of a request runs.
    pub(crate) cpu: Cpu,
    /// The header that says which tenant asks.
    pub(crate) tenant_header: Option<String>,
    /// The header that says who is told the decision.
    pub(crate) tell_decision_if: Option<String>,
    /// How requests are read.
    pub(crate) rules: Rules,
    /// What clients may say of themselves.
    pub(crate) trust: Trust,
    /// The operator's switch to leave prompts unread.
    pub(crate) load_only: LoadOnly,
    /// Whether a body that isn't understood is refused.
    pub(crate) strict: bool,
    /// Whether the gateway's subset hint is heeded.
    pub(crate) heed_subset: bool,
    /// How long a prompt may take to be read before its request goes on with what is known.
    pub(crate) decide_within: Duration,
    /// Whether the gateway is told every candidate's score.
    pub(crate) tell_scores: bool,
    /// Whether the conformance tests' headers are heeded.
    pub(crate) conformance: bool,
    /// Which decisions are logged.
    pub(crate) logged: Logged,
    /// Who follows decisions.
    pub(crate) feed: Feed,
    /// What the cluster's objects rule.
    pub(crate) ruled: Arc<ArcSwap<Ruled>>,
    /// What picks had to do without, said seldom.
    pub(crate) complaints: Complaints,
    /// Which model names may become labels.
    pub(crate) names: Arc<ModelNames>,
    /// What is traced.
    pub(crate) spans: Spans,
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
}

/// Why, for the one who is shed.
const SHED: &str = "every endpoint is saturated and this request's objective has a negative priority; try again later";

impl Handler for Pipeline {
    /// None where nothing is steered and nobody could have been picked.
    type Ticket = Option<Underway>;

    async fn decide(&self, inbound: Inbound) -> Result<(Verdict, Self::Ticket), Refusal> {
        match self.pick(inbound).await {
            Ok((verdict, underway)) => Ok((Verdict { hands_off: self.shadow, ..verdict }, Some(underway))),
            Err(_) if self.shadow => Ok((Verdict::hands_off(), None)),
            Err(refusal) => Err(refusal),
        }
    }

    fn suppose(&self, inbound: &Inbound) -> Option<SocketAddr> {
        if self.shadow {
            return None;
        }
        let allowed = self.allowed(inbound);
        let asked = Asked { fingerprints: Vec::new().into(), allowed: allowed.as_deref() };
        let routed = self.router.route(&self.fleet.view(), &asked, &self.policy, Instant::now(), &mut rand::rng());
        // Its booking ends here: this is for the case that nothing comes, and then it is decided all the same.
        routed.ok()?.destinations.first().copied()
    }

    fn refused(&self, refusal: &Refusal) {
        self.count_refusal(&self.names.label(None), refusal);
    }

    fn untaken(&self) {
        self.metrics.requests.untaken();
    }
}

impl Pipeline {
    /// Where a request is to go, and what is held of it.
    async fn pick(&self, inbound: Inbound) -> Result<(Verdict, Underway), Refusal> {
        let (arrived, at) = (Instant::now(), SystemTime::now());
        let span = self.spans.begin(&inbound.headers, &inbound.request_id, at);
        let (said, mut taken_off) = said(&inbound.headers, self.trust);
        let asks_why = self.tell_decision_if.as_ref().filter(|name| inbound.headers.get(name).is_some());
        taken_off.extend(asks_why.cloned());
        let asks_why = asks_why.is_some();
        let mut understood = self.understand(&inbound, &said).await;
        if said.model_rewrite.is_some() && understood.renamed.is_none() && understood.model != said.model_rewrite {
            understood.notes.push(Note::NotRewritten);
        }
        let model = self.names.label(understood.model.as_deref());
        if let Some(Ruling { by, asked, to }) = &understood.ruled {
            self.metrics.picks.rewritten(by, &self.names.label(asked.as_deref()), to);
        }
        let refused = |refusal: &Refusal| {
            self.count_refusal(&model, refusal);
            span.refused(refusal);
        };
        self.refuse_what_is_not_understood(&understood).inspect_err(refused)?;
        // Looked at anew: the fleet may have changed while the prompt was tokenized.
        let view = self.fleet.view();
        let arm = self.holdout.as_ref().map_or(Arm::Picked, |holdout| holdout.arm(rand::random()));
        let routing = Instant::now();
        let routed = self.route(&inbound, &view, &mut understood, (&model, &said, arm)).await.inspect_err(refused)?;
        let mut verdict = self.verdict(&routed, &view, &mut understood, taken_off);
        verdict.set_headers.extend(span.carried());
        let route = routing.elapsed();
        let decided_in = arrived.elapsed();
        self.metrics.requests.processed(decided_in);
        let beginning = Beginning {
            arrived,
            at,
            route,
            span,
            decided_in,
            request_id: inbound.request_id,
            body_bytes: inbound.body.map_or(0, |body| body.len()),
            view,
            said,
            asks_why,
            arm,
        };
        let running = self.metrics.requests.picked(&model);
        let underway = Underway::new(beginning, understood, routed, model, running, self);
        Ok((verdict, underway))
    }

    /// Parse, encode, hash: on the CPU's threads, or not at all.
    async fn understand(&self, inbound: &Inbound, said: &Said) -> Understood {
        if let Some(unread) = inbound.unread {
            return Understood { notes: vec![why_unread(unread)], ..Understood::default() };
        }
        let progress = Progress::default();
        let arrived = Arrived {
            path: inbound.path.clone(),
            encoding: inbound.headers.text("content-encoding").map(str::to_owned),
            body: inbound.body.clone(),
            load_only: self.load_only.is_on(),
            tenant: self.tenant_header.as_ref().and_then(|name| inbound.headers.text(name)).map(str::to_owned),
            rules: self.rules,
            rewrite: said.model_rewrite.clone(),
            rewrites: Arc::clone(&self.ruled.load().rewrites),
            random: rand::random(),
            progress: progress.clone(),
        };
        let Some(_) = arrived.body else {
            return understand(&arrived, &self.models, &[], SystemTime::now());
        };
        let sizes = self.router.block_sizes(&self.fleet.view());
        let (models, metrics) = (Arc::clone(&self.models), Arc::clone(&self.metrics));
        let weight = Weight::of(inbound.body.as_ref().map_or(0, Body::len));
        let queued = Instant::now();
        let work = move || {
            let queue = queued.elapsed();
            let mut understood = understand(&arrived, &models, &sizes, SystemTime::now());
            understood.took.queue = queue;
            for (stage, took) in understood.took.stages() {
                // Zero: it didn't come to that.
                if !took.is_zero() {
                    metrics.picks.stage(stage, took);
                }
            }
            understood
        };
        self.in_time(work, weight, &progress, &inbound.request_id).await
    }

    /// What `work` understands, or what is known of the request without it: it may find no thread, fail, or take too long.
    async fn in_time(
        &self,
        work: impl FnOnce() -> Understood + Send + 'static,
        weight: Weight,
        progress: &Progress,
        request_id: &str,
    ) -> Understood {
        let _waiting = progress.waiting();
        let note = match tokio::time::timeout(self.decide_within, self.cpu.run(weight, work)).await {
            Ok(Ok(understood)) => return understood,
            Ok(Err(NotRun::Busy)) => Note::Busy,
            Ok(Err(NotRun::Panicked)) => {
                tracing::error!(request_id, "understanding a request failed: it goes on by load");
                Note::Panicked
            }
            Err(_) => return so_far(progress),
        };
        Understood { notes: vec![note], ..Understood::default() }
    }

    /// Where to, and what conformance tests and curious gateways are told beside it.
    fn verdict(
        &self,
        routed: &Routed,
        view: &View,
        understood: &mut Understood,
        mut remove_headers: Vec<String>,
    ) -> Verdict {
        let body = understood.renamed.as_mut().map(|renamed| std::mem::take(&mut renamed.body));
        if body.is_some() {
            // A packed answer would keep the engine's name of the model.
            remove_headers.push("accept-encoding".to_owned());
        }
        let destination = routed.destinations.clone();
        let mut verdict = Verdict { destination, body, remove_headers, ..Verdict::default() };
        if self.tell_scores {
            let scored = routed.decision.ranked.iter();
            verdict.scores = scored.filter_map(|r| Some((view.get(r.id)?.member.address, r.total))).collect();
        }
        if let Some(first) = verdict.destination.first().filter(|_| self.conformance) {
            verdict.set_headers.push((ECHO.to_owned(), format!("{SERVED}:{first}").into_bytes()));
        }
        verdict
    }

    /// The endpoints to choose from, where somebody says that may: a conformance test before the gateway.
    fn allowed(&self, inbound: &Inbound) -> Option<Vec<String>> {
        let selected = inbound.headers.text(SELECTION).filter(|_| self.conformance);
        match selected {
            Some(list) => {
                Some(list.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect())
            }
            None => inbound.subset.clone().filter(|_| self.heed_subset),
        }
    }

    /// `--strict-requests`: what the engine would answer with 400 is answered here.
    fn refuse_what_is_not_understood(&self, understood: &Understood) -> Result<(), Refusal> {
        match &understood.problem {
            Some(problem) if self.strict => Err(Refusal::BadRequest(problem.clone().into())),
            _ => Ok(()),
        }
    }

    /// Score, pick, book, learn.
    async fn route(
        &self,
        inbound: &Inbound,
        view: &Arc<View>,
        understood: &mut Understood,
        (model, said, arm): (&ModelLabel, &Said, Arm),
    ) -> Result<Routed, Refusal> {
        let started = Instant::now();
        let policy = self.policy_of(arm);
        let fingerprints: Arc<[Fingerprint]> = std::mem::take(&mut understood.fingerprints).into();
        let allowed = self.allowed(inbound);
        let blocks: u32 = fingerprints.iter().map(Fingerprint::blocks).sum();
        let routed = if (blocks as usize) < LONG_PROMPT {
            let asked = Asked { fingerprints, allowed: allowed.as_deref() };
            routed(&self.router, view, &asked, policy, started, &self.metrics.picks)
        } else {
            self.route_aside(view, fingerprints, allowed, policy, started).await
        };
        let took = started.elapsed();
        let routed = routed.inspect_err(|_| self.metrics.picks.unroutable(model));
        let mut routed = routed.map_err(|why| Refusal::NoEndpoint(why.to_string().into()))?;
        let saturation = self.policy.saturation;
        if self.priority(said) < 0 && routed.candidates.iter().all(|candidate| candidate.is_saturated(saturation)) {
            // What was booked and learned for it undoes itself.
            return Err(Refusal::Saturated(SHED.into()));
        }
        for note in understood.notes.drain(..) {
            routed.decision.note(note);
        }
        self.complaints.say(&routed.decision.notes);
        self.count(&routed, model, took);
        if self.holdout.is_some() {
            self.metrics.worth.picked(arm);
        }
        Ok(routed)
    }

    fn policy_of(&self, arm: Arm) -> &Policy {
        match &self.holdout {
            Some(holdout) if arm == Arm::Holdout => holdout.policy(),
            _ => &self.policy,
        }
    }

    /// How much the request's objective matters; negative: it may be shed.
    fn priority(&self, said: &Said) -> i32 {
        let ruled = self.ruled.load();
        said.objective.as_ref().and_then(|name| ruled.priorities.get(name)).copied().unwrap_or(0)
    }

    /// The same away from the runtime's threads: learning so many blocks takes milliseconds. Where the request is given up
    /// meanwhile, what was booked and learned undoes itself.
    async fn route_aside(
        &self,
        view: &Arc<View>,
        fingerprints: Arc<[Fingerprint]>,
        allowed: Option<Vec<String>>,
        policy: &Policy,
        started: Instant,
    ) -> Result<Routed, Unroutable> {
        let (router, view, policy) = (self.router.clone(), Arc::clone(view), policy.clone());
        let metrics = Arc::clone(&self.metrics);
        let route = move || {
            let asked = Asked { fingerprints, allowed: allowed.as_deref() };
            routed(&router, &view, &asked, &policy, started, &metrics.picks)
        };
        let routed = tokio::task::spawn_blocking(route).await;
        // A panic there is one here, and ends this stream alone; the runtime's own end finds nobody waiting.
        routed.unwrap_or_else(|failed| match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Unroutable::NoEndpoints),
        })
    }

    fn count(&self, routed: &Routed, model: &ModelLabel, took: Duration) {
        if let Some(endpoint) = routed.endpoint() {
            self.metrics.picks.picked(model, &routed.decision, endpoint, took);
        }
        let chosen = routed.candidates.iter().find(|candidate| candidate.id == routed.decision.best());
        if let Some(chosen) = chosen.filter(|_| routed.ask.blocks > 0) {
            self.metrics.picks.foretold(f64::from(chosen.overlap) / f64::from(routed.ask.blocks));
        }
    }

    fn count_refusal(&self, model: &ModelLabel, refusal: &Refusal) {
        let code = match refusal {
            Refusal::BadRequest(_) | Refusal::TooLarge { .. } => "BadRequest",
            Refusal::Saturated(_) => "ResourceExhausted",
            Refusal::NoEndpoint(_) | Refusal::ShuttingDown => "ServiceUnavailable",
            Refusal::Internal(_) => "Internal",
        };
        self.metrics.requests.failed(model, code);
        tracing::info!(code, reason = %refusal, "a request was refused");
    }
}

/// Routes, and counts how long its steps take.
fn routed(
    router: &Router,
    view: &View,
    asked: &Asked<'_>,
    policy: &Policy,
    started: Instant,
    counts: &PickMetrics,
) -> Result<Routed, Unroutable> {
    // Where it went aside, it has waited for a thread.
    let begun = Instant::now();
    let matched = Cell::new(begun);
    let routed = router.route_in_steps(view, asked, policy, started, &mut rand::rng(), || matched.set(Instant::now()));
    counts.stage("match", matched.get() - begun);
    counts.stage("pick", matched.get().elapsed());
    routed
}

fn why_unread(unread: Unread) -> Note {
    match unread {
        Unread::Hidden => Note::BodyHidden,
        Unread::Memory => Note::NoBodyMemory,
        Unread::Stalled => Note::BodyStalled,
    }
}

/// What is known when the time to decide is up.
fn so_far(progress: &Progress) -> Understood {
    let parsed = progress.known().unwrap_or_default();
    Understood {
        api: parsed.api,
        model: parsed.model,
        stream: parsed.stream,
        notes: vec![Note::Deadline],
        ..Understood::default()
    }
}

#[cfg(test)]
mod tests;
