//! The table for a terminal. In: an experiment; out: text, the same for the same figures.

use std::fmt::Write;

use super::stats::Interval;
use super::{Compared, Experiment, Measured};

/// All plans, one table each.
pub(super) fn render(experiment: &Experiment) -> String {
    let setup = &experiment.setup;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} engines, {}, {} tokens of KV cache each in blocks of {}; seeds {}; good: TTFT up to {} ms and ITL up to {} ms\n",
        setup.engines,
        setup.profile,
        setup.kv_tokens,
        setup.block_size,
        seeds(&setup.seeds),
        setup.slo.ttft_ms,
        setup.slo.itl_ms
    );
    for plan in &experiment.plans {
        plan_table(&mut text, plan, setup.seeds.len());
    }
    text
}

fn seeds(seeds: &[u64]) -> String {
    match seeds {
        [] => String::new(),
        [only] => only.to_string(),
        [first, .., last] => format!("{first} to {last}"),
    }
}

fn plan_table(text: &mut String, plan: &Compared, repeats: usize) {
    let [without, with] = plan.capacity;
    let _ = writeln!(
        text,
        "{}: {}.\n{} requests a repeat, {repeats} repeats, the first {:.0}% not counted; capacity {without:.1} requests a second \
         without reuse, {with:.1} with all.\n",
        plan.name,
        plan.words,
        plan.requests,
        100.0 * plan.warm_up,
    );
    let _ = writeln!(
        text,
        "{:<18} {:>7} {:>9} {:>8} {:>8} {:>17} {:>7} {:>8} {:>8} {:>8} {:>8} {:>7}",
        "policy",
        "reuse %",
        "believed",
        "TTFT p50",
        "TTFT p95",
        "(95% interval)",
        "ITL p95",
        "e2e p95",
        "tokens/s",
        "good/s",
        "busiest%",
        "errors"
    );
    for measured in &plan.policies {
        row(text, measured);
    }
    let _ = writeln!(
        text,
        "{:<18} {:>7.1} {:>9} {:>8.0}",
        "(bounds)", plan.infinite_percent.value, "", plan.floor_p50_ms.value
    );
    if plan.policies.iter().any(|measured| measured.median.back_after_s.is_some()) {
        let _ = writeln!(text, "\nSeconds after the last incident until reuse was back:");
        for measured in &plan.policies {
            if let Some(Interval { value, low, high }) = measured.median.back_after_s {
                let _ = writeln!(text, "{:<18} {value:>5.0} ({low:.0} to {high:.0})", measured.policy);
            }
        }
    }
    text.push('\n');
    if repeats < super::verdict::REPEATS {
        let _ =
            writeln!(text, "Fewer than {} repeats show no difference, whatever they measure:", super::verdict::REPEATS);
    }
    for verdict in &plan.verdicts {
        let _ = writeln!(text, "{} against {}: {}", verdict.of, verdict.against, verdict.words);
    }
    text.push('\n');
}

fn row(text: &mut String, measured: &Measured) {
    let median = &measured.median;
    let believed = median.believed_percent.map_or("-".to_owned(), |believed| format!("{:.1}", believed.value));
    let Interval { value: p95, low, high } = median.ttft_p95_ms;
    let _ = writeln!(
        text,
        "{:<18} {:>7.1} {:>9} {:>8.0} {:>8.0} {:>17} {:>7.0} {:>8.0} {:>8.0} {:>8.2} {:>8.1} {:>7.0}",
        measured.policy,
        median.reuse_percent.value,
        believed,
        median.ttft_p50_ms.value,
        p95,
        format!("{low:.0} to {high:.0}"),
        median.itl_p95_ms.value,
        median.total_p95_ms.value,
        median.output_tokens_a_second.value,
        median.goodput.value,
        median.busiest_percent.value,
        median.errors.value,
    );
}
