//! The client around the index: four watches, one snapshot.
//!
//! In: a client and what to watch. Out: [`News`]. It goes on until it is dropped: a watch that breaks is begun anew with backoff,
//! what was known stays meanwhile, and an answer of 410 means a new list. Changes that come together are told together.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream, PollNext};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, sleep_until};

use crate::paced::paced;
use crate::{Index, Object, Pod, Pool, Snapshot, TargetPorts, served};

pub(crate) const POOL_GROUP: &str = "inference.networking.k8s.io";
/// Changes are gathered for so long: a rollout is hundreds of them, and one pod's end is three.
const GATHERED: Duration = Duration::from_millis(20);
/// How long until it is asked again whether a kind is served that wasn't.
const NOT_SERVED: Duration = Duration::from_secs(60);
/// How long until it is asked again after the API server didn't tell.
const NOT_TOLD: Duration = Duration::from_secs(5);

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A pool and what belongs to it.
    Pool {
        /// Its name.
        name: String,
        /// Its namespace, and its pods'.
        namespace: String,
        /// Its API group.
        group: String,
    },
    /// Pods alone.
    Pods {
        /// Their namespace.
        namespace: String,
        /// A label selector, as `app=vllm,tier in (a, b)`.
        selector: String,
        /// Where they serve.
        ports: TargetPorts,
    },
}

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The pool.
    Pool,
    /// Its pods.
    Pod,
    /// Its objectives.
    Objective,
    /// Its rewrites.
    Rewrite,
}

impl Kind {
    /// As in `kubectl get`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pool => "inferencepools",
            Self::Pod => "pods",
            Self::Objective => "inferenceobjectives",
            Self::Rewrite => "inferencemodelrewrites",
        }
    }
}

/// What is told.
#[derive(Clone, Debug)]
pub enum News {
    /// Something of it has changed.
    Changed(Snapshot),
    /// Objects of that kind can't be watched at the moment: what was known stays.
    Failing(Kind, String),
    /// They are watched, for the first time or again.
    Watching(Kind),
    /// The cluster has no objects of that kind.
    NotServed(Kind),
}

/// One thing that a watch says.
enum Said {
    /// Something about objects of that kind, for the index.
    Event {
        kind: Kind,
        /// Lists count when they are whole.
        counts: bool,
        take: Box<dyn FnOnce(&mut Index) + Send>,
    },
    /// The API server lets them be watched, from a list or from where a watch broke.
    Granted(Kind),
    Failing(Kind, String),
    NotServed(Kind),
}

type Sayings = BoxStream<'static, Said>;

/// A client by the pod's service account, else by the kubeconfig.
///
/// # Errors
/// Where there is neither, or what it says can't be used.
pub async fn connect() -> Result<Client, Unreachable> {
    Client::try_default().await.map_err(|error| Unreachable(chain(&error)))
}

/// There is no access to an API server.
#[derive(Debug, thiserror::Error)]
#[error("no access to a Kubernetes API server: {0}")]
pub struct Unreachable(String);

/// Watches, and tells; never ends.
pub async fn watch(client: Client, scope: Scope, mut tell: impl FnMut(News) + Send) {
    let mut following = Following::new(client, scope);
    let mut due = None;
    loop {
        let news = tokio::select! {
            () = at(due) => {
                due = None;
                following.changed().map(News::Changed)
            }
            said = following.next() => {
                let (news, changed) = following.take(said);
                if changed {
                    due.get_or_insert_with(|| Instant::now() + GATHERED);
                }
                news
            }
        };
        if let Some(news) = news {
            tell(news);
        }
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// The watches, and what they have said.
struct Following {
    client: Client,
    namespace: String,
    index: Index,
    /// All but the pods'.
    others: Sayings,
    pods: Sayings,
    /// What the pods are selected by.
    selected: Option<BTreeMap<String, String>>,
    /// What was told last.
    told: Option<Snapshot>,
    /// Kinds that are watched, so that it is told once.
    watching: Vec<Kind>,
}

impl Following {
    fn new(client: Client, scope: Scope) -> Self {
        let (namespace, index, others, pods) = match scope {
            Scope::Pool { name, namespace, group } => {
                let index = Index::of_pool(&name, &group);
                let others = [
                    pool(&client, &name, &namespace, &group),
                    optional(&client, &namespace, Kind::Objective, "InferenceObjective", Index::objective),
                    optional(&client, &namespace, Kind::Rewrite, "InferenceModelRewrite", Index::rewrite),
                ];
                (namespace, index, stream::select_all(others).boxed(), stream::pending().boxed())
            }
            Scope::Pods { namespace, selector, ports } => {
                let pods = pods(&client, &namespace, &selector);
                (namespace, Index::of_pods(ports), stream::pending().boxed(), pods)
            }
        };
        Self { client, namespace, index, others, pods, selected: None, told: None, watching: Vec::new() }
    }

    async fn next(&mut self) -> Said {
        let next = tokio::select! {
            said = self.others.next() => said,
            said = self.pods.next() => said,
        };
        match next {
            Some(said) => said,
            // Watches don't end; should one do, the others go on.
            None => std::future::pending().await,
        }
    }

    /// Returns what is to be told at once, and whether the snapshot may be another one.
    fn take(&mut self, said: Said) -> (Option<News>, bool) {
        match said {
            Said::Failing(kind, why) => {
                self.watching.retain(|other| *other != kind);
                (Some(News::Failing(kind, why)), false)
            }
            Said::NotServed(kind) => (Some(News::NotServed(kind)), false),
            Said::Granted(kind) => (self.begins(kind), false),
            Said::Event { kind, counts, take } => {
                take(&mut self.index);
                self.select();
                (if counts { self.begins(kind) } else { None }, counts)
            }
        }
    }

    /// What is to be told where they weren't watched before.
    fn begins(&mut self, kind: Kind) -> Option<News> {
        if self.watching.contains(&kind) {
            return None;
        }
        self.watching.push(kind);
        Some(News::Watching(kind))
    }

    /// Watches the pods that the pool selects now.
    fn select(&mut self) {
        let selector = self.index.selector();
        if selector == self.selected.as_ref() {
            return;
        }
        let first = self.selected.is_none();
        self.selected = selector.cloned();
        if first {
            self.index.select_first();
        }
        self.pods = match &self.selected {
            Some(labels) => {
                let all: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
                pods(&self.client, &self.namespace, &all.join(","))
            }
            None => stream::pending().boxed(),
        };
    }

    fn changed(&mut self) -> Option<Snapshot> {
        let snapshot = self.index.snapshot();
        if self.told.as_ref() == Some(&snapshot) {
            return None;
        }
        self.told = Some(snapshot.clone());
        Some(snapshot)
    }
}

fn pool(client: &Client, name: &str, namespace: &str, group: &str) -> Sayings {
    let version = if group == POOL_GROUP { "v1" } else { "v1alpha2" };
    let gvk = GroupVersionKind::gvk(group, version, "InferencePool");
    let resource = ApiResource::from_gvk_with_plural(&gvk, Kind::Pool.as_str());
    let watched = |client| Api::<Pool>::namespaced_with(client, namespace, &resource);
    sayings(
        client,
        watched,
        watcher::Config::default().fields(&format!("metadata.name={name}")),
        Kind::Pool,
        Index::pool,
    )
}

fn pods(client: &Client, namespace: &str, selector: &str) -> Sayings {
    sayings(
        client,
        |client| Api::<Pod>::namespaced(client, namespace),
        watcher::Config::default().labels(selector),
        Kind::Pod,
        Index::pod,
    )
}

/// Objects of a kind that not every cluster has.
fn optional<S>(
    client: &Client,
    namespace: &str,
    kind: Kind,
    name: &'static str,
    take: fn(&mut Index, Event<Object<S>>),
) -> Sayings
where
    S: Default + DeserializeOwned + Clone + Debug + Send + 'static,
{
    let (client, namespace) = (client.clone(), namespace.to_owned());
    let asked = stream::unfold(Some(Duration::ZERO), move |wait| {
        let client = client.clone();
        async move {
            sleep(wait?).await;
            match served::resource(&client, name).await {
                // Found: nothing is asked any more.
                Ok(Some(resource)) => Some((Ok(resource), None)),
                Ok(None) => Some((Err(Said::NotServed(kind)), Some(NOT_SERVED))),
                Err(error) => Some((Err(Said::Failing(kind, chain(&error))), Some(NOT_TOLD))),
            }
            .map(|(found, wait)| ((client, found), wait))
        }
    });
    let watched = asked.flat_map(move |(client, found)| match found {
        Ok(resource) => {
            let watched = |client| Api::<Object<S>>::namespaced_with(client, &namespace, &resource);
            sayings(&client, watched, watcher::Config::default(), kind, take)
        }
        Err(said) => stream::iter([said]).boxed(),
    });
    watched.boxed()
}

fn sayings<K>(
    client: &Client,
    watched: impl FnOnce(Client) -> Api<K>,
    config: watcher::Config,
    kind: Kind,
    take: fn(&mut Index, Event<K>),
) -> Sayings
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let (client, grants) = paced(client);
    let events = watch_objects(watched(client), config).default_backoff();
    let said = move |event: Result<Event<K>, watcher::Error>| match event {
        Ok(event) => Said::Event {
            kind,
            counts: !matches!(event, Event::Init | Event::InitApply(_)),
            take: Box::new(move |index| take(index, event)),
        },
        Err(error) => Said::Failing(kind, chain(&error)),
    };
    // A grant comes before whatever the watch then says.
    let first = |(): &mut ()| PollNext::Left;
    stream::select_with_strategy(grants.map(move |()| Said::Granted(kind)), events.map(said), first).boxed()
}

/// An error and what is behind it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(behind) = source {
        let more = behind.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = behind.source();
    }
    text
}
