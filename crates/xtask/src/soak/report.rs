//! The soak's result. In: all courses, what was done, and the servers' own counts; out: a text, JSON, and the faults
//! that make the run fail.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::asks::{HangUp, Kind};
use super::client::{End, Told};
use super::judge::{Loss, Spell, Trouble, Verdict, What, judge};
use super::site::{Logged, Picture};
use super::storm::Storm;
use super::{Listener, Settings};

/// What a picker may grow by: the budget of its memo of encoded texts (64 MiB), and as much again for what the
/// allocator keeps of bodies that were under way at once; what its index says that it takes comes on top.
const MAY_GROW: u64 = 128 << 20;
/// Faults told in full.
const TOLD_IN_FULL: usize = 12;

/// Why the run fails.
pub(crate) struct Faults(pub(crate) Vec<String>);

/// What was left once the load had ended.
pub(crate) struct Ends {
    /// The picker.
    pub(crate) last: Picture,
    /// Requests that the engines have under way.
    pub(crate) running: f64,
    /// Envoy's counts.
    pub(crate) counts: Vec<(String, u64)>,
    /// Panics in the pickers' log.
    pub(crate) panics: usize,
}

/// The result.
pub(crate) struct Report {
    requests: usize,
    verdicts: BTreeMap<(Verdict, Listener), u64>,
    kinds: BTreeMap<Kind, u64>,
    hang_ups: BTreeMap<&'static str, u64>,
    deeds: BTreeMap<&'static str, u64>,
    /// Faults, one a line.
    told: Vec<String>,
    /// Of the last picker: ready, in the middle of its life, at the end of the load, and once nothing was under way.
    pictures: Vec<Picture>,
    /// Restarts of engines in the last picker's life.
    restarts: usize,
    engines_running: f64,
    envoy: Vec<(String, u64)>,
    panics: usize,
}

impl Report {
    /// Judges every request.
    pub(crate) fn of(told: Vec<Told>, storm: &Storm, logged: &BTreeMap<String, Logged>, ends: Ends) -> Self {
        let since = storm.spells.iter().rposition(|spell| matches!(spell.what, What::Killed | What::Ended));
        let last_life = &storm.spells[since.map_or(0, |at| at + 1)..];
        let is_restart = |spell: &&Spell| matches!(spell.what, What::EngineKilled { .. });
        let mut report = Self {
            requests: told.len(),
            verdicts: BTreeMap::new(),
            kinds: BTreeMap::new(),
            hang_ups: BTreeMap::new(),
            deeds: BTreeMap::new(),
            told: Vec::new(),
            pictures: storm.pictures.iter().cloned().chain([ends.last]).collect(),
            restarts: last_life.iter().filter(is_restart).count(),
            engines_running: ends.running,
            envoy: ends.counts,
            panics: ends.panics,
        };
        for spell in &storm.spells {
            *report.deeds.entry(deed(&spell.what)).or_default() += 1;
        }
        for told in &told {
            let logged = logged.get(&told.ask.id);
            let verdict = judge(told, logged.and_then(|logged| logged.engine.as_deref()), &storm.spells);
            *report.verdicts.entry((verdict, told.ask.listener)).or_default() += 1;
            *report.kinds.entry(told.ask.kind).or_default() += 1;
            if told.end == End::HungUp {
                *report.hang_ups.entry(hang_up(told)).or_default() += 1;
            }
            if matches!(verdict, Verdict::Lost | Verdict::Changed) {
                report.told.push(fault(told, verdict, logged, &storm.spells));
            }
        }
        report
    }

    /// Why the run fails; nothing where it doesn't.
    pub(crate) fn faults(&self) -> Faults {
        let mut faults = Vec::new();
        let mut unless = |is_well: bool, fault: String| {
            if !is_well {
                faults.push(fault);
            }
        };
        let (lost, changed) = (self.count(Verdict::Lost), self.count(Verdict::Changed));
        unless(lost == 0, format!("{lost} requests were lost"));
        unless(changed == 0, format!("{changed} requests or answers were changed"));
        let in_flight = self.pictures.last().map_or(0.0, |picture| picture.in_flight);
        unless(in_flight == 0.0, format!("the picker holds {in_flight} requests as under way that aren't"));
        let running = self.engines_running;
        unless(running == 0.0, format!("engines still have {running} requests that nobody waits for"));
        let (grown, may_grow) = self.growth();
        unless(grown <= may_grow, format!("the picker grew by {}, more than {}", mib(grown), mib(may_grow)));
        unless(self.panics == 0, format!("pickers panicked {} times", self.panics));
        let spurious = self.envoy_sum("spurious_msgs_received");
        unless(spurious == 0, format!("Envoy got {spurious} messages that it didn't expect"));
        Faults(faults)
    }

    /// As people read it.
    pub(crate) fn text(&self) -> String {
        let mut lines = Vec::new();
        let mut say = |line: String| lines.push(line);
        for fault in self.told.iter().take(TOLD_IN_FULL) {
            say(fault.clone());
        }
        if self.told.len() > TOLD_IN_FULL {
            say(format!("... and {} more", self.told.len() - TOLD_IN_FULL));
        }
        let list = |counts: &mut dyn Iterator<Item = (&'static str, u64)>| {
            counts
                .filter(|(_, count)| *count > 0)
                .map(|(name, count)| format!("{count} {name}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let kinds = list(&mut Kind::ALL.iter().map(|kind| (kind.name(), self.kinds.get(kind).copied().unwrap_or(0))));
        say(format!("{} requests: {kinds}", self.requests));
        say(format!("done to the others: {}", list(&mut self.deeds.iter().map(|(name, count)| (*name, *count)))));
        say(format!("{:<52}{:>10}{:>12}", "", "fail-open", "fail-closed"));
        for (verdict, name) in rows() {
            let at = |listener| self.verdicts.get(&(verdict, listener)).copied().unwrap_or(0);
            let (open, closed) = (at(Listener::Open), at(Listener::Closed));
            let is_told = open + closed > 0 || matches!(verdict, Verdict::Lost | Verdict::Changed);
            if is_told {
                say(format!("{name:<52}{open:>10}{closed:>12}"));
            }
        }
        say(format!("clients that left: {}", list(&mut self.hang_ups.iter().map(|(name, count)| (*name, *count)))));
        say(self.memory());
        let counts: Vec<String> = self.ext_proc().map(|(name, count)| format!("{name} {count}")).collect();
        say(format!("Envoy: {}", counts.join(", ")));
        lines.join("\n")
    }

    fn memory(&self) -> String {
        let [ready, middle, end, last] = &self.pictures[..] else { return "the picker was not looked at".to_owned() };
        let (grown, may_grow) = self.growth();
        format!(
            "in flight at the end: {} in the picker, {} in the engines; of {} restarts of engines the last picker noticed {}\n\
             the last picker's memory: {} when ready, {} in the middle of its life, {} at the end of the load, {} when idle: {} more \
             (may be {}: 64 MiB for the memo of encoded texts, 64 MiB for what the allocator keeps of bodies, and its index of {})",
            last.in_flight,
            self.engines_running,
            self.restarts,
            last.restarts_seen,
            mib(ready.rss_bytes),
            mib(middle.rss_bytes),
            mib(end.rss_bytes),
            mib(last.rss_bytes),
            mib(grown),
            mib(may_grow),
            mib(last.index_bytes as u64),
        )
    }

    /// For machines.
    pub(crate) fn json(&self, settings: &Settings) -> Value {
        let row = |(verdict, name): (Verdict, String)| {
            let at = |listener| self.verdicts.get(&(verdict, listener)).copied().unwrap_or(0);
            (name.trim().to_owned(), json!({"open": at(Listener::Open), "closed": at(Listener::Closed)}))
        };
        let picture = |picture: &Picture| {
            json!({"in_flight": picture.in_flight, "rss_bytes": picture.rss_bytes, "index_bytes": picture.index_bytes,
                "engine_restarts_seen": picture.restarts_seen})
        };
        let (grown, may_grow) = self.growth();
        json!({
            "seconds": settings.long().as_secs(),
            "seed": settings.seed,
            "clients": settings.clients,
            "engines": settings.engines,
            "requests": self.requests,
            "kinds": self.kinds.iter().map(|(kind, count)| (kind.name(), *count)).collect::<BTreeMap<_, _>>(),
            "done": self.deeds,
            "outcomes": rows().into_iter().map(row).collect::<serde_json::Map<_, _>>(),
            "hang_ups": self.hang_ups,
            "lost": self.count(Verdict::Lost),
            "changed": self.count(Verdict::Changed),
            "faults": self.told,
            "picker": self.pictures.iter().map(picture).collect::<Vec<_>>(),
            "picker_grew_bytes": grown,
            "picker_may_grow_bytes": may_grow,
            "panics": self.panics,
            "engine_restarts_in_last_pickers_life": self.restarts,
            "engines_running_at_end": self.engines_running,
            "envoy": self.envoy.iter().cloned().collect::<BTreeMap<_, _>>(),
            "passed": self.faults().0.is_empty(),
        })
    }

    fn count(&self, verdict: Verdict) -> u64 {
        self.verdicts.iter().filter(|((at, _), _)| *at == verdict).map(|(_, count)| count).sum()
    }

    /// By how much the last picker grew, and by how much it may.
    fn growth(&self) -> (u64, u64) {
        let (Some(first), Some(last)) = (self.pictures.first(), self.pictures.last()) else { return (0, MAY_GROW) };
        (last.rss_bytes.saturating_sub(first.rss_bytes), MAY_GROW + last.index_bytes as u64)
    }

    /// Envoy's counts of ext_proc by the listener's name: those that aren't zero, and those that should be.
    fn ext_proc(&self) -> impl Iterator<Item = (String, u64)> {
        let short = |(name, count): &(String, u64)| {
            let (at, metric) = name.strip_prefix("http.")?.split_once(".ext_proc.")?;
            let metric = metric.rsplit('.').next()?;
            (*count > 0 || metric == "spurious_msgs_received").then(|| (format!("{at} {metric}"), *count))
        };
        self.envoy.iter().filter_map(short)
    }

    fn envoy_sum(&self, metric: &str) -> u64 {
        self.envoy.iter().filter(|(name, _)| name.ends_with(metric)).map(|(_, count)| count).sum()
    }
}

/// The table's rows.
fn rows() -> Vec<(Verdict, String)> {
    let mut rows = vec![
        (Verdict::Served, "served, every byte".to_owned()),
        (Verdict::Refused, "refused with 413, being above the limit".to_owned()),
    ];
    rows.extend(Trouble::ALL.map(|trouble| (Verdict::ServedAcross(trouble), format!("served, {}", trouble.name()))));
    rows.push((Verdict::HungUp, "left by their clients".to_owned()));
    rows.extend(Loss::ALL.map(|loss| (Verdict::Excused(loss), format!("could not be saved: {}", loss.name()))));
    rows.push((Verdict::Lost, "LOST".to_owned()));
    rows.push((Verdict::Changed, "CHANGED".to_owned()));
    rows
}

fn deed(what: &What) -> &'static str {
    match what {
        What::Killed => "picker SIGKILL",
        What::Ended => "picker SIGTERM",
        What::Frozen => "picker SIGSTOP and SIGCONT",
        What::EngineKilled { .. } => "engine SIGKILL",
    }
}

fn hang_up(told: &Told) -> &'static str {
    match told.ask.hang_up {
        Some(HangUp::AfterHead) => "before the body",
        Some(HangUp::InBody(_)) => "during the body",
        Some(HangUp::Waiting(_)) => "while waiting",
        _ => "during the answer",
    }
}

fn fault(told: &Told, verdict: Verdict, logged: Option<&Logged>, spells: &[Spell]) -> String {
    let at =
        |moment: Option<std::time::Duration>| moment.map_or("-".to_owned(), |at| format!("{:.3}", at.as_secs_f64()));
    let near = spells.iter().filter(|spell| spell.from <= told.ended && told.began <= spell.to);
    let near: Vec<String> = near
        .map(|spell| format!("{:?} {:.3}-{:.3}", spell.what, spell.from.as_secs_f64(), spell.to.as_secs_f64()))
        .collect();
    let ask = &told.ask;
    format!(
        "{verdict:?}: {} {:?} {} stream={} hang_up={:?} began {} asked {} sent {} head {} ended {}: {:?} {:?}; Envoy: {}; meanwhile: [{}]",
        ask.id,
        ask.listener,
        ask.kind.name(),
        ask.stream,
        ask.hang_up,
        at(Some(told.began)),
        at(told.asked),
        at(told.sent),
        at(told.head),
        at(Some(told.ended)),
        told.end,
        told.answer,
        logged.map_or("-", |logged| &logged.words),
        near.join(", "),
    )
}

fn mib(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
}
