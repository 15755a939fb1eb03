//! The model label of a request: bounded, whatever names clients send.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::RwLock;
use prometheus_client::encoding::EncodeLabelSet;

/// How many names an engine's 2xx may add to the configured ones. Every name costs about 450 series, and some engines serve
/// whatever name they are asked for: whoever wants more labels names the models in the configuration.
const LEARNED_NAMES: usize = 4;
/// What every other name is called.
const OTHER: &str = "other";
/// What a request without a model is called when there is no default one.
const NONE: &str = "none";

/// The names that may become label values: the configured ones, and those that an engine has served.
#[derive(Debug, Default)]
pub(crate) struct ModelNames {
    configured: BTreeSet<Arc<str>>,
    learned: RwLock<BTreeSet<Arc<str>>>,
}

impl ModelNames {
    /// Names that keep their label from the start.
    pub(crate) fn new(configured: impl IntoIterator<Item = String>) -> Self {
        Self { configured: configured.into_iter().map(Arc::from).collect(), learned: RwLock::default() }
    }

    /// The label of a request for `model`.
    pub(crate) fn label(&self, model: Option<&str>) -> ModelLabel {
        let Some(model) = model else { return ModelLabel::of(NONE) };
        match self.configured.get(model) {
            Some(known) => ModelLabel(Arc::clone(known)),
            None => self.learned.read().get(model).map_or_else(|| ModelLabel::of(OTHER), |k| ModelLabel(Arc::clone(k))),
        }
    }

    /// An engine served `model`: it exists, so from now on it has a label of its own, while there is room.
    pub(crate) fn served(&self, model: &str) {
        if model.is_empty()
            || model.len() > 256
            || self.configured.contains(model)
            || self.learned.read().contains(model)
        {
            return;
        }
        let mut learned = self.learned.write();
        if learned.len() < LEARNED_NAMES {
            learned.insert(Arc::from(model));
        }
    }
}

/// A model's name as a label value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelLabel(Arc<str>);

impl ModelLabel {
    fn of(name: &'static str) -> Self {
        Self(Arc::from(name))
    }

    /// llm-d's base labels of a request. Fairness and priority are constant until they can be configured.
    pub(super) fn request(&self) -> RequestLabels {
        RequestLabels {
            model_name: self.0.to_string(),
            target_model_name: self.0.to_string(),
            fairness_id: "default-flow",
            priority: "0",
        }
    }

    /// The deprecated pair.
    pub(super) fn pair(&self) -> PairLabels {
        PairLabels { model_name: self.0.to_string(), target_model_name: self.0.to_string() }
    }

    /// The name.
    pub(crate) fn name(&self) -> String {
        self.0.to_string()
    }
}

/// llm-d's base labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    model_name: String,
    target_model_name: String,
    fairness_id: &'static str,
    priority: &'static str,
}

/// The labels of most deprecated families.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PairLabels {
    model_name: String,
    target_model_name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nobody_serves_share_one_label() {
        let names = ModelNames::new(["qwen3".to_owned()]);
        assert_eq!(names.label(Some("qwen3")).name(), "qwen3");
        assert_eq!(names.label(Some("x-1\n")).name(), "other");
        assert_eq!(names.label(None).name(), "none");
    }

    #[test]
    fn a_served_name_gets_its_own_label_while_there_is_room() {
        let names = ModelNames::default();
        for at in 0..10_000 {
            names.served(&format!("x-{at}"));
        }
        assert_eq!(names.label(Some("x-0")).name(), "x-0");
        assert_eq!(names.label(Some("x-3")).name(), "x-3");
        assert_eq!(names.label(Some("x-4")).name(), "other");
    }
}
