//! Families about the server itself, read from what counts whenever the page is asked for.

use std::fmt::Error;

use envoy::{BodyMemory, Watchdog};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// What they are read from.
#[derive(Debug)]
pub(crate) struct ServerMetrics {
    /// Who notices that the runtime is stuck.
    pub(crate) watchdog: Watchdog,
    /// What bodies take up.
    pub(crate) body_memory: BodyMemory,
}

impl Collector for ServerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let stuck = ConstCounter::new(self.watchdog.times_stuck());
        let help = "Times that the runtime was stuck, so that connections were ended";
        stuck.encode(encoder.encode_descriptor("warmpath_runtime_stuck", help, None, MetricType::Counter)?)?;
        let gauges = [
            ("warmpath_body_memory", "What request bodies take up now", self.body_memory.held()),
            ("warmpath_body_memory_limit", "The most that request bodies may take up", self.body_memory.most()),
        ];
        for (name, help, bytes) in gauges {
            let gauge = ConstGauge::new(i64::try_from(bytes).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Gauge)?)?;
        }
        Ok(())
    }
}
