//! The decision's record as a line of the log.

use crate::underway::Underway;

/// Prints one request's decision and how it ended.
pub(crate) fn print(underway: &Underway) {
    tracing::info!(request_id = underway.beginning.request_id, "decision");
}
