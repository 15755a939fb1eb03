//! Values as people write them: names that Kubernetes takes in one place and not in another, keys left empty, labels given twice,
//! flags that the rest of the chart doesn't know of. Each is rendered right, or refused in words.

use std::collections::BTreeSet;

use serde_yaml::Value;

use super::chart::check_refused;
use super::helm::{ENGINES, EVERYTHING, Release, kind, name, texts};

/// What a Service's name may be.
fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(inner)
}

#[test]
fn every_name_of_a_release_makes_names_that_kubernetes_takes() {
    for release in ["qwen2.5", "a", "warmpath", "qwen3-32b-instruct-awq-europe-west4-production.a-b", &"a".repeat(53)] {
        let values = format!("{ENGINES}mode: standalone\nreplicas: 2\nenvoy: {{failOpen: true}}");
        let rendered = Release::render_as(release, &values, &EVERYTHING);
        for object in rendered.objects.iter().filter(|object| kind(object) != "ClusterRoleBinding") {
            assert!(is_label(name(object)), "{release}: {} {}", kind(object), name(object));
        }
        // The lease that the pods of such a Deployment stand for is the one that they have rights on: Kubernetes cuts
        // what it puts random letters behind off at 58.
        let deployment = name(rendered.the("Deployment"));
        let prefix: String = format!("{deployment}-6b7c8d9f5b-").chars().take(58).collect();
        let hashes = format!("{prefix}x2z4v").strip_prefix(deployment).expect("its name").matches('-').count();
        assert_eq!(hashes, 2, "{release}: {prefix}x2z4v doesn't tell {deployment}");
        let rules = rendered.the("Role")["rules"].as_sequence().expect("rules");
        let lease = rules.iter().find(|rule| rule["resources"][0] == "leases").expect("the lease's");
        assert_eq!(texts(&lease["resourceNames"]), [format!("epp-inference-{deployment}.llm-d.ai")]);
    }
    let refused = Release::try_render_as("3b", ENGINES, &[]).err().expect("a Service's name begins with a letter");
    assert!(refused.contains("set fullnameOverride"), "{refused}");
    check_refused(&format!("{ENGINES}fullnameOverride: Qwen_3"), "at '/fullnameOverride'");
}

/// `a-b` in `c` and `b` in `c-a` had one name for what isn't in a namespace, and long ones too.
#[test]
fn no_two_releases_share_what_is_the_clusters() {
    let values = format!("{ENGINES}metricsAuth: {{enabled: true}}\nfullnameOverride: ");
    let of = |namespace: &str, called: &str| {
        let release = Release::render_in(namespace, &format!("{values}{called}"), &[]);
        name(release.the("ClusterRoleBinding")).to_owned()
    };
    let long = "n".repeat(63);
    let names = BTreeSet::from([of("a", "b-c"), of("a-b", "c"), of(&long, "b"), of(&long, "c")]);
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn keys_left_empty_are_defaults_or_are_named() {
    let empty = "commonLabels:\npodLabels:\npodAnnotations:\nnodeSelector:\ntolerations:\naffinity:\nextraEnv:\nflags:\n\
        models:\nimagePullSecrets:\nconfig:\nobjectives:\nresources:\nextraVolumes:\ntopologySpreadConstraints:\n";
    Release::render(&format!("{ENGINES}{empty}"), &EVERYTHING);
    for (values, expected) in [
        ("policy:", "missing property 'policy'"),
        ("policy: {weights: {prefix: }}", "missing property 'prefix'"),
        ("image:", "missing property 'image'"),
        ("image: {pullPolicy: }", "missing property 'pullPolicy'"),
        ("tls: {enabled: }", "missing property 'enabled'"),
        ("provider:", "missing property 'provider'"),
        ("mode: standalone\nenvoy: {idleTimeout: }", "missing property 'idleTimeout'"),
        ("monitoring: {monitor: {kind: }}", "missing property 'kind'"),
    ] {
        check_refused(&format!("{ENGINES}{values}"), expected);
    }
}

/// OpenShift gives each namespace users of its own, and refuses pods that name another one.
#[test]
fn the_user_may_be_left_to_the_cluster() {
    let release = Release::render(&format!("{ENGINES}podSecurityContext: {{runAsUser: null, runAsGroup: null}}"), &[]);
    let context = release.pod()["spec"]["securityContext"].as_mapping().expect("a context");
    let keys: Vec<&str> = context.keys().filter_map(Value::as_str).collect();
    assert_eq!(keys, ["runAsNonRoot", "seccompProfile"]);
}

#[test]
fn labels_of_ones_own_stand_beside_the_charts_and_not_in_their_place() {
    let values = format!(
        "{ENGINES}commonLabels: {{release: prometheus, app.kubernetes.io/name: mine, app.kubernetes.io/component: mine}}\n\
         podLabels: {{release: other}}\nmonitoring: {{monitor: {{labels: {{release: third}}}}}}"
    );
    let release = Release::render(&values, &EVERYTHING);
    let label = |object: &Value, key: &str| object["labels"][key].as_str().expect("a label").to_owned();
    let pod = &release.pod()["metadata"];
    assert_eq!((label(pod, "release"), label(pod, "app.kubernetes.io/name")), ("other".into(), "warmpath".into()));
    assert_eq!(label(pod, "app.kubernetes.io/component"), "picker");
    assert_eq!(label(&release.the("ServiceMonitor")["metadata"], "release"), "third");
    assert_eq!(label(&release.the("Service")["metadata"], "release"), "prometheus");
    for own in ["podLabels: {app: vllm}", "commonLabels: {app: vllm}"] {
        check_refused(&format!("{ENGINES}{own}"), "selects the picker's own pods");
    }
}

#[test]
fn flags_that_the_rest_of_the_chart_depends_on_are_refused_with_the_value_to_set() {
    for (flags, expected) in [
        ("grpc-port: 9100", "flags.grpc-port: the rest of the chart has it as 9002"),
        ("grpc-health-port: 9100", "flags.grpc-health-port"),
        ("metrics-port: '9091'", "flags.metrics-port"),
        ("ha-enable-leader-election: true", "set leaderElection.enabled"),
        ("metrics-endpoint-auth: true", "set metricsAuth.enabled"),
        ("drain-timeout: 300s", "set shutdown.drainSeconds"),
        ("pool-namespace: other", "install into the pool's namespace"),
    ] {
        check_refused(&format!("{ENGINES}flags: {{{flags}}}"), expected);
    }
    let flags = "flags: {secure-serving: false}";
    check_refused(&format!("{ENGINES}provider: {{name: istio}}\n{flags}"), "set tls.enabled");
    let same = Release::render(&format!("{ENGINES}flags: {{grpc-port: 9002, metrics-port: '9090'}}"), &[]).args();
    assert_eq!(same.iter().filter(|arg| *arg == "--grpc-port=9002").count(), 1, "{same:?}");
}

#[test]
fn a_network_policy_lets_downloads_out_to_where_they_are_and_in_what_is_named() {
    let values = format!(
        "{ENGINES}networkPolicy: {{enabled: true}}\nmodels:\n\
         - {{name: a, files: {{download: {{url: 'http://mirror.example:8080/a'}}}}}}\n\
         - {{name: b, files: {{download: {{url: 'https://mirror.example/b'}}}}}}\n\
         - {{name: c, files: {{download: {{url: 'http://mirror.example/c'}}}}}}\n"
    );
    let release = Release::render(&values, &[]);
    let egress = release.the("NetworkPolicy")["spec"]["egress"].as_sequence().expect("rules");
    let last = egress.last().expect("a rule")["ports"].as_sequence().expect("ports");
    let ports: Vec<u64> = last.iter().filter_map(|port| port["port"].as_u64()).collect();
    assert_eq!(ports, [8080, 443, 80]);
    let more = "networkPolicy: {enabled: true, extraIngress: [{ports: [{port: 15008}]}]}";
    let release = Release::render(&format!("{ENGINES}{more}"), &[]);
    let ingress = release.the("NetworkPolicy")["spec"]["ingress"].as_sequence().expect("rules");
    assert_eq!(ingress.last().expect("a rule")["ports"][0]["port"], 15008);
}
