//! Where the fleet comes from: a file, or a Kubernetes cluster.
//!
//! In: what was typed, checked. Out: a fleet that follows it, the caches of those that left forgotten, and whether it
//! is known yet. While the source can't be read, its last fleet stays.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use cluster::{Kind, News, Rewrites, Scope, Snapshot};
use config::Labelled;
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
    /// What labels must say of those who may serve.
    pub(crate) labelled: Vec<Labelled>,
}

impl Hearers {
    fn who_may_serve(&self, members: impl IntoIterator<Item = impl Into<Arc<Member>>>) -> Vec<Arc<Member>> {
        let may = |member: &Arc<Member>| self.labelled.iter().all(|required| required.is_met(&member.labels));
        members.into_iter().map(Into::into).filter(may).collect()
    }

    fn replace(&self, members: impl IntoIterator<Item = impl Into<Arc<Member>>>, source: &str) {
        let changes = self.fleet.replace(self.who_may_serve(members));
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
            hearers.fleet.replace(hearers.who_may_serve(endpoints_file::read(&path)?));
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
            hearers.replace(members.iter().cloned(), "the pool");
            hearers.synced.send_replace(synced);
        }
        News::Failing(kind, why) => {
            hearers.metrics.cluster.watching(kind.as_str(), false);
            tracing::warn!(kind = kind.as_str(), why, "the API server can't be watched: what was known last stays");
        }
        News::Watching(kind) => {
            hearers.metrics.cluster.watching(kind.as_str(), true);
            tracing::info!(kind = kind.as_str(), "the API server is watched");
        }
        News::NotServed(kind @ (Kind::Objective | Kind::Rewrite)) => {
            tracing::info!(kind = kind.as_str(), "this cluster has none of these: nothing depends on them");
        }
        News::NotServed(kind) => tracing::warn!(kind = kind.as_str(), "this cluster has none of these"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::FleetMetrics;

    #[tokio::test]
    async fn who_does_not_have_the_labels_that_are_required_does_not_serve() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("endpoints.yaml");
        let endpoint = |name: &str, role: &str| {
            let port = 8000 + name.len();
            format!("- {{name: {name}, namespace: a, address: 10.0.0.1, port: \"{port}\", labels: {{{role}}}}}\n")
        };
        let endpoints = [
            endpoint("any", ""),
            endpoint("decodes", "llm-d.ai/role: decode"),
            endpoint("prefills", "llm-d.ai/role: prefill"),
        ];
        std::fs::write(&path, format!("endpoints:\n{}", endpoints.concat())).expect("a file");
        let text = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{type: decode-filter}]\n";
        let config = config::Config::read(text).expect("well formed");
        let fleet = Arc::new(Fleet::new());
        let router = Router::new(Arc::clone(&fleet));
        let shown = FleetMetrics {
            fleet: Arc::clone(&fleet),
            router: router.clone(),
            load_only: crate::load_only::LoadOnly::new(false),
            pool: "default".to_owned(),
            stale_after: config.policy.stale_after,
            deprecated: false,
        };
        let hearers = Hearers {
            fleet: Arc::clone(&fleet),
            router,
            metrics: Arc::new(Metrics::new(false, shown, Vec::new())),
            synced: watch::channel(false).0,
            ruled: Arc::default(),
            labelled: config.labelled,
        };
        follow(Source::File { path, watch: false }, hearers).await.expect("it can be read");
        let names: Vec<String> = fleet.view().endpoints().iter().map(|e| e.member.name.clone()).collect();
        assert_eq!(names, ["any", "decodes"]);
    }
}
