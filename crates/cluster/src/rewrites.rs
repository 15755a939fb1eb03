//! Which model a request is sent to in place of the one that it names.

use crate::objects::{Match, Rewrite, Rule, Target};

/// A pool's rewrites, in the order in which they count: the oldest object first, and by name where they are of one age.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrites {
    rules: Vec<Split>,
}

/// What a rule gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewritten<'a> {
    /// The model to use.
    pub to: &'a str,
    /// The object that says so.
    pub by: &'a str,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Split {
    /// Its object's name.
    of: String,
    /// The models that it holds for; all of them where there is none.
    models: Vec<String>,
    /// Models and their weights, none of which is zero.
    targets: Vec<(String, u64)>,
}

impl Rewrites {
    /// These, all of one pool.
    pub fn new<'a>(rewrites: impl Iterator<Item = &'a Rewrite>) -> Self {
        let mut rewrites: Vec<&Rewrite> = rewrites.collect();
        let age = |rewrite: &Rewrite| {
            let made = rewrite.metadata.creation_timestamp.as_ref().map(|time| time.0);
            // What has no age yet is the youngest.
            (made.is_none(), made, rewrite.metadata.name.clone())
        };
        rewrites.sort_by_cached_key(|rewrite| age(rewrite));
        let rules = rewrites.iter().flat_map(|rewrite| {
            let of = rewrite.metadata.name.as_deref().unwrap_or_default();
            rewrite.spec.rules.iter().filter_map(move |rule| split(of, rule))
        });
        Self { rules: rules.collect() }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The model to use for that one (`None`: none was named), by `random`, which is in 0..1: the first rule that names it,
    /// else the first for all models. `None`: it stays.
    pub fn target(&self, model: Option<&str>, random: f64) -> Option<Rewritten<'_>> {
        let named = |rule: &&Split| model.is_some_and(|model| rule.models.iter().any(|own| own == model));
        let rule = self.rules.iter().find(named).or_else(|| self.rules.iter().find(|rule| rule.models.is_empty()))?;
        let whole: u64 = rule.targets.iter().map(|(_, weight)| weight).sum();
        // Where it is drawn beyond the last one by rounding, that is the one.
        let mut drawn = (random * whole as f64) as u64;
        let chosen = rule.targets.iter().find(|(_, weight)| {
            let here = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            here
        });
        chosen.or(rule.targets.last()).map(|(to, _)| Rewritten { to, by: &rule.of })
    }
}

fn split(of: &str, rule: &Rule) -> Option<Split> {
    let exact = |one: &&Match| one.model.r#type.as_deref().is_none_or(|kind| kind == "Exact");
    let models: Vec<String> = rule.matches.iter().filter(exact).map(|one| one.model.value.clone()).collect();
    // A rule of which nothing is understood holds for nothing, and not for all.
    if models.is_empty() && !rule.matches.is_empty() {
        return None;
    }
    let weighted = rule.targets.iter().any(|target| target.weight > 0);
    let target = |target: &Target| {
        let weight = if weighted { target.weight } else { 1 };
        (weight > 0).then(|| (target.model_rewrite.clone(), u64::from(weight)))
    };
    let targets: Vec<_> = rule.targets.iter().filter_map(target).collect();
    (!targets.is_empty()).then_some(Split { of: of.to_owned(), models, targets })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrites(objects: serde_json::Value) -> Rewrites {
        let objects: Vec<Rewrite> = serde_json::from_value(objects).expect("rewrites");
        Rewrites::new(objects.iter())
    }

    /// The share of each target, by a thousand draws.
    fn shares(rewrites: &Rewrites, model: Option<&str>) -> Vec<(String, usize)> {
        let mut shares: Vec<(String, usize)> = Vec::new();
        for draw in 0..1000 {
            let target = rewrites.target(model, f64::from(draw) / 1000.0).map_or("as it is", |target| target.to);
            match shares.iter_mut().find(|(name, _)| name == target) {
                Some((_, count)) => *count += 1,
                None => shares.push((target.to_owned(), 1)),
            }
        }
        shares
    }

    #[test]
    fn an_exact_rule_goes_before_one_for_all_and_the_oldest_object_first() {
        let rewrites = rewrites(serde_json::json!([
            {"metadata": {"name": "young", "creationTimestamp": "2026-02-01T00:00:00Z"}, "spec": {"rules": [
                {"matches": [{"model": {"value": "a"}}], "targets": [{"modelRewrite": "late"}]},
                {"matches": [{"model": {"value": "b"}}, {"model": {"type": "Exact", "value": "c"}}], "targets": [{"modelRewrite": "bc"}]},
                {"matches": [{"model": {"type": "Prefix", "value": "q"}}], "targets": [{"modelRewrite": "not understood"}]},
            ]}},
            {"metadata": {"name": "old", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"rules": [
                {"targets": [{"modelRewrite": "any"}]},
                {"matches": [{"model": {"value": "a"}}], "targets": [{"modelRewrite": "early"}]},
                {"matches": [{"model": {"value": "a"}}], "targets": [{"modelRewrite": "second"}]},
            ]}},
        ]));
        let target = |model| rewrites.target(model, 0.5).map(|target| target.to);
        assert_eq!(target(Some("a")), Some("early"));
        assert_eq!(rewrites.target(Some("b"), 0.5), Some(Rewritten { to: "bc", by: "young" }));
        assert_eq!([target(Some("b")), target(Some("c"))], [Some("bc"); 2]);
        assert_eq!([target(Some("q")), target(None)], [Some("any"); 2]);
        assert_eq!(Rewrites::default().target(Some("a"), 0.5), None);
    }

    #[test]
    fn traffic_is_split_by_weight_and_evenly_without() {
        let of = |targets| rewrites(serde_json::json!([{"spec": {"rules": [{"targets": targets}]}}]));
        let named = |name: &str, count| (name.to_owned(), count);
        let weighted = of(serde_json::json!([{"modelRewrite": "x", "weight": 9}, {"modelRewrite": "y", "weight": 1}]));
        assert_eq!(shares(&weighted, None), [named("x", 900), named("y", 100)]);
        let even = of(serde_json::json!([{"modelRewrite": "x"}, {"modelRewrite": "y"}]));
        assert_eq!(shares(&even, Some("m")), [named("x", 500), named("y", 500)]);
        let mixed = of(serde_json::json!([{"modelRewrite": "x"}, {"modelRewrite": "y", "weight": 7}]));
        assert_eq!(shares(&mixed, Some("m")), [named("y", 1000)]);
        assert_eq!(weighted.target(None, 1.0), Some(Rewritten { to: "y", by: "" }));
        assert!(of(serde_json::json!([])).is_empty());
    }
}
