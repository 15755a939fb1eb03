//! The watches, against a stand-in for an API server that speaks its HTTP: lists, streams of changes, and what goes wrong.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use cluster::{Kind, News, Scope, Snapshot, TargetPorts, watch};
use futures::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const PODS: &str = "/api/v1/namespaces/ns/pods";
const POOLS: &str = "/apis/inference.networking.k8s.io/v1/namespaces/ns/inferencepools";
const OBJECTIVES: &str = "/apis/llm-d.ai/v1alpha2/namespaces/ns/inferenceobjectives";

type Parameters = BTreeMap<String, String>;

/// Where a watch ends.
const END: &str = "";

/// What the server has: objects by path and name, and all that has changed, from which watches go on where they left.
#[derive(Clone)]
struct Objects {
    by_path: Arc<Mutex<BTreeMap<String, BTreeMap<String, Value>>>>,
    refused: Arc<Mutex<BTreeMap<String, StatusCode>>>,
    changes: Arc<tokio::sync::watch::Sender<Vec<(String, String)>>>,
    /// Whether every watch is ended at once.
    brief: bool,
    /// Paths and queries of the watches so far.
    watches: Arc<Mutex<Vec<(String, Parameters)>>>,
}

impl Objects {
    fn new() -> Self {
        Self {
            by_path: Arc::default(),
            refused: Arc::default(),
            changes: Arc::default(),
            brief: false,
            watches: Arc::default(),
        }
    }

    /// Puts an object there without a word to those who watch.
    fn put(&self, path: &str, object: Value) {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        self.by_path.lock().expect("sound").entry(path.to_owned()).or_default().insert(name, object);
    }

    fn apply(&self, path: &str, object: Value) {
        self.put(path, object.clone());
        self.say(path, json!({"type": "MODIFIED", "object": object}));
    }

    /// Takes an object away without a word.
    fn take(&self, path: &str, name: &str) -> Value {
        let mut by_path = self.by_path.lock().expect("sound");
        by_path.get_mut(path).and_then(|objects| objects.remove(name)).expect("it is there")
    }

    fn delete(&self, path: &str, name: &str) {
        let object = self.take(path, name);
        self.say(path, json!({"type": "DELETED", "object": object}));
    }

    fn say(&self, path: &str, mut event: Value) {
        self.changes.send_modify(|changes| {
            if event["object"]["metadata"].is_object() {
                event["object"]["metadata"]["resourceVersion"] = json!((changes.len() + 1).to_string());
            }
            changes.push((path.to_owned(), format!("{event}\n")));
        });
    }

    /// Says a version that no object has, beyond the next change.
    fn bookmark(&self, path: &str) {
        self.changes.send_modify(|changes| {
            let metadata = json!({"resourceVersion": (changes.len() + 2).to_string()});
            let bookmark =
                json!({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}});
            changes.push((path.to_owned(), format!("{bookmark}\n")));
        });
    }

    /// Ends the watches there, as servers do after some minutes; a bookmark before it says that this was seen.
    async fn end(&self, path: &str) {
        self.bookmark(path);
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.changes.send_modify(|changes| changes.push((path.to_owned(), END.to_owned())));
    }

    /// The changes to come after that version.
    fn changes_after(&self, version: usize, path: String) -> impl Stream<Item = Result<String, Infallible>> + use<> {
        let changes = self.changes.subscribe();
        let after = stream::unfold((changes, version), |(mut changes, at)| async move {
            let (path, event) = changes.wait_for(|changes| changes.len() > at).await.ok()?[at].clone();
            Some(((path, event), (changes, at + 1)))
        });
        let of_path = after.filter_map(move |(changed, event)| std::future::ready((changed == path).then_some(event)));
        of_path.take_while(|event| std::future::ready(event != END)).map(Ok)
    }

    fn refuse(&self, path: &str, status: StatusCode) {
        self.refused.lock().expect("sound").insert(path.to_owned(), status);
    }

    /// Serves on a runtime of its own, with which its connections end.
    fn serve(self, listener: std::net::TcpListener) -> Server {
        listener.set_nonblocking(true).expect("a listener");
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            axum::serve(listener, Router::new().fallback(answer).with_state(self)).await.ok();
        });
        Server(Some(runtime))
    }
}

struct Server(Option<Runtime>);

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn status(code: StatusCode) -> Response {
    let code_number = code.as_u16();
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "as this test has it", "reason": code.canonical_reason(), "code": code_number});
    (code, body.to_string()).into_response()
}

async fn answer(State(objects): State<Objects>, uri: Uri, Query(query): Query<Parameters>) -> Response {
    let path = uri.path().to_owned();
    if let Some(refused) = objects.refused.lock().expect("sound").get(&path) {
        return status(*refused);
    }
    if path == "/apis/llm-d.ai/v1alpha2" {
        let resource = json!({"name": "inferenceobjectives", "singularName": "", "namespaced": true, "kind": "InferenceObjective", "verbs": ["list", "watch"]});
        let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "llm-d.ai/v1alpha2", "resources": [resource]});
        return list.to_string().into_response();
    }
    if !path.contains("/namespaces/") {
        return status(StatusCode::NOT_FOUND);
    }
    let selector = query.get("labelSelector").cloned().unwrap_or_default();
    if query.get("watch").is_none_or(|watch| watch != "true" && watch != "1") {
        let by_path = objects.by_path.lock().expect("sound");
        let all = by_path.get(&path).into_iter().flat_map(BTreeMap::values);
        let items: Vec<&Value> = all.filter(|object| selects(&selector, object)).collect();
        let version = objects.changes.borrow().len().to_string();
        let list =
            json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items});
        return list.to_string().into_response();
    }
    objects.watches.lock().expect("sound").push((path.clone(), query.clone()));
    if objects.brief {
        return Body::empty().into_response();
    }
    let version = query.get("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
    Body::from_stream(objects.changes_after(version, path)).into_response()
}

fn selects(selector: &str, object: &Value) -> bool {
    let has = |pair: &str| {
        pair.split_once('=').is_none_or(|(name, value)| object["metadata"]["labels"][name].as_str() == Some(value))
    };
    selector.split(',').all(has)
}

/// A ready pod.
fn pod(name: &str, app: &str, last: u8) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"app": app}},
        "spec": {"containers": []},
        "status": {"phase": "Running", "podIP": format!("10.0.0.{last}"), "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn pool(app: &str) -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": app}}, "targetPorts": [{"number": 8000}]},
    })
}

/// The stand-in, and what is told of it.
struct Cluster {
    objects: Objects,
    news: mpsc::UnboundedReceiver<News>,
    server: Option<Server>,
    port: u16,
    watching: JoinHandle<()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Cluster {
    async fn start(objects: Objects, scope: Scope) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let server = Some(objects.clone().serve(listener));
        let config = kube::Config::new(format!("http://127.0.0.1:{port}").parse().expect("an address"));
        let client = kube::Client::try_from(config).expect("a client");
        let (tell, news) = mpsc::unbounded_channel();
        let watching = tokio::spawn(watch(client, scope, move |news| drop(tell.send(news))));
        Self { objects, news, server, port, watching }
    }

    async fn of_pool(objects: Objects) -> Self {
        let group = "inference.networking.k8s.io".to_owned();
        Self::start(objects, Scope::Pool { name: "p".into(), namespace: "ns".into(), group }).await
    }

    /// The first piece of news for which this gives something.
    async fn until<T>(&mut self, what: impl Fn(&News) -> Option<T>) -> T {
        let wanted = async {
            loop {
                let news = self.news.recv().await.expect("the watch goes on");
                if let Some(found) = what(&news) {
                    return found;
                }
            }
        };
        timeout(Duration::from_secs(20), wanted).await.expect("it is told")
    }

    async fn until_members(&mut self, names: &[&str]) -> Snapshot {
        self.until(|news| match news {
            News::Changed(snapshot) if snapshot.synced => {
                let members: Vec<&str> = snapshot.members.iter().map(|member| member.name.as_str()).collect();
                (members == names).then(|| snapshot.clone())
            }
            _ => None,
        })
        .await
    }

    async fn until_failing(&mut self, kind: Kind) -> String {
        self.until(|news| match news {
            News::Failing(failing, why) if *failing == kind => Some(why.clone()),
            _ => None,
        })
        .await
    }
}

fn with_two_pods() -> Objects {
    let objects = Objects::new();
    objects.put(POOLS, pool("vllm"));
    objects.put(PODS, pod("a", "vllm", 1));
    objects.put(PODS, pod("b", "vllm", 2));
    objects.put(PODS, pod("c", "other", 3));
    objects
}

#[tokio::test]
async fn pods_are_followed_as_they_come_change_and_go() {
    let mut cluster = Cluster::of_pool(with_two_pods()).await;
    cluster.until_members(&["a-rank-0", "b-rank-0"]).await;
    cluster.objects.apply(PODS, pod("d", "vllm", 4));
    cluster.until_members(&["a-rank-0", "b-rank-0", "d-rank-0"]).await;
    cluster.objects.delete(PODS, "a");
    cluster.until_members(&["b-rank-0", "d-rank-0"]).await;
    let mut ending = pod("b", "vllm", 2);
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    cluster.objects.apply(PODS, ending);
    cluster.until_members(&["d-rank-0"]).await;
    cluster.objects.apply(POOLS, pool("other"));
    cluster.until_members(&["c-rank-0"]).await;
    cluster.objects.delete(POOLS, "p");
    cluster.until(|news| matches!(news, News::Changed(snapshot) if !snapshot.synced).then_some(())).await;
}

/// kube-rs/kube#1615: an expired watch, said within a stream that had begun well, ended it, and the fleet stood still.
#[tokio::test]
async fn an_expired_watch_is_begun_anew_with_a_list() {
    let mut cluster = Cluster::of_pool(with_two_pods()).await;
    cluster.until_members(&["a-rank-0", "b-rank-0"]).await;
    cluster.objects.take(PODS, "a");
    cluster.objects.put(PODS, pod("e", "vllm", 5));
    let expired = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "too old", "reason": "Expired", "code": 410});
    cluster.objects.say(PODS, json!({"type": "ERROR", "object": expired}));
    cluster.until_members(&["b-rank-0", "e-rank-0"]).await;
}

/// Without them a quiet pool in a busy cluster would fall behind what the API server remembers.
#[tokio::test]
async fn watches_ask_for_bookmarks_and_go_on_from_the_last_one() {
    let mut cluster = Cluster::of_pool(with_two_pods()).await;
    cluster.until_members(&["a-rank-0", "b-rank-0"]).await;
    cluster.objects.end(PODS).await;
    cluster.objects.apply(PODS, pod("d", "vllm", 4));
    cluster.until_members(&["a-rank-0", "b-rank-0", "d-rank-0"]).await;
    let watches = cluster.objects.watches.lock().expect("sound").clone();
    let of_pods: Vec<_> = watches.iter().filter(|(path, _)| path == PODS).map(|(_, query)| query).collect();
    assert!(of_pods.iter().all(|query| query["allowWatchBookmarks"] == "true"), "{of_pods:?}");
    let versions: Vec<&str> = of_pods.iter().map(|query| query["resourceVersion"].as_str()).collect();
    assert_eq!(versions, ["0", "2"]);
}

#[tokio::test]
async fn while_the_api_server_is_away_what_was_known_stays_and_then_it_is_followed_again() {
    let mut cluster = Cluster::of_pool(with_two_pods()).await;
    cluster.until_members(&["a-rank-0", "b-rank-0"]).await;
    cluster.server = None;
    cluster.until_failing(Kind::Pod).await;
    while let Ok(news) = cluster.news.try_recv() {
        assert!(!matches!(news, News::Changed(_)), "nothing is known anew");
    }
    cluster.objects.delete(PODS, "b");
    let listener = std::net::TcpListener::bind(("127.0.0.1", cluster.port)).expect("the same port");
    cluster.server = Some(cluster.objects.clone().serve(listener));
    cluster.until_members(&["a-rank-0"]).await;
}

/// What has nothing new to say for days, such as a pool, would else be called unwatched for as long.
#[tokio::test]
async fn a_watch_that_goes_on_where_it_broke_is_said_to() {
    let mut cluster = Cluster::of_pool(with_two_pods()).await;
    cluster.until_members(&["a-rank-0", "b-rank-0"]).await;
    cluster.objects.refuse(POOLS, StatusCode::INTERNAL_SERVER_ERROR);
    cluster.objects.end(POOLS).await;
    cluster.until_failing(Kind::Pool).await;
    cluster.objects.refused.lock().expect("sound").clear();
    cluster.until(|news| matches!(news, News::Watching(Kind::Pool)).then_some(())).await;
}

#[tokio::test]
async fn a_server_that_ends_each_watch_at_once_is_not_asked_again_at_once() {
    let objects = Objects { brief: true, ..with_two_pods() };
    let mut cluster = Cluster::of_pool(objects).await;
    cluster.until_members(&["a-rank-0", "b-rank-0"]).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let watches = cluster.objects.watches.lock().expect("sound").clone();
    let of_pods = watches.iter().filter(|(path, _)| path == PODS).count();
    assert!((2..=4).contains(&of_pods), "{of_pods} in 2.5 s");
}

/// kubernetes-sigs/gateway-api-inference-extension#1230: a role that lacks a right made the picker crash in a loop.
#[tokio::test]
async fn what_is_forbidden_is_said_and_the_rest_goes_on() {
    let objects = with_two_pods();
    objects.refuse(OBJECTIVES, StatusCode::FORBIDDEN);
    let mut cluster = Cluster::of_pool(objects).await;
    let why = cluster.until_failing(Kind::Objective).await;
    assert!(why.to_lowercase().contains("forbidden"), "{why}");
    cluster.objects.apply(PODS, pod("d", "vllm", 4));
    cluster.until_members(&["a-rank-0", "b-rank-0", "d-rank-0"]).await;
}

#[tokio::test]
async fn a_kind_that_the_cluster_lacks_is_said_and_nothing_waits_for_it() {
    let mut cluster = Cluster::of_pool(with_two_pods()).await;
    let objective = json!({"metadata": {"name": "batch"}, "spec": {"poolRef": {"name": "p"}, "priority": -3}});
    cluster.objects.put(OBJECTIVES, objective.clone());
    cluster.until(|news| matches!(news, News::NotServed(Kind::Rewrite)).then_some(())).await;
    cluster.objects.apply(OBJECTIVES, objective);
    let priority = |news: &News| match news {
        News::Changed(snapshot) => snapshot.priorities.get("batch").copied(),
        _ => None,
    };
    assert_eq!(cluster.until(priority).await, -3);
}

#[tokio::test]
async fn pods_are_selected_without_a_pool() {
    let ports = TargetPorts::new([9000]).expect("a port");
    let scope = Scope::Pods { namespace: "ns".into(), selector: "app=other".into(), ports };
    let mut cluster = Cluster::start(with_two_pods(), scope).await;
    let snapshot = cluster.until_members(&["c-rank-0"]).await;
    assert_eq!(snapshot.members[0].address.to_string(), "10.0.0.3:9000");
}
