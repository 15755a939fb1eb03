//! The product's sentence: parse, encode, hash, route, answer, hold the booking.
//!
//! In: an [`Inbound`] request; out: where it goes, and the [`Underway`] request that is held until its end. It knows which
//! steps there are and in what order, not how any is done. What goes wrong in understanding a request degrades the pick
//! and is noted; refused is only what nobody can serve.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use blocks::Fingerprint;
use envoy::{Handler, Inbound, Refusal, Verdict};
use fleet::{Fleet, View};
use pick::{Note, Policy};
use route::{Asked, Routed, Router, Unroutable};

use crate::complaints::Complaints;
use crate::cpu::{Cpu, NotRun, Weight};
use crate::load_only::LoadOnly;
use crate::metrics::{Metrics, ModelLabel, ModelNames};
use crate::models::Models;
use crate::understand::{Arrived, Understood, understand};
use crate::underway::{Beginning, Underway};

/// Blocks from which on a prompt is scored and learned away from the runtime's threads: some 50 ns each.
const LONG_PROMPT: u32 = 4096;

/// What every request goes through.
#[derive(Debug)]
pub(crate) struct Pipeline {
    /// Who can serve.
    pub(crate) fleet: Arc<Fleet>,
    /// Scores, picks, books, learns.
    pub(crate) router: Router,
    /// How endpoints are chosen.
    pub(crate) policy: Policy,
    /// Tokenizers, by model.
    pub(crate) models: Arc<Models>,
    /// Where the CPU work of a request runs.
    pub(crate) cpu: Cpu,
    /// The header that says which tenant asks.
    pub(crate) tenant_header: Option<String>,
    /// The operator's switch to leave prompts unread.
    pub(crate) load_only: LoadOnly,
    /// Whether a body that isn't understood is refused.
    pub(crate) strict: bool,
    /// Whether the gateway's subset hint is heeded.
    pub(crate) heed_subset: bool,
    /// Whether each decision is logged.
    pub(crate) log_decisions: bool,
    /// What picks had to do without, said seldom.
    pub(crate) complaints: Complaints,
    /// Which model names may become labels.
    pub(crate) names: Arc<ModelNames>,
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
}

impl Handler for Pipeline {
    type Ticket = Underway;

    async fn decide(&self, inbound: Inbound) -> Result<(Verdict, Underway), Refusal> {
        let arrived = Instant::now();
        let mut understood = self.understand(&inbound).await;
        let model = self.names.label(understood.model.as_deref());
        self.refuse_what_is_not_understood(&understood).inspect_err(|refusal| self.refused(&model, refusal))?;
        // Looked at anew: the fleet may have changed while the prompt was tokenized.
        let view = self.fleet.view();
        let routed = self
            .route(&inbound, &view, &mut understood, &model)
            .await
            .map_err(|why| Refusal::NoEndpoint(why.to_string().into()))
            .inspect_err(|refusal| self.refused(&model, refusal))?;
        let verdict = Verdict { destination: routed.destinations.clone(), ..Verdict::default() };
        let beginning = Beginning {
            arrived,
            at: SystemTime::now(),
            decided_in: arrived.elapsed(),
            request_id: inbound.request_id,
            body_bytes: inbound.body.map_or(0, |body| body.len()),
            view,
        };
        let running = self.metrics.requests.picked(&model);
        let underway = Underway::new(beginning, understood, routed, model, running, self);
        Ok((verdict, underway))
    }
}

impl Pipeline {
    /// Parse, encode, hash: on the CPU's threads, or not at all.
    async fn understand(&self, inbound: &Inbound) -> Understood {
        let arrived = Arrived {
            path: inbound.path.clone(),
            encoding: inbound.headers.text("content-encoding").map(str::to_owned),
            body: inbound.body.clone(),
            load_only: self.load_only.is_on(),
            tenant: self.tenant_header.as_ref().and_then(|name| inbound.headers.text(name)).map(str::to_owned),
        };
        let Some(_) = arrived.body else {
            return understand(&arrived, &self.models, &[], SystemTime::now());
        };
        let sizes = self.router.block_sizes(&self.fleet.view());
        let (models, metrics) = (Arc::clone(&self.models), Arc::clone(&self.metrics));
        let weight = Weight::of(inbound.body.as_ref().map_or(0, |body| body.len()));
        let queued = Instant::now();
        let work = move || {
            metrics.picks.stage("queue", queued.elapsed());
            let started = Instant::now();
            let understood = understand(&arrived, &models, &sizes, SystemTime::now());
            metrics.picks.stage("understand", started.elapsed());
            understood
        };
        self.cpu.run(weight, work).await.unwrap_or_else(|why| {
            if why == NotRun::Panicked {
                tracing::error!(request_id = inbound.request_id, "understanding a request failed: it goes on by load");
            }
            Understood { notes: vec![Note::Busy], ..Understood::default() }
        })
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
        model: &ModelLabel,
    ) -> Result<Routed, Unroutable> {
        let started = Instant::now();
        let fingerprints: Arc<[Fingerprint]> = std::mem::take(&mut understood.fingerprints).into();
        let allowed = inbound.subset.as_ref().filter(|_| self.heed_subset);
        let blocks: u32 = fingerprints.iter().map(Fingerprint::blocks).sum();
        let routed = if blocks < LONG_PROMPT {
            let asked = Asked { fingerprints, allowed: allowed.map(Vec::as_slice) };
            self.router.route(view, &asked, &self.policy, started, &mut rand::rng())
        } else {
            self.route_aside(view, fingerprints, allowed.cloned(), started).await
        };
        let took = started.elapsed();
        self.metrics.picks.stage("route", took);
        let mut routed = routed.inspect_err(|_| self.metrics.picks.unroutable(model))?;
        for note in understood.notes.drain(..) {
            routed.decision.note(note);
        }
        self.complaints.say(&routed.decision.notes);
        self.count(&routed, model, took);
        Ok(routed)
    }

    /// The same away from the runtime's threads: learning so many blocks takes milliseconds. Where the request is given up
    /// meanwhile, what was booked and learned undoes itself.
    async fn route_aside(
        &self,
        view: &Arc<View>,
        fingerprints: Arc<[Fingerprint]>,
        allowed: Option<Vec<String>>,
        started: Instant,
    ) -> Result<Routed, Unroutable> {
        let (router, view, policy) = (self.router.clone(), Arc::clone(view), self.policy.clone());
        let route = move || {
            let asked = Asked { fingerprints, allowed: allowed.as_deref() };
            router.route(&view, &asked, &policy, started, &mut rand::rng())
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

    fn refused(&self, model: &ModelLabel, refusal: &Refusal) {
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
