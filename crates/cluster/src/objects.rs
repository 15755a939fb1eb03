//! The objects that are watched, as far as they are read. Whatever else stands in them is passed over, and what may be absent
//! may be null too.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::{ApiResource, DynamicResourceScope, NamespaceResourceScope};
use serde::{Deserialize, Deserializer};

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Pod {
    /// Its name, labels and the like, as far as they are read.
    #[serde(default, deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) spec: PodSpec,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct PodSpec {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Container {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ports: Vec<ContainerPort>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerPort {
    pub(crate) container_port: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodStatus {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) phase: String,
    #[serde(rename = "podIP", default, deserialize_with = "or_default")]
    pub(crate) pod_ip: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Condition {
    pub(crate) r#type: String,
    pub(crate) status: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) restart_count: u64,
}

/// An object of a kind whose group differs from cluster to cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(bound = "S: Deserialize<'de> + Default")]
pub struct Object<S> {
    /// Its name, age and the like, as far as they are read.
    #[serde(default, deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) spec: S,
}

/// An InferencePool: of the group `inference.networking.k8s.io`, or in its older form.
pub type Pool = Object<PoolSpec>;
/// An InferenceObjective: how much its requests matter. Requests carry its name in a header.
pub type Objective = Object<ObjectiveSpec>;
/// An InferenceModelRewrite: which models requests are sent to in place of the one that they name.
pub type Rewrite = Object<RewriteSpec>;

/// What a pool says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolSpec {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) selector: PoolSelector,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) target_ports: Vec<TargetPort>,
    /// Before v1.
    pub(crate) target_port_number: Option<u16>,
}

/// Under v1 the labels stand one level further down.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum PoolSelector {
    #[serde(rename_all = "camelCase")]
    V1 {
        match_labels: BTreeMap<String, String>,
    },
    Flat(BTreeMap<String, String>),
}

impl Default for PoolSelector {
    fn default() -> Self {
        Self::Flat(BTreeMap::new())
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct TargetPort {
    pub(crate) number: u16,
}

/// What an objective says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectiveSpec {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) pool_ref: PoolRef,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) priority: i32,
}

/// The pool that an object is for.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct PoolRef {
    pub(crate) group: Option<String>,
    #[serde(default)]
    pub(crate) name: String,
}

impl PoolRef {
    /// Whether it is that one.
    pub(crate) fn is(&self, name: &str, group: &str) -> bool {
        self.name == name && self.group.as_deref().unwrap_or(crate::watch::POOL_GROUP) == group
    }
}

/// What a rewrite says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RewriteSpec {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) pool_ref: PoolRef,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) rules: Vec<Rule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Rule {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) matches: Vec<Match>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) targets: Vec<Target>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Match {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) model: ModelMatch,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ModelMatch {
    pub(crate) r#type: Option<String>,
    #[serde(default)]
    pub(crate) value: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Target {
    #[serde(default)]
    pub(crate) model_rewrite: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) weight: u32,
}

/// Above all without `managedFields`: who has set what is often the larger part of a pod, and nobody here asks for it.
fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Read {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
        labels: Option<BTreeMap<String, String>>,
        annotations: Option<BTreeMap<String, String>>,
    }
    let read = Read::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: read.name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        creation_timestamp: read.creation_timestamp,
        deletion_timestamp: read.deletion_timestamp,
        labels: read.labels,
        annotations: read.annotations,
        ..ObjectMeta::default()
    })
}

fn or_default<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl kube::Resource for Pod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<S> kube::Resource for Object<S> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
