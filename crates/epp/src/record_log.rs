//! The decision's record as a line of the log: what was asked, each candidate with its parts, what was chosen, how it
//! ended. No prompt text and no key is in it.

use std::hash::{DefaultHasher, Hash, Hasher};

use record::{Asked, Choice, Ended, Outcome, Record};

use crate::holdout::Arm;
use crate::underway::Underway;

/// Which decisions are logged: a share, and those with trouble.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged(Option<f64>);

impl Logged {
    /// None at all.
    pub(crate) const NONE: Self = Self(None);

    /// This share of them, 0 to 1, and all with trouble.
    pub(crate) fn share(share: f64) -> Self {
        Self(Some(share))
    }

    /// Whether any may be.
    pub(crate) fn any(self) -> bool {
        self.0.is_some() && tracing::enabled!(target: "epp::decision", tracing::Level::INFO)
    }

    /// Whether this one is, by a throw of 0 up to, but not including, 1.
    pub(crate) fn wants(self, record: &Record, thrown: f64) -> bool {
        self.0.is_some_and(|share| thrown < share || record.is_troubled())
    }
}

/// Prints one request's decision and how it ended.
pub(crate) fn print(record: &Record) {
    match serde_json::to_string(record) {
        Ok(record) => tracing::info!(target: "epp::decision", record, "decision"),
        Err(error) => tracing::error!(target: "epp::decision", %error, "a decision's record can't be written"),
    }
}

/// The record of a request that has ended.
pub(crate) fn ended(underway: &Underway) -> Record {
    Record { outcome: Some(outcome(underway)), ..picked(underway) }
}

/// The record of a request as far as its pick.
pub(crate) fn picked(underway: &Underway) -> Record {
    let (beginning, understood, routed) = (&underway.beginning, &underway.understood, &underway.routed);
    let asked = Asked {
        api: understood.api.to_owned(),
        model: underway.model.name(),
        prompt_tokens: understood.prompt_tokens,
        estimated: understood.estimated,
        blocks: routed.ask.blocks,
        block_size: understood.block_size,
        body_bytes: beginning.body_bytes as u64,
        stream: understood.stream,
        objective: beginning.said.objective.clone(),
        fairness_id: beginning.said.fairness_id.clone(),
        session: beginning.said.session.as_deref().map(hashed),
        rewritten_from: understood.renamed.as_ref().map(|renamed| underway.label_of(&renamed.asked)),
    };
    let choice = Choice {
        view: &beginning.view,
        candidates: &routed.candidates,
        decision: &routed.decision,
        named: routed.destinations.len(),
        predicted_cached_tokens: underway.predicted,
        at: beginning.at,
        took: beginning.decided_in,
        holdout: beginning.arm == Arm::Holdout,
    };
    Record::new(beginning.request_id.as_str(), asked, &choice)
}

/// The same for equal sessions, in every picker of this build; no session can be read from it.
fn hashed(session: &str) -> String {
    let mut hasher = DefaultHasher::new();
    session.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn outcome(underway: &Underway) -> Outcome {
    let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    let usage = underway.usage().unwrap_or_default();
    Outcome {
        status: underway.status.map(u32::from),
        served: underway.served.map(|address| address.to_string()),
        ttft_ms: underway.first_content.map(milliseconds),
        took_ms: milliseconds(underway.took()),
        prompt_tokens: usage.prompt_tokens,
        cached_tokens: usage.cached_tokens,
        completion_tokens: usage.completion_tokens,
        ended: if underway.complete { Ended::Complete } else { Ended::Cancelled },
        attempts: underway.attempts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::wire::tests::full;

    #[test]
    fn a_share_is_logged_and_whatever_had_trouble_always() {
        let quiet = Record { notes: vec!["estimated".to_owned()], ..full() };
        let check = |logged: Logged, record: &Record, thrown: f64, expected: bool| {
            assert_eq!(logged.wants(record, thrown), expected, "{logged:?} {thrown}");
        };
        check(Logged::share(1.0), &quiet, 0.999, true);
        check(Logged::share(0.5), &quiet, 0.499, true);
        check(Logged::share(0.5), &quiet, 0.5, false);
        check(Logged::share(0.0), &quiet, 0.0, false);
        check(Logged::share(0.0), &full(), 0.999, true);
        let mut failed = quiet.clone();
        failed.outcome.as_mut().expect("it has ended").ended = Ended::Cancelled;
        check(Logged::share(0.0), &failed, 0.999, true);
        check(Logged::NONE, &failed, 0.0, false);
    }
}
