//! A real Kubernetes API server on loopback, with an etcd, certificates and tokens of its own, RBAC on, and the upstream's
//! CRDs. In: objects as JSON, applied as `kubectl apply --server-side` does; out: what the server says, and kubeconfigs for
//! programs. There are no controllers, no scheduler and no kubelet: what these would do, the test does (a pod runs when its
//! status is [set](ApiServer::set_status), and its deletion ends when it is [removed](ApiServer::remove)).
//!
//! - [`ApiServer::shared`] is one for all tests that run at the same time; each makes a [namespace](ApiServer::namespace) of its
//!   own. [`ApiServer::start`] is one's own, to stop, to restart, or with other CRDs.
//! - Somebody with rights: [`ApiServer::account`] makes a service account with a role's rules and gives its token; more rights are
//!   objects like any other (ClusterRole, ClusterRoleBinding). TokenReview and SubjectAccessReview answer by them.
//! - A program gets [`ApiServer::kubeconfig`] in `KUBECONFIG`; `token` is an account's, or [`ADMIN`].
//! - [`ApiServer::dry_run`] has the server check an object as it would be applied, strictly, and changes nothing.
//!
//! `cargo xtask test` builds the server once; `cargo xtask apiserver` prints where it is, for `KUBEBUILDER_ASSETS`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use std::{env, fs};

use futures::{StreamExt, stream};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::program::{Program, folder, free_port, root, target, wait_until};

/// The token of somebody who may do everything.
pub const ADMIN: &str = "admin-token";

/// The CRDs of a cluster of today, as files of `tests/fixtures/crds`.
pub const CRDS: [&str; 3] =
    ["inference.networking.k8s.io_inferencepools", "llm-d.ai_inferenceobjectives", "llm-d.ai_inferencemodelrewrites"];

/// The server and its etcd; both are gone when it is dropped.
pub struct ApiServer {
    /// Where it listens, with TLS.
    pub port: u16,
    server: Program,
    etcd_port: u16,
    flags: Vec<String>,
    folder: PathBuf,
    runtime: Runtime,
    client: kube::Client,
    // Dropped last: the server waits for it where it ends.
    _etcd: Program,
}

impl ApiServer {
    /// One for all tests that run now, with [`CRDS`].
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<ApiServer>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return server;
        }
        let server = Arc::new(Self::start("api_server", &CRDS, &[]));
        *shared = Arc::downgrade(&server);
        server
    }

    /// One's own, with these CRDs and more flags, its files in a folder of that name.
    pub fn start(test: &str, crds: &[&str], flags: &[&str]) -> Self {
        let folder = folder(test);
        write_credentials(&folder);
        let (port, etcd_port) = (free_port(), free_port());
        let etcd = start_etcd(etcd_port, &folder);
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let server = launch(port, etcd_port, &flags, &folder);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let client = runtime.block_on(client(&kubeconfig(port, ADMIN, &folder)));
        let mut server = Self { port, server, etcd_port, flags, folder, runtime, client, _etcd: etcd };
        server.wait_until_ready();
        for crd in crds {
            server.install(crd);
        }
        server
    }

    fn wait_until_ready(&mut self) {
        let (runtime, client) = (&self.runtime, &self.client);
        self.server.wait_until("it is ready", || {
            let request = http::Request::get("/readyz").body(Vec::new()).expect("a request");
            runtime.block_on(client.request_text(request)).is_ok()
        });
    }

    /// Ends it at once, as where its machine is lost. What it knew stays in etcd.
    pub fn stop(&mut self) {
        self.server.kill();
    }

    /// Another process in its place, once it was stopped.
    pub fn start_again(&mut self) {
        self.server = launch(self.port, self.etcd_port, &self.flags, &self.folder);
        self.wait_until_ready();
    }

    /// Has etcd forget all that is no longer so: watches that begin before now are then answered 410.
    pub fn compact(&self) {
        let ask = |path: &str, body: String| {
            let reply = super::client::ask(self.etcd_port, "POST", path, &[], body.as_bytes());
            assert_eq!(reply.status, 200, "{path}: {}", reply.text());
            serde_json::from_str::<Value>(&reply.text()).expect("etcd answers in JSON")
        };
        let now = ask("/v3/kv/range", json!({"key": "AA==", "count_only": true}).to_string());
        let revision = &now["header"]["revision"];
        ask("/v3/kv/compaction", json!({"revision": revision, "physical": true}).to_string());
    }

    /// Installs one of the CRDs in `tests/fixtures/crds`, and waits until its objects are served.
    pub fn install(&self, crd: &str) {
        let file = root().join("tests/fixtures/crds").join(format!("{crd}.yaml"));
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.install_definition(&serde_yaml::from_str(&text).expect("a CRD"));
    }

    /// The same of a CRD from elsewhere.
    pub fn install_definition(&self, crd: &Value) {
        self.apply(crd);
        let spec = &crd["spec"];
        let of = |value: &Value| value.as_str().expect("a word").to_owned();
        let served = spec["versions"].as_array().and_then(|all| all.iter().find(|version| version["served"] == true));
        let version = of(&served.expect("a version is served")["name"]);
        let list = format!("/apis/{}/{version}/{}", of(&spec["group"]), of(&spec["names"]["plural"]));
        wait_until(&format!("{list} is served"), || self.ask("GET", &list, "", &Value::Null).is_ok());
    }

    /// Makes a namespace.
    pub fn namespace(&self, name: &str) {
        self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    }

    /// Makes a service account with a role of these rules (as in a Role's `rules`); gives its token.
    pub fn account(&self, namespace: &str, name: &str, rules: &Value) -> String {
        let of = |kind: &str, group: &str| {
            let metadata = json!({"name": name, "namespace": namespace});
            json!({"apiVersion": group, "kind": kind, "metadata": metadata})
        };
        let (rbac, account) = ("rbac.authorization.k8s.io", of("ServiceAccount", "v1"));
        self.apply(&account);
        let mut role = of("Role", "rbac.authorization.k8s.io/v1");
        role["rules"] = rules.clone();
        self.apply(&role);
        let mut binding = of("RoleBinding", "rbac.authorization.k8s.io/v1");
        binding["roleRef"] = json!({"apiGroup": rbac, "kind": "Role", "name": name});
        binding["subjects"] = json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}]);
        self.apply(&binding);
        self.token(&account)
    }

    /// A token of a service account that is there.
    pub fn token(&self, account: &Value) -> String {
        let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let path = format!("{}/token", path(account));
        let answer = self.ask("POST", &path, "application/json", &asked).expect("a token is given");
        answer["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// A file for `KUBECONFIG`: this server, as who has that token.
    pub fn kubeconfig(&self, token: &str) -> PathBuf {
        kubeconfig(self.port, token, &self.folder)
    }

    /// Applies an object, as `kubectl apply --server-side` does; gives what came of it.
    pub fn apply(&self, object: &Value) -> Value {
        let path = format!("{}?fieldManager=test&force=true&fieldValidation=Strict", path(object));
        self.patch(&path, APPLY, object)
    }

    /// What would come of applying it, or what the server has against it.
    pub fn dry_run(&self, object: &Value) -> Result<Value, String> {
        let path = format!("{}?fieldManager=test&force=true&fieldValidation=Strict&dryRun=All", path(object));
        self.ask("PATCH", &path, APPLY, object).map_err(|error| error.to_string())
    }

    /// Changes an object: a JSON merge patch.
    pub fn merge(&self, object: &Value, change: &Value) -> Value {
        self.patch(&path(object), MERGE, change)
    }

    /// Changes an object's status: a JSON merge patch, without the word `status`.
    pub fn set_status(&self, object: &Value, status: &Value) -> Value {
        self.patch(&format!("{}/status", path(object)), MERGE, &json!({ "status": status }))
    }

    /// Applies pods with their statuses, many at a time.
    pub fn run_all(&self, pods: &[(Value, Value)]) {
        let run = async |(pod, status): &(Value, Value)| {
            let applied = format!("{}?fieldManager=test&force=true", path(pod));
            self.answer("PATCH", &applied, APPLY, pod).await?;
            self.answer("PATCH", &format!("{}/status", path(pod)), MERGE, &json!({ "status": status })).await
        };
        let all = stream::iter(pods).map(run).buffer_unordered(32);
        self.runtime.block_on(all.for_each(async |done| drop(done.expect("a pod runs"))));
    }

    /// Asks for its deletion: a pod that has a node stays until it is removed.
    pub fn delete(&self, object: &Value) {
        self.ask("DELETE", &path(object), "", &Value::Null).unwrap_or_else(|error| panic!("{object}: {error}"));
    }

    /// Takes it away at once.
    pub fn remove(&self, object: &Value) {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        let gone = self.ask("DELETE", &path(object), "application/json", &options);
        gone.unwrap_or_else(|error| panic!("{object}: {error}"));
    }

    /// An object as it is now.
    pub fn get(&self, object: &Value) -> Result<Value, kube::Error> {
        self.ask("GET", &path(object), "", &Value::Null)
    }

    /// Any request with a JSON answer.
    pub fn ask(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Result<Value, kube::Error> {
        self.runtime.block_on(self.answer(method, path, content_type, body))
    }

    async fn answer(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Result<Value, kube::Error> {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let mut request = http::Request::builder().method(method).uri(path);
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        self.client.request(request.body(bytes).expect("a request")).await
    }

    fn patch(&self, path: &str, content_type: &str, body: &Value) -> Value {
        self.ask("PATCH", path, content_type, body).unwrap_or_else(|error| panic!("{path}: {error}\n{body}"))
    }
}

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

/// Where an object is, by its kind, name and namespace.
fn path(object: &Value) -> String {
    let word = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = word("/apiVersion").split_once('/').unwrap_or(("", word("/apiVersion")));
    let plural = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, word("/kind"))).plural;
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let within = match word("/metadata/namespace") {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    format!("{root}{within}/{plural}/{}", word("/metadata/name"))
}

async fn client(kubeconfig: &Path) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.expect("a kubeconfig that can be used");
    config.read_timeout = Some(Duration::from_secs(60));
    kube::Client::try_from(config).expect("a client")
}

fn kubeconfig(port: u16, token: &str, folder: &Path) -> PathBuf {
    let cluster =
        json!({"server": format!("https://127.0.0.1:{port}"), "certificate-authority": folder.join("ca.crt")});
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    // Tokens are long; their ends differ.
    let file = folder.join(format!("kubeconfig-{}.json", &token[token.len().saturating_sub(12)..]));
    fs::write(&file, config.to_string()).expect("a kubeconfig can be written");
    file
}

/// Certificates, the key of service accounts' tokens, and the token of who may do everything.
fn write_credentials(folder: &Path) {
    let write = |name: &str, text: String| fs::write(folder.join(name), text).expect("a file can be written");
    let key = || KeyPair::generate().expect("a key");
    let names = |names: &[&str]| CertificateParams::new(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
    let ca_key = key();
    let mut ca = names(&[]).expect("no names");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    write("ca.crt", ca.self_signed(&ca_key).expect("a certificate").pem());
    let (server_key, issuer) = (key(), Issuer::new(ca, ca_key));
    let server = names(&["127.0.0.1", "localhost"]).expect("names").signed_by(&server_key, &issuer);
    write("server.crt", server.expect("a certificate").pem());
    write("server.key", server_key.serialize_pem());
    let accounts_key = key();
    write("accounts.key", accounts_key.serialize_pem());
    write("accounts.pub", accounts_key.public_key_pem());
    write("tokens.csv", format!("{ADMIN},admin,admin,system:masters\n"));
}

fn start_etcd(port: u16, folder: &Path) -> Program {
    let clients = format!("http://127.0.0.1:{port}");
    let mut etcd = Command::new(binary("etcd"));
    etcd.arg("--data-dir").arg(folder.join("etcd")).args(["--unsafe-no-fsync", "--log-level", "warn"]);
    etcd.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    etcd.args(["--listen-peer-urls", "http://127.0.0.1:0"]);
    Program::start("etcd", &mut etcd, folder)
}

fn launch(port: u16, etcd_port: u16, flags: &[String], folder: &Path) -> Program {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut server = Command::new(binary("kube-apiserver"));
    for (flag, value) in [
        ("etcd-servers", format!("http://127.0.0.1:{etcd_port}")),
        ("bind-address", "127.0.0.1".to_owned()),
        ("advertise-address", "127.0.0.1".to_owned()),
        ("secure-port", port.to_string()),
        ("tls-cert-file", file("server.crt")),
        ("tls-private-key-file", file("server.key")),
        ("token-auth-file", file("tokens.csv")),
        ("authorization-mode", "RBAC".to_owned()),
        ("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
        ("service-account-key-file", file("accounts.pub")),
        ("service-account-signing-key-file", file("accounts.key")),
        ("service-cluster-ip-range", "10.0.0.0/24".to_owned()),
        // No controller makes each namespace's default account, which pods would wait for.
        ("disable-admission-plugins", "ServiceAccount".to_owned()),
        ("endpoint-reconciler-type", "none".to_owned()),
    ] {
        server.arg(format!("--{flag}={value}"));
    }
    Program::start("kube-apiserver", server.args(flags), folder)
}

/// In `$KUBEBUILDER_ASSETS`, in PATH, or where `cargo xtask apiserver` built it.
fn binary(name: &str) -> PathBuf {
    if let Some(assets) = env::var_os("KUBEBUILDER_ASSETS") {
        return Path::new(&assets).join(name);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([target().join("tools/apiserver")]);
    let found = folders.map(|folder| folder.join(name)).find(|at| at.is_file());
    found.unwrap_or_else(|| {
        panic!("there is no {name}: `cargo xtask test` builds one (it needs Go), or set KUBEBUILDER_ASSETS")
    })
}
