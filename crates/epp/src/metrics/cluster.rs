//! Families about the API server.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::registrar::Registrar;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfKind {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfLease {
    name: String,
}

/// What is watched, and whether it can be; who leads.
#[derive(Debug)]
pub(crate) struct ClusterMetrics {
    watching: Family<OfKind, Gauge>,
    leads: Family<OfLease, Gauge>,
}

impl ClusterMetrics {
    pub(super) fn register(families: &mut Registrar<'_>) -> Self {
        let watching = Family::default();
        let help = "1 while the API server lets objects of this kind be watched, 0 while what was known last is used";
        families.registry.register("warmpath_cluster_watching", help, watching.clone());
        let leads = Family::default();
        let help = "1 while this replica holds the lease of that name, 0 while it stands by";
        families.registry.register("leader_election_master_status", help, leads.clone());
        Self { watching, leads }
    }

    /// Objects of that kind can be watched, or not.
    pub(crate) fn watching(&self, kind: &'static str, can: bool) {
        self.watching.get_or_create(&OfKind { kind }).set(i64::from(can));
    }

    /// This replica leads, or stands by.
    pub(crate) fn leads(&self, lease: &str, leads: bool) {
        self.leads.get_or_create(&OfLease { name: lease.to_owned() }).set(i64::from(leads));
    }
}
