//! In the place of llm-d's picker: the arguments, the environment, the config and the rights that llm-d's charts and KServe give
//! their picker start ours unchanged, at a real API server, and requests through a real Envoy are served. Only ports, paths and
//! names are the test's.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic_health::pb::health_check_response::ServingStatus;

use super::api_server::ApiServer;
use super::client::ask;
use super::envoy::{Envoy, Form};
use super::health::probe;
use super::pods::{pod, pool, ready};
use super::program::{Program, folder, free_port, root, wait_until};
use super::scripted::Engine;
use super::stage::{CHAT, chat};

/// A picker as its deployment starts it.
struct Picker {
    program: Program,
    port: u16,
    health_port: u16,
    metrics_port: u16,
    folder: PathBuf,
}

impl Picker {
    /// `args` name their ports `{grpc}` and `{health}`.
    fn start(server: &ApiServer, namespace: &str, environment: &[(&str, &str)], args: &[&str]) -> Self {
        let folder = folder(&format!("drop_in_{namespace}"));
        let (port, health_port, metrics_port) = (free_port(), free_port(), free_port());
        let token = rights(server, namespace, "epp", true);
        let mut command = Command::new(env!("CARGO_BIN_EXE_epp"));
        command.env("KUBECONFIG", server.kubeconfig(&token)).envs(environment.iter().copied());
        command.args(
            args.iter()
                .map(|arg| arg.replace("{grpc}", &port.to_string()).replace("{health}", &health_port.to_string())),
        );
        command.arg(format!("--metrics-port={metrics_port}"));
        if !args.contains(&"{grpc}") {
            command.arg(format!("--grpc-port={port}"));
        }
        let mut program = Program::start("epp", &mut command, &folder);
        program.wait_until("it is alive", || probe(health_port, "liveness").is_some());
        Self { program, port, health_port, metrics_port, folder }
    }

    fn wait_until_ready(&self, service: &str) {
        wait_until(&format!("{service} is served"), || {
            probe(self.health_port, service) == Some(ServingStatus::Serving)
        });
    }

    /// A chat through Envoy, which asks it with TLS and verifies nothing, as gateways do.
    fn check_chat(&self, engine: SocketAddr) {
        let by_tls = |config: String| {
            let cluster = "  - name: picker\n";
            assert!(config.contains(cluster), "{config}");
            let context = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
            let tls = json!({"name": "envoy.transport_sockets.tls", "typed_config": {"@type": context,
                "common_tls_context": {"alpn_protocols": ["h2"]}}});
            config.replace(cluster, &format!("{cluster}    transport_socket: {tls}\n"))
        };
        let envoy = Envoy::start(Form::OriginalDst, self.port, &[engine.port()], by_tls, &self.folder);
        let json = [("content-type", "application/json")];
        let answer = ask(envoy.port, "POST", CHAT, &json, chat("qwen3", "hello").as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    fn metrics(&self, token: Option<&str>) -> (u16, String) {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<(&str, &str)> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        let answer = ask(self.metrics_port, "GET", "/metrics", &headers, b"");
        (answer.status, answer.text())
    }

    /// What it has to say of its arguments and its config.
    fn warnings(&self) -> Vec<String> {
        let log = self.program.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let said = lines.filter_map(|line| line["message"].as_str().map(str::to_owned));
        said.filter(|said| said.starts_with("flags: ") || said.starts_with("config: ")).collect()
    }
}

/// An account with the rights that llm-d's chart gives the picker; its token.
fn rights(server: &ApiServer, namespace: &str, name: &str, may_ask: bool) -> String {
    let verbs = json!(["get", "watch", "list"]);
    let kinds = ["inferenceobjectives", "inferencemodelrewrites"];
    let rules = json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": verbs},
        {"apiGroups": ["inference.networking.x-k8s.io", "llm-d.ai"], "resources": kinds, "verbs": verbs},
        {"apiGroups": ["inference.networking.k8s.io"], "resources": ["inferencepools"], "verbs": verbs},
    ]);
    let token = server.account(namespace, name, &if may_ask { rules } else { json!([]) });
    if may_ask {
        let rules = json!([
            {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
        ]);
        bind(server, namespace, name, "reviews", &rules);
    }
    token
}

/// Gives an account rights on the whole cluster.
fn bind(server: &ApiServer, namespace: &str, account: &str, role: &str, rules: &Value) {
    let (group, name) = ("rbac.authorization.k8s.io", format!("{namespace}-{account}-{role}"));
    let of = |kind: &str| json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": name}});
    let mut cluster_role = of("ClusterRole");
    cluster_role["rules"] = rules.clone();
    server.apply(&cluster_role);
    let mut binding = of("ClusterRoleBinding");
    binding["roleRef"] = json!({"apiGroup": group, "kind": "ClusterRole", "name": name});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
    server.apply(&binding);
}

/// A namespace with an engine's pod, by the name and the label `qwen3`.
fn with_engine(server: &ApiServer, namespace: &str) -> Engine {
    server.namespace(namespace);
    let engine = Engine::plain();
    let one = pod(namespace, "qwen3", "qwen3");
    server.apply(&one);
    server.set_status(&one, &ready(&["127.0.0.1"]));
    engine
}

/// One of the config crate's copies of llm-d's and KServe's files.
fn published(name: &str) -> PathBuf {
    root().join("crates/config/tests/llm-d").join(name)
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn the_arguments_of_llm_ds_gateway_chart_start_and_serve() {
    let (server, namespace) = (ApiServer::shared(), "gateway-chart");
    let engine = with_engine(&server, namespace);
    server.apply(&pool(namespace, json!({"app": "qwen3"}), &[engine.address.port()]));
    let config = published("chart-default-plugins.yaml");
    let environment = [("NAMESPACE", namespace), ("POD_NAME", "qwen3-epp-5d8f7c9b6-x2v4q")];
    let args = [
        "--pool-name",
        "qwen3",
        "--pool-namespace",
        namespace,
        "--pool-group",
        "inference.networking.k8s.io",
        "--zap-encoder",
        "json",
        "--config-file",
        path(&config),
        "--grpc-health-port",
        "{health}",
        "--v=1",
        "--tracing=false",
    ];
    let picker = Picker::start(&server, namespace, &environment, &args);
    picker.wait_until_ready("inference-extension");
    picker.check_chat(engine.address);
    assert_eq!(picker.warnings(), Vec::<String>::new());

    // Who sees the metrics: a scraper that the cluster lets, and nobody else.
    let scraper = server.account(namespace, "scraper", &json!([]));
    assert_eq!(picker.metrics(None).0, 401);
    assert_eq!(picker.metrics(Some("guessed")).0, 401);
    let (status, said) = picker.metrics(Some(&scraper));
    assert_eq!(
        (status, said.trim()),
        (403, "Authorization denied for user system:serviceaccount:gateway-chart:scraper")
    );
    let reader = server.account(namespace, "reader", &json!([]));
    bind(&server, namespace, "reader", "metrics", &json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]));
    wait_until("the right is known", || {
        let rule = json!({"nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            "user": "system:serviceaccount:gateway-chart:reader"});
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": rule});
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        server.ask("POST", path, "application/json", &review).expect("an answer")["status"]["allowed"] == true
    });
    let (status, page) = picker.metrics(Some(&reader));
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("llm_d_epp_ready_endpoints{name=\"qwen3\"} 1"), "{page}");
    for token in [&scraper, &reader] {
        assert!(!picker.program.log().contains(token.as_str()), "a token is in the log");
    }
}

#[test]
fn the_arguments_of_llm_ds_standalone_chart_start_and_serve() {
    let (server, namespace) = (ApiServer::shared(), "standalone-chart");
    let engine = with_engine(&server, namespace);
    let (config, ports) = (published("chart-default-plugins.yaml"), engine.address.port().to_string());
    let environment = [("NAMESPACE", namespace), ("POD_NAME", "qwen3-epp-5d8f7c9b6-x2v4q")];
    // As `inferencePool.create: false`, `monitoring.prometheus.auth.enabled: false` and flags of the performance suite have it.
    let args = [
        "--endpoint-selector",
        "app=qwen3",
        "--endpoint-target-ports",
        &ports,
        "--zap-encoder",
        "json",
        "--config-file",
        path(&config),
        "--grpc-health-port",
        "{health}",
        "--enable-pprof=true",
        "--tracing=false",
        "--v=4",
        "--tracing=false",
        "--metrics-endpoint-auth=false",
    ];
    let picker = Picker::start(&server, namespace, &environment, &args);
    picker.wait_until_ready("inference-extension");
    picker.check_chat(engine.address);
    assert_eq!(picker.warnings(), ["flags: --enable-pprof=true has no effect: no profiles are served"]);
    let (status, page) = picker.metrics(None);
    assert_eq!(status, 200);
    assert!(
        page.contains("llm_d_epp_ready_endpoints{name=\"qwen3-epp\"} 1"),
        "the pool is called as the deployment: {page}"
    );
}

/// KServe's command and what its controller adds, with and without TLS.
fn check_kserve(namespace: &'static str, tls: [&str; 4], check: impl Fn(&Picker)) {
    let server = ApiServer::shared();
    let engine = with_engine(&server, namespace);
    server.apply(&pool(namespace, json!({"app": "qwen3"}), &[engine.address.port()]));
    let config = fs::read_to_string(published("kserve-default.yaml")).expect("a config");
    let args = [
        &[
            "--pool-name",
            "qwen3",
            "--pool-namespace",
            namespace,
            "--zap-encoder",
            "json",
            "--grpc-port",
            "{grpc}",
            "--grpc-health-port",
            "{health}",
        ][..],
        &tls,
        &["--config-text", &config],
    ]
    .concat();
    let picker = Picker::start(&server, namespace, &[("SSL_CERT_DIR", "/var/run/kserve/tls")], &args);
    picker.wait_until_ready("liveness");
    picker.wait_until_ready("readiness");
    picker.check_chat(engine.address);
    let warnings = picker.warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("plugins[4].type: near: `spare`"), "{warnings:?}");
    check(&picker);
}

#[test]
fn kserves_command_without_tls_starts_and_serves() {
    check_kserve("kserve-plain", [""; 4], |_| {});
}

#[test]
fn kserves_command_with_tls_starts_and_serves() {
    let directory = folder("drop_in_kserve_certificate");
    let (chain, key) = certificate("qwen3-epp-service");
    fs::write(directory.join("tls.crt"), chain).expect("a file");
    fs::write(directory.join("tls.key"), key).expect("a file");
    let cert_path = format!("--cert-path={}", directory.display());
    let tls = ["--enable-cert-reload=true", "--secure-serving=true", "--model-server-metrics-scheme=https", &cert_path];
    check_kserve("kserve-tls", tls, |picker| {
        // Nobody may see the metrics without a word of the cluster.
        assert_eq!(picker.metrics(None).0, 401);
    });
}

/// While the API server is away nobody is shown the metrics who wasn't before, and requests are served.
#[test]
fn while_the_api_server_is_away_the_metrics_stay_hidden() {
    let (mut server, namespace) = (ApiServer::start("api_server_away", &super::api_server::CRDS, &[]), "away");
    let engine = with_engine(&server, namespace);
    server.apply(&pool(namespace, json!({"app": "qwen3"}), &[engine.address.port()]));
    let args = ["--pool-name", "qwen3", "--pool-namespace", namespace, "--grpc-health-port", "{health}"];
    let picker = Picker::start(&server, namespace, &[], &args);
    picker.wait_until_ready("");
    let token = server.account(namespace, "scraper", &json!([]));
    server.stop();
    assert_eq!(picker.metrics(Some(&token)).0, 500);
    // A thread of its own writes the log.
    wait_until("the log says why", || picker.program.log().contains("nobody is shown the metrics"));
    picker.check_chat(engine.address);
}

/// A certificate of its own for that name, and its key, as PEM.
fn certificate(name: &str) -> (String, String) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    (params.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
}

/// The metrics as a client gets them that trusts this certificate and shows that one; `None` where it gets nothing.
fn metrics_by_tls(port: u16, trusted: &str, shown: Option<&(String, String)>) -> Option<String> {
    let pem = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(pem(trusted)).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
    let config = match shown {
        None => config.with_no_client_auth(),
        Some((chain, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
            config.with_client_auth_cert(vec![pem(chain)], key).expect("a pair")
        }
    };
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
        let name = ServerName::try_from("localhost").expect("a name");
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.ok()?;
        let mut answer = String::new();
        // Whom the server doesn't know is told so here; whom it does may be left without a word at the end.
        let _ = stream.read_to_string(&mut answer).await;
        answer.starts_with("HTTP/1.1 200").then_some(answer)
    })
}

#[test]
fn metrics_are_shown_with_tls_to_whom_a_certificate_is_signed() {
    let folder = folder("drop_in_metrics_tls");
    let (server, client, stranger) = (certificate("localhost"), certificate("client"), certificate("stranger"));
    for (name, text) in [("tls.crt", &server.0), ("tls.key", &server.1), ("ca.crt", &client.0)] {
        fs::write(folder.join(name), text).expect("a file");
    }
    let endpoints = root().join("deploy/example/endpoints.yaml");
    let (grpc, health, metrics) = (free_port(), free_port(), free_port());
    let mut command = Command::new(env!("CARGO_BIN_EXE_epp"));
    command.args(["--endpoints-file", path(&endpoints), "--bind-address=127.0.0.1"]);
    command.arg("--metrics-cert-dir").arg(&folder).arg("--metrics-client-ca-file").arg(folder.join("ca.crt"));
    command.args([
        format!("--grpc-port={grpc}"),
        format!("--grpc-health-port={health}"),
        format!("--metrics-port={metrics}"),
    ]);
    let mut program = Program::start("epp", &mut command, &folder);
    program.wait_until("it is alive", || probe(health, "liveness").is_some());
    let page = metrics_by_tls(metrics, &server.0, Some(&client)).expect("a page");
    assert!(page.contains("llm_d_epp_ready_endpoints"), "{page}");
    assert_eq!(metrics_by_tls(metrics, &server.0, None), None);
    assert_eq!(metrics_by_tls(metrics, &server.0, Some(&stranger)), None);
}

fn refused(args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_epp"));
    let output = command.args(args).env("KUBECONFIG", "/nowhere").output().expect("epp can be run");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// kubernetes-sigs/gateway-api-inference-extension#2871: `--secure-serving false` turned it on.
#[test]
fn what_can_not_be_meant_is_refused_at_the_start() {
    let check = |args: &[&str], exit: i32, words: &str| {
        let (code, said) = refused(args);
        assert!(code == Some(exit) && said.contains(words), "{args:?}: {code:?} {said}");
    };
    check(&["--secure-serving", "false"], 2, "`--secure-serving=false`");
    check(&["--kv-cache-usage-percentage-metric=x"], 2, "is deprecated and can't be used");
    check(&["--config-text", "a", "--config-file", "b"], 2, "cannot be used with");
    check(&["--tls-min-version=1.2", "--endpoints-file=x"], 1, "`1.2` is no version");
    check(&["--pool-name=a", "--metrics-client-ca-file=x"], 1, "--metrics-client-ca-file takes --metrics-cert-dir too");
    let alone = ["--pool-name=a", "--metrics-cert-dir=x", "--metrics-endpoint-auth=false"];
    check(&alone, 1, "hides the metrics from nobody");
    let endpoints = root().join("deploy/example/endpoints.yaml");
    let file = ["--endpoints-file", path(&endpoints), "--grpc-port=0", "--grpc-health-port=0", "--metrics-port=0"];
    check(&[&file[..], &["--metrics-endpoint-auth=true"]].concat(), 1, "no access to a Kubernetes API server");
}
