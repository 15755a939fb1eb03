//! The picker of an InferencePool at a real API server: who is an endpoint, what is forgotten, what is said where the server
//! can't be asked. In: pools and pods as a cluster has them; out: picks, probes' answers, metrics.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use serde_json::{Value, json};
use tonic_health::pb::health_check_response::ServingStatus;

use super::api_server::{ADMIN, ApiServer, CRDS};
use super::ext_proc::{Gateway, Pick};
use super::health::probe;
use super::helm::{ENGINES, Release};
use super::picker::Picker;
use super::pods::{pod, pool, ready, status};
use super::program::{folder, wait_until};
use super::stage::chat;

/// A picker of the pool `qwen3`, as who has that token.
fn start(server: &ApiServer, token: &str, namespace: &str, flags: &[&str]) -> Picker {
    let named = ["--pool-name", "qwen3", "--pool-namespace", namespace];
    Picker::in_cluster(&server.kubeconfig(token), &[&named, flags].concat(), &folder(namespace))
}

/// Its endpoints, by name and port.
fn endpoints(picker: &Picker) -> Vec<String> {
    let page = picker.page();
    let of = |line: &str| {
        let labels = line.strip_prefix("warmpath_endpoint_set_aside{")?;
        let label = |name: &str| labels.split_once(&format!("{name}=\""))?.1.split('"').next().map(str::to_owned);
        Some(format!("{}:{}", label("endpoint_name")?, label("port")?))
    };
    let mut all: Vec<String> = page.lines().filter_map(of).collect();
    all.sort();
    all
}

#[track_caller]
fn wait_for(picker: &Picker, expected: &[&str]) {
    let mut last = Vec::new();
    wait_until(&format!("the endpoints are {expected:?}"), || {
        last = endpoints(picker);
        last == expected
    });
}

#[track_caller]
fn wait_for_health(picker: &Picker, expected: ServingStatus) {
    wait_until(&format!("readiness is {expected:?}"), || probe(picker.health_port, "readiness") == Some(expected));
}

fn wait_for_log(picker: &Picker, words: &str) {
    wait_until(&format!("the log says `{words}`"), || picker.program.log().to_lowercase().contains(words));
}

/// A pod that is there and has this status.
fn run(server: &ApiServer, pod: &Value, status: &Value) {
    server.apply(pod);
    server.set_status(pod, status);
}

/// gpustack/gpustack#4010: requests went to pods that were ending, not ready, without an address, done or failed.
/// ai-dynamo/dynamo#11542: a picker with an empty pool was never ready, or ready before it knew its pods.
#[test]
fn only_pods_that_run_are_ready_and_stay_are_picked() {
    let (server, namespace) = (ApiServer::shared(), "pod-states");
    server.namespace(namespace);
    let picker = start(&server, ADMIN, namespace, &[]);
    assert_eq!(probe(picker.health_port, "readiness"), Some(ServingStatus::NotServing), "there is no pool");
    server.apply(&pool(namespace, json!({"app": "vllm"}), &[8000]));
    wait_for_health(&picker, ServingStatus::Serving);
    let gateway = Gateway::connect(picker.port);
    assert_eq!(gateway.chat(&chat("m", "hi")), Pick::Refused(503), "an empty pool");

    let of = |name: &str| pod(namespace, name, "vllm");
    run(&server, &of("a"), &ready(&["10.1.0.1"]));
    run(&server, &of("not-ready"), &status("Running", "False", &["10.1.0.2"]));
    server.apply(&of("no-status"));
    run(&server, &of("failed"), &status("Failed", "True", &["10.1.0.4"]));
    run(&server, &of("done"), &status("Succeeded", "True", &["10.1.0.5"]));
    run(&server, &of("ending"), &ready(&["10.1.0.6"]));
    server.delete(&of("ending"));
    run(&server, &pod(namespace, "other", "other"), &ready(&["10.1.0.7"]));
    run(&server, &of("z"), &ready(&["10.1.0.8"]));
    wait_for(&picker, &["a-rank-0:8000", "z-rank-0:8000"]);
    assert!(server.get(&of("ending")).expect("it is there")["metadata"]["deletionTimestamp"].is_string());

    server.set_status(&of("z"), &status("Running", "False", &["10.1.0.8"]));
    wait_for(&picker, &["a-rank-0:8000"]);
    assert_eq!(gateway.chat(&chat("m", "hi")).endpoint(), "10.1.0.1:8000");
    server.delete(&of("a"));
    wait_for(&picker, &[]);
    assert_eq!(gateway.chat(&chat("m", "hi")), Pick::Refused(503));
}

/// kubernetes-sigs/gateway-api-inference-extension#268: pods seen before the pool, or after its selector changed, were not.
#[test]
fn endpoints_follow_the_selector_the_ports_and_the_annotation() {
    let (server, namespace) = (ApiServer::shared(), "pool-changes");
    server.namespace(namespace);
    let picker = start(&server, ADMIN, namespace, &[]);
    run(&server, &pod(namespace, "a", "vllm"), &ready(&["10.1.1.1"]));
    run(&server, &pod(namespace, "b", "vllm2"), &ready(&["10.1.1.2"]));
    let set = |app: &str, ports: &[u16]| server.apply(&pool(namespace, json!({ "app": app }), ports));
    let pool = set("vllm", &[8000]);
    wait_for(&picker, &["a-rank-0:8000"]);
    set("vllm2", &[8000]);
    wait_for(&picker, &["b-rank-0:8000"]);
    set("vllm2", &[8000, 8001]);
    wait_for(&picker, &["b-rank-0:8000", "b-rank-1:8001"]);
    set("vllm2", &[8001]);
    wait_for(&picker, &["b-rank-0:8001"]);

    set("vllm", &[8000, 8001, 8002]);
    wait_for(&picker, &["a-rank-0:8000", "a-rank-1:8001", "a-rank-2:8002"]);
    let annotate = |annotations: Value| {
        server.merge(&pod(namespace, "a", "vllm"), &json!({"metadata": {"annotations": annotations}}));
    };
    annotate(json!({"inference.networking.k8s.io/active-ports": "8000, 8002"}));
    wait_for(&picker, &["a-rank-0:8000", "a-rank-2:8002"]);
    annotate(json!({"llm-d.ai/active-ports": "8001,9999,-1"}));
    wait_for(&picker, &["a-rank-1:8001"]);
    annotate(json!({"llm-d.ai/active-ports": ""}));
    wait_for(&picker, &[]);
    annotate(json!({"llm-d.ai/active-ports": null, "inference.networking.k8s.io/active-ports": null}));
    wait_for(&picker, &["a-rank-0:8000", "a-rank-1:8001", "a-rank-2:8002"]);

    server.delete(&pool);
    wait_for(&picker, &[]);
    wait_for_health(&picker, ServingStatus::NotServing);
    set("vllm2", &[8000]);
    wait_for(&picker, &["b-rank-0:8000"]);
    wait_for_health(&picker, ServingStatus::Serving);
}

#[test]
fn what_is_believed_of_a_cache_is_forgotten_with_its_server_and_not_before() {
    let (server, namespace) = (ApiServer::shared(), "restarts");
    server.namespace(namespace);
    server.apply(&pool(namespace, json!({"app": "vllm"}), &[8000]));
    let one = pod(namespace, "a", "vllm");
    run(&server, &one, &ready(&["10.1.2.1"]));
    let picker = start(&server, ADMIN, namespace, &[]);
    wait_for(&picker, &["a-rank-0:8000"]);
    let gateway = Gateway::connect(picker.port);
    let prompt = chat("m", &"the same words again ".repeat(200));
    let blocks = || picker.metrics().sum("warmpath_endpoint_index_blocks", &[]);
    let warm_up = || {
        gateway.chat(&prompt).endpoint();
        wait_until("something is believed of it", || blocks() > 0.0);
    };
    let restarted = |vllm: u64, logs: u64| {
        let mut status = ready(&["10.1.2.1"]);
        status["containerStatuses"][0]["restartCount"] = json!(vllm);
        status["containerStatuses"][1]["restartCount"] = json!(logs);
        server.set_status(&one, &status);
    };
    let forgotten = || wait_until("it is forgotten", || blocks() == 0.0);

    warm_up();
    // A sidecar's restart and a new label change nothing; that they were seen shows by what comes after them.
    restarted(0, 1);
    let marker = pod(namespace, "marker", "vllm");
    run(&server, &marker, &ready(&["10.1.2.9"]));
    wait_for(&picker, &["a-rank-0:8000", "marker-rank-0:8000"]);
    assert!(blocks() > 0.0, "a sidecar isn't the server");
    server.remove(&marker);
    wait_for(&picker, &["a-rank-0:8000"]);

    restarted(1, 1);
    forgotten();
    warm_up();
    // The same name and address, but made anew.
    server.remove(&one);
    run(&server, &one, &ready(&["10.1.2.1"]));
    forgotten();
    wait_for(&picker, &["a-rank-0:8000"]);
    warm_up();
    // Another one at the same address.
    server.remove(&one);
    run(&server, &pod(namespace, "b", "vllm"), &ready(&["10.1.2.1"]));
    wait_for(&picker, &["b-rank-0:8000"]);
    assert_eq!(blocks(), 0.0);
}

/// ai-dynamo/dynamo#12063: an address of IPv6 and a port, put together without brackets.
#[test]
fn addresses_of_both_families_are_named_so_that_they_can_be_read() {
    let (server, namespace) = (ApiServer::shared(), "dual-stack");
    server.namespace(namespace);
    server.apply(&pool(namespace, json!({"app": "vllm"}), &[8000]));
    let picker = start(&server, ADMIN, namespace, &[]);
    wait_for_health(&picker, ServingStatus::Serving);
    let gateway = Gateway::connect(picker.port);
    for (addresses, expected) in [
        (&["fd00::10"][..], "[fd00::10]:8000"),
        (&["10.1.3.2", "fd00::11"], "10.1.3.2:8000"),
        (&["fd00:0::12", "10.1.3.3"], "[fd00::12]:8000"),
    ] {
        let one = pod(namespace, "a", "vllm");
        run(&server, &one, &ready(addresses));
        wait_for(&picker, &["a-rank-0:8000"]);
        assert_eq!(gateway.chat(&chat("m", "hi")).endpoint(), expected);
        server.remove(&one);
        wait_for(&picker, &[]);
    }
}

/// ai-dynamo/dynamo#12064: a subset hint with an address of IPv6 met no endpoint.
#[test]
fn a_subset_hint_names_addresses_in_any_form() {
    let (server, namespace) = (ApiServer::shared(), "subset");
    server.namespace(namespace);
    server.apply(&pool(namespace, json!({"app": "vllm"}), &[8000]));
    run(&server, &pod(namespace, "a", "vllm"), &ready(&["fd00::10"]));
    run(&server, &pod(namespace, "b", "vllm"), &ready(&["fd00::11"]));
    let picker = start(&server, ADMIN, namespace, &[]);
    wait_for(&picker, &["a-rank-0:8000", "b-rank-0:8000"]);
    let gateway = Gateway::connect(picker.port);
    for hint in ["fd00:0::10", "[fd00::10]:8000", "fd00::10"] {
        assert_eq!(gateway.chat_within(hint, &chat("m", "hi")).endpoint(), "[fd00::10]:8000", "{hint}");
    }
    assert_eq!(gateway.chat_within("fd00::12", &chat("m", "hi")), Pick::Refused(503));
}

#[test]
fn pods_are_selected_without_a_pool() {
    let (server, namespace) = (ApiServer::shared(), "selector");
    server.namespace(namespace);
    run(&server, &pod(namespace, "a", "vllm"), &ready(&["10.1.4.1"]));
    run(&server, &pod(namespace, "b", "other"), &ready(&["10.1.4.2"]));
    let flags = ["--endpoint-selector", "app in (vllm, sglang),app!=other", "--endpoint-target-ports", "9000,9001"];
    let flags = [&flags[..], &["--pool-namespace", namespace]].concat();
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]);
    let token = server.account(namespace, "epp", &rules);
    let picker = Picker::in_cluster(&server.kubeconfig(&token), &flags, &folder(namespace));
    wait_for(&picker, &["a-rank-0:9000", "a-rank-1:9001"]);
    wait_for_health(&picker, ServingStatus::Serving);
    server.merge(&pod(namespace, "b", ""), &json!({"metadata": {"labels": {"app": "sglang"}}}));
    wait_for(&picker, &["a-rank-0:9000", "a-rank-1:9001", "b-rank-0:9000", "b-rank-1:9001"]);
}

/// What a picker may, at least and at most.
pub fn rules(optional: bool) -> Value {
    let read = json!(["get", "list", "watch"]);
    let mut rules = vec![
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": read}),
        json!({"apiGroups": ["inference.networking.k8s.io"], "resources": ["inferencepools"], "verbs": read}),
    ];
    if optional {
        let kinds = ["inferenceobjectives", "inferencemodelrewrites"];
        rules.push(json!({"apiGroups": ["llm-d.ai"], "resources": kinds, "verbs": read}));
    }
    Value::from(rules)
}

fn watching(picker: &Picker, kind: &str) -> Option<bool> {
    let line = format!("warmpath_cluster_watching{{kind=\"{kind}\"}} ");
    picker.page().lines().find_map(|at| at.strip_prefix(&line)).map(|value| value == "1")
}

fn wait_for_watching(picker: &Picker, kind: &str, expected: bool) {
    let what = if expected { "watched" } else { "not watched" };
    wait_until(&format!("{kind} are {what}"), || watching(picker, kind) == Some(expected));
}

/// kubernetes-sigs/gateway-api-inference-extension#1230: a role that lacks a right made the picker crash in a loop.
#[test]
fn rights_on_pods_and_the_pool_are_enough_and_others_are_used_once_they_are_given() {
    let (server, namespace) = (ApiServer::shared(), "rights");
    server.namespace(namespace);
    server.apply(&pool(namespace, json!({"app": "vllm"}), &[8000]));
    run(&server, &pod(namespace, "a", "vllm"), &ready(&["10.1.5.1"]));
    let token = server.account(namespace, "epp", &json!([]));
    let picker = start(&server, &token, namespace, &[]);
    wait_for_watching(&picker, "inferencepools", false);
    assert_eq!(probe(picker.health_port, "readiness"), Some(ServingStatus::NotServing));
    wait_for_log(&picker, "forbidden");

    server.account(namespace, "epp", &rules(false));
    wait_for(&picker, &["a-rank-0:8000"]);
    wait_for_health(&picker, ServingStatus::Serving);
    assert_eq!(watching(&picker, "inferenceobjectives"), Some(false));
    let objective = json!({
        "apiVersion": "llm-d.ai/v1alpha2", "kind": "InferenceObjective",
        "metadata": {"name": "batch", "namespace": namespace}, "spec": {"poolRef": {"name": "qwen3"}, "priority": -1},
    });
    server.apply(&objective);

    server.account(namespace, "epp", &rules(true));
    wait_for_watching(&picker, "inferenceobjectives", true);
    wait_for_watching(&picker, "inferencemodelrewrites", true);
    assert_eq!(watching(&picker, "pods"), Some(true));
}

/// llm-d/llm-d-router#1434: with none but the older CRDs the picker waited in silence.
#[test]
fn what_a_cluster_lacks_is_said_and_used_once_it_is_there() {
    let (server, namespace) = (ApiServer::start("api_server_without_crds", &[], &[]), "lacking");
    server.namespace(namespace);
    run(&server, &pod(namespace, "a", "vllm"), &ready(&["10.1.6.1"]));
    let picker = start(&server, ADMIN, namespace, &[]);
    wait_for_watching(&picker, "inferencepools", false);
    wait_for_log(&picker, "404");
    assert_eq!(probe(picker.health_port, "readiness"), Some(ServingStatus::NotServing));

    server.install("inference.networking.k8s.io_inferencepools");
    let odd = server.dry_run(&pool(namespace, json!({"app": "vllm"}), &[])).expect_err("the real CRD wants a port");
    assert!(odd.contains("targetPorts"), "{odd}");
    server.apply(&pool(namespace, json!({"app": "vllm"}), &[8000]));
    wait_for(&picker, &["a-rank-0:8000"]);
    wait_for_health(&picker, ServingStatus::Serving);

    // The older group alone, in its older form.
    let older = "inference.networking.x-k8s.io";
    for kind in ["inferencepools", "inferenceobjectives", "inferencemodelrewrites"] {
        server.install(&format!("{older}_{kind}"));
    }
    server.apply(&json!({
        "apiVersion": format!("{older}/v1alpha2"), "kind": "InferencePool",
        "metadata": {"name": "qwen3", "namespace": namespace},
        "spec": {"selector": {"app": "vllm"}, "targetPortNumber": 9000, "extensionRef": {"name": "epp"}},
    }));
    let named = ["--pool-name", "qwen3", "--pool-namespace", namespace, "--pool-group", older];
    let picker = Picker::in_cluster(&server.kubeconfig(ADMIN), &named, &folder("older"));
    wait_for(&picker, &["a-rank-0:9000"]);
    wait_for_watching(&picker, "inferenceobjectives", true);
    wait_for_watching(&picker, "inferencemodelrewrites", true);
}

/// kube-rs/kube#1615: an expired watch ended, and the fleet stood still.
#[test]
fn while_the_api_server_is_away_picks_go_on_and_what_it_forgot_meanwhile_is_listed_anew() {
    let (mut server, namespace) = (ApiServer::start("api_server_restarted", &CRDS, &[]), "restarted");
    server.namespace(namespace);
    server.apply(&pool(namespace, json!({"app": "vllm"}), &[8000]));
    let of = |name: &str| pod(namespace, name, "vllm");
    run(&server, &of("a"), &ready(&["10.1.7.1"]));
    run(&server, &of("b"), &ready(&["10.1.7.2"]));
    let picker = start(&server, ADMIN, namespace, &[ELECTION]);
    wait_for(&picker, &["a-rank-0:8000", "b-rank-0:8000"]);
    wait_for_health(&picker, ServingStatus::Serving);

    let (over, picks) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        // Every pick of the whole time names an endpoint, or this thread panics.
        let picking = scope.spawn(|| {
            let gateway = Gateway::connect(picker.port);
            while !over.load(Ordering::Acquire) {
                gateway.chat(&chat("m", "hi")).endpoint();
                picks.fetch_add(1, Ordering::Relaxed);
            }
        });
        server.stop();
        wait_for_watching(&picker, "pods", false);
        // A leader that hears nothing goes on: another one couldn't be heard of either.
        wait_for_watching(&picker, "leases", false);
        assert_eq!(probe(picker.health_port, "readiness"), Some(ServingStatus::Serving));
        let so_far = picks.load(Ordering::Relaxed);
        wait_until("picks go on", || picks.load(Ordering::Relaxed) > so_far + 100 || picking.is_finished());
        assert_eq!(endpoints(&picker), ["a-rank-0:8000", "b-rank-0:8000"]);

        // What happens while the picker hears nothing, forgotten before it asks.
        picker.program.freeze();
        server.start_again();
        server.remove(&of("a"));
        run(&server, &of("c"), &ready(&["10.1.7.3"]));
        server.compact();
        server.stop();
        server.start_again();
        picker.program.thaw();
        wait_for(&picker, &["b-rank-0:8000", "c-rank-0:8000"]);
        wait_for_watching(&picker, "pods", true);
        wait_for_watching(&picker, "leases", true);
        over.store(true, Ordering::Release);
    });
    // That is what expired watches are told.
    wait_for_log(&picker, "too old resource version");
    // It is followed again, and not only listed.
    server.delete(&of("b"));
    wait_for(&picker, &["c-rank-0:8000"]);
}

const ELECTION: &str = "--ha-enable-leader-election";
const LEASE: &str = "leader_election_master_status";

/// Who of them is ready.
fn leaders(pickers: &[&Picker]) -> Vec<usize> {
    let leads = |picker: &Picker| probe(picker.health_port, "readiness") == Some(ServingStatus::Serving);
    pickers.iter().enumerate().filter(|(_, picker)| leads(picker)).map(|(at, _)| at).collect()
}

/// What the chart installs for pickers of `qwen3` that elect one of them, and the token that they get: as it is rendered, no more.
fn installed(server: &ApiServer, namespace: &str) -> String {
    server.namespace(namespace);
    let release = Release::render_in(namespace, &format!("replicas: 2\n{ENGINES}"), &[]);
    let rendered = |kind: &str| serde_json::to_value(release.the(kind)).expect("an object");
    for kind in ["InferencePool", "ServiceAccount", "Role", "RoleBinding"] {
        server.apply(&rendered(kind));
    }
    server.token(&rendered("ServiceAccount"))
}

/// llm-d-router's chart: with election a standby is never ready, so that a rollout waits for ever for the new pods, or ends the
/// leader before one of them is ready. Here the new edition asks for the lease, and gets it while the old leader still serves.
#[test]
fn a_rollout_changes_the_leader_before_the_old_one_ends() {
    let (server, namespace) = (ApiServer::shared(), "rollout");
    let token = installed(&server, namespace);
    run(&server, &pod(namespace, "a", "vllm"), &ready(&["10.1.9.1"]));
    let replica = |name: &str, template: &str| {
        let mut own = pod(namespace, name, "picker");
        own["metadata"]["labels"]["pod-template-hash"] = json!(template);
        server.apply(&own);
        let environment = [format!("POD_NAME={name}"), format!("NAMESPACE={namespace}")];
        let named = ["--pool-name", "warmpath", "--pool-namespace", namespace, ELECTION];
        let environment: Vec<&str> = environment.iter().map(String::as_str).collect();
        Picker::in_pod(&server.kubeconfig(&token), &environment, &named, &folder(name))
    };
    let old = replica("epp-old-1", "old");
    wait_for_health(&old, ServingStatus::Serving);
    // A pod's age is told in seconds.
    thread::sleep(std::time::Duration::from_millis(1100));
    let same = replica("epp-old-2", "old");
    wait_for_log(&same, "stands by");
    let new = replica("epp-new-1", "new");
    wait_until("the new edition leads", || leaders(&[&old, &same, &new]) == [2]);
    // What still comes to the old one meanwhile is picked.
    assert_eq!(Gateway::connect(old.port).chat(&chat("m", "hi")).endpoint(), "10.1.9.1:8000");

    // A replica of the old edition that starts again doesn't ask for it back.
    drop(same);
    let same = replica("epp-old-2", "old");
    wait_for_log(&same, "stands by");
    thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(leaders(&[&old, &same, &new]), [2]);
}

#[test]
fn one_replica_is_ready_and_another_one_when_it_ends_or_is_lost() {
    // As the chart installs it, with the rights that it gives and no others.
    let (server, namespace) = (ApiServer::shared(), "inference");
    let token = installed(&server, namespace);
    run(&server, &pod(namespace, "a", "vllm"), &ready(&["10.1.8.1"]));
    let replica = |name: &str| {
        let named = ["--pool-name", "warmpath", "--pool-namespace", namespace, ELECTION];
        Picker::in_cluster(&server.kubeconfig(&token), &named, &folder(name))
    };
    let mut first = replica("election-first");
    wait_for_health(&first, ServingStatus::Serving);
    let second = replica("election-second");
    wait_for(&second, &["a-rank-0:8000"]);
    wait_for_log(&second, "stands by");
    assert_eq!(leaders(&[&first, &second]), [0]);
    for picker in [&first, &second] {
        assert_eq!(probe(picker.health_port, "liveness"), Some(ServingStatus::Serving));
        assert_eq!(probe(picker.health_port, "inference-extension"), Some(ServingStatus::ServiceUnknown));
        for name in ["", "envoy.service.ext_proc.v3.ExternalProcessor"] {
            assert_eq!(probe(picker.health_port, name), probe(picker.health_port, "readiness"));
        }
    }
    assert_eq!([&first, &second].map(|picker| picker.metrics().sum(LEASE, &[])), [1.0, 0.0]);
    // A standby picks all the same, should something be sent there.
    assert_eq!(Gateway::connect(second.port).chat(&chat("m", "hi")).endpoint(), "10.1.8.1:8000");

    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "epp-inference-warmpath.llm-d.ai", "namespace": namespace},
    });
    let spec = || server.get(&lease).expect("there is a lease")["spec"].clone();
    let before = spec();
    assert_eq!((&before["leaseDurationSeconds"], &before["leaseTransitions"]), (&json!(15), &json!(0)));
    first.program.terminate();
    assert_eq!(first.program.ended().code(), Some(0));
    wait_until("the other one leads", || leaders(&[&second]) == [0]);
    let after = spec();
    assert_ne!(after["holderIdentity"], before["holderIdentity"]);
    assert_eq!(after["leaseTransitions"], json!(1));

    // Lost without a word: the lease runs out first.
    let third = replica("election-third");
    wait_for_log(&third, "stands by");
    let mut second = second;
    second.program.kill();
    wait_until("the third one leads", || leaders(&[&third]) == [0]);
    assert_eq!(spec()["leaseTransitions"], json!(2));
}

#[test]
fn a_thousand_pods_come_and_go_and_the_endpoints_are_those_that_are_left() {
    let (server, namespace) = (ApiServer::shared(), "thousand");
    server.namespace(namespace);
    server.apply(&pool(namespace, json!({"app": "vllm"}), &[8000]));
    // Nobody listens there, so that scrapes are refused at once.
    let address = |at: usize| format!("127.1.{}.{}", at / 250, at % 250 + 1);
    let of = |at: usize, status: &dyn Fn(&[&str]) -> Value| {
        (pod(namespace, &format!("vllm-{at:04}"), "vllm"), status(&[&address(at)]))
    };
    let picker = start(&server, ADMIN, namespace, &[]);
    let name = |at: usize| format!("vllm-{at:04}-rank-0:8000");
    let all = |kept: &dyn Fn(usize) -> bool| (0..1000).filter(|at| kept(*at)).map(name).collect::<Vec<_>>();
    let wait = |expected: Vec<String>| wait_until("the endpoints are the pods", || endpoints(&picker) == expected);
    server.run_all(&(0..1000).map(|at| of(at, &ready)).collect::<Vec<_>>());
    wait(all(&|_| true));
    let unready = |ips: &[&str]| status("Running", "False", ips);
    server.run_all(&(0..1000).filter(|at| at % 2 == 0).map(|at| of(at, &unready)).collect::<Vec<_>>());
    wait(all(&|at| at % 2 == 1));
    server.run_all(&(0..1000).filter(|at| at % 4 == 0).map(|at| of(at, &ready)).collect::<Vec<_>>());
    wait(all(&|at| at % 2 == 1 || at % 4 == 0));
    // The pods that remain when nothing does.
    server.ask("DELETE", &format!("/api/v1/namespaces/{namespace}/pods"), "", &Value::Null).expect("they are deleted");
    wait(Vec::new());
}
