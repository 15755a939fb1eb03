//! What the chart renders: strict YAML, what an API server, the picker and Envoy accept, and no more rights and openings than
//! are needed. What it refuses, it refuses in words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_yaml::Value;

use super::envoy;
use super::helm::{ENGINES, EVERYTHING, Release, helm, kind, name, texts};
use super::program::{folder, root};

/// Lines of values that have a say in what is rendered; every choice of one row is rendered with every one of another.
const GATEWAY: &[&[&str]] = &[
    &["", "replicas: 2", "replicas: 3\nleaderElection: {enabled: false}"],
    &["provider: {name: none}", "provider: {name: istio}", "provider: {name: gke}"],
    &["", "tls: {secretName: picker-tls}", "tls: {enabled: false}"],
    &["", "networkPolicy: {enabled: true}"],
];
const STANDALONE: &[&[&str]] = &[
    &["", "replicas: 2", "replicas: 3\nleaderElection: {enabled: false}"],
    &[
        "engines: {matchLabels: {app: vllm}}",
        "engines: {selector: 'app=vllm,tier in (a,b)'}",
        "engines: {endpoints: [{name: a, address: 10.0.0.1, port: 8000}]}",
        "engines: {matchLabels: {app: vllm}, appProtocol: kubernetes.io/h2c, metrics: {port: 9000}}",
        "engines: {matchLabels: {app: vllm}, tls: {enabled: true, insecureSkipVerify: true}}",
    ],
    &["", "networkPolicy: {enabled: true}"],
];

/// Every combination of the rows.
fn combinations(base: &str, rows: &[&[&str]]) -> Vec<String> {
    let mut all = vec![base.to_owned()];
    for row in rows {
        all = all.iter().flat_map(|so_far| row.iter().map(move |line| format!("{so_far}{line}\n"))).collect();
    }
    all
}

/// Every combination of a gateway's values.
pub fn gateways() -> Vec<String> {
    combinations(ENGINES, GATEWAY)
}

/// Every combination of those of mode standalone.
pub fn standalones() -> Vec<String> {
    combinations("mode: standalone\n", STANDALONE)
}

/// The files of values that the chart carries, by name.
pub fn carried() -> BTreeMap<String, (String, Release)> {
    let folder = root().join("charts/warmpath/ci");
    let files = fs::read_dir(folder).expect("files of values").flatten();
    files
        .map(|entry| {
            let values = fs::read_to_string(entry.path()).expect("a file of values");
            let apis = values.lines().find_map(|line| line.strip_prefix("# apis: ")).unwrap_or_default();
            let apis: Vec<&str> = apis.split(',').filter(|api| !api.is_empty()).collect();
            let release = Release::render(&values, &apis);
            (entry.file_name().to_string_lossy().into_owned(), (values, release))
        })
        .collect()
}

#[test]
fn helm_finds_nothing_to_complain_of() {
    let said = helm(&["lint", "--strict", "charts/warmpath"], ENGINES).expect("lint passes");
    assert!(said.contains("0 chart(s) failed"), "{said}");
}

#[test]
fn every_combination_of_values_renders_strictly_and_hangs_together() {
    let gateway = gateways();
    let standalone = standalones();
    assert!(gateway.len() >= 54 && standalone.len() >= 30);
    for values in gateway.iter().chain(&standalone) {
        let release = Release::render(values, &EVERYTHING);
        hangs_together(&release);
        is_locked_down(&release);
    }
    for (values, release) in carried().values() {
        assert!(!values.is_empty());
        hangs_together(release);
        is_locked_down(release);
    }
}

/// What names something else names something that is there.
#[track_caller]
fn hangs_together(release: &Release) {
    let pod = release.pod();
    let labels = &pod["metadata"]["labels"];
    let containers = pod["spec"]["containers"].as_sequence().expect("containers");
    let ports: BTreeSet<&str> = containers.iter().flat_map(|container| named_ports(&container["ports"])).collect();
    let within = |selector: &Value, labels: &Value| {
        selector.as_mapping().expect("a selector").iter().all(|(key, value)| labels.get(key) == Some(value))
    };
    assert!(within(&release.the("Deployment")["spec"]["selector"]["matchLabels"], labels));
    for service in release.all("Service").filter(|service| !name(service).ends_with("-engines")) {
        assert!(within(&service["spec"]["selector"], labels), "{}", name(service));
        for port in service["spec"]["ports"].as_sequence().expect("ports") {
            assert!(ports.contains(port["targetPort"].as_str().expect("a name")), "{port:?}");
        }
    }
    for monitor in release.all("ServiceMonitor") {
        let chosen =
            |service: &&Value| within(&monitor["spec"]["selector"]["matchLabels"], &service["metadata"]["labels"]);
        let services: Vec<&Value> = release.all("Service").filter(chosen).collect();
        assert_eq!(services.len(), 1, "a picker that is read twice, or never");
        let offered: BTreeSet<&str> = named_ports(&services[0]["spec"]["ports"]).collect();
        for endpoint in monitor["spec"]["endpoints"].as_sequence().expect("endpoints") {
            assert!(offered.contains(endpoint["port"].as_str().expect("a name")), "{endpoint:?}");
        }
    }
    for monitor in release.all("PodMonitor") {
        assert!(within(&monitor["spec"]["selector"]["matchLabels"], labels));
        for endpoint in monitor["spec"]["podMetricsEndpoints"].as_sequence().expect("endpoints") {
            assert!(ports.contains(endpoint["port"].as_str().expect("a name")), "{endpoint:?}");
        }
    }
    for policy in release.all("PodDisruptionBudget") {
        assert!(within(&policy["spec"]["selector"]["matchLabels"], labels));
    }
    for pool in release.all("InferencePool") {
        let service = pool["spec"]["endpointPickerRef"]["name"].as_str().expect("a name");
        assert_eq!(release.named("Service", service)["spec"]["ports"][0]["port"], 9002);
    }
    let volumes: BTreeSet<&str> = named_ports(&pod["spec"]["volumes"]).collect();
    for container in all_containers(release) {
        let mounts: Vec<&str> =
            container["volumeMounts"].as_sequence().into_iter().flatten().map(|m| text(&m["name"])).collect();
        assert!(mounts.iter().all(|mount| volumes.contains(mount)), "{mounts:?} of {volumes:?}");
    }
    for object in release.objects.iter().filter(|object| kind(object) != "ClusterRoleBinding") {
        assert_eq!(object["metadata"]["namespace"], "inference", "{} {}", kind(object), name(object));
    }
}

fn named_ports(list: &Value) -> impl Iterator<Item = &str> {
    list.as_sequence().into_iter().flatten().map(|item| text(&item["name"]))
}

#[track_caller]
fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn all_containers(release: &Release) -> impl Iterator<Item = &Value> {
    let spec = &release.pod()["spec"];
    ["initContainers", "containers"].into_iter().flat_map(|list| spec[list].as_sequence().into_iter().flatten())
}

/// The restricted profile of Kubernetes' pod security standards, and a token for whoever needs one alone.
#[track_caller]
fn is_locked_down(release: &Release) {
    let pod = &release.pod()["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(pod["automountServiceAccountToken"], false);
    for container in all_containers(release) {
        let context = &container["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(texts(&context["capabilities"]["drop"]), ["ALL"]);
        if container["name"] != "epp" {
            assert!(
                container["volumeMounts"]
                    .as_sequence()
                    .into_iter()
                    .flatten()
                    .all(|mount| mount["name"] != "api-access")
            );
        }
    }
}

#[test]
fn a_flag_is_one_word_and_goes_before_the_charts_own() {
    let release = &carried()["quoting-values.yaml"].1;
    let args = release.args();
    for expected in
        ["--secure-serving=false", "--v=3", "--pool-name=a b", "--max-body-bytes=1000000", "--model=a=/x: y"]
    {
        assert_eq!(args.iter().filter(|arg| *arg == expected).count(), 1, "{expected} in {args:?}");
    }
    let names: Vec<&str> = args.iter().filter_map(|arg| arg.split_once('=')).map(|(name, _)| name).collect();
    assert_eq!(names.len(), args.len(), "a flag without its value: {args:?}");
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "a flag that stands twice: {args:?}");
    assert!(!names.contains(&"--drain-timeout"), "null takes it away");
}

#[test]
fn texts_stay_texts() {
    let release = &carried()["quoting-values.yaml"].1;
    let environment = release.container("epp")["env"].as_sequence().expect("variables");
    let value = |called: &str| {
        let variable = environment.iter().find(|variable| variable["name"] == called).expect("a variable");
        text(&variable["value"]).to_owned()
    };
    let expected =
        [("A", "true"), ("B", "1e3"), ("C", "0123"), ("D", "a: b"), ("E", "1000000"), ("F", "yes"), ("H", "false")];
    for (called, expected) in expected {
        assert_eq!(value(called), expected);
    }
    assert_eq!(value("G"), "a \"quoted\" # word");
    assert_eq!(release.pod()["metadata"]["labels"]["version"], "1e3");
    assert_eq!(release.the("InferencePool")["spec"]["selector"]["matchLabels"]["app"], "yes");
}

#[test]
fn nothing_is_rendered_for_an_api_that_the_cluster_lacks() {
    let of_operators = ["ServiceMonitor", "PodMonitor", "PrometheusRule", "GrafanaDashboard"];
    let bare = Release::render(ENGINES, &[]).kinds();
    assert!(of_operators.iter().all(|kind| !bare.contains(*kind)), "{bare:?}");
    let full = Release::render(ENGINES, &["monitoring.coreos.com/v1"]).kinds();
    assert!(full.contains("ServiceMonitor") && full.contains("PrometheusRule"), "{full:?}");
    let by_kind = Release::render(ENGINES, &["monitoring.coreos.com/v1/ServiceMonitor"]).kinds();
    assert!(by_kind.contains("ServiceMonitor") && !by_kind.contains("PrometheusRule"), "{by_kind:?}");
    let refused = [
        (
            "monitoring: {monitor: {enabled: true}}",
            "monitoring.monitor.enabled is true, but this cluster has no ServiceMonitor",
        ),
        (
            "monitoring: {rules: {enabled: true}}",
            "monitoring.rules.enabled is true, but this cluster has no PrometheusRule",
        ),
        (
            "monitoring: {dashboard: {enabled: true, kind: GrafanaDashboard}}",
            "this cluster has none of grafana.integreatly.org",
        ),
        ("objectives: [{name: a, priority: -1}]", "this cluster has no InferenceObjective"),
    ];
    for (values, expected) in refused {
        check_refused(&format!("{ENGINES}{values}"), expected);
    }
    let off = Release::render(&format!("{ENGINES}monitoring: {{monitor: {{enabled: false}}}}"), &EVERYTHING).kinds();
    assert!(!off.contains("ServiceMonitor"), "{off:?}");
}

/// Helm refuses these values, and says so.
#[track_caller]
pub fn check_refused(values: &str, expected: &str) {
    match Release::try_render(values, &[]) {
        Ok(_) => panic!("accepted: {values}"),
        Err(refusal) => assert!(refusal.contains(expected), "{values}\n{refusal}"),
    }
}

#[test]
fn values_that_are_mistyped_are_refused_by_name() {
    for (values, expected) in [
        ("modee: gateway", "'modee' not allowed"),
        ("mode: gatewayy", "at '/mode'"),
        ("replica: 2", "'replica' not allowed"),
        ("replicas: two", "at '/replicas'"),
        ("image: {repo: x}", "'repo' not allowed"),
        ("image: {digest: latest}", "at '/image/digest'"),
        ("engines: {matchLabels: {app: 1}}", "at '/engines/matchLabels/app'"),
        ("engines: {targetPorts: [http]}", "at '/engines/targetPorts/0'"),
        ("engines: {targetPorts: [70000]}", "at '/engines/targetPorts/0'"),
        ("engines: {type: vlm}", "at '/engines/type'"),
        ("engines: {appProtocol: h2c}", "at '/engines/appProtocol'"),
        ("models: [{name: a}]", "missing property 'files'"),
        ("models: [{name: a, files: {}}]", "at '/models/0/files'"),
        ("models: [{name: a, files: {pvc: {claimName: x}}}]", "'pvc' not allowed"),
        ("models: [{name: a, files: {image: {reference: x}, volume: {emptyDir: {}}}}]", "at '/models/0/files'"),
        ("models: [{name: a, files: {download: {url: s3://x}}}]", "at '/models/0/files/download/url'"),
        ("policy: {weights: {prefx: 1}}", "'prefx' not allowed"),
        ("policy: {weights: {prefix: -1}}", "at '/policy/weights/prefix'"),
        ("policy: {trust: [sessions]}", "at '/policy/trust/0'"),
        ("policy: {scrape: {interval: 200}}", "at '/policy/scrape/interval'"),
        ("policy: {tenantHeader: 'x tenant'}", "at '/policy/tenantHeader'"),
        ("policy: {loadOnly: 'false'}", "at '/policy/loadOnly'"),
        ("flags: {--v: 3}", "--v"),
        ("flags: {model: [a, b]}", "at '/flags/model'"),
        ("extraEnv: [{name: A, valeu: b}]", "at '/extraEnv/0'"),
        ("inferencePool: {failureMode: FailClosed}", "at '/inferencePool/failureMode'"),
        ("provider: {name: gcp}", "at '/provider/name'"),
        ("envoy: {failOpen: 'true'}", "at '/envoy/failOpen'"),
        ("envoy: {requestTimeout: 5m}", "at '/envoy/requestTimeout'"),
        ("monitoring: {monitor: {enabled: yes please}}", "at '/monitoring/monitor/enabled'"),
        ("tls: {secret: x}", "'secret' not allowed"),
        ("podDisruptionBudget: {minAvailable: 1}", "'minAvailable' not allowed"),
    ] {
        let values = if values.starts_with("engines") { values.to_owned() } else { format!("{ENGINES}{values}") };
        check_refused(&values, expected);
    }
}

#[test]
fn values_that_cannot_be_together_are_refused_in_words() {
    for (values, expected) in [
        ("", "engines.matchLabels is empty"),
        ("mode: standalone", "needs exactly one of engines.matchLabels"),
        ("mode: standalone\nengines: {matchLabels: {a: b}, selector: c=d}", "needs exactly one of engines.matchLabels"),
        (
            "mode: standalone\nengines: {selector: c=d}\nenvoy: {failOpen: true}",
            "envoy.failOpen needs engines.matchLabels",
        ),
        (
            "engines: {matchLabels: {a: b}, endpoints: [{name: a, address: 10.0.0.1, port: 1}]}",
            "are for mode standalone",
        ),
        (
            "mode: standalone\nleaderElection: {enabled: true}\nengines: {endpoints: [{name: a, address: 10.0.0.1, port: 1}]}",
            "leaderElection.enabled can't be true",
        ),
        (
            "engines: {matchLabels: {a: b}, tls: {enabled: true, ca: {configMap: a, secret: b}}}",
            "either a ConfigMap or a Secret",
        ),
        (
            "replicas: 2\nengines: {matchLabels: {a: b}}\npodDisruptionBudget: {enabled: true}",
            "can't be true with leader election",
        ),
        ("engines: {matchLabels: {a: b}}\nhttpRoute: {create: true}", "httpRoute.parentRefs is empty"),
        (
            "engines: {matchLabels: {a: b}}\nprovider: {gke: {healthCheck: {timeoutSec: 5}}}",
            "timeoutSec is more than checkIntervalSec",
        ),
    ] {
        check_refused(values, expected);
    }
}

#[test]
fn the_picker_takes_every_rendered_config() {
    let folder = folder("chart-configs");
    let mut releases: Vec<(String, Release)> =
        carried().into_iter().map(|(name, (_, release))| (name, release)).collect();
    for kind in ["vllm", "sglang", "triton-tensorrt-llm", "trtllm-serve"] {
        let values = format!("engines: {{matchLabels: {{app: a}}, type: {kind}}}\n");
        releases.push((kind.to_owned(), Release::render(&values, &[])));
    }
    for (name, release) in &releases {
        let said = check_config(&release.file("warmpath", "config.yaml"), &folder);
        assert!(said.is_ok(), "{name}: {said:?}");
    }
}

/// What `epp check-config` says of a config, or why it refuses it.
fn check_config(config: &str, folder: &Path) -> Result<String, String> {
    let file = folder.join("config.yaml");
    fs::write(&file, config).expect("a config can be written");
    let output =
        Command::new(env!("CARGO_BIN_EXE_epp")).arg("check-config").arg(file).output().expect("epp can be run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[test]
fn every_value_of_the_policy_reaches_the_picker() {
    let release = &carried()["gateway-istio-values.yaml"].1;
    let config: Value = serde_yaml::from_str(&release.file("warmpath", "config.yaml")).expect("YAML");
    let expected: Value = serde_yaml::from_str(
        "load_only: false
holdout: {share: 0.02, baseline: load}
shadow: false
block_size_tokens: 32
default_capacity_blocks: 1000000
tenant_header: x-tenant
trust: [objective, session]
scrape: {interval: 300ms, idle_interval: 10s, timeout: 2s}
stale_after: 3s
max_body_bytes: 10000000
scorers: [{type: in_flight, weight: 1}, {type: spare, weight: 2}]
models:
- {name: Qwen/Qwen3-8B, aliases: [qwen3], adapters: [sql], revision: '2026-04', path: /models/0}
- {name: openai/gpt-oss-20b, path: /models/1}
- {name: meta-llama/Llama-3.1-8B-Instruct, path: /models/2}
- {name: local/own, path: /models/3}
- {name: local/host, path: /models/4}
",
    )
    .expect("YAML");
    assert_eq!(config["warmpath"], expected);
    let source = &config["plugins"][3]["parameters"];
    assert_eq!(text(&source["scheme"]), "https");
    assert_eq!(text(&source["caCertPath"]), "/etc/warmpath/engines-ca/ca.crt");
    assert_eq!(text(&source["clientCertPath"]), "/etc/warmpath/engines-client/tls.crt");
    // A text is taken as it is.
    let raw = &carried()["raw-config-values.yaml"].1;
    assert!(raw.file("warmpath", "config.yaml").contains("# Comments stay."));
}

#[test]
fn the_picker_takes_every_rendered_argument() {
    let mut releases: Vec<Release> = carried().into_values().map(|(_, release)| release).collect();
    releases.extend(gateways().iter().map(|values| Release::render(values, &[])));
    let distinct: BTreeSet<Vec<String>> = releases.iter().map(Release::args).collect();
    assert!(distinct.len() > 8, "{distinct:?}");
    for args in distinct {
        // Flags are read in turn: the help comes once all before it were understood.
        let output =
            Command::new(env!("CARGO_BIN_EXE_epp")).args(&args).arg("--help").output().expect("epp can be run");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_real_envoy_takes_every_rendered_config() {
    let folder = folder("chart-envoy");
    let (certificate, key) = a_certificate();
    for (directory, file, pem) in [
        ("engines-ca", "ca.crt", &certificate),
        ("engines-client", "tls.crt", &certificate),
        ("engines-client", "tls.key", &key),
    ] {
        fs::create_dir_all(folder.join(directory)).expect("a folder can be made");
        fs::write(folder.join(directory).join(file), pem).expect("a file can be written");
    }
    let mut releases: Vec<Release> = standalones().iter().map(|values| Release::render(values, &[])).collect();
    releases.extend(carried().into_values().map(|(_, release)| release));
    let standalone =
        releases.iter().filter(|release| release.all("ConfigMap").any(|map| name(map) == "warmpath-envoy"));
    let configs: BTreeSet<String> = standalone.map(|release| release.file("warmpath-envoy", "envoy.yaml")).collect();
    assert!(configs.len() >= 5, "{}", configs.len());
    for config in configs {
        let file = folder.join("envoy.yaml");
        fs::write(&file, config.replace("/etc/warmpath", &folder.display().to_string()))
            .expect("a config can be written");
        let mut validate = Command::new(envoy::binary());
        validate.args(["--mode", "validate", "--log-level", "warn", "-c"]).arg(&file);
        let output = validate.output().expect("envoy can be run");
        assert!(output.status.success(), "{}\n{config}", String::from_utf8_lossy(&output.stderr));
    }
}

fn a_certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["engine".to_owned()]).expect("a certificate");
    (made.cert.pem(), made.signing_key.serialize_pem())
}

#[test]
fn switching_to_load_alone_makes_no_new_pods_and_anything_else_does() {
    let sum = |line: &str| {
        let release = Release::render(&format!("{ENGINES}{line}"), &[]);
        text(&release.pod()["metadata"]["annotations"]["checksum/config"]).to_owned()
    };
    let plain = sum("");
    assert_eq!(sum("policy: {loadOnly: true}"), plain);
    assert_ne!(sum("policy: {staleAfter: 5s}"), plain);
    assert_ne!(sum("policy: {weights: {prefix: 4}}"), plain);
    assert_ne!(sum("engines: {matchLabels: {app: vllm}, type: sglang}"), plain);
}

/// Who may do what, as `group/resource[names] verbs`.
fn rights(release: &Release) -> Vec<String> {
    let rules = release.all("Role").flat_map(|role| role["rules"].as_sequence().expect("rules"));
    let mut all: Vec<String> = rules
        .flat_map(|rule| {
            let (verbs, resources) = (texts(&rule["verbs"]).join(","), texts(&rule["resources"]).join(","));
            let only = rule["resourceNames"].as_sequence().map(|_| texts(&rule["resourceNames"])).unwrap_or_default();
            let groups = texts(&rule["apiGroups"]).into_iter();
            groups.map(move |group| format!("{group}/{resources}{only:?} {verbs}")).collect::<Vec<_>>()
        })
        .collect();
    all.extend(release.all("ClusterRoleBinding").map(|binding| text(&binding["roleRef"]["name"]).to_owned()));
    all
}

#[test]
fn the_picker_may_do_what_it_needs_and_no_more() {
    let read = "get,list,watch";
    let pool = [
        format!("/pods[] {read}"),
        format!("inference.networking.k8s.io/inferencepools[\"warmpath\"] {read}"),
        format!("llm-d.ai/inferenceobjectives,inferencemodelrewrites[] {read}"),
        format!("inference.networking.x-k8s.io/inferenceobjectives,inferencemodelrewrites[] {read}"),
    ];
    let check =
        |values: &str, expected: &[&str]| assert_eq!(rights(&Release::render(values, &[])), expected, "{values}");
    let [a, b, c, d] = pool.each_ref().map(String::as_str);
    let lease = "coordination.k8s.io/leases[\"epp-inference-warmpath.llm-d.ai\"] get,list,watch,update";
    let create = "coordination.k8s.io/leases[] create";
    check(ENGINES, &[a, b, c, d]);
    check(&format!("{ENGINES}replicas: 2"), &[a, b, c, d, lease, create]);
    check(&format!("{ENGINES}metricsAuth: {{enabled: true}}"), &[a, b, c, d, "system:auth-delegator"]);
    check(&format!("{ENGINES}mode: standalone"), &[a]);
    check(&format!("{ENGINES}mode: standalone\nreplicas: 2"), &[a, lease, create]);
    check(&format!("{ENGINES}rbac: {{create: false}}"), &[]);
    // Fixed endpoints: nothing is asked of the API server, and there is no token to ask with.
    let fixed = "mode: standalone\nengines: {endpoints: [{name: a, address: 10.0.0.1, port: 8000}]}";
    check(fixed, &[]);
    assert!(!named_ports(&Release::render(fixed, &[]).pod()["spec"]["volumes"]).any(|volume| volume == "api-access"));
}

#[test]
fn where_one_of_several_leads_neither_a_rollout_nor_a_drain_can_get_stuck() {
    let leading = Release::render(&format!("{ENGINES}replicas: 2"), &[]);
    assert!(leading.args().contains(&"--ha-enable-leader-election=true".to_owned()));
    // One pod is ready, and no more: a rollout that waits for others waits for ever, and one that needn't wait for it ends the
    // leader before another one is ready.
    for replicas in [1, 2, 3] {
        let values = format!("{ENGINES}replicas: {replicas}\nleaderElection: {{enabled: true}}");
        let strategy = Release::render(&values, &[]).the("Deployment")["spec"]["strategy"]["rollingUpdate"].clone();
        assert_eq!(strategy["maxUnavailable"], replicas - 1);
        assert_eq!(strategy["maxSurge"], 1);
    }
    assert_eq!(leading.all("PodDisruptionBudget").count(), 0);
    assert!(leading.container("epp")["lifecycle"].is_null(), "a pause before the lease is given back");
    let serving = Release::render(&format!("{ENGINES}replicas: 2\nleaderElection: {{enabled: false}}"), &[]);
    assert!(!serving.args().iter().any(|arg| arg.contains("leader")));
    assert_eq!(serving.the("Deployment")["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
    assert_eq!(serving.the("PodDisruptionBudget")["spec"]["maxUnavailable"], 1);
}

#[test]
fn what_is_under_way_is_served_before_a_pod_ends() {
    let seconds = |container: &Value| container["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64().unwrap_or(0);
    for values in ["", "replicas: 2\n", "shutdown: {preStopSeconds: 0, drainSeconds: 300}\n"] {
        for mode in ["gateway", "standalone"] {
            let release = Release::render(&format!("{ENGINES}{values}mode: {mode}"), &[]);
            let grace = release.pod()["spec"]["terminationGracePeriodSeconds"].as_u64().expect("a number");
            let drain = release
                .args()
                .iter()
                .find_map(|arg| arg.strip_prefix("--drain-timeout=")?.strip_suffix('s')?.parse().ok());
            let (drain, picker): (u64, u64) = (drain.expect("a drain window"), seconds(release.container("epp")));
            if mode == "standalone" {
                let envoy = seconds(release.container("envoy"));
                assert!(envoy >= drain && grace > envoy.max(picker), "{values}: {envoy} {picker} {grace}");
            } else {
                assert!(grace > picker + drain, "{values}: {picker} {drain} {grace}");
            }
        }
    }
}

#[test]
fn a_gateways_limits_do_not_cut_requests_off() {
    let istio = Release::render(&format!("{ENGINES}provider: {{name: istio}}"), &[]);
    let policy = &istio.the("DestinationRule")["spec"]["trafficPolicy"];
    assert!(policy["connectionPool"]["http"]["http2MaxRequests"].as_u64() >= Some(40_000));
    assert_eq!(text(&policy["tls"]["mode"]), "SIMPLE");
    let plain = Release::render(&format!("{ENGINES}provider: {{name: istio}}\ntls: {{enabled: false}}"), &[]);
    assert_eq!(text(&plain.the("DestinationRule")["spec"]["trafficPolicy"]["tls"]["mode"]), "DISABLE");
    let gke = Release::render(
        &format!("{ENGINES}provider: {{name: gke}}\nhttpRoute: {{create: true, parentRefs: [{{name: g}}]}}"),
        &[],
    );
    assert!(gke.the("GCPBackendPolicy")["spec"]["default"]["timeoutSec"].as_u64() >= Some(3600));
    assert!(gke.the("HTTPRoute")["spec"]["rules"][0]["timeouts"].is_null(), "Google refuses it");
    // Google takes a rate of logging only where there is logging.
    let quiet =
        Release::render(&format!("{ENGINES}provider: {{name: gke, gke: {{logging: {{enabled: false}}}}}}"), &[]);
    assert!(quiet.the("GCPBackendPolicy")["spec"]["default"]["logging"]["sampleRate"].is_null());
    let envoy = Release::render(&format!("{ENGINES}mode: standalone"), &[]).file("warmpath-envoy", "envoy.yaml");
    let envoy: Value = serde_yaml::from_str(&envoy).expect("YAML");
    let clusters = envoy["static_resources"]["clusters"].as_sequence().expect("clusters");
    for cluster in clusters.iter().filter(|cluster| text(&cluster["name"]) != "admin") {
        assert!(cluster["circuit_breakers"]["thresholds"][0]["max_requests"].as_u64() >= Some(40_000), "{cluster:?}");
    }
}

#[test]
fn a_release_without_models_says_so_loudly() {
    let arguments = ["install", "warmpath", "charts/warmpath", "--dry-run=client", "--namespace", "inference"];
    let notes = |values: &str| {
        let text = helm(&arguments, values).expect("it renders");
        text.split_once("\nNOTES:\n").expect("notes").1.to_owned()
    };
    let without = notes(ENGINES);
    assert!(without.contains("!!!  NO TOKENIZER") && without.contains("WarmpathPromptsEstimated"), "{without}");
    assert!(without.contains("!!!  NO ALERTS"), "{without}");
    let with = notes(&carried()["gateway-values.yaml"].0);
    assert!(!with.contains("NO TOKENIZER"), "{with}");
    // The alerts that the notes name are in the chart.
    let rules = fs::read_to_string(root().join("charts/warmpath/files/alerts.yaml")).expect("alerts");
    for alert in ["WarmpathPromptsEstimated", "WarmpathTokenizerMissing", "WarmpathAbsent", "WarmpathBypassed"] {
        assert!(rules.contains(&format!("alert: {alert}\n")), "{alert}");
    }
}

#[test]
fn every_value_is_in_the_schema_and_explained() {
    let chart = root().join("charts/warmpath");
    let read = |file: &str| fs::read_to_string(chart.join(file)).expect("a file of the chart");
    let values: BTreeMap<String, Value> = serde_yaml::from_str(&read("values.yaml")).expect("YAML");
    let schema: serde_json::Value = serde_json::from_str(&read("values.schema.json")).expect("JSON");
    let known: BTreeSet<&String> = schema["properties"].as_object().expect("properties").keys().collect();
    let typed: BTreeSet<&String> = values.keys().collect();
    let missing: Vec<_> = known.difference(&typed).filter(|name| **name != "global").collect();
    assert!(missing.is_empty(), "in the schema, but not in values.yaml: {missing:?}");
    // Objects of ours are closed; those of Kubernetes are its own matter.
    let open = open_objects("", &schema, &values.into_iter().map(|(k, v)| (Value::from(k), v)).collect());
    assert_eq!(open, Vec::<String>::new(), "values that the schema lets anything into");
}

/// Where a map of values.yaml has a schema that takes any key, other than those that Kubernetes or the user owns.
fn open_objects(path: &str, schema: &serde_json::Value, values: &serde_yaml::Mapping) -> Vec<String> {
    const THEIRS: [&str; 19] = [
        "affinity",
        "annotations",
        "commonLabels",
        "config",
        "connectionPool",
        "flags",
        "instanceSelector",
        "labels",
        "matchLabels",
        "nodeSelector",
        "outlierDetection",
        "podAnnotations",
        "podLabels",
        "podSecurityContext",
        "resources",
        "securityContext",
        "tokenSecret",
        "image",
        "global",
    ];
    let mut open = Vec::new();
    for (key, value) in values {
        let (key, Some(value)) = (text(key), value.as_mapping()) else { continue };
        let of = &schema["properties"][key];
        if THEIRS.contains(&key) {
            continue;
        }
        if of["additionalProperties"] != false {
            open.push(format!("{path}.{key}"));
        }
        open.extend(open_objects(&format!("{path}.{key}"), of, value));
    }
    open
}
