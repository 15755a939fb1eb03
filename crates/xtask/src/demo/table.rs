//! The demo's result as text for people and as JSON for machines. In: rows; out: text. It measures nothing.

use std::fmt::Write as _;
use std::thread;

use serde_json::{Map, Value, json};

use super::trial::{Row, Trial};
use super::{Policy, Settings, Workload};

/// Tokens in a block of the engines' caches (vLLM's default).
const BLOCK: u32 = 16;

/// One run in one line.
pub(crate) fn line(trial: &Trial) -> String {
    format!(
        "{} requests, {} errors, {:.1}% reused, TTFT p50 {:.0} ms, p95 {:.0} ms",
        trial.requests, trial.errors, trial.reused_percent, trial.ttft_p50_ms, trial.ttft_p95_ms
    )
}

/// The table, what was measured and with which sizes, and the ratios.
pub(crate) fn render(settings: &Settings, rows: &[Row]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<8}  {:<11}  {:>8}  {:>9}  {:>9}  {:>10}  {:>6}  requests by endpoint",
        "workload", "policy", "reused %", "TTFT p50", "TTFT p95", "output t/s", "errors"
    );
    for row in rows {
        let _ = writeln!(out, "{}", figures(row));
        if row.draws.len() > 1 {
            let _ = writeln!(out, "{}", ranges(row));
        }
    }
    let _ = writeln!(
        out,
        "\nTTFT in ms, at the client's first content chunk; reused: prompt tokens that the engines say they took from cache (usage)."
    );
    for workload in [Workload::A, Workload::B] {
        if rows.iter().any(|row| row.workload == workload) {
            let _ = writeln!(out, "{}", sizes(settings, workload));
        }
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let _ = writeln!(
        out,
        "All of it on this machine's {cores} cores: engines (their step times are modelled), Envoy, picker and client."
    );
    for ratio in ratios(rows) {
        let _ = write!(out, "\n{ratio}");
    }
    out
}

fn figures(row: &Row) -> String {
    let trial = &row.median;
    let shares: Vec<String> = trial.by_engine.values().map(u64::to_string).collect();
    format!(
        "{:<8}  {:<11}  {:>8.1}  {:>9.0}  {:>9.0}  {:>10.0}  {:>6}  {}",
        row.workload.name().to_uppercase(),
        row.policy.name(),
        trial.reused_percent,
        trial.ttft_p50_ms,
        trial.ttft_p95_ms,
        trial.output_tokens_per_s,
        row.errors(),
        shares.join(" ")
    )
}

/// From the lowest to the highest draw, under the figures of the median one.
fn ranges(row: &Row) -> String {
    let range = |digits: usize, figure: fn(&Trial) -> f64| {
        let figures = row.draws.iter().map(figure);
        let (low, high) = figures.fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
        format!("{low:.digits$}-{high:.digits$}")
    };
    let range_line = format!(
        "{:<8}  {:<11}  {:>8}  {:>9}  {:>9}  {:>10}  {:>6}  range of {} draws; above: the one with the median p95, keys {}",
        "",
        "",
        range(0, |trial| trial.reused_percent),
        range(0, |trial| trial.ttft_p50_ms),
        range(0, |trial| trial.ttft_p95_ms),
        range(0, |trial| trial.output_tokens_per_s),
        "",
        row.draws.len(),
        row.median.keys
    );
    range_line
}

fn sizes(settings: &Settings, workload: Workload) -> String {
    match workload {
        Workload::A => format!(
            "A: {} requests, {}/s, each one of {} shared instructions of {} tokens and a question of its own; a session key a user ({}); \
             {} engines, each with a cache of {} tokens.",
            settings.requests,
            settings.rate,
            settings.instructions,
            settings.instruction_tokens,
            settings.users,
            settings.engines,
            settings.blocks_a * BLOCK,
        ),
        Workload::B => format!(
            "B: {} dialogs of {} turns of {} tokens over an opening of {}, think time {} ms, a random session key a dialog (seeds {}); \
             {} engines, each with a cache of {} tokens.",
            settings.dialogs,
            settings.turns,
            settings.turn_tokens,
            settings.opening_tokens,
            settings.think_ms,
            settings.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
            settings.engines,
            settings.blocks_b * BLOCK,
        ),
    }
}

/// Warmpath beside each of the others, as ratios of this run.
fn ratios(rows: &[Row]) -> Vec<String> {
    let ours = rows.iter().filter(|row| row.policy == Policy::Warmpath);
    let beside = |ours: &Row| -> Vec<String> {
        let others = rows.iter().filter(|row| row.workload == ours.workload && row.policy != Policy::Warmpath);
        let ratio = |other: &Row| {
            format!(
                "{}: warmpath reuses {:.1} times what {} does; TTFT p50 {}, p95 {}",
                ours.workload.name().to_uppercase(),
                ours.median.reused_percent / other.median.reused_percent.max(f64::MIN_POSITIVE),
                other.policy.name(),
                change(ours.median.ttft_p50_ms, other.median.ttft_p50_ms),
                change(ours.median.ttft_p95_ms, other.median.ttft_p95_ms),
            )
        };
        others.map(ratio).collect()
    };
    ours.flat_map(beside).collect()
}

fn change(ours: f64, other: f64) -> String {
    let percent = (ours / other - 1.0) * 100.0;
    if percent <= 0.0 { format!("{:.0}% lower", -percent) } else { format!("{percent:.0}% higher") }
}

/// The rows for machines. Of several draws a row gives the one whose TTFT p95 is the median, and `errors` of all of them.
pub(crate) fn json(settings: &Settings, rows: &[Row]) -> Value {
    json!({
        "rows": rows.iter().map(row_json).collect::<Vec<_>>(),
        "settings": {
            "engines": settings.engines,
            "block_tokens": BLOCK,
            "blocks_a": settings.blocks_a,
            "blocks_b": settings.blocks_b,
            "requests": settings.requests,
            "rate": settings.rate,
            "instructions": settings.instructions,
            "instruction_tokens": settings.instruction_tokens,
            "users": settings.users,
            "dialogs": settings.dialogs,
            "dialog_rate": settings.dialog_rate,
            "turns": settings.turns,
            "opening_tokens": settings.opening_tokens,
            "turn_tokens": settings.turn_tokens,
            "think_ms": settings.think_ms,
            "output_tokens": settings.output_tokens,
            "seeds": settings.seeds,
            "release": settings.release,
        },
    })
}

fn row_json(row: &Row) -> Value {
    let mut object = trial_json(&row.median);
    object.insert("errors".to_owned(), row.errors().into());
    let mut named = Map::new();
    named.insert("workload".to_owned(), row.workload.name().into());
    named.insert("policy".to_owned(), row.policy.name().into());
    named.append(&mut object);
    named.insert("draws".to_owned(), row.draws.iter().map(|trial| Value::Object(trial_json(trial))).collect());
    Value::Object(named)
}

fn trial_json(trial: &Trial) -> Map<String, Value> {
    let answered: u64 = trial.by_engine.values().sum();
    let share = |count: u64| count as f64 / answered.max(1) as f64;
    let shares: Map<String, Value> =
        trial.by_engine.iter().map(|(name, count)| (name.clone(), share(*count).into())).collect();
    let mut object = Map::new();
    object.insert("requests".to_owned(), trial.requests.into());
    object.insert("errors".to_owned(), trial.errors.into());
    object.insert("reused_percent".to_owned(), trial.reused_percent.into());
    object.insert("ttft_p50_ms".to_owned(), trial.ttft_p50_ms.into());
    object.insert("ttft_p95_ms".to_owned(), trial.ttft_p95_ms.into());
    object.insert("output_tokens_per_s".to_owned(), trial.output_tokens_per_s.into());
    object.insert("share_by_endpoint".to_owned(), Value::Object(shares));
    object.insert("keys_seed".to_owned(), trial.keys.into());
    object
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::trial::{Row, Trial};
    use super::super::{Policy, Workload};
    use super::{ratios, row_json};

    fn trial(keys: u64, reused_percent: f64, ttft_p95_ms: f64) -> Trial {
        let by_engine = BTreeMap::from([("a".to_owned(), 3), ("b".to_owned(), 1)]);
        Trial {
            keys,
            requests: 4,
            errors: keys % 2,
            reused_percent,
            ttft_p50_ms: ttft_p95_ms / 2.0,
            ttft_p95_ms,
            output_tokens_per_s: 10.0,
            by_engine,
        }
    }

    #[test]
    fn a_row_is_its_median_draw_with_the_errors_of_all() {
        let row =
            Row::of(Workload::B, Policy::RingHash, vec![trial(1, 1.0, 30.0), trial(2, 2.0, 10.0), trial(3, 3.0, 20.0)]);
        let json = row_json(&row);
        assert_eq!(json["ttft_p95_ms"], 20.0);
        assert_eq!(json["errors"], 2);
        assert_eq!(json["share_by_endpoint"]["a"], 0.75);
        assert_eq!(json["draws"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn ratios_set_warmpath_beside_the_others_of_its_workload() {
        let rows = [
            Row::of(Workload::A, Policy::RoundRobin, vec![trial(2, 30.0, 200.0)]),
            Row::of(Workload::A, Policy::Warmpath, vec![trial(2, 90.0, 50.0)]),
        ];
        assert_eq!(
            ratios(&rows),
            ["A: warmpath reuses 3.0 times what round_robin does; TTFT p50 75% lower, p95 75% lower"]
        );
    }
}
