//! Plots as SVG. In: a plan's figures; out: an `<svg>` each. A row a policy, names at the left.

use std::fmt::Write;

use super::escaped;
use crate::compare::{Compared, Measured};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 140.0;
const ROW: f64 = 22.0;
const TOP: f64 = 24.0;
/// Nothing is drawn below this, on a logarithmic scale.
const LEAST_MS: f64 = 1.0;

/// A logarithmic scale of milliseconds.
#[derive(Clone, Copy)]
struct Log {
    least: f64,
    most: f64,
    left: f64,
    width: f64,
}

impl Log {
    fn over(figures: impl Iterator<Item = f64>, left: f64, width: f64) -> Log {
        let above = figures.filter(|ms| *ms > 0.0).map(|ms| ms.max(LEAST_MS));
        let (least, most) = above.fold((f64::INFINITY, LEAST_MS), |(l, m), ms| (l.min(ms), m.max(ms)));
        let least = if least.is_finite() { least } else { LEAST_MS };
        Log { least: least * 0.8, most: (most * 1.2).max(least * 2.0), left, width }
    }

    fn share(&self, ms: f64) -> f64 {
        ((ms.max(LEAST_MS) / self.least).ln() / (self.most / self.least).ln()).clamp(0.0, 1.0)
    }

    fn x(&self, ms: f64) -> f64 {
        self.left + self.width * self.share(ms)
    }

    /// 1, 2, 5, 10, ... within the scale.
    fn ticks(&self) -> Vec<f64> {
        let all = (0..8).flat_map(|power| [1.0, 2.0, 5.0].map(|times| times * 10_f64.powi(power)));
        all.filter(|ms| (self.least..=self.most).contains(ms)).collect()
    }
}

fn svg(height: f64, label: &str, inside: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" role=\"img\" aria-label=\"{}\">\n{inside}</svg>\n",
        escaped(label)
    )
}

fn name(out: &mut String, policy: &str, y: f64) {
    let _ = writeln!(
        out,
        "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        LEFT - 8.0,
        y + 4.0,
        escaped(policy)
    );
}

fn grid(out: &mut String, x: f64, bottom: f64, label: &str) {
    let _ = writeln!(
        out,
        "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/><text class=\"axis\" x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{label}</text>",
        TOP - 8.0
    );
}

fn bound(out: &mut String, x: f64, bottom: f64) {
    let _ = writeln!(out, "<line class=\"bound\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>");
}

fn bottom(plan: &Compared) -> f64 {
    TOP + ROW * plan.policies.len() as f64
}

fn rows(plan: &Compared) -> impl Iterator<Item = (&Measured, f64)> {
    plan.policies.iter().enumerate().map(|(at, measured)| (measured, TOP + ROW * (at as f64 + 0.5)))
}

/// TTFT by policy.
pub(super) fn distributions(plan: &Compared) -> String {
    let drawn = [5, 25, 50, 75, 95, 99];
    let all = plan.policies.iter().flat_map(|measured| drawn.map(|at| measured.ttft_ms[at]));
    let scale = Log::over(all.chain([plan.floor_p50_ms.value]), LEFT, WIDTH - LEFT - 20.0);
    let mut out = String::new();
    scale.ticks().iter().for_each(|ms| grid(&mut out, scale.x(*ms), bottom(plan), &format!("{ms}")));
    bound(&mut out, scale.x(plan.floor_p50_ms.value), bottom(plan));
    for (measured, y) in rows(plan) {
        name(&mut out, measured.policy, y);
        let [p5, p25, p50, p75, p95, p99] = drawn.map(|at| scale.x(measured.ttft_ms[at]));
        let said: Vec<String> = drawn.iter().map(|at| format!("p{at} {:.0} ms", measured.ttft_ms[*at])).collect();
        let _ = writeln!(
            out,
            "<g><title>{}: {}</title><line class=\"whole\" x1=\"{p5:.1}\" x2=\"{p95:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <rect class=\"half\" x=\"{p25:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\"/>\
             <circle class=\"middle\" cx=\"{p50:.1}\" cy=\"{y:.1}\" r=\"4\"/>\
             <line class=\"far\" x1=\"{p99:.1}\" x2=\"{p99:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/></g>",
            escaped(measured.policy),
            said.join(", "),
            y - 6.0,
            (p75 - p25).max(0.5),
            y - 5.0,
            y + 5.0,
        );
    }
    svg(bottom(plan) + 8.0, "Time to the first token by policy", &out)
}

/// Reuse by policy.
pub(super) fn reuse(plan: &Compared) -> String {
    let x = |percent: f64| LEFT + (WIDTH - LEFT - 20.0) * percent.clamp(0.0, 100.0) / 100.0;
    let mut out = String::new();
    (0..=5).for_each(|fifth| grid(&mut out, x(20.0 * f64::from(fifth)), bottom(plan), &format!("{}%", 20 * fifth)));
    for (measured, y) in rows(plan) {
        name(&mut out, measured.policy, y);
        let reuse = measured.median.reuse_percent;
        let _ = writeln!(
            out,
            "<g><title>{}: {:.1}% ({:.1} to {:.1})</title><rect class=\"bar\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\"/>\
             <line class=\"error\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/></g>",
            escaped(measured.policy),
            reuse.value,
            reuse.low,
            reuse.high,
            y - 6.0,
            x(reuse.value) - LEFT,
            x(reuse.low),
            x(reuse.high),
        );
    }
    bound(&mut out, x(plan.infinite_percent.value), bottom(plan));
    svg(bottom(plan) + 8.0, "Prompt tokens from caches by policy", &out)
}

fn course_scale(plan: &Compared) -> Log {
    let all = plan.policies.iter().flat_map(|measured| measured.course.ttft_p95_ms.iter().flatten().copied());
    Log::over(all, 0.0, 1.0)
}

/// What the heights of the left curves mean.
pub(super) fn scale_of_courses(plan: &Compared) -> String {
    let Log { least, most, .. } = course_scale(plan);
    format!("from {least:.0} to {most:.0} ms")
}

/// TTFT and reuse over time by policy.
pub(super) fn courses(plan: &Compared) -> String {
    const TALL: f64 = 40.0;
    let scale = course_scale(plan);
    let half = (WIDTH - LEFT - 40.0) / 2.0;
    let mut out = String::new();
    for (at, measured) in plan.policies.iter().enumerate() {
        let top = 6.0 + (TALL + 8.0) * at as f64;
        name(&mut out, measured.policy, top + TALL / 2.0);
        let ttft = measured.course.ttft_p95_ms.iter().map(|ms| ms.map(|ms| scale.share(ms)));
        curve(&mut out, ttft, (LEFT, top, half, TALL));
        let reuse = measured.course.reuse_percent.iter().map(|percent| percent.map(|percent| percent / 100.0));
        curve(&mut out, reuse, (LEFT + half + 20.0, top, half, TALL));
    }
    svg(8.0 + (TALL + 8.0) * plan.policies.len() as f64, "TTFT p95 and reuse over time by policy", &out)
}

/// Shares of the height over windows; where a window has none the curve is broken.
fn curve(
    out: &mut String,
    shares: impl ExactSizeIterator<Item = Option<f64>>,
    (x, y, width, height): (f64, f64, f64, f64),
) {
    let _ = write!(
        out,
        "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/><path class=\"run\" d=\"",
        x + width,
        y + height,
        y + height
    );
    let step = width / shares.len().max(1) as f64;
    let mut broken = true;
    for (at, share) in shares.enumerate() {
        if let Some(share) = share {
            let (x, y) = (x + step * (at as f64 + 0.5), y + height * (1.0 - share));
            let _ = write!(out, "{}{x:.1} {y:.1}", if broken { "M" } else { "L" });
        }
        broken = share.is_none();
    }
    out.push_str("\"/>\n");
}

/// Shares of the engines over time by policy.
pub(super) fn loads(plan: &Compared) -> String {
    const TALL: f64 = 6.0;
    let mut out = String::new();
    let mut top = 4.0;
    for measured in &plan.policies {
        let engines = &measured.course.share_percent;
        let height = TALL * engines.len() as f64;
        name(&mut out, measured.policy, top + height / 2.0);
        for (engine, shares) in engines.iter().enumerate() {
            let step = (WIDTH - LEFT - 20.0) / shares.len().max(1) as f64;
            for (window, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                let _ = writeln!(
                    out,
                    "<rect class=\"heat\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{TALL}\" opacity=\"{:.2}\"><title>engine {engine}: {share:.0}%</title></rect>",
                    LEFT + step * window as f64,
                    top + TALL * engine as f64,
                    step,
                    (share / 50.0).min(1.0),
                );
            }
        }
        top += height.max(ROW) + 6.0;
    }
    svg(top, "Load by engine over time by policy", &out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_scale_has_its_ends_and_its_ticks() {
        let scale = Log::over([10.0, 0.0, 1000.0].into_iter(), 100.0, 300.0);
        assert_eq!(scale.ticks(), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert!(scale.x(8.0) <= 100.0 && (scale.x(1200.0) - 400.0).abs() < 1e-9 && scale.x(1e9) <= 400.0 + 1e-9);
        let middle = scale.x((8.0_f64 * 1200.0).sqrt());
        assert!((middle - 250.0).abs() < 1e-9);
        assert_eq!(Log::over(std::iter::empty(), 0.0, 1.0).ticks(), [1.0, 2.0]);
    }
}
