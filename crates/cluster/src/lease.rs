//! Which of several replicas leads: the one that holds a Lease, by the rules of client-go.
//!
//! In: a client and a [`Candidate`]. Out: [`Standing`], whenever it is another one. A holder renews every two seconds; who sees a
//! lease unchanged for the time that it is held for (by its own clock, so that clocks needn't agree) takes it. Writes carry the
//! version that was read, so that of two who try one succeeds. On the way out the lease is given up at once.
//!
//! A leader that can't ask the API server goes on leading until it hears of another one: to stop would take the picker away from
//! everybody whenever the API server is away, for fear of two that each know half of what they could.

use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};

use crate::paced::paced;
use crate::watch::chain;

/// How long a lease holds without being renewed.
const HELD_FOR: Duration = Duration::from_secs(15);
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

    /// Renews, takes, or leaves it.
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
                self.leads = true;
                Ok(Standing::Leads)
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

/// The lease as it was last, and since when.
#[derive(Debug, Default)]
struct Observed(Option<(LeaseSpec, Instant)>);

impl Observed {
    fn holder(&self) -> &str {
        self.0.as_ref().and_then(|(spec, _)| spec.holder_identity.as_deref()).unwrap_or_default()
    }

    /// A lease that says the same as before is no sign of life.
    fn see(&mut self, lease: &Lease, now: Instant) {
        let spec = lease.spec.clone().unwrap_or_default();
        if self.0.as_ref().is_none_or(|(before, _)| *before != spec) {
            self.0 = Some((spec, now));
        }
    }

    /// What to write to hold it; nothing while another one does.
    fn write(&mut self, found: Option<Lease>, candidate: &Candidate, now: Instant, clock: Timestamp) -> Option<Lease> {
        let Some(mut lease) = found else {
            let metadata = ObjectMeta {
                name: Some(candidate.lease.clone()),
                namespace: Some(candidate.namespace.clone()),
                ..ObjectMeta::default()
            };
            return Some(Lease { metadata, spec: Some(held(candidate, LeaseSpec::default(), clock)) });
        };
        self.see(&lease, now);
        let (spec, since) = self.0.as_ref()?;
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let held_for = seconds.map_or(HELD_FOR, Duration::from_secs);
        let is_mine = holder(&lease) == candidate.identity;
        if !is_mine && !is_free(&lease) && now < *since + held_for {
            return None;
        }
        lease.spec = Some(if is_mine {
            LeaseSpec { renew_time: Some(MicroTime(clock)), ..lease.spec.unwrap_or_default() }
        } else {
            held(candidate, lease.spec.unwrap_or_default(), clock)
        });
        Some(lease)
    }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

fn is_free(lease: &Lease) -> bool {
    holder(lease).is_empty()
}

/// Held by this one from now on.
fn held(candidate: &Candidate, before: LeaseSpec, clock: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(candidate.identity.clone()),
        lease_duration_seconds: Some(HELD_FOR.as_secs() as i32),
        acquire_time: Some(MicroTime(clock)),
        renew_time: Some(MicroTime(clock)),
        lease_transitions: Some(before.lease_transitions.map_or(0, |before| before + 1)),
        ..before
    }
}

/// As client-go leaves it: held by nobody, and for a second only.
fn released(mut lease: Lease, clock: Timestamp) -> Lease {
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(clock)),
        renew_time: Some(MicroTime(clock)),
        ..lease.spec.unwrap_or_default()
    });
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(identity: &str) -> Candidate {
        Candidate { namespace: "ns".into(), lease: "l".into(), identity: identity.into() }
    }

    /// Two candidates try in turn, each when its letter stands there, a second after the one before; `!` is the end of a's
    /// hold by its own will. What stands below is who held it then.
    #[track_caller]
    fn check(tries: &str, holders: &str) {
        let start = Instant::now();
        let mut observed = [Observed::default(), Observed::default()];
        let mut lease: Option<Lease> = None;
        let mut seen = String::new();
        for (second, try_of) in (0..).zip(tries.chars()) {
            let (now, clock) =
                (start + Duration::from_secs(second), Timestamp::from_second(second as i64).expect("a time"));
            match try_of {
                '!' => lease = lease.map(|lease| released(lease, clock)),
                'a' | 'b' => {
                    let at = usize::from(try_of == 'b');
                    let written = observed[at].write(lease.clone(), &candidate(&try_of.to_string()), now, clock);
                    lease = written.or(lease);
                }
                _ => {}
            }
            seen += lease.as_ref().map(holder).filter(|holder| !holder.is_empty()).unwrap_or("-");
        }
        assert_eq!(seen, holders);
    }

    #[test]
    fn who_comes_first_holds_it_for_as_long_as_it_renews() {
        check("..abababababababababababab", "--aaaaaaaaaaaaaaaaaaaaaaaa");
    }

    #[test]
    fn who_has_seen_no_renewal_for_fifteen_seconds_takes_it() {
        // b saw it at second 1, so that it takes it at 16 and not before, whatever the lease's own times say.
        check("ab.............bb.aa", "aaaaaaaaaaaaaaaabbbb");
    }

    #[test]
    fn what_is_given_up_is_taken_at_once() {
        check("ab!b.a", "aa-bbb");
    }

    #[test]
    fn transitions_are_counted() {
        let clock = Timestamp::UNIX_EPOCH;
        let lease = Observed::default().write(None, &candidate("a"), Instant::now(), clock);
        let transitions = |lease: &Option<Lease>| lease.as_ref()?.spec.as_ref()?.lease_transitions;
        assert_eq!(transitions(&lease), Some(0));
        let lease =
            Observed::default().write(lease.map(|l| released(l, clock)), &candidate("b"), Instant::now(), clock);
        assert_eq!(transitions(&lease), Some(1));
    }
}
