//! What an endpoint's labels must say: the filters of llm-d's profiles that hold for every request.

use std::collections::BTreeMap;
use std::fmt;

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labelled {
    /// The label.
    pub key: String,
    /// What it may be.
    pub may_be: Values,
    /// Whether it may be missing.
    pub or_missing: bool,
}

/// Values of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Any of these.
    In(Vec<String>),
    /// Anything else.
    NotIn(Vec<String>),
}

/// The label by which llm-d tells what a pod does of a request.
const ROLE: &str = "llm-d.ai/role";
/// Those that decode. Without the label a pod does everything.
const DECODES: [&str; 4] = ["decode", "prefill-decode", "both", "encode-prefill-decode"];

impl Labelled {
    /// `decode-filter`.
    pub(crate) fn decodes() -> Self {
        Self { key: ROLE.into(), may_be: Values::In(DECODES.map(str::to_owned).into()), or_missing: true }
    }

    /// Whether these labels say so.
    pub fn is_met(&self, labels: &BTreeMap<String, String>) -> bool {
        match (labels.get(&self.key), &self.may_be) {
            (None, _) => self.or_missing,
            (Some(value), Values::In(values)) => values.contains(value),
            (Some(value), Values::NotIn(values)) => !values.contains(value),
        }
    }
}

impl fmt::Display for Labelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, may_be, or_missing } = self;
        match may_be {
            Values::In(values) if values.is_empty() => return write!(f, "no label {key}"),
            Values::In(values) => write!(f, "{key} is {}", values.join(" or "))?,
            Values::NotIn(values) if values.is_empty() => return write!(f, "a label {key}"),
            Values::NotIn(values) => write!(f, "{key} isn't {}", values.join(" or "))?,
        }
        f.write_str(if *or_missing { ", or missing" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_held_to_what_is_required() {
        let check = |required: &Labelled, met: [bool; 3]| {
            let of = |value: Option<&str>| value.map(|value| ("a".to_owned(), value.to_owned())).into_iter().collect();
            let is_met = [None, Some("x"), Some("y")].map(|value| required.is_met(&of(value)));
            assert_eq!(is_met, met, "{required}");
        };
        let labelled = |may_be, or_missing| Labelled { key: "a".into(), may_be, or_missing };
        let x = || vec!["x".to_owned()];
        check(&labelled(Values::In(x()), false), [false, true, false]);
        check(&labelled(Values::In(x()), true), [true, true, false]);
        check(&labelled(Values::NotIn(x()), true), [true, false, true]);
        check(&labelled(Values::NotIn(Vec::new()), false), [false, true, true]);
        check(&labelled(Values::In(Vec::new()), true), [true, false, false]);
        assert_eq!(labelled(Values::In(x()), true).to_string(), "a is x, or missing");
    }
}
