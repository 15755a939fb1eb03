//! A record as the protocol's message, and back.
//!
//! In: either; out: the other, with nothing added and nothing lost. A message of a picker that knows more words than this one is
//! refused rather than misread.

use proto::v1;
use record::{Asked, Candidate, Ended, Outcome, Part, Record, Standing};

/// A record's message.
pub(crate) fn message(record: &Record) -> v1::DecisionRecord {
    v1::DecisionRecord {
        request_id: record.request_id.clone(),
        decided_at_unix_ms: record.decided_at_unix_ms,
        asked: Some(asked(&record.asked)),
        candidates: record.candidates.iter().map(candidate).collect(),
        chosen: record.chosen.clone(),
        notes: record.notes.clone(),
        predicted_cached_tokens: record.predicted_cached_tokens,
        decided_in_us: record.decided_in_us,
        holdout: record.holdout,
        outcome: record.outcome.as_ref().map(outcome),
    }
}

fn asked(asked: &Asked) -> v1::Asked {
    v1::Asked {
        api: asked.api.clone(),
        model: asked.model.clone(),
        prompt_tokens: asked.prompt_tokens,
        estimated: asked.estimated,
        blocks: asked.blocks,
        block_size: asked.block_size,
        body_bytes: asked.body_bytes,
        stream: asked.stream,
        objective: asked.objective.clone(),
        fairness_id: asked.fairness_id.clone(),
        session: asked.session.clone(),
        rewritten_from: asked.rewritten_from.clone(),
    }
}

fn candidate(candidate: &Candidate) -> v1::Candidate {
    v1::Candidate {
        endpoint: candidate.endpoint.clone(),
        address: candidate.address.clone(),
        standing: candidate.standing.as_str().to_owned(),
        set_aside: candidate.set_aside,
        waiting: candidate.waiting,
        running: candidate.running,
        kv_usage: candidate.kv_usage,
        in_flight: candidate.in_flight,
        overlap: candidate.overlap,
        displaces_ms: candidate.displaces_ms,
        total: candidate.total,
        parts: candidate.parts.iter().map(part).collect(),
    }
}

fn part(part: &Part) -> v1::Part {
    v1::Part { scorer: part.scorer.clone(), score: part.score, weight: part.weight, known: part.known }
}

fn outcome(outcome: &Outcome) -> v1::Outcome {
    v1::Outcome {
        status: outcome.status,
        served: outcome.served.clone(),
        ttft_ms: outcome.ttft_ms,
        took_ms: outcome.took_ms,
        prompt_tokens: outcome.prompt_tokens,
        cached_tokens: outcome.cached_tokens,
        completion_tokens: outcome.completion_tokens,
        ended: outcome.ended.as_str().to_owned(),
        attempts: outcome.attempts,
    }
}

/// A message's record.
///
/// # Errors
/// The word that isn't known.
pub(crate) fn record(message: v1::DecisionRecord) -> Result<Record, String> {
    let asked = message.asked.unwrap_or_default();
    let candidates = message.candidates.into_iter().map(read_candidate).collect::<Result<_, String>>()?;
    Ok(Record {
        request_id: message.request_id,
        decided_at_unix_ms: message.decided_at_unix_ms,
        asked: Asked {
            api: asked.api,
            model: asked.model,
            prompt_tokens: asked.prompt_tokens,
            estimated: asked.estimated,
            blocks: asked.blocks,
            block_size: asked.block_size,
            body_bytes: asked.body_bytes,
            stream: asked.stream,
            objective: asked.objective,
            fairness_id: asked.fairness_id,
            session: asked.session,
            rewritten_from: asked.rewritten_from,
        },
        candidates,
        chosen: message.chosen,
        notes: message.notes,
        predicted_cached_tokens: message.predicted_cached_tokens,
        decided_in_us: message.decided_in_us,
        holdout: message.holdout,
        outcome: message.outcome.map(read_outcome).transpose()?,
    })
}

fn read_candidate(message: v1::Candidate) -> Result<Candidate, String> {
    let known = [Standing::Fresh, Standing::Stale, Standing::Unread, Standing::Failed];
    let standing = known.into_iter().find(|standing| standing.as_str() == message.standing);
    let read = |part: v1::Part| Part { scorer: part.scorer, score: part.score, weight: part.weight, known: part.known };
    Ok(Candidate {
        endpoint: message.endpoint,
        address: message.address,
        standing: standing.ok_or_else(|| format!("a standing `{}` isn't known", message.standing))?,
        set_aside: message.set_aside,
        waiting: message.waiting,
        running: message.running,
        kv_usage: message.kv_usage,
        in_flight: message.in_flight,
        overlap: message.overlap,
        displaces_ms: message.displaces_ms,
        total: message.total,
        parts: message.parts.into_iter().map(read).collect(),
    })
}

fn read_outcome(message: v1::Outcome) -> Result<Outcome, String> {
    let known = [Ended::Complete, Ended::Cancelled, Ended::Refused];
    let ended = known.into_iter().find(|ended| ended.as_str() == message.ended);
    Ok(Outcome {
        status: message.status,
        served: message.served,
        ttft_ms: message.ttft_ms,
        took_ms: message.took_ms,
        prompt_tokens: message.prompt_tokens,
        cached_tokens: message.cached_tokens,
        completion_tokens: message.completion_tokens,
        ended: ended.ok_or_else(|| format!("an end `{}` isn't known", message.ended))?,
        attempts: message.attempts,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A record with nothing absent: of three endpoints the first was chosen, and the second served.
    pub(crate) fn full() -> Record {
        let part = |scorer: &str, score: f64, weight: f64| serde_json::json!({"scorer": scorer, "score": score, "weight": weight, "known": true});
        let candidate = |number: u32, waiting: f64, overlap: u32, total: f64, parts: serde_json::Value| {
            serde_json::json!({
                "endpoint": format!("vllm-{number}"), "address": format!("10.0.0.{}:8000", number + 1),
                "standing": if number == 2 { "failed" } else { "fresh" }, "set_aside": number == 2, "waiting": waiting,
                "running": 1.0, "kv_usage": 0.25, "in_flight": 2, "overlap": overlap, "displaces_ms": 1500, "total": total,
                "parts": parts,
            })
        };
        let parts = |prefix: f64, waiting: f64| {
            serde_json::json!([part("prefix", prefix, 3.0), part("waiting", waiting, 2.0), part("kv_usage", 0.75, 2.0)])
        };
        let record = serde_json::json!({
            "request_id": "r-1", "decided_at_unix_ms": 1_790_000_000_123_u64, "asked": {
                "api": "chat_completions", "model": "m", "prompt_tokens": 160, "estimated": false, "blocks": 10,
                "block_size": 16, "body_bytes": 700, "stream": true, "objective": "batch", "fairness_id": "team-a",
                "session": "0011223344556677", "rewritten_from": "other",
            },
            "candidates": [
                candidate(0, 5.0, 9, 4.2, parts(0.9, 0.0)), candidate(1, 0.0, 0, 3.5, parts(0.0, 1.0)),
                candidate(2, 0.0, 0, 0.0, serde_json::json!([])),
            ],
            "chosen": ["vllm-0"], "notes": ["stale_load"], "predicted_cached_tokens": 144, "decided_in_us": 250, "holdout": true,
            "outcome": {
                "status": 200, "served": "10.0.0.2:8000", "ttft_ms": 12.5, "took_ms": 100.0, "prompt_tokens": 160,
                "cached_tokens": 64, "completion_tokens": 20, "ended": "complete", "attempts": 2,
            },
        });
        serde_json::from_value(record).expect("a record")
    }

    #[test]
    fn nothing_is_lost_on_the_way_there_and_back() {
        let full = full();
        assert!(!serde_json::to_string(&full).expect("JSON").contains("null"), "nothing is absent");
        assert_eq!(record(message(&full)).as_ref(), Ok(&full));
        let open = Record { outcome: None, predicted_cached_tokens: None, ..full };
        assert_eq!(record(message(&open)), Ok(open));
    }

    #[test]
    fn a_word_that_is_not_known_is_refused() {
        let mut later = message(&full());
        later.candidates[0].standing = "guessed".to_owned();
        assert_eq!(record(later), Err("a standing `guessed` isn't known".to_owned()));
    }
}
