//! One leader among replicas: who stands for election under which name, and what is done with the outcome.
//!
//! In: the scope of the endpoints, the environment. Out: whether this process leads. It stands once it knows its fleet, so that
//! nobody leads who can't serve.

use std::future::Future;
use std::sync::Arc;

use anyhow::Context as _;
use cluster::{Candidate, Edition, Scope, Standing};
use tokio::sync::watch;

use crate::metrics::Metrics;

/// As llm-d names them, so that pickers of one pool share a lease whatever their version.
pub(crate) fn candidate(scope: &Scope) -> anyhow::Result<Candidate> {
    let pod = named("POD_NAME");
    let (namespace, pool) = match scope {
        Scope::Pool { name, namespace, .. } => (namespace, name.clone()),
        Scope::Pods { namespace, .. } => {
            let deployment = pod.as_deref().and_then(deployment).map(str::to_owned);
            let need =
                "--ha-enable-leader-election without --pool-name needs POD_NAME, as a Deployment's pods are called";
            (namespace, deployment.context(need)?)
        }
    };
    let host = pod.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_else(|| "epp".to_owned());
    Ok(Candidate {
        namespace: namespace.clone(),
        lease: format!("epp-{namespace}-{pool}.llm-d.ai"),
        identity: format!("{host}_{:016x}", rand::random::<u64>()),
        edition: None,
    })
}

fn named(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|name| !name.is_empty())
}

/// The deployment's name in its pod's: `NAME-HASH-HASH`.
pub(crate) fn deployment(pod: &str) -> Option<&str> {
    let mut parts = pod.rsplitn(3, '-');
    let is_hash = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let hashes = [parts.next()?, parts.next()?];
    parts.next().filter(|name| !name.is_empty() && hashes.into_iter().all(is_hash))
}

/// Stands once the fleet is known, and until `over`, when the lease is given up.
pub(crate) async fn stand(
    mut candidate: Candidate,
    mut synced: watch::Receiver<bool>,
    leads: watch::Sender<bool>,
    metrics: Arc<Metrics>,
    over: impl Future<Output = ()> + Send,
) {
    metrics.cluster.leads(&candidate.lease, false);
    tokio::pin!(over);
    tokio::select! {
        known = synced.wait_for(|synced| *synced) => drop(known),
        () = &mut over => return,
    }
    let client = match cluster::connect().await {
        Ok(client) => client,
        Err(error) => return tracing::error!(%error, "this replica can't stand for election, and stays a standby"),
    };
    if let Some(pod) = named("POD_NAME") {
        let namespace = named("NAMESPACE").unwrap_or_else(|| candidate.namespace.clone());
        candidate.edition = Edition::of(&client, &namespace, &pod).await;
    }
    let lease = candidate.lease.clone();
    let tell = move |standing| match standing {
        Standing::Leads => {
            tracing::info!(lease, "this replica leads");
            metrics.cluster.leads(&lease, true);
            metrics.cluster.watching("leases", true);
            leads.send_replace(true);
        }
        Standing::Follows(leader) => {
            tracing::info!(lease, leader, "this replica stands by");
            metrics.cluster.leads(&lease, false);
            metrics.cluster.watching("leases", true);
            leads.send_replace(false);
        }
        Standing::Unheard(why) => {
            metrics.cluster.watching("leases", false);
            let leads = *leads.borrow();
            tracing::warn!(lease, leads, why, "the lease can't be asked for: it stays as it was");
        }
    };
    cluster::contend(client, candidate, over, tell).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_is_the_pools() {
        let scope = Scope::Pool { name: "qwen3".into(), namespace: "inference".into(), group: String::new() };
        let candidate = candidate(&scope).expect("a pool has a name");
        assert_eq!(
            (candidate.namespace.as_str(), candidate.lease.as_str()),
            ("inference", "epp-inference-qwen3.llm-d.ai")
        );
    }

    #[test]
    fn a_pods_name_tells_its_deployment() {
        assert_eq!(deployment("my-epp-7d9f8b6c5-x2x7p"), Some("my-epp"));
        assert_eq!(["epp", "epp-0", "-a-b", "epp--a", "a-B-c"].map(deployment), [None; 5]);
    }
}
