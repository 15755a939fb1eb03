//! Families about what picking is worth: requests of both arms of a holdout side by side, and those that were not steered, where they
//! went beside where they would have gone. There are none without a holdout or a shadow.
//!
//! Sums of squares stand beside sums, so that a query can say how sure the difference of two means is.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::registrar::{Made, Registrar};
use super::{picks, requests};
use crate::holdout::Arm;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServedLabels {
    served: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AtLabels {
    at: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ArmLabels {
    arm: &'static str,
}

type Sum = Counter<f64, AtomicU64>;

/// The families.
#[derive(Debug)]
pub(crate) struct WorthMetrics {
    requests: Made<ArmLabels, Counter>,
    ttft: Made<ArmLabels, Histogram>,
    ttft_squares: Made<ArmLabels, Sum>,
    reuse: Made<ArmLabels, Histogram>,
    reuse_squares: Made<ArmLabels, Sum>,
    shadowed: Made<ServedLabels, Counter>,
    shadow_tokens: Made<AtLabels, Counter>,
}

impl WorthMetrics {
    pub(super) fn register(families: &mut Registrar<'_>) -> Self {
        Self {
            requests: families.family(
                "warmpath_arm_requests",
                "Requests by what picked for them, with a holdout: `picked` by the policy, `holdout` by the baseline",
            ),
            ttft: families.made(
                requests::ttft,
                "warmpath_arm_ttft_seconds",
                "Time from a request's last byte to its answer's first content, by arm, in seconds",
            ),
            ttft_squares: families.family(
                "warmpath_arm_ttft_squared_seconds",
                "Sum of the squares of those times, for the interval of their mean, in square seconds",
            ),
            reuse: families.made(
                picks::share,
                "warmpath_arm_reuse",
                "Share of a request's prompt tokens that the engine says it reused, by arm, 0 to 1",
            ),
            reuse_squares: families.family(
                "warmpath_arm_reuse_squared",
                "Sum of the squares of those shares, for the interval of their mean",
            ),
            shadowed: families.family(
                "warmpath_shadow_requests",
                "Requests that were decided on and not steered, by where the gateway sent them: `as_picked`, `elsewhere`, `untold`",
            ),
            shadow_tokens: families.family(
                "warmpath_shadow_predicted_cached_tokens",
                "Prompt tokens foretold as reused, of requests that were not steered: at the endpoint `picked`, and where they were `served`",
            ),
        }
    }

    /// A request of that arm has been picked for.
    pub(crate) fn picked(&self, arm: Arm) {
        self.requests.get_or_create(&labels(arm)).inc();
    }

    /// A request was not steered, and went there; what was foretold as reused where it would have gone and where it went.
    pub(crate) fn shadowed(&self, served: &'static str, foretold: Option<(u64, u64)>) {
        self.shadowed.get_or_create(&ServedLabels { served }).inc();
        if let Some((picked, served)) = foretold {
            self.shadow_tokens.get_or_create(&AtLabels { at: "picked" }).inc_by(picked);
            self.shadow_tokens.get_or_create(&AtLabels { at: "served" }).inc_by(served);
        }
    }

    /// Its answer ended well: when its first content came, and what share of its prompt was reused, as far as that is known.
    pub(crate) fn answered(&self, arm: Arm, ttft: Option<Duration>, reuse: Option<f64>) {
        let labels = labels(arm);
        if let Some(seconds) = ttft.map(|ttft| ttft.as_secs_f64()) {
            self.ttft.get_or_create(&labels).observe(seconds);
            self.ttft_squares.get_or_create(&labels).inc_by(seconds * seconds);
        }
        if let Some(share) = reuse {
            self.reuse.get_or_create(&labels).observe(share);
            self.reuse_squares.get_or_create(&labels).inc_by(share * share);
        }
    }
}

fn labels(arm: Arm) -> ArmLabels {
    ArmLabels { arm: arm.as_str() }
}
