//! What is exported on `/metrics`: llm-d's names where llm-d has the thing, their deprecated twins beside them, and
//! `warmpath_*` for what is ours.
//!
//! In: what the pipeline and the scraper count; out: OpenMetrics text. Label values are bounded whatever clients send.

mod classic;
mod cluster;
mod fleet;
mod labels;
mod memos;
mod picks;
#[cfg(feature = "poll-times")]
mod polls;
mod registrar;
mod requests;
mod server;
mod worth;

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::registry::Registry;
use tokio::runtime::Builder;

pub(crate) use cluster::ClusterMetrics;
pub(crate) use fleet::FleetMetrics;
pub(crate) use labels::{ModelLabel, ModelNames};
pub(crate) use memos::MemoMetrics;
pub(crate) use picks::{Foretold, PickMetrics};
use registrar::Registrar;
pub(crate) use requests::{Finished, RequestMetrics, Running};
pub(crate) use server::ServerMetrics;
pub(crate) use worth::WorthMetrics;

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Requests: counts, sizes, times, tokens.
    pub(crate) requests: RequestMetrics,
    /// Decisions: parts, reuse, degradations.
    pub(crate) picks: PickMetrics,
    /// What picking is worth.
    pub(crate) worth: WorthMetrics,
    /// The API server.
    pub(crate) cluster: ClusterMetrics,
    registry: Registry,
}

impl Metrics {
    /// Registers every family. `deprecated` also exports the names that llm-d has given up but dashboards use.
    pub(crate) fn new(deprecated: bool, fleet: FleetMetrics, watching: Vec<Watching>) -> Self {
        let mut registry = Registry::default();
        let mut families = Registrar { registry: &mut registry, deprecated };
        let requests = RequestMetrics::register(&mut families);
        let picks = PickMetrics::register(&mut families);
        let worth = WorthMetrics::register(&mut families);
        let cluster = ClusterMetrics::register(&mut families);
        registry.register_collector(Box::new(fleet));
        for collector in watching {
            registry.register_collector(collector);
        }
        Self { requests, picks, worth, cluster, registry }
    }

    /// The page as text.
    pub(crate) fn page(&self, format: Format) -> Result<String, Error> {
        let mut page = String::new();
        prometheus_client::encoding::text::encode(&mut page, &self.registry)?;
        Ok(match format {
            Format::OpenMetrics => page,
            Format::Classic => classic::classic(&page),
        })
    }
}

/// How a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus' text format, 0.0.4.
    Classic,
    /// OpenMetrics text, 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The one that an `Accept` header asks for.
    pub(crate) fn asked_for(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Classic }
    }

    /// Its content type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What watches the runtime and shows what it saw.
pub(crate) type Watching = Box<dyn Collector>;

/// Has the runtime watched, as far as this build can.
pub(crate) fn watch(runtime: &mut Builder) -> Vec<Watching> {
    #[cfg(feature = "poll-times")]
    {
        let polls = polls::Polls::default();
        polls.watch(runtime);
        vec![Box::new(polls)]
    }
    #[cfg(not(feature = "poll-times"))]
    {
        let _ = runtime;
        Vec::new()
    }
}
