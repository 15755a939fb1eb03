//! What is exported on `/metrics`: llm-d's names where llm-d has the thing, their deprecated twins beside them, and
//! `warmpath_*` for what is ours.
//!
//! In: what the pipeline and the scraper count; out: OpenMetrics text. Label values are bounded whatever clients send.

mod fleet;
mod labels;
mod picks;
mod requests;

use std::fmt::Error;

use prometheus_client::registry::Registry;

pub(crate) use fleet::FleetMetrics;
pub(crate) use labels::{ModelLabel, ModelNames};
pub(crate) use picks::{Foretold, PickMetrics};
pub(crate) use requests::{Finished, RequestMetrics, Running};

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Requests: counts, sizes, times, tokens.
    pub(crate) requests: RequestMetrics,
    /// Decisions: parts, reuse, degradations.
    pub(crate) picks: PickMetrics,
    registry: Registry,
}

impl Metrics {
    /// Registers every family. `deprecated` also exports the names that llm-d has given up but dashboards use.
    pub(crate) fn new(deprecated: bool, fleet: FleetMetrics) -> Self {
        let mut registry = Registry::default();
        let requests = RequestMetrics::register(&mut registry, deprecated);
        let picks = PickMetrics::register(&mut registry, deprecated);
        registry.register_collector(Box::new(fleet));
        Self { requests, picks, registry }
    }

    /// The page as OpenMetrics text.
    pub(crate) fn page(&self) -> Result<String, Error> {
        let mut page = String::new();
        prometheus_client::encoding::text::encode(&mut page, &self.registry)?;
        Ok(page)
    }
}

/// The content type of [`Metrics::page`].
pub(crate) const PAGE_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
