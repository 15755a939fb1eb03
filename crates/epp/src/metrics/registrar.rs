//! How families are registered: under llm-d's name, and where it is wanted also under the one that llm-d has given up.
//!
//! In: names, help, and how a metric is made; out: families to count in. A deprecated twin counts the same under labels of
//! its own, and its help names its successor.

use std::fmt::Debug;
use std::hash::Hash;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// A family whose metrics are made by a function.
pub(super) type Made<L, M> = Family<L, M, fn() -> M>;

/// Registers families.
pub(super) struct Registrar<'a> {
    /// Where to.
    pub(super) registry: &'a mut Registry,
    /// Whether the deprecated names are wanted too.
    pub(super) deprecated: bool,
}

/// What a label set of a family must be able to do.
pub(super) trait Labels: Clone + Hash + Eq + Debug + EncodeLabelSet + Send + Sync + 'static {}
impl<L: Clone + Hash + Eq + Debug + EncodeLabelSet + Send + Sync + 'static> Labels for L {}

/// What a metric of a family must be able to do.
pub(super) trait Metric: EncodeMetric + TypedMetric + Debug + Send + Sync + 'static {}
impl<M: EncodeMetric + TypedMetric + Debug + Send + Sync + 'static> Metric for M {}

impl Registrar<'_> {
    /// One counter without labels.
    pub(super) fn counter(&mut self, name: &str, help: &str) -> Counter {
        let counter = Counter::default();
        self.registry.register(name, bare(help), counter.clone());
        counter
    }

    /// A family of counters or gauges, which begin at zero.
    pub(super) fn family<L: Labels, M: Metric + Default>(&mut self, name: &str, help: &str) -> Made<L, M> {
        self.made(M::default, name, help)
    }

    /// A family of anything, made by `make`: histograms, as a rule.
    pub(super) fn made<L: Labels, M: Metric>(&mut self, make: fn() -> M, name: &str, help: &str) -> Made<L, M> {
        let family = Made::new_with_constructor(make);
        self.registry.register(name, bare(help), family.clone());
        family
    }

    /// One quantity of llm-d's: the name and the help that it has today, and, if wanted, those that it had before.
    pub(super) fn twins<L: Labels, D: Labels, M: Metric>(
        &mut self,
        make: fn() -> M,
        current: (&str, &str),
        deprecated: (&str, &str),
    ) -> Twins<L, D, M> {
        self.twins_shown_as(make, current.0, current, deprecated)
    }

    /// The same of counters, whose series' names end in `_total`.
    pub(super) fn counter_twins<L: Labels, D: Labels>(
        &mut self,
        current: (&str, &str),
        deprecated: (&str, &str),
    ) -> Twins<L, D, Counter> {
        self.twins_shown_as(Counter::default, &format!("{}_total", current.0), current, deprecated)
    }

    fn twins_shown_as<L: Labels, D: Labels, M: Metric>(
        &mut self,
        make: fn() -> M,
        shown: &str,
        current: (&str, &str),
        deprecated: (&str, &str),
    ) -> Twins<L, D, M> {
        let before = alpha(&format!("[Deprecated: Use {shown}] {}", deprecated.1));
        Twins {
            current: self.made(make, current.0, &alpha(current.1)),
            deprecated: self.deprecated.then(|| self.made(make, deprecated.0, &before)),
        }
    }
}

/// The labels of a family that has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct NoLabels {}

/// A help without the full stop that the registry appends to each.
pub(super) fn bare(help: &str) -> &str {
    help.strip_suffix('.').unwrap_or(help)
}

/// A help as llm-d shows it.
pub(super) fn alpha(help: &str) -> String {
    format!("[ALPHA] {help}")
}

/// One quantity under llm-d's name and, if wanted, under the one that it had before.
#[derive(Debug)]
pub(super) struct Twins<L, D, M> {
    /// Under the name of today.
    pub(super) current: Made<L, M>,
    /// Under the one before.
    pub(super) deprecated: Option<Made<D, M>>,
}

impl<L: Labels, D: Labels, M: Metric> Twins<L, D, M> {
    /// Counts in both.
    pub(super) fn each(&self, current: &L, deprecated: impl FnOnce() -> D, count: impl Fn(&M)) {
        count(&self.current.get_or_create(current));
        if let Some(family) = &self.deprecated {
            count(&family.get_or_create(&deprecated()));
        }
    }

    /// Forgets a series in both.
    pub(super) fn remove(&self, current: &L, deprecated: impl FnOnce() -> D) {
        self.current.remove(current);
        if let Some(family) = &self.deprecated {
            family.remove(&deprecated());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
    struct Old {
        pod: &'static str,
    }

    #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
    struct New {
        endpoint: &'static str,
    }

    #[track_caller]
    fn check(deprecated: bool, expected: &str) {
        let mut registry = Registry::default();
        let mut registrar = Registrar { registry: &mut registry, deprecated };
        let picks: Twins<New, Old, Counter> = registrar.counter_twins(("new_picks", "Picks."), ("old_picks", "Picks."));
        picks.each(
            &New { endpoint: "a" },
            || Old { pod: "a" },
            |counter| {
                counter.inc();
            },
        );
        picks.each(
            &New { endpoint: "b" },
            || Old { pod: "b" },
            |counter| {
                counter.inc();
            },
        );
        picks.remove(&New { endpoint: "b" }, || Old { pod: "b" });
        let mut page = String::new();
        prometheus_client::encoding::text::encode(&mut page, &registry).expect("text can be written");
        assert_eq!(page, format!("{expected}# EOF\n"));
    }

    #[test]
    fn a_deprecated_twin_counts_the_same_and_names_its_successor() {
        let current = "# HELP new_picks [ALPHA] Picks.\n# TYPE new_picks counter\nnew_picks_total{endpoint=\"a\"} 1\n";
        check(false, current);
        let old = "# HELP old_picks [ALPHA] [Deprecated: Use new_picks_total] Picks.\n# TYPE old_picks counter\n\
                   old_picks_total{pod=\"a\"} 1\n";
        check(true, &format!("{current}{old}"));
    }
}
