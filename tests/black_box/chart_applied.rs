//! What the chart renders, at a real API server: it takes every object as it is written, a pod of it passes the restricted
//! security standard, and the picker's account may do what the picker does.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::api_server::{ADMIN, ApiServer};
use super::chart::{carried, gateways, standalones};
use super::client::{Reply, ask, page};
use super::helm::{ENGINES, EVERYTHING, Release, name};
use super::metrics::Page;
use super::pods::{pod, ready};
use super::program::{Program, folder, free_port, root, target};

/// What a cluster has whose operators have installed everything that the chart has pieces for. Google's and Grafana's definitions
/// can't be had by a module proxy.
const OTHERS: [&str; 7] = [
    "monitoring.coreos.com_podmonitors.yaml",
    "monitoring.coreos.com_prometheusrules.yaml",
    "monitoring.coreos.com_servicemonitors.yaml",
    "customresourcedefinitions.gen.yaml",
    "gateway.networking.k8s.io_gatewayclasses.yaml",
    "gateway.networking.k8s.io_gateways.yaml",
    "gateway.networking.k8s.io_httproutes.yaml",
];

fn as_json(object: &serde_yaml::Value) -> Value {
    serde_json::to_value(object).expect("YAML that is JSON")
}

/// A server with all of them, and the release's namespace.
fn server() -> std::sync::Arc<ApiServer> {
    let server = ApiServer::shared();
    for file in OTHERS {
        let file = target().join("fixtures/crds").join(file);
        let text = fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}; `cargo xtask fixtures` fetches it", file.display()));
        for definition in Release::read(&text).objects.iter().filter(|definition| is_rendered(definition)) {
            server.install_definition(&as_json(definition));
        }
    }
    server.namespace("inference");
    server
}

/// Of Istio's many definitions the chart needs one.
fn is_rendered(definition: &serde_yaml::Value) -> bool {
    !name(definition).ends_with(".istio.io") || name(definition) == "destinationrules.networking.istio.io"
}

#[test]
fn an_api_server_takes_everything_that_is_rendered() {
    let server = server();
    let mut releases: Vec<Release> = carried().into_values().map(|(_, release)| release).collect();
    releases.extend(gateways().iter().chain(&standalones()).map(|values| Release::render(values, &EVERYTHING)));
    for directory in ["deploy/manifests", "deploy/gateways", "deploy/kind"] {
        for entry in fs::read_dir(root().join(directory)).expect("manifests").flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            if file.ends_with(".yaml") && !file.ends_with("values.yaml") && file != "cluster.yaml" {
                releases.push(Release::read(&fs::read_to_string(entry.path()).expect("a manifest")));
            }
        }
    }
    // Each object once.
    let objects = releases.iter().flat_map(|release| &release.objects).map(|object| as_json(object).to_string());
    let objects: std::collections::BTreeSet<String> = objects.collect();
    let (mut taken, mut unknown) = (0, std::collections::BTreeSet::new());
    for object in objects {
        let object: Value = serde_json::from_str(&object).expect("JSON");
        match server.dry_run(&object) {
            Ok(_) => taken += 1,
            Err(refusal) if refusal.contains("page not found") || refusal.contains("could not find the requested") => {
                unknown.insert(object["kind"].as_str().expect("a kind").to_owned());
            }
            Err(refusal) => panic!("{refusal}\n{object:#}"),
        }
    }
    assert!(taken > 90, "{taken}");
    let expected =
        ["AIGatewayRoute", "GCPBackendPolicy", "GrafanaDashboard", "HealthCheckPolicy", "LLMInferenceService"];
    assert_eq!(unknown.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn pods_pass_the_restricted_security_standard() {
    let server = server();
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let restricted = json!({"name": "restricted", "labels": labels});
    server.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": restricted}));
    for (file, (_, release)) in carried() {
        let template = as_json(release.pod());
        let mut spec = template["spec"].clone();
        // A volume of the node's is the user's own choice, and against the standard.
        let of_node = |volume: &Value| volume.get("hostPath").is_some();
        if spec["volumes"].as_array().expect("volumes").iter().any(of_node) {
            let volumes = spec["volumes"].as_array_mut().expect("volumes");
            volumes.retain(|volume| !of_node(volume));
            let left: Vec<Value> = volumes.iter().map(|volume| volume["name"].clone()).collect();
            for container in spec["containers"].as_array_mut().expect("containers") {
                let mounts = container["volumeMounts"].as_array_mut().expect("mounts");
                mounts.retain(|mount| left.contains(&mount["name"]));
            }
        }
        let metadata = json!({"name": "picker", "namespace": "restricted", "labels": template["metadata"]["labels"]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        server.dry_run(&pod).unwrap_or_else(|refusal| panic!("{file}: {refusal}"));
    }
    // The server does look.
    let lax = json!({"containers": [{"name": "a", "image": "a"}]});
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lax", "namespace": "restricted"}, "spec": lax});
    assert!(server.dry_run(&pod).is_err_and(|refusal| refusal.contains("restricted")));
}

#[test]
fn a_bundles_config_maps_fit_into_the_api_server() {
    let server = server();
    let folder = folder("chart-applied-bundle");
    let noise: String =
        (0_u64..400_000).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17))).collect();
    fs::write(folder.join("tokenizer.json"), noise).expect("a file can be written");
    let output = Command::new(root().join("deploy/tokenizer-bundle.sh")).arg(&folder).arg("qwen3").output();
    let output = output.expect("sh can be run");
    let maps = Release::read(&String::from_utf8(output.stdout).expect("UTF-8")).objects;
    assert!(maps.len() > 2);
    for map in maps {
        let mut map = as_json(&map);
        map["metadata"]["namespace"] = json!("inference");
        server.apply(&map);
    }
}

/// The picker of a rendered release with its own account's token and rights, and no others.
struct Picker {
    program: Program,
    metrics: u16,
}

impl Picker {
    fn start(server: &ApiServer, release: &Release, namespace: &str, folder: &Path) -> Self {
        for of in ["ServiceAccount", "Role", "RoleBinding", "ClusterRoleBinding"] {
            release.all(of).for_each(|object| drop(server.apply(&as_json(object))));
        }
        let account = release.the("ServiceAccount");
        let token = server.token(&as_json(account));
        fs::write(folder.join("config.yaml"), release.file(name(account), "config.yaml"))
            .expect("a config can be written");
        let (grpc, health, metrics) = (free_port(), free_port(), free_port());
        let args = release.args_at([grpc, health, metrics], folder);
        let mut command = Command::new(env!("CARGO_BIN_EXE_epp"));
        command.args(args).arg("--bind-address=127.0.0.1").env("KUBECONFIG", server.kubeconfig(&token));
        command.env("NAMESPACE", namespace).env("POD_NAME", format!("{}-6b7c8-x2z4v", name(account)));
        Self { program: Program::start("epp", &mut command, folder), metrics }
    }

    /// Its metrics, for whoever has that token.
    fn metrics(port: u16, token: &str) -> Option<Reply> {
        page(port, "/")?;
        Some(ask(port, "GET", "/metrics", &[("authorization", &format!("Bearer {token}"))], b""))
    }
}

#[test]
fn the_pickers_account_may_do_what_the_picker_does() {
    let server = server();
    for (mode, kinds) in [
        ("gateway", &["pods", "inferencepools", "inferenceobjectives", "inferencemodelrewrites", "leases"][..]),
        ("standalone", &["pods", "leases"]),
    ] {
        let namespace = format!("chart-{mode}");
        let folder = folder(&namespace);
        server.namespace(&namespace);
        // In one mode the metrics are for whom the API server lets, which the picker needs rights to ask.
        let guarded = mode == "standalone";
        let values = format!("{ENGINES}mode: {mode}\nreplicas: 2\nmetricsAuth: {{enabled: {guarded}}}\n");
        let release = Release::render_in(&namespace, &values, &[]);
        release.all("InferencePool").for_each(|pool| drop(server.apply(&as_json(pool))));
        let engine = pod(&namespace, "engine", "vllm");
        server.apply(&engine);
        server.set_status(&engine, &ready(&["127.0.0.1"]));
        let mut picker = Picker::start(&server, &release, &namespace, &folder);
        let port = picker.metrics;
        let sum = |name: &str, labels: &[&str]| {
            Picker::metrics(port, ADMIN).map_or(0.0, |reply| Page::read(&reply.text()).sum(name, labels))
        };
        for of in kinds {
            let watched = || sum("warmpath_cluster_watching", &[&format!("kind=\"{of}\"")]) == 1.0;
            picker.program.wait_until(&format!("{of} are watched"), watched);
        }
        picker.program.wait_until("it leads", || sum("leader_election_master_status", &[]) == 1.0);
        assert_eq!(sum("warmpath_cluster_watching", &[]), kinds.len() as f64, "what is watched, and can be");
        let of_nobody = Picker::metrics(port, "nobody").expect("it answers").status;
        assert_eq!(of_nobody, if guarded { 401 } else { 200 });
        // It gives its lease back as it ends, for which it needs its rights as well.
        picker.program.terminate();
        picker.program.ended();
        let log = picker.program.log();
        assert!(!log.to_lowercase().contains("forbidden"), "{log}");
    }
}
