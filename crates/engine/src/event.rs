//! What the scraper reports: for counting every time, for the log seldom.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fleet::{Endpoint, Read};

/// Something that happened at an endpoint while it was read.
#[derive(Clone, Debug)]
pub enum Event {
    /// A reading succeeded and is in the fleet.
    Read {
        /// The endpoint, as it was when the reading began.
        endpoint: Arc<Endpoint>,
        /// From asking to having read the whole page.
        took: Duration,
        /// What it changed: `restarted` means that nothing is left in the engine's cache.
        read: Read,
        /// Whether it is worth a line in the log: a recovery or a restart, two lines a minute and endpoint at most.
        say: bool,
    },
    /// A reading failed; the endpoint keeps its last good reading and is set aside.
    Failed {
        /// The endpoint, as it was when the reading began.
        endpoint: Arc<Endpoint>,
        /// From asking to failing.
        took: Duration,
        /// Why.
        reason: Reason,
        /// Whether it is the first failure in a row.
        first: bool,
        /// Whether it is worth a line in the log: a first failure, two lines a minute and endpoint at most.
        say: bool,
    },
    /// Readings succeed, but something about them limits what can be done. Once an endpoint and kind.
    Warning {
        /// The endpoint.
        endpoint: Arc<Endpoint>,
        /// What it is.
        trouble: Trouble,
    },
}

impl Event {
    /// Prints the event to the log, if it is worth a line.
    pub fn log(&self) {
        match self {
            Event::Read { endpoint, read, say: true, .. } if read.restarted => {
                tracing::warn!(endpoint = %endpoint.member.name, address = %endpoint.member.address,
                    "the engine restarted: its cache is taken as empty");
            }
            Event::Read { endpoint, say: true, .. } => {
                tracing::info!(endpoint = %endpoint.member.name, address = %endpoint.member.address,
                    "the engine's metrics are read");
            }
            Event::Failed { endpoint, reason, say: true, .. } => {
                tracing::warn!(endpoint = %endpoint.member.name, address = %endpoint.member.address,
                    reason = reason.as_str(), "the engine's metrics can't be read, it is set aside: {reason}");
            }
            Event::Warning { endpoint, trouble } => {
                tracing::warn!(endpoint = %endpoint.member.name, address = %endpoint.member.address,
                    kind = trouble.as_str(), "{trouble}");
            }
            Event::Read { .. } | Event::Failed { .. } => {}
        }
    }
}

/// Why a reading failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No connection: refused, reset, no route, a TLS handshake that failed.
    Connect(String),
    /// It didn't answer, or not to the end, in time.
    Timeout,
    /// It answered with that status, which isn't 200.
    Status(u16),
    /// It sent us elsewhere; redirects aren't followed.
    Redirect(String),
    /// It compressed its answer, though nobody asked for that.
    Compressed(String),
    /// The page is larger than is read.
    TooLarge,
    /// The connection broke in the middle.
    Broken(String),
    /// The page has no metrics of this engine: something else answers there, or the engine type is wrong.
    NotMetrics {
        /// The dialect that was expected.
        dialect: String,
    },
}

impl Reason {
    /// The kind, as a metric's label.
    pub fn as_str(&self) -> &'static str {
        match self {
            Reason::Connect(_) => "connect",
            Reason::Timeout => "timeout",
            Reason::Status(_) => "status",
            Reason::Redirect(_) => "redirect",
            Reason::Compressed(_) => "compressed",
            Reason::TooLarge => "too_large",
            Reason::Broken(_) => "broken",
            Reason::NotMetrics { .. } => "not_metrics",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Connect(why) => write!(f, "no connection: {why}"),
            Reason::Timeout => f.write_str("no whole answer in time"),
            Reason::Status(code) => write!(f, "it answered {code}"),
            Reason::Redirect(to) => write!(f, "it redirects to {to:?}, which isn't followed"),
            Reason::Compressed(how) => write!(f, "it answered in {how:?}, unasked"),
            Reason::TooLarge => f.write_str("the page is too large"),
            Reason::Broken(why) => write!(f, "the connection broke: {why}"),
            Reason::NotMetrics { dialect } => {
                write!(f, "the page has no metrics of {dialect}: is the engine type right?")
            }
        }
    }
}

/// What limits the use of readings that succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// The page has waiting or running requests, but no KV use.
    NoKvUsage,
    /// The engine doesn't reuse prefixes, so no cache is believed there.
    PrefixCachingOff,
}

impl Trouble {
    /// The kind, as a metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Trouble::NoKvUsage => "no_kv_usage",
            Trouble::PrefixCachingOff => "prefix_caching_off",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trouble::NoKvUsage => "the engine's metrics don't say how full its KV cache is: it is scored without that",
            Trouble::PrefixCachingOff => {
                "the engine has prefix caching switched off: nothing is sent there for its cache"
            }
        })
    }
}
