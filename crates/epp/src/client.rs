//! What a client says of itself in headers, as far as the operator trusts it.
//!
//! In: a request's headers and what is trusted; out: [`Said`], and the headers that are taken off the request because they
//! aren't. Of a header's two names the current one goes before the deprecated one. Nothing here is believed to be true.

use config::Trust;
use envoy::Headers;

const OBJECTIVE: [&str; 2] = ["x-llm-d-inference-objective", "x-gateway-inference-objective"];
const FAIRNESS_ID: [&str; 2] = ["x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id"];
const SESSION: [&str; 1] = ["x-session-id"];
const MODEL_REWRITE: [&str; 2] = ["x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite"];

/// Longer values count as none, in bytes.
const LONGEST: usize = 256;

/// What a client said and may say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// The name of an objective.
    pub(crate) objective: Option<String>,
    /// Whom its requests are counted with.
    pub(crate) fairness_id: Option<String>,
    /// Which session the request belongs to.
    pub(crate) session: Option<String>,
    /// The model to use in place of the body's.
    pub(crate) model_rewrite: Option<String>,
}

/// Reads the headers. Also gives the names of those that are there and aren't trusted.
pub(crate) fn said(headers: &Headers, trust: Trust) -> (Said, Vec<String>) {
    let mut untrusted = Vec::new();
    let mut read = |names: &[&str], trusted: bool| {
        if !trusted {
            untrusted.extend(names.iter().filter(|name| headers.get(name).is_some()).map(|name| (*name).to_owned()));
            return None;
        }
        let mut values = names.iter().filter_map(|name| headers.text(name)).map(str::trim);
        values.find(|value| !value.is_empty() && value.len() <= LONGEST).map(str::to_owned)
    };
    let said = Said {
        objective: read(&OBJECTIVE, trust.objective),
        fairness_id: read(&FAIRNESS_ID, trust.fairness_id),
        session: read(&SESSION, trust.session),
        model_rewrite: read(&MODEL_REWRITE, trust.model_rewrite),
    };
    (said, untrusted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Trust = Trust { objective: true, fairness_id: true, session: true, model_rewrite: true };

    fn check(trust: Trust, headers: &[(&str, &str)], expected: &str) {
        let headers: Headers = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let (said, untrusted) = said(&headers, trust);
        let values = [&said.objective, &said.fairness_id, &said.session, &said.model_rewrite];
        let values: Vec<&str> = values.into_iter().map(|value| value.as_deref().unwrap_or("-")).collect();
        assert_eq!(format!("{}|{}", values.join(" "), untrusted.join(" ")), expected, "{headers:?}");
    }

    #[test]
    fn the_current_name_goes_before_the_deprecated_one() {
        check(
            ALL,
            &[
                ("x-gateway-inference-objective", "old"),
                ("x-llm-d-inference-objective", "new"),
                ("x-session-id", " s "),
            ],
            "new - s -|",
        );
        check(ALL, &[("x-gateway-inference-fairness-id", "old"), ("x-llm-d-inference-fairness-id", "")], "- old - -|");
        check(ALL, &[("x-gateway-model-name-rewrite", "m")], "- - - m|");
    }

    #[test]
    fn what_is_not_trusted_is_not_read_and_named() {
        let headers = [
            ("x-llm-d-inference-objective", "o"),
            ("x-session-id", "s"),
            ("x-llm-d-model-name-rewrite", "m"),
            ("x-gateway-model-name-rewrite", "n"),
        ];
        check(
            Trust::default(),
            &headers,
            "o - - -|x-session-id x-llm-d-model-name-rewrite x-gateway-model-name-rewrite",
        );
    }
}
