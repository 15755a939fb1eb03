//! `lab load`: sends a workload and measures. In: flags; out: a [`Report`]. Sends to this machine only, unless told
//! otherwise; every loop ends by count or by time.

mod client;
mod events;
mod report;
mod texts;
mod workload;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokens::Tokenizer;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

pub use client::Measured;
pub use report::Report;

use crate::flags::{LoadFlags, WorkloadKind};
use client::{Client, milliseconds};
use report::About;
use texts::Texts;
use workload::{Conversation, Workload};

/// What all conversations of a run share.
struct Run {
    client: Client,
    model: String,
    output_tokens: u32,
    places: Semaphore,
    start: Instant,
    /// Nothing is sent after this.
    end: Instant,
    sent: AtomicUsize,
    done: AtomicUsize,
    failed: AtomicUsize,
}

/// Runs a workload; texts are cut to size by the tokenizer, and `progress` gets a line each second, unless quiet.
pub async fn run(flags: &LoadFlags, tokenizer: Arc<Tokenizer>, progress: &mut impl Write) -> anyhow::Result<Report> {
    let client = Client::new(flags)?;
    let workload = plan(flags.clone(), tokenizer).await?;
    let planned = workload.requests();
    let start = Instant::now();
    let run = Arc::new(Run {
        client,
        model: flags.model.clone(),
        output_tokens: flags.output_tokens,
        places: Semaphore::new(flags.concurrency as usize),
        start,
        end: start + Duration::from_secs(flags.duration_s.into()),
        sent: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        failed: AtomicUsize::new(0),
    });
    let measured = converse_all(&run, workload, planned, flags.quiet, progress).await?;
    let about = About {
        workload: name(flags.workload),
        seed: flags.seed,
        session_seed: flags.session_seed.unwrap_or(flags.seed),
        planned,
        duration: start.elapsed(),
        each: flags.each,
    };
    Ok(Report::of(about, measured))
}

/// Writes a report to the file asked for, or to `out`.
pub fn write(report: &Report, flags: &LoadFlags, out: &mut impl Write) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    match &flags.json {
        Some(file) => std::fs::write(file, text)?,
        None => out.write_all(text.as_bytes())?,
    }
    Ok(())
}

fn name(workload: WorkloadKind) -> &'static str {
    match workload {
        WorkloadKind::A => "a",
        WorkloadKind::B => "b",
    }
}

/// Makes all texts, off the async threads: seconds of CPU work.
async fn plan(flags: LoadFlags, tokenizer: Arc<Tokenizer>) -> anyhow::Result<Workload> {
    tokio::task::spawn_blocking(move || Ok(Workload::of(&flags, &Texts::new(&tokenizer)?)?)).await?
}

async fn converse_all(
    run: &Arc<Run>,
    workload: Workload,
    planned: usize,
    quiet: bool,
    progress: &mut impl Write,
) -> anyhow::Result<Vec<Measured>> {
    let mut conversations = JoinSet::new();
    for conversation in workload.conversations {
        conversations.spawn(converse(Arc::clone(run), conversation));
    }
    let mut measured = Vec::new();
    let mut seconds = interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            joined = conversations.join_next() => match joined {
                Some(joined) => measured.extend(joined?),
                None => break,
            },
            _ = seconds.tick(), if !quiet => run.tell(planned, progress)?,
        }
    }
    if !quiet {
        run.tell(planned, progress)?;
    }
    Ok(measured)
}

/// One conversation from its first turn to its last, or to the first that fails.
async fn converse(run: Arc<Run>, conversation: Conversation) -> Vec<Measured> {
    let mut messages = vec![json!({"role": "system", "content": conversation.system})];
    let mut measured = Vec::new();
    let mut due = run.start + conversation.begins;
    for (at, turn) in conversation.turns.into_iter().enumerate() {
        due += turn.think;
        if due >= run.end {
            break;
        }
        sleep_until(due.into()).await;
        messages.push(json!({"role": "user", "content": turn.text}));
        let Some(mut one) = run.send(&messages, &conversation.session).await else { break };
        one.turn = at;
        messages.push(json!({"role": "assistant", "content": std::mem::take(&mut one.text)}));
        let failed = one.error.is_some();
        measured.push(one);
        if failed {
            break;
        }
        due = Instant::now();
    }
    measured
}

impl Run {
    /// Sends what is due now; `None` where no place came free before the run's end.
    async fn send(&self, messages: &[Value], session: &str) -> Option<Measured> {
        let due = Instant::now();
        let body = self.body(messages);
        let place = tokio::time::timeout_at(self.end.into(), self.places.acquire()).await.ok()?.ok()?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        let mut measured = self.client.send(body, session, due).await;
        drop(place);
        measured.due_ms = milliseconds(due - self.start);
        self.done.fetch_add(1, Ordering::Relaxed);
        self.failed.fetch_add(usize::from(measured.error.is_some()), Ordering::Relaxed);
        Some(measured)
    }

    fn body(&self, messages: &[Value]) -> Vec<u8> {
        json!({
            "model": self.model,
            "messages": messages,
            "max_tokens": self.output_tokens,
            "ignore_eos": true,
            "temperature": 0,
            "stream": true,
            "stream_options": {"include_usage": true},
        })
        .to_string()
        .into_bytes()
    }

    fn tell(&self, planned: usize, progress: &mut impl Write) -> std::io::Result<()> {
        let [sent, done, failed] = [&self.sent, &self.done, &self.failed].map(|count| count.load(Ordering::Relaxed));
        let seconds = self.start.elapsed().as_secs();
        writeln!(progress, "{seconds:4} s  {sent} of {planned} sent, {done} answered, {failed} failed")
    }
}
