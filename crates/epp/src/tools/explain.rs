//! `epp explain`: recorded decisions, made again under another policy.
//!
//! In: records, as lines of the log or of `epp decisions --json`, and a config; out: for each both picks side by side, part by part, and in
//! words what turned it. What the endpoints then were is what they were; nothing of now is asked.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::BufRead;

use config::Config;
use pick::Decision;
use rand::SeedableRng;
use rand::rngs::StdRng;
use record::{Candidate, Record, replay};
use serde::Serialize;
use serde_json::Value;

use super::decisions::{printable, time_of_day};

/// Totals that differ by less are one.
const SAME: f64 = 1e-9;

/// A record made again.
#[derive(Debug, Serialize)]
struct Replayed<'a> {
    request_id: &'a str,
    /// Whether both choose the same endpoint.
    same: bool,
    recorded: Pick,
    replayed: Pick,
    why: String,
}

/// A choice: its endpoints by score.
#[derive(Debug, Serialize)]
struct Pick {
    chosen: String,
    /// Others with the chosen one's score: it was chosen among them at random.
    tied: Vec<String>,
    /// Who took part, best first.
    candidates: Vec<Scored>,
    set_aside: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Scored {
    endpoint: String,
    total: f64,
    /// Weighted: they add up to the total.
    parts: BTreeMap<String, f64>,
}

/// What is asked for.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    /// What the other policy is called.
    pub(super) name: &'a str,
    pub(super) config: &'a Config,
    /// Only records with this request id.
    pub(super) request_id: Option<&'a str>,
    pub(super) json: bool,
}

/// The answer to all records in `input`, given to `say` piece by piece.
///
/// # Errors
/// Where a line is broken, or holds no record in a file that has none at all.
pub(super) fn answer(asked: &Asked<'_>, input: impl BufRead, mut say: impl FnMut(&str) -> bool) -> Result<(), String> {
    let (mut seen, mut turned) = (0_u64, 0_u64);
    for (line, number) in input.lines().zip(1_u64..) {
        let line = line.map_err(|error| format!("line {number}: {error}"))?;
        let Some(record) = read(&line) else { continue };
        if asked.request_id.is_some_and(|wanted| wanted != record.request_id) {
            continue;
        }
        let Some(replayed) = replayed(&record, asked) else { continue };
        seen += 1;
        turned += u64::from(!replayed.same);
        let text = match asked.json {
            true => serde_json::to_string(&replayed).map_err(|error| error.to_string())? + "\n",
            false => in_words(&record, &replayed, asked.name),
        };
        if !say(&text) {
            return Ok(());
        }
    }
    match (seen, asked.request_id) {
        (0, Some(id)) => return Err(format!("no decision of a request {id} is in there")),
        (0, None) => {
            return Err("no decision is in there: lines of the log or of `epp decisions --json` are read".to_owned());
        }
        _ => {}
    }
    if seen > 1 && !asked.json {
        say(&format!("{turned} of {seen} decisions would go elsewhere under {}.\n", asked.name));
    }
    Ok(())
}

/// A record by itself, or in a line of the log.
fn read(line: &str) -> Option<Record> {
    if let Ok(record) = serde_json::from_str(line) {
        return Some(record);
    }
    let line: Value = serde_json::from_str(line).ok()?;
    serde_json::from_str(line.get("record")?.as_str()?).ok()
}

fn replayed<'a>(record: &'a Record, asked: &Asked<'_>) -> Option<Replayed<'a>> {
    // Ties go the same way each time that one asks.
    let decision = replay(record, &asked.config.policy, &mut StdRng::seed_from_u64(0))?;
    let (recorded, mut replayed) = (as_recorded(record)?, as_replayed(record, &decision)?);
    if replayed.tied.contains(&recorded.chosen) {
        // The throw that was recorded is as good as any.
        let other = std::mem::replace(&mut replayed.chosen, recorded.chosen.clone());
        replayed.tied.retain(|tied| *tied != recorded.chosen);
        replayed.tied.push(other);
    }
    let why = why(&recorded, &replayed, asked.name);
    Some(Replayed { request_id: &record.request_id, same: recorded.chosen == replayed.chosen, recorded, replayed, why })
}

fn as_recorded(record: &Record) -> Option<Pick> {
    let scored = |candidate: &Candidate| Scored {
        endpoint: candidate.endpoint.clone(),
        total: candidate.total,
        parts: candidate.parts.iter().map(|part| (part.scorer.clone(), part.score * part.weight)).collect(),
    };
    let (aside, part): (Vec<_>, Vec<_>) = record.candidates.iter().partition(|candidate| candidate.set_aside);
    let set_aside = aside.into_iter().map(|candidate| candidate.endpoint.clone()).collect();
    Pick::of(part.into_iter().map(scored).collect(), set_aside)
}

fn as_replayed(record: &Record, decision: &Decision) -> Option<Pick> {
    // Numbered as the record's candidates stand.
    let name = |id: fleet::EndpointId| record.candidates.get(id.0 as usize).map(|candidate| candidate.endpoint.clone());
    let scored = decision.ranked.iter().filter_map(|ranked| {
        let parts = ranked.parts.iter().map(|part| (part.scorer.name().to_owned(), part.weighted())).collect();
        Some(Scored { endpoint: name(ranked.id)?, total: ranked.total, parts })
    });
    Pick::of(scored.collect(), decision.set_aside.iter().filter_map(|id| name(*id)).collect())
}

impl Pick {
    fn of(candidates: Vec<Scored>, set_aside: Vec<String>) -> Option<Self> {
        let best = candidates.first()?;
        let tied = candidates.iter().skip(1).filter(|other| (best.total - other.total).abs() < SAME);
        let tied = tied.map(|other| other.endpoint.clone()).collect();
        Some(Self { chosen: best.endpoint.clone(), tied, candidates, set_aside })
    }

    fn scored(&self, endpoint: &str) -> Option<&Scored> {
        self.candidates.iter().find(|scored| scored.endpoint == endpoint)
    }

    /// By how much, part by part, one endpoint leads another.
    fn lead(&self, one: &str, other: &str) -> BTreeMap<&str, f64> {
        let mut lead = BTreeMap::new();
        for (endpoint, sign) in [(one, 1.0), (other, -1.0)] {
            for (scorer, part) in self.scored(endpoint).iter().flat_map(|scored| &scored.parts) {
                *lead.entry(scorer.as_str()).or_insert(0.0) += sign * part;
            }
        }
        lead
    }

    fn among(&self) -> String {
        match self.tied.len() {
            0 => String::new(),
            others => format!(", at random among {} that tie", others + 1),
        }
    }
}

/// Why both picks differ, or don't.
fn why(recorded: &Pick, replayed: &Pick, name: &str) -> String {
    let (was, is) = (&recorded.chosen, &replayed.chosen);
    if was == is {
        let nearest = recorded.candidates.iter().map(|scored| &scored.endpoint).find(|endpoint| *endpoint != was);
        let Some(nearest) = nearest else { return format!("{was} is the only one that took part.") };
        let before: f64 = recorded.lead(was, nearest).values().sum();
        let now: f64 = replayed.lead(was, nearest).values().sum();
        return format!(
            "Both choose {was}{}: its lead over {nearest} goes from {before:.2} to {now:.2}.",
            replayed.among()
        );
    }
    let (before, now) = (recorded.lead(was, is), replayed.lead(is, was));
    let mut text = format!(
        "{was} was chosen{} with a lead of {:.2} over {is} ({}). Under {name} {is} is chosen{} with a lead of {:.2} over {was} ({}).",
        recorded.among(),
        before.values().sum::<f64>(),
        parts_of(&before),
        replayed.among(),
        now.values().sum::<f64>(),
        parts_of(&now),
    );
    // What each scorer says for the new choice, after less before.
    let scorers: std::collections::BTreeSet<&str> = before.keys().chain(now.keys()).copied().collect();
    let said = |lead: &BTreeMap<&str, f64>, scorer: &str| lead.get(scorer).copied().unwrap_or(0.0);
    let mut shifts: Vec<(&str, f64)> =
        scorers.into_iter().map(|scorer| (scorer, said(&now, scorer) + said(&before, scorer))).collect();
    shifts.retain(|(_, shift)| *shift > 0.005);
    shifts.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    if let Some((scorer, shift)) = shifts.first() {
        let reason = match (before.contains_key(scorer), now.contains_key(scorer)) {
            (true, false) => "which counts no more",
            (false, true) => "which counts now",
            _ => "which counts otherwise now",
        };
        let _ = write!(text, " What turned it most is {scorer}, {reason}: {shift:+.2} for {is}.");
    }
    text
}

fn parts_of(lead: &BTreeMap<&str, f64>) -> String {
    let parts: Vec<String> = lead.iter().map(|(scorer, part)| format!("{scorer} {part:+.2}")).collect();
    parts.join(", ")
}

/// A table of both, and why.
fn in_words(record: &Record, replayed: &Replayed<'_>, name: &str) -> String {
    let asked = &record.asked;
    let tokens = asked.prompt_tokens.map_or("tokens unknown".to_owned(), |tokens| format!("{tokens} tokens"));
    let head = format!(
        "{}  {} {}, {tokens}, {} blocks",
        record.request_id,
        time_of_day(record.decided_at_unix_ms),
        if asked.model.is_empty() { "no model" } else { &asked.model },
        asked.blocks
    );
    let mut rows = vec![["endpoint".to_owned(), "recorded".to_owned(), name.to_owned()]];
    for candidate in &record.candidates {
        let cell = |pick: &Pick| match pick.scored(&candidate.endpoint) {
            Some(scored) => {
                let mark = if pick.chosen == candidate.endpoint { "> " } else { "  " };
                let parts: Vec<String> =
                    scored.parts.iter().map(|(scorer, part)| format!("{scorer} {part:.2}")).collect();
                format!("{mark}{:.2} = {}", scored.total, parts.join(" + "))
            }
            None => format!("  set aside ({})", candidate.standing.as_str()),
        };
        rows.push([candidate.endpoint.clone(), cell(&replayed.recorded), cell(&replayed.replayed)]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let table = rows.iter().map(|[endpoint, before, now]| {
        printable(&format!("  {endpoint:first$}  {before:second$}  {now}")).trim_end().to_owned() + "\n"
    });
    format!("{}\n{}{}\n\n", printable(&head), table.collect::<String>(), printable(&replayed.why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::wire::tests::full;

    fn policy(scorers: &str) -> Config {
        let text = format!("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n{scorers}");
        Config::read(&text).expect("a config")
    }

    fn said(config: &Config, input: &str, request_id: Option<&str>, json: bool) -> Result<String, String> {
        let mut text = String::new();
        let asked = Asked { name: "new.yaml", config, request_id, json };
        answer(&asked, input.as_bytes(), |piece| {
            text += piece;
            true
        })?;
        Ok(text)
    }

    fn line(record: &Record) -> String {
        serde_json::to_string(record).expect("JSON")
    }

    const QUEUES: &str = "plugins: [{type: queue-scorer}, {type: prefix-cache-scorer}]\nschedulingProfiles:\n- name: default\n  plugins: \
                          [{pluginRef: queue-scorer, weight: 4}, {pluginRef: prefix-cache-scorer, weight: 1}]\n";

    #[test]
    fn both_picks_stand_side_by_side_and_what_turned_them_is_said() {
        let text = said(&policy(QUEUES), &line(&full()), None, false).expect("an answer");
        assert_eq!(
            text,
            "r-1  14:13:20.123 m, 160 tokens, 10 blocks
  endpoint  recorded                                             new.yaml
  vllm-0    > 4.20 = kv_usage 1.50 + prefix 2.70 + waiting 0.00    0.90 = prefix 0.90 + waiting 0.00
  vllm-1      3.50 = kv_usage 1.50 + prefix 0.00 + waiting 2.00  > 4.00 = prefix 0.00 + waiting 4.00
  vllm-2      set aside (failed)                                   set aside (failed)
vllm-0 was chosen with a lead of 0.70 over vllm-1 (kv_usage +0.00, prefix +2.70, waiting -2.00). Under new.yaml vllm-1 is chosen with a \
             lead of 3.10 over vllm-0 (prefix -0.90, waiting +4.00). What turned it most is waiting, which counts otherwise now: +2.00 for \
             vllm-1.

"
        );
    }

    #[test]
    fn lines_of_the_log_are_read_others_passed_over_and_all_of_them_summed_up() {
        let logged = serde_json::json!({"level": "INFO", "message": "decision", "record": line(&full())}).to_string();
        let other = line(&Record { request_id: "r-2".to_owned(), ..full() });
        let input = format!("{logged}\nno JSON\n{{\"level\":\"INFO\"}}\n{{\"lost\":3}}\n{other}\n");
        let text = said(&policy(QUEUES), &input, None, false).expect("an answer");
        assert!(text.contains("r-1  ") && text.contains("r-2  "), "{text}");
        assert!(text.ends_with("\n2 of 2 decisions would go elsewhere under new.yaml.\n"), "{text}");
        let one = said(&policy(QUEUES), &input, Some("r-2"), true).expect("an answer");
        let one: Value = serde_json::from_str(&one).expect("one object");
        assert_eq!((&one["request_id"], &one["same"]), (&Value::from("r-2"), &Value::from(false)));
        assert_eq!((&one["recorded"]["chosen"], &one["replayed"]["chosen"]), (&"vllm-0".into(), &"vllm-1".into()));
        assert_eq!(one["replayed"]["candidates"][0]["parts"]["waiting"], 4.0);
        assert!(said(&policy(QUEUES), &input, Some("r-3"), false).is_err());
        assert!(said(&policy(QUEUES), "no JSON\n", None, false).is_err_and(|why| why.starts_with("no decision")));
    }

    #[test]
    fn the_same_pick_and_a_tie_are_said_to_be_so() {
        let text = said(&Config::default(), &line(&full()), None, false).expect("an answer");
        assert!(text.contains("Both choose vllm-0: its lead over vllm-1 goes from 0.70 to 0.70."), "{text}");
        let none = "plugins: [{type: kv-cache-utilization-scorer}]\nschedulingProfiles: [{name: default, plugins: [{pluginRef: \
                    kv-cache-utilization-scorer, weight: 1}]}]\n";
        let text = said(&policy(none), &line(&full()), None, false).expect("an answer");
        assert!(
            text.contains(
                "Both choose vllm-0, at random among 2 that tie: its lead over vllm-1 goes from 0.70 to 0.00."
            ),
            "{text}"
        );
    }
}
