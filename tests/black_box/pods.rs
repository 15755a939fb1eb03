//! Pools and pods as a cluster has them, as JSON: in, names and addresses; out, objects to apply and statuses to set. A status is
//! what a kubelet would write.

use serde_json::{Value, json};

/// A pool named `qwen3` of the pods with these labels.
pub fn pool(namespace: &str, labels: Value, ports: &[u16]) -> Value {
    let ports: Vec<Value> = ports.iter().map(|number| json!({ "number": number })).collect();
    json!({
        "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool",
        "metadata": {"name": "qwen3", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels}, "targetPorts": ports,
            "endpointPickerRef": {"name": "epp", "port": {"number": 9002}},
        },
    })
}

/// A pod with the label `app`, on a node, so that it goes only when it is removed.
pub fn pod(namespace: &str, name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}},
        "spec": {"nodeName": "node", "containers": [
            {"name": "vllm", "image": "vllm", "ports": [{"containerPort": 8000}]}, {"name": "logs", "image": "logs"},
        ]},
    })
}

/// The status of a pod that runs and is ready, at these addresses.
pub fn ready(addresses: &[&str]) -> Value {
    status("Running", "True", addresses)
}

/// The status of a pod in that phase, `is_ready` or not (`True`, `False`), at these addresses.
pub fn status(phase: &str, is_ready: &str, addresses: &[&str]) -> Value {
    let container = |name: &str| json!({"name": name, "image": name, "imageID": "", "ready": true, "restartCount": 0});
    json!({
        "phase": phase, "conditions": [{"type": "Ready", "status": is_ready}],
        "podIP": addresses.first(), "podIPs": addresses.iter().map(|ip| json!({ "ip": ip })).collect::<Vec<_>>(),
        "containerStatuses": [container("vllm"), container("logs")],
    })
}
