//! Whole decisions as text files: `cases/*.txt`, the policy's documentation.
//!
//! Above `---`: the ask, the candidates (name, standing if not fresh, figures), the policy. Below: the ranking, who is
//! set aside, the notes. Lines with `#` are prose.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use fleet::{EndpointId, Standing};
use pick::{Ask, Candidate, Decision, Policy, Scorer, Weighted, pick};
use rand::SeedableRng;
use rand::rngs::StdRng;

#[test]
fn the_policy_decides_as_its_cases_say() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut seen = 0;
    for file in std::fs::read_dir(cases).expect("the cases") {
        let path = file.expect("a case").path();
        let text = std::fs::read_to_string(&path).expect("a text");
        let (given, expected) = text.split_once("---\n").expect("a case has a line ---");
        for seed in 0..20 {
            assert_eq!(in_order_of_name_if_tied(&decide(given, seed)), expected, "{}", path.display());
        }
        seen += 1;
    }
    assert!(seen >= 13, "{seen} cases");
}

fn decide(given: &str, seed: u64) -> String {
    let mut ask = Ask { blocks: 0 };
    let mut policy = Policy::default();
    let mut names = Vec::new();
    let mut candidates = Vec::new();
    for line in given.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        match name {
            "ask" => ask.blocks = figures(rest)["blocks"] as u32,
            "policy" => read_policy(rest.trim(), &mut policy),
            _ => {
                candidates.push(candidate(EndpointId(names.len() as u32), rest));
                names.push(name);
            }
        }
    }
    let decision = pick(&ask, &candidates, &policy, &mut StdRng::seed_from_u64(seed)).expect("there are candidates");
    print(&decision, &names)
}

fn figures(text: &str) -> BTreeMap<&str, f64> {
    let pairs = text.split_whitespace().filter_map(|word| word.split_once('='));
    pairs.map(|(name, figure)| (name, figure.parse().expect("a number"))).collect()
}

fn candidate(id: EndpointId, text: &str) -> Candidate {
    let standing = match text.split_whitespace().next() {
        Some("stale") => Standing::Stale,
        Some("unread") => Standing::Unread,
        Some("failed") => Standing::Failed,
        _ => Standing::Fresh,
    };
    let figures = figures(text);
    let figure = |name: &str| figures.get(name).copied();
    Candidate {
        id,
        standing,
        waiting: figure("waiting"),
        running: figure("running"),
        kv_usage: figure("kv"),
        in_flight: figure("in_flight").unwrap_or(0.0) as u32,
        overlap: figure("overlap").unwrap_or(0.0) as u32,
        displaces: figure("displaces").map(Duration::from_secs_f64),
    }
}

fn read_policy(text: &str, policy: &mut Policy) {
    if text == "default" {
        return;
    }
    let weighted = |word: &str| {
        let (name, weight) = word.split_once('*').expect("scorer*weight");
        let scorer = Scorer::named(name).expect("a scorer");
        Weighted { scorer, weight: weight.parse().expect("a number") }
    };
    policy.scorers = text.split_whitespace().map(weighted).collect();
}

fn print(decision: &Decision, names: &[&str]) -> String {
    let name = |id: EndpointId| names[id.0 as usize];
    let mut text = String::new();
    for ranked in &decision.ranked {
        writeln!(text, "{}", format!("{} {ranked}", name(ranked.id)).trim_end()).expect("a string takes all");
    }
    if !decision.set_aside.is_empty() {
        let aside: Vec<&str> = decision.set_aside.iter().map(|id| name(*id)).collect();
        writeln!(text, "aside {}", aside.join(" ")).expect("a string takes all");
    }
    if !decision.notes.is_empty() {
        let notes: Vec<&str> = decision.notes.iter().map(|note| note.as_str()).collect();
        writeln!(text, "notes {}", notes.join(" ")).expect("a string takes all");
    }
    text
}

/// The order within a tie is random; cases write it by name.
fn in_order_of_name_if_tied(text: &str) -> String {
    let total = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    let mut lines: Vec<&str> = text.lines().collect();
    let ranked = lines.iter().take_while(|line| !line.starts_with("aside") && !line.starts_with("notes")).count();
    for tied in lines[..ranked].chunk_by_mut(|a, b| total(a) == total(b)) {
        tied.sort_unstable();
    }
    lines.into_iter().fold(String::new(), |text, line| text + line + "\n")
}
