//! Families about the API server.

use cluster::Kind;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::registrar::Registrar;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfKind {
    kind: &'static str,
}

/// What is watched, and whether it can be.
#[derive(Debug)]
pub(crate) struct ClusterMetrics(Family<OfKind, Gauge>);

impl ClusterMetrics {
    pub(super) fn register(families: &mut Registrar<'_>) -> Self {
        let watching = Family::default();
        let help = "1 while the API server lets objects of this kind be watched, 0 while what was known last is used";
        families.registry.register("warmpath_cluster_watching", help, watching.clone());
        Self(watching)
    }

    /// Objects of that kind can be watched, or not.
    pub(crate) fn watching(&self, kind: Kind, can: bool) {
        self.0.get_or_create(&OfKind { kind: kind.as_str() }).set(i64::from(can));
    }
}
