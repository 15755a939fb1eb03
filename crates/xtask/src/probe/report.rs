//! What the phases showed, for people and for machines. In: phases; out: a table, or JSON of the same.

use std::time::Duration;

use serde_json::{Value, json};

use super::Settings;
use super::load::Taken;
use super::phase::Phase;

/// A column a phase.
pub(crate) fn render(settings: &Settings, phases: &[Phase]) -> String {
    let mut text = row("", phases, |phase| phase.name.to_owned());
    text += &row("small requests", phases, |phase| phase.small.times.len().to_string());
    for (name, share) in QUANTILES {
        text += &row(&format!("  {name}, ms"), phases, |phase| quantile(&phase.small, share));
    }
    for (at, (kind, _)) in
        phases.iter().map(|phase| &phase.heavy).max_by_key(|heavy| heavy.len()).into_iter().flatten().enumerate()
    {
        text += &row(&format!("{}, p50 ms (count)", kind.name()), phases, |phase| match phase.heavy.get(at) {
            Some((_, taken)) => format!("{} ({})", quantile(taken, 0.5), taken.times.len()),
            None => "-".to_owned(),
        });
    }
    text += &row("polls", phases, |phase| phase.polls.count.to_string());
    text += &row("  longest, ms of CPU", phases, |phase| milliseconds(phase.polls.longest_cpu.0));
    text += &row("  over 1 ms of CPU", phases, |phase| phase.polls.long_cpu.to_string());
    text += &row("  longest, ms by the wall", phases, |phase| milliseconds(phase.polls.longest_wall.0));
    text += &row("  over 1 ms by the wall", phases, |phase| phase.polls.long_wall.to_string());
    text += &row("peak memory, MB", phases, |phase| format!("{:.0}", phase.peak_mb));
    text += "\n";
    for phase in phases {
        let (polls, name) = (&phase.polls, phase.name);
        text += &format!(
            "{name}: longest poll by CPU is of {}, by the wall of {}",
            polls.longest_cpu.1, polls.longest_wall.1
        );
        for (reason, count) in &phase.degraded {
            text += &format!("; {count} picks {reason}");
        }
        text += "\n";
    }
    text += &format!(
        "\nSmall requests: 2 KB, {} a second, from when they are due to the last answer about them. Client, picker and the\n\
         machine's other work share the cores: the wall's clock counts what they had of them, the CPU's does not.\n",
        settings.rate
    );
    text
}

/// The same for machines; times in milliseconds.
pub(crate) fn json(settings: &Settings, phases: &[Phase]) -> Value {
    let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    let taken = |taken: &Taken| {
        json!({
            "requests": taken.times.len(), "errors": taken.errors.len(), "p50_ms": ms(taken.quantile(0.5)),
            "p99_ms": ms(taken.quantile(0.99)), "max_ms": ms(taken.quantile(1.0)),
        })
    };
    let phase = |phase: &Phase| {
        let heavy = phase.heavy.iter().map(|(kind, times)| (kind.name().to_owned(), taken(times)));
        let polls = &phase.polls;
        json!({
            "name": phase.name, "small": taken(&phase.small), "heavy": heavy.collect::<serde_json::Map<_, _>>(),
            "polls": polls.count, "longest_poll_cpu_ms": ms(Some(polls.longest_cpu.0)), "longest_poll_cpu_task": polls.longest_cpu.1,
            "longest_poll_wall_ms": ms(Some(polls.longest_wall.0)), "longest_poll_wall_task": polls.longest_wall.1,
            "polls_over_1ms_cpu": polls.long_cpu, "polls_over_1ms_wall": polls.long_wall,
            "degraded": phase.degraded, "peak_mb": phase.peak_mb,
        })
    };
    json!({
        "rate": settings.rate, "seconds": settings.seconds, "release": settings.release,
        "phases": phases.iter().map(phase).collect::<Vec<_>>(),
    })
}

const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];

fn row(name: &str, phases: &[Phase], cell: impl Fn(&Phase) -> String) -> String {
    let cells: String = phases.iter().map(|phase| format!("{:>18}", cell(phase))).collect();
    format!("{name:<36}{cells}\n")
}

fn quantile(taken: &Taken, share: f64) -> String {
    taken.quantile(share).map_or_else(|| "-".to_owned(), milliseconds)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}
