//! Which of several replicas leads: the one that holds a Lease, by the rules of client-go.
//!
//! In: a client and a [`Candidate`]. Out: [`Standing`], whenever it is another one. A holder renews every two seconds; who sees a
//! lease unchanged for the time that it is held for (by its own clock, so that clocks needn't agree) takes it. Writes carry the
//! version that was read, so that of two who try one succeeds. On the way out the lease is given up at once.
//!
//! A leader of an older edition gives way to a newer one, so that a rollout needn't end the old leader before a new one can be
//! ready: see [`Edition`].
//!
//! A leader that can't ask the API server goes on leading until it hears of another one: to stop would take the picker away from
//! everybody whenever the API server is away, for fear of two that each know half of what they could.

use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};

use crate::paced::paced;
use crate::watch::chain;

mod rules;

use rules::{Observed, holder, is_free, released};

/// After how long without a renewal it is said that there is none.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often it is renewed, or tried for.
const RETRY: Duration = Duration::from_secs(2);
/// How long the API server may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who stands for election, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The lease's namespace.
    pub namespace: String,
    /// The lease's name.
    pub lease: String,
    /// What tells this process from the others.
    pub identity: String,
    /// Of which edition it is, where that is known.
    pub edition: Option<Edition>,
}

/// Of which edition of a Deployment a replica is, as its pod says. A replica that is made of another template than the leader's,
/// and whose pod is younger, is the newer one: it asks the leader to give way, which does so at its next renewal. A container
/// that starts again in an old pod doesn't.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edition {
    /// When the pod was made, by the API server's clock.
    pub made: Timestamp,
    /// The hash of the template that it was made from.
    pub template: String,
}

impl Edition {
    /// That pod's. None where it isn't a Deployment's, or where pods there may not be read: its leader is followed then, and asked
    /// for nothing.
    pub async fn of(client: &Client, namespace: &str, pod: &str) -> Option<Self> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let why = match timeout(PATIENCE, pods.get_metadata(pod)).await {
            Ok(Ok(pod)) => {
                let template = pod.metadata.labels.and_then(|mut labels| labels.remove("pod-template-hash"));
                return pod
                    .metadata
                    .creation_timestamp
                    .zip(template)
                    .map(|(made, template)| Self { made: made.0, template });
            }
            Ok(Err(error)) => chain(&error),
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::info!(
            namespace,
            pod,
            why,
            "this replica's own pod can't be read: it asks no older leader to give way"
        );
        None
    }
}

/// What came of it so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// This one leads.
    Leads,
    /// That one does; nobody where it is empty.
    Follows(String),
    /// The API server hasn't answered for ten seconds, and why: who led goes on.
    Unheard(String),
}

/// Stands for election until `over`, then gives up what it holds; tells whenever the standing changes.
pub async fn contend(
    client: Client,
    candidate: Candidate,
    over: impl Future<Output = ()> + Send,
    mut tell: impl FnMut(Standing) + Send,
) {
    let mut election = Election::new(&client, candidate);
    tokio::select! {
        () = over => {}
        () = election.run(&mut tell) => {}
    }
    election.release().await;
}

struct Election {
    api: Api<Lease>,
    /// The same for the watch.
    watched: Api<Lease>,
    candidate: Candidate,
    observed: Observed,
    leads: bool,
}

impl Election {
    fn new(client: &Client, candidate: Candidate) -> Self {
        let api = Api::namespaced(client.clone(), &candidate.namespace);
        let watched = Api::namespaced(paced(client).0, &candidate.namespace);
        Self { api, watched, candidate, observed: Observed::default(), leads: false }
    }

    /// Never ends.
    async fn run(&mut self, tell: &mut (impl FnMut(Standing) + Send)) {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.candidate.lease));
        let changes = watcher(self.watched.clone(), config).default_backoff().touched_objects();
        // Without the right to watch, there are the tries every two seconds.
        let freed = changes.filter_map(|lease| std::future::ready(lease.ok().filter(is_free)));
        let mut freed = freed.chain(stream::pending()).boxed();
        let mut told = None;
        let mut heard = Instant::now();
        loop {
            let standing = match timeout(PATIENCE, self.attempt()).await {
                Ok(Ok(standing)) => {
                    heard = Instant::now();
                    Some(standing)
                }
                Ok(Err(error)) => (heard.elapsed() > DEADLINE).then(|| Standing::Unheard(chain(&error))),
                Err(_) => (heard.elapsed() > DEADLINE).then(|| Standing::Unheard("no answer in time".to_owned())),
            };
            if let Some(standing) = standing.filter(|standing| told.as_ref() != Some(standing)) {
                told = Some(standing.clone());
                tell(standing);
            }
            tokio::select! {
                () = sleep(RETRY) => {}
                _ = freed.next(), if !self.leads => {}
            }
        }
    }

    /// Renews, takes, leaves it, asks for it or gives way.
    async fn attempt(&mut self) -> Result<Standing, kube::Error> {
        let found = self.api.get_opt(&self.candidate.lease).await?;
        let Some(lease) = self.observed.write(found, &self.candidate, Instant::now(), Timestamp::now()) else {
            self.leads = false;
            return Ok(Standing::Follows(self.observed.holder().to_owned()));
        };
        let params = PostParams::default();
        let written = match lease.metadata.resource_version {
            None => self.api.create(&params, &lease).await,
            Some(_) => self.api.replace(&self.candidate.lease, &params, &lease).await,
        };
        match written {
            Ok(lease) => {
                self.observed.see(&lease, Instant::now());
                let holder = holder(&lease);
                self.leads = holder == self.candidate.identity;
                Ok(if self.leads { Standing::Leads } else { Standing::Follows(holder.to_owned()) })
            }
            // Another one was quicker; who it is shows at the next try.
            Err(kube::Error::Api(status)) if status.code == 409 && !self.leads => Ok(Standing::Follows(String::new())),
            Err(error) => Err(error),
        }
    }

    /// Gives it up, if it is held: another one needn't wait for its end then.
    async fn release(&self) {
        let release = async {
            let lease = self.api.get_opt(&self.candidate.lease).await?;
            if let Some(lease) = lease.filter(|lease| holder(lease) == self.candidate.identity) {
                let free = released(lease, Timestamp::now());
                self.api.replace(&self.candidate.lease, &PostParams::default(), &free).await?;
            }
            Ok::<_, kube::Error>(())
        };
        match timeout(PATIENCE, release).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(error = chain(&error), "the lease can't be given up: it ends by itself"),
            Err(_) => tracing::warn!("the lease can't be given up in time: it ends by itself"),
        }
    }
}
