//! What the turns come to. In: turns and CPU times; out: medians, tails, rates and ratios, as a table and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::arm::{Arm, Turn};

/// One arm at one concurrency.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// The arm.
    pub(crate) arm: Arm,
    concurrency: usize,
    /// Sorted when read.
    took: Vec<Duration>,
    long: Duration,
    /// Of Envoy, and of what it asks.
    cpu: [Duration; 2],
}

impl Figures {
    /// Of no turn yet.
    pub(crate) fn new(arm: Arm, concurrency: usize) -> Self {
        Self { arm, concurrency, took: Vec::new(), long: Duration::ZERO, cpu: [Duration::ZERO; 2] }
    }

    /// Adds a turn, with CPU times before and after.
    pub(crate) fn add(&mut self, turn: &Turn, before: [Duration; 2], after: [Duration; 2]) {
        self.took.extend(&turn.took);
        self.took.sort_unstable();
        self.long += turn.long;
        for at in 0..self.cpu.len() {
            self.cpu[at] += after[at].saturating_sub(before[at]);
        }
    }

    /// Milliseconds that so many percent of the requests don't exceed.
    fn percentile(&self, percent: usize) -> f64 {
        let at = (self.took.len() * percent / 100).min(self.took.len().saturating_sub(1));
        self.took.get(at).map_or(0.0, milliseconds)
    }

    fn rate(&self) -> f64 {
        self.took.len() as f64 / self.long.as_secs_f64()
    }

    /// Milliseconds a request.
    fn cpu_each(&self) -> [f64; 2] {
        self.cpu.map(|cpu| milliseconds(&cpu) / self.took.len().max(1) as f64)
    }

    /// For machines.
    pub(crate) fn json(&self) -> Value {
        let [envoy, asked] = self.cpu_each();
        json!({
            "arm": self.arm.name(),
            "concurrency": self.concurrency,
            "requests": self.took.len(),
            "requests_per_s": self.rate(),
            "p50_ms": self.percentile(50),
            "p99_ms": self.percentile(99),
            "envoy_cpu_ms_per_request": envoy,
            "ext_proc_cpu_ms_per_request": asked,
        })
    }
}

/// Each arm beside Envoy alone at the same concurrency.
pub(crate) fn table(rows: &[Figures]) -> String {
    let mut lines = vec![
        "at a time  arm        requests/s   p50 ms   p99 ms  p50 more  p50 ratio   CPU ms a request: Envoy   ext_proc server"
            .to_owned(),
    ];
    for row in rows {
        let alone = rows.iter().find(|at| at.arm == Arm::Alone && at.concurrency == row.concurrency).unwrap_or(row);
        let (p50, plain) = (row.percentile(50), alone.percentile(50));
        let [envoy, asked] = row.cpu_each();
        lines.push(format!(
            "{:>9}  {:<9}  {:>10.0}  {p50:>7.2}  {:>7.2}  {:>8.2}  {:>9.2}  {envoy:>24.3}  {:>16}",
            row.concurrency,
            row.arm.name(),
            row.rate(),
            row.percentile(99),
            p50 - plain,
            p50 / plain,
            if row.arm == Arm::Alone { "-".to_owned() } else { format!("{asked:.3}") },
        ));
    }
    lines.join("\n")
}

fn milliseconds(time: &Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Arm, Figures, Turn, table};

    #[test]
    fn an_arm_is_set_beside_envoy_alone() {
        let figures = |arm, from: u64| {
            let mut figures = Figures::new(arm, 16);
            let took = (from..from + 100).map(Duration::from_millis).collect();
            let cpu = Duration::from_millis;
            figures.add(&Turn { took, long: Duration::from_secs(2) }, [cpu(100), cpu(0)], [cpu(150), cpu(20)]);
            figures
        };
        let table = table(&[figures(Arm::Alone, 1), figures(Arm::Warmpath, 52)]);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = table.lines().skip(1).map(words).collect();
        assert_eq!(
            lines,
            ["16 envoy 50 51.00 100.00 0.00 1.00 0.500 -", "16 warmpath 50 102.00 151.00 51.00 2.00 0.500 0.200"]
        );
    }
}
