//! What all the objects together mean: no client in here, and no time.
//!
//! In: a pool, pods, objectives and rewrites, as they are listed, change and go, in any order. Out: a [`Snapshot`]. A list that
//! is being read anew replaces the old one when it is whole, not before, so that nobody is gone meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet::Member;
use kube::Resource;
use kube::runtime::watcher::Event;

use crate::objects::PoolSelector;
use crate::{Objective, Pod, Pool, Rewrite, Rewrites, TargetPorts};

/// What is known at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Whether the pool is there and its pods were listed: before that, an empty fleet says nothing.
    pub synced: bool,
    /// The endpoints that may be picked. What hasn't changed is the same one as in the snapshot before, so that a large fleet
    /// isn't built anew for each pod.
    pub members: Arc<[Arc<Member>]>,
    /// Priorities by the objectives' names; negative ones may be shed.
    pub priorities: Arc<BTreeMap<String, i32>>,
    /// Models in place of others.
    pub rewrites: Arc<Rewrites>,
}

/// Objects by name, and the list that will replace them.
#[derive(Debug)]
struct Listed<K> {
    objects: BTreeMap<String, K>,
    coming: Option<BTreeMap<String, K>>,
    /// Whether a list was ever whole.
    whole: bool,
}

impl<K> Default for Listed<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), coming: None, whole: false }
    }
}

impl<K: Resource> Listed<K> {
    fn take(&mut self, event: Event<K>) {
        let name = |object: &K| object.meta().name.clone().unwrap_or_default();
        match event {
            Event::Init => self.coming = Some(BTreeMap::new()),
            Event::InitApply(object) => {
                self.coming.get_or_insert_default().insert(name(&object), object);
            }
            Event::InitDone => {
                self.objects = self.coming.take().unwrap_or_default();
                self.whole = true;
            }
            Event::Apply(object) => {
                self.objects.insert(name(&object), object);
            }
            Event::Delete(object) => {
                self.objects.remove(&name(&object));
            }
        }
    }
}

/// One pool's objects.
#[derive(Debug, Default)]
pub struct Index {
    pool: Listed<Pool>,
    pods: Listed<Pod>,
    objectives: Listed<Objective>,
    rewrites: Listed<Rewrite>,
    /// Name and group of the pool; `None` where pods are selected without one.
    of: Option<(String, String)>,
    /// The ports where there is no pool to say them.
    ports: TargetPorts,
    /// What was made of each pod, until it or the pool changes.
    members: BTreeMap<String, Vec<Arc<Member>>>,
    /// What was made of objectives and rewrites, until one of them changes.
    priorities: Arc<BTreeMap<String, i32>>,
    models: Arc<Rewrites>,
}

impl Index {
    /// Of the pool of that name and API group.
    pub fn of_pool(name: &str, group: &str) -> Self {
        Self { of: Some((name.to_owned(), group.to_owned())), ..Self::default() }
    }

    /// Of pods that are selected elsewhere, and serve at these ports.
    pub fn of_pods(ports: TargetPorts) -> Self {
        Self { ports, ..Self::default() }
    }

    /// The pool came, changed or went.
    pub fn pool(&mut self, event: Event<Pool>) {
        let before = (self.ports(), self.selector().cloned());
        self.pool.take(event);
        if before != (self.ports(), self.selector().cloned()) {
            self.read_pods();
        }
    }

    /// A pod came, changed or went.
    pub fn pod(&mut self, event: Event<Pod>) {
        let changed = match &event {
            Event::Apply(pod) | Event::Delete(pod) => Some(pod.name().to_owned()),
            Event::Init | Event::InitApply(_) | Event::InitDone => None,
        };
        let whole = matches!(event, Event::InitDone);
        self.pods.take(match event {
            Event::Apply(pod) => Event::Apply(pod.slim()),
            Event::InitApply(pod) => Event::InitApply(pod.slim()),
            other => other,
        });
        if let Some(name) = changed {
            self.read_pod(&name);
        } else if whole {
            self.read_pods();
        }
    }

    /// Pods are about to be listed where none were selected before: nothing is known of them until then.
    pub fn select_first(&mut self) {
        self.pods = Listed::default();
        self.members.clear();
    }

    /// An objective came, changed or went.
    pub fn objective(&mut self, event: Event<Objective>) {
        self.objectives.take(event);
        let Some((name, group)) = &self.of else { return };
        let ours = self.objectives.objects.iter().filter(|(_, objective)| objective.spec.pool_ref.is(name, group));
        self.priorities = Arc::new(ours.map(|(own, objective)| (own.clone(), objective.spec.priority)).collect());
    }

    /// A rewrite came, changed or went.
    pub fn rewrite(&mut self, event: Event<Rewrite>) {
        self.rewrites.take(event);
        let Some((name, group)) = &self.of else { return };
        let ours = self.rewrites.objects.values().filter(|rewrite| rewrite.spec.pool_ref.is(name, group));
        self.models = Arc::new(Rewrites::new(ours));
    }

    /// The labels by which the pool selects its pods; `None` while there is no pool, or one that selects nothing.
    pub fn selector(&self) -> Option<&BTreeMap<String, String>> {
        let labels = match &self.present()?.spec.selector {
            PoolSelector::V1 { match_labels } => match_labels,
            PoolSelector::Flat(labels) => labels,
        };
        Some(labels).filter(|labels| !labels.is_empty())
    }

    /// What it all means now.
    pub fn snapshot(&self) -> Snapshot {
        if self.ports().is_none() {
            return Snapshot::default();
        }
        Snapshot {
            synced: self.pods.whole,
            members: self.members.values().flatten().cloned().collect(),
            priorities: Arc::clone(&self.priorities),
            rewrites: Arc::clone(&self.models),
        }
    }

    fn read_pods(&mut self) {
        let known: Vec<String> = self.members.keys().chain(self.pods.objects.keys()).cloned().collect();
        known.iter().for_each(|name| self.read_pod(name));
    }

    /// What a pod means now; who is no other than before stays the same.
    fn read_pod(&mut self, name: &str) {
        let selected = |pod: &&Pod| self.of.is_none() || self.selector().is_some_and(|labels| has_all(pod, labels));
        let pod = self.pods.objects.get(name).filter(selected);
        let read = pod.zip(self.ports()).map(|(pod, ports)| pod.members(&ports)).unwrap_or_default();
        let before = self.members.remove(name).unwrap_or_default();
        let kept =
            |member: Member| before.iter().find(|before| ***before == member).cloned().unwrap_or(Arc::new(member));
        let members: Vec<_> = read.into_iter().map(kept).collect();
        if !members.is_empty() {
            self.members.insert(name.to_owned(), members);
        }
    }

    /// The pool, unless it is going.
    fn present(&self) -> Option<&Pool> {
        let (name, _) = self.of.as_ref()?;
        self.pool.objects.get(name).filter(|pool| pool.metadata.deletion_timestamp.is_none())
    }

    /// Where pods serve; nothing while there is no pool to say it, or one that selects nothing.
    fn ports(&self) -> Option<TargetPorts> {
        if self.of.is_none() {
            return Some(self.ports.clone());
        }
        self.selector()?;
        let spec = &self.present()?.spec;
        let listed = spec.target_ports.iter().map(|port| port.number);
        TargetPorts::new(listed.chain(spec.target_port_number.filter(|_| spec.target_ports.is_empty()))).ok()
    }
}

fn has_all(pod: &Pod, labels: &BTreeMap<String, String>) -> bool {
    let own = pod.metadata.labels.as_ref();
    labels.iter().all(|(name, value)| own.and_then(|own| own.get(name)) == Some(value))
}
