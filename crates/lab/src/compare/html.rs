//! The page with plots. In: an experiment; out: one HTML file, without scripts and without anything from elsewhere, the same
//! for the same figures. Numbers that a plot shows stand in the table too, or under the pointer.

mod plots;

use std::fmt::Write;

use super::stats::Interval;
use super::{Compared, Experiment, Measured};

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --page: #ffffff; --mark: #0b63c5; --other: #8a6d00; --heat: 11, 99, 197; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --line: #30363d; --page: #0d1117; --mark: #58a6ff; --other: #d4a72c; --heat: 88, 166, 255; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.3rem; margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; } h3 { font-size: 1rem; margin: 2rem 0 .3rem; }
p { max-width: 48rem; } .soft { color: var(--soft); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; white-space: nowrap; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line); } th:first-child, td:first-child { text-align: left; }
tr.reference td { font-weight: 600; } li { font-size: 13px; } svg { max-width: 100%; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); } svg .axis { fill: var(--soft); } svg .grid { stroke: var(--line); }
svg .whole { stroke: var(--mark); stroke-width: 2; opacity: .45; } svg .half { fill: var(--mark); opacity: .35; } svg .middle { fill: var(--mark); } svg .far { stroke: var(--mark); }
svg .bound { stroke: var(--other); stroke-dasharray: 4 3; } svg .bar { fill: var(--mark); opacity: .6; } svg .error { stroke: var(--ink); }
svg .run { fill: none; stroke: var(--mark); stroke-width: 1.5; } svg .heat { fill: rgb(var(--heat)); }
";

/// The page.
pub(super) fn page(experiment: &Experiment) -> String {
    let setup = &experiment.setup;
    let seeds: Vec<String> = setup.seeds.iter().map(u64::to_string).collect();
    let mut page = String::new();
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Which policy serves this traffic best</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>Which policy serves this traffic best</h1>\n\
         <p>{} engines ({}), each with {} tokens of KV cache in blocks of {}, at most {} sequences and {} tokens in a step. Virtual \
         time; every policy gets the same requests at the same times, on engines with empty caches. Figures are medians of {} repeats \
         (seeds {}), with 95% intervals by the bootstrap where one is given. Good is an answer with its first token within {} ms and \
         {} ms from token to token. Metrics are read with a delay of {} ms, KV events are known after {} ms.</p>\n",
        setup.engines,
        escaped(setup.profile),
        setup.kv_tokens,
        setup.block_size,
        setup.max_num_seqs,
        setup.max_num_batched_tokens,
        setup.seeds.len(),
        seeds.join(", "),
        setup.slo.ttft_ms,
        setup.slo.itl_ms,
        setup.reading_ms,
        setup.events_ms,
    );
    for plan in &experiment.plans {
        section(&mut page, plan, setup.reference);
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn section(page: &mut String, plan: &Compared, reference: &str) {
    let [without, with] = plan.capacity;
    let _ = write!(
        page,
        "<h2>{}</h2>\n<p>{}.</p>\n<p class=\"soft\">{} requests a repeat, the first {:.0}% not counted. The engines can serve {without:.1} \
         requests a second without any reuse and {with:.1} with all there could be.</p>\n",
        escaped(&plan.name),
        escaped(&plan.words),
        plan.requests,
        100.0 * plan.warm_up,
    );
    table(page, plan, reference);
    let _ = write!(
        page,
        "<h3>Time to the first token</h3>\n<p class=\"soft\">Milliseconds, on a logarithmic scale: line from 5 to 95 of 100 requests, box \
         from 25 to 75, dot in the middle, tick at 99. Dashed: the middle one on idle engines with an infinite cache.</p>\n{}\
         <h3>Prompt tokens from caches</h3>\n<p class=\"soft\">Percent, with its interval. Dashed: one infinite cache.</p>\n{}\
         <h3>Over time</h3>\n<p class=\"soft\">The first repeat in 40 windows by when requests were asked: TTFT p95 (left, logarithmic, {}) \
         and reuse (right, 0 to 100%).</p>\n{}\
         <h3>Load by engine</h3>\n<p class=\"soft\">The first repeat: a row an engine, a column a window; the darker, the larger its share \
         of the requests.</p>\n{}",
        plots::distributions(plan),
        plots::reuse(plan),
        escaped(&plots::scale_of_courses(plan)),
        plots::courses(plan),
        plots::loads(plan),
    );
    if !plan.verdicts.is_empty() {
        page.push_str("<h3>What may be said</h3>\n<ul>\n");
        for verdict in &plan.verdicts {
            let (of, against, words) = (escaped(verdict.of), escaped(verdict.against), escaped(&verdict.words));
            let _ = writeln!(page, "<li>{of} against {against}: {words}</li>");
        }
        page.push_str("</ul>\n");
    }
}

fn table(page: &mut String, plan: &Compared, reference: &str) {
    page.push_str(
        "<div class=\"wide\"><table>\n<tr><th>policy</th><th>reuse %</th><th>believed %</th><th>TTFT p50</th><th>TTFT p95</th>\
         <th>95% interval</th><th>TTFT p99</th><th>ITL p50</th><th>ITL p95</th><th>end to end p50</th><th>p95</th><th>tokens/s</th>\
         <th>good/s</th><th>busiest %</th><th>errors</th></tr>\n",
    );
    for measured in &plan.policies {
        let Measured { policy, median, .. } = measured;
        let class = if *policy == reference { " class=\"reference\"" } else { "" };
        let believed = median.believed_percent.map_or("–".to_owned(), |believed| format!("{:.1}", believed.value));
        let Interval { value: p95, low, high } = median.ttft_p95_ms;
        let _ = writeln!(
            page,
            "<tr{class}><td>{}</td><td>{:.1}</td><td>{believed}</td><td>{:.0}</td><td>{p95:.0}</td><td>{low:.0} to {high:.0}</td>\
             <td>{:.0}</td><td>{:.1}</td><td>{:.1}</td><td>{:.0}</td><td>{:.0}</td><td>{:.0}</td><td>{:.2}</td><td>{:.1}</td><td>{:.0}</td></tr>",
            escaped(policy),
            median.reuse_percent.value,
            median.ttft_p50_ms.value,
            median.ttft_p99_ms.value,
            median.itl_p50_ms.value,
            median.itl_p95_ms.value,
            median.total_p50_ms.value,
            median.total_p95_ms.value,
            median.output_tokens_a_second.value,
            median.goodput.value,
            median.busiest_percent.value,
            median.errors.value,
        );
    }
    page.push_str("</table></div>\n");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped("<b> & \"c\""), "&lt;b&gt; &amp; &quot;c&quot;");
    }
}
