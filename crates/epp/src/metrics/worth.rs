//! Families about what picking is worth: requests of both arms of a holdout, side by side. There are none without a holdout.
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
        }
    }

    /// A request of that arm has been picked for.
    pub(crate) fn picked(&self, arm: Arm) {
        self.requests.get_or_create(&labels(arm)).inc();
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
