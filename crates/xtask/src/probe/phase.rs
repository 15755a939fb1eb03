//! The phases: in, a picker; out, for each what the small requests took while it lasted and what the picker says of itself
//! afterwards. The first is quiet; then the heavy kinds come in.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use super::Settings;
use super::bodies::Heavy;
use super::gateway::Mode;
use super::load::{self, Taken};
use super::site::{Page, Site, label};

/// What one phase showed.
pub(crate) struct Phase {
    /// What came in beside the small requests.
    pub(crate) name: &'static str,
    /// The small requests.
    pub(crate) small: Taken,
    /// The heavy ones.
    pub(crate) heavy: Vec<(Heavy, Taken)>,
    /// How long polls held a thread.
    pub(crate) polls: Polls,
    /// Picks that knew less than they should, by reason.
    pub(crate) degraded: BTreeMap<String, u64>,
    /// The most memory resident at a time, in megabytes.
    pub(crate) peak_mb: f64,
}

/// Of all polls of a phase, by the CPU's clock and by the wall's.
pub(crate) struct Polls {
    /// How many.
    pub(crate) count: u64,
    /// The longest, and whose.
    pub(crate) longest_cpu: (Duration, String),
    /// The same by the wall's clock.
    pub(crate) longest_wall: (Duration, String),
    /// How many took over a millisecond of CPU.
    pub(crate) long_cpu: u64,
    /// How many took over a millisecond.
    pub(crate) long_wall: u64,
}

const PHASES: [(&str, Option<Mode>); 3] =
    [("quiet", None), ("heavy, streamed", Some(Mode::Streamed)), ("heavy, buffered", Some(Mode::Buffered))];

/// Numbers of one phase's requests: more than a phase has.
const APART: u64 = 1 << 32;

/// All of them, after some requests that aren't counted.
pub(crate) fn all(settings: &Settings, site: &Site) -> Result<Vec<Phase>> {
    load::small(site.port, settings.rate, Duration::from_secs(2), 0)?;
    let mut phases = Vec::new();
    for ((name, mode), number) in PHASES.into_iter().zip(1..) {
        println!("{name}: {} s", settings.seconds);
        phases.push(one(settings, site, name, mode, number * APART)?);
    }
    Ok(phases)
}

fn one(settings: &Settings, site: &Site, name: &'static str, mode: Option<Mode>, first: u64) -> Result<Phase> {
    site.forget_peak()?;
    let before = site.page()?;
    let span = Duration::from_secs(settings.seconds);
    let every = Duration::from_millis(settings.heavy_every_ms);
    let (small, heavy) = thread::scope(|scope| {
        let heavy =
            scope.spawn(|| mode.map_or(Ok(Vec::new()), |mode| load::heavy(site.port, mode, every, span, first)));
        let small = load::small(site.port, settings.rate, span, first);
        (small, heavy.join())
    });
    let heavy = heavy.map_err(|_| anyhow!("sending heavy requests failed"))??;
    let after = site.page()?;
    let degraded = by_reason(&after).into_iter().map(|(reason, count)| {
        let earlier = by_reason(&before).get(&reason).copied().unwrap_or(0);
        (reason, count - earlier)
    });
    Ok(Phase {
        name,
        small: small?,
        heavy,
        polls: polls(&before, &after),
        degraded: degraded.filter(|(_, count)| *count > 0).collect(),
        peak_mb: site.peak_mb()?,
    })
}

fn polls(before: &Page, after: &Page) -> Polls {
    let grown = |name: &str, labels: &[&str]| (after.sum(name, labels) - before.sum(name, labels)) as u64;
    let longest = |clock: &str| {
        let of_clock = after.series("warmpath_longest_poll_seconds").filter(|(labels, _)| labels.contains(clock));
        let (labels, seconds) = of_clock.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
        (Duration::from_secs_f64(seconds), label(labels, "task").unwrap_or_default().to_owned())
    };
    Polls {
        count: grown("warmpath_polls_total", &[]),
        longest_cpu: longest("clock=\"cpu\""),
        longest_wall: longest("clock=\"wall\""),
        long_cpu: grown("warmpath_long_polls_total", &["clock=\"cpu\""]),
        long_wall: grown("warmpath_long_polls_total", &["clock=\"wall\""]),
    }
}

fn by_reason(page: &Page) -> BTreeMap<String, u64> {
    let series = page.series("warmpath_degraded_picks_total");
    series.filter_map(|(labels, count)| Some((label(labels, "reason")?.to_owned(), count as u64))).collect()
}

/// An error that names the first of those that failed.
pub(crate) fn must_have_answered_all(phases: &[Phase]) -> Result<()> {
    let taken = phases.iter().flat_map(|phase| phase.heavy.iter().map(|(_, taken)| taken).chain([&phase.small]));
    let errors: Vec<&String> = taken.flat_map(|taken| &taken.errors).collect();
    match errors.first() {
        None => Ok(()),
        Some(first) => bail!("{} requests failed; the first: {first}", errors.len()),
    }
}
