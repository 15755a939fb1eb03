//! Gauges about the fleet and the index, worked out from the fleet itself whenever the page is asked for: an endpoint
//! that has left has no series, and what is not known has none either, rather than a zero.

use std::fmt::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet::{Endpoint, Fleet, Spread, Standing, View};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use route::Router;

use super::registrar::{NoLabels, alpha, bare};
use crate::load_only::LoadOnly;

/// What the gauges are worked out from.
#[derive(Debug)]
pub(crate) struct FleetMetrics {
    /// The endpoints.
    pub(crate) fleet: Arc<Fleet>,
    /// What is believed of their caches.
    pub(crate) router: Router,
    /// The operator's switch.
    pub(crate) load_only: LoadOnly,
    /// The pool's name, a label.
    pub(crate) pool: String,
    /// The age at which a reading is stale.
    pub(crate) stale_after: Duration,
    /// Whether to export the deprecated names too.
    pub(crate) deprecated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pool {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PerEndpoint {
    name: String,
    model_server_endpoint: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PerPod {
    name: String,
    model_server_pod: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InFlight {
    endpoint_name: String,
    namespace: String,
    port: String,
    producer_name: &'static str,
    fairness_id: &'static str,
    priority: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Place {
    endpoint_name: String,
    namespace: String,
    port: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Index {
    plugin_name: &'static str,
    plugin_type: &'static str,
}

impl Collector for FleetMetrics {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), Error> {
        let mut page = Page(encoder);
        let view = self.fleet.view();
        let now = Instant::now();
        self.pool(&mut page, &view, now)?;
        self.endpoints(&mut page, &view, now)?;
        self.index(&mut page, &view)
    }
}

impl FleetMetrics {
    fn pool(&self, page: &mut Page<'_>, view: &View, now: Instant) -> Result<(), Error> {
        let averages = fleet::averages(view, now, self.stale_after);
        let pool = Pool { name: self.pool.clone() };
        let figures = [
            (
                "average_kv_cache_utilization",
                "The average kv cache utilization for an inference server pool.",
                mean(averages.kv_usage),
            ),
            (
                "std_dev_kv_cache_utilization",
                "The standard deviation kv cache utilization for an inference server pool.",
                deviation(averages.kv_usage),
            ),
            (
                "average_queue_size",
                "The average number of requests pending in the model server queue.",
                mean(averages.waiting),
            ),
            (
                "std_dev_queue_size",
                "The standard deviation number of requests pending in the model server queue.",
                deviation(averages.waiting),
            ),
            (
                "average_running_requests",
                "The average number of running requests across model servers in the pool.",
                mean(averages.running),
            ),
            (
                "std_dev_running_requests",
                "The standard deviation number of running requests across model servers in the pool.",
                deviation(averages.running),
            ),
        ];
        for (name, help, figure) in figures {
            let name = format!("llm_d_epp_{name}");
            page.gauges(&name, &alpha(help), figure.map(|f| (pool.clone(), f)))?;
        }
        let ready = (pool.clone(), averages.ready as f64);
        page.gauges(
            "llm_d_epp_ready_endpoints",
            "[ALPHA] The number of ready endpoints in the inference server pool.",
            Some(ready.clone()),
        )?;
        if self.deprecated {
            for (name, help, figure) in figures.into_iter().filter(|(name, ..)| name.starts_with("average_")) {
                let help = alpha(&format!("[Deprecated: Use llm_d_epp_{name}] {help}"));
                let name = format!("inference_pool_{name}");
                page.gauges(&name, &help, figure.map(|f| (pool.clone(), f)))?;
            }
            let help = "[ALPHA] [Deprecated: Use llm_d_epp_ready_endpoints] The number of ready pods in the inference server pool.";
            page.gauges("inference_pool_ready_pods", help, Some(ready))?;
        }
        Ok(())
    }

    fn endpoints(&self, page: &mut Page<'_>, view: &View, now: Instant) -> Result<(), Error> {
        let all = view.endpoints();
        let waiting = |e: &Endpoint| e.reading.load.as_ref().and_then(|load| load.waiting);
        page.gauges(
            "llm_d_epp_per_endpoint_queue_size",
            "[ALPHA] The total number of requests pending in the model server queue for each underlying endpoint.",
            all.iter().filter_map(|e| {
                let labels = PerEndpoint { name: self.pool.clone(), model_server_endpoint: e.member.name.clone() };
                waiting(e).map(|figure| (labels, figure))
            }),
        )?;
        if self.deprecated {
            page.gauges(
                "inference_pool_per_pod_queue_size",
                "[ALPHA] The total number of requests pending in the model server queue for each underlying pod.",
                all.iter().filter_map(|e| {
                    let labels = PerPod { name: self.pool.clone(), model_server_pod: e.member.name.clone() };
                    waiting(e).map(|figure| (labels, figure))
                }),
            )?;
        }
        page.gauges(
            "llm_d_epp_inflight_requests",
            "[ALPHA] Current number of in-flight requests per endpoint, as tracked by the in-flight load producer.",
            all.iter().map(|e| (in_flight(e), f64::from(e.books.open()))),
        )?;
        page.gauges(
            "llm_d_epp_inflight_tokens",
            "[ALPHA] Current number of in-flight tokens per endpoint (uncached prompt tokens, optionally plus estimated output), as tracked by the in-flight load producer.",
            all.iter().map(|e| (in_flight(e), e.books.open_tokens() as f64)),
        )?;
        self.readings(page, all, now)
    }

    fn readings(&self, page: &mut Page<'_>, all: &[Arc<Endpoint>], now: Instant) -> Result<(), Error> {
        let load = |e: &Arc<Endpoint>| e.reading.load.clone();
        page.gauges(
            "warmpath_endpoint_waiting",
            "Requests waiting: the last reading's and what it cannot have seen of ours",
            all.iter().filter_map(|e| e.waiting_now().map(|figure| (place(e), figure))),
        )?;
        page.gauges(
            "warmpath_endpoint_running",
            "Requests running, by the last reading",
            all.iter().filter_map(|e| load(e)?.running.map(|figure| (place(e), figure))),
        )?;
        page.gauges(
            "warmpath_endpoint_kv_usage",
            "Share of the KV cache in use, by the last reading, 0 to 1",
            all.iter().filter_map(|e| load(e)?.kv_usage.map(|figure| (place(e), figure))),
        )?;
        page.gauges(
            "warmpath_endpoint_reading_age_seconds",
            "Age of the last good reading, in seconds",
            all.iter().filter_map(|e| e.reading.age(now).map(|age| (place(e), age.as_secs_f64()))),
        )?;
        page.gauges(
            "warmpath_endpoint_set_aside",
            "1 while the endpoint's metrics can't be read, so that it is used only if no other is left",
            all.iter().map(|e| {
                let standing = e.reading.standing(now, self.stale_after);
                (place(e), f64::from(u8::from(matches!(standing, Standing::Failed | Standing::Unread))))
            }),
        )?;
        page.counters(
            "warmpath_endpoint_prefix_cache_queries_tokens",
            "Prompt tokens that the engine looked up in its prefix cache, by its own count",
            all.iter().filter_map(|e| load(e)?.counters.prefix_queries.map(|figure| (place(e), figure))),
        )?;
        page.counters(
            "warmpath_endpoint_prefix_cache_hits_tokens",
            "Prompt tokens that the engine found in its prefix cache, by its own count",
            all.iter().filter_map(|e| load(e)?.counters.prefix_hits.map(|figure| (place(e), figure))),
        )
    }

    fn index(&self, page: &mut Page<'_>, view: &View) -> Result<(), Error> {
        let index = self.router.index();
        let held = |e: &Arc<Endpoint>| index.held_by(e.id) as f64;
        let total: f64 = view.endpoints().iter().map(held).sum();
        page.gauges(
            "warmpath_endpoint_index_blocks",
            "Blocks that the endpoint is believed to hold",
            view.endpoints().iter().map(|e| (place(e), held(e))),
        )?;
        page.gauges(
            "warmpath_index_bytes",
            "Memory of the prefix index, in bytes",
            Some((NoLabels {}, index.bytes() as f64)),
        )?;
        page.gauges(
            "warmpath_load_only",
            "1 while the operator has endpoints chosen by load alone, prompts left unread",
            Some((NoLabels {}, f64::from(u8::from(self.load_only.is_on())))),
        )?;
        let labels = Index { plugin_name: "warmpath", plugin_type: "approx-prefix-cache-producer" };
        page.gauges("llm_d_epp_prefix_indexer_size", "[ALPHA] Size of the prefix indexer.", Some((labels, total)))?;
        if self.deprecated {
            let help = "[ALPHA] [Deprecated: Use llm_d_epp_prefix_indexer_size] Size of the prefix indexer.";
            page.gauges("inference_extension_prefix_indexer_size", help, Some((NoLabels {}, total)))?;
        }
        Ok(())
    }
}

fn mean(spread: Option<Spread>) -> Option<f64> {
    spread.map(|spread| spread.mean)
}

fn deviation(spread: Option<Spread>) -> Option<f64> {
    spread.map(|spread| spread.deviation)
}

fn place(endpoint: &Endpoint) -> Place {
    let member = &endpoint.member;
    Place {
        endpoint_name: member.name.clone(),
        namespace: member.namespace.clone(),
        port: member.address.port().to_string(),
    }
}

fn in_flight(endpoint: &Endpoint) -> InFlight {
    let Place { endpoint_name, namespace, port } = place(endpoint);
    InFlight {
        endpoint_name,
        namespace,
        port,
        producer_name: "inflight-load-producer",
        fairness_id: "default-flow",
        priority: "0",
    }
}

/// The page under construction.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        figures: impl IntoIterator<Item = (L, f64)>,
    ) -> Result<(), Error> {
        self.family(name, help, MetricType::Gauge, figures, ConstGauge::new)
    }

    fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        figures: impl IntoIterator<Item = (L, f64)>,
    ) -> Result<(), Error> {
        self.family(name, help, MetricType::Counter, figures, ConstCounter::new)
    }

    fn family<L: EncodeLabelSet, M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        figures: impl IntoIterator<Item = (L, f64)>,
        metric: impl Fn(f64) -> M,
    ) -> Result<(), Error> {
        let mut figures = figures.into_iter().peekable();
        if figures.peek().is_none() {
            return Ok(());
        }
        // As the registry has it for all others.
        let mut family = self.0.encode_descriptor(name, &format!("{}.", bare(help)), None, kind)?;
        for (labels, figure) in figures {
            metric(figure).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
