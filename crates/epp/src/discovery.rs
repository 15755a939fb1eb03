//! Where the fleet comes from: a file, or a Kubernetes cluster.
//!
//! In: what was typed, checked. Out: a fleet that follows it, the caches of those that left forgotten, and whether it
//! is known yet. While the source can't be read, its last fleet stays.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use cluster::{Kind, News, Rewrites, Scope, Snapshot};
use fleet::{Fleet, Member};
use route::Router;
use tokio::sync::watch;

use crate::endpoints_file;
use crate::metrics::Metrics;
use crate::task::Task;

/// A source of endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A file in llm-d's file-discovery form, and whether to follow its changes.
    File { path: PathBuf, watch: bool },
    /// Kubernetes.
    Cluster(Scope),
}

impl Source {
    /// The pool's name in metrics, where it has one.
    pub(crate) fn pool(&self) -> Option<&str> {
        match self {
            Self::Cluster(Scope::Pool { name, .. }) => Some(name),
            Self::Cluster(Scope::Pods { .. }) | Self::File { .. } => None,
        }
    }
}

/// What a cluster's objects rule for requests; nothing where there are none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ruled {
    /// Priorities by objective.
    pub(crate) priorities: Arc<BTreeMap<String, i32>>,
    /// Models in place of others.
    pub(crate) rewrites: Arc<Rewrites>,
}

/// Who hears of changes.
pub(crate) struct Hearers {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) router: Router,
    pub(crate) metrics: Arc<Metrics>,
    /// Whether the fleet is what its source says, and not only empty as yet.
    pub(crate) synced: watch::Sender<bool>,
    pub(crate) ruled: Arc<ArcSwap<Ruled>>,
}

impl Hearers {
    fn replace(&self, members: Vec<Member>, source: &str) {
        let changes = self.fleet.replace(members);
        let (joined, left) = (changes.joined.len(), changes.left.len());
        if joined + left > 0 {
            let endpoints = self.fleet.view().endpoints().len();
            tracing::info!(joined, left, endpoints, "{source} changed");
        }
        self.router.left(&changes);
        for endpoint in &changes.left {
            self.metrics.picks.left(&endpoint.member);
        }
    }
}

/// Follows it until the task is dropped. A file has been read when this returns; a cluster's fleet is known once the pool is
/// there and its pods were listed.
///
/// # Errors
/// Where the file, or the cluster's access, can't be read at all.
pub(crate) async fn follow(source: Source, hearers: Hearers) -> anyhow::Result<Option<Task>> {
    match source {
        Source::File { path, watch } => {
            hearers.fleet.replace(endpoints_file::read(&path)?);
            hearers.synced.send_replace(true);
            Ok(watch.then(|| Task::of(follow_file(path, hearers))))
        }
        Source::Cluster(scope) => {
            let client = cluster::connect().await?;
            Ok(Some(Task::of(cluster::watch(client, scope, move |news| hear(news, &hearers)))))
        }
    }
}

async fn follow_file(path: PathBuf, hearers: Hearers) {
    if let Err(error) =
        endpoints_file::follow(path, move |members| hearers.replace(members, "the endpoints file")).await
    {
        let error = format!("{error:#}");
        tracing::error!(error, "the endpoints file isn't followed any more: the last fleet stays");
    }
}

fn hear(news: News, hearers: &Hearers) {
    match news {
        News::Changed(snapshot) => {
            let Snapshot { synced, members, priorities, rewrites, .. } = snapshot;
            hearers.ruled.store(Arc::new(Ruled { priorities, rewrites }));
            hearers.replace(members, "the pool");
            hearers.synced.send_replace(synced);
        }
        News::Failing(kind, why) => {
            hearers.metrics.cluster.watching(kind, false);
            tracing::warn!(kind = kind.as_str(), why, "the API server can't be watched: what was known last stays");
        }
        News::Watching(kind) => {
            hearers.metrics.cluster.watching(kind, true);
            tracing::info!(kind = kind.as_str(), "the API server is watched again");
        }
        News::NotServed(kind @ (Kind::Objective | Kind::Rewrite)) => {
            tracing::info!(kind = kind.as_str(), "this cluster has none of these: nothing depends on them");
        }
        News::NotServed(kind) => tracing::warn!(kind = kind.as_str(), "this cluster has none of these"),
    }
}
