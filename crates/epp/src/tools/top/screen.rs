//! The state as lines of text: in, the state and the room there is; out, lines that are no wider. What clients and engines say of
//! themselves is cleaned of whatever a terminal would obey.

use record::{Candidate, Standing};

use crate::live::{Decision, Row, State};
use crate::tools::decisions::printable;

/// Lines, no more than there is room for: where that is short, half of it is the endpoints'.
pub(super) fn lines(state: &State, width: usize, height: usize, colour: bool) -> Vec<String> {
    let paint = Paint { colour, width };
    let mut lines = head(state, &paint);
    lines.push(String::new());
    lines.push(
        paint.bold(
            "ENDPOINT                 STATE    WAITING RUNNING  KV USE IN FLIGHT    HELD   SHARE     AGE  ADDRESS",
        ),
    );
    let (all, half) = (state.endpoints.len(), height.saturating_sub(lines.len()) / 2);
    let shown = if all > half { half.saturating_sub(1) } else { all };
    lines.extend(state.endpoints.iter().take(shown).map(|row| endpoint(row, &paint)));
    if shown < all {
        lines.push(paint.line(&format!("and {} more", all - shown)));
    }
    lines.push(String::new());
    let request = format!("{:<wide$}", "REQUEST", wide = paint.id_width());
    lines.push(paint.bold(&format!("TIME UTC {request} STATUS REUSE    TTFT  CHOSEN OF ALL, AND WHY")));
    let room = height.saturating_sub(lines.len()) / 2;
    lines.extend(state.decisions.iter().take(room).flat_map(|decision| two_lines(decision, &paint)));
    lines
}

fn head(state: &State, paint: &Paint) -> Vec<String> {
    let ready = state.endpoints.iter().filter(|row| row.standing == Standing::Fresh).count();
    let all = state.endpoints.len();
    let by_load = if state.load_only { ", by load alone" } else { "" };
    let title =
        format!("Warmpath {}  pool {}  {ready} of {all} endpoints ready{by_load}", state.version, clean(&state.pool));
    let (last, steps) = (&state.last_minute, &state.minutes.steps);
    let of = |figure: fn(&crate::live::Figures) -> Option<f64>| {
        let shown = steps.len().saturating_sub(paint.width.saturating_sub(44).min(60));
        sparks(steps[shown..].iter().map(figure))
    };
    let line = |name: &str, figure: String, sparks: String| paint.line(&format!("{name:<14}{figure:<30}{sparks}"));
    vec![
        paint.bold(&title),
        line(
            "requests",
            format!("{:.1}/s, {} failed", last.requests as f64 / 60.0, last.failed),
            of(|step| Some(step.requests as f64)),
        ),
        line("reused", share(last.reused), of(|step| step.reused)),
        line(
            "first token",
            format!("p50 {}, p95 {}", time(last.ttft_p50_ms), time(last.ttft_p95_ms)),
            of(|step| step.ttft_p95_ms),
        ),
    ]
}

fn endpoint(row: &Row, paint: &Paint) -> String {
    let line = format!(
        "{} {:<8} {:>7} {:>7} {:>7} {:>9} {:>7} {:>7} {:>7}  {}",
        column(&row.name, 24),
        row.standing.as_str(),
        number(row.waiting),
        number(row.running),
        share(row.kv_usage),
        row.in_flight,
        row.blocks_held,
        share(row.share),
        time(row.reading_age_ms.map(|age| age as f64)),
        clean(&row.address),
    );
    paint.warning(&line, row.standing != Standing::Fresh)
}

fn two_lines(decision: &Decision, paint: &Paint) -> [String; 2] {
    let outcome = decision.outcome.as_ref();
    let status = outcome.and_then(|outcome| outcome.status);
    let reused = outcome
        .and_then(|outcome| Some(outcome.cached_tokens? as f64 / outcome.prompt_tokens.filter(|all| *all > 0)? as f64));
    let first = format!(
        "{} {} {:>6} {:>5} {:>7}  {} of {}: {}",
        clock(decision.decided_at_unix_ms),
        column(&decision.request_id, paint.id_width()),
        status.map_or("-".to_owned(), |status| status.to_string()),
        share(reused),
        time(outcome.and_then(|outcome| outcome.ttft_ms)),
        decision.chosen.as_ref().map_or_else(|| "-".to_owned(), |chosen| clean(&chosen.endpoint)),
        decision.candidates,
        decision.chosen.as_ref().map_or_else(String::new, parts),
    );
    let runner_up = match &decision.runner_up {
        Some(other) => format!("before {}: {}", clean(&other.endpoint), parts(other)),
        None => "no other".to_owned(),
    };
    let notes: Vec<String> = decision.notes.iter().map(|note| clean(note)).collect();
    let model = column(&decision.model, paint.id_width());
    let second = format!("         {model} {:>6} {:>5} {:>7}  {runner_up}  {}", "", "", "", notes.join(", "));
    let failed = !status.is_some_and(|status| (200..300).contains(&status));
    [paint.warning(&first, failed), paint.line(&second)]
}

fn parts(candidate: &Candidate) -> String {
    let parts = candidate.parts.iter().map(|part| {
        let unknown = if part.known { "" } else { "?" };
        format!("{} {:.2}{unknown}", part.scorer, part.score * part.weight)
    });
    let parts: Vec<String> = parts.collect();
    format!("{:.2} = {}", candidate.total, if parts.is_empty() { "-".to_owned() } else { parts.join(" + ") })
}

/// How lines are shown.
struct Paint {
    colour: bool,
    width: usize,
}

impl Paint {
    /// Of a column for requests' ids: a UUID's where there is room.
    fn id_width(&self) -> usize {
        if self.width < 120 { 24 } else { 36 }
    }

    fn line(&self, text: &str) -> String {
        fit(text, self.width)
    }

    fn bold(&self, text: &str) -> String {
        self.styled("1", text)
    }

    fn warning(&self, text: &str, is_one: bool) -> String {
        if is_one { self.styled("33", text) } else { self.line(text) }
    }

    fn styled(&self, style: &str, text: &str) -> String {
        let text = self.line(text);
        if self.colour { format!("\x1b[{style}m{text}\x1b[0m") } else { text }
    }
}

/// Cut to so many characters, without blanks at its end, and without what moves a cursor.
pub(super) fn fit(text: &str, width: usize) -> String {
    let cut: String = printable(text).chars().take(width).collect();
    cut.trim_end().to_owned()
}

/// Cleaned, and exactly so wide.
fn column(text: &str, width: usize) -> String {
    let text = clean(text);
    match text.chars().count() > width {
        true => text.chars().take(width - 1).chain(['~']).collect(),
        false => format!("{text:<width$}"),
    }
}

/// Without whatever a terminal obeys: all but printable ASCII is escaped, for what else is harmless differs by terminal.
fn clean(text: &str) -> String {
    let escaped =
        |c: char| if c == ' ' || c.is_ascii_graphic() { c.to_string() } else { c.escape_unicode().to_string() };
    text.chars().map(escaped).collect()
}

fn number(figure: Option<f64>) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.0}"))
}

fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0))
}

fn time(ms: Option<f64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms < 999.5 => format!("{ms:.0} ms"),
        Some(ms) if ms < 9_950.0 => format!("{:.1} s", ms / 1e3),
        Some(ms) => format!("{:.0} s", ms / 1e3),
    }
}

/// Of the day, UTC.
fn clock(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Figures as bars of eighths of a line; what isn't known is a blank.
fn sparks(figures: impl Iterator<Item = Option<f64>> + Clone) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let top = figures.clone().flatten().fold(f64::MIN_POSITIVE, f64::max);
    figures.map(|figure| figure.map_or(' ', |figure| BARS[((figure / top * 7.0).round() as usize).min(7)])).collect()
}

#[cfg(test)]
mod tests {
    use record::{Ended, Outcome, Part};

    use super::*;
    use crate::live::{Figures, Series};

    fn candidate(endpoint: &str, total: f64) -> Candidate {
        let part = |scorer: &str, score, known| Part { scorer: scorer.to_owned(), score, weight: 2.0, known };
        Candidate {
            endpoint: endpoint.to_owned(),
            address: "10.0.0.1:8000".to_owned(),
            standing: Standing::Fresh,
            set_aside: false,
            waiting: None,
            running: None,
            kv_usage: None,
            in_flight: 0,
            overlap: 0,
            displaces_ms: None,
            total,
            parts: vec![part("prefix", total / 2.0, true), part("waiting", 0.0, false)],
        }
    }

    fn state(request_id: &str) -> State {
        let row = Row {
            name: "vllm-0".to_owned(),
            namespace: "default".to_owned(),
            address: "10.0.0.1:8000".to_owned(),
            standing: Standing::Failed,
            reading_age_ms: Some(12_345),
            waiting: Some(3.0),
            running: None,
            kv_usage: Some(0.5),
            in_flight: 2,
            blocks_held: 31_250,
            picks: 1,
            share: Some(1.0),
        };
        let outcome = Outcome {
            status: Some(200),
            served: None,
            ttft_ms: Some(21.4),
            took_ms: 40.0,
            prompt_tokens: Some(100),
            cached_tokens: Some(48),
            completion_tokens: None,
            attempts: None,
            ended: Ended::Complete,
        };
        let decision = Decision {
            request_id: request_id.to_owned(),
            decided_at_unix_ms: 1_000 * (3_600 + 62),
            model: "qwen3".to_owned(),
            prompt_tokens: Some(100),
            estimated: false,
            blocks: 7,
            chosen: Some(candidate("vllm-0", 1.5)),
            runner_up: Some(candidate("vllm-1", 0.5)),
            candidates: 2,
            notes: vec!["stale_load".to_owned()],
            predicted_cached_tokens: Some(48),
            decided_in_us: 100,
            outcome: Some(outcome),
        };
        let step = |requests, reused| Figures { requests, reused, ..Figures::default() };
        State {
            at_unix_ms: 0,
            version: "1".to_owned(),
            pool: "default".to_owned(),
            load_only: false,
            endpoints: vec![row],
            last_minute: Figures { requests: 6, reused: Some(0.48), ..Figures::default() },
            minutes: Series { step_ms: 5_000, steps: vec![step(0, None), step(4, Some(0.25)), step(8, Some(0.5))] },
            lost: 0,
            kept: 1,
            decisions: vec![decision],
        }
    }

    #[test]
    fn the_state_is_readable() {
        let text = lines(&state("r-1"), 140, 100, false).join("\n");
        let expected = "\
Warmpath 1  pool default  0 of 1 endpoints ready
requests      0.1/s, 0 failed               ▁▅█
reused        48%                            ▅█
first token   p50 -, p95 -

ENDPOINT                 STATE    WAITING RUNNING  KV USE IN FLIGHT    HELD   SHARE     AGE  ADDRESS
vllm-0                   failed         3       -     50%         2   31250    100%    12 s  10.0.0.1:8000

TIME UTC REQUEST                              STATUS REUSE    TTFT  CHOSEN OF ALL, AND WHY
01:01:02 r-1                                     200   48%   21 ms  vllm-0 of 2: 1.50 = prefix 1.50 + waiting 0.00?
         qwen3                                                      before vllm-1: 0.50 = prefix 0.50 + waiting 0.00?  stale_load";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn nothing_that_a_client_says_is_obeyed_by_the_terminal() {
        for hostile in ["\x1b[2J\x1b]0;owned\x07", "\u{202e}evil", "a\r\nb", "\u{9b}31m", "\u{7f}"] {
            let mut state = state(hostile);
            state.decisions[0].model = hostile.to_owned();
            state.endpoints[0].name = hostile.to_owned();
            state.decisions[0].notes = vec![hostile.to_owned()];
            let text = lines(&state, 200, 100, false).join("\n");
            let obeyed = text.chars().find(|c| (c.is_control() && *c != '\n') || ('\u{200b}'..='\u{206f}').contains(c));
            assert_eq!(obeyed, None, "{text:?}");
        }
    }

    #[test]
    fn lines_are_no_wider_and_no_more_than_there_is_room() {
        let mut state = state("r");
        state.decisions = vec![state.decisions[0].clone(); 50];
        for (endpoints, height) in [(1, 20), (7, 20), (8, 20), (100, 20), (100, 21), (3, 9), (100, 9)] {
            state.endpoints = vec![state.endpoints[0].clone(); endpoints];
            let lines = lines(&state, 60, height, false);
            assert!(lines.len() <= height && lines.iter().all(|line| line.chars().count() <= 60), "{lines:?}");
            assert!(height < 20 || lines.iter().any(|line| line.starts_with("01:01:02 r")), "{lines:?}");
        }
    }
}
