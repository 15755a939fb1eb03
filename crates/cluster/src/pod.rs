//! What a pod means: where it serves, if it does.

use std::net::{IpAddr, SocketAddr};

use fleet::Member;

use crate::TargetPorts;
use crate::objects::{ContainerStatus, Pod};

/// Which of its ports a pod serves at; the newer name goes before the older one.
const ACTIVE_PORTS: [&str; 2] = ["llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports"];

impl Pod {
    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Without what nobody reads: annotations may take a quarter of a MB, and who manages which field is more than all the rest.
    pub(crate) fn slim(mut self) -> Self {
        self.metadata.managed_fields = None;
        if let Some(annotations) = &mut self.metadata.annotations {
            annotations.retain(|name, _| ACTIVE_PORTS.contains(&name.as_str()));
        }
        self
    }

    /// Its endpoints: one a port, none unless it runs, is ready and stays.
    pub(crate) fn members(&self, ports: &TargetPorts) -> Vec<Member> {
        let Some(ip) = self.serving_at() else { return Vec::new() };
        let annotations = self.metadata.annotations.as_ref();
        let annotation = ACTIVE_PORTS.iter().find_map(|name| annotations?.get(*name)).map(String::as_str);
        let incarnation = self.incarnation(ports);
        let member = |(rank, port): (usize, u16)| Member {
            name: format!("{}-rank-{rank}", self.name()),
            namespace: self.metadata.namespace.clone().unwrap_or_default(),
            address: SocketAddr::new(ip, port),
            labels: self.metadata.labels.clone().unwrap_or_default(),
            incarnation: incarnation.clone(),
        };
        ports.active(annotation).map(member).collect()
    }

    fn serving_at(&self) -> Option<IpAddr> {
        let status = &self.status;
        let ready = status.conditions.iter().any(|condition| condition.r#type == "Ready" && condition.status == "True");
        // A pod that has ended may still be called ready for a moment.
        let ended = matches!(status.phase.as_str(), "Succeeded" | "Failed");
        if !ready || ended || self.metadata.deletion_timestamp.is_some() {
            return None;
        }
        status.pod_ip.parse().ok()
    }

    /// Another one for another server at the same place: a pod made anew, or a container of it that was started again. A
    /// sidecar's restart doesn't count where it can be told from the server by its ports.
    fn incarnation(&self, ports: &TargetPorts) -> String {
        let serves = |name: &str| {
            let container = self.spec.containers.iter().find(|container| container.name == name);
            container.is_some_and(|container| container.ports.iter().any(|port| ports.contains(port.container_port)))
        };
        let known = self.spec.containers.iter().any(|container| serves(&container.name));
        let counts = |status: &&ContainerStatus| !known || serves(&status.name);
        let restarts: u64 =
            self.status.container_statuses.iter().filter(counts).map(|status| status.restart_count).sum();
        format!("{}/{restarts}", self.metadata.uid.as_deref().unwrap_or_default())
    }
}
