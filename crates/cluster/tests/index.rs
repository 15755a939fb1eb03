//! What objects mean, by example: objects as an API server gives them, in words or whole; the members that come of it.

use cluster::{Index, Objective, Pod, Pool, Rewrite, TargetPorts};
use kube::runtime::watcher::Event;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const GROUP: &str = "inference.networking.k8s.io";

fn object<K: DeserializeOwned>(json: Value) -> K {
    serde_json::from_value(json).expect("an object")
}

fn pool(labels: Value, ports: &[u16]) -> Pool {
    let ports: Vec<Value> = ports.iter().map(|number| json!({ "number": number })).collect();
    object(json!({"metadata": {"name": "p"}, "spec": {"selector": {"matchLabels": labels}, "targetPorts": ports}}))
}

fn vllm(ports: &[u16]) -> Pool {
    pool(json!({"app": "vllm"}), ports)
}

/// A ready pod of that name, at 10.0.0.`last`.
fn pod(name: &str, app: &str, last: u8) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("u-{name}"), "labels": {"app": app}},
        "spec": {"containers": [{"name": "vllm", "ports": [{"containerPort": 8000}]}, {"name": "logs"}]},
        "status": {
            "phase": "Running",
            "podIP": format!("10.0.0.{last}"),
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "vllm", "restartCount": 0}, {"name": "logs", "restartCount": 0}],
        },
    })
}

fn list<K>(take: &mut dyn FnMut(Event<K>), objects: Vec<K>) {
    take(Event::Init);
    objects.into_iter().for_each(|object| take(Event::InitApply(object)));
    take(Event::InitDone);
}

fn of_pool(pool: Pool, pods: Vec<Pod>) -> Index {
    let mut index = Index::of_pool("p", GROUP);
    list(&mut |event| index.pool(event), vec![pool]);
    list(&mut |event| index.pod(event), pods);
    index
}

fn addresses(index: &Index) -> Vec<String> {
    index.snapshot().members.iter().map(|member| member.address.to_string()).collect()
}

fn data(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("a list")
}

fn pods(text: &str) -> Vec<Pod> {
    data(text).into_iter().map(object).collect()
}

/// ai-dynamo/dynamo#12063: an address of IPv6 and a port, put together without brackets.
#[test]
fn addresses_are_written_so_that_they_can_be_read() {
    let index = of_pool(vllm(&[8000]), pods(include_str!("data/addresses.json")));
    assert_eq!(addresses(&index), ["[fd00::10]:8000", "10.0.0.2:8000", "[fd00::12]:8000"]);
}

/// gpustack/gpustack#4010: requests went to pods that were ending, not ready, without an address, done or failed.
#[test]
fn only_pods_that_run_are_ready_and_stay_are_members() {
    let index = of_pool(vllm(&[8000]), pods(include_str!("data/states.json")));
    assert_eq!(addresses(&index), ["10.0.0.1:8000"]);
}

/// agentgateway/agentgateway#1719: controllers crashed on a pool without what is optional, or of the older form.
#[test]
fn pools_are_read_in_every_form() {
    for one in data(include_str!("data/pools.json")) {
        let index = of_pool(object(one), vec![object(pod("a", "vllm", 1)), object(pod("b", "x", 2))]);
        assert_eq!(addresses(&index), ["10.0.0.1:8000"]);
    }
    for odd in [json!({"selector": null, "targetPorts": null}), json!({"selector": {"matchLabels": {}}}), json!({})] {
        let index = of_pool(object(json!({"metadata": {"name": "p"}, "spec": odd})), vec![object(pod("a", "vllm", 1))]);
        assert!(index.snapshot().members.is_empty() && !index.snapshot().synced, "{odd}");
    }
}

/// kubernetes-sigs/gateway-api-inference-extension#268: pods seen before the pool, or after its selector changed, were not.
#[test]
fn members_follow_the_selector_at_once() {
    let mut index = Index::of_pool("p", GROUP);
    let mut seen = Vec::new();
    let mut step = |change: &mut dyn FnMut(&mut Index)| {
        change(&mut index);
        let names: Vec<String> = index.snapshot().members.iter().map(|member| member.name.clone()).collect();
        seen.push(names.join(" "));
    };
    let two = [pod("a", "vllm", 1), pod("b", "vllm2", 2)];
    step(&mut |index| list(&mut |event| index.pod(event), two.iter().cloned().map(object).collect()));
    step(&mut |index| index.pool(Event::Apply(vllm(&[8000]))));
    step(&mut |index| index.pool(Event::Apply(pool(json!({"app": "vllm2"}), &[8000]))));
    step(&mut |index| index.pool(Event::Delete(vllm(&[8000]))));
    step(&mut |index| index.pool(Event::Apply(vllm(&[8000]))));
    assert_eq!(seen, ["", "a-rank-0", "b-rank-0", "", "a-rank-0"]);
}

/// ai-dynamo/dynamo#11542: a picker was ready before the first list, or never with an empty pool.
#[test]
fn an_empty_pool_is_synced_after_the_first_whole_list_and_not_before() {
    let mut index = Index::of_pool("p", GROUP);
    assert!(!index.snapshot().synced);
    list(&mut |event| index.pool(event), vec![vllm(&[8000])]);
    index.pod(Event::Init);
    index.pod(Event::InitApply(object(pod("a", "vllm", 1))));
    assert!(!index.snapshot().synced && index.snapshot().members.is_empty(), "half a list");
    index.pod(Event::InitDone);
    assert!(index.snapshot().synced);
    index.pod(Event::Delete(object(pod("a", "vllm", 1))));
    assert!(index.snapshot().synced && index.snapshot().members.is_empty());
    let going = json!({"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"selector": {"matchLabels": {"app": "vllm"}}, "targetPorts": [{"number": 8000}]}});
    index.pool(Event::Apply(object(going)));
    assert!(!index.snapshot().synced);
}

#[test]
fn nobody_is_gone_while_a_list_is_read_anew_and_who_is_not_on_it_is_gone_then() {
    let mut index = of_pool(vllm(&[8000]), vec![object(pod("a", "vllm", 1)), object(pod("b", "vllm", 2))]);
    index.pod(Event::Init);
    index.pod(Event::InitApply(object(pod("b", "vllm", 2))));
    index.pod(Event::InitApply(object(pod("c", "vllm", 3))));
    assert_eq!(addresses(&index), ["10.0.0.1:8000", "10.0.0.2:8000"]);
    index.pod(Event::InitDone);
    assert_eq!(addresses(&index), ["10.0.0.2:8000", "10.0.0.3:8000"]);
}

/// In a large pool that would be most of the memory.
#[test]
fn who_has_set_which_field_is_not_kept() {
    let mut one = pod("a", "vllm", 1);
    one["metadata"]["resourceVersion"] = json!("7");
    one["metadata"]["managedFields"] = json!([{"manager": "kubelet", "fieldsV1": {"f:status": {"f:podIP": {}}}}]);
    let read: Pod = object(one);
    assert_eq!(read.metadata.managed_fields, None);
    assert_eq!((read.metadata.name.as_deref(), read.metadata.resource_version.as_deref()), (Some("a"), Some("7")));
}

/// A large pool isn't gone through for each pod's sake.
#[test]
fn members_that_have_not_changed_are_the_same_ones() {
    let mut index = of_pool(vllm(&[8000]), (1..=3).map(|at| object(pod(&format!("p{at}"), "vllm", at))).collect());
    let before = index.snapshot().members;
    index.pod(Event::Delete(object(pod("p2", "vllm", 2))));
    index.pod(Event::Apply(object(pod("p3", "vllm", 3))));
    let after = index.snapshot().members;
    assert!(std::sync::Arc::ptr_eq(&before[0], &after[0]) && std::sync::Arc::ptr_eq(&before[2], &after[1]));
    list(&mut |event| index.pod(event), vec![object(pod("p1", "vllm", 1))]);
    let listed = index.snapshot().members;
    assert!(listed.len() == 1 && std::sync::Arc::ptr_eq(&before[0], &listed[0]));
}

#[test]
fn each_port_is_an_endpoint_and_a_pod_says_which_are_active() {
    let with = |annotations: Value| {
        let mut one = pod("a", "vllm", 1);
        one["metadata"]["annotations"] = annotations;
        let index = of_pool(vllm(&[8000, 8001]), vec![object(one)]);
        index
            .snapshot()
            .members
            .iter()
            .map(|member| format!("{}@{}", member.name, member.address.port()))
            .collect::<Vec<_>>()
    };
    assert_eq!(with(json!(null)), ["a-rank-0@8000", "a-rank-1@8001"]);
    assert_eq!(with(json!({"llm-d.ai/active-ports": "8001"})), ["a-rank-1@8001"]);
    let both = json!({"llm-d.ai/active-ports": "8000", "inference.networking.k8s.io/active-ports": "8001"});
    assert_eq!(with(both), ["a-rank-0@8000"]);
    assert_eq!(with(json!({"inference.networking.k8s.io/active-ports": ""})), [""; 0]);
    let mut grown = of_pool(vllm(&[8000]), vec![object(pod("a", "vllm", 1))]);
    grown.pool(Event::Apply(vllm(&[8000, 9000])));
    assert_eq!(addresses(&grown), ["10.0.0.1:8000", "10.0.0.1:9000"]);
    grown.pool(Event::Apply(vllm(&[9000])));
    assert_eq!(addresses(&grown), ["10.0.0.1:9000"]);
}

#[test]
fn another_server_at_the_same_place_is_another_member() {
    let incarnation = |change: &dyn Fn(&mut Value)| {
        let mut one = pod("a", "vllm", 1);
        change(&mut one);
        of_pool(vllm(&[8000]), vec![object(one)]).snapshot().members[0].incarnation.clone()
    };
    let before = incarnation(&|_| {});
    assert_eq!(incarnation(&|pod| pod["metadata"]["labels"]["more"] = json!("x")), before);
    assert_eq!(
        incarnation(&|pod| pod["status"]["containerStatuses"][1]["restartCount"] = json!(3)),
        before,
        "a sidecar"
    );
    assert_ne!(incarnation(&|pod| pod["status"]["containerStatuses"][0]["restartCount"] = json!(1)), before);
    assert_ne!(incarnation(&|pod| pod["metadata"]["uid"] = json!("another")), before);
    // Where no container says its port, any may be the server.
    let unsaid = |restarts: u64| {
        incarnation(&|pod| {
            pod["spec"] = json!({});
            pod["status"]["containerStatuses"][1]["restartCount"] = json!(restarts);
        })
    };
    assert_ne!(unsaid(0), unsaid(1));
}

#[test]
fn objectives_and_rewrites_of_other_pools_do_not_count() {
    let mut index = of_pool(vllm(&[8000]), Vec::new());
    let objective = |name: &str, pool: Value, priority: Value| -> Objective {
        object(json!({"metadata": {"name": name}, "spec": {"poolRef": pool, "priority": priority}}))
    };
    list(
        &mut |event| index.objective(event),
        vec![
            objective("batch", json!({"name": "p"}), json!(-1)),
            objective("chat", json!({"name": "p", "group": GROUP}), json!(null)),
            objective("theirs", json!({"name": "q"}), json!(5)),
            objective("older", json!({"name": "p", "group": "inference.networking.x-k8s.io"}), json!(5)),
        ],
    );
    let rewrite = |name: &str, pool: &str| -> Rewrite {
        let rules = json!([{"targets": [{"modelRewrite": name}]}]);
        object(json!({"metadata": {"name": name}, "spec": {"poolRef": {"name": pool}, "rules": rules}}))
    };
    list(&mut |event| index.rewrite(event), vec![rewrite("a-theirs", "q"), rewrite("ours", "p")]);
    let snapshot = index.snapshot();
    let priorities: Vec<_> = snapshot.priorities.iter().map(|(name, priority)| (name.as_str(), *priority)).collect();
    assert_eq!(priorities, [("batch", -1), ("chat", 0)]);
    assert_eq!(snapshot.rewrites.target(Some("m"), 0.0).map(|target| target.to), Some("ours"));
    index.objective(Event::Delete(objective("batch", json!({"name": "p"}), json!(-1))));
    assert!(!index.snapshot().priorities.contains_key("batch"));
}

#[test]
fn pods_may_be_selected_without_a_pool() {
    let mut index = Index::of_pods(TargetPorts::new([8000, 8001]).expect("ports"));
    assert!(!index.snapshot().synced);
    list(&mut |event| index.pod(event), vec![object(pod("a", "anything", 1))]);
    assert_eq!(addresses(&index), ["10.0.0.1:8000", "10.0.0.1:8001"]);
    assert!(index.snapshot().synced);
}

#[test]
fn what_nobody_reads_of_a_pod_is_not_kept() {
    let mut large = pod("a", "vllm", 1);
    large["metadata"]["annotations"] = json!({"a": "needle".repeat(1000), "llm-d.ai/active-ports": "8000"});
    large["metadata"]["managedFields"] =
        json!([{"manager": "needle", "fieldsType": "FieldsV1", "fieldsV1": {"f:needle": {}}}]);
    let mut index = of_pool(vllm(&[8000, 8001]), vec![object(large.clone())]);
    index.pod(Event::Apply(object(large)));
    assert!(!format!("{index:?}").contains("needle"));
    assert_eq!(addresses(&index), ["10.0.0.1:8000"], "what is read of it");
}

#[test]
fn of_a_pool_that_is_made_again_nothing_is_known_before_its_pods_are_listed() {
    let mut index = of_pool(vllm(&[8000]), vec![object(pod("a", "vllm", 1))]);
    index.pool(Event::Delete(vllm(&[8000])));
    assert_eq!(addresses(&index), Vec::<String>::new());
    index.pool(Event::Apply(vllm(&[8000])));
    index.select_first();
    assert_eq!((index.snapshot().synced, addresses(&index)), (false, Vec::new()), "who was there before may be gone");
    list(&mut |event| index.pod(event), vec![object(pod("b", "vllm", 2))]);
    assert_eq!((index.snapshot().synced, addresses(&index)), (true, vec!["10.0.0.2:8000".to_owned()]));
}
