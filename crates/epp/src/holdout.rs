//! A share of the requests is picked for by a plain baseline, so that it is seen on the traffic itself what picking is worth.
//!
//! In: the operator's share and baseline, and a throw for each request. Out: the [`Arm`] that it is in, and the policy of that arm.
//! Both arms share the engines, so that the baseline finds caches that the picker has filled, and fills them by the way: what is seen
//! is what picking is worth for one more request, not what a fleet without a picker would do.

use config::{Baseline, Config};
use pick::{Policy, Scorer};

/// By what a request was picked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// The policy.
    Picked,
    /// The baseline.
    Holdout,
}

impl Arm {
    /// Its name, a label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Arm::Picked => "picked",
            Arm::Holdout => "holdout",
        }
    }
}

/// The share, and how it is picked for.
#[derive(Clone, Debug)]
pub(crate) struct Holdout {
    share: f64,
    policy: Policy,
}

impl Holdout {
    /// As the operator has it; none by default.
    pub(crate) fn of(config: &Config) -> Option<Self> {
        let holdout = config.holdout.as_ref()?;
        let scorers = match holdout.baseline {
            // All endpoints are equal then, and one of the equals is drawn.
            Baseline::Random => Vec::new(),
            Baseline::Load => {
                let of_load = |scorer: Scorer| !matches!(scorer, Scorer::Prefix | Scorer::Spare);
                config.policy.scorers.iter().filter(|weighted| of_load(weighted.scorer)).copied().collect()
            }
        };
        Some(Self { share: holdout.share, policy: Policy { scorers, ..config.policy.clone() } })
    }

    /// The arm of a request, by a throw of 0 up to, but not including, 1.
    pub(crate) fn arm(&self, thrown: f64) -> Arm {
        if thrown < self.share { Arm::Holdout } else { Arm::Picked }
    }

    /// The baseline.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holdout(typed: &str) -> Option<Holdout> {
        let text = format!("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nwarmpath: {{{typed}}}\n");
        Holdout::of(&Config::read(&text).expect("a config"))
    }

    #[test]
    fn the_share_is_held_out_and_the_baseline_knows_no_prefix() {
        assert!(holdout("").is_none());
        let random = holdout("holdout: {share: 0.02}").expect("a holdout");
        assert_eq!(
            [0.0, 0.0199, 0.02, 0.99].map(|thrown| random.arm(thrown)),
            [Arm::Holdout, Arm::Holdout, Arm::Picked, Arm::Picked]
        );
        assert!(random.policy().scorers.is_empty());
        let load = holdout("holdout: {share: 1, baseline: load}").expect("a holdout");
        let scorers: Vec<Scorer> = load.policy().scorers.iter().map(|weighted| weighted.scorer).collect();
        assert_eq!(scorers, [Scorer::Waiting, Scorer::KvUsage]);
    }
}
